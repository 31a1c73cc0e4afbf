//! A plan as a comment on a pull request: alarms, counts, the tree of deletions, and a folded section per owner.
//!
//! Text of others is code, after a word of this program, so no line of the source begins with it.

pub mod escape;
pub mod mermaid;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use escape::{fenced, html_code, quote, span};

use super::gaps;
use super::plan::alike::{Alike, Block, blocks, remarks};
use super::plan::common::Common;
use super::plan::groups::{Group, NestedRow, groups};
use super::plan::{
    NAMED, action, all_limitations, counts, fleet, has_own_reason, note, outcome_words, owner_explanation, remedies,
    warnings, way_without_loss, without_remarks,
};
use super::text::prose::Prose;
use gitops_core::kubernetes::gap::GapGroup;
use gitops_core::plan::fleet::{CommonPlan, Fleet};
use gitops_core::plan::{Change, Plan};
use gitops_core::text::{and_more, pluralize};

/// Maximum size of a comment in bytes. GitHub and GitLab accept about 64 KiB, and a job may add a line.
pub const LIMIT: usize = 60_000;
/// Size that is reserved for the last lines.
const TAIL: usize = 400;
/// Number of clusters that are listed.
const LISTED_CLUSTERS: usize = 50;
/// Number of alarms and gaps that are listed.
const LISTED: usize = 5;
/// Maximum size of the alarms, the counts, the gaps and the warnings together.
const HEAD: usize = LIMIT / 2;
/// Maximum size of all headings, so that there is room for rows.
const HEADINGS: usize = LIMIT / 4;

/// One owner's part of the comment.
struct OwnerSection<'a> {
    plan: &'a Plan,
    heading: String,
    rows: Vec<NestedRow<'a>>,
    /// The reason and the conditions of several rows, which stand in the heading.
    common: Common<'a>,
    shown: String,
    number: usize,
    diffs: String,
    is_full: bool,
}

/// Returns the comment.
pub fn render(plan: &Plan) -> String {
    comment(head(plan), sections(plan, ""))
}

/// Returns the comment about several clusters.
pub fn render_fleet(fleet: &Fleet) -> String {
    let plans = fleet.common_plans();
    let sections = plans.iter().flat_map(|CommonPlan { clusters, plan, .. }| {
        let place = format!(", {}", html_code(&fleet.place(clusters)));
        sections(plan, &place)
    });
    comment(fleet_head(fleet, &plans), sections.collect())
}

/// Returns a comment of these parts. Rows without room are omitted and counted.
fn comment(mut comment: String, mut sections: Vec<OwnerSection<'_>>) -> String {
    let all = sections.iter().map(|section| section.rows.len()).sum::<usize>();
    let mut headings = 0;
    let fitting = sections.iter().take_while(|section| {
        headings += section.cost();
        headings <= HEADINGS
    });
    let kept = fitting.count();
    let dropped = sections.split_off(kept);
    let spent: usize = sections.iter().map(OwnerSection::cost).sum();
    let mut room = (LIMIT - TAIL).saturating_sub(comment.len() + spent);
    fill(&mut sections, &mut room);
    let diffs_left = add_diffs(&mut sections, &mut room);
    let mut left = dropped.iter().map(|section| section.rows.len()).sum::<usize>();
    for section in &sections {
        left += section.rows.len() - section.number;
        comment += &section.heading;
        if section.number > 0 {
            comment += "| action | object | reason |\n|---|---|---|\n";
            comment += &section.shown;
        }
        if section.number < section.rows.len() {
            comment += &format!("\n{} not shown\n", pluralize(section.rows.len() - section.number, "row"));
        }
        comment += &section.diffs;
        comment += "\n</details>\n\n";
    }
    if left + diffs_left > 0 {
        let diffs = if diffs_left > 0 { format!(" and {}", pluralize(diffs_left, "diff")) } else { String::new() };
        let rows = pluralize(left, "row");
        comment += &format!("**{rows}{diffs} of {} left out here**: `-o json` has them all.\n", all);
    }
    comment
}

