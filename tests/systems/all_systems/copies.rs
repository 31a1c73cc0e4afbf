//! Marks that something else copied: what Kubernetes' own controllers make of a marked Deployment or Service, and what an
//! operator makes of a marked custom resource, without any reference to it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use test_support::cluster::LIMIT;
use test_support::gitops::gitops;
use test_support::suspension::{ok, read};

use super::truth::Row;
use super::{cluster, kubectl};

/// The namespaces in which the operator is at work.
const NAMESPACES: [&str; 9] = ["flux", "release", "helm", "kapp", "applyset", "qbec", "fluxd", "argocd", "operator"];
/// The field manager of the operator.
const OPERATOR: &str = "widget-operator";

/// The type that the operator serves.
pub(crate) fn prepare() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
               metadata: {name: widgets.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n  \
               names: {kind: Widget, plural: widgets}\n  versions: [{name: v1, served: true, storage: true, \
               schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]\n";
    super::apply(&[], crd);
    kubectl("wait crd widgets.example.com --for=condition=Established --timeout=60s");
}

/// A Service and a Widget, of which others will be made.
pub(crate) fn parents(namespace: &str, more: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: web{namespace}{more}}}\n\
         spec: {{selector: {{app: web}}, ports: [{{port: 80}}]}}\n\
         ---\napiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: shop{namespace}{more}}}\n"
    )
}

/// The operator makes a ConfigMap and a Secret with the labels of each Widget, and a ConfigMap with its annotations too.
pub(crate) fn operate() {
    for namespace in NAMESPACES {
        let widget = read(&cluster(), "widget", namespace, "shop");
        let make = |plural: &str, name: &str, annotations: &Value| {
            let labels = &widget["metadata"]["labels"];
            let child = json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}});
            // As a client does: `kubectl create` would rewrite the last-applied annotation.
            let path = format!("/api/v1/namespaces/{namespace}/{plural}?fieldManager={OPERATOR}");
            cluster().kubectl_stdin(&["create", "--raw", &path, "-f", "-"], &child.to_string()).unwrap();
        };
        make("configmaps", "child", &Value::Null);
        make("secrets", "child", &Value::Null);
        make("configmaps", "twin", &widget["metadata"]["annotations"]);
        for kind in ["endpoints", "endpointslice"] {
            let words = ["get", kind, "-n", namespace, "-o", "name"];
            let made = || Ok(cluster().kubectl(&words)?.contains("/web"));
            cluster().wait_for(&format!("the {kind} of {namespace}"), LIMIT, made).unwrap();
        }
    }
}

/// Each copied mark is explained by what it names or by who wrote it.
pub(crate) fn explain(truth: &[Row]) {
    let why = |row: &Row| {
        let object = row.name.to_lowercase();
        let run = gitops(&cluster(), &["inventory", "-n", &row.namespace, "--why", &object]);
        ok(&run).to_owned()
    };
    let copied = truth.iter().filter(|row| row.status == "copied");
    let mut writers = BTreeSet::new();
    for row in copied {
        let text = why(row);
        let written = text.split_once("its labels were written by ").and_then(|(_, rest)| rest.split_once(", not by "));
        match written {
            Some((writer, _)) => _ = writers.insert(writer.to_owned()),
            None => assert!(text.contains("its labels or annotations belong to another object"), "{text}"),
        }
    }
    let pruned = gitops(&cluster(), &["inventory", "-n", "applyset", "--why", "configmap/child"]);
    let note = "applyset: kubectl did not write its label, yet kubectl prunes by the label alone";
    assert!(ok(&pruned).contains(note), "{pruned:?}");
    let expected = [OPERATOR, "kube-controller-manager", "kubectl-client-side-apply"].map(str::to_owned);
    assert_eq!(writers, BTreeSet::from(expected));
}
