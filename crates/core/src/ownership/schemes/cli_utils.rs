//! cli-utils and `kpt live`: an annotation with the inventory's ID; the inventory is a ConfigMap whose keys are entry
//! ids, or a ResourceGroup.
//!
//! Source: docs/reference/ownership.md 2.8.

use serde_json::Value;

use super::inventory_id;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, text_at};
use crate::ownership::scheme::claim::{Claim, ClaimEvidence, OwnerId, Strength, annotation_strength};
use crate::ownership::scheme::last_applied::kubectl_names_object;
use crate::ownership::scheme::members::Members;
use crate::ownership::scheme::owner_status::{OwnerStatus, is_true};
use crate::ownership::scheme::protection::ProtectionKey;
use crate::ownership::scheme::{AliasProof, GcEligibility, MetadataKey, OwnerSource, Record, Scheme};

const OWNING: &str = "config.k8s.io/owning-inventory";
const INVENTORY_ID: &str = "cli-utils.sigs.k8s.io/inventory-id";
/// Default field manager of cli-utils and kpt (`DefaultFieldManager`).
const KUBECTL: &str = "kubectl";
/// Kind in claims, which do not name the kind of the inventory.
const UNKNOWN: &str = "Inventory";

pub(crate) const SCHEME: Scheme = Scheme {
    member_keys: &[MetadataKey::Annotation(OWNING)],
    other_keys: &["client.lifecycle.config.k8s.io/mutation"],
    managers: &[KUBECTL, "kpt", "cli-utils"],
    protections: &[
        ProtectionKey::any("cli-utils.sigs.k8s.io/on-remove"),
        ProtectionKey::any("client.lifecycle.config.k8s.io/deletion"),
    ],
    claim,
    gc_eligibility,
    owner_kinds: &[("kpt.dev", "ResourceGroup")],
    owner_sources: &[OwnerSource {
        group: "",
        kind: "ConfigMap",
        selector: INVENTORY_ID,
        full: true,
        only_if_claimed: false,
    }],
    owner_labels: &[INVENTORY_ID],
    owner,
    alias_proof: Some(AliasProof {
        is_proven: |_, _| false,
        needed: "an inventory with this ID that lists the object",
    }),
    has_open_record: true,
    bookkeeping,
    ..Scheme::new("cli-utils", "cli-utils")
};

/// Returns the identity under which claims name the inventory with an ID.
pub(crate) fn alias(id: &str) -> OwnerId {
    OwnerId::new(SCHEME.system, UNKNOWN, "", id)
}

fn claim(object: &ObjectMetadata) -> Option<Claim> {
    let id = object.annotations.get(OWNING)?;
    let evidence = ClaimEvidence::annotation(OWNING, id);
    let (strength, evidence) = match kubectl_names_object(object) {
        _ if object.controller_reference().is_some() => {
            (Strength::Contradicted, evidence.with_witness("on an object that a controller created"))
        }
        Some(false) => {
            (Strength::Contradicted, evidence.with_witness("copied: last-applied-configuration names another object"))
        }
        Some(true) if is_written_by_kubectl(object, Operation::Update) => {
            (Strength::Corroborated, evidence.with_witness("applied by cli-utils"))
        }
        _ => (annotation_strength(object, OWNING, &SCHEME.managers[1..]), evidence),
    };
    Some(Claim { owner: alias(id), strength, evidence })
}

/// Operation of a managed fields entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Apply,
    Update,
}

/// Returns true if the field manager `kubectl` wrote the annotation by this operation.
///
/// kubectl calls itself `kubectl-client-side-apply`, and `kubectl` only for server-side apply. So an update by `kubectl`
/// comes from cli-utils, and an apply by `kubectl` may come from a person with a copied manifest.
fn is_written_by_kubectl(object: &ObjectMetadata, operation: Operation) -> bool {
    object.managed_fields.iter().any(|writer| {
        &*writer.manager == KUBECTL
            && writer.applies == (operation == Operation::Apply)
            && writer.annotations.iter().any(|key| **key == *OWNING)
    })
}

