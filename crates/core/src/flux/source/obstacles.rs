//! Sources whose next revision source-controller does not fetch, or may not fetch.

use std::fmt::{Display, Formatter, Result};

use crate::kubernetes::object::{ObjectId, Resource};
use crate::kubernetes::redact::redact_urls;

/// A reason why a source does not get a new revision, or may not get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The reason as a sentence for people, without the message of source-controller.
    pub sentence: String,
    /// Message of the condition that is not `True`.
    message: Option<String>,
}

impl Obstacle {
    /// Returns the obstacle that a source is or does something.
    fn of(source: &ObjectId, what: &str) -> Self {
        Self { sentence: format!("{source} {what}"), message: None }
    }
}

/// The sentence with the message.
impl Display for Obstacle {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        let message = self.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
        write!(formatter, "{}{message}", self.sentence)
    }
}

/// Returns what stops a new revision of a source, or can stop it.
///
/// Source: `reconcileSource` and `verifySignature` in gitrepository_controller.go of source-controller v1.9.3: a source that
/// cannot be fetched or verified keeps the artifact that it has.
pub fn obstacles(source: &Resource) -> Vec<Obstacle> {
    let id = &source.object.id;
    if source.flag("/spec/suspend") {
        return vec![Obstacle::of(id, "is suspended: nothing of this happens before it is resumed")];
    }
    let fetch_failed = source.condition("FetchFailed").filter(|failed| failed.status == "True");
    let failed = fetch_failed.or_else(|| source.condition("Ready").filter(|ready| ready.status == "False"));
    let failure = failed.map(|failed| {
        let message = if failed.message.is_empty() { failed.reason } else { failed.message };
        let what = "is not ready: nothing of this happens before it can be fetched again";
        Obstacle { message: Some(redact_urls(message)), ..Obstacle::of(id, what) }
    });
    let is_verified = source.at("/spec/verify").is_some_and(|verify| !verify.is_null());
    let verified = is_verified.then(|| {
        let what = "verifies signatures: nothing of this happens unless the new revision is signed as it demands";
        Obstacle::of(id, what)
    });
    failure.into_iter().chain(verified).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::flux_object;

    #[test]
    fn a_source_that_cannot_fetch_or_verifies_signatures_is_named() {
        let condition = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status, "reason": "r", "message": "no route"}]});
        let verify = json!({"verify": {"mode": "HEAD"}});
        let rows = [
            (json!({}), condition("Ready", "True"), vec![]),
            (json!({}), condition("FetchFailed", "True"), vec!["is not ready"]),
            (json!({}), condition("Ready", "False"), vec!["fetched again: no route"]),
            (json!({}), condition("Ready", "Unknown"), vec![]),
            (json!({"suspend": true}), condition("Ready", "False"), vec!["is suspended"]),
            (verify.clone(), condition("Ready", "True"), vec!["verifies signatures"]),
            (verify, condition("Ready", "False"), vec!["is not ready", "verifies signatures"]),
        ];
        for (spec, status, expected) in rows {
            let content: Value = json!({"spec": spec, "status": status});
            let found = obstacles(&flux_object("GitRepository", content.clone(), &[]));
            assert_eq!(found.len(), expected.len(), "{content}: {found:?}");
            assert!(
                found.iter().zip(expected).all(|(found, part)| found.to_string().contains(part)),
                "{content}: {found:?}"
            );
        }
    }
}
