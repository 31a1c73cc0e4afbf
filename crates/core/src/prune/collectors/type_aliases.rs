//! One identity for objects that the API shows under two groups, and what kinds a cluster serves.
//!
//! Source: reference qbec-and-flux-v1 A2.3. qbec picks the group that discovery lists first; for matching any fixed
//! choice gives the same answer, and unlike qbec's it never depends on a version (edge case Q12).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::manifest::LocalManifest;
use crate::kubernetes::object::{GroupKind, ObjectId, ResourceType};
use crate::kubernetes::snapshot::{OtherVersion, Snapshot};

/// Kind, the group that stands for it here, and the group that means the same.
const EQUIVALENT: [(&str, &str, &str); 7] = [
    ("NetworkPolicy", "networking.k8s.io", "extensions"),
    ("Ingress", "networking.k8s.io", "extensions"),
    ("Deployment", "apps", "extensions"),
    ("DaemonSet", "apps", "extensions"),
    ("ReplicaSet", "apps", "extensions"),
    ("Event", "", "events.k8s.io"),
    ("PodSecurityPolicy", "policy", "extensions"),
];

/// The group and kind that stand for this one.
pub fn canonical(what: &GroupKind) -> GroupKind {
    let same = EQUIVALENT.iter().find(|(kind, _, other)| *kind == &*what.kind && *other == &*what.group);
    same.map_or_else(|| what.clone(), |(kind, group, _)| GroupKind::new(group, kind))
}

/// The identity under which an object is compared: canonical group, never a version.
pub fn key(id: &ObjectId) -> ObjectId {
    ObjectId { group: canonical(&id.group_kind()).group, ..id.clone() }
}

/// The kinds a cluster serves, under every group that means the same.
pub struct Kinds<'a> {
    exact: HashMap<GroupKind, &'a ResourceType>,
    alias: HashMap<GroupKind, &'a ResourceType>,
    other_versions: &'a [OtherVersion],
}

impl<'a> Kinds<'a> {
    /// The kinds of a snapshot.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let exact: HashMap<_, _> = snapshot.types.iter().map(|served| (served.group_kind(), served)).collect();
        let alias = exact.iter().map(|(what, served)| (canonical(what), *served)).collect();
        Self { exact, alias, other_versions: &snapshot.other_versions }
    }

    /// Whether a manifest's very API is served, group, version and kind; `Some(namespaced)`.
    pub fn serves(&self, local: &LocalManifest) -> Option<bool> {
        let what = local.id.group_kind();
        let served = self.exact.get(&what)?;
        let version = |other: &OtherVersion| other.what == what && *other.version == *local.version;
        let known = self.other_versions.is_empty() || *served.version == *local.version;
        (known || self.other_versions.iter().any(version)).then_some(served.namespaced)
    }

    /// Whether a group and kind are served under this very group; `Some(namespaced)`.
    pub fn namespaced(&self, what: &GroupKind) -> Option<bool> {
        self.exact.get(what).map(|served| served.namespaced)
    }

    /// What manifests ask for and the cluster does not serve: kinds, or versions of them.
    pub fn unserved(&self, locals: &[LocalManifest]) -> BTreeSet<String> {
        let api = |local: &LocalManifest| {
            let what = local.id.group_kind();
            let known = self.exact.contains_key(&what);
            if known { format!("{what} in version {}", local.version) } else { what.to_string() }
        };
        locals.iter().filter(|local| self.serves(local).is_none()).map(api).collect()
    }

    /// The identity of a manifest once applied: the default namespace filled in for namespaced kinds, none for the
    /// others. A kind the cluster does not serve keeps the namespace it was written with.
    pub fn applied(&self, written: &ObjectId, default_namespace: &Arc<str>) -> ObjectId {
        let key = key(written);
        let namespace = match self.alias.get(&key.group_kind()) {
            Some(served) if !served.namespaced => Arc::from(""),
            Some(_) if written.namespace.is_empty() => default_namespace.clone(),
            _ => written.namespace.clone(),
        };
        ObjectId { namespace, ..key }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_served_or_not_once_versions_are_known() {
        let served = |version: &str| ResourceType {
            group: "apps".into(),
            version: version.into(),
            kind: "Deployment".into(),
            plural: "deployments".into(),
            singular: "".into(),
            short_names: vec![],
            namespaced: true,
        };
        let mut snapshot = Snapshot::new(Default::default(), Default::default());
        snapshot.types = vec![served("v1")];
        let local = |api: &str, kind: &str| {
            let manifest = serde_json::json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x"}});
            crate::prune::collectors::manifest::read(&manifest, &Default::default()).unwrap().remove(0)
        };
        let locals = ["apps/v1", "apps/v1beta2", "apps/v1beta1"].map(|api| local(api, "Deployment"));
        assert!(Kinds::of(&snapshot).unserved(&locals).is_empty(), "nobody looked");
        let what = GroupKind::new("apps", "Deployment");
        snapshot.other_versions = vec![OtherVersion { what, version: "v1beta2".into() }];
        let kinds = Kinds::of(&snapshot);
        assert_eq!(kinds.unserved(&locals).into_iter().collect::<Vec<_>>(), ["deployment.apps in version v1beta1"]);
        assert_eq!((kinds.serves(&locals[1]), kinds.serves(&locals[2])), (Some(true), None));
        assert_eq!(kinds.unserved(&[local("x.io/v1", "New")]).into_iter().collect::<Vec<_>>(), ["new.x.io"]);
    }

    #[test]
    fn every_equivalence_of_the_reference_and_no_other() {
        for (kind, group, other) in EQUIVALENT {
            assert_eq!(canonical(&GroupKind::new(other, kind)), GroupKind::new(group, kind), "{kind}");
            assert_eq!(canonical(&GroupKind::new(group, kind)), GroupKind::new(group, kind), "{kind}");
        }
        for (group, kind) in [("extensions", "StatefulSet"), ("autoscaling", "HorizontalPodAutoscaler")] {
            assert_eq!(canonical(&GroupKind::new(group, kind)), GroupKind::new(group, kind));
        }
    }
}
