//! Objects that the controllers of deleted owners other than Kustomizations, and of replaced releases, delete.
//!
//! Source: docs/reference/flux.md 3.2, 6.2 and 7.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use super::helm::uninstall::orphans_dependents;
use super::resource_set;
use crate::flux::kinds::{EXTERNAL_ARTIFACT, GENERATOR, GENERATOR_GROUP, SOURCE_GROUP};
use crate::flux::simulation::model::node::{Node, SimulationEvent};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::{ActingOwner, Consequences};
use crate::kubernetes::deletion::cascade::{CascadeKind, CascadedObject};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, text_at};
use crate::ownership::schemes::{flux_helmrelease, flux_operator};

/// Objects that the controllers of owners delete.
#[derive(Default)]
pub(crate) struct Finalized<'a> {
    pub(crate) objects: BTreeMap<ObjectId, CascadedObject<'a>>,
    /// Uids of those whose dependents stay.
    pub(crate) orphaning: HashSet<&'a str>,
    /// Owners that stay and delete objects all the same.
    pub(crate) acting: BTreeMap<ObjectId, ActingOwner>,
}

impl Finalized<'_> {
    fn add_owner(
        &mut self,
        owner: &ObjectId,
        triggers: BTreeSet<SimulationEvent>,
        is_certain: bool,
        doubtful: BTreeSet<ObjectId>,
    ) {
        self.acting.insert(owner.clone(), ActingOwner { triggers, is_certain, doubtful });
    }
}

impl<'a> State<'a> {
    /// Returns the objects of every deleted owner, and of every release that is replaced, that are not deleted otherwise.
    pub(crate) fn finalized_objects(&self, consequences: &Consequences<'a>) -> Finalized<'a> {
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
                    finalized.add_owner(cause, self.applying_events(cause), is_certain, BTreeSet::new());
                    (kind, objects)
                }
                (GENERATOR_GROUP, GENERATOR) if !consequences.may_be_deleted(cause) => {
                    let objects = self.removed_artifacts(cause);
                    if objects.is_empty() {
                        continue;
                    }
                    finalized.add_owner(cause, self.applying_events(cause), true, BTreeSet::new());
                    (CascadeKind::RemovedArtifact, objects)
                }
                (flux_operator::GROUP, resource_set::KIND) if !consequences.may_be_deleted(cause) => {
                    let Some((objects, is_certain)) = self.removed_resources(owner) else { continue };
                    let doubtful = self.interrupted_resources(cause);
                    finalized.add_owner(cause, self.expansion_events(cause), is_certain, doubtful);
                    (CascadeKind::NotInResourceSet, objects)
                }
                _ if !consequences.may_be_deleted(cause) => continue,
                (flux_helmrelease::GROUP, flux_helmrelease::KIND) => {
                    orphans = orphans_dependents(owner.spec());
                    (CascadeKind::HelmRelease, self.release_objects(owner))
                }
                (flux_operator::GROUP, resource_set::KIND) => (CascadeKind::ResourceSet, self.set_objects(owner)),
                (GENERATOR_GROUP, GENERATOR) => (CascadeKind::ArtifactGenerator, self.generated_artifacts(owner)),
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

    /// Returns the ExternalArtifacts in the inventory of an ArtifactGenerator, which it deletes even if it is disabled.
    fn generated_artifacts(&self, generator: &Resource) -> Vec<&'a ObjectMetadata> {
        let entries = generator.at("/status/inventory").and_then(Value::as_array).into_iter().flatten();
        let ids = entries.map(|entry| {
            let [namespace, name] = ["/namespace", "/name"].map(|pointer| text_at(entry, pointer));
            ObjectId::new(SOURCE_GROUP, EXTERNAL_ARTIFACT, namespace, name)
        });
        ids.filter_map(|id| self.live_object(&id)).collect()
    }

    /// Returns the ExternalArtifacts that a generator no longer makes.
    fn removed_artifacts(&self, generator: &ObjectId) -> Vec<&'a ObjectMetadata> {
        let namespace = &generator.namespace;
        let ids = self.generated.removed(generator);
        let ids = ids.map(|name| ObjectId::new(SOURCE_GROUP, EXTERNAL_ARTIFACT, namespace, name));
        ids.filter_map(|id| self.live_object(&id)).collect()
    }
}
