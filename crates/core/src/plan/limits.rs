//! Guards: limits that a plan must stay within before this tool deletes anything. Source: design 3.4, rule 6.

use std::collections::BTreeMap;

use super::document::Plan;
use crate::ownership::index::Index;
use crate::ownership::{Members, OwnerId};
use crate::text::pluralize;

/// What the user set, or the defaults.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Objects that may go, cascades included.
    pub max_delete: usize,
    /// Percent of an owner's objects that may go.
    pub max_percent: u8,
    /// Whether an incomplete plan may be executed.
    pub allow_incomplete: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_delete: 50, max_percent: 10, allow_incomplete: false }
    }
}

/// A limit that the plan breaks: what, and the flag that lifts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExceededLimit {
    /// What is wrong, in words understood in two seconds.
    pub message: String,
    /// How to allow it.
    pub hint: String,
}

/// Every limit that a plan breaks, owners measured by what they recorded.
pub fn check(plan: &Plan, index: &Index<'_>, limits: &Limits) -> Vec<ExceededLimit> {
    let mut broken = totals(plan, limits);
    for (owner, lost) in lost_by_owner(plan) {
        let recorded = match index.owner(owner).map(|owner| &owner.members) {
            Some(Members::Listed(ids)) => ids.len(),
            Some(_) => 0,
            None => continue,
        };
        if recorded == 0 {
            broken.push(ExceededLimit {
                message: format!("this deletes everything of {owner}: {lost} of {lost} objects"),
                hint: "an owner whose inventory is empty may be broken; look at it first".to_owned(),
            });
        } else {
            broken.extend(share(owner, lost, recorded, limits));
        }
    }
    broken
}

/// The limits that a plan breaks as a whole, whoever owns what.
pub fn totals(plan: &Plan, limits: &Limits) -> Vec<ExceededLimit> {
    let mut broken = vec![];
    if !plan.complete && !limits.allow_incomplete {
        broken.push(ExceededLimit {
            message: format!("the plan is incomplete: {} could not be read", pluralize(plan.gaps.len(), "thing")),
            hint: "get the missing rights, or pass --allow-incomplete".to_owned(),
        });
    }
    let total = plan.deletions().count();
    if total > limits.max_delete {
        broken.push(ExceededLimit {
            message: format!("this deletes {total} objects, more than {}", limits.max_delete),
            hint: format!("review the plan, then pass --max-delete={total}"),
        });
    }
    broken
}

/// The limit that is broken when an owner loses this many objects and that many stay.
pub fn share(owner: &OwnerId, lost: usize, staying: usize, limits: &Limits) -> Option<ExceededLimit> {
    let all = lost + staying;
    if lost * 100 <= all * usize::from(limits.max_percent) {
        return None;
    }
    let percent = lost * 100 / all;
    let limit = limits.max_percent;
    Some(ExceededLimit {
        message: format!("this deletes {percent} % of {owner}: {lost} of {all} objects, more than {limit} %"),
        hint: format!("review the plan, then pass --max-percent={}", (lost * 100).div_ceil(all)),
    })
}

/// How many objects each owner loses.
pub fn lost_by_owner(plan: &Plan) -> BTreeMap<&OwnerId, usize> {
    let mut lost = BTreeMap::new();
    for owner in plan.deletions().filter_map(|change| change.owner.as_ref()) {
        *lost.entry(owner).or_default() += 1;
    }
    lost
}
