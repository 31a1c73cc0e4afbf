//! Upgrades of Helm releases: the chart is rendered as it is deployed and as it will be.
//!
//! Source: docs/reference/flux.md 6.3 and 8.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::action::{HookRun, ReleaseAction};
use super::action_kind::ActionKind;
use super::conditions::{condition, waits_for_prerequisite};
use super::failure::{Attempt, Failure};
use super::preserved_values::{check_deployed, preserved, preserves};
use super::release_charts::{IN_PLACE, ReleaseCharts, UNKNOWN_REVISION, charts, first_chart, without_metadata};
use super::release_values::{ReleaseValues, values};
use super::remedies::{Remedy, can_fail_later, test_fates};
use super::rendering::{Place, Rendering, Version};
use crate::flux::apply::question::HELM_CONTROLLER;
use crate::flux::build::charts::{Chart, metadata};
use crate::flux::build::objects::{BuiltObject, MaskedObject};
use crate::flux::simulation::model::affected_owner::OwnerApply;
use crate::flux::simulation::model::node::BuiltObjects;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::Followed;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::behaviour::effective_fields::FORCES_UPGRADE;
use crate::flux::simulation::owners::behaviour::scaling::released_claims;
use crate::flux::spec::SourceId;
use crate::helm::hooks::{Hook, HookFate};
use crate::helm::post_renderers;
use crate::helm::rendered::{POLICY, Rendered};
use crate::helm::target::ReleaseTarget;
use crate::helm::uninstall::records;
use crate::kubernetes::object::{GroupKind, ObjectId, Resource, flag_at, text_at};
use crate::kubernetes::recording::missing_field;
use crate::ownership::schemes::flux::status;
use crate::ownership::schemes::flux_helmrelease::{NAME, NAMESPACE};
use crate::ownership::schemes::helm::RELEASE_NAME;
use crate::ownership::{Members, OwnerStatus};
use crate::plan::{Action, Reason, ReasonCode};

/// Number of changed values that are named.
const NAMED_VALUES: usize = 3;

/// Conditions under which an object is removed that not every manifest has.
const DEFINITIONS: &str = "it depends on whether the definitions that this change creates exist by then";
const AFTER_FAILURE: &str = "it stays if the revision before the failed upgrade does not have it";

/// A release before and after the change.
struct Change {
    /// `None` if the deployed chart may be an earlier one: after an upgrade that failed, and while the HelmRelease is suspended.
    old: Option<Version>,
    new: Version,
    /// Versions with other specs that may be deployed in between.
    between: Vec<Version>,
    spec: Value,
    assumption: Option<String>,
    /// The metadata or the post-renderers of all objects change.
    changes_all: bool,
    /// Condition under which nothing happens, for people.
    condition: Option<String>,
}

/// Renders of a release before and after the change.
struct Renders {
    old: Rendered,
    new: Rendered,
    between: Vec<Rendered>,
    /// The new chart, if definitions that the change creates come first.
    later: Option<Rendered>,
    /// Condition under which there is an upgrade, because the new chart fails with the new values.
    doubt: Option<String>,
}

/// Consequence of a change of a release that is known before anything is rendered.
enum Prepared {
    Unchanged,
    Blocked(Followed),
    Changed(Box<Change>),
}

