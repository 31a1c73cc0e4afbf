//! The change of a release, as far as it is known before anything is rendered.
//!
//! Source: docs/reference/flux.md 6.3 and 8.

use serde_json::Value;

use super::actions::action_kind::ActionKind;
use super::actions::conditions::{has_waiting_changes, waits_for_prerequisite};
use super::actions::hook_runs::ignores_tests;
use super::actions::records::{Basis, UpgradeRecords, has_failed_install, has_failed_upgrade, upgrade_records};
use super::render::preserved_values::{check_deployed, has_attempted_values, preserved, preserves};
use super::render::release_charts::{
    IN_PLACE, ReleaseCharts, charts, first_chart, is_packed_again, packed_before_spec, packing_failure,
    without_metadata,
};
use super::render::release_values::{ReleaseValues, values, values_between};
use super::render::rendering::Version;
use super::render::values_digest::{are_of_last_release, differ_from_last_release};
use crate::flux::build::charts::Chart;
use crate::flux::build::charts::values::Values;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::Followed;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::behaviour::effective_fields::{FORCE_AT, RESET_AT, request, with_defaults};
use crate::helm::records::ReleaseRecords;
use crate::kubernetes::object::{ObjectId, Resource, flag_at, text_at};
use crate::kubernetes::recording::check_recorded;
use crate::ownership::OwnerStatus;
use crate::ownership::schemes::flux::status;
use crate::ownership::schemes::flux_helmrelease::KIND;
use crate::plan::ReasonCode;

/// Specs of a HelmRelease for which its release changes.
pub(super) struct Specs {
    pub(super) last: Value,
    /// Others that the same Kustomization applies before the last one.
    pub(super) earlier: Vec<Value>,
}

/// A release before and after the change.
pub(super) struct Change {
    /// `None` if the deployed chart may be an earlier one: after an action that failed, and while the HelmRelease is suspended or waits.
    pub(super) old: Option<Version>,
    pub(super) new: Version,
    /// Versions with other specs that may be deployed in between.
    pub(super) between: Vec<Version>,
    pub(super) spec: Value,
    pub(super) assumption: Option<String>,
    /// The metadata or the post-renderers of all objects change.
    pub(super) changes_all: bool,
    /// Condition under which nothing happens, for people.
    pub(super) condition: Option<String>,
    pub(super) records: Option<ReleaseRecords>,
    /// Start of the upgrade, if that is another release than the one in the status.
    pub(super) basis: Option<Basis>,
}

/// Consequence of a change of a release that is known before anything is rendered.
pub(super) enum Prepared {
    Unchanged,
    Blocked(Followed),
    Changed(Box<Change>),
}

/// Returns the change of a release, as far as it is known without a render, and as Helm's records of it permit it.
pub(super) fn prepared(comparison: &mut Comparison<'_, '_, '_>, live: &Resource, specs: Specs) -> Asked<Prepared> {
    let found = match upgrade_records(comparison, live) {
        Ok(found) => found,
        Err(why) => return Ok(Prepared::Blocked(Followed::blocked(ReasonCode::RecordUnusable, why))),
    };
    let prepared = if found.is_unmanaged {
        check_recorded(&specs.last)?;
        prepared_again(comparison, live, specs.last)?
    } else {
        prepared_managed(comparison, live, specs)?
    };
    Ok(match prepared {
        Prepared::Changed(change) => {
            let assumption = change.assumption.clone().or(found.assumption);
            let UpgradeRecords { records, basis, .. } = found;
            Prepared::Changed(Box::new(Change { records, basis, assumption, ..*change }))
        }
        other => other,
    })
}

