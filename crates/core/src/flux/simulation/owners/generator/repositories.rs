//! GitRepositories that the change creates, changes or deletes, and that fetch the repository of a planned tree; other sources of
//! planned trees that it changes or deletes.
//!
//! source-controller packs the files of the new revision first by the spec that a source has, and again by the new one.
//! Kustomizations may see the first artifact or only the last. Source: docs/reference/kustomize-controller.md 3.1.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::flux::kinds::SOURCE_GROUP;
use crate::flux::simulation::model::generated_artifacts::{ArtifactContent, ArtifactState, GeneratedArtifacts};
use crate::flux::simulation::model::input::PreviewInput;
use crate::flux::simulation::model::node::SimulationEvent;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::effective_fields::differing_fields;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::source::artifact::Artifact;
use crate::flux::source::options::{SourceOptions, missing_content, missing_sparse_path};
use crate::flux::source::tree::Tree;
use crate::flux::spec::SourceId;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::kubernetes::snapshot::Snapshot;

const KIND: &str = "GitRepository";

/// Fields that decide which files of a revision are packed, and not what is fetched.
const PACKING: [&str; 2] = ["spec.ignore", "spec.sparseCheckout"];

/// Returns the planned GitRepositories that cannot pack the new revision by the spec that they have, with the reason.
pub(crate) fn stuck_sources(input: &PreviewInput<'_>) -> BTreeMap<SourceId, String> {
    let stuck = input.repositories.iter().filter_map(|(source, files)| {
        let live = input.snapshot.resource(&source.object()).filter(|live| &*live.object.id.kind == KIND)?;
        let entry = missing_sparse_path(live.spec(), files)?;
        let why = format!(
            "{source} keeps the artifact that it has: spec.sparseCheckout names {entry:?}, which does not exist"
        );
        Some((source.clone(), why))
    });
    stuck.collect()
}

/// Adds the states of the artifacts of sources that change.
pub(crate) fn add_repositories(state: &State<'_>, consequences: &Consequences<'_>, generated: &mut GeneratedArtifacts) {
    for id in repository_ids(state) {
        let source = SourceId::of(&id);
        if state.input.pinned.contains_key(&source) {
            continue;
        }
        let states = artifact_states(state, consequences, &id, &source);
        generated.states.extend(states.map(|states| (source, states)));
    }
}

fn repository_ids(state: &State<'_>) -> BTreeSet<ObjectId> {
    let planned = state.input.trees.keys().chain(state.stuck_sources.keys()).map(SourceId::object);
    let planned =
        planned.filter(|id| [KIND, "OCIRepository", "Bucket"].iter().any(|kind| id.is_here(SOURCE_GROUP, kind)));
    planned.chain(state.nodes.applied_of(SOURCE_GROUP, KIND).cloned()).collect()
}

/// Returns the states of the artifact of a source; `None` if the change does not concern it, or if it is live and not planned.
///
/// The tree of another source than a GitRepository is published on its own, so it can come before the change of its spec or
/// after it.
fn artifact_states(
    state: &State<'_>,
    consequences: &Consequences<'_>,
    id: &ObjectId,
    source: &SourceId,
) -> Option<Vec<ArtifactState>> {
    let live = state.input.snapshot.resource(id);
    let is_stuck = state.stuck_sources.contains_key(source);
    let planned = state.input.trees.get(source).map(|artifact| ArtifactContent::Made(artifact.clone()));
    let first = planned.or(is_stuck.then_some(ArtifactContent::Same));
    if live.is_some() != first.is_some() {
        return None;
    }
    let is_git = &*id.kind == KIND;
    // What is packed by private values would tell them.
    let is_packed_here = is_git && !state.is_private(id);
    let first = first.map(|content| ArtifactState { is_optional: !is_git, ..ArtifactState::new(content, None) });
    let mut states: Vec<ArtifactState> = first.into_iter().collect();
    if live.is_some() && consequences.may_be_deleted(id) {
        states.push(deletion(consequences, id));
        return Some(states);
    }
    let (mut last, mut changes) = (live.map(|live| live.spec().clone()), is_stuck);
    for (spec, pass) in state.applied_specs(id) {
        let is_same = last.as_ref().is_some_and(|last| differing_fields(&id.kind, last, &spec).is_empty());
        if live.is_some_and(|live| !live.flag("/spec/suspend")) && spec["suspend"] == Value::Bool(true) {
            // It stays as it is: with the tree, if what suspends it has fetched that in the same source.
            if !is_git || state.source_of_pass(&pass).is_none_or(|other| other != *source) {
                changes = true;
                let stays = ArtifactState::new(ArtifactContent::Same, Some(pass));
                states.push(ArtifactState { is_optional: is_git, ..stays });
            }
            changes |= !is_same;
            continue;
        }
        if is_same {
            continue;
        }
        changes = true;
        let content =
            if is_packed_here { content(&state.input, id, live, &spec) } else { Some(unknown_content(id, live)) };
        last = Some(spec);
        if let Some(content) = content.filter(|content| states.last().is_none_or(|last| last.content != *content)) {
            states.push(ArtifactState::new(content, Some(pass)));
        }
    }
    changes.then_some(states)
}