/// Computes the effect of a changed chart or changed values on a release. Answers that are missing are added to the needs.
///
/// Fails with the reason why the effect is not known.
pub(super) fn upgrade(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Asked<Followed> {
    if let Some(key) = FORCES_UPGRADE.into_iter().find(|key| sets_annotation(comparison.state(), live, key)) {
        return Err(format!("the effect of the annotation {key} is not computed").into());
    }
    let change = match prepared(comparison, live)? {
        Prepared::Unchanged => return Ok(Followed::Unchanged),
        Prepared::Blocked(followed) => return Ok(followed),
        Prepared::Changed(change) => change,
    };
    let target = ReleaseTarget::recorded(&live.content).ok_or_else(|| "it has no release".to_owned())?;
    let mut place = Place::find(comparison, &live.object.id, live.spec(), target)?;
    let renders = match renders(comparison, live, &change, &mut place)? {
        Ok(renders) => renders,
        Err(why) => return Ok(blocked(ReasonCode::RenderFails, why)),
    };
    acted(comparison, live, &change, &renders, &place)
}

/// Computes the effect of an upgrade by a HelmRelease that takes over the release of another one. `assumed` is that one under
/// the name of the new one.
pub(super) fn taken_over(comparison: &mut Comparison<'_, '_, '_>, assumed: &Resource) -> Asked<Followed> {
    let (spec, _) = comparison.state().successive_specs(&assumed.object.id)?;
    check_recorded(&spec)?;
    post_renderers::check(&spec)?;
    let change = match prepared_again(comparison, assumed, spec)? {
        Prepared::Changed(change) => change,
        Prepared::Blocked(followed) => return Ok(followed),
        Prepared::Unchanged => return Ok(Followed::Unchanged),
    };
    let target = ReleaseTarget::recorded(&assumed.content).ok_or_else(|| "it has no release".to_owned())?;
    let mut place = Place::find(comparison, &assumed.object.id, &change.spec, target)?;
    match renders(comparison, assumed, &change, &mut place)? {
        Ok(renders) => acted(comparison, assumed, &change, &renders, &place),
        Err(why) => Ok(blocked(ReasonCode::RenderFails, why)),
    }
}

/// Returns the change of a release, as far as it is known without a render.
fn prepared(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Asked<Prepared> {
    let id = &live.object.id;
    let old_spec = live.spec().clone();
    let (new_spec, earlier) = specs_after(comparison, live)?;
    for spec in [&old_spec, &new_spec] {
        check_recorded(spec)?;
        post_renderers::check(spec)?;
    }
    check_change(&old_spec, &new_spec)?;
    if let Some(moves) = comparison.cluster_changes(&id.namespace, &new_spec)?.into_iter().next() {
        return Err(format!("it may reach another cluster then: {moves}").into());
    }
    let is_deployed = text_at(&live.content, "/status/history/0/status") == "deployed";
    if let Some(why) = missing_chart(comparison.state(), id, &new_spec) {
        return Ok(Prepared::Blocked(blocked(ReasonCode::RenderFails, why)));
    }
    let is_resumed = is_deployed && live.flag("/spec/suspend") && live.is_true("Ready");
    if is_resumed {
        return resumed(comparison, live, new_spec);
    }
    if (is_deployed && was_rolled_back(live)) || has_failed_upgrade(live) {
        return prepared_again(comparison, live, new_spec);
    }
    let is_ready = status(&live.object, &live.content, None) == OwnerStatus::Ready;
    let is_known = is_deployed && (is_ready || waits_for_prerequisite(live));
    if !is_known && !has_failed_install(live) {
        return Err("its release is not deployed and ready".to_owned().into());
    }
    let ReleaseCharts { old, new, assumption } = charts(comparison, live, &old_spec, &new_spec)?;
    if old.name != new.name && text_at(&new_spec, "/upgrade/chartNameChangeStrategy") != IN_PLACE {
        return Err(format!("its chart becomes {}", new.name).into());
    }
    let (old_values, new_values) =
        (values(comparison, id, &old_spec, false)?, values(comparison, id, &new_spec, true)?);
    let (new_values, removed_values) = match new_values {
        ReleaseValues::Known(found) => (found, None),
        ReleaseValues::Removed(found, what) => (found, Some(what)),
        ReleaseValues::Missing(what) => {
            return Ok(Prepared::Blocked(blocked(ReasonCode::ValuesMissing, what)));
        }
    };
    let ReleaseValues::Known(old_values) = old_values else {
        return Err("the values of its last release are not known".to_owned().into());
    };
    let changes_all =
        ["commonMetadata", "postRenderers"].iter().any(|field| old_spec.get(field) != new_spec.get(field));
    // helm-controller compares name and version: another chart of the same version is not installed.
    let mut is_same = old.version == new.version && old_values.is_same(&new_values) && !changes_all;
    let mut between = vec![];
    for spec in &earlier {
        let ReleaseCharts { new: chart, .. } = charts(comparison, live, &old_spec, spec)?;
        let ReleaseValues::Known(values) = values(comparison, id, spec, true)? else { continue };
        is_same &= chart.version == old.version && values.is_same(&old_values);
        between.push(Version { chart, values });
    }
    if let Some(what) = removed_values.as_ref().filter(|_| is_same) {
        return Ok(Prepared::Blocked(blocked(ReasonCode::ValuesMissing, what.clone())));
    }
    if is_same && flag_at(&new_spec, "/test/enable") && !flag_at(&old_spec, "/test/enable") {
        return Err("its tests run once they are enabled, without an upgrade".to_owned().into());
    }
    if is_same {
        return Ok(Prepared::Unchanged);
    }
    // Chart and values do not change at the same time: either can come first.
    if old.version != new.version && !old_values.is_same(&new_values) {
        between.push(Version { chart: new.clone(), values: old_values.clone() });
        between.push(Version { chart: old.clone(), values: new_values.clone() });
    }
    let old = Version { chart: old, values: old_values };
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
    })))
}

