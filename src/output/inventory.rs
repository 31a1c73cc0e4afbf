//! Tables, tree and documents of `inventory`.

use std::fmt::Write;

use super::format::{Look, Part, Render};
use super::text::duration;
use super::text::sanitize::one_line;
use super::text::table::{Columns, Table};
use super::text::wrap::wrap;
use super::{document, html, owner};
use chrono::{DateTime, Utc};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::readiness::Readiness;
use gitops_core::ownership::report::explain::{ClaimView, Explanation};
use gitops_core::ownership::report::tree::TreeNode;
use gitops_core::ownership::report::{
    Body, ContextSummary, Finding, InventoryDocument, MemberView, OwnerObjects, OwnerSummary, RecordKind,
};
use gitops_core::ownership::scheme::SourceReference;
use gitops_core::ownership::scheme::label_report::{LabelReport, ReportTable};
use gitops_core::ownership::{OwnerId, OwnerStatus, Protection, Strength};
use gitops_core::text::pluralize;

impl Render for InventoryDocument {
    const PARTS: &'static [Part] = &[Part::Text, Part::Document, Part::Names, Part::Tree, Part::Page];

    fn text(&self, wide: bool, look: Look) -> String {
        match &self.body {
            Body::Owners(owners) => with_label_reports(owner_table(owners, wide, look), self, wide, look),
            Body::Objects(owners) => object_table(owners, wide, look),
            Body::Findings(findings) => finding_table(findings, self.taken, wide, look),
            Body::Tree(nodes) => tree(nodes),
            Body::Explanation(explanation) => explain(explanation, self.taken, look.width),
        }
    }

    fn names(&self) -> String {
        names(&self.body)
    }

    /// Returns the nested owners, or the table of a question that has no tree.
    fn tree(&self) -> String {
        self.text(false, Look::whole(true))
    }

    fn page(&self) -> String {
        html::of_inventory(self)
    }
}

/// Returns the reports on labels, with the context of each if the answer is about several clusters.
pub fn label_reports(answer: &InventoryDocument) -> impl Iterator<Item = (Option<&str>, &LabelReport)> {
    let contexts = answer.contexts.iter();
    let of_contexts = contexts.filter_map(|summary| Some((Some(&*summary.context), summary.label_report.as_ref()?)));
    answer.label_report.iter().map(|report| (None, report)).chain(of_contexts)
}

