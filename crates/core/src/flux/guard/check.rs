//! Findings about a guard: what is not installed as it should be, and approvals that ended or that nobody used.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;

use crate::kubernetes::object::{ObjectId, ObjectMetadata, list_at, parse_time, text_at};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::DELETION_APPROVED_UNTIL;
use crate::text::join_limited;

/// Number of users that a finding names.
const NAMED: usize = 3;

/// Returns what is wrong with the objects of a guard: `wanted` with the live object of each, if it exists.
pub fn installation_findings(objects: &[(Value, Option<Value>)]) -> Vec<String> {
    let mut findings = vec![];
    for (wanted, live) in objects {
        let named = format!("{} {}", text_at(wanted, "/kind"), text_at(wanted, "/metadata/name"));
        let Some(live) = live else {
            findings.push(format!("{named} is not in the cluster"));
            continue;
        };
        if !has_all(live.get("spec").unwrap_or(&Value::Null), wanted.get("spec").unwrap_or(&Value::Null)) {
            let users = different_users(live, wanted);
            findings.push(format!("{named} differs from what this cluster needs now{users}: apply it again"));
        }
        for warning in list_at(live, "/status/typeChecking/expressionWarnings") {
            let (field, text) = (text_at(warning, "/fieldRef"), text_at(warning, "/warning"));
            findings.push(format!("{named}: the API server finds a mistake in {field}: {text}"));
        }
    }
    findings
}

/// Returns which users a policy names in vain, and which it lacks, in parentheses; empty without any. Each user has a line of its
/// own in the expression.
fn different_users(live: &Value, wanted: &Value) -> String {
    let [live, wanted] = [live, wanted].map(|policy| {
        let conditions = list_at(policy, "/spec/matchConditions").iter();
        let lines = conditions.flat_map(|condition| text_at(condition, "/expression").lines());
        lines
            .map(|line| line.trim().trim_end_matches(','))
            .filter(|line| line.starts_with('"'))
            .collect::<BTreeSet<_>>()
    });
    let parts: Vec<String> = [("not needed", live.difference(&wanted)), ("missing", wanted.difference(&live))]
        .map(|(what, users)| (what, users.copied().collect::<Vec<_>>()))
        .iter()
        .filter(|(_, users)| !users.is_empty())
        .map(|(what, users)| format!("{what}: {}", join_limited(users, NAMED)))
        .collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

/// Returns true if a live value is a wanted one, but for what the server adds. Any other field could exempt deletions, such as
/// a selector of namespaces.
fn has_all(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            live.iter().all(|(key, value)| wanted.contains_key(key) || is_default(key, value))
                && wanted.iter().all(|(key, value)| live.get(key).is_some_and(|live| has_all(live, value)))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| has_all(live, wanted))
        }
        (live, Value::Null) => live.is_null(),
        _ => live == wanted,
    }
}

/// Returns true if the server adds a field with this value.
///
/// Source: Kubernetes v1.36.3 `pkg/apis/admissionregistration/v1/defaults.go`.
fn is_default(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => [("matchPolicy", "Equivalent"), ("scope", "*")].contains(&(key, text.as_str())),
        _ => false,
    }
}

/// Returns the objects whose deletion a plan approves by uid, and whose approval by annotation ended: both policies are asked, and one
/// refuses. Without the annotation, the other one decides alone.
pub fn approved_with_ended_annotations<'s>(
    approvals: &BTreeMap<String, String>,
    snapshot: &'s Snapshot,
    now: DateTime<Utc>,
) -> Vec<&'s ObjectId> {
    let approved = snapshot.objects.iter().filter(|object| approvals.contains_key(&*object.uid));
    let ended = approved.filter(|object| annotated_end(object).is_some_and(|end| end.is_some_and(|end| end <= now)));
    ended.map(|object| &object.id).collect()
}

/// Returns the end of the approval by annotation; inside, `None` for an annotation that the policies do not read.
fn annotated_end(object: &ObjectMetadata) -> Option<Option<DateTime<Utc>>> {
    let until = object.annotations.get(DELETION_APPROVED_UNTIL)?;
    // They read no fraction of a second and no other offset.
    Some(parse_time(until).filter(|end| end.to_rfc3339_opts(SecondsFormat::Secs, true) == *until))
}

/// Returns the approvals that ended, that end nothing because they are no time, and those of a plan that were not used.
pub fn approval_findings(config_map: Option<&Value>, snapshot: &Snapshot, now: DateTime<Utc>) -> Vec<String> {
    let mut findings = vec![];
    for object in &snapshot.objects {
        let Some(until) = object.annotations.get(DELETION_APPROVED_UNTIL) else { continue };
        match annotated_end(object).flatten() {
            Some(end) if end > now => {}
            Some(_) => findings.push(format!("the approval to delete {} ended at {until}", object.id)),
            None => findings.push(format!("the approval to delete {} is no time in UTC: {until:?}", object.id)),
        }
    }
    let approved = config_map.and_then(|map| map.get("data")).and_then(Value::as_object).into_iter().flatten();
    for (uid, _) in approved {
        if let Some(object) = snapshot.objects.iter().find(|object| *object.uid == **uid) {
            findings.push(format!("a plan approves the deletion of {}, which still exists", object.id));
        }
    }
    findings
}
