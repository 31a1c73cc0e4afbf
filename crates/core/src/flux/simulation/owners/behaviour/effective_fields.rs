//! The part of an object that decides what is deployed because of it.
//!
//! Everything counts, except fields that are known to change nothing by themselves: a field that a newer API adds counts.
//! Source: docs/reference/flux.md 8.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Annotation of a HelmRelease that asks for an upgrade.
pub(crate) const FORCE_AT: &str = "reconcile.fluxcd.io/forceAt";
/// Annotation of a HelmRelease that lets its controller forget its failures.
pub(crate) const RESET_AT: &str = "reconcile.fluxcd.io/resetAt";
/// Annotations of a HelmRelease that ask for an upgrade, or reset its failures.
const REQUESTS: [&str; 2] = [FORCE_AT, RESET_AT];
/// Annotation that asks for a reconciliation. Other requests count only with its value.
const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// Rules for the spec of a kind.
struct KindRules {
    kind: &'static str,
    /// JSON pointers in the spec to fields that change nothing by themselves. A change of `suspend` is judged on its own.
    neutral: &'static [&'static str],
    /// Fields that change nothing while the owner is ready, because its controller uses them in its next action only.
    neutral_when_ready: &'static [&'static str],
    /// Fields below these that count all the same.
    effective_when_ready: &'static [&'static str],
    /// Fields that the API server adds, with their values as JSON.
    defaults: &'static [(&'static str, &'static str)],
    /// Annotations that count.
    annotations: &'static [&'static str],
}

const BASE: KindRules = KindRules {
    kind: "",
    neutral: &["/interval", "/timeout", "/suspend"],
    neutral_when_ready: &[],
    effective_when_ready: &[],
    defaults: &[],
    annotations: &[],
};

