//! What becomes of one object: every order of events that can happen is played through.
//!
//! An object that ends alike in all of them has a certain fate; otherwise its fate is a race. The guards of the
//! controller (reference kustomize-controller 1.4) are judged at the moment of each deletion, on what is live then.

use std::collections::{BTreeSet, HashSet};

use super::explore::Graph;
use super::model::{Finalization, Node, PassOutcome, SimulationEvent};
use crate::flux::build::objects::BuiltObject;
use crate::flux::kustomize_controller::Features;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ManagedFieldsEntry, ObjectId, ObjectMetadata};
use crate::ownership::schemes::flux_kustomization::{NAME, NAMESPACE, PRUNE, RECONCILE, SSA};

/// How an object ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FinalState {
    /// The same uid is still there.
    Stays,
    /// Another object of the same identity is there.
    ComesBack,
    /// It is gone.
    Goes,
    /// It is new.
    Appears,
    /// It was not there and is not there.
    Never,
}

/// The ends that are possible, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PossibleOutcomes {
    /// Every possible end.
    pub ends: BTreeSet<FinalState>,
    /// The events that deleted the live object in any order.
    pub deleters: BTreeSet<SimulationEvent>,
    /// Deletions that a guard or a foreign label stopped, in any order.
    pub spared: BTreeSet<SimulationEvent>,
    /// Whether a Kustomization that stays wants the object in the end.
    pub wanted: bool,
    /// Kustomizations that apply the object.
    pub appliers: BTreeSet<NamespacedName>,
}

impl PossibleOutcomes {
    /// Whether the live object goes in every order.
    pub fn surely_goes(&self) -> bool {
        !self.ends.is_empty() && self.ends.iter().all(|end| matches!(end, FinalState::Goes | FinalState::ComesBack))
    }

