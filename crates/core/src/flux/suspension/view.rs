//! What `get` says of one object: a pure function of the object, of what stands above it, and of Events about it.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

use super::Suspension;
use super::evidence::{HonourVerdict, Sighting, verdict};
use crate::flux::kinds::{FluxKind, KINDS, Trace};
use crate::flux::suspension;
use crate::kubernetes::object::{ObjectId, Resource, parse_time};

/// Labels by which a kind of Flux marks what it applied: the owner's group, kind, and its name and namespace labels.
const OWNERS: [(&str, &str, &str, &str); 4] = [
    (
        "kustomize.toolkit.fluxcd.io",
        "Kustomization",
        "kustomize.toolkit.fluxcd.io/name",
        "kustomize.toolkit.fluxcd.io/namespace",
    ),
    ("helm.toolkit.fluxcd.io", "HelmRelease", "helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace"),
    (
        "fluxcd.controlplane.io",
        "ResourceSet",
        "resourceset.fluxcd.controlplane.io/name",
        "resourceset.fluxcd.controlplane.io/namespace",
    ),
    ("fluxcd.controlplane.io", "FluxInstance", "fluxcd.controlplane.io/name", "fluxcd.controlplane.io/namespace"),
];

/// One object as `get` shows it; an entry of `items` in `kubectl-gitops/get/v1`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FluxObject<'a> {
    /// Which object.
    pub object: &'a ObjectId,
    /// Its uid.
    pub uid: &'a str,
    /// The revision it is at.
    pub revision: Option<&'a str>,
    /// What suspends it itself.
    pub suspension: Option<Suspension<'a>>,
    /// Whether that is honoured.
    pub honoured: Option<HonourVerdict>,
    /// A suspended owner or source above it, the nearest.
    pub suspended_above: Option<&'a ObjectId>,
    /// Status of the Ready condition; `None` for kinds that never have one.
    pub ready: Option<&'a str>,
    /// Message of the Ready condition.
    pub message: &'a str,
    /// When a run is known to have ended last, or to have done something.
    pub last_reconciled: Option<DateTime<Utc>>,
    /// Where its content comes from.
    pub sources: Vec<ObjectId>,
    /// Creation time.
    pub created: Option<DateTime<Utc>>,
    /// Deletion time; present while finalizers hold it.
    pub deleting: Option<DateTime<Utc>>,
    /// Whether it is gone; only a watch tells.
    #[serde(skip_serializing_if = "is_false")]
    pub deleted: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Objects by identity: what was asked for, and what stands above it.
pub type Known<'a> = HashMap<&'a ObjectId, &'a Resource>;

/// Reads one object.
pub fn item<'a>(full: &'a Resource, known: &Known<'a>, events: &[Sighting]) -> FluxObject<'a> {
    let kind = FluxKind::of(full);
    let ready = full.condition("Ready");
    let never_ready = kind.is_some_and(|kind| kind.is_static(full));
    let suspension = suspension::read(full);
    FluxObject {
        object: &full.object.id,
        uid: &full.object.uid,
        revision: kind.and_then(|kind| kind.revision_of(full)),
        honoured: suspension.as_ref().map(|_| verdict(full, events)),
        suspension,
        suspended_above: suspended_above(full, known),
        ready: ready.map(|ready| ready.status).or((!never_ready).then_some("Unknown")),
        message: ready.map(|ready| ready.message).unwrap_or_default(),
        last_reconciled: last_reconciled(full),
        sources: sources(full),
        created: full.object.created,
        deleting: full.object.deleting,
        deleted: false,
    }
}

/// What stands above an object: what applied it, and where its content comes from.
pub fn above(full: &Resource) -> Vec<ObjectId> {
    let label = |key: &str| full.object.labels.get(key);
    let owners = OWNERS
        .into_iter()
        .filter_map(|(group, kind, name, namespace)| Some(ObjectId::new(group, kind, label(namespace)?, label(name)?)));
    let mut found: Vec<_> = owners.chain(sources(full)).filter(|id| *id != full.object.id).collect();
    found.dedup();
    found
}

