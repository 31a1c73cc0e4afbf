//! Flux v1's marks: which a fluxd in the cluster stands behind, and which nothing will ever collect.
//!
//! The mark is a hash of the source and of the object's own id. A source that is known can be checked against it, and so
//! can its variants; what no source explains stays unknown.

use std::collections::HashSet;

use serde::Serialize;

use super::variants::variants;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata};
use crate::ownership::index::Index;
use crate::ownership::schemes::flux_v1::args::FluxdArgs;
use crate::ownership::schemes::flux_v1::{GitSource, LEGACY_MARK, MARK, SCHEME, is_well_formed, mark, resource_id};
use crate::ownership::{GcEligibility, OwnershipStatus, Strength};

/// What a mark is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Of the source of a fluxd in this cluster.
    Synced,
    /// Of a variant of such a source: an earlier configuration. No fluxd collects it.
    Drifted,
    /// Of another object.
    Copied,
    /// No mark that Flux v1 can have written.
    Malformed,
    /// Of no source that is known here.
    UnknownSource,
    /// Only under the key of Flux 1.13 and earlier, which no later fluxd looks at.
    LegacyKey,
    /// Flux v2 manages the object now.
    TakenOver,
}

/// One marked object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Marked {
    /// Identity.
    #[serde(flatten)]
    pub object: ObjectId,
    /// What its mark is worth.
    pub class: Class,
    /// The source that made the mark, where that is known; without password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What else is known; may hold text written by others.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Whether nothing in this cluster will ever collect it, for want of a fluxd.
    pub orphan: bool,
}

/// All marks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Marks {
    /// Whether there is a fluxd; `None` when Deployments could not be read.
    pub fluxd: Option<bool>,
    /// Why the source of a fluxd cannot be computed.
    pub unreadable: Vec<String>,
    /// Every marked object, in order.
    pub objects: Vec<Marked>,
}

/// Every marked object that is wanted, with what its mark is worth.
pub fn marks(index: &Index<'_>, wanted: &dyn Fn(&ObjectMetadata) -> bool) -> Marks {
    let snapshot = index.snapshot();
    let mut unreadable = vec![];
    let mut sources: Vec<GitSource> = vec![];
    let mut any = false;
    for full in &snapshot.full {
        let Some(args) = FluxdArgs::find(&full.content) else { continue };
        any = true;
        match args.and_then(|args| args.source()) {
            Ok(source) => sources.push(source),
            Err(why) => unreadable.push(format!("{}: {why}", full.object.id)),
        }
    }
    let unread = snapshot.gaps_hiding(&GroupKind::new("apps", "Deployment")).next().is_some();
    let fluxd = if any { Some(true) } else { (!unread).then_some(false) };
    let known: Vec<(String, String)> =
        sources.iter().map(|source| (source.record().id.name, source.sync_set())).collect();
    let earlier: Vec<(String, String)> = sources
        .iter()
        .flat_map(variants)
        .map(|(source, set)| (source.record().id.name, set))
        .filter(|(_, set)| !known.iter().any(|(_, live)| live == set))
        .collect();
    let marked = || snapshot.objects.iter().filter(|object| object.labels.get(MARK).is_some());
    let genuine: HashSet<String> =
        known.iter().flat_map(|(_, set)| marked().map(|object| mark(set, &resource_id(&object.id)))).collect();
    let reader = Reader { index, known, earlier, genuine, orphaned: fluxd == Some(false) };
    let objects = snapshot.objects.iter().filter(|object| wanted(object)).filter_map(|object| reader.read(object));
    Marks { fluxd, unreadable, objects: objects.collect() }
}

/// Names and sync sets of known sources and of their variants, and the marks that known sources give to marked objects.
struct Reader<'i, 'a> {
    index: &'i Index<'a>,
    known: Vec<(String, String)>,
    earlier: Vec<(String, String)>,
    genuine: HashSet<String>,
    orphaned: bool,
}

