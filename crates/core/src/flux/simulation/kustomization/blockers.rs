//! Conditions that keep a Kustomization from reconciling, so that it applies and prunes nothing.
//!
//! Source: docs/reference/kustomize-controller.md 1 (steps 3 to 6), 4.1 (long names) and 7.2 (dependencies).

use crate::flux::ready_expr;
use crate::ownership::schemes::flux_kustomization::GROUP;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::flux::ready_expr::{Invalid, ReadyExpression};
use crate::flux::simulation::model::node::{Blocker, Node, NodeId, Pass, PassOutcome};
use crate::flux::simulation::model::owner_names::{dependency_detail, owner_id, relative_clause};
use crate::flux::simulation::model::protection::{is_never_applied, prune_protection};
use crate::flux::simulation::model::state::State;
use crate::flux::spec::{Dependency, KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::OwnerId;
use crate::ownership::schemes::flux_kustomization::KIND;
use crate::plan::{Reason, ReasonCode};

/// Longest value of a label.
const MAX_LABEL_LENGTH: usize = 63;

impl State<'_> {
    /// Returns the condition that blocks a Kustomization with this spec, a certain one first.
    pub(crate) fn blocker(&self, key: &NamespacedName, spec: &KustomizationSpec) -> Option<Blocker> {
        let own = self.own_blocker(key, spec).into_iter().chain(self.missing_keys(key, spec));
        let own = own.chain(self.missing_kube_config(key, spec)).chain(self.unwatched(key));
        let dependencies = spec.dependencies(&key.namespace);
        let of_dependencies = dependencies.filter_map(|dependency| self.dependency_blocker(key, spec, &dependency));
        own.chain(of_dependencies).max_by_key(|blocker| blocker.is_certain)
    }

    /// Returns the condition of the Kustomization itself that blocks it.
    fn own_blocker(&self, key: &NamespacedName, spec: &KustomizationSpec) -> Option<Blocker> {
        if spec.is_suspended() {
            return Some(Blocker::certain(ReasonCode::Suspended, ""));
        }
        if key.name.len() > MAX_LABEL_LENGTH {
            let detail = "its name is longer than 63 characters, so no object can carry its label";
            return Some(Blocker::certain(ReasonCode::NameTooLong, detail));
        }
        if let Some(reason) = self.denied_source(key, spec) {
            return Some(Blocker { reason, is_certain: true });
        }
        let invalid = spec.invalid_health_expr(ready_expr::parses)?;
        let detail = format!("the controller stops unless it can parse the expression {invalid:?} of healthCheckExprs");
        Some(Blocker::possible(ReasonCode::ExpressionInvalid, detail))
    }

    /// Returns the reason why the controller denies a Kustomization the access to its source.
    pub(crate) fn denied_source(&self, key: &NamespacedName, spec: &KustomizationSpec) -> Option<Reason> {
        let source = spec.source(&key.namespace);
        let features = &self.input.features;
        let why = if features.no_cross_namespace_refs && source.namespace != key.namespace {
            "with --no-cross-namespace-refs"
        } else if features.denies_external_artifacts && source.kind == "ExternalArtifact" {
            "without the feature gate ExternalArtifact"
        } else {
            return None;
        };
        Some(Reason::new(
            ReasonCode::AccessDenied,
            format!("it may not use {source}, because the controller runs {why}"),
        ))
    }

    /// Returns a blocker if the Secret with the keys for decryption does not exist: every build then fails.
    fn missing_keys(&self, key: &NamespacedName, spec: &KustomizationSpec) -> Option<Blocker> {
        let secret = ObjectId::new("", "Secret", &key.namespace, spec.keys_secret()?);
        self.is_absent(&secret).then(|| {
            let detail = format!("{secret} with its keys for decryption does not exist");
            Blocker::certain(ReasonCode::KeysMissing, detail)
        })
    }

    /// Returns the condition of a dependency that blocks a Kustomization.
    fn dependency_blocker(
        &self,
        key: &NamespacedName,
        spec: &KustomizationSpec,
        dependency: &Dependency,
    ) -> Option<Blocker> {
        let Dependency { key: dependency, ready_expr } = dependency;
        let live_node = self.node(&NodeId::live(dependency)).filter(|node| node.deletion.is_none());
        let Some(node) = self.node(&NodeId::new(dependency)).or(live_node) else {
            return self.missing_dependency(key, spec, dependency);
        };
        if let Some(expression) = ready_expr {
            let blocker = self.expression_blocker(key, spec, node, expression);
            if blocker.is_some() || !self.input.features.additive_ready_expr {
                return blocker;
            }
        }
        let blocker = self.readiness_blocker(key, spec, node)?;
        if self.has_same_source(key, spec, dependency) || !self.is_ready(dependency) {
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
    fn readiness_blocker(&self, key: &NamespacedName, spec: &KustomizationSpec, node: &Node) -> Option<Blocker> {
        let (dependency, name) = (&node.id.key, owner_id(&node.id.key));
        if !node.id.is_new && self.is_terminating(dependency) {
            let detail = format!("it depends on {name}, which is being deleted");
            return Some(Blocker::certain(ReasonCode::DependencyDeleted, detail));
        }
        if self.waits_for(key, spec, key) {
            return Some(self.cycle_blocker(key, spec, &name));
        }
        if self.unknown_reason(node).is_some() {
            return Some(Blocker::possible(ReasonCode::DependencyUnknown, dependency_detail(&name)));
        }
        match node.last_pass().map(|pass| &pass.outcome) {
            Some(PassOutcome::Blocked(reason) | PassOutcome::Partial { reason, .. }) => {
                let detail = format!("it depends on {name}, which cannot reconcile: {}", reason.detail);
                Some(Blocker::certain(ReasonCode::DependencyNotReady, detail))
            }
            Some(PassOutcome::Applied(_)) => match self.failing_deletion(node) {
                Some(failure) => {
                    let detail = format!("it depends on {name}, which does not become ready: {failure}");
                    Some(Blocker::certain(ReasonCode::DependencyNotReady, detail))
                }
                None => self.unhealthy_dependency(node).or_else(|| uncertain_dependency(node)),
            },
            Some(PassOutcome::Unknown(_)) if !self.is_ready(dependency) => {
                let detail = format!("it depends on {name}, which is not ready");
                Some(Blocker::certain(ReasonCode::DependencyNotReady, detail))
            }
            _ => None,
        }
    }

    /// Returns a blocker if the health check of a dependency fails: of an object that does not exist, or now.
    fn unhealthy_dependency(&self, node: &Node) -> Option<Blocker> {
        let (name, pass) = (owner_id(&node.id.key), node.last_pass()?);
        let prunes = |id: &ObjectId| {
            pass.spec.prunes()
                && node.inventory.contains(id)
                && self.live_object(id).is_some_and(|live| prune_protection(live, self.input.features).is_none())
                && !self.nodes.iter().filter_map(Node::last_pass).any(|pass| pass.applies(id))
        };
        if let Some(missing) =
            self.health_checks(&node.id.key, &pass.spec).into_iter().find(|id| self.is_absent(id) || prunes(id))
        {
            let detail = format!("it depends on {name}, whose health check names {missing}, which does not exist then");
            return Some(Blocker::certain(ReasonCode::DependencyNotReady, detail));
        }
        let ready = self.live.get(&node.id.key).filter(|_| !node.id.is_new).and_then(|live| live.condition("Ready"));
        let fails_now = ready.is_some_and(|ready| ready.status == "False" && ready.reason == "HealthCheckFailed");
        let why = match self.new_unproven_object(&node.id.key, pass) {
            _ if !pass.spec.checks_health() => return None,
            _ if fails_now => "whose health check fails now".to_owned(),
            Some(created) => format!("which creates {created}"),
            None => return None,
        };
        let detail = format!("it applies only if {name}, {why}, becomes healthy");
        Some(Blocker::possible(ReasonCode::DependencyNotReady, detail))
    }

    /// Returns an object that a pass creates, that its health check includes, and that need not become healthy.
    fn new_unproven_object<'p>(&self, key: &NamespacedName, pass: &'p Pass) -> Option<&'p ObjectId> {
        let checked = self.health_checks(key, &pass.spec);
        let applied = pass.applied_objects()?.iter().filter(|(_, built)| !is_never_applied(built, &pass.spec));
        let mut created =
            applied.map(|(id, _)| id).filter(|id| self.live_object(id).is_none() && !is_healthy_at_once(id));
        created.find(|id| checked.is_empty() || checked.contains(id))
    }

    /// Returns a blocker unless the expression for a dependency is true once the dependency has reconciled.
    fn expression_blocker(
        &self,
        key: &NamespacedName,
        spec: &KustomizationSpec,
        node: &Node,
        expression: &str,
    ) -> Option<Blocker> {
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
        let own = self.object_state(key, Some(spec), None);
        let last = node.last_pass();
        let evaluate = |ready: Option<&str>| {
            let state = self.object_state(&node.id.key, last.map(|pass| &pass.spec), ready);
            compiled.evaluate(&own, &state)
        };
        let (ready, failed) = (evaluate(Some("True")), evaluate(Some("False")));
        let succeeds = last.is_some_and(|pass| pass.new_inventory().is_some());
        match (ready, failed) {
            (Some(true), Some(true)) => None,
            (Some(true), _) if succeeds => None,
            (Some(false), Some(false)) if evaluate(None) == Some(false) && !self.was_changed(node) => {
                let detail = format!("its readyExpr {expression:?} for {name} is false");
                Some(Blocker::certain(ReasonCode::DependencyNotReady, detail))
            }
            _ => {
                let detail = format!("it applies only if its readyExpr {expression:?} for {name} becomes true");
                Some(Blocker::possible(ReasonCode::DependencyNotReady, detail))
            }
        }
    }

    /// Returns true if the labels or the spec of a live Kustomization change.
    fn was_changed(&self, node: &Node) -> bool {
        let live = self.live.get(&node.id.key);
        live.is_some_and(|live| {
            let before = self.live_state(live);
            let after = self.object_state(&node.id.key, node.last_pass().map(|pass| &pass.spec), None);
            before["spec"] != after["spec"] || before["metadata"]["labels"] != after["metadata"]["labels"]
        })
    }

    fn live_state(&self, live: &Resource) -> Value {
        let labels: BTreeMap<&str, &str> = live.object.labels.iter().collect();
        json!({"metadata": {"labels": labels}, "spec": KustomizationSpec::of(live).value()})
    }

    /// Returns a Kustomization as an expression sees it: with a spec, the labels of its manifest, and the given status of
    /// its condition Ready.
    fn object_state(&self, key: &NamespacedName, spec: Option<&KustomizationSpec>, ready: Option<&str>) -> Value {
        let live = self.live.get(key);
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
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": self.labels_after(key), "generation": generation},
            "spec": spec.map_or_else(|| json!({}), KustomizationSpec::as_written), "status": status,
        })
    }

    fn is_terminating(&self, key: &NamespacedName) -> bool {
        self.live.get(key).is_some_and(|live| live.object.deletion_timestamp.is_some())
    }

    fn missing_dependency(
        &self,
        key: &NamespacedName,
        spec: &KustomizationSpec,
        dependency: &NamespacedName,
    ) -> Option<Blocker> {
        let name = owner_id(dependency);
        if self.nodes.is_empty() {
            // The first round knows neither deleted nor new Kustomizations.
            return None;
        }
        let reason = if self.live.contains_key(dependency) {
            let detail = format!("it depends on {name}, which this change deletes");
            Reason::new(ReasonCode::DependencyDeleted, detail)
        } else {
            Reason::new(ReasonCode::DependencyMissing, format!("it depends on {name}, which does not exist"))
        };
        // The dependant is not blocked if the dependency reconciles the revision before it is deleted. One of another source
        // only has to be ready.
        let reconciles = self
            .nodes
            .iter()
            .any(|node| node.id.key == *dependency && node.passes.first().and_then(Pass::new_inventory).is_some());
        let is_ready = !self.has_same_source(key, spec, dependency) && self.is_ready(dependency);
        Some(Blocker { reason, is_certain: !reconciles && !is_ready })
    }
}

