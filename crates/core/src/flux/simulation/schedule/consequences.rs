//! Effects of one state of the Kustomizations on all objects.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::event_order::EventOrder;
use super::outcomes::{FinalState, PossibleOutcomes};
use crate::flux::controllers::foreign_finalizers;
use crate::flux::simulation::model::affected_owner::{Effect, OwnerDeletion};
use crate::flux::simulation::model::disclosure::Disclosed;
use crate::flux::simulation::model::held_deletions::Holders;
use crate::flux::simulation::model::node::SimulationEvent;
use crate::flux::simulation::model::refusals::{CascadeRefusal, CascadeRefusals};
use crate::kubernetes::deletion::cascade::{CascadeKind, CascadedObject};
use crate::kubernetes::deletion::volumes::PolicyChanges;
use crate::kubernetes::object::ObjectId;
use crate::plan::{Action, Actor, awaits_finalizer, if_deleted};

/// Effects of one state of the Kustomizations on all objects.
pub(crate) struct Consequences<'a> {
    pub(crate) outcomes: BTreeMap<ObjectId, PossibleOutcomes>,
    pub(crate) cascaded: BTreeMap<ObjectId, CascadedObject<'a>>,
    /// Objects that a cascade would delete if the API server did not refuse that.
    pub(crate) kept: BTreeMap<ObjectId, CascadedObject<'a>>,
    pub(crate) refusals: Arc<CascadeRefusals>,
    /// Reclaim policies of live volumes that change.
    pub(crate) policies: PolicyChanges,
    /// Order of the events that caused them.
    pub(crate) order: EventOrder,
    /// Effects of the owners that are deleted, or that stay and delete objects all the same.
    pub(crate) effects: BTreeMap<ObjectId, Disclosed<Arc<Effect>>>,
    pub(crate) holders: Arc<Holders>,
}

