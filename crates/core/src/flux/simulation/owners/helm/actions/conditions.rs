//! Conditions under which helm-controller gets as far as changing a release.
//!
//! Source: helm-controller v1.6.3 `internal/controller/helmrelease_controller.go`, `reconcileRelease`.

use serde_json::{Value, json};

use crate::flux::build::charts::values::values_sources;
use crate::flux::ready_expr::ReadyExpression;
use crate::flux::simulation::kustomization::variables::generation_condition;
use crate::flux::simulation::model::affected_owner::{Reaction, Readiness};
use crate::flux::simulation::model::facts::owner_readiness::owner_readiness;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::effective_fields::with_defaults;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::spec::SourceId;
use crate::kubernetes::object::{ObjectId, Resource, flag_at, list_at, text_at};
use crate::ownership::schemes::flux_helmrelease::{GROUP, KIND};
use crate::plan::{Reason, ReasonCode};

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

/// Returns the condition under which the controller gets as far as changing the release.
pub(crate) fn condition(
    state: &State<'_>,
    consequences: &Consequences<'_>,
    id: &ObjectId,
    release: Option<&Resource>,
    spec: &Value,
    waits_for_chart: bool,
) -> Option<String> {
    let mut applied = state.applications(id);
    if let Some(condition) = applied.find_map(|applied| applied.pass.condition.as_ref()) {
        return Some(condition.detail.clone());
    }
    for (dependency, expression) in dependencies(id, spec) {
        let holds = expression.is_empty() || expression_holds(state, id, spec, &dependency, expression) == Some(true);
        if owner_readiness(state, &dependency) != Some(Readiness::Ready)
            || !holds
            || waits_for(state, &dependency, id)
            || consequences.may_be_deleted(&dependency)
        {
            return Some(format!("it waits until {dependency} is ready"));
        }
    }
    if let Some(config) = state.kube_config(&id.namespace, spec).filter(|config| state.stays_absent(config)) {
        return Some(format!("it waits until {config} exists"));
    }
    for source in values_sources(&id.namespace, spec) {
        let values = source.reference.id();
        let exists = state.is_live(&values) || !state.applied(&values).is_empty();
        if !exists && !source.optional {
            return Some(format!("it waits until {values} exists"));
        }
        if let Some(condition) = generation_condition(state, &values) {
            return Some(condition.clone());
        }
    }
    if waits_for_chart {
        return Some("it waits until source-controller has the new chart".to_owned());
    }
    let reason = release.and_then(missing_prerequisite)?;
    Some(format!("it waits until this is resolved: {reason}"))
}

/// Returns the reason why the controller denies a release with this spec the access to the source of its chart.
///
/// Source: helm-controller v1.6.3 `internal/acl/acl.go`, `AllowsAccessTo`, and `getSourceFromExternalArtifact`.
pub(crate) fn denied_chart(state: &State<'_>, id: &ObjectId, spec: &Value) -> Option<Reason> {
    let controller = &state.input.helm_controller;
    let source = SourceId::of_release(spec, &id.namespace)?;
    let why = if controller.no_cross_namespace_refs && *source.namespace != *id.namespace {
        "with --no-cross-namespace-refs"
    } else if controller.denies_external_artifacts && source.kind == "ExternalArtifact" {
        "without the feature gate ExternalArtifact"
    } else {
        return None;
    };
    Some(Reason::new(ReasonCode::AccessDenied, format!("it may not use {source}, because helm-controller runs {why}")))
}

/// Returns true if helm-controller may delete the HelmChart of a release.
pub(crate) fn may_delete_chart(state: &State<'_>, release: &ObjectId, chart: &ObjectId) -> bool {
    !state.input.helm_controller.no_cross_namespace_refs || chart.namespace == release.namespace
}

/// Returns the dependencies of a release with this spec, each with its `readyExpr` or nothing.
pub(crate) fn dependencies<'s>(id: &'s ObjectId, spec: &'s Value) -> impl Iterator<Item = (ObjectId, &'s str)> {
    list_at(spec, "/dependsOn").iter().map(|entry| {
        let namespace = Some(text_at(entry, "/namespace")).filter(|name| !name.is_empty()).unwrap_or(&id.namespace);
        (ObjectId::new(GROUP, KIND, namespace, text_at(entry, "/name")), text_at(entry, "/readyExpr"))
    })
}

/// Returns true if a release with this spec waits until another one is ready.
pub(crate) fn depends_on(id: &ObjectId, spec: &Value, other: &ObjectId) -> bool {
    dependencies(id, spec).any(|(dependency, expression)| dependency == *other && expression.is_empty())
}

