//! Flux v2 Kustomization: two owner labels on every applied object, `status.inventory` on the Kustomization.
//!
//! Source: reference kustomize-controller 1.1 (inventory), 1.4 (guards) and 9 (classification).

use serde_json::Value;

use super::{flux_snapshot, inventory_id};
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::{Claim, Members, MetadataKey, OwnerId, Protection, Record, Scheme, always_reached};
use crate::ownership::{label_strength, owner_status};

/// Label that names the owning Kustomization.
pub const NAME: &str = "kustomize.toolkit.fluxcd.io/name";
/// Label that names its namespace.
pub const NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";
/// API group of Kustomization.
pub const GROUP: &str = "kustomize.toolkit.fluxcd.io";
/// Kind of the owner.
pub const KIND: &str = "Kustomization";
/// Key that turns pruning of an object off.
pub const PRUNE: &str = "kustomize.toolkit.fluxcd.io/prune";
/// Key that turns applying and pruning of an object off.
pub const RECONCILE: &str = "kustomize.toolkit.fluxcd.io/reconcile";
/// Key that sets the mode of server-side apply.
pub const SSA: &str = "kustomize.toolkit.fluxcd.io/ssa";
/// Keys that protect from pruning, with the value that does (compared without case; label or annotation).
const KEEP: [(&str, &str); 3] = [(PRUNE, "disabled"), (RECONCILE, "disabled"), (SSA, "ignore")];

/// The scheme record.
pub const SCHEME: Scheme = Scheme {
    name: "kustomization",
    system: "flux",
    member_keys: &[MetadataKey::Label(NAME), MetadataKey::Label(NAMESPACE)],
    selectors: &[NAME],
    owner_labels: &[],
    other_marks: &[flux_snapshot::CHECKSUM],
    owner_kinds: &[(GROUP, KIND)],
    owner_sources: &[],
    managers: &["kustomize-controller"],
    claim,
    owner,
    proof: None,
    reach: always_reached,
    keep_mark,
};

fn claim(object: &ObjectMetadata) -> Option<Claim> {
    label_claim(object, SCHEME.system, KIND, [NAME, NAMESPACE], SCHEME.managers)
}

/// The claim of a pair of labels that name the owner.
pub(crate) fn label_claim(
    object: &ObjectMetadata,
    system: &str,
    kind: &str,
    [name_label, namespace_label]: [&str; 2],
    managers: &[&str],
) -> Option<Claim> {
    let name = object.labels.get(name_label)?;
    let namespace = object.labels.get(namespace_label)?;
    let strength = label_strength(object, name_label, managers);
    let evidence = format!("labels {name_label}={name}, {namespace_label}={namespace}");
    Some(Claim { owner: OwnerId::new(system, kind, namespace, name), strength, evidence })
}

fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let id = OwnerId::new(SCHEME.system, KIND, &object.id.namespace, &object.id.name);
    let members = match inventory_members(content) {
        Members::Unrecorded => flux_snapshot::members(content),
        recorded => recorded,
    };
    let ready = owner_status::condition(content, "Ready");
    // Every run takes Ready to Unknown and back (reference flux 4.2): its last change is the end of the last run.
    let finished = ready.and_then(|ready| ready.changed);
    Some(Record { state: owner_status::flux(object, content), finished, ..Record::new(id, members) })
}

/// `status.inventory.entries` of the kinds that share its shape.
pub(crate) fn inventory_members(content: &Value) -> Members {
    let Some(entries) = content.pointer("/status/inventory/entries").and_then(Value::as_array) else {
        return Members::Unrecorded;
    };
    let ids = entries.iter().map(|entry| entry.get("id").and_then(Value::as_str).unwrap_or_default());
    let remote = content.pointer("/spec/kubeConfig").is_some_and(|config| !config.is_null());
    match ids.map(inventory_id::parse).collect() {
        Ok(ids) if remote => Members::Remote(ids),
        Ok(ids) => Members::Listed(ids),
        Err(broken) => Members::Unreadable(broken),
    }
}

fn keep_mark(object: &ObjectMetadata) -> Option<Protection> {
    KEEP.iter()
        .find_map(|(key, value)| crate::ownership::first_mark(object, &[key], |live| live.eq_ignore_ascii_case(value)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::object::ObjectId;
    use crate::ownership::Strength;
    use crate::testing::{Make, object};

    #[test]
    fn both_labels_are_needed_and_the_manager_is_the_witness() {
        let one = object("", "ConfigMap", "shop", "cm").label(NAME, "apps");
        assert_eq!(claim(&one), None);
        let both = one.label(NAMESPACE, "flux-system");
        assert_eq!(claim(&both).unwrap().strength, Strength::Bare);
        let written = both.clone().writer("kustomize-controller", NAME);
        assert_eq!(claim(&written).unwrap().strength, Strength::Corroborated);
        assert_eq!(claim(&both.writer("some-operator", NAME)).unwrap().strength, Strength::Bare);
    }

    #[test]
    fn an_inventory_is_listed_remote_broken_or_not_there() {
        let entries = json!([{"id": "shop_web_apps_Deployment", "v": "v1"}]);
        let web = ObjectId::new("apps", "Deployment", "shop", "web");
        let local = json!({"spec": {"kubeConfig": null}, "status": {"inventory": {"entries": entries}}});
        assert_eq!(inventory_members(&local), Members::Listed(vec![web.clone()]));
        let remote = json!({"spec": {"kubeConfig": {}}, "status": {"inventory": {"entries": entries}}});
        assert_eq!(inventory_members(&remote), Members::Remote(vec![web]));
        for broken in [json!([{"id": "a_b"}]), json!([{"v": "v1"}]), json!([7]), json!([{"id": {}}])] {
            let status = json!({"status": {"inventory": {"entries": broken}}});
            assert!(matches!(inventory_members(&status), Members::Unreadable(_)), "{broken}");
        }
        assert_eq!(inventory_members(&json!({"status": {"inventory": "absurd"}})), Members::Unrecorded);
        assert_eq!(inventory_members(&Value::Null), Members::Unrecorded);
    }

    #[test]
    fn guards_are_read_from_labels_and_annotations_without_case() {
        let plain = object("", "ConfigMap", "shop", "cm");
        let rows = [
            ("kustomize.toolkit.fluxcd.io/prune", "Disabled", true),
            ("kustomize.toolkit.fluxcd.io/ssa", "Ignore", true),
            ("kustomize.toolkit.fluxcd.io/ssa", "Merge", false),
            ("kustomize.toolkit.fluxcd.io/reconcile", "disabled", true),
            ("kustomize.toolkit.fluxcd.io/prune", "enabled", false),
        ];
        for (key, value, kept) in rows {
            assert_eq!(keep_mark(&plain.clone().label(key, value)).is_some(), kept, "{key}={value}");
            assert_eq!(keep_mark(&plain.clone().annotation(key, value)).is_some(), kept, "{key}={value}");
        }
    }
}
