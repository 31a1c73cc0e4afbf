//! Objects that the controllers of deleted owners other than Kustomizations, and of replaced releases, delete.
//!
//! Source: docs/reference/flux.md 3.2, 6.2 and 7.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use super::helm_uninstall::orphans_dependents;
use super::model::{Node, SimulationEvent};
use super::{Consequences, Preview, ReplacedRelease};
use crate::flux::kinds::OPERATOR_SWITCH;
use crate::kubernetes::deletion::cascade::{CascadeKind, CascadedObject};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, text_at};
use crate::ownership::Members;
use crate::ownership::schemes::flux::{inventory_members, is_switched_off};
use crate::ownership::schemes::flux_helmrelease;
use crate::ownership::schemes::flux_operator;

/// Label or annotation that keeps an object of flux-operator, with the value `disabled`.
const PRUNE: &str = "fluxcd.controlplane.io/prune";

/// Objects that the controllers of owners delete.
#[derive(Default)]
pub(super) struct Finalized<'a> {
    pub(super) objects: BTreeMap<ObjectId, CascadedObject<'a>>,
    /// Uids of those whose dependents stay.
    pub(super) orphaning: HashSet<&'a str>,
    /// HelmReleases that stay and whose release is replaced.
    pub(super) replaced: BTreeMap<ObjectId, ReplacedRelease>,
}

impl<'a> Preview<'a> {
    /// Returns the objects of every deleted owner, and of every release that is replaced, that are not deleted otherwise.
    pub(super) fn finalized_objects(&self, consequences: &Consequences<'a>) -> Finalized<'a> {
        let mut finalized = Finalized::default();
        for owner in &self.input.snapshot.resources {
            let cause = &owner.object.id;
            let mut orphans = false;
            let (kind, objects) = match (&*cause.group, &*cause.kind) {
                (flux_helmrelease::GROUP, flux_helmrelease::KIND) if !consequences.may_be_deleted(cause) => {
                    let (kind, objects, is_certain);
                    if let Some(upgraded) = self.upgraded_objects(owner) {
                        kind = CascadeKind::Upgrade;
                        (objects, is_certain) = upgraded;
                    } else if let Some(replacement) = self.replacement(owner, consequences) {
                        orphans = orphans_dependents(&replacement.spec);
                        kind = CascadeKind::ReplacedRelease;
                        (objects, is_certain) =
                            (self.replaced_objects(owner, &replacement), replacement.condition.is_none());
                    } else {
                        continue;
                    }
                    let replaced = ReplacedRelease { triggers: self.applying_events(cause), is_certain };
                    finalized.replaced.insert(cause.clone(), replaced);
                    (kind, objects)
                }
                _ if !consequences.may_be_deleted(cause) => continue,
                (flux_helmrelease::GROUP, flux_helmrelease::KIND) => {
                    orphans = orphans_dependents(owner.spec());
                    (CascadeKind::HelmRelease, self.release_objects(owner))
                }
                (flux_operator::GROUP, "ResourceSet") => (CascadeKind::ResourceSet, self.set_objects(owner)),
                ("source.extensions.fluxcd.io", "ArtifactGenerator") => {
                    (CascadeKind::ArtifactGenerator, self.generated_artifacts(owner))
                }
                _ => continue,
            };
            for object in objects.into_iter().filter(|object| !consequences.may_be_deleted(&object.id)) {
                let cascaded = CascadedObject { object, cause: cause.clone(), kind };
                finalized.objects.insert(object.id.clone(), cascaded);
                finalized.orphaning.extend(orphans.then_some(&*object.uid));
            }
        }
        finalized
    }

    /// Returns the events that apply an object.
    fn applying_events(&self, id: &ObjectId) -> BTreeSet<SimulationEvent> {
        let passes = self.nodes.iter().flat_map(Node::numbered_passes);
        passes.filter(|(_, pass)| pass.applies(id)).map(|(number, _)| SimulationEvent::Apply(number)).collect()
    }

    /// Returns the objects in the inventory of a ResourceSet that carry its labels and are not protected. A ResourceSet
    /// that is disabled, or whose service account does not exist, deletes nothing.
    fn set_objects(&self, set: &Resource) -> Vec<&'a ObjectMetadata> {
        let own = &set.object.id;
        let Members::Listed(ids) = inventory_members(&set.content) else { return vec![] };
        let account = text_at(&set.content, "/spec/serviceAccountName");
        let account_id = ObjectId::new("", "ServiceAccount", &own.namespace, account);
        let cannot_delete = !account.is_empty() && self.live_object(&account_id).is_none();
        if cannot_delete || set.object.annotations.get(OPERATOR_SWITCH).is_some_and(is_switched_off) {
            return vec![];
        }
        let is_own = |object: &&ObjectMetadata| {
            let [name, namespace] = flux_operator::SET.map(|key| object.labels.get(key));
            let marks = [object.labels.get(PRUNE), object.annotations.get(PRUNE)];
            let is_protected = marks.into_iter().flatten().any(is_switched_off);
            name == Some(&*own.name) && namespace == Some(&*own.namespace) && !is_protected
        };
        ids.iter().filter_map(|id| self.live_object(id)).filter(is_own).collect()
    }

    /// Returns the ExternalArtifacts in the inventory of an ArtifactGenerator, which it deletes even if it is disabled.
    fn generated_artifacts(&self, generator: &Resource) -> Vec<&'a ObjectMetadata> {
        let entries = generator.at("/status/inventory").and_then(Value::as_array).into_iter().flatten();
        let ids = entries.map(|entry| {
            let [namespace, name] = ["/namespace", "/name"].map(|pointer| text_at(entry, pointer));
            ObjectId::new("source.toolkit.fluxcd.io", "ExternalArtifact", namespace, name)
        });
        ids.filter_map(|id| self.live_object(&id)).collect()
    }
}
