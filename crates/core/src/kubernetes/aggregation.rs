//! API servers behind that of Kubernetes. One that does not know dry-runs stores what is only to be tried.

use serde_json::Value;

use super::object::{ObjectId, ResourceType, list_at};
use super::snapshot::Snapshot;

/// Label of the registrations that the API server of Kubernetes makes for its own types and for definitions. Source:
/// kube-aggregator v0.36.3 `pkg/controllers/autoregister/autoregister_controller.go`.
const OWN: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Name of the parameter of a dry-run.
const DRY_RUN: &str = "dryRun";

/// Returns true if another API server than that of Kubernetes serves a type; false if that was not read.
pub fn is_aggregated(snapshot: &Snapshot, kind: &ResourceType) -> bool {
    let name = format!("{}.{}", kind.version, kind.group);
    let registration = snapshot.object(&ObjectId::new("apiregistration.k8s.io", "APIService", "", &name));
    registration.is_some_and(|registration| registration.labels.get(OWN).is_none())
}

/// Returns true if the OpenAPI document of a group and version says that a type knows dry-runs. kubectl looks there too:
/// `resource/query_param_verifier_v3.go` of cli-runtime v0.36.3.
pub fn knows_dry_runs(document: &Value, kind: &ResourceType) -> bool {
    let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
    let patches = paths.filter_map(|(_, path)| Some((path, path.get("patch")?)));
    let mut own = patches.filter(|(_, patch)| {
        let what = &patch["x-kubernetes-group-version-kind"];
        what["group"] == *kind.group && what["version"] == *kind.version && what["kind"] == *kind.kind
    });
    own.any(|(path, patch)| {
        let mut parameters = list_at(path, "/parameters").iter().chain(list_at(patch, "/parameters"));
        parameters.any(|parameter| parameter["name"] == DRY_RUN)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Build, object, resource_type, snapshot};

    #[test]
    fn registrations_of_others_are_aggregated() {
        let registration = |name: &str| object("apiregistration.k8s.io", "APIService", "", name);
        let snapshot = snapshot(
            vec![registration("v1.own.example.com").label(OWN, "true"), registration("v1.other.example.com")],
            vec![],
        );
        for (group, expected) in
            [("own.example.com", false), ("other.example.com", true), ("unread.example.com", false)]
        {
            assert_eq!(is_aggregated(&snapshot, &resource_type(group, "A", "as", true)), expected, "{group}");
        }
    }

    #[test]
    fn a_type_knows_dry_runs_if_its_patch_has_the_parameter() {
        let kind = resource_type("e.com", "A", "as", true);
        let document = |kind: &str, of_path: &str, of_patch: &str| {
            let what = json!({"group": "e.com", "version": "v1", "kind": kind});
            let patch = json!({"x-kubernetes-group-version-kind": what, "parameters": [{"name": of_patch}]});
            json!({"paths": {"/apis/e.com/v1/": {"get": {}},
                "/apis/e.com/v1/namespaces/{namespace}/as/{name}": {"parameters": [{"name": of_path}], "patch": patch}}})
        };
        for (document, expected) in [
            (document("A", "pretty", DRY_RUN), true),
            (document("A", DRY_RUN, "force"), true),
            (document("A", "pretty", "force"), false),
            (document("B", "pretty", DRY_RUN), false),
            (json!({}), false),
            (json!({"paths": [1]}), false),
        ] {
            assert_eq!(knows_dry_runs(&document, &kind), expected, "{document}");
        }
    }
}
