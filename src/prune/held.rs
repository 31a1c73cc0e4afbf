//! What will not be gone as soon as it is deleted: objects with finalizers, which only the controllers behind them remove.
//!
//! A namespace whose content is held stays in Terminating as long. Which controller serves a finalizer is in no record;
//! it is known of Kubernetes' own, which come off by themselves, and of Flux's, whose controllers are Deployments of a
//! fixed name.

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use crate::object::{Object, ObjectId};
use crate::snapshot::Snapshot;

/// Finalizers that the control plane removes itself. Source: the constants of k8s.io/api and of the API server.
const OWN: [&str; 9] = [
    "foregroundDeletion",
    "orphan",
    "kubernetes",
    "kubernetes.io/pvc-protection",
    "kubernetes.io/pv-protection",
    "batch.kubernetes.io/job-tracking",
    "service.kubernetes.io/load-balancer-cleanup",
    "customresourcecleanup.apiextensions.k8s.io",
    "resource.kubernetes.io/delete-protection",
];

/// Flux's finalizers.
const FLUX: [&str; 2] = ["finalizers.fluxcd.io", "fluxcd.controlplane.io/finalizer"];

/// API groups of Flux and the Deployments that serve them.
const FLUX_CONTROLLERS: [(&str, &str); 5] = [
    ("kustomize.toolkit.fluxcd.io", "kustomize-controller"),
    ("helm.toolkit.fluxcd.io", "helm-controller"),
    ("source.toolkit.fluxcd.io", "source-controller"),
    ("notification.toolkit.fluxcd.io", "notification-controller"),
    ("fluxcd.controlplane.io", "flux-operator"),
];

/// An object that goes and is held.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Held {
    /// The object.
    pub object: ObjectId,
    /// Its finalizers that do not come off by themselves.
    pub finalizers: Vec<String>,
    /// The Deployment that would remove them and goes with the same plan; `null` when none is known to.
    pub controller: Option<ObjectId>,
}

/// What a plan deletes and finalizers hold, those first whose controller goes too.
pub fn of(plan: &Plan, snapshot: &Snapshot) -> Vec<Held> {
    let going = |group: &str| {
        let (_, name) = FLUX_CONTROLLERS.iter().find(|(known, _)| *known == group)?;
        let mut ids = plan.deletions().map(|change| &change.object.id);
        ids.find(|id| id.is("apps", "Deployment") && *id.name == **name).cloned()
    };
    let held = |object: &Object| {
        let controller = going(&object.id.group);
        let stays = |finalizer: &&str| match FLUX.contains(finalizer) {
            true => controller.is_some(),
            false => !OWN.contains(finalizer),
        };
        let finalizers: Vec<&str> = object.finalizers.iter().map(|text| &**text).filter(|text| stays(text)).collect();
        let finalizers: Vec<String> = finalizers.into_iter().map(str::to_owned).collect();
        (!finalizers.is_empty()).then(|| Held { object: object.id.clone(), finalizers, controller })
    };
    let objects = plan.deletions().filter_map(|change| snapshot.object(&change.object.id));
    let mut all: Vec<Held> = objects.filter_map(held).collect();
    all.sort_by(|a, b| (a.controller.is_none(), a).cmp(&(b.controller.is_none(), b)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::testing;
    use crate::prune::plan::{Action, Actor, Certainty, Change, Target};
    use crate::snapshot::ClusterIdentity;

    fn held(objects: Vec<Object>, kept: &str) -> Vec<String> {
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        snapshot.objects = objects;
        snapshot.normalise();
        let change = |object: &Object| Change {
            action: if *object.id.name == *kept { Action::Keep } else { Action::Delete },
            certainty: Certainty::Certain,
            object: Target::from(object),
            owner: None,
            by: Actor::KubectlGitops,
            reason: "leaked".to_owned(),
            cause: None,
        };
        let changes = snapshot.objects.iter().map(change).collect();
        let plan = Plan::new(ClusterIdentity::default(), vec![], vec![], changes);
        let line = |held: &Held| {
            let controller = held.controller.as_ref().map_or_else(String::new, |id| format!(" without {}", id.name));
            format!("{} by {}{controller}", held.object.name, held.finalizers.join(","))
        };
        of(&plan, &snapshot).iter().map(line).collect()
    }

    fn with(object: Object, finalizers: &[&str]) -> Object {
        Object { finalizers: finalizers.iter().map(|text| (*text).into()).collect(), ..object }
    }

    #[test]
    fn finalizers_of_the_control_plane_come_off_by_themselves_and_what_stays_is_not_held() {
        let objects = vec![
            with(testing::object("", "PersistentVolumeClaim", "n", "claim"), &["kubernetes.io/pvc-protection"]),
            with(testing::object("", "ConfigMap", "n", "held"), &["shop.example.com/backup", "orphan"]),
            with(testing::object("", "ConfigMap", "n", "kept"), &["shop.example.com/backup"]),
            testing::object("", "ConfigMap", "n", "plain"),
        ];
        assert_eq!(held(objects, "kept"), ["held by shop.example.com/backup"]);
    }

    #[test]
    fn flux_removes_its_own_finalizers_unless_its_controller_goes_too() {
        let objects = || {
            vec![
                with(testing::object("", "ConfigMap", "a", "held"), &["shop.example.com/backup"]),
                with(
                    testing::object("kustomize.toolkit.fluxcd.io", "Kustomization", "n", "apps"),
                    &["finalizers.fluxcd.io"],
                ),
                with(testing::object("helm.toolkit.fluxcd.io", "HelmRelease", "n", "web"), &["finalizers.fluxcd.io"]),
                testing::object("apps", "Deployment", "flux-system", "kustomize-controller"),
            ]
        };
        assert_eq!(
            held(objects(), ""),
            ["apps by finalizers.fluxcd.io without kustomize-controller", "held by shop.example.com/backup"]
        );
        assert_eq!(held(objects(), "kustomize-controller"), ["held by shop.example.com/backup"]);
    }
}