/// Returns the state of the artifact of a source that is deleted.
fn deletion(consequences: &Consequences<'_>, id: &ObjectId) -> ArtifactState {
    let deletions = consequences.outcomes.get(id).into_iter().flat_map(|outcomes| &outcomes.deletions);
    let pruning = deletions.into_iter().find_map(|event| match event {
        SimulationEvent::Prune(pass) => Some(pass.clone()),
        _ => None,
    });
    let content = if consequences.is_gone(id) {
        ArtifactContent::Missing("it is deleted".to_owned())
    } else {
        ArtifactContent::Unknown(format!("{id} may be deleted"))
    };
    ArtifactState::new(content, pruning)
}

/// Returns what source-controller packs for a source with a spec that it does not have yet; `None` if it keeps the artifact that
/// the source has.
fn content(input: &PreviewInput<'_>, id: &ObjectId, live: Option<&Resource>, spec: &Value) -> Option<ArtifactContent> {
    if spec["suspend"] == Value::Bool(true) {
        let missing = "it is suspended, and has no artifact".to_owned();
        return live.is_none().then_some(ArtifactContent::Missing(missing));
    }
    let Some(packed) = packed(input.snapshot, &input.trees, &input.repositories, &id.namespace, spec) else {
        return Some(unknown_content(id, live));
    };
    if let Some(entry) = missing_sparse_path(spec, &packed.files) {
        let missing = format!("its spec.sparseCheckout names {entry:?}, which does not exist");
        return live.is_none().then_some(ArtifactContent::Missing(missing));
    }
    Some(match packed.artifact {
        Ok(artifact) => ArtifactContent::Made(artifact),
        Err(missing) => ArtifactContent::Unknown(format!("{id}: {missing}")),
    })
}

/// Returns the content of a source that is created or changed so that its files are not known.
fn unknown_content(id: &ObjectId, live: Option<&Resource>) -> ArtifactContent {
    let what = if live.is_some() { "changes" } else { "is created" };
    ArtifactContent::Unknown(format!("{id} {what}"))
}

/// Artifact of a GitRepository.
pub struct Packed {
    /// The files of its revision.
    pub files: Arc<Tree>,
    /// The packed files; the reason, if the artifact also has what they do not have.
    pub artifact: Result<Arc<Artifact>, &'static str>,
}

/// Returns the artifact of a GitRepository with a spec, packed of the files of the planned source that fetches the same.
///
/// Returns `None` without such a source.
pub fn packed(
    snapshot: &Snapshot,
    trees: &BTreeMap<SourceId, Arc<Artifact>>,
    repositories: &BTreeMap<SourceId, Arc<Tree>>,
    namespace: &str,
    spec: &Value,
) -> Option<Packed> {
    let (source, files, live) = repositories.iter().find_map(|(source, files)| {
        let live = snapshot.resource(&source.object()).filter(|live| &*live.object.id.kind == KIND)?;
        let is_beside = *live.object.id.namespace == *namespace || needs_nothing_beside(live.spec());
        (is_beside && fetches_same(live.spec(), spec)).then_some((source, files, live))
    })?;
    let options = SourceOptions::of_spec(KIND, spec);
    let artifact = match missing_content(spec, files) {
        Some(missing) => Err(missing),
        None => {
            let same = trees.get(source).filter(|_| options == SourceOptions::of(live));
            Ok(same.cloned().unwrap_or_else(|| Arc::new(Artifact::pack(files, &options))))
        }
    };
    Some(Packed { files: files.clone(), artifact })
}

/// Returns true if a source names no Secret and no account of its namespace.
fn needs_nothing_beside(spec: &Value) -> bool {
    ["secretRef", "proxySecretRef", "serviceAccountName", "verify"].iter().all(|field| spec.get(field).is_none())
}

/// Returns true if two specs differ only in fields that decide what is packed.
fn fetches_same(before: &Value, after: &Value) -> bool {
    differing_fields(KIND, before, after).iter().all(|field| PACKING.contains(&field.as_str()))
}
