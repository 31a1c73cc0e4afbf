//! References of owners: values, charts, sources, inputs, and data that is copied.

use std::collections::BTreeSet;

use serde_json::Value;

use super::comparison::{Asked, Comparison, Difference, Part};
use super::source_changes::UsedFiles;
use crate::flux::build::charts::values::values_sources;
use crate::flux::kinds::OPERATOR_SWITCH;
use crate::flux::simulation::model::facts::copied_data::copied_names;
use crate::flux::spec::SourceId;
use crate::glob::Glob;
use crate::kubernetes::object::{ObjectId, list_at};
use crate::kubernetes::selector::label_selector::selects;
use crate::ownership::schemes::flux::is_switched_off;
use crate::ownership::schemes::flux_operator;

/// Kind of the objects that give inputs to ResourceSets.
pub(crate) const PROVIDER: &str = "ResourceSetInputProvider";

/// Returns the text of a field, or empty text.
pub(crate) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl Comparison<'_, '_, '_> {
    /// Returns what changes in the objects that a HelmRelease with this spec refers to, in words.
    pub(crate) fn release_references(&mut self, namespace: &str, spec: &Value) -> Asked<Vec<String>> {
        let mut changes = vec![];
        for source in values_sources(namespace, spec) {
            changes.extend(self.data_changes(&source.reference.id(), Some(source.key))?);
        }
        changes.extend(self.cluster_changes(namespace, spec)?);
        changes.extend(self.chart_references(namespace, spec)?);
        Ok(changes)
    }

    /// Describes the changes in the sources of the chart of a HelmRelease with this spec.
    pub(crate) fn chart_references(&mut self, namespace: &str, spec: &Value) -> Asked<Vec<String>> {
        let (mut changes, seen) = (vec![], &mut BTreeSet::new());
        if let Some(chart_ref) = spec.get("chartRef").filter(|value| value.is_object()) {
            changes.extend(self.source_changes(&SourceId::read(chart_ref, "", namespace), &UsedFiles::All, seen)?);
        }
        if let Some(chart) = spec.pointer("/chart/spec") {
            let source = SourceId::of_chart(chart, namespace);
            changes.extend(self.source_changes(&source, &UsedFiles::of_chart(chart), seen)?);
        }
        Ok(changes)
    }

    /// Returns what changes in the object that `spec.kubeConfig` names, in words.
    pub(crate) fn cluster_changes(&mut self, namespace: &str, spec: &Value) -> Asked<Vec<String>> {
        let mut changes = vec![];
        for (field, kind) in [("secretRef", "Secret"), ("configMapRef", "ConfigMap")] {
            if let Some(entry) = spec.get("kubeConfig").and_then(|config| config.get(field)) {
                let id = ObjectId::new("", kind, namespace, text(entry, "name"));
                changes.extend(self.data_changes(&id, None)?);
            }
        }
        Ok(changes)
    }

    /// Returns what changes in the objects that a ResourceSet with this spec refers to, in words.
    pub(crate) fn set_references(&mut self, namespace: &str, spec: &Value) -> Asked<Vec<String>> {
        let mut changes = vec![];
        for entry in spec.get("inputsFrom").and_then(Value::as_array).into_iter().flatten() {
            let all = [false, true].map(|is_after| self.providers(namespace, entry, is_after));
            let hidden = self.hidden_providers(namespace, entry);
            for id in all.into_iter().flatten().chain(hidden).collect::<BTreeSet<_>>() {
                let difference = self.difference(&id, Part::SpecAndLabels)?;
                changes.extend(difference.map(|difference| difference.describe(&id)));
                let was_off = self.state().live_object(&id).and_then(|live| live.annotations.get(OPERATOR_SWITCH));
                if was_off.is_some_and(is_switched_off) && !self.state().is_switched_off_after(&id, OPERATOR_SWITCH) {
                    changes.push(format!("{id} is resumed"));
                }
                for spec in self.state().specs_after(&id) {
                    let artifacts = self.artifact_changes(&id, &spec)?;
                    changes.extend(artifacts.iter().map(|(artifact, _)| format!("{artifact} of {id} changes")));
                }
            }
        }
        changes.extend(self.copied_changes(spec)?);
        Ok(changes)
    }

    /// Describes the changes of ConfigMaps and Secrets that the resources of a ResourceSet with this spec copy.
    pub(crate) fn copied_changes(&mut self, spec: &Value) -> Asked<Vec<String>> {
        self.copied_objects(spec).iter().filter_map(|id| self.data_changes(id, None).transpose()).collect()
    }

    /// Returns the ConfigMaps and Secrets that the resources of a ResourceSet copy.
    pub(crate) fn copied_objects(&self, resources: &Value) -> Vec<ObjectId> {
        copied_names(resources).iter().flat_map(|name| self.named_data(name)).collect()
    }

    /// Returns an object that the change deletes and whose data a ResourceSet copies.
    pub(crate) fn lost_copy(&mut self, spec: &Value) -> Asked<Option<ObjectId>> {
        for id in self.copied_objects(spec) {
            if matches!(self.difference(&id, Part::Data(None))?, Some(Difference::Deleted)) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    fn data_changes(&mut self, id: &ObjectId, key: Option<&str>) -> Asked<Option<String>> {
        let difference = self.difference(id, Part::Data(key))?;
        Ok(difference.map(|difference| match (&difference, key) {
            (Difference::Changed(_), Some(key)) => format!("{key} of {id} changes"),
            _ => difference.describe(id),
        }))
    }

    /// Returns the input providers that an entry of `inputsFrom` names, or selects by labels, before or after the change.
    pub(crate) fn providers(&self, namespace: &str, entry: &Value, is_after: bool) -> Vec<ObjectId> {
        let all = self.ids_of(flux_operator::GROUP, PROVIDER).into_iter();
        let own = all.filter(|id| {
            let is_live = self.state().is_live(id);
            let exists = if is_after { !self.derivation.consequences.may_be_deleted(id) } else { is_live };
            &*id.namespace == namespace && exists
        });
        if !text(entry, "name").is_empty() {
            return own.filter(|id| &*id.name == text(entry, "name")).collect();
        }
        let selector = &entry["selector"];
        own.filter(|id| {
            let live = self.state().live_object(id);
            let applied = if is_after { self.state().applied(id) } else { vec![] };
            if applied.is_empty() {
                return live.is_some_and(|live| selects(selector, |key| live.labels.get(key)));
            }
            applied.iter().any(|applied| {
                let labels = applied.built.manifest.pointer("/metadata/labels");
                selects(selector, |key| labels?.get(key)?.as_str())
            })
        })
        .collect()
    }

    /// Returns the input providers that an entry of `inputsFrom` may select by labels that are encrypted.
    pub(crate) fn hidden_providers(&self, namespace: &str, entry: &Value) -> Vec<ObjectId> {
        if !text(entry, "name").is_empty() {
            return vec![];
        }
        let all = self.ids_of(flux_operator::GROUP, PROVIDER).into_iter().filter(|id| &*id.namespace == namespace);
        let is_hidden =
            |id: &ObjectId| self.state().applied(id).iter().any(|applied| applied.built.has_encrypted_labels());
        all.filter(is_hidden).collect()
    }

    /// Returns true if a ResourceSet with this spec, or a provider of its inputs, holds values of a Secret.
    pub(crate) fn set_is_private(&self, id: &ObjectId, spec: &Value) -> bool {
        let entries = list_at(spec, "/inputsFrom").iter();
        let mut providers = entries
            .flat_map(|entry| [false, true].map(|is_after| self.providers(&id.namespace, entry, is_after)))
            .flatten();
        self.state().is_private(id) || providers.any(|provider| self.state().is_private(&provider))
    }

    /// Returns the ConfigMaps and Secrets with a name of the form `NAMESPACE/NAME`, in which `<<` begins a placeholder.
    fn named_data(&self, name: &str) -> Vec<ObjectId> {
        let Ok(pattern) = Glob::parse(with_wildcards(name).as_bytes()) else { return vec![] };
        let ids = ["ConfigMap", "Secret"].into_iter().flat_map(|kind| self.ids_of("", kind));
        ids.filter(|id| pattern.matches(format!("{}/{}", id.namespace, id.name).as_bytes())).collect()
    }
}

/// Returns a text with `*` in place of each placeholder.
fn with_wildcards(name: &str) -> String {
    let mut parts = name.split("<<");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "*" + part.split_once(">>").map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_copied_data_are_found_in_resources_and_templates() {
        let spec = json!({
            "resources": [
                {"metadata": {"annotations": {"fluxcd.controlplane.io/copyFrom": "shop/a"}}},
                {"spec": {"template": {"metadata": {"annotations": {
                    "fluxcd.controlplane.io/checksumFrom": "ConfigMap/shop/b,Secret/shop/<< inputs.name >>-c",
                }}}}},
            ],
            "resourcesTemplate": "kind: Secret\nmetadata:\n  annotations:\n    fluxcd.controlplane.io/copyFrom: \"x/d\"\n",
        });
        let names: Vec<String> = copied_names(&spec).into_iter().collect();
        assert_eq!(names, ["shop/<< inputs.name >>-c", "shop/a", "shop/b", "x/d"]);
        assert_eq!(with_wildcards("<< a >>/x-<< b >>-y"), "*/x-*-y");
    }
}