/// Returns the reason why a dependency is never ready, so that the release is not reconciled; `None` if it may be.
pub(crate) fn unmet_dependency(state: &State<'_>, id: &ObjectId, spec: &Value) -> Option<Reason> {
    let mut reasons = dependencies(id, spec).filter_map(|(dependency, expression)| {
        if !expression.is_empty() {
            let is_false = !expression.contains("status")
                && expression_holds(state, id, spec, &dependency, expression) == Some(false);
            let detail = format!("its readyExpr {expression:?} for {dependency} is false");
            return is_false.then(|| Reason::new(ReasonCode::DependencyNotReady, detail));
        }
        if waits_anew(state, id) && waits_for(state, &dependency, id) && waits_anew(state, &dependency) {
            let detail = format!("{dependency} and it wait for each other");
            return Some(Reason::new(ReasonCode::DependencyCycle, detail));
        }
        let is_new = !state.is_live(&dependency);
        let reaction = state.affected_owner(&dependency).map(|owner| &owner.reaction);
        let specs = state.specs_after(&dependency);
        let is_suspended = !specs.is_empty() && specs.iter().all(|spec| flag_at(spec, "/suspend"));
        if is_new && (is_suspended || matches!(reaction, Some(Reaction::Waits(_)))) {
            let detail = format!("it depends on {dependency}, which is never ready");
            return Some(Reason::new(ReasonCode::DependencyNotReady, detail));
        }
        if let Some(Readiness::Fails(why)) = owner_readiness(state, &dependency)
            && (reaction.is_none() || changes_first(state, &dependency, id))
        {
            let detail = format!("it depends on {dependency}, which is not ready: {why}");
            return Some(Reason::new(ReasonCode::DependencyNotReady, detail));
        }
        if state.stays_absent(&dependency) {
            let detail = format!("it depends on {dependency}, which does not exist");
            return Some(Reason::new(ReasonCode::DependencyMissing, detail));
        }
        None
    });
    reasons.next()
}

/// Returns the value of the `readyExpr` of a release with this spec for a dependency that the change leaves as it is; `None` if it is
/// not known.
///
/// Source: helm-controller v1.6.3 `internal/controller/helmrelease_controller.go`, `evalReadyExpr`.
fn expression_holds(
    state: &State<'_>,
    id: &ObjectId,
    spec: &Value,
    dependency: &ObjectId,
    expression: &str,
) -> Option<bool> {
    let live = state.input.snapshot.resource(dependency)?;
    let specs = state.specs_after(dependency);
    let is_same = specs.iter().all(|spec| with_defaults(KIND, spec) == with_defaults(KIND, live.spec()));
    if !is_same || state.affected_owner(dependency).is_some() || expression.contains("labels") {
        return None;
    }
    let own = described(id, spec, state.input.snapshot.resource(id));
    let dependency = described(dependency, live.spec(), Some(live));
    ReadyExpression::compile(expression).ok()?.evaluate(&own, &dependency)
}

/// Returns a HelmRelease with this spec and the status of the live one, for expressions.
fn described(id: &ObjectId, spec: &Value, live: Option<&Resource>) -> Value {
    let generation = live.map_or(1, |live| live.object.generation);
    let status = live.and_then(|live| live.at("/status")).cloned().unwrap_or_else(|| json!({}));
    json!({"apiVersion": format!("{GROUP}/v2"), "kind": KIND, "spec": spec, "status": status,
        "metadata": {"name": id.name, "namespace": id.namespace, "generation": generation}})
}

/// Returns true if every spec of a release after the change has the other one among its dependencies.
fn waits_for(state: &State<'_>, id: &ObjectId, other: &ObjectId) -> bool {
    let specs = state.specs_after(id);
    !specs.is_empty() && specs.iter().all(|spec| dependencies(id, spec).any(|(dependency, _)| dependency == *other))
}

/// Returns true if the dependencies of a release change, so that its last reconciliation no longer counts.
fn waits_anew(state: &State<'_>, id: &ObjectId) -> bool {
    let Some(live) = state.input.snapshot.resource(id) else { return true };
    let before = live.spec().get("dependsOn");
    state.specs_after(id).iter().all(|spec| spec.get("dependsOn") != before)
}

/// Returns the reason why the controller did not get as far as comparing the release last.
fn missing_prerequisite(release: &Resource) -> Option<&str> {
    let ready = release.condition("Ready").filter(|ready| ready.status == "False")?;
    PREREQUISITES.contains(&ready.reason).then_some(ready.reason)
}

/// Returns true if the controller did not get as far as comparing the release last.
pub(crate) fn waits_for_prerequisite(release: &Resource) -> bool {
    missing_prerequisite(release).is_some()
}

/// Returns true if the controller waited for a dependency of the release last.
pub(crate) fn waits_for_dependency(release: &Resource) -> bool {
    missing_prerequisite(release) == Some("DependencyNotReady")
}

/// Returns true if the spec or the values of a release may have changed since the controller compared it with its last release: it
/// notes the generation once nothing is missing any more, and that of ConfigMaps and Secrets with values is not in it.
///
/// Source: helm-controller v1.6.3 `reconcileRelease`, `LastAttemptedGeneration`.
pub(crate) fn has_waiting_changes(release: &Resource) -> bool {
    let attempted = release.at("/status/lastAttemptedGeneration").and_then(Value::as_i64);
    let is_attempted =
        attempted == Some(release.object.generation) && list_at(release.spec(), "/valuesFrom").is_empty();
    waits_for_prerequisite(release) && !is_attempted
}

/// Returns true if the spec of a HelmRelease changes before that of another one: a run applies them by namespace and name. The other
/// one then knows that it is not reconciled yet.
fn changes_first(state: &State<'_>, id: &ObjectId, other: &ObjectId) -> bool {
    let [own, other_own] = [id, other].map(|id| {
        let mut passes = state.applied_specs(id);
        passes.next().filter(|_| passes.next().is_none())
    });
    let (Some((spec, pass)), Some((_, other_pass))) = (own, other_own) else { return false };
    let live = state.input.snapshot.resource(id);
    let is_changed = live.is_some_and(|live| with_defaults(KIND, &spec) != with_defaults(KIND, live.spec()));
    is_changed && pass == other_pass && (&id.namespace, &id.name) < (&other.namespace, &other.name)
}