    /// Whether the live object goes in some order.
    pub fn may_go(&self) -> bool {
        self.ends.iter().any(|end| matches!(end, FinalState::Goes | FinalState::ComesBack))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SimulationState {
    exists: bool,
    replaced: bool,
    labelled: Option<NamespacedName>,
    guarded: bool,
    frozen: bool,
}

/// What an event does to the object.
#[derive(Clone)]
enum Effect {
    Apply(Applied),
    Delete(NamespacedName),
}

#[derive(Clone)]
struct Applied {
    label: NamespacedName,
    guarded: bool,
    skipped: bool,
    only_if_absent: bool,
}

impl Applied {
    /// Whether the object is in the inventory afterwards.
    fn is_listed(&self, exists: bool, features: Features) -> bool {
        !features.forgets_skipped || !(self.skipped || (self.only_if_absent && exists))
    }
}

/// Plays all orders for one object. `live` is its metadata where it exists.
pub fn play(
    id: &ObjectId,
    live: Option<&ObjectMetadata>,
    nodes: &[&Node],
    graph: &Graph,
    features: Features,
) -> PossibleOutcomes {
    let mut fate = PossibleOutcomes::default();
    let toggles = Branch::collect(id, nodes);
    let start = start(live, features);
    // A guard that somebody else wrote survives an application.
    let foreign_guard = live.is_some_and(|object| start.guarded && guard_is_foreign(object));
    for mask in 0..1_usize << toggles.len().min(5) {
        let on =
            |toggle: &Branch| toggles.iter().position(|other| other == toggle).is_none_or(|at| mask >> at & 1 == 1);
        let script = Schedule::new(id, live.is_some(), nodes, &on, features);
        fate.wanted |= !script.settle.is_empty();
        fate.appliers.extend(script.appliers());
        let mut player = Explorer {
            graph,
            script: &script,
            foreign_guard,
            existed: live.is_some(),
            seen: HashSet::new(),
            fate: &mut fate,
        };
        player.play(0, start.clone());
    }
    fate
}

/// Something that may or may not happen.
#[derive(Clone, PartialEq)]
enum Branch {
    Pass(usize),
    Removal(usize),
    Finalization(usize),
    /// Whether the finalizer knows what the last reconciliation has just created; it may read an older inventory.
    Listing(usize),
    StaleInventory(usize, usize),
}

impl Branch {
    fn collect(id: &ObjectId, nodes: &[&Node]) -> Vec<Self> {
        let mut toggles = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            if node.passes.iter().any(|pass| pass.optional) {
                toggles.push(Self::Pass(at));
            }
            if let Some(removal) = &node.removal {
                if !removal.sure {
                    toggles.push(Self::Removal(at));
                }
                if matches!(removal.finalization, Finalization::Depends(_)) {
                    toggles.push(Self::Finalization(at));
                }
                let builds = |pass: &super::model::Pass| pass.desired().is_some_and(|desired| desired.contains_key(id));
                if !node.inventory.contains(id) && node.passes.iter().any(builds) {
                    toggles.push(Self::Listing(at));
                }
            }
            let flips = |pair: &[super::model::Pass]| !pair[0].spec.prunes() && pair[1].spec.prunes();
            for (number, _) in node.passes.windows(2).enumerate().filter(|(_, pair)| flips(pair)) {
                if node.inventory.contains(id) {
                    toggles.push(Self::StaleInventory(at, number + 1));
                }
            }
        }
        toggles
    }
}

/// The events of one object in one combination of what may happen; [`Branch::Pass`] speaks of all optional passes of a
/// Kustomization at once.
struct Schedule {
    events: Vec<(SimulationEvent, Effect)>,
    settle: Vec<Applied>,
}

impl Schedule {
    fn new(id: &ObjectId, exists: bool, nodes: &[&Node], on: &dyn Fn(&Branch) -> bool, features: Features) -> Self {
        let mut script = Self { events: Vec::new(), settle: Vec::new() };
        for (at, node) in nodes.iter().enumerate() {
            let key = &node.id.key;
            let mut listed = node.inventory.contains(id);
            for (number, pass) in node.passes.iter().enumerate() {
                if pass.optional && !on(&Branch::Pass(at)) {
                    continue;
                }
                let wanted = pass.desired().and_then(|desired| desired.get(id));
                let wanted = wanted.map(|built| applied(built, &pass.spec, key, features));
                if let Some(applied) = wanted.clone() {
                    script.events.push((SimulationEvent::Apply(node.id.clone(), number), Effect::Apply(applied)));
                }
                if !matches!(pass.outcome, PassOutcome::Applied(_)) {
                    continue;
                }
                let unread = Branch::StaleInventory(at, number);
                let flipped = number > 0 && !node.passes[number - 1].spec.prunes() && node.inventory.contains(id);
                if pass.spec.prunes() && wanted.is_none() && (listed || (flipped && on(&unread))) {
                    script.events.push((SimulationEvent::Prune(node.id.clone(), number), Effect::Delete(key.clone())));
                }
                listed = wanted.is_some_and(|applied| applied.is_listed(exists, features));
            }
            let removal = node.removal.as_ref().filter(|removal| removal.sure || on(&Branch::Removal(at)));
            let Some(removal) = removal else {
                let last = node.last().filter(|pass| !pass.optional && matches!(pass.outcome, PassOutcome::Applied(_)));
                let wanted = last.and_then(|pass| Some((pass.desired()?.get(id)?, &pass.spec)));
                script.settle.extend(wanted.map(|(built, spec)| applied(built, spec, key, features)));
                continue;
            };
            let deletes = match &removal.finalization {
                Finalization::Deletes => true,
                Finalization::Leaves(_) => false,
                Finalization::Depends(_) => on(&Branch::Finalization(at)),
            };
            let known = node.inventory.contains(id) || on(&Branch::Listing(at));
            if listed && deletes && known {
                script.events.push((SimulationEvent::Finalize(node.id.clone()), Effect::Delete(key.clone())));
            }
        }
        script
    }

    fn appliers(&self) -> impl Iterator<Item = NamespacedName> {
        let applies = |(event, effect): &(SimulationEvent, Effect)| {
            matches!(effect, Effect::Apply(_)).then(|| event.node().key.clone())
        };
        self.events.iter().filter_map(applies)
    }
}

struct Explorer<'a> {
    graph: &'a Graph,
    script: &'a Schedule,
    foreign_guard: bool,
    existed: bool,
    seen: HashSet<(u64, SimulationState)>,
    fate: &'a mut PossibleOutcomes,
}