/// Returns the change of a release that is the one in the status.
fn prepared_managed(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    Specs { last: new_spec, earlier }: Specs,
) -> Asked<Prepared> {
    let id = &live.object.id;
    let old_spec = live.spec().clone();
    for spec in [&old_spec, &new_spec] {
        check_recorded(spec)?;
    }
    check_change(&old_spec, &new_spec)?;
    if let Some(moves) = comparison.cluster_changes(&id.namespace, &new_spec)?.into_iter().next() {
        return Err(format!("it may reach another cluster then: {moves}").into());
    }
    if let Some(why) = packing_failure(comparison.state(), id, &new_spec) {
        return Ok(Prepared::Blocked(Followed::blocked(ReasonCode::RenderFails, why)));
    }
    if let Some(prepared) = prepared_by_status(comparison, live, &new_spec, &earlier)? {
        return Ok(prepared);
    }
    let ReleaseCharts { old, new, assumption } = charts(comparison, live, &old_spec, &new_spec)?;
    if waits_for_prerequisite(live) && !is_last_version(live, &old) {
        return caught_up(comparison, live, new_spec, &earlier);
    }
    if old.name != new.name && text_at(&new_spec, "/upgrade/chartNameChangeStrategy") != IN_PLACE {
        return Err(format!("its chart becomes {}", new.name).into());
    }
    let (old_values, new_values) =
        (values(comparison, id, &old_spec, false)?, values(comparison, id, &new_spec, true)?);
    let (new_values, removed_values) = match new_values {
        ReleaseValues::Known(found) => (found, None),
        ReleaseValues::Removed(found, what) => (found, Some(what)),
        ReleaseValues::Missing(what) => {
            return Ok(Prepared::Blocked(Followed::failing(ReasonCode::ValuesMissing, what)));
        }
    };
    let ReleaseValues::Known(old_values) = old_values else {
        return Err("the values of its last release are not known".to_owned().into());
    };
    let changes_all =
        ["commonMetadata", "postRenderers"].iter().any(|field| old_spec.get(field) != new_spec.get(field));
    // helm-controller compares name and version: another chart of the same name and version is not installed.
    let is_forced = forces_upgrade(comparison.state(), live) || has_failed_test(live, &new_spec);
    let has_other_chart = !new.has_same_version(&old);
    let new_and_old: Vec<&Chart> = [&new].into_iter().chain(has_other_chart.then_some(&old)).collect();
    let mut between = versions_between(comparison, live, &new_spec, &earlier, &new_and_old, &old_values)?;
    let is_same = !is_forced
        && !has_other_chart
        && !changes_all
        && old_values.is_same(&new_values)
        && between.iter().all(|version| version.chart.has_same_version(&old) && version.values.is_same(&old_values));
    if let Some(what) = removed_values.as_ref().filter(|_| is_same) {
        return Ok(Prepared::Blocked(Followed::blocked(ReasonCode::ValuesMissing, what.clone())));
    }
    if is_same && flag_at(&new_spec, "/test/enable") && !flag_at(&old_spec, "/test/enable") {
        return Err("its tests run once they are enabled, without an upgrade".to_owned().into());
    }
    if is_same {
        return Ok(Prepared::Unchanged);
    }
    // Chart and values do not change at the same time: either can come first.
    if has_other_chart && !old_values.is_same(&new_values) {
        between.push(Version { chart: new.clone(), values: old_values.clone() });
        between.push(Version { chart: old.clone(), values: new_values.clone() });
    } else if has_other_chart && changes_all {
        // The new spec can come before the new chart.
        between.push(Version { chart: old.clone(), values: new_values.clone() });
    }
    let old = Version { chart: old, values: old_values };
    if is_forced && (has_other_chart || !old.values.is_same(&new_values)) {
        // The old chart is installed again if it comes first.
        between.push(Version { chart: old.chart.clone(), values: old.values.clone() });
    }
    let mut new = Version { chart: new, values: new_values };
    if preserves(&new_spec) {
        check_deployed(live)?;
        new = preserved(&old, new)?;
        between = between.into_iter().map(|version| preserved(&old, version)).collect::<Result<_, _>>()?;
    }
    Ok(Prepared::Changed(Box::new(Change {
        old: Some(old),
        new,
        between,
        spec: new_spec,
        assumption,
        changes_all,
        condition: removed_values.map(|what| without_values(&what)),
        records: None,
        basis: None,
    })))
}

/// Returns true if helm-controller rolled the release back after an upgrade that failed, and waits for a change.
pub(super) fn was_rolled_back(live: &Resource) -> bool {
    live.condition("Ready").is_some_and(|ready| ready.status == "False") && live.is_true("Remediated")
}