impl<'a> OwnerSection<'a> {
    fn new(plan: &'a Plan, heading: String, rows: Vec<NestedRow<'a>>, common: Common<'a>) -> Self {
        Self { plan, heading, rows, common, shown: String::new(), number: 0, diffs: String::new(), is_full: false }
    }

    /// Returns the size of the section without its rows, but with the line on omitted rows.
    fn cost(&self) -> usize {
        self.heading.len() + 110
    }
}

/// Returns the part above the sections: alarms, the summary, gaps, warnings, and the tree.
fn head(plan: &Plan) -> String {
    let mut head = String::new();
    let alarms = plan.alarms();
    for (number, alarm) in alarms.iter().take(LISTED).enumerate() {
        let message = span(&alarm.detail);
        head += &if number == 0 { format!("🛑 **Alarm:** {message}\n\n") } else { format!("- alarm: {message}\n") };
    }
    if let Some(more) = and_more(alarms.len(), LISTED) {
        head += &format!("- {more}\n");
    }
    if alarms.len() > 1 {
        head.push('\n');
    }
    if let Some(subject) = plan.subject() {
        head += &format!("Plan of {}.\n\n", span(&subject.to_string()));
    }
    head += &format!("**{}**{}{}\n", counts(plan), quote(&all_limitations(plan, NAMED)), by_kind(plan));
    if !alarms.is_empty() {
        head += &format!("\nHint: {}.\n", quote(&remedies(alarms)));
    }
    if let Some(way) = way_without_loss(plan, "") {
        head += &format!("\nHint: {way}.\n");
    }
    if let Some(recorded) = plan.recorded() {
        head += &format!("\nPlanned on the cluster as it was at {}.\n", recorded.format("%Y-%m-%d %H:%M UTC"));
    }
    let gaps: Vec<GapGroup<'_>> =
        GapGroup::of(plan.gaps()).into_iter().filter(|group| group.first.affects_answer).collect();
    if !gaps.is_empty() {
        head += "\nThe plan is incomplete; these could not be read:\n\n";
        gaps.iter().take(LISTED).for_each(|group| head += &item(group));
        if let Some(more) = and_more(gaps.len(), LISTED) {
            head += &format!("- {more}\n");
        }
    }
    add_warnings(plan, &mut head);
    head.push('\n');
    match mermaid::tree(plan).map(|tree| fenced("mermaid", &tree)) {
        // Long names could make the tree larger than the rest.
        Some(tree) if head.len() + tree.len() < HEAD => head + &tree + "\n",
        _ => head,
    }
}

fn item(group: &GapGroup<'_>) -> String {
    if !group.others.is_empty() {
        return format!("- gap: {}\n", quote(&gaps::sentence(group, gaps::NAMED)));
    }
    let gap = &group.first.gap;
    let namespace = gap.namespace.as_deref().map(|name| format!(" in namespace {}", span(name))).unwrap_or_default();
    format!("- gap{namespace}: {}: {}\n", span(&gap.subject), span(&gap.message))
}

/// Adds the warnings that fit into the head, and the number of the others.
fn add_warnings(plan: &Plan, head: &mut String) {
    let warnings: Vec<String> = warnings(plan).iter().map(|text| format!("- warning: {}\n", quote(text))).collect();
    if warnings.is_empty() {
        return;
    }
    head.push('\n');
    for (number, warning) in warnings.iter().enumerate() {
        if head.len() + warning.len() > HEAD - TAIL {
            *head += &format!("- {} not shown\n", pluralize(warnings.len() - number, "more warning"));
            return;
        }
        *head += warning;
    }
}

/// Returns the deletions by kind, the largest number first: `. Deletes: 6 Namespace, 2 Pod`.
fn by_kind(plan: &Plan) -> String {
    let words = count_by_kind(plan.deletions(), 12, span);
    if words.is_empty() { words } else { format!(". Deletes: {words}") }
}

