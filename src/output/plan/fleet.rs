//! Text of the plans of several clusters: a line for each cluster, and what they have in common once.

use std::collections::BTreeSet;

use super::grouped::{self, Lines};
use super::{WITHOUT_DRY_RUNS, limitations, number_words, warnings, wide_table};
use crate::output::format::{Look, Part, Render};
use crate::output::report::{self, ReportedFinding};
use crate::output::text::prose::Prose;
use crate::output::text::sanitize::{escape, one_line};
use crate::output::{gaps, html, markdown};
use gitops_core::kubernetes::gap::GapGroup;
use gitops_core::plan::alarm::AlarmCode;
use gitops_core::plan::fleet::{ClusterState, CommonPlan, Fleet, FleetCluster};
use gitops_core::text::pluralize;

impl Render for Fleet {
    const PARTS: &'static [Part] = &[Part::Text, Part::Document, Part::Comment, Part::Page, Part::Findings];

    fn text(&self, wide: bool, look: Look) -> String {
        let mut page = Lines::new(look);
        if let Some(tree) = tree_text(self).filter(|_| look.subject) {
            page.wrapped(0, 2, &format!("plan of {}", one_line(&tree)));
        }
        let width = self.clusters().iter().map(|cluster| cluster.name.len()).max().unwrap_or_default();
        for cluster in self.clusters() {
            let name = one_line(&cluster.name);
            page.wrapped(
                2,
                width + 4,
                &format!("{name:width$}  {}", one_line(&cluster_text(self, cluster).to_string())),
            );
        }
        for line in alarm_lines(self) {
            page.alarm(&line);
        }
        let mut text = page.text;
        for CommonPlan { clusters, plan, differing } in self.common_plans() {
            let body = if wide { wide_table(&plan, look) } else { grouped::render(&plan, look) };
            let diffs: String = plan.diffs().iter().map(|diff| format!("\n{}", escape(&diff.text))).collect();
            if !(body.is_empty() && diffs.is_empty()) {
                let place = one_line(&self.place(&clusters)).into_owned();
                text += &format!("\n{place}:\n");
                text.extend(differing_words(differing).map(|words| format!("  {words}\n")));
                text += &format!("{}{diffs}", body.trim_start_matches('\n'));
            }
        }
        let mut page = Lines::new(look);
        for gap in gap_sentences(self) {
            page.gap(&gap.to_string());
        }
        if page.text.is_empty() { text } else { format!("{text}\n{}", page.text) }
    }

    fn names(&self) -> String {
        String::new()
    }

    fn comment(&self) -> String {
        markdown::render_fleet(self)
    }

    fn page(&self) -> String {
        html::of_fleet(self)
    }

    fn findings(&self) -> Vec<ReportedFinding> {
        let mut findings = report::findings_of_fleet(self);
        for CommonPlan { clusters, plan, .. } in self.common_plans() {
            let place = self.place(&clusters);
            findings.extend(report::findings(&plan).into_iter().map(|finding| finding.in_place(&place)));
        }
        findings.sort_by_key(|finding| finding.severity);
        findings
    }
}

/// Returns the words for objects that are deleted with those of a plan, if there are any.
pub(crate) fn differing_words(number: usize) -> Option<String> {
    let objects = pluralize(number, "more object");
    (number > 0)
        .then(|| format!("and with them {objects} in all clusters together, whose names differ (-o json lists them)"))
}

/// Returns the tree that is planned, if it and its sources are the same for all clusters.
pub(crate) fn tree_text(fleet: &Fleet) -> Option<String> {
    let mut trees = fleet.plans().filter_map(|(_, plan)| plan.subject()).map(|subject| subject.tree_text());
    let first = trees.next()?;
    trees.all(|tree| tree == first).then_some(first)
}

