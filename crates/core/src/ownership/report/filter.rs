//! Kinds and labels that narrow what an answer shows. Judgement is never narrowed: every object was judged beside every
//! other, and what is hidden is counted.

use std::collections::HashSet;

use super::Views;
use super::document::{Body, Filtered};
use super::tree::TreeNode;
use crate::kubernetes::object::{GroupKind, ObjectId};
use crate::kubernetes::selector::Selector;
use crate::ownership::{OwnerId, OwnershipStatus};

/// What to show of an answer; everything when empty.
#[derive(Clone, Debug, Default)]
pub struct InventoryFilter {
    /// Only objects of these kinds; of all when empty.
    pub kinds: Vec<GroupKind>,
    /// Only objects that live and have such labels.
    pub selector: Option<Selector>,
}

impl InventoryFilter {
    /// Whether it hides nothing.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.selector.is_none()
    }
}

impl Views<'_, '_> {
    /// The part of an answer that a filter lets through, and how much it hides: owners in a list of owners, otherwise
    /// objects. An owner is shown when one of its objects is, or one that it left behind; its counts stay whole, and
    /// `matching` says how many objects are meant. A tree keeps what leads to an object that is shown.
    pub fn filtered(&self, mut body: Body, filter: &InventoryFilter) -> (Body, Option<Filtered>) {
        if filter.is_empty() {
            return (body, None);
        }
        let lets = |id: &ObjectId| self.lets(filter, id);
        let (mut shown, mut hidden) = (0, 0);
        let mut count = |shows: bool| {
            *(if shows { &mut shown } else { &mut hidden }) += 1;
            shows
        };
        match &mut body {
            Body::Owners(owners) => {
                let astray = self.astray_owners(filter);
                owners.retain_mut(|summary| {
                    let mut matching = 0;
                    let owner = self.index.owner(&summary.owner);
                    owner
                        .into_iter()
                        .for_each(|owner| self.each_member(owner, |id, _, _| matching += usize::from(lets(id))));
                    summary.matching = Some(matching);
                    count(matching > 0 || astray.contains(&summary.owner))
                });
            }
            Body::Objects(owners) => {
                for owner in owners {
                    owner.objects.retain(|row| count(lets(&row.object)));
                    owner.owner.matching = Some(owner.objects.len());
                }
            }
            Body::Findings(rows) => rows.retain(|row| count(lets(&row.object))),
            Body::Tree(nodes) => nodes.retain_mut(|node| self.keep_node(node, filter, &mut count)),
            Body::Why(_) => {}
        }
        let kinds = filter.kinds.iter().map(ToString::to_string).collect();
        let selector = filter.selector.as_ref().map(|selector| selector.text().to_owned());
        (body, Some(Filtered { kinds, selector, shown, hidden }))
    }

    fn lets(&self, filter: &InventoryFilter, id: &ObjectId) -> bool {
        let kind = |wanted: &GroupKind| id.is(&wanted.group, &wanted.kind);
        // What does not live has no labels, and no selector finds it.
        let labels = |selector: &Selector| {
            let object = self.index.position(id).map(|at| self.object(at));
            object.is_some_and(|object| selector.matches(&object.labels))
        };
        (filter.kinds.is_empty() || filter.kinds.iter().any(kind)) && filter.selector.as_ref().is_none_or(labels)
    }

    /// Owners of which a leaked or undecidable object is let through.
    fn astray_owners(&self, filter: &InventoryFilter) -> HashSet<&OwnerId> {
        let astray = self.standings().filter_map(|(object, standing)| match standing {
            OwnershipStatus::Leaked(claim) | OwnershipStatus::Unjudged(claim, _) => Some((object, &claim.owner)),
            _ => None,
        });
        astray.filter(|(object, _)| self.lets(filter, &object.id)).map(|(_, owner)| owner).collect()
    }

    fn keep_node(&self, node: &mut TreeNode, filter: &InventoryFilter, count: &mut impl FnMut(bool) -> bool) -> bool {
        let own = node.object.as_ref().map(|row| &row.object);
        let shows = match own {
            Some(id) => self.lets(filter, id),
            None => node
                .owner
                .as_ref()
                .and_then(|row| self.index.owner(&row.owner)?.object)
                .is_some_and(|object| self.lets(filter, &object.id)),
        };
        let mut children = std::mem::take(&mut node.children);
        children.retain_mut(|child| self.keep_node(child, filter, count));
        node.children = children;
        let leads = !node.children.is_empty();
        let stays = shows || leads;
        if node.object.is_some() { count(stays) } else { stays }
    }
}
