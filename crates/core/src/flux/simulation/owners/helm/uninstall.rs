//! Objects that helm-controller deletes when it uninstalls the release of a deleted HelmRelease.
//!
//! Source: docs/reference/flux.md 6.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::flux::simulation::model::affected_owner::{Effect, OwnerDeletion};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::owner_kind::unrecorded;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::helm::hooks::{HookEvent, HookFate};
use crate::helm::uninstall::{Fate, live_hooks, records, uninstalled_objects, without_release};
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata, Resource, flag_at, text_at};
use crate::ownership::Members;
use crate::ownership::schemes::flux_helmrelease::helm_chart;
use crate::plan::{Action, Reason, ReasonCode};
use crate::text::pluralize;

/// Events of an uninstall.
const UNINSTALL_EVENTS: &[HookEvent] = &[HookEvent::PreDelete, HookEvent::PostDelete];

/// Returns what the finalizer of a deleted HelmRelease deletes: the objects of its release, Helm's records of it unless
/// `uninstall.keepHistory` is set, and its HelmChart.
pub(super) fn deleted(state: &State<'_>, release: &Resource, consequences: &Consequences<'_>) -> Effect {
    let mut effect = Effect {
        orphans_dependents: orphans_dependents(release.spec()),
        unknown: unknown(state, release),
        ..Effect::default()
    };
    let conditions = conditions(state, release, consequences);
    let suspensions = suspensions(state, release);
    let mut objects = vec![];
    if uninstall_prevented(state, release).is_none() {
        objects = uninstalled(state, release, release.spec());
        effect.keeps = kept(state, release, ReasonCode::LeftBehind);
    }
    if suspensions.contains(&false) {
        objects.extend(helm_chart(&release.content).and_then(|chart| state.live_object(&chart)));
    }
    let unserved = unserved_kind(state, release).filter(|_| !objects.is_empty());
    if let Some(kind) = unserved {
        let why = format!("the uninstall fails while the API server does not serve {kind} of the release");
        let reason = Reason::new(ReasonCode::HeldBack, why);
        effect.keeps.extend(objects.iter().map(|object| (object.id.clone(), reason.clone())));
        return effect;
    }
    if uninstall_prevented(state, release).is_none() && !flag_at(release.spec(), "/uninstall/disableHooks") {
        effect.deletes.extend(hook_deletions(state, release, &conditions));
    }
    let members = fates(state, release);
    for object in objects {
        let mut deletion = OwnerDeletion::new(CascadeKind::HelmRelease);
        if let Some(Fate::Uncertain(why)) = members.get(&object.id) {
            deletion.stays_if(why);
        }
        deletion.conditions.extend(conditions.iter().cloned());
        deletion.is_doubtful = !deletion.conditions.is_empty();
        effect.deletes.insert(object.id.clone(), deletion);
    }
    effect
}

/// Returns the deletions of live hooks that the uninstall runs.
fn hook_deletions(state: &State<'_>, release: &Resource, conditions: &[String]) -> BTreeMap<ObjectId, OwnerDeletion> {
    let cluster = state.cluster_of(release).into_iter();
    let hooks = cluster.flat_map(|cluster| live_hooks(cluster, release, UNINSTALL_EVENTS));
    let mut deletions = BTreeMap::new();
    for (object, hook) in hooks {
        let mut deletion = OwnerDeletion::new(CascadeKind::HelmRelease);
        deletion.code = Some(ReasonCode::Hook);
        match hook.fate() {
            HookFate::Recreated => {
                deletion.action = Action::Recreate;
                deletion.remark("the uninstall deletes it and creates it again");
            }
            HookFate::Deleted => {
                deletion.remark("it is deleted once it has succeeded");
                if hook.can_fail() && !hook.is_deleted_first() {
                    deletion.stays_if("it stays if it fails");
                }
            }
            HookFate::DeletedOnFailure => deletion.stays_if("it stays unless it fails"),
            HookFate::Applied => continue,
        }
        deletion.conditions.extend(conditions.iter().cloned());
        deletion.is_doubtful = !deletion.conditions.is_empty();
        deletions.insert(object.id.clone(), deletion);
    }
    deletions
}

/// Returns a kind of the release that is not served any more. Helm then cannot read the stored manifest, and deletes nothing.
fn unserved_kind(state: &State<'_>, release: &Resource) -> Option<GroupKind> {
    let cluster = state.cluster_of(release).filter(|cluster| !cluster.types.is_empty())?;
    let Members::Listed(ids) = state.members(release) else { return None };
    let is_unserved =
        |kind: &GroupKind| cluster.resource_type(kind).is_none() && cluster.gaps_hiding(kind).next().is_none();
    ids.iter().map(ObjectId::group_kind).find(is_unserved)
}

