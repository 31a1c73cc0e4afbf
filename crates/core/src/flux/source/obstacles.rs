//! Warnings about sources whose next revision source-controller may not fetch.

use crate::kubernetes::object::Resource;
use crate::kubernetes::redact::redact_urls;

/// Returns what stops a new revision of a source, or can stop it, as sentences.
///
/// Source: `reconcileSource` and `verifySignature` in gitrepository_controller.go of source-controller v1.9.3: a source that
/// cannot be fetched or verified keeps the artifact that it has.
pub fn obstacles(source: &Resource) -> Vec<String> {
    let id = &source.object.id;
    if source.flag("/spec/suspend") {
        return vec![format!("{id} is suspended: nothing of this happens before it is resumed")];
    }
    let fetch_failed = source.condition("FetchFailed").filter(|failed| failed.status == "True");
    let failed = fetch_failed.or_else(|| source.condition("Ready").filter(|ready| ready.status == "False"));
    let failure = failed.map(|failed| {
        let message = if failed.message.is_empty() { failed.reason } else { failed.message };
        format!("{id} is not ready: nothing of this happens before it can be fetched again: {}", redact_urls(message))
    });
    let is_verified = source.at("/spec/verify").is_some_and(|verify| !verify.is_null());
    let verified = is_verified.then(|| {
        format!("{id} verifies signatures: nothing of this happens unless the new revision is signed as it demands")
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
            assert!(found.iter().zip(expected).all(|(found, part)| found.contains(part)), "{content}: {found:?}");
        }
    }
}