/// Returns the reason why source-controller cannot pack the chart of a release after the change; `None` if it can, or if that is
/// not known.
fn missing_chart(state: &State<'_>, id: &ObjectId, spec: &Value) -> Option<String> {
    let chart = spec.pointer("/chart/spec")?;
    let tree = state.input.trees.get(&SourceId::of_chart(chart, &id.namespace))?;
    metadata(tree, chart).err()
}

/// Returns true if helm-controller rolled the release back after an upgrade that failed, and waits for a change.
fn was_rolled_back(live: &Resource) -> bool {
    let is_false = |kind: &str| live.condition(kind).is_some_and(|condition| condition.status == "False");
    is_false("Ready") && live.is_true("Remediated")
}

/// Returns true if the installation failed, and nothing has remedied that. The next change is an upgrade of what it left.
fn has_failed_install(live: &Resource) -> bool {
    let is_first = live.at("/status/history/0/version").and_then(Value::as_i64) == Some(1);
    is_first && live.text("/status/history/0/status") == Some("failed") && live.at("/status/history/1").is_none()
}

/// Returns true if the last upgrade failed, and nothing has remedied that. The next one begins with the revision before.
fn has_failed_upgrade(live: &Resource) -> bool {
    live.text("/status/history/0/status") == Some("failed") && live.at("/status/history/1").is_some()
}

/// Returns the live objects with the labels of a release that are no hooks.
fn labelled(state: &State<'_>, live: &Resource) -> Vec<ObjectId> {
    let ObjectId { name, namespace, .. } = &live.object.id;
    let objects = state.cluster_of(live).into_iter().flat_map(|cluster| &cluster.objects);
    let own = objects.filter(|object| {
        object.labels.get(NAME) == Some(name)
            && object.labels.get(NAMESPACE) == Some(namespace)
            && object.annotations.get(RELEASE_NAME).is_some()
            && Hook::of_live(object).is_none()
    });
    own.map(|object| object.id.clone()).collect()
}

/// Returns the change of a release that was rolled back, or whose upgrade failed: any change of it is another upgrade.
fn prepared_again(comparison: &mut Comparison<'_, '_, '_>, live: &Resource, spec: Value) -> Asked<Prepared> {
    let id = &live.object.id;
    if preserves(&spec) {
        let why = "upgrade.preserveValues keeps the values of its last release that did not fail, which are not read";
        return Err(why.to_owned().into());
    }
    let (chart, assumption) = first_chart(comparison, id, &spec, Some(live))?;
    let (values, removed_values) = match values(comparison, id, &spec, true)? {
        ReleaseValues::Known(found) => (found, None),
        ReleaseValues::Removed(found, what) => (found, Some(what)),
        ReleaseValues::Missing(what) => {
            return Ok(Prepared::Blocked(blocked(ReasonCode::ValuesMissing, what)));
        }
    };
    let new = Version { chart, values };
    let condition = removed_values.map(|what| without_values(&what));
    let change = Change { old: None, new, between: vec![], spec, assumption, changes_all: true, condition };
    Ok(Prepared::Changed(Box::new(change)))
}

/// Returns the condition that the values still exist when helm-controller upgrades.
fn without_values(what: &str) -> String {
    format!("it stays if the values are gone before the upgrade: {what}")
}

