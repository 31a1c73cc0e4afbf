//! Objects that helm-controller deletes when it uninstalls the release of a deleted HelmRelease.
//!
//! Source: docs/reference/flux.md 6.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::actions::conditions::may_delete_chart;
use super::actions::hook_runs::{
    FailingHooks, REPLACEMENT_REFUSED, Reached, Stage, StepPlace, is_gone_later, not_replaced, uninstall_runs,
};
use super::actions::records::{action_before_install, applied_members, compared, revision};
use super::actions::remedies::orphans_dependents;
use super::shared_release::Heir;
use crate::flux::simulation::model::affected_owner::{Effect, OwnerDeletion};
use crate::flux::simulation::model::facts::watch_selector::unwatched_release;
use crate::flux::simulation::model::node::Blocker;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::owner_kind::unrecorded;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::helm::hooks::{Hook, HookEvent, HookFate};
use crate::helm::records::{Recorded, ReleaseRecords, Revision};
use crate::helm::rendered::has_policy;
use crate::helm::target::ReleaseTarget;
use crate::helm::uninstall::{
    Fate, StoredChart, is_of_helm, live_hooks, records, uninstalled_objects, without_release,
};
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata, Resource, flag_at, text_at};
use crate::ownership::Members;
use crate::ownership::schemes::flux_helmrelease::{helm_chart, is_record, is_record_of, release_record};
use crate::ownership::schemes::helm::HOOK;
use crate::plan::{Action, Reason, ReasonCode};
use crate::text::pluralize;

/// Events of an uninstall.
pub(super) const UNINSTALL_EVENTS: &[HookEvent] = &[HookEvent::PreDelete, HookEvent::PostDelete];

/// Condition under which an object of the inventory stays.
const ONLY_IN_CRDS: &str = "it stays if it is in the crds/ of the chart, and in no template";

/// Returns the events of an uninstall, or those that come before it fails.
fn events(failure: Option<&Failure>) -> &'static [HookEvent] {
    if failure.is_some_and(|failure| failure.at < Step::Comparison) { &UNINSTALL_EVENTS[..1] } else { UNINSTALL_EVENTS }
}

/// Failure of an uninstall. helm-controller tries again without a limit, and the HelmRelease stays terminating.
pub(super) struct Failure {
    why: String,
    at: Step,
}

/// Step of an uninstall that fails. It does not get to those after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Helm reads its records, or runs hooks of which the order is not known.
    Start,
    /// The hooks before the deletions, as far as the server does not refuse one.
    Hooks,
    /// The deletion of the objects of the release. Those that the server does not refuse go.
    Deletions,
    /// The comparison of the revision that is uninstalled with that in the status.
    Comparison,
}

/// An uninstall of a release that exists.
pub(super) struct Uninstall<'u> {
    pub(super) spec: &'u Value,
    /// Mechanism of its deletions.
    pub(super) kind: CascadeKind,
    pub(super) failure: Option<&'u Failure>,
    /// Conditions under which it does not begin.
    pub(super) conditions: &'u [String],
    /// Conditions under which it fails after the hooks before the deletions.
    pub(super) later: &'u [String],
    /// Hooks that it runs first and that can fail.
    pub(super) failing: &'u [ObjectId],
}