/// Returns the reason why it is not known what an uninstall deletes.
fn unknown(state: &State<'_>, release: &Resource) -> Option<Reason> {
    if uninstall_prevented(state, release).is_some() {
        return None;
    }
    match state.members(release) {
        Members::Listed(_) => None,
        Members::Remote(ids) => {
            let objects = pluralize(ids.len(), "object");
            Some(unrecorded(&format!("its release of {objects} in another cluster is uninstalled")))
        }
        Members::Unreadable(error) => Some(unrecorded(&error)),
        _ => Some(unrecorded("its release is uninstalled, and it records no inventory")),
    }
}

/// Returns the conditions under which the finalizer of a deleted HelmRelease does nothing.
fn conditions(state: &State<'_>, release: &Resource, consequences: &Consequences<'_>) -> Vec<String> {
    let id = &release.object.id;
    let mut conditions = vec![];
    if suspensions(state, release).len() > 1 {
        conditions.push(format!("it stays if {id} is suspended when it is deleted"));
    }
    let account = service_account(release).filter(|account| consequences.may_be_deleted(account));
    let config = state.kube_config(&id.namespace, release.spec());
    let config = config.filter(|config| state.is_absent(config) || consequences.may_be_deleted(config));
    let needed = account.into_iter().chain(config);
    conditions.extend(needed.map(|needed| format!("it stays if {needed} does not exist by then")));
    let runs_hooks = !flag_at(release.spec(), "/uninstall/disableHooks");
    let hooks = state.cluster_of(release).filter(|_| runs_hooks).into_iter();
    let hooks = hooks.flat_map(|cluster| live_hooks(cluster, release, &[HookEvent::PreDelete]));
    let failing = hooks.filter(|(_, hook)| hook.can_fail()).map(|(object, _)| object);
    conditions.extend(failing.map(|object| format!("it stays while the hook {} fails", object.id)));
    conditions
}

/// Returns the reason why the finalizer of a deleted HelmRelease uninstalls nothing.
fn uninstall_prevented(state: &State<'_>, release: &Resource) -> Option<&'static str> {
    if service_account(release).is_some_and(|account| state.live_object(&account).is_none()) {
        return Some("its service account does not exist");
    }
    if !suspensions(state, release).contains(&false) {
        return Some("it is suspended");
    }
    without_release(state.cluster_of(release), release)
}

/// Returns whether a HelmRelease is suspended: now, and after each application of its manifest, any of which may come
/// before its deletion.
fn suspensions(state: &State<'_>, release: &Resource) -> BTreeSet<bool> {
    let applied = state.applied_specs(&release.object.id).map(|(spec, _)| flag_at(&spec, "/suspend"));
    applied.chain([release.flag("/spec/suspend")]).collect()
}

fn service_account(release: &Resource) -> Option<ObjectId> {
    let account = release.text("/spec/serviceAccountName").filter(|account| !account.is_empty())?;
    let is_remote = release.at("/spec/kubeConfig").is_some_and(|config| !config.is_null());
    let namespace = &release.object.id.namespace;
    (!is_remote).then(|| ObjectId::new("", "ServiceAccount", namespace, account))
}

/// Returns the live objects in the inventory of a release with the effect of an uninstall on them.
fn release_members<'a>(state: &State<'a>, release: &Resource) -> Vec<(&'a ObjectMetadata, Fate)> {
    uninstalled_objects(state.input.snapshot, &state.members(release))
}

/// Returns the effect of an uninstall on the live objects in the inventory of a release, by their identity.
pub(super) fn fates(state: &State<'_>, release: &Resource) -> BTreeMap<ObjectId, Fate> {
    release_members(state, release).into_iter().map(|(object, fate)| (object.id.clone(), fate)).collect()
}

/// Returns the objects in the inventory of a release that an uninstall deletes, and Helm's records of it.
pub(super) fn uninstalled<'a>(state: &State<'a>, release: &Resource, spec: &Value) -> Vec<&'a ObjectMetadata> {
    let members = release_members(state, release).into_iter();
    let deleted = members.filter(|(_, fate)| !matches!(fate, Fate::Kept(_))).map(|(object, _)| object);
    let cluster = state.cluster_of(release).filter(|_| !flag_at(spec, "/uninstall/keepHistory"));
    deleted.chain(cluster.into_iter().flat_map(|cluster| records(cluster, release))).collect()
}

/// Returns the objects that an uninstall keeps, with their reasons.
pub(super) fn kept(state: &State<'_>, release: &Resource, code: ReasonCode) -> BTreeMap<ObjectId, Reason> {
    let kept = fates(state, release).into_iter().filter_map(|(id, fate)| match fate {
        Fate::Kept(why) => Some((id, Reason::new(code, why))),
        Fate::Deleted | Fate::Uncertain(_) => None,
    });
    kept.collect()
}

/// Returns true if the dependents of the objects of a release stay when it is uninstalled.
pub(super) fn orphans_dependents(spec: &Value) -> bool {
    text_at(spec, "/uninstall/deletionPropagation") == "orphan"
}
