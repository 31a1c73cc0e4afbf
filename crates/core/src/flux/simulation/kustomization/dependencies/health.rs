//! Health checks of the Kustomizations on which others depend.
//!
//! A health check comes after the pruning, and fails if an object does not exist or does not become healthy in time. Source:
//! docs/reference/kustomize-controller.md 7.2, and kstatus of fluxcd/cli-utils v1.2.2 for the state of each kind.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::flux::health_exprs::expr_of;
use crate::flux::simulation::model::affected_owner::Readiness;
use crate::flux::simulation::model::facts::owner_readiness::owner_readiness;
use crate::flux::simulation::model::facts::refused_deletions::{failing_deletion, reads_types_anew};
use crate::flux::simulation::model::held_deletions::held_deletion;
use crate::flux::simulation::model::node::{Node, NodeId, Pass, PassId, PassOutcome, SimulationEvent};
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::protection::{is_never_applied, prune_protection};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::simulation::schedule::dependency_order::waits_for;
use crate::flux::simulation::schedule::outcomes::FinalState;
use crate::flux::spec::NamespacedName;
use crate::flux::stages::{Stage, stage};
use crate::kubernetes::object::{ObjectId, is_of_kubernetes};
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Reason, ReasonCode};

/// Something that keeps, or may keep, the health check of a Kustomization from succeeding.
pub(super) struct Obstacle {
    /// Relative clause about the Kustomization, for people.
    pub(super) clause: String,
    pub(super) is_certain: bool,
}

impl Obstacle {
    fn certain(clause: String) -> Self {
        Self { clause, is_certain: true }
    }

    fn possible(clause: String) -> Self {
        Self { clause, is_certain: false }
    }
}

/// Health checks after the change.
#[derive(Clone, Copy)]
pub(crate) struct Health<'s, 'a> {
    pub(crate) state: &'s State<'a>,
    pub(crate) consequences: &'s Consequences<'a>,
}

impl Health<'_, '_> {
    /// Returns what keeps the health check in a pass of a Kustomization from succeeding, a certain obstacle first.
    pub(super) fn obstacle(self, node: &Node, number: usize) -> Option<Obstacle> {
        self.obstacle_of(node, number, &mut BTreeSet::new())
    }

    /// Returns true if an object that an owner leaves as it is need not be ready when the owner waits for it, because of the change.
    pub(crate) fn may_be_unready(self, id: &ObjectId) -> bool {
        if self.held(id).is_some() || self.consequences.may_be_deleted(id) {
            return true;
        }
        if id.is_here(GROUP, KIND) {
            return self.kustomization_may_be_unready(&NamespacedName::of(id));
        }
        self.changed_by_others(id).is_some()
    }

    fn kustomization_may_be_unready(self, key: &NamespacedName) -> bool {
        let state = self.state;
        let node = state.node(&NodeId::new(key)).or(state.node(&NodeId::live(key)));
        let Some((node, last)) = node.and_then(|node| Some((node, node.last_pass()?))) else { return false };
        match &last.outcome {
            PassOutcome::Applied(_) => {
                failing_deletion(state, node).is_some()
                    || self.unmatched_deletion(node).is_some()
                    || self.obstacle(node, node.passes.len() - 1).is_some()
                    || last.condition.is_some()
            }
            PassOutcome::Blocked(Reason { code: ReasonCode::Suspended | ReasonCode::NotWatched, .. })
            | PassOutcome::Unknown(_) => !state.is_ready(key),
            PassOutcome::Blocked(_) | PassOutcome::Partial { .. } => true,
        }
    }

    /// Returns the obstacle of a Kustomization, unless it was looked at before.
    fn obstacle_of(self, node: &Node, number: usize, seen: &mut BTreeSet<NamespacedName>) -> Option<Obstacle> {
        let (key, pass) = (&node.id.key, node.passes.get(number)?);
        if !pass.spec.checks_health() || !seen.insert(key.clone()) {
            return None;
        }
        let checked = self.state.health_checks(key, &pass.spec);
        let of_objects = checked.iter().filter_map(|id| self.missing(node, number, id));
        let mut obstacles: Vec<Obstacle> = of_objects.collect();
        for child in self.checked_kustomizations(key, pass, &checked) {
            obstacles.extend(self.child_obstacle(node, pass, &child, seen));
        }
        obstacles.extend(self.present_failure(node));
        obstacles.extend(self.unproven(node, pass, &checked));
        obstacles.sort_by_key(|obstacle| !obstacle.is_certain);
        obstacles.into_iter().next()
    }