/// Returns the change of a release that is not as it was last deployed: it was resumed, rolled back, has failed, or waits. `None` for one
/// that is deployed and ready.
fn prepared_by_status(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    spec: &Value,
    earlier: &[Value],
) -> Asked<Option<Prepared>> {
    let is_deployed = text_at(&live.content, "/status/history/0/status") == "deployed";
    if is_deployed && live.flag("/spec/suspend") && live.is_true("Ready") {
        return caught_up(comparison, live, spec.clone(), earlier).map(Some);
    }
    if (is_deployed && was_rolled_back(live)) || has_failed_upgrade(live) || has_failed_install(live) {
        if with_defaults(KIND, spec) == *live.spec()
            && !has_waiting_changes(live)
            && earlier.is_empty()
            && has_same_input(comparison, live, spec)?
        {
            return Ok(Some(Prepared::Unchanged));
        }
        if is_deployed {
            return caught_up(comparison, live, spec.clone(), earlier).map(Some);
        }
        return prepared_again(comparison, live, spec.clone()).map(Some);
    }
    let is_ready = status(&live.object, &live.content, None) == OwnerStatus::Ready;
    if !is_deployed || !(is_ready || waits_for_prerequisite(live)) {
        let ObjectId { name, namespace, .. } = &live.object.id;
        let wait = format!("kubectl wait helmrelease/{name} -n {namespace} --for=condition=Ready");
        return Err(format!("its release is not deployed and ready: plan again after {wait}").into());
    }
    if has_waiting_changes(live) { caught_up(comparison, live, spec.clone(), earlier).map(Some) } else { Ok(None) }
}

/// Returns the versions that may be deployed before the last spec, its chart and its values come together. `new_and_old` are
/// the charts of the last spec and, if it is another, of the last release.
fn versions_between(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    spec: &Value,
    earlier: &[Value],
    new_and_old: &[&Chart],
    old_values: &Values,
) -> Asked<Vec<Version>> {
    let id = &live.object.id;
    let mut between = vec![];
    for earlier in earlier {
        let ReleaseCharts { new: chart, .. } = charts(comparison, live, live.spec(), earlier)?;
        if let ReleaseValues::Known(values) = values(comparison, id, earlier, true)? {
            between.push(Version { chart, values });
        }
    }
    if let Some(chart) = packed_before_spec(comparison.state(), live, spec) {
        between.push(Version { chart, values: old_values.clone() });
    }
    for values in values_between(comparison, id, spec)? {
        let versions = new_and_old.iter().map(|chart| Version { chart: (*chart).clone(), values: values.clone() });
        between.extend(versions);
    }
    Ok(between)
}

/// Returns the change of a release that was rolled back, or whose last action failed: any change of it is another upgrade.
pub(super) fn prepared_again(comparison: &mut Comparison<'_, '_, '_>, live: &Resource, spec: Value) -> Asked<Prepared> {
    let id = &live.object.id;
    if preserves(&spec) {
        let why = "upgrade.preserveValues keeps the values of its last release that did not fail, which are not read";
        return Err(why.to_owned().into());
    }
    if let Some(why) = packing_failure(comparison.state(), id, &spec) {
        return Ok(Prepared::Blocked(Followed::blocked(ReasonCode::RenderFails, why)));
    }
    let (chart, assumption) = first_chart(comparison, id, &spec, Some(live))?;
    let (values, removed_values) = match values(comparison, id, &spec, true)? {
        ReleaseValues::Known(found) => (found, None),
        ReleaseValues::Removed(found, what) => (found, Some(what)),
        ReleaseValues::Missing(what) => {
            return Ok(Prepared::Blocked(Followed::failing(ReasonCode::ValuesMissing, what)));
        }
    };
    let passing = values_between(comparison, id, &spec)?.into_iter();
    let between = passing.map(|values| Version { chart: chart.clone(), values }).collect();
    let new = Version { chart, values };
    let condition = removed_values.map(|what| without_values(&what));
    Ok(Prepared::Changed(Box::new(Change {
        old: None,
        new,
        between,
        spec,
        assumption,
        changes_all: true,
        condition,
        records: None,
        basis: None,
    })))
}

/// Returns true if neither the chart nor the values of a release change that keeps its spec, and nothing asks for an upgrade.
fn has_same_input(comparison: &mut Comparison<'_, '_, '_>, live: &Resource, spec: &Value) -> Asked<bool> {
    if asks_for_another_attempt(comparison.state(), live) || is_packed_again(comparison.state(), live, spec)? {
        return Ok(false);
    }
    let id = &live.object.id;
    let (before, after) = (values(comparison, id, spec, false)?, values(comparison, id, spec, true)?);
    let (ReleaseValues::Known(before), ReleaseValues::Known(after)) = (before, after) else { return Ok(false) };
    let mut all = values_between(comparison, id, spec)?.into_iter().chain([after]);
    Ok(all.all(|values| values.is_same(&before)))
}