/// Returns true for kinds of Kubernetes without a state, which are healthy as soon as they exist.
fn is_healthy_at_once(id: &ObjectId) -> bool {
    const WITH_STATE: [&str; 11] = [
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "ReplicationController",
        "Job",
        "CronJob",
        "Pod",
        "PersistentVolumeClaim",
        "Service",
        "APIService",
    ];
    let is_built_in = !id.group.contains('.') || id.group.ends_with(".k8s.io");
    is_built_in && !WITH_STATE.contains(&&*id.kind)
}

/// Returns a blocker if it is not certain that a dependency applies.
fn uncertain_dependency(node: &Node) -> Option<Blocker> {
    let condition = node.last_pass()?.condition.as_ref()?;
    let detail = relative_clause("it depends on", &owner_id(&node.id.key), &condition.detail);
    Some(Blocker::possible(ReasonCode::DependencyNotReady, detail))
}

impl<'a> State<'a> {
    /// Returns a blocker if the object of `spec.kubeConfig` does not exist.
    pub(crate) fn missing_kube_config(&self, key: &NamespacedName, spec: &KustomizationSpec) -> Option<Blocker> {
        let id = self.kube_config(&key.namespace, spec.value()).filter(|id| self.is_absent(id))?;
        let detail = format!("{id}, by which it reaches its cluster, does not exist");
        Some(Blocker::certain(ReasonCode::KubeConfigMissing, detail))
    }
}

impl State<'_> {
    /// Returns the blocker of a Kustomization that depends on itself through a dependency.
    pub(crate) fn cycle_blocker(
        &self,
        key: &NamespacedName,
        spec: &KustomizationSpec,
        dependency: &OwnerId,
    ) -> Blocker {
        let source = spec.source(&key.namespace);
        let mut detail = format!("it depends on {dependency}, which depends on it");
        if self.has_cycle(&source) {
            detail +=
                &format!("; until this is fixed, a new revision of {source} triggers nothing before its interval");
        }
        // Until a parent makes the cycle, both can be ready; then the one that is applied first may reconcile once more.
        match self.live.contains_key(key) && !self.cycles.get(&source).is_some_and(|cycle| cycle.contains(key)) {
            true => Blocker::possible(ReasonCode::DependencyCycle, detail),
            false => Blocker::certain(ReasonCode::DependencyCycle, detail),
        }
    }
}
