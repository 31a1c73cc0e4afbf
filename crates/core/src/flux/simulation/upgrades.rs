//! Upgrades of Helm releases whose chart is in a planned tree: the chart is rendered as it is deployed and as it will be.
//!
//! Source: docs/reference/flux.md 6.3 and 8.

use std::collections::BTreeSet;

use serde_json::Value;

use super::comparison::Comparison;
use super::unfollowed::Effect;
use super::unfollowed::effective::FORCES_UPGRADE;
use super::{Consequences, Preview};
use crate::flux::build::charts::{Chart, ChartRun};
use crate::flux::build::data::{DataRef, Lookup};
use crate::flux::spec::SourceId;
use crate::helm::target::ReleaseTarget;
use crate::helm::upgrade::{Rendered, Upgrade};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, text_at};
use crate::ownership::schemes::flux::{inventory_members, status};
use crate::ownership::schemes::flux_helmrelease::KIND;
use crate::ownership::{Members, OwnerId, OwnerStatus};
use crate::plan::{Action, Actor, Certainty, Change, Reason, ReasonCode};

/// Annotation that keeps an object in an upgrade, with exactly the value `keep`.
const POLICY: &str = "helm.sh/resource-policy";

/// Condition of an upgrade that creates or changes objects, or begins with a hook: no dry-run is made of either.
const CAN_FAIL: &str = "it stays if the upgrade fails, because the API server refuses an object or a hook fails";

/// Values of a release, each overriding those before it.
struct Values {
    texts: Vec<String>,
    is_private: bool,
}

/// A value that is not known yet, or not known at all for this reason.
enum Missing {
    Answer,
    Reason(String),
}

impl From<String> for Missing {
    fn from(why: String) -> Self {
        Self::Reason(why)
    }
}

