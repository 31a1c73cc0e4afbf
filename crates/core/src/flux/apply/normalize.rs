//! Normalization of manifests, as kustomize-controller and flux-operator do it before they send them.
//!
//! Both read the objects of most built-in kinds with the Go types of client-go, which know no other fields and leave out values
//! of zero. Source: fluxcd/pkg/ssa v0.76.2 `UnstructuredListWithScheme` and `RemoveCABundleFromCRD`, and k8s.io/api v0.36.3.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::rights::RBAC;
use crate::kubernetes::object::{ObjectId, is_of_kubernetes};

/// Fields that the Go types leave out if they are false or 0, in every kind that has them.
const WITHOUT_ZERO: [&str; 16] = [
    "failureThreshold",
    "globalDefault",
    "healthCheckNodePort",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "initialDelaySeconds",
    "minReadySeconds",
    "paused",
    "publishNotReadyAddresses",
    "stdin",
    "stdinOnce",
    "successThreshold",
    "tty",
    "unschedulable",
];

/// Lines around a certificate.
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// First byte of a DER sequence, such as a certificate.
const SEQUENCE: u8 = 0x30;

/// Returns true if the controller reads objects of a kind with the Go types of client-go. There are none of definitions and API
/// services, and roles are left out.
pub(super) fn is_read_with_go_types(group: &str, kind: &str) -> bool {
    match group {
        "apiextensions.k8s.io" | "apiregistration.k8s.io" => false,
        RBAC => !matches!(kind, "Role" | "ClusterRole"),
        _ => is_of_kubernetes(group),
    }
}

/// Removes from a manifest what the controller does not send: values of zero, and of a definition certificates that are none.
pub(crate) fn normalize(id: &ObjectId, manifest: &mut Value) {
    if id.is_definition() {
        remove_invalid_certificates(manifest);
    } else if is_read_with_go_types(&id.group, &id.kind) {
        remove_zeros(manifest);
    }
}

fn remove_zeros(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, value| !is_zero(value) || !WITHOUT_ZERO.contains(&key.as_str()));
            fields.values_mut().for_each(remove_zeros);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_zeros),
        _ => {}
    }
}

fn is_zero(value: &Value) -> bool {
    *value == Value::Bool(false) || value.as_i64() == Some(0)
}

/// Removes the certificates of a conversion webhook if they are a placeholder, which the API server would refuse.
fn remove_invalid_certificates(manifest: &mut Value) {
    let client = manifest.pointer_mut("/spec/conversion/webhook/clientConfig").and_then(Value::as_object_mut);
    let Some((client, bundle)) = client.and_then(|client| {
        let bundle = client.get("caBundle")?.as_str()?.to_owned();
        Some((client, bundle))
    }) else {
        return;
    };
    let is_valid =
        bundle.is_empty() || STANDARD.decode(&bundle).is_ok_and(|pem| pem.is_empty() || holds_certificate(&pem));
    if !is_valid {
        client.remove("caBundle");
    }
}

/// Returns true if text in the format PEM has something that looks like a certificate.
fn holds_certificate(pem: &[u8]) -> bool {
    let pem = String::from_utf8_lossy(pem);
    let mut blocks = pem.split(BEGIN).skip(1).filter_map(|rest| Some(rest.split_once(END)?.0));
    blocks.any(|block| {
        let body: String = block.split_ascii_whitespace().collect();
        STANDARD.decode(body).is_ok_and(|der| der.first() == Some(&SEQUENCE))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn normalized(group: &str, kind: &str, mut manifest: Value) -> Value {
        normalize(&ObjectId::new(group, kind, "n", "a"), &mut manifest);
        manifest
    }

    #[test]
    fn values_of_zero_are_left_out_of_kinds_with_go_types() {
        let spec = json!({"paused": false, "replicas": 0, "minReadySeconds": 0, "template": {"spec": {
            "hostNetwork": false, "hostPID": true, "containers": [{"tty": false, "ports": [{"hostPort": 0}]}]}}});
        let expected = json!({"replicas": 0, "template": {"spec": {"hostPID": true, "containers": [{"ports": [{}]}]}}});
        assert_eq!(normalized("apps", "Deployment", json!({ "spec": spec })), json!({ "spec": expected }));
        for (group, kind) in [("example.com", "Deployment"), (RBAC, "Role"), ("apiregistration.k8s.io", "APIService")] {
            assert_eq!(normalized(group, kind, json!({ "spec": spec })), json!({ "spec": spec }), "{kind}");
        }
    }

    #[test]
    fn certificates_of_a_definition_that_are_none_are_left_out() {
        let definition = |bundle: &str| json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle, "url": "https://a"}}}}});
        let bundle = |manifest: Value| {
            let definition = normalized("apiextensions.k8s.io", "CustomResourceDefinition", manifest);
            let client = &definition["spec"]["conversion"]["webhook"]["clientConfig"];
            assert_eq!(client["url"], "https://a");
            client.get("caBundle").cloned()
        };
        let pem = |body: &str| STANDARD.encode(format!("# own\n{BEGIN}\n{body}\n{END}\n"));
        for placeholder in ["Cg==", "not base64", &pem("bm9uZQ=="), &STANDARD.encode(BEGIN)] {
            assert_eq!(bundle(definition(placeholder)), None, "{placeholder}");
        }
        for kept in [String::new(), pem("MII=")] {
            assert_eq!(bundle(definition(&kept)), Some(json!(kept)));
        }
        let without = json!({"spec": {"conversion": {"strategy": "None"}}});
        assert_eq!(normalized("apiextensions.k8s.io", "CustomResourceDefinition", without.clone()), without);
    }
}
