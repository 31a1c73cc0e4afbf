//! Dependencies that keep a Kustomization from reconciling.
//!
//! Source: docs/reference/kustomize-controller.md 7.2.

pub(crate) mod health;

use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::flux::simulation::model::facts::unknown_builds::unknown_reason;
use crate::flux::simulation::model::facts::watch_selector::labels_after;
use health::{Health, Obstacle};

use crate::flux::ready_expr::{Invalid, ReadyExpression};
use crate::flux::simulation::model::facts::refused_deletions::failing_deletion;
use crate::flux::simulation::model::facts::standing_failures::unpruned_object;
use crate::flux::simulation::model::node::{Blocker, Node, NodeId, Pass, PassOutcome};
use crate::flux::simulation::model::owner_names::{dependency_detail, owner_id, relative_clause};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::simulation::schedule::cycles::has_cycle;
use crate::flux::simulation::schedule::dependency_order::{has_same_source, waits_for_itself};
use crate::flux::spec::{Dependency, KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;
use crate::ownership::OwnerId;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Reason, ReasonCode};

/// A Kustomization that waits for its dependencies.
#[derive(Clone, Copy)]
pub(crate) struct Dependant<'s, 'a> {
    pub(crate) state: &'s State<'a>,
    pub(crate) consequences: &'s Consequences<'a>,
    pub(crate) key: &'s NamespacedName,
    pub(crate) spec: &'s KustomizationSpec,
    /// It depends on itself; set once that was searched for.
    pub(crate) is_in_circle: &'s OnceCell<bool>,
}

impl Dependant<'_, '_> {
    /// Returns the condition of a dependency that blocks a Kustomization.
    pub(crate) fn blocker(&self, dependency: &Dependency) -> Option<Blocker> {
        let Self { state, key, spec, .. } = *self;
        let Dependency { key: dependency, ready_expr } = dependency;
        let live_node = state.node(&NodeId::live(dependency)).filter(|node| node.deletion.is_none());
        let Some(node) = state.node(&NodeId::new(dependency)).or(live_node) else {
            return self.missing_dependency(dependency);
        };
        if let Some(expression) = ready_expr {
            let blocker = self.expression_blocker(node, expression);
            if blocker.is_some() || !state.input.features.additive_ready_expr {
                return blocker;
            }
        }
        let blocker = self.readiness_blocker(node)?;
        if has_same_source(state, key, spec, dependency) || !state.is_ready(dependency) {
            return Some(blocker);
        }
        let Some(PassOutcome::Blocked(Reason { code: ReasonCode::Suspended | ReasonCode::NotWatched, .. })) =
            node.last_pass().map(|pass| &pass.outcome)
        else {
            let mut reason = blocker.reason;
            reason.add_detail("it has another source and is ready now, so that either may come first");
            return Some(Blocker { reason, is_certain: false });
        };
        // It stays ready.
        None
    }

    /// Returns a blocker unless a dependency becomes ready at the new revision.
    fn readiness_blocker(&self, node: &Node) -> Option<Blocker> {
        let Self { state, key, spec, is_in_circle, .. } = *self;
        let (dependency, name) = (&node.id.key, owner_id(&node.id.key));
        if !node.id.is_new && is_terminating(state, dependency) {
            let detail = format!("it depends on {name}, which is being deleted");
            return Some(Blocker::certain(ReasonCode::DependencyDeleted, detail));
        }
        if *is_in_circle.get_or_init(|| waits_for_itself(state, key, spec)) {
            return Some(self.cycle_blocker(&name));
        }
        if unknown_reason(state, node).is_some() {
            return Some(Blocker::possible(ReasonCode::DependencyUnknown, dependency_detail(&name)));
        }
        match node.last_pass().map(|pass| &pass.outcome) {
            Some(PassOutcome::Blocked(reason) | PassOutcome::Partial { reason, .. }) => {
                let earlier = if reason.code == ReasonCode::Suspended { self.suspended_dependency(node) } else { None };
                earlier.or_else(|| {
                    let detail = format!("it depends on {name}, which cannot reconcile: {}", reason.detail_or_code());
                    Some(Blocker::certain(ReasonCode::DependencyNotReady, detail))
                })
            }
            Some(PassOutcome::Applied(_)) => self.unready_dependency(node),
            Some(PassOutcome::Unknown(_)) if !state.is_ready(dependency) => {
                let detail = format!("it depends on {name}, which is not ready");
                Some(Blocker::certain(ReasonCode::DependencyNotReady, detail))
            }
            _ => None,
        }
    }

