//! Dependencies of ResourceSets: flux-operator generates nothing until each of them exists and is ready, and asks again after some
//! seconds.
//!
//! Source: flux-operator v0.58.1 `internal/controller/resourceset_controller.go`, `checkDependencies`.

use serde_json::Value;

use super::providers::is_static;
use crate::flux::ready_expr::holds_for;
use crate::flux::simulation::kustomization::dependencies::health::{Health, is_healthy_at_once};
use crate::flux::simulation::model::affected_owner::{Reaction, Readiness};
use crate::flux::simulation::model::facts::owner_readiness::owner_readiness;
use crate::flux::simulation::model::node::{NodeId, PassOutcome};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::is_switched_off_after;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::behaviour::references::PROVIDER;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{ObjectId, Resource, flag_at, group_of, list_at, merge, text_at};
use crate::ownership::readiness::ready;
use crate::ownership::schemes::{flux_helmrelease, flux_kustomization, flux_operator};
use crate::plan::{Reason, ReasonCode};

/// Reasons of a ResourceSet that is not ready because of its dependencies.
const WAITING: [&str; 2] = ["DependencyNotReady", "InvalidCELExpression"];
/// Parts of expressions about what an applied manifest does not decide.
const NOT_APPLIED: [&str; 6] = ["status", "generation", "resourceVersion", "uid", "managedFields", "Timestamp"];

/// Reason why a ResourceSet generates nothing.
pub(super) enum Obstacle {
    /// Condition under which it generates its resources.
    Possible(String),
    Certain(Reason),
}

impl Obstacle {
    /// Returns the obstacle of a ResourceSet that copies the data of an object that does not exist.
    pub(super) fn of_missing_source(state: &State<'_>, source: &ObjectId) -> Self {
        let detail = format!("it copies the data of {source}, which does not exist");
        Self::of_absence(state, source, Reason::new(ReasonCode::BuildFailed, detail))
    }

    /// Returns the obstacle of a ResourceSet that needs an object that does not exist, for this reason.
    fn of_absence(state: &State<'_>, id: &ObjectId, reason: Reason) -> Self {
        if only_manifests_make(state, id) {
            Self::Certain(reason)
        } else {
            Self::Possible(format!("it waits until {id} exists"))
        }
    }

    /// Returns the condition under which a ResourceSet generates its resources all the same.
    pub(super) fn condition(self) -> String {
        match self {
            Self::Possible(condition) => condition,
            Self::Certain(reason) => format!("it stays because {}", reason.detail),
        }
    }
}

/// Readiness of a dependency after the change, as far as it is known.
enum Found {
    Ready,
    /// It is not ready, for this reason.
    Never(String),
    Open,
}

/// Returns true if a live ResourceSet waits for a dependency.
pub(super) fn is_waiting(set: &Resource) -> bool {
    set.condition("Ready").is_some_and(|ready| ready.status == "False" && WAITING.contains(&ready.reason))
}

/// Describes the changes of the dependencies for which a ResourceSet with this spec waits: they may become ready.
pub(super) fn awaited_changes(comparison: &mut Comparison<'_, '_, '_>, set: &ObjectId, spec: &Value) -> Vec<String> {
    let state = comparison.state();
    if !state.input.snapshot.resource(set).is_some_and(is_waiting) {
        return vec![];
    }
    let all = list_at(spec, "/dependsOn").iter().map(|entry| dependency(state, entry));
    let changed = all.filter(|id| !state.stays_absent(id) && (comparison.is_changed(id) || may_mend(state, id)));
    changed.map(|id| format!("{id} changes")).collect()
}

/// Returns true if an owner may become ready because of the change.
fn may_mend(state: &State<'_>, id: &ObjectId) -> bool {
    let key = NamespacedName::of(id);
    let is_kustomization = id.is_here(flux_kustomization::GROUP, flux_kustomization::KIND);
    (is_kustomization && !state.is_ready(&key) && state.node(&NodeId::live(&key)).is_some())
        || state.affected_owner(id).is_some()
}

