//! HelmReleases: upgrades, replacements and uninstalls of their releases.

mod actions;
mod change;
mod chart_first;
mod commands;
mod deployed;
pub(crate) mod drift;
mod installs;
mod own_chart;
mod remarks;
pub(crate) mod render;
pub(crate) mod replaced_releases;
mod shared_release;
pub(crate) mod uninstall;
mod upgrades;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use self::actions::action_kind::ActionKind;
use self::actions::conditions::{denied_chart, dependencies, waits_for_dependency};
use self::actions::records::left_behind;
use self::chart_first::with_chart_first;
use self::installs::installation::{is_not_installed, may_have_release};
use self::own_chart::with_left_chart;
use self::render::release_charts::{first_chart, is_in_tree};
use self::render::release_values::values;
use crate::flux::health_exprs::{InvalidExprs, invalid_exprs};
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Effect, Reaction, Readiness};
use crate::flux::simulation::model::facts::watch_selector::unwatched_release;
use crate::flux::simulation::model::node::Blocker;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::{ChangeRules, Followed, changed_owner};
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison, Part};
use crate::flux::simulation::owners::behaviour::owner_kind::OwnerKind;
use crate::helm::target::ReleaseTarget;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::schemes::flux_helmrelease::{GROUP, KIND};
use crate::plan::{Actor, Reason, ReasonCode};

/// HelmReleases.
pub(super) const RELEASES: OwnerKind = OwnerKind {
    group: GROUP,
    kind: KIND,
    actor: Actor::HelmController,
    affected,
    acting: replaced_releases::acting,
    find_out: commands::find_out,
    deleted: uninstall::deleted,
    finalized: uninstall::finalized,
    stored: deployed::stored,
};

const RULES: ChangeRules = ChangeRules {
    group: GROUP,
    kind: KIND,
    not_computed: "its chart is not rendered here",
    creation_remark: "its release will be installed; the objects of the chart are not in this plan, and its namespace has none that a \
                      hook or a failure could delete",
    references,
    is_inactive: is_suspended_after,
    has_nothing: |_, _| false,
    taken_over,
    stake,
    restart: uninstall::restarted,
    deleted: uninstall::deleted,
    follow,
};

fn affected(comparison: &mut Comparison<'_, '_, '_>) -> Vec<AffectedOwner> {
    let ids = comparison.ids_of(GROUP, KIND);
    let found = ids.iter().filter_map(|id| {
        let replaced = replaced_releases::replaced_owner(comparison, id);
        let owner = replaced.or_else(|| changed_owner(comparison, id, &RULES));
        let owner = with_left_chart(comparison, id, owner).map(|owner| with_expressions(comparison, owner));
        let owner = with_chart_first(comparison, id, owner);
        owner.map(|owner| with_selector(comparison, owner))
    });
    found.collect()
}

/// Returns an owner that does nothing if helm-controller does not select its labels.
fn with_selector(comparison: &Comparison<'_, '_, '_>, owner: AffectedOwner) -> AffectedOwner {
    match unwatched_release(comparison.state(), &owner.id) {
        None => owner,
        Some(Blocker { reason, is_certain: true }) => stopped(owner.id, reason),
        Some(Blocker { reason, .. }) => under_condition(comparison, owner, &reason.detail),
    }
}

/// Returns an owner that does nothing if its `healthCheckExprs` are refused: helm-controller checks them before anything else.
///
/// Source: helm-controller v1.6.3 `internal/controller/helmrelease_controller.go`, `reconcileRelease`.
fn with_expressions(comparison: &Comparison<'_, '_, '_>, owner: AffectedOwner) -> AffectedOwner {
    let specs = comparison.state().specs_after(&owner.id);
    let refused: Vec<InvalidExprs> = specs.iter().filter_map(invalid_exprs).collect();
    let is_certain = refused.len() == specs.len() && refused.iter().all(|refused| refused.is_certain);
    match refused.into_iter().next() {
        None => owner,
        Some(InvalidExprs { detail, .. }) if is_certain => {
            stopped(owner.id, Reason::new(ReasonCode::ExpressionInvalid, detail))
        }
        Some(InvalidExprs { detail, .. }) => under_condition(comparison, owner, &detail),
    }
}