/// Returns what the finalizer of a deleted HelmRelease deletes: the objects of its release, Helm's records of it unless
/// `uninstall.keepHistory` is set, and its HelmChart. If the server refuses one deletion, Helm deletes the other
/// objects, and neither its records nor the HelmChart.
pub(super) fn deleted(state: &State<'_>, release: &Resource, consequences: &Consequences<'_>) -> Effect {
    let mut effect = Effect { unknown: unknown(state, release), ..Effect::default() };
    let skipped = skipped(state, release, consequences);
    let missing = missing(state, release, consequences);
    let own: Vec<String> = suspended_first(state, release).into_iter().chain(missing.iter().cloned()).collect();
    let spec = release.spec();
    let failing = failing_hooks(state, release, spec);
    let later = leaving_kinds(state, release, consequences);
    let during: Vec<String> = while_failing(&failing).chain(later.iter().cloned()).collect();
    // The HelmChart goes also if there is no uninstall.
    let (conditions, of_chart) = ([&own[..], &skipped, &during].concat(), [&own[..], &during].concat());
    let chart = helm_chart(&release.content);
    let failure = failure(state, release, spec);
    let denied = undeletable_chart(state, release);
    let unwatched = unwatched(state, release).filter(|blocker| blocker.is_certain).map(|blocker| blocker.reason.detail);
    let why = unwatched.or_else(|| failure.as_ref().map(|failure| failure.why.clone()));
    effect.stuck = why.or_else(|| denied.as_ref().map(|(_, why)| why.clone()));
    let is_run = uninstall_prevented(state, release).is_none();
    if is_run {
        effect.sticks = missing.into_iter().chain(during).collect();
        effect.keeps = kept(state, release, ReasonCode::LeftBehind);
    }
    effect.keeps.extend(denied.map(|(chart, why)| (chart, Reason::new(ReasonCode::AccessDenied, why))));
    let members = fates(state, release);
    let heir = Heir::find(state, release, consequences);
    for object in finalized_objects(state, release) {
        let id = &object.id;
        if let Some(reason) = reason_to_stay(state, release, id, failure.as_ref(), members.contains_key(id)) {
            effect.keeps.insert(id.clone(), reason);
            continue;
        }
        let mut deletion = OwnerDeletion::new(CascadeKind::HelmRelease);
        deletion.orphans_dependents = orphans_dependents(spec);
        if let Some(Fate::Uncertain(why)) = members.get(id) {
            deletion.stays_if(why);
        }
        if let Some(heir) = &heir {
            heir.add_to(state, id, &mut deletion);
        }
        if members.contains_key(id)
            && let Some(why) = record_gone_first(release, id, consequences)
        {
            deletion.stays_if(why);
        }
        let conditions = if chart.as_ref() == Some(id) { &of_chart } else { &conditions };
        effect.deletes.insert(id.clone(), under(deletion, conditions));
    }
    if is_run {
        let failure = failure.as_ref();
        let own_conditions = [own, skipped].concat();
        let (kind, conditions, failing) = (CascadeKind::HelmRelease, &own_conditions[..], &failing[..]);
        let uninstall = Uninstall { spec, kind, failure, conditions, later: &later, failing };
        add_hooks(state, release, &uninstall, &mut effect);
    }
    effect
}

/// Returns what an uninstall deletes of that which exists, if it comes once a new HelmRelease has this effect.
pub(super) fn restarted(state: &State<'_>, id: &ObjectId, effect: &Effect) -> BTreeMap<ObjectId, OwnerDeletion> {
    let (Some(spec), Some(applies)) = (state.specs_after(id).pop(), &effect.applies) else { return BTreeMap::new() };
    let all = applies.steps().flatten();
    let is_hook =
        |manifest: &Value| manifest.pointer("/metadata/annotations").is_some_and(|all| all.get(HOOK).is_some());
    let objects = all.filter(|(_, built)| !has_policy(&built.manifest) && !is_hook(&built.manifest));
    let taken = objects.filter(|(id, _)| state.is_live(id)).map(|(id, _)| {
        let mut deletion = OwnerDeletion::new(CascadeKind::HelmRelease);
        deletion.action = Action::Recreate;
        deletion.orphans_dependents = orphans_dependents(&spec);
        if id.is_definition() {
            deletion.stays_if(ONLY_IN_CRDS);
        }
        (id.clone(), deletion)
    });
    let (name, namespace) = release_record(id, &spec);
    let cluster = state.cluster_of_spec(&id.namespace, &spec).filter(|_| !flag_at(&spec, "/uninstall/keepHistory"));
    let all = cluster.into_iter().flat_map(|cluster| &cluster.objects);
    let records = all.filter(|object| is_record_of(object, &namespace, &name)).map(|record| {
        let action = action_before_install(&record.id);
        (record.id.clone(), OwnerDeletion { action, ..OwnerDeletion::new(CascadeKind::HelmRelease) })
    });
    taken.chain(records).collect()
}

/// Returns the reason why an object stays that an uninstall would delete: the server refuses that, or the uninstall
/// fails before. `is_member` is true for an object of the release.
pub(super) fn reason_to_stay(
    state: &State<'_>,
    release: &Resource,
    id: &ObjectId,
    failure: Option<&Failure>,
    is_member: bool,
) -> Option<Reason> {
    if let Some(message) = state.owner_refusal(&release.object.id, id) {
        return Some(Reason::new(ReasonCode::DeletionRefused, message));
    }
    let held = failure.filter(|failure| match failure.at {
        Step::Start | Step::Hooks => true,
        // The server deletes the other objects of the release, and nothing that comes after them.
        Step::Deletions => !is_member,
        Step::Comparison => {
            !is_member && !state.live_object(id).is_some_and(|object| is_record(&release.content, object))
        }
    })?;
    Some(Reason::new(ReasonCode::HeldBack, format!("the uninstall fails: {}", held.why)))
}