/// The sources an object names.
pub(crate) fn sources(full: &Resource) -> Vec<ObjectId> {
    let pointers = FluxKind::of(full).map_or(&[][..], |kind| kind.sources);
    let mut found = vec![];
    for (pointer, default) in pointers {
        let references: &[Value] = match full.at(pointer) {
            Some(Value::Array(several)) => several,
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        found.extend(references.iter().filter_map(|reference| referenced(reference, default, full)));
    }
    found
}

/// The object that a reference means. It may leave out its namespace, and its group, which the kind tells.
fn referenced(reference: &Value, default: &str, full: &Resource) -> Option<ObjectId> {
    let text = |key: &str| reference.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind = text("kind").unwrap_or(default);
    let known = KINDS.iter().find(|known| known.kind == kind)?;
    Some(ObjectId::new(known.group, kind, text("namespace").unwrap_or(&full.object.id.namespace), text("name")?))
}

/// The nearest suspended object above one, found breadth first; loops end.
fn suspended_above<'a>(full: &'a Resource, known: &Known<'a>) -> Option<&'a ObjectId> {
    let mut seen = HashSet::from([full.object.id.clone()]);
    let mut level = vec![full];
    while !level.is_empty() {
        let ids: Vec<_> = level.iter().flat_map(|full| above(full)).filter(|id| seen.insert(id.clone())).collect();
        level = ids.iter().filter_map(|id| known.get(id).copied()).collect();
        if let Some(found) = level.iter().find(|full| suspension::effective(full).is_some()) {
            return Some(&found.object.id);
        }
    }
    None
}

/// The latest moment at which a run is known to have done something (reference flux 4.2): what a kind's status says, and
/// when its controller wrote that status last. A run that wrote nothing leaves no trace here.
fn last_reconciled(full: &Resource) -> Option<DateTime<Utc>> {
    let kind = FluxKind::of(full)?;
    let time = |pointer: &str| full.text(pointer).and_then(parse_time);
    let mut times = vec![];
    for trace in kind.traces {
        times.push(match trace {
            Trace::Runs(pointer) => return time(&format!("{pointer}/0/lastReconciled")).or_else(|| ready(full)),
            Trace::Started(pointer) | Trace::During(pointer) => time(pointer),
            Trace::Ending("Ready") => ready(full),
            Trace::StatusWrite => {
                let writers = full.object.writers.iter().filter(|writer| &*writer.subresource == "status");
                writers
                    .filter(|writer| writer.manager.ends_with(kind.controller))
                    .filter_map(|writer| writer.time)
                    .max()
            }
            Trace::Ending(_) | Trace::Starting(_) | Trace::Event => None,
        });
    }
    times.into_iter().flatten().max()
}

fn ready(full: &Resource) -> Option<DateTime<Utc>> {
    full.condition("Ready")?.changed
}

impl FluxObject<'_> {
    /// The word for the SUSPENDED column.
    pub fn suspended(&self) -> String {
        let Some(suspension) = &self.suspension else {
            return if self.suspended_above.is_some() { "parent" } else { "-" }.to_owned();
        };
        let by = suspension.by.as_str();
        match &self.honoured {
            Some(HonourVerdict::NotHonoured(_)) => format!("{by}, NOT HONOURED"),
            Some(HonourVerdict::Unverifiable { .. }) => format!("{by}, unverifiable"),
            Some(HonourVerdict::Honoured | HonourVerdict::NoEvidence) | None => by.to_owned(),
        }
    }

    /// The proof that it is reconciled although it is suspended.
    pub fn evidence(&self) -> Option<&suspension::evidence::Evidence> {
        match &self.honoured {
            Some(HonourVerdict::NotHonoured(evidence)) => Some(evidence),
            _ => None,
        }
    }

    /// Who suspended it: the person where one was recorded, else the field manager.
    pub fn suspended_by(&self) -> Option<&str> {
        self.suspension.as_ref().and_then(|suspension| suspension.user.or(suspension.manager))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::flux::suspension::ANNOTATION;
    use crate::testing::{flux_object, noon};

    fn named(kind: &str, name: &str, content: Value, labels: &[(&str, &str)]) -> Resource {
        let mut full = flux_object(kind, content, &[]);
        full.object.id.name = name.into();
        full.object.labels = labels.iter().copied().collect();
        full
    }

    fn known(objects: &[Resource]) -> Known<'_> {
        objects.iter().map(|full| (&full.object.id, full)).collect()
    }

    #[test]
    fn a_suspended_owner_or_source_is_seen_from_below() {
        let source = json!({"spec": {"suspend": true}});
        let owner = json!({"spec": {"sourceRef": {"kind": "GitRepository", "name": "git"}}});
        let below = [("kustomize.toolkit.fluxcd.io/name", "root"), ("kustomize.toolkit.fluxcd.io/namespace", "shop")];
        let objects = [
            named("GitRepository", "git", source, &[]),
            named("Kustomization", "root", owner, &below),
            named("Kustomization", "leaf", json!({"spec": {"sourceRef": {"kind": "Bucket", "name": "b"}}}), &below),
            named("Alert", "alone", json!({}), &[]),
        ];
        let items: Vec<_> = objects.iter().map(|full| item(full, &known(&objects), &[])).collect();
        let words: Vec<_> = items.iter().map(FluxObject::suspended).collect();
        assert_eq!(words, ["spec", "parent", "parent", "-"]);
        assert_eq!(items[2].suspended_above.unwrap().to_string(), "gitrepository.source.toolkit.fluxcd.io/git -n shop");
    }

    #[test]
    fn ready_and_revision_are_those_of_the_kind() {
        let conditions = json!([{"type": "Ready", "status": "False", "message": "no such path"}]);
        for (name, kind, content, ready, revision) in [
            ("never ready", "Alert", json!({}), None, None),
            ("not yet ready", "Kustomization", json!({}), Some("Unknown"), None),
            (
                "suspended does not hide it",
                "Kustomization",
                json!({"spec": {"suspend": true}, "status": {"conditions": conditions, "lastAppliedRevision": "main@sha1:1"}}),
                Some("False"),
                Some("main@sha1:1"),
            ),
            (
                "chart version",
                "HelmRelease",
                json!({"status": {"history": [{"chartVersion": "1.2.3"}]}}),
                Some("Unknown"),
                Some("1.2.3"),
            ),
            (
                "artifact",
                "Bucket",
                json!({"status": {"artifact": {"revision": "sha256:a"}}}),
                Some("Unknown"),
                Some("sha256:a"),
            ),
        ] {
            let full = flux_object(kind, content, &[]);
            let item = item(&full, &Known::new(), &[]);
            assert_eq!((item.ready, item.revision), (ready, revision), "{name}");
        }
    }

    #[test]
    fn sources_are_found_where_each_kind_names_them() {
        for (kind, content, expected) in [
            (
                "HelmRelease",
                json!({"spec": {"chart": {"spec": {"sourceRef": {"name": "charts"}}}}}),
                "helmrepository.source.toolkit.fluxcd.io/charts -n shop",
            ),
            (
                "HelmRelease",
                json!({"spec": {"chartRef": {"kind": "OCIRepository", "name": "c", "namespace": "flux"}}}),
                "ocirepository.source.toolkit.fluxcd.io/c -n flux",
            ),
            (
                "ArtifactGenerator",
                json!({"spec": {"sources": [{"kind": "GitRepository", "name": "a", "alias": "x"}]}}),
                "gitrepository.source.toolkit.fluxcd.io/a -n shop",
            ),
        ] {
            let found = sources(&flux_object(kind, content, &[]));
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].to_string(), expected);
        }
    }

    #[test]
    fn the_json_of_an_item_holds_all_that_is_shown() {
        let full = flux_object("Kustomization", json!({}), &[(ANNOTATION, "drill")]);
        let value = serde_json::to_value(item(&full, &Known::new(), &[])).unwrap();
        assert_eq!(value["suspension"]["by"], "annotation");
        assert_eq!(value["suspension"]["message"], "drill");
        assert_eq!(value["honoured"]["verdict"], "unverifiable", "nobody recorded when");
        assert_eq!(value["created"], json!(noon()));
    }
}
