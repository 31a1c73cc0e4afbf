//! The page of an inventory: owners, their objects and dependents.

use super::page::{Page, Row, Section, Tone, gap_notices, objects};
use crate::output::inventory::{
    explain, label_report, label_reports, note, object_state, owner_state, status_words, summary,
};
use crate::output::text::prose::Prose;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::OwnerStatus;
use gitops_core::ownership::readiness::Readiness;
use gitops_core::ownership::report::tree::TreeNode;
use gitops_core::ownership::report::{Body, Finding, InventoryDocument, MemberView, OwnerObjects, OwnerSummary};

pub(super) fn page(answer: &InventoryDocument) -> Page<'_> {
    let mut facts = vec![
        ("Cluster", clusters(answer)),
        ("Read", answer.taken.format("%Y-%m-%d %H:%M UTC").to_string()),
        ("Complete", if answer.complete { "yes" } else { "no: see the gaps" }.to_owned()),
    ];
    if let Some(filter) = &answer.filter {
        facts.push(("Filter", format!("{} shown, {} hidden", filter.shown, filter.hidden)));
    }
    let labels = label_reports(answer).map(|(context, report)| Section {
        lines: label_report(report),
        ..Section::new(in_context(context, "Labels"))
    });
    let beside = answer.beside.chunk_by(|a, b| (&a.context, a.status) == (&b.context, b.status)).map(beside_section);
    let sections = sections(answer).into_iter().chain(beside).chain(labels).collect();
    Page { title: format!("Inventory: {}", summary(answer)), facts, notices: gap_notices(&answer.gaps), sections }
}

/// Returns the address of the cluster, or the names of several.
fn clusters(answer: &InventoryDocument) -> String {
    let names: Vec<&str> = answer.contexts.iter().map(|context| &*context.context).collect();
    answer.cluster.as_ref().map_or_else(|| names.join(", "), |cluster| cluster.server.clone())
}

fn in_context(context: Option<&str>, heading: &str) -> String {
    context.map(|context| format!("{context}: {heading}")).unwrap_or_else(|| heading.to_owned())
}

fn sections(answer: &InventoryDocument) -> Vec<Section<'_>> {
    match &answer.body {
        Body::Tree(nodes) => nodes.iter().map(tree_section).collect(),
        Body::Objects(owners) => {
            let sections = owners.iter().map(|OwnerObjects { owner, objects, unlisted }| {
                let rows = objects.iter().map(member_row).chain(unlisted.iter().map(unlisted_row)).collect();
                owner_section(owner.context.as_deref(), owner, rows)
            });
            sections.collect()
        }
        Body::Owners(owners) => owners.iter().map(|row| owner_section(row.context.as_deref(), row, vec![])).collect(),
        Body::Findings(findings) if findings.is_empty() => vec![findings_section(findings)],
        Body::Findings(findings) => findings.chunk_by(|a, b| a.context == b.context).map(findings_section).collect(),
        Body::Explanation(explanation) => {
            vec![Section {
                lines: explain(explanation, answer.taken, None),
                ..Section::new(explanation.object.to_string())
            }]
        }
    }
}

/// Returns the findings of one cluster.
fn findings_section(findings: &[Finding]) -> Section<'_> {
    let rows: Vec<Row<'_>> = findings.iter().map(finding_row).collect();
    let summary = objects(rows.len());
    let context = findings.first().and_then(|row| row.context.as_deref());
    Section { rows, summary, ..Section::new(in_context(context, "Objects")) }
}

/// Returns the findings of one status that stand beside the owners.
fn beside_section(findings: &[Finding]) -> Section<'_> {
    let heading = match findings.first().map_or("", |row| row.status) {
        "leaked" => "Leaked objects: their owner does not list them",
        "orphaned" => "Orphaned objects: their owner does not exist here",
        _ => "Contested objects: several owners claim them",
    };
    let section = findings_section(findings);
    let context = findings.first().and_then(|row| row.context.as_deref());
    Section { heading: in_context(context, heading), ..section }
}

fn tree_section(node: &TreeNode) -> Section<'_> {
    let rows = node.children.iter().map(tree_row).collect();
    match &node.owner {
        Some(owner) => owner_section(node.context.as_deref(), owner, rows),
        None => Section { rows, ..Section::new("Objects") },
    }
}

