//! Rules of `spec.ignore`: fields of applied objects that keep their live values. `spec.driftDetection.ignore` of a HelmRelease has
//! the same ones.
//!
//! Source: docs/reference/kustomize-controller.md 4.3.

use regex::Regex;
use serde_json::{Map, Value};

use super::AppliedObject;
use super::manifest::manifest_to_apply;
use crate::bounds::{Exceeded, IGNORE_PATTERNS, compile_pattern};
use crate::flux::health_exprs::InvalidExprs;
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
    self::pattern(pattern).is_ok_and(|pattern| pattern.is_match(text))
}

/// Returns the regular expression of a pattern for a whole text.
fn pattern(text: &str) -> Result<Regex, regex::Error> {
    compile_pattern(&format!("^(?:{text})$"))
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
fn counting(written: &[Value]) -> impl Iterator<Item = Rule<'_>> {
    let all: Vec<Rule<'_>> = written
        .iter()
        .map(|rule| Rule { target: rule.get("target").and_then(Value::as_object), paths: list_at(rule, "/paths") })
        .collect();
    let last = all.iter().rposition(|rule| rule.target.is_none());
    let counting = all.into_iter().enumerate().filter(move |(at, rule)| rule.target.is_some() || Some(*at) == last);
    counting.map(|(_, rule)| rule)
}

fn rules(spec: &KustomizationSpec) -> &[Value] {
    list_at(spec.value(), "/ignore")
}

/// Fails if the rules have more patterns than are compared with each object.
fn check_number(rules: &[Value]) -> Result<(), Exceeded> {
    let targets = rules.iter().filter_map(|rule| rule.get("target")?.as_object());
    IGNORE_PATTERNS.check(targets.map(Map::len).sum())
}

/// Returns the JSON pointers of the fields that keep their live values when a Kustomization applies an object. Above the limit of
/// patterns, no rule is compared.
pub(crate) fn ignored_paths(spec: &KustomizationSpec, object: &IgnoreTarget<'_>) -> Vec<String> {
    paths_of(rules(spec), object)
}

