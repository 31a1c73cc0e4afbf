//! Classes for which a run waits before it applies anything else.
//!
//! The kinds whose names end in `Class` have a stage of their own, after which a run waits up to 60 s until kstatus
//! finds all of its objects current. If one is not, the rest is not applied, and nothing is pruned. Those of Kubernetes
//! have no state.
//!
//! Source: `ApplyAllStaged` in manager_apply.go of fluxcd/pkg/ssa v0.76.2, kstatus of fluxcd/cli-utils v1.2.3, and
//! `Evaluate` in cel/status_evaluator.go of pkg/runtime v0.110.3.

use serde_json::Value;

use super::dependencies::health::is_class_with_state;
use super::derivation::Derivation;
use super::scope::stop_after;
use crate::flux::build::objects::BuiltObject;
use crate::flux::health_exprs::expr_of;
use crate::flux::ready_expr::holds_for;
use crate::flux::simulation::model::node::{BuiltObjects, Pass, PassOutcome};
use crate::flux::spec::NamespacedName;
use crate::flux::stages::{Stage, stage};
use crate::kubernetes::object::{ObjectId, list_at, text_at};
use crate::ownership::scheme::owner_status::condition;
use crate::plan::{Reason, ReasonCode};

/// Splits each pass that waits for a class, of which it is not known if it is ready: the first part ends at the wait.
pub(super) fn wait_for_classes(derivation: &mut Derivation<'_, '_>, key: &NamespacedName, passes: &mut Vec<Pass>) {
    for at in (0..passes.len()).rev() {
        let Some(why) = open_class(derivation, key, &passes[at]) else { continue };
        let waiting = until_classes(derivation, &passes[at], &why);
        passes[at].add_condition(Reason::new(ReasonCode::NotReady, why));
        passes.splice(at..at, waiting);
    }
}

/// Returns a pass as far as it goes without its classes; `None` if it applies nothing then.
fn until_classes(derivation: &Derivation<'_, '_>, pass: &Pass, why: &str) -> Option<Pass> {
    let (PassOutcome::Applied(desired) | PassOutcome::Partial { desired, .. }) = &pass.outcome else { return None };
    let custom = &derivation.state.input.flags.custom_stage_kinds;
    let mut waiting = pass.clone();
    waiting.outcome = stop_after(desired.clone(), Stage::Classes, why.to_owned(), custom);
    waiting.forced.retain(|id, _| stage(id, custom) <= Stage::Classes);
    Some(waiting)
}

/// Returns the condition of the first class that keeps, or may keep, a pass from applying what comes after.
fn open_class(derivation: &mut Derivation<'_, '_>, key: &NamespacedName, pass: &Pass) -> Option<String> {
    let custom = &derivation.state.input.flags.custom_stage_kinds;
    let applied = pass.applied_objects()?;
    let prunes = pass.new_inventory().is_some();
    if !prunes && applied.keys().all(|id| stage(id, custom) <= Stage::Classes) {
        return None;
    }
    let changed = &derivation.state.changed_health;
    unready_class(derivation, applied, pass.spec.value(), |id| changed.contains(&(key.clone(), id.clone())))
}

/// Returns the condition of the first class that keeps, or may keep, an owner with this spec from applying what comes
/// after. `is_changed` is true for live objects that it changes.
pub(crate) fn unready_class(
    derivation: &mut Derivation<'_, '_>,
    objects: &BuiltObjects,
    spec: &Value,
    is_changed: impl Fn(&ObjectId) -> bool,
) -> Option<String> {
    let custom = &derivation.state.input.flags.custom_stage_kinds;
    let mut classes = objects.iter().filter(|(id, _)| stage(id, custom) == Stage::Classes);
    classes.find_map(|(id, built)| {
        let expr = expr_of(spec, &id.group_kind());
        let has_state = expr.is_some() || is_class_with_state(id);
        if has_state { doubt_about(derivation, id, built, expr, is_changed(id)) } else { None }
    })
}

