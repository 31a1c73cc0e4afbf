//! Bounds of LimitRanges, by which the server refuses objects.
//!
//! Source: Kubernetes v1.36.3 `plugin/pkg/admission/limitranger/admission.go`: changes of Pods are not checked.

use serde_json::Value;

use super::object::{ObjectId, list_at, text_at};

/// Fields of a limit by which the server refuses an object.
const BOUNDS: [&str; 3] = ["max", "min", "maxLimitRequestRatio"];

/// Returns true if a LimitRange can refuse an object when it is created, or also when it is changed.
pub(crate) fn bounds(limit_range: &Value, id: &ObjectId, is_new: bool) -> bool {
    let types: &[&str] = match (&*id.group, &*id.kind) {
        ("", "Pod") if is_new => &["Pod", "Container"],
        ("", "PersistentVolumeClaim") => &["PersistentVolumeClaim"],
        _ => return false,
    };
    let limits = list_at(limit_range, "/spec/limits").iter();
    let mut own = limits.filter(|limit| types.contains(&text_at(limit, "/type")));
    own.any(|limit| BOUNDS.iter().any(|bound| limit.get(bound).is_some()))
}