/// Returns the number of objects of each kind, the largest first, for this number of kinds: `2 Pod, 1 ReplicaSet, …`.
fn count_by_kind<'a>(
    changes: impl IntoIterator<Item = &'a Change>,
    limit: usize,
    quoted: impl Fn(&str) -> String,
) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    changes.into_iter().for_each(|change| *counts.entry(&change.object.id.kind).or_default() += 1);
    let mut kinds: Vec<(&str, usize)> = counts.into_iter().collect();
    kinds.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let shown = kinds.iter().take(limit).map(|(kind, number)| format!("{number} {}", quoted(kind)));
    let more = (kinds.len() > limit).then(|| "…".to_owned());
    shown.chain(more).collect::<Vec<_>>().join(", ")
}

/// Returns the sections of a plan, which are the same in the clusters that `place` names.
fn sections<'a>(plan: &'a Plan, place: &str) -> Vec<OwnerSection<'a>> {
    let sections = blocks(plan, groups(plan)).into_iter().map(|block| match block {
        Block::One(group) => section(plan, group, place),
        Block::Alike(alike) => section_of_alike(plan, &alike, place),
    });
    sections.collect()
}

/// Returns the section of several owners with the same outcome for the same reason.
fn section_of_alike<'a>(plan: &'a Plan, alike: &Alike<'a>, place: &str) -> OwnerSection<'a> {
    let row = alike.first();
    let mut notes = format!("Reason: {}\n\n", quote(&owner_explanation(plan, &without_remarks(row))));
    let parts = alike.by_remark();
    for owners in parts.iter().take(LISTED) {
        let names: Vec<String> = owners.iter().take(LISTED).map(|row| span(&row.owner.to_string())).collect();
        let more = and_more(owners.len(), LISTED).map(|more| format!(" {more}")).unwrap_or_default();
        notes += &format!("- {}{more}\n", names.join(", "));
        remarks(owners).iter().for_each(|remark| notes += &format!("  - {}\n", span(remark)));
    }
    let rest: usize = parts.iter().skip(LISTED).map(Vec::len).sum();
    if rest > 0 {
        notes += &format!("- {}\n", pluralize(rest, "more owner"));
    }
    let arrow = if alike.depth > 0 { "↳ " } else { "" };
    let summary = format!("{arrow}{}: {}{place}", alike.number(), outcome_words(row.outcome));
    OwnerSection::new(plan, format!("<details><summary>{summary}</summary>\n\n{notes}"), vec![], Common::default())
}

/// Returns the section of an owner, which is the same in the clusters that `place` names.
fn section<'a>(plan: &'a Plan, group: Group<'a>, place: &str) -> OwnerSection<'a> {
    let name = group.owner.map_or_else(|| "in no inventory".to_owned(), |owner| html_code(&owner.to_string()));
    let mut notes = String::new();
    if let Some(row) = group.outcome.filter(|row| has_own_reason(row)) {
        notes += &format!("Reason: {}\n\n", quote(&owner_explanation(plan, row)));
    }
    let common = Common::of(&group.rows);
    if let Some(reason) = &common.reason {
        let words = Prose::from(reason.code.to_string()).foreign_after(": ", &reason.text());
        notes += &format!("Reason of its objects, unless another one stands there: {}\n\n", quote(&words));
    }
    for (label, text) in common.lines() {
        notes += &format!("Its objects, {label}: {}\n\n", span(text));
    }
    if let Some(records) = group.old_records() {
        notes += &format!("{records}\n\n");
    }
    let doubt = group.outcome.filter(|_| group.is_in_doubt()).map(|row| outcome_words(row.outcome).to_string());
    let counts: Vec<String> = [group.numbers()].into_iter().chain(doubt).filter(|words| !words.is_empty()).collect();
    let arrow = if group.depth > 0 { "↳ " } else { "" };
    let heading = format!("<details><summary>{arrow}{name}: {}{place}</summary>\n\n{notes}", counts.join(", "));
    let mut rows = group.rows;
    rows.sort_by_key(|row| !row.change.is_deletion());
    OwnerSection::new(plan, heading, rows, common)
}

