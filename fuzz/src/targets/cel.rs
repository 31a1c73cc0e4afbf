//! Expressions in CEL.

use chrono::DateTime;
use gitops_core::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use gitops_core::plan::Plan;
use gitops_core::plan::policy::Policy;
use serde_json::json;

/// An expression ends with an answer or an error, within its steps. libFuzzer and the test of the corpus limit the time.
pub(crate) fn check(data: &[u8]) {
    let Ok(expression) = std::str::from_utf8(data) else { return };
    let rules = json!({"rules": [{"name": "a", "deny": expression, "message": "b"}]}).to_string();
    let Ok(policy) = Policy::parse(&rules) else { return };
    let cluster = ClusterIdentity::default();
    let snapshot = Snapshot::new(DateTime::UNIX_EPOCH, cluster.clone());
    if let Ok(denials) = policy.check(&Plan::new(cluster), &snapshot, DateTime::UNIX_EPOCH) {
        assert!(denials.iter().all(|denial| denial.rule == "a" && denial.message == "b"));
    }
}
