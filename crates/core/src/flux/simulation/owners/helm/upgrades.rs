//! Upgrades of Helm releases: the chart is rendered as it is deployed and as it will be.
//!
//! Source: docs/reference/flux.md 6.3 and 8.

use std::collections::BTreeSet;

use serde_json::Value;

use super::release_charts::{ReleaseCharts, charts};
use super::replaced_releases::condition;
use crate::flux::build::Interrupt;
use crate::flux::build::charts::templates::{ClusterValues, api_versions};
use crate::flux::build::charts::values::{ValuesSource, values_sources};
use crate::flux::build::charts::{Chart, ChartRun};
use crate::flux::build::data::Lookup;
use crate::flux::simulation::kustomization::variables::data_after_change;
use crate::flux::simulation::model::affected_owner::{Effect, OwnerDeletion};
use crate::flux::simulation::model::owner_names::NOT_READ;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::Asked;
use crate::flux::simulation::owners::changed_owners::Followed;
use crate::flux::simulation::owners::comparison::Comparison;
use crate::flux::simulation::owners::effective_fields::FORCES_UPGRADE;
use crate::flux::simulation::owners::effects::applying_events;
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
use crate::private::Private;

/// Annotation that keeps an object in an upgrade, with exactly the value `keep`.
const POLICY: &str = "helm.sh/resource-policy";

/// Condition of an upgrade that begins with a hook, or that creates or changes objects without a dry-run.
pub(crate) const CAN_FAIL: &str =
    "it stays if the upgrade fails, because the API server refuses an object or a hook fails";

/// Values of a release, each overriding those before it.
struct Values {
    texts: Vec<Private<String>>,
    is_private: bool,
}

