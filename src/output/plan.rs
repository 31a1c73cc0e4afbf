//! How a plan and its execution look.

use clap::ValueEnum;

use super::sanitize::{escape, one_line};
use super::table::Table;
use super::{document, markdown, owner};
use crate::error::Result;
use gitops_core::plan::limits::Remedy;
use gitops_core::plan::outcome::{DeletionResult, PruneResult, StepResult};
use gitops_core::plan::{Action, Alarm, BlockedByFinalizers, Certainty, Change, Contested, Plan};
use gitops_core::text::pluralize;

/// What `-o` of `prune` takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// A table for people
    #[default]
    Table,
    /// A table with more columns
    Wide,
    /// JSON, one document; its schema is a contract
    Json,
    /// The same document as YAML
    Yaml,
    /// One TYPE.GROUP/NAME per line
    Name,
    /// A comment for a pull request
    Markdown,
}

/// The plan in the form asked for. A table lists what goes before what stays; `name` lists only what goes. Of limits that
/// the plan breaks, a comment tells itself; to a terminal they are an error.
///
/// # Errors
/// When the plan cannot be a document; it always can.
pub fn render(plan: &Plan, format: PlanFormat, header: bool) -> Result<String> {
    match format {
        PlanFormat::Json => document::json(plan),
        PlanFormat::Yaml => document::yaml(plan),
        PlanFormat::Name => Ok(names(plan)),
        PlanFormat::Markdown => Ok(markdown::render(plan)),
        PlanFormat::Table | PlanFormat::Wide => Ok(table(plan, format == PlanFormat::Wide, header)),
    }
}

fn names(plan: &Plan) -> String {
    plan.deletions().map(|change| document::name(&change.object.id) + "\n").collect()
}

fn table(plan: &Plan, wide: bool, header: bool) -> String {
    if plan.changes().is_empty() {
        return String::new();
    }
    let mut columns = vec!["action", "namespace", "kind", "name", "owner", "reason"];
    if wide {
        columns.extend(["by", "cause", "uid"]);
    }
    let mut table = Table::new(columns);
    let mut rows: Vec<&Change> = plan.changes().iter().collect();
    rows.sort_by_key(|change| change.action);
    for change in rows {
        let id = &change.object.id;
        let mut cells = vec![
            action(change),
            id.namespace.to_string(),
            id.kind.to_string(),
            id.name.to_string(),
            change.owner.as_ref().map(owner).unwrap_or_default(),
            reason(change),
        ];
        if wide {
            let by = serde_json::to_value(change.by).ok().and_then(|by| by.as_str().map(str::to_owned));
            let cause = change.cause.as_ref().map(ToString::to_string).unwrap_or_default();
            cells.extend([by.unwrap_or_default(), cause, change.object.uid.clone()]);
        }
        table.row(cells);
    }
    let diffs: String = plan.diffs().iter().map(|diff| format!("\n{}", escape(&diff.text))).collect();
    table.render(header) + &diffs
}

/// The action, with a question mark where it is a race.
pub(crate) fn action(change: &Change) -> String {
    match change.certainty {
        Certainty::Certain => change.action.to_string(),
        Certainty::Race => format!("{}?", change.action),
    }
}

/// Why, and what it goes with.
pub(crate) fn reason(change: &Change) -> String {
    match &change.cause {
        Some(cause) if change.action == Action::Keep => format!("{}; {cause} is deleted", change.reason),
        Some(cause) => format!("{}: goes with {cause}", change.reason),
        None => change.reason.to_string(),
    }
}

/// One line that says what a plan comes to.
pub fn summary(plan: &Plan) -> String {
    let summary = plan.summary();
    let counts = [
        (summary.delete, "to delete"),
        (summary.recreate, "to delete and create again"),
        (summary.create, "to create"),
        (summary.update, "to update"),
        (summary.keep, "kept"),
        (summary.unknown, "unknown"),
    ];
    let parts: Vec<String> =
        counts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")).collect();
    let text = if parts.is_empty() { "nothing to prune".to_owned() } else { parts.join(", ") };
    if plan.is_complete() { text } else { format!("{text}; the plan is incomplete") }
}

