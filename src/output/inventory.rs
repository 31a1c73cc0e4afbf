//! How the answers of `inventory` look.

use std::fmt::Write;

use clap::ValueEnum;

use super::sanitize::one_line;
use super::table::Table;
use super::{document, labels, owner};
use crate::error::Result;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::OwnerStatus;
use gitops_core::ownership::readiness::Readiness;
use gitops_core::ownership::report::explain::Why;
use gitops_core::ownership::report::labels::LabelReport;
use gitops_core::ownership::report::tree::TreeNode;
use gitops_core::ownership::report::{
    Body, Finding, InventoryDocument, MemberView, OwnerObjects, OwnerSummary, RecordKind,
};
use gitops_core::text::pluralize;

/// What `-o` takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Owners, their objects and what these made, nested
    Tree,
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
}

/// An answer in the form asked for.
///
/// # Errors
/// When the answer cannot be a document; it always can.
pub fn render(answer: &InventoryDocument, format: Format, header: bool) -> Result<String> {
    let wide = format == Format::Wide;
    match format {
        Format::Json => return document::json(answer),
        Format::Yaml => return document::yaml(answer),
        Format::Name => return Ok(names(&answer.body)),
        _ => {}
    }
    Ok(match &answer.body {
        Body::Owners(owners) => with_census(owner_table(owners, wide, header), answer, wide, header),
        Body::Objects(owners) => object_table(owners, wide, header),
        Body::Findings(findings) => finding_table(findings, wide, header),
        Body::Tree(nodes) => tree(nodes),
        Body::Why(why) => explain(why),
    })
}

/// The owners and what marks say: qbec's owners are its marks, and shown once.
fn with_census(owners: String, answer: &InventoryDocument, wide: bool, header: bool) -> String {
    let Some(census) = &answer.census else { return owners };
    let marks = labels::table(census, wide, header);
    match census {
        LabelReport::Qbec(_) => marks,
        LabelReport::FluxV1(_) if owners.is_empty() => marks,
        LabelReport::FluxV1(_) => format!("{owners}\n{marks}"),
    }
}

