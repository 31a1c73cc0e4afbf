//! Changes that kustomize-controller would make and that the API server is asked about by dry-runs, and the deletions
//! that it refuses.
//!
//! Only what changes is asked about: an object with the manifest of the last applied revision is left out, if that
//! revision was built again and the controller applied it without an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::model::node::{Node, NodeId};
pub use super::model::refusals::DeletionRefusal;
use super::model::state::State;
use crate::flux::apply::AppliedObject;
use crate::flux::build;
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::{Answers, BuildContext, Needs};
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::plan::{Actor, Fidelity, Plan};

/// A deletion that kustomize-controller would send.
#[derive(Clone, Debug)]
pub struct PlannedDeletion<'a> {
    /// Kustomization that deletes the object.
    pub owner: NamespacedName,
    /// Spec that the Kustomization then has.
    pub spec: KustomizationSpec,
    /// The live object.
    pub object: &'a ObjectMetadata,
}

/// Objects of the last applied revisions, for the Kustomizations whose build was verified.
#[derive(Debug, Default)]
pub struct AppliedBuilds(BTreeMap<NamespacedName, AppliedBuild>);

/// Objects of the last applied revision of one Kustomization.
#[derive(Debug)]
struct AppliedBuild {
    spec: KustomizationSpec,
    /// Manifests by kind and name.
    manifests: BTreeMap<(String, String), Vec<Arc<Value>>>,
}

impl AppliedBuilds {
    /// Returns true if the Kustomization has applied this very manifest, as the same user.
    fn contains(&self, owner: &NamespacedName, spec: &KustomizationSpec, built: &BuiltObject) -> bool {
        let Some(build) = self.0.get(owner) else { return false };
        let same = |pointer: &str| build.spec.value().pointer(pointer) == spec.value().pointer(pointer);
        let is_applied_alike = ["/commonMetadata", "/serviceAccountName", "/kubeConfig"].into_iter().all(same);
        let manifests = build.manifests.get(&kind_and_name(built));
        is_applied_alike && manifests.is_some_and(|manifests| manifests.contains(&built.manifest))
    }
}

impl<'a> State<'a> {
    /// Builds the last applied revisions that were verified. Call it when the preview is complete: the builds are known.
    pub(crate) fn applied_builds(&self, answers: &Answers) -> AppliedBuilds {
        let mut builds = BTreeMap::new();
        for (key, artifact) in &self.input.last_applied {
            let is_verified = self.input.fidelity.get(key) == Some(&Fidelity::Verified);
            let Some(live) = self.live.get(key).filter(|_| is_verified && self.is_ready(key)) else { continue };
            let (spec, mut needs) = (KustomizationSpec::of(live), Needs::default());
            let mut context = BuildContext::new(self.input.features, answers, &mut needs);
            let Some(Ok(built)) = build::build(artifact, key, &spec, &mut context) else { continue };
            let mut manifests: BTreeMap<_, Vec<Arc<Value>>> = BTreeMap::new();
            for built in built.iter() {
                manifests.entry(kind_and_name(built)).or_default().push(built.manifest.clone());
            }
            builds.insert(key.clone(), AppliedBuild { spec, manifests });
        }
        AppliedBuilds(builds)
    }

    /// Returns the objects that a Kustomization applies in its last pass and that are new or have another manifest than in
    /// the last applied revision, and those that it may only delete by force.
    pub(crate) fn changed_objects(&self, applied: &AppliedBuilds) -> Vec<AppliedObject> {
        let is_changed = |owner: &NamespacedName, spec: &KustomizationSpec, built: &BuiltObject| {
            !self.is_listed(owner, &built.id) || !applied.contains(owner, spec, built)
        };
        let mut objects = self.applied_objects_if(is_changed);
        let interrupted = self.interrupted_objects().into_iter();
        objects.extend(interrupted.filter(|object| is_changed(&object.owner, &object.spec, &object.built)));
        objects
    }

    /// Returns true if an object is live and in the inventory of a Kustomization.
    fn is_listed(&self, owner: &NamespacedName, id: &ObjectId) -> bool {
        let owner = self.node(&NodeId::live(owner));
        self.live_object(id).is_some() && owner.is_some_and(|node| node.inventory.contains(id))
    }

    /// Returns the deletions of a plan of this preview that kustomize-controller sends.
    pub(crate) fn planned_deletions(&self, plan: &Plan) -> Vec<PlannedDeletion<'a>> {
        let mut deletions = vec![];
        for change in plan.deletions().filter(|change| change.by == Actor::KustomizeController) {
            let object = self.live_object(&change.object.id);
            let Some((object, owner)) = object.zip(change.owner.as_ref()) else { continue };
            let key = NamespacedName { namespace: owner.namespace.clone(), name: owner.name.clone() };
            let live = self.live.get(&key).map(|live| KustomizationSpec::of(live));
            let last = self.nodes.iter().rfind(|node| node.id.key == key).and_then(Node::last_pass);
            // A finalizer acts with the live spec.
            let spec = match change.cause {
                Some(_) => live.or_else(|| last.map(|pass| pass.spec.clone())),
                None => last.map(|pass| pass.spec.clone()).or(live),
            };
            deletions.extend(spec.map(|spec| PlannedDeletion { owner: key, spec, object }));
        }
        deletions
    }
}

fn kind_and_name(built: &BuiltObject) -> (String, String) {
    (built.id.kind.to_string(), built.id.name.to_string())
}
