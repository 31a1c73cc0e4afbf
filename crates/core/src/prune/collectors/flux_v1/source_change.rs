//! Change of a fluxd's source (URL, branch or paths), as a plan of what fluxd does with each object.
//!
//! Rules: docs/reference/qbec-and-flux-v1.md 9 (C1 to C15). The label is a hash of the whole source, so a change makes
//! another sync set. fluxd labels the objects of the new manifests again, and never lists the others.

use std::collections::HashSet;

use super::FluxV1Collector;
use crate::error::{Error, Hint, Result};
use crate::kubernetes::deletion::cascade::Cascade;
use crate::kubernetes::object::ObjectMetadata;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::OwnerId;
use crate::ownership::index::Index;
use crate::ownership::schemes::flux_v1::args::FluxdArgs;
use crate::ownership::schemes::flux_v1::url::safe_url;
use crate::ownership::schemes::flux_v1::{GitSource, IGNORE, MARK, mark, resource_id};
use crate::plan::{Action, Actor, Change, Outcome, OwnerOutcome, PinnedObject, Plan, Reason, ReasonCode};
use crate::prune::candidates::cascaded_row;
use crate::prune::collectors::collector::CollectorPlan;
use crate::prune::collectors::collector::manifest::LocalManifest;
use crate::prune::collectors::collector::{Collector, NativeAction};

/// Effect of a sync from the new source on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncEffect {
    /// It has the label of the new source, and is in the manifests.
    Unchanged,
    /// It is in the new manifests and gets the label of the new source.
    Relabelled,
    /// It has the label of the new source and is not in the manifests: fluxd deletes it.
    Deleted,
    /// It has the label of the new source and is not in the manifests, but fluxd's rules keep it.
    Spared,
    /// It has the label of the old source and is in the manifests, but its live `ignore` annotation keeps
    /// fluxd from applying it.
    NotApplied,
    /// It has the label of the old source and is not in the new manifests: fluxd never lists it again.
    LeftBehind,
}

/// Returns the source that the user named, or that of the only fluxd in the cluster, with the namespaces to which that
/// fluxd is limited. Without a named source, it fails if there is no fluxd or several, or if the source cannot be computed.
pub(crate) fn current_source(named: Option<&GitSource>, snapshot: &Snapshot) -> Result<(GitSource, Vec<String>)> {
    if let Some(source) = named {
        return Ok((source.clone(), vec![]));
    }
    let fluxds = snapshot.resources.iter().filter_map(|full| Some((&full.object.id, FluxdArgs::find(&full.content)?)));
    match &fluxds.collect::<Vec<_>>()[..] {
        [] => Err(Error::invalid("the cluster runs no fluxd, so its source is not known").hint(Hint::FluxV1Source)),
        [(id, args)] => args.as_ref().map_err(Clone::clone).and_then(read_source).map_err(|why| {
            Error::failed(format!("the source of {id} cannot be computed: {why}")).hint(Hint::FluxV1Source)
        }),
        several => {
            let names: Vec<_> = several.iter().map(|(id, _)| id.to_string()).collect();
            Err(Error::invalid(format!("the cluster runs several fluxds: {}", names.join(", ")))
                .hint(Hint::FluxV1Source))
        }
    }
}

fn read_source(args: &FluxdArgs) -> Result<(GitSource, Vec<String>), String> {
    let namespaces = args.namespaces().unwrap_or_default().into_iter().map(str::to_owned).collect();
    Ok((args.source()?, namespaces))
}

/// Returns the effect on all objects that have the label of either source, in order of identity. `new` collects for the
/// new source with its manifests.
pub fn sync_effects<'a>(
    snapshot: &'a Snapshot,
    old_set: &str,
    new_set: &str,
    new: &FluxV1Collector<'a>,
) -> Vec<(&'a ObjectMetadata, SyncEffect)> {
    let decisions = new.collect().decisions.into_iter();
    let deleted: HashSet<&str> = decisions
        .filter(|decision| decision.native == NativeAction::Deletes)
        .map(|decision| &*decision.object.uid)
        .collect();
    let mut effects = vec![];
    for object in &snapshot.objects {
        let Some(value) = object.labels.get(MARK) else { continue };
        let id = resource_id(&object.id);
        let is_in_manifests = new.applies(object);
        let effect = if value == mark(new_set, &id) {
            if deleted.contains(&*object.uid) {
                SyncEffect::Deleted
            } else if is_in_manifests {
                SyncEffect::Unchanged
            } else {
                SyncEffect::Spared
            }
        } else if value == mark(old_set, &id) {
            let is_ignored = IGNORE.iter().any(|key| object.annotations.get(key) == Some("true"));
            if !is_in_manifests {
                SyncEffect::LeftBehind
            } else if is_ignored {
                SyncEffect::NotApplied
            } else {
                SyncEffect::Relabelled
            }
        } else {
            continue;
        };
        effects.push((object, effect));
    }
    effects
}