/// Returns what keeps a ResourceSet with this spec from generating anything after the change, a certain obstacle first.
pub(super) fn obstacle(comparison: &mut Comparison<'_, '_, '_>, spec: &Value) -> Asked<Option<Obstacle>> {
    let mut possible = None;
    for entry in list_at(spec, "/dependsOn") {
        match obstacle_of(comparison, entry)? {
            Some(Obstacle::Possible(condition)) => possible = possible.or(Some(Obstacle::Possible(condition))),
            Some(certain) => return Ok(Some(certain)),
            None => {}
        }
    }
    Ok(possible)
}

fn obstacle_of(comparison: &mut Comparison<'_, '_, '_>, entry: &Value) -> Asked<Option<Obstacle>> {
    let state = comparison.state();
    let id = dependency(state, entry);
    if state.stays_absent(&id) {
        let detail = format!("it depends on {id}, which does not exist");
        let reason = Reason::new(ReasonCode::DependencyMissing, detail);
        return Ok(Some(Obstacle::of_absence(state, &id, reason)));
    }
    let creation = state.applications(&id).find_map(|applied| applied.pass.condition.as_ref());
    if let Some(condition) = creation.filter(|_| !state.is_live(&id)) {
        return Ok(Some(Obstacle::Possible(condition.detail.clone())));
    }
    let found = if comparison.derivation.consequences.may_be_deleted(&id) {
        Found::Open
    } else if flag_at(entry, "/ready") {
        readiness(comparison, &id, entry)?
    } else {
        Found::Ready
    };
    Ok(match found {
        Found::Ready => None,
        Found::Never(why) if only_manifests_make(state, &id) => {
            let detail = format!("it depends on {id}, which is not ready: {why}");
            Some(Obstacle::Certain(Reason::new(ReasonCode::DependencyNotReady, detail)))
        }
        Found::Never(_) | Found::Open => Some(Obstacle::Possible(format!("it waits until {id} is ready"))),
    })
}

/// Returns true if nothing creates or changes an object that the plan does not know: other controllers make no objects of its kind, and
/// all objects of the owners in the plan are known.
fn only_manifests_make(state: &State<'_>, id: &ObjectId) -> bool {
    let is_written = id.is("", "ConfigMap") || id.is("", "Namespace") || is_of_flux(id);
    is_written && state.affected.iter().all(|owner| matches!(owner.reaction, Reaction::Acts(_) | Reaction::Waits(_)))
}

/// Returns true for a Kustomization, a HelmRelease, and what flux-operator reconciles.
fn is_of_flux(id: &ObjectId) -> bool {
    [flux_kustomization::GROUP, flux_helmrelease::GROUP, flux_operator::GROUP].contains(&&*id.group)
}

/// Returns the object that an entry of `dependsOn` names.
fn dependency(state: &State<'_>, entry: &Value) -> ObjectId {
    let [version, kind, namespace, name] =
        ["/apiVersion", "/kind", "/namespace", "/name"].map(|field| text_at(entry, field));
    let id = ObjectId::new(group_of(version), kind, namespace, name);
    let is_namespaced = state.input.snapshot.resource_type(&id.group_kind()).is_none_or(|kind| kind.namespaced);
    if is_namespaced { id } else { ObjectId { namespace: "".into(), ..id } }
}

