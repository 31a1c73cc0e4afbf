//! Upgrades of Helm releases: the chart is rendered as it is deployed and as it will be.
//!
//! Source: docs/reference/flux.md 6.3 and 8.

use std::collections::BTreeSet;

use serde_json::Value;

use super::lookups::looked_up;
use super::release_charts::{ReleaseCharts, charts};
use super::replaced_releases::condition;
use crate::flux::build::Interrupt;
use crate::flux::build::charts::lookups::{LOOKUPS, Lookups, too_many};
use crate::flux::build::charts::random::{Randomness, Seed};
use crate::flux::build::charts::templates::{ClusterValues, api_versions};
use crate::flux::build::charts::values::{Values, ValuesSource, merged, values_sources};
use crate::flux::build::charts::{Chart, ChartRun, ReleaseInput, RenderFailure};
use crate::flux::build::objects::data::Lookup;
use crate::flux::simulation::kustomization::variables::data_after_change;
use crate::flux::simulation::model::affected_owner::{Effect, OwnerDeletion};
use crate::flux::simulation::model::owner_names::NOT_READ;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::Followed;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::behaviour::effective_fields::FORCES_UPGRADE;
use crate::helm::post_renderers;
use crate::helm::target::ReleaseTarget;
use crate::helm::upgrade::{Rendered, Upgrade};
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, flag_at, text_at};
use crate::kubernetes::recording::missing_field;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux::status;
use crate::ownership::{Members, OwnerStatus};
use crate::plan::{Action, Reason, ReasonCode};

/// Annotation that keeps an object in an upgrade, with exactly the value `keep`.
const POLICY: &str = "helm.sh/resource-policy";

/// Condition of an upgrade that begins with a hook, or that creates or changes objects without a dry-run.
pub(crate) const CAN_FAIL: &str =
    "it stays if the upgrade fails, because the API server refuses an object or a hook fails";

/// Values of a release after the change, and what they lack.
struct KnownValues {
    values: Values,
    /// A part of the values that is missing, and when.
    missing: Option<MissingValues>,
}

/// A ConfigMap, Secret or key of values that does not exist.
struct MissingValues {
    /// What is missing, for people.
    what: String,
    /// It exists until the change removes it, and the values are those with it.
    is_removed: bool,
}

/// Result of an upgrade.
enum UpgradeResult {
    /// There is nothing to upgrade.
    Unchanged,
    /// helm-controller fails before it changes an object, for this reason.
    Fails(Reason),
    Upgrades(Box<Upgrade>),
}

