//! What keeps a Kustomization from reconciling at all, so that it applies and prunes nothing.
//!
//! Source: reference kustomize-controller 0 (steps 3 to 6), 1.4 (long names) and 6 (dependencies).

use std::collections::BTreeSet;

use super::model::{NodeId, PassOutcome};
use super::{Preview, by_id};
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;
use crate::plan::{Reason, ReasonCode};

/// What keeps a Kustomization from building.
pub(crate) struct Blocker {
    /// Reason of the owner.
    pub(crate) reason: Reason,
    /// False if the dependency may reconcile before it is deleted, which makes the outcome a race.
    pub(crate) sure: bool,
}

impl Preview<'_> {
    /// What hinders a Kustomization with this spec; `None` when it goes on to build.
    pub(crate) fn blocked(&self, key: &NamespacedName, spec: &KustomizationSpec) -> Option<Blocker> {
        if let Some(reason) = self.blocked_by_itself(key, spec) {
            return Some(Blocker { reason, sure: true });
        }
        let dependencies = spec.depends_on(&key.namespace);
        let hindrances = dependencies.iter().filter_map(|dependency| self.waits_for(key, spec, dependency));
        // One that is sure decides.
        hindrances.max_by_key(|hindrance| hindrance.sure)
    }

    fn blocked_by_itself(&self, key: &NamespacedName, spec: &KustomizationSpec) -> Option<Reason> {
        if spec.is_suspended() {
            return Some(ReasonCode::Suspended.into());
        }
        if key.name.len() > 63 {
            let detail = "its name is longer than 63 characters, so no object can carry its label";
            return Some(Reason::new(ReasonCode::NameTooLong, detail));
        }
        if let Some(account) = spec.service_account() {
            let account = ObjectId::new("", "ServiceAccount", &key.namespace, account);
            let made = self.nodes.iter().flat_map(|node| &node.passes).filter_map(|pass| pass.desired());
            if self.object(&account).is_none() && !made.into_iter().any(|desired| desired.contains_key(&account)) {
                return Some(Reason::new(ReasonCode::ServiceAccountMissing, format!("its {account} does not exist")));
            }
        }
        None
    }

    fn waits_for(
        &self,
        key: &NamespacedName,
        spec: &KustomizationSpec,
        dependency: &NamespacedName,
    ) -> Option<Blocker> {
        let sure = |code, detail: String| Some(Blocker { reason: Reason::new(code, detail), sure: true });
        let name = format!("kustomization/{} -n {}", dependency.name, dependency.namespace);
        let by_id = by_id(&self.nodes);
        let node = |fresh| by_id.get(&NodeId { key: dependency.clone(), fresh }).copied();
        let live = self.live.get(dependency);
        let Some(node) = node(true).or(node(false).filter(|node| node.removal.is_none())) else {
            if self.nodes.is_empty() {
                // The first round knows of no removal and of no new Kustomization yet.
                return None;
            }
            let reason = match live {
                Some(_) => {
                    let detail = format!("it depends on {name}, which this change deletes");
                    Reason::new(ReasonCode::DependencyDeleted, detail)
                }
                None => {
                    Reason::new(ReasonCode::DependencyMissing, format!("it depends on {name}, which does not exist"))
                }
            };
            // A dependency that reconciles the revision before it goes lets its dependant through.
            let reconciles = self.nodes.iter().any(|node| {
                node.id.key == *dependency && node.passes.first().is_some_and(|pass| pass.applied().is_some())
            });
            return Some(Blocker { reason, sure: !reconciles });
        };
        if self.depends_on(key, spec, key) {
            return sure(ReasonCode::DependencyCycle, format!("it depends on {name}, which depends on it"));
        }
        match node.last().map(|pass| &pass.outcome) {
            Some(PassOutcome::Blocked(why) | PassOutcome::Partial { why, .. }) => {
                let detail = format!("it depends on {name}, which cannot reconcile: {}", why.detail);
                sure(ReasonCode::DependencyNotReady, detail)
            }
            Some(PassOutcome::Elsewhere(_)) => {
                let ready = live.and_then(|live| live.condition("Ready")).is_some_and(|ready| ready.status == "True");
                let detail = format!("it depends on {name}, which is not ready");
                if ready { None } else { sure(ReasonCode::DependencyNotReady, detail) }
            }
            _ => None,
        }
    }

    /// Whether a Kustomization with this spec waits for `other`, directly or by those that it waits for.
    pub(crate) fn depends_on(&self, key: &NamespacedName, spec: &KustomizationSpec, other: &NamespacedName) -> bool {
        let mut seen = BTreeSet::new();
        let mut queue = spec.depends_on(&key.namespace);
        while let Some(next) = queue.pop() {
            if next == *other {
                return true;
            }
            if !seen.insert(next.clone()) {
                continue;
            }
            let fresh = NodeId { key: next.clone(), fresh: true };
            let live = NodeId { key: next.clone(), fresh: false };
            let node = self.nodes.iter().rfind(|node| node.id == fresh || node.id == live);
            let last = node.and_then(|node| node.last()).map(|pass| pass.spec.clone());
            let spec = last.or_else(|| self.live.get(&next).map(|live| KustomizationSpec::of(live)));
            queue.extend(spec.into_iter().flat_map(|spec| spec.depends_on(&next.namespace)));
        }
        false
    }
}