impl Explorer<'_> {
    /// Plays every event that may come next; `done` is the bit set of those that were.
    fn play(&mut self, done: u64, state: SimulationState) {
        if !self.seen.insert((done, state.clone())) {
            return;
        }
        let events = &self.script.events;
        let open = |at: &usize| done >> at & 1 == 0;
        let ready = |at: &usize| {
            let earlier = |other: &usize| *other != *at && self.graph.before(&events[*other].0, &events[*at].0);
            !(0..events.len()).filter(open).any(|other| earlier(&other))
        };
        let mut next: Vec<usize> = (0..events.len().min(64)).filter(open).filter(ready).collect();
        if next.is_empty() {
            // A circle of triggers has no first event: then any may be.
            next = (0..events.len().min(64)).filter(open).collect();
        }
        for at in &next {
            let state = self.after(&events[*at], state.clone());
            self.play(done | 1 << at, state);
        }
        if next.is_empty() {
            self.end(state);
        }
    }

    fn after(&mut self, (event, effect): &(SimulationEvent, Effect), mut state: SimulationState) -> SimulationState {
        match effect {
            Effect::Apply(applied) => self.apply(applied, &mut state),
            Effect::Delete(owner) if !state.exists || state.labelled.as_ref() != Some(owner) || state.guarded => {
                if state.exists && !state.replaced {
                    self.fate.spared.insert(event.clone());
                }
            }
            Effect::Delete(_) => {
                if !state.replaced {
                    self.fate.deleters.insert(event.clone());
                }
                state =
                    SimulationState { exists: false, replaced: true, labelled: None, guarded: false, frozen: false };
            }
        }
        state
    }

    fn apply(&self, applied: &Applied, state: &mut SimulationState) {
        if applied.skipped || (state.exists && (state.frozen || applied.only_if_absent)) {
            return;
        }
        let foreign = self.foreign_guard && !state.replaced;
        state.exists = true;
        state.labelled = Some(applied.label.clone());
        state.guarded = applied.guarded || foreign;
    }

    /// Afterwards everyone who stays applies once more, at the latest after an interval.
    fn end(&mut self, mut state: SimulationState) {
        for applied in &self.script.settle {
            self.apply(applied, &mut state);
        }
        self.fate.ends.insert(match (self.existed, state.exists) {
            (true, true) if state.replaced => FinalState::ComesBack,
            (true, true) => FinalState::Stays,
            (true, false) => FinalState::Goes,
            (false, true) => FinalState::Appears,
            (false, false) => FinalState::Never,
        });
    }
}

fn start(live: Option<&ObjectMetadata>, features: Features) -> SimulationState {
    let Some(object) = live else {
        return SimulationState { exists: false, replaced: false, labelled: None, guarded: false, frozen: false };
    };
    let label = |key: &str| object.labels.get(key).map(str::to_owned);
    let labelled = label(NAME).zip(label(NAMESPACE)).map(|(name, namespace)| NamespacedName { namespace, name });
    let frozen = live_mark(object, RECONCILE, "disabled") || live_mark(object, SSA, "ignore");
    SimulationState { exists: true, replaced: false, labelled, guarded: guard(object, features).is_some(), frozen }
}

/// Whether a manifest says itself that it is not to be applied.
pub(crate) fn is_skipped(built: &BuiltObject) -> bool {
    built.has_label_or_annotation(RECONCILE, "disabled") || built.has_label_or_annotation(SSA, "ignore")
}

/// The mark that keeps a live object from being pruned by the controller.
pub fn guard(object: &ObjectMetadata, features: Features) -> Option<(&'static str, &'static str)> {
    let marks = [(PRUNE, "disabled"), (RECONCILE, "disabled"), (SSA, "ignore")];
    let marks = if features.ignore_protects { &marks[..] } else { &marks[..2] };
    marks.iter().find(|(key, value)| live_mark(object, key, value)).copied()
}

fn live_mark(object: &ObjectMetadata, key: &str, value: &str) -> bool {
    [object.labels.get(key), object.annotations.get(key)].into_iter().flatten().any(|v| v.eq_ignore_ascii_case(value))
}

/// The controller drops what it wrote itself and what any manager named `kubectl…` wrote (reference 4.2).
fn guard_is_foreign(object: &ObjectMetadata) -> bool {
    let merges = live_mark(object, SSA, "merge");
    let owns = |writer: &&ManagedFieldsEntry| {
        writer.labels.iter().chain(&writer.annotations).any(|key| [PRUNE, SSA].contains(&&**key))
    };
    let ours = |writer: &ManagedFieldsEntry| {
        &*writer.manager == "kustomize-controller" || writer.manager.starts_with("kubectl")
    };
    object.writers.iter().filter(owns).any(|writer| merges || !ours(writer))
}

fn applied(built: &BuiltObject, spec: &KustomizationSpec, owner: &NamespacedName, features: Features) -> Applied {
    let common = |key: &str, value: &str| {
        spec.common_label_or_annotation(key).is_some_and(|found| found.eq_ignore_ascii_case(value))
    };
    let marked = |key: &str, value: &str| built.has_label_or_annotation(key, value) || common(key, value);
    let ignored = marked(SSA, "ignore");
    let label = NamespacedName {
        namespace: spec.common_label(NAMESPACE).unwrap_or(&owner.namespace).to_owned(),
        name: spec.common_label(NAME).unwrap_or(&owner.name).to_owned(),
    };
    let disabled = marked(RECONCILE, "disabled");
    Applied {
        label,
        guarded: marked(PRUNE, "disabled") || disabled || (ignored && features.ignore_protects),
        skipped: disabled || ignored,
        only_if_absent: marked(SSA, "ifnotpresent"),
    }
}
