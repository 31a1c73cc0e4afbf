//! flux-operator: ResourceSet and FluxInstance, two labels each and the inventory format of Kustomization.
//!
//! Source: docs/reference/flux.md 1 and 7, and docs/reference/ownership.md 2.3.

use serde_json::Value;

use super::flux;
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::scheme::claim::{Operations, OwnerId, label_claim};
use crate::ownership::scheme::protection::ProtectionKey;
use crate::ownership::scheme::{MetadataKey, Record, Scheme};

/// API group of both kinds.
pub const GROUP: &str = "fluxcd.controlplane.io";
/// Annotation with the value `disabled` that suspends an object of flux-operator.
pub(crate) const SWITCH: &str = "fluxcd.controlplane.io/reconcile";
/// Field manager, and name of the Deployment.
pub const NAME: &str = "flux-operator";
const MANAGERS: &[&str] = &[NAME];
/// Labels that name the ResourceSet of an object, and its namespace.
pub(crate) const SET: [&str; 2] =
    ["resourceset.fluxcd.controlplane.io/name", "resourceset.fluxcd.controlplane.io/namespace"];
const INSTANCE: [&str; 2] = ["fluxcd.controlplane.io/name", "fluxcd.controlplane.io/namespace"];

/// Label or annotation that lets flux-operator delete and recreate an object with a changed immutable field.
pub(crate) const FORCE: &str = "fluxcd.controlplane.io/force";
/// Annotation in which flux-operator writes the hash of the ConfigMaps and Secrets that another one names.
pub(crate) const CHECKSUM: &str = "fluxcd.controlplane.io/checksum";

pub(crate) const RESOURCE_SET: Scheme = Scheme {
    member_keys: &[MetadataKey::Label(SET[0]), MetadataKey::Label(SET[1])],
    selectors: &[SET[0]],
    other_keys: &[FORCE],
    managers: MANAGERS,
    protections: &[
        ProtectionKey::except("fluxcd.controlplane.io/prune", &["enabled"]),
        ProtectionKey::except(SWITCH, &["enabled"]),
    ],
    claim: |object| label_claim(object, flux::SYSTEM, "ResourceSet", SET, MANAGERS, Operations::Apply),
    owner_kinds: &[(GROUP, "ResourceSet")],
    owner,
    ..flux::base("resourceset")
};

pub(crate) const FLUX_INSTANCE: Scheme = Scheme {
    name: "fluxinstance",
    member_keys: &[MetadataKey::Label(INSTANCE[0]), MetadataKey::Label(INSTANCE[1])],
    selectors: &[INSTANCE[0]],
    protections: &[],
    claim: |object| label_claim(object, flux::SYSTEM, "FluxInstance", INSTANCE, MANAGERS, Operations::Apply),
    owner_kinds: &[(GROUP, "FluxInstance")],
    ..RESOURCE_SET
};

fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let id = OwnerId::new(flux::SYSTEM, &object.id.kind, &object.id.namespace, &object.id.name);
    let status = flux::status(object, content, Some(SWITCH));
    Some(Record { status, ..Record::new(id, flux::inventory_members(content)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, object};

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