/// How many objects of a sort are told one by one.
const TOLD: usize = 5;

/// What a plan warns of: objects of two owners, and what will stay in Terminating for a while, or for ever.
pub fn warnings(plan: &Plan) -> Vec<String> {
    let contested = some(plan.contested(), contested, "applied by more than one owner");
    let blocked = some(plan.blocked_by_finalizers(), blocked, "blocked by finalizers");
    contested.into_iter().chain(blocked).map(|line| one_line(&line).into_owned()).collect()
}

fn some<T>(all: &[T], line: impl Fn(&T) -> String, what: &str) -> Vec<String> {
    let rest = all.len().saturating_sub(TOLD);
    let more = (rest > 0).then(|| format!("{} more {what}; -o json lists them", pluralize(rest, "object")));
    all.iter().take(TOLD).map(line).chain(more).collect()
}

fn contested(contested: &Contested) -> String {
    let owners: Vec<String> = contested.owners.iter().map(ToString::to_string).collect();
    let (id, owners) = (&contested.object, owners.join(" and "));
    format!("{id} is applied by {owners}: each undoes what the other does, and removing it from one may delete it")
}

fn blocked(blocked: &BlockedByFinalizers) -> String {
    let (id, finalizers) = (&blocked.object, blocked.finalizers.join(", "));
    match &blocked.controller {
        Some(controller) => format!("{id} will stay terminating: {controller} removes {finalizers} and is deleted too"),
        None => {
            let why = blocked.detail.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
            format!("{id} will stay terminating until a controller removes {finalizers}{why}")
        }
    }
}

/// Words the remedy of an alarm with the flag that lifts the limit.
pub fn remedy(alarm: &Alarm) -> String {
    match alarm.remedy {
        Some(Remedy::CheckPaths) => {
            "check the paths that this change touches; if it is intended, pass --max-percent=100".to_owned()
        }
        Some(Remedy::RaiseMaxPercent(percent)) => format!("review the plan, then pass --max-percent={percent}"),
        Some(Remedy::RaiseMaxDelete(number)) => format!("review the plan, then pass --max-delete={number}"),
        Some(Remedy::AllowIncomplete) => "get the missing permissions, or pass --allow-incomplete".to_owned(),
        Some(Remedy::InspectOwner) | None => "the inventory of the owner may be broken; inspect it first".to_owned(),
    }
}

/// Whether a plan takes along what a manifest in Git does not bring back: data, namespaces, definitions, cascades.
pub fn is_grave(plan: &Plan) -> bool {
    const GRAVE: [&str; 4] = ["Namespace", "CustomResourceDefinition", "PersistentVolumeClaim", "PersistentVolume"];
    plan.deletions().any(|change| change.cause.is_some() || GRAVE.contains(&&*change.object.id.kind))
}

/// One line per step, as kubectl writes it.
pub fn step(row: &StepResult) -> String {
    let id = &row.object.id;
    let place = if id.namespace.is_empty() { String::new() } else { format!(" -n {}", id.namespace) };
    let what = match &row.step {
        DeletionResult::Deleted => "deleted".to_owned(),
        DeletionResult::Gone => "was gone already".to_owned(),
        DeletionResult::Terminating(finalizers) if finalizers.is_empty() => "is still terminating".to_owned(),
        DeletionResult::Terminating(finalizers) => format!("is still terminating, held by {}", finalizers.join(", ")),
        DeletionResult::Skipped(why) => format!("skipped: it changed after the plan was made: {why}"),
        DeletionResult::Failed(why) => format!("not deleted: {why}"),
        DeletionResult::NotTried => "not tried".to_owned(),
    };
    format!("{}{} {}\n", document::name(id), one_line(&place), one_line(&what))
}

/// One line that says what an execution came to.
pub fn outcome(result: &PruneResult) -> String {
    let (deleted, all) = (result.deleted(), result.steps.len());
    let interrupted = result.steps.iter().any(|row| row.step == DeletionResult::NotTried);
    let text = format!("{deleted} of {} deleted", pluralize(all, "object"));
    if interrupted { format!("interrupted: {text}; plan again to see what is left") } else { text }
}