/// Returns the change of a release that is resumed: it is upgraded if its chart or its values are others than those of the last
/// release, which the spec need not name.
fn resumed(comparison: &mut Comparison<'_, '_, '_>, live: &Resource, spec: Value) -> Asked<Prepared> {
    let (id, old_spec) = (&live.object.id, live.spec().clone());
    let before = values(comparison, id, &old_spec, false)?;
    let mut change = match prepared_again(comparison, live, spec)? {
        Prepared::Changed(change) => change,
        other => return Ok(other),
    };
    let recorded = live.text("/status/history/0/chartVersion").unwrap_or_default();
    let is_same = matches!(&before, ReleaseValues::Known(before) if before.is_same(&change.new.values));
    if is_same
        && without_metadata(recorded) == without_metadata(&change.new.chart.version)
        && change.condition.is_none()
    {
        let why = "it stays unless its values or the metadata of its objects changed while it was suspended";
        change.condition = Some(why.to_owned());
    }
    Ok(Prepared::Changed(change))
}

/// Returns the last spec after the change, and those that the same Kustomization applies before it.
fn specs_after(comparison: &Comparison<'_, '_, '_>, live: &Resource) -> Asked<(Value, Vec<Value>)> {
    let (state, id) = (comparison.state(), &live.object.id);
    let (last, mut specs) = state.successive_specs(id)?;
    specs.retain(|spec| *spec != last && spec != live.spec());
    Ok((last, specs))
}

/// Renders a release before and after the change. Returns the message if the new chart always fails.
fn renders(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    change: &Change,
    place: &mut Place<'_>,
) -> Asked<Result<Renders, String>> {
    let Members::Listed(mut inventory) = comparison.state().members(live) else {
        return Err("it records no inventory".to_owned().into());
    };
    if has_failed_upgrade(live) {
        inventory = labelled(comparison.state(), live);
    }
    let revision = live.at("/status/history/0/version").and_then(Value::as_i64).unwrap_or_default();
    let skips_schema = flag_at(&change.spec, "/upgrade/disableSchemaValidation");
    let is_random = change.old.as_ref().is_some_and(Version::is_random);
    // All are asked for at once, so that they are rendered side by side.
    let old = change.old.as_ref().map(|old| place.render(comparison, old.draft(live.spec(), revision, true)));
    let new = place.render_twice(comparison, change.new.draft(&change.spec, revision + 1, skips_schema));
    let later = place.render_later(comparison, change.new.draft(&change.spec, revision + 1, skips_schema));
    let mut between = vec![];
    for version in &change.between {
        between.push(place.render(comparison, version.draft(&change.spec, revision + 1, skips_schema)));
    }
    let old = match old.transpose()? {
        // What a template looks up may have changed since the last release, whose inventory is right then.
        // Objects with random names are in its inventory too.
        Some(Rendering::Done(old)) if old.depends_on_cluster || is_random => {
            old.with_recorded(&inventory, &place.snapshot.types)
        }
        Some(Rendering::Done(old)) => *old,
        Some(Rendering::Refused(_)) | None => Rendered::default().with_recorded(&inventory, &place.snapshot.types),
        Some(Rendering::Fails(why)) => return Err(format!("its deployed chart is not rendered here: {why}").into()),
    };
    if let Some(differing) = old.difference_from(&inventory, &place.snapshot.types) {
        let why = format!("its deployed chart renders here to other objects than its inventory lists: {differing}");
        return Err(why.into());
    }
    let new = match new? {
        Rendering::Done(new) => *new,
        Rendering::Fails(why) | Rendering::Refused(why) => {
            let mut first = vec![];
            for intermediate in between {
                if let Rendering::Done(rendered) = intermediate? {
                    first.push(*rendered);
                }
            }
            let doubt = format!(
                "it stays unless an upgrade with the new chart or the new values alone comes first: with both, {why}"
            );
            return match <[Rendered; 1]>::try_from(first) {
                Ok([new]) => Ok(Ok(Renders { old, new, between: vec![], later: None, doubt: Some(doubt) })),
                Err(several) if several.is_empty() => Ok(Err(why)),
                Err(_) => Err(doubt.into()),
            };
        }
    };
    let mut renders = Renders { old, new, between: vec![], later: later?, doubt: None };
    for intermediate in between {
        // One that fails deletes nothing.
        if let Rendering::Done(rendered) = intermediate? {
            renders.between.push(*rendered);
        }
    }
    Ok(Ok(renders))
}

