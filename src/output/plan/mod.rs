//! Text of plans: the tables, the summary, the warnings, and the hints.

pub(crate) mod alike;
pub(crate) mod common;
pub(crate) mod fleet;
mod grouped;
pub(crate) mod groups;

use std::collections::{BTreeMap, HashMap, HashSet};

use super::format::{Look, Part, Render};
use super::report::{self, ReportedFinding};
use super::text::prose::Prose;
use super::text::sanitize::{escape, one_line};
use super::text::table::Columns;
use super::text::thousands;
use super::{document, html, markdown, owner};
use common::Common;
use gitops_core::flux::guard;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::OwnerId;
use gitops_core::plan::alarm::{AlarmCode, Remedy};
use gitops_core::plan::grave::GraveKind;
use gitops_core::plan::{
    Action, Actor, Alarm, BlockedByFinalizers, Certainty, Change, Contested, ControllerUpgrade, FinishedPlan, Outcome,
    OwnerOutcome, Plan, Reason, ReasonCode, Summary, if_deleted,
};
use gitops_core::text::{and_more, join_limited, pluralize};
use groups::{NestedRow, follows_from_place};

/// Advice for alarms that need no other one.
const REVIEW: &str = "review the plan";

/// Number of objects and owners of a kind that one message names.
pub(super) const NAMED: usize = 5;

impl Render for FinishedPlan {
    const PARTS: &'static [Part] =
        &[Part::Text, Part::Document, Part::Names, Part::Comment, Part::Page, Part::Findings, Part::Policies];

