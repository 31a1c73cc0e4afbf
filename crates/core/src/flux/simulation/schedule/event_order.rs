//! The events that certainly happen before others; every other order is a race.
//!
//! Source: docs/reference/kustomize-controller.md 6 and 7, all observed.

use std::collections::HashMap;

use crate::flux::kustomize_controller::Features;
use crate::flux::simulation::model::node::{Node, NodeId, PassId, SimulationEvent};

/// The transitive order of events.
pub(crate) struct EventOrder {
    index: HashMap<SimulationEvent, usize>,
    /// For each event a bit set of the events that come after it.
    later: Vec<Vec<u64>>,
}

impl EventOrder {
    /// Computes the order of the events of these Kustomizations.
    pub(crate) fn new(nodes: &[Node], features: Features) -> Self {
        let mut builder = Builder { index: HashMap::new(), edges: Vec::new() };
        let by_id: HashMap<&NodeId, &Node> = nodes.iter().map(|node| (&node.id, node)).collect();
        for node in nodes {
            builder.add_sequence(node);
            builder.add_triggers(node, nodes);
            builder.add_dependencies(node, &by_id, features);
            builder.add_deletion(node);
        }
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

struct Builder {
    index: HashMap<SimulationEvent, usize>,
    edges: Vec<(usize, usize)>,
}

impl Builder {
    fn index(&mut self, event: SimulationEvent) -> usize {
        let next = self.index.len();
        *self.index.entry(event).or_insert(next)
    }

    fn add(&mut self, first: SimulationEvent, second: SimulationEvent) {
        let edge = (self.index(first), self.index(second));
        self.edges.push(edge);
    }

    /// One Kustomization does one thing at a time: apply, prune, apply, … and finalize.
    fn add_sequence(&mut self, node: &Node) {
        for (id, _) in node.numbered_passes() {
            let next = PassId { number: id.number + 1, ..id.clone() };
            let prune = SimulationEvent::Prune(id.clone());
            self.add(SimulationEvent::Apply(id), prune.clone());
            self.add(prune.clone(), SimulationEvent::Apply(next));
            self.add(prune, SimulationEvent::Finalize(node.id.clone()));
        }
    }

    /// A changed spec comes after its application by the parent. A new Kustomization acts only after its parent's prune,
    /// and after the finalization of Kustomizations that this prune deletes. This was observed for moves into a new child
    /// and for renames.
    fn add_triggers(&mut self, node: &Node, nodes: &[Node]) {
        for (id, pass) in node.numbered_passes() {
            let Some(trigger) = &pass.trigger else { continue };
            let is_first_of_new = node.id.is_new && id.number == 0;
            let apply = SimulationEvent::Apply(id);
            self.add(SimulationEvent::Apply(trigger.clone()), apply.clone());
            if !is_first_of_new {
                continue;
            }
            let prune = SimulationEvent::Prune(trigger.clone());
            self.add(prune.clone(), apply.clone());
            for other in nodes {
                if other.deletion.as_ref().is_some_and(|deletion| deletion.triggers.contains(&prune)) {
                    self.add(SimulationEvent::Finalize(other.id.clone()), apply.clone());
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
    fn add_dependencies(&mut self, node: &Node, by_id: &HashMap<&NodeId, &Node>, features: Features) {
        for (id, pass) in node.numbered_passes() {
            let source = pass.spec.source(&node.id.key.namespace);
            for key in pass.spec.waits_for(&node.id.key.namespace, features.additive_ready_expr) {
                let exists = by_id.contains_key(&NodeId::live(&key));
                for dependency in [NodeId::live(&key), NodeId::new(&key)].iter().filter_map(|id| by_id.get(id)) {
                    let mut passes = dependency.numbered_passes();
                    if let Some((first, pass)) = passes.find(|(_, pass)| pass.new_inventory().is_some())
                        && (!exists || pass.spec.source(&key.namespace) == source)
                    {
                        self.add(SimulationEvent::Prune(first), SimulationEvent::Apply(id.clone()));
                    }
                }
            }
        }
    }

    fn add_deletion(&mut self, node: &Node) {
        for trigger in node.deletion.iter().flat_map(|deletion| &deletion.triggers) {
            self.add(trigger.clone(), SimulationEvent::Finalize(node.id.clone()));
        }
    }

    /// Computes the transitive closure.
    fn finish(self) -> EventOrder {
        let size = self.index.len();
        let mut next = vec![Vec::new(); size];
        for (first, second) in self.edges {
            next[first].push(second);
        }
        let later = (0..size).map(|start| reachable(start, &next)).collect();
        EventOrder { later, index: self.index }
    }
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