/// One line that says what everything that was read comes to.
pub fn summary(answer: &InventoryDocument) -> String {
    let totals = &answer.totals;
    let parts = [
        (totals.managed, "managed"),
        (totals.leaked, "leaked"),
        (totals.orphaned, "orphaned"),
        (totals.conflicts, "contested"),
        (totals.copied, "with copied marks"),
        (totals.unjudged, "not judged"),
        (totals.controlled, "made by others"),
        (totals.cluster_own, "the cluster's own"),
        (totals.unmanaged, "unmanaged"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")).collect();
    let read = answer.narrowed.as_ref().map(|what| format!(" (only {} were read)", one_line(what)));
    format!("{}{}: {}", pluralize(totals.objects, "object"), read.unwrap_or_default(), parts.join(", "))
}

/// One line that says what a filter hides; none where there is no filter.
pub fn hidden(answer: &InventoryDocument) -> Option<String> {
    let filter = answer.filter.as_ref()?;
    let noun = if matches!(answer.body, Body::Owners(_)) { "owner" } else { "object" };
    let mut flags: Vec<String> = vec![];
    flags.extend((!filter.kinds.is_empty()).then(|| format!("--kind {}", filter.kinds.join(","))));
    flags.extend(filter.selector.as_ref().map(|selector| format!("-l {selector}")));
    let flags = one_line(&flags.join(" ")).into_owned();
    Some(match filter.hidden {
        0 => format!("{flags} hides nothing of {}", pluralize(filter.shown, noun)),
        hidden => format!("{flags} hides {hidden} of {}", pluralize(filter.shown + hidden, noun)),
    })
}

fn names(body: &Body) -> String {
    let line = |id: &ObjectId| document::name(id) + "\n";
    match body {
        Body::Owners(owners) => owners.iter().map(|row| one_line(&owner(&row.owner)).into_owned() + "\n").collect(),
        Body::Objects(owners) => owners.iter().flat_map(|owner| &owner.objects).map(|row| line(&row.object)).collect(),
        Body::Findings(findings) => findings.iter().map(|row| line(&row.object)).collect(),
        Body::Tree(nodes) => {
            nodes.iter().filter_map(|node| node.object.as_ref()).map(|row| line(&row.object)).collect()
        }
        Body::Why(why) => line(&why.object),
    }
}

fn owner_table(owners: &[OwnerSummary], wide: bool, header: bool) -> String {
    if owners.is_empty() {
        return String::new();
    }
    let mut columns = vec!["system", "namespace", "kind", "name", "objects", "missing", "leaked", "state"];
    let matching = owners.iter().any(|row| row.matching.is_some());
    if matching {
        columns.insert(4, "matching");
    }
    if wide {
        columns.extend(["record", "revision"]);
    }
    let mut table = Table::new(columns);
    for row in owners {
        let id = &row.owner;
        let number = |known: bool, number: usize| if known { number.to_string() } else { "?".to_owned() };
        let known = !matches!(row.record, RecordKind::Unrecorded | RecordKind::Unreadable);
        let mut cells = vec![
            id.system.clone(),
            id.namespace.clone(),
            id.kind.clone(),
            id.name.clone(),
            number(known, row.objects),
            number(known && row.record != RecordKind::Remote, row.missing),
            row.leaked.to_string(),
            state(row),
        ];
        if matching {
            cells.insert(4, number(known, row.matching.unwrap_or_default()));
        }
        if wide {
            cells.extend([format!("{:?}", row.record), row.revision.clone().unwrap_or_default()]);
        }
        table.row(cells);
    }
    table.render(header)
}

fn state(row: &OwnerSummary) -> String {
    let state = own_state(row);
    if row.in_hub { format!("{state} (in the hub)") } else { state }
}

fn own_state(row: &OwnerSummary) -> String {
    if let Some(why) = &row.unreadable {
        return format!("Unreadable: {why}");
    }
    if row.record == RecordKind::Remote {
        return "remote, not checked".to_owned();
    }
    match &row.state {
        OwnerStatus::Ready => "Ready".to_owned(),
        OwnerStatus::Suspended => "Suspended".to_owned(),
        OwnerStatus::NotReady(why) if why.is_empty() => "NotReady".to_owned(),
        OwnerStatus::NotReady(why) => format!("NotReady: {why}"),
        OwnerStatus::Reconciling => "Reconciling".to_owned(),
        OwnerStatus::Changed => "Changed just now".to_owned(),
        OwnerStatus::Terminating => "Terminating".to_owned(),
    }
}

fn object_table(owners: &[OwnerObjects], wide: bool, header: bool) -> String {
    let rows: Vec<(&OwnerSummary, &MemberView)> =
        owners.iter().flat_map(|owner| owner.objects.iter().map(move |row| (&owner.owner, row))).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut columns = vec!["owner", "namespace", "kind", "name", "state"];
    if wide {
        columns.extend(["keep", "also-claimed-by", "uid"]);
    }
    let mut table = Table::new(columns);
    for (summary, row) in rows {
        let id = &row.object;
        let mut cells =
            vec![owner(&summary.owner), id.namespace.to_string(), id.kind.to_string(), id.name.to_string(), live(row)];
        if wide {
            let keep: Vec<_> = row.keep.iter().map(|mark| format!("{}={}", mark.key, mark.value)).collect();
            let also: Vec<_> = row.also_claimed_by.iter().map(owner).collect();
            cells.extend([keep.join(","), also.join(","), row.uid.clone().unwrap_or_default()]);
        }
        table.row(cells);
    }
    table.render(header)
}

fn live(row: &MemberView) -> String {
    if let Some(terminating) = &row.terminating {
        return match &terminating.finalizers[..] {
            [] => "Terminating".to_owned(),
            holders => format!("Terminating, held by {}", holders.join(", ")),
        };
    }
    match (row.exists, &row.ready) {
        (Some(false), _) => "missing".to_owned(),
        (None, _) => "not checked".to_owned(),
        (_, None) => "exists".to_owned(),
        (_, Some(Readiness::Ready)) => "Ready".to_owned(),
        (_, Some(Readiness::InProgress(why))) => format!("InProgress: {why}"),
        (_, Some(Readiness::Failed(why))) => format!("Failed: {why}"),
        (_, Some(Readiness::Terminating)) => "Terminating".to_owned(),
    }
}

fn finding_table(findings: &[Finding], wide: bool, header: bool) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let mut columns = vec!["namespace", "kind", "name", "owner", "note"];
    if wide {
        columns.extend(["evidence", "uid"]);
    }
    let mut table = Table::new(columns);
    for row in findings {
        let id = &row.object;
        let owners: Vec<_> = row.owners.iter().map(owner).collect();
        let mut notes: Vec<String> = row.why.iter().cloned().collect();
        notes.extend(row.terminating.as_ref().map(|_| "terminating".to_owned()));
        notes.extend(row.keep.iter().map(|mark| format!("protected: {}={}", mark.key, mark.value)));
        if row.owner_may_live_elsewhere {
            notes.push("its owner may live in another cluster".to_owned());
        }
        let place = (id.namespace.to_string(), id.kind.to_string(), id.name.to_string());
        let mut cells = vec![place.0, place.1, place.2, owners.join(", "), notes.join("; ")];
        if wide {
            cells.extend([row.evidence.clone().unwrap_or_default(), row.uid.clone()]);
        }
        table.row(cells);
    }
    table.render(header)
}

fn tree(nodes: &[TreeNode]) -> String {
    let mut text = String::new();
    for node in nodes {
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
        let state = state(row);
        let state = if state == "Ready" { String::new() } else { format!(", {state}") };
        write!(label, " ({}{state})", pluralize(row.objects, "object")).expect("a String takes any text");
    }
    if let Some(row) = node.object.as_ref().filter(|row| row.exists == Some(false) || row.terminating.is_some()) {
        write!(label, " [{}]", live(row)).expect("a String takes any text");
    }
    if node.cut {
        label.push_str(" …");
    }
    label
}

fn explain(why: &Why) -> String {
    let mut text = String::new();
    let mut line = |indent: usize, words: &str| {
        writeln!(text, "{:indent$}{}", "", one_line(words)).expect("a String takes any text");
    };
    line(0, &format!("{} is {}", why.object, why.standing));
    why.because.iter().for_each(|because| line(2, because));
    for row in &why.claims {
        let live = if row.live { "" } else { ", which does not exist" };
        let counts = if row.counts { "" } else { " (does not count)" };
        let strength = format!("{:?}", row.claim.strength).to_lowercase();
        line(2, &format!("claims {}{live}, {strength}{counts}: {}", row.claim.owner, row.claim.evidence));
    }
    why.recorded_by.iter().for_each(|owner| line(2, &format!("recorded by {owner}")));
    why.controllers.iter().for_each(|id| line(2, &format!("controlled by {id}")));
    for (depth, link) in why.chain.iter().enumerate() {
        let revision = link.revision.as_ref().map(|revision| format!(" at {revision}")).unwrap_or_default();
        line(2 + 2 * depth, &format!("owner {}{revision}", link.owner));
        if let Some(source) = &link.source {
            let path = source.path.as_ref().map(|path| format!(", path {path}")).unwrap_or_default();
            let url = source.url.as_ref().map(|url| format!(" ({url})")).unwrap_or_default();
            line(4 + 2 * depth, &format!("from {} {}/{}{url}{path}", source.kind, source.namespace, source.name));
        }
    }
    why.keep.iter().for_each(|mark| line(2, &format!("protected by {}={}", mark.key, mark.value)));
    why.notes.iter().for_each(|note| line(2, note));
    text
}
