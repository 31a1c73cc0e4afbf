//! The tree of deletions: owners, the objects they delete, and the cascades of these.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

use super::count_by_kind;
use super::escape::label;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::OwnerId;
use gitops_core::plan::{Change, Plan};

/// Maximum number of nodes: nobody reads a larger tree.
const NODES: usize = 60;
/// Maximum number of kinds in a leaf.
const KINDS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place<'a> {
    /// A deleted object whose deletion causes others.
    Object(&'a ObjectId),
    /// An owner that deletes objects.
    Owner(&'a OwnerId),
    /// Objects that are deleted without an owner.
    Nobody,
}

/// Returns the tree as a Mermaid flowchart, without its fence; `None` if nothing is deleted.
pub(crate) fn tree(plan: &Plan) -> Option<String> {
    let mut children: BTreeMap<Place<'_>, Vec<&Change>> = BTreeMap::new();
    for change in plan.deletions() {
        let parent = match (&change.cause, &change.owner) {
            (Some(cause), _) => Place::Object(cause),
            (None, Some(owner)) => Place::Owner(owner),
            (None, None) => Place::Nobody,
        };
        children.entry(parent).or_default().push(change);
    }
    let deleted: BTreeSet<&ObjectId> = plan.deletions().map(|change| &change.object.id).collect();
    let mut drawing = Drawing { text: "flowchart LR\n".to_owned(), nodes: 0, left_out: 0 };
    let roots = children.keys().filter(|place| !matches!(place, Place::Object(id) if deleted.contains(id)));
    let mut queue: VecDeque<(Place<'_>, Option<usize>)> = roots.map(|place| (place.clone(), None)).collect();
    let mut seen = BTreeSet::new();
    while let Some((place, parent)) = queue.pop_front() {
        if !seen.insert(place.clone()) {
            continue;
        }
        let words = match &place {
            Place::Object(id) => id.to_string(),
            Place::Owner(owner) => owner.to_string(),
            Place::Nobody => "no owner".to_owned(),
        };
        let Some(node) = drawing.node(&words, parent) else { continue };
        let rows = children.get(&place).map_or(&[][..], Vec::as_slice);
        let (branches, leaves): (Vec<&Change>, Vec<&Change>) =
            rows.iter().partition(|change| children.contains_key(&Place::Object(&change.object.id)));
        queue.extend(branches.into_iter().map(|change| (Place::Object(&change.object.id), Some(node))));
        if !leaves.is_empty() {
            drawing.node(&counted(&leaves), Some(node));
        }
    }
    if drawing.left_out > 0 {
        let more = format!("{} more are not drawn", drawing.left_out);
        let _ = writeln!(drawing.text, "  more[\"{}\"]", label(&more));
    }
    (drawing.nodes > 0).then_some(drawing.text)
}

struct Drawing {
    text: String,
    nodes: usize,
    left_out: usize,
}

impl Drawing {
    /// Draws a node below another, or counts it when there are enough.
    fn node(&mut self, words: &str, parent: Option<usize>) -> Option<usize> {
        if self.nodes == NODES {
            self.left_out += 1;
            return None;
        }
        let number = self.nodes;
        self.nodes += 1;
        let edge = parent.map(|parent| format!("n{parent} --> ")).unwrap_or_default();
        let _ = writeln!(self.text, "  {edge}n{number}[\"{}\"]", label(words));
        Some(number)
    }
}

/// `3 objects: 2 Pod, 1 ReplicaSet`; one object by its name.
fn counted(changes: &[&Change]) -> String {
    if let [one] = changes {
        return one.object.id.to_string();
    }
    format!("{} objects: {}", changes.len(), count_by_kind(changes.iter().copied(), KINDS, str::to_owned))
}