    /// Returns the rows by owner, or the wide table with one row per object; diffs follow.
    fn text(&self, wide: bool, look: Look) -> String {
        let table = if wide { wide_table(self, look) } else { grouped::render(self, look) };
        let diffs: String = self.diffs().iter().map(|diff| format!("\n{}", escape(&diff.text))).collect();
        table + &diffs
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

    fn approvals(&self) -> String {
        guard::approvals(self)
            .iter()
            .map(|(uid, what)| one_line(&format!("{uid}: {what}")).into_owned() + "\n")
            .collect()
    }

    fn findings(&self) -> Vec<ReportedFinding> {
        report::findings(self)
    }
}

/// Returns a table with one row per object: alarms, then changes with deletions first, then what else the plan says.
fn wide_table(plan: &Plan, look: Look) -> String {
    let changes = in_order_of_importance(plan).into_iter().map(|change| PlanRow::of_change(plan, change));
    let rows: Vec<PlanRow<'_>> = alarms(plan).chain(changes).chain(notes(plan)).collect();
    let table = Columns::new()
        .with("action", |row: &PlanRow<'_>| row.action.clone())
        // Only a plan of several clusters says where each object is.
        .with_if(!plan.spokes().is_empty(), "cluster", |row| row.detail(|change| change.object.id.cluster.as_ref()))
        .with("namespace", |row| row.place[0].to_owned())
        .with("kind", |row| row.place[1].to_owned())
        .with("name", |row| row.place[2].to_owned())
        .with("owner", |row| row.owner.clone())
        .with("reason", |row| row.reason.clone())
        .with("by", |row| row.detail(|change| Some(&change.by)))
        .with("cause", |row| row.detail(|change| change.cause.as_ref()))
        .with("uid", |row| row.detail(|change| Some(&change.object.uid)))
        .table(&rows);
    if table.is_empty() { String::new() } else { table.render(look) }
}

/// A row of the wide table: a change, or what else the plan says.
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

/// Returns true for an object that is updated, certainly or with the others of its release or ResourceSet: only the wide table has
/// a row for it.
pub(crate) fn is_updated(change: &Change) -> bool {
    let is_open = change.certainty == Certainty::Race && change.by == Actor::KustomizeController;
    change.action == Action::Update && !is_open
}

/// Returns the sentences of the alarms, or one that points to the table that has them.
pub(crate) fn alarm_lines(plan: &Plan, is_told: bool) -> Vec<String> {
    // Only gaps say in the table that a plan is incomplete.
    let is_shown = plan.alarms().iter().all(|alarm| alarm.code != AlarmCode::Incomplete);
    if is_told && is_shown {
        return vec![format!("{}, see above", pluralize(plan.alarms().len(), "alarm"))];
    }
    plan.alarms().iter().map(|alarm| one_line(&alarm.detail).into_owned()).collect()
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

fn alarms(plan: &Plan) -> impl Iterator<Item = PlanRow<'_>> {
    shown_alarms(plan).map(|alarm| {
        let owner = alarm.owner.as_ref().map(owner).unwrap_or_default();
        PlanRow::new("alarm", [""; 3], owner, alarm.detail.clone())
    })
}

/// Returns the rows of contested objects, blocked and unknown owners, encrypted objects, and gaps.
fn notes(plan: &Plan) -> Vec<PlanRow<'_>> {
    let mut rows = vec![];
    for Contested { object: id, owners } in plan.contested() {
        let names: Vec<String> = owners.iter().map(owner).collect();
        let cluster = id.cluster.as_ref().map(|name| format!(" (in cluster {name})")).unwrap_or_default();
        let reason = format!("each owner undoes what the others do{cluster}");
        rows.push(PlanRow::new("contested", [&id.namespace, &id.kind, &id.name], names.join(", "), reason));
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
    for id in plan.not_compared() {
        let reason = "it is encrypted, or names what has a hash of encrypted content: its update is not in this plan";
        rows.push(PlanRow::new("encrypted", [&id.namespace, &id.kind, &id.name], String::new(), reason.to_owned()));
    }
    for Gap { subject, namespace, message, .. } in plan.counting_gaps() {
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
    let mut text = explanation(change, &change.reason);
    if let Some(blocked) = plan.blocked_by_finalizers().iter().find(|blocked| blocked.object == change.object.id) {
        text = text.own("; kept terminating by ").foreign(blocked.finalizers.join(", "));
    }
    match permitting_flag(change) {
        Some(flag) => text.own(format!(" ({flag})")),
        None => text,
    }
}

/// Returns what a row says beside its object: what neither the other rows of its owner have in common with it, nor its place
/// below the deletion that causes it says.
pub(super) fn note(plan: &Plan, row: NestedRow<'_>, common: &Common<'_>) -> Prose {
    let NestedRow { change, depth, condition } = row;
    let mut reason = common.own_reason(&row);
    if matches!(reason.code, ReasonCode::Refused | ReasonCode::DeletionRefused) {
        reason.detail = without_name(&reason.detail, &change.object.id.name).to_owned();
    }
    reason.conditions.retain(|said| condition.is_none_or(|above| *said != if_deleted(above)));
    let mut text = if depth > 0 && follows_from_place(change) {
        Prose::default().foreign_after("", &reason.text())
    } else if depth > 0 {
        Prose::from(reason.code.to_string()).foreign_after(": ", &reason.text())
    } else if common.reason.as_ref() == Some(&reason) && change.cause.is_none() {
        Prose::default()
    } else {
        explanation(change, &reason)
    };
    if let Some(blocked) = plan.blocked_by_finalizers().iter().find(|blocked| blocked.object == change.object.id) {
        let separator = if text.parts().is_empty() { "" } else { "; " };
        text = finalizers(blocked).parts().iter().fold(text.own(separator), |text, part| text.part(part.clone()));
    }
    match permitting_flag(change) {
        Some(flag) => text.own(format!(" ({flag})")),
        None => text,
    }
}

/// Returns a message of the API server without a beginning that only names the object: `configmaps "web" is forbidden: `. Rows
/// that are refused for one reason are then equal.
fn without_name<'m>(message: &'m str, name: &str) -> &'m str {
    let named = ["forbidden", "invalid"].map(|word| format!(" \"{name}\" is {word}: "));
    let own = named.iter().find_map(|words| message.split_once(&**words)).filter(|(kind, _)| !kind.contains(' '));
    own.map_or(message, |(_, said)| said)
}

/// Codes of deletions by the controller of an owner that stays.
const OF_STAYING_OWNERS: [ReasonCode; 8] = [
    ReasonCode::FailedJob,
    ReasonCode::Hook,
    ReasonCode::NotGenerated,
    ReasonCode::NotInChart,
    ReasonCode::OldRecord,
    ReasonCode::ReleaseReplaced,
    ReasonCode::Remedied,
    ReasonCode::ScaledDown,
];

/// Returns the reason of a change with its cause.
fn explanation(change: &Change, reason: &Reason) -> Prose {
    let text = Prose::from(reason.code.to_string()).foreign_after(": ", &reason.text());
    match &change.cause {
        Some(cause) if change.action == Action::Keep => text.own("; ").foreign(cause).own(" is deleted"),
        // The owner stays, and the row names it.
        Some(_) if OF_STAYING_OWNERS.contains(&reason.code) => text,
        Some(cause) => text.own(": deleted with ").foreign(cause),
        None => text,
    }
}

pub(crate) fn outcome_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Applies => "applies",
        Outcome::Blocked => "blocked",
        Outcome::Deleted => "deleted",
        Outcome::Unchanged => "unchanged",
        Outcome::Unknown => "unknown",
    }
}

