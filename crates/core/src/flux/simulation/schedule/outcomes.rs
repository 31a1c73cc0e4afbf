//! The possible outcomes of one object over all orders of events.

use std::collections::BTreeSet;

use crate::flux::controller_flags::ControllerFlags;
use crate::flux::kustomize_controller::Features;
use crate::flux::simulation::model::node::{NodeId, SimulationEvent};
use crate::flux::spec::NamespacedName;

/// Rules of the controller that decide about an object.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) features: Features,
    pub(crate) flags: &'a ControllerFlags,
}

/// State of an object after all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FinalState {
    /// The object with the same uid exists.
    Kept,
    /// Another object with the same identity exists.
    Recreated,
    /// The object does not exist any more.
    Deleted,
    /// The object is new.
    Created,
    /// The object did not exist before and does not exist now.
    Absent,
}

/// The outcomes of one object over all orders of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PossibleOutcomes {
    pub(crate) final_states: BTreeSet<FinalState>,
    /// Events that delete the live object in some order.
    pub(crate) deletions: BTreeSet<SimulationEvent>,
    /// Deletions that a protection or the label of another owner prevents in some order.
    pub(crate) prevented_deletions: BTreeSet<SimulationEvent>,
    /// A Kustomization that is not deleted applies the object in the end.
    pub(crate) is_desired: bool,
    /// Kustomizations that apply the object.
    pub(crate) appliers: BTreeSet<NamespacedName>,
    /// Owners that the labels of the live object can name when the change arrives.
    pub(crate) live_owners: BTreeSet<NamespacedName>,
    /// There are more orders than the limits allow to explore, so that other results are possible.
    pub(crate) is_incomplete: bool,
}

impl PossibleOutcomes {
    /// Adds that a new Kustomization which applies a live object may be deleted with it, and applied again.
    pub(crate) fn add_restart(&mut self, of: &NodeId) {
        if self.may_end_as(FinalState::Kept) && self.is_desired {
            self.final_states.insert(FinalState::Recreated);
            self.deletions.insert(SimulationEvent::Finalize(of.clone()));
        }
    }

    /// Returns one certain result.
    pub(crate) fn of_state(state: FinalState) -> Self {
        Self { final_states: BTreeSet::from([state]), ..Self::default() }
    }

    /// Returns the outcomes of a live object that was deleted before, from those of an object that does not exist.
    pub(crate) fn after_deletion(mut self) -> Self {
        let states = std::mem::take(&mut self.final_states).into_iter();
        self.final_states = states
            .map(|state| match state {
                FinalState::Created | FinalState::Recreated | FinalState::Kept => FinalState::Recreated,
                FinalState::Absent | FinalState::Deleted => FinalState::Deleted,
            })
            .collect();
        self
    }

    /// Returns true if every order of events has the same result.
    pub(crate) fn is_certain(&self) -> bool {
        self.final_states.len() == 1 && !self.is_incomplete
    }

    /// Returns true if every order of events deletes the live object.
    pub(crate) fn is_deleted(&self) -> bool {
        !self.final_states.is_empty()
            && !self.is_incomplete
            && self.final_states.iter().all(|state| state.is_deletion())
    }

    /// Returns true if some order of events deletes the live object.
    pub(crate) fn may_be_deleted(&self) -> bool {
        self.final_states.iter().any(|state| state.is_deletion())
    }

    /// Returns true if some order of events has this result.
    pub(crate) fn may_end_as(&self, state: FinalState) -> bool {
        self.final_states.contains(&state)
    }

    /// Returns true if every order of events has this result.
    pub(crate) fn always_ends_as(&self, state: FinalState) -> bool {
        !self.is_incomplete && self.final_states.iter().all(|found| *found == state)
    }
}

impl FinalState {
    fn is_deletion(self) -> bool {
        matches!(self, Self::Deleted | Self::Recreated)
    }
}