/// Returns the table of owners with the reports on labels below it, or instead of it.
fn with_label_reports(owners: String, answer: &InventoryDocument, wide: bool, look: Look) -> String {
    let is_replaced = label_reports(answer).any(|(_, report)| report.replaces_owners);
    let mut parts = vec![if is_replaced { String::new() } else { owners }];
    for (context, report) in label_reports(answer) {
        let title = context.map(|context| format!("context {}\n", one_line(context))).unwrap_or_default();
        parts.push(format!("{title}{}", report_table(report, wide, look)));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

pub(super) fn label_report(report: &LabelReport) -> String {
    report_table(report, false, Look::whole(true))
}

fn report_table(report: &LabelReport, wide: bool, look: Look) -> String {
    let ReportTable { columns, rows } = if wide { &report.objects } else { &report.groups };
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(columns.iter().copied());
    rows.iter().for_each(|row| table.row(row));
    table.render(look)
}

/// Returns the lines about the whole answer: the state of named owners, that nothing was found, contexts of one cluster,
/// and the number of all objects by status.
pub fn remarks(answer: &InventoryDocument) -> Vec<String> {
    let mut lines = vec![];
    match &answer.body {
        Body::Objects(owners) => lines.extend(owners.iter().map(|row| owner_line(&row.owner, answer.taken))),
        Body::Findings(findings) if findings.is_empty() && answer.complete => lines.push("none found".to_owned()),
        Body::Findings(findings) if findings.is_empty() => lines.push("none found in what could be read".to_owned()),
        _ => {}
    }
    for ContextSummary { context, same_cluster_as, .. } in &answer.contexts {
        lines.extend(same_cluster_as.iter().map(|other| same_cluster(context, other)));
    }
    lines.push(summary(answer));
    lines
}

/// Returns the line about a context of a cluster that another context names too.
pub fn same_cluster(context: &str, other: &str) -> String {
    format!("context {context} is the same cluster as {other}, and counts once")
}

/// Returns one line about the state, the revision and the source of an owner.
fn owner_line(row: &OwnerSummary, now: DateTime<Utc>) -> String {
    let facts = owner_facts(row.last_reconciled, row.revision.as_deref(), row.source.as_ref(), now);
    format!("{}: {}{facts}", row.owner, owner_state(row))
}

fn owner_facts(
    reconciled: Option<DateTime<Utc>>,
    revision: Option<&str>,
    source: Option<&SourceReference>,
    now: DateTime<Utc>,
) -> String {
    let mut facts = String::new();
    facts.extend(reconciled.map(|time| format!(", last reconciled {} ago", duration::human(now - time))));
    facts.extend(revision.map(|revision| format!(", applied {revision}")));
    let offered = source.and_then(|source| source.revision.as_deref()).filter(|offered| Some(*offered) != revision);
    facts.extend(offered.map(|offered| format!(", its source has {offered}")));
    facts
}

/// Returns one line with the number of all objects that were read, by status.
pub fn summary(answer: &InventoryDocument) -> String {
    let totals = &answer.totals;
    let counts = [
        (totals.managed, "managed"),
        (totals.leaked, "leaked"),
        (totals.orphaned, "orphaned"),
        (totals.conflicts, "contested"),
        (totals.copied, "with copied labels"),
        (totals.unknown, "with an owner that could not be checked"),
        (totals.controlled, "controlled by other objects"),
        (totals.system, "created by Kubernetes itself"),
        (totals.unmanaged, "unmanaged"),
    ];
    let positive = counts.iter().filter(|(number, _)| *number > 0);
    let counts: Vec<String> = positive.map(|(number, status)| format!("{number} {status}")).collect();
    let scope = answer.scope.as_ref().map(|scope| format!(" (read: {})", one_line(scope))).unwrap_or_default();
    let read = answer.contexts.iter().filter(|context| context.totals.is_some()).count();
    let distinct = answer.contexts.iter().filter(|context| context.same_cluster_as.is_none()).count();
    let clusters = match distinct {
        0 => String::new(),
        all if all == read => format!(" in {}", pluralize(all, "cluster")),
        all => format!(" in {read} of {}", pluralize(all, "cluster")),
    };
    format!("{}{clusters}{scope}: {}", pluralize(totals.objects, "object"), counts.join(", "))
}

/// Returns one line with the number of rows that a filter hides, if there is a filter.
pub fn hidden(answer: &InventoryDocument) -> Option<String> {
    let filter = answer.filter.as_ref()?;
    let noun = if matches!(answer.body, Body::Owners(_)) { "owner" } else { "object" };
    let mut flags: Vec<String> = vec![];
    flags.extend((!filter.kinds.is_empty()).then(|| format!("--kind {}", filter.kinds.join(","))));
    flags.extend(filter.selector.as_ref().map(|selector| format!("-l {selector}")));
    let typed = flags.join(" ");
    let flags = one_line(&typed);
    let total = pluralize(filter.shown + filter.hidden, noun);
    Some(match filter.hidden {
        0 => format!("{flags} hides none of {total}"),
        hidden => format!("{flags} hides {hidden} of {total}"),
    })
}

fn names(body: &Body) -> String {
    match body {
        Body::Owners(owners) => owners.iter().map(|row| one_line(&owner(&row.owner)).into_owned() + "\n").collect(),
        Body::Objects(owners) => lines(owners.iter().flat_map(|owner| &owner.objects).map(|row| &row.object)),
        Body::Findings(findings) => lines(findings.iter().map(|row| &row.object)),
        Body::Tree(nodes) => lines(nodes.iter().filter_map(|node| node.object.as_ref()).map(|row| &row.object)),
        Body::Explanation(explanation) => lines([&explanation.object]),
    }
}

fn lines<'a>(ids: impl IntoIterator<Item = &'a ObjectId>) -> String {
    ids.into_iter().map(|id| document::name(id) + "\n").collect()
}

fn owner_table(owners: &[OwnerSummary], wide: bool, look: Look) -> String {
    if owners.is_empty() {
        return String::new();
    }
    let table = Columns::new()
        .with_if(owners.iter().any(|row| row.context.is_some()), "context", |row: &OwnerSummary| or_empty(&row.context))
        .with("system", |row| row.owner.system.clone())
        .with("namespace", |row| row.owner.namespace.clone())
        .with("kind", |row| row.owner.kind.clone())
        .with("name", |row| row.owner.name.clone())
        .with_if(owners.iter().any(|row| row.matching.is_some()), "matching", |row| {
            number_if(is_recorded(row), row.matching.unwrap_or_default())
        })
        .with("objects", |row| number_if(is_recorded(row), row.objects))
        .with("missing", |row| number_if(is_recorded(row) && row.record != RecordKind::Remote, row.missing))
        .with("leaked", |row| row.leaked.to_string())
        .with("state", owner_state)
        .with_if(wide, "record", |row| format!("{:?}", row.record))
        .with_if(wide, "revision", |row| or_empty(&row.revision));
    table.table(owners).render(look)
}

fn or_empty(text: &Option<String>) -> String {
    text.clone().unwrap_or_default()
}

/// Returns true if it is known which objects the owner has.
fn is_recorded(row: &OwnerSummary) -> bool {
    !matches!(row.record, RecordKind::Unrecorded | RecordKind::Unreadable)
}

/// Returns a number, or `?` if it is not known.
fn number_if(is_known: bool, number: usize) -> String {
    if is_known { number.to_string() } else { "?".to_owned() }
}

pub(super) fn owner_state(row: &OwnerSummary) -> String {
    let state = state_of_record(row);
    if row.in_hub { format!("{state} (in the hub)") } else { state }
}

fn state_of_record(row: &OwnerSummary) -> String {
    if let Some(reason) = &row.unreadable {
        return format!("Unreadable: {reason}");
    }
    if row.record == RecordKind::Remote {
        return "remote, not checked".to_owned();
    }
    status_text(&row.status)
}

fn status_text(status: &OwnerStatus) -> String {
    match status {
        OwnerStatus::Ready => "Ready".to_owned(),
        OwnerStatus::Suspended => "Suspended".to_owned(),
        OwnerStatus::NotReady(message) if message.is_empty() => "NotReady".to_owned(),
        OwnerStatus::NotReady(message) => format!("NotReady: {message}"),
        OwnerStatus::Reconciling => "Reconciling".to_owned(),
        OwnerStatus::Changed => "Changed just now".to_owned(),
        OwnerStatus::Terminating => "Terminating".to_owned(),
    }
}

fn object_table(owners: &[OwnerObjects], wide: bool, look: Look) -> String {
    let listed = owners.iter().flat_map(|OwnerObjects { owner, objects, .. }| {
        objects.iter().map(move |row| ObjectRow { summary: owner, row: Membership::Listed(row) })
    });
    let unlisted = owners.iter().flat_map(|OwnerObjects { owner, unlisted, .. }| {
        unlisted.iter().map(move |row| ObjectRow { summary: owner, row: Membership::Unlisted(row) })
    });
    let rows: Vec<ObjectRow<'_>> = listed.chain(unlisted).collect();
    if rows.is_empty() {
        return String::new();
    }
    let has_contexts = owners.iter().any(|row| row.owner.context.is_some());
    let table = Columns::new()
        .with_if(has_contexts, "context", |row: &ObjectRow<'_>| or_empty(&row.summary.context))
        .with_if(wide || owners.len() > 1, "owner", |row| owner(&row.summary.owner))
        .with("namespace", |row| row.object().namespace.to_string())
        .with("kind", |row| row.object().kind.to_string())
        .with("name", |row| row.object().name.to_string())
        .with("state", ObjectRow::state)
        .with_if(wide, "protected-by", |row| {
            join(row.protections(), ",", |found| format!("{}={}", found.key, found.value))
        })
        .with_if(wide, "also-claimed-by", |row| join(row.also_claimed_by(), ",", owner))
        .with_if(wide, "uid", ObjectRow::uid);
    table.table(&rows).render(look)
}

/// An object in the list of an owner: one that the owner lists, or one with its claim that it does not list.
struct ObjectRow<'a> {
    summary: &'a OwnerSummary,
    row: Membership<'a>,
}

enum Membership<'a> {
    Listed(&'a MemberView),
    Unlisted(&'a Finding),
}

impl ObjectRow<'_> {
    fn object(&self) -> &ObjectId {
        match self.row {
            Membership::Listed(row) => &row.object,
            Membership::Unlisted(row) => &row.object,
        }
    }

    fn state(&self) -> String {
        match self.row {
            Membership::Listed(row) => object_state(row),
            Membership::Unlisted(row) => unlisted_state(row),
        }
    }

    fn protections(&self) -> &[Protection] {
        match self.row {
            Membership::Listed(row) => &row.protections,
            Membership::Unlisted(row) => &row.protections,
        }
    }

    fn also_claimed_by(&self) -> &[OwnerId] {
        match self.row {
            Membership::Listed(row) => &row.also_claimed_by,
            Membership::Unlisted(_) => &[],
        }
    }

    fn uid(&self) -> String {
        match self.row {
            Membership::Listed(row) => or_empty(&row.uid),
            Membership::Unlisted(row) => row.uid.clone(),
        }
    }
}

/// Returns the state of an object that its owner does not list.
pub(super) fn unlisted_state(row: &Finding) -> String {
    let state = if row.reason.is_none() { "leaked" } else { "perhaps leaked" };
    let note = note(row);
    if note.is_empty() { state.to_owned() } else { format!("{state}: {note}") }
}

fn join<T>(items: &[T], separator: &str, text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(separator)
}

pub(super) fn object_state(row: &MemberView) -> String {
    if let Some(terminating) = &row.terminating {
        return match &terminating.finalizers[..] {
            [] => "Terminating".to_owned(),
            finalizers => format!("Terminating, finalizers: {}", finalizers.join(", ")),
        };
    }
    match (row.exists, &row.ready) {
        (Some(false), _) => "missing".to_owned(),
        (None, _) => "not checked".to_owned(),
        (_, None) => "exists".to_owned(),
        (_, Some(Readiness::Ready)) => "Ready".to_owned(),
        (_, Some(Readiness::InProgress(reason))) => format!("InProgress: {reason}"),
        (_, Some(Readiness::Failed(reason))) => format!("Failed: {reason}"),
        (_, Some(Readiness::Terminating)) => "Terminating".to_owned(),
    }
}

fn finding_table(findings: &[Finding], now: DateTime<Utc>, wide: bool, look: Look) -> String {
    if findings.is_empty() {
        return String::new();
    }
    // Objects that nothing manages have no owner: who created them leads on.
    let has_owners = findings.iter().any(|row| !row.owners.is_empty());
    let table = Columns::new()
        .with_if(findings.iter().any(|row| row.context.is_some()), "context", |row: &Finding| or_empty(&row.context))
        .with("namespace", |row| row.object.namespace.to_string())
        .with("kind", |row| row.object.kind.to_string())
        .with("name", |row| row.object.name.to_string())
        .with_if(has_owners, "owner", |row| join(&row.owners, ", ", owner))
        .with_if(findings.iter().any(|row| row.created_by.is_some()) && !has_owners, "created-by", |row| {
            or_empty(&row.created_by)
        })
        .with_if(!has_owners, "age", |row| duration::age(row.created, now))
        .with("note", note)
        .with_if(wide, "evidence", |row| row.evidence.as_ref().map(ToString::to_string).unwrap_or_default())
        .with_if(wide, "uid", |row| row.uid.clone());
    table.table(findings).render(look)
}

/// Returns what is to be known about a finding beside its owners.
pub(super) fn note(row: &Finding) -> String {
    let mut notes: Vec<String> = row.reason.iter().cloned().collect();
    notes.extend(row.terminating.as_ref().map(|_| "terminating".to_owned()));
    notes.extend(row.protections.iter().map(|found| format!("protected: {}={}", found.key, found.value)));
    if row.owner_may_live_elsewhere {
        notes.push("its owner may be in another cluster".to_owned());
    }
    notes.join("; ")
}

fn tree(nodes: &[TreeNode]) -> String {
    let mut text = String::new();
    let mut last = None;
    for node in nodes {
        let context = node.context.as_deref().filter(|context| last != Some(*context));
        if let Some(context) = context {
            writeln!(text, "context {}", one_line(context)).expect("a String takes any text");
            last = Some(context);
        }
        writeln!(text, "{}", one_line(&label(node))).expect("a String takes any text");
        branches(&node.children, "", &mut text);
    }
    text
}

fn branches(nodes: &[TreeNode], indent: &str, text: &mut String) {
    for (at, node) in nodes.iter().enumerate() {
        let last = at + 1 == nodes.len();
        let (branch, below) = if last { ("└── ", "    ") } else { ("├── ", "│   ") };
        writeln!(text, "{indent}{branch}{}", one_line(&label(node))).expect("a String takes any text");
        branches(&node.children, &format!("{indent}{below}"), text);
    }
}

fn label(node: &TreeNode) -> String {
    let mut label = match (&node.owner, &node.object) {
        (_, Some(row)) => row.object.to_string(),
        (Some(row), None) => row.owner.to_string(),
        (None, None) => String::new(),
    };
    if let Some(row) = &node.owner {
        let state = match owner_state(row).as_str() {
            "Ready" => String::new(),
            state => format!(", {state}"),
        };
        let leaked = if row.leaked > 0 { format!(", {} leaked", row.leaked) } else { String::new() };
        write!(label, " ({}{leaked}{state})", pluralize(row.objects, "object")).expect("a String takes any text");
    }
    if let Some(row) = node.object.as_ref().filter(|row| row.exists == Some(false) || row.terminating.is_some()) {
        write!(label, " [{}]", object_state(row)).expect("a String takes any text");
    }
    if node.cut {
        label.push_str(" …");
    }
    label
}

pub(super) fn explain(explanation: &Explanation, now: DateTime<Utc>, width: Option<usize>) -> String {
    let mut lines = vec![(0, format!("{} is {}", explanation.object, status_words(explanation.status)))];
    let unread = explanation.claims.iter().any(|row| row.unread.is_some());
    // What could not be read stands beside the claim.
    lines.extend(explanation.reason.iter().filter(|_| !unread).map(|reason| (2, reason.clone())));
    lines.extend(explanation.claims.iter().map(|row| (2, claim_line(row))));
    lines.extend(explanation.recorded_by.iter().map(|owner| (2, format!("listed in the inventory of {owner}"))));
    lines.extend(explanation.controllers.iter().map(|id| (2, format!("controlled by {id}"))));
    for (depth, link) in explanation.chain.iter().enumerate() {
        let facts = owner_facts(link.last_reconciled, link.revision.as_deref(), link.source.as_ref(), now);
        lines.push((2 + 2 * depth, format!("owner {}: {}{facts}", link.owner, status_text(&link.status))));
        if let Some(source) = &link.source {
            let path = source.path.as_ref().map(|path| format!(", path {path}")).unwrap_or_default();
            let url = source.url.as_ref().map(|url| format!(" ({url})")).unwrap_or_default();
            let source = format!("from {} {}/{}{url}{path}", source.kind, source.namespace, source.name);
            lines.push((4 + 2 * depth, source));
        }
    }
    lines
        .extend(explanation.protections.iter().map(|found| (2, format!("protected by {}={}", found.key, found.value))));
    lines.extend(explanation.created.map(|created| {
        let creator = explanation.created_by.as_ref().map(|manager| format!(" by {manager}")).unwrap_or_default();
        (2, format!("created {} ago{creator}", duration::human(now - created)))
    }));
    lines.extend(explanation.notes.iter().map(|note| (2, note.clone())));
    lines.iter().map(|(indent, line)| wrap(&one_line(line), *indent, indent + 4, width) + "\n").collect()
}

/// Returns one claim with what confirms it.
fn claim_line(row: &ClaimView) -> String {
    let ClaimView { claim, live, counts, unread } = row;
    let owner = match unread {
        Some(unread) => format!("{}, which {unread}", claim.owner),
        None if *live => claim.owner.to_string(),
        None => format!("{}, which does not exist", claim.owner),
    };
    let strength = match claim.strength {
        Strength::Bound => "confirmed by naming this object",
        Strength::Corroborated => "confirmed by its field manager",
        Strength::Bare => "confirmed by nothing else",
        Strength::Contradicted => "copied from another object",
    };
    let effect = if *counts { "" } else { " (another claim replaces it)" };
    format!("claimed by {owner}; {strength}{effect}: {}", claim.evidence)
}

/// Returns the status of an object in plain words.
pub(super) fn status_words(status: &str) -> &str {
    match status {
        "conflict" => "contested",
        "system" => "created by Kubernetes or a tool",
        "controlled" => "controlled by another object",
        "copied" => "not managed: its labels are copies",
        "unknown" => "perhaps managed: its owner could not be checked",
        status => status,
    }
}
