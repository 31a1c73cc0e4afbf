//! Changes that kustomize-controller would make and that the API server is asked about by dry-runs, and the deletions
//! that it refuses.
//!
//! Only what changes is asked about: an object with the manifest of the last applied revision is left out, if that
//! revision was built again and the controller applied it without an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::Preview;
use super::model::{Node, NodeId, PassOutcome, Unserved};
use crate::flux::apply::AppliedObject;
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::{self, Answers, BuildContext, Needs};
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::plan::{Action, Actor, Fidelity, Plan};

/// A refusal of the server to delete an object for a Kustomization.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeletionRefusal {
    /// Kustomization that deletes the object.
    pub owner: NamespacedName,
    /// Identity of the object.
    pub id: ObjectId,
    /// Message of the server.
    pub message: String,
}

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

impl<'a> Preview<'a> {
    /// Builds the last applied revisions that were verified. Call it when the preview is complete: the builds are known.
    pub fn applied_builds(&self, answers: &Answers) -> AppliedBuilds {
        let mut builds = BTreeMap::new();
        for (key, artifact) in &self.input.last_applied {
            let is_verified = self.input.fidelity.get(key) == Some(&Fidelity::Verified);
            let Some(live) = self.live.get(key).filter(|_| is_verified && self.is_ready(key)) else { continue };
            let (spec, mut needs) = (KustomizationSpec::of(live), Needs::default());
            let mut context = BuildContext::new(self.input.features, answers, &mut needs);
            let Ok(built) = build::build(artifact, key, &spec, &mut context) else { continue };
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
    pub fn changed_objects(&self, applied: &AppliedBuilds) -> Vec<AppliedObject> {
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
    pub fn planned_deletions(&self, plan: &Plan) -> Vec<PlannedDeletion<'a>> {
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

    /// Returns the Kustomizations that the server does not let delete an object.
    pub(super) fn refused_owners(&self, id: &ObjectId) -> BTreeSet<&NamespacedName> {
        let refusals = self.deletion_refusals.iter().filter(|refusal| refusal.id == *id);
        refusals.map(|refusal| &refusal.owner).collect()
    }

    /// Returns the message of the server about the deletion of an object by a Kustomization, if it refuses it.
    pub(super) fn deletion_refusal(&self, owner: &NamespacedName, id: &ObjectId) -> Option<&str> {
        let mut refusals = self.deletion_refusals.iter();
        let found = refusals.find(|refusal| refusal.owner == *owner && refusal.id == *id);
        found.map(|refusal| refusal.message.as_str())
    }

    /// Returns the first refusal that lets the pruning of a Kustomization, or its finalizer, fail.
    pub(super) fn failing_deletion(&self, node: &Node) -> Option<String> {
        // Older versions forget the object, and succeed in their next run.
        if node.deletion.is_none() && !self.input.features.retries_deletions {
            return None;
        }
        let is_gone = |id: &ObjectId| match node.last_pass().map(|pass| &pass.outcome) {
            _ if node.deletion.is_some() => true,
            Some(PassOutcome::Applied(objects)) => !objects.contains_key(id),
            _ => false,
        };
        // The API types are read anew for a service account and for another cluster, and an unknown one is an error.
        let reads_types =
            |spec: &KustomizationSpec| spec.is_remote() || self.input.flags.service_account(spec).is_some();
        let is_account = node.last_pass().is_some_and(|pass| reads_types(&pass.spec));
        let unserved = node.unserved.iter().filter(|(id, found)| is_account && found.is_certain && is_gone(id));
        if let Some((id, Unserved { version, .. })) = unserved.into_iter().next() {
            return Some(format!("the API server does not serve version {version} of {id}"));
        }
        let own = self.deletion_refusals.iter().filter(|refusal| refusal.owner == node.id.key);
        let mut failing = own.filter(|refusal| node.inventory.contains(&refusal.id) && is_gone(&refusal.id));
        failing.next().map(|refusal| format!("the server refuses to delete {}: {}", refusal.id, refusal.message))
    }
}

fn kind_and_name(built: &BuiltObject) -> (String, String) {
    (built.id.kind.to_string(), built.id.name.to_string())
}

/// Returns the objects of a plan that dry-runs would have to confirm: everything that kustomize-controller changes.
pub(super) fn unrehearsed(plan: &Plan) -> Vec<ObjectId> {
    let by_controller = plan.changes().iter().filter(|change| change.by == Actor::KustomizeController);
    let rows = by_controller.filter(|change| !matches!(change.action, Action::Keep | Action::Unknown));
    rows.map(|change| change.object.id.clone()).collect()
}
