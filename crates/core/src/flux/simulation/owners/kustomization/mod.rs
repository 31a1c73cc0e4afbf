//! Kustomizations whose objects are in another cluster, or whose source is not a planned tree.
//!
//! What other Kustomizations do at a new revision, and what their finalizers delete, are events of the simulation.

mod side_effects;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::side_effects::side_effects;
use crate::flux::build;
use crate::flux::build::fidelity::RecordedBuild;
use crate::flux::build::{BuildContext, Interrupt};
use crate::flux::simulation::kustomization::source_states::planned_artifact;
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Effect, Reaction};
use crate::flux::simulation::model::facts::unknown_builds::changed_fields;
use crate::flux::simulation::model::generated_artifacts::ArtifactContent;
use crate::flux::simulation::model::node::{Node, Pass, PassOutcome};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::may_be_deleted;
use crate::flux::simulation::owners::behaviour::commands::{Files, folder, manifest_in_cluster, name_in_command};
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::behaviour::owner_kind::{OwnerKind, does_nothing};
use crate::flux::simulation::owners::behaviour::source_changes::UsedFiles;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Actor, Fidelity, Reason, ReasonCode};

pub(super) const KUSTOMIZATIONS: OwnerKind = OwnerKind {
    group: GROUP,
    kind: KIND,
    actor: Actor::KustomizeController,
    affected,
    acting: does_nothing,
    find_out,
    deleted,
    finalized: |_, _| vec![],
    stored: |_, _| None,
};

/// Returns the command that compares the cluster with the folder of a Kustomization in its source.
fn find_out(state: &State<'_>, id: &ObjectId) -> String {
    // The source and the folder of a spec that holds values of Secrets are not written.
    let spec = if state.is_private(id) { None } else { state.specs_after(id).pop() };
    let Some(spec) = spec.map(|spec| KustomizationSpec::new(&spec)) else {
        return manifest_in_cluster("kustomization", id);
    };
    let source = spec.source(&id.namespace);
    let Some(files) = Files::of(state, &source) else {
        return manifest_in_cluster(&source.kind.to_lowercase(), &source.object());
    };
    let folder = match folder(&spec) {
        Some(below) => format!("{}/{}", files.folder, below.trim_start_matches("./")),
        None => files.folder.clone(),
    };
    let [name, namespace] = [&*id.name, &*id.namespace].map(name_in_command);
    files.before(format!("flux diff kustomization {name} -n {namespace} --path {folder}"))
}

/// Returns the Kustomizations that the change affects in a way that the plan does not follow.
fn affected(comparison: &mut Comparison<'_, '_, '_>) -> Vec<AffectedOwner> {
    let state = comparison.state();
    let mut affected = vec![];
    for node in state.nodes.iter() {
        let key = &node.id.key;
        let live = state.live.get(key).copied().filter(|_| !node.id.is_new);
        let reaction = match live {
            // A missing answer is among the needs.
            Some(live) => reaction_of_live(comparison, node, live).ok().flatten(),
            None => new_reaction(node),
        };
        let id = ObjectId::new(GROUP, KIND, &key.namespace, &key.name);
        if let (None, Ok(Some(effect))) = (&reaction, side_effects(comparison, node)) {
            let (reaction, effect) = (Reaction::Acts(ReasonCode::NewRevision.into()), Some(Arc::new(effect)));
            affected.push(AffectedOwner { id: id.clone(), reaction, effect });
        }
        affected.extend(reaction.map(|reaction| AffectedOwner::new(&id, reaction)));
    }
    affected
}

/// Returns what a deleted Kustomization deletes beside the objects in clusters that were read.
fn deleted(state: &State<'_>, live: &Resource, _: &Consequences<'_>) -> Effect {
    let deletes = KustomizationSpec::of(live).finalizer_deletes(state.input.features.deletion_policy).is_ok();
    let detail = "it is deleted with its objects in another cluster (spec.kubeConfig), which were not read";
    let is_unknown = state.target_of_live(live).is_err() && deletes;
    Effect { unknown: is_unknown.then(|| Reason::new(ReasonCode::NotRecorded, detail)), ..Effect::default() }
}

