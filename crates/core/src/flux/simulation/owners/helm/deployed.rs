//! The manifest and the hooks of a release as it is deployed.

use serde_json::Value;

use super::records::read_records;
use super::render::release_charts::last_chart;
use super::render::release_values::{ReleaseValues, values};
use super::render::rendering::{Draft, Place, Rendering};
use crate::flux::build::charts::Chart;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::helm::rendered::{POLICY, Rendered};
use crate::helm::target::ReleaseTarget;
use crate::helm::uninstall::{StoredChart, StoredRelease};
use crate::kubernetes::object::Resource;
use crate::kubernetes::recording::check_recorded;
use crate::ownership::Members;

/// Renders the chart of the last release.
///
/// Fails with the reason why its manifest is not known.
pub(super) fn deployed(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Asked<Rendered> {
    let chart = last_chart(comparison, live)?;
    render(comparison, live, &chart)
}

/// Returns what Helm has stored of the last release, as far as that decides its uninstall.
pub(super) fn stored(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Option<StoredRelease> {
    let records = read_records(comparison, live);
    Some(StoredRelease { chart: stored_chart(comparison, live), records })
}

/// Returns the hooks of the last release and the objects that its manifest keeps, if its chart may have some and can be rendered.
fn stored_chart(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Option<StoredChart> {
    let chart = last_chart(comparison, live).ok().filter(Chart::decides_uninstall)?;
    let rendered = render(comparison, live, &chart).ok()?;
    let kept = rendered.objects.iter().filter(|id| rendered.is_kept(id)).cloned().collect();
    let common = live.spec().pointer("/commonMetadata/annotations");
    let has_all_policies = common.is_none_or(|annotations| annotations.get(POLICY).is_none());
    let is_private = rendered.is_private;
    Some(StoredChart { hooks: rendered.hooks, kept, has_all_policies, is_private })
}

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
    let rendered = match place.render(comparison, draft)? {
        Rendering::Done(rendered) => *rendered,
        Rendering::Fails(why) | Rendering::Refused(why) => {
            return Err(format!("its deployed chart is not rendered here: {why}").into());
        }
    };
    let Members::Listed(inventory) = comparison.state().members(live) else {
        return Err("it records no inventory".to_owned().into());
    };
    match rendered.difference_from(&inventory, &place.snapshot.types) {
        Some(differing) => {
            Err(format!("its deployed chart renders here to other objects than its inventory lists: {differing}")
                .into())
        }
        None => Ok(rendered),
    }
}
