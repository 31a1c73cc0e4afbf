//! The events that certainly happen before others; every other order is a race.
//!
//! Source: docs/reference/kustomize-controller.md 6 and 7, all observed.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::flux::kustomize_controller::Features;
use crate::flux::simulation::model::node::{Node, NodeId, Pass, PassId, SimulationEvent};
use crate::flux::simulation::model::refusals::Premise;
use crate::flux::spec::NamespacedName;

/// The transitive order of events.
pub(crate) struct EventOrder {
    index: HashMap<SimulationEvent, usize>,
    /// For each event a bit set of the events that come after it.
    later: Vec<Vec<u64>>,
}

impl EventOrder {
    /// Computes the order of the events of these Kustomizations.
    ///
    /// With `exceeds_workers`, a Kustomization may have to wait for a worker. Those in `busy` may be finalized late.
    pub(crate) fn new(
        nodes: &[Node],
        features: Features,
        exceeds_workers: bool,
        busy: &BTreeSet<NamespacedName>,
    ) -> Self {
        let (index, edges, awaited) = (HashMap::new(), Vec::new(), Vec::new());
        let mut builder = Builder { features, exceeds_workers, busy, index, edges, awaited };
        let by_id: HashMap<&NodeId, &Node> = nodes.iter().map(|node| (&node.id, node)).collect();
        for node in nodes {
            builder.add_sequence(node);
            builder.add_triggers(node, nodes);
            builder.add_dependencies(node, &by_id);
            builder.add_deletion(node);
        }
        builder.add_awaited(&by_id);
        builder.add_premises(nodes);
        builder.finish()
    }

    /// Returns true if an event certainly happens before another one.
    pub(crate) fn precedes(&self, first: &SimulationEvent, second: &SimulationEvent) -> bool {
        self.is_before(self.position(first), self.position(second))
    }

    /// Returns the position of an event; `None` if it has no order relation.
    pub(crate) fn position(&self, event: &SimulationEvent) -> Option<usize> {
        self.index.get(event).copied()
    }

    /// Returns true if the event at one position certainly happens before the event at another.
    pub(crate) fn is_before(&self, first: Option<usize>, second: Option<usize>) -> bool {
        first.zip(second).is_some_and(|(first, second)| contains(&self.later[first], second))
    }
}

fn contains(bits: &[u64], event: usize) -> bool {
    bits[event / 64] >> (event % 64) & 1 == 1
}

struct Builder<'b> {
    features: Features,
    exceeds_workers: bool,
    /// Deleted Kustomizations that may still wait for health.
    busy: &'b BTreeSet<NamespacedName>,
    index: HashMap<SimulationEvent, usize>,
    edges: Vec<(usize, usize)>,
    /// Finalizations that a pass with forced deletions waits for.
    awaited: Vec<(SimulationEvent, PassId)>,
}