fn gc_eligibility(object: &ObjectMetadata) -> GcEligibility {
    if is_written_by_kubectl(object, Operation::Apply) {
        return GcEligibility::Doubtful("`kubectl apply --server-side` leaves the same managed fields as cli-utils");
    }
    GcEligibility::Normal
}

fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let known_kind = object.id.is("", "ConfigMap") || object.id.is("kpt.dev", "ResourceGroup");
    let inventory = object.labels.get(INVENTORY_ID).filter(|_| known_kind)?;
    let id = OwnerId::new(SCHEME.system, &object.id.kind, &object.id.namespace, &object.id.name);
    let status = match content.pointer("/status/observedGeneration").and_then(Value::as_i64) {
        Some(observed) if observed != object.generation => OwnerStatus::Reconciling,
        _ if is_true(content, "Reconciling") => OwnerStatus::Reconciling,
        _ => OwnerStatus::Ready,
    };
    Some(Record { aliases: vec![alias(inventory)], status, ..Record::new(id, members(object, content)) })
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

/// Parses an entry id. Unlike Flux, cli-utils rejects an underscore in the name.
fn strict(key: &str) -> Result<ObjectId, String> {
    let id = inventory_id::parse(key)?;
    if id.name.contains('_') { Err(format!("inventory entry {key:?} has too many fields")) } else { Ok(id) }
}

fn resource(entry: &Value) -> Result<ObjectId, String> {
    match (text_at(entry, "/kind"), text_at(entry, "/name")) {
        ("", _) | (_, "") => Err("an entry of spec.resources has no kind or name".to_owned()),
        (kind, name) => Ok(ObjectId::new(text_at(entry, "/group"), kind, text_at(entry, "/namespace"), name)),
    }
}

fn bookkeeping(object: &ObjectMetadata) -> Option<&'static str> {
    let is_inventory = [INVENTORY_ID, "kpt.dev/inventory-id"].iter().any(|key| object.labels.get(key).is_some());
    is_inventory.then_some("an inventory")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ownership::scheme::last_applied;
    use crate::testing::{Build, object};

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

    fn marked() -> ObjectMetadata {
        object("", "ConfigMap", "prod", "cm").annotation(OWNING, "x-1")
    }

    fn with_own_last_applied(object: ObjectMetadata) -> ObjectMetadata {
        object.annotation(last_applied::KUBECTL, "/ConfigMap/prod/cm")
    }

    fn updated_by_kubectl() -> ObjectMetadata {
        marked().writer(KUBECTL, OWNING)
    }

    #[test]
    fn an_update_by_kubectl_is_cli_utils_and_an_apply_may_be_anybodys() {
        let mut applied = marked().writer(KUBECTL, OWNING);
        applied.managed_fields[0].applies = true;
        let plain = GcEligibility::Normal;
        let rows = [
            ("cli-utils", with_own_last_applied(updated_by_kubectl()), Strength::Corroborated, true),
            ("without last-applied", updated_by_kubectl(), Strength::Bare, true),
            (
                "kubectl apply",
                with_own_last_applied(marked().writer("kubectl-client-side-apply", OWNING)),
                Strength::Bare,
                true,
            ),
            ("kubectl apply --server-side", applied.clone(), Strength::Bare, false),
            ("kpt under its own name", marked().writer("kpt", OWNING), Strength::Corroborated, true),
            (
                "copy",
                updated_by_kubectl().annotation(last_applied::KUBECTL, "/ConfigMap/prod/other"),
                Strength::Contradicted,
                true,
            ),
            ("child", with_own_last_applied(updated_by_kubectl()).controlled_by("x"), Strength::Contradicted, true),
        ];
        for (name, object, strength, normal) in rows {
            assert_eq!(claim(&object).unwrap().strength, strength, "{name}");
            assert_eq!(gc_eligibility(&object) == plain, normal, "{name}");
        }
    }
}
