//! The page of a plan: what is deleted and why, by owner, with everything that is deleted with it.

use std::collections::{HashMap, HashSet};

use super::page::{Page, Row, Section, Tone, gap_notices};
use crate::output::plan::alike::{Alike, Block, blocks};
use crate::output::plan::common::Common;
use crate::output::plan::groups::{Group, NestedRow, groups};
use crate::output::plan::{
    action, counts, fleet, has_own_reason, note, outcome_words, owner_explanation, remedies, shown_alarms, warnings,
    way_without_loss, without_remarks,
};
use crate::output::text::prose::Prose;
use crate::output::text::sanitize::one_line;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::OwnerId;
use gitops_core::plan::fleet::{CommonPlan, Fleet};
use gitops_core::plan::{Action, Certainty, Outcome, OwnerOutcome, Plan};
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

/// Returns the page of several clusters: a line for each, and then the owners with the clusters that their rows are in.
pub(super) fn fleet_page<'a>(fleet: &Fleet, plans: &'a [CommonPlan]) -> Page<'a> {
    let mut clusters = Section::new("Clusters");
    for cluster in fleet.clusters() {
        clusters.lines += &one_line(&format!("{}: {}", cluster.name, fleet::cluster_text(fleet, cluster)));
        clusters.lines.push('\n');
    }
    let mut page =
        Page { title: format!("Plan: {}", fleet::counts(fleet)), sections: vec![clusters], ..Page::default() };
    page.facts.extend(fleet::tree_text(fleet).map(|tree| ("Plan of", tree)));
    let gaps = fleet::gap_sentences(fleet);
    page.facts.push(("Complete", complete(fleet.is_complete(), gaps.is_empty()).to_owned()));
    for alarm in fleet::alarm_lines(fleet) {
        page.notices.push((Tone::Bad, Prose::from("Alarm ").foreign(alarm)));
    }
    if !fleet.alarms().is_empty() {
        let hint = remedies(fleet.alarms().iter().map(|alarm| &alarm.part));
        page.notices.push((Tone::Info, Prose::from(format!("Hint: {hint}."))));
    }
    for sentence in &gaps {
        let text = sentence.parts().iter().fold(Prose::from("Gap: "), |text, part| text.part(part.clone()));
        page.notices.push((Tone::Warn, text));
    }
    for CommonPlan { clusters, plan, differing } in plans {
        let place = fleet.place(clusters);
        if let Some(words) = fleet::differing_words(*differing) {
            page.notices.push((Tone::Info, Prose::from("Deleted ").foreign(&place).own(format!(": {words}."))));
        }
        page.notices.extend(notices(plan));
        page.sections.extend(sections(plan).into_iter().map(|section| {
            let separator = if section.summary.is_empty() { "" } else { ", " };
            let summary = format!("{}{separator}{place}", section.summary);
            Section { summary, ..section }
        }));
    }
    page
}

fn facts(plan: &Plan) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Cluster", plan.cluster().server.clone())];
    if let Some(subject) = plan.subject() {
        facts = vec![("Plan of", subject.tree_text()), ("Cluster", subject.cluster_text())];
        facts.extend(subject.lag_text().map(|lag| ("Behind", lag)));
        facts.extend(subject.obstacles_text().map(|obstacles| ("Sources", obstacles)));
    }
    if let Some(recorded) = plan.recorded() {
        facts.push(("Recorded", recorded.format("%Y-%m-%d %H:%M UTC").to_string()));
    }
    facts.push(("Complete", complete(plan.is_complete(), plan.gaps().is_empty()).to_owned()));
    facts.extend(
        plan.is_without_dry_runs().then(|| ("Dry-runs", "none: updates and refusals are not known".to_owned())),
    );
    facts
}

fn complete(is_complete: bool, has_no_gaps: bool) -> &'static str {
    match (is_complete, has_no_gaps) {
        (true, _) => "yes",
        (false, true) => "no: see the owners that are unknown",
        (false, false) => "no: see the gaps",
    }
}

fn notices(plan: &Plan) -> Vec<(Tone, Prose)> {
    let mut notices = vec![];
    for alarm in shown_alarms(plan) {
        notices.push((Tone::Bad, Prose::from("Alarm: ").foreign(&alarm.detail)));
    }
    let hint = (!plan.alarms().is_empty()).then(|| remedies(plan.alarms()).to_string());
    for hint in hint.into_iter().chain(way_without_loss(plan, "")) {
        notices.push((Tone::Info, Prose::from(format!("Hint: {hint}."))));
    }
    if plan.changes().iter().any(|change| change.certainty == Certainty::Race) {
        let words = "A question mark (delete?): it depends on what happens first, as the reason or the row above says.";
        notices.push((Tone::Info, Prose::from(words)));
    }
    notices.extend(gap_notices(plan.gaps()));
    notices.extend(warnings(plan).into_iter().map(|text| (Tone::Warn, text)));
    notices
}