    /// Returns a blocker if a dependency that applies the new revision does not become ready, or may not.
    fn unready_dependency(&self, node: &Node) -> Option<Blocker> {
        if let Some(failure) = failing_deletion(self.state, node) {
            let detail = format!("it depends on {}, which does not become ready: {failure}", owner_id(&node.id.key));
            return Some(Blocker::certain(ReasonCode::DependencyNotReady, detail));
        }
        self.unhealthy_dependency(node, node.passes.len() - 1)
            .or_else(|| uncertain_dependency(node))
            .or_else(|| unpruned_dependency(self.state, node))
            .or_else(|| self.unmatched_dependency(node))
    }

    fn health(&self) -> Health<'_, '_> {
        let Self { state, consequences, .. } = *self;
        Health { state, consequences }
    }

    /// Returns a blocker if a dependency may never become ready, because it may fail to prune an object whose kind is
    /// gone.
    fn unmatched_dependency(&self, node: &Node) -> Option<Blocker> {
        let Obstacle { clause, .. } = self.health().unmatched_deletion(node)?;
        let detail = format!("it applies only if {}, {clause}, becomes ready", owner_id(&node.id.key));
        Some(Blocker::possible(ReasonCode::DependencyNotReady, detail))
    }

    /// Returns the blocker of a dependency that the change suspends, if it can reconcile the new revision before that.
    ///
    /// A suspended Kustomization stays ready: `finalizeStatus` in kustomization_controller.go v1.9.5 sets `observedGeneration` and
    /// leaves the conditions as they are.
    fn suspended_dependency(&self, node: &Node) -> Option<Blocker> {
        let number = node.passes.iter().rposition(|pass| pass.new_inventory().is_some())?;
        let fails = self.unhealthy_dependency(node, number).filter(|blocker| blocker.is_certain);
        fails.or_else(|| {
            let name = owner_id(&node.id.key);
            let detail = format!("it applies only if {name} reconciles the new revision before it is suspended");
            Some(Blocker::possible(ReasonCode::DependencyNotReady, detail))
        })
    }

    /// Returns a blocker if the health check in a pass of a dependency fails, or may fail.
    fn unhealthy_dependency(&self, node: &Node, number: usize) -> Option<Blocker> {
        let Obstacle { clause, is_certain } = self.health().obstacle(node, number)?;
        let name = owner_id(&node.id.key);
        let detail = if is_certain {
            format!("it depends on {name}, {clause}")
        } else {
            format!("it applies only if {name}, {clause}, becomes healthy")
        };
        Some(Blocker { reason: Reason::new(ReasonCode::DependencyNotReady, detail), is_certain })
    }

    /// Returns a blocker unless the expression for a dependency is true once the dependency has reconciled.
    fn expression_blocker(&self, node: &Node, expression: &str) -> Option<Blocker> {
        let name = owner_id(&node.id.key);
        let compiled = match ReadyExpression::compile(expression) {
            Ok(compiled) => compiled,
            Err(Invalid::NotBoolean) => {
                let detail = format!("the result of its readyExpr {expression:?} for {name} is no Boolean");
                return Some(Blocker::certain(ReasonCode::ExpressionInvalid, detail));
            }
            Err(Invalid::NotCompiled) => {
                let detail =
                    format!("it applies only if the controller can compile its readyExpr {expression:?} for {name}");
                return Some(Blocker::possible(ReasonCode::ExpressionInvalid, detail));
            }
        };
        let (ready, failed) =
            (self.evaluate(&compiled, node, Some("True")), self.evaluate(&compiled, node, Some("False")));
        let succeeds = node.last_pass().is_some_and(|pass| pass.new_inventory().is_some());
        match (ready, failed) {
            (Some(true), Some(true)) => None,
            // With the gate the readiness counts by itself.
            (Some(true), _) if succeeds && self.state.input.features.additive_ready_expr => None,
            (Some(true), _) if succeeds => {
                let Blocker { mut reason, is_certain } = self.unready_dependency(node)?;
                if is_certain {
                    reason.add_detail(&format!("its readyExpr {expression:?} may be true before that"));
                }
                Some(Blocker { reason, is_certain: false })
            }
            (Some(false), Some(false))
                if self.evaluate(&compiled, node, None) == Some(false) && !was_changed(self.state, node) =>
            {
                let detail = format!("its readyExpr {expression:?} for {name} is false");
                Some(Blocker::certain(ReasonCode::DependencyNotReady, detail))
            }
            _ => {
                let detail = format!("it applies only if its readyExpr {expression:?} for {name} becomes true");
                Some(Blocker::possible(ReasonCode::DependencyNotReady, detail))
            }
        }
    }

    /// Returns the value of an expression for a dependency with a status of its condition Ready.
    fn evaluate(&self, expression: &ReadyExpression, node: &Node, ready: Option<&str>) -> Option<bool> {
        let own = object_state(self.state, self.key, Some(self.spec), None);
        let last_spec = node.last_pass().map(|pass| &pass.spec);
        expression.evaluate(&own, &object_state(self.state, &node.id.key, last_spec, ready))
    }

