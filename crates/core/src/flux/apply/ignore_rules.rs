//! Rules of `spec.ignore`: fields of applied objects that keep their live values.
//!
//! Source: docs/reference/kustomize-controller.md 4.3.

use regex::Regex;
use serde_json::{Map, Value};

use super::AppliedObject;
use crate::flux::kustomize_controller::NAME;
use crate::flux::spec::KustomizationSpec;
use crate::kubernetes::object::{KeyValues, ObjectId, ObjectMetadata, list_at, texts_at};
use crate::kubernetes::selector::Selector;

/// An object that rules are matched with.
pub(crate) struct IgnoreTarget<'a> {
    pub(crate) id: &'a ObjectId,
    /// API version without the group.
    pub(crate) version: &'a str,
    pub(crate) labels: KeyValues,
    pub(crate) annotations: KeyValues,
}

impl<'a> IgnoreTarget<'a> {
    /// Reads labels and annotations from a manifest.
    pub(crate) fn new(id: &'a ObjectId, version: &'a str, manifest: &Value) -> Self {
        let [labels, annotations] =
            ["/metadata/labels", "/metadata/annotations"].map(|part| texts_at(manifest, part).collect());
        Self { id, version, labels, annotations }
    }

    /// Adds the labels and annotations of a live object that the manifest does not have.
    pub(crate) fn add(&mut self, live: &ObjectMetadata) {
        for (own, others) in [(&mut self.labels, &live.labels), (&mut self.annotations, &live.annotations)] {
            let added = others.iter().filter(|(key, _)| own.get(key).is_none());
            *own = own.iter().chain(added).collect();
        }
    }

    fn is_selected_by(&self, target: &Map<String, Value>) -> bool {
        target.iter().all(|(key, wanted)| {
            let Some(wanted) = wanted.as_str().filter(|wanted| !wanted.is_empty()) else { return true };
            match key.as_str() {
                "group" => is_match(wanted, &self.id.group),
                "version" => is_match(wanted, self.version),
                "kind" => is_match(wanted, &self.id.kind),
                "name" => is_match(wanted, &self.id.name),
                "namespace" => is_match(wanted, &self.id.namespace),
                "labelSelector" => is_selected(wanted, &self.labels),
                "annotationSelector" => is_selected(wanted, &self.annotations),
                _ => true,
            }
        })
    }
}

/// Returns true if a regular expression matches the whole text.
fn is_match(pattern: &str, text: &str) -> bool {
    Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|pattern| pattern.is_match(text))
}

fn is_selected(selector: &str, pairs: &KeyValues) -> bool {
    Selector::parse(selector).is_ok_and(|selector| selector.matches(pairs))
}

/// A rule of `spec.ignore`.
struct Rule<'a> {
    target: Option<&'a Map<String, Value>>,
    paths: &'a [Value],
}

/// Returns the rules that count: of those without a target only the last one, because the controller keeps the paths of each
/// target in a map, and all of them have the same key.
///
/// Source: `CompileIgnoreRules` in jsondiff/unstructured.go of fluxcd/pkg/ssa v0.76.2.
fn rules(spec: &KustomizationSpec) -> impl Iterator<Item = Rule<'_>> {
    let written = list_at(spec.value(), "/ignore").iter();
    let all: Vec<Rule<'_>> = written
        .map(|rule| Rule { target: rule.get("target").and_then(Value::as_object), paths: list_at(rule, "/paths") })
        .collect();
    let last = all.iter().rposition(|rule| rule.target.is_none());
    let counting = all.into_iter().enumerate().filter(move |(at, rule)| rule.target.is_some() || Some(*at) == last);
    counting.map(|(_, rule)| rule)
}

/// Returns the JSON pointers of the fields that keep their live values when a Kustomization applies an object.
pub(crate) fn ignored_paths(spec: &KustomizationSpec, object: &IgnoreTarget<'_>) -> Vec<String> {
    let matching = rules(spec).filter(|rule| rule.target.is_none_or(|target| object.is_selected_by(target)));
    let paths = matching.flat_map(|rule| rule.paths);
    paths.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns an ignored field that the manifest does not have, and that an apply would change: up to 1.9 the controller
/// replaces it in the manifest, which fails. What another manager applies too is left out of the manifest instead.
///
/// Source: `applyDriftResult` in manager_apply.go of fluxcd/pkg/ssa v0.76.2.
pub(crate) fn unreplaceable_path(applied: &AppliedObject, live: &Value, merged: &Value) -> Option<String> {
    let target = IgnoreTarget::new(&applied.id, &applied.built.version, merged);
    let mut paths = ignored_paths(&applied.spec, &target).into_iter();
    paths.find(|path| {
        applied.built.manifest.pointer(path).is_none()
            && live.pointer(path) != merged.pointer(path)
            && !is_applied_by_another(live, path)
    })
}

/// Returns true if another field manager than the controller applies a field that is not inside of a list.
fn is_applied_by_another(live: &Value, path: &str) -> bool {
    let fields: String = path.split('/').skip(1).map(|step| format!("/f:{step}")).collect();
    let entries = list_at(live, "/metadata/managedFields").iter();
    let mut others = entries.filter(|entry| {
        entry["operation"] == "Apply"
            && entry["manager"] != NAME
            && entry["subresource"].as_str().is_none_or(str::is_empty)
    });
    others.any(|entry| entry.pointer(&format!("/fieldsV1{fields}")).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_apply_to_the_objects_of_their_target() {
        let spec = KustomizationSpec::new(&json!({"ignore": [
            {"paths": ["/spec/a"]},
            {"target": {"kind": "Deployment", "version": "v1"}, "paths": ["/spec/b"]},
            {"target": {"kind": "Deploy.*"}, "paths": ["/spec/c"]},
            {"target": {"kind": "Deploy"}, "paths": ["/spec/part"]},
            {"target": {"labelSelector": "app in (x, y)"}, "paths": ["/spec/d"]},
            {"target": {"annotationSelector": "note=z"}, "paths": ["/spec/e"]},
            {"target": {"name": "("}, "paths": ["/spec/invalid"]},
        ]}));
        let manifest = json!({"metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}}});
        let paths = |kind: &str| {
            let id = ObjectId::new("apps", kind, "n", "a");
            ignored_paths(&spec, &IgnoreTarget::new(&id, "v1", &manifest))
        };
        assert_eq!(paths("Deployment"), ["/spec/a", "/spec/b", "/spec/c", "/spec/d"]);
        assert_eq!(paths("StatefulSet"), ["/spec/a", "/spec/d"]);
    }

    #[test]
    fn of_the_rules_without_a_target_the_last_one_counts() {
        let id = ObjectId::new("", "ConfigMap", "n", "a");
        let paths = |rules: Value| {
            let spec = KustomizationSpec::new(&json!({ "ignore": rules }));
            ignored_paths(&spec, &IgnoreTarget::new(&id, "v1", &json!({})))
        };
        let [a, b] = ["/data/a", "/data/b"].map(|path| json!({ "paths": [path] }));
        assert_eq!(paths(json!([a, b])), ["/data/b"]);
        assert_eq!(paths(json!([b, a])), ["/data/a"]);
        let empty = json!({"target": {}, "paths": ["/data/c"]});
        assert_eq!(paths(json!([empty, a, empty, b])), ["/data/c", "/data/c", "/data/b"], "an empty target is one");
    }
}
