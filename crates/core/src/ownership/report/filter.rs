//! Filter by kind and label. It hides rows only: the status of an object always depends on all objects.

use std::collections::HashSet;

use super::InventoryReport;
use super::document::{Body, Filtered, InventoryDocument, SCHEMA};
use super::findings::Question;
use super::rows::Finding;
use super::tree::TreeNode;
use crate::kubernetes::gap::{AnswerGap, Gap};
use crate::kubernetes::object::{GroupKind, ObjectId};
use crate::kubernetes::selector::Selector;
use crate::ownership::classify::OwnershipStatus;
use crate::ownership::scheme::claim::OwnerId;

/// Kinds and labels of the objects to show; all objects when empty.
#[derive(Clone, Debug, Default)]
pub struct InventoryFilter {
    /// Kinds to show; all when empty.
    pub kinds: Vec<GroupKind>,
    /// Selector of existing objects to show.
    pub selector: Option<Selector>,
}

impl InventoryFilter {
    /// Returns true if it hides nothing.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.selector.is_none()
    }
}

/// Number of shown and hidden rows.
#[derive(Default)]
struct RowCount {
    shown: usize,
    hidden: usize,
}

impl RowCount {
    fn add(&mut self, is_shown: bool) -> bool {
        *(if is_shown { &mut self.shown } else { &mut self.hidden }) += 1;
        is_shown
    }
}

impl InventoryReport<'_, '_> {
    /// Returns the document with the rows of an answer that a filter shows.
    pub fn document(&self, body: Body, filter: &InventoryFilter) -> InventoryDocument {
        let (body, filter) = self.filtered(body, filter);
        let snapshot = self.index.snapshot();
        let gaps: Vec<AnswerGap> = snapshot
            .gaps
            .iter()
            .map(|gap| AnswerGap { affects_answer: self.can_change(&body, gap), ..gap.clone().into() })
            .collect();
        InventoryDocument {
            schema: SCHEMA,
            cluster: Some(snapshot.cluster.clone()),
            contexts: vec![],
            taken: snapshot.taken,
            complete: !gaps.iter().any(|gap| gap.affects_answer),
            gaps,
            totals: self.totals(),
            scope: None,
            filter,
            ignored: None,
            body,
            label_report: None,
            beside: vec![],
        }
    }

    /// Returns true if a gap can change an answer. A list of owners or objects may lack any object.
    fn can_change(&self, body: &Body, gap: &Gap) -> bool {
        match body {
            Body::Explanation(explanation) => explanation.can_change(self.index, gap),
            _ => true,
        }
    }

    /// Returns the rows that a filter shows, and counts them: owners in a list of owners, otherwise objects.
    ///
    /// An owner is shown if one of its members is, or one of its leaked objects; its counts stay those of all members, and
    /// `matching` counts the shown ones. A tree keeps the parents of every object that is shown.
    pub fn filtered(&self, mut body: Body, filter: &InventoryFilter) -> (Body, Option<Filtered>) {
        if filter.is_empty() {
            return (body, None);
        }
        let mut count = RowCount::default();
        match &mut body {
            Body::Owners(owners) => {
                let unlisted = self.owners_of_unlisted(filter);
                owners.retain_mut(|summary| {
                    let matching = self.count_members(&summary.owner, filter);
                    summary.matching = Some(matching);
                    count.add(matching > 0 || unlisted.contains(&summary.owner))
                });
            }
            Body::Objects(owners) => {
                for owner in owners {
                    owner.objects.retain(|row| count.add(self.shows(filter, &row.object)));
                    owner.owner.matching = Some(owner.objects.len());
                    owner.unlisted.retain(|row| count.add(self.shows(filter, &row.object)));
                }
            }
            Body::Findings(rows) => rows.retain(|row| count.add(self.shows(filter, &row.object))),
            Body::Tree(nodes) => nodes.retain_mut(|node| self.filter_node(node, filter, &mut count)),
            Body::Explanation(_) => {}
        }
        let kinds = filter.kinds.iter().map(ToString::to_string).collect();
        let selector = filter.selector.as_ref().map(|selector| selector.text().to_owned());
        (body, Some(Filtered { kinds, selector, shown: count.shown, hidden: count.hidden }))
    }

    /// Returns the leaked, orphaned and contested objects that a filter shows and the caller selects by owner.
    pub fn beside(&self, filter: &InventoryFilter, is_selected: impl Fn(&[OwnerId]) -> bool) -> Vec<Finding> {
        let questions = [Question::Leaked, Question::Orphaned, Question::Conflicts].into_iter();
        let mut rows: Vec<Finding> =
            questions.flat_map(|question| self.findings(question, |_, owners| is_selected(owners))).collect();
        rows.retain(|row| self.shows(filter, &row.object));
        rows
    }

    fn count_members(&self, owner: &OwnerId, filter: &InventoryFilter) -> usize {
        let mut matching = 0;
        if let Some(owner) = self.index.owner(owner) {
            self.each_member(owner, |id, _, _| matching += usize::from(self.shows(filter, id)));
        }
        matching
    }

    /// Returns true if a filter shows an object. An object that does not exist has no labels, so no selector matches it.
    fn shows(&self, filter: &InventoryFilter, id: &ObjectId) -> bool {
        let has_kind = filter.kinds.is_empty() || filter.kinds.iter().any(|kind| id.is(&kind.group, &kind.kind));
        let has_labels = filter
            .selector
            .as_ref()
            .is_none_or(|selector| self.index.position(id).is_some_and(|at| selector.matches(&self.object(at).labels)));
        has_kind && has_labels
    }

    /// Returns the owners of leaked objects, and of objects with unknown status, that a filter shows.
    fn owners_of_unlisted(&self, filter: &InventoryFilter) -> HashSet<&OwnerId> {
        let unlisted = self.statuses().filter_map(|(object, status)| match status {
            OwnershipStatus::Leaked(claim) | OwnershipStatus::Unknown(claim, _) => Some((object, &claim.owner)),
            _ => None,
        });
        unlisted.filter(|(object, _)| self.shows(filter, &object.id)).map(|(_, owner)| owner).collect()
    }

    /// Filters the children of a node. Returns true if the node itself stays.
    fn filter_node(&self, node: &mut TreeNode, filter: &InventoryFilter, count: &mut RowCount) -> bool {
        let id = match (&node.object, &node.owner) {
            (Some(row), _) => Some(&row.object),
            (None, Some(row)) => self.index.owner(&row.owner).and_then(|owner| owner.object).map(|object| &object.id),
            (None, None) => None,
        };
        let is_shown = id.is_some_and(|id| self.shows(filter, id));
        node.children.retain_mut(|child| self.filter_node(child, filter, count));
        let stays = is_shown || !node.children.is_empty();
        if node.object.is_some() { count.add(stays) } else { stays }
    }
}