/// Returns what helm-controller does in an upgrade.
fn acted(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    change: &Change,
    Renders { old, new, between, later, doubt }: &Renders,
    place: &Place<'_>,
) -> Asked<Followed> {
    let (id, kind, spec) = (&live.object.id, ActionKind::Upgrade, &change.spec);
    let state = comparison.state();
    let mut action = ReleaseAction::new(kind);
    action.assumption.clone_from(&change.assumption);
    action.waits = condition(state, comparison.derivation.consequences, id, Some(live), spec, false);
    if doubt.is_some() {
        action.waits.clone_from(doubt);
    }
    if change.condition.is_some() {
        action.waits.clone_from(&change.condition);
    }
    action.does_not_wait = flag_at(spec, "/upgrade/disableWait");
    action.hooks = hook_runs(spec, kind, new, Some(old), &test_fates(spec, new));
    // Helm leaves a kept object, and applies it again as a hook.
    action.hooks.retain(|id, _| !(old.objects.contains(id) && is_kept_in_upgrade(state, id)));
    let removed = old.objects.difference(&new.objects).filter(|id| !action.hooks.contains_key(*id));
    action.removed = removed.cloned().collect();
    action.claims = released_claims(state, old, new);
    if let Some(later) = later {
        let gone = old.objects.difference(&later.objects).cloned().collect::<BTreeSet<_>>();
        action.undecided = gone.symmetric_difference(&action.removed).map(|id| (id.clone(), DEFINITIONS)).collect();
        action.removed.extend(gone.into_iter().filter(|id| !action.hooks.contains_key(id)));
    }
    if has_failed_upgrade(live) {
        action.undecided.extend(action.removed.iter().map(|id| (id.clone(), AFTER_FAILURE)));
    }
    let runs_hooks = !flag_at(spec, "/upgrade/disableHooks");
    for intermediate in between {
        let gone = old.objects.difference(&intermediate.objects).filter(|id| new.objects.contains(*id));
        action.interrupted.extend(gone.cloned());
        let fates = intermediate.hook_fates(Some(old), kind.events()).into_iter();
        let deleted =
            fates.filter(|(id, fate)| runs_hooks && *fate != HookFate::Applied && !action.hooks.contains_key(id));
        action.interrupted_hooks.extend(deleted.map(|(id, _)| id));
    }
    action.has_steps = !between.is_empty();
    action.can_fail_later = can_fail_later(spec, kind, new);
    action.remedy = Remedy::of(spec, kind);
    action.remedied = action.remedy.deletions(state, spec, new, Some(old));
    if matches!(action.remedy, Remedy::Uninstall { .. }) && !flag_at(spec, "/uninstall/keepHistory") {
        action.remedied.extend(forgotten_records(state, live));
    }
    let is_private = [old, new].into_iter().chain(between).chain(later).any(|rendered| rendered.is_private);
    let attempt = Attempt {
        kind,
        id,
        spec,
        place,
        chart: &change.new.chart,
        old_chart: change.old.as_ref().map(|old| &old.chart),
        new,
        old: Some(old),
        gone: &BTreeSet::new(),
        has_consequences: action.can_delete(state),
        changes_all: change.changes_all,
        is_private,
    };
    if let Some(why) = attempt.obstacle(comparison) {
        return Ok(blocked(ReasonCode::ApplyRefused, why));
    }
    let removed: BTreeSet<ObjectId> =
        action.removed.iter().filter(|id| !is_kept_in_upgrade(state, id)).cloned().collect();
    (action.failure, action.refused_deletions) = attempt.failure(comparison, &removed);
    let mut effect = action.effect(state, id);
    let is_doubtful = action.failure != Failure::Unexpected
        || later.is_some()
        || (action.can_fail_later && action.remedy == Remedy::Rollback);
    let definitions = attempt.definitions(false);
    effect.applies =
        applies(comparison.state(), id, [new].into_iter().chain(later), &action.hooks, &definitions, is_doubtful)
            .map(|applies| of_chart(applies, &change.new.chart));
    let mut remarks = described(live, change);
    if new.objects.iter().any(|id| id.name.contains(UNKNOWN_REVISION)) {
        remarks.push("objects that are named by the new revision are created and not in this plan".to_owned());
    }
    remarks.extend(action.failure.describe(kind));
    remarks.extend(action.remedy.describe(kind));
    if matches!(action.failure, Failure::Always(_)) && effect.deletes.is_empty() {
        let reason = Reason::new(ReasonCode::ApplyRefused, remarks.join("; "));
        return Ok(Followed::Blocked { reason, effect: Box::new(effect) });
    }
    Ok(Followed::Acts { effect: Box::new(effect), code: kind.code(), remarks })
}