/// Returns the objects of a release, its records and its HelmChart, as far as the finalizer gets to deleting them.
fn finalized_objects<'a>(state: &State<'a>, release: &Resource) -> Vec<&'a ObjectMetadata> {
    let mut objects = vec![];
    if uninstall_prevented(state, release).is_none() {
        objects = uninstalled(state, release, release.spec());
    }
    if suspensions(state, release).contains(&false)
        && unwatched(state, release).is_none_or(|blocker| !blocker.is_certain)
    {
        let chart = helm_chart(&release.content).filter(|chart| may_delete_chart(state, &release.object.id, chart));
        objects.extend(chart.and_then(|chart| state.live_object(&chart)));
    }
    objects
}

/// Returns the HelmChart that helm-controller may not delete with its HelmRelease, with the reason. The HelmRelease
/// then stays terminating.
fn undeletable_chart(state: &State<'_>, release: &Resource) -> Option<(ObjectId, String)> {
    let is_active = !suspensions(state, release).contains(&true);
    let chart = helm_chart(&release.content)
        .filter(|chart| is_active && !may_delete_chart(state, &release.object.id, chart))?;
    let why = format!("helm-controller may not delete {chart}, because it runs with --no-cross-namespace-refs");
    Some((chart, why))
}

/// Returns the live objects that Helm asks the API server to delete. helm-controller deletes the HelmChart with its own
/// account.
pub(super) fn finalized(state: &State<'_>, release: &Resource) -> Vec<ObjectId> {
    if uninstall_prevented(state, release).is_some() {
        return vec![];
    }
    let objects = uninstalled(state, release, release.spec()).into_iter();
    let hooks = hooks(state, release, release.spec(), UNINSTALL_EVENTS).filter(|(_, hook)| hook.deletes());
    objects.chain(hooks.map(|(object, _)| object)).map(|object| object.id.clone()).collect()
}

/// Returns the reason why an uninstall fails for certain.
pub(super) fn failure(state: &State<'_>, release: &Resource, spec: &Value) -> Option<Failure> {
    if uninstall_prevented(state, release).is_some() {
        return None;
    }
    let recorded = recorded(state, release);
    if recorded == Recorded::Unreadable {
        let why = "Helm cannot read any of its records of the release".to_owned();
        return Some(Failure { why, at: Step::Start });
    }
    if let Some(kind) = unserved_kind(state, release) {
        let why = format!("the API server does not serve {kind} of the release");
        return Some(Failure { why, at: Step::Start });
    }
    let is_ordered = stored_chart(state, release).is_some();
    if let Some(RefusedHook { place, why }) = refused_hook(state, release, spec)
        && place.stage < Stage::Objects
    {
        return Some(Failure { why, at: Step::Hooks });
    }
    // Hooks that have no order: it is not known which of them run before.
    let mut labelled = hooks(state, release, spec, &[HookEvent::PreDelete]).filter(|_| !is_ordered);
    if let Some(why) = labelled.find_map(|(object, _)| refusal(state, release, object)) {
        return Some(Failure { why, at: Step::Start });
    }
    let mut others = uninstalled(state, release, spec).into_iter();
    if let Some(why) = others.find_map(|object| refusal(state, release, object)) {
        return Some(Failure { why, at: Step::Deletions });
    }
    let Recorded::Other(Revision { number, .. }) = recorded else { return None };
    let expected = revision(release);
    let stays = records_of(state, release).is_some_and(ReleaseRecords::has_damaged);
    let is_seen = *number != expected && stays && !flag_at(spec, "/uninstall/keepHistory");
    let why = format!("Helm uninstalls revision {number}, and cannot read its record of revision {expected}");
    is_seen.then_some(Failure { why, at: Step::Comparison })
}

/// Returns the records of a release that is uninstalled; `None` if they are not known.
pub(super) fn records_of<'s>(state: &'s State<'_>, release: &Resource) -> Option<&'s ReleaseRecords> {
    state.stored_releases.get(&release.object.id)?.records.as_ref()?.as_ref().ok()
}

/// Returns what the records say about a release that is uninstalled.
fn recorded<'s>(state: &'s State<'_>, release: &Resource) -> Recorded<'s> {
    compared(state, release, records_of(state, release))
}

