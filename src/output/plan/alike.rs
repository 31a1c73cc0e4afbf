//! Owners that are blocked or unknown for the same reason: the table and the comment show them as one.

use std::collections::BTreeMap;

use super::groups::Group;
use super::{outcome_words, owner_explanation, without_remarks};
use gitops_core::plan::{Action, Outcome, OwnerOutcome, Plan};
use gitops_core::text::pluralize;

/// Number of such owners from which they are shown as one.
const MIN_ALIKE: usize = 3;

/// A part of a plan for people.
pub(crate) enum Block<'p> {
    One(Group<'p>),
    Alike(Alike<'p>),
}

/// Owners with the same outcome for the same reason, of which the plan lists no objects.
pub(crate) struct Alike<'p> {
    /// Number of owners above them, of which each blocks the next one.
    pub(crate) depth: usize,
    owners: Vec<&'p OwnerOutcome>,
}

impl<'p> Alike<'p> {
    /// Returns the number of the owners.
    pub(crate) fn number(&self) -> String {
        pluralize(self.owners.len(), "owner")
    }

    /// Returns an owner whose outcome and reason are those of all, but for the remarks.
    pub(crate) fn first(&self) -> &'p OwnerOutcome {
        self.owners[0]
    }

    /// Returns the owners by their first remark, such as what would be at stake, in the order of the first of each.
    pub(crate) fn by_remark(&self) -> Vec<Vec<&'p OwnerOutcome>> {
        let mut parts: Vec<Vec<&OwnerOutcome>> = vec![];
        let mut positions: BTreeMap<Option<&String>, usize> = BTreeMap::new();
        for owner in &self.owners {
            let at = *positions.entry(owner.reason.remarks.first()).or_insert(parts.len());
            match parts.get_mut(at) {
                Some(part) => part.push(owner),
                None => parts.push(vec![owner]),
            }
        }
        parts
    }
}

/// Returns the remarks of owners that share the first one, each after the owners that it is about.
pub(crate) fn remarks(owners: &[&OwnerOutcome]) -> Vec<String> {
    let Some(first) = owners.first() else { return vec![] };
    let remarks = first.reason.remarks.iter().enumerate().map(|(at, remark)| match at {
        _ if owners.len() == 1 => remark.clone(),
        0 => format!("each: {remark}"),
        _ => format!("the first: {remark}"),
    });
    remarks.collect()
}

/// Joins the groups of owners that are in doubt for the same reason, at the place of the first one.
pub(crate) fn blocks<'p>(plan: &Plan, groups: Vec<Group<'p>>) -> Vec<Block<'p>> {
    let keys: Vec<Option<String>> = groups
        .iter()
        .enumerate()
        .map(|(at, group)| {
            let has_others_below = groups.get(at + 1).is_some_and(|next| next.depth > group.depth);
            key(plan, group).filter(|_| !has_others_below)
        })
        .collect();
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    keys.iter().flatten().for_each(|key| *numbers.entry(key).or_default() += 1);
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut blocks: Vec<Block<'_>> = vec![];
    for (group, key) in groups.into_iter().zip(&keys) {
        let key = key.as_deref().filter(|key| numbers[key] >= MIN_ALIKE);
        let (Some(key), Some(outcome)) = (key, group.outcome) else {
            blocks.push(Block::One(group));
            continue;
        };
        let at = *places.entry(key).or_insert(blocks.len());
        match blocks.get_mut(at) {
            Some(Block::Alike(alike)) => alike.owners.push(outcome),
            _ => blocks.push(Block::Alike(Alike { depth: group.depth, owners: vec![outcome] })),
        }
    }
    blocks
}

/// Returns what owners have in common that are shown as one; `None` for an owner with rows of its own.
fn key(plan: &Plan, group: &Group<'_>) -> Option<String> {
    let row = group.outcome.filter(|row| matches!(row.outcome, Outcome::Blocked | Outcome::Unknown))?;
    // What the row of the owner itself says is its outcome.
    let mut changes = group.rows.iter().map(|row| row.change);
    let has_rows = changes.any(|change| change.action != Action::Unknown || !row.owner.is_object(&change.object.id));
    let has_others = has_rows || group.old_records().is_some();
    let reason = owner_explanation(plan, &without_remarks(row));
    (!has_others).then(|| format!("{} {} {reason}", group.depth, outcome_words(row.outcome)))
}
