//! Keep marks: every label or annotation by which a person protected an object, whatever system it is for.
//!
//! Source: reference ownership-and-prune 2.3. Unknown values protect: a typo in a protection must not delete.

use super::Protection;
use crate::kubernetes::object::ObjectMetadata;

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
pub fn keep_mark(object: &ObjectMetadata) -> Option<Protection> {
    MARKS.iter().find_map(|(key, rule)| super::first_mark(object, &[key], |value| protects(rule, value)))
}

/// Every keep mark of an object, in the order of the table.
pub fn keep_marks(object: &ObjectMetadata) -> Vec<Protection> {
    let found = |(key, rule): &(&'static str, Rule)| super::first_mark(object, &[key], |value| protects(rule, value));
    MARKS.iter().filter_map(found).collect()
}

/// The keys that can protect an object.
pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
    MARKS.iter().map(|(key, _)| *key)
}

fn protects(rule: &Rule, value: &str) -> bool {
    let value = value.trim().to_lowercase();
    match rule {
        Rule::Any => true,
        Rule::Not(harmless) => !harmless.contains(&value.as_str()),
        Rule::Item(items) => value.split(',').any(|item| items.iter().any(|start| item.trim().starts_with(start))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Make, object};

    #[test]
    fn unknown_values_protect_and_harmless_ones_do_not() {
        let rows = [
            ("kustomize.toolkit.fluxcd.io/prune", "disabled", true),
            ("kustomize.toolkit.fluxcd.io/prune", "Disabled", true),
            ("kustomize.toolkit.fluxcd.io/prune", "disable", true),
            ("kustomize.toolkit.fluxcd.io/prune", "enabled", false),
            ("kustomize.toolkit.fluxcd.io/ssa", "Merge", false),
            ("argocd.argoproj.io/sync-options", " Prune=false , Delete=confirm ", true),
            ("argocd.argoproj.io/sync-options", "prune=false", true),
            ("argocd.argoproj.io/sync-options", "PruneLast=true", false),
            ("helm.sh/resource-policy", "delete", true),
            ("directives.qbec.io/delete-policy", "Never", true),
            ("directives.qbec.io/delete-policy", "default", false),
            ("fluxcd.io/ignore", "sync_only", true),
            ("kapp.k14s.io/orphaned", "", true),
            ("kapp.k14s.io/delete-strategy", "", false),
            ("unknown/key", "true", false),
        ];
        for (key, value, kept) in rows {
            for marked in
                [object("", "Pod", "a", "b").label(key, value), object("", "Pod", "a", "b").annotation(key, value)]
            {
                assert_eq!(keep_mark(&marked).is_some(), kept, "{key}={value}");
            }
        }
    }

    #[test]
    fn all_marks_are_told() {
        let marked =
            object("", "Pod", "a", "b").annotation("helm.sh/resource-policy", "keep").label("kor/used", "true");
        let keys: Vec<String> = keep_marks(&marked).into_iter().map(|mark| mark.key).collect();
        assert_eq!(keys, ["helm.sh/resource-policy", "kor/used"]);
    }
}