impl Builder<'_> {
    fn index(&mut self, event: SimulationEvent) -> usize {
        let next = self.index.len();
        *self.index.entry(event).or_insert(next)
    }

    fn add(&mut self, first: SimulationEvent, second: SimulationEvent) {
        let edge = (self.index(first), self.index(second));
        self.edges.push(edge);
    }

    /// Adds that an event comes before everything in a pass.
    fn add_before(&mut self, first: &SimulationEvent, id: &PassId, pass: &Pass) {
        if !pass.forced.is_empty() {
            self.add(first.clone(), SimulationEvent::Force(id.clone()));
        }
        self.add(first.clone(), SimulationEvent::Apply(id.clone()));
    }

    /// One Kustomization does one thing at a time: apply, prune, apply, … and finalize. Its deletion waits for no pass that
    /// waits for a dependency, because such a pass may not happen any more.
    fn add_sequence(&mut self, node: &Node) {
        let mut earlier: Option<SimulationEvent> = None;
        for (id, pass) in node.numbered_passes() {
            if let Some(earlier) = &earlier {
                self.add_before(earlier, &id, pass);
            }
            self.add_forced(&id, pass);
            let prune = SimulationEvent::Prune(id.clone());
            self.add(SimulationEvent::Apply(id), prune.clone());
            if node.deletion.is_none() || self.waited_for(node, pass).is_empty() {
                self.add(prune.clone(), SimulationEvent::Finalize(node.id.clone()));
            }
            earlier = Some(prune);
        }
    }

    /// The objects of a stage are deleted by force before any of them is applied, and those of earlier stages are applied
    /// before. Which stages the others belong to is only known if the pass goes no further.
    fn add_forced(&mut self, id: &PassId, pass: &Pass) {
        let (force, apply) = (SimulationEvent::Force(id.clone()), SimulationEvent::Apply(id.clone()));
        let returning = pass.forced.values().filter(|forced| forced.comes_back).count();
        if pass.forced.is_empty() {
            return;
        }
        if returning == pass.forced.len() {
            self.add(force.clone(), apply);
        } else if returning == 0 {
            self.add(apply, force.clone());
        }
        self.add(force, SimulationEvent::Prune(id.clone()));
    }

    /// A changed spec comes after its application by the parent. A new Kustomization acts only after its parent's prune,
    /// and after the finalization of Kustomizations that this prune deletes, unless these still wait for health. This was
    /// observed for moves into a new child and for renames.
    fn add_triggers(&mut self, node: &Node, nodes: &[Node]) {
        for (id, pass) in node.numbered_passes() {
            let Some(trigger) = &pass.trigger else { continue };
            let is_first_of_new = node.id.is_new && id.number == 0;
            self.add_before(&SimulationEvent::Apply(trigger.clone()), &id, pass);
            if !is_first_of_new {
                continue;
            }
            let prune = SimulationEvent::Prune(trigger.clone());
            self.add_before(&prune, &id, pass);
            for other in nodes.iter().filter(|other| !self.busy.contains(&other.id.key)) {
                if other.deletion.as_ref().is_some_and(|deletion| deletion.triggers.contains(&prune)) {
                    self.add_before(&SimulationEvent::Finalize(other.id.clone()), &id, pass);
                }
            }
        }
        if node.id.is_new {
            let first = PassId { node: node.id.clone(), number: 0 };
            self.add(SimulationEvent::Finalize(NodeId::live(&node.id.key)), SimulationEvent::Apply(first));
        }
    }

    /// A dependant waits until its dependency has reconciled the revision, unless an expression decides instead. One of
    /// another source only has to be ready, which it already is if it exists.
    fn add_dependencies(&mut self, node: &Node, by_id: &HashMap<&NodeId, &Node>) {
        for (id, dependant) in node.numbered_passes() {
            let source = dependant.spec.source(&node.id.key.namespace);
            for key in self.waited_for(node, dependant) {
                let exists = by_id.contains_key(&NodeId::live(&key));
                for dependency in [NodeId::live(&key), NodeId::new(&key)].iter().filter_map(|id| by_id.get(id)) {
                    if let Some((awaited, pass)) = self.awaited_pass(dependency, by_id)
                        && (!exists || pass.spec.source(&key.namespace) == source)
                    {
                        self.add_before(&SimulationEvent::Prune(awaited), &id, dependant);
                    }
                }
            }
        }
    }

    /// Returns the Kustomizations that a pass waits for.
    fn waited_for(&self, node: &Node, pass: &Pass) -> Vec<NamespacedName> {
        pass.spec.waits_for(&node.id.key.namespace, self.features.additive_ready_expr)
    }

    /// Returns the pass of a dependency that its dependants wait for: the one with its last spec, because a changed spec makes
    /// it unready, and dependants ask for it only after some time. If the parent waits itself, or the workers are busy, the
    /// first pass that succeeds lets them go on.
    fn awaited_pass<'n>(&self, dependency: &'n Node, by_id: &HashMap<&NodeId, &'n Node>) -> Option<(PassId, &'n Pass)> {
        let changing = dependency.numbered_passes().filter(|(id, pass)| {
            let earlier = id.number.checked_sub(1).and_then(|number| dependency.passes.get(number));
            earlier.is_some_and(|earlier| earlier.spec != pass.spec) && !self.comes_late(pass, by_id)
        });
        let last = changing.last().filter(|(_, pass)| pass.new_inventory().is_some());
        last.or_else(|| dependency.numbered_passes().find(|(_, pass)| pass.new_inventory().is_some()))
    }

    /// Returns true if a pass may not happen, or happens after something that waits for a dependency.
    fn comes_late(&self, pass: &Pass, by_id: &HashMap<&NodeId, &Node>) -> bool {
        let mut seen = HashSet::new();
        let mut next = Some(pass);
        while let Some(pass) = next {
            if self.exceeds_workers || pass.is_optional || pass.condition.is_some() {
                return true;
            }
            let Some(trigger) = pass.trigger.as_ref().filter(|trigger| seen.insert(*trigger)) else { return false };
            let Some(parent) = by_id.get(&trigger.node) else { return false };
            next = parent.passes.get(trigger.number);
            if next.is_some_and(|pass| !self.waited_for(parent, pass).is_empty()) {
                return true;
            }
        }
        false
    }

    /// A deletion by force waits until the object is gone, and so does one that takes along what is in a namespace.
    fn add_deletion(&mut self, node: &Node) {
        let Some(deletion) = &node.deletion else { return };
        let finalize = SimulationEvent::Finalize(node.id.clone());
        for trigger in &deletion.triggers {
            self.add(trigger.clone(), finalize.clone());
            if let (SimulationEvent::Force(pass), true) = (trigger, deletion.is_awaited) {
                self.add(finalize.clone(), SimulationEvent::Prune(pass.clone()));
                self.awaited.push((finalize.clone(), pass.clone()));
            }
        }
    }

    /// Adds that what a forced deletion waits for comes before the objects that are applied after it.
    fn add_awaited(&mut self, by_id: &HashMap<&NodeId, &Node>) {
        for (finalize, id) in std::mem::take(&mut self.awaited) {
            let pass = by_id.get(&id.node).and_then(|node| node.passes.get(id.number));
            if pass.is_some_and(|pass| pass.forced.values().all(|forced| forced.comes_back)) {
                self.add(finalize, SimulationEvent::Apply(id));
            }
        }
    }

    /// Adds that a pass whose objects the server refuses at first succeeds only after the changes that end this. A change
    /// that the pass itself comes before in another way is left out.
    fn add_premises(&mut self, nodes: &[Node]) {
        for (id, pass) in nodes.iter().flat_map(Node::numbered_passes) {
            for event in pass.after.iter().filter_map(|premise| event_of(premise, nodes)) {
                let (event, apply) = (self.index(event), self.index(SimulationEvent::Apply(id.clone())));
                if !contains(&reachable(apply, &self.successors()), event) {
                    self.edges.push((event, apply));
                }
            }
        }
    }

    /// Returns the events that directly follow each event.
    fn successors(&self) -> Vec<Vec<usize>> {
        let mut next = vec![Vec::new(); self.index.len()];
        self.edges.iter().for_each(|(first, second)| next[*first].push(*second));
        next
    }

    /// Computes the transitive closure.
    fn finish(self) -> EventOrder {
        let next = self.successors();
        let later = (0..next.len()).map(|start| reachable(start, &next)).collect();
        EventOrder { later, index: self.index }
    }
}