/// Returns Helm's records of a release that is uninstalled and installed again: the installation records revision 1.
fn forgotten_records(state: &State<'_>, live: &Resource) -> Vec<(ObjectId, Action)> {
    let records = state.cluster_of(live).into_iter().flat_map(|cluster| records(cluster, live));
    let action = |id: &ObjectId| if id.name.ends_with(".v1") { Action::Recreate } else { Action::Delete };
    records.map(|record| (record.id.clone(), action(&record.id))).collect()
}

/// Returns an action of which helm-controller records nothing, and which deletes nothing.
pub(super) fn blocked(code: ReasonCode, why: String) -> Followed {
    Followed::Blocked { reason: Reason::new(code, why), effect: Box::default() }
}

/// Returns the runs of hooks in an action, and those of its tests.
pub(super) fn hook_runs(
    spec: &Value,
    kind: ActionKind,
    new: &Rendered,
    old: Option<&Rendered>,
    tests: &BTreeMap<ObjectId, HookFate>,
) -> BTreeMap<ObjectId, HookRun> {
    let [before, after] = kind.events();
    let runs_hooks = !flag_at(spec, &format!("/{}/disableHooks", kind.field()));
    let mut fates: BTreeMap<ObjectId, HookFate> = tests.clone();
    if runs_hooks {
        fates.extend(new.hook_fates(old, [before, after]));
    }
    let runs = fates.into_iter().filter_map(|(id, fate)| {
        let hook = new.hooks.get(&id)?;
        let can_fail = hook.can_fail() && !hook.is_deleted_first();
        let is_first = hook.runs_at(&[before]) && !tests.contains_key(&id);
        Some((id, HookRun { fate, is_first, can_fail }))
    });
    runs.collect()
}

/// Returns the objects that helm-controller applies: those of the manifest that it renders now, or of another one, its hooks that
/// stay, and the definitions in `crds/`; `None` if no pass is known that leads to it. Of a release with values of Secrets only the objects that
/// exist are among them: the names of others could hold such values. Nor are those that are named by a revision of the source.
pub(super) fn applies<'r>(
    state: &State<'_>,
    release: &ObjectId,
    manifests: impl IntoIterator<Item = &'r Rendered>,
    hooks: &BTreeMap<ObjectId, HookRun>,
    definitions: &BTreeMap<GroupKind, Value>,
    is_doubtful: bool,
) -> Option<OwnerApply> {
    let (_, trigger) = state.applied_specs(release).last()?;
    let mut objects = BuiltObjects::new();
    for rendered in manifests {
        let is_private = rendered.is_private;
        let known = rendered
            .manifests()
            .iter()
            .filter(|(id, _)| (!is_private && !id.name.contains(UNKNOWN_REVISION)) || state.live_object(id).is_some());
        objects.extend(known.map(|(id, manifest)| (id.clone(), applied_object(id, manifest, is_private))));
        let created = rendered.hooks.iter().filter(|(id, _)| {
            let stays = hooks.get(id).is_some_and(|run| matches!(run.fate, HookFate::Recreated | HookFate::Applied));
            stays && !is_private && !id.name.contains(UNKNOWN_REVISION)
        });
        objects.extend(created.map(|(id, hook)| (id.clone(), applied_object(id, &hook.manifest, is_private))));
    }
    for definition in definitions.values() {
        let id = ObjectId::new(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "",
            text_at(definition, "/metadata/name"),
        );
        objects.insert(id.clone(), applied_object(&id, definition, false));
    }
    let (objects, code) = (Arc::new(objects), ReasonCode::InChart);
    Some(OwnerApply { trigger, objects, manager: HELM_CONTROLLER, code, is_doubtful, chart: None })
}

