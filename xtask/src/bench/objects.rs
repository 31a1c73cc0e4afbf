//! Objects of the benchmark: always the same, in the proportions of a cluster with Flux.

use serde_json::{Value, json};

use super::curl::Transfer;

/// Number of namespaces, and of Kustomizations.
pub(crate) const NAMESPACES: usize = 100;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const FLUX_GROUP: &str = "kustomize.toolkit.fluxcd.io";

/// An object, and the Kustomization that applied it.
pub(crate) struct Seed {
    group_version: &'static str,
    group: String,
    plural: String,
    kind: String,
    /// Empty for cluster-scoped objects.
    namespace: String,
    name: String,
    content: Value,
    /// Number of the Kustomization that applied it, if any.
    owner: Option<usize>,
    number: usize,
}

/// Returns a CRD. Each group has five, and one of them is cluster-scoped.
pub(crate) fn crd(number: usize) -> Value {
    let (group, plural, kind) = custom_type(number);
    let scope = if number % 5 == 4 { "Cluster" } else { "Namespaced" };
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": scope,
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn custom_type(number: usize) -> (String, String, String) {
    (format!("platform-{}.example.com", number / 5), format!("components{number}"), format!("Component{number}"))
}

/// Returns object `number`; `custom` is the number of custom types. Types, namespaces and managers are
/// distributed evenly and independently.
pub(crate) fn seed(number: usize, custom: usize) -> Seed {
    let namespace = (number * 37 + number / 100) % NAMESPACES;
    let by_flux = (number.wrapping_mul(2_654_435_761) >> 7).is_multiple_of(2);
    let words = "replicas timeout endpoint region feature retries backoff quota cache shard";
    let data: Value = words.split(' ').map(|word| (format!("{word}.properties"), json!(words))).collect();
    let (group_version, plural, kind, content) = match number % 100 {
        0..24 => ("v1", "configmaps", "ConfigMap", json!({"data": data})),
        24..42 => ("v1", "secrets", "Secret", json!({"stringData": data})),
        42..51 => (
            "v1",
            "services",
            "Service",
            json!({"spec": {
            "clusterIP": "None", "selector": {"app.kubernetes.io/name": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}, {"name": "metrics", "port": 9090}]}}),
        ),
        51..59 => ("v1", "serviceaccounts", "ServiceAccount", json!({})),
        59..68 => ("apps/v1", "deployments", "Deployment", deployment()),
        68..73 => (
            "rbac.authorization.k8s.io/v1",
            "roles",
            "Role",
            json!({"rules": [
            {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["get", "list", "watch"]}]}),
        ),
        73..78 => (
            "rbac.authorization.k8s.io/v1",
            "rolebindings",
            "RoleBinding",
            json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "web", "namespace": "default"}]}),
        ),
        78..82 => (
            "networking.k8s.io/v1",
            "networkpolicies",
            "NetworkPolicy",
            json!({"spec": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "web"}}, "policyTypes": ["Ingress"]}}),
        ),
        _ => return custom_seed(number, custom, namespace, by_flux),
    };
    let group = group_version.split_once('/').map_or("", |(group, _)| group).to_owned();
    Seed {
        group_version,
        group,
        plural: plural.to_owned(),
        kind: kind.to_owned(),
        namespace: format!("team-{namespace:02}"),
        name: format!("{}-{number:06}", kind.to_lowercase()),
        content,
        owner: by_flux.then_some(namespace),
        number,
    }
}

fn custom_seed(number: usize, custom: usize, namespace: usize, by_flux: bool) -> Seed {
    let which = (number / 100 * 18 + number % 100) % custom;
    let (group, plural, kind) = custom_type(which);
    let content = json!({"spec": {"size": number, "class": "standard", "parameters": {"tier": "gold", "zone": "a"},
        "endpoints": [{"host": "a.example.com", "port": 443}, {"host": "b.example.com", "port": 443}]}});
    let name = format!("{}-{number:06}", kind.to_lowercase());
    let namespace_name = if which % 5 == 4 { String::new() } else { format!("team-{namespace:02}") };
    let owner = by_flux.then_some(namespace);
    Seed { group_version: "", group, plural, kind, namespace: namespace_name, name, content, owner, number }
}

fn deployment() -> Value {
    let container = |name: &str| {
        json!({"name": name, "image": "registry.example.com/shop/web:1.2.3", "args": ["--listen=:8080"],
            "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "REGION", "value": "north"}],
            "ports": [{"name": "http", "containerPort": 8080}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}}})
    };
    json!({"spec": {"replicas": 0, "selector": {"matchLabels": {"app.kubernetes.io/name": "web"}},
        "template": {"metadata": {"labels": {"app.kubernetes.io/name": "web"}},
            "spec": {"containers": [container("web"), container("proxy")]}}}})
}

