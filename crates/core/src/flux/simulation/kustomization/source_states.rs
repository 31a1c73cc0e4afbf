//! Contents of the source of a Kustomization in each of its passes.

use std::sync::Arc;

use crate::flux::simulation::model::generated_artifacts::ArtifactContent;
use crate::flux::simulation::model::node::{PassId, PassOutcome};
use crate::flux::simulation::model::state::State;
use crate::flux::source::artifact::Artifact;
use crate::flux::source::options::{missing_content, missing_directories};
use crate::flux::source::path;
use crate::flux::spec::{KustomizationSpec, NamespacedName, SourceId};
use crate::plan::{Reason, ReasonCode};

/// State of a source as a Kustomization finds it in one of its passes.
pub(crate) struct SourceState {
    /// The artifact, or the outcome of the pass without one.
    pub(crate) artifact: Result<Arc<Artifact>, PassOutcome>,
    /// The pass that changes the spec of the source, or of its generator.
    pub(crate) trigger: Option<PassId>,
    pub(crate) is_optional: bool,
    /// The artifact was generated, so that its empty directories are known.
    pub(crate) is_generated: bool,
}

impl SourceState {
    fn plain(artifact: Result<Arc<Artifact>, PassOutcome>) -> Self {
        Self { artifact, trigger: None, is_optional: false, is_generated: false }
    }
}

/// Returns the outcome of a pass whose source is not followed, in place of its artifact.
fn other_source(detail: String) -> Result<Arc<Artifact>, PassOutcome> {
    Err(PassOutcome::Unknown(Reason::new(ReasonCode::OtherSource, detail)))
}

/// Returns the artifact that a source has in the end, if it is known.
pub(crate) fn planned_artifact<'s>(state: &'s State<'_>, source: &SourceId) -> Option<&'s Arc<Artifact>> {
    match state.generated.last(source) {
        Some(ArtifactContent::Made(artifact)) => Some(artifact),
        Some(_) => None,
        None => state.input.trees.get(source),
    }
}

/// Returns true if a Kustomization of a planned source can be changed by a pass before its own source has fetched the new
/// revision, because the pass is of another source.
pub(crate) fn may_come_before_its_source(state: &State<'_>, source: &SourceId, pass: &PassId) -> bool {
    state.input.trees.contains_key(source) && state.source_of_pass(pass).is_some_and(|other| other != *source)
}

/// Returns what a Kustomization finds in its source, one state after the other. `by` is the pass that applies its spec, if that is
/// not the live one: it then reconciles also without a new artifact.
pub(crate) fn source_states(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    by: Option<&PassId>,
) -> Vec<SourceState> {
    let source = spec.source(&key.namespace);
    let is_changed = by.is_some();
    if let Some(deployed) = state.input.pinned.get(&source) {
        return vec![SourceState::plain(other_source(format!(
            "{source} is not deployed from this ref but from {deployed}"
        )))];
    }
    let tree = state.input.trees.get(&source);
    let generated = state.generated.states(&source);
    let deployed = state.input.deployed.get(&source).cloned();
    let mut states = vec![];
    let comes_later = match (tree, generated) {
        (Some(_), _) => by.is_some_and(|by| may_come_before_its_source(state, &source, by)),
        (None, Some([one])) => is_changed && one.content != ArtifactContent::Same,
        (None, generated) => is_changed && generated.is_some(),
    };
    if comes_later && state.live_object(&source.object()).is_some() {
        let artifact = deployed.clone().ok_or_else(|| {
            let detail =
                format!("it may be reconciled before {source} changes, whose present content is not known here");
            PassOutcome::Unknown(Reason::new(ReasonCode::NotFollowed, detail))
        });
        states.push(SourceState { artifact, trigger: None, is_optional: true, is_generated: tree.is_none() });
    }
    let Some(generated) = generated else {
        let artifact = tree.cloned().map_or_else(|| other_source(format!("{source} is not this tree")), Ok);
        states.push(SourceState::plain(artifact));
        return states;
    };
    let stuck = state.stuck_sources.get(&source).map(|why| {
        if state.is_private(&source.object()) {
            return format!("{source} keeps the artifact that it has: spec.sparseCheckout names what does not exist");
        }
        why.clone()
    });
    for state in generated {
        let artifact = match (&state.content, &stuck) {
            (ArtifactContent::Made(artifact), _) => Ok(artifact.clone()),
            (ArtifactContent::Same, _) if is_changed => match &deployed {
                Some(artifact) => Ok(artifact.clone()),
                None => other_source(format!("the present content of {source} is not known here")),
            },
            (ArtifactContent::Same, Some(why)) => {
                Err(PassOutcome::Blocked(Reason::new(ReasonCode::PathNotFound, why.as_str())))
            }
            (ArtifactContent::Same, None) => other_source(format!("{source} does not change")),
            (ArtifactContent::Missing(why), _) => {
                let detail = format!("{source} does not exist: {why}");
                Err(PassOutcome::Blocked(Reason::new(ReasonCode::SourceMissing, detail)))
            }
            (ArtifactContent::Unknown(why), _) => other_source(format!("the content of {source} is not known: {why}")),
        };
        let (trigger, is_optional) = (state.trigger.clone(), state.is_optional);
        states.push(SourceState { artifact, trigger, is_optional, is_generated: tree.is_none() });
    }
    states
}

/// Returns the outcome of a pass whose build may read what the tree of its source lacks: included artifacts and submodules.
pub(crate) fn without_missing_content(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    outcome: PassOutcome,
) -> PassOutcome {
    let source = spec.source(&key.namespace);
    let files = state.input.repositories.get(&source);
    let live = state.input.snapshot.resource(&source.object());
    let Some((files, live)) = files.zip(live).filter(|_| source.kind == "GitRepository") else { return outcome };
    let Some(why) = missing_content(live.spec(), files) else { return outcome };
    let built = path::secure_join(spec.path());
    let missing = missing_directories(live.spec(), files);
    let reads_it = missing.iter().any(|missing| path::is_in(missing, &built) || path::is_in(&built, missing));
    let may_differ = match &outcome {
        PassOutcome::Applied(_) | PassOutcome::Partial { .. } => reads_it,
        // A reference outside of its path can lead to it.
        PassOutcome::Blocked(reason) => matches!(reason.code, ReasonCode::BuildFailed | ReasonCode::PathNotFound),
        PassOutcome::Unknown(_) => false,
    };
    if may_differ {
        PassOutcome::Unknown(Reason::new(ReasonCode::NotFollowed, format!("{source}: {why}")))
    } else {
        outcome
    }
}
