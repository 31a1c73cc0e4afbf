//! Reading of plan files. Nothing of the text is taken on trust: what a file says twice must agree.

use std::collections::HashSet;

use serde_json::Value;

use super::{PlanFile, canonical};
use crate::plan::{Plan, SCHEMA};

impl PlanFile {
    /// Reads the text of a file and returns it with the digest of its content.
    ///
    /// Fails with the reason if the text is not a plan of this schema, does not have the digest that it names, has a field
    /// that this version does not know, or contradicts itself.
    pub fn read(text: &[u8]) -> Result<(Self, String), String> {
        let mut document = parse(text)?;
        let members = document.as_object_mut().ok_or("it is no JSON object")?;
        let found = members.remove("digest").ok_or("it has no digest, so it was not written as a plan file")?;
        let digest = canonical::digest(&document);
        if found != *digest {
            return Err(format!("it was edited or damaged: its content has the digest {digest}"));
        }
        let content = canonical::text(&document);
        let execution = document.as_object_mut().and_then(|members| members.remove("execution"));
        let pins = execution.map(serde_json::from_value).transpose().map_err(unknown)?;
        let file = Self { plan: serde_json::from_value(document).map_err(unknown)?, execution: pins };
        ensure_known(&file.content().map_err(unknown)?, &content)?;
        check_rows(&file.plan)?;
        Ok((file, digest))
    }
}

/// Reads the plan of a document that `-o json` or `--out` wrote.
pub(in crate::plan) fn read_document(text: &[u8]) -> Result<Plan, String> {
    let document = parse(text)?;
    if document.get("digest").is_some() {
        return PlanFile::read(text).map(|(file, _)| file.plan);
    }
    let content = canonical::text(&document);
    let plan: Plan = serde_json::from_value(document).map_err(unknown)?;
    ensure_known(&serde_json::to_value(&plan).map_err(unknown)?, &content)?;
    Ok(plan)
}

/// Parses a document of this schema.
fn parse(text: &[u8]) -> Result<Value, String> {
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err("it is empty".to_owned());
    }
    let document = canonical::parse(text).map_err(|error| format!("it is no JSON document: {error}"))?;
    let schema = document.get("schema").and_then(Value::as_str).unwrap_or_default();
    if schema != SCHEMA {
        return Err(format!("its schema is {schema:?}, but this version reads {SCHEMA:?}"));
    }
    Ok(document)
}

/// Fails unless what was understood of a document is all that it says.
fn ensure_known(understood: &Value, content: &str) -> Result<(), String> {
    if canonical::text(understood) == content {
        return Ok(());
    }
    Err("it has fields or values that this version does not know".to_owned())
}

fn unknown(error: serde_json::Error) -> String {
    format!("another version wrote it, or it was edited: {error}")
}

/// Fails if an object has two rows, or if a deleted object is not pinned.
fn check_rows(plan: &Plan) -> Result<(), String> {
    let mut ids = HashSet::new();
    let mut uids = HashSet::new();
    for change in plan.changes() {
        let object = &change.object;
        if !ids.insert(&object.id) || !(object.uid.is_empty() || uids.insert(&object.uid)) {
            return Err(format!("it lists {} twice", object.id));
        }
        if change.is_deletion() && (object.uid.is_empty() || object.resource_version.is_empty()) {
            return Err(format!("it deletes {} without its uid and resourceVersion", object.id));
        }
    }
    Ok(())
}
