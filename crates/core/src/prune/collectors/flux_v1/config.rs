//! What happens to each object when the source of a fluxd is changed: its URL, branch or paths.
//!
//! Source: seed 000 and reference qbec-and-flux-v1 B4 (C1 to C15). The mark hashes the whole source, so any change of
//! it makes another set; only what the new manifests hold is marked anew.

use std::collections::HashSet;

use super::{FluxV1Collector, IGNORE};
use crate::kubernetes::object::ObjectMetadata;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux_v1::{MARK, mark, resource_id};
use crate::prune::collectors::Collector;

/// What a sync from the new source does with one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncChange {
    /// Marked for the new source already, and in its manifests.
    Unchanged,
    /// In the new manifests: gets the mark of the new source.
    Relabelled,
    /// Marked for the new source and not in its manifests: fluxd deletes it.
    Deleted,
    /// Marked for the new source and not in its manifests, but spared by fluxd's rules.
    Spared,
    /// Marked for the old source, and in the manifests, but its live `ignore` annotation keeps fluxd from applying it.
    NotApplied,
    /// Marked for the old source and not in the new manifests: no sync from the new source ever finds it.
    MissedForEver,
}

/// One object and its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedObject<'a> {
    /// The object.
    pub object: &'a ObjectMetadata,
    /// What happens.
    pub fate: SyncChange,
}

/// The fates of all objects that carry the mark of either source, in order of identity. `new` collects for the new
/// source with its manifests; `old` is the old sync set name.
pub fn change<'a>(
    snapshot: &'a Snapshot,
    old: &str,
    new_set: &str,
    new: &FluxV1Collector<'a>,
) -> Vec<ChangedObject<'a>> {
    let deleted: HashSet<&str> = new
        .collect()
        .verdicts
        .iter()
        .filter_map(|verdict| {
            (verdict.theirs == crate::prune::collectors::NativeAction::Deletes).then_some(&*verdict.object.uid)
        })
        .collect();
    let fate = |object: &'a ObjectMetadata| {
        let value = object.labels.get(MARK)?;
        let id = resource_id(&object.id);
        let ignored = IGNORE.iter().any(|key| object.annotations.get(key) == Some("true"));
        let fate = if value == mark(new_set, &id) {
            match (deleted.contains(&*object.uid), new.applies(object)) {
                (true, _) => SyncChange::Deleted,
                (false, true) => SyncChange::Unchanged,
                (false, false) => SyncChange::Spared,
            }
        } else if value == mark(old, &id) {
            match (new.applies(object), ignored) {
                (true, true) => SyncChange::NotApplied,
                (true, false) => SyncChange::Relabelled,
                (false, _) => SyncChange::MissedForEver,
            }
        } else {
            return None;
        };
        Some(ChangedObject { object, fate })
    };
    snapshot.objects.iter().filter_map(fate).collect()
}
