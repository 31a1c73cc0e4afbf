//! ArtifactGenerators and ExternalArtifacts as a preview sees them, and the artifacts of GitRepositories that the change makes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::node::PassId;
use crate::flux::source::artifact::Artifact;
use crate::flux::spec::SourceId;
use crate::kubernetes::object::ObjectId;

/// Artifacts and their generators after the change.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GeneratedArtifacts {
    pub(crate) states: BTreeMap<SourceId, Vec<ArtifactState>>,
    pub(crate) generators: BTreeMap<ObjectId, Generator>,
}

/// A state of the artifact of a source after the change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ArtifactState {
    pub(crate) content: ArtifactContent,
    /// The pass that applies or prunes the source, or applies the spec of its generator; `None` if the new revision alone causes it.
    pub(crate) trigger: Option<PassId>,
    /// It is a race if the artifact gets this state.
    pub(crate) is_optional: bool,
}

impl ArtifactState {
    pub(crate) fn new(content: ArtifactContent, trigger: Option<PassId>) -> Self {
        Self { content, trigger, is_optional: false }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ArtifactContent {
    Made(Arc<Artifact>),
    /// As it is now.
    Same,
    /// It does not exist, for this reason.
    Missing(String),
    /// It is not known, for this reason.
    Unknown(String),
}

/// The effect of the change on a generator.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Generator {
    pub(crate) effect: GeneratorEffect,
    /// Names of the artifacts that it no longer makes and that source-watcher deletes.
    pub(crate) removed: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum GeneratorEffect {
    #[default]
    Unchanged,
    /// It makes other artifacts.
    Generates,
    /// Its build fails, for this reason.
    Fails(String),
    /// It is not known what it makes, for this reason.
    Unknown(String),
}

impl GeneratorEffect {
    /// Adds the effect on one more artifact. An effect that is not known stays so.
    pub(crate) fn add(&mut self, other: Self) {
        if !matches!(self, Self::Unknown(_)) || matches!(other, Self::Unknown(_)) {
            *self = other;
        }
    }
}

impl GeneratedArtifacts {
    /// Returns the states of a source; `None` if no generator is known to make it, and no change of its spec.
    pub(crate) fn states(&self, source: &SourceId) -> Option<&[ArtifactState]> {
        self.states.get(source).map(Vec::as_slice)
    }

    /// Returns the last of the states of a source.
    pub(crate) fn last(&self, source: &SourceId) -> Option<&ArtifactContent> {
        Some(&self.states(source)?.last()?.content)
    }
}