/// Returns the condition that the values still exist when helm-controller upgrades.
fn without_values(what: &str) -> String {
    format!("it stays if the values are gone before the upgrade: {what}")
}

/// Returns the change of a release that was suspended, had to wait or was rolled back: it is upgraded if its chart or its values are
/// others than those of the last release, which the spec need not name.
///
/// Source: helm-controller v1.6.3 `internal/reconcile/state.go`, `DetermineReleaseState`.
fn caught_up(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    spec: Value,
    earlier: &[Value],
) -> Asked<Prepared> {
    let has_same_spec = earlier.is_empty() && with_defaults(KIND, &spec) == with_defaults(KIND, live.spec());
    let mut change = match prepared_again(comparison, live, spec)? {
        Prepared::Changed(change) => change,
        other => return Ok(other),
    };
    let is_forced = forces_upgrade(comparison.state(), live) || has_failed_test(live, &change.spec);
    if is_forced || change.condition.is_some() || !is_last_version(live, &change.new.chart) {
        return Ok(Prepared::Changed(change));
    }
    let passes = change.between.iter().any(|version| !version.values.is_same(&change.new.values));
    if earlier.is_empty() && !passes && is_last_release(live, &change) {
        return Ok(Prepared::Unchanged);
    }
    let before = values(comparison, &live.object.id, live.spec(), false)?;
    if !before.known().is_some_and(|before| before.is_same(&change.new.values)) {
        // The last release may have had just these values, before the upgrade that failed.
        let differs = before.known().is_some_and(|tried| differ_from_last_release(live, tried, &change.new.values));
        if was_rolled_back(live) && has_attempted_values(live) == Some(false) && !differs {
            change.condition = Some("it stays if its values are those of its last release again".to_owned());
        }
        return Ok(Prepared::Changed(change));
    }
    let passing = "another upgrade comes before its values are those of its last release again";
    let differs = if has_same_spec && is_as_rolled_back(live, &change.new.chart) {
        None
    } else {
        Some(difference_to_last_release(live, has_same_spec))
    };
    change.condition = match (differs, passes) {
        (None, false) => return Ok(Prepared::Unchanged),
        (None, true) => Some(format!("it stays unless {passing}")),
        (Some(differs), true) => Some(format!("it stays unless {differs}, or {passing}")),
        (Some(differs), false) => Some(format!("it stays unless {differs}")),
    };
    Ok(Prepared::Changed(change))
}

/// Describes what can make a release differ from its last one that has the same chart and the values of its last spec.
fn difference_to_last_release(live: &Resource, has_same_spec: bool) -> String {
    let changed = "its values or the metadata of its objects changed";
    if live.flag("/spec/suspend") {
        format!("{changed} while it was suspended")
    } else if !was_rolled_back(live) {
        format!("{changed} while it waited")
    } else if !has_same_spec {
        "another upgrade comes before its chart is that of the last release again".to_owned()
    } else {
        format!("{changed} in the upgrade that failed")
    }
}

/// Returns true if the last release is known to have the chart and the values of the change, and nothing adds metadata to its objects
/// or tests it.
fn is_last_release(live: &Resource, change: &Change) -> bool {
    is_plain_release(live, &change.spec, &change.new.chart) && are_of_last_release(live, &change.new.values)
}

/// Returns true if a release that was rolled back, with the values that it has now, is in sync with this chart: the upgrade that
/// failed had the same values, nothing waits since then or adds metadata to its objects, and no tests have to run.
fn is_as_rolled_back(live: &Resource, chart: &Chart) -> bool {
    was_rolled_back(live)
        && !live.flag("/spec/suspend")
        && has_attempted_values(live) == Some(true)
        && !waits_for_prerequisite(live)
        && is_plain_release(live, live.spec(), chart)
}

