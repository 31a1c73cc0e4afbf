//! HelmReleases that stay and whose release is replaced, because its target changes.
//!
//! Source: helm-controller v1.6.3 `internal/controller/helmrelease_controller.go`, `reconcileRelease`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::actions::action::ReleaseAction;
use super::actions::action_kind::ActionKind;
use super::actions::applied::of_chart;
use super::actions::conditions::{condition, denied_chart};
use super::actions::failure::Failure;
use super::actions::hook_runs::hook_runs;
use super::actions::remedies::{Remedy, can_fail_later, keeps_name, orphans_dependents, waits_for_objects};
use super::deployed::deployed;
use super::installs::installation::{may_have_release, rendered};
use super::render::release_charts::{IN_PLACE, last_segment, without_metadata};
use super::uninstall::{
    UNINSTALL_EVENTS, Uninstall, add_hooks, failing_hooks, failure, fates, hooks, kept, leaving_kinds, reason_to_stay,
    records_of, uninstalled, while_failing,
};
use crate::flux::build::{Interrupt, charts};
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Effect, Open, OwnerDeletion, Reaction, Readiness};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::spec::SourceId;
use crate::helm::hooks::{Hook, HookEvent, HookFate};
use crate::helm::records::ReleaseRecords;
use crate::helm::rendered::Rendered;
use crate::helm::target::{ReleaseTarget, TargetPart};
use crate::helm::uninstall::{Fate, live_hooks, without_release};
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, flag_at, text_at};
use crate::ownership::Members;
use crate::ownership::schemes::flux_helmrelease::{GROUP, KIND};
use crate::plan::{Action, Reason, ReasonCode};
use crate::text::pluralize;

/// Events of an install.
const INSTALL_EVENTS: &[HookEvent] = &[HookEvent::PreInstall, HookEvent::PostInstall];

/// The replacement of a release.
#[derive(Clone, Debug, PartialEq)]
struct Replacement {
    part: TargetPart,
    /// Target of the release that is uninstalled.
    old: ReleaseTarget,
    /// Target of the release that is installed.
    new: ReleaseTarget,
    /// Spec with which it happens.
    spec: Value,
    /// Condition under which it happens, for people; `None` if it is certain.
    condition: Option<String>,
    /// Reason why the new release is never installed, for people; `None` if nothing prevents it.
    obstacle: Option<&'static str>,
}

/// Reason why the effect on an object in the old namespace is not known: helm-controller uninstalls in the new namespace, so
/// Helm looks there for objects whose manifest has no namespace.
const IMPLIED_NAMESPACE: &str = "it is deleted if its template sets metadata.namespace, and is left behind otherwise";

/// Returns a HelmRelease whose release is replaced, with the reaction of helm-controller. Answers that are missing are added to
/// the needs.
pub(super) fn replaced_owner(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId) -> Option<AffectedOwner> {
    let (state, consequences) = (comparison.state(), comparison.derivation.consequences);
    let live = state.input.snapshot.resource(id)?;
    let replacement = replacement(state, live, consequences).filter(|_| uninstalls(state, live))?;
    let part = replacement.part;
    let unknown = match state.members(live) {
        Members::Listed(_) => {
            let detail = format!("its {part} changes");
            let mut reason = Reason::new(ReasonCode::ReleaseReplaced, detail);
            if let Some(why) = replacement.obstacle {
                reason.add_detail(&format!("the new release is not installed: {why}"));
            }
            let effect = match installed(comparison, live, &replacement) {
                Ok(effect) => Some(Arc::new(effect)),
                Err(Interrupt::Missing) => None,
                Err(Interrupt::Failed(_)) if is_unknown(&fates(state, live), &replacement) => {
                    let old = &replacement.old.namespace;
                    let unknown = format!("of each of its objects in the namespace {old}: {IMPLIED_NAMESPACE}");
                    return Some(unknown_owner(id, part, &unknown));
                }
                Err(Interrupt::Failed(why)) => {
                    reason.add_detail(&format!("the objects of the new release are not in this plan, because {why}"));
                    contested(state, live, consequences, &replacement).map(Arc::new)
                }
            };
            return Some(AffectedOwner { id: id.clone(), reaction: Reaction::Acts(reason), effect });
        }
        Members::Remote(ids) => {
            format!("{} in another cluster are not in this plan", pluralize(ids.len(), "object"))
        }
        Members::Unreadable(error) => error,
        _ => "it records no inventory".to_owned(),
    };
    Some(unknown_owner(id, part, &unknown))
}