impl Seed {
    /// Returns the request that creates the object: an apply of kustomize-controller, or a create of kubectl.
    pub(crate) fn transfer(&self) -> Transfer {
        let api_version =
            if self.group_version.is_empty() { format!("{}/v1", self.group) } else { self.group_version.to_owned() };
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let place = if self.namespace.is_empty() { String::new() } else { format!("/namespaces/{}", self.namespace) };
        let collection = format!("{root}/{api_version}{place}/{}", self.plural);
        let mut object = self.content.clone();
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(self.kind);
        object["metadata"] = self.metadata();
        let body = object.to_string();
        match self.owner {
            Some(_) => Transfer {
                method: "PATCH",
                path: format!("{collection}/{}?fieldManager=kustomize-controller&force=true", self.name),
                header: "Content-Type: application/apply-patch+yaml".to_owned(),
                body,
            },
            None => post(format!("{collection}?fieldManager=kubectl-client-side-apply"), body),
        }
    }

    fn metadata(&self) -> Value {
        let mut metadata = json!({"name": self.name, "labels": {
            "app.kubernetes.io/name": format!("app-{}", self.number % 17),
            "app.kubernetes.io/instance": format!("shop-app-{}", self.number % 17),
            "app.kubernetes.io/part-of": "shop",
            "app.kubernetes.io/version": "1.2.3",
            "team": format!("team-{}", self.number % 9),
        }});
        if !self.namespace.is_empty() {
            metadata["namespace"] = json!(self.namespace);
        }
        if let Some(owner) = self.owner {
            metadata["labels"][format!("{FLUX_GROUP}/name")] = json!(kustomization(owner));
            metadata["labels"][format!("{FLUX_GROUP}/namespace")] = json!("flux-system");
        } else if self.number.is_multiple_of(5) {
            // kubectl apply stores the whole manifest; some are large.
            let filler = "x".repeat(500 + self.number % 8 * 500);
            metadata["annotations"] =
                json!({LAST_APPLIED: json!({"content": self.content, "more": filler}).to_string()});
        }
        metadata
    }

    /// Returns the number of its Kustomization and its inventory entry. One in a hundred has no entry: it is leaked.
    pub(crate) fn inventory_entry(&self) -> Option<(usize, Value)> {
        let owner = self.owner.filter(|_| !self.number.is_multiple_of(101))?;
        let id = format!("{}_{}_{}_{}", self.namespace, self.name, self.group, self.kind);
        Some((owner, json!({"id": id, "v": "v1"})))
    }
}

/// Returns a request that creates an object.
pub(crate) fn post(path: String, body: String) -> Transfer {
    Transfer { method: "POST", path, header: "Content-Type: application/json".to_owned(), body }
}

fn kustomization(number: usize) -> String {
    format!("team-{number:02}")
}

/// Returns the request that creates Kustomization `number`.
pub(crate) fn kustomization_transfer(number: usize) -> Transfer {
    let name = kustomization(number);
    let object = json!({"apiVersion": format!("{FLUX_GROUP}/v1"), "kind": "Kustomization",
        "metadata": {"name": name, "namespace": "flux-system"},
        "spec": {"interval": "10m", "prune": true, "path": format!("./teams/{name}"),
            "sourceRef": {"kind": "GitRepository", "name": "flux-system"}}});
    post(format!("{KUSTOMIZATIONS}?fieldManager=flux"), object.to_string())
}

/// Returns the request that writes the inventory of a Kustomization to its status.
pub(crate) fn inventory_transfer(number: usize, entries: &[Value]) -> Transfer {
    let now = "2026-01-02T03:04:05Z";
    let revision = "main@sha1:0123456789abcdef0123456789abcdef01234567";
    let status = json!({"status": {"observedGeneration": 1, "lastAppliedRevision": revision,
        "lastAttemptedRevision": revision, "inventory": {"entries": entries},
        "conditions": [{"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded",
            "message": format!("Applied revision: {revision}"), "observedGeneration": 1, "lastTransitionTime": now}]}});
    Transfer {
        method: "PATCH",
        path: format!("{KUSTOMIZATIONS}/{}/status?fieldManager=kustomize-controller", kustomization(number)),
        header: "Content-Type: application/merge-patch+json".to_owned(),
        body: status.to_string(),
    }
}

const KUSTOMIZATIONS: &str = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations";
