//! Flux v2 Kustomization: two owner labels on every applied object, `status.inventory` on the Kustomization.
//!
//! Source: docs/reference/kustomize-controller.md 2 (inventory) and 5.1 (guards), and docs/reference/ownership.md 1.2.

use serde_json::Value;

use super::{flux, flux_snapshot};
use crate::kubernetes::object::{ObjectMetadata, Resource};
use crate::ownership::scheme::claim::{Operations, OwnerId, label_claim};
use crate::ownership::scheme::hub::HubRules;
use crate::ownership::scheme::members::Members;
use crate::ownership::scheme::owner_status::condition;
use crate::ownership::scheme::protection::ProtectionKey;
use crate::ownership::scheme::{MetadataKey, Record, Scheme};

/// Label that names the owning Kustomization.
pub const NAME: &str = "kustomize.toolkit.fluxcd.io/name";
/// Label that names the namespace of the owning Kustomization.
pub const NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";
/// API group of Kustomization.
pub const GROUP: &str = "kustomize.toolkit.fluxcd.io";
/// Kind of the owner.
pub const KIND: &str = "Kustomization";
/// Key that disables pruning of an object.
pub(crate) const PRUNE: &str = "kustomize.toolkit.fluxcd.io/prune";
/// Key that disables applying and pruning of an object.
pub(crate) const RECONCILE: &str = "kustomize.toolkit.fluxcd.io/reconcile";
/// Key that sets the mode of server-side apply.
pub(crate) const SSA: &str = "kustomize.toolkit.fluxcd.io/ssa";
const MANAGERS: &[&str] = &["kustomize-controller"];

/// Label or annotation that lets the controller delete and recreate an object with a changed immutable field.
pub(crate) const FORCE: &str = "kustomize.toolkit.fluxcd.io/force";

pub(crate) const SCHEME: Scheme = Scheme {
    member_keys: &[MetadataKey::Label(NAME), MetadataKey::Label(NAMESPACE)],
    selectors: &[NAME],
    other_keys: &[flux_snapshot::CHECKSUM, FORCE],
    managers: MANAGERS,
    protections: &[
        ProtectionKey::except(PRUNE, &["enabled"]),
        ProtectionKey::except(RECONCILE, &["enabled"]),
        ProtectionKey::except(SSA, &["merge", "override", "ifnotpresent"]),
    ],
    claim: |object| label_claim(object, flux::SYSTEM, KIND, [NAME, NAMESPACE], MANAGERS, Operations::Apply),
    owner_kinds: &[(GROUP, KIND)],
    owner,
    hub: Some(HubRules { target: flux::hub_target, keeps_aliases: true }),
    will_prune,
    ..flux::base("kustomization")
};

fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let id = OwnerId::new(flux::SYSTEM, KIND, &object.id.namespace, &object.id.name);
    let members = match flux::inventory_members(content) {
        Members::Unrecorded => flux_snapshot::members(content),
        recorded => recorded,
    };
    // Every run sets Ready to Unknown and back (docs/reference/flux.md 2): its last transition is the end of the last run.
    let finished = condition(content, "Ready").and_then(|ready| ready.changed);
    Some(Record { status: flux::status(object, content, None), finished, ..Record::new(id, members) })
}

fn will_prune(owner: &Resource, object: &ObjectMetadata) -> bool {
    owner.text("/status/snapshot/checksum").is_some_and(|current| flux_snapshot::is_stale(object, current))
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::kubernetes::object::ManagedFieldsEntry;
    use crate::ownership::rules::protection::find_protection;
    use crate::ownership::scheme::claim::Strength;
    use crate::testing::{Build, object};

    #[test]
    fn both_labels_are_needed_and_the_manager_corroborates() {
        let one = object("", "ConfigMap", "shop", "cm").label(NAME, "apps");
        assert_eq!((SCHEME.claim)(&one), None);
        let both = one.label(NAMESPACE, "flux-system");
        assert_eq!((SCHEME.claim)(&both).unwrap().strength, Strength::Bare);
        let written = both.clone().writer("kustomize-controller", NAME);
        assert_eq!((SCHEME.claim)(&written).unwrap().strength, Strength::Corroborated);
        assert_eq!((SCHEME.claim)(&both.clone().writer("some-operator", NAME)).unwrap().strength, Strength::Bare);
        assert_eq!((SCHEME.claim)(&both.written_by("kustomize-controller", &[NAME])).unwrap().strength, Strength::Bare);
    }

    /// The name of a field manager is a text that anybody can send; its operation, subresource and time must fit too.
    #[test]
    fn an_entry_that_the_controller_cannot_have_written_proves_nothing() {
        let both =
            object("", "ConfigMap", "shop", "cm").label(NAME, "apps").label(NAMESPACE, "flux-system").created(1000);
        let written = both.writer("kustomize-controller", NAME);
        let with = |change: fn(&mut ManagedFieldsEntry)| {
            let mut object = written.clone();
            change(&mut object.managed_fields[0]);
            (SCHEME.claim)(&object).unwrap().strength
        };
        assert_eq!(with(|_| ()), Strength::Corroborated);
        assert_eq!(
            with(|entry| entry.time = DateTime::from_timestamp(990, 0)),
            Strength::Corroborated,
            "a slow webhook"
        );
        assert_eq!(
            with(|entry| entry.time = DateTime::from_timestamp(900, 0)),
            Strength::Bare,
            "older than the object"
        );
        assert_eq!(with(|entry| entry.applies = false), Strength::Bare, "an update");
        assert_eq!(with(|entry| entry.subresource = "status".into()), Strength::Bare, "another subresource");
    }

    #[test]
    fn protections_are_read_from_labels_and_annotations_without_case() {
        let plain = object("", "ConfigMap", "shop", "cm");
        let rows = [
            ("kustomize.toolkit.fluxcd.io/prune", "Disabled", true),
            ("kustomize.toolkit.fluxcd.io/ssa", "Ignore", true),
            ("kustomize.toolkit.fluxcd.io/ssa", "Merge", false),
            ("kustomize.toolkit.fluxcd.io/reconcile", "disabled", true),
            ("kustomize.toolkit.fluxcd.io/prune", "enabled", false),
        ];
        for (key, value, kept) in rows {
            for object in [plain.clone().label(key, value), plain.clone().annotation(key, value)] {
                assert_eq!(find_protection(&object).is_some(), kept, "{key}={value}");
            }
        }
    }
}
