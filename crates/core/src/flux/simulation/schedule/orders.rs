//! The orders in which the events of one object can happen.
//!
//! The events of a Kustomization happen one after the other, so that a state is the number of events that have happened
//! of each, and the object. The controller checks protections at the moment of each deletion, on the live object
//! (docs/reference/kustomize-controller.md 5.1).
//!
//! Kustomizations with the same effects and the same relations to all others are interchangeable: of the states that
//! differ only in which of them has done what, one is explored.

use std::collections::{HashMap, HashSet};

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
    /// The live object is deleted by force.
    Force,
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

impl Application {
    fn new(apply: &ObjectApply, deleters: &[&NamespacedName]) -> Self {
        Self {
            owner: position(deleters, &apply.owner_label),
            protects: apply.protects,
            only_if_absent: apply.only_if_absent,
            only_if_present: apply.only_if_present,
        }
    }
}

/// Returns the position of an owner among those that delete the object.
fn position(deleters: &[&NamespacedName], owner: &NamespacedName) -> Option<usize> {
    deleters.iter().position(|deleter| *deleter == owner)
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
        let applied = schedule.events.iter().filter_map(|scheduled| scheduled.effect.application());
        let named: HashSet<&NamespacedName> = applied.map(|apply| &apply.owner_label).chain(live_owner).collect();
        let mut deleters: Vec<&NamespacedName> = vec![];
        let mut prevented = vec![];
        for scheduled in &schedule.events {
            match &scheduled.effect {
                Effect::RefusedDeletion => prevented.push(&scheduled.event),
                Effect::Delete(owner) if !named.contains(owner) => prevented.push(&scheduled.event),
                Effect::Delete(owner) if !deleters.contains(&owner) => deleters.push(owner),
                _ => {}
            }
        }
        let mut by_node: Vec<(&NodeId, Sequence<'a>)> = vec![];
        for scheduled in &schedule.events {
            let step = match &scheduled.effect {
                Effect::RefusedDeletion => continue,
                Effect::Apply(apply) if apply.is_skipped => continue,
                Effect::Force => Step::Force,
                Effect::Apply(apply) => Step::Apply(Application::new(apply, &deleters)),
                Effect::Delete(owner) => match position(&deleters, owner) {
                    Some(owner) => Step::Delete(owner),
                    None => continue,
                },
            };
            let node = scheduled.event.node();
            if by_node.last().is_none_or(|(last, _)| *last != node) {
                by_node.push((node, Sequence { steps: vec![], events: vec![], positions: vec![] }));
            }
            let (_, sequence) = by_node.last_mut().expect("one was added");
            sequence.steps.push(step);
            sequence.events.push(&scheduled.event);
            sequence.positions.push(order.position(&scheduled.event));
        }
        let applied_last = schedule.final_applies.iter().filter(|apply| !apply.is_skipped);
        let final_applies = applied_last.map(|apply| Application::new(apply, &deleters)).collect();
        let sequences = by_node.into_iter().map(|(_, sequence)| sequence).collect();
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
            owner: self.live_owner.and_then(|owner| position(&self.deleters, owner)),
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
                let mut advanced = progress.clone();
                advanced[at] += 1;
                self.sort_interchangeable(&mut advanced);
                queue.push((advanced, after));
            }
        }
    }

    /// Returns the Kustomizations whose next event may be the next of all: one of those that are interchangeable and have
    /// done the same.
    fn next(&self, progress: &[usize]) -> Vec<usize> {
        let mut pending: Vec<(usize, Option<usize>)> = Vec::with_capacity(progress.len());
        for (at, sequence) in self.sequences.iter().enumerate() {
            pending.extend(sequence.positions.get(progress[at]).map(|position| (at, *position)));
        }
        let mut distinct = Vec::with_capacity(pending.len());
        let mut next = Vec::with_capacity(pending.len());
        for (at, position) in &pending {
            let at = *at;
            if at > 0 && self.class[at - 1] == self.class[at] && progress[at - 1] == progress[at] {
                continue;
            }
            distinct.push(at);
            if !pending.iter().any(|(other, earlier)| *other != at && self.order.is_before(*earlier, *position)) {
                next.push(at);
            }
        }
        // In a circle of triggers any event may be the first.
        if next.is_empty() { distinct } else { next }
    }

    /// Groups the interchangeable Kustomizations, and makes them neighbours.
    fn classify(&mut self) {
        let mut classes: Vec<Vec<usize>> = vec![];
        let mut alike: HashMap<Vec<[usize; 2]>, Vec<usize>> = HashMap::new();
        let events: Vec<Option<usize>> =
            self.sequences.iter().flat_map(|sequence| sequence.positions.clone()).collect();
        for at in 0..self.sequences.len() {
            // Only those with as many events before and after them can be interchangeable.
            let known = alike.entry(self.relations(at, &events)).or_default();
            match known.iter().find(|class| self.is_interchangeable(classes[**class][0], at)) {
                Some(class) => classes[*class].push(at),
                None => {
                    known.push(classes.len());
                    classes.push(vec![at]);
                }
            }
        }
        let mut sequences: Vec<Option<Sequence<'a>>> = self.sequences.drain(..).map(Some).collect();
        for class in classes {
            let first = self.sequences.len();
            self.class.extend(class.iter().map(|_| first));
            self.sequences.extend(class.into_iter().filter_map(|at| sequences[at].take()));
        }
    }

    /// Returns for each event of a Kustomization how many of all events come certainly before it, and after it.
    fn relations(&self, at: usize, events: &[Option<usize>]) -> Vec<[usize; 2]> {
        let count =
            |is_related: &dyn Fn(Option<usize>) -> bool| events.iter().filter(|event| is_related(**event)).count();
        let positions = self.sequences[at].positions.iter();
        let counts = positions.map(|own| {
            let earlier = count(&|event| self.order.is_before(event, *own));
            [earlier, count(&|event| self.order.is_before(*own, event))]
        });
        counts.collect()
    }

    /// Returns true if exchanging two Kustomizations changes no outcome. One that deletes the object stands for itself,
    /// because its deletions are reported.
    fn is_interchangeable(&self, a: usize, b: usize) -> bool {
        let (first, second) = (&self.sequences[a], &self.sequences[b]);
        if first.steps != second.steps || first.steps.iter().any(|step| !matches!(step, Step::Apply(_))) {
            return false;
        }
        let pairs: Vec<(Option<usize>, Option<usize>)> =
            first.positions.iter().copied().zip(second.positions.iter().copied()).collect();
        let others = self.sequences.iter().enumerate().filter(|(other, _)| *other != a && *other != b);
        let events: Vec<Option<usize>> = others.flat_map(|(_, sequence)| sequence.positions.iter().copied()).collect();
        pairs.iter().all(|(x, y)| {
            pairs.iter().all(|(other_x, other_y)| self.is_same_relation((*x, *other_y), (*y, *other_x)))
                && events.iter().all(|event| self.is_same_relation((*x, *event), (*y, *event)))
        })
    }

    /// Returns true if the two events of each pair have the same order.
    fn is_same_relation(
        &self,
        (x, other_x): (Option<usize>, Option<usize>),
        (y, other_y): (Option<usize>, Option<usize>),
    ) -> bool {
        self.order.is_before(x, other_x) == self.order.is_before(y, other_y)
            && self.order.is_before(other_x, x) == self.order.is_before(other_y, y)
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
            // What was created anew meanwhile is another object, about which the server was not asked.
            Step::Force if !state.exists || state.is_deleted => {}
            Step::Force => {
                outcomes.deletions.insert(event.clone());
                state = ObjectState { is_deleted: true, ..ObjectState::default() };
            }
            Step::Apply(apply) => self.apply(apply, &mut state),
            Step::Delete(_) if !state.exists => {}
            Step::Delete(owner) => {
                let is_prevented = state.owner != Some(owner) || state.is_protected;
                if !state.is_deleted {
                    let events = if is_prevented { &mut outcomes.prevented_deletions } else { &mut outcomes.deletions };
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
        let is_skipped =
            if state.exists { state.is_never_changed || apply.only_if_absent } else { apply.only_if_present };
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
