//! Garbage collection of qbec: the objects that `qbec apply --gc` deletes, and those that this tool deletes instead.
//!
//! Rules: docs/reference/qbec-and-flux-v1.md 2.4 to 2.6 and 3.2; `Q` numbers are the cases of 5.

pub mod filter;
mod generated_names;
mod order;
pub mod scope;
mod warnings;

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::ownership::schemes::qbec::{DELETE_POLICY, SCHEME, component};
use crate::prune::collectors::collector::manifest::LocalManifest;
use crate::prune::collectors::collector::safety;
use crate::prune::collectors::collector::safety::Allow;
use crate::prune::collectors::collector::served_kinds::{ServedKinds, canonical_id};
use crate::prune::collectors::collector::{Collector, CollectorReason, Decision, NativeAction, PlannedAction};
use filter::QbecFilters;
use order::{deletion_order, position};
use scope::{QbecApp, QbecScope};

/// Namespaces that qbec never deletes.
const PROTECTED_BY_QBEC: [&str; 2] = ["default", "kube-system"];

/// Input of a replay of qbec's garbage collection.
#[derive(Clone, Debug)]
pub struct QbecInput<'a> {
    pub app: QbecApp,
    /// Namespace of manifests that name none.
    pub default_namespace: Arc<str>,
    /// Value of `spec.clusterScopedLists` in qbec.yaml.
    pub cluster_scoped_lists: bool,
    pub filters: QbecFilters,
    /// All manifests of the environment; the filters do not apply to them.
    pub locals: &'a [LocalManifest],
}

/// Replay of qbec's garbage collection for one application.
pub struct QbecCollector<'a> {
    input: QbecInput<'a>,
    allow: Allow,
    snapshot: &'a Snapshot,
    index: &'a Index<'a>,
    kinds: ServedKinds<'a>,
    scope: QbecScope,
    /// Canonical identities of the manifests; false for manifests that qbec itself does not recognize.
    desired: HashMap<ObjectId, bool>,
    /// Uids of the objects that manifests with `generateName` created last.
    newest_generated: HashSet<&'a str>,
}

impl<'a> QbecCollector<'a> {
    /// Compares the manifests with a snapshot.
    pub fn new(input: QbecInput<'a>, snapshot: &'a Snapshot, index: &'a Index<'a>, allow: Allow) -> Self {
        let kinds = ServedKinds::of(snapshot);
        let scope = QbecScope::of(input.locals, &input.default_namespace, input.cluster_scoped_lists, &kinds);
        let mut desired = HashMap::new();
        for local in input.locals.iter().filter(|local| local.generate_name.is_none()) {
            let is_recognized = kinds.is_namespaced_manifest(local).is_some();
            *desired.entry(kinds.applied_id(&local.id, &input.default_namespace)).or_insert(false) |= is_recognized;
        }
        let newest_generated = HashSet::new();
        let mut collector = Self { input, allow, snapshot, index, kinds, scope, desired, newest_generated };
        collector.newest_generated = generated_names::newest_objects(&collector);
        collector
    }

    fn native_action(&self, object: &ObjectMetadata, is_missed: bool) -> NativeAction {
        if object.controller_reference().is_some() || object.id.is("", "Endpoints") {
            NativeAction::Keeps
        } else if is_missed {
            NativeAction::Misses
        } else if object.annotations.get(DELETE_POLICY) == Some("never") || is_protected_by_qbec(&object.id) {
            NativeAction::Keeps
        } else {
            NativeAction::Deletes
        }
    }

    fn planned_action(&self, object: &ObjectMetadata, is_desired: bool, missed: Option<String>) -> PlannedAction {
        if let Some(reason) = safety::reason_to_keep(object, self.index, self.allow) {
            return PlannedAction::Keep(reason);
        }
        if object.id.is("", "Endpoints") {
            return PlannedAction::Keep(CollectorReason::Endpoints);
        }
        if is_desired {
            let reason = "a manifest contains it under an API that is not served here";
            return PlannedAction::Keep(CollectorReason::Desired(reason));
        }
        if let Some(reason) = safety::unproven_claim((SCHEME.claim)(object)) {
            return PlannedAction::Keep(reason);
        }
        if let Some(why) = missed {
            return self.allow.action_for_missed(why);
        }
        if self.newest_generated.contains(&*object.uid) {
            PlannedAction::Keep(CollectorReason::NewestGeneration)
        } else if generated_names::manifest_of(self, object).is_some() {
            PlannedAction::Delete(CollectorReason::Superseded)
        } else {
            PlannedAction::Delete(CollectorReason::NotInManifests)
        }
    }
}

impl<'a> Collector<'a> for QbecCollector<'a> {
    fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    fn is_member(&self, object: &ObjectMetadata) -> bool {
        self.input.app.selects(object) && object.controller_reference().is_none()
    }

    fn decide<'o>(&self, object: &'o ObjectMetadata) -> Option<Decision<'o>> {
        if !self.input.app.selects(object) || !self.input.filters.admits_object(&object.id, component(object)) {
            return None;
        }
        let desired = self.desired.get(&canonical_id(&object.id));
        if desired == Some(&true) {
            return None;
        }
        let missed = self.scope.reason_missed(object);
        let native = self.native_action(object, missed.is_some());
        Some(Decision { object, native, planned: self.planned_action(object, desired.is_some(), missed) })
    }

    fn deletion_order(&self, left: &Decision<'_>, right: &Decision<'_>) -> Ordering {
        deletion_order(left.object, right.object, &self.kinds)
    }

    /// qbec keeps the Namespace of a protected object only if it comes to the object first (Q16).
    fn adjust(&self, decisions: &mut [Decision<'_>]) {
        let mut kept: HashSet<&str> = HashSet::new();
        for decision in decisions {
            let object = decision.object;
            let is_protected =
                object.annotations.get(DELETE_POLICY) == Some("never") && object.controller_reference().is_none();
            if is_protected && decision.native == NativeAction::Keeps {
                kept.insert(&object.id.namespace);
            }
            let is_deleted_namespace = object.id.is("", "Namespace") && decision.native == NativeAction::Deletes;
            if is_deleted_namespace && kept.contains(&*object.id.name) {
                decision.native = NativeAction::Keeps;
            }
        }
    }

    fn warnings(&self, decisions: &[Decision<'_>]) -> Vec<String> {
        warnings::warnings(self, decisions)
    }

    fn same_wave(&self, left: &ObjectMetadata, right: &ObjectMetadata) -> bool {
        left.id.kind == right.id.kind && position(left, &self.kinds) == position(right, &self.kinds)
    }
}

fn is_protected_by_qbec(id: &ObjectId) -> bool {
    id.is("", "Namespace") && PROTECTED_BY_QBEC.contains(&&*id.name)
}