impl Comparison<'_, '_, '_> {
    /// Returns the effect of a changed chart or changed values on a release; `None` if nothing is upgraded. Answers that
    /// are missing are added to the needs.
    ///
    /// Fails with the reason why the effect is not known.
    pub(super) fn upgrade(&mut self, live: &Resource) -> Result<Option<Upgrade>, String> {
        if let Some(key) = FORCES_UPGRADE.into_iter().find(|key| self.sets_annotation(live, key)) {
            return Err(format!("the effect of the annotation {key} is not computed"));
        }
        match self.rendered_upgrade(live) {
            Ok(upgrade) => Ok(upgrade),
            // The needs are not empty, so that this result is not used.
            Err(Missing::Answer) => Ok(None),
            Err(Missing::Reason(why)) => Err(why),
        }
    }

    /// Returns true if a manifest gives an annotation a value that it does not have.
    fn sets_annotation(&self, live: &Resource, key: &str) -> bool {
        self.applied(&live.object.id).iter().any(|(_, built)| {
            let value = built.manifest.pointer("/metadata/annotations").and_then(|all| all.get(key)?.as_str());
            value.is_some() && value != live.object.annotations.get(key)
        })
    }

    fn rendered_upgrade(&mut self, live: &Resource) -> Result<Option<Upgrade>, Missing> {
        let id = &live.object.id;
        let old_spec = live.spec().clone();
        let new_spec = match &self.specs_after(id)[..] {
            [one] => one.clone(),
            _ => return Err("several Kustomizations apply different specs of it".to_owned().into()),
        };
        let (old_chart, new_chart) = self.charts(live, &old_spec, &new_spec)?;
        for spec in [&old_spec, &new_spec] {
            check_spec(spec)?;
        }
        check_change(&old_spec, &new_spec)?;
        let is_ready = status(&live.object, &live.content, None) == OwnerStatus::Ready;
        if !is_ready || text_at(&live.content, "/status/history/0/status") != "deployed" {
            return Err("its release is not deployed and ready".to_owned().into());
        }
        let Members::Listed(inventory) = inventory_members(&live.content) else {
            return Err("it records no inventory".to_owned().into());
        };
        let (old_values, new_values) = (self.values(live, &old_spec, false)?, self.values(live, &new_spec, true)?);
        let is_same_chart = old_chart == new_chart;
        let is_same_values = old_values.texts == new_values.texts;
        if is_same_chart && is_same_values && old_spec.get("commonMetadata") == new_spec.get("commonMetadata") {
            return Ok(None);
        }
        let old = self.render(live, &old_chart, &old_values)?;
        let types = &self.preview().input.snapshot.types;
        if let Some(differing) = old.difference_from(&inventory, types) {
            let why = format!("its deployed chart renders here to other objects than its inventory lists: {differing}");
            return Err(why.into());
        }
        let new = self.render(live, &new_chart, &new_values)?;
        let mut upgrade = Upgrade {
            removed: old.objects.difference(&new.objects).cloned().collect(),
            hooks: if flag(&new_spec, "/upgrade/disableHooks") { BTreeSet::new() } else { new.upgrade_hooks.clone() },
            ..Upgrade::default()
        };
        if flag(&new_spec, "/test/enable") {
            upgrade.hooks.extend(new.tests.iter().cloned());
        }
        if let Some(hook) = upgrade.hooks.intersection(&old.objects).next() {
            return Err(format!("{hook} becomes a hook").into());
        }
        // Chart and values do not change at the same time: either can come first.
        if !is_same_chart && !is_same_values {
            for intermediate in
                [self.render(live, &new_chart, &old_values)?, self.render(live, &old_chart, &new_values)?]
            {
                let gone = old.objects.difference(&intermediate.objects).filter(|id| new.objects.contains(*id));
                upgrade.interrupted.extend(gone.cloned());
            }
        }
        upgrade.condition = self.preview().condition(live, &new_spec, false);
        let has_hook_before = new.has_hook_before && !flag(&new_spec, "/upgrade/disableHooks");
        if upgrade.condition.is_none() && (new.can_be_refused(&old) || has_hook_before) {
            upgrade.condition = Some(CAN_FAIL.to_owned());
        }
        Ok(Some(upgrade))
    }

    /// Returns the chart that is deployed, and the one after the change.
    fn charts(&self, live: &Resource, old_spec: &Value, new_spec: &Value) -> Result<(Chart, Chart), Missing> {
        let none = || "it is not in the tree".to_owned();
        let [old_chart, new_chart] = [old_spec, new_spec].map(|spec| spec.pointer("/chart/spec"));
        let (old_chart, new_chart) = (old_chart.ok_or_else(none)?, new_chart.ok_or_else(none)?);
        let source = |chart: &Value| SourceId::read(&chart["sourceRef"], "HelmRepository", &live.object.id.namespace);
        let input = &self.preview().input;
        let tree = input.trees.get(&source(new_chart)).ok_or_else(none)?;
        let deployed = input
            .deployed
            .get(&source(old_chart))
            .ok_or_else(|| "the deployed revision of its chart is not in the checkout".to_owned())?;
        let old = Chart::read(deployed, old_chart)?;
        let new = Chart::read(tree, new_chart)?;
        // A chart of the same version is packed again only if the spec of the HelmChart changes.
        let follows_revision = text_at(new_chart, "/reconcileStrategy") == "Revision";
        let is_packed_again = follows_revision || old.version != new.version || old_chart != new_chart;
        Ok((old.clone(), if is_packed_again { new } else { old }))
    }

    /// Returns the values of a release as helm-controller merges them.
    fn values(&mut self, live: &Resource, spec: &Value, is_after: bool) -> Result<Values, Missing> {
        let id = &live.object.id;
        let mut is_private = self.applied(id).iter().any(|(_, built)| built.masked.is_some());
        let mut texts = vec![];
        for entry in spec.get("valuesFrom").and_then(Value::as_array).into_iter().flatten() {
            let text = |pointer: &str| text_at(entry, pointer).to_owned();
            if !text("/targetPath").is_empty() {
                return Err("a targetPath in its valuesFrom is not read here".to_owned().into());
            }
            let reference = DataRef { kind: text("/kind"), namespace: id.namespace.to_string(), name: text("/name") };
            let data_id = ObjectId::new("", &reference.kind, &id.namespace, &reference.name);
            if self.applied(&data_id).iter().any(|(_, built)| built.undecrypted.is_some()) {
                return Err(format!("{data_id} in its valuesFrom is encrypted").into());
            }
            let Some(found) = self.derivation.answers.data(&reference).cloned() else {
                self.derivation.needs.data.insert(reference);
                return Err(Missing::Answer);
            };
            let changed = is_after.then(|| self.derivation.data_after_change(&reference, &found)).flatten();
            let key = Some(text("/valuesKey")).filter(|key| !key.is_empty()).unwrap_or("values.yaml".to_owned());
            let is_optional = flag(entry, "/optional");
            match changed.map_or(found, |(lookup, _)| lookup) {
                Lookup::Found(data) => {
                    is_private |= data.is_secret || reference.is_secret();
                    match data.values.get(&key) {
                        Some(values) => texts.push(values.clone()),
                        None if is_optional => {}
                        None => return Err(format!("{data_id} in its valuesFrom has no key {key}").into()),
                    }
                }
                Lookup::Missing if is_optional => {}
                Lookup::Missing => return Err(format!("{data_id} in its valuesFrom does not exist").into()),
                Lookup::Unreadable(why) => {
                    return Err(format!("{data_id} in its valuesFrom cannot be read: {why}").into());
                }
                Lookup::NotRead => {
                    return Err(format!("{data_id} in its valuesFrom is not read, because it is new").into());
                }
            }
        }
        texts.extend(spec.get("values").filter(|values| values.is_object()).map(Value::to_string));
        Ok(Values { texts, is_private })
    }

    fn render(&mut self, live: &Resource, chart: &Chart, values: &Values) -> Result<Rendered, Missing> {
        let types = &self.preview().input.snapshot.types;
        let target = ReleaseTarget::recorded(&live.content).ok_or_else(|| "it has no release".to_owned())?;
        let texts = values.texts.clone();
        let run = ChartRun::new(chart, &target.name, &target.namespace, texts, types, values.is_private);
        match self.derivation.answers.chart(&run.key) {
            Some(Ok(text)) => Rendered::read(text, &target.namespace, types)
                .map_err(|_| Missing::Reason("the output of helm for its chart cannot be read".to_owned())),
            Some(Err(why)) => Err(Missing::Reason(why.clone())),
            None => {
                self.derivation.needs.charts.insert(run.key.clone(), run);
                Err(Missing::Answer)
            }
        }
    }
}