/// Returns true if the release is uninstalled already, and its record was kept: an uninstall deletes nothing but its
/// records.
///
/// Source: Helm v4.2.2 `pkg/action/uninstall.go`, `Run`; helm-controller v1.6.3
/// `internal/reconcile/uninstall_remediation.go` leaves the inventory in the status.
fn is_uninstalled(state: &State<'_>, release: &Resource) -> bool {
    let last = records_of(state, release).and_then(ReleaseRecords::last).map(|last| &*last.status);
    last.or_else(|| release.text("/status/history/0/status")) == Some("uninstalled")
}

/// Returns the refusal of the server to delete an object for a release.
fn refusal(state: &State<'_>, release: &Resource, object: &ObjectMetadata) -> Option<String> {
    let message = state.owner_refusal(&release.object.id, &object.id)?;
    Some(format!("the server refuses to delete {}: {message}", object.id))
}

/// Returns the live objects with the identities of hooks that an uninstall runs at these events: those of the chart if
/// they are known, and otherwise those with the labels of the release.
pub(super) fn hooks<'a>(
    state: &State<'a>,
    release: &Resource,
    spec: &Value,
    events: &'static [HookEvent],
) -> impl Iterator<Item = (&'a ObjectMetadata, Hook)> {
    let known = stored_hooks(state, release, spec, events);
    let runs = !flag_at(spec, "/uninstall/disableHooks") && known.is_none();
    let rendered = known.into_iter().flatten().filter_map(|(id, hook)| Some((state.live_object(&id)?, hook)));
    let cluster = state.cluster_of(release).filter(|_| runs).into_iter();
    let labelled = cluster.flat_map(move |cluster| live_hooks(cluster, release, events));
    rendered.collect::<Vec<_>>().into_iter().chain(labelled)
}

/// A hook of an uninstall that the server refuses to create or to replace.
struct RefusedHook {
    place: StepPlace,
    why: String,
}

/// Returns the first hook of an uninstall that the server refuses; `None` without a chart that is known, whose hooks
/// have an order.
fn refused_hook(state: &State<'_>, release: &Resource, spec: &Value) -> Option<RefusedHook> {
    let known = stored_hooks(state, release, spec, UNINSTALL_EVENTS)?;
    let messages = &stored_chart(state, release)?.refused_hooks;
    let runs = uninstall_runs(&known);
    let refused = runs.iter().filter_map(|(id, run)| {
        let of_deletion = state.live_object(id).and_then(|object| refusal(state, release, object));
        let why = of_deletion.or_else(|| Some(format!("the server refuses the hook {id}: {}", messages.get(id)?)))?;
        Some(RefusedHook { place: run.first_place(), why })
    });
    refused.min_by_key(|hook| hook.place)
}

/// Returns a deletion under conditions, which is doubtful if there is one.
pub(super) fn under(mut deletion: OwnerDeletion, conditions: &[String]) -> OwnerDeletion {
    deletion.conditions.extend(conditions.iter().cloned());
    deletion.is_doubtful = !deletion.conditions.is_empty();
    deletion
}

/// Adds what the hooks of an uninstall delete and create: those after the deletions only if these succeed. An object
/// that the server does not let go stays.
pub(super) fn add_hooks(
    state: &State<'_>,
    release: &Resource,
    Uninstall { spec, kind, failure, conditions, later, failing }: &Uninstall<'_>,
    effect: &mut Effect,
) {
    let is_at_start = failure.is_some_and(|failure| failure.at == Step::Start);
    let all: Vec<String> = conditions.iter().cloned().chain(while_failing(*failing)).collect();
    let runs = uninstall_runs(&stored_hooks(state, release, spec, UNINSTALL_EVENTS).unwrap_or_default());
    let end = refused_hook(state, release, spec).map(|hook| hook.place);
    for (object, hook) in hooks(state, release, spec, events(*failure)) {
        let reached = end.zip(runs.get(&object.id)).map_or(Reached::Runs(hook.fate()), |(end, run)| run.until(end));
        if let Some(message) = state.owner_refusal(&release.object.id, &object.id) {
            effect.deletes.remove(&object.id);
            effect.keeps.insert(object.id.clone(), Reason::new(ReasonCode::DeletionRefused, message));
        } else if let Some(mut deletion) = hook_deletion(&hook, reached, *kind).filter(|_| !is_at_start) {
            if deletion.action == Action::Recreate && is_gone_later(object) {
                deletion.stays_if(not_replaced(flag_at(spec, "/uninstall/disableWait"), "uninstall"));
            }
            let later = if hook.runs_at(&[HookEvent::PreDelete]) { &[] } else { *later };
            effect.deletes.insert(object.id.clone(), under(deletion, &[&all[..], later].concat()));
        }
    }
    if !is_at_start {
        let created = created_hooks(state, release, spec, events(*failure), conditions, failing).into_iter();
        let left = created.filter(|(id, ..)| end.is_none() || runs.get(id).is_none_or(|run| run.is_left(end)));
        let with_later = left.map(|(id, (hook, mut conditions))| {
            conditions.extend(
                later.iter().filter(|_| !hook.runs_at(&[HookEvent::PreDelete])).map(|later| of_creation(later)),
            );
            (id, conditions)
        });
        effect.creates = with_later.collect();
    }
}

