//! ExternalArtifacts that give inputs to ResourceSets: a provider exports one input for each artifact that it selects.
//!
//! Source: flux-operator v0.58.1 `callExternalArtifactProvider` in `internal/controller/resourcesetinputprovider_controller.go`.

use serde_json::Value;

use super::comparison::{Asked, Comparison, Part};
use crate::flux::kinds::EXTERNAL_ARTIFACT;
use crate::flux::simulation::model::generated_artifacts::ArtifactContent;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::SourceId;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, list_at, text_at};

/// The change of an artifact that a provider selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArtifactChange {
    /// It is deleted.
    Gone,
    /// It has other files, and so another revision.
    Revision,
    /// It is not known if the provider selects it, and with which input.
    Open,
}

/// Returns true if a provider exports one input for each ExternalArtifact that it selects.
pub(crate) fn selects_artifacts(spec: &Value) -> bool {
    text_at(spec, "/type") == EXTERNAL_ARTIFACT
}

impl Comparison<'_, '_, '_> {
    /// Returns the ExternalArtifacts that the change creates, changes or deletes, and that a provider with this spec may select.
    pub(crate) fn artifact_changes(
        &mut self,
        provider: &ObjectId,
        spec: &Value,
    ) -> Asked<Vec<(ObjectId, ArtifactChange)>> {
        let state = self.state();
        if !selects_artifacts(spec) {
            return Ok(vec![]);
        }
        let kind = SourceId::external_artifact("", "").object();
        let mut artifacts = self.ids_of(&kind.group, &kind.kind);
        artifacts.extend(
            state.generated.states.keys().filter(|source| source.kind == EXTERNAL_ARTIFACT).map(SourceId::object),
        );
        let mut changes = vec![];
        for artifact in artifacts {
            let live = state.live_object(&artifact);
            if !list_at(spec, "/selectors").iter().any(|selector| may_select(selector, provider, &artifact, live)) {
                continue;
            }
            if let Some(change) = self.artifact_change(&artifact)? {
                changes.push((artifact, change));
            }
        }
        Ok(changes)
    }

    /// Returns the change of an artifact, if there is one.
    fn artifact_change(&mut self, artifact: &ObjectId) -> Asked<Option<ArtifactChange>> {
        let state = self.state();
        let source = SourceId::external_artifact(&artifact.namespace, &artifact.name);
        let last = state.generated.states(&source).and_then(<[_]>::last);
        let is_live = state.is_live(artifact);
        Ok(match last.map(|last| (&last.content, last.is_optional)) {
            None => self.difference(artifact, Part::SpecAndLabels)?.map(|_| ArtifactChange::Open),
            Some((ArtifactContent::Missing(_), _)) if !is_live => None,
            Some((ArtifactContent::Missing(_), false)) => Some(ArtifactChange::Gone),
            Some((ArtifactContent::Same, _)) if is_live && has_same_generator(state, artifact) => None,
            Some((ArtifactContent::Made(_), _)) if is_live && has_same_generator(state, artifact) => {
                Some(ArtifactChange::Revision)
            }
            _ => Some(ArtifactChange::Open),
        })
    }
}

/// Returns true if the generator of an artifact keeps its spec, so that the artifact keeps its labels.
fn has_same_generator(state: &State<'_>, artifact: &ObjectId) -> bool {
    let snapshot = state.input.snapshot;
    let Some(live) = snapshot.resource(artifact) else { return false };
    let reference = &live.spec()["sourceRef"];
    let mut generators = snapshot.resources.iter().filter(|full| {
        let id = &full.object.id;
        &*id.kind == text_at(reference, "/kind")
            && &*id.name == text_at(reference, "/name")
            && id.namespace == artifact.namespace
    });
    generators.next().is_some_and(|generator| state.keeps_spec(generator))
}

/// Returns true if an entry of `spec.selectors` selects an artifact, or may select one whose labels are not known.
fn may_select(selector: &Value, provider: &ObjectId, artifact: &ObjectId, live: Option<&ObjectMetadata>) -> bool {
    let [namespace, name] = ["/namespace", "/name"].map(|field| text_at(selector, field));
    let namespace = if namespace.is_empty() { &*provider.namespace } else { namespace };
    if namespace != "*" && namespace != &*artifact.namespace {
        return false;
    }
    if !name.is_empty() {
        return name == &*artifact.name;
    }
    let wanted = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    live.is_none_or(|live| wanted.clone().all(|(key, value)| live.labels.get(key) == value.as_str()))
}
