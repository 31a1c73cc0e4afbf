//! Garbage collection of Flux v1: the objects that fluxd deletes after a sync, and those that this tool deletes instead.
//!
//! Rules: docs/reference/qbec-and-flux-v1.md 8; `F` and `C` numbers are the cases of 10 and 9.

mod excluded;
mod order;
pub mod source_change;
mod warnings;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::ownership::schemes::flux_v1::{IGNORE, MARK, mark, resource_id};
use crate::prune::collectors::collector::manifest::LocalManifest;
use crate::prune::collectors::collector::safety;
use crate::prune::collectors::collector::safety::Allow;
use crate::prune::collectors::collector::served_kinds::ServedKinds;
use crate::prune::collectors::collector::{Collector, CollectorReason, Decision, NativeAction, PlannedAction};
pub use excluded::EXCLUDED;
use order::{deletion_order, rank};

/// Input of a replay of fluxd's garbage collection.
#[derive(Clone, Debug)]
pub struct FluxV1Input<'a> {
    /// Name of the sync set: the hash of the source.
    pub sync_set: String,
    /// Namespace of manifests that name none.
    pub default_namespace: Arc<str>,
    /// Value of fluxd's `--k8s-allow-namespace`; empty for all namespaces.
    pub allow_namespaces: Vec<String>,
    /// Value of fluxd's `--k8s-unsafe-exclude-resource`.
    pub excluded: Vec<String>,
    /// Manifests of the source.
    pub locals: &'a [LocalManifest],
}

/// Treatment of a manifest by fluxd. If several manifests have one resource id, the highest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ManifestStatus {
    /// Dropped, because the cluster does not serve its API (F14).
    Unserved,
    /// Taken for an empty list, because its kind ends in `List` (F18).
    TakenForList,
    /// Dropped, because it is outside of the allowed namespaces (F11, C10).
    OutsideAllowedNamespaces,
    Applied,
}

impl ManifestStatus {
    /// Returns the reason why this tool keeps the object.
    fn reason(self) -> &'static str {
        match self {
            Self::Unserved => "a manifest contains it under an API that is not served here",
            Self::TakenForList => "a manifest contains it, which fluxd takes for an empty list",
            Self::OutsideAllowedNamespaces => "a manifest contains it, outside of fluxd's --k8s-allow-namespace",
            Self::Applied => "a manifest contains it",
        }
    }
}

/// Replay of fluxd's garbage collection for one source.
pub struct FluxV1Collector<'a> {
    input: FluxV1Input<'a>,
    allow: Allow,
    snapshot: &'a Snapshot,
    index: &'a Index<'a>,
    kinds: ServedKinds<'a>,
    /// Manifests by resource id.
    manifests: HashMap<String, ManifestStatus>,
}

impl<'a> FluxV1Collector<'a> {
    /// Compares the manifests with a snapshot.
    pub fn new(input: FluxV1Input<'a>, snapshot: &'a Snapshot, index: &'a Index<'a>, allow: Allow) -> Self {
        let kinds = ServedKinds::of(snapshot);
        let mut manifests = HashMap::new();
        for local in input.locals {
            for (id, status) in input.resource_ids(local, &kinds) {
                let highest = manifests.entry(id).or_insert(status);
                *highest = status.max(*highest);
            }
        }
        Self { input, allow, snapshot, index, kinds, manifests }
    }

    /// Returns the resource id and the identity of the object that fluxd applies for a manifest.
    pub(super) fn applied_object(&self, local: &LocalManifest) -> Option<(String, ObjectId)> {
        let namespace = if !self.kinds.is_namespaced_manifest(local)? {
            Arc::from("")
        } else if local.id.namespace.is_empty() {
            self.input.default_namespace.clone()
        } else {
            local.id.namespace.clone()
        };
        let id = ObjectId { namespace, ..local.id.clone() };
        let key = resource_id(&id);
        (self.manifests.get(&key) == Some(&ManifestStatus::Applied)).then_some((key, id))
    }

    /// Returns true if fluxd applies a manifest of this object.
    pub(super) fn applies(&self, object: &ObjectMetadata) -> bool {
        self.manifests.get(&resource_id(&object.id)) == Some(&ManifestStatus::Applied)
    }