    /// Returns an obstacle if an object of `spec.healthChecks` does not exist when it is checked.
    fn missing(self, node: &Node, number: usize, id: &ObjectId) -> Option<Obstacle> {
        let pass = node.passes.get(number)?;
        let state = self.state;
        if state.stays_absent(id) || state.stays_unserved(id) || is_pruned(state, node, pass, id) {
            return Some(Obstacle::certain(format!("whose health check names {id}, which does not exist then")));
        }
        let possible = Some(Obstacle::possible(format!("whose health check may come after {id} is deleted")));
        if self.consequences.cascaded.contains_key(id) {
            return possible;
        }
        let outcomes = self.consequences.outcomes.get(id)?;
        if !outcomes.may_end_as(FinalState::Deleted) {
            return None;
        }
        let check = SimulationEvent::Prune(PassId { node: node.id.clone(), number });
        let order = &self.consequences.order;
        if outcomes.deletions.iter().all(|deletion| order.precedes(&check, deletion)) {
            return None;
        }
        let is_earlier = outcomes.deletions.iter().all(|deletion| order.precedes(deletion, &check));
        if is_earlier && outcomes.always_ends_as(FinalState::Deleted) {
            return Some(Obstacle::certain(format!("whose health check names {id}, which is deleted before")));
        }
        possible
    }

    /// Returns an obstacle if a Kustomization may fail to prune, because the definition of an object goes first: a
    /// controller that reads the API types anew finds no such kind then, which is an error (`Delete` in
    /// manager_delete.go of fluxcd/pkg/ssa v0.76.2; observed).
    pub(super) fn unmatched_deletion(self, node: &Node) -> Option<Obstacle> {
        let (state, consequences) = (self.state, self.consequences);
        let (number, pass) = (node.passes.len().checked_sub(1)?, node.last_pass()?);
        if !reads_types_anew(state, pass) {
            return None;
        }
        let prune = SimulationEvent::Prune(PassId { node: node.id.clone(), number });
        let goes_first = |definition: &ObjectId| {
            let Some(outcomes) = consequences.outcomes.get(definition) else {
                return consequences.cascaded.contains_key(definition);
            };
            outcomes.may_end_as(FinalState::Deleted)
                && !outcomes.deletions.iter().all(|it| *it == prune || consequences.order.precedes(&prune, it))
        };
        let mut pruned = node.inventory.iter().filter(|id| node.prunes(pass, id));
        let (id, definition) = pruned.find_map(|id| {
            let definition = state.definition_of(id).filter(|it| state.is_live(it) && goes_first(it))?;
            Some((id, definition))
        })?;
        Some(Obstacle::possible(format!("which may fail to delete {id}, because {definition} may be deleted before")))
    }

    /// Returns the other Kustomizations that a pass checks.
    fn checked_kustomizations(self, key: &NamespacedName, pass: &Pass, checked: &[ObjectId]) -> Vec<NamespacedName> {
        let objects = pass.applied_objects().into_iter().flatten();
        let applied = objects.filter(|(_, built)| checked.is_empty() && !is_never_applied(built, &pass.spec));
        let ids = applied.map(|(id, _)| id).chain(checked).filter(|id| id.is_here(GROUP, KIND));
        ids.map(NamespacedName::of).filter(|child| child != key).collect()
    }