/// Returns true if a chart is that of the last release, nothing adds metadata to its objects, and this spec has no tests run.
fn is_plain_release(live: &Resource, spec: &Value, chart: &Chart) -> bool {
    let [name, version] = ["/status/history/0/chartName", "/status/history/0/chartVersion"]
        .map(|field| live.text(field).unwrap_or_default());
    let observed = ["/status/observedCommonMetadataDigest", "/status/observedPostRenderersDigest"];
    (name, version) == (&*chart.name, &*chart.version)
        && ["commonMetadata", "postRenderers"].iter().all(|field| spec.get(*field).is_none_or(Value::is_null))
        && observed.iter().all(|field| live.at(field).is_none_or(Value::is_null))
        && !flag_at(spec, "/test/enable")
}

/// Returns true if the last release has this version of the chart, of whatever revision.
fn is_last_version(live: &Resource, chart: &Chart) -> bool {
    let recorded = live.text("/status/history/0/chartVersion").unwrap_or_default();
    without_metadata(recorded) == without_metadata(&chart.version)
}

/// Returns true if a manifest asks for an upgrade, and helm-controller has not answered that yet.
///
/// Source: helm-controller v1.6.3 `internal/reconcile/atomic_release.go`, `forceRequested`.
fn forces_upgrade(state: &State<'_>, live: &Resource) -> bool {
    has_request(state, live, FORCE_AT, "/status/lastHandledForceAt")
}

/// Returns true if a test of the last release failed that counts with this spec: helm-controller then upgrades the release again.
///
/// Source: helm-controller v1.6.3 `internal/reconcile/state.go`, `DetermineReleaseState`, and `GetActiveRemediation`.
fn has_failed_test(live: &Resource, spec: &Value) -> bool {
    let last = live.text("/status/lastAttemptedReleaseAction");
    let mut kinds = [ActionKind::Install, ActionKind::Upgrade].into_iter();
    let Some(kind) = kinds.find(|kind| last == Some(kind.field())) else { return false };
    let mut tests =
        live.at("/status/history/0/testHooks").and_then(Value::as_object).into_iter().flat_map(|tests| tests.values());
    let counts = flag_at(spec, "/test/enable") && !ignores_tests(spec, kind);
    counts && tests.any(|test| text_at(test, "/phase") == "Failed")
}

/// Returns true if a manifest asks for an upgrade, or to forget failures, and helm-controller has not answered that yet.
fn asks_for_another_attempt(state: &State<'_>, live: &Resource) -> bool {
    forces_upgrade(state, live) || has_request(state, live, RESET_AT, "/status/lastHandledResetAt")
}

fn has_request(state: &State<'_>, live: &Resource, key: &str, handled: &str) -> bool {
    let handled = [handled, "/status/lastHandledReconcileAt"].map(|field| live.text(field));
    let applied = state.applied(&live.object.id).into_iter();
    let mut requests = applied.filter_map(|applied| request(&applied.built.manifest, key));
    requests.any(|request| !handled.contains(&Some(request)))
}

impl Specs {
    /// Returns the specs of a live HelmRelease after the change.
    pub(super) fn find(state: &State<'_>, live: &Resource) -> Result<Self, String> {
        let (last, mut earlier) = state.successive_specs(&live.object.id)?;
        earlier.retain(|spec| *spec != last && spec != live.spec());
        Ok(Self { last, earlier })
    }
}

/// Fields of a spec whose change has no other effect than an upgrade.
const FOLLOWED: [&str; 23] = [
    "chart",
    "chartRef",
    "commonMetadata",
    "dependsOn",
    "driftDetection",
    "healthCheckExprs",
    "install",
    "interval",
    "maxHistory",
    "persistentClient",
    // Of the post-renderers, only a change of their list is an upgrade.
    "postRenderStrategy",
    "postRenderers",
    "releaseName",
    "rollback",
    "serviceAccountName",
    "suspend",
    "test",
    "timeout",
    "uninstall",
    "upgrade",
    "values",
    "valuesFrom",
    "waitStrategy",
];

/// Fails if a field changes whose effect is not computed.
fn check_change(old: &Value, new: &Value) -> Result<(), String> {
    let mut keys = [old, new].into_iter().filter_map(Value::as_object).flat_map(|fields| fields.keys());
    match keys.find(|key| !FOLLOWED.contains(&key.as_str()) && old.get(*key) != new.get(*key)) {
        Some(key) => Err(format!("the effect of spec.{key} is not computed")),
        None => Ok(()),
    }
}
