//! The state of a preview, which every floor reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::affected_owner::{AffectedOwner, Effect, OwnerApply};
use super::disclosure::Disclosed;
use super::generated_artifacts::GeneratedArtifacts;
use super::held_deletions::Holders;
use super::input::PreviewInput;
use super::node::{Node, NodeId, Nodes, Pass, PassId};
use super::refusals::{CascadeRefusals, Delay, DeletionRefusal, ForcedDeletion, OwnerDoubts, OwnerRefusals, Refusal};
use super::secret_values::SecretValues;
use crate::flux::build::objects::defined_kind;
use crate::flux::generator::Generation;
use crate::flux::spec::{NamespacedName, SourceId, named_account};
use crate::helm::uninstall::StoredRelease;
use crate::kubernetes::deletion::cascade::Cascade;
use crate::kubernetes::deletion::namespaces::always_refused;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};

/// What Helm has stored of the releases of deleted owners, by owner, where it is known.
pub(crate) type StoredReleases = BTreeMap<ObjectId, StoredRelease>;

/// The state of a preview: what it reads, and what it found so far.
pub(crate) struct State<'a> {
    pub(crate) input: PreviewInput<'a>,
    /// Sources of the trees that keep the artifact that they have, because source-controller cannot pack the new revision by the
    /// spec that they have, with the reason.
    pub(crate) stuck_sources: BTreeMap<SourceId, String>,
    pub(crate) cascade: Cascade<'a>,
    pub(crate) holders: Arc<Holders>,
    pub(crate) live: BTreeMap<NamespacedName, &'a Resource>,
    /// A new revision puts more Kustomizations in the queue than there are workers that do not wait for health.
    pub(crate) exceeds_workers: bool,
    pub(crate) nodes: Nodes,
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) delays: Vec<Delay>,
    pub(crate) forced: Vec<ForcedDeletion>,
    /// Objects whose spec an apply changes and whose health a dependant waits for, or the run itself, with the
    /// Kustomizations that apply them.
    pub(crate) changed_health: BTreeSet<(NamespacedName, ObjectId)>,
    pub(crate) deletion_refusals: Vec<DeletionRefusal>,
    pub(crate) owner_refusals: OwnerRefusals,
    /// Requests of other owners that the API server accepts now and may refuse later.
    pub(crate) owner_doubts: Arc<OwnerDoubts>,
    pub(crate) cascade_refusals: Arc<CascadeRefusals>,
    pub(crate) stored_releases: StoredReleases,
    /// Live Kustomizations that depend on themselves, by source.
    pub(crate) cycles: BTreeMap<SourceId, BTreeSet<NamespacedName>>,
    /// Owners that the change affects in another way than by a new revision.
    pub(crate) affected: Vec<Disclosed<AffectedOwner>>,
    /// Artifacts of ArtifactGenerators.
    pub(crate) generated: GeneratedArtifacts,
    /// Values of the Secrets that were read.
    pub(crate) secrets: SecretValues,
    /// Results of generators so far, by everything that they depend on.
    pub(crate) generations: BTreeMap<String, Arc<Generation>>,
}

impl<'a> State<'a> {
    /// Returns true if the time for the computation is over.
    pub(crate) fn is_late(&self) -> bool {
        self.input.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub(crate) fn live_object(&self, id: &ObjectId) -> Option<&'a ObjectMetadata> {
        self.input.snapshot.object(id)
    }

    pub(crate) fn is_live(&self, id: &ObjectId) -> bool {
        self.live_object(id).is_some()
    }

    pub(crate) fn node(&self, id: &NodeId) -> Option<&Node> {
        let found = self.nodes.binary_search_by(|node| node.id.cmp(id)).ok()?;
        self.nodes.get(found)
    }

    pub(crate) fn pass(&self, id: &PassId) -> Option<&Pass> {
        self.node(&id.node)?.passes.get(id.number)
    }

    /// Returns the name of the account of a HelmRelease with this spec: the one that it names, or the default of helm-controller.
    ///
    /// Source: helm-controller v1.6.3 `internal/kube/impersonate.go`.
    pub(crate) fn release_account<'s>(&'s self, spec: &'s Value) -> Option<&'s str> {
        named_account(spec).or(self.input.helm_controller.default_service_account.as_deref())
    }

    /// Returns the source of which a pass builds.
    pub(crate) fn source_of_pass(&self, id: &PassId) -> Option<SourceId> {
        Some(self.pass(id)?.spec.source(&id.node.key.namespace))
    }

    /// Returns the lifetimes of a Kustomization, the live one first.
    pub(crate) fn lifetimes(&self, key: &NamespacedName) -> impl DoubleEndedIterator<Item = &Node> {
        [NodeId::live(key), NodeId::new(key)].into_iter().filter_map(|id| self.node(&id))
    }

