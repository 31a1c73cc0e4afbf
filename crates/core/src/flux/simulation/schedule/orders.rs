//! The orders in which the events of one object can happen.
//!
//! The events of a Kustomization happen one after the other, so that a state is the number of events that have happened
//! of each, and the object. The controller checks protections at the moment of each deletion, on the live object
//! (docs/reference/kustomize-controller.md 5.1).
//!
//! Kustomizations with the same effects and the same relations to all others are interchangeable: of the states that
//! differ only in which of them has done what, one is explored.

use std::collections::HashSet;

use super::event_order::EventOrder;
use super::object_events::{Effect, ObjectApply, Schedule};
use super::outcomes::{FinalState, PossibleOutcomes, Rules};
use crate::flux::simulation::model::node::{NodeId, SimulationEvent};
use crate::flux::simulation::model::protection::{is_foreign_protection, is_never_changed, prune_protection};
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::ObjectMetadata;

/// An event of a Kustomization as far as it matters for the object. Owners are positions in [`Orders::deleters`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Apply(Application),
    Delete(usize),
}

/// Application of the object that is not skipped.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Application {
    /// Owner that the labels name afterwards, if it deletes the object at some time.
    owner: Option<usize>,
    protects: bool,
    only_if_absent: bool,
    only_if_present: bool,
}

/// State of the object between two events.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct ObjectState {
    exists: bool,
    /// The live object was deleted.
    is_deleted: bool,
    /// Owner that its labels name, if it deletes the object at some time.
    owner: Option<usize>,
    is_protected: bool,
    /// Labels or annotations make the controller leave the object unchanged.
    is_never_changed: bool,
}

/// The events of one Kustomization, in their order.
struct Sequence<'a> {
    steps: Vec<Step>,
    events: Vec<&'a SimulationEvent>,
    /// Position of each event in the order of all events.
    positions: Vec<Option<usize>>,
}

/// All orders of the events of one schedule.
pub(crate) struct Orders<'a> {
    order: &'a EventOrder,
    live: Option<&'a ObjectMetadata>,
    /// Owner that the labels of the live object name when the change arrives.
    live_owner: Option<&'a NamespacedName>,
    /// Owners that delete the object when its labels name them.
    deleters: Vec<&'a NamespacedName>,
    /// Deletions by owners that the labels never name.
    prevented: Vec<&'a SimulationEvent>,
    /// The events of each Kustomization; interchangeable ones are neighbours.
    sequences: Vec<Sequence<'a>>,
    /// For each Kustomization the first one of those that it is interchangeable with.
    class: Vec<usize>,
    final_applies: Vec<Application>,
}