    fn missing_dependency(&self, dependency: &NamespacedName) -> Option<Blocker> {
        let Self { state, key, spec, .. } = *self;
        let name = owner_id(dependency);
        if state.nodes.is_empty() {
            // The first round knows neither deleted nor new Kustomizations.
            return None;
        }
        let reason = if state.live.contains_key(dependency) {
            let detail = format!("it depends on {name}, which this change deletes");
            Reason::new(ReasonCode::DependencyDeleted, detail)
        } else {
            Reason::new(ReasonCode::DependencyMissing, format!("it depends on {name}, which does not exist"))
        };
        // The dependant is not blocked if the dependency reconciles the revision before it is deleted. One of another source
        // only has to be ready.
        let reconciles = state
            .nodes
            .iter()
            .any(|node| node.id.key == *dependency && node.passes.first().and_then(Pass::new_inventory).is_some());
        let is_ready = !has_same_source(state, key, spec, dependency) && state.is_ready(dependency);
        Some(Blocker { reason, is_certain: !reconciles && !is_ready })
    }

    /// Returns the blocker of a Kustomization that depends on itself through a dependency.
    fn cycle_blocker(&self, dependency: &OwnerId) -> Blocker {
        let Self { state, key, spec, .. } = *self;
        let source = spec.source(&key.namespace);
        let mut detail = format!("it depends on {dependency}, which depends on it");
        if has_cycle(state, &source) {
            detail +=
                &format!("; until this is fixed, a new revision of {source} triggers nothing before its interval");
        }
        // Until a parent makes the cycle, both can be ready; then the one that is applied first may reconcile once more. One that
        // names itself has not observed its new spec.
        let is_new = !state.cycles.get(&source).is_some_and(|cycle| cycle.contains(key));
        let is_certain = *dependency == owner_id(key) || !(is_new && state.live.contains_key(key));
        Blocker { reason: Reason::new(ReasonCode::DependencyCycle, detail), is_certain }
    }
}

/// Returns true if the labels or the spec of a live Kustomization change.
fn was_changed(state: &State<'_>, node: &Node) -> bool {
    let live = state.live.get(&node.id.key);
    live.is_some_and(|live| {
        let labels: BTreeMap<&str, &str> = live.object.labels.iter().collect();
        let after = object_state(state, &node.id.key, node.last_pass().map(|pass| &pass.spec), None);
        *KustomizationSpec::of(live).value() != after["spec"] || json!(labels) != after["metadata"]["labels"]
    })
}

/// Returns a Kustomization as an expression sees it: with a spec, the labels of its manifest, and the given status of
/// its condition Ready.
fn object_state(
    state: &State<'_>,
    key: &NamespacedName,
    spec: Option<&KustomizationSpec>,
    ready: Option<&str>,
) -> Value {
    let (id, live) = (ObjectId::new(GROUP, KIND, &key.namespace, &key.name), state.live.get(key));
    let mut status = live.and_then(|live| live.at("/status")).cloned().unwrap_or_else(|| json!({}));
    let generation = live.map_or(1, |live| live.object.generation);
    if let Some(ready) = ready {
        let old = status["conditions"].as_array().cloned().unwrap_or_default();
        let others = old.into_iter().filter(|condition| condition["type"] != "Ready");
        let condition = json!({"type": "Ready", "status": ready, "observedGeneration": generation});
        status["conditions"] = others.chain([condition]).collect();
        status["observedGeneration"] = generation.into();
    }
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": KIND,
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels_after(state, &id), "generation": generation},
        "spec": spec.map_or_else(|| json!({}), KustomizationSpec::as_written), "status": status,
    })
}

fn is_terminating(state: &State<'_>, key: &NamespacedName) -> bool {
    state.live.get(key).is_some_and(|live| live.object.deletion_timestamp.is_some())
}

/// Returns a blocker if a dependency may go on failing to prune an object.
fn unpruned_dependency(state: &State<'_>, node: &Node) -> Option<Blocker> {
    let unpruned = unpruned_object(state, node)?;
    let detail = format!("it applies only once {} no longer fails to delete {unpruned}", owner_id(&node.id.key));
    Some(Blocker::possible(ReasonCode::DependencyNotReady, detail))
}

/// Returns a blocker if it is not certain that a dependency applies.
fn uncertain_dependency(node: &Node) -> Option<Blocker> {
    let condition = node.last_pass()?.condition.as_ref()?;
    let detail = relative_clause("it depends on", &owner_id(&node.id.key), &condition.detail);
    Some(Blocker::possible(ReasonCode::DependencyNotReady, detail))
}
