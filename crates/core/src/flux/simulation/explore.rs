//! Which event is sure to come before which: everything else is a race.
//!
//! Source of the rules: reference kustomize-controller 1.6, 1.7 and 6, all of them observed.

use std::collections::HashMap;

use super::model::{Node, NodeId, SimulationEvent};

/// The order of events, closed over transitivity.
pub struct Graph {
    index: HashMap<SimulationEvent, usize>,
    /// For each event, the events that come after it, as a bit set.
    after: Vec<Vec<u64>>,
}

impl Graph {
    /// The order among the events of these Kustomizations.
    pub fn new(nodes: &[Node]) -> Self {
        let mut builder = Builder { index: HashMap::new(), edges: Vec::new() };
        let by_id: HashMap<&NodeId, &Node> = nodes.iter().map(|node| (&node.id, node)).collect();
        for node in nodes {
            builder.own_order(node);
            builder.triggers(node, nodes);
            builder.dependencies(node, &by_id);
            builder.removal(node);
        }
        builder.close()
    }

    /// Whether `first` is sure to come before `second`.
    pub fn before(&self, first: &SimulationEvent, second: &SimulationEvent) -> bool {
        let (Some(first), Some(second)) = (self.index.get(first), self.index.get(second)) else { return false };
        self.after[*first][second / 64] >> (second % 64) & 1 == 1
    }
}

struct Builder {
    index: HashMap<SimulationEvent, usize>,
    edges: Vec<(usize, usize)>,
}

impl Builder {
    fn event(&mut self, event: SimulationEvent) -> usize {
        let next = self.index.len();
        *self.index.entry(event).or_insert(next)
    }

    fn edge(&mut self, first: SimulationEvent, second: SimulationEvent) {
        let edge = (self.event(first), self.event(second));
        self.edges.push(edge);
    }

    /// One Kustomization does one thing at a time: apply, prune, apply, … and the end.
    fn own_order(&mut self, node: &Node) {
        for pass in 0..node.passes.len() {
            let prune = SimulationEvent::Prune(node.id.clone(), pass);
            self.edge(SimulationEvent::Apply(node.id.clone(), pass), prune.clone());
            self.edge(prune.clone(), SimulationEvent::Apply(node.id.clone(), pass + 1));
            self.edge(prune, SimulationEvent::Finalize(node.id.clone()));
        }
    }

    /// A changed spec comes after the parent's application; a new Kustomization acts only after its parent's prune, and
    /// after what that prune set going has been finalized (observed for moves into a new child and for renames).
    fn triggers(&mut self, node: &Node, nodes: &[Node]) {
        for (number, pass) in node.passes.iter().enumerate() {
            let Some((parent, of)) = &pass.trigger else { continue };
            let apply = SimulationEvent::Apply(node.id.clone(), number);
            self.edge(SimulationEvent::Apply(parent.clone(), *of), apply.clone());
            if !node.id.fresh || number > 0 {
                continue;
            }
            let prune = SimulationEvent::Prune(parent.clone(), *of);
            self.edge(prune.clone(), apply.clone());
            let going = |other: &&Node| other.removal.as_ref().is_some_and(|removal| removal.triggers.contains(&prune));
            for other in nodes.iter().filter(going) {
                self.edge(SimulationEvent::Finalize(other.id.clone()), apply.clone());
            }
        }
        if node.id.fresh {
            let earlier = NodeId { key: node.id.key.clone(), fresh: false };
            self.edge(SimulationEvent::Finalize(earlier), SimulationEvent::Apply(node.id.clone(), 0));
        }
    }

    /// A dependant waits until its dependency has reconciled the revision.
    fn dependencies(&mut self, node: &Node, by_id: &HashMap<&NodeId, &Node>) {
        for (number, pass) in node.passes.iter().enumerate() {
            for key in pass.spec.depends_on(&node.id.key.namespace) {
                for fresh in [false, true] {
                    let id = NodeId { key: key.clone(), fresh };
                    let Some(dependency) = by_id.get(&id) else { continue };
                    if let Some(first) = dependency.passes.iter().position(|pass| pass.applied().is_some()) {
                        self.edge(SimulationEvent::Prune(id, first), SimulationEvent::Apply(node.id.clone(), number));
                    }
                }
            }
        }
    }

    fn removal(&mut self, node: &Node) {
        for trigger in node.removal.iter().flat_map(|removal| &removal.triggers) {
            self.edge(trigger.clone(), SimulationEvent::Finalize(node.id.clone()));
        }
    }

    fn close(self) -> Graph {
        let size = self.index.len();
        let mut next = vec![Vec::new(); size];
        self.edges.iter().for_each(|(first, second)| next[*first].push(*second));
        let reach = |start: usize| {
            let mut seen = vec![0_u64; size.div_ceil(64)];
            let mut queue = next[start].clone();
            while let Some(event) = queue.pop() {
                if seen[event / 64] >> (event % 64) & 1 == 0 {
                    seen[event / 64] |= 1 << (event % 64);
                    queue.extend(&next[event]);
                }
            }
            seen
        };
        Graph { after: (0..size).map(reach).collect(), index: self.index }
    }
}