/// Computes the effect of a changed chart or changed values on a release. Answers that are missing are added to the needs.
///
/// Fails with the reason why the effect is not known.
pub(super) fn upgrade(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Asked<Followed> {
    if let Some(key) = FORCES_UPGRADE.into_iter().find(|key| sets_annotation(comparison.state(), live, key)) {
        return Err(format!("the effect of the annotation {key} is not computed").into());
    }
    let Some(upgrade) = rendered_upgrade(comparison, live)? else { return Ok(Followed::Unchanged) };
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
        triggers: applying_events(state, release),
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
    if upgrade.hooks.contains(id) {
        deletion.action = Action::Recreate;
        deletion.remark("it is a hook, which each upgrade deletes and creates again");
    } else if is_interrupted {
        deletion.action = Action::Recreate;
        deletion.stays_if("it stays if the new values come before the new chart, or after it");
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

fn rendered_upgrade(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Asked<Option<Upgrade>> {
    let id = &live.object.id;
    let old_spec = live.spec().clone();
    let new_spec = match &comparison.state().specs_after(id)[..] {
        [one] => one.clone(),
        _ => return Err("several Kustomizations apply different specs of it".to_owned().into()),
    };
    for spec in [&old_spec, &new_spec] {
        check_recorded(spec)?;
        check_spec(spec)?;
    }
    check_change(&old_spec, &new_spec)?;
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
    let (old_values, new_values) =
        (values(comparison, live, &old_spec, false)?, values(comparison, live, &new_spec, true)?);
    let is_same_chart = old_chart == new_chart;
    let is_same_values = old_values.texts == new_values.texts;
    let is_same_metadata =
        ["commonMetadata", "postRenderers"].iter().all(|field| old_spec.get(field) == new_spec.get(field));
    if is_same_chart && is_same_values && is_same_metadata {
        return Ok(None);
    }
    let revision = live.at("/status/history/0/version").and_then(Value::as_i64).unwrap_or_default();
    // Both are asked for at once, so that they are rendered side by side.
    let old = render(comparison, live, &old_chart, &old_values, revision);
    let new = render(comparison, live, &new_chart, &new_values, revision + 1);
    let (old, new) = (old?, new?);
    let types = comparison.state().cluster_of(live).map_or(&[][..], |cluster| &cluster.types);
    if let Some(differing) = old.difference_from(&inventory, types) {
        let why = format!("its deployed chart renders here to other objects than its inventory lists: {differing}");
        return Err(why.into());
    }
    let runs_hooks = !flag_at(&new_spec, "/upgrade/disableHooks");
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
    // Chart and values do not change at the same time: either can come first.
    if !is_same_chart && !is_same_values {
        let between = [(&new_chart, &old_values), (&old_chart, &new_values)]
            .map(|(chart, values)| render(comparison, live, chart, values, revision + 1));
        for intermediate in between {
            let intermediate = intermediate?;
            let gone = old.objects.difference(&intermediate.objects).filter(|id| new.objects.contains(*id));
            upgrade.interrupted.extend(gone.cloned());
            let hooks = intermediate.upgrade_hooks.difference(&upgrade.hooks).filter(|_| runs_hooks);
            upgrade.interrupted_hooks.extend(hooks.cloned());
        }
    }
    upgrade.condition = condition(comparison.state(), live, &new_spec, false);
    if let (None, Some(id)) = (&upgrade.condition, &new.duplicate) {
        let twice = format!("it stays while the upgrade fails: the chart renders {id} twice");
        upgrade.condition = Some(twice);
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
    Ok(Some(upgrade))
}

/// Returns the values of a release as helm-controller merges them.
fn values(comparison: &mut Comparison<'_, '_, '_>, live: &Resource, spec: &Value, is_after: bool) -> Asked<Values> {
    let id = &live.object.id;
    let mut is_private = comparison.state().is_private(id);
    let mut texts = vec![];
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
        match changed.map_or(found, |(lookup, _)| lookup) {
            Lookup::Found(data) => {
                let holds_secrets = comparison.state().secrets.are_in_data(&data_id, &data);
                is_private |= data.is_secret || reference.is_secret() || holds_secrets;
                match data.values.get(key) {
                    Some(values) => texts.push(Private::new(source.values(values.reveal())?)),
                    None if optional => {}
                    None => return Err(format!("{data_id} in its valuesFrom has no key {key}").into()),
                }
            }
            Lookup::Missing if optional => {}
            Lookup::Missing => return Err(format!("{data_id} in its valuesFrom does not exist").into()),
            Lookup::Unreadable(why) => {
                return Err(format!("{data_id} in its valuesFrom cannot be read: {why}").into());
            }
            Lookup::NotRead => {
                return Err(format!("{data_id} in its valuesFrom is not read, because it is new").into());
            }
        }
    }
    let own = spec.get("values").filter(|values| values.is_object());
    texts.extend(own.map(|values| Private::new(values.to_string())));
    Ok(Values { texts, is_private })
}

fn render(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    chart: &Chart,
    values: &Values,
    revision: i64,
) -> Asked<Rendered> {
    let name = comparison.state().target_of_live(live).map_err(|reason| reason.detail)?;
    let Some(kube_version) = comparison.derivation.answers.kube_version(&name).cloned() else {
        comparison.derivation.needs.kube_versions.insert(name);
        return Err(Interrupt::Missing);
    };
    let snapshot = comparison.state().cluster_of(live).ok_or_else(|| NOT_READ.to_owned())?;
    let target = ReleaseTarget::recorded(&live.content).ok_or_else(|| "it has no release".to_owned())?;
    let cluster = ClusterValues { revision, api_versions: served_versions(snapshot), kube_version };
    let ReleaseTarget { name: release, namespace, .. } = &target;
    let run = ChartRun::new(chart, release, namespace, &values.texts, &cluster, values.is_private)?;
    match comparison.derivation.answers.chart(&run.key) {
        Some(Ok(text)) => Rendered::read(text, &target.namespace, &snapshot.types, name.as_ref(), values.is_private)
            .map_err(|_| Interrupt::Failed("the output of helm for its chart cannot be read".to_owned())),
        Some(Err(why)) => Err(Interrupt::Failed(why.clone())),
        None => {
            comparison.derivation.needs.charts.insert(run.key.clone(), run);
            Err(Interrupt::Missing)
        }
    }
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