fn readiness(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, entry: &Value) -> Asked<Found> {
    let state = comparison.state();
    let expression = text_at(entry, "/readyExpr");
    if !expression.is_empty() {
        return by_expression(comparison, id, entry, expression);
    }
    if id.is_here(flux_kustomization::GROUP, flux_kustomization::KIND) {
        return Ok(kustomization(comparison, &NamespacedName::of(id), id));
    }
    if id.is_here(flux_operator::GROUP, PROVIDER) {
        return Ok(provider(comparison, id));
    }
    if let Some(readiness) = owner_readiness(state, id) {
        return Ok(match readiness {
            Readiness::Ready => Found::Ready,
            Readiness::Fails(why) if state.affected_owner(id).is_none() => Found::Never(why),
            Readiness::Fails(_) | Readiness::Open => Found::Open,
        });
    }
    let live = state.live_object(id);
    if live.is_some_and(|live| live.deletion_timestamp.is_some()) {
        return Ok(Found::Open);
    }
    if is_healthy_at_once(id) {
        return Ok(Found::Ready);
    }
    let Some(live) = live.filter(|_| !comparison.is_changed(id)) else { return Ok(Found::Open) };
    let content = comparison.content(id, text_at(entry, "/apiVersion"))?;
    let is_ready = content.is_some_and(|content| ready(live, content).is_ready());
    Ok(if is_ready { Found::Ready } else { Found::Open })
}

fn kustomization(comparison: &Comparison<'_, '_, '_>, key: &NamespacedName, id: &ObjectId) -> Found {
    let (state, consequences) = (comparison.state(), comparison.derivation.consequences);
    let is_ready = if state.is_live(id) {
        state.is_ready(key)
    } else {
        let new = state.node(&NodeId::new(key)).and_then(|node| node.last_pass());
        new.is_some_and(|pass| matches!(pass.outcome, PassOutcome::Applied(_)))
    };
    if is_ready && !(Health { state, consequences }).may_be_unready(id) { Found::Ready } else { Found::Open }
}

/// Returns the readiness of a provider of inputs. A Static one is ready at once.
fn provider(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId) -> Found {
    let state = comparison.state();
    let specs = state.specs_after(id);
    let live = state.input.snapshot.resource(id);
    if live.is_some_and(|live| state.keeps_spec(live) && live.is_true("Ready")) {
        return Found::Ready;
    }
    let becomes_ready = !specs.is_empty() && specs.iter().all(is_static) && !is_switched_off_after(state, id);
    if becomes_ready { Found::Ready } else { Found::Open }
}

/// Returns whether an expression holds for a dependency. Before the change it is read, and afterwards it has what is applied to it.
fn by_expression(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    entry: &Value,
    expression: &str,
) -> Asked<Found> {
    let state = comparison.state();
    let reads_status = NOT_APPLIED.iter().any(|part| expression.contains(part));
    if id.is("", "Secret") || (is_of_flux(id) && reads_status) {
        return Ok(Found::Open);
    }
    let live = if state.is_live(id) { comparison.content(id, text_at(entry, "/apiVersion"))? } else { None };
    let before = match live {
        Some(live) => holds_for(expression, live),
        None => (!state.is_live(id)).then_some(false),
    };
    if !comparison.is_changed(id) {
        return Ok(match before {
            Some(true) => Found::Ready,
            Some(false) if !reads_status => Found::Never(is_false(expression)),
            _ => Found::Open,
        });
    }
    let applied = state.applied(id);
    let is_open =
        reads_status || applied.iter().any(|one| one.built.masked.is_some() || one.built.undecrypted.is_some());
    let contents = applied.iter().flat_map(|one| contents(live, &one.built.manifest));
    let mut after: Vec<Option<bool>> = contents.map(|content| holds_for(expression, &content)).collect();
    after.dedup();
    Ok(match (before, &after[..]) {
        _ if is_open => Found::Open,
        (_, [Some(true)]) => Found::Ready,
        (Some(false), [Some(false)]) => Found::Never(is_false(expression)),
        _ => Found::Open,
    })
}

fn is_false(expression: &str) -> String {
    format!("its readyExpr {expression:?} is false")
}

/// Returns what an object can be once a manifest is applied: fields that only the live object has may stay or go.
fn contents(live: Option<&Value>, manifest: &Value) -> Vec<Value> {
    let merged = live.map(|live| {
        let mut merged = live.clone();
        merge(&mut merged, manifest);
        merged
    });
    [manifest.clone()].into_iter().chain(merged).collect()
}
