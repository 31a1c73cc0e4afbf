//! cli-utils and `kpt live`: an annotation with the inventory's ID; the inventory is a ConfigMap whose keys are entry
//! ids, or a ResourceGroup.
//!
//! Source: reference ownership-and-prune 1.2, 2.2.

use serde_json::Value;

use super::inventory_id;
use crate::kubernetes::object::{ManagedFieldsEntry, ObjectId, ObjectMetadata};
use crate::ownership::{
    Claim, GcEligibility, Members, MetadataKey, OwnerId, OwnerSource, OwnerStatus, Protection, Record, Scheme, Strength,
};
use crate::ownership::{annotation_strength, identity, owner_status};

const OWNING: &str = "config.k8s.io/owning-inventory";
const INVENTORY_ID: &str = "cli-utils.sigs.k8s.io/inventory-id";
/// The name under which cli-utils and kpt write unless they are told another (`DefaultFieldManager`).
const KUBECTL: &str = "kubectl";
/// Kind of a claim whose inventory is not known.
const UNKNOWN: &str = "Inventory";
/// Exactly these values detach an object instead of deleting it.
const KEEP: [(&str, &str); 2] =
    [("cli-utils.sigs.k8s.io/on-remove", "keep"), ("client.lifecycle.config.k8s.io/deletion", "detach")];

/// The scheme record.
pub const SCHEME: Scheme = Scheme {
    name: "cli-utils",
    system: "cli-utils",
    member_keys: &[MetadataKey::Annotation(OWNING)],
    selectors: &[],
    owner_labels: &[INVENTORY_ID],
    other_marks: &["client.lifecycle.config.k8s.io/mutation"],
    owner_kinds: &[("kpt.dev", "ResourceGroup")],
    owner_sources: &[OwnerSource {
        group: "",
        kind: "ConfigMap",
        selector: INVENTORY_ID,
        full: true,
        only_if_marked: false,
    }],
    managers: &[KUBECTL, "kpt", "cli-utils"],
    claim,
    owner,
    proof: None,
    reach,
    keep_mark,
};

/// The identity under which claims name the inventory with an ID.
pub(crate) fn alias(id: &str) -> OwnerId {
    OwnerId::new(SCHEME.system, UNKNOWN, "", id)
}

fn claim(object: &ObjectMetadata) -> Option<Claim> {
    let id = object.annotations.get(OWNING)?;
    let (strength, witness) = match applied(object) {
        _ if object.controller().is_some() => (Strength::Contradicted, ", on an object that a controller made"),
        Some(false) => (Strength::Contradicted, ", copied: last-applied-configuration names another object"),
        Some(true) if wrote(object, false) => (Strength::Corroborated, ", applied by cli-utils"),
        _ => (annotation_strength(object, OWNING, &SCHEME.managers[1..]), ""),
    };
    Some(Claim { owner: alias(id), strength, evidence: format!("annotation {OWNING}={id}{witness}") })
}

/// Whether the last-applied annotation names the object; `None` without one, as after a server-side apply.
fn applied(object: &ObjectMetadata) -> Option<bool> {
    object.annotations.get(identity::KUBECTL).map(|applied| identity::is_of(applied, object))
}

/// Whether `kubectl` wrote the annotation, by server-side apply or otherwise.
///
/// kubectl itself is `kubectl-client-side-apply` when it applies on its own side, and `kubectl` only on the server's
/// side. So a plain update by `kubectl` is cli-utils, and an apply by `kubectl` may be a person's with a copied manifest.
fn wrote(object: &ObjectMetadata, applies: bool) -> bool {
    let marks = |writer: &ManagedFieldsEntry| writer.annotations.iter().any(|key| **key == *OWNING);
    object.writers.iter().any(|writer| &*writer.manager == KUBECTL && writer.applies == applies && marks(writer))
}

fn reach(object: &ObjectMetadata) -> GcEligibility {
    match wrote(object, true) {
        true => GcEligibility::Doubtful("whoever runs kubectl apply --server-side writes as cli-utils does"),
        false => GcEligibility::Normal,
    }
}

fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let known_kind = object.id.is("", "ConfigMap") || object.id.is("kpt.dev", "ResourceGroup");
    let inventory = object.labels.get(INVENTORY_ID).filter(|_| known_kind)?;
    let id = OwnerId::new(SCHEME.system, &object.id.kind, &object.id.namespace, &object.id.name);
    let state = match content.pointer("/status/observedGeneration").and_then(Value::as_i64) {
        Some(observed) if observed != object.generation => OwnerStatus::Reconciling,
        _ if owner_status::is_true(content, "Reconciling") => OwnerStatus::Reconciling,
        _ => OwnerStatus::Ready,
    };
    Some(Record { aliases: vec![alias(inventory)], state, ..Record::new(id, members(object, content)) })
}