    /// Returns the reason why fluxd never lists an object.
    fn reason_missed(&self, object: &ObjectMetadata) -> Option<String> {
        let namespace = &*object.id.namespace;
        if !namespace.is_empty() && !self.input.allows(namespace) {
            return Some(format!("namespace {namespace} is not in --k8s-allow-namespace: missed by fluxd"));
        }
        excluded::reason_excluded(&self.input.excluded, object)
    }

    fn planned_action(
        &self,
        object: &ObjectMetadata,
        manifest: Option<ManifestStatus>,
        missed: Option<String>,
    ) -> PlannedAction {
        if !object.owner_references.is_empty() {
            return PlannedAction::Keep(CollectorReason::Controlled);
        }
        if let Some(reason) = safety::reason_to_keep(object, self.index, self.allow) {
            return PlannedAction::Keep(reason);
        }
        match (manifest, missed) {
            (Some(manifest), _) => PlannedAction::Keep(CollectorReason::Desired(manifest.reason())),
            (None, _) if object.id.is("", "Endpoints") => PlannedAction::Keep(CollectorReason::Endpoints),
            (None, Some(why)) => self.allow.action_for_missed(why),
            (None, None) => PlannedAction::Delete(CollectorReason::NotInManifests),
        }
    }
}

impl<'a> Collector<'a> for FluxV1Collector<'a> {
    fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    fn is_member(&self, object: &ObjectMetadata) -> bool {
        object.labels.get(MARK) == Some(&mark(&self.input.sync_set, &resource_id(&object.id)))
    }

    fn decide<'o>(&self, object: &'o ObjectMetadata) -> Option<Decision<'o>> {
        if !self.is_member(object) {
            return None;
        }
        let manifest = self.manifests.get(&resource_id(&object.id)).copied();
        let missed = self.reason_missed(object);
        let is_ignored = IGNORE.iter().any(|key| matches!(object.annotations.get(key), Some("true" | "sync_only")));
        let native = match manifest {
            Some(ManifestStatus::Applied) => return None,
            Some(_) if missed.is_some() => return None,
            _ if !object.owner_references.is_empty() || object.id.is("", "Endpoints") => NativeAction::Keeps,
            _ if missed.is_some() => NativeAction::Misses,
            _ if is_ignored => NativeAction::Keeps,
            _ => NativeAction::Deletes,
        };
        Some(Decision { object, native, planned: self.planned_action(object, manifest, missed) })
    }

    fn deletion_order(&self, left: &Decision<'_>, right: &Decision<'_>) -> Ordering {
        deletion_order(left.object, right.object)
    }

    fn warnings(&self, decisions: &[Decision<'_>]) -> Vec<String> {
        warnings::warnings(self, decisions)
    }

    fn same_wave(&self, left: &ObjectMetadata, right: &ObjectMetadata) -> bool {
        rank(&left.id.kind) == rank(&right.id.kind)
    }
}

impl FluxV1Input<'_> {
    fn allows(&self, namespace: &str) -> bool {
        self.allow_namespaces.is_empty() || self.allow_namespaces.iter().any(|allowed| allowed == namespace)
    }

    /// Returns the resource id of a manifest, or two if the cluster does not serve its kind, whose scope is then unknown.
    fn resource_ids(&self, local: &LocalManifest, kinds: &ServedKinds<'_>) -> Vec<(String, ManifestStatus)> {
        let namespace = if local.id.namespace.is_empty() { &self.default_namespace } else { &local.id.namespace };
        let namespaced = resource_id(&ObjectId { namespace: namespace.clone(), ..local.id.clone() });
        let cluster_scoped = resource_id(&ObjectId { namespace: "".into(), ..local.id.clone() });
        let Some(is_namespaced) = kinds.is_namespaced_manifest(local) else {
            return vec![(namespaced, ManifestStatus::Unserved), (cluster_scoped, ManifestStatus::Unserved)];
        };
        // Of cluster-scoped objects only Namespaces are restricted, by their names.
        let is_allowed = if is_namespaced {
            self.allows(namespace)
        } else {
            !local.id.is("", "Namespace") || self.allows(&local.id.name)
        };
        let status = if local.id.kind.ends_with("List") {
            ManifestStatus::TakenForList
        } else if is_allowed {
            ManifestStatus::Applied
        } else {
            ManifestStatus::OutsideAllowedNamespaces
        };
        vec![(if is_namespaced { namespaced } else { cluster_scoped }, status)]
    }
}
