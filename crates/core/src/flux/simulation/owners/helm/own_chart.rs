//! The HelmChart that helm-controller makes for a release, and deletes once the release no longer uses it.
//!
//! Source: helm-controller v1.6.3 `internal/reconcile/helmchart_template.go`. A reconciliation does this before everything else: it does
//! not depend on dependencies, values or the chart.

use std::sync::Arc;

use serde_json::Value;

use super::actions::action_kind::ActionKind;
use super::actions::conditions::may_delete_chart;
use super::replaced_releases::acting;
use crate::flux::simulation::model::affected_owner::{AffectedOwner, OwnerDeletion, Reaction};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::comparison::Comparison;
use crate::flux::spec::SourceId;
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::schemes::flux_helmrelease::helm_chart;
use crate::plan::{Action, Reason};

/// Adds the deletion of the HelmChart that a HelmRelease leaves to what helm-controller does otherwise.
pub(super) fn with_left_chart(
    comparison: &Comparison<'_, '_, '_>,
    id: &ObjectId,
    owner: Option<AffectedOwner>,
) -> Option<AffectedOwner> {
    let (state, consequences) = (comparison.state(), comparison.derivation.consequences);
    let Some(live) = state.input.snapshot.resource(id) else { return owner };
    let is_inactive = consequences.may_be_deleted(id) || state.is_suspended_after(id);
    let is_reconciled = live.object.deletion_timestamp.is_none() && !is_inactive;
    let Some((chart, deletion)) = left_chart(state, live).filter(|_| is_reconciled) else { return owner };
    let AffectedOwner { id, reaction, effect } = owner.unwrap_or_else(|| {
        let detail = "the source of its chart changes; its chart and its values stay the same";
        AffectedOwner::new(id, Reaction::Acts(Reason::new(ActionKind::Upgrade.code(), detail)))
    });
    let known = effect.as_deref().cloned().or_else(|| acting(state, live, consequences));
    let mut effect = known.unwrap_or_default();
    if effect.triggers.is_empty() {
        effect.triggers = state.applying_events(&id);
    }
    effect.deletes.insert(chart, deletion);
    Some(AffectedOwner { id, reaction, effect: Some(Arc::new(effect)) })
}

/// Returns the HelmChart of a release, with its deletion, if the release then has a `chartRef`, or its source is in another namespace: a
/// HelmChart is always in the namespace of its source.
fn left_chart(state: &State<'_>, live: &Resource) -> Option<(ObjectId, OwnerDeletion)> {
    let id = &live.object.id;
    let chart = helm_chart(&live.content).filter(|chart| state.is_live(chart) && may_delete_chart(state, id, chart))?;
    let uses_after: Vec<bool> = state.specs_after(id).iter().map(|spec| uses_chart(id, spec, &chart)).collect();
    let is_left = uses_after.contains(&false) && (uses_chart(id, live.spec(), &chart) || live.flag("/spec/suspend"));
    let mut deletion = is_left.then(|| OwnerDeletion::new(CascadeKind::Upgrade))?;
    deletion.code = Some(ActionKind::Upgrade.code());
    deletion.comes_first = true;
    deletion.remark(
        "helm-controller deletes the HelmChart that it made once the release has a chartRef, or a source in another namespace",
    );
    if uses_after.contains(&true) {
        deletion.stays_if("it stays unless helm-controller reads a spec that does not use it");
    }
    let awaited = state.applications(id).find_map(|applied| applied.pass.condition.as_ref());
    deletion.conditions.extend(awaited.map(|condition| condition.detail.clone()));
    deletion.is_doubtful = !deletion.conditions.is_empty();
    if uses_after.last() == Some(&true) {
        deletion.action = Action::Recreate;
    }
    Some((chart, deletion))
}

/// Returns true if a release with a spec has a HelmChart in the namespace of this one.
fn uses_chart(release: &ObjectId, spec: &Value, chart: &ObjectId) -> bool {
    let own = spec.pointer("/chart/spec");
    own.is_some_and(|own| SourceId::of_chart(own, &release.namespace).namespace == *chart.namespace)
}