    /// Returns an obstacle if a Kustomization that is checked does not become ready.
    fn child_obstacle(
        self,
        node: &Node,
        pass: &Pass,
        key: &NamespacedName,
        seen: &mut BTreeSet<NamespacedName>,
    ) -> Option<Obstacle> {
        let state = self.state;
        let live = state.node(&NodeId::live(key)).filter(|child| child.deletion.is_none());
        let child = state.node(&NodeId::new(key)).or(live)?;
        let (name, last) = (owner_id(key), child.last_pass()?);
        // One that is ready now may be checked before it notices the new revision, unless its spec changes. Expressions can call
        // it healthy all the same.
        let is_ready = !child.id.is_new && state.is_ready(key);
        let is_noticed = !is_ready || last.trigger.is_some();
        let is_decided = is_noticed && !state.exceeds_workers && pass.spec.value().get("healthCheckExprs").is_none();
        let certain =
            |why: &str| Some(Obstacle { clause: format!("which waits for {name}, {why}"), is_certain: is_decided });
        let possible = |why: &str| Some(Obstacle::possible(format!("which waits for {name}, {why}")));
        if waits_for(state, key, &last.spec, &node.id.key) {
            return certain("which depends on it");
        }
        match &last.outcome {
            PassOutcome::Blocked(Reason { code: ReasonCode::Suspended | ReasonCode::NotWatched, .. }) if is_ready => {
                None
            }
            PassOutcome::Blocked(Reason { code: ReasonCode::Suspended, .. }) => certain("which is suspended"),
            PassOutcome::Blocked(reason) | PassOutcome::Partial { reason, .. } if last.condition.is_none() => {
                certain(&format!("which cannot reconcile: {}", reason.detail_or_code()))
            }
            PassOutcome::Applied(_) => {
                if let Some(failure) = failing_deletion(state, child) {
                    return certain(&format!("which does not become ready: {failure}"));
                }
                if let Some(obstacle) = self.obstacle_of(child, child.passes.len() - 1, seen) {
                    return if obstacle.is_certain { certain(&obstacle.clause) } else { possible(&obstacle.clause) };
                }
                if let Some(obstacle) = self.unmatched_deletion(child) {
                    return possible(&obstacle.clause);
                }
                let condition = last.condition.as_ref()?;
                possible(&format!("of which it is not known if it applies: {}", condition.detail))
            }
            _ if is_ready => None,
            _ => possible("which is not ready"),
        }
    }

    /// Returns an obstacle if the health check of a live Kustomization fails now, or did not succeed yet.
    fn present_failure(self, node: &Node) -> Option<Obstacle> {
        let clause = present_failure(self.state, &node.id.key).filter(|_| !node.id.is_new)?;
        Some(Obstacle::possible(clause.to_owned()))
    }

    /// Returns the obstacles among the objects that a pass checks and that need not become healthy: those that it creates or changes,
    /// or checks in another way than the live Kustomization, and those that others change.
    fn unproven(self, node: &Node, pass: &Pass, checked: &[ObjectId]) -> Vec<Obstacle> {
        if pass.applied_objects().is_none() {
            return vec![];
        }
        let first = node.passes.first().map(|first| (first, self.state.health_checks(&node.id.key, &first.spec)));
        let applied = checked_with_state(self.state, pass, checked).filter(|id| !id.is_here(GROUP, KIND));
        let own = applied.filter_map(|id| {
            let is_checked_anew = first.as_ref().is_some_and(|(first, before)| {
                let is_checked = first.spec.checks_health() && (before.is_empty() || before.contains(id));
                !is_checked || health_expr(first, id) != health_expr(pass, id)
            });
            self.unproven_object(&node.id.key, pass, id, is_checked_anew)
        });
        let others = checked.iter().filter(|id| !pass.applies(id) && has_state(self.state, pass, id));
        let held = others
            .filter(|id| !id.is_here(GROUP, KIND))
            .filter_map(|id| self.held(id).or_else(|| self.changed_by_others(id)));
        own.chain(held).collect()
    }

    /// Returns an obstacle if an object that a pass applies and checks does not become healthy, or may not.
    fn unproven_object(
        self,
        key: &NamespacedName,
        pass: &Pass,
        id: &ObjectId,
        is_checked_anew: bool,
    ) -> Option<Obstacle> {
        if let Some(obstacle) = self.held(id) {
            return Some(obstacle);
        }
        let state = self.state;
        let readiness = owner_readiness(state, id).filter(|_| health_expr(pass, id).is_none());
        let verb = if !state.is_live(id) {
            "creates"
        } else if self.consequences.may_be_recreated(id) {
            "recreates"
        } else if state.changed_health.contains(&(key.clone(), id.clone())) {
            "changes"
        } else if is_checked_anew {
            "checks in another way"
        } else {
            return match readiness {
                Some(Readiness::Fails(why)) if state.affected_owner(id).is_none() => {
                    Some(Obstacle::certain(format!("which waits for {id}, which is not ready: {why}")))
                }
                _ => self.changed_by_others(id),
            };
        };
        match readiness {
            Some(Readiness::Ready) => None,
            Some(Readiness::Fails(why)) => {
                Some(Obstacle::certain(format!("which {verb} {id}, which is not ready: {why}")))
            }
            Some(Readiness::Open) | None => Some(Obstacle::possible(format!("which {verb} {id}"))),
        }
    }