/// Returns an owner for which helm-controller does nothing, for this reason.
fn stopped(id: ObjectId, reason: Reason) -> AffectedOwner {
    let effect = Effect { readiness: Readiness::Fails(reason.detail.clone()), ..Effect::default() };
    AffectedOwner { id, reaction: Reaction::Waits(reason), effect: Some(Arc::new(effect)) }
}

/// Returns an owner for which helm-controller acts only under a condition.
fn under_condition(comparison: &Comparison<'_, '_, '_>, owner: AffectedOwner, condition: &str) -> AffectedOwner {
    let (state, consequences) = (comparison.state(), comparison.derivation.consequences);
    let effect = owner.effect.as_deref().cloned().or_else(|| {
        let live = state.input.snapshot.resource(&owner.id)?;
        replaced_releases::acting(state, live, consequences)
    });
    let Some(mut effect) = effect else { return owner };
    effect.condition = Some(condition.to_owned());
    for deletion in effect.deletes.values_mut() {
        deletion.conditions.insert(0, condition.to_owned());
        deletion.is_doubtful = true;
        deletion.comes_first = false;
    }
    AffectedOwner { effect: Some(Arc::new(effect)), ..owner }
}

fn references(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, spec: &Value) -> Asked<Vec<String>> {
    let mut changes = comparison.release_references(&id.namespace, spec)?;
    changes.extend(awaited_changes(comparison, id, spec, &mut BTreeSet::new())?);
    Ok(changes)
}

/// Describes the changes of the dependencies for which a release waits: they may become ready.
fn awaited_changes(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    seen: &mut BTreeSet<ObjectId>,
) -> Asked<Vec<String>> {
    let mut changes = vec![];
    let live = comparison.state().input.snapshot.resource(id);
    if !live.is_some_and(waits_for_dependency) {
        return Ok(changes);
    }
    for (dependency, _) in dependencies(id, spec) {
        if !seen.insert(dependency.clone()) {
            continue;
        }
        let difference = comparison.difference(&dependency, Part::Spec { is_ready: false })?;
        changes.extend(difference.map(|difference| difference.describe(&dependency)));
        for spec in comparison.state().specs_after(&dependency) {
            changes.extend(comparison.release_references(&dependency.namespace, &spec)?);
            changes.extend(awaited_changes(comparison, &dependency, &spec, seen)?);
        }
    }
    Ok(changes)
}

fn is_suspended_after(state: &State<'_>, id: &ObjectId) -> bool {
    state.is_suspended_after(id)
}

/// Returns the effect of a new HelmRelease whose release exists already, in a cluster that was read; `None` if there is no such
/// release, or it is that of a HelmRelease whose deletion uninstalls it.
fn taken_over(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId) -> Option<Asked<Followed>> {
    let (state, consequences) = (comparison.state(), comparison.derivation.consequences);
    let specs = state.specs_after(id);
    if specs.iter().any(|spec| denied_chart(state, id, spec).is_some()) {
        return None;
    }
    let targets: Vec<ReleaseTarget> = specs.iter().map(|spec| ReleaseTarget::of_spec(id, spec, None)).collect();
    let releases = state.input.snapshot.resources.iter().filter(|live| live.object.id.is(GROUP, KIND));
    let of_same: Vec<&Resource> = releases
        .filter(|live| {
            let recorded = ReleaseTarget::recorded(&live.content);
            recorded.is_some_and(|old| targets.iter().all(|new| old.change_to(new).is_none()))
        })
        .collect();
    let mut deleted = of_same.iter().filter(|live| consequences.may_be_deleted(&live.object.id));
    if deleted.any(|live| uninstall::uninstall_prevented(state, live).is_none()) {
        return None;
    }
    let mut read = specs.iter().filter(|spec| state.cluster_of_spec(&id.namespace, spec).is_some());
    if !read.any(|spec| may_have_release(state, id, spec)) {
        return None;
    }
    let [old] = of_same[..] else {
        return Some(Err("no HelmRelease of this cluster has it".to_owned().into()));
    };
    if !consequences.may_be_deleted(&old.object.id) {
        return Some(Err(format!("its release is also that of {}", old.object.id).into()));
    }
    let mut assumed = old.clone();
    assumed.object.id = id.clone();
    Some(upgrades::taken_over(comparison, &assumed))
}

