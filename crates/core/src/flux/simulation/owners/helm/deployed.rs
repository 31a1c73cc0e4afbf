//! The manifest and the hooks of a release as it is deployed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::actions::failure::no_namespace;
use super::actions::records::read_records;
use super::render::release_charts::{chart_before_spec, last_chart};
use super::render::release_values::{ReleaseValues, values};
use super::render::rendering::{Draft, Place, Rendering};
use crate::flux::apply::cause::is_of_schema;
use crate::flux::build::Interrupt;
use crate::flux::build::charts::Chart;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::helm::hooks::HookEvent;
use crate::helm::records::ReleaseRecords;
use crate::helm::rendered::{POLICY, Rendered};
use crate::helm::target::ReleaseTarget;
use crate::helm::uninstall::{StoredChart, StoredRelease};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::kubernetes::recording::check_recorded;
use crate::ownership::Members;

/// Renders the chart of the last release.
///
/// Fails with the reason why its manifest is not known.
pub(super) fn deployed(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Asked<Rendered> {
    let chart = last_chart(comparison, live)?;
    let rendered = render(comparison, live, &chart)?;
    checked(comparison, live, rendered)
}

/// Returns what Helm has stored of the last release, as far as that decides its uninstall.
pub(super) fn stored(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Option<StoredRelease> {
    let records = read_records(comparison, live);
    let chart = match stored_chart(comparison, live) {
        Ok(chart) => chart,
        Err(Interrupt::Missing) => None,
        Err(Interrupt::Failed(_)) => {
            recorded_chart(comparison, live, records.as_ref().and_then(|found| found.as_ref().ok()))
        }
    };
    Some(StoredRelease { chart, records })
}

/// Returns the hooks of the last release that its record has.
fn recorded_chart(
    comparison: &Comparison<'_, '_, '_>,
    live: &Resource,
    records: Option<&ReleaseRecords>,
) -> Option<StoredChart> {
    StoredChart::of_records(records?, &comparison.state().cluster_of(live)?.types)
}

/// Returns the hooks of the last release and the objects that its manifest keeps; `None` if neither its chart nor one that it may be
/// upgraded to before may have some.
///
/// Fails with the reason why its chart cannot be rendered.
fn stored_chart(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Asked<Option<StoredChart>> {
    let chart = last_chart(comparison, live)?;
    let newer = chart_before_spec(comparison, live).ok().flatten().map(|[_, newer]| newer);
    if ![Some(&chart), newer.as_ref()].into_iter().flatten().any(Chart::decides_uninstall) {
        return Ok(None);
    }
    let newer = newer.and_then(|chart| render(comparison, live, &chart).ok());
    let rendered = render(comparison, live, &chart)?;
    let rendered = checked(comparison, live, rendered)?;
    let kept = rendered.objects.iter().filter(|id| rendered.is_kept(id)).cloned().collect();
    let changing = newer.map_or_else(BTreeSet::new, |newer| {
        let common = rendered.objects.intersection(&newer.objects);
        common.filter(|id| rendered.is_kept(id) != newer.is_kept(id)).cloned().collect()
    });
    let common = live.spec().pointer("/commonMetadata/annotations");
    let has_all_policies = common.is_none_or(|annotations| annotations.get(POLICY).is_none());
    let is_private = rendered.is_private;
    let Some(target) = ReleaseTarget::recorded(&live.content) else { return Ok(None) };
    let hooks = rendered.hooks_at([HookEvent::PreDelete, HookEvent::PostDelete]);
    let (refused, unsure) = comparison.refused_hooks(&live.object.id, live.spec(), &target, hooks, is_private);
    let (refused, doubtful): (Vec<_>, Vec<_>) = refused.into_iter().partition(|(_, message)| is_of_schema(message));
    let mut doubtful_hooks: BTreeSet<ObjectId> = doubtful.into_iter().map(|(id, _)| id).chain(unsure).collect();
    let mut refused_hooks: BTreeMap<ObjectId, String> = refused.into_iter().collect();
    let state = comparison.state();
    for (id, _) in rendered.hooks_at([HookEvent::PreDelete, HookEvent::PostDelete]) {
        let namespace = id.namespace_object();
        if id.namespace.is_empty() || state.is_live(&namespace) {
            continue;
        }
        if state.stays_absent(&namespace) {
            refused_hooks.insert(id.clone(), no_namespace(id));
        } else {
            doubtful_hooks.insert(id.clone());
        }
    }
    let mut hooks = rendered.hooks;
    // An uninstall reads no expressions for health.
    hooks.values_mut().for_each(|hook| hook.set_expression(false));
    Ok(Some(StoredChart { hooks, refused_hooks, doubtful_hooks, kept, changing, has_all_policies, is_private }))
}

/// Renders a chart with the values of the last release.
fn render(comparison: &mut Comparison<'_, '_, '_>, live: &Resource, chart: &Chart) -> Asked<Rendered> {
    let (id, spec) = (&live.object.id, live.spec());
    check_recorded(spec)?;
    let ReleaseValues::Known(values) = values(comparison, id, spec, false)? else {
        return Err("the values of its last release are not known".to_owned().into());
    };
    let target = ReleaseTarget::recorded(&live.content).ok_or_else(|| "it has no release".to_owned())?;
    let place = Place::find(comparison, id, spec, target)?;
    let revision = live.at("/status/history/0/version").and_then(Value::as_i64).unwrap_or_default();
    let draft = Draft { chart, values: &values, revision, skips_schema: true, spec };
    match place.render(comparison, draft)? {
        Rendering::Done(rendered) => Ok(*rendered),
        Rendering::Fails(why) | Rendering::Refused(why) => {
            Err(format!("its deployed chart is not rendered here: {why}").into())
        }
    }
}

/// Returns a render of the deployed chart, if it has the objects of the inventory.
fn checked(comparison: &Comparison<'_, '_, '_>, live: &Resource, rendered: Rendered) -> Asked<Rendered> {
    let state = comparison.state();
    let snapshot = state.cluster_of(live).unwrap_or(state.input.snapshot);
    let Members::Listed(inventory) = state.members(live) else {
        return Err("it records no inventory".to_owned().into());
    };
    match rendered.difference_from(&inventory, &snapshot.types) {
        Some(differing) => {
            Err(format!("its deployed chart renders here to other objects than its inventory lists: {differing}")
                .into())
        }
        None => Ok(rendered),
    }
}
