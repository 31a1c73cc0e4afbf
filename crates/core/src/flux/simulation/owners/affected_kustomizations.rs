//! Kustomizations whose objects are in another cluster, or whose source is not a planned tree.

use std::collections::BTreeSet;

use super::affected_owners::may_be_deleted;
use super::comparison::Comparison;
use super::source_changes::UsedFiles;
use crate::flux::build;
use crate::flux::build::BuildContext;
use crate::flux::build::fidelity::RecordedBuild;
use crate::flux::simulation::kustomization::source_states::planned_artifact;
use crate::flux::simulation::kustomization::unknown_builds::changed_fields;
use crate::flux::simulation::model::affected_owner::{Effect, Unfollowed};
use crate::flux::simulation::model::generated_artifacts::ArtifactContent;
use crate::flux::simulation::model::node::{Node, Pass, PassOutcome};
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Fidelity, Reason, ReasonCode};

impl Comparison<'_, '_, '_> {
    /// Returns the Kustomizations that the change affects in a way that the plan does not follow.
    pub(crate) fn affected_kustomizations(&mut self) -> Vec<Unfollowed> {
        let state = self.state();
        let mut affected = vec![];
        for node in &state.nodes {
            let key = &node.id.key;
            let live = state.live.get(key).copied().filter(|_| !node.id.is_new);
            let effect = match live {
                Some(live) => self.effect_of_live(node, live),
                None => new_effect(node),
            };
            let id = ObjectId::new(GROUP, KIND, &key.namespace, &key.name);
            affected.extend(effect.map(|effect| Unfollowed { id, effect }));
        }
        affected
    }

    fn effect_of_live(&mut self, node: &Node, live: &Resource) -> Option<Effect> {
        let key = &node.id.key;
        let live_spec = KustomizationSpec::of(live);
        if node.deletion.is_some() {
            let deletes = live_spec.finalizer_deletes(self.state().input.features.deletion_policy).is_ok();
            let detail = "it is deleted with its objects in another cluster (spec.kubeConfig), which were not read";
            let reason = Reason::new(ReasonCode::NotRecorded, detail);
            return (self.state().target_of_live(live).is_err() && deletes).then_some(Effect::Unknown(reason));
        }
        let pass = node.last_pass().filter(|pass| !pass.spec.is_suspended())?;
        let mut changes = self.source_object_changes(key, &pass.spec);
        let is_elsewhere =
            matches!(&pass.outcome, PassOutcome::Unknown(reason) if reason.code == ReasonCode::OtherSource);
        let mut why = "the new content of its source is not known here";
        if self.is_followed_elsewhere(node, pass) {
            let moves = self.cluster_changes(&key.namespace, pass.spec.value());
            if !moves.is_empty() {
                why = "it may apply to another cluster then (spec.kubeConfig)";
            }
            changes.extend(moves);
        } else if live_spec.is_remote() || pass.spec.is_remote() {
            why = "its objects are in another cluster (spec.kubeConfig), which is not read";
            changes.extend(changed_fields(&live_spec, &pass.spec));
            changes.extend(self.cluster_changes(&key.namespace, pass.spec.value()));
            if !is_elsewhere && matches!(pass.outcome, PassOutcome::Unknown(_)) {
                changes.extend(self.build_change(key, live, pass));
            }
        } else if is_elsewhere {
            changes.extend(changed_fields(&live_spec, &pass.spec));
        }
        if changes.is_empty() {
            return None;
        }
        let what = if pass.spec.holds_secrets() { "its spec changes".to_owned() } else { changes.join(", ") };
        let detail = format!("{what}; {why}, so {}", may_be_deleted(Some(live)));
        Some(Effect::Unknown(Reason::new(ReasonCode::NotFollowed, detail)))
    }

    /// Returns what changes in the source of a Kustomization beside the files of a planned tree, in words.
    fn source_object_changes(&mut self, key: &NamespacedName, spec: &KustomizationSpec) -> Vec<String> {
        let source = spec.source(&key.namespace);
        if let Some(changes) = self.changed_sources.get(&source) {
            return changes.clone();
        }
        // What is generated is followed.
        if let Some(states) = self.state().generated.states(&source) {
            let unknown = states.iter().filter_map(|state| match &state.content {
                ArtifactContent::Unknown(why) => Some(why.clone()),
                _ => None,
            });
            return unknown.collect();
        }
        let files = match self.state().input.trees.contains_key(&source) {
            true => UsedFiles::None,
            false => UsedFiles::All,
        };
        let changes = self.source_changes(&source, &files, &mut BTreeSet::new());
        self.changed_sources.insert(source, changes.clone());
        changes
    }

    /// Returns the difference between what a Kustomization on another cluster applied last and what it builds now.
    fn build_change(&mut self, key: &NamespacedName, live: &Resource, pass: &Pass) -> Option<String> {
        let state = self.state();
        let new = planned_artifact(state, &pass.spec.source(&key.namespace))?;
        let derivation = &mut *self.derivation;
        let mut context = BuildContext::new(state.input.features, derivation.answers, &mut derivation.needs);
        // The digest of the last build proves that nothing changes, without the last revision.
        if let Some(recorded) = RecordedBuild::read(live)
            && recorded.verify(new, &mut context)? == Fidelity::Verified
        {
            return None;
        }
        let Some(old) = state.input.last_applied.get(key) else {
            let detail = "its build cannot be compared: the revision that it applied last is not in the checkout";
            return Some(detail.to_owned());
        };
        let before = build::build(old, key, &KustomizationSpec::of(live), &mut context)?;
        let after = build::build(new, key, &pass.spec, &mut context)?;
        match (before, after) {
            (Ok(before), Ok(after)) if before == after => None,
            (_, Err(_)) => None,
            _ => Some("its build changes".to_owned()),
        }
    }
}

/// Returns the effect of a Kustomization that is created.
fn new_effect(node: &Node) -> Option<Effect> {
    let pass = node.last_pass().filter(|_| node.deletion.is_none())?;
    let PassOutcome::Unknown(reason) = &pass.outcome else { return None };
    match reason.code {
        ReasonCode::OtherCluster => Some(Effect::Creates(
            "it applies its objects to another cluster; they are not in this plan, and those that exist are taken over",
        )),
        ReasonCode::OtherSource => Some(Effect::Creates(
            "its source is not this tree; its objects are not in this plan, and those that exist are taken over",
        )),
        _ => None,
    }
}
