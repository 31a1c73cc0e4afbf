//! Upgrades of Helm releases: the chart is rendered as it is deployed and as it will be.
//!
//! Source: docs/reference/flux.md 6.3 and 8.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::actions::action::ReleaseAction;
use super::actions::action_kind::ActionKind;
use super::actions::applied::of_chart;
use super::actions::conditions::{condition, unmet_dependency};
use super::actions::failure::{Attempt, Failure};
use super::actions::hook_runs::hook_runs;
use super::actions::records::{
    applied_members, forgotten_records, has_failed_upgrade, left_behind, outdated_records, release_target, revision,
};
use super::actions::remedies::{Remedy, can_fail_later, waits_for_objects};
use super::change::{Change, Prepared, Specs, prepared, prepared_again};
use super::drift::corrected;
use super::remarks::described;
use super::render::release_charts::UNKNOWN_REVISION;
use super::render::rendering::{Place, Rendering, Version};
use crate::flux::apply::question::HELM_CONTROLLER;
use crate::flux::simulation::model::affected_owner::OwnerApply;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::Followed;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::behaviour::scaling::{Scaling, released_claims};
use crate::helm::hooks::Hook;
use crate::helm::records::ReleaseRecords;
use crate::helm::rendered::{POLICY, Rendered, is_kept_live};
use crate::helm::target::ReleaseTarget;
use crate::kubernetes::object::{ObjectId, Resource, flag_at};
use crate::kubernetes::recording::check_recorded;
use crate::ownership::Members;
use crate::ownership::schemes::flux_helmrelease::{NAME, NAMESPACE};
use crate::ownership::schemes::helm::RELEASE_NAME;
use crate::plan::{Action, Reason, ReasonCode};

/// Conditions under which an object is removed that not every manifest has.
const DEFINITIONS: &str = "it depends on whether the definitions that this change creates exist by then";
const KEPT_FIRST: &str = "it stays if an upgrade comes first that keeps it";
const TAKEN_FIRST: &str = "it stays unless an upgrade comes first that takes it over";
const AFTER_FAILURE: &str = "it stays if the revision before the failed upgrade does not have it";

/// Renders of a release before and after the change.
struct Renders {
    old: Rendered,
    new: Rendered,
    between: Vec<Rendered>,
    /// The new chart, if definitions that the change creates come first.
    later: Option<Rendered>,
    /// Condition under which there is an upgrade, because the new chart fails with the new values.
    doubt: Option<String>,
}

