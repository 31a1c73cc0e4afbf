//! Entry of an object in `get`: a pure function of the object, its owners and sources, and the Events about it.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

use super::evidence::{HonourVerdict, ObjectEvent, RunEvidence, controller_status_entry};
use super::{Suspension, effective};
use crate::flux::kinds::{FluxKind, KINDS, Trace};
use crate::kubernetes::object::{ObjectId, Resource, parse_time};
use crate::ownership::schemes::{flux_helmrelease, flux_kustomization, flux_operator};

/// Owners that label the objects that they apply: group, kind, name label, namespace label.
const OWNER_LABELS: [(&str, &str, &str, &str); 4] = [
    (flux_kustomization::GROUP, flux_kustomization::KIND, flux_kustomization::NAME, flux_kustomization::NAMESPACE),
    (flux_helmrelease::GROUP, flux_helmrelease::KIND, flux_helmrelease::NAME, flux_helmrelease::NAMESPACE),
    (
        flux_operator::GROUP,
        "ResourceSet",
        "resourceset.fluxcd.controlplane.io/name",
        "resourceset.fluxcd.controlplane.io/namespace",
    ),
    (flux_operator::GROUP, "FluxInstance", "fluxcd.controlplane.io/name", "fluxcd.controlplane.io/namespace"),
];

/// An object of Flux; an entry of `items` in `kubectl-gitops/get/v1`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FluxObject<'a> {
    /// Context of the cluster, if the answer is about several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<&'a str>,
    pub object: &'a ObjectId,
    pub uid: &'a str,
    /// Revision in the status.
    pub revision: Option<&'a str>,
    /// Suspension of the object itself.
    pub suspension: Option<Suspension<'a>>,
    /// Result of the check that the suspension is honoured.
    pub honoured: Option<HonourVerdict>,
    /// Nearest suspended owner or source.
    pub suspended_above: Option<&'a ObjectId>,
    /// Status of the condition Ready; `None` for kinds without the condition.
    pub ready: Option<&'a str>,
    /// Message of the condition Ready.
    pub message: &'a str,
    /// Latest known end or action of a run.
    pub last_reconciled: Option<DateTime<Utc>>,
    /// Sources that the spec references.
    pub sources: Vec<ObjectId>,
    pub created: Option<DateTime<Utc>>,
    /// Deletion time of an object that finalizers keep.
    pub deleting: Option<DateTime<Utc>>,
    /// True if a watch reported the deletion.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
}

/// Objects by identity: the requested ones, their owners, and their sources.
pub type ObjectsById<'a> = HashMap<&'a ObjectId, &'a Resource>;

/// Returns the owners by label, and the sources, of an object.
pub fn owners_and_sources(full: &Resource) -> Vec<ObjectId> {
    let labels = &full.object.labels;
    let owners = OWNER_LABELS.into_iter().filter_map(|(group, kind, name, namespace)| {
        Some(ObjectId::new(group, kind, labels.get(namespace)?, labels.get(name)?))
    });
    let mut found: Vec<_> = owners.chain(sources(full)).filter(|id| *id != full.object.id).collect();
    found.dedup();
    found
}

/// Returns the sources that the spec references.
pub(crate) fn sources(full: &Resource) -> Vec<ObjectId> {
    let references = FluxKind::source_references(full).into_iter();
    references.filter_map(|(reference, default_kind)| referenced_source(reference, default_kind, full)).collect()
}

/// Returns the identity in a reference. The namespace may be left out, and the group follows from the kind.
fn referenced_source(reference: &Value, default_kind: &str, full: &Resource) -> Option<ObjectId> {
    let kind = non_empty(reference, "kind").unwrap_or(default_kind);
    let known = KINDS.iter().find(|known| known.kind == kind)?;
    let namespace = non_empty(reference, "namespace").unwrap_or(&full.object.id.namespace);
    Some(ObjectId::new(known.group, kind, namespace, non_empty(reference, "name")?))
}

fn non_empty<'a>(reference: &'a Value, key: &str) -> Option<&'a str> {
    reference.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns the nearest suspended owner or source, found breadth first. Loops end.
