//! Rows of a plan by owner, as the table, the comment and the page show them: each below the deletion that causes it, and
//! a blocked owner below the one that blocks it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::{caused_changes, importance};
use crate::output::text::thousands;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::OwnerId;
use gitops_core::plan::{Action, Certainty, Change, Outcome, OwnerOutcome, Plan, Reason, ReasonCode, if_deleted};
use gitops_core::text::pluralize;

/// An owner with its rows.
pub(crate) struct Group<'p> {
    /// `None` for objects that no inventory lists.
    pub(crate) owner: Option<&'p OwnerId>,
    pub(crate) outcome: Option<&'p OwnerOutcome>,
    pub(crate) rows: Vec<NestedRow<'p>>,
    /// Old records of its release, which are no rows.
    records: Vec<&'p Change>,
    /// Number of owners above it, of which each blocks the next one.
    pub(crate) depth: usize,
}

/// A row with its place below others.
#[derive(Clone, Copy)]
pub(crate) struct NestedRow<'p> {
    pub(crate) change: &'p Change,
    /// Number of deletions above it, of which each causes the next one.
    pub(crate) depth: usize,
    /// Deletion above it on which its own fate depends: its place says that.
    pub(crate) condition: Option<&'p ObjectId>,
}

impl<'p> Group<'p> {
    fn deletions(&self) -> usize {
        self.rows.iter().filter(|row| row.change.is_deletion()).count()
    }

    /// Returns the numbers of rows by action: `2 to delete, 1 kept`.
    pub(crate) fn numbers(&self) -> String {
        let words = [
            (Action::Delete, "to delete"),
            (Action::Recreate, "to delete and create again"),
            (Action::Create, "to create"),
            (Action::Update, "to update"),
            (Action::Keep, "kept"),
            (Action::Unknown, "unknown"),
        ];
        let numbers =
            words.map(|(action, words)| (self.rows.iter().filter(|row| row.change.action == action).count(), words));
        let shown = numbers.iter().filter(|(number, _)| *number > 0);
        shown.map(|(number, words)| format!("{} {words}", thousands(*number))).collect::<Vec<_>>().join(", ")
    }

    /// Returns what becomes of old records of its release; `None` if there are none.
    pub(crate) fn old_records(&self) -> Option<String> {
        let is_certain = self.records.iter().all(|change| change.certainty == Certainty::Certain);
        let verb = match (is_certain, self.records.len()) {
            (_, 0) => return None,
            (true, 1) => "goes",
            (true, _) => "go",
            (false, _) => "may go",
        };
        Some(format!("{} {verb} (maxHistory)", pluralize(self.records.len(), "old release record")))
    }

    /// Returns true if the owner applies nothing, or if that is not known.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.outcome.is_some_and(|row| matches!(row.outcome, Outcome::Blocked | Outcome::Unknown))
    }

    /// Returns true for an owner that is suspended and of which the plan changes nothing.
    pub(crate) fn is_only_suspended(&self) -> bool {
        let suspended = Reason::from(ReasonCode::Suspended);
        self.rows.is_empty() && self.records.is_empty() && self.outcome.is_some_and(|row| row.reason == suspended)
    }
}

/// Returns the owners that change or delete something, are blocked, or have an unknown outcome. Those with most deletions
/// are first, and objects that no inventory lists are last.
pub(crate) fn groups(plan: &Plan) -> Vec<Group<'_>> {
    let mut rows: BTreeMap<Option<&OwnerId>, Vec<NestedRow<'_>>> = BTreeMap::new();
    let mut root = None;
    for row in nested(plan) {
        // A row belongs to the owner whose deletion causes it.
        if row.depth == 0 {
            root = row.change.owner.as_ref();
        }
        rows.entry(root).or_default().push(row);
    }
    let mut groups = vec![];
    for outcome in plan.owners() {
        let own = rows.remove(&Some(&outcome.owner));
        let is_silent = match outcome.outcome {
            Outcome::Applies | Outcome::Unchanged => !outcome.loses_what_it_needs(),
            Outcome::Deleted => plan.changes().iter().any(|change| outcome.owner.is_object(&change.object.id)),
            Outcome::Blocked | Outcome::Unknown => false,
        };
        if own.is_some() || !is_silent {
            groups.push(group(Some(&outcome.owner), Some(outcome), own.unwrap_or_default()));
        }
    }
    groups.extend(rows.into_iter().map(|(owner, rows)| group(owner, None, rows)));
    groups.sort_by_key(|group| {
        (group.owner.is_none(), Reverse((group.deletions(), group.is_in_doubt(), group.rows.len())), group.owner)
    });
    below_their_causes(plan, groups)
}