/// Plans a change of the source.
pub(crate) fn plan<'a>(
    index: &Index<'a>,
    old: &GitSource,
    new: &GitSource,
    collector: &FluxV1Collector<'a>,
    locals: &[LocalManifest],
) -> CollectorPlan {
    let snapshot = index.snapshot();
    let (old_set, new_set) = (old.sync_set(), new.sync_set());
    let owner = new.record().id;
    let effects = sync_effects(snapshot, &old_set, &new_set, collector);
    let deleted = effects.iter().filter(|(_, effect)| *effect == SyncEffect::Deleted).map(|(object, _)| *object);
    let cascaded = Cascade::new(snapshot).closure(deleted);
    let cascaded_uids: HashSet<&str> = cascaded.iter().map(|cascaded| &*cascaded.object.uid).collect();
    let mut changes: Vec<Change> = cascaded.iter().map(|cascaded| cascaded_row(index, cascaded)).collect();
    for (object, effect) in effects.iter().filter(|(object, _)| !cascaded_uids.contains(&*object.uid)) {
        changes.extend(action_and_reason(*effect).map(|(action, reason)| row(action, *object, &owner, reason)));
    }
    let live: HashSet<String> = snapshot.objects.iter().map(|object| resource_id(&object.id)).collect();
    for (resource_id, id) in locals.iter().filter_map(|local| collector.applied_object(local)) {
        if !live.contains(&resource_id) {
            let reason = Reason::new(ReasonCode::Created, "it is in the new manifests and not in the cluster");
            changes.push(row(Action::Create, PinnedObject::absent(id), &owner, reason));
        }
    }
    let mut warnings = vec![];
    if old_set == new_set && old != new {
        let warning = "both sources have the same hash (fluxd hashes URLs without passwords, and joins the parts without \
                       separators): nothing is relabelled, and what the new manifests lack is deleted";
        warnings.push(warning.to_owned());
    }
    let mut plan = Plan::new(snapshot.cluster.clone());
    plan.add_gaps(snapshot.gaps.iter().cloned());
    plan.add_owners([OwnerOutcome::new(owner, Outcome::Applies, ReasonCode::NewSource)]);
    plan.add_changes(changes);
    CollectorPlan { plan, waves: vec![], retained: 0, source_change: Some(describe_change(old, new)), warnings }
}

/// Describes the difference between two sources.
fn describe_change(old: &GitSource, new: &GitSource) -> String {
    let parts = [
        ("URL", safe_url(&old.url), safe_url(&new.url)),
        ("branch", old.branch.clone(), new.branch.clone()),
        ("paths", list_paths(&old.paths), list_paths(&new.paths)),
    ];
    let changed: Vec<String> = parts
        .into_iter()
        .filter(|(_, old, new)| old != new)
        .map(|(part, old, new)| format!("{part} {old} -> {new}"))
        .collect();
    if changed.is_empty() {
        return "fluxd's source stays the same".to_owned();
    }
    format!("fluxd's source changes: {}", changed.join("; "))
}

fn list_paths(paths: &[String]) -> String {
    if paths.is_empty() { "none".to_owned() } else { paths.join(", ") }
}

fn action_and_reason(effect: SyncEffect) -> Option<(Action, Reason)> {
    let (action, code, detail) = match effect {
        SyncEffect::Unchanged => return None,
        SyncEffect::Relabelled => (Action::Update, ReasonCode::Relabelled, "it is in the new manifests"),
        SyncEffect::Deleted => {
            (Action::Delete, ReasonCode::NotInManifests, "it carries the label of the new source and is in no manifest")
        }
        SyncEffect::Spared => (Action::Keep, ReasonCode::Spared, "it is in no new manifest, but fluxd keeps it"),
        SyncEffect::NotApplied => {
            (Action::Keep, ReasonCode::NotApplied, "an ignore annotation in the cluster keeps fluxd from applying it")
        }
        SyncEffect::LeftBehind => (
            Action::Keep,
            ReasonCode::LeftBehind,
            "it is in no new manifest and keeps the label of the old source, so fluxd never finds it again",
        ),
    };
    Some((action, Reason::new(code, detail)))
}

fn row(action: Action, object: impl Into<PinnedObject>, owner: &OwnerId, reason: Reason) -> Change {
    Change::new(action, object, Some(owner.clone()), Actor::Fluxd, reason)
}
