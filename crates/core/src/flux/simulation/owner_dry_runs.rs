//! Upgrades of releases that the API server is asked about: Helm applies everything first, and deletes nothing if the server
//! refuses one object.
//!
//! Source: Helm v4.2.2 `pkg/kube/client.go`, `update`; helm-controller v1.6.3 `internal/action/upgrade.go`. Only releases
//! that helm-controller applies on the server are asked about: the result of a patch that Helm computes is not known here.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::model::questions::Verdict;
use super::model::state::State;
use super::owners::behaviour::comparison::Comparison;
use super::owners::helm::upgrades::{CAN_FAIL, is_kept_in_upgrade};
use crate::flux::apply::question::{HELM_CONTROLLER, Question, Request};
use crate::helm::target::ReleaseTarget;
use crate::helm::upgrade::{Rendered, Upgrade};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, flag_at, text_at};

impl Comparison<'_, '_, '_> {
    /// Adds what the API server says about an upgrade to it. `changed` are the manifests that it creates or changes.
    pub(crate) fn rehearse_upgrade(
        &mut self,
        upgrade: &mut Upgrade,
        live: &Resource,
        spec: &Value,
        (old, changed): (&Rendered, BTreeMap<ObjectId, Value>),
        is_private: bool,
    ) {
        let (state, release) = (self.state(), &live.object.id);
        let target = ReleaseTarget::recorded(&live.content);
        let target = target.filter(|_| can_ask(state, spec, old, &changed, is_private));
        let mut applies = vec![];
        if let Some(target) = &target {
            applies.extend(changed.iter().map(|(id, manifest)| {
                let manifest = manifest_to_apply(manifest, id, target, release, spec);
                Question::of_owner(release, spec, id, Request::Apply(manifest), is_private)
            }));
        }
        let applied = self.derivation.ask_all(applies);
        let removed = upgrade.removed.iter().filter(|id| !is_kept_in_upgrade(state, id));
        for object in removed.filter_map(|id| state.live_object(id)) {
            let deletion = Question::of_owner(release, spec, &object.id, Request::Delete, is_private);
            if let Verdict::Refused(message) = self.derivation.ask(deletion) {
                upgrade.refused_deletions.insert(object.id.clone(), message);
            }
        }
        let is_proven = changed.is_empty() || (target.is_some() && applied.is_accepted);
        upgrade.condition = match applied.first_refusal {
            Some(refusal) => {
                Some(format!("it stays while the API server refuses the upgrade, as it does now: {refusal}"))
            }
            None => (!is_proven).then(|| CAN_FAIL.to_owned()),
        };
    }
}

/// Returns true if a dry-run shows what the API server says to each of these changes.
fn can_ask(
    state: &State<'_>,
    spec: &Value,
    old: &Rendered,
    changed: &BTreeMap<ObjectId, Value>,
    is_private: bool,
) -> bool {
    let replaces_definitions = !matches!(text_at(spec, "/upgrade/crds"), "" | "Skip");
    let is_applied_on_server = text_at(spec, "/upgrade/serverSideApply") != "disabled"
        && old.objects.iter().filter_map(|id| state.live_object(id)).any(is_applied);
    let is_askable = |id: &ObjectId| match state.live_object(id) {
        Some(live) if old.objects.contains(id) => is_applied(live),
        Some(_) => !flag_at(spec, "/upgrade/disableTakeOwnership"),
        // Its name would be in the URL of the request, and so in logs.
        None => !is_private,
    };
    !replaces_definitions && is_applied_on_server && changed.keys().all(is_askable)
}

/// Returns true if helm-controller applied an object on the server.
fn is_applied(object: &ObjectMetadata) -> bool {
    object.managed_fields.iter().any(|entry| entry.applies && &*entry.manager == HELM_CONTROLLER)
}

/// Returns a manifest with what Helm and helm-controller add to it.
fn manifest_to_apply(
    rendered: &Value,
    id: &ObjectId,
    target: &ReleaseTarget,
    release: &ObjectId,
    spec: &Value,
) -> Value {
    let mut manifest = rendered.clone();
    let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else { return manifest };
    match &*id.namespace {
        "" => metadata.remove("namespace"),
        namespace => metadata.insert("namespace".to_owned(), json!(namespace)),
    };
    let pairs = |field: &str| spec.pointer(&format!("/commonMetadata/{field}")).and_then(Value::as_object);
    let labels = entry(metadata, "labels");
    labels.extend(pairs("labels").cloned().unwrap_or_default());
    labels.insert("helm.toolkit.fluxcd.io/name".to_owned(), json!(release.name));
    labels.insert("helm.toolkit.fluxcd.io/namespace".to_owned(), json!(release.namespace));
    labels.insert("app.kubernetes.io/managed-by".to_owned(), json!("Helm"));
    let annotations = entry(metadata, "annotations");
    annotations.extend(pairs("annotations").cloned().unwrap_or_default());
    annotations.insert("meta.helm.sh/release-name".to_owned(), json!(target.name));
    annotations.insert("meta.helm.sh/release-namespace".to_owned(), json!(target.namespace));
    manifest
}

/// Returns the labels or annotations of a manifest.
fn entry<'m>(metadata: &'m mut Map<String, Value>, key: &str) -> &'m mut Map<String, Value> {
    let value = metadata.entry(key).or_insert(Value::Null);
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it is a map")
}