fn members(object: &ObjectMetadata, content: &Value) -> Members {
    if content.is_null() {
        return Members::Unreadable("its inventory was not read".to_owned());
    }
    let ids: Result<Vec<ObjectId>, String> = if object.id.is("", "ConfigMap") {
        let data = content.get("data").and_then(Value::as_object);
        data.into_iter().flat_map(|data| data.keys()).map(|key| strict(key)).collect()
    } else {
        let list = content.pointer("/spec/resources").and_then(Value::as_array);
        list.into_iter().flatten().map(resource).collect()
    };
    ids.map_or_else(Members::Unreadable, Members::Listed)
}

/// Unlike Flux, cli-utils refuses an underscore that is left in the name.
fn strict(key: &str) -> Result<ObjectId, String> {
    let id = inventory_id::parse(key)?;
    if id.name.contains('_') { Err(format!("inventory entry {key:?} has too many fields")) } else { Ok(id) }
}

fn resource(entry: &Value) -> Result<ObjectId, String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    match (text("kind"), text("name")) {
        ("", _) | (_, "") => Err("an entry of spec.resources has no kind or name".to_owned()),
        (kind, name) => Ok(ObjectId::new(text("group"), kind, text("namespace"), name)),
    }
}

pub(crate) fn keep_mark(object: &ObjectMetadata) -> Option<Protection> {
    KEEP.into_iter().find_map(|(key, keeps)| {
        let value = object.annotations.get(key).filter(|value| *value == keeps)?;
        Some(Protection { key: key.to_owned(), value: value.to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Make, object};

    #[test]
    fn keys_of_a_config_map_are_entry_ids() {
        let inventory = object("", "ConfigMap", "prod", "inventory-1").label(INVENTORY_ID, "x-1");
        let content = json!({"data": {"prod_web_apps_Deployment": "", "_system__thing__read_rbac.authorization.k8s.io_ClusterRole": "{}"}});
        let record = owner(&inventory, &content).unwrap();
        assert_eq!(record.aliases, [alias("x-1")]);
        let role = ObjectId::new("rbac.authorization.k8s.io", "ClusterRole", "", "system:thing:read");
        assert_eq!(record.members, Members::Listed(vec![role, ObjectId::new("apps", "Deployment", "prod", "web")]));
    }

    #[test]
    fn one_bad_entry_makes_the_whole_inventory_unreadable() {
        let inventory = object("", "ConfigMap", "prod", "inventory-1").label(INVENTORY_ID, "x-1");
        for key in ["no-separators", "a_b", "a_b_c_d_e_f"] {
            let content = json!({"data": {key: "", "prod_web_apps_Deployment": ""}});
            assert!(matches!(owner(&inventory, &content).unwrap().members, Members::Unreadable(_)), "{key}");
        }
        assert!(matches!(owner(&inventory, &Value::Null).unwrap().members, Members::Unreadable(_)));
    }

    #[test]
    fn a_resource_group_lists_resources() {
        let group = object("kpt.dev", "ResourceGroup", "prod", "g").label(INVENTORY_ID, "x");
        let content = json!({"spec": {"resources": [{"group": "apps", "kind": "Deployment", "namespace": "prod", "name": "web"}]}});
        assert_eq!(
            owner(&group, &content).unwrap().members,
            Members::Listed(vec![ObjectId::new("apps", "Deployment", "prod", "web")])
        );
        let broken = json!({"spec": {"resources": [{"kind": "Deployment"}]}});
        assert!(matches!(owner(&group, &broken).unwrap().members, Members::Unreadable(_)));
    }

    #[test]
    fn an_update_by_kubectl_is_cli_utils_and_an_apply_may_be_anybodys() {
        let marked = || object("", "ConfigMap", "prod", "cm").annotation(OWNING, "x-1");
        let own = |object: ObjectMetadata| object.annotation(identity::KUBECTL, "/ConfigMap/prod/cm");
        let mut applied = marked().writer(KUBECTL, OWNING);
        applied.writers[0].applies = true;
        let updated = || marked().writer(KUBECTL, OWNING);
        let plain = GcEligibility::Normal;
        let rows = [
            ("cli-utils", own(updated()), Strength::Corroborated, true),
            ("without last-applied", updated(), Strength::Bare, true),
            ("kubectl apply", own(marked().writer("kubectl-client-side-apply", OWNING)), Strength::Bare, true),
            ("kubectl apply --server-side", applied.clone(), Strength::Bare, false),
            ("kpt under its own name", marked().writer("kpt", OWNING), Strength::Corroborated, true),
            ("copy", updated().annotation(identity::KUBECTL, "/ConfigMap/prod/other"), Strength::Contradicted, true),
            ("child", own(updated()).controlled_by("x"), Strength::Contradicted, true),
        ];
        for (name, object, strength, normal) in rows {
            assert_eq!(claim(&object).unwrap().strength, strength, "{name}");
            assert_eq!(reach(&object) == plain, normal, "{name}");
        }
    }

    #[test]
    fn only_exact_values_keep() {
        let object = |value| object("", "Service", "prod", "web").annotation(KEEP[0].0, value);
        assert!(keep_mark(&object("keep")).is_some());
        assert!(keep_mark(&object("Keep")).is_none());
    }
}
