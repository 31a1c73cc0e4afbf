//! What the API server was asked, as it wrote it down itself: tests count requests here, not in the program under test.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

const POLICY: &str = "audit-policy.yaml";
const LOG: &str = "logs/audit.log";

/// One finished request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// Path and query.
    pub uri: String,
    /// HTTP status of the answer.
    pub code: u64,
}

impl Request {
    /// Whether the request changes something, or would if it were no dry-run.
    pub fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

/// Writes the policy and gives the API server's flags: everything once, when it is done, without bodies.
pub(crate) fn flags(dir: &Path) -> Result<Vec<String>> {
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived, ResponseStarted]\nrules:\n- level: Metadata\n";
    fs::write(dir.join(POLICY), policy).context("cannot write the audit policy")?;
    Ok(vec![format!("--audit-policy-file={POLICY}"), format!("--audit-log-path={LOG}")])
}

/// The requests so far of a user whose client's User-Agent begins with `agent`.
pub(crate) fn requests(dir: &Path, user: &str, agent: &str) -> Result<Vec<Request>> {
    let log = fs::read_to_string(dir.join(LOG)).context("this cluster keeps no audit log")?;
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let own = events.filter(|event| event["user"]["username"] == user && text(event, "userAgent").starts_with(agent));
    let request = |event: Value| Request {
        verb: text(&event, "verb"),
        uri: text(&event, "requestURI"),
        code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
    };
    Ok(own.map(request).collect())
}
