//! HelmReleases that stay and whose release is replaced, because its target changes.
//!
//! Source: helm-controller v1.6.3 `internal/controller/helmrelease_controller.go`, `reconcileRelease`.

use serde_json::Value;

use crate::flux::build::charts;
use crate::flux::build::release_values::values_sources;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::spec::SourceId;
use crate::helm::target::{ReleaseTarget, TargetPart};
use crate::helm::uninstall::without_release;
use crate::kubernetes::object::{ObjectId, Resource, text_at};
use crate::ownership::OwnerStatus;
use crate::ownership::schemes::flux::status;
use crate::ownership::schemes::flux_helmrelease::{GROUP, KIND};

/// Value of `upgrade.chartNameChangeStrategy` that upgrades a release to a chart of another name.
const IN_PLACE: &str = "InPlaceUpdate";

/// Reasons of a HelmRelease that is not ready because its controller does not get as far as comparing the target.
const PREREQUISITES: [&str; 9] = [
    "AccessDenied",
    "ArtifactFailed",
    "ChartMutateError",
    "DependencyNotReady",
    "HelmChartNotReady",
    "InvalidCELExpression",
    "RESTClientError",
    "SourceNotReady",
    "ValuesError",
];

/// The replacement of a release.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Replacement {
    pub(crate) part: TargetPart,
    /// Target of the release that is uninstalled.
    pub(crate) old: ReleaseTarget,
    /// Target of the release that is installed.
    pub(crate) new: ReleaseTarget,
    /// Spec with which it happens.
    pub(crate) spec: Value,
    /// Condition under which it happens, for people; `None` if it is certain.
    pub(crate) condition: Option<String>,
}

impl State<'_> {
    /// Returns the replacement of the release of a HelmRelease that stays; `None` if its target does not change.
    pub(crate) fn replacement(&self, release: &Resource, consequences: &Consequences<'_>) -> Option<Replacement> {
        let id = &release.object.id;
        let stays = release.object.deletion_timestamp.is_none() && !consequences.may_be_deleted(id);
        if !id.is(GROUP, KIND) || !stays || self.is_suspended_after(id) {
            return None;
        }
        let old = ReleaseTarget::recorded(&release.content)?;
        let specs = self.specs_after(id);
        let replacing = |spec: &Value| {
            let new = ReleaseTarget::of_spec(id, spec, self.new_chart_name(release, spec, &old));
            Some((old.change_to(&new)?, new))
        };
        // A target that differs already is not an effect of this change.
        let differs_already = replacing(release.spec()).is_some_and(|(part, _)| part != TargetPart::Chart);
        if differs_already && !release.flag("/spec/suspend") && specs.iter().all(|spec| spec == release.spec()) {
            return None;
        }
        let (spec, (part, new)) = specs.iter().find_map(|spec| Some((spec, replacing(spec)?)))?;
        let is_in_every_spec = specs.iter().all(|spec| replacing(spec).is_some());
        let condition = match is_in_every_spec {
            true => {
                let keys = ["chart", "chartRef"];
                let chart_changes = keys.iter().any(|key| spec.get(key) != release.spec().get(key));
                let is_in_git = text_at(spec, "/chart/spec/sourceRef/kind") == "GitRepository";
                self.condition(release, spec, (part == TargetPart::Chart || chart_changes) && !is_in_git)
            }
            false => Some("it depends on which Kustomization applies it last".to_owned()),
        };
        Some(Replacement { part, old, new, spec: spec.clone(), condition })
    }

    /// Returns true if the uninstall of a replaced release deletes anything, once the HelmRelease is resumed.
    pub(crate) fn uninstalls(&self, release: &Resource) -> bool {
        without_release(self.cluster_of(release), release).is_none()
    }

    /// Returns the name of the chart with this spec if it is known that it is another chart.
    fn new_chart_name(&self, release: &Resource, spec: &Value, old: &ReleaseTarget) -> Option<String> {
        if text_at(spec, "/upgrade/chartNameChangeStrategy") == IN_PLACE {
            return None;
        }
        let chart = spec.pointer("/chart/spec")?;
        let source = SourceId::of_chart(chart, &release.object.id.namespace);
        if source.kind == "HelmRepository" {
            let name = |text: &str| text.rsplit('/').next().unwrap_or_default().to_owned();
            let live = name(text_at(release.spec(), "/chart/spec/chart"));
            let is_comparable = old.chart.as_deref() == Some(&*live);
            return is_comparable.then(|| name(text_at(chart, "/chart")));
        }
        let files = self.input.trees.get(&source)?;
        let (_, about) = charts::metadata(files, chart).ok()?;
        Some(text_at(&about, "/name").to_owned()).filter(|name| !name.is_empty())
    }

    /// Returns the condition under which the controller gets as far as changing the release.
    pub(crate) fn condition(&self, release: &Resource, spec: &Value, waits_for_chart: bool) -> Option<String> {
        let id = &release.object.id;
        let mut applied = self.applications(id);
        if let Some(condition) = applied.find_map(|applied| applied.pass.condition.as_ref()) {
            return Some(condition.detail.clone());
        }
        for entry in spec.get("dependsOn").and_then(Value::as_array).into_iter().flatten() {
            let namespace = Some(text_at(entry, "/namespace")).filter(|name| !name.is_empty()).unwrap_or(&id.namespace);
            let dependency = ObjectId::new(GROUP, KIND, namespace, text_at(entry, "/name"));
            let live = self.input.snapshot.resource(&dependency);
            let is_ready = live.is_some_and(|live| status(&live.object, &live.content, None) == OwnerStatus::Ready);
            if !is_ready || !text_at(entry, "/readyExpr").is_empty() {
                return Some(format!("it waits until {dependency} is ready"));
            }
        }
        if let Some(config) = self.kube_config(&id.namespace, spec).filter(|config| self.is_absent(config)) {
            return Some(format!("it waits until {config} exists"));
        }
        for source in values_sources(&id.namespace, spec) {
            let values = source.reference.id();
            let exists = self.live_object(&values).is_some() || !self.applied(&values).is_empty();
            if !exists && !source.optional {
                return Some(format!("it waits until {values} exists"));
            }
        }
        if waits_for_chart {
            return Some("it waits until source-controller has the new chart".to_owned());
        }
        let ready = release.condition("Ready").filter(|ready| ready.status != "True")?;
        let is_blocked = PREREQUISITES.contains(&ready.reason);
        is_blocked.then(|| format!("it waits until this is resolved: {}", ready.reason))
    }
}
