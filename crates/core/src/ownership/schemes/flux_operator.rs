//! flux-operator: ResourceSet and FluxInstance, two labels each and the inventory shape of Kustomization.
//!
//! Source: reference flux 3 and 4, ownership-and-prune 1.7.

use serde_json::Value;

use super::flux_kustomization::{inventory_members, label_claim};
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::{Claim, MetadataKey, OwnerId, Protection, Record, Scheme, always_reached, owner_status};

/// API group of both kinds.
pub const GROUP: &str = "fluxcd.controlplane.io";
const MANAGERS: &[&str] = &["flux-operator"];
const SET: [&str; 2] = ["resourceset.fluxcd.controlplane.io/name", "resourceset.fluxcd.controlplane.io/namespace"];
const INSTANCE: [&str; 2] = ["fluxcd.controlplane.io/name", "fluxcd.controlplane.io/namespace"];

/// ResourceSet.
pub const RESOURCE_SET: Scheme = Scheme {
    name: "resourceset",
    system: "flux",
    member_keys: &[MetadataKey::Label(SET[0]), MetadataKey::Label(SET[1])],
    selectors: &[SET[0]],
    owner_labels: &[],
    other_marks: &[],
    owner_kinds: &[(GROUP, "ResourceSet")],
    owner_sources: &[],
    managers: MANAGERS,
    claim: |object| claim(object, "ResourceSet", SET),
    owner,
    proof: None,
    reach: always_reached,
    keep_mark,
};

/// FluxInstance.
pub const FLUX_INSTANCE: Scheme = Scheme {
    name: "fluxinstance",
    member_keys: &[MetadataKey::Label(INSTANCE[0]), MetadataKey::Label(INSTANCE[1])],
    selectors: &[INSTANCE[0]],
    owner_kinds: &[(GROUP, "FluxInstance")],
    claim: |object| claim(object, "FluxInstance", INSTANCE),
    ..RESOURCE_SET
};

fn claim(object: &ObjectMetadata, kind: &str, labels: [&str; 2]) -> Option<Claim> {
    label_claim(object, RESOURCE_SET.system, kind, labels, MANAGERS)
}

fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let id = OwnerId::new(RESOURCE_SET.system, &object.id.kind, &object.id.namespace, &object.id.name);
    Some(Record { state: owner_status::flux(object, content), ..Record::new(id, inventory_members(content)) })
}

/// The only exclusion that the operator's garbage collection knows (reference flux 4.1).
fn keep_mark(object: &ObjectMetadata) -> Option<Protection> {
    crate::ownership::first_mark(object, &["fluxcd.controlplane.io/prune"], |value| {
        value.eq_ignore_ascii_case("disabled")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Make, object};

    #[test]
    fn each_kind_reads_its_own_labels() {
        let of_set = object("", "ConfigMap", "apps", "cm").label(SET[0], "tenants").label(SET[1], "flux-system");
        let owner = (RESOURCE_SET.claim)(&of_set).unwrap().owner;
        assert_eq!(owner, OwnerId::new("flux", "ResourceSet", "flux-system", "tenants"));
        assert_eq!((FLUX_INSTANCE.claim)(&of_set), None);
        let of_instance =
            object("", "ConfigMap", "apps", "cm").label(INSTANCE[0], "flux").label(INSTANCE[1], "flux-system");
        assert_eq!((FLUX_INSTANCE.claim)(&of_instance).unwrap().owner.kind, "FluxInstance");
        assert_eq!((RESOURCE_SET.claim)(&of_instance), None);
    }
}