impl Reader<'_, '_> {
    fn read(&self, object: &ObjectMetadata) -> Option<Marked> {
        let claim = (SCHEME.claim)(object)?;
        let value = object.labels.get(MARK).or_else(|| object.labels.get(LEGACY_MARK))?;
        let id = resource_id(&object.id);
        let made = |(_, set): &&(String, String)| mark(set, &id) == value;
        let by_known = self.known.iter().find(made).map(|(name, _)| name.clone());
        let (class, source, note) = if !is_well_formed(value) {
            (Class::Malformed, None, String::new())
        } else if let OwnershipStatus::Managed(owner) = self.index.standing(object)
            && owner.system == "flux"
        {
            (Class::TakenOver, None, owner.to_string())
        } else if object.labels.get(MARK).is_none() {
            (Class::LegacyKey, by_known, String::new())
        } else if by_known.is_some() {
            let note = match (SCHEME.reach)(object) {
                GcEligibility::NeverCollected(why) => why.to_owned(),
                _ => String::new(),
            };
            (Class::Synced, by_known, note)
        } else if let Some((name, _)) = self.earlier.iter().find(made) {
            (Class::Drifted, Some(name.clone()), String::new())
        } else {
            let resolved = self.index.all_claims(object).into_iter().find(|claim| claim.owner.system == SCHEME.system);
            let claim = resolved.unwrap_or(claim);
            let copied = claim.strength == Strength::Contradicted || self.genuine.contains(value);
            let note = claim.evidence.split_once(", ").map_or("", |(_, words)| words).to_owned();
            let note = if self.genuine.contains(value) { "another object here has it".to_owned() } else { note };
            (if copied { Class::Copied } else { Class::UnknownSource }, None, note)
        };
        let orphan = self.orphaned && class != Class::TakenOver;
        Some(Marked { object: object.id.clone(), class, source, note, orphan })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::object::Resource;
    use crate::ownership::identity;
    use crate::testing::{Make, object, snapshot};

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
            foreign.annotation(identity::KUBECTL, "/ConfigMap/shop/e"),
            object("", "ConfigMap", "shop", "f").label(MARK, &mark_of_e),
            object("", "ConfigMap", "shop", "g").label(LEGACY_MARK, &mark_of_a),
            object("", "ConfigMap", "shop", "h"),
        ]
    }

    fn say(full: Vec<Resource>) -> (Option<bool>, Vec<(String, Class, bool)>) {
        let snapshot = snapshot(objects(), full);
        let marks = marks(&Index::build(&snapshot), &|_| true);
        let rows = marks.objects.into_iter().map(|row| (row.object.name.to_string(), row.class, row.orphan)).collect();
        (marks.fluxd, rows)
    }

    #[test]
    fn every_class() {
        let content = json!({"spec": {"template": {"spec": {"containers": [{"args": ["--git-url=git@h:o/r"]}]}}}});
        let fluxd = Resource { object: object("apps", "Deployment", "flux", "flux"), content };
        let (found, rows) = say(vec![fluxd]);
        assert_eq!(found, Some(true));
        let classes = [
            ("a", Class::Synced),
            ("b", Class::Drifted),
            ("c", Class::Copied),
            ("d", Class::Malformed),
            ("e", Class::UnknownSource),
            ("f", Class::Copied),
            ("g", Class::LegacyKey),
        ];
        assert_eq!(rows, classes.map(|(name, class)| (name.to_owned(), class, false)));
    }

    #[test]
    fn without_a_fluxd_every_marked_object_is_an_orphan() {
        let (found, rows) = say(vec![]);
        assert_eq!(found, Some(false));
        let classes: Vec<Class> = rows.iter().map(|row| row.1).collect();
        use Class::{Copied, LegacyKey, Malformed, UnknownSource};
        assert_eq!(classes, [Copied, UnknownSource, Copied, Malformed, UnknownSource, Copied, LegacyKey]);
        assert!(rows.iter().all(|row| row.2));
    }
}