fn nearest_suspended<'a>(full: &'a Resource, known: &ObjectsById<'a>) -> Option<&'a ObjectId> {
    let mut seen = HashSet::from([full.object.id.clone()]);
    let mut level = vec![full];
    while !level.is_empty() {
        let mut ids: Vec<_> = level.iter().flat_map(|full| owners_and_sources(full)).collect();
        ids.retain(|id| seen.insert(id.clone()));
        level = ids.iter().filter_map(|id| known.get(id).copied()).collect();
        if let Some(found) = level.iter().find(|full| effective(full).is_some()) {
            return Some(&found.object.id);
        }
    }
    None
}

/// Returns the latest time of a known run (docs/reference/flux.md 5): from the status, or from the last write of the
/// status by the controller. A run that wrote nothing is not known.
fn last_reconciled(full: &Resource) -> Option<DateTime<Utc>> {
    let kind = FluxKind::of(full)?;
    let ready = full.condition("Ready").and_then(|ready| ready.changed);
    let mut last = None;
    for trace in kind.traces {
        last = last.max(match trace {
            Trace::Runs(pointer) => return time(full, &format!("{pointer}/0/lastReconciled")).or(ready),
            Trace::Started(pointer) | Trace::During(pointer) => time(full, pointer),
            Trace::Ending("Ready") => ready,
            Trace::StatusWrite => controller_status_entry(full, kind).and_then(|entry| entry.time),
            Trace::Ending(_) | Trace::Starting(_) | Trace::Event => None,
        });
    }
    last
}

fn time(full: &Resource, pointer: &str) -> Option<DateTime<Utc>> {
    full.text(pointer).and_then(parse_time)
}

impl<'a> FluxObject<'a> {
    pub fn new(full: &'a Resource, known: &ObjectsById<'a>, events: &[ObjectEvent]) -> Self {
        let kind = FluxKind::of(full);
        let ready = full.condition("Ready");
        let has_no_ready = kind.is_some_and(|kind| kind.is_static(full));
        let suspension = Suspension::of(full);
        Self {
            context: None,
            object: &full.object.id,
            uid: &full.object.uid,
            revision: kind.and_then(|kind| kind.revision_of(full)),
            honoured: suspension.as_ref().map(|_| HonourVerdict::of(full, events)),
            suspension,
            suspended_above: nearest_suspended(full, known),
            ready: ready.map(|ready| ready.status).or((!has_no_ready).then_some("Unknown")),
            message: ready.map(|ready| ready.message).unwrap_or_default(),
            last_reconciled: last_reconciled(full),
            sources: sources(full),
            created: full.object.creation_timestamp,
            deleting: full.object.deletion_timestamp,
            deleted: false,
        }
    }

    /// Returns the text of the column SUSPENDED.
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

    /// Returns the evidence of a run after the suspension.
    pub fn evidence(&self) -> Option<&RunEvidence> {
        match &self.honoured {
            Some(HonourVerdict::NotHonoured(evidence)) => Some(evidence),
            _ => None,
        }
    }

    /// Returns the time at which the suspension ends.
    pub fn until(&self) -> Option<DateTime<Utc>> {
        self.suspension.as_ref().and_then(|suspension| suspension.until)
    }

    /// Returns the user who suspended the object if recorded, else the field manager.
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

    fn known(objects: &[Resource]) -> ObjectsById<'_> {
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
        let items: Vec<_> = objects.iter().map(|full| FluxObject::new(full, &known(&objects), &[])).collect();
        let words: Vec<_> = items.iter().map(FluxObject::suspended).collect();
        assert_eq!(words, ["spec", "parent", "parent", "-"]);
        assert_eq!(items[2].suspended_above.unwrap().to_string(), "gitrepository.source.toolkit.fluxcd.io/git -n shop");
    }

    #[test]
    fn ready_and_revision_depend_on_the_kind() {
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
            let item = FluxObject::new(&full, &ObjectsById::new(), &[]);
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
    fn the_json_of_an_item_has_its_suspension() {
        let full = flux_object("Kustomization", json!({}), &[(ANNOTATION, "drill")]);
        let value = serde_json::to_value(FluxObject::new(&full, &ObjectsById::new(), &[])).unwrap();
        assert_eq!(value["suspension"]["by"], "annotation");
        assert_eq!(value["suspension"]["message"], "drill");
        assert_eq!(value["honoured"]["verdict"], "unverifiable", "nobody recorded when");
        assert_eq!(value["created"], json!(noon()));
    }
}
