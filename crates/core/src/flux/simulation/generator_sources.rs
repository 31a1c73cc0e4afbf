//! Contents of the sources of ArtifactGenerators after the change, and what a Kustomization reads from its source.

use std::sync::Arc;

use super::Preview;
use super::effective::differing_parts;
use super::generated_artifacts::{ArtifactContent, GeneratedArtifacts};
use super::model::{PassId, PassOutcome};
use crate::flux::generator::SourceContent;
use crate::flux::generator::spec::GeneratorSpec;
use crate::flux::kinds::EXTERNAL_ARTIFACT;
use crate::flux::source::artifact::Artifact;
use crate::flux::spec::{KustomizationSpec, NamespacedName, SourceId};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::plan::{Reason, ReasonCode};

/// What a Kustomization finds in its source in one of its passes.
pub(super) struct SourceState {
    /// The artifact, or the outcome of the pass without one.
    pub(super) artifact: Result<Arc<Artifact>, PassOutcome>,
    /// The pass that changes the spec of the generator of the source.
    pub(super) trigger: Option<PassId>,
    pub(super) is_optional: bool,
    /// The artifact was generated, so that its empty directories are known.
    pub(super) is_generated: bool,
}

impl Preview<'_> {
    /// Returns the content of a source of a generator after the change.
    ///
    /// Fails with the reason why source-watcher cannot read it.
    pub(super) fn source_content(
        &self,
        source: &SourceId,
        known: &GeneratedArtifacts,
    ) -> Result<SourceContent, String> {
        let absent =
            || SourceContent::Unchanged(format!("the content of {source} is not known here; --source can name it"));
        if let Some(artifact) = self.input.trees.get(source).filter(|_| source.kind == EXTERNAL_ARTIFACT) {
            return Ok(SourceContent::Known(artifact.clone()));
        }
        match known.states(source) {
            Some([one]) => {
                return match &one.content {
                    ArtifactContent::Made(artifact) if !one.is_optional => Ok(SourceContent::Known(artifact.clone())),
                    ArtifactContent::Made(_) => Ok(SourceContent::Unknown(format!("it is a race if {source} changes"))),
                    ArtifactContent::Same => {
                        Ok(self.input.deployed.get(source).cloned().map_or_else(absent, SourceContent::Known))
                    }
                    ArtifactContent::Missing(why) => Err(format!("its source {source} does not exist: {why}")),
                    ArtifactContent::Unknown(why) => Ok(SourceContent::Unknown(why.clone())),
                };
            }
            Some(_) => return Ok(SourceContent::Unknown(format!("{source} changes more than once"))),
            None => {}
        }
        let id = source.object();
        if let Some(why) = self.source_object_change(&id) {
            return Ok(SourceContent::Unknown(why));
        }
        if self.live_object(&id).is_none() {
            return match self.is_absent(&id) {
                true => Err(format!("its source {source} does not exist")),
                false => Ok(SourceContent::Unknown(format!("{source} could not be read"))),
            };
        }
        let files = match self.is_suspended_after(&id) {
            true => self.input.deployed.get(source),
            false => self.input.trees.get(source).filter(|_| !self.input.pinned.contains_key(source)),
        };
        Ok(files.cloned().map_or_else(absent, SourceContent::Known))
    }

    /// Returns how the change affects the object of a source, in words.
    fn source_object_change(&self, id: &ObjectId) -> Option<String> {
        let applied = self.applied(id);
        let Some(live) = self.input.snapshot.resource(id) else {
            return (!applied.is_empty()).then(|| format!("{id} is created"));
        };
        let changes = applied
            .iter()
            .any(|applied| !differing_parts(&id.kind, &live.content, &applied.built.manifest, true, false).is_empty());
        if changes {
            return Some(format!("{id} changes"));
        }
        let chart_source = SourceId::of_chart(live.spec(), &id.namespace);
        (&*id.kind == "HelmChart" && self.input.trees.contains_key(&chart_source))
            .then(|| format!("{id} is packed from {chart_source}"))
    }

    /// Returns true if the change can affect what a generator makes: its spec, or a planned source of it.
    pub(super) fn is_affected(&self, id: &ObjectId, live: Option<&Resource>, known: &GeneratedArtifacts) -> bool {
        let Some(live) = live else { return true };
        let before = GeneratorSpec::read(live.spec(), &id.namespace);
        let after = self.specs_after(id);
        let is_planned = |source: &SourceId| {
            let is_changed = |content: &ArtifactContent| *content != ArtifactContent::Same;
            self.input.trees.contains_key(source)
                || known.last(source).is_some_and(is_changed)
                || self.source_object_change(&source.object()).is_some()
        };
        after.iter().any(|spec| GeneratorSpec::read(spec, &id.namespace) != before)
            || before.sources.iter().any(|entry| is_planned(&entry.source))
    }

    /// Returns the artifact that a source has in the end, if it is known.
    pub(super) fn planned_artifact(&self, source: &SourceId) -> Option<&Arc<Artifact>> {
        self.input.trees.get(source).or_else(|| match self.generated.last(source)? {
            ArtifactContent::Made(artifact) => Some(artifact),
            _ => None,
        })
    }

    /// Returns what a Kustomization finds in its source, one state after the other. `is_changed` is true if its spec is not
    /// the live one, so that it reconciles also without a new artifact.
    pub(super) fn source_states(
        &self,
        key: &NamespacedName,
        spec: &KustomizationSpec,
        is_changed: bool,
    ) -> Vec<SourceState> {
        let source = spec.source(&key.namespace);
        let plain = |artifact| SourceState { artifact, trigger: None, is_optional: false, is_generated: false };
        let other = |detail: String| Err(PassOutcome::Unknown(Reason::new(ReasonCode::OtherSource, detail)));
        if let Some(deployed) = self.input.pinned.get(&source) {
            return vec![plain(other(format!("{source} is not deployed from this ref but from {deployed}")))];
        }
        if let Some(artifact) = self.input.trees.get(&source) {
            return vec![plain(Ok(artifact.clone()))];
        }
        let Some(generated) = self.generated.states(&source) else {
            return vec![plain(other(format!("{source} is not this tree")))];
        };
        let now = || match self.input.deployed.get(&source) {
            Some(artifact) => Ok(artifact.clone()),
            None => other(format!("the present content of {source} is not known here")),
        };
        let mut states = vec![];
        let exists = self.live_object(&source.object()).is_some();
        if is_changed && exists && !matches!(generated, [one] if one.content == ArtifactContent::Same) {
            let artifact = now().map_err(|_| {
                let detail =
                    format!("it may be reconciled before {source} changes, whose present content is not known here");
                PassOutcome::Unknown(Reason::new(ReasonCode::NotFollowed, detail))
            });
            states.push(SourceState { is_optional: true, is_generated: true, ..plain(artifact) });
        }
        for state in generated {
            let artifact = match &state.content {
                ArtifactContent::Made(artifact) => Ok(artifact.clone()),
                ArtifactContent::Same if is_changed => now(),
                ArtifactContent::Same => other(format!("{source} does not change")),
                ArtifactContent::Missing(why) => {
                    let detail = format!("{source} does not exist: {why}");
                    Err(PassOutcome::Blocked(Reason::new(ReasonCode::SourceMissing, detail)))
                }
                ArtifactContent::Unknown(why) => other(format!("the content of {source} is not known: {why}")),
            };
            let (trigger, is_optional) = (state.trigger.clone(), state.is_optional);
            states.push(SourceState { artifact, trigger, is_optional, is_generated: true });
        }
        states
    }
}
