//! ApplySets: what `kubectl apply --prune --applyset` deletes, and what this tool deletes in its place.
//!
//! Source: reference ownership-and-prune 1.3, checked against kubectl v1.36. kubectl prunes only where the parent said
//! *before* the run that members are: the kinds and namespaces of the manifests count from the next run on.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use super::manifest::LocalManifest;
use super::safety;
use super::safety::Allow;
use super::type_aliases;
use super::type_aliases::Kinds;
use super::{Collected, Collector, CollectorReason, Decision, NativeAction, PlannedAction};
use crate::error::{Error, Hint, Result};
use crate::kubernetes::deletion::order;
use crate::kubernetes::deletion::order::delete_order;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::ownership::last_applied;
use crate::ownership::schemes::applyset::{id_of, tool};

/// Label of members: the parent's ID.
pub const PART_OF: &str = "applyset.kubernetes.io/part-of";
/// Label of the parent: its own ID.
const ID: &str = "applyset.kubernetes.io/id";
/// Annotation of the parent: the kinds of its members.
const KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
/// Annotation of the parent: namespaces of its members beside its own.
const NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";
/// The only tool whose rules these are.
const TOOL: &str = "kubectl";

/// The collector of one ApplySet in one snapshot.
pub struct ApplySetCollector<'a> {
    id: String,
    kinds: HashSet<GroupKind>,
    namespaces: HashSet<Arc<str>>,
    desired: HashSet<ObjectId>,
    allow: Allow,
    snapshot: &'a Snapshot,
    index: &'a Index<'a>,
}

impl<'a> ApplySetCollector<'a> {
    /// Reads the parent and compares manifests and cluster.
    ///
    /// # Errors
    /// When kubectl would refuse the parent: there is none, it carries another ID, or it belongs to another tool.
    pub fn new(
        parent: &ObjectId,
        default_namespace: &Arc<str>,
        locals: &[LocalManifest],
        snapshot: &'a Snapshot,
        index: &'a Index<'a>,
        allow: Allow,
    ) -> Result<Self> {
        let missing = || Error::failed(format!("there is no ApplySet parent {parent}")).hint(Hint::ApplySetParent);
        let found = snapshot.object(parent).ok_or_else(missing)?;
        let (kinds, namespaces) = scope(found)?;
        let served = Kinds::of(snapshot);
        let desired = locals.iter().filter(|local| local.generate_name.is_none());
        let desired = desired.map(|local| served.applied(&local.id, default_namespace)).collect();
        Ok(Self { id: id_of(parent), kinds, namespaces, desired, allow, snapshot, index })
    }

    fn misses(&self, id: &ObjectId) -> Option<String> {
        if !self.kinds.contains(&id.group_kind()) {
            return Some(format!("the parent does not list the kind {}: missed by kubectl", id.group_kind()));
        }
        let seen = id.namespace.is_empty() || self.namespaces.contains(&id.namespace);
        (!seen).then(|| format!("the parent does not list the namespace {}: missed by kubectl", id.namespace))
    }
}

impl<'a> Collector<'a> for ApplySetCollector<'a> {
    fn is_member(&self, object: &ObjectMetadata) -> bool {
        object.labels.get(PART_OF) == Some(&self.id)
    }

    fn judge<'o>(&self, object: &'o ObjectMetadata) -> Option<Decision<'o>> {
        let member = object.labels.get(PART_OF) == Some(&self.id);
        if !member || self.desired.contains(&type_aliases::key(&object.id)) {
            return None;
        }
        let missed = self.misses(&object.id);
        let theirs = if missed.is_some() { NativeAction::Misses } else { NativeAction::Deletes };
        let copied = object
            .annotations
            .get(last_applied::KUBECTL)
            .filter(|applied| !last_applied::names_object(applied, object));
        let ours = match (safety::keeps(object, self.index, self.allow), missed) {
            // The published rules call a member that something else owns a conflict; kubectl does not check.
            (None, _) if !object.references.is_empty() => PlannedAction::Keep(CollectorReason::Referenced),
            (Some(reason), _) => PlannedAction::Keep(reason),
            (None, _) if copied.is_some() => {
                PlannedAction::Keep(CollectorReason::CopiedMark("last-applied names another object".to_owned()))
            }
            (None, Some(why)) if self.allow.missed => PlannedAction::Delete(CollectorReason::LeftBehind(why)),
            (None, Some(why)) => PlannedAction::Keep(CollectorReason::LeftBehind(why)),
            (None, None) => PlannedAction::Delete(CollectorReason::NotInManifests),
        };
        Some(Decision { object, theirs, ours })
    }

    fn collect(&self) -> Collected<'a> {
        let snapshot = self.snapshot;
        let mut verdicts: Vec<_> = snapshot.objects.iter().filter_map(|object| self.judge(object)).collect();
        verdicts.sort_by(|a, b| delete_order(&a.object.id, &b.object.id));
        verdicts.sort_by_key(|verdict| Reverse(verdict.deletes()));
        Collected { verdicts, staying: super::staying(self, snapshot), warnings: vec![] }
    }

    fn same_wave(&self, left: &ObjectMetadata, right: &ObjectMetadata) -> bool {
        order::same_wave(&left.id, &right.id)
    }
}

/// The kinds and namespaces in which kubectl looks.
fn scope(parent: &ObjectMetadata) -> Result<(HashSet<GroupKind>, HashSet<Arc<str>>)> {
    let name = &parent.id;
    match tool(parent) {
        Some(TOOL) => {}
        Some(other) => {
            return Err(Error::refused(format!("refused: the ApplySet {name} belongs to {other:?}, not to {TOOL}"))
                .hint("let that tool prune it"));
        }
        None => return Err(Error::failed(format!("{name} is no ApplySet parent: it does not say which tool made it"))),
    }
    let due = id_of(&parent.id);
    if parent.labels.get(ID) != Some(&due) {
        return Err(Error::refused(format!("refused: {name} does not carry its own ApplySet ID ({ID}={due})"))
            .hint("whoever wrote another ID on it would have made you delete another set's objects"));
    }
    let Some(kinds) = parent.annotations.get(KINDS) else {
        return Err(Error::failed(format!("the ApplySet {name} does not list its kinds ({KINDS})"))
            .hint("kubectl refuses it too; apply it once more with --applyset and without --prune"));
    };
    let items = |list: &'_ str| list.split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let kind = |item: String| {
        let (kind, group) = item.split_once('.').unwrap_or((&item, ""));
        GroupKind::new(group, kind)
    };
    let namespaces = items(parent.annotations.get(NAMESPACES).unwrap_or_default());
    let own = Some(parent.id.namespace.clone()).filter(|namespace| !namespace.is_empty());
    let namespaces = namespaces.into_iter().map(Arc::from).chain(own).collect();
    Ok((items(kinds).into_iter().map(kind).collect(), namespaces))
}