/// Returns true if the reason of an owner says more than its outcome.
pub(crate) fn has_own_reason(row: &OwnerOutcome) -> bool {
    matches!(row.outcome, Outcome::Blocked | Outcome::Unknown) || !row.reason.text().is_empty()
}

/// Returns the reason of an owner. One that another owner blocks stands below that one, whose reason is the same.
pub(crate) fn owner_explanation(plan: &Plan, row: &OwnerOutcome) -> Prose {
    let text = Prose::from(row.reason.code.to_string());
    match plan.blocking_owner(row) {
        Some(cause) => text.own(" (").foreign(&cause.owner).own(")"),
        None => text.foreign_after(": ", &row.reason.text()),
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

/// Returns one line with the counts of a plan, its blocked and unknown owners, and its completeness. After a table that
/// the same reader sees, it does not name the owners.
pub fn summary(plan: &Plan, is_table_shown: bool) -> String {
    let named = if is_table_shown { 0 } else { NAMED };
    one_line(&format!("{}{}", counts(plan), all_limitations(plan, named))).into_owned()
}

pub(crate) fn counts(plan: &Plan) -> String {
    let counts = number_words(&plan.summary());
    let in_doubt = owners_in_doubt(plan);
    let nothing = if plan.is_complete() && in_doubt[0].1.is_empty() {
        // Only a plan of a working tree has a subject.
        match plan.subject() {
            Some(_) if plan.summary().old_records > 0 || plan.is_without_dry_runs() => "no deletions",
            Some(_) => "no changes",
            None => "nothing to prune",
        }
    } else if in_doubt[1].1.is_empty() {
        "no deletions"
    } else {
        "no known deletions"
    };
    if counts.is_empty() { nothing.to_owned() } else { counts.join(", ") }
}

/// Returns the number of changes of each action: `3 to delete`.
fn number_words(summary: &Summary) -> Vec<String> {
    let counts = [
        (summary.delete, "to delete"),
        (summary.recreate, "to delete and create again"),
        (summary.create, "to create"),
        (summary.update, "to update"),
        (summary.keep, "kept"),
        (summary.unknown, "unknown"),
    ];
    counts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{} {what}", thousands(*number)))
        .collect()
}

/// Clause of the sum of a plan without dry-runs, after the other ones.
pub(crate) const WITHOUT_DRY_RUNS: &str = "; without dry-runs, updates and refusals are not known";

/// Returns what the counts do not cover, and if the API server was not asked.
pub(crate) fn all_limitations(plan: &Plan, named: usize) -> Prose {
    let text = limitations(plan, named);
    if plan.is_without_dry_runs() { text.own(WITHOUT_DRY_RUNS) } else { text }
}

/// Returns what the counts do not cover, after a semicolon each: blocked and unknown owners, of which some are named, and
/// missing parts of the plan.
pub(crate) fn limitations(plan: &Plan, named: usize) -> Prose {
    let mut text = Prose::default();
    for (what, owners) in owners_in_doubt(plan).iter().filter(|(_, owners)| !owners.is_empty()) {
        text = text.own(format!("; {} {what}", pluralize(owners.len(), "owner")));
        let mut separator = ": ";
        for (reason, rows) in by_reason(plan, owners.iter().take(named)) {
            for row in rows {
                text = text.own(separator).foreign(&row.owner);
                separator = ", ";
            }
            text = text.own(" (").foreign(reason).own(")");
        }
        if let Some(more) = and_more(owners.len(), named).filter(|_| named > 0) {
            text = text.own(format!(" {more}"));
        }
    }
    if plan.is_complete() { text } else { text.own("; the plan is incomplete") }
}

/// Returns owners by the reason of their outcome, in the order of the first of each.
fn by_reason<'p>(
    plan: &Plan,
    owners: impl Iterator<Item = &'p &'p OwnerOutcome>,
) -> Vec<(String, Vec<&'p OwnerOutcome>)> {
    let mut groups: Vec<(String, Vec<&OwnerOutcome>)> = vec![];
    for row in owners {
        let reason = owner_reason(plan, row);
        match groups.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((reason, vec![row])),
        }
    }
    groups
}