    /// Returns an obstacle if an object is being deleted and its finalizers keep it.
    fn held(self, id: &ObjectId) -> Option<Obstacle> {
        self.state.live_object(id).and_then(held_deletion)?;
        Some(Obstacle::possible(format!("which waits for {id}, which is being deleted and kept by finalizers")))
    }

    /// Returns an obstacle if something else changes an object, before or after it is checked: another Kustomization, or an owner
    /// whose chart or values change.
    fn changed_by_others(self, id: &ObjectId) -> Option<Obstacle> {
        let state = self.state;
        let is_changed = match owner_readiness(state, id) {
            Some(readiness) => state.affected_owner(id).is_some() && readiness != Readiness::Ready,
            None => {
                let is_replaced = state.owner_applies().any(|(_, applies)| applies.changes(id));
                is_replaced || state.changed_health.iter().any(|(_, changed)| changed == id)
            }
        };
        is_changed.then(|| Obstacle::possible(format!("which waits for {id}, which may not be ready then")))
    }
}

/// Returns the objects that a pass applies and checks, and that need not be healthy as soon as they exist.
fn checked_with_state<'p>(
    state: &State<'_>,
    pass: &'p Pass,
    checked: &[ObjectId],
) -> impl Iterator<Item = &'p ObjectId> {
    let applied = pass.applied_objects().into_iter().flatten();
    let sent = applied.filter(|(_, built)| !is_never_applied(built, &pass.spec)).map(|(id, _)| id);
    sent.filter(|id| (checked.is_empty() || checked.contains(id)) && has_state(state, pass, id))
}

/// Returns true for an object that need not be healthy as soon as it exists, as a pass checks it.
fn has_state(state: &State<'_>, pass: &Pass, id: &ObjectId) -> bool {
    let is_held = state.live_object(id).and_then(held_deletion).is_some();
    is_held || !is_healthy_at_once(id) || health_expr(pass, id).is_some()
}

/// Returns the entry of `spec.healthCheckExprs` by which a pass decides the health of an object.
fn health_expr<'p>(pass: &'p Pass, id: &ObjectId) -> Option<&'p Value> {
    expr_of(pass.spec.value(), &id.group_kind())
}

/// Returns true if a Kustomization with the spec of a pass prunes an object of its inventory.
fn is_pruned(state: &State<'_>, node: &Node, pass: &Pass, id: &ObjectId) -> bool {
    pass.spec.prunes()
        && node.inventory.contains(id)
        && state.live_object(id).is_some_and(|live| prune_protection(live, state.input.features).is_none())
        && !state.nodes.iter().filter_map(Node::last_pass).any(|pass| pass.applies(id))
}

/// Returns the Kustomizations that may still wait for health when they are deleted, because it fails now or because the run with
/// the new revision creates what needs time. Their finalizers run after that: at least 30 s, the shortest timeout
/// (docs/reference/kustomize-controller.md 6 and 7.1).
pub(crate) fn busy_with_health(state: &State<'_>) -> BTreeSet<NamespacedName> {
    let deleted = state.nodes.iter().filter(|node| node.deletion.is_some() && !node.id.is_new);
    let busy = deleted.filter(|node| {
        let key = &node.id.key;
        let mut checking = node.passes.iter().filter(|pass| pass.spec.checks_health());
        checking.any(|pass| present_failure(state, key).is_some() || creates_what_needs_time(state, key, pass))
    });
    busy.map(|node| node.id.key.clone()).collect()
}