fn owner_section<'a>(context: Option<&str>, owner: &OwnerSummary, rows: Vec<Row<'a>>) -> Section<'a> {
    let (tone, words) = owner_tag(owner);
    let summary = format!("{}, {} missing, {} leaked", objects(owner.objects), owner.missing, owner.leaked);
    let state = owner_state(owner);
    let notes = if state == "Ready" { vec![] } else { vec![Prose::default().foreign(state)] };
    Section {
        tag: Some((tone, words)),
        summary,
        notes,
        rows,
        ..Section::new(in_context(context, &owner.owner.to_string()))
    }
}

fn tree_row(node: &TreeNode) -> Row<'_> {
    let mut row = match (&node.object, &node.owner) {
        (Some(member), _) => member_row(member),
        (None, Some(owner)) => {
            let id = ObjectId::new("", &owner.owner.kind, &owner.owner.namespace, &owner.owner.name);
            Row::new(owner_tag(owner), &id, Prose::default())
        }
        (None, None) => Row::new((Tone::Plain, "not shown"), &ObjectId::new("", "", "", ""), Prose::default()),
    };
    if let Some(owner) = &node.owner {
        row.tag = owner_tag(owner);
        row.note = Prose::from(objects(owner.objects)).foreign_after(": ", &not_ready(owner));
    }
    if node.cut {
        row.note = row.note.own(" … its objects are shown elsewhere");
    }
    row.children = node.children.iter().map(tree_row).collect();
    row
}

fn not_ready(owner: &OwnerSummary) -> String {
    match owner_state(owner).as_str() {
        "Ready" => String::new(),
        state => state.to_owned(),
    }
}

fn owner_tag(owner: &OwnerSummary) -> (Tone, String) {
    let (tone, words) = match &owner.status {
        _ if owner.unreadable.is_some() => (Tone::Bad, "unreadable"),
        OwnerStatus::Ready => (Tone::Good, "ready"),
        OwnerStatus::Suspended => (Tone::Warn, "suspended"),
        OwnerStatus::NotReady(_) => (Tone::Bad, "not ready"),
        OwnerStatus::Reconciling | OwnerStatus::Changed => (Tone::Info, "reconciling"),
        OwnerStatus::Terminating => (Tone::Warn, "terminating"),
    };
    (tone, words.to_owned())
}

fn member_row(member: &MemberView) -> Row<'static> {
    let (tone, words) = match (&member.terminating, member.exists, &member.ready) {
        (Some(_), ..) | (_, _, Some(Readiness::Terminating)) => (Tone::Warn, "terminating"),
        (_, Some(false), _) => (Tone::Bad, "missing"),
        (_, None, _) => (Tone::Plain, "not checked"),
        (_, _, None) => (Tone::Plain, "exists"),
        (_, _, Some(Readiness::Ready)) => (Tone::Good, "ready"),
        (_, _, Some(Readiness::InProgress(_))) => (Tone::Info, "in progress"),
        (_, _, Some(Readiness::Failed(_))) => (Tone::Bad, "failed"),
    };
    let mut notes: Vec<String> = vec![];
    let has_detail =
        member.terminating.is_some() || matches!(member.ready, Some(Readiness::InProgress(_) | Readiness::Failed(_)));
    notes.extend(has_detail.then(|| object_state(member)));
    notes.extend(member.protections.iter().map(|found| format!("protected: {}={}", found.key, found.value)));
    let also: Vec<String> = member.also_claimed_by.iter().map(ToString::to_string).collect();
    notes.extend((!also.is_empty()).then(|| format!("also claimed by {}", also.join(", "))));
    Row::new((tone, words), &member.object, Prose::default().foreign_after("", &notes.join("; ")))
}

/// Returns the row of an object that its owner does not list.
fn unlisted_row(finding: &Finding) -> Row<'static> {
    let tag = if finding.reason.is_none() { "leaked" } else { "perhaps leaked" };
    Row::new((Tone::Warn, tag), &finding.object, Prose::default().foreign_after("", &note(finding)))
}

fn finding_row(finding: &Finding) -> Row<'static> {
    let owners: Vec<String> = finding.owners.iter().map(ToString::to_string).collect();
    let text = Prose::default().foreign_after("", &owners.join(", ")).foreign_after(" ", &note(finding));
    Row::new((Tone::Warn, status_words(finding.status)), &finding.object, text)
}