impl<'a> Preview<'a> {
    /// Returns the upgrade of the release of a HelmRelease.
    fn upgrade_of(&self, release: &ObjectId) -> Option<&Upgrade> {
        let found = self.unfollowed.iter().find(|found| found.id == *release)?;
        match &found.effect {
            Effect::Upgrades(upgrade, _) => Some(upgrade),
            _ => None,
        }
    }

    /// Returns the objects that the upgrade of a release deletes, and true if it is certain.
    pub(super) fn upgraded_objects(&self, release: &Resource) -> Option<(Vec<&'a ObjectMetadata>, bool)> {
        let upgrade = self.upgrade_of(&release.object.id)?;
        let all = upgrade.removed.iter().chain(&upgrade.interrupted).filter(|id| !self.is_kept_in_upgrade(id));
        let objects = all.chain(&upgrade.hooks).filter_map(|id| self.live_object(id)).collect();
        Some((objects, upgrade.condition.is_none()))
    }

    fn is_kept_in_upgrade(&self, id: &ObjectId) -> bool {
        self.live_object(id).is_some_and(|object| object.annotations.get(POLICY) == Some("keep"))
    }

    /// Adds to the row of an object that an upgrade deletes what becomes of it.
    pub(super) fn qualify_upgrade(&self, row: &mut Change, cause: &ObjectId) {
        let Some(upgrade) = self.upgrade_of(cause) else { return };
        row.owner = Some(OwnerId::new("flux", KIND, &cause.namespace, &cause.name));
        let id = &row.object.id;
        let mut conditions: Vec<&str> = upgrade.condition.iter().map(String::as_str).collect();
        if upgrade.hooks.contains(id) {
            row.action = Action::Recreate;
            row.reason.add_detail("it is a hook, which each upgrade deletes and creates again");
        } else if upgrade.interrupted.contains(id) {
            row.action = Action::Recreate;
            conditions.push("it stays if the new values come before the new chart, or after it");
        }
        if !conditions.is_empty() {
            row.certainty = Certainty::Race;
            conditions.iter().for_each(|why| row.reason.add_detail(&format!("race: {why}")));
        }
    }

    /// Returns the rows of objects that upgrades leave behind.
    pub(super) fn kept_in_upgrades(&self, consequences: &Consequences<'_>) -> Vec<Change> {
        let mut rows = vec![];
        for found in &self.unfollowed {
            let Effect::Upgrades(upgrade, _) = &found.effect else { continue };
            let kept = upgrade.removed.iter().filter(|id| self.is_kept_in_upgrade(id));
            for object in kept.filter_map(|id| self.live_object(id)) {
                if !consequences.may_be_deleted(&object.id) && !consequences.outcomes.contains_key(&object.id) {
                    let reason = Reason::new(ReasonCode::LeftBehind, format!("protected by {POLICY}: keep"));
                    let owner = OwnerId::new("flux", KIND, &found.id.namespace, &found.id.name);
                    rows.push(Change::new(Action::Keep, object, Some(owner), Actor::HelmController, reason));
                }
            }
        }
        rows
    }
}

/// Fails if a spec has fields with which a release is not rendered here as in the cluster.
fn check_spec(spec: &Value) -> Result<(), String> {
    let is_set =
        |pointer: &str| spec.pointer(pointer).is_some_and(|value| !value.is_null() && *value != Value::Array(vec![]));
    let fields = [
        ("/kubeConfig", "its objects are in another cluster"),
        ("/postRenderers", "its postRenderers are not run here"),
        ("/chartRef", "it is not in the tree"),
    ];
    if let Some((_, why)) = fields.iter().find(|(pointer, _)| is_set(pointer)) {
        return Err((*why).to_owned());
    }
    if flag(spec, "/upgrade/preserveValues") {
        return Err("upgrade.preserveValues merges the values with those of the last release".to_owned());
    }
    Ok(())
}

/// Fields of a spec whose change has no other effect than an upgrade.
const FOLLOWED: [&str; 14] = [
    "chart",
    "commonMetadata",
    "dependsOn",
    "install",
    "interval",
    "maxHistory",
    "persistentClient",
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
    let fields = |spec: &Value| spec.as_object().cloned().unwrap_or_default();
    let (old, new) = (fields(old), fields(new));
    let mut keys = old.keys().chain(new.keys());
    match keys.find(|key| !FOLLOWED.contains(&key.as_str()) && old.get(*key) != new.get(*key)) {
        Some(key) => Err(format!("the effect of spec.{key} is not computed")),
        None => Ok(()),
    }
}

fn flag(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}
