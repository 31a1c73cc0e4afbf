//! In which order objects are deleted: the reverse of the order in which Flux applies.
//!
//! Source: reference kustomize-controller 1.5. Webhooks first, namespaces and definitions last.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::kubernetes::object::ObjectId;
use crate::plan::document::{Change, Plan};

/// Kinds applied before all others, in order.
const FIRST: [&str; 23] = [
    "CustomResourceDefinition",
    "Namespace",
    "ClusterRole",
    "ClusterClass",
    "RuntimeClass",
    "PriorityClass",
    "StorageClass",
    "VolumeSnapshotClass",
    "IngressClass",
    "GatewayClass",
    "ClusterRoleBinding",
    "ResourceQuota",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "Secret",
    "Service",
    "LimitRange",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];
/// Kinds applied after all others, in order.
const LAST: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// Order of application.
pub fn apply_order(a: &ObjectId, b: &ObjectId) -> Ordering {
    let key =
        |id: &ObjectId| (rank(&id.kind), id.group.clone(), id.kind.clone(), id.namespace.clone(), id.name.clone());
    key(a).cmp(&key(b))
}

/// Order of deletion: the exact reverse.
pub fn delete_order(a: &ObjectId, b: &ObjectId) -> Ordering {
    apply_order(b, a)
}

/// Whether two objects may go side by side: the order of deletion is then only about their names.
pub fn same_wave(a: &ObjectId, b: &ObjectId) -> bool {
    (&a.group, &a.kind) == (&b.group, &b.kind)
}

/// What a plan deletes in its own right, in waves: one begins when all of the one before is done, and what is in one may
/// go side by side. `given` comes first, in its order; what it does not name follows in the order of this module.
pub fn waves<'p>(plan: &'p Plan, given: &[Vec<ObjectId>]) -> Vec<Vec<&'p Change>> {
    let mut rest: HashMap<&ObjectId, &Change> = plan.roots().map(|change| (&change.object.id, change)).collect();
    let mut waves: Vec<Vec<&Change>> =
        given.iter().map(|wave| wave.iter().filter_map(|id| rest.remove(id)).collect()).collect();
    waves.retain(|wave| !wave.is_empty());
    let mut rest: Vec<&Change> = rest.into_values().collect();
    rest.sort_by(|a, b| delete_order(&a.object.id, &b.object.id));
    waves.extend(rest.chunk_by(|a, b| same_wave(&a.object.id, &b.object.id)).map(<[_]>::to_vec));
    waves
}

fn rank(kind: &str) -> usize {
    if let Some(first) = FIRST.iter().position(|name| *name == kind) {
        return first;
    }
    LAST.iter().position(|name| *name == kind).map_or(FIRST.len(), |last| FIRST.len() + 1 + last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::snapshot::ClusterIdentity;
    use crate::plan::document::{Action, Actor, Certainty, PinnedObject};

    #[test]
    fn webhooks_go_first_and_definitions_last() {
        let kinds = ["Namespace", "ValidatingWebhookConfiguration", "CustomResourceDefinition", "Deployment", "Widget"];
        let mut ids: Vec<_> = kinds.iter().map(|kind| ObjectId::new("", kind, "", "x")).collect();
        ids.sort_by(delete_order);
        let order: Vec<_> = ids.iter().map(|id| &*id.kind).collect();
        assert_eq!(
            order,
            ["ValidatingWebhookConfiguration", "Widget", "Deployment", "Namespace", "CustomResourceDefinition"]
        );
    }

    #[test]
    fn what_is_given_comes_first_and_the_rest_kind_by_kind() {
        let id = |kind: &str, name: &str| ObjectId::new("", kind, "n", name);
        let change = |kind: &str, name: &str| Change {
            action: Action::Delete,
            certainty: Certainty::Certain,
            object: PinnedObject { id: id(kind, name), uid: name.to_owned(), resource_version: String::new() },
            owner: None,
            by: Actor::KubectlGitops,
            reason: String::new(),
            cause: None,
        };
        let taken = Change { cause: Some(id("Namespace", "n")), ..change("Secret", "taken") };
        let kinds = [("ConfigMap", "a"), ("ConfigMap", "b"), ("Namespace", "n"), ("Secret", "c"), ("Secret", "d")];
        let changes = kinds.map(|(kind, name)| change(kind, name)).into_iter().chain([taken]).collect();
        let plan = Plan::new(ClusterIdentity::default(), vec![], vec![], changes);
        let names = |given: &[Vec<ObjectId>]| -> Vec<String> {
            let waves = waves(&plan, given);
            waves.iter().map(|wave| wave.iter().map(|change| &*change.object.id.name).collect()).collect()
        };
        assert_eq!(names(&[]), ["dc", "ba", "n"]);
        let given = [vec![id("Secret", "gone")], vec![id("ConfigMap", "a"), id("Secret", "c")]];
        assert_eq!(names(&given), ["ac", "d", "b", "n"]);
    }

    #[test]
    fn sources_go_before_kustomizations_and_those_before_releases() {
        let mut ids = [
            ObjectId::new("helm.toolkit.fluxcd.io", "HelmRelease", "n", "a"),
            ObjectId::new("source.toolkit.fluxcd.io", "GitRepository", "n", "a"),
            ObjectId::new("kustomize.toolkit.fluxcd.io", "Kustomization", "n", "a"),
        ];
        ids.sort_by(delete_order);
        let order: Vec<_> = ids.iter().map(|id| &*id.kind).collect();
        assert_eq!(order, ["GitRepository", "Kustomization", "HelmRelease"]);
    }
}