fn group<'p>(owner: Option<&'p OwnerId>, outcome: Option<&'p OwnerOutcome>, rows: Vec<NestedRow<'p>>) -> Group<'p> {
    let (records, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.change.is_old_record());
    Group { owner, outcome, rows, records: records.into_iter().map(|row| row.change).collect(), depth: 0 }
}

/// Moves each owner that another one blocks below that one.
fn below_their_causes<'p>(plan: &'p Plan, groups: Vec<Group<'p>>) -> Vec<Group<'p>> {
    let position: HashMap<&OwnerId, usize> =
        groups.iter().enumerate().filter_map(|(at, group)| Some((group.owner?, at))).collect();
    let mut below: Vec<Vec<usize>> = groups.iter().map(|_| vec![]).collect();
    let mut is_root = vec![true; groups.len()];
    for (at, group) in groups.iter().enumerate() {
        let cause = group.outcome.and_then(|row| plan.blocking_owner(row));
        if let Some(cause) = cause.and_then(|row| position.get(&row.owner)).filter(|cause| **cause != at) {
            below[*cause].push(at);
            is_root[at] = false;
        }
    }
    let mut rest: Vec<Option<Group<'p>>> = groups.into_iter().map(Some).collect();
    let mut ordered = vec![];
    // Owners that block each other have no root: they come last.
    let roots = (0..rest.len()).filter(|at| is_root[*at]).chain(0..rest.len());
    for root in roots {
        let mut next = vec![(root, 0)];
        while let Some((at, depth)) = next.pop() {
            if let Some(group) = rest[at].take() {
                ordered.push(Group { depth, ..group });
                next.extend(below[at].iter().rev().map(|at| (*at, depth + 1)));
            }
        }
    }
    ordered
}

/// Returns all rows, deletions first, each deletion followed by the rows that it causes. A row is returned once, also where
/// causes form a circle.
fn nested(plan: &Plan) -> Vec<NestedRow<'_>> {
    let changes = plan.changes();
    let caused = caused_changes(plan);
    let deleted: HashMap<&ObjectId, &Change> = plan.deletions().map(|change| (&change.object.id, change)).collect();
    let mut order: Vec<usize> = (0..changes.len()).collect();
    order.sort_by_key(|at| {
        let Change { cause, action, .. } = &changes[*at];
        (cause.as_ref().is_some_and(|cause| deleted.contains_key(cause)), importance(*action))
    });
    let (mut rows, mut is_shown) = (vec![], vec![false; changes.len()]);
    for start in order {
        let mut next = vec![(start, 0)];
        while let Some((at, depth)) = next.pop() {
            if std::mem::replace(&mut is_shown[at], true) {
                continue;
            }
            let change = &changes[at];
            rows.push(NestedRow { change, depth, condition: condition(change, depth, &deleted) });
            if change.is_deletion() {
                let mut below = caused.get(&change.object.id).cloned().unwrap_or_default();
                below.sort_by_key(|at| (importance(changes[*at].action), &changes[*at].object.id));
                next.extend(below.into_iter().rev().map(|at| (at, depth + 1)));
            }
        }
    }
    rows
}

/// Returns the deletion that the reason of a nested row names as what it depends on, if that stands above it.
fn condition<'p>(change: &Change, depth: usize, deleted: &HashMap<&ObjectId, &'p Change>) -> Option<&'p ObjectId> {
    if change.certainty == Certainty::Certain {
        return None;
    }
    let mut below = change;
    for _ in 0..depth {
        let above = *deleted.get(below.cause.as_ref()?)?;
        if change.reason.conditions.contains(&if_deleted(&above.object.id)) {
            return Some(&above.object.id);
        }
        below = above;
    }
    None
}

/// Returns true for a change whose place below the deletion that causes it says all.
pub(crate) fn follows_from_place(change: &Change) -> bool {
    let codes = [
        ReasonCode::InNamespace,
        ReasonCode::CustomResource,
        ReasonCode::Dependent,
        ReasonCode::Uninstalled,
        ReasonCode::OwnerDeleted,
        ReasonCode::Reclaimed,
    ];
    change.action == Action::Delete && codes.contains(&change.reason.code)
}