fn reaction_of_live(comparison: &mut Comparison<'_, '_, '_>, node: &Node, live: &Resource) -> Asked<Option<Reaction>> {
    let key = &node.id.key;
    let live_spec = KustomizationSpec::of(live);
    let pass = node.last_pass().filter(|pass| node.deletion.is_none() && !pass.spec.is_suspended());
    let Some(pass) = pass else { return Ok(None) };
    let mut changes = source_object_changes(comparison, key, &pass.spec)?;
    let is_elsewhere = matches!(&pass.outcome, PassOutcome::Unknown(reason) if reason.code == ReasonCode::OtherSource);
    let unread = comparison.state().target(&key.namespace, pass.spec.value()).err().map(|reason| reason.detail);
    let mut why = "the new content of its source is not known here";
    if is_followed_elsewhere(comparison.state(), node, pass) {
        let moves = comparison.cluster_changes(&key.namespace, pass.spec.value())?;
        if !moves.is_empty() {
            why = "it may apply to another cluster then (spec.kubeConfig)";
        }
        changes.extend(moves);
    } else if live_spec.is_remote() || pass.spec.is_remote() {
        why = unread.as_deref().unwrap_or("its objects are in another cluster (spec.kubeConfig), which is not read");
        changes.extend(changed_fields(&live_spec, &pass.spec));
        changes.extend(comparison.cluster_changes(&key.namespace, pass.spec.value())?);
        if !is_elsewhere && matches!(pass.outcome, PassOutcome::Unknown(_)) {
            changes.extend(build_change(comparison, key, live, pass)?);
        }
    } else if is_elsewhere {
        changes.extend(changed_fields(&live_spec, &pass.spec));
    }
    if changes.is_empty() {
        return Ok(None);
    }
    let what = if pass.spec.holds_secrets() { "its spec changes".to_owned() } else { changes.join(", ") };
    let detail = format!("{what}; {why}, so {}", may_be_deleted(Some(live)));
    Ok(Some(Reaction::Unknown(Reason::new(ReasonCode::NotFollowed, detail))))
}

/// Returns what changes in the source of a Kustomization beside the files of a planned tree, in words.
fn source_object_changes(
    comparison: &mut Comparison<'_, '_, '_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
) -> Asked<Vec<String>> {
    let source = spec.source(&key.namespace);
    if let Some(changes) = comparison.changed_sources.get(&source) {
        return Ok(changes.clone());
    }
    // What is generated is followed.
    if let Some(states) = comparison.state().generated.states(&source) {
        let unknown = states.iter().filter_map(|state| match &state.content {
            ArtifactContent::Unknown(why) => Some(why.clone()),
            _ => None,
        });
        return Ok(unknown.collect());
    }
    let is_planned = comparison.state().input.trees.contains_key(&source);
    let files = if is_planned { UsedFiles::None } else { UsedFiles::All };
    let changes = comparison.source_changes(&source, &files, &mut BTreeSet::new())?;
    comparison.changed_sources.insert(source, changes.clone());
    Ok(changes)
}

/// Returns the difference between what a Kustomization on another cluster applied last and what it builds now; `None` if
/// nothing changes, or if one of the two fails.
fn build_change(
    comparison: &mut Comparison<'_, '_, '_>,
    key: &NamespacedName,
    live: &Resource,
    pass: &Pass,
) -> Asked<Option<String>> {
    let state = comparison.state();
    let Some(new) = planned_artifact(state, &pass.spec.source(&key.namespace)) else { return Ok(None) };
    let derivation = &mut *comparison.derivation;
    let mut context = BuildContext::new(state.input.features, derivation.answers, &mut derivation.needs);
    // The digest of the last build proves that nothing changes, without the last revision.
    if let Some(recorded) = RecordedBuild::read(live)
        && recorded.verify(new, &mut context).ok_or(Interrupt::Missing)? == Fidelity::Verified
    {
        return Ok(None);
    }
    let Some(old) = state.input.last_applied.get(key) else {
        let detail = "its build cannot be compared: the revision that it applied last is not in the checkout";
        return Ok(Some(detail.to_owned()));
    };
    let before = build::build(old, key, &KustomizationSpec::of(live), &mut context);
    let after = build::build(new, key, &pass.spec, &mut context);
    match (before, after) {
        (Err(Interrupt::Missing), _) | (_, Err(Interrupt::Missing)) => Err(Interrupt::Missing),
        (Ok(before), Ok(after)) if before == after => Ok(None),
        (_, Err(Interrupt::Failed(_))) => Ok(None),
        _ => Ok(Some("its build changes".to_owned())),
    }
}

/// Returns the reaction to a Kustomization that is created.
fn new_reaction(node: &Node) -> Option<Reaction> {
    let pass = node.last_pass().filter(|_| node.deletion.is_none())?;
    let PassOutcome::Unknown(reason) = &pass.outcome else { return None };
    match reason.code {
        ReasonCode::OtherCluster => Some(Reaction::Installs(
            "it applies its objects to another cluster; they are not in this plan, and those that exist are taken over",
        )),
        ReasonCode::OtherSource => Some(Reaction::Installs(
            "its source is not this tree; its objects are not in this plan, and those that exist are taken over",
        )),
        _ => None,
    }
}

/// Returns true if a live Kustomization and its pass apply to the same other cluster, which was read.
fn is_followed_elsewhere(state: &State<'_>, node: &Node, pass: &Pass) -> bool {
    matches!(state.target_of_pass(&node.id.key, &pass.spec), Ok(Some(_)))
}