/// Returns the JSON pointers of the rules that select an object. Above the limit of patterns, no rule is compared.
pub(crate) fn paths_of(rules: &[Value], object: &IgnoreTarget<'_>) -> Vec<String> {
    if check_number(rules).is_err() {
        return vec![];
    }
    let matching = counting(rules).filter(|rule| rule.target.is_none_or(|target| object.is_selected_by(target)));
    let paths = matching.flat_map(|rule| rule.paths);
    paths.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the JSON pointers of the fields that keep their live values, for an object of which `merged` is the answer to the
/// dry-run of its apply.
pub(crate) fn ignored_in_answer(applied: &AppliedObject, merged: &Value) -> Vec<String> {
    ignored_paths(&applied.spec, &IgnoreTarget::new(&applied.id, &applied.built.version, merged))
}

/// Returns an ignored field that an apply would change and that the controller cannot replace in the manifest, which up to 1.9
/// fails the apply: the manifest does not have it, or the path is no JSON pointer to a field. What another manager applies too
/// is left out of the manifest instead.
///
/// Source: `computeDriftedPaths` and `applyDriftResult` in manager_apply.go of fluxcd/pkg/ssa v0.76.2, and `findObject` in
/// evanphx/json-patch v5.9.11. The whole object cannot be replaced, because the API server refuses its managedFields.
pub(crate) fn unreplaceable_path(
    paths: Vec<String>,
    applied: &AppliedObject,
    live: &Value,
    merged: &Value,
) -> Option<String> {
    let manifest = if paths.is_empty() { Value::Null } else { manifest_to_apply(applied) };
    paths.into_iter().find(|path| {
        !is_field_pointer(path)
            || manifest.pointer(path).is_none()
                && live.pointer(path) != merged.pointer(path)
                && !is_applied_by_another(live, path)
    })
}

/// Returns why the controller cannot apply an object with an ignored field that it cannot replace in the manifest.
pub(crate) fn cannot_keep(path: &str) -> String {
    let why = if is_field_pointer(path) { "which the manifest drops" } else { "which is no path of a field" };
    format!("spec.ignore names {path:?}, {why}: the controller cannot apply it")
}

/// Returns true if a path of a rule is a JSON pointer to a field.
fn is_field_pointer(path: &str) -> bool {
    path.starts_with('/')
}

/// Returns a path that is no JSON pointer to a field, of the rules that select an object.
pub(crate) fn invalid_path(paths: &[String]) -> Option<&str> {
    paths.iter().map(String::as_str).find(|path| !is_field_pointer(path))
}

/// Returns the reason why the controller cannot read a target of `spec.ignore`, a certain one first: it applies no object
/// then. It is not certain for a pattern with a class, a count or an escape, which Go may read although this program does not.
///
/// Source: `NewSelectorRegex` in jsondiff/selector.go of fluxcd/pkg/ssa v0.76.2.
pub(crate) fn invalid_target(spec: &KustomizationSpec) -> Option<InvalidExprs> {
    if let Err(exceeded) = check_number(rules(spec)) {
        let detail = format!("it is not known which fields keep their values: there are {exceeded}");
        return Some(InvalidExprs { detail, is_certain: false });
    }
    let targets = rules(spec).iter().filter_map(|rule| rule.get("target")?.as_object());
    let invalid = targets.flat_map(|target| {
        let texts = target.iter().filter_map(|(part, text)| Some((part, text.as_str()?)));
        texts.filter_map(|(part, text)| {
            let is_certain = match part.as_str() {
                "group" | "version" | "kind" | "name" | "namespace" => {
                    let error = pattern(text).err()?;
                    !text.contains(['[', '{', '\\']) && !matches!(error, regex::Error::CompiledTooBig(_))
                }
                "labelSelector" | "annotationSelector" => {
                    Selector::parse(text).err()?;
                    true
                }
                _ => return None,
            };
            let unless = if is_certain { "because it cannot" } else { "unless it can" };
            let detail = format!("the controller applies nothing {unless} read the {part} {text:?} in spec.ignore");
            Some(InvalidExprs { detail, is_certain })
        })
    });
    invalid.min_by_key(|found| !found.is_certain)
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

    #[test]
    fn more_patterns_than_the_limit_are_not_compared() {
        let id = ObjectId::new("", "ConfigMap", "n", "a");
        for (number, is_read) in [(IGNORE_PATTERNS.limit, true), (IGNORE_PATTERNS.limit + 1, false)] {
            let rules: Vec<Value> =
                (0..number).map(|n| json!({"target": {"name": format!("a{{1,{n}}}")}, "paths": ["/data/a"]})).collect();
            let spec = KustomizationSpec::new(&json!({ "ignore": rules }));
            let found = ignored_paths(&spec, &IgnoreTarget::new(&id, "v1", &json!({})));
            assert_eq!(!found.is_empty(), is_read);
            let exceeded = invalid_target(&spec).filter(|found| found.detail.contains("limit ignore-patterns"));
            assert_eq!(exceeded.map(|found| found.is_certain), (!is_read).then_some(false));
        }
    }

    #[test]
    fn a_target_that_cannot_be_read_stops_the_controller() {
        let rows = [
            (json!({"name": "a.*", "labelSelector": "a in (b)"}), None),
            (json!({"name": "("}), Some(true)),
            (json!({"kind": "*"}), Some(true)),
            (json!({"name": "[[]"}), Some(false)),
            (json!({"name": "a{"}), Some(false)),
            (json!({"name": "a{", "labelSelector": "a=b=c"}), Some(true)),
            (json!({"annotationSelector": "a in b"}), Some(true)),
        ];
        for (target, expected) in rows {
            let spec = KustomizationSpec::new(&json!({"ignore": [{"paths": ["/data"], "target": target}]}));
            assert_eq!(invalid_target(&spec).map(|found| found.is_certain), expected, "{target}");
        }
    }
}