/// Computes the effect of a changed chart or changed values on a release. Answers that are missing are added to the
/// needs.
///
/// Fails with the reason why the effect is not known.
pub(super) fn upgrade(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Asked<Followed> {
    let specs = Specs::find(comparison.state(), live)?;
    match followed(comparison, live, specs)? {
        Some(followed) => Ok(followed),
        None => corrected(comparison, live),
    }
}

/// Returns the upgrade of a release for these specs; `None` if nothing changes that is a reason for one.
///
/// Fails with the reason why the effect is not known.
pub(super) fn followed(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    specs: Specs,
) -> Asked<Option<Followed>> {
    let change = match prepared(comparison, live, specs)? {
        Prepared::Unchanged => return Ok(None),
        Prepared::Blocked(followed) => return Ok(Some(followed)),
        Prepared::Changed(change) => change,
    };
    if let Some(reason) = unmet_dependency(comparison.state(), &live.object.id, &change.spec) {
        return Ok(Some(Followed::failing(reason.code, reason.detail)));
    }
    let mut place = Place::find(comparison, &live.object.id, live.spec(), release_target(live))?;
    let followed = match renders(comparison, live, &change, &mut place)? {
        Ok(renders) => acted(comparison, live, &change, &renders, &place)?,
        Err(why) => Followed::failing(ReasonCode::RenderFails, why),
    };
    Ok(Some(followed))
}

/// Computes the effect of an upgrade by a HelmRelease that takes over the release of another one. `assumed` is that one
/// under the name of the new one.
pub(super) fn taken_over(comparison: &mut Comparison<'_, '_, '_>, assumed: &Resource) -> Asked<Followed> {
    let (spec, _) = comparison.state().successive_specs(&assumed.object.id)?;
    check_recorded(&spec)?;
    let change = match prepared_again(comparison, assumed, spec)? {
        Prepared::Changed(change) => change,
        Prepared::Blocked(followed) => return Ok(followed),
        Prepared::Unchanged => return Ok(Followed::Unchanged),
    };
    let target = ReleaseTarget::recorded(&assumed.content).ok_or_else(|| "it has no release".to_owned())?;
    let mut place = Place::find(comparison, &assumed.object.id, &change.spec, target)?;
    match renders(comparison, assumed, &change, &mut place)? {
        Ok(renders) => acted(comparison, assumed, &change, &renders, &place),
        Err(why) => Ok(Followed::failing(ReasonCode::RenderFails, why)),
    }
}

/// Returns the live objects with the labels of a release that are no hooks.
fn labelled(state: &State<'_>, live: &Resource) -> Vec<ObjectId> {
    let ObjectId { name, namespace, .. } = &live.object.id;
    let objects = state.cluster_of(live).into_iter().flat_map(|cluster| &cluster.objects);
    let own = objects.filter(|object| {
        object.labels.get(NAME) == Some(name)
            && object.labels.get(NAMESPACE) == Some(namespace)
            && object.annotations.get(RELEASE_NAME).is_some()
            && Hook::of_live(object).is_none()
    });
    own.map(|object| object.id.clone()).collect()
}

/// Renders a release before and after the change. Returns the message if the new chart always fails.
fn renders(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    change: &Change,
    place: &mut Place<'_>,
) -> Asked<Result<Renders, String>> {
    let members = applied_members(comparison.state(), live, change.records.as_ref());
    let mut inventory = match (members, &change.basis) {
        (Members::Listed(inventory), _) => inventory,
        (_, Some(_)) => vec![],
        (_, None) => return Err("it records no inventory".to_owned().into()),
    };
    if has_failed_upgrade(live) {
        inventory = labelled(comparison.state(), live);
    }
    let revision = change.basis.as_ref().map_or_else(|| revision(live), |basis| basis.revision);
    let skips_schema = flag_at(&change.spec, "/upgrade/disableSchemaValidation");
    let is_random = change.old.as_ref().is_some_and(Version::is_random);
    // All are asked for at once, so that they are rendered side by side.
    let old = change.old.as_ref().map(|old| place.render(comparison, old.draft(live.spec(), revision, true)));
    let new = place.render_twice(comparison, change.new.draft(&change.spec, revision + 1, skips_schema));
    let later = place.render_later(comparison, change.new.draft(&change.spec, revision + 1, skips_schema));
    let mut between = vec![];
    for version in &change.between {
        between.push(place.render(comparison, version.draft(&change.spec, revision + 1, skips_schema)));
    }
    let old = match old.transpose()? {
        // What a template looks up may have changed since the last release, whose inventory is right then.
        // Objects with random names are in its inventory too.
        Some(Rendering::Done(old)) if old.depends_on_cluster || is_random => {
            old.with_recorded(&inventory, &place.snapshot.types)
        }
        Some(Rendering::Done(old)) => *old,
        Some(Rendering::Refused(_)) | None => match &change.basis {
            Some(basis) => Rendered::of_objects(basis.objects.clone()),
            None => Rendered::default().with_recorded(&inventory, &place.snapshot.types),
        },
        Some(Rendering::Fails(why)) => return Err(format!("its deployed chart is not rendered here: {why}").into()),
    };
    let differing = old.difference_from(&inventory, &place.snapshot.types);
    if let Some(differing) = differing.filter(|_| change.basis.is_none()) {
        let why = format!("its deployed chart renders here to other objects than its inventory lists: {differing}");
        return Err(why.into());
    }
    let new = match new? {
        Rendering::Done(new) => *new,
        Rendering::Fails(why) | Rendering::Refused(why) => {
            let mut first = vec![];
            for intermediate in between {
                if let Rendering::Done(rendered) = intermediate? {
                    first.push(*rendered);
                }
            }
            let doubt = format!(
                "it stays unless an upgrade with the new chart or the new values alone comes first: with both, {why}"
            );
            return match <[Rendered; 1]>::try_from(first) {
                Ok([new]) => Ok(Ok(Renders { old, new, between: vec![], later: None, doubt: Some(doubt) })),
                Err(several) if several.is_empty() => Ok(Err(why)),
                Err(_) => Err(doubt.into()),
            };
        }
    };
    let mut renders = Renders { old, new, between: vec![], later: later?, doubt: None };
    for intermediate in between {
        // One that fails deletes nothing.
        if let Rendering::Done(rendered) = intermediate? {
            renders.between.push(*rendered);
        }
    }
    Ok(Ok(renders))
}

/// Returns what helm-controller does in an upgrade.
fn acted(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    change: &Change,
    renders: &Renders,
    place: &Place<'_>,
) -> Asked<Followed> {
    let (id, kind, spec) = (&live.object.id, ActionKind::Upgrade, &change.spec);
    let state = comparison.state();
    let mut action = upgrade_action(comparison, live, change, renders)?;
    let Renders { old, new, between, later, .. } = renders;
    let is_private = [old, new].into_iter().chain(between).chain(later).any(|rendered| rendered.is_private);
    let attempt = Attempt {
        kind,
        id,
        spec,
        place,
        new,
        old: Some(old),
        gone: &BTreeSet::new(),
        changes_all: change.changes_all,
        revision: change.basis.as_ref().map_or_else(|| revision(live), |basis| basis.revision) + 1,
        steps: 1 + between.len(),
        is_private,
    };
    if let Some(why) = attempt.obstacle(comparison) {
        let blocked = if action.has_steps { Followed::blocked } else { Followed::failing };
        return Ok(blocked(ReasonCode::ApplyRefused, why));
    }
    let removed: BTreeSet<ObjectId> =
        action.removed.iter().filter(|id| !state.live_object(id).is_some_and(is_kept_live)).cloned().collect();
    action.expect(attempt.expected(comparison, &removed));
    action.keep_applied(new, !flag_at(spec, "/upgrade/disableHooks"));
    let refused_remedy = attempt.refused_remedy(comparison, action.remedy);
    if refused_remedy.is_some() {
        action.forgo_remedy();
    }
    action.unrecorded_rollback = attempt.unrecorded_rollback(comparison, action.remedy);
    let mut effect = action.effect(state, id);
    if change.basis.is_some() {
        let left = left_behind(state, live, "the record of the release that Helm upgrades does not list it");
        effect.keeps.extend(left.into_iter().filter(|(id, _)| !old.objects.contains(id) && !new.objects.contains(id)));
        effect.keeps.retain(|id, _| !effect.deletes.contains_key(id));
    }
    effect.keeps.extend(attempt.refused_update(state, &action));
    for (record, deletion) in outdated_records(state, live, spec, change.records.as_ref(), &action) {
        // A remedy that uninstalls records revision 1 again.
        let is_replaced = effect.deletes.get(&record).is_some_and(|other| other.action == Action::Recreate);
        if !is_replaced && (!deletion.is_doubtful || !effect.deletes.contains_key(&record)) {
            effect.deletes.insert(record, deletion);
        }
    }
    let is_doubtful = action.failure != Failure::Unexpected
        || later.is_some()
        || (action.may_fail_later() && (action.remedy == Remedy::Rollback || flag_at(spec, "/upgrade/cleanupOnFail")));
    let manifests = [new].into_iter().chain(later);
    let none = BTreeSet::new();
    let earlier = between.iter().map(|first| Arc::new(attempt.applied_objects(comparison, [first], &none))).collect();
    effect.applies = attempt
        .applies(comparison, manifests, &action, is_doubtful)
        .map(|applies| OwnerApply { earlier, ..of_chart(applies, &change.new.chart) });
    let mut remarks = described(live, change);
    if new.objects.iter().any(|id| id.name.contains(UNKNOWN_REVISION)) {
        remarks.push("objects that are named by the new revision are created and not in this plan".to_owned());
    }
    remarks.extend(action.failures());
    remarks.extend(action.remedy.describe(kind));
    remarks.extend(refused_remedy.map(|why| format!("the API server refuses a hook of its remedy: {why}")));
    if matches!(action.failure, Failure::Always(_)) && effect.deletes.is_empty() {
        let reason = Reason::new(ReasonCode::ApplyRefused, remarks.join("; "));
        return Ok(Followed::Blocked { reason, effect: Box::new(effect) });
    }
    Ok(Followed::Acts { effect: Box::new(effect), code: kind.code(), remarks })
}

/// Returns the steps of an upgrade, and what its failures and its remedy delete.
fn upgrade_action(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    change: &Change,
    Renders { old, new, between, later, doubt }: &Renders,
) -> Asked<ReleaseAction> {
    let (id, kind, spec) = (&live.object.id, ActionKind::Upgrade, &change.spec);
    let state = comparison.state();
    let mut action = ReleaseAction::new(kind);
    action.assumption.clone_from(&change.assumption);
    action.waits = condition(state, comparison.derivation.consequences, id, Some(live), spec, false);
    if doubt.is_some() {
        action.waits.clone_from(doubt);
    }
    if change.condition.is_some() {
        action.waits.clone_from(&change.condition);
    }
    action.does_not_wait = flag_at(spec, "/upgrade/disableWait");
    action.hooks = hook_runs(state, spec, kind, new, Some(old));
    // Helm leaves a kept object, and applies it again as a hook.
    action.hooks.retain(|id, _| !(old.objects.contains(id) && state.live_object(id).is_some_and(is_kept_live)));
    action.removed = old.objects.difference(&new.objects).filter(|id| !action.becomes_hook(id)).cloned().collect();
    action.loosened = loosened(live, spec, old, between);
    let manifests = new.manifests().iter().filter(|(id, _)| old.objects.contains(*id));
    action.claims = released_claims(comparison, manifests.map(Scaling::of_rendered), HELM_CONTROLLER)?;
    let tightened =
        action.removed.iter().filter(|id| !old.is_kept(id) && between.iter().any(|first| first.is_kept(id)));
    action.undecided = tightened.map(|id| (id.clone(), KEPT_FIRST)).collect();
    action.add_passing(between.iter().flat_map(|first| first.passing(&[old, new])), TAKEN_FIRST);
    if let Some(later) = later {
        let gone = old.objects.difference(&later.objects).cloned().collect::<BTreeSet<_>>();
        action.undecided.extend(gone.symmetric_difference(&action.removed).map(|id| (id.clone(), DEFINITIONS)));
        let gone: Vec<ObjectId> = gone.into_iter().filter(|id| !action.becomes_hook(id)).collect();
        action.removed.extend(gone);
    }
    if has_failed_upgrade(live) && change.basis.is_none() {
        action.undecided.extend(action.removed.iter().map(|id| (id.clone(), AFTER_FAILURE)));
    }
    let runs_hooks = !flag_at(spec, "/upgrade/disableHooks");
    for intermediate in between {
        let gone = old.objects.difference(&intermediate.objects).filter(|id| new.objects.contains(*id));
        action.interrupted.extend(gone.cloned());
        let fates = intermediate.hook_fates(Some(old), kind.events()).into_iter();
        action.interrupted_hooks.extend(fates.filter(|(id, _)| runs_hooks && !action.hooks.contains_key(id)));
    }
    action.has_steps = !between.is_empty();
    action.can_fail_later = can_fail_later(state, spec, kind, new);
    action.waits_for_objects = waits_for_objects(&state.input.helm_controller, spec, kind, new);
    action.set_remedy(state, spec, new, Some(old));
    if matches!(action.remedy, Remedy::Uninstall { .. }) && !flag_at(spec, "/uninstall/keepHistory") {
        action.remedied.extend(forgotten_records(state, live, change.records.as_ref()));
        // It is not installed again while a record is left that Helm cannot read.
        if change.records.as_ref().is_some_and(ReleaseRecords::has_damaged) {
            action.remedied.values_mut().for_each(|then| *then = Action::Delete);
        }
    }
    Ok(action)
}

/// Returns the objects that the deployed manifest keeps, and an intermediate one does not.
fn loosened(live: &Resource, spec: &Value, old: &Rendered, between: &[Rendered]) -> BTreeSet<ObjectId> {
    if keeps_all(spec) {
        return BTreeSet::new();
    }
    let kept = old.objects.iter().filter(|id| keeps_all(live.spec()) || old.is_kept_once_applied(id));
    let loosens = |new: &Rendered, id: &ObjectId| new.objects.contains(id) && !new.is_kept_once_applied(id);
    let loosened = kept.filter(|id| between.iter().any(|new| loosens(new, id)));
    loosened.cloned().collect()
}

/// Returns true if a spec marks all objects of its release to be kept.
fn keeps_all(spec: &Value) -> bool {
    spec.pointer("/commonMetadata/annotations").is_some_and(|annotations| annotations.get(POLICY).is_some())
}
