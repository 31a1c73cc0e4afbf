//! Protections of an object under the rules of every system, and of tools that own nothing but protect.

use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::scheme::protection::{Protection, ProtectionKey};
use crate::ownership::schemes::registry::SCHEMES;

/// Key of this tool, for objects that no other protection fits.
const OWN: ProtectionKey = ProtectionKey::except("kubectl-gitops/keep", &["false"]);

/// Keys of tools that are no ownership systems.
const OTHER_TOOLS: &[ProtectionKey] = &[
    ProtectionKey::except("action.timoni.sh/prune", &["enabled"]),
    ProtectionKey::except("kor/used", &["false"]),
    ProtectionKey::any("k-rail.crd.protect"),
    ProtectionKey::any("policy.kruise.io/delete-protection"),
];

/// Returns every key that can protect an object: of this tool, of the systems in the order of the registry, of others.
pub(crate) fn protection_keys() -> impl Iterator<Item = &'static ProtectionKey> {
    let schemes = SCHEMES.iter().flat_map(|scheme| scheme.protections);
    std::iter::once(&OWN).chain(schemes).chain(OTHER_TOOLS)
}

pub(crate) fn find_protection(object: &ObjectMetadata) -> Option<Protection> {
    protection_keys().find_map(|key| key.find(object))
}

pub(crate) fn find_protections(object: &ObjectMetadata) -> Vec<Protection> {
    protection_keys().filter_map(|key| key.find(object)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, object};

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
            ("action.timoni.sh/prune", "disabled", true),
            ("action.timoni.sh/prune", "enabled", false),
            ("unknown/key", "true", false),
        ];
        for (key, value, protects) in rows {
            let pod = object("", "Pod", "a", "b");
            for protected in [pod.clone().label(key, value), pod.annotation(key, value)] {
                assert_eq!(find_protection(&protected).is_some(), protects, "{key}={value}");
            }
        }
    }

    #[test]
    fn every_protection_is_listed() {
        let protected =
            object("", "Pod", "a", "b").annotation("helm.sh/resource-policy", "keep").label("kor/used", "true");
        let keys: Vec<String> = find_protections(&protected).into_iter().map(|found| found.key).collect();
        assert_eq!(keys, ["helm.sh/resource-policy", "kor/used"]);
    }

    #[test]
    fn no_key_is_listed_twice() {
        let mut keys: Vec<&str> = protection_keys().map(|known| known.key).collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }
}