impl<'a> Orders<'a> {
    /// Collects the events that can change the object.
    pub(crate) fn new(
        schedule: &'a Schedule,
        order: &'a EventOrder,
        live: Option<&'a ObjectMetadata>,
        live_owner: Option<&'a NamespacedName>,
    ) -> Self {
        let names = |owner: &NamespacedName| {
            let applied = schedule.events.iter().filter_map(|scheduled| scheduled.effect.application());
            live_owner == Some(owner) || applied.into_iter().any(|apply| apply.owner_label == *owner)
        };
        let mut deleters: Vec<&NamespacedName> = vec![];
        let mut prevented = vec![];
        for scheduled in &schedule.events {
            match &scheduled.effect {
                Effect::RefusedDeletion => prevented.push(&scheduled.event),
                Effect::Delete(owner) if !names(owner) => prevented.push(&scheduled.event),
                Effect::Delete(owner) if !deleters.contains(&owner) => deleters.push(owner),
                _ => {}
            }
        }
        let position = |owner: &NamespacedName| deleters.iter().position(|deleter| *deleter == owner);
        let application = |apply: &ObjectApply| Application {
            owner: position(&apply.owner_label),
            protects: apply.protects,
            only_if_absent: apply.only_if_absent,
            only_if_present: apply.only_if_present,
        };
        let mut sequences: Vec<(&NodeId, Sequence<'a>)> = vec![];
        for scheduled in &schedule.events {
            let step = match &scheduled.effect {
                Effect::RefusedDeletion => continue,
                Effect::Apply(apply) if apply.is_skipped => continue,
                Effect::Apply(apply) => Step::Apply(application(apply)),
                Effect::Delete(owner) => match position(owner) {
                    Some(owner) => Step::Delete(owner),
                    None => continue,
                },
            };
            let node = scheduled.event.node();
            if sequences.last().is_none_or(|(last, _)| *last != node) {
                sequences.push((node, Sequence { steps: vec![], events: vec![], positions: vec![] }));
            }
            let (_, sequence) = sequences.last_mut().expect("one was added");
            sequence.steps.push(step);
            sequence.events.push(&scheduled.event);
            sequence.positions.push(order.position(&scheduled.event));
        }
        let final_applies = schedule.final_applies.iter().filter(|apply| !apply.is_skipped).map(application).collect();
        let sequences = sequences.into_iter().map(|(_, sequence)| sequence).collect();
        let mut orders = Self { order, live, live_owner, deleters, prevented, sequences, class: vec![], final_applies };
        orders.classify();
        orders
    }

    /// Explores every order that begins with the live object. Each explored state takes the number of
    /// Kustomizations off `steps`; when too few are left, the outcomes are incomplete.
    pub(crate) fn explore(&self, rules: Rules<'_>, steps: &mut usize, outcomes: &mut PossibleOutcomes) {
        let live = self.live;
        if live.is_some() {
            outcomes.prevented_deletions.extend(self.prevented.iter().copied().cloned());
        }
        let state = live.map_or_else(ObjectState::default, |object| ObjectState {
            exists: true,
            is_deleted: false,
            owner: self.live_owner.and_then(|owner| self.deleters.iter().position(|deleter| *deleter == owner)),
            is_protected: prune_protection(object, rules.features).is_some(),
            is_never_changed: is_never_changed(object),
        });
        // Its protection belongs to another field manager, so that it survives an apply.
        let keeps_protection =
            live.is_some_and(|object| state.is_protected && is_foreign_protection(object, rules.flags));
        let explorer = Explorer { orders: self, keeps_protection, existed: live.is_some() };
        let mut seen = HashSet::new();
        let mut queue = vec![(vec![0_usize; self.sequences.len()], state)];
        while let Some((progress, state)) = queue.pop() {
            if !seen.insert((progress.clone(), state)) {
                continue;
            }
            let Some(left) = steps.checked_sub(self.sequences.len()) else {
                outcomes.is_incomplete = true;
                return;
            };
            *steps = left;
            let next = self.next(&progress);
            if next.is_empty() {
                outcomes.final_states.insert(explorer.final_state(state));
            }
            for at in next {
                let done = progress[at];
                let sequence = &self.sequences[at];
                let after = explorer.after(sequence.steps[done], sequence.events[done], state, outcomes);
                let mut progress = progress.clone();
                progress[at] += 1;
                self.sort_interchangeable(&mut progress);
                queue.push((progress, after));
            }
        }
    }

    /// Returns the Kustomizations whose next event may be the next of all: one of those that are interchangeable and have
    /// done the same.
    fn next(&self, progress: &[usize]) -> Vec<usize> {
        let position = |at: usize| self.sequences[at].positions[progress[at]];
        let is_done = |at: usize| progress[at] == self.sequences[at].steps.len();
        let pending: Vec<usize> = (0..progress.len()).filter(|at| !is_done(*at)).collect();
        let is_distinct =
            |at: usize| at == 0 || self.class[at - 1] != self.class[at] || progress[at - 1] != progress[at];
        let is_first = |at: usize| {
            !pending.iter().any(|other| *other != at && self.order.is_before(position(*other), position(at)))
        };
        let distinct: Vec<usize> = pending.iter().copied().filter(|at| is_distinct(*at)).collect();
        let next: Vec<usize> = distinct.iter().copied().filter(|at| is_first(*at)).collect();
        // In a circle of triggers any event may be the first.
        if next.is_empty() { distinct } else { next }
    }

    /// Groups the interchangeable Kustomizations, and makes them neighbours.
    fn classify(&mut self) {
        let mut classes: Vec<Vec<usize>> = vec![];
        for at in 0..self.sequences.len() {
            match classes.iter().position(|class| self.is_interchangeable(class[0], at)) {
                Some(class) => classes[class].push(at),
                None => classes.push(vec![at]),
            }
        }
        let mut sequences: Vec<Option<Sequence<'a>>> = self.sequences.drain(..).map(Some).collect();
        for class in classes {
            let first = self.sequences.len();
            self.class.extend(class.iter().map(|_| first));
            self.sequences.extend(class.into_iter().filter_map(|at| sequences[at].take()));
        }
    }

    /// Returns true if exchanging two Kustomizations changes no outcome. One that deletes the object stands for itself,
    /// because its deletions are reported.
    fn is_interchangeable(&self, a: usize, b: usize) -> bool {
        let (first, second) = (&self.sequences[a], &self.sequences[b]);
        let deletes = first.steps.iter().any(|step| matches!(step, Step::Delete(_)));
        let is_before = |x: Option<usize>, y: Option<usize>| self.order.is_before(x, y);
        let is_same_relation = |x: Option<usize>, other_x: Option<usize>, y: Option<usize>, other_y: Option<usize>| {
            is_before(x, other_x) == is_before(y, other_y) && is_before(other_x, x) == is_before(other_y, y)
        };
        let pairs = || first.positions.iter().copied().zip(second.positions.iter().copied());
        let others = || (0..self.sequences.len()).filter(|other| *other != a && *other != b);
        !deletes
            && first.steps == second.steps
            && pairs().all(|(x, y)| {
                let is_same_to = |other: usize| {
                    self.sequences[other].positions.iter().all(|event| is_same_relation(x, *event, y, *event))
                };
                pairs().all(|(other_x, other_y)| is_same_relation(x, other_y, y, other_x)) && others().all(is_same_to)
            })
    }

    /// Replaces a state by the one that stands for all that differ only in interchangeable Kustomizations.
    fn sort_interchangeable(&self, progress: &mut [usize]) {
        for class in self.class.chunk_by(|a, b| a == b) {
            progress[class[0]..class[0] + class.len()].sort_unstable();
        }
    }
}

struct Explorer<'a> {
    orders: &'a Orders<'a>,
    /// The protection of the live object survives an apply.
    keeps_protection: bool,
    existed: bool,
}

