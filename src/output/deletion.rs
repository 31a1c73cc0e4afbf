//! Text about deletions: the overview before the question, and one line per result.

use std::collections::{BTreeMap, HashSet};

use super::document;
use super::text::sanitize::one_line;
use super::text::table::{Look, Table};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::plan::execution::roots_of_objects;
use gitops_core::plan::grave::GraveKind;
use gitops_core::plan::outcome::{DeletionResult, PruneResult, StepResult};
use gitops_core::plan::{Plan, ReasonCode};
use gitops_core::text::pluralize;

/// Returns where a plan deletes, and a table of the kinds that it deletes. The most severe kinds are last, next to the
/// question.
pub fn overview(plan: &Plan, facts: &[(&str, String)]) -> String {
    let mut text = String::new();
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        text += &format!("{name}: {}\n", one_line(value));
    }
    let mut kinds: BTreeMap<(Option<GraveKind>, &str, &str), (usize, usize)> = BTreeMap::new();
    for change in plan.deletions() {
        let id = &change.object.id;
        let (own, cascaded) = kinds.entry((GraveKind::of(id), &id.kind, &id.group)).or_default();
        *(if change.cause.is_none() { own } else { cascaded }) += 1;
    }
    let mut table = Table::new(["kind", "delete", "by-cascade"]);
    for ((_, kind, group), (own, cascaded)) in &kinds {
        let name = if group.is_empty() { (*kind).to_owned() } else { format!("{kind}.{group}") };
        table.row([name, own.to_string(), cascaded.to_string()]);
    }
    text + &table.render(Look::whole(true))
}

/// Returns one line about a deletion, as kubectl writes it.
pub fn step(row: &StepResult) -> String {
    let what = match &row.step {
        DeletionResult::Deleted => "deleted".to_owned(),
        DeletionResult::Gone => "was gone already".to_owned(),
        DeletionResult::Terminating(finalizers) if finalizers.is_empty() => "is still terminating".to_owned(),
        DeletionResult::Terminating(finalizers) => format!("is still terminating, held by {}", finalizers.join(", ")),
        // A flag that is missing is no change of the object.
        DeletionResult::Skipped(why)
            if [ReasonCode::NotRead, ReasonCode::Cascade, ReasonCode::NotAllowed].contains(&why.code) =>
        {
            format!("skipped: {why}")
        }
        DeletionResult::Skipped(why) if why.code == ReasonCode::Orphaned => {
            format!("skipped: {why}; --apply deletes orphaned objects only with --include orphaned")
        }
        DeletionResult::Skipped(why) => format!("skipped: it changed after the plan was made: {why}"),
        DeletionResult::Failed(why) => format!("not deleted: {why}"),
        DeletionResult::Unknown(why) => format!("may be deleted, its state is unknown: {why}"),
        DeletionResult::NotTried => "not tried".to_owned(),
    };
    format!("{} {}\n", name(&row.object.id), one_line(&what))
}

/// Returns an object as kubectl names it, with its namespace.
pub fn name(id: &ObjectId) -> String {
    let place = if id.namespace.is_empty() { String::new() } else { format!(" -n {}", id.namespace) };
    format!("{}{}", document::name(id), one_line(&place))
}

/// Returns one line about a deletion that has not taken effect yet, with what holds the object.
pub fn waiting(id: &ObjectId, state: &[String]) -> String {
    let held = if state.is_empty() { String::new() } else { format!(", held by {}", state.join(", ")) };
    format!("waiting for {}{}", name(id), one_line(&held))
}

/// Returns one line about an execution: how many of the objects that the question named were deleted, and how many of
/// those the cluster deletes as a consequence.
pub fn outcome(result: &PruneResult, plan: &Plan) -> String {
    let deleted: HashSet<&ObjectId> =
        result.steps.iter().filter(|row| row.step == DeletionResult::Deleted).map(|row| &row.object.id).collect();
    let roots = roots_of_objects(plan);
    let all = plan.deletions().count().max(result.steps.len());
    let gone = plan
        .deletions()
        .map(|change| &change.object.id)
        .filter(|id| roots.get(id).is_some_and(|root| deleted.contains(root)))
        .count();
    let mut text = format!("{gone} of {} deleted", pluralize(all, "object"));
    if gone > deleted.len() {
        text += &format!(": {} directly, {} by the cluster with them", deleted.len(), gone - deleted.len());
    }
    if result.interrupted { format!("interrupted: {text}; plan again to see what is left") } else { text }
}
