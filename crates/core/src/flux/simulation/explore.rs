//! The possible outcomes of one object: every order of events that can happen is explored.
//!
//! If every order has the same result, the result is certain; otherwise it is a race. The controller checks protections
//! at the moment of each deletion, on the live object (docs/reference/kustomize-controller.md 5.1).

use std::collections::{BTreeSet, HashSet};

use super::event_order::EventOrder;
use super::model::{Node, SimulationEvent};
use super::protection::{is_foreign_protection, is_never_changed, live_owner, prune_protection};
use super::schedule::{Branch, Effect, ObjectApply, Schedule, ScheduleContext, ScheduledEvent};
use crate::flux::kustomize_controller::Features;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};

/// Maximum number of branches that are explored; further ones are assumed to happen.
const MAX_BRANCHES: usize = 5;
/// Maximum number of events of one object.
const MAX_EVENTS: usize = 64;

/// State of an object after all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FinalState {
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
pub(super) struct PossibleOutcomes {
    pub(super) final_states: BTreeSet<FinalState>,
    /// Events that delete the live object in some order.
    pub(super) deletions: BTreeSet<SimulationEvent>,
    /// Deletions that a protection or the label of another owner prevents in some order.
    pub(super) prevented_deletions: BTreeSet<SimulationEvent>,
    /// A Kustomization that is not deleted applies the object in the end.
    pub(super) is_desired: bool,
    /// Kustomizations that apply the object.
    pub(super) appliers: BTreeSet<NamespacedName>,
}

impl PossibleOutcomes {
    /// Returns true if every order of events deletes the live object.
    pub(super) fn is_deleted(&self) -> bool {
        !self.final_states.is_empty() && self.final_states.iter().all(|state| state.is_deletion())
    }

    /// Returns true if some order of events deletes the live object.
    pub(super) fn may_be_deleted(&self) -> bool {
        self.final_states.iter().any(|state| state.is_deletion())
    }

    /// Returns true if some order of events has this result.
    pub(super) fn may_end_as(&self, state: FinalState) -> bool {
        self.final_states.contains(&state)
    }

    /// Returns true if every order of events has this result.
    pub(super) fn always_ends_as(&self, state: FinalState) -> bool {
        self.final_states.iter().all(|found| *found == state)
    }
}

impl FinalState {
    fn is_deletion(self) -> bool {
        matches!(self, Self::Deleted | Self::Recreated)
    }
}

/// State of an object between two events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct ObjectState {
    exists: bool,
    /// The live object was deleted.
    is_deleted: bool,
    /// Owner that its labels name.
    owner: Option<NamespacedName>,
    is_protected: bool,
    /// Labels or annotations make the controller leave the object unchanged.
    is_never_changed: bool,
}

impl ObjectState {
    fn of(live: Option<&ObjectMetadata>, features: Features) -> Self {
        let Some(object) = live else { return Self::default() };
        Self {
            exists: true,
            is_deleted: false,
            owner: live_owner(object),
            is_protected: prune_protection(object, features).is_some(),
            is_never_changed: is_never_changed(object),
        }
    }
}

/// Explores every order of the events of one object. `live` is its metadata if it exists, and `refused` are the
/// Kustomizations that the server does not let delete it.
pub(super) fn explore(
    id: &ObjectId,
    live: Option<&ObjectMetadata>,
    nodes: &[&Node],
    order: &EventOrder,
    features: Features,
    refused: &BTreeSet<&NamespacedName>,
) -> PossibleOutcomes {
    let mut outcomes = PossibleOutcomes::default();
    let branches = Branch::collect(id, nodes);
    let state = ObjectState::of(live, features);
    let keeps_protection = live.is_some_and(|object| state.is_protected && is_foreign_protection(object));
    for mask in 0..1_usize << branches.len().min(MAX_BRANCHES) {
        let happens = |branch: &Branch| match branches.iter().position(|other| other == branch) {
            Some(at) => mask >> at & 1 == 1,
            None => true,
        };
        let context = ScheduleContext { id, exists: live.is_some(), happens: &happens, features };
        let schedule = Schedule::new(nodes, &context);
        outcomes.is_desired |= !schedule.final_applies.is_empty();
        outcomes.appliers.extend(schedule.appliers().cloned());
        let mut explorer = Explorer {
            order,
            schedule: &schedule,
            refused,
            keeps_protection,
            existed: live.is_some(),
            seen: HashSet::new(),
            outcomes: &mut outcomes,
        };
        explorer.explore(0, state.clone());
    }
    outcomes
}

struct Explorer<'a> {
    order: &'a EventOrder,
    schedule: &'a Schedule,
    refused: &'a BTreeSet<&'a NamespacedName>,
    /// The protection of the live object belongs to another field manager, so that it survives an apply.
    keeps_protection: bool,
    existed: bool,
    seen: HashSet<(u64, ObjectState)>,
    outcomes: &'a mut PossibleOutcomes,
}

impl Explorer<'_> {
    /// Explores every event that may be next; `done` is a bit set of the events that have happened.
    fn explore(&mut self, done: u64, state: ObjectState) {
        if !self.seen.insert((done, state.clone())) {
            return;
        }
        let pending: Vec<usize> =
            (0..self.schedule.events.len().min(MAX_EVENTS)).filter(|at| done >> at & 1 == 0).collect();
        if pending.is_empty() {
            self.finish(state);
            return;
        }
        let events = &self.schedule.events;
        let is_after = |at: usize, other: usize| self.order.is_before(&events[other].event, &events[at].event);
        let mut next = pending.clone();
        next.retain(|at| !pending.iter().any(|other| other != at && is_after(*at, *other)));
        if next.is_empty() {
            // In a circle of triggers any event may be the first.
            next = pending;
        }
        for at in next {
            let state = self.after(&self.schedule.events[at], state.clone());
            self.explore(done | 1 << at, state);
        }
    }

    /// Returns the state after an event.
    fn after(&mut self, scheduled: &ScheduledEvent, mut state: ObjectState) -> ObjectState {
        match &scheduled.effect {
            Effect::Apply(apply) => self.apply(apply, &mut state),
            Effect::Delete(_) if !state.exists => {}
            Effect::Delete(owner) => {
                let is_prevented =
                    state.owner.as_ref() != Some(owner) || state.is_protected || self.refused.contains(owner);
                if !state.is_deleted {
                    let events = match is_prevented {
                        true => &mut self.outcomes.prevented_deletions,
                        false => &mut self.outcomes.deletions,
                    };
                    events.insert(scheduled.event.clone());
                }
                if !is_prevented {
                    state = ObjectState { is_deleted: true, ..ObjectState::default() };
                }
            }
        }
        state
    }

    fn apply(&self, apply: &ObjectApply, state: &mut ObjectState) {
        if apply.is_skipped || (state.exists && (state.is_never_changed || apply.only_if_absent)) {
            return;
        }
        state.exists = true;
        state.owner = Some(apply.owner_label.clone());
        state.is_protected = apply.protects || (self.keeps_protection && !state.is_deleted);
    }

    /// Records the final state. Every Kustomization that is not deleted applies once more, at the latest at its next
    /// interval.
    fn finish(&mut self, mut state: ObjectState) {
        for apply in &self.schedule.final_applies {
            self.apply(apply, &mut state);
        }
        self.outcomes.final_states.insert(match (self.existed, state.exists) {
            (true, true) if state.is_deleted => FinalState::Recreated,
            (true, true) => FinalState::Kept,
            (true, false) => FinalState::Deleted,
            (false, true) => FinalState::Created,
            (false, false) => FinalState::Absent,
        });
    }
}
