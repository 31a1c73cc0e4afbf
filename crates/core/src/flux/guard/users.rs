//! Users of the deletions by the controllers of Flux: service accounts of controllers, and those that owners name.

use std::collections::BTreeSet;

use crate::flux::controllers::is_of;
use crate::flux::spec::{NamespacedName, named_account};
use crate::kubernetes::object::{GroupKind, ObjectMetadata, Resource};
use crate::kubernetes::snapshot::Snapshot;

/// Names of the controllers that delete objects, with the kinds of their owners.
pub const DELETING_CONTROLLERS: [(&str, &[(&str, &str)]); 3] = [
    ("kustomize-controller", &[("kustomize.toolkit.fluxcd.io", "Kustomization")]),
    ("helm-controller", &[("helm.toolkit.fluxcd.io", "HelmRelease")]),
    ("flux-operator", &[("fluxcd.controlplane.io", "ResourceSet"), ("fluxcd.controlplane.io", "FluxInstance")]),
];

/// A controller that deletes objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletingController {
    pub name: &'static str,
    /// Service account of its Pods.
    pub account: NamespacedName,
    /// Account of owners that name none, in the namespace of each.
    pub default_account: Option<String>,
}

/// Returns the users as which controllers delete objects in their own cluster.
pub fn users(controllers: &[DeletingController], snapshot: &Snapshot) -> BTreeSet<String> {
    let own = controllers.iter().map(|controller| controller.account.user());
    let impersonated = snapshot.resources.iter().flat_map(|owner| {
        let controllers =
            controllers.iter().filter(|controller| is_owner_of(controller.name, &owner.object.id.group_kind()));
        controllers.filter_map(|controller| controller.impersonated(owner)).collect::<Vec<_>>()
    });
    own.chain(impersonated).collect()
}

impl DeletingController {
    /// Returns the user as which the controller deletes the objects of an owner, unless it is its own or acts elsewhere.
    fn impersonated(&self, owner: &Resource) -> Option<String> {
        if owner.at("/spec/kubeConfig").is_some_and(|config| !config.is_null()) {
            return None;
        }
        let named = named_account(owner.spec());
        let name = named.or(self.default_account.as_deref())?;
        Some(NamespacedName { namespace: owner.object.id.namespace.to_string(), name: name.to_owned() }.user())
    }
}

/// Returns true if a controller reconciles a kind.
fn is_owner_of(name: &str, kind: &GroupKind) -> bool {
    let mut own = DELETING_CONTROLLERS.iter().filter(|(known, _)| *known == name).flat_map(|(_, kinds)| *kinds);
    own.any(|(group, known)| *kind == GroupKind::new(group, known))
}

/// Returns true for a kind of owners whose controller deletes objects.
pub fn is_owner_kind(kind: &GroupKind) -> bool {
    DELETING_CONTROLLERS.iter().any(|(name, _)| is_owner_of(name, kind))
}

/// Returns true if a cluster has owners of a controller.
pub fn has_owners(snapshot: &Snapshot, name: &str) -> bool {
    snapshot.resources.iter().any(|owner| is_owner_of(name, &owner.object.id.group_kind()))
}

/// Returns the Deployments of a controller, with those of its shards.
pub fn deployments<'s>(snapshot: &'s Snapshot, name: &str) -> impl Iterator<Item = &'s ObjectMetadata> {
    let all = snapshot.objects.iter().filter(|object| object.id.is("apps", "Deployment"));
    all.filter(move |object| is_of(object, name) || object.id.name.starts_with(&format!("{name}-")))
}
