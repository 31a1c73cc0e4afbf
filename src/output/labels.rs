//! How the marks of a whole cluster look: one line per group, or with `wide` one per object.

use std::collections::BTreeMap;

use super::table::Table;
use gitops_core::ownership::report::labels::LabelReport;
use gitops_core::ownership::report::labels::flux_v1::{Class, Marked, Marks};
use gitops_core::ownership::report::labels::qbec::{QbecGroup, Worth};
use gitops_core::text::pluralize;

/// What stands for a value that is not there, as in kubectl.
const NONE: &str = "<none>";

/// The census as a table; empty when there is no mark.
pub fn table(census: &LabelReport, wide: bool, header: bool) -> String {
    let table = match (census, wide) {
        (LabelReport::Qbec(groups), false) => qbec(groups),
        (LabelReport::Qbec(groups), true) => qbec_objects(groups),
        (LabelReport::FluxV1(marks), false) => flux_v1(marks),
        (LabelReport::FluxV1(marks), true) => flux_v1_objects(marks),
    };
    if table.is_empty() { String::new() } else { table.render(header) }
}

/// What to say beside the table.
pub fn notes(census: &LabelReport) -> Vec<String> {
    let LabelReport::FluxV1(marks) = census else { return vec![] };
    let orphans = marks.objects.iter().filter(|row| row.orphan).count();
    let mut notes: Vec<String> =
        marks.unreadable.iter().map(|why| format!("the source of a fluxd cannot be computed: {why}")).collect();
    notes.extend(match marks.fluxd {
        None => Some("Deployments could not be read: whether a fluxd runs is not known".to_owned()),
        Some(false) if orphans > 0 => Some(format!(
            "no fluxd runs in this cluster to collect {} (orphaned); \
             `prune --plan --by flux-v1 --git-url URL -f MANIFESTS` finds those of a source",
            pluralize(orphans, "marked object")
        )),
        Some(_) => None,
    });
    notes
}

fn place(group: &QbecGroup) -> [&str; 4] {
    let tag = group.tag.as_deref().map_or(NONE, |tag| if tag.is_empty() { "\"\"" } else { tag });
    [shown(&group.application), shown(&group.environment), tag, shown(&group.component)]
}

fn shown(text: &str) -> &str {
    if text.is_empty() { NONE } else { text }
}

fn qbec(groups: &[QbecGroup]) -> Table {
    let mut table = Table::new(["app", "env", "tag", "component", "genuine", "copied", "unproven", "note"]);
    for group in groups {
        let counts = [Worth::Genuine, Worth::Copied, Worth::Unproven].map(|worth| group.count(worth).to_string());
        let note = group.unreachable.unwrap_or_default();
        table.row(place(group).into_iter().chain(counts.iter().map(String::as_str)).chain([note]));
    }
    table
}

fn qbec_objects(groups: &[QbecGroup]) -> Table {
    let mut table = Table::new(["app", "env", "tag", "component", "namespace", "kind", "name", "marks", "evidence"]);
    for group in groups {
        for member in &group.objects {
            let id = &member.object;
            let worth = match member.worth {
                Worth::Genuine => "genuine",
                Worth::Copied => "copied",
                Worth::Unproven => "unproven",
            };
            let cells = [&*id.namespace, &*id.kind, &*id.name, worth, &*member.evidence];
            table.row(place(group).into_iter().chain(cells));
        }
    }
    table
}

/// A class in one word, and what it means.
fn words(class: Class) -> (&'static str, &'static str) {
    match class {
        Class::Synced => ("synced", "its fluxd collects it once no manifest holds it"),
        Class::Drifted => ("drifted", "of an earlier configuration: no fluxd collects it"),
        Class::Copied => ("copied", "the mark of another object: no fluxd collects it"),
        Class::Malformed => ("malformed", "no mark that Flux v1 can have written"),
        Class::UnknownSource => ("unknown source", "of no source that is known here"),
        Class::LegacyKey => ("legacy key", "marked by Flux 1.13 or earlier: no later fluxd collects it"),
        Class::TakenOver => ("taken over", "Flux v2 manages it now"),
    }
}

fn flux_v1(marks: &Marks) -> Table {
    let mut groups: BTreeMap<(Class, &str, bool), usize> = BTreeMap::new();
    for row in &marks.objects {
        *groups.entry((row.class, source(row), row.orphan)).or_default() += 1;
    }
    let mut table = Table::new(["mark", "objects", "source", "meaning"]);
    for ((class, source, orphan), number) in groups {
        let (class, meaning) = words(class);
        table.row([class, &number.to_string(), source, &meaning_of(meaning, orphan)]);
    }
    table
}

fn flux_v1_objects(marks: &Marks) -> Table {
    let mut table = Table::new(["mark", "namespace", "kind", "name", "source", "meaning", "note"]);
    let mut rows: Vec<&Marked> = marks.objects.iter().collect();
    rows.sort_by_key(|row| row.class);
    for row in rows {
        let (class, meaning) = words(row.class);
        let id = &row.object;
        let meaning = meaning_of(meaning, row.orphan);
        table.row([class, &id.namespace, &id.kind, &id.name, source(row), &meaning, &row.note]);
    }
    table
}

fn source(row: &Marked) -> &str {
    row.source.as_deref().unwrap_or(NONE)
}

fn meaning_of(meaning: &str, orphan: bool) -> String {
    if orphan { format!("orphan: {meaning}") } else { meaning.to_owned() }
}
