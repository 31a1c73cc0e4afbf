//! Audit log of the API server: tests count requests here and not in the program under test.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::text;

const POLICY: &str = "audit-policy.yaml";
const LOG: &str = "logs/audit.log";

/// A finished request in the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Verb, such as `get`, `list`, `watch`, `patch` or `deletecollection`.
    pub verb: String,
    /// Path and query of the URL.
    pub uri: String,
    /// HTTP status of the response.
    pub code: u64,
}

impl Request {
    fn of(event: &Value) -> Self {
        Self {
            verb: text(event, "/verb").to_owned(),
            uri: text(event, "/requestURI").to_owned(),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
        }
    }

    /// Returns true if the request changes an object, or would without dry-run.
    pub fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

/// Writes the audit policy and returns the flags of the API server. Each finished request is logged once, without body. A
/// log of more than 100 MB is otherwise cut in two files.
pub(crate) fn flags(dir: &Path) -> Result<Vec<String>> {
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived, ResponseStarted]\nrules:\n- level: Metadata\n";
    fs::write(dir.join(POLICY), policy).context("cannot write the audit policy")?;
    Ok(vec![
        format!("--audit-policy-file={POLICY}"),
        format!("--audit-log-path={LOG}"),
        "--audit-log-maxsize=10000".to_owned(),
    ])
}

/// Returns all requests of a user with a User-Agent that begins with `agent`.
pub(crate) fn requests(dir: &Path, user: &str, agent: &str) -> Result<Vec<Request>> {
    selected(dir, |event| event["user"]["username"] == user && text(event, "/userAgent").starts_with(agent))
}

/// Returns all requests with a User-Agent that begins with `agent`.
pub(crate) fn requests_of_program(dir: &Path, agent: &str) -> Result<Vec<Request>> {
    selected(dir, |event| text(event, "/userAgent").starts_with(agent))
}

fn selected(dir: &Path, is_selected: impl Fn(&Value) -> bool) -> Result<Vec<Request>> {
    let log = fs::read_to_string(dir.join(LOG)).context("this cluster has no audit log")?;
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(events.filter(|event| is_selected(event)).map(|event| Request::of(&event)).collect())
}
