//! Effects of one state of the Kustomizations on all objects.

use std::collections::{BTreeMap, BTreeSet};

use super::event_order::EventOrder;
use super::outcomes::{FinalState, PossibleOutcomes};
use crate::flux::simulation::model::node::SimulationEvent;
use crate::kubernetes::deletion::cascade::CascadedObject;
use crate::kubernetes::object::ObjectId;

/// Effects of one state of the Kustomizations on all objects.
pub(crate) struct Consequences<'a> {
    pub(crate) outcomes: BTreeMap<ObjectId, PossibleOutcomes>,
    pub(crate) cascaded: BTreeMap<ObjectId, CascadedObject<'a>>,
    /// Order of the events that caused them.
    pub(crate) order: EventOrder,
    /// Owners that stay and delete objects all the same.
    pub(crate) acting: BTreeMap<ObjectId, ActingOwner>,
}

/// An owner that stays and deletes objects all the same: a HelmRelease whose release is replaced or upgraded, a generator that
/// makes fewer artifacts, or a ResourceSet that generates fewer resources.
pub(crate) struct ActingOwner {
    /// Events that make it delete.
    pub(crate) triggers: BTreeSet<SimulationEvent>,
    /// Every order of events has these deletions, except those in `doubtful`.
    pub(crate) is_certain: bool,
    pub(crate) doubtful: BTreeSet<ObjectId>,
}

impl Consequences<'_> {
    /// Returns true if a live object is deleted in some order of events, in its own right or by a cascade.
    pub(crate) fn may_be_deleted(&self, id: &ObjectId) -> bool {
        self.outcomes.get(id).is_some_and(PossibleOutcomes::may_be_deleted) || self.cascaded.contains_key(id)
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
        match self.acting.get(root) {
            Some(owner) => Some((owner.triggers.clone(), owner.is_certain && !self.is_doubtful(cascaded))),
            None => self.outcomes.get(root).map(|outcomes| (outcomes.deletions.clone(), outcomes.is_deleted())),
        }
    }

    /// Returns true if a deletion, or one that it follows from, is not certain although its owner acts for certain.
    pub(crate) fn is_doubtful(&self, cascaded: &CascadedObject<'_>) -> bool {
        let Some(owner) = self.acting.get(self.root_of(&cascaded.cause)) else { return false };
        let mut id = &cascaded.object.id;
        for _ in 0..=self.cascaded.len() {
            match self.cascaded.get(id) {
                _ if owner.doubtful.contains(id) => return true,
                Some(next) => id = &next.cause,
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
