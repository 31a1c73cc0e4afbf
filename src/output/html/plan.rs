//! The page of a plan: what is deleted and why, by owner, with everything that is deleted with it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::page::{Page, Row, Section, Tone, objects};
use crate::output::plan::{action, caused_changes, counts, reason, remedy, shown_alarms, warnings};
use crate::output::prose::Prose;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::OwnerId;
use gitops_core::plan::{Action, Change, Outcome, OwnerOutcome, Plan};
use gitops_core::text::pluralize;

/// Deepest nesting of objects. Owner references that others wrote could nest without end.
const DEEPEST: usize = 48;

pub(super) fn page(plan: &Plan) -> Page<'_> {
    Page {
        title: format!("Plan: {}", counts(plan)),
        facts: facts(plan),
        notices: notices(plan),
        sections: sections(plan),
    }
}

fn facts(plan: &Plan) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Cluster", plan.cluster().server.clone())];
    if let Some(recorded) = plan.recorded() {
        facts.push(("Recorded", recorded.format("%Y-%m-%d %H:%M UTC").to_string()));
    }
    let complete = if plan.is_complete() { "yes" } else { "no: see the gaps" };
    facts.push(("Complete", complete.to_owned()));
    facts
}

fn notices(plan: &Plan) -> Vec<(Tone, Prose)> {
    let mut notices = vec![];
    for alarm in shown_alarms(plan) {
        let text = Prose::default().own("Alarm: ").foreign(&alarm.detail).own(format!(". Hint: {}.", remedy(alarm)));
        notices.push((Tone::Bad, text));
    }
    for gap in plan.gaps() {
        let subject = Prose::default().own("Gap: ").foreign(&gap.subject);
        let place = gap.namespace.as_deref().unwrap_or_default();
        notices.push((Tone::Warn, subject.foreign_after(" in namespace ", place).own(": ").foreign(&gap.message)));
    }
    notices.extend(warnings(plan).into_iter().map(|text| (Tone::Warn, text)));
    notices
}

/// Returns a section per owner that deletes or changes objects, or of which that is not known, and one of the owners
/// without changes. The owner with most deletions is first, then those that apply nothing.
fn sections(plan: &Plan) -> Vec<Section<'_>> {
    let mut roots: BTreeMap<Option<&OwnerId>, Vec<Row<'_>>> = BTreeMap::new();
    for (owner, row) in Nesting::new(plan).rows() {
        roots.entry(owner).or_default().push(row);
    }
    let (mut sections, mut rest) = (vec![], Section::new("Owners without changes"));
    for outcome in plan.owners() {
        match (roots.remove(&Some(&outcome.owner)), outcome.outcome) {
            (None, Outcome::Applies | Outcome::Unchanged) => rest.rows.push(owner_row(outcome)),
            (rows, _) => sections.push(section(outcome.owner.to_string(), rows.unwrap_or_default(), Some(outcome))),
        }
    }
    for (owner, rows) in roots {
        let heading = owner.map_or_else(|| "In no inventory".to_owned(), ToString::to_string);
        sections.push(section(heading, rows, None));
    }
    sections.sort_by_key(|(importance, _)| Reverse(*importance));
    let mut sections: Vec<Section<'_>> = sections.into_iter().map(|(_, section)| section).collect();
    if !rest.rows.is_empty() {
        rest.summary = pluralize(rest.rows.len(), "owner");
        sections.push(rest);
    }
    sections
}