/// Returns an owner without the remarks of its reason, which stand on lines of their own.
pub(crate) fn without_remarks(row: &OwnerOutcome) -> OwnerOutcome {
    let reason = Reason { remarks: vec![], ..row.reason.clone() };
    OwnerOutcome { reason, ..row.clone() }
}

/// Returns why an owner has its outcome: the reason without its remarks, or else its code.
fn owner_reason(plan: &Plan, row: &OwnerOutcome) -> String {
    let text = without_remarks(row).reason.text();
    let is_own = !text.is_empty() && plan.blocking_owner(row).is_none();
    if is_own { text } else { row.reason.code.to_string() }
}

/// Returns warnings about rules that change, objects of several owners, objects that finalizers keep terminating, and updates that are
/// not in the plan.
pub fn warnings(plan: &Plan) -> Vec<Prose> {
    let mut contested = contested(plan);
    if contested.len() > NAMED {
        contested.truncate(NAMED);
        contested.push("more objects are applied by more than one owner; -o json lists them".into());
    }
    let blocked = limited(plan.blocked_by_finalizers(), blocked_by_finalizers, "blocked by finalizers");
    let upgrade = plan.controller_upgrade().map(controller_upgrade);
    upgrade.into_iter().chain(contested).chain(blocked).chain(not_compared(plan)).collect()
}

/// Names the objects whose updates are not in a plan.
fn not_compared(plan: &Plan) -> Option<Prose> {
    let objects = Some(plan.not_compared()).filter(|objects| !objects.is_empty())?;
    let text = Prose::from("not compared, as they are encrypted or name what has a hash of encrypted content: ");
    Some(text.foreign(join_limited(objects, NAMED)))
}

fn controller_upgrade(upgrade: &ControllerUpgrade) -> Prose {
    let ControllerUpgrade { from, to, rules } = upgrade;
    let text = Prose::from("this changes kustomize-controller from ").foreign(from).own(" to ").foreign(to);
    // A plan that is shown again is a file of others.
    text.own(", and the plan has the rules of ")
        .foreign(from)
        .own(". In ")
        .foreign(to)
        .own(": ")
        .foreign(rules.join("; "))
}