    /// Returns the last pass of a Kustomization.
    pub(crate) fn last_pass(&self, key: &NamespacedName) -> Option<&Pass> {
        self.lifetimes(key).last().and_then(Node::last_pass)
    }

    /// Returns the Kustomizations that list, apply or delete each object.
    pub(crate) fn nodes_by_object(&self) -> BTreeMap<&ObjectId, Vec<&Node>> {
        let mut nodes_by_object: BTreeMap<&ObjectId, Vec<&Node>> = BTreeMap::new();
        for node in self.nodes.iter() {
            let applied = node.passes.iter().filter_map(Pass::applied_objects).flat_map(BTreeMap::keys);
            let forced = node.passes.iter().flat_map(|pass| pass.forced.keys());
            let ids: BTreeSet<&ObjectId> = node.inventory.iter().chain(applied).chain(forced).collect();
            for id in ids {
                nodes_by_object.entry(id).or_default().push(node);
            }
        }
        nodes_by_object
    }

    /// Returns an owner if the change affects it.
    pub(crate) fn affected_owner(&self, id: &ObjectId) -> Option<&AffectedOwner> {
        self.affected.iter().map(|owner| &**owner).find(|owner| owner.id == *id)
    }

    /// Returns the affected owners whose objects change, with what their controllers do.
    pub(crate) fn owner_effects(&self) -> impl Iterator<Item = (&ObjectId, &Arc<Effect>)> {
        self.affected.iter().filter_map(|owner| Some((&owner.id, owner.effect.as_ref()?)))
    }

    /// Returns the affected owners that apply objects, such as the ResourceSets that generate them.
    pub(crate) fn owner_applies(&self) -> impl Iterator<Item = (&ObjectId, &OwnerApply)> {
        self.owner_effects().filter_map(|(id, effect)| Some((id, effect.applies.as_ref()?)))
    }

    /// Returns the objects that other owners than Kustomizations apply at some time.
    pub(crate) fn generated_ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.owner_applies().flat_map(|(_, applies)| applies.steps().flat_map(BTreeMap::keys))
    }

    /// Returns the message of the server about the deletion of an object by the controller of a deleted owner, if it refuses it.
    pub(crate) fn owner_refusal(&self, owner: &ObjectId, id: &ObjectId) -> Option<&str> {
        let refusal = self.owner_refusals.get(&(owner.clone(), id.clone()));
        refusal.map(String::as_str).or_else(|| always_refused(id))
    }

    /// Returns true if only an owner other than a Kustomization applies an object, and not in the end.
    pub(crate) fn applies_for_a_while(&self, id: &ObjectId) -> bool {
        self.nodes.applying(id).next().is_none() && !self.is_generated(id)
    }

    /// Returns true if another owner than a Kustomization applies an object after the change.
    pub(crate) fn is_generated(&self, id: &ObjectId) -> bool {
        self.owner_applies().any(|(_, applies)| applies.objects.contains_key(id))
    }
}

impl State<'_> {
    /// Returns true if an object does not exist and no Kustomization applies it.
    pub(crate) fn is_absent(&self, id: &ObjectId) -> bool {
        self.input.snapshot.lacks(id) && self.nodes.applying(id).next().is_none()
    }

    /// Returns true if an object does not exist and nothing creates it.
    pub(crate) fn stays_absent(&self, id: &ObjectId) -> bool {
        self.is_absent(id) && !self.is_generated(id)
    }

    /// Returns true if the API server does not serve the kind of an object, and nothing defines it.
    pub(crate) fn stays_unserved(&self, id: &ObjectId) -> bool {
        let kind = id.group_kind();
        let cluster = self.input.snapshot.of_cluster(id.cluster.as_ref());
        let passes = self.nodes.iter().flat_map(|node| &node.passes);
        let applied = passes.filter_map(Pass::applied_objects);
        let by_others = self.owner_applies().flat_map(|(_, applies)| applies.steps());
        let mut built = applied.chain(by_others).flat_map(BTreeMap::values);
        cluster.is_some_and(|cluster| cluster.lacks_type(&kind))
            && !built.any(|built| defined_kind(built).is_some_and(|(defined, _)| defined == kind))
    }

    /// Returns true if a live Kustomization is ready, or was before the reconciliation that is in progress.
    pub(crate) fn is_ready(&self, key: &NamespacedName) -> bool {
        let Some(live) = self.live.get(key) else { return false };
        let applied = live.text("/status/lastAppliedRevision");
        let has_succeeded = applied.is_some() && applied == live.text("/status/lastAttemptedRevision");
        live.condition("Ready").is_some_and(|ready| {
            ready.status == "True" || (ready.status == "Unknown" && ready.reason == "Progressing" && has_succeeded)
        })
    }
}
