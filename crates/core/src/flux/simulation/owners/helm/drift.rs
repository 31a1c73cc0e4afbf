//! Objects of a release that were deleted by hand, and that helm-controller creates again when it reconciles the HelmRelease.
//!
//! Source: helm-controller v1.6.3 `internal/action/diff.go` and `internal/reconcile/correct_cluster_drift.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::actions::applied::applied_object;
use super::deployed::deployed;
use crate::flux::apply::question::HELM_CONTROLLER;
use crate::flux::simulation::model::affected_owner::{Effect, OwnerApply};
use crate::flux::simulation::model::node::BuiltObjects;
use crate::flux::simulation::owners::behaviour::changed_owners::Followed;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::kubernetes::object::{ObjectId, Resource, list_at, text_at};
use crate::ownership::Members;
use crate::plan::ReasonCode;

/// Annotation of an object whose drift helm-controller overlooks.
const DRIFT: &str = "helm.toolkit.fluxcd.io/driftDetection";

/// Computes the effect of a reconciliation without an upgrade.
///
/// Fails with the reason why the deployed manifest is not known.
pub(super) fn corrected(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Asked<Followed> {
    let (state, id) = (comparison.state(), &live.object.id);
    let (spec, _) = state.successive_specs(id)?;
    let Members::Listed(members) = state.members(live) else { return Ok(Followed::Unchanged) };
    let missing: Vec<ObjectId> = members.into_iter().filter(|member| state.is_absent(member)).collect();
    let trigger = state.applied_specs(id).last().map(|(_, trigger)| trigger);
    let Some(trigger) = trigger.filter(|_| text_at(&spec, "/driftDetection/mode") == "enabled") else {
        return Ok(Followed::Unchanged);
    };
    if missing.is_empty() {
        return Ok(Followed::Unchanged);
    }
    let deployed = deployed(comparison, live)?;
    let known = missing.into_iter().filter_map(|id| {
        let manifest = deployed.manifests().get(&id).filter(|_| !deployed.is_private)?;
        let annotation = manifest.pointer("/metadata/annotations").and_then(|annotations| annotations.get(DRIFT));
        let is_overlooked = annotation.is_some_and(|value| value == "disabled");
        (!is_overlooked).then(|| (id.clone(), applied_object(&id, manifest, false)))
    });
    let objects: BuiltObjects = known.collect();
    if objects.is_empty() {
        return Ok(Followed::Unchanged);
    }
    let applies = OwnerApply {
        trigger,
        objects: Arc::new(objects),
        live_changes: BTreeMap::new(),
        earlier: vec![],
        manager: HELM_CONTROLLER,
        code: ReasonCode::InChart,
        // A rule can ignore the whole object.
        is_doubtful: !list_at(&spec, "/driftDetection/ignore").is_empty(),
        chart: None,
    };
    let effect =
        Effect { triggers: comparison.state().applying_events(id), applies: Some(applies), ..Effect::default() };
    let remarks = vec!["helm-controller creates again what was deleted by hand (driftDetection)".to_owned()];
    Ok(Followed::Acts { effect: Box::new(effect), code: ReasonCode::Drift, remarks })
}
