//! Report on the marks of Flux v1: which of them a fluxd in the cluster will act on, and which objects nothing collects.
//!
//! The mark is a hash of the source and of the object's own id. It can be verified against known sources and their
//! variants; otherwise its source stays unknown.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use serde_json::json;

use super::args::FluxdArgs;
use super::git_source::GitSource;
use super::variants::variants;
use super::{LEGACY_MARK, MARK, SCHEME, gc_eligibility, is_well_formed, mark, resource_id};
use crate::kubernetes::object::{GroupKind, ObjectId};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::scheme::GcEligibility;
use crate::ownership::scheme::claim::Strength;
use crate::ownership::scheme::label_report::{LabelReport, LabelledObject, NONE, ReportTable};
use crate::text::pluralize;

/// System that takes over objects from Flux v1.
const SUCCESSOR: &str = "flux";

/// Status of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum MarkStatus {
    /// From the source of a fluxd in this cluster.
    Synced,
    /// From a variant of such a source, so from an earlier configuration. No fluxd collects the object.
    Drifted,
    /// The mark of another object.
    Copied,
    /// Flux v1 cannot have written it.
    Malformed,
    /// From a source that is not known here.
    UnknownSource,
    /// Only under the key of Flux 1.13 and earlier, which later versions ignore.
    LegacyKey,
    /// Flux v2 manages the object now.
    TakenOver,
}

impl MarkStatus {
    /// Returns the status for people, and its meaning.
    fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::Synced => ("synced", "its fluxd collects the object once it is in no manifest"),
            Self::Drifted => ("drifted", "from an earlier configuration: no fluxd collects the object"),
            Self::Copied => ("copied", "the mark of another object: no fluxd collects the object"),
            Self::Malformed => ("malformed", "not a mark of Flux v1"),
            Self::UnknownSource => ("unknown source", "from a source that is not known here"),
            Self::LegacyKey => ("legacy key", "written by Flux 1.13 or earlier: no later fluxd collects the object"),
            Self::TakenOver => ("taken over", "Flux v2 manages the object now"),
        }
    }
}

#[derive(Serialize)]
struct MarkedObject {
    #[serde(flatten)]
    object: ObjectId,
    mark: MarkStatus,
    /// Source that the mark is a hash of, where that is known; without password.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// Details; can contain text written by others.
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
    /// True if no fluxd runs that could collect the object.
    orphan: bool,
}

impl MarkedObject {
    fn source(&self) -> &str {
        self.source.as_deref().unwrap_or(NONE)
    }
}

