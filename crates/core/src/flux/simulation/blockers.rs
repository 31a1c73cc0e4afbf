//! Conditions that keep a Kustomization from reconciling, so that it applies and prunes nothing.
//!
//! Source: docs/reference/kustomize-controller.md 1 (steps 3 to 6), 4.1 (long names) and 7.2 (dependencies).

use std::collections::BTreeSet;

use super::Preview;
use super::model::{NodeId, Pass, PassOutcome};
use super::owners::{dependency_detail, owner_id, unknown_reason};
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;
use crate::plan::{Reason, ReasonCode};

/// Longest value of a label.
const MAX_LABEL_LENGTH: usize = 63;

/// A condition that keeps a Kustomization from building.
pub(super) struct Blocker {
    pub(super) reason: Reason,
    /// False if the dependency may reconcile before it is deleted, which makes the outcome a race.
    pub(super) is_certain: bool,
}

impl Blocker {
    fn certain(code: ReasonCode, detail: impl Into<String>) -> Self {
        Self { reason: Reason::new(code, detail), is_certain: true }
    }
}

impl Preview<'_> {
    /// Returns the condition that blocks a Kustomization with this spec, a certain one first.
    pub(super) fn blocker(&self, key: &NamespacedName, spec: &KustomizationSpec) -> Option<Blocker> {
        self.own_blocker(key, spec).or_else(|| {
            let dependencies = spec.depends_on(&key.namespace);
            let blockers = dependencies.iter().filter_map(|dependency| self.dependency_blocker(key, spec, dependency));
            blockers.max_by_key(|blocker| blocker.is_certain)
        })
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
        let account = ObjectId::new("", "ServiceAccount", &key.namespace, spec.service_account()?);
        let is_applied = || self.nodes.iter().flat_map(|node| &node.passes).any(|pass| pass.applies(&account));
        if self.live_object(&account).is_some() || is_applied() {
            return None;
        }
        Some(Blocker::certain(ReasonCode::ServiceAccountMissing, format!("its {account} does not exist")))
    }

    /// Returns the condition of a dependency that blocks a Kustomization.
    fn dependency_blocker(
        &self,
        key: &NamespacedName,
        spec: &KustomizationSpec,
        dependency: &NamespacedName,
    ) -> Option<Blocker> {
        let name = owner_id(dependency);
        let live_node = self.node(&NodeId::live(dependency)).filter(|node| node.deletion.is_none());
        let Some(node) = self.node(&NodeId::new(dependency)).or(live_node) else {
            return self.missing_dependency(dependency);
        };
        if self.depends_on(key, spec, key) {
            let detail = format!("it depends on {name}, which depends on it");
            return Some(Blocker::certain(ReasonCode::DependencyCycle, detail));
        }
        if unknown_reason(node).is_some() {
            let reason = Reason::new(ReasonCode::DependencyUnknown, dependency_detail(&name));
            return Some(Blocker { reason, is_certain: false });
        }
        match node.last_pass().map(|pass| &pass.outcome) {
            Some(PassOutcome::Blocked(reason) | PassOutcome::Partial { reason, .. }) => {
                let detail = format!("it depends on {name}, which cannot reconcile: {}", reason.detail);
                Some(Blocker::certain(ReasonCode::DependencyNotReady, detail))
            }
            Some(PassOutcome::Applied(_)) => {
                let failure = self.failing_deletion(node)?;
                let detail = format!("it depends on {name}, which does not become ready: {failure}");
                Some(Blocker::certain(ReasonCode::DependencyNotReady, detail))
            }
            Some(PassOutcome::Unknown(_)) if !self.is_ready(dependency) => {
                let detail = format!("it depends on {name}, which is not ready");
                Some(Blocker::certain(ReasonCode::DependencyNotReady, detail))
            }
            _ => None,
        }
    }

    fn missing_dependency(&self, dependency: &NamespacedName) -> Option<Blocker> {
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
        // The dependant is not blocked if the dependency reconciles the revision before it is deleted.
        let reconciles = self
            .nodes
            .iter()
            .any(|node| node.id.key == *dependency && node.passes.first().and_then(Pass::new_inventory).is_some());
        Some(Blocker { reason, is_certain: !reconciles })
    }

    pub(super) fn is_ready(&self, key: &NamespacedName) -> bool {
        let condition = self.live.get(key).and_then(|live| live.condition("Ready"));
        condition.is_some_and(|ready| ready.status == "True")
    }

    /// Returns true if a Kustomization with this spec depends on `other`, directly or through its dependencies.
    pub(super) fn depends_on(&self, key: &NamespacedName, spec: &KustomizationSpec, other: &NamespacedName) -> bool {
        let mut seen = BTreeSet::new();
        let mut queue = spec.depends_on(&key.namespace);
        while let Some(next) = queue.pop() {
            if next == *other {
                return true;
            }
            if !seen.insert(next.clone()) {
                continue;
            }
            let last_pass = self.nodes.iter().rfind(|node| node.id.key == next).and_then(|node| node.last_pass());
            let spec = match last_pass {
                Some(pass) => Some(pass.spec.clone()),
                None => self.live.get(&next).map(|live| KustomizationSpec::of(live)),
            };
            queue.extend(spec.into_iter().flat_map(|spec| spec.depends_on(&next.namespace)));
        }
        false
    }
}
