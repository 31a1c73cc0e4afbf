//! Changes in which an expression stands for a value, and the objects that they begin with.

use serde_json::{Value, json};

use super::super::cluster::{NS, cm, ks};
use crate::kubernetes::object::merge;

/// Files of the change, before and after it.
pub(super) struct Change {
    pub(super) before: Vec<Value>,
    pub(super) after: Vec<Value>,
    /// Files of a Kustomization in `child`.
    pub(super) child: Vec<Value>,
    /// Templates of the chart of the release, before and after.
    pub(super) templates: [Vec<Value>; 2],
}

/// A way on which a value reaches a plan: its name, and what it writes for an expression that stands for the value.
pub(super) type Way = (&'static str, fn(&mut Change, &str));

pub(super) fn flux_object(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": NS}, "spec": spec})
}

pub(super) fn release(name: &str, more: Value) -> Value {
    let chart = json!({"spec": {"chart": "./charts/app", "sourceRef": {"kind": "GitRepository", "name": "repo"}}});
    let mut spec = json!({"chart": chart, "interval": "1m"});
    merge(&mut spec, &more);
    flux_object("helm.toolkit.fluxcd.io/v2", "HelmRelease", name, spec)
}

pub(super) fn set(name: &str, more: Value) -> Value {
    let mut spec = json!({"inputs": [{"n": "one"}], "resources": [cm("set-<< inputs.n >>")]});
    merge(&mut spec, &more);
    flux_object("fluxcd.controlplane.io/v1", "ResourceSet", name, spec)
}

pub(super) fn source(kind: &str, name: &str, spec: Value) -> Value {
    flux_object("source.toolkit.fluxcd.io/v1", kind, name, spec)
}

impl Change {
    pub(super) fn new() -> Self {
        let same = vec![
            cm("open-${OPEN}"),
            release("app", json!({"values": {"color": "blue"}})),
            set("set", json!({})),
            source("GitRepository", "repo", json!({"url": "https://example.com/repo"})),
            source("GitRepository", "other", json!({"url": "https://example.com/other"})),
            source("HelmRepository", "charts", json!({"url": "https://charts.example.com"})),
            ks("child", "./child", json!({})),
            ks("elsewhere", "./x", json!({"sourceRef": {"kind": "GitRepository", "name": "other"}})),
            flux_object(
                "source.extensions.fluxcd.io/v1beta1",
                "ArtifactGenerator",
                "gen",
                json!({"sources": [{"alias": "repo", "kind": "GitRepository", "name": "repo"}],
                    "artifacts": [{"name": "made", "copy": [{"from": "@repo/child", "to": "@artifact/"}]}]}),
            ),
            flux_object(
                "fluxcd.controlplane.io/v1",
                "FluxInstance",
                "flux",
                json!({"distribution": {"version": "2.x", "registry": "ghcr.io/fluxcd"}, "sync": {"kind": "GitRepository",
                    "url": "https://example.com/repo", "ref": "refs/heads/main", "path": "./root", "name": "other"}}),
            ),
        ];
        let mut after = same.clone();
        // Something that is not secret always changes: it must be shown.
        after.push(cm("new-${OPEN}"));
        let templates = vec![cm("web"), cm("extra")];
        Self { before: same, after, child: vec![cm("of-child")], templates: [templates.clone(), templates] }
    }

    /// Changes the fields of an object after the change.
    pub(super) fn change(&mut self, kind: &str, name: &str, more: Value) {
        let mut found =
            self.after.iter_mut().filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        // Another way may have removed it.
        if let Some(object) = found.next() {
            merge(object, &more);
        }
    }

    pub(super) fn release(&mut self, spec: Value) {
        self.change("HelmRelease", "app", json!({ "spec": spec }));
    }

    pub(super) fn set(&mut self, spec: Value) {
        self.change("ResourceSet", "set", json!({ "spec": spec }));
    }

    pub(super) fn child(&mut self, spec: Value) {
        self.change("Kustomization", "child", json!({ "spec": spec }));
    }

    pub(super) fn chart(&mut self, spec: Value) {
        self.release(json!({"chart": {"spec": spec}}));
    }

    pub(super) fn template(&mut self, manifest: Value) {
        self.templates[1].push(manifest);
    }

    pub(super) fn add(&mut self, object: Value) {
        self.after.push(object);
    }
}

/// Returns a definition of Widgets whose `spec` has a schema.
pub(super) fn definition(spec: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": schema}}]}})
}

pub(super) fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": NS}, "spec": spec})
}