/// Returns how the health check of a live Kustomization stands, as a relative clause; `None` if it has succeeded.
fn present_failure(state: &State<'_>, key: &NamespacedName) -> Option<&'static str> {
    let ready = state.live.get(key)?.condition("Ready")?;
    match ready.status {
        "False" if ready.reason == "HealthCheckFailed" => Some("whose health check fails now"),
        "Unknown" if !state.is_ready(key) => Some("whose health check has not succeeded yet"),
        _ => None,
    }
}

/// Returns true if a pass creates an object that it checks and that is not healthy as soon as it exists.
fn creates_what_needs_time(state: &State<'_>, key: &NamespacedName, pass: &Pass) -> bool {
    let checked = state.health_checks(key, &pass.spec);
    checked_with_state(state, pass, &checked).any(|id| !state.is_live(id))
}

/// Returns true for kinds of Kubernetes without a state, which are healthy as soon as they exist.
pub(crate) fn is_healthy_at_once(id: &ObjectId) -> bool {
    const WITH_STATE: [&str; 9] = [
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "ReplicationController",
        "Job",
        "Pod",
        "PersistentVolumeClaim",
        "APIService",
    ];
    is_of_kubernetes(&id.group) && !WITH_STATE.contains(&&*id.kind)
}

/// Returns true for a class of a kind for whose health its own run may wait before it applies anything else.
pub(crate) fn is_class_with_state(id: &ObjectId) -> bool {
    stage(id, &BTreeSet::new()) == Stage::Classes && !is_healthy_at_once(id)
}

/// The health for which others wait.
pub(crate) struct AwaitedHealth {
    /// Kustomizations that check it.
    pub(crate) owners: BTreeSet<NamespacedName>,
    /// Objects that they check by name.
    checked: BTreeSet<ObjectId>,
}

impl AwaitedHealth {
    pub(crate) fn find(state: &State<'_>) -> Self {
        let owners = awaited_kustomizations(state);
        let passes =
            owners.iter().flat_map(|key| state.lifetimes(key).filter_map(move |node| Some((key, node.last_pass()?))));
        let checked = passes.flat_map(|(key, pass)| state.health_checks(key, &pass.spec)).collect();
        Self { owners, checked }
    }

    /// Returns true if others may wait for the health of an object that a Kustomization applies, or it does so itself.
    pub(crate) fn concerns(&self, owner: &NamespacedName, id: &ObjectId) -> bool {
        self.owners.contains(owner) || self.checked.contains(id) || is_class_with_state(id)
    }

    /// Returns the Kustomizations that apply such objects.
    pub(crate) fn appliers<'s>(&'s self, state: &'s State<'_>) -> BTreeSet<&'s NamespacedName> {
        let by_name = self.checked.iter().flat_map(|id| state.nodes.applying(id)).map(|node| &node.id.key);
        let of_classes = state.nodes.iter().filter(|node| {
            let mut applied = node.passes.iter().filter_map(Pass::applied_objects).flat_map(BTreeMap::keys);
            applied.any(is_class_with_state)
        });
        self.owners.iter().chain(by_name).chain(of_classes.map(|node| &node.id.key)).collect()
    }
}

/// Returns the Kustomizations whose health others wait for: those on which a Kustomization depends, and what they wait for.
fn awaited_kustomizations(state: &State<'_>) -> BTreeSet<NamespacedName> {
    let last_passes = state.nodes.iter().filter_map(|node| Some((&node.id.key, node.last_pass()?)));
    let mut queue: Vec<NamespacedName> =
        last_passes.flat_map(|(key, pass)| pass.spec.depends_on(&key.namespace)).collect();
    let mut awaited = BTreeSet::new();
    while let Some(key) = queue.pop() {
        let last_passes = state.lifetimes(&key).filter_map(Node::last_pass);
        let passes: Vec<&Pass> = last_passes.filter(|pass| pass.spec.checks_health()).collect();
        if passes.is_empty() || !awaited.insert(key) {
            continue;
        }
        let applied = passes.iter().filter_map(|pass| pass.applied_objects()).flatten();
        queue.extend(applied.filter(|(id, _)| id.is_here(GROUP, KIND)).map(|(id, _)| NamespacedName::of(id)));
    }
    awaited
}