/// Returns a section per owner that deletes or changes objects, or of which that is not known, each below the one that
/// blocks it, and one of the owners without changes. Owners that are in doubt for the same reason are one section.
fn sections(plan: &Plan) -> Vec<Section<'_>> {
    let diffs: HashMap<&ObjectId, &str> = plan.diffs().iter().map(|diff| (&diff.object, &*diff.text)).collect();
    let groups = groups(plan);
    let shown: HashSet<&OwnerId> = groups.iter().filter_map(|group| group.owner).collect();
    let of_blocks = blocks(plan, groups).into_iter().map(|block| match block {
        Block::One(group) => section(plan, &group, &diffs),
        Block::Alike(alike) => section_of_alike(plan, &alike),
    });
    let mut sections: Vec<Section<'_>> = of_blocks.collect();
    let mut rest = Section::new("Owners without changes");
    let silent = plan.owners().iter().filter(|row| !shown.contains(&row.owner));
    rest.rows.extend(silent.map(|row| owner_row(row, &row.reason.text())));
    if !rest.rows.is_empty() {
        rest.summary = pluralize(rest.rows.len(), "owner");
        sections.push(rest);
    }
    sections
}

fn section<'a>(plan: &'a Plan, group: &Group<'a>, diffs: &HashMap<&'a ObjectId, &'a str>) -> Section<'a> {
    let heading = group.owner.map_or_else(|| "In no inventory".to_owned(), ToString::to_string);
    let common = Common::of(&group.rows);
    let mut section = Section { summary: group.numbers(), depth: group.depth, ..Section::new(heading) };
    if let Some(row) = group.outcome {
        section.tag = Some(outcome_tag(row.outcome));
        section.notes.extend(has_own_reason(row).then(|| owner_explanation(plan, row)));
    }
    if let Some(reason) = &common.reason {
        let words = Prose::from("Its objects: ").own(reason.code.to_string());
        section.notes.push(words.foreign_after(": ", &reason.text()));
    }
    section
        .notes
        .extend(common.lines().map(|(label, text)| Prose::from(format!("Its objects, {label}: ")).foreign(text)));
    section.notes.extend(group.old_records().map(Prose::from));
    // Rows stand behind the row above them: the last ones are closed first.
    let mut open: Vec<Row<'a>> = vec![];
    for nested in &group.rows {
        close(&mut open, nested.depth.min(DEEPEST), &mut section.rows);
        open.push(row(plan, *nested, &common, diffs));
    }
    close(&mut open, 0, &mut section.rows);
    section
}

/// Returns the section of several owners with the same outcome for the same reason.
fn section_of_alike<'a>(plan: &Plan, alike: &Alike<'_>) -> Section<'a> {
    let first = alike.first();
    let mut section = Section { depth: alike.depth, ..Section::new(alike.number()) };
    section.tag = Some(outcome_tag(first.outcome));
    section.notes.push(owner_explanation(plan, &without_remarks(first)));
    let owners = alike.by_remark().into_iter().flatten();
    section.rows = owners.map(|row| owner_row(row, &row.reason.remarks.join("; "))).collect();
    section
}

/// Moves the rows at this depth and deeper into the row above them, or to the rows of the section.
fn close<'a>(open: &mut Vec<Row<'a>>, depth: usize, rows: &mut Vec<Row<'a>>) {
    while open.len() > depth {
        let Some(row) = open.pop() else { return };
        match open.last_mut() {
            Some(above) => above.children.push(row),
            None => rows.push(row),
        }
    }
}

fn row<'a>(plan: &Plan, nested: NestedRow<'a>, common: &Common<'_>, diffs: &HashMap<&'a ObjectId, &'a str>) -> Row<'a> {
    let change = nested.change;
    let id = &change.object.id;
    let mut row = Row::new((tone(change.action), action(change)), id, note(plan, nested, common));
    row.diff = diffs.get(id).copied();
    row
}

fn owner_row(outcome: &OwnerOutcome, note: &str) -> Row<'static> {
    let OwnerId { kind, namespace, name, .. } = &outcome.owner;
    let (tone, words) = outcome_tag(outcome.outcome);
    let id = ObjectId::new("", kind, namespace, name);
    Row::new((tone, words), &id, Prose::default().foreign_after("", note))
}

fn outcome_tag(outcome: Outcome) -> (Tone, String) {
    let tone = match outcome {
        Outcome::Applies => Tone::Good,
        Outcome::Blocked | Outcome::Unknown => Tone::Warn,
        Outcome::Deleted => Tone::Bad,
        Outcome::Unchanged => Tone::Plain,
    };
    (tone, outcome_words(outcome).to_owned())
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
