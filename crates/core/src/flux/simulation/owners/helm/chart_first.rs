//! Upgrades to a new chart that come before the spec of the HelmRelease changes.
//!
//! A commit can change a chart and the HelmRelease that uses it. source-controller packs the chart while kustomize-controller still
//! builds, so helm-controller often upgrades with the old spec first (observed): with its account, its hooks and its remedy, and although
//! the new spec suspends the HelmRelease or waits for another one.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::change::Specs;
use super::installation::is_not_installed;
use super::render::release_charts::{ReleaseCharts, charts};
use super::upgrades;
use crate::flux::build::Interrupt;
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Effect, OwnerApply, Reaction};
use crate::flux::simulation::owners::behaviour::changed_owners::{Followed, may_be_deleted};
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison, Part};
use crate::flux::simulation::owners::behaviour::effective_fields::add_defaults;
use crate::flux::spec::SourceId;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::schemes::flux_helmrelease::KIND;
use crate::plan::{Action, Reason, ReasonCode};

/// Condition of everything that only such an upgrade deletes.
const CHART_FIRST: &str = "it stays unless an upgrade to the new chart comes before its HelmRelease changes";
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
    let effect = match first_upgrade(comparison, live, is_replaced) {
        Ok(Some(effect)) => effect,
        Ok(None) | Err(Interrupt::Missing) => return owner,
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
    let before = last.as_deref().cloned();
    let joined = joined(before.clone(), effect);
    if before.as_ref() != Some(&joined) {
        reason.add_detail(REMARK);
    }
    Some(AffectedOwner { id, reaction, effect: Some(Arc::new(joined)) })
}

/// Returns the effect of an upgrade with the old spec; `None` if there is none before the spec changes. A release that is replaced
/// anyway (`is_replaced`) is not upgraded to a chart of another name.
fn first_upgrade(comparison: &mut Comparison<'_, '_, '_>, live: &Resource, is_replaced: bool) -> Asked<Option<Effect>> {
    let (state, id, spec) = (comparison.state(), &live.object.id, live.spec());
    let is_stable = live.object.deletion_timestamp.is_none() && !comparison.derivation.consequences.may_be_deleted(id);
    if !is_stable || live.flag("/spec/suspend") || is_not_installed(state, live) {
        return Ok(None);
    }
    let complete = |spec: &Value| {
        let mut spec = spec.clone();
        add_defaults(KIND, &mut spec);
        spec
    };
    let before = complete(spec);
    if state.specs_after(id).iter().all(|after| complete(after) == before) {
        return Ok(None);
    }
    if comes_with_spec(comparison, id, spec)? {
        return Ok(None);
    }
    match charts(comparison, live, spec, spec) {
        Ok(ReleaseCharts { old, new, .. }) if is_replaced && old.name != new.name => return Ok(None),
        Ok(ReleaseCharts { old, new, .. }) if (&old.name, &old.version) != (&new.name, &new.version) => {}
        Err(Interrupt::Missing) => return Err(Interrupt::Missing),
        // What is not packed with the old spec is not installed with it.
        Ok(_) | Err(Interrupt::Failed(_)) => return Ok(None),
    }
    let specs = Specs { last: spec.clone(), earlier: vec![] };
    Ok(match upgrades::followed(comparison, live, specs)? {
        Some(Followed::Acts { effect, .. } | Followed::Blocked { effect, .. }) => Some(*effect),
        Some(Followed::Unchanged | Followed::No) | None => None,
    })
}

/// Returns true if the Kustomization that applies a HelmRelease changes the source of its chart at the same time: the controller reads the
/// new spec before source-controller has fetched anything.
fn comes_with_spec(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, spec: &Value) -> Asked<bool> {
    let source = match (spec.pointer("/chart/spec"), spec.get("chartRef")) {
        (Some(chart), _) => SourceId::of_chart(chart, &id.namespace),
        (None, Some(reference)) => SourceId::read(reference, "", &id.namespace),
        (None, None) => return Ok(false),
    };
    let (state, source) = (comparison.state(), source.object());
    let owners = |id: &ObjectId| state.applied(id).iter().map(|applied| applied.owner).collect::<BTreeSet<_>>();
    if owners(&source).is_empty() || owners(&source) != owners(id) {
        return Ok(false);
    }
    Ok(comparison.change(&source, Part::Spec { is_ready: true })?.is_some())
}

/// Returns the effect of a change with what an upgrade before it adds.
fn joined(last: Option<Effect>, first: Effect) -> Effect {
    let is_alone = last.is_none();
    let mut joined = last.unwrap_or_default();
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
    joined.may_fail |= first.may_fail;
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