/// Adds the chart of a release to what is applied of it.
pub(super) fn of_chart(applies: OwnerApply, chart: &Chart) -> OwnerApply {
    OwnerApply { chart: Some((chart.name.clone(), chart.version.clone())), ..applies }
}

fn applied_object(id: &ObjectId, manifest: &Value, is_private: bool) -> BuiltObject {
    let version = text_at(manifest, "/apiVersion").rsplit('/').next().unwrap_or_default().to_owned();
    let masked = is_private.then(|| Box::new(MaskedObject { id: id.shown().into_owned(), manifest: Value::Null }));
    BuiltObject { id: id.clone(), version, manifest: Arc::new(manifest.clone()), undecrypted: None, masked }
}

/// Describes what changes in a release, for people.
fn described(live: &Resource, change: &Change) -> Vec<String> {
    let mut remarks = vec![];
    let new = &change.new.chart;
    let Some(old) = &change.old else {
        let version = shown_version(&new.version);
        let after = match () {
            () if has_failed_upgrade(live) => ", after an upgrade that failed",
            () if live.flag("/spec/suspend") => "",
            () => ", after an upgrade that failed and was rolled back",
        };
        return vec![format!("chart {} {version}{after}", new.name)];
    };
    let [before, after] = [&old.chart, new].map(|chart| shown_version(&chart.version));
    if before != after {
        remarks.push(format!("chart {} {before} → {after}", new.name));
    } else if old.chart.version != new.version {
        remarks.push(format!("chart {} {after} of another revision", new.name));
    }
    let is_private = old.values.is_private || change.new.values.is_private;
    if !is_private && !old.values.is_same(&change.new.values) {
        let [old, new] = [old, &change.new].map(|version| version.values.merged());
        let mut paths = vec![];
        add_changed_paths("", &old, &new, &mut paths);
        let more = paths.len().saturating_sub(NAMED_VALUES);
        paths.truncate(NAMED_VALUES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        remarks.push(format!("values {}{more}", paths.join(", ")));
    }
    remarks
}

/// Returns a version without its build metadata, as people name it.
pub(super) fn shown_version(version: &str) -> &str {
    without_metadata(version)
}

/// Adds the paths at which two values differ.
fn add_changed_paths(path: &str, old: &Value, new: &Value, paths: &mut Vec<String>) {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        if old != new {
            paths.push(path.to_owned());
        }
        return;
    };
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for key in keys {
        let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let [old, new] = [before, after].map(|fields| fields.get(key).unwrap_or(&Value::Null));
        add_changed_paths(&below, old, new, paths);
    }
}

/// Returns true if the live object tells Helm to keep it in an upgrade.
fn is_kept_in_upgrade(state: &State<'_>, id: &ObjectId) -> bool {
    state.live_object(id).is_some_and(|object| object.annotations.get(POLICY) == Some("keep"))
}

/// Returns true if a manifest gives an annotation a value that it does not have.
fn sets_annotation(state: &State<'_>, live: &Resource, key: &str) -> bool {
    state.applied(&live.object.id).iter().any(|applied| {
        let value = applied.built.manifest.pointer("/metadata/annotations").and_then(|all| all.get(key)?.as_str());
        value.is_some() && value != live.object.annotations.get(key)
    })
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

/// Fields of a spec whose change has no other effect than an upgrade.
const FOLLOWED: [&str; 21] = [
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
];

/// Fails if a field changes whose effect is not computed.
fn check_change(old: &Value, new: &Value) -> Result<(), String> {
    let mut keys = [old, new].into_iter().filter_map(Value::as_object).flat_map(|fields| fields.keys());
    match keys.find(|key| !FOLLOWED.contains(&key.as_str()) && old.get(*key) != new.get(*key)) {
        Some(key) => Err(format!("the effect of spec.{key} is not computed")),
        None => Ok(()),
    }
}
