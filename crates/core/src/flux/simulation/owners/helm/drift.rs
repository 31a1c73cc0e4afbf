//! Objects of a release that were deleted or changed by hand, which helm-controller corrects when it reconciles the HelmRelease.
//!
//! Source: helm-controller v1.6.3 `internal/action/diff.go` and `internal/reconcile/correct_cluster_drift.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::actions::applied::applied_object;
use super::actions::drift_rules::{corrects, ignored_fields, is_marked, is_overlooked, overlooks_objects};
use super::actions::dry_runs::{AppliedManifest, ReleaseAnswers, ReleaseChanges};
use super::deployed::deployed;
use crate::flux::apply::question::HELM_CONTROLLER;
use crate::flux::build::Interrupt;
use crate::flux::simulation::model::affected_owner::{Effect, LiveChange, OwnerApply};
use crate::flux::simulation::model::node::BuiltObjects;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::Followed;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::helm::target::ReleaseTarget;
use crate::kubernetes::object::{ObjectId, Resource, flag_at};
use crate::ownership::Members;
use crate::ownership::schemes::flux_helmrelease::{GROUP, KIND};
use crate::plan::ReasonCode;

/// Computes the effect of a reconciliation without an upgrade.
///
/// Fails with the reason why the deployed manifest is not known.
pub(super) fn corrected(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Asked<Followed> {
    let (state, id) = (comparison.state(), &live.object.id);
    let (spec, _) = state.successive_specs(id)?;
    let Members::Listed(members) = state.members(live) else { return Ok(Followed::Unchanged) };
    let Some(trigger) = state.last_application(id).filter(|_| corrects(&spec)) else {
        return Ok(Followed::Unchanged);
    };
    // It corrects at every interval, so without a change of its settings there is little left.
    let is_corrected = live.spec().get("driftDetection") == spec.get("driftDetection")
        && !members.iter().any(|member| state.is_absent(member));
    let deployed = match deployed(comparison, live) {
        Err(Interrupt::Failed(_)) if is_corrected => return Ok(Followed::Unchanged),
        deployed => deployed?,
    };
    let target = ReleaseTarget::recorded(&live.content).ok_or_else(|| "it has no release".to_owned())?;
    let manifests = members.iter().filter_map(|id| Some((id, deployed.manifests().get(id)?)));
    let (present, missing): (Vec<_>, Vec<_>) = manifests
        .filter(|(id, manifest)| {
            !is_overlooked(&spec, id, manifest) && !comparison.state().live_object(id).is_some_and(is_marked)
        })
        .partition(|(id, _)| comparison.state().is_live(id));
    let created: Vec<_> =
        missing.into_iter().filter(|(id, _)| !deployed.is_private && comparison.state().is_absent(id)).collect();
    let changes = ReleaseChanges {
        release: id,
        spec: &spec,
        target: &target,
        manifests: present.iter().map(|(id, manifest)| AppliedManifest::of_object(id, manifest)).collect(),
        removed: vec![],
        is_applied_on_server: true,
        is_private: deployed.is_private,
    };
    let ReleaseAnswers { refusal, changes: updates, .. } = comparison.ask_release(&changes);
    let answers = updates.into_iter().filter_map(|(id, update)| {
        let change = LiveChange::of_answer(update?, &id, None, deployed.is_private);
        Some((id, change))
    });
    let live_changes: BTreeMap<ObjectId, LiveChange> = answers.collect();
    let changed: Vec<_> = present.into_iter().filter(|(id, _)| live_changes.contains_key(*id)).collect();
    let has_ignored = changed.iter().any(|(id, manifest)| !ignored_fields(&spec, id, manifest).is_empty());
    let applied = created.into_iter().chain(changed);
    let objects: BuiltObjects =
        applied.map(|(id, manifest)| (id.clone(), applied_object(id, manifest, deployed.is_private))).collect();
    if objects.is_empty() {
        return Ok(Followed::Unchanged);
    }
    let applies = OwnerApply {
        trigger,
        objects: Arc::new(objects),
        live_changes,
        earlier: vec![],
        manager: HELM_CONTROLLER,
        code: ReasonCode::InChart,
        is_doubtful: refusal.is_some() || has_ignored,
        chart: None,
    };
    let effect =
        Effect { triggers: comparison.state().applying_events(id), applies: Some(applies), ..Effect::default() };
    let remarks = vec!["helm-controller takes back what was deleted or changed by hand (driftDetection)".to_owned()];
    Ok(Followed::Acts { effect: Box::new(effect), code: ReasonCode::Drift, remarks })
}

/// Returns the HelmReleases that do not change and create an object again at their next interval, if others delete it.
pub(crate) fn correcting<'s>(
    state: &'s State<'_>,
    consequences: &Consequences<'_>,
    id: &ObjectId,
) -> impl Iterator<Item = &'s ObjectId> {
    let releases = state.input.snapshot.resources.iter().filter(|live| live.object.id.is(GROUP, KIND));
    let found = releases.filter(move |live| {
        let release = &live.object.id;
        creates_missing(live.spec())
            && live.is_true("Ready")
            && matches!(state.members(live), Members::Listed(members) if members.contains(id))
            && state.affected_owner(release).is_none()
            && !consequences.may_be_deleted(release)
            && !state.live_object(id).is_some_and(is_marked)
            && state.specs_after(release).iter().all(creates_missing)
    });
    found.map(|live| &live.object.id)
}

/// Returns true if a release with this spec creates each missing object again at its next interval.
fn creates_missing(spec: &Value) -> bool {
    corrects(spec) && !flag_at(spec, "/suspend") && !overlooks_objects(spec)
}