/// Returns the deletion of a live object with the identity of a hook that an uninstall runs; `None` if it deletes
/// nothing.
fn hook_deletion(hook: &Hook, reached: Reached, kind: CascadeKind) -> Option<OwnerDeletion> {
    let mut deletion = OwnerDeletion::new(kind);
    deletion.code = Some(ReasonCode::Hook);
    let fate = match reached {
        Reached::Runs(fate) => fate,
        Reached::Refused => {
            deletion.remark(REPLACEMENT_REFUSED);
            return Some(deletion);
        }
        Reached::Stays => return None,
    };
    match fate {
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
        HookFate::Applied => return None,
    }
    Some(deletion)
}

/// Returns the conditions that hooks which an uninstall runs first succeed.
pub(super) fn while_failing<'h>(hooks: impl IntoIterator<Item = &'h ObjectId>) -> impl Iterator<Item = String> {
    hooks.into_iter().map(|hook| format!("it stays while the hook {hook} fails"))
}

/// Returns the condition under which an object stays as that under which an object is not created.
fn of_creation(condition: &str) -> String {
    condition.strip_prefix("it stays ").map_or_else(|| condition.to_owned(), |when| format!("it is not created {when}"))
}

/// Returns a kind of the release that is not served any more. Helm then cannot read the stored manifest, and deletes
/// nothing.
fn unserved_kind(state: &State<'_>, release: &Resource) -> Option<GroupKind> {
    let cluster = state.cluster_of(release)?;
    manifest_members(state, release).iter().map(ObjectId::group_kind).find(|kind| cluster.lacks_type(kind))
}

