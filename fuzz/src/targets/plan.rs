//! Plans.

use gitops_core::plan::Plan;

/// A plan that is read is written so that it is read again to the same text. What is derived is not taken from the input:
/// every deletion is counted.
pub(crate) fn check(data: &[u8]) {
    let Ok(plan) = serde_json::from_slice::<Plan>(data) else { return };
    let written = serde_json::to_string(&plan).expect("a plan is JSON");
    let again: Plan = serde_json::from_str(&written).expect("a written plan is read");
    assert_eq!(serde_json::to_string(&again).expect("a plan is JSON"), written);
    let document: serde_json::Value = serde_json::from_str(&written).expect("a plan is JSON");
    let count = |field: &str| document["summary"][field].as_u64().unwrap_or_default();
    assert_eq!(count("delete") + count("recreate"), plan.deletions().count() as u64);
}
