//! Flux v2 Kustomization of v1beta1: `status.snapshot` lists namespaces and kinds, not objects. Members are all objects
//! with the owner labels there, and a checksum label or annotation identifies the run that applied them.
//!
//! Source: docs/reference/kustomize-controller.md 9.1. Only clusters that store v1beta1 have it.

use serde_json::Value;

use crate::kubernetes::object::{GroupKind, ObjectMetadata};
use crate::ownership::scheme::members::{Area, Members, Scope};

/// Checksum of the build that applied an object: a label up to v0.12, an annotation from v0.13.
pub(crate) const CHECKSUM: &str = "kustomize.toolkit.fluxcd.io/checksum";

/// Returns the scope in `status.snapshot`.
pub(crate) fn members(content: &Value) -> Members {
    let Some(entries) = content.pointer("/status/snapshot/entries").and_then(Value::as_array) else {
        return Members::Unrecorded;
    };
    match entries.iter().map(area).collect() {
        Ok(areas) => Members::Selected(Scope(areas)),
        Err(broken) => Members::Unreadable(broken),
    }
}

/// Reads one entry. The empty namespace contains cluster-scoped kinds, and namespaced ones whose manifest had no
/// namespace: the controller lists these in the whole cluster.
fn area(entry: &Value) -> Result<Area, String> {
    let namespace = entry.get("namespace").and_then(Value::as_str).unwrap_or_default();
    let kinds = entry.get("kinds").and_then(Value::as_object).ok_or("a snapshot entry has no kinds")?;
    let namespaces = (!namespace.is_empty()).then(|| vec![namespace.into()]);
    Ok(Area { namespaces, kinds: Some(kinds.keys().map(|key| group_kind(key)).collect::<Result<_, _>>()?) })
}

/// Parses `apps/v1, Kind=Deployment`, and `/v1, Kind=Secret` for the core group.
fn group_kind(text: &str) -> Result<GroupKind, String> {
    let parts = text.split_once(", Kind=").and_then(|(version, kind)| Some((version.split_once('/')?, kind)));
    match parts {
        Some(((group, _), kind)) if !kind.is_empty() => Ok(GroupKind::new(group, kind)),
        _ => Err(format!("snapshot kind {text:?} is not <group>/<version>, Kind=<Kind>")),
    }
}

/// Returns true if a run with another checksum applied an object, so that the next garbage collection deletes it. Version
/// 0.13 and later treat a missing annotation as current; earlier versions treated a missing label as stale.
pub(crate) fn is_stale(object: &ObjectMetadata, current: &str) -> bool {
    let mark = object.annotations.get(CHECKSUM).or_else(|| object.labels.get(CHECKSUM));
    mark.is_some_and(|mark| mark != current)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::object::ObjectId;
    use crate::testing::{Build, object};

    #[test]
    fn a_snapshot_is_a_scope_of_namespaces_and_kinds() {
        let content = json!({"status": {"snapshot": {"checksum": "b03cf", "entries": [
            {"namespace": "", "kinds": {"/v1, Kind=Namespace": "Namespace"}},
            {"namespace": "xx-common", "kinds": {
                "/v1, Kind=ConfigMap": "ConfigMap",
                "rbac.authorization.k8s.io/v1beta1, Kind=Role": "Role"}},
        ]}}});
        let Members::Selected(scope) = members(&content) else { panic!("{:?}", members(&content)) };
        let rows = [
            (ObjectId::new("", "Namespace", "", "any"), true),
            (ObjectId::new("", "ConfigMap", "xx-common", "cm"), true),
            (ObjectId::new("rbac.authorization.k8s.io", "Role", "xx-common", "r"), true),
            (ObjectId::new("", "ConfigMap", "other", "cm"), false),
            (ObjectId::new("", "Secret", "xx-common", "s"), false),
        ];
        for (id, covered) in rows {
            assert_eq!(scope.covers(&id), covered, "{id}");
        }
    }

    #[test]
    fn a_broken_snapshot_is_unreadable() {
        for kinds in [json!({"v1 Kind=X": ""}), json!({"/v1, Kind=": ""}), json!("absurd"), json!(null)] {
            let content = json!({"status": {"snapshot": {"entries": [{"namespace": "", "kinds": kinds}]}}});
            assert!(matches!(members(&content), Members::Unreadable(_)), "{kinds}");
        }
    }

    #[test]
    fn only_another_checksum_is_stale() {
        let plain = object("", "ConfigMap", "shop", "cm");
        assert!(!is_stale(&plain, "new"));
        assert!(!is_stale(&plain.clone().annotation(CHECKSUM, "new"), "new"));
        assert!(is_stale(&plain.clone().annotation(CHECKSUM, "old"), "new"));
        assert!(is_stale(&plain.label(CHECKSUM, "old"), "new"));
    }
}
