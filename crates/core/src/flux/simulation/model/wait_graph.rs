//! The waits of Kustomizations until others have applied the new revision.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use crate::flux::spec::NamespacedName;

/// The Kustomizations for which each one waits.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct WaitGraph {
    waited: HashMap<NamespacedName, Vec<NamespacedName>>,
    /// Kustomizations that wait for some that wait for themselves, and for which such wait: all that are in a circle are here.
    around_circles: BTreeSet<NamespacedName>,
    /// Length of the longest chain of Kustomizations that do not wait for any in a circle.
    longest_chain: usize,
}

impl WaitGraph {
    pub(crate) fn new(waited: impl IntoIterator<Item = (NamespacedName, Vec<NamespacedName>)>) -> Self {
        let waited: HashMap<NamespacedName, Vec<NamespacedName>> = waited.into_iter().collect();
        let edges = waited.iter().flat_map(|(key, others)| others.iter().map(move |other| (key, other)));
        let (ahead, longest_chain) = endless(edges.clone());
        let (behind, _) = endless(edges.map(|(key, other)| (other, key)));
        let around_circles = ahead.intersection(&behind).map(|key| (*key).clone()).collect();
        Self { waited, around_circles, longest_chain }
    }

    pub(crate) fn longest_chain(&self) -> usize {
        self.longest_chain
    }

    /// Returns those for which a Kustomization waits directly.
    pub(crate) fn waited(&self, key: &NamespacedName) -> &[NamespacedName] {
        self.waited.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns false if a Kustomization is certainly in no circle.
    pub(crate) fn may_be_in_circle(&self, key: &NamespacedName) -> bool {
        self.around_circles.contains(key)
    }

    /// Returns true if one of these Kustomizations is another one or waits for it, directly or through others.
    pub(crate) fn reaches(&self, first: &[NamespacedName], other: &NamespacedName) -> bool {
        let (mut seen, mut queue) = (HashSet::new(), first.iter().collect::<Vec<_>>());
        while let Some(next) = queue.pop() {
            if next == other {
                return true;
            }
            if seen.insert(next) {
                queue.extend(self.waited(next));
            }
        }
        false
    }
}

/// Returns the beginnings of edges from which a walk need not end, and the number of edges of the longest other walk.
fn endless<'k>(
    edges: impl Iterator<Item = (&'k NamespacedName, &'k NamespacedName)>,
) -> (BTreeSet<&'k NamespacedName>, usize) {
    let mut left: BTreeMap<&NamespacedName, usize> = BTreeMap::new();
    let mut beginnings: HashMap<&NamespacedName, Vec<&NamespacedName>> = HashMap::new();
    for (from, end) in edges {
        *left.entry(from).or_default() += 1;
        beginnings.entry(end).or_default().push(from);
    }
    let ends = beginnings.keys().copied().filter(|key| !left.contains_key(key));
    let (mut queue, mut longest): (VecDeque<_>, usize) = (ends.map(|key| (key, 0)).collect(), 0);
    // The last edge of a beginning is that of its longest walk, because shorter walks come first.
    while let Some((end, length)) = queue.pop_front() {
        longest = longest.max(length);
        for from in beginnings.get(end).into_iter().flatten().copied() {
            let Entry::Occupied(mut number) = left.entry(from) else { continue };
            *number.get_mut() -= 1;
            if *number.get() == 0 {
                number.remove();
                queue.push_back((from, length + 1));
            }
        }
    }
    (left.into_keys().collect(), longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> NamespacedName {
        NamespacedName { namespace: "flux-system".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn what_is_around_circles_and_what_is_reached() {
        let edges = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("e", "e"), ("x", "y"), ("y", "z")];
        let mut waited: BTreeMap<NamespacedName, Vec<NamespacedName>> = BTreeMap::new();
        edges.iter().for_each(|(from, to)| waited.entry(key(from)).or_default().push(key(to)));
        let graph = WaitGraph::new(waited);
        let around: Vec<&str> = ["a", "b", "c", "d", "e", "x", "y", "z"]
            .into_iter()
            .filter(|name| graph.may_be_in_circle(&key(name)))
            .collect();
        assert_eq!((around, graph.longest_chain()), (vec!["b", "c", "e"], 2));
        for (from, to, expected) in [
            ("a", "d", true),
            ("b", "b", true),
            ("a", "a", false),
            ("e", "e", true),
            ("x", "z", true),
            ("z", "x", false),
        ] {
            assert_eq!(graph.reaches(graph.waited(&key(from)), &key(to)), expected, "{from} to {to}");
        }
    }
}
