//! Which source a fluxd has, and what a change of it does, as a plan of what fluxd will do.

use std::collections::HashSet;

use super::FluxV1Collector;
use super::config::{SyncChange, change};
use crate::error::{Error, Hint, Result};
use crate::kubernetes::deletion::cascade::Cascade;
use crate::kubernetes::object::ObjectMetadata;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::OwnerId;
use crate::ownership::index::Index;
use crate::ownership::schemes::flux_v1::args::FluxdArgs;
use crate::ownership::schemes::flux_v1::url::safe_url;
use crate::ownership::schemes::flux_v1::{GitSource, resource_id};
use crate::plan::{Action, Actor, Change, Outcome, OwnerOutcome, PinnedObject, Plan, Reason, ReasonCode};
use crate::prune::candidates::cascaded_row;
use crate::prune::collectors::manifest::LocalManifest;
use crate::prune::collectors::request::CollectorPlan;

/// The source that the user named, or that of the one fluxd in the cluster with the namespaces it is limited to.
///
/// # Errors
/// When no source is named and the cluster has no fluxd, several, or one whose source cannot be computed.
pub fn of(named: Option<&GitSource>, snapshot: &Snapshot) -> Result<(GitSource, Vec<String>)> {
    if let Some(source) = named {
        return Ok((source.clone(), vec![]));
    }
    let hint = Hint::FluxV1Source;
    let fluxds = snapshot.full.iter().filter_map(|full| Some((&full.object.id, FluxdArgs::find(&full.content)?)));
    let fluxds: Vec<_> = fluxds.collect();
    match &fluxds[..] {
        [] => Err(Error::invalid("the cluster runs no fluxd, so its source is not known").hint(hint)),
        [(id, args)] => {
            let read = |args: &FluxdArgs| {
                let namespaces = args.namespaces().unwrap_or_default().into_iter().map(str::to_owned).collect();
                Ok((args.source()?, namespaces))
            };
            let source = args.as_ref().map_err(Clone::clone).and_then(read);
            source.map_err(|why| Error::failed(format!("the source of {id} cannot be computed: {why}")).hint(hint))
        }
        several => {
            let names: Vec<_> = several.iter().map(|(id, _)| id.to_string()).collect();
            Err(Error::invalid(format!("the cluster runs several fluxds: {}", names.join(", "))).hint(hint))
        }
    }
}

/// The plan of a changed source: fluxd relabels, creates and deletes; what is left behind stays for ever.
pub fn preview<'a>(
    index: &Index<'a>,
    old: &GitSource,
    new: &GitSource,
    collector: &FluxV1Collector<'a>,
    locals: &[LocalManifest],
) -> CollectorPlan {
    let snapshot = index.snapshot();
    let (old_set, new_set) = (old.sync_set(), new.sync_set());
    let owner = new.record().id;
    let fates = change(snapshot, &old_set, &new_set, collector);
    let deleted = fates.iter().filter(|row| row.fate == SyncChange::Deleted).map(|row| row.object);
    let taken = Cascade::new(snapshot).closure(deleted);
    let along: HashSet<&str> = taken.iter().map(|taken| &*taken.object.uid).collect();
    let rows = fates.iter().filter(|row| !along.contains(&*row.object.uid)).filter_map(|row| {
        let (action, reason) = action_and_reason(row.fate)?;
        Some(self::row(action, PinnedObject::from(row.object), &owner, reason))
    });
    let mut changes: Vec<Change> = rows.chain(taken.iter().map(|taken| cascaded_row(index, taken))).collect();
    let exists = |id: &str| snapshot.objects.iter().any(|object: &ObjectMetadata| resource_id(&object.id) == id);
    for (id, target) in locals.iter().filter_map(|local| collector.created(local)) {
        if !exists(&id) {
            let reason = Reason::new(ReasonCode::Created, "it is in the new manifests and not in the cluster");
            changes.push(row(Action::Create, PinnedObject::absent(target), &owner, reason));
        }
    }
    let mut warnings = vec![];
    if old_set == new_set && old != new {
        let same = "both sources hash to the same set (URLs without passwords, parts without separators): nothing is \
                    relabelled, and whatever the new manifests lack is deleted";
        warnings.push(same.to_owned());
    }
    let mut plan = Plan::new(snapshot.cluster.clone());
    plan.add_gaps(snapshot.gaps.iter().cloned());
    plan.add_owners([OwnerOutcome::new(owner, Outcome::Applies, ReasonCode::NewSource)]);
    plan.add_changes(changes);
    CollectorPlan { plan, waves: vec![], staying: 0, preview: Some(described(old, new)), warnings }
}

/// What differs between two sources, as `--git-…` names it.
fn described(old: &GitSource, new: &GitSource) -> String {
    let paths = |source: &GitSource| if source.paths.is_empty() { "none".to_owned() } else { source.paths.join(", ") };
    let parts = [
        ("URL", safe_url(&old.url), safe_url(&new.url)),
        ("branch", old.branch.clone(), new.branch.clone()),
        ("paths", paths(old), paths(new)),
    ];
    let changed: Vec<String> = parts
        .iter()
        .filter(|(_, old, new)| old != new)
        .map(|(part, old, new)| format!("{part} {old} -> {new}"))
        .collect();
    if changed.is_empty() {
        return "fluxd's source stays the same".to_owned();
    }
    format!("fluxd's source changes: {}", changed.join("; "))
}

fn action_and_reason(change: SyncChange) -> Option<(Action, Reason)> {
    let (action, code, detail) = match change {
        SyncChange::Unchanged => return None,
        SyncChange::Relabelled => (Action::Update, ReasonCode::Relabelled, "it is in the new manifests"),
        SyncChange::Deleted => {
            (Action::Delete, ReasonCode::NotInManifests, "it carries the label of the new source and is in no manifest")
        }
        SyncChange::Spared => (Action::Keep, ReasonCode::Spared, "it is in no new manifest, but fluxd keeps it"),
        SyncChange::NotApplied => {
            (Action::Keep, ReasonCode::NotApplied, "an ignore annotation in the cluster keeps fluxd from applying it")
        }
        SyncChange::MissedForEver => (
            Action::Keep,
            ReasonCode::LeftBehind,
            "it is in no new manifest and keeps the label of the old source, so fluxd never finds it again",
        ),
    };
    Some((action, Reason::new(code, detail)))
}

fn row(action: Action, object: PinnedObject, owner: &OwnerId, reason: Reason) -> Change {
    Change::new(action, object, Some(owner.clone()), Actor::Fluxd, reason)
}
