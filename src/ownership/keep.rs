//! Keep marks: every label or annotation by which a person protected an object, whatever system it is for.
//!
//! Source: reference ownership-and-prune 2.3. Unknown values protect: a typo in a protection must not delete.

use super::KeepMark;
use crate::object::Object;

/// How the value of a keep mark is read.
enum Rule {
    /// Any value protects.
    Any,
    /// Any value but these protects, compared without case.
    Not(&'static [&'static str]),
    /// Protects when one comma-separated item starts with one of these, compared without case.
    Item(&'static [&'static str]),
}

/// Keys (label or annotation) and their rules.
const MARKS: [(&str, Rule); 23] = [
    ("kubectl-gitops/keep", Rule::Not(&["false"])),
    (
        "argocd.argoproj.io/sync-options",
        Rule::Item(&["prune=false", "prune=confirm", "delete=false", "delete=confirm"]),
    ),
    ("helm.sh/resource-policy", Rule::Any),
    ("cli-utils.sigs.k8s.io/on-remove", Rule::Any),
    ("client.lifecycle.config.k8s.io/deletion", Rule::Any),
    ("kustomize.toolkit.fluxcd.io/prune", Rule::Not(&["enabled"])),
    ("kustomize.toolkit.fluxcd.io/reconcile", Rule::Not(&["enabled"])),
    ("kustomize.toolkit.fluxcd.io/ssa", Rule::Not(&["merge", "override", "ifnotpresent"])),
    ("helm.toolkit.fluxcd.io/prune", Rule::Not(&["enabled"])),
    ("helm.toolkit.fluxcd.io/reconcile", Rule::Not(&["enabled"])),
    ("fluxcd.controlplane.io/prune", Rule::Not(&["enabled"])),
    ("fluxcd.controlplane.io/reconcile", Rule::Not(&["enabled"])),
    ("kapp.k14s.io/delete-strategy", Rule::Not(&[""])),
    ("kapp.k14s.io/orphaned", Rule::Any),
    ("kapp.k14s.io/noop", Rule::Any),
    ("kapp.k14s.io/exists", Rule::Any),
    ("directives.qbec.io/delete-policy", Rule::Not(&["default", ""])),
    ("configmanagement.gke.io/managed", Rule::Not(&["enabled"])),
    ("fluxcd.io/ignore", Rule::Not(&["false"])),
    ("flux.weave.works/ignore", Rule::Not(&["false"])),
    ("kor/used", Rule::Not(&["false"])),
    ("k-rail.crd.protect", Rule::Any),
    ("policy.kruise.io/delete-protection", Rule::Any),
];

/// The first keep mark of an object, in the order of the table.
pub fn keep_mark(object: &Object) -> Option<KeepMark> {
    MARKS.iter().find_map(|(key, rule)| {
        let values = [object.labels.get(key), object.annotations.get(key)];
        let value = values.into_iter().flatten().find(|value| protects(rule, value))?;
        Some(KeepMark { key: (*key).to_owned(), value: value.to_owned() })
    })
}

/// Whether a label or annotation key can protect an object; such annotations are kept when metadata is trimmed.
pub fn is_keep_key(key: &str) -> bool {
    MARKS.iter().any(|(mark, _)| *mark == key)
}

fn protects(rule: &Rule, value: &str) -> bool {
    let value = value.trim().to_lowercase();
    match rule {
        Rule::Any => true,
        Rule::Not(harmless) => !harmless.contains(&value.as_str()),
        Rule::Item(items) => value.split(',').any(|item| items.iter().any(|start| item.trim().starts_with(start))),
    }
}