/// Returns what the plan of a cluster comes to, or the reason why it has none.
pub(crate) fn cluster_text(fleet: &Fleet, cluster: &FleetCluster) -> Prose {
    let text = Prose::default();
    let Some(plan) = &cluster.plan else {
        return match cluster.state {
            ClusterState::SameCluster => {
                let other = cluster.same_cluster_as.as_deref().unwrap_or_default();
                text.own("the same cluster as ").foreign(other).own(", which counts once")
            }
            ClusterState::Unaffected => text.own("unaffected: ").foreign(&cluster.detail),
            _ => text.own("not planned: ").foreign(&cluster.detail),
        };
    };
    let text =
        limitations(plan, 0).parts().iter().fold(text.own(super::counts(plan)), |text, part| text.part(part.clone()));
    match plan.subject() {
        Some(subject) if tree_text(fleet).is_some() => {
            let lag = subject.lag_text().map(|lag| format!("{lag}; ")).unwrap_or_default();
            text.own("; ").foreign(lag + &subject.cluster_text())
        }
        Some(subject) => text.own("; ").foreign(subject),
        None => text,
    }
}

/// Returns the sentence of each alarm, after the clusters that raise it. The gaps themselves say that a plan is incomplete.
pub(crate) fn alarm_lines(fleet: &Fleet) -> Vec<String> {
    let shown = fleet.alarms().iter().filter(|row| row.part.code != AlarmCode::Incomplete);
    shown.map(|row| one_line(&format!("{}: {}", fleet.place(&row.clusters), row.part.detail)).into_owned()).collect()
}

/// Returns the gaps that can change the answer, but for the clusters without a plan, whose lines say why, and for what is the
/// reason of an owner.
pub(crate) fn gap_sentences(fleet: &Fleet) -> Vec<Prose> {
    let of_owners = fleet.plans().flat_map(|(_, plan)| plan.unknown_owners()).map(|row| &*row.reason.detail);
    let reasons: BTreeSet<&str> = of_owners.collect();
    let mut groups = GapGroup::of(fleet.gaps());
    groups.retain(|group| {
        let gap = group.first;
        let is_reason = reasons.iter().any(|reason| reason.starts_with(&*gap.message));
        let mut failed = fleet.clusters().iter().filter(|cluster| cluster.state == ClusterState::Failed);
        let is_of_failed =
            failed.any(|cluster| gap.context.as_deref() == Some(&*cluster.name) && gap.message == cluster.detail);
        gap.affects_answer && !is_reason && !is_of_failed
    });
    groups.iter().map(|group| gaps::sentence(group, gaps::NAMED)).collect()
}

/// Returns the warnings that a table would show: clusters that the tree does not affect, and those of the plans.
pub(crate) fn messages(fleet: &Fleet) -> Vec<String> {
    let without = fleet
        .clusters()
        .iter()
        .filter(|cluster| matches!(cluster.state, ClusterState::SameCluster | ClusterState::Unaffected));
    let mut messages: Vec<String> =
        without.map(|cluster| format!("{}: {}", cluster.name, cluster_text(fleet, cluster))).collect();
    for CommonPlan { clusters, plan, .. } in fleet.common_plans() {
        messages.extend(warnings(&plan).iter().map(|warning| format!("{}: {warning}", fleet.place(&clusters))));
    }
    messages
}

/// Returns one line with the number of clusters by state, and of changes by action.
pub(crate) fn counts(fleet: &Fleet) -> String {
    let states: Vec<String> = [
        (ClusterState::Planned, "planned"),
        (ClusterState::Unaffected, "unaffected"),
        (ClusterState::Failed, "not planned"),
    ]
    .into_iter()
    .map(|(state, word)| (fleet.clusters().iter().filter(|cluster| cluster.state == state).count(), word))
    .filter(|(number, _)| *number > 0)
    .map(|(number, word)| format!("{} {word}", pluralize(number, "cluster")))
    .collect();
    let numbers = number_words(&fleet.summary());
    let is_without_dry_runs = fleet.plans().any(|(_, plan)| plan.is_without_dry_runs());
    let (none, incomplete) = match (fleet.is_complete(), is_without_dry_runs) {
        (true, true) => ("no deletions", ""),
        (true, false) => ("no changes", ""),
        (false, _) => ("no known changes", "; the answer is incomplete"),
    };
    let numbers = if numbers.is_empty() { none.to_owned() } else { numbers.join(", ") };
    let open = if is_without_dry_runs { WITHOUT_DRY_RUNS } else { "" };
    format!("{}: {numbers}{incomplete}{open}", states.join(", "))
}
