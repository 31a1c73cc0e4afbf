//! ApplySets: the objects that `kubectl apply --prune --applyset` deletes, and those that this tool deletes instead.
//!
//! Rules: docs/reference/ownership.md 2.6, checked against kubectl v1.36. kubectl prunes only in the kinds and namespaces
//! that the parent listed before the run; those of new manifests count from the next run on.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use super::collector::manifest::LocalManifest;
use super::collector::safety;
use super::collector::safety::Allow;
use super::collector::served_kinds::{ServedKinds, canonical_id};
use super::collector::{Collector, CollectorReason, Decision, NativeAction, PlannedAction};
use crate::error::{Error, Hint, Result};
use crate::kubernetes::deletion::order;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::ownership::last_applied;
use crate::ownership::schemes::applyset;
use crate::ownership::schemes::applyset::{id_of, tool};

/// Label of members: ID of the parent.
pub const PART_OF: &str = applyset::PART_OF[0];
/// Label of the parent: its own ID.
const ID: &str = applyset::ID[0];
/// Annotation of the parent: kinds of its members.
const KINDS: &str = applyset::KINDS[0];
/// Annotation of the parent: namespaces of its members, in addition to its own.
const NAMESPACES: &str = applyset::NAMESPACES[0];
/// Tool whose rules these are.
const TOOL: &str = "kubectl";

/// Replay of kubectl's pruning for one ApplySet.
pub struct ApplySetCollector<'a> {
    id: String,
    kinds: HashSet<GroupKind>,
    namespaces: HashSet<Arc<str>>,
    /// Canonical identities of the manifests.
    desired: HashSet<ObjectId>,
    allow: Allow,
    snapshot: &'a Snapshot,
    index: &'a Index<'a>,
}

impl<'a> ApplySetCollector<'a> {
    /// Compares the manifests with a snapshot. Fails as kubectl does: if there is no parent, if it has the ID of another
    /// one, or if it belongs to another tool.
    pub fn new(
        parent: &ObjectId,
        default_namespace: &Arc<str>,
        locals: &[LocalManifest],
        snapshot: &'a Snapshot,
        index: &'a Index<'a>,
        allow: Allow,
    ) -> Result<Self> {
        let object = snapshot
            .object(parent)
            .ok_or_else(|| Error::failed(format!("there is no ApplySet parent {parent}")).hint(Hint::ApplySetParent))?;
        check_parent(object)?;
        let served = ServedKinds::of(snapshot);
        let named = locals.iter().filter(|local| local.generate_name.is_none());
        let desired = named.map(|local| served.applied_id(&local.id, default_namespace)).collect();
        let (kinds, namespaces) = (kinds(object)?, namespaces(object));
        Ok(Self { id: id_of(parent), kinds, namespaces, desired, allow, snapshot, index })
    }

    /// Returns the reason why kubectl never lists an object.
    fn reason_missed(&self, id: &ObjectId) -> Option<String> {
        if !self.kinds.contains(&id.group_kind()) {
            return Some(format!("the parent does not list the kind {}: missed by kubectl", id.group_kind()));
        }
        let is_listed = id.namespace.is_empty() || self.namespaces.contains(&id.namespace);
        (!is_listed).then(|| format!("the parent does not list the namespace {}: missed by kubectl", id.namespace))
    }

    fn planned_action(&self, object: &ObjectMetadata, missed: Option<String>) -> PlannedAction {
        if let Some(reason) = safety::reason_to_keep(object, self.index, self.allow) {
            return PlannedAction::Keep(reason);
        }
        // The specification calls a member with an owner reference a conflict; kubectl does not check.
        if !object.owner_references.is_empty() {
            return PlannedAction::Keep(CollectorReason::Referenced);
        }
        let applied = object.annotations.get(last_applied::KUBECTL);
        if applied.is_some_and(|applied| !last_applied::names_object(applied, object)) {
            let evidence = "last-applied names another object".to_owned();
            return PlannedAction::Keep(CollectorReason::CopiedClaim(evidence));
        }
        match missed {
            Some(why) => self.allow.action_for_missed(why),
            None => PlannedAction::Delete(CollectorReason::NotInManifests),
        }
    }
}

impl<'a> Collector<'a> for ApplySetCollector<'a> {
    fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    fn is_member(&self, object: &ObjectMetadata) -> bool {
        object.labels.get(PART_OF) == Some(&self.id)
    }

    fn decide<'o>(&self, object: &'o ObjectMetadata) -> Option<Decision<'o>> {
        if !self.is_member(object) || self.desired.contains(&canonical_id(&object.id)) {
            return None;
        }
        let missed = self.reason_missed(&object.id);
        let native = if missed.is_some() { NativeAction::Misses } else { NativeAction::Deletes };
        Some(Decision { object, native, planned: self.planned_action(object, missed) })
    }

    fn deletion_order(&self, left: &Decision<'_>, right: &Decision<'_>) -> Ordering {
        let by_kind = order::delete_order(&left.object.id, &right.object.id);
        right.is_deletion().cmp(&left.is_deletion()).then(by_kind)
    }

    fn same_wave(&self, left: &ObjectMetadata, right: &ObjectMetadata) -> bool {
        order::same_wave(&left.id, &right.id)
    }
}

fn check_parent(parent: &ObjectMetadata) -> Result<()> {
    let name = &parent.id;
    match tool(parent) {
        Some(TOOL) => {}
        Some(other) => {
            return Err(Error::refused(format!("refused: the ApplySet {name} belongs to {other:?}, not to {TOOL}"))
                .hint("let that tool prune it"));
        }
        None => return Err(Error::failed(format!("{name} is no ApplySet parent: it does not name its tool"))),
    }
    let id = id_of(&parent.id);
    if parent.labels.get(ID) != Some(&id) {
        return Err(Error::refused(format!("refused: {name} does not carry its own ApplySet ID ({ID}={id})"))
            .hint("with another ID on it, this would delete the objects of another ApplySet"));
    }
    Ok(())
}

/// Returns the kinds in which kubectl prunes.
fn kinds(parent: &ObjectMetadata) -> Result<HashSet<GroupKind>> {
    let Some(kinds) = parent.annotations.get(KINDS) else {
        return Err(Error::failed(format!("the ApplySet {} does not list its kinds ({KINDS})", parent.id))
            .hint("kubectl refuses it too; apply it once more with `kubectl apply --applyset`, without --prune"));
    };
    let kinds = list(kinds).map(|item| item.split_once('.').unwrap_or((item, "")));
    Ok(kinds.map(|(kind, group)| GroupKind::new(group, kind)).collect())
}

/// Returns the namespaces in which kubectl prunes.
fn namespaces(parent: &ObjectMetadata) -> HashSet<Arc<str>> {
    let additional = list(parent.annotations.get(NAMESPACES).unwrap_or_default()).map(Arc::from);
    let own = Some(parent.id.namespace.clone()).filter(|namespace| !namespace.is_empty());
    additional.chain(own).collect()
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|item| !item.is_empty())
}
