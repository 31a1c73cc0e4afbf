//! Metadata of an object after an apply: labels, annotations and the entry of the field manager, as a snapshot records them.
//!
//! Source: docs/reference/kustomize-controller.md 4.4.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::flux::build::objects::BuiltObject;
use crate::flux::controller_flags::ControllerFlags;
use crate::flux::spec::KustomizationSpec;
use crate::flux::suspension;
use crate::helm::target::ReleaseTarget;
use crate::kubernetes::object::{KeyValues, ManagedFieldsEntry, ObjectId, ObjectMetadata};
use crate::ownership::is_ownership_key;
use crate::ownership::schemes::{flux_helmrelease as releases, flux_operator, helm};

/// The labels and annotations of one apply.
pub(super) struct AppliedMetadata {
    labels: BTreeMap<String, String>,
    /// Only those that a snapshot keeps.
    annotations: BTreeMap<String, String>,
}

impl AppliedMetadata {
    /// Reads the labels and annotations of a manifest, and of `commonMetadata`, which overwrites them.
    pub(super) fn of(built: &BuiltObject, spec: Option<&KustomizationSpec>) -> Self {
        let [labels, mut annotations] = ["labels", "annotations"].map(|field| {
            let own = built.manifest.pointer(&format!("/metadata/{field}"));
            let common = spec.and_then(|spec| spec.value().pointer(&format!("/commonMetadata/{field}")));
            let maps = [own, common].into_iter().flatten().filter_map(Value::as_object).flatten();
            maps.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect::<BTreeMap<_, _>>()
        });
        annotations.retain(|key, _| is_kept(key));
        Self { labels, annotations }
    }

    /// Adds a label of the controller.
    pub(super) fn add_label(&mut self, key: &str, value: &str) {
        self.labels.insert(key.to_owned(), value.to_owned());
    }

    /// Adds the labels and annotations by which the controllers of other owners than Kustomizations mark their objects. `target`
    /// is that of a release.
    pub(super) fn add_owner(&mut self, owner: &ObjectId, target: Option<&ReleaseTarget>) {
        if let Some(target) = target {
            self.add_label(releases::NAME, &owner.name);
            self.add_label(releases::NAMESPACE, &owner.namespace);
            self.add_label(helm::MANAGED_BY, "Helm");
            let marks = [(helm::RELEASE_NAME, &target.name), (helm::RELEASE_NAMESPACE, &target.namespace)];
            self.annotations.extend(marks.map(|(key, value)| (key.to_owned(), value.clone())));
        } else if owner.is(flux_operator::GROUP, "ResourceSet") {
            self.add_label(flux_operator::SET[0], &owner.name);
            self.add_label(flux_operator::SET[1], &owner.namespace);
        }
    }

    /// Applies them to an object as a field manager. Keys that it applied before and that no other manager owns are
    /// removed. `flags` name the managers that kustomize-controller takes over; `None` for another controller.
    pub(super) fn apply(&self, object: &mut ObjectMetadata, manager: &str, flags: Option<&ControllerFlags>) {
        let replaced: Vec<ManagedFieldsEntry> = object
            .managed_fields
            .extract_if(.., |entry| {
                let is_own = &*entry.manager == manager && entry.applies;
                let is_taken_over = flags.is_some_and(|flags| flags.takes_over(&entry.manager, entry.applies));
                entry.subresource.is_empty() && (is_own || is_taken_over)
            })
            .collect();
        let others = &object.managed_fields;
        object.labels = after_apply(&object.labels, &self.labels, |key| loses(key, &replaced, others, |e| &e.labels));
        object.annotations = after_apply(&object.annotations, &self.annotations, |key| {
            loses(key, &replaced, others, |e| &e.annotations)
        });
        let (labels, annotations) = (kept_keys(&self.labels), kept_keys(&self.annotations));
        let spec = replaced.iter().find_map(|entry| entry.spec.clone());
        object.managed_fields.push(ManagedFieldsEntry {
            manager: manager.into(),
            applies: true,
            time: replaced.iter().filter_map(|entry| entry.time).max(),
            labels,
            annotations,
            spec,
            ..ManagedFieldsEntry::default()
        });
    }
}

/// Records that a field manager owns the fields of a spec, as `fieldsV1` does.
pub(super) fn own_spec(object: &mut ObjectMetadata, manager: &str, spec: &Value) {
    let own = object.managed_fields.iter_mut().find(|entry| &*entry.manager == manager && entry.applies);
    if let Some(entry) = own {
        entry.suspend = spec.get("suspend").is_some();
        entry.spec = Some(Box::new(fields_of(spec)));
    }
}

fn fields_of(value: &Value) -> Value {
    let fields = value.as_object().into_iter().flatten();
    Value::Object(fields.map(|(key, value)| (format!("f:{key}"), fields_of(value))).collect::<Map<_, _>>())
}

/// Returns true for a key that a snapshot keeps of annotations and managed fields.
fn is_kept(key: &str) -> bool {
    is_ownership_key(key) || suspension::KEYS.contains(&key)
}

fn kept_keys(pairs: &BTreeMap<String, String>) -> Vec<Box<str>> {
    pairs.keys().filter(|key| is_kept(key)).map(|key| key.as_str().into()).collect()
}

/// Returns true if only the replaced entries own a key.
fn loses(
    key: &str,
    replaced: &[ManagedFieldsEntry],
    others: &[ManagedFieldsEntry],
    keys: impl Fn(&ManagedFieldsEntry) -> &Vec<Box<str>>,
) -> bool {
    replaced.iter().flat_map(&keys).any(|own| **own == *key) && !others.iter().flat_map(&keys).any(|own| **own == *key)
}

fn after_apply(live: &KeyValues, applied: &BTreeMap<String, String>, is_lost: impl Fn(&str) -> bool) -> KeyValues {
    let staying = live.iter().filter(|(key, _)| !applied.contains_key(*key) && !is_lost(key));
    staying.chain(applied.iter().map(|(key, value)| (key.as_str(), value.as_str()))).collect()
}