impl Consequences<'_> {
    /// Returns true if a live object is deleted in some order of events, in its own right or by a cascade.
    pub(crate) fn may_be_deleted(&self, id: &ObjectId) -> bool {
        self.may_be_deleted_beside(id, None)
    }

    /// Returns true if something else than the upgrade of a release deletes a live object in some order of events.
    pub(crate) fn may_be_deleted_beside(&self, id: &ObjectId, release: Option<&ObjectId>) -> bool {
        let is_own =
            |cascaded: &CascadedObject<'_>| cascaded.kind == CascadeKind::Upgrade && Some(&cascaded.cause) == release;
        self.outcomes.get(id).is_some_and(PossibleOutcomes::may_be_deleted)
            || self.cascaded.get(id).is_some_and(|cascaded| !is_own(cascaded))
    }

    /// Returns true if a live object is deleted and created again in some order of events.
    pub(crate) fn may_be_recreated(&self, id: &ObjectId) -> bool {
        self.outcomes.get(id).is_some_and(|outcomes| outcomes.may_end_as(FinalState::Recreated))
    }

    /// Returns true if every order of events deletes an object and creates it no more.
    pub(crate) fn is_gone(&self, id: &ObjectId) -> bool {
        self.outcomes.get(id).is_some_and(|outcomes| outcomes.always_ends_as(FinalState::Deleted))
    }

    /// Returns true if the namespace of an object is deleted and not created again.
    pub(crate) fn namespace_is_deleted(&self, id: &ObjectId) -> bool {
        !id.namespace.is_empty() && self.is_gone(&id.namespace_object())
    }

    /// Returns the events that started the cascade of a deletion, and true if every order of events starts it.
    pub(crate) fn triggers_of(&self, cascaded: &CascadedObject<'_>) -> Option<(BTreeSet<SimulationEvent>, bool)> {
        let root = self.root_of(&cascaded.cause);
        let is_certain = !self.is_doubtful(cascaded) && self.doubts(cascaded).is_empty();
        if let Some(effect) = self.acting(root) {
            let comes_first = self.owner_deletion(cascaded).is_some_and(|deletion| deletion.comes_first);
            return Some((effect.triggers.clone(), (comes_first || effect.is_certain()) && is_certain));
        }
        let outcomes = self.outcomes.get(root)?;
        Some((outcomes.deletions.clone(), is_certain))
    }

    /// Returns what the controller of an owner does that stays and deletes objects all the same.
    pub(crate) fn acting(&self, owner: &ObjectId) -> Option<&Effect> {
        self.effects.get(owner).filter(|_| !self.may_be_deleted(owner)).map(|effect| &***effect)
    }

    /// Returns the deletion of an object by the controller of its owner; `None` if something else deletes it.
    pub(crate) fn owner_deletion(&self, cascaded: &CascadedObject<'_>) -> Option<&OwnerDeletion> {
        let deletion = self.effects.get(&cascaded.cause)?.deletes.get(&cascaded.object.id)?;
        (deletion.kind == cascaded.kind).then_some(deletion)
    }

    /// Returns true if a deletion is not certain although all that it follows from is.
    fn is_doubtful(&self, cascaded: &CascadedObject<'_>) -> bool {
        self.owner_deletion(cascaded).is_some_and(|deletion| deletion.is_doubtful)
            || self.awaited_pod(cascaded).is_some()
            || self.open_refusal(cascaded).is_some()
            || self.may_lose_its_owners(cascaded)
    }

    /// Returns true if a Kustomization applies a dependent, which can remove the references to its owners before the garbage
    /// collector sees that they are gone.
    pub(crate) fn may_lose_its_owners(&self, cascaded: &CascadedObject<'_>) -> bool {
        let is_desired = self.outcomes.get(&cascaded.object.id).is_some_and(|outcomes| outcomes.is_desired);
        is_desired && matches!(cascaded.kind, CascadeKind::Dependent { .. })
    }

    /// Returns the message with which the API server refuses a deletion for certain.
    pub(crate) fn refusal(&self, cascaded: &CascadedObject<'_>) -> Option<&str> {
        match self.refusals.get(&(Actor::from(cascaded.kind), cascaded.object.id.clone()))? {
            CascadeRefusal::Refused(message) => Some(message),
            CascadeRefusal::Open(_) => None,
        }
    }

    /// Returns the condition on which the API server lets an object be deleted by a controller of Kubernetes. The namespace controller
    /// deletes all objects of a kind with one request, which stops at the first one that is refused (Kubernetes v1.36.3 `DeleteCollection`
    /// in apiserver/pkg/registry/generic/registry/store.go, with one worker).
    pub(crate) fn open_refusal(&self, cascaded: &CascadedObject<'_>) -> Option<String> {
        let by = Actor::from(cascaded.kind);
        let id = &cascaded.object.id;
        if let Some(CascadeRefusal::Open(condition)) = self.refusals.get(&(by, id.clone())) {
            return Some(condition.clone());
        }
        let is_content = cascaded.kind == CascadeKind::NamespaceContent;
        let mut refused = self.refusals.keys().filter(|(actor, _)| *actor == by && is_content).map(|(_, id)| id);
        let earlier = refused.find(|other| {
            other.namespace_object() == id.namespace_object()
                && other.name < id.name
                && other.group_kind() == id.group_kind()
        })?;
        Some(format!("the namespace controller may stop at {earlier}, which the server refuses it to delete"))
    }

    /// Returns what a container that is created again waits for, if the API server perhaps refuses to let its content be deleted.
    pub(crate) fn open_content(&self, container: &ObjectId) -> Option<String> {
        let mut content = self.cascaded.values().filter(|cascaded| cascaded.cause == *container);
        let (held, condition) = content.find_map(|cascaded| Some((cascaded, self.open_refusal(cascaded)?)))?;
        Some(format!("it is created again once {} is gone: {condition}", held.object.id))
    }

    /// Returns the Pod that finalizers keep in a deleted Namespace, and that must be gone before an object there is deleted.
    pub(crate) fn awaited_pod(&self, cascaded: &CascadedObject<'_>) -> Option<&ObjectId> {
        let is_content = cascaded.kind == CascadeKind::NamespaceContent && !cascaded.object.id.is("", "Pod");
        self.holders.pod_in(&cascaded.cause).filter(|_| is_content)
    }

    /// Returns why the deletions may not come that a deletion follows from, for people, the nearest first. A dependent follows
    /// from those of all its owners, and waits until each of them is gone.
    pub(crate) fn doubts(&self, cascaded: &CascadedObject<'_>) -> Vec<String> {
        let mut doubts = vec![];
        let mut seen = BTreeSet::from([&cascaded.object.id]);
        let mut queue = VecDeque::from([cascaded]);
        while let Some(next) = queue.pop_front() {
            doubts.extend(next.owners.iter().filter_map(|owner| {
                let finalizer = foreign_finalizers(owner).next()?;
                Some(awaits_finalizer(&owner.id, finalizer))
            }));
            // An owner that is being deleted already needs nothing else.
            let owners = next.owners.iter().filter(|owner| owner.deletion_timestamp.is_none()).map(|owner| &owner.id);
            for cause in owners.chain([&next.cause]) {
                if !seen.insert(cause) {
                    continue;
                }
                let cascaded = self.cascaded.get(cause);
                let may_stay = match cascaded {
                    Some(cascaded) => {
                        let acting = self.acting(&cascaded.cause);
                        self.is_doubtful(cascaded) || acting.is_some_and(|effect| !effect.is_certain())
                    }
                    None => {
                        let outcomes = self.outcomes.get(cause).filter(|_| self.acting(cause).is_none());
                        outcomes.is_some_and(|outcomes| !outcomes.is_deleted())
                    }
                };
                doubts.extend(may_stay.then(|| if_deleted(cause)));
                queue.extend(cascaded);
            }
        }
        doubts
    }

    /// Returns true if the controller of an owner deletes an object and it is created again.
    pub(crate) fn is_recreated_by_owner(&self, id: &ObjectId) -> bool {
        let deletion = self.cascaded.get(id).and_then(|cascaded| self.owner_deletion(cascaded));
        deletion.is_some_and(|deletion| deletion.action == Action::Recreate)
    }

    /// Returns true if the garbage collector deletes an object, for which nothing waits, or something that takes it along.
    pub(crate) fn is_collected(&self, id: &ObjectId) -> bool {
        let mut next = self.cascaded.get(id);
        for _ in 0..=self.cascaded.len() {
            match next {
                Some(CascadedObject { kind: CascadeKind::Dependent { .. }, .. }) => return true,
                Some(cascaded) => next = self.cascaded.get(&cascaded.cause),
                None => break,
            }
        }
        false
    }

    /// Returns the object whose deletion, or which acts and stays, started a cascade.
    pub(crate) fn root_of<'c>(&'c self, mut cause: &'c ObjectId) -> &'c ObjectId {
        for _ in 0..=self.cascaded.len() {
            match self.cascaded.get(cause) {
                Some(cascaded) => cause = &cascaded.cause,
                None => break,
            }
        }
        cause
    }
}
