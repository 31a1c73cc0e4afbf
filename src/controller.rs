//! For controllers built on kube that honour the suspension annotation of RFC-0006.
//!
//! Two places must know of a suspension. The stream of changes: [`changes`] lets a suspension and its end through as an
//! event each and holds everything else while it lasts, so that a new message wakes nobody. And the reconcile function,
//! first thing after deletion was dealt with: timers and changes of related objects never pass a predicate, so it must
//! ask [`effective`] and return without asking to be called again. `examples/honouring_controller.rs` does both.

use std::hash::{DefaultHasher, Hash, Hasher};

use kube::api::DynamicObject;
use serde_json::Value;

use gitops_core::flux::suspension;
use gitops_core::flux::suspension::{By, REQUESTED_AT};

/// What suspends an object, if anything does.
pub fn effective(object: &DynamicObject) -> Option<By> {
    let (api_version, kind) = object.types.as_ref().map_or(("", ""), |types| (&*types.api_version, &*types.kind));
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let spec = object.data.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or_default();
    suspension::judge(group, kind, spec, |key| annotation(object, key))
}

/// A predicate ([`kube::runtime::Predicate`]) for `predicate_filter`: an object passes when its suspension begins or ends
/// and, while it is not suspended, when its generation or its request for a reconcile changes.
///
/// Put it in the place of a predicate on the generation. Deletions pass as they do there: a finalizer's change of
/// `metadata.deletionTimestamp` moves the generation, but not while suspended, so a deletion passes too.
#[allow(clippy::unnecessary_wraps, reason = "the signature is that of a predicate")]
pub fn changes(object: &DynamicObject) -> Option<u64> {
    let deleting = object.metadata.deletion_timestamp.is_some();
    let mut hasher = DefaultHasher::new();
    match effective(object) {
        Some(_) => ("suspended", deleting).hash(&mut hasher),
        None => {
            let asked = annotation(object, REQUESTED_AT);
            ("free", deleting, object.metadata.generation, asked).hash(&mut hasher);
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
    fn a_suspension_passes_once_and_holds_the_rest() {
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
    fn it_judges_as_the_rest_of_the_tool() {
        assert_eq!(effective(&object(1, false, json!({}))), None);
        assert_eq!(effective(&object(1, true, json!({}))), Some(By::Spec));
        assert_eq!(effective(&object(1, false, json!({ANNOTATION: ""}))), Some(By::Annotation));
        assert_eq!(effective(&object(1, true, json!({ANNOTATION: "x"}))), Some(By::Both));
    }
}
