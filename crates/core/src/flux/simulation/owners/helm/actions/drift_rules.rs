//! Rules of `spec.driftDetection`: what helm-controller creates again or takes back after an action.
//!
//! Source: helm-controller v1.6.3 `internal/action/diff.go`; `Unstructured` in jsondiff/unstructured.go of fluxcd/pkg/ssa v0.76.2.

use serde_json::Value;

use crate::flux::apply::ignore_rules::{IgnoreTarget, paths_of};
use crate::helm::rendered::Rendered;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, list_at, text_at, texts_at};
use crate::ownership::schemes::flux_helmrelease::DRIFT;
use crate::text::is_same_folded;

/// Path of a rule for the whole object.
const WHOLE_OBJECT: &str = "";

/// Returns true if helm-controller takes back what is changed by others.
pub(crate) fn corrects(spec: &Value) -> bool {
    text_at(spec, "/driftDetection/mode") == "enabled"
}

/// Returns true if helm-controller overlooks the drift of an object of a release with this manifest.
pub(crate) fn is_overlooked(spec: &Value, id: &ObjectId, manifest: &Value) -> bool {
    let metadata = ["/metadata/labels", "/metadata/annotations"].into_iter().flat_map(|part| texts_at(manifest, part));
    has_mark(metadata) || ignored_fields(spec, id, manifest).iter().any(|path| path == WHOLE_OBJECT)
}

/// Returns true if a rule overlooks the drift of whole objects.
pub(crate) fn overlooks_objects(spec: &Value) -> bool {
    let mut rules = list_at(spec, "/driftDetection/ignore").iter();
    rules.any(|rule| list_at(rule, "/paths").iter().any(|path| path == WHOLE_OBJECT))
}

/// Returns true if a live object has the mark that its drift is overlooked.
pub(crate) fn is_marked(live: &ObjectMetadata) -> bool {
    has_mark(live.labels.iter().chain(live.annotations.iter()))
}

fn has_mark<'m>(mut metadata: impl Iterator<Item = (&'m str, &'m str)>) -> bool {
    metadata.any(|(key, value)| key == DRIFT && is_same_folded(value, "disabled"))
}

/// Returns the JSON pointers of the fields of an object whose drift helm-controller overlooks.
pub(crate) fn ignored_fields(spec: &Value, id: &ObjectId, manifest: &Value) -> Vec<String> {
    let api_version = text_at(manifest, "/apiVersion");
    let version = api_version.rsplit_once('/').map_or(api_version, |(_, version)| version);
    paths_of(list_at(spec, "/driftDetection/ignore"), &IgnoreTarget::new(id, version, manifest))
}

/// Returns true if helm-controller creates an object of the manifest again after a hook of the action has deleted it.
pub(crate) fn is_created_again(spec: &Value, new: &Rendered, id: &ObjectId) -> bool {
    corrects(spec) && new.manifests().get(id).is_some_and(|manifest| !is_overlooked(spec, id, manifest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mark_or_a_rule_for_the_whole_object_lets_drift_be() {
        let id = ObjectId::new("", "ConfigMap", "shop", "a");
        let spec = json!({"driftDetection": {"mode": "enabled", "ignore": [
            {"paths": ["/data"]}, {"paths": [""], "target": {"version": "v1", "name": "b.*"}},
        ]}});
        let manifest = |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let is_let_be = |id: &ObjectId, metadata: Value| is_overlooked(&spec, id, &manifest(metadata));
        assert!(!is_let_be(&id, json!({})), "a rule for a field");
        assert!(is_let_be(&ObjectId::new("", "ConfigMap", "shop", "bee"), json!({})));
        for part in ["labels", "annotations"] {
            assert!(is_let_be(&id, json!({part: {DRIFT: "Disabled"}})), "{part}");
            assert!(!is_let_be(&id, json!({part: {DRIFT: "enabled"}})), "{part}");
        }
        assert_eq!(ignored_fields(&spec, &id, &manifest(json!({}))), ["/data"]);
    }
}