/// Computes the effect of a changed chart or changed values on a release. Answers that are missing are added to the needs.
///
/// Fails with the reason why the effect is not known.
pub(super) fn upgrade(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Asked<Followed> {
    if let Some(key) = FORCES_UPGRADE.into_iter().find(|key| sets_annotation(comparison.state(), live, key)) {
        return Err(format!("the effect of the annotation {key} is not computed").into());
    }
    let upgrade = match rendered_upgrade(comparison, live)? {
        UpgradeResult::Unchanged => return Ok(Followed::Unchanged),
        UpgradeResult::Fails(reason) => return Ok(Followed::Blocked(reason)),
        UpgradeResult::Upgrades(upgrade) => *upgrade,
    };
    let mut remarks = vec!["objects that the upgrade creates are not in this plan".to_owned()];
    remarks.extend(upgrade.remediation.map(str::to_owned));
    let effect = Box::new(effect(comparison.state(), &live.object.id, upgrade));
    Ok(Followed::Acts { effect, code: ReasonCode::ReleaseUpgraded, remarks })
}

/// Returns the effect of an upgrade on the live objects of a release.
fn effect(state: &State<'_>, release: &ObjectId, upgrade: Upgrade) -> Effect {
    let hooks = upgrade.hooks.iter().chain(&upgrade.interrupted_hooks);
    let removed = upgrade.removed.iter().chain(&upgrade.interrupted).filter(|id| !is_kept_in_upgrade(state, id));
    let objects = removed.chain(hooks).filter_map(|id| state.live_object(id));
    let deletes = objects.map(|object| (object.id.clone(), upgraded_object(object, &upgrade))).collect();
    let kept = upgrade.removed.iter().filter(|id| is_kept_in_upgrade(state, id));
    let reason = Reason::new(ReasonCode::LeftBehind, format!("protected by {POLICY}: keep"));
    Effect {
        triggers: state.applying_events(release),
        deletes,
        keeps: kept.map(|id| (id.clone(), reason.clone())).collect(),
        condition: upgrade.condition,
        assumption: upgrade.assumption,
        ..Effect::default()
    }
}

/// Returns the deletion of an object by an upgrade.
fn upgraded_object(object: &ObjectMetadata, upgrade: &Upgrade) -> OwnerDeletion {
    let id = &object.id;
    let mut deletion = OwnerDeletion::new(CascadeKind::Upgrade);
    deletion.conditions.extend(upgrade.assumption.iter().chain(&upgrade.condition).cloned());
    let is_interrupted = upgrade.interrupted.contains(id) || upgrade.interrupted_hooks.contains(id);
    if upgrade.hooks.contains(id) || upgrade.interrupted_hooks.contains(id) {
        deletion.code = Some(ReasonCode::Hook);
    }
    if upgrade.hooks.contains(id) {
        deletion.action = Action::Recreate;
        deletion.remark("it is a hook, which each upgrade deletes and creates again");
    } else if is_interrupted {
        deletion.action = Action::Recreate;
        deletion.stays_if("it stays unless helm-controller upgrades its release in the middle of the change");
    }
    let is_hook = upgrade.hooks.contains(id) || upgrade.interrupted_hooks.contains(id);
    if is_hook && upgrade.does_not_wait && is_gone_later(object) {
        deletion.stays_if("nothing replaces it if it is still terminating when Helm creates it (upgrade.disableWait)");
    }
    let refused = upgrade.refused_deletions.get(id);
    deletion.conditions.extend(refused.map(|message| format!("it stays while the API server refuses: {message}")));
    deletion.is_doubtful = is_interrupted || refused.is_some();
    deletion
}

/// Returns true if the live object tells Helm to keep it in an upgrade.
pub(crate) fn is_kept_in_upgrade(state: &State<'_>, id: &ObjectId) -> bool {
    state.live_object(id).is_some_and(|object| object.annotations.get(POLICY) == Some("keep"))
}

/// Returns true if a manifest gives an annotation a value that it does not have.
fn sets_annotation(state: &State<'_>, live: &Resource, key: &str) -> bool {
    state.applied(&live.object.id).iter().any(|applied| {
        let value = applied.built.manifest.pointer("/metadata/annotations").and_then(|all| all.get(key)?.as_str());
        value.is_some() && value != live.object.annotations.get(key)
    })
}

fn rendered_upgrade(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Asked<UpgradeResult> {
    let id = &live.object.id;
    let old_spec = live.spec().clone();
    let (new_spec, earlier_specs) = comparison.state().successive_specs(id)?;
    for spec in [&old_spec, &new_spec].into_iter().chain(&earlier_specs) {
        check_recorded(spec)?;
        check_spec(spec)?;
        check_change(&old_spec, spec)?;
    }
    if let Some(other) = earlier_specs.iter().find(|spec| !has_same_chart(spec, &new_spec)) {
        let charts =
            [other, &new_spec].map(|spec| spec.pointer("/chart/spec").unwrap_or(&spec["chartRef"]).to_string());
        return Err(format!("it gets two charts one after the other: {}", charts.join(" and ")).into());
    }
    comparison.state().target_of_live(live).map_err(|reason| reason.detail)?;
    if let Some(moves) = comparison.cluster_changes(&id.namespace, &new_spec).into_iter().next() {
        return Err(format!("it may reach another cluster then: {moves}").into());
    }
    let is_ready = status(&live.object, &live.content, None) == OwnerStatus::Ready;
    if !is_ready || text_at(&live.content, "/status/history/0/status") != "deployed" {
        return Err("its release is not deployed and ready".to_owned().into());
    }
    let Members::Listed(inventory) = comparison.state().members(live) else {
        return Err("it records no inventory".to_owned().into());
    };
    let ReleaseCharts { old: old_chart, new: new_chart, assumption } = charts(comparison, live, &old_spec, &new_spec)?;
    if old_chart.name != new_chart.name {
        return Err(format!("its chart becomes {}", new_chart.name).into());
    }
    let old_values = values(comparison, live, &old_spec, false)?;
    if let Some(missing) = old_values.missing {
        return Err(missing.what.into());
    }
    let (old_values, KnownValues { values: new_values, missing }) =
        (old_values.values, values(comparison, live, &new_spec, true)?);
    let mut earlier_values = vec![];
    for spec in &earlier_specs {
        earlier_values.push(values(comparison, live, spec, true)?.values);
    }
    let is_same_chart = old_chart == new_chart;
    let is_same_values = old_values.has_same_texts(&new_values);
    let is_same_metadata =
        ["commonMetadata", "postRenderers"].iter().all(|field| old_spec.get(field) == new_spec.get(field));
    // Without its values, helm-controller does not get as far as an upgrade. One whose chart does not change then does
    // nothing.
    if let Some(missing) = missing.as_ref().filter(|missing| is_same_chart && (is_same_values || !missing.is_removed)) {
        return Ok(UpgradeResult::Fails(Reason::new(ReasonCode::ValuesMissing, &missing.what)));
    }
    earlier_values.retain(|values| !values.has_same_texts(&new_values));
    if is_same_chart && is_same_values && is_same_metadata && earlier_values.is_empty() {
        return Ok(UpgradeResult::Unchanged);
    }
    let mut removed_values = None;
    let revision = live.at("/status/history/0/version").and_then(Value::as_i64).unwrap_or_default();
    // Both are asked for at once, so that they are rendered side by side.
    let old = render(comparison, live, Draft::new(&old_chart, &old_values, revision, true));
    let skips_schema = flag_at(&new_spec, "/upgrade/disableSchemaValidation");
    let new = render_twice(comparison, live, Draft::new(&new_chart, &new_values, revision + 1, skips_schema));
    let old = old?.map_err(|why| format!("its deployed chart cannot be rendered here: {why}"))?;
    let new = match missing {
        // There are no values, so that there is no render.
        Some(missing) if !missing.is_removed => Err(Reason::new(ReasonCode::ValuesMissing, missing.what)),
        missing => {
            removed_values = missing;
            new?.and_then(single).map_err(|why| Reason::new(ReasonCode::RenderFailed, why))
        }
    };
    // Chart and values do not change at the same time: either can come first.
    let mut between: Vec<(&Chart, &Values)> = vec![];
    if !is_same_chart && !is_same_values {
        between = vec![(&new_chart, &old_values), (&old_chart, &new_values)];
    }
    between.extend(earlier_values.iter().flat_map(|values| [(&new_chart, values), (&old_chart, values)]));
    let between: Vec<_> = between
        .into_iter()
        .map(|(chart, values)| render(comparison, live, Draft::new(chart, values, revision + 1, skips_schema)))
        .collect();
    let mut intermediates = vec![];
    for rendered in between {
        // A render that fails is no upgrade.
        intermediates.extend(rendered?.and_then(single));
    }
    let types = comparison.state().cluster_of(live).map_or(&[][..], |cluster| &cluster.types);
    // What a template looks up may have changed since the last release, whose inventory is right then.
    let old = if old.depends_on_cluster { old.with_recorded(&inventory, types) } else { old };
    if let Some(differing) = old.difference_from(&inventory, types) {
        let why = format!("its deployed chart renders here to other objects than its inventory lists: {differing}");
        return Err(why.into());
    }
    let runs_hooks = !flag_at(&new_spec, "/upgrade/disableHooks");
    let new = match new {
        Ok(new) => new,
        Err(reason) => return Ok(failing_upgrade(&old, &intermediates, reason, runs_hooks)),
    };
    let mut upgrade = Upgrade {
        removed: old.objects.difference(&new.objects).cloned().collect(),
        hooks: if runs_hooks { new.recreated_hooks(&old) } else { BTreeSet::new() },
        does_not_wait: flag_at(&new_spec, "/upgrade/disableWait"),
        remediation: remediation(&new_spec),
        assumption,
        ..Upgrade::default()
    };
    if flag_at(&new_spec, "/test/enable") {
        upgrade.hooks.extend(new.tests.iter().cloned());
    }
    // Helm leaves a kept object, and applies it again as a hook.
    let is_kept = |id: &ObjectId| !new.upgrade_hooks.contains(id) && is_kept_in_upgrade(comparison.state(), id);
    upgrade.hooks.retain(|id| !is_kept(id));
    upgrade.removed.retain(|id| !upgrade.hooks.contains(id));
    for intermediate in &intermediates {
        let gone = old.objects.difference(&intermediate.objects).filter(|id| new.objects.contains(*id));
        upgrade.interrupted.extend(gone.cloned());
        let hooks = intermediate.upgrade_hooks.difference(&upgrade.hooks).filter(|_| runs_hooks);
        upgrade.interrupted_hooks.extend(hooks.cloned());
    }
    upgrade.condition = condition(comparison.state(), live, &new_spec, false);
    if let Some(missing) = removed_values {
        upgrade.condition = Some(format!("it stays if the values are gone before the upgrade: {}", missing.what));
    }
    if upgrade.condition.is_none() && new.has_hook_before && runs_hooks {
        upgrade.condition = Some(CAN_FAIL.to_owned());
    }
    if upgrade.condition.is_none() && has_post_renderers(&new_spec) {
        upgrade.condition = Some("it stays if the upgrade fails, because a post-renderer fails".to_owned());
    }
    if upgrade.condition.is_none() {
        let changed = new.changed_from(&old, |id| comparison.state().live_object(id).is_some());
        let is_private = old_values.is_private || new_values.is_private;
        comparison.rehearse_upgrade(&mut upgrade, live, &new_spec, (&old, changed), is_private);
    }
    Ok(UpgradeResult::Upgrades(Box::new(upgrade)))
}

/// Fails if an object is rendered twice: helm-controller then fails in its post-renderer.
fn single(rendered: Rendered) -> Result<Rendered, String> {
    match &rendered.duplicate {
        Some(id) => Err(format!("the chart renders {id} twice")),
        None => Ok(rendered),
    }
}

/// Returns the effect of a change whose result fails to render: upgrades on the way to it can delete objects.
fn failing_upgrade(old: &Rendered, intermediates: &[Rendered], reason: Reason, runs_hooks: bool) -> UpgradeResult {
    let removed = intermediates.iter().flat_map(|between| old.objects.difference(&between.objects)).cloned();
    let hooks = intermediates.iter().flat_map(|between| between.recreated_hooks(old)).filter(|_| runs_hooks);
    let mut upgrade = Upgrade { removed: removed.collect(), hooks: hooks.collect(), ..Upgrade::default() };
    if upgrade.removed.is_empty() && upgrade.hooks.is_empty() {
        return UpgradeResult::Fails(reason);
    }
    let both = "it stays unless helm-controller upgrades with the new chart or the new values alone; with both, the upgrade \
                fails";
    upgrade.condition = Some(format!("{both}: {}", reason.detail));
    UpgradeResult::Upgrades(Box::new(upgrade))
}

/// Returns true if two specs name the same chart.
fn has_same_chart(one: &Value, other: &Value) -> bool {
    ["chart", "chartRef"].iter().all(|field| one.get(field) == other.get(field))
}

/// Returns the values of a release as helm-controller merges them.
fn values(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    spec: &Value,
    is_after: bool,
) -> Asked<KnownValues> {
    let id = &live.object.id;
    let mut is_private = comparison.state().is_private(id);
    let (mut entries, mut missing) = (vec![], None);
    for source in values_sources(&id.namespace, spec) {
        source.names()?;
        let ValuesSource { reference, key, optional, .. } = source.clone();
        let data_id = reference.id();
        if comparison.state().applied(&data_id).iter().any(|applied| applied.built.undecrypted.is_some()) {
            return Err(format!("{data_id} in its valuesFrom is encrypted").into());
        }
        let Some(found) = comparison.derivation.answers.data(&reference).cloned() else {
            comparison.derivation.needs.data.insert(reference);
            return Err(Interrupt::Missing);
        };
        let changed = is_after.then(|| data_after_change(comparison.derivation, &reference, &found)).flatten();
        let lookup = changed.map_or_else(|| found.clone(), |(lookup, _)| lookup);
        let before = match &found {
            Lookup::Found(data) => data.values.get(key),
            _ => None,
        };
        match lookup {
            Lookup::Found(data) => {
                is_private |= data.is_secret || reference.is_secret();
                match data.values.get(key) {
                    Some(values) => entries.push((source, values.clone())),
                    None if optional => {}
                    None => {
                        let what = format!("{data_id} in its valuesFrom has no key {key}");
                        missing = missing.or(Some(MissingValues { what, is_removed: before.is_some() }));
                        entries.extend(before.map(|values| (source, values.clone())));
                    }
                }
            }
            Lookup::Missing if optional => {}
            Lookup::Missing => {
                is_private |= reference.is_secret();
                let verb = if before.is_some() { "is deleted" } else { "does not exist" };
                let what = format!("{data_id} in its valuesFrom {verb}");
                missing = missing.or(Some(MissingValues { what, is_removed: before.is_some() }));
                entries.extend(before.map(|values| (source, values.clone())));
            }
            Lookup::Unreadable(why) => {
                return Err(format!("{data_id} in its valuesFrom cannot be read: {why}").into());
            }
            Lookup::NotRead => {
                return Err(format!("{data_id} in its valuesFrom is not read, because it is new").into());
            }
        }
    }
    let values = merged(entries, spec.get("values"))?;
    Ok(KnownValues { values: Values { is_private, ..values }, missing })
}

/// A chart to render for a release.
#[derive(Clone, Copy)]
struct Draft<'c> {
    chart: &'c Chart,
    values: &'c Values,
    /// Revision of the release.
    revision: i64,
    skips_schema: bool,
    seed: Seed,
}

impl<'c> Draft<'c> {
    fn new(chart: &'c Chart, values: &'c Values, revision: i64, skips_schema: bool) -> Self {
        Self { chart, values, revision, skips_schema, seed: Seed::First }
    }
}

/// Renders a chart that may have random values, which differ from those of [`render`] then. Returns the message if it always
/// fails.
///
/// Fails if objects are named or chosen by chance, and with the reason why the result is not known.
fn render_twice(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    draft: Draft<'_>,
) -> Asked<Result<Rendered, String>> {
    let chance = "its chart names or chooses objects by chance, or by the time of day";
    match draft.chart.randomness(draft.values) {
        Randomness::None => return render(comparison, live, draft),
        Randomness::InTexts => {}
        Randomness::InDecisions => return Err(format!("{chance} (rand, gen, uuidv4, now)").into()),
    }
    // Both are asked for at once, so that they are rendered side by side.
    let first = render(comparison, live, draft);
    let second = render(comparison, live, Draft { seed: Seed::Second, ..draft });
    match (first?, second?) {
        (Ok(first), Ok(second)) if first.has_same_objects(&second) => Ok(Ok(second)),
        (Err(first), Err(_)) => Ok(Err(first)),
        _ => Err(chance.to_owned().into()),
    }
}

/// Renders a chart. Returns the message if it always fails.
fn render(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    Draft { chart, values, revision, skips_schema, seed }: Draft<'_>,
) -> Asked<Result<Rendered, String>> {
    let name = comparison.state().target_of_live(live).map_err(|reason| reason.detail)?;
    let Some(kube_version) = comparison.derivation.answers.kube_version(&name).cloned() else {
        comparison.derivation.needs.kube_versions.insert(name);
        return Err(Interrupt::Missing);
    };
    let snapshot = comparison.state().cluster_of(live).ok_or_else(|| NOT_READ.to_owned())?;
    let target = ReleaseTarget::recorded(&live.content).ok_or_else(|| "it has no release".to_owned())?;
    let api_versions = served_versions(snapshot);
    let mut cluster = ClusterValues { revision, api_versions, kube_version, lookups: Lookups::new(), seed };
    let ReleaseTarget { name: release, namespace, .. } = &target;
    while cluster.lookups.len() <= LOOKUPS {
        let input = ReleaseInput { release, namespace, values, cluster: &cluster, skips_schema };
        let run = ChartRun::new(chart, input)?;
        let Some(output) = comparison.derivation.answers.chart(&run.key) else {
            comparison.derivation.needs.charts.insert(run.key.clone(), run);
            return Err(Interrupt::Missing);
        };
        match output {
            Ok(text) => {
                let mut rendered = Rendered::read(text, &target.namespace, &snapshot.types, name.as_ref())
                    .map_err(|_| "the output of helm for its chart cannot be read".to_owned())?;
                rendered.depends_on_cluster = !cluster.lookups.is_empty();
                return Ok(Ok(rendered));
            }
            Err(RenderFailure::Proven(why)) => return Ok(Err(why.clone())),
            Err(RenderFailure::Unknown(why)) => return Err(why.clone().into()),
            Err(RenderFailure::Asks(query)) => match looked_up(comparison, live, query)? {
                Ok(answer) => cluster.lookups.insert(query.clone(), answer),
                Err(refusal) => return Ok(Err(refusal)),
            },
        };
    }
    Err(too_many().into())
}

/// Returns the API versions that templates see in a cluster; empty if only the preferred ones were read.
fn served_versions(snapshot: &Snapshot) -> BTreeSet<String> {
    if snapshot.other_versions.is_empty() {
        return BTreeSet::new();
    }
    let listed = snapshot.types.iter().map(|kind| (&*kind.group, &*kind.version, &*kind.kind));
    let others = snapshot.other_versions.iter();
    let others = others.map(|other| (&*other.what.group, &*other.version, &*other.what.kind));
    api_versions(listed.chain(others))
}

/// Fails if a snapshot lacks a field of the spec of a HelmRelease or ResourceSet.
pub(crate) fn check_recorded(spec: &Value) -> Result<(), String> {
    match missing_field(spec) {
        Some(field) => Err(format!(
            "the snapshot has no value of spec.{field}: plan with the cluster, or record it with --with-values"
        )),
        None => Ok(()),
    }
}

/// Fails if a spec has fields with which a release is not rendered here as in the cluster.
fn check_spec(spec: &Value) -> Result<(), String> {
    if flag_at(spec, "/upgrade/preserveValues") {
        return Err("upgrade.preserveValues merges the values with those of the last release".to_owned());
    }
    post_renderers::check(spec)
}

/// Returns true if post-renderers run, which can fail, for example at a patch that matches nothing.
fn has_post_renderers(spec: &Value) -> bool {
    spec.get("postRenderers").and_then(Value::as_array).is_some_and(|renderers| !renderers.is_empty())
}

/// Returns true if a deleted object is terminating for a while.
fn is_gone_later(object: &ObjectMetadata) -> bool {
    !object.finalizers.is_empty() || object.id.is("", "Namespace")
}

/// Returns what helm-controller does if an upgrade fails after its deletions, for example because an object does not become
/// ready. Source: helm-controller v1.6.3 `api/v2`, `UpgradeRemediation`.
fn remediation(spec: &Value) -> Option<&'static str> {
    let retries = spec.pointer("/upgrade/remediation/retries").and_then(Value::as_i64).unwrap_or_default();
    let remediates_last = spec.pointer("/upgrade/remediation/remediateLastFailure").and_then(Value::as_bool);
    let remediates = remediates_last.unwrap_or_default() || retries != 0;
    match text_at(spec, "/upgrade/remediation/strategy") {
        _ if !remediates => None,
        "uninstall" => Some("if the upgrade fails, all objects of the release are deleted (upgrade.remediation)"),
        _ => Some("if the upgrade fails later, deleted objects are created again (upgrade.remediation)"),
    }
}

/// Fields of a spec whose change has no other effect than an upgrade.
const FOLLOWED: [&str; 16] = [
    "chart",
    "chartRef",
    "commonMetadata",
    "dependsOn",
    "install",
    "interval",
    "maxHistory",
    "persistentClient",
    "postRenderers",
    "releaseName",
    "rollback",
    "suspend",
    "timeout",
    "upgrade",
    "values",
    "valuesFrom",
];

/// Fails if a field changes whose effect is not computed.
fn check_change(old: &Value, new: &Value) -> Result<(), String> {
    let mut keys = [old, new].into_iter().filter_map(Value::as_object).flat_map(|fields| fields.keys());
    match keys.find(|key| !FOLLOWED.contains(&key.as_str()) && old.get(*key) != new.get(*key)) {
        Some(key) => Err(format!("the effect of spec.{key} is not computed")),
        None => Ok(()),
    }
}
