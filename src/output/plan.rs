//! Text of plans and of their execution.

use std::collections::{HashMap, HashSet};

use super::format::{Look, Part, Render};
use super::prose::Prose;
use super::report::{self, ReportedFinding};
use super::sanitize::{escape, one_line};
use super::table::Columns;
use super::{document, html, markdown, owner};
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::plan::alarm::{AlarmCode, Remedy};
use gitops_core::plan::grave::GraveKind;
use gitops_core::plan::{
    Action, Alarm, BlockedByFinalizers, Certainty, Change, Contested, FinishedPlan, OwnerOutcome, Plan, ReasonCode,
};
use gitops_core::text::{and_more, pluralize};

/// Number of objects and owners of a kind that one message names.
const NAMED: usize = 5;

impl Render for FinishedPlan {
    const PARTS: &'static [Part] =
        &[Part::Text, Part::Document, Part::Names, Part::Comment, Part::Page, Part::Findings];

    /// Returns a table: alarms, then changes with deletions first, then what else the plan says; diffs follow. Only the wide
    /// table has rows of objects that are certainly created or updated.
    fn text(&self, wide: bool, look: Look) -> String {
        let changes = in_order_of_importance(self).into_iter().filter(|change| wide || !is_folded(change));
        let changes = changes.map(|change| PlanRow::of_change(self, change));
        let rows: Vec<PlanRow<'_>> = alarms(self).chain(changes).chain(notes(self)).collect();
        let table = Columns::new()
            .with("action", |row: &PlanRow<'_>| row.action.clone())
            // Only a plan of several clusters says where each object is.
            .with_if(!self.spokes().is_empty(), "cluster", |row| row.detail(|change| change.object.id.cluster.as_ref()))
            .with("namespace", |row| row.place[0].to_owned())
            .with("kind", |row| row.place[1].to_owned())
            .with("name", |row| row.place[2].to_owned())
            .with("owner", |row| row.owner.clone())
            .with("reason", |row| row.reason.clone())
            .with_if(wide, "by", |row| row.detail(|change| Some(&change.by)))
            .with_if(wide, "cause", |row| row.detail(|change| change.cause.as_ref()))
            .with_if(wide, "uid", |row| row.detail(|change| Some(&change.object.uid)))
            .table(&rows);
        let diffs: String = self.diffs().iter().map(|diff| format!("\n{}", escape(&diff.text))).collect();
        if table.is_empty() { diffs } else { table.render(look) + &diffs }
    }

    /// Returns the names of the objects that are deleted.
    fn names(&self) -> String {
        self.deletions().map(|change| document::name(&change.object.id) + "\n").collect()
    }

    fn comment(&self) -> String {
        markdown::render(self)
    }

    fn page(&self) -> String {
        html::of_plan(self)
    }

    fn findings(&self) -> Vec<ReportedFinding> {
        report::findings(self)
    }
}

/// A row of the table: a change, or what else the plan says.
struct PlanRow<'p> {
    action: String,
    /// Namespace, kind and name.
    place: [&'p str; 3],
    owner: String,
    reason: String,
    change: Option<&'p Change>,
}

impl<'p> PlanRow<'p> {
    fn new(what: &str, place: [&'p str; 3], owner: String, reason: String) -> Self {
        Self { action: what.to_owned(), place, owner, reason, change: None }
    }

    fn of_change(plan: &Plan, change: &'p Change) -> Self {
        let ObjectId { namespace, kind, name, .. } = &change.object.id;
        let owner = change.owner.as_ref().map(owner).unwrap_or_default();
        let reason = reason(plan, change).to_string();
        Self { change: Some(change), ..Self::new(&action(change), [namespace, kind, name], owner, reason) }
    }

    /// Returns a detail of the change; empty for other rows.
    fn detail<T: ToString + ?Sized>(&self, of: impl Fn(&Change) -> Option<&T>) -> String {
        self.change.and_then(of).map(T::to_string).unwrap_or_default()
    }
}

/// Returns the owners that apply nothing and those whose outcome is not known, each with its word.
pub(super) fn owners_in_doubt(plan: &Plan) -> [(&'static str, Vec<&OwnerOutcome>); 2] {
    [("blocked", plan.blocked_owners().collect()), ("unknown", plan.unknown_owners().collect())]
}

/// Returns true if only the wide table has a row for the change.
pub(crate) fn is_folded(change: &Change) -> bool {
    change.certainty == Certainty::Certain && matches!(change.action, Action::Create | Action::Update)
}

/// Returns the positions of the changes that the deletion of an object causes, by that object.
pub(super) fn caused_changes(plan: &Plan) -> HashMap<&ObjectId, Vec<usize>> {
    let mut caused: HashMap<&ObjectId, Vec<usize>> = HashMap::new();
    for (at, change) in plan.changes().iter().enumerate() {
        if let Some(cause) = &change.cause {
            caused.entry(cause).or_default().push(at);
        }
    }
    caused
}

/// Returns the changes by action. Deletions are sorted by the owner of the first one, and each is followed by the deletions
/// that it causes.
fn in_order_of_importance(plan: &Plan) -> Vec<&Change> {
    let changes = plan.changes();
    let ids: HashSet<&ObjectId> = changes.iter().map(|change| &change.object.id).collect();
    let caused = caused_changes(plan);
    let mut order: Vec<usize> = (0..changes.len()).collect();
    order.sort_by_key(|at| {
        let Change { object, owner, cause, .. } = &changes[*at];
        match cause.as_ref() {
            None => (false, owner.as_ref(), &object.id, &object.id),
            // The objects of a cause without a row stand where that row would be.
            Some(cause) => (ids.contains(cause), None, cause, &object.id),
        }
    });
    let (mut ordered, mut is_shown) = (vec![], vec![false; changes.len()]);
    for start in order {
        let mut next = vec![start];
        while let Some(at) = next.pop() {
            if !std::mem::replace(&mut is_shown[at], true) {
                ordered.push(&changes[at]);
                let mut below = caused.get(&changes[at].object.id).cloned().unwrap_or_default();
                below.sort_by_key(|at| &changes[*at].object.id);
                next.extend(below.into_iter().rev());
            }
        }
    }
    ordered.sort_by_key(|change| importance(change.action));
    ordered
}

/// Returns the place of an action in the table.
fn importance(action: Action) -> u8 {
    match action {
        Action::Delete => 0,
        Action::Recreate => 1,
        Action::Unknown => 2,
        Action::Keep => 3,
        Action::Create => 4,
        Action::Update => 5,
    }
}

/// Returns the rows of alarms.
fn alarms(plan: &Plan) -> impl Iterator<Item = PlanRow<'_>> {
    shown_alarms(plan).map(|alarm| {
        let owner = alarm.owner.as_ref().map(owner).unwrap_or_default();
        PlanRow::new("alarm", [""; 3], owner, alarm.detail.clone())
    })
}

/// Returns the rows of contested objects, blocked and unknown owners, and gaps.
fn notes(plan: &Plan) -> Vec<PlanRow<'_>> {
    let mut rows = vec![];
    for Contested { object: id, owners } in plan.contested() {
        let owners: Vec<String> = owners.iter().map(owner).collect();
        let cluster = id.cluster.as_ref().map(|name| format!(" (in cluster {name})")).unwrap_or_default();
        let reason = format!("each owner undoes what the others do{cluster}");
        rows.push(PlanRow::new("contested", [&id.namespace, &id.kind, &id.name], owners.join(", "), reason));
    }
    let unknown = plan.changes().iter().filter(|change| change.action == Action::Unknown);
    for (what, owners) in owners_in_doubt(plan) {
        for OwnerOutcome { owner: id, reason, .. } in owners {
            // An unknown owner whose object has an unknown row needs no second one.
            if !unknown.clone().any(|change| id.is_object(&change.object.id)) {
                let place = [&*id.namespace, &id.kind, &id.name];
                rows.push(PlanRow::new(what, place, String::new(), reason.to_string()));
            }
        }
    }
    for Gap { subject, namespace, message, .. } in plan.gaps() {
        let place = [namespace.as_deref().unwrap_or_default(), "", subject];
        rows.push(PlanRow::new("gap", place, String::new(), message.clone()));
    }
    rows
}

/// Returns the alarms to show beside the gaps: the gaps themselves say that the plan is incomplete.
pub(super) fn shown_alarms(plan: &Plan) -> impl Iterator<Item = &Alarm> {
    plan.alarms().iter().filter(|alarm| alarm.code != AlarmCode::Incomplete)
}

/// Returns the action, with a question mark where it is a race.
pub(crate) fn action(change: &Change) -> String {
    match change.certainty {
        Certainty::Certain => change.action.to_string(),
        Certainty::Race => format!("{}?", change.action),
    }
}

/// Returns the reason of a change with its cause, the finalizers that block it, and the flag that lifts it.
pub(crate) fn reason(plan: &Plan, change: &Change) -> Prose {
    let reason = &change.reason;
    let mut text = Prose::default().own(reason.code.to_string()).foreign_after(": ", &reason.detail);
    text = match &change.cause {
        Some(cause) if change.action == Action::Keep => text.own("; ").foreign(cause).own(" is deleted"),
        // The owner stays, and the row names it.
        Some(_)
            if [ReasonCode::NotInChart, ReasonCode::NotGenerated, ReasonCode::ReleaseReplaced]
                .contains(&reason.code) =>
        {
            text
        }
        Some(cause) => text.own(": deleted with ").foreign(cause),
        None => text,
    };
    if let Some(blocked) = plan.blocked_by_finalizers().iter().find(|blocked| blocked.object == change.object.id) {
        text = text.own("; kept terminating by ").foreign(blocked.finalizers.join(", "));
    }
    match permitting_flag(change) {
        Some(flag) => text.own(format!(" ({flag})")),
        None => text,
    }
}

/// Returns the flag that lets a plan delete an object that it keeps.
fn permitting_flag(change: &Change) -> Option<String> {
    if change.action != Action::Keep {
        return None;
    }
    match change.reason.code {
        ReasonCode::Orphaned => Some("--include orphaned".to_owned()),
        ReasonCode::OwnerElsewhere => Some("--assume-no-hub".to_owned()),
        ReasonCode::NotAllowed => GraveKind::of(&change.object.id).map(|kind| format!("--allow {}", kind.name())),
        _ => None,
    }
}

/// Returns one line with the counts of a plan, its blocked and unknown owners, and its completeness.
pub fn summary(plan: &Plan) -> String {
    one_line(&format!("{}{}", counts(plan), limitations(plan))).into_owned()
}

/// Returns the counts of a plan.
pub(crate) fn counts(plan: &Plan) -> String {
    let summary = plan.summary();
    let counts = [
        (summary.delete, "to delete"),
        (summary.recreate, "to delete and create again"),
        (summary.create, "to create"),
        (summary.update, "to update"),
        (summary.keep, "kept"),
        (summary.unknown, "unknown"),
    ];
    let counts: Vec<String> =
        counts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")).collect();
    let in_doubt = owners_in_doubt(plan);
    match counts.is_empty() {
        true if plan.is_complete() && in_doubt[0].1.is_empty() => "nothing to prune".to_owned(),
        true if in_doubt[1].1.is_empty() => "no deletions".to_owned(),
        true => "no known deletions".to_owned(),
        false => counts.join(", "),
    }
}

/// Returns what the counts do not cover, after a semicolon each: blocked and unknown owners, and missing parts of the plan.
pub(crate) fn limitations(plan: &Plan) -> Prose {
    let mut text = Prose::default();
    for (what, owners) in owners_in_doubt(plan).iter().filter(|(_, owners)| !owners.is_empty()) {
        text = text.own(format!("; {} {what}", pluralize(owners.len(), "owner")));
        for (number, row) in owners.iter().take(NAMED).enumerate() {
            let separator = if number == 0 { ": " } else { ", " };
            text = text.own(separator).foreign(format!("{}: {}", row.owner, owner_reason(row)));
        }
        if let Some(more) = and_more(owners.len(), NAMED) {
            text = text.own(format!(" {more}"));
        }
    }
    if plan.is_complete() { text } else { text.own("; the plan is incomplete") }
}

/// Returns why an owner has its outcome: the detail of the reason, or else its code.
fn owner_reason(row: &OwnerOutcome) -> String {
    if row.reason.detail.is_empty() { row.reason.code.to_string() } else { row.reason.detail.clone() }
}

/// Returns warnings about objects of several owners, and about objects that finalizers keep terminating.
pub fn warnings(plan: &Plan) -> Vec<Prose> {
    let contested = limited(plan.contested(), contested, "applied by more than one owner");
    let blocked = limited(plan.blocked_by_finalizers(), blocked_by_finalizers, "blocked by finalizers");
    contested.into_iter().chain(blocked).collect()
}

fn limited<T>(all: &[T], line: impl Fn(&T) -> Prose, what: &str) -> Vec<Prose> {
    let rest = all.len().saturating_sub(NAMED);
    let more = (rest > 0).then(|| format!("{} more {what}; -o json lists them", pluralize(rest, "object")));
    all.iter().take(NAMED).map(line).chain(more.map(|more| Prose::default().own(more))).collect()
}

fn contested(contested: &Contested) -> Prose {
    let owners: Vec<String> = contested.owners.iter().map(ToString::to_string).collect();
    let text = Prose::default().foreign(&contested.object).own(" is applied by ").foreign(owners.join(" and "));
    text.own(": each undoes what the other does, and removing it from one may delete it")
}

fn blocked_by_finalizers(blocked: &BlockedByFinalizers) -> Prose {
    let finalizers = blocked.finalizers.join(", ");
    let text = Prose::default().foreign(&blocked.object).own(" will stay terminating");
    match &blocked.controller {
        Some(controller) => {
            text.own(": ").foreign(controller).own(" removes ").foreign(finalizers).own(" and is deleted too")
        }
        None => {
            let text = text.own(" until a controller removes ").foreign(finalizers);
            text.foreign_after("; ", blocked.detail.as_deref().unwrap_or_default())
        }
    }
}

/// Words the remedy of an alarm with the flag that lifts the limit.
pub fn remedy(alarm: &Alarm) -> String {
    match &alarm.remedy {
        Some(Remedy::CheckPaths) => {
            "check the paths that this change touches; if it is intended, pass --max-percent=100".to_owned()
        }
        Some(Remedy::RaiseMaxPercent(percent)) => format!("review the plan, then pass --max-percent={percent}"),
        Some(Remedy::RaiseMaxDelete(number)) => format!("review the plan, then pass --max-delete={number}"),
        Some(Remedy::Allow(kinds)) => {
            let kinds: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
            format!("review the plan; if it is intended, pass --allow {}", kinds.join(","))
        }
        Some(Remedy::Unblock) => {
            "correct what blocks them; until then their controller applies and prunes nothing of them".to_owned()
        }
        Some(Remedy::AllowIncomplete) => "get the missing permissions, or pass --allow-incomplete".to_owned(),
        Some(Remedy::FollowPolicy(file)) => format!("the rules are in {file}"),
        Some(Remedy::InspectOwner) | None => "the inventory of the owner may be broken; inspect it first".to_owned(),
    }
}