fn limited<T>(all: &[T], line: impl Fn(&T) -> Prose, what: &str) -> Vec<Prose> {
    let rest = all.len().saturating_sub(NAMED);
    let more = (rest > 0).then(|| format!("{} more {what}; -o json lists them", pluralize(rest, "object")));
    all.iter().take(NAMED).map(line).chain(more.map(Prose::from)).collect()
}

/// Names the objects that several owners apply, together where the owners are the same.
fn contested(plan: &Plan) -> Vec<Prose> {
    let mut groups: BTreeMap<&[OwnerId], Vec<&ObjectId>> = BTreeMap::new();
    for Contested { object, owners } in plan.contested() {
        groups.entry(owners).or_default().push(object);
    }
    let texts = groups.into_iter().map(|(owners, objects)| {
        let names: Vec<String> = owners.iter().map(ToString::to_string).collect();
        let (verb, it) = if objects.len() == 1 { ("is", "it") } else { ("are", "one") };
        let text = Prose::default()
            .foreign(join_limited(&objects, NAMED))
            .own(format!(" {verb} applied by "))
            .foreign(names.join(" and "));
        text.own(format!(": each undoes what the other does, and removing {it} from one may delete it"))
    });
    texts.collect()
}

fn blocked_by_finalizers(blocked: &BlockedByFinalizers) -> Prose {
    let object = Prose::default().foreign(&blocked.object);
    finalizers(blocked).parts().iter().fold(object.own(" "), |text, part| text.part(part.clone()))
}

/// Returns what an object waits for that finalizers keep.
fn finalizers(blocked: &BlockedByFinalizers) -> Prose {
    let finalizers = blocked.finalizers.join(", ");
    let text = Prose::from("will stay terminating");
    match &blocked.controller {
        Some(controller) => {
            text.own(": ").foreign(controller).own(" removes ").foreign(finalizers).own(" and is deleted too")
        }
        None => {
            let detail = blocked.detail.as_deref().unwrap_or_default();
            text.own(" until a controller removes ").foreign(finalizers).foreign_after("; ", detail)
        }
    }
}

/// Returns the hint for alarms: what to check, and all flags that lift them together, or the rest of them where no flag lifts all.
pub fn remedies<'a>(alarms: impl IntoIterator<Item = &'a Alarm>) -> Prose {
    let (mut advice, mut flags) = (vec![], vec![]);
    let (mut percent, mut number) = (0, 0);
    let mut kinds: Vec<&str> = vec![];
    let mut lasts = false;
    for alarm in alarms {
        lasts |= matches!(
            alarm.remedy,
            Some(Remedy::Unblock | Remedy::RemoveReferences | Remedy::FollowPolicy(_) | Remedy::InspectOwner) | None
        );
        advice.push(match &alarm.remedy {
            Some(Remedy::CheckPaths) => {
                percent = 100;
                "check the paths that this change touches".into()
            }
            Some(Remedy::RaiseMaxPercent(least)) => {
                percent = percent.max(*least);
                REVIEW.into()
            }
            Some(Remedy::RaiseMaxDelete(least)) => {
                number = number.max(*least);
                REVIEW.into()
            }
            Some(Remedy::Allow(allowed)) => {
                let others: Vec<&str> =
                    allowed.iter().map(|kind| kind.name()).filter(|kind| !kinds.contains(kind)).collect();
                kinds.extend(others);
                REVIEW.into()
            }
            Some(Remedy::Unblock) => {
                "correct what blocks owners; until then their controller applies and prunes nothing of them".into()
            }
            Some(Remedy::RemoveReferences) => "keep what is still needed, or remove what needs it first".into(),
            Some(Remedy::AllowIncomplete) => {
                flags.push("--allow-incomplete".to_owned());
                "get the missing permissions".into()
            }
            Some(Remedy::FollowPolicy(file)) => Prose::from("the rules are in ").foreign(file),
            Some(Remedy::InspectOwner) | None => "the inventory of the owner may be broken; inspect it first".into(),
        });
    }
    flags.dedup();
    flags.extend((percent > 0).then(|| format!("--max-percent={percent}")));
    flags.extend((number > 0).then(|| format!("--max-delete={number}")));
    flags.extend((!kinds.is_empty()).then(|| format!("--allow {}", kinds.join(","))));
    let mut told: Vec<Prose> = vec![];
    for text in advice {
        // Who checks the paths reviews the plan.
        let is_general = text == Prose::from(REVIEW) && !told.is_empty();
        if !is_general && !told.contains(&text) {
            told.push(text);
        }
    }
    let mut hint = Prose::default();
    for (number, text) in told.iter().enumerate() {
        hint = text.parts().iter().cloned().fold(if number > 0 { hint.own("; ") } else { hint }, Prose::part);
    }
    let intended = if lasts { "if the rest is intended" } else { "if it is intended" };
    if flags.is_empty() { hint } else { hint.own(format!("; {intended}, pass {}", flags.join(" "))) }
}