/// Returns the report on all selected objects.
pub(super) fn report(snapshot: &Snapshot, labelled: &[LabelledObject<'_>]) -> LabelReport {
    let mut unreadable = vec![];
    let mut sources: Vec<GitSource> = vec![];
    for full in &snapshot.resources {
        match FluxdArgs::find(&full.content).map(|args| args.and_then(|args| args.source())) {
            Some(Ok(source)) => sources.push(source),
            Some(Err(reason)) => unreadable.push(format!("{}: {reason}", full.object.id)),
            None => {}
        }
    }
    // Without a fluxd among the Deployments that were read, one may still run if some were not read.
    let is_unread = snapshot.gaps_hiding(&GroupKind::new("apps", "Deployment")).next().is_some();
    let has_fluxd = !sources.is_empty() || !unreadable.is_empty();
    let fluxd = (has_fluxd || !is_unread).then_some(has_fluxd);
    let sources = KnownSources::new(&sources, labelled);
    let selected = labelled.iter().filter(|row| row.is_selected);
    let objects: Vec<MarkedObject> = selected.filter_map(|row| sources.check(row, fluxd == Some(false))).collect();
    LabelReport {
        system: SCHEME.system,
        groups: group_table(&objects),
        objects: object_table(&objects),
        warnings: warnings(fluxd, &unreadable, &objects),
        details: json!({"fluxd": fluxd, "unreadable": unreadable, "objects": objects}),
        replaces_owners: false,
    }
}

/// Names and sync sets of known sources and of their variants.
struct KnownSources {
    current: Vec<(String, String)>,
    earlier: Vec<(String, String)>,
    /// Marks that current sources give to marked objects.
    genuine: HashSet<String>,
}

impl KnownSources {
    fn new(sources: &[GitSource], labelled: &[LabelledObject<'_>]) -> Self {
        let current: Vec<(String, String)> =
            sources.iter().map(|source| (source.record().id.name, source.sync_set())).collect();
        let others = sources.iter().flat_map(variants).map(|(source, set)| (source.record().id.name, set));
        let earlier = others.filter(|(_, set)| !current.iter().any(|(_, other)| other == set)).collect();
        let marked = labelled.iter().map(|row| row.object).filter(|object| object.labels.get(MARK).is_some());
        let genuine =
            marked.flat_map(|object| current.iter().map(|(_, set)| mark(set, &resource_id(&object.id)))).collect();
        Self { current, earlier, genuine }
    }

    fn check(&self, row: &LabelledObject<'_>, without_fluxd: bool) -> Option<MarkedObject> {
        let LabelledObject { object, claim, managed_by, .. } = row;
        let value = object.labels.get(MARK).or_else(|| object.labels.get(LEGACY_MARK))?;
        let id = resource_id(&object.id);
        let current = source_of(value, &id, &self.current);
        let (status, source, note) = if !is_well_formed(value) {
            (MarkStatus::Malformed, None, String::new())
        } else if let Some(owner) = managed_by.as_ref().filter(|owner| owner.system == SUCCESSOR) {
            (MarkStatus::TakenOver, None, owner.to_string())
        } else if object.labels.get(MARK).is_none() {
            (MarkStatus::LegacyKey, current, String::new())
        } else if current.is_some() {
            let note = match gc_eligibility(object) {
                GcEligibility::NeverCollected(reason) => reason.to_owned(),
                _ => String::new(),
            };
            (MarkStatus::Synced, current, note)
        } else if let Some(earlier) = source_of(value, &id, &self.earlier) {
            (MarkStatus::Drifted, Some(earlier), String::new())
        } else if self.genuine.contains(value) {
            (MarkStatus::Copied, None, "another object has this mark".to_owned())
        } else {
            let is_copied = claim.strength == Strength::Contradicted;
            let status = if is_copied { MarkStatus::Copied } else { MarkStatus::UnknownSource };
            (status, None, claim.evidence.witness.as_deref().unwrap_or_default().to_owned())
        };
        let orphan = without_fluxd && status != MarkStatus::TakenOver;
        Some(MarkedObject { object: object.id.clone(), mark: status, source, note, orphan })
    }
}

/// Returns the name of the source, of names with their sync sets, whose mark for a resource id is this one.
fn source_of(value: &str, id: &str, sources: &[(String, String)]) -> Option<String> {
    sources.iter().find(|(_, set)| mark(set, id) == value).map(|(name, _)| name.clone())
}

fn warnings(fluxd: Option<bool>, unreadable: &[String], objects: &[MarkedObject]) -> Vec<String> {
    let mut warnings: Vec<String> =
        unreadable.iter().map(|reason| format!("the source of a fluxd cannot be computed: {reason}")).collect();
    let orphans = objects.iter().filter(|row| row.orphan).count();
    match fluxd {
        None => warnings.push("Deployments could not be read, so a fluxd may run in this cluster".to_owned()),
        Some(false) if orphans > 0 => {
            warnings.push(format!(
                "no fluxd runs in this cluster: nothing will collect {}",
                pluralize(orphans, "marked object")
            ));
        }
        Some(_) => {}
    }
    warnings
}

fn group_table(objects: &[MarkedObject]) -> ReportTable {
    let mut groups: BTreeMap<(MarkStatus, &str, bool), usize> = BTreeMap::new();
    for row in objects {
        *groups.entry((row.mark, row.source(), row.orphan)).or_default() += 1;
    }
    let rows = groups.into_iter().map(|((status, source, orphan), number)| {
        vec![status.describe().0.to_owned(), number.to_string(), source.to_owned(), meaning(status, orphan)]
    });
    ReportTable { columns: &["mark", "objects", "source", "meaning"], rows: rows.collect() }
}

fn object_table(objects: &[MarkedObject]) -> ReportTable {
    let mut sorted: Vec<&MarkedObject> = objects.iter().collect();
    sorted.sort_by_key(|row| row.mark);
    let rows = sorted.into_iter().map(|row| {
        let id = &row.object;
        let text = meaning(row.mark, row.orphan);
        let cells = [row.mark.describe().0, &id.namespace, &id.kind, &id.name, row.source(), &text, &row.note];
        cells.map(str::to_owned).to_vec()
    });
    ReportTable { columns: &["mark", "namespace", "kind", "name", "source", "meaning", "note"], rows: rows.collect() }
}

fn meaning(status: MarkStatus, orphan: bool) -> String {
    let (_, meaning) = status.describe();
    if orphan { format!("orphan: {meaning}") } else { meaning.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::object::{ObjectMetadata, Resource};
    use crate::ownership::index::Index;
    use crate::ownership::report::label_reports;
    use crate::ownership::scheme::last_applied::KUBECTL;
    use crate::testing::{Build, object, snapshot};

    fn source(url: &str) -> GitSource {
        GitSource { url: url.to_owned(), branch: "master".to_owned(), paths: vec![] }
    }

    fn marked(url: &str, name: &str) -> ObjectMetadata {
        let bare = object("", "ConfigMap", "shop", name);
        let mark = mark(&source(url).sync_set(), &resource_id(&bare.id));
        bare.label(MARK, &mark)
    }

    fn objects() -> Vec<ObjectMetadata> {
        let synced = marked("git@h:o/r", "a");
        let mark_of_a = synced.labels.get(MARK).unwrap().to_owned();
        let foreign = marked("git@h:o/foreign", "e");
        let mark_of_e = foreign.labels.get(MARK).unwrap().to_owned();
        vec![
            synced,
            marked("https://h/o/r.git", "b"),
            object("", "ConfigMap", "shop", "c").label(MARK, &mark_of_a),
            object("", "ConfigMap", "shop", "d").label(MARK, "sha256.short"),
            foreign.annotation(KUBECTL, "/ConfigMap/shop/e"),
            object("", "ConfigMap", "shop", "f").label(MARK, &mark_of_e),
            object("", "ConfigMap", "shop", "g").label(LEGACY_MARK, &mark_of_a),
            object("", "ConfigMap", "shop", "h"),
        ]
    }

    /// Presence of a fluxd, and the status of each mark with "leftover" where nothing collects the object.
    fn statuses(full: Vec<Resource>) -> (serde_json::Value, Vec<String>) {
        let snapshot = snapshot(objects(), full);
        let report = label_reports::label_report("flux-v1", &Index::build(&snapshot), &|_| true).unwrap();
        let rows = report.details["objects"].as_array().unwrap().iter().map(|row| {
            let leftover = if row["orphan"] == true { " leftover" } else { "" };
            format!("{} {}{leftover}", row["name"].as_str().unwrap(), row["mark"].as_str().unwrap())
        });
        (report.details["fluxd"].clone(), rows.collect())
    }

    #[test]
    fn every_status() {
        let content = json!({"spec": {"template": {"spec": {"containers": [{"args": ["--git-url=git@h:o/r"]}]}}}});
        let fluxd = Resource { object: object("apps", "Deployment", "flux", "flux"), content };
        let (fluxd, rows) = statuses(vec![fluxd]);
        assert_eq!(fluxd, true);
        let expected =
            ["a synced", "b drifted", "c copied", "d malformed", "e unknown-source", "f copied", "g legacy-key"];
        assert_eq!(rows, expected);
    }

    #[test]
    fn without_a_fluxd_every_marked_object_is_an_orphan() {
        let (fluxd, rows) = statuses(vec![]);
        assert_eq!(fluxd, false);
        let expected =
            ["a copied", "b unknown-source", "c copied", "d malformed", "e unknown-source", "f copied", "g legacy-key"];
        assert_eq!(rows, expected.map(|row| format!("{row} leftover")));
    }
}