static RULES: [KindRules; 10] = [
    KindRules {
        kind: "HelmRelease",
        neutral: &["/suspend"],
        // Any new generation is another attempt after a failure: helm-controller v1.6.3 `internal/action/reset.go`.
        neutral_when_ready: &[
            "/interval",
            "/timeout",
            "/chart/spec/interval",
            "/chart/metadata",
            "/install",
            "/upgrade",
            "/rollback",
            "/uninstall",
            "/maxHistory",
            "/dependsOn",
            "/persistentClient",
            "/waitStrategy",
            "/healthCheckExprs",
        ],
        // A failed test that was ignored counts from now on.
        effective_when_ready: &["/install/remediation/ignoreTestFailures", "/upgrade/remediation/ignoreTestFailures"],
        defaults: &[
            ("/chart/spec/reconcileStrategy", r#""ChartVersion""#),
            ("/chart/spec/version", r#""*""#),
            ("/chart/spec/verify/provider", r#""cosign""#),
            ("/uninstall/deletionPropagation", r#""background""#),
        ],
        annotations: &REQUESTS,
    },
    KindRules {
        kind: "HelmChart",
        defaults: &[
            ("/reconcileStrategy", r#""ChartVersion""#),
            ("/version", r#""*""#),
            ("/verify/provider", r#""cosign""#),
        ],
        ..BASE
    },
    KindRules { kind: "HelmRepository", defaults: &[("/provider", r#""generic""#)], ..BASE },
    KindRules { kind: "GitRepository", defaults: &[("/verify/mode", r#""HEAD""#)], ..BASE },
    KindRules {
        kind: "OCIRepository",
        defaults: &[("/provider", r#""generic""#), ("/verify/provider", r#""cosign""#)],
        ..BASE
    },
    KindRules { kind: "Bucket", defaults: &[("/provider", r#""generic""#)], ..BASE },
    KindRules { kind: "ResourceSet", neutral: &[], annotations: &["fluxcd.controlplane.io/force"], ..BASE },
    KindRules { kind: "ResourceSetInputProvider", neutral: &[], defaults: &[("/filter/limit", "100")], ..BASE },
    KindRules {
        kind: "FluxInstance",
        neutral: &["/sync/interval", "/wait"],
        defaults: &[
            ("/cluster/domain", r#""cluster.local""#),
            ("/cluster/multitenant", "false"),
            ("/cluster/multitenantWorkloadIdentity", "false"),
            ("/cluster/networkPolicy", "true"),
            ("/cluster/type", r#""kubernetes""#),
            ("/migrateResources", "true"),
            ("/sharding/key", r#""sharding.fluxcd.io/key""#),
        ],
        ..BASE
    },
    KindRules { kind: "ArtifactGenerator", neutral: &["/commonMetadata"], ..BASE },
];

/// Returns the names of the parts that differ between two manifests of a kind, or between the content of a live object
/// and a manifest if `is_live` is true. `is_ready` is true if the owner is ready.
pub(crate) fn differing_parts(kind: &str, before: &Value, after: &Value, is_live: bool, is_ready: bool) -> Vec<String> {
    let rules = RULES.iter().find(|rules| rules.kind == kind).unwrap_or(&BASE);
    let [old, new] = [before, after].map(|object| rules.effective_spec(object, is_live, is_ready));
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut parts: Vec<String> =
        keys.into_iter().filter(|key| old.get(*key) != new.get(*key)).map(|key| format!("spec.{key}")).collect();
    let annotations = rules.annotations.iter().filter(|key| {
        let has_effect = !REQUESTS.contains(key) || request(after, key).is_some();
        has_effect && annotation(before, key) != annotation(after, key)
    });
    parts.extend(annotations.map(|key| format!("the annotation {key}")));
    parts
}

/// Returns the names of the fields that differ between the spec of an object and another one, such as `spec.url`.
pub(crate) fn differing_fields(kind: &str, before: &Value, after: &Value) -> Vec<String> {
    let [before, after] = [before, after].map(|spec| json!({ "spec": spec }));
    differing_parts(kind, &before, &after, true, false)
}

/// Returns the value of an annotation of a HelmRelease that is a request.
///
/// Source: github.com/fluxcd/pkg/apis/meta v1.31.0 `annotations.go`, `HandleAnnotationRequest`.
pub(crate) fn request<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    let value = annotation(object, key)?.as_str()?;
    (annotation(object, REQUESTED_AT)?.as_str() == Some(value)).then_some(value)
}

fn annotation<'o>(object: &'o Value, key: &str) -> Option<&'o Value> {
    object.pointer("/metadata/annotations")?.get(key)
}

/// Returns the spec of an object of Flux with what the API server adds.
pub(crate) fn with_defaults(kind: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    add_defaults(kind, &mut spec);
    spec
}

/// Adds what the API server adds to the spec of an object of Flux.
pub(crate) fn add_defaults(kind: &str, spec: &mut Value) {
    let rules = RULES.iter().find(|rules| rules.kind == kind).unwrap_or(&BASE);
    rules.defaults.iter().for_each(|(pointer, value)| add_default(spec, pointer, value));
}

impl KindRules {
    /// Returns the fields of a spec that count, with the defaults of the server if `is_live` is true.
    fn effective_spec(&self, object: &Value, is_live: bool, is_ready: bool) -> Map<String, Value> {
        let mut spec = object.get("spec").cloned().unwrap_or(Value::Null);
        if is_live {
            self.defaults.iter().for_each(|(pointer, value)| add_default(&mut spec, pointer, value));
        }
        let [ready, effective] =
            if is_ready { [self.neutral_when_ready, self.effective_when_ready] } else { [&[][..]; 2] };
        let found = effective.iter().filter_map(|pointer| Some((pointer, spec.pointer(pointer)?.clone())));
        let effective: Vec<(String, Value)> =
            found.map(|(pointer, value)| (pointer.trim_start_matches('/').replace('/', "."), value)).collect();
        for pointer in self.neutral.iter().chain(ready) {
            remove(&mut spec, pointer);
        }
        let mut fields = spec.as_object().cloned().unwrap_or_default();
        fields.extend(effective);
        fields.retain(|_, value| !value.is_null() && *value != json!({}));
        fields
    }
}

fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    if let Some(fields) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
        fields.remove(key);
    }
}

/// Adds a default where the object that holds it exists.
fn add_default(spec: &mut Value, pointer: &str, value: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    if let Some(fields) = spec.pointer_mut(parent).and_then(Value::as_object_mut) {
        fields.entry(key).or_insert_with(|| serde_json::from_str(value).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(kind: &str, before: Value, after: Value) -> Vec<String> {
        differing_parts(kind, &json!({"spec": before}), &json!({"spec": after}), false, true)
    }

    #[test]
    fn every_field_counts_unless_it_is_known_to_change_nothing() {
        let kinds = RULES.iter().map(|rules| rules.kind);
        for kind in kinds.chain(["Other"]) {
            assert_eq!(parts(kind, json!({}), json!({"newField": 1})), ["spec.newField"], "{kind}");
            assert_eq!(parts(kind, json!({"a": 1}), json!({"a": 1})), [""; 0], "{kind}");
        }
    }

    #[test]
    fn fields_of_a_release_that_change_what_it_deploys() {
        let rows = [
            (json!({"interval": "1m", "timeout": "5m", "suspend": false}), ""),
            (json!({"chart": {"spec": {"chart": "a", "interval": "1m"}, "metadata": {"labels": {"a": "b"}}}}), ""),
            (json!({"values": {"image": {"tag": "2"}}}), "spec.values"),
            (json!({"values": {"a": null}}), "spec.values"),
            (json!({"chart": {"spec": {"chart": "a", "version": "2"}}}), "spec.chart"),
            (json!({"chart": {"spec": {"chart": "b"}}}), "spec.chart"),
            (json!({"chartRef": {"kind": "OCIRepository", "name": "a"}}), "spec.chartRef"),
            (json!({"valuesFrom": [{"kind": "ConfigMap", "name": "a"}]}), "spec.valuesFrom"),
            (json!({"postRenderers": [{"kustomize": {}}]}), "spec.postRenderers"),
            (json!({"commonMetadata": {"labels": {"a": "b"}}}), "spec.commonMetadata"),
            (json!({"releaseName": "b"}), "spec.releaseName"),
            (json!({"targetNamespace": "b"}), "spec.targetNamespace"),
            (json!({"storageNamespace": "b"}), "spec.storageNamespace"),
            (json!({"kubeConfig": {"secretRef": {"name": "b"}}}), "spec.kubeConfig"),
            (json!({"serviceAccountName": "b"}), "spec.serviceAccountName"),
            (json!({"driftDetection": {"mode": "enabled"}}), "spec.driftDetection"),
            (json!({"test": {"enable": true}}), "spec.test"),
            (json!({"values": {}}), ""),
        ];
        for (change, expected) in rows {
            let before = json!({"chart": {"spec": {"chart": "a"}}});
            let mut after = before.clone();
            change.as_object().unwrap().iter().for_each(|(key, value)| after[key] = value.clone());
            assert_eq!(parts("HelmRelease", before, after).join(", "), expected, "{change}");
        }
    }

    #[test]
    fn options_of_the_next_action_count_unless_the_release_is_ready() {
        let options = ["install", "upgrade", "rollback", "uninstall", "maxHistory", "dependsOn", "persistentClient"];
        for field in options.into_iter().chain(["interval", "timeout"]) {
            let (before, after) = (json!({"spec": {}}), json!({"spec": {field: 1}}));
            assert_eq!(differing_parts("HelmRelease", &before, &after, false, true), [""; 0], "{field}");
            let counted = differing_parts("HelmRelease", &before, &after, false, false);
            assert_eq!(counted, [format!("spec.{field}")]);
        }
    }

    #[test]
    fn a_failed_test_may_count_from_now_on() {
        for action in ["install", "upgrade"] {
            let spec = |ignores: bool| json!({action: {"remediation": {"ignoreTestFailures": ignores}}});
            let expected = format!("spec.{action}.remediation.ignoreTestFailures");
            assert_eq!(parts("HelmRelease", spec(true), spec(false)), [expected]);
        }
    }

    #[test]
    fn a_request_for_an_upgrade_counts_and_other_metadata_does_not() {
        let with = |key: &str, requested: &str| {
            let annotations = json!({key: "1", "reconcile.fluxcd.io/requestedAt": requested});
            json!({"metadata": {"annotations": annotations, "labels": {key: "1"}}, "spec": {}})
        };
        let parts = |key: &str, requested: &str| {
            differing_parts("HelmRelease", &json!({"spec": {}}), &with(key, requested), false, true)
        };
        for key in ["reconcile.fluxcd.io/forceAt", "reconcile.fluxcd.io/resetAt"] {
            assert_eq!(parts(key, "1"), [format!("the annotation {key}")]);
            assert_eq!(parts(key, "2"), [""; 0], "it is no request without a reconciliation of its value");
        }
        assert_eq!(parts("example.com/team", "1"), [""; 0]);
    }

    #[test]
    fn defaults_of_the_server_are_no_difference() {
        let manifest = json!({"spec": {"chart": {"spec": {"chart": "a"}}, "uninstall": {}}});
        let mut live = manifest.clone();
        live["spec"]["chart"]["spec"]["version"] = "*".into();
        live["spec"]["chart"]["spec"]["reconcileStrategy"] = "ChartVersion".into();
        live["spec"]["uninstall"]["deletionPropagation"] = "background".into();
        assert_eq!(differing_parts("HelmRelease", &live, &manifest, true, false), [""; 0]);
        live["spec"]["chart"]["spec"]["version"] = "1".into();
        assert_eq!(differing_parts("HelmRelease", &live, &manifest, true, false), ["spec.chart"]);
    }
}