/// Returns the effect of a replacement by a release that perhaps exists; `None` if it does not.
fn contested(
    state: &State<'_>,
    live: &Resource,
    consequences: &Consequences<'_>,
    replacement: &Replacement,
) -> Option<Effect> {
    if has_same_records(&replacement.old, &replacement.new)
        || !may_have_release(state, &live.object.id, &replacement.spec)
    {
        return None;
    }
    let mut effect = replaced(state, live, consequences, replacement);
    let all = state.input.snapshot.resources.iter().map(|other| &other.object.id);
    let others = all.filter(|other| other.is(GROUP, KIND) && **other != live.object.id);
    let targets =
        others.flat_map(|by| state.specs_after(by).into_iter().map(|spec| ReleaseTarget::of_spec(by, &spec, None)));
    let first_records: BTreeSet<ObjectId> = targets.map(|target| target.record(1)).collect();
    for (id, deletion) in &mut effect.deletes {
        if deletion.open != Some(Open::MayComeBack) && !first_records.contains(id) {
            continue;
        }
        deletion.open = None;
        deletion.stays_if("a release of the new name may exist already, which is upgraded and can have it too");
        deletion.is_doubtful = true;
    }
    Some(effect)
}

fn unknown_owner(id: &ObjectId, part: TargetPart, unknown: &str) -> AffectedOwner {
    let detail = format!("its {part} changes, so its release is uninstalled and another one installed; {unknown}");
    AffectedOwner::new(id, Reaction::Unknown(Reason::new(ReasonCode::NotFollowed, detail)))
}

/// Returns true if it is not known which objects a replacement deletes.
fn is_unknown(fates: &BTreeMap<ObjectId, Fate>, Replacement { old, new, .. }: &Replacement) -> bool {
    let mut own = fates.iter().filter(|(id, _)| *id.namespace == *old.namespace);
    old.namespace != new.namespace && own.any(|(_, fate)| !matches!(fate, Fate::Kept(_)))
}

/// Returns what helm-controller does for a live HelmRelease whose release is replaced.
pub(super) fn acting(state: &State<'_>, release: &Resource, consequences: &Consequences<'_>) -> Option<Effect> {
    let replacement = replacement(state, release, consequences).filter(|_| uninstalls(state, release))?;
    Some(replaced(state, release, consequences, &replacement))
}

/// Returns the effect of a replacement without its installation.
fn replaced(
    state: &State<'_>,
    release: &Resource,
    consequences: &Consequences<'_>,
    replacement: &Replacement,
) -> Effect {
    let fates = fates(state, release);
    let namesakes = namesakes(state, &fates, replacement);
    let mut objects = uninstalled(state, release, &replacement.spec);
    objects.extend(namesakes.iter().filter_map(|id| state.live_object(id)));
    if !flag_at(&replacement.spec, "/install/disableHooks") {
        let hooks =
            state.cluster_of(release).into_iter().flat_map(|cluster| live_hooks(cluster, release, INSTALL_EVENTS));
        let deleted = hooks.filter(|(_, hook)| hook.deletes());
        objects.extend(deleted.map(|(object, _)| object));
    }
    let mut effect = Effect {
        triggers: state.applying_events(&release.object.id),
        keeps: kept(state, release, ReasonCode::Protected),
        condition: replacement.condition.clone(),
        ..Effect::default()
    };
    let failure = failure(state, release, &replacement.spec);
    effect.readiness = replacement.obstacle.map_or(Readiness::Open, |why| Readiness::Fails(why.to_owned()));
    for object in objects {
        let id = &object.id;
        if let Some(reason) = reason_to_stay(state, release, id, failure.as_ref(), fates.contains_key(id)) {
            effect.keeps.insert(id.clone(), reason);
            continue;
        }
        let mut deletion = replaced_object(object, fates.get(id), namesakes.contains(id), replacement);
        deletion.orphans_dependents = fates.contains_key(id) && orphans_dependents(&replacement.spec);
        if replacement.obstacle.is_some() {
            deletion.action = Action::Delete;
            deletion.open = None;
        }
        effect.deletes.insert(id.clone(), deletion);
    }
    let failing = failing_hooks(state, release, &replacement.spec);
    let later = leaving_kinds(state, release, consequences);
    let waits: Vec<String> = while_failing(&failing).chain(later.iter().cloned()).collect();
    for deletion in effect.deletes.values_mut() {
        deletion.conditions.extend(waits.iter().cloned());
        deletion.is_doubtful |= !waits.is_empty();
    }
    let conditions: Vec<String> = replacement.condition.iter().cloned().collect();
    let (spec, failure, kind) = (&replacement.spec, failure.as_ref(), CascadeKind::ReplacedRelease);
    let uninstall = Uninstall { spec, kind, failure, conditions: &conditions, later: &later, failing: &failing };
    add_hooks(state, release, &uninstall, &mut effect);
    effect
}