/// Returns the event in which a Kustomization changes an object.
pub(crate) fn event_of(premise: &Premise, nodes: &[Node]) -> Option<SimulationEvent> {
    let own = nodes.iter().filter(|node| node.id.key == premise.owner);
    let mut events = own.filter_map(|node| {
        let mut passes = node.numbered_passes();
        match &premise.manifest {
            Some(manifest) => {
                let apply =
                    passes.find(|(_, pass)| pass.applied(&premise.id).is_some_and(|built| built.manifest == *manifest));
                apply.map(|(id, _)| SimulationEvent::Apply(id))
            }
            None if !node.inventory.contains(&premise.id) => None,
            None => match passes.find(|(_, pass)| pass.prunes(&premise.id)) {
                Some((id, _)) => Some(SimulationEvent::Prune(id)),
                None => node.deletion.is_some().then(|| SimulationEvent::Finalize(node.id.clone())),
            },
        }
    });
    events.next()
}

/// Returns a bit set of the events that follow an event, directly or through others.
fn reachable(start: usize, next: &[Vec<usize>]) -> Vec<u64> {
    let mut seen = vec![0_u64; next.len().div_ceil(64)];
    let mut queue = next[start].clone();
    while let Some(event) = queue.pop() {
        if !contains(&seen, event) {
            seen[event / 64] |= 1 << (event % 64);
            queue.extend(&next[event]);
        }
    }
    seen
}