/// Returns a section with its importance.
fn section<'a>(
    heading: String,
    rows: Vec<Row<'a>>,
    outcome: Option<&OwnerOutcome>,
) -> ((usize, bool, usize), Section<'a>) {
    let (mut deleted, mut all) = (0, 0);
    for row in &rows {
        row.visit(&mut |row| {
            all += 1;
            deleted += usize::from(row.tag.0 == Tone::Bad);
        });
    }
    let summary = format!("{deleted} to delete, {}", objects(all));
    let mut section = Section { rows, summary, ..Section::new(heading) };
    if let Some(outcome) = outcome {
        section.tag = Some(outcome_tag(outcome.outcome));
        if outcome.outcome != Outcome::Applies || !outcome.reason.detail.is_empty() {
            let note = Prose::default().own(outcome.reason.code.to_string());
            section.notes.push(note.foreign_after(": ", &outcome.reason.detail));
        }
    }
    let is_in_doubt = outcome.is_some_and(|row| matches!(row.outcome, Outcome::Blocked | Outcome::Unknown));
    ((deleted, is_in_doubt, all), section)
}

fn owner_row(outcome: &OwnerOutcome) -> Row<'static> {
    let OwnerId { kind, namespace, name, .. } = &outcome.owner;
    let (tone, words) = outcome_tag(outcome.outcome);
    let note = Prose::default().foreign_after("", &outcome.reason.detail);
    Row::new((tone, words), &ObjectId::new("", kind, namespace, name), note)
}

fn outcome_tag(outcome: Outcome) -> (Tone, String) {
    let (tone, words) = match outcome {
        Outcome::Applies => (Tone::Good, "applies"),
        Outcome::Blocked => (Tone::Warn, "blocked"),
        Outcome::Deleted => (Tone::Bad, "deleted"),
        Outcome::Unchanged => (Tone::Plain, "unchanged"),
        Outcome::Unknown => (Tone::Warn, "unknown"),
    };
    (tone, words.to_owned())
}

fn tone(action: Action) -> Tone {
    match action {
        Action::Delete | Action::Recreate => Tone::Bad,
        Action::Unknown => Tone::Warn,
        Action::Keep => Tone::Plain,
        Action::Create => Tone::Good,
        Action::Update => Tone::Info,
    }
}

/// Changes of a plan, each below the deletion that causes it.
struct Nesting<'a> {
    plan: &'a Plan,
    /// Positions of the changes that the deletion of an object causes.
    caused: HashMap<&'a ObjectId, Vec<usize>>,
    diffs: HashMap<&'a ObjectId, &'a str>,
    is_shown: Vec<bool>,
}

impl<'a> Nesting<'a> {
    fn new(plan: &'a Plan) -> Self {
        let diffs = plan.diffs().iter().map(|diff| (&diff.object, &*diff.text)).collect();
        Self { plan, caused: caused_changes(plan), diffs, is_shown: vec![false; plan.changes().len()] }
    }

    /// Returns the rows without a row above them, with their owners, deletions first. A row is shown once, also where
    /// causes form a circle.
    fn rows(mut self) -> Vec<(Option<&'a OwnerId>, Row<'a>)> {
        let plan = self.plan;
        let deleted: HashSet<&ObjectId> = plan.deletions().map(|change| &change.object.id).collect();
        let mut order: Vec<usize> = (0..plan.changes().len()).collect();
        order.sort_by_key(|at| {
            let Change { cause, action, .. } = &plan.changes()[*at];
            let has_row_above = cause.as_ref().is_some_and(|cause| deleted.contains(cause));
            (has_row_above, *action)
        });
        let mut rows = vec![];
        for at in order {
            if let Some(row) = self.row(at, 0) {
                rows.push((plan.changes()[at].owner.as_ref(), row));
            }
        }
        rows
    }

    fn row(&mut self, at: usize, depth: usize) -> Option<Row<'a>> {
        if std::mem::replace(&mut self.is_shown[at], true) {
            return None;
        }
        let change: &'a Change = &self.plan.changes()[at];
        let id = &change.object.id;
        let mut row = Row::new((tone(change.action), action(change)), id, reason(self.plan, change));
        row.diff = self.diffs.get(id).copied();
        if change.is_deletion() && depth < DEEPEST {
            let caused = self.caused.get(id).cloned().unwrap_or_default();
            row.children = caused.into_iter().filter_map(|at| self.row(at, depth + 1)).collect();
        }
        Some(row)
    }
}