/// Returns the condition under which a class is ready when its owner waits for it; `None` if it is.
fn doubt_about(
    derivation: &mut Derivation<'_, '_>,
    id: &ObjectId,
    built: &BuiltObject,
    expr: Option<&Value>,
    is_changed: bool,
) -> Option<String> {
    let unless =
        |what: &str| Some(format!("nothing more is applied unless {id}, which it {what}, is ready within a minute"));
    if !derivation.state.is_live(id) {
        return if expr.is_some() || may_have_state(derivation, id, &built.version) { unless("creates") } else { None };
    }
    let live = derivation.content(id, text_at(&built.manifest, "/apiVersion")).flatten();
    match live.map(|live| is_current(live, expr)) {
        Some(Some(false)) => {
            return Some(format!("nothing more is applied until {id}, which is not ready now, is ready"));
        }
        Some(None) => return Some(format!("nothing more is applied unless the healthCheckExprs find {id} ready")),
        Some(Some(true)) | None => {}
    }
    let has_state = expr.is_some() || live.is_none_or(shows_state);
    if has_state && is_changed { unless("changes") } else { None }
}

/// Returns true if the status of a live object can decide its health.
fn shows_state(live: &Value) -> bool {
    live.pointer("/status/observedGeneration").is_some()
        || ["Ready", "Reconciling", "Stalled"].iter().any(|kind| condition(live, kind).is_some())
}

/// Returns true if an operator may write a state of a new object: the definition of its kind has a place for one.
/// Nobody looks after a kind that is new itself.
fn may_have_state(derivation: &mut Derivation<'_, '_>, id: &ObjectId, version: &str) -> bool {
    let Some(definition) = derivation.state.definition_of(id) else { return false };
    let Some(content) = derivation.content(&definition, "apiextensions.k8s.io/v1") else { return false };
    content.is_none_or(|content| {
        let versions = list_at(content, "/spec/versions").iter();
        let schema =
            versions.filter(|found| found["name"] == *version).find_map(|it| it.pointer("/schema/openAPIV3Schema"));
        let is_open = |schema: &Value| schema["x-kubernetes-preserve-unknown-fields"] == true;
        schema.is_none_or(|schema| {
            let status = schema.pointer("/properties/status");
            is_open(schema)
                || status.is_some_and(|status| {
                    let fields = ["/properties/conditions", "/properties/observedGeneration"];
                    is_open(status) || fields.iter().any(|field| status.pointer(field).is_some())
                })
        })
    })
}

/// Returns true if the controller finds a live object current, by its status or by an entry of `spec.healthCheckExprs`;
/// `None` if that is not known.
fn is_current(live: &Value, expr: Option<&Value>) -> Option<bool> {
    let number = |pointer: &str| live.pointer(pointer).and_then(Value::as_i64);
    let generations = number("/status/observedGeneration").zip(number("/metadata/generation"));
    if generations.is_some_and(|(observed, generation)| observed != generation) {
        return Some(false);
    }
    let Some(expr) = expr else {
        let has = |kind: &str, statuses: &[&str]| {
            condition(live, kind).is_some_and(|condition| statuses.contains(&condition.status))
        };
        let is_open = has("Reconciling", &["True"]) || has("Stalled", &["True"]) || has("Ready", &["False", "Unknown"]);
        return Some(!is_open);
    };
    let texts =
        ["/inProgress", "/failed", "/current"].map(|field| Some(text_at(expr, field)).filter(|text| !text.is_empty()));
    if texts[..2].iter().any(Option::is_some) && live.get("status").is_none() {
        // An error ends the evaluation.
        return None;
    }
    for (text, is_current) in texts.into_iter().zip([false, false, true]) {
        if text.map_or(Some(false), |text| holds_for(text, live))? {
            return Some(is_current);
        }
    }
    Some(false)
}
