//! Kinds that a cluster serves, and one identity for objects that the API serves under two groups.
//!
//! Rules: docs/reference/qbec-and-flux-v1.md 2.3. qbec picks the group that discovery lists first. A fixed choice gives
//! the same matches, and never depends on a version (Q12).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::manifest::LocalManifest;
use crate::kubernetes::object::{GroupKind, ObjectId, ResourceType};
use crate::kubernetes::snapshot::{OtherVersion, Snapshot};

/// Kind, its canonical group, and its other group.
const EQUIVALENT: [(&str, &str, &str); 7] = [
    ("NetworkPolicy", "networking.k8s.io", "extensions"),
    ("Ingress", "networking.k8s.io", "extensions"),
    ("Deployment", "apps", "extensions"),
    ("DaemonSet", "apps", "extensions"),
    ("ReplicaSet", "apps", "extensions"),
    ("Event", "", "events.k8s.io"),
    ("PodSecurityPolicy", "policy", "extensions"),
];

fn canonical_kind(what: &GroupKind) -> GroupKind {
    let equivalent = EQUIVALENT.iter().find(|(kind, _, other)| *kind == &*what.kind && *other == &*what.group);
    equivalent.map_or_else(|| what.clone(), |(kind, group, _)| GroupKind::new(group, kind))
}

/// Returns the identity under which objects are compared.
pub(crate) fn canonical_id(id: &ObjectId) -> ObjectId {
    ObjectId { group: canonical_kind(&id.group_kind()).group, ..id.clone() }
}

/// Kinds that a cluster serves.
pub(crate) struct ServedKinds<'a> {
    exact: HashMap<GroupKind, &'a ResourceType>,
    canonical: HashMap<GroupKind, &'a ResourceType>,
    other_versions: &'a [OtherVersion],
}

impl<'a> ServedKinds<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let exact: HashMap<_, _> = snapshot.types.iter().map(|served| (served.group_kind(), served)).collect();
        let canonical = exact.iter().map(|(what, served)| (canonical_kind(what), *served)).collect();
        Self { exact, canonical, other_versions: &snapshot.other_versions }
    }

    /// Returns true if the objects of a manifest are namespaced, or `None` if the cluster does not serve this
    /// version of their kind.
    pub(crate) fn is_namespaced_manifest(&self, local: &LocalManifest) -> Option<bool> {
        let what = local.id.group_kind();
        let served = self.exact.get(&what)?;
        let is_served = self.other_versions.is_empty()
            || *served.version == *local.version
            || self.other_versions.iter().any(|other| other.what == what && *other.version == *local.version);
        is_served.then_some(served.namespaced)
    }

    /// Returns true if the objects of a kind are namespaced; `None` if the cluster does not serve it under this group.
    pub(crate) fn is_namespaced(&self, what: &GroupKind) -> Option<bool> {
        self.exact.get(what).map(|served| served.namespaced)
    }

    /// Returns the kinds, or versions of kinds, that manifests use and the cluster does not serve.
    pub(crate) fn unserved(&self, locals: &[LocalManifest]) -> BTreeSet<String> {
        let unserved = locals.iter().filter(|local| self.is_namespaced_manifest(local).is_none());
        unserved
            .map(|local| {
                let what = local.id.group_kind();
                let is_other_version = self.exact.contains_key(&what);
                if is_other_version { format!("{what} in version {}", local.version) } else { what.to_string() }
            })
            .collect()
    }

    /// Returns the canonical identity of a manifest's object: with the default namespace for a namespaced kind, and
    /// without namespace for a cluster-scoped kind. A kind that the cluster does not serve keeps its namespace.
    pub(crate) fn applied_id(&self, written: &ObjectId, default_namespace: &Arc<str>) -> ObjectId {
        let id = canonical_id(written);
        let namespace = match self.canonical.get(&id.group_kind()) {
            Some(served) if !served.namespaced => Arc::from(""),
            Some(_) if written.namespace.is_empty() => default_namespace.clone(),
            _ => written.namespace.clone(),
        };
        ObjectId { namespace, ..id }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prune::collectors::collector::manifest::read_manifests;

    fn served_deployment(version: &str) -> ResourceType {
        ResourceType {
            group: "apps".into(),
            version: version.into(),
            kind: "Deployment".into(),
            plural: "deployments".into(),
            singular: "".into(),
            short_names: vec![],
            namespaced: true,
        }
    }

    fn local_manifest(api: &str, kind: &str) -> LocalManifest {
        let manifest = serde_json::json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x"}});
        read_manifests(&manifest, &Default::default()).unwrap().remove(0)
    }

    #[test]
    fn versions_count_once_they_are_read() {
        let mut snapshot = Snapshot::new(Default::default(), Default::default());
        snapshot.types = vec![served_deployment("v1")];
        let locals = ["apps/v1", "apps/v1beta2", "apps/v1beta1"].map(|api| local_manifest(api, "Deployment"));
        assert!(ServedKinds::of(&snapshot).unserved(&locals).is_empty(), "other versions were not read");
        let what = GroupKind::new("apps", "Deployment");
        snapshot.other_versions = vec![OtherVersion { what, version: "v1beta2".into() }];
        let kinds = ServedKinds::of(&snapshot);
        assert_eq!(kinds.unserved(&locals).into_iter().collect::<Vec<_>>(), ["deployment.apps in version v1beta1"]);
        let namespaced = [&locals[1], &locals[2]].map(|local| kinds.is_namespaced_manifest(local));
        assert_eq!(namespaced, [Some(true), None]);
        assert_eq!(kinds.unserved(&[local_manifest("x.io/v1", "New")]).into_iter().collect::<Vec<_>>(), ["new.x.io"]);
    }

    #[test]
    fn kinds_have_a_second_group_only_as_in_the_table() {
        for (kind, group, other) in EQUIVALENT {
            assert_eq!(canonical_kind(&GroupKind::new(other, kind)), GroupKind::new(group, kind), "{kind}");
            assert_eq!(canonical_kind(&GroupKind::new(group, kind)), GroupKind::new(group, kind), "{kind}");
        }
        for (group, kind) in [("extensions", "StatefulSet"), ("autoscaling", "HorizontalPodAutoscaler")] {
            assert_eq!(canonical_kind(&GroupKind::new(group, kind)), GroupKind::new(group, kind));
        }
    }
}