impl Explorer<'_> {
    /// Returns the state after an event, and records what it deletes or fails to delete.
    fn after(
        &self,
        step: Step,
        event: &SimulationEvent,
        mut state: ObjectState,
        outcomes: &mut PossibleOutcomes,
    ) -> ObjectState {
        match step {
            Step::Apply(apply) => self.apply(apply, &mut state),
            Step::Delete(_) if !state.exists => {}
            Step::Delete(owner) => {
                let is_prevented = state.owner != Some(owner) || state.is_protected;
                if !state.is_deleted {
                    let events = match is_prevented {
                        true => &mut outcomes.prevented_deletions,
                        false => &mut outcomes.deletions,
                    };
                    events.insert(event.clone());
                }
                if !is_prevented {
                    state = ObjectState { is_deleted: true, ..ObjectState::default() };
                }
            }
        }
        state
    }

    fn apply(&self, apply: Application, state: &mut ObjectState) {
        let is_skipped = match state.exists {
            true => state.is_never_changed || apply.only_if_absent,
            false => apply.only_if_present,
        };
        if is_skipped {
            return;
        }
        state.exists = true;
        state.owner = apply.owner;
        state.is_protected = apply.protects || (self.keeps_protection && !state.is_deleted);
    }

    /// Returns the final state. Every Kustomization that is not deleted applies once more, at the latest at its next
    /// interval.
    fn final_state(&self, mut state: ObjectState) -> FinalState {
        for apply in &self.orders.final_applies {
            self.apply(*apply, &mut state);
        }
        match (self.existed, state.exists) {
            (true, true) if state.is_deleted => FinalState::Recreated,
            (true, true) => FinalState::Kept,
            (true, false) => FinalState::Deleted,
            (false, true) => FinalState::Created,
            (false, false) => FinalState::Absent,
        }
    }
}