/// Returns how to rename or move an owner without the loss of its objects, if the plan may be about that. `flags` select the same
/// checkout, each after a space.
pub fn way_without_loss(plan: &Plan, flags: &str) -> Option<String> {
    let moved = plan.deletions().filter(|change| change.is_moved_with_loss()).count();
    if moved > 0 {
        let all = plan.deletions().count();
        return Some(format!(
            "{moved} of {} {} a rename or a move: `kubectl gitops handover{flags}` shows the way without loss",
            pluralize(all, "deletion"),
            if moved == 1 { "is" } else { "are" }
        ));
    }
    let makes_others = plan.changes().iter().any(|change| change.action == Action::Create) || !plan.is_complete();
    (makes_others && plan.owners().iter().any(loses_objects)).then(|| {
        format!("if a Kustomization was renamed or moved: `kubectl gitops handover{flags}` says whether its objects can stay")
    })
}

/// Returns true for a Kustomization that may be deleted with its objects.
fn loses_objects(row: &OwnerOutcome) -> bool {
    let codes = [ReasonCode::OwnerDeletedWithObjects, ReasonCode::OwnerDeletedUncertain];
    row.owner.system == "flux" && row.owner.kind == "Kustomization" && codes.contains(&row.reason.code)
}

#[cfg(test)]
mod tests {
    use gitops_core::kubernetes::snapshot::ClusterIdentity;
    use gitops_core::ownership::OwnerId;

    use super::*;

    #[test]
    fn owners_of_one_reason_are_named_together_in_the_summary() {
        let row = |name: &str, detail: &str| {
            let owner = OwnerId::new("flux", "Kustomization", "x", name);
            let remarks = vec![format!("would be at stake: {name}")];
            let reason = Reason { remarks, ..Reason::new(ReasonCode::BuildFailed, detail) };
            OwnerOutcome::new(owner, Outcome::Blocked, reason)
        };
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_owners([row("a", "late; or not, at all"), row("b", "no file"), row("c", "late; or not, at all")]);
        let expected = "no deletions; 3 owners blocked: kustomization/a -n x, kustomization/c -n x (late; or not, at all), \
                        kustomization/b -n x (no file)";
        assert_eq!(summary(&plan, false), expected);
        assert_eq!(summary(&plan, true), "no deletions; 3 owners blocked");
    }

    #[test]
    fn hint_does_not_promise_that_flags_lift_an_alarm_that_none_lifts() {
        let alarm = |remedy: Remedy| Alarm {
            code: AlarmCode::StillReferenced,
            owner: None,
            detail: String::new(),
            remedy: Some(remedy),
        };
        let liftable = alarm(Remedy::RaiseMaxPercent(57));
        assert_eq!(remedies([&liftable]).to_string(), "review the plan; if it is intended, pass --max-percent=57");
        let hint = remedies([&alarm(Remedy::RemoveReferences), &liftable]).to_string();
        assert!(hint.ends_with("; if the rest is intended, pass --max-percent=57"), "{hint}");
    }
}