/// Returns the reason why it is not known what an uninstall deletes.
fn unknown(state: &State<'_>, release: &Resource) -> Option<Reason> {
    if uninstall_prevented(state, release).is_some() || is_uninstalled(state, release) {
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

/// Returns the conditions under which the finalizer of a deleted HelmRelease uninstalls nothing, and lets it go: the
/// account or the kubeconfig with which it would do so does not exist.
///
/// Source: helm-controller v1.6.3 `internal/controller/helmrelease_controller.go`, `reconcileReleaseDeletion`.
fn skipped(state: &State<'_>, release: &Resource, consequences: &Consequences<'_>) -> Vec<String> {
    // kustomize-controller applies before it prunes, so an account that is created with the deletion may be there in
    // time.
    let account = service_account(state, release)
        .filter(|account| !state.is_live(account) || consequences.may_be_deleted(account));
    let named = state.kube_config(&release.object.id.namespace, release.spec());
    let config = named.filter(|config| state.stays_absent(config) || consequences.may_be_deleted(config));
    account.into_iter().chain(config).map(|needed| without(&needed)).collect()
}

/// Returns the condition that the controller still finds what it needs for an uninstall.
fn without(needed: &ObjectId) -> String {
    format!("it stays if {needed} does not exist by then")
}

/// Returns the condition under which the finalizer of a deleted HelmRelease does nothing, because the HelmRelease is
/// suspended by then; `None` if that is certain.
fn suspended_first(state: &State<'_>, release: &Resource) -> Option<String> {
    let is_open = suspensions(state, release).len() > 1;
    is_open.then(|| format!("it stays if {} is suspended when it is deleted", release.object.id))
}

/// Returns the conditions under which the finalizer of a deleted HelmRelease fails, because the rights of its account
/// or Helm's record are missing.
fn missing(state: &State<'_>, release: &Resource, consequences: &Consequences<'_>) -> Vec<String> {
    let rights =
        service_account(state, release).iter().flat_map(|_| rights_of_accounts(state, release)).collect::<Vec<_>>();
    let mut conditions: Vec<String> =
        rights.iter().filter(|needed| consequences.may_be_deleted(needed)).map(without).collect();
    if let Some(Err(why)) = state.stored_releases.get(&release.object.id).and_then(|stored| stored.records.as_ref()) {
        conditions.push(format!("it stays if Helm's record of the release is damaged, which is not known: {why}"));
    }
    if unwatched(state, release).is_some_and(|blocker| !blocker.is_certain) {
        conditions.push("it stays unless a helm-controller selects the labels of its HelmRelease then".to_owned());
    }
    let first = stored_hooks(state, release, release.spec(), &[HookEvent::PreDelete]).unwrap_or_default();
    let created = first.into_iter().filter(|(id, hook)| !state.is_live(id) || hook.is_deleted_first());
    let places: BTreeSet<ObjectId> = created.map(|(id, _)| id.namespace_object()).collect();
    let leaving = places.iter().filter(|place| {
        !place.name.is_empty() && consequences.may_be_deleted(place) && !awaits_release(release, place, consequences)
    });
    conditions.extend(
        leaving.map(|place| format!("it stays if {place} is terminating before Helm creates its first hook in it")),
    );
    conditions
}

/// Returns the condition under which the finalizer leaves an object of a release in another namespace than Helm's
/// records: it takes a release without a record for uninstalled, and the same change deletes the namespace of the
/// records.
///
/// Source: helm-controller v1.6.3 `internal/reconcile/uninstall.go`, `Reconcile`.
fn record_gone_first(release: &Resource, id: &ObjectId, consequences: &Consequences<'_>) -> Option<String> {
    let (_, storage) = release_record(&release.object.id, release.spec());
    let storage = ObjectId { namespace: storage.as_str().into(), ..id.clone() }.namespace_object();
    let is_elsewhere = *id.namespace != *storage.name && *id != storage;
    let is_open =
        is_elsewhere && consequences.may_be_deleted(&storage) && !awaits_release(release, &storage, consequences);
    is_open.then(|| format!("it stays if the deletion of {storage} takes Helm's record of the release first"))
}

/// Returns true if a namespace is deleted only once a HelmRelease is gone: flux-operator waits for the Flux objects of
/// a ResourceSet before it deletes the others.
///
/// Source: flux-operator v0.58.1 `internal/controller/resourceset_controller.go`, `deleteAllStaged`.
fn awaits_release(release: &Resource, namespace: &ObjectId, consequences: &Consequences<'_>) -> bool {
    let set = |id: &ObjectId| {
        let cascaded = consequences.cascaded.get(id)?;
        [CascadeKind::ResourceSet, CascadeKind::NotInResourceSet].contains(&cascaded.kind).then_some(&cascaded.cause)
    };
    set(&release.object.id).is_some_and(|owner| set(namespace) == Some(owner))
}

/// Returns the conditions under which Helm deletes nothing after its first hooks: the change deletes the definition of
/// a kind of the release. Helm reads all of the manifest that it deletes, and fails each time if a kind is not served
/// any more.
///
/// Source: Helm v4.2.2 `pkg/action/uninstall.go`, `deleteRelease`.
pub(super) fn leaving_kinds(state: &State<'_>, release: &Resource, consequences: &Consequences<'_>) -> Vec<String> {
    let (kept, deleted): (BTreeMap<_, _>, BTreeMap<_, _>) =
        fates(state, release).into_iter().partition(|(_, fate)| matches!(fate, Fate::Kept(_)));
    let read = manifest_members(state, release).into_iter().filter(|id| !kept.contains_key(id));
    // Helm deletes its own definitions after it has read the manifest.
    let leaving = read.filter(|id| {
        let definition = state.definition_of(id).filter(|definition| !deleted.contains_key(definition));
        definition.is_some_and(|definition| consequences.may_be_deleted(&definition))
    });
    let kinds: BTreeSet<GroupKind> = leaving.map(|id| id.group_kind()).collect();
    let why =
        |kind| format!("it stays if the definition of {kind} is gone before Helm reads the manifest of the release");
    kinds.into_iter().map(why).collect()
}

/// Returns the hooks that an uninstall creates and leaves where there is no live object of their identity, with the
/// conditions under which it does not. helm-controller runs those before the deletions again until they succeed.
/// `failing` are those that can fail before.
fn created_hooks(
    state: &State<'_>,
    release: &Resource,
    spec: &Value,
    events: &[HookEvent],
    conditions: &[String],
    failing: &[ObjectId],
) -> BTreeMap<ObjectId, (Hook, Vec<String>)> {
    let is_private = stored_chart(state, release).is_some_and(|stored| stored.is_private);
    let all = stored_hooks(state, release, spec, events).unwrap_or_default().into_iter();
    let absent = all.filter(|(id, _)| !is_private && !state.is_live(id));
    let created = absent.filter_map(|(id, hook)| {
        let others = while_failing(failing.iter().filter(|other| **other != id));
        let mut conditions: Vec<String> =
            conditions.iter().cloned().chain(others).map(|condition| of_creation(&condition)).collect();
        match hook.fate() {
            HookFate::Recreated | HookFate::Applied => {}
            HookFate::Deleted if hook.can_fail() => conditions.push("it is deleted once it has succeeded".to_owned()),
            HookFate::DeletedOnFailure => conditions.push("it is deleted if it fails".to_owned()),
            HookFate::Deleted => return None,
        }
        Some((id, (hook, conditions)))
    });
    created.collect()
}

/// Returns the hooks of the chart that these events run; `None` if they are not known. An uninstall with another target
/// namespace looks there for what its manifest gives no namespace.
fn stored_hooks(
    state: &State<'_>,
    release: &Resource,
    spec: &Value,
    events: &[HookEvent],
) -> Option<BTreeMap<ObjectId, Hook>> {
    if is_uninstalled(state, release) {
        return Some(BTreeMap::new());
    }
    let stored = stored_chart(state, release)?;
    if flag_at(spec, "/uninstall/disableHooks") {
        return Some(BTreeMap::new());
    }
    let [old, new] =
        [release.spec(), spec].map(|spec| ReleaseTarget::of_spec(&release.object.id, spec, None).namespace);
    let run = stored.hooks.iter().filter(|(_, hook)| hook.runs_at(events));
    let placed = run.map(|(id, hook)| {
        let is_implied = text_at(&hook.manifest, "/metadata/namespace").is_empty() && *id.namespace == *old;
        let namespace = if is_implied { new.as_str().into() } else { id.namespace.clone() };
        (ObjectId { namespace, ..id.clone() }, hook.clone())
    });
    Some(placed.collect())
}

/// Returns what the chart of the last release decides; `None` if that is not known, or another revision is uninstalled.
fn stored_chart<'s>(state: &'s State<'_>, release: &Resource) -> Option<&'s StoredChart> {
    let stored = state.stored_releases.get(&release.object.id)?;
    stored.chart.as_ref().filter(|_| recorded(state, release) == Recorded::AsInStatus)
}

/// Returns the hooks that an uninstall runs first and that can fail, whether they are live or not.
pub(super) fn failing_hooks(state: &State<'_>, release: &Resource, spec: &Value) -> Vec<ObjectId> {
    if uninstall_prevented(state, release).is_some() {
        return vec![];
    }
    let live = hooks(state, release, spec, &[HookEvent::PreDelete]).map(|(object, hook)| (object.id.clone(), hook));
    let known = stored_hooks(state, release, spec, &[HookEvent::PreDelete]).into_iter().flatten();
    let all = live.chain(known.filter(|(id, _)| !state.is_live(id))).collect::<Vec<_>>();
    let doubtful = stored_chart(state, release).map(|stored| &stored.doubtful_hooks);
    let may_fail = FailingHooks::of(state, spec, "uninstall");
    let failing =
        all.into_iter().filter(|(id, hook)| may_fail.has(id, hook) || doubtful.is_some_and(|ids| ids.contains(id)));
    failing.map(|(id, _)| id).collect()
}

/// Returns the reason why the finalizer of a deleted HelmRelease uninstalls nothing.
pub(super) fn uninstall_prevented(state: &State<'_>, release: &Resource) -> Option<&'static str> {
    if unwatched(state, release).is_some_and(|blocker| blocker.is_certain) {
        return Some("no helm-controller reconciles it");
    }
    if service_account(state, release).is_some_and(|account| state.stays_absent(&account)) {
        return Some("its service account does not exist");
    }
    let config = state.kube_config(&release.object.id.namespace, release.spec());
    if config.is_some_and(|config| state.stays_absent(&config)) {
        return Some("its kubeconfig does not exist");
    }
    if !suspensions(state, release).contains(&false) {
        return Some("it is suspended");
    }
    without_release(state.cluster_of(release), release)
}

/// Returns a blocker if helm-controller does not select the labels of a HelmRelease, so that its finalizer is not
/// removed either.
fn unwatched(state: &State<'_>, release: &Resource) -> Option<Blocker> {
    unwatched_release(state, &release.object.id)
}

/// Returns whether a HelmRelease is suspended: now, and after each application of its manifest, any of which may come
/// before its deletion.
fn suspensions(state: &State<'_>, release: &Resource) -> BTreeSet<bool> {
    let applied = state.applied_specs(&release.object.id).map(|(spec, _)| flag_at(&spec, "/suspend"));
    applied.chain([release.flag("/spec/suspend")]).collect()
}

/// Returns the live objects that may give an account its rights in the namespaces of a release.
fn rights_of_accounts(state: &State<'_>, release: &Resource) -> Vec<ObjectId> {
    let members = release_members(state, release);
    let namespaces: BTreeSet<&str> = members.iter().map(|(object, _)| &*object.id.namespace).collect();
    let others = state.input.snapshot.ids().filter(|id| !members.iter().any(|(member, _)| member.id == **id));
    let rights = others.filter(|id| {
        let is_everywhere = ["ClusterRole", "ClusterRoleBinding"].contains(&&*id.kind);
        let is_there = ["Role", "RoleBinding"].contains(&&*id.kind) && namespaces.contains(&*id.namespace);
        &*id.group == "rbac.authorization.k8s.io" && (is_everywhere || is_there)
    });
    rights.cloned().collect()
}

/// Returns the account that helm-controller looks for before it uninstalls a release.
fn service_account(state: &State<'_>, release: &Resource) -> Option<ObjectId> {
    let account = state.release_account(release.spec())?;
    let is_remote = release.at("/spec/kubeConfig").is_some_and(|config| !config.is_null());
    let namespace = &release.object.id.namespace;
    (!is_remote).then(|| ObjectId::new("", "ServiceAccount", namespace, account))
}

/// Returns the objects in the manifest that an uninstall reads: that of the last record that Helm can read.
fn manifest_members(state: &State<'_>, release: &Resource) -> BTreeSet<ObjectId> {
    if is_uninstalled(state, release) {
        return BTreeSet::new();
    }
    let members = applied_members(state, release, records_of(state, release));
    match (recorded(state, release), state.cluster_of(release), members) {
        (Recorded::Other(revision), Some(cluster), _) => revision.placed(&cluster.types),
        (_, _, Members::Listed(ids)) => ids.into_iter().collect(),
        _ => BTreeSet::new(),
    }
}

/// Returns the live objects of a release with the effect of an uninstall on them.
fn release_members<'a>(state: &State<'a>, release: &Resource) -> Vec<(&'a ObjectMetadata, Fate)> {
    let mut members = uninstalled_objects(state.input.snapshot, &manifest_members(state, release));
    if let Some(stored) = stored_chart(state, release) {
        members.iter_mut().for_each(|(object, fate)| *fate = stored.fate(object));
    }
    if records_of(state, release).is_none() {
        for (_, fate) in members.iter_mut().filter(|(object, fate)| *fate == Fate::Deleted && !is_of_helm(object)) {
            *fate = Fate::Uncertain(ONLY_IN_CRDS.to_owned());
        }
    }
    members
}

/// Returns the live objects in the inventory of a release that an uninstall does not look for.
fn unlisted(state: &State<'_>, release: &Resource) -> BTreeSet<ObjectId> {
    let (Members::Listed(inventory), members) = (state.members(release), manifest_members(state, release)) else {
        return BTreeSet::new();
    };
    inventory.into_iter().filter(|id| !members.contains(id) && state.is_live(id)).collect()
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
    let purged = records_of(state, release).map(ReleaseRecords::purged);
    let records = cluster.into_iter().flat_map(|cluster| records(cluster, release));
    deleted.chain(records.filter(|record| purged.as_ref().is_none_or(|purged| purged.contains(&record.id)))).collect()
}

/// Returns the objects that an uninstall keeps, with their reasons.
pub(super) fn kept(state: &State<'_>, release: &Resource, code: ReasonCode) -> BTreeMap<ObjectId, Reason> {
    let kept = fates(state, release).into_iter().filter_map(|(id, fate)| match fate {
        Fate::Kept(why) => Some((id, Reason::new(code, why))),
        Fate::Deleted | Fate::Uncertain(_) => None,
    });
    let unlisted = unlisted(state, release).into_iter();
    let why = if is_uninstalled(state, release) {
        "the release is uninstalled already, so that Helm deletes nothing but its records"
    } else {
        "the last record of the release that Helm can read does not list it"
    };
    let damaged = records_of(state, release).into_iter().flat_map(ReleaseRecords::damaged).cloned();
    let left = unlisted.map(|id| (id, why)).chain(damaged.map(|id| (id, "Helm cannot read this record")));
    kept.chain(left.map(|(id, why)| (id, Reason::new(ReasonCode::LeftBehind, why)))).collect()
}
