//! Functions for controllers built on kube that honour the suspension annotation of RFC-0006.
//!
//! A controller needs two checks. [`changes`] filters the stream of changes: it passes the start and the end of a
//! suspension, and drops every other change of a suspended object, such as a new message. [`effective`] belongs at the
//! start of the reconcile function, after the handling of deletion: timers and changes of related objects bypass the
//! filter. If the object is suspended, return without a requeue. `examples/honouring_controller.rs` shows both.

use std::hash::{DefaultHasher, Hash, Hasher};

use kube::api::DynamicObject;
use serde_json::Value;

use gitops_core::flux::suspension;
use gitops_core::flux::suspension::{Mechanism, REQUESTED_AT};
use gitops_core::kubernetes::object::group_of;

/// Returns the mechanism that suspends an object, or `None` if it is not suspended.
pub fn effective(object: &DynamicObject) -> Option<Mechanism> {
    let (api_version, kind) = object.types.as_ref().map_or(("", ""), |types| (&*types.api_version, &*types.kind));
    let spec = object.data.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or_default();
    suspension::effective_of(group_of(api_version), kind, spec, |key| annotation(object, key))
}

/// Predicate ([`kube::runtime::Predicate`]) for `predicate_filter`: an object passes when its suspension begins or ends, and,
/// while it is not suspended, when its generation or its request for a reconciliation changes.
///
/// Use it instead of a predicate on the generation. Deletions pass, also while the object is suspended.
#[allow(clippy::unnecessary_wraps, reason = "the signature is that of a predicate")]
pub fn changes(object: &DynamicObject) -> Option<u64> {
    let deleting = object.metadata.deletion_timestamp.is_some();
    let mut hasher = DefaultHasher::new();
    match effective(object) {
        Some(_) => ("suspended", deleting).hash(&mut hasher),
        None => {
            let requested = annotation(object, REQUESTED_AT);
            ("not suspended", deleting, object.metadata.generation, requested).hash(&mut hasher);
        }
    }
    Some(hasher.finish())
}

fn annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use gitops_core::flux::suspension::ANNOTATION;

    fn object(generation: i64, spec_suspend: bool, annotations: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "apps", "generation": generation, "annotations": annotations},
            "spec": {"suspend": spec_suspend},
        }))
        .unwrap()
    }

    #[test]
    fn a_suspension_passes_once_and_drops_other_changes() {
        let free = object(1, false, json!({}));
        let suspended = object(1, false, json!({ANNOTATION: "drill"}));
        for (name, before, after, passes) in [
            ("suspending", &free, &suspended, true),
            ("resuming", &suspended, &object(1, false, json!({REQUESTED_AT: "now"})), true),
            ("resuming without a request", &suspended, &free, true),
            ("another message", &suspended, &object(1, false, json!({ANNOTATION: "other"})), false),
            ("another spec while suspended", &suspended, &object(2, false, json!({ANNOTATION: "drill"})), false),
            (
                "a request while suspended",
                &suspended,
                &object(1, false, json!({ANNOTATION: "drill", REQUESTED_AT: "x"})),
                false,
            ),
            ("spec.suspend beside the annotation", &suspended, &object(2, true, json!({ANNOTATION: "drill"})), false),
            ("another spec", &free, &object(2, false, json!({})), true),
            ("a request", &free, &object(1, false, json!({REQUESTED_AT: "now"})), true),
            ("another annotation", &free, &object(1, false, json!({"x": "y"})), false),
        ] {
            assert_eq!(changes(before) != changes(after), passes, "{name}");
        }
    }

    #[test]
    fn a_deletion_passes_while_suspended() {
        let suspended = object(1, false, json!({ANNOTATION: "drill"}));
        let mut deleting = suspended.clone();
        deleting.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-02T03:04:05Z")).unwrap();
        assert_ne!(changes(&suspended), changes(&deleting));
    }

    #[test]
    fn every_mechanism_is_effective() {
        assert_eq!(effective(&object(1, false, json!({}))), None);
        assert_eq!(effective(&object(1, true, json!({}))), Some(Mechanism::Spec));
        assert_eq!(effective(&object(1, false, json!({ANNOTATION: ""}))), Some(Mechanism::Annotation));
        assert_eq!(effective(&object(1, true, json!({ANNOTATION: "x"}))), Some(Mechanism::Both));
    }
}