/// Returns true if Helm records the new release under the same names as the old one.
fn has_same_records(old: &ReleaseTarget, new: &ReleaseTarget) -> bool {
    (&old.name, &old.storage_namespace) == (&new.name, &new.storage_namespace)
}

/// Returns the reason why a release with the same records as the old one is never installed, for people; `None` if nothing prevents it.
fn obstacle_to_install(state: &State<'_>, release: &Resource, spec: &Value) -> Option<&'static str> {
    // helm-controller finds no state of the new release then.
    let has_damaged = records_of(state, release).is_some_and(ReleaseRecords::has_damaged);
    let damaged = has_damaged.then_some("Helm cannot read a record of the old release");
    let kept =
        "uninstall.keepHistory keeps the record of the old release, over which Helm installs only with install.replace";
    damaged.or(keeps_name(spec).then_some(kept))
}

/// Returns the effect of a replacement whose releases are rendered.
fn installed(comparison: &mut Comparison<'_, '_, '_>, live: &Resource, replacement: &Replacement) -> Asked<Effect> {
    let (state, consequences) = (comparison.state(), comparison.derivation.consequences);
    let (id, spec) = (&live.object.id, &replacement.spec);
    // Its own record goes with the uninstall.
    if !has_same_records(&replacement.old, &replacement.new) && may_have_release(state, id, spec) {
        return Err("a release of its name may exist already".to_owned().into());
    }
    let mut effect = replaced(state, live, consequences, replacement);
    if effect.deletes.values().any(|deletion| deletion.action == Action::Unknown) {
        settle_namespaces(&mut effect, &deployed(comparison, live)?, replacement);
    }
    let own: BTreeSet<&ObjectId> = hooks(state, live, spec, UNINSTALL_EVENTS).map(|(object, _)| &object.id).collect();
    effect.deletes.retain(|id, deletion| deletion.code != Some(ReasonCode::Hook) || own.contains(id));
    if failure(state, live, spec).is_some() || replacement.obstacle.is_some() {
        return Ok(effect);
    }
    // Without an installation, the release is uninstalled all the same.
    let Ok(installed) = rendered(comparison, id, spec, Some(live))? else {
        effect.deletes.values_mut().for_each(|deletion| deletion.open = None);
        return Ok(effect);
    };
    effect.assumption.clone_from(&installed.assumption);
    let gone: BTreeSet<ObjectId> = effect.deletes.keys().cloned().collect();
    let attempt = installed.attempt(id, spec, &gone);
    let is_impossible = attempt.obstacle(comparison).is_some();
    // Without dry-runs, the plan says that nothing of it is rehearsed.
    let expected = match comparison.state().input.dry_runs {
        None => attempt.failing_step(comparison.state()).map_or(Failure::Unexpected, Failure::Possible).into(),
        Some(_) => attempt.expected(comparison, &BTreeSet::new()),
    };
    let (state, members, new) = (comparison.state(), fates(comparison.state(), live), attempt.new);
    let mut action = ReleaseAction::new(ActionKind::Install);
    action.can_fail_later = can_fail_later(state, spec, action.kind, new);
    action.set_remedy(state, spec, new, None);
    action.waits_for_objects = waits_for_objects(&state.input.helm_controller, spec, action.kind, new);
    action.expect(expected);
    let doubt = doubt(&action);
    action.hooks = hook_runs(state, spec, ActionKind::Install, new, None);
    for (id, deletion) in &mut effect.deletes {
        let comes_back =
            new.objects.contains(id) || action.hooks.get(id).is_some_and(|run| run.fate != HookFate::Deleted);
        deletion.open = None;
        if comes_back && !is_impossible && deletion.action == Action::Delete {
            deletion.action = Action::Recreate;
            deletion.conditions.extend(doubt.clone());
        }
    }
    if is_impossible {
        return Ok(effect);
    }
    action.remedied.retain(|id, _| !gone.contains(id));
    effect.applies =
        attempt.applies(comparison, [new], &action, doubt.is_some()).map(|applies| of_chart(applies, &installed.chart));
    action.hooks.retain(|id, _| !members.contains_key(id));
    let deployed = live.text("/status/history/0/chartVersion").unwrap_or_default();
    let chart_changes = without_metadata(deployed) != without_metadata(installed.version());
    // source-controller may have the new chart only after the new spec is there.
    let comes_later = chart_changes.then(|| "it stays if the deployed chart is installed first".to_owned());
    action.waits = replacement.condition.clone().or(comes_later);
    effect.deletes.extend(action.effect(state, id).deletes);
    Ok(effect)
}

/// Returns the condition under which an installation leaves objects behind that it does not create, or that its remedy deletes
/// again, for people; `None` if nothing makes it fail.
fn doubt(action: &ReleaseAction) -> Option<String> {
    let is_remedied = matches!(action.remedy, Remedy::Uninstall { .. });
    let may_fail = action.failure != Failure::Unexpected || (is_remedied && action.may_fail_later());
    let why = action.failures().next().map(|why| format!(": {why}")).unwrap_or_default();
    may_fail.then(|| format!("it does not come back if the installation fails{why}"))
}

/// Returns true if the manifest of an object has a namespace.
fn sets_namespace(rendered: &Rendered, id: &ObjectId) -> bool {
    let manifest = rendered.manifests().get(id);
    manifest.is_some_and(|manifest| !text_at(manifest, "/metadata/namespace").is_empty())
}

/// Settles the deletions of objects whose manifest may have no namespace, by the manifest of the deployed release: Helm looks for
/// those in the new namespace.
fn settle_namespaces(effect: &mut Effect, old: &Rendered, Replacement { old: target, .. }: &Replacement) {
    let Effect { deletes, keeps, .. } = effect;
    deletes.retain(|id, deletion| {
        if deletion.action != Action::Unknown {
            return true;
        }
        let is_old = *id.namespace == *target.namespace;
        let namesake = ObjectId { namespace: target.namespace.as_str().into(), ..id.clone() };
        let is_deleted = if is_old { sets_namespace(old, id) } else { !sets_namespace(old, &namesake) };
        if is_deleted {
            deletion.action = Action::Delete;
            deletion.open = None;
        } else if is_old {
            let why = "its template sets no metadata.namespace, so that Helm looks for it in the new namespace";
            keeps.insert(id.clone(), Reason::new(ReasonCode::LeftBehind, why));
        }
        is_deleted
    });
}

/// Returns the objects in the new namespace of a release with the names of objects in the old one. helm-controller
/// uninstalls in the new namespace, and Helm does not look at the owner of what it deletes.
fn namesakes(
    state: &State<'_>,
    fates: &BTreeMap<ObjectId, Fate>,
    Replacement { old, new, .. }: &Replacement,
) -> BTreeSet<ObjectId> {
    if old.namespace == new.namespace {
        return BTreeSet::new();
    }
    let deleted = fates.iter().filter(|(id, fate)| *id.namespace == *old.namespace && !matches!(fate, Fate::Kept(_)));
    let moved = deleted.map(|(id, _)| ObjectId { namespace: new.namespace.as_str().into(), ..id.clone() });
    moved.filter(|id| state.live_object(id).is_some()).collect()
}

/// Returns the deletion of an object by the replacement of a release. `fate` is set for a member of the release.
fn replaced_object(
    object: &ObjectMetadata,
    fate: Option<&Fate>,
    is_namesake: bool,
    replacement: &Replacement,
) -> OwnerDeletion {
    let Replacement { part, old, new, condition, .. } = replacement;
    let mut deletion = OwnerDeletion::new(CascadeKind::ReplacedRelease);
    if let Some(Fate::Uncertain(why)) = fate {
        deletion.stays_if(why);
    }
    deletion.remark(format!("its {part} changes"));
    deletion.conditions.extend(condition.clone());
    let id = &object.id;
    if is_namesake {
        deletion.action = Action::Unknown;
        deletion.open = Some(Open::Remark(format!(
            "it has the name of an object of the release in the namespace {}, and is deleted instead of that if the \
             template of the object does not set metadata.namespace",
            old.namespace
        )));
    } else if let (Some(hook), None) = (Hook::of_live(object), fate) {
        if hook.fate() == HookFate::Recreated {
            deletion.action = Action::Recreate;
        }
        deletion.code = Some(ReasonCode::Hook);
        deletion.stays_if("it stays if the new release does not have this hook");
    } else if fate.is_none() {
        // The installation records revision 1 of the new release.
        if has_same_records(old, new) && id.name.ends_with(".v1") {
            deletion.action = Action::Recreate;
        }
    } else if old.namespace != new.namespace && *id.namespace == *old.namespace {
        deletion.action = Action::Unknown;
        deletion.open = Some(Open::Remark(IMPLIED_NAMESPACE.to_owned()));
    } else {
        deletion.open = Some(Open::MayComeBack);
    }
    deletion.is_doubtful = !deletion.conditions.is_empty();
    deletion
}

/// Returns the target of a HelmRelease with a spec, and the part of it that is another one than in `old`; `None` if there is none.
fn new_target(
    state: &State<'_>,
    release: &Resource,
    spec: &Value,
    old: &ReleaseTarget,
) -> Option<(TargetPart, ReleaseTarget)> {
    let new = ReleaseTarget::of_spec(&release.object.id, spec, new_chart_name(state, release, spec, old));
    Some((old.change_to(&new)?, new))
}

/// Returns the replacement of the release of a HelmRelease that stays; `None` if its target does not change.
fn replacement(state: &State<'_>, release: &Resource, consequences: &Consequences<'_>) -> Option<Replacement> {
    let id = &release.object.id;
    let stays = release.object.deletion_timestamp.is_none() && !consequences.may_be_deleted(id);
    if !id.is(GROUP, KIND) || !stays || state.is_suspended_after(id) || state.check_decrypted(id).is_err() {
        return None;
    }
    let old = ReleaseTarget::recorded(&release.content)?;
    let specs = state.specs_after(id);
    if specs.iter().any(|spec| denied_chart(state, id, spec).is_some()) {
        return None;
    }
    // It is uninstalled in the other cluster, where it is not.
    if specs.iter().any(|spec| spec.get("kubeConfig") != release.spec().get("kubeConfig")) {
        return None;
    }
    // A target that differs already is not an effect of this change.
    let differs_already =
        new_target(state, release, release.spec(), &old).is_some_and(|(part, _)| part != TargetPart::Chart);
    if differs_already && !release.flag("/spec/suspend") && specs.iter().all(|spec| spec == release.spec()) {
        return None;
    }
    let (spec, (part, new)) = specs.iter().find_map(|spec| Some((spec, new_target(state, release, spec, &old)?)))?;
    let is_in_every_spec = specs.iter().all(|spec| new_target(state, release, spec, &old).is_some());
    let condition = if is_in_every_spec {
        let keys = ["chart", "chartRef"];
        let chart_changes = keys.iter().any(|key| spec.get(key) != release.spec().get(key));
        let is_in_git = text_at(spec, "/chart/spec/sourceRef/kind") == "GitRepository";
        condition(
            state,
            consequences,
            id,
            Some(release),
            spec,
            (part == TargetPart::Chart || chart_changes) && !is_in_git,
        )
    } else {
        Some("it depends on which Kustomization applies it last".to_owned())
    };
    let obstacle = if has_same_records(&old, &new) { obstacle_to_install(state, release, spec) } else { None };
    Some(Replacement { part, old, new, spec: spec.clone(), condition, obstacle })
}

/// Returns true if the uninstall of a replaced release deletes anything, once the HelmRelease is resumed.
fn uninstalls(state: &State<'_>, release: &Resource) -> bool {
    without_release(state.cluster_of(release), release).is_none()
}

/// Returns the name of the chart with this spec if it is known that it is another chart.
fn new_chart_name(state: &State<'_>, release: &Resource, spec: &Value, old: &ReleaseTarget) -> Option<String> {
    if text_at(spec, "/upgrade/chartNameChangeStrategy") == IN_PLACE {
        return None;
    }
    let chart = spec.pointer("/chart/spec")?;
    let source = SourceId::of_chart(chart, &release.object.id.namespace);
    if source.kind == "HelmRepository" {
        let live = last_segment(text_at(release.spec(), "/chart/spec/chart"));
        let is_comparable = old.chart.as_deref() == Some(&*live);
        return is_comparable.then(|| last_segment(text_at(chart, "/chart")));
    }
    charts::name_in(state.input.trees.get(&source)?, chart)
}
