//! Upgrades to a new chart that come before the spec of the HelmRelease changes.
//!
//! A commit can change a chart and the HelmRelease that uses it. source-controller packs the chart while kustomize-controller still
//! builds, so helm-controller often upgrades with the old spec first (observed): with its account, its hooks and its remedy, and although
//! the new spec suspends the HelmRelease or waits for another one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::change::Specs;
use super::installs::installation::is_not_installed;
use super::render::release_charts::chart_before_spec;
use super::upgrades;
use crate::flux::build::Interrupt;
use crate::flux::simulation::model::affected_owner::{
    AffectedOwner, Effect, OwnerApply, OwnerDeletion, Reaction, Readiness,
};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::{Followed, may_be_deleted};
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::behaviour::effective_fields::with_defaults;
use crate::helm::rendered::has_policy;
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::schemes::flux_helmrelease::KIND;
use crate::plan::{Action, Reason, ReasonCode};

/// Condition of everything that only such an upgrade deletes.
const CHART_FIRST: &str = "it stays unless an upgrade to the new chart comes before its HelmRelease changes";
/// Condition of what only an upgrade with the new spec deletes, if there is none after one to the new chart.
const SPEC_FIRST: &str = "it stays if an upgrade to the new chart comes before its HelmRelease changes";
/// Fields whose change is a reason for another upgrade, or replaces the release.
const UPGRADING: [&str; 10] = [
    "chart",
    "chartRef",
    "commonMetadata",
    "kubeConfig",
    "postRenderers",
    "releaseName",
    "storageNamespace",
    "targetNamespace",
    "values",
    "valuesFrom",
];
/// Remark for the outcome of the owner.
const REMARK: &str = "an upgrade to the new chart may come before its spec changes";

/// Adds to the reaction to a change of a HelmRelease what helm-controller does if the new chart comes first. Answers that are missing
/// are added to the needs.
pub(super) fn with_chart_first(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    owner: Option<AffectedOwner>,
) -> Option<AffectedOwner> {
    let Some(live) = comparison.state().input.snapshot.resource(id) else { return owner };
    let is_replaced = owner.as_ref().is_some_and(
        |owner| matches!(&owner.reaction, Reaction::Acts(reason) if reason.code == ReasonCode::ReleaseReplaced),
    );
    let (mut first, succeeds) = match first_upgrade(comparison, live, is_replaced) {
        Ok(Some(Followed::Acts { effect, .. })) => (*effect, true),
        Ok(Some(Followed::Blocked { effect, .. })) => (*effect, false),
        Ok(Some(Followed::Unchanged | Followed::No) | None) | Err(Interrupt::Missing) => return owner,
        Err(Interrupt::Failed(why)) => {
            let detail = format!("{REMARK}, which is not followed, because {why}, so {}", may_be_deleted(Some(live)));
            return Some(AffectedOwner::new(id, Reaction::Unknown(Reason::new(ReasonCode::NotFollowed, detail))));
        }
    };
    let AffectedOwner { id, mut reaction, effect: last } = owner.unwrap_or_else(|| {
        AffectedOwner::new(id, Reaction::Acts(Reason::new(ReasonCode::ReleaseUpgraded, "its chart changes")))
    });
    let (Reaction::Acts(reason) | Reaction::Waits(reason)) = &mut reaction else {
        return Some(AffectedOwner { id, reaction, effect: last });
    };
    if let Some(replacement) = last.as_deref().filter(|_| is_replaced) {
        for (id, deletion) in taken_over(comparison.state(), &first, replacement) {
            first.deletes.entry(id).or_insert(deletion);
        }
    }
    let is_last = succeeds && leaves_nothing(comparison.state(), live);
    let joined = joined(last.as_deref().cloned(), first, is_last);
    if last.as_deref() != Some(&joined) {
        reason.add_detail(REMARK);
    }
    Some(AffectedOwner { id, reaction, effect: Some(Arc::new(joined)) })
}

