//! Systems that could not be had: objects as they write them, under their own field managers.

use serde_json::{Value, json};

use super::copies::parents;
use super::{apply, cluster, config_map, kubectl};

/// Server-side apply under the name of a system.
fn apply_as(manager: &str, manifests: &str) {
    apply(&["--server-side", &format!("--field-manager={manager}")], manifests);
}

/// Application `web` with an object of each kind of mark, and one of an application that is gone.
pub(crate) fn argocd() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
               metadata: {name: applications.argoproj.io}\nspec:\n  group: argoproj.io\n  scope: Namespaced\n  \
               names: {kind: Application, plural: applications}\n  versions: [{name: v1alpha1, served: true, storage: true, \
               schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]\n";
    apply(&[], crd);
    kubectl("wait crd applications.argoproj.io --for=condition=Established --timeout=60s");
    kubectl("create namespace argocd");
    let resource = |(group, kind, namespace, name): (&str, &str, &str, &str)| json!({"group": group, "version": "v1", "kind": kind, "namespace": namespace, "name": name});
    let resources = [
        ("", "ConfigMap", "argocd", "listed"),
        ("", "ConfigMap", "argocd", "unmarked"),
        ("", "ConfigMap", "helm", "both"),
        ("", "Service", "argocd", "web"),
        ("example.com", "Widget", "argocd", "shop"),
    ]
    .map(resource);
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "web", "namespace": "argocd"},
        "spec": {"destination": {"server": "https://kubernetes.default.svc", "namespace": "argocd"}},
        "status": {"resources": resources, "sync": {"status": "Synced"}, "health": {"status": "Healthy"},
                   "operationState": {"phase": "Succeeded"}},
    });
    apply_as("argocd-application-controller", &application.to_string());
    let tracked = |namespace: &str, name: &str, app: &str, named: &str| {
        let id = format!("{app}:/ConfigMap:{namespace}/{named}");
        config_map(namespace, name, &format!(", annotations: {{argocd.argoproj.io/tracking-id: '{id}'}}"))
    };
    // A chart that Argo CD rendered, in a cluster that once tracked by label.
    let chart = "app.kubernetes.io/managed-by: Helm, argocd.argoproj.io/instance: other";
    let objects = [
        tracked("argocd", "listed", "web", "listed")
            .replace("annotations: {", &format!("labels: {{{chart}}}, annotations: {{")),
        config_map("argocd", "unmarked", ""),
        tracked("argocd", "leaked", "web", "leaked"),
        tracked("argocd", "orphan", "gone", "orphan"),
        tracked("argocd", "copied", "web", "listed"),
        tracked("argocd", "hook", "web", "hook")
            .replace("annotations: {", "annotations: {argocd.argoproj.io/hook: PreSync, "),
    ];
    // As Argo CD marks where it tracks by label.
    let by_label = parents("argocd", ", labels: {argocd.argoproj.io/instance: web}");
    apply_as("argocd-controller", &(objects.concat() + &by_label));
    apply(
        &["--server-side", "--force-conflicts", "--field-manager=argocd-controller"],
        &tracked("helm", "both", "web", "both"),
    );
}

/// Inventory `shop-1`, written as cli-utils writes: with kubectl's own code, under the name kubectl.
pub(crate) fn cli_utils() {
    kubectl("create namespace cli-utils");
    let owned = |name: &str, inventory: &str| {
        config_map("cli-utils", name, &format!(", annotations: {{config.k8s.io/owning-inventory: {inventory}}}"))
    };
    let inventory = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "inventory", "namespace": "cli-utils", "labels": {"cli-utils.sigs.k8s.io/inventory-id": "shop-1"}},
        "data": {"cli-utils_listed__ConfigMap": "", "cli-utils_both__ConfigMap": ""},
    });
    let objects = [
        inventory.to_string() + "\n",
        owned("listed", "shop-1"),
        owned("both", "shop-1"),
        owned("leaked", "shop-1"),
        owned("orphan", "gone-1"),
    ];
    apply(&["--field-manager=kubectl"], &objects.concat());
    // People with a copy of a manifest.
    apply(&[], &owned("applied-by-hand", "shop-1"));
    apply(&["--server-side"], &owned("applied-on-the-server", "shop-1"));
}

/// ResourceSet `shop` and FluxInstance `flux`; the set also has an object of cli-utils.
pub(crate) fn flux_operator() {
    kubectl("create namespace operator");
    let owners = [
        (
            "ResourceSet",
            "shop",
            json!({"resources": []}),
            vec![
                "operator_listed__ConfigMap",
                "cli-utils_both__ConfigMap",
                "operator_web__Service",
                "operator_shop_example.com_Widget",
            ],
        ),
        (
            "FluxInstance",
            "flux",
            json!({"distribution": {"version": "2.x", "registry": "example.invalid/x"}}),
            vec!["operator_of-flux__ConfigMap"],
        ),
    ];
    for (kind, name, spec, entries) in owners {
        let owner = json!({
            "apiVersion": "fluxcd.controlplane.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": "operator"}, "spec": spec,
        });
        apply_as("flux-operator", &owner.to_string());
        let entries: Vec<Value> = entries.into_iter().map(|id| json!({"id": id, "v": "v1"})).collect();
        let ready = json!({"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded", "message": "",
                           "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let status = json!({"status": {"inventory": {"entries": entries}, "conditions": [ready]}}).to_string();
        cluster()
            .kubectl(&["patch", kind, name, "-n", "operator", "--subresource=status", "--type=merge", "-p", &status])
            .unwrap();
    }
    let of = |group: &str, name: &str, owner: &str| {
        config_map("operator", name, &format!(", labels: {{{group}/name: {owner}, {group}/namespace: operator}}"))
    };
    let set = "resourceset.fluxcd.controlplane.io";
    let objects = [
        of(set, "listed", "shop"),
        of(set, "leaked", "shop"),
        of(set, "orphan", "gone"),
        of("fluxcd.controlplane.io", "of-flux", "flux"),
    ];
    let marks = format!(", labels: {{{set}/name: shop, {set}/namespace: operator}}");
    apply_as("flux-operator", &(objects.concat() + &parents("operator", &marks)));
}