/// Returns what a new release that is not rendered may delete: what its namespace has of others, or anything if its chart is here. A
/// hook can be of any namespace, and whoever wrote the chart may have made it one that is not rendered here.
fn stake(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId) -> Option<&'static str> {
    let specs = comparison.state().specs_after(id);
    let is_here = specs.iter().any(|spec| {
        is_in_tree(comparison.state(), id, spec)
            || (first_chart(comparison, id, spec, None).is_ok() && values(comparison, id, spec, true).is_ok())
    });
    if is_here {
        return Some(
            "its release will be installed, and a hook of its chart, or a failed installation, may delete what has the same name \
             in any namespace",
        );
    }
    let state = comparison.state();
    let namespaces: Vec<String> = specs.iter().map(|spec| ReleaseTarget::of_spec(id, spec, None).namespace).collect();
    let has_others = state.input.snapshot.objects.iter().any(|object| {
        let is_of_kubernetes = &*object.id.name == "kube-root-ca.crt" || object.id.is("", "ServiceAccount");
        let is_of_flux = object.id.group.ends_with("fluxcd.io") || object.labels.get("owner") == Some("helm");
        let is_dependent = object.controller_reference().is_some() || object.id.is("", "Event");
        namespaces.iter().any(|namespace| **namespace == *object.id.namespace)
            && !(is_of_kubernetes || is_of_flux || is_dependent)
    });
    has_others.then_some(
        "its release will be installed, and a hook of its chart, or a failed installation, may delete what has the same name",
    )
}

/// Returns the refusal of all specs of a HelmRelease to use the sources of their charts; `None` if they may.
///
/// Fails with the reason if only some of them may.
fn denied(state: &State<'_>, id: &ObjectId) -> Asked<Option<Followed>> {
    let specs = state.specs_after(id);
    let refused: Vec<Reason> = specs.iter().filter_map(|spec| denied_chart(state, id, spec)).collect();
    let is_always = refused.len() == specs.len();
    match refused.into_iter().next() {
        None => Ok(None),
        Some(Reason { code, detail, .. }) if is_always => Ok(Some(Followed::failing(code, detail))),
        Some(Reason { detail, .. }) => Err(format!("with one of its specs {detail}").into()),
    }
}

/// Computes the upgrade of a HelmRelease, or the installation of one that has no release.
fn follow(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, live: Option<&Resource>) -> Asked<Followed> {
    if let Some(denied) = denied(comparison.state(), id)? {
        return Ok(denied);
    }
    match live {
        None if comparison.state().applies_for_a_while(id) => {
            installs::first_installs::installed_for_a_while(comparison, id)
        }
        Some(live) if !is_not_installed(comparison.state(), live) => {
            let (spec, _) = comparison.state().successive_specs(id)?;
            let moves = live.spec().get("kubeConfig") != spec.get("kubeConfig");
            if moves { moved(comparison, live, &spec) } else { upgrades::upgrade(comparison, live) }
        }
        _ => {
            let why = "Helm has no record of the release that had it";
            let left = live.map(|live| left_behind(comparison.state(), live, why)).unwrap_or_default();
            installs::deletions::install(comparison, id, live, left)
        }
    }
}

/// Computes the effect of another `spec.kubeConfig`: helm-controller installs the release in the other cluster, and nothing
/// uninstalls it where it is.
///
/// Source: helm-controller v1.6.3 `internal/reconcile/state.go`, `DetermineReleaseState`.
fn moved(comparison: &mut Comparison<'_, '_, '_>, live: &Resource, spec: &Value) -> Asked<Followed> {
    let (state, id) = (comparison.state(), &live.object.id);
    let why = "its release moves to another cluster (spec.kubeConfig changes), and nothing uninstalls this one";
    let keeps = left_behind(state, live, why);
    let unknown = match state.target(&id.namespace, spec) {
        Ok(_) if may_have_release(state, id, spec) => "its release may exist there".to_owned(),
        Ok(_) => return installs::deletions::install(comparison, id, Some(live), keeps),
        Err(unread) => unread.detail,
    };
    let assumption =
        Some(format!("it is assumed that the installation in the other cluster deletes nothing: {unknown}"));
    let effect = Effect { triggers: state.applying_events(id), keeps, assumption, ..Effect::default() };
    let remarks = vec!["its release is installed in another cluster".to_owned()];
    Ok(Followed::Acts { effect: Box::new(effect), code: ActionKind::Install.code(), remarks })
}