/// Returns an upgrade with the old spec; `None` if there is none before the spec changes. A release that is replaced
/// anyway (`is_replaced`) is not upgraded to a chart of another name.
fn first_upgrade(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    is_replaced: bool,
) -> Asked<Option<Followed>> {
    let (state, id, spec) = (comparison.state(), &live.object.id, live.spec());
    let is_stable = live.object.deletion_timestamp.is_none() && !comparison.derivation.consequences.may_be_deleted(id);
    if !is_stable || is_not_installed(state, live) {
        return Ok(None);
    }
    let before = with_defaults(KIND, spec);
    if state.specs_after(id).iter().all(|after| with_defaults(KIND, after) == before) {
        return Ok(None);
    }
    match chart_before_spec(comparison, live) {
        Ok(Some([old, new])) if !(is_replaced && old.name != new.name) => {}
        Err(Interrupt::Missing) => return Err(Interrupt::Missing),
        // What is not packed with the old spec is not installed with it.
        Ok(_) | Err(Interrupt::Failed(_)) => return Ok(None),
    }
    let specs = Specs { last: spec.clone(), earlier: vec![] };
    upgrades::followed(comparison, live, specs)
}

/// Returns the deletions of what an upgrade adds to its release and its chart does not keep: the uninstall of the replaced release is that
/// of the manifest of the upgrade, also if that has failed.
fn taken_over(state: &State<'_>, first: &Effect, replacement: &Effect) -> BTreeMap<ObjectId, OwnerDeletion> {
    let objects = first.applies.iter().flat_map(|applies| applies.objects.iter());
    let added = objects.filter(|(id, _)| {
        state.is_live(id) && !replacement.deletes.contains_key(*id) && !replacement.keeps.contains_key(*id)
    });
    let deleted = added.filter(|(_, built)| !has_policy(&built.manifest));
    deleted.map(|(id, _)| (id.clone(), OwnerDeletion::new(CascadeKind::ReplacedRelease))).collect()
}

/// Returns true if an upgrade to the new chart leaves the new spec nothing to upgrade.
fn leaves_nothing(state: &State<'_>, live: &Resource) -> bool {
    let before = with_defaults(KIND, live.spec());
    let mut after = state.specs_after(&live.object.id).into_iter().map(|spec| with_defaults(KIND, &spec));
    after.all(|spec| UPGRADING.iter().all(|field| spec.get(field) == before.get(field)))
}

/// Returns the effect of a change with what an upgrade before it adds. With `is_last` there is no upgrade after that one.
fn joined(last: Option<Effect>, first: Effect, is_last: bool) -> Effect {
    let is_alone = last.is_none();
    let mut joined = last.unwrap_or_default();
    for (_, deletion) in joined.deletes.iter_mut().filter(|(id, _)| is_last && !first.deletes.contains_key(*id)) {
        deletion.stays_if(SPEC_FIRST);
        deletion.is_doubtful = true;
    }
    let manifest = joined.applies.as_ref().map(|applies| applies.objects.clone());
    for (id, mut deletion) in first.deletes {
        if joined.deletes.contains_key(&id) {
            continue;
        }
        if manifest.as_ref().is_some_and(|objects| objects.contains_key(&id)) {
            deletion.action = Action::Recreate;
        }
        deletion.conditions.insert(0, CHART_FIRST.to_owned());
        deletion.is_doubtful = true;
        joined.keeps.remove(&id);
        joined.deletes.insert(id, deletion);
    }
    if joined.triggers.is_empty() {
        joined.triggers = first.triggers;
    }
    if is_alone {
        joined.condition = Some(CHART_FIRST.to_owned());
    }
    if first.readiness != Readiness::Ready && joined.readiness == Readiness::Ready {
        joined.readiness = Readiness::Open;
    }
    let Some(first) = first.applies else { return joined };
    joined.applies = Some(match joined.applies {
        Some(mut applies) => {
            let steps = first.earlier.into_iter().chain([first.objects]);
            let new: Vec<_> =
                steps.filter(|step| *step != applies.objects && !applies.earlier.contains(step)).collect();
            applies.earlier.splice(0..0, new);
            applies
        }
        None => OwnerApply { is_doubtful: true, ..first },
    });
    joined
}