/// Fills the sections with the deletions of all owners first, then with the other rows.
fn fill(sections: &mut [OwnerSection<'_>], room: &mut usize) {
    for wanted in [true, false] {
        for section in &mut *sections {
            while let Some(next) = section.rows.get(section.number).filter(|_| !section.is_full) {
                if next.change.is_deletion() != wanted {
                    break;
                }
                let row = row(section.plan, *next, &section.common);
                section.is_full = row.len() > *room;
                if !section.is_full {
                    *room -= row.len();
                    section.shown += &row;
                    section.number += 1;
                }
            }
        }
    }
}

/// Returns a line of a table. A row below another one says only what its place does not say.
fn row(plan: &Plan, row: NestedRow<'_>, common: &Common<'_>) -> String {
    let (id, place) = (span(&row.change.object.id.to_string()), if row.depth > 0 { "↳ " } else { "" });
    format!("| {} | {place}{id} | {} |\n", action(row.change), quote(&note(plan, row, common)))
}

/// Adds diffs to the sections of their owners while there is room. Returns the number of diffs without room.
fn add_diffs(sections: &mut [OwnerSection<'_>], room: &mut usize) -> usize {
    let mut left = 0;
    for section in sections {
        for diff in section.plan.diffs() {
            if !section.rows.iter().any(|row| row.change.object.id == diff.object) {
                continue;
            }
            let name = html_code(&diff.object.to_string());
            let block =
                format!("\n<details><summary>diff of {name}</summary>\n\n{}\n</details>\n", fenced("diff", &diff.text));
            if block.len() <= *room {
                *room -= block.len();
                section.diffs += &block;
            } else {
                left += 1;
            }
        }
    }
    left
}

/// Returns the part above the sections of several clusters: alarms, a row for each cluster, gaps and warnings.
fn fleet_head(fleet: &Fleet, plans: &[CommonPlan]) -> String {
    let mut head = String::new();
    let alarms = fleet::alarm_lines(fleet);
    for alarm in alarms.iter().take(LISTED) {
        head += &format!("🛑 **Alarm** {}\n\n", span(alarm));
    }
    if let Some(more) = and_more(alarms.len(), LISTED) {
        head += &format!("- {more}\n\n");
    }
    if let Some(tree) = fleet::tree_text(fleet) {
        head += &format!("Plan of {}.\n\n", span(&tree));
    }
    head += &format!("**{}**\n\n| cluster | plan |\n|---|---|\n", fleet::counts(fleet));
    for cluster in fleet.clusters().iter().take(LISTED_CLUSTERS) {
        let text = fleet::cluster_text(fleet, cluster);
        head += &format!("| {} | {} |\n", span(&cluster.name), quote(&text));
    }
    if let Some(more) = and_more(fleet.clusters().len(), LISTED_CLUSTERS) {
        head += &format!("\n{more}\n");
    }
    if !fleet.alarms().is_empty() {
        head += &format!("\nHint: {}.\n", quote(&remedies(fleet.alarms().iter().map(|alarm| &alarm.part))));
    }
    if let Some(way) = fleet.plans().find_map(|(_, plan)| way_without_loss(plan, "")) {
        head += &format!("\nHint: {}.\n", way.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let gaps = fleet::gap_sentences(fleet);
    if !gaps.is_empty() {
        head += "\nThe answer is incomplete; these could not be read:\n\n";
        gaps.iter().take(LISTED).for_each(|gap| head += &format!("- gap: {}\n", quote(gap)));
        if let Some(more) = and_more(gaps.len(), LISTED) {
            head += &format!("- {more}\n");
        }
    }
    for CommonPlan { clusters, plan, differing } in plans {
        add_warnings(plan, &mut head);
        if let Some(words) = fleet::differing_words(*differing) {
            head += &format!("\nDeleted {}: {words}.\n", span(&fleet.place(clusters)));
        }
    }
    head.push('\n');
    head
}
