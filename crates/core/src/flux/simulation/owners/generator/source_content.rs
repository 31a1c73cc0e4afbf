//! Contents of the sources of ArtifactGenerators after the change, and what a Kustomization reads from its source.

use std::sync::Arc;

use crate::flux::generator::SourceContent;
use crate::flux::generator::spec::GeneratorSpec;
use crate::flux::kinds::EXTERNAL_ARTIFACT;
use crate::flux::simulation::model::generated_artifacts::{ArtifactContent, GeneratedArtifacts};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::effective_fields::differing_parts;
use crate::flux::source::artifact::Artifact;
use crate::flux::spec::SourceId;
use crate::kubernetes::object::{ObjectId, Resource};

/// Returns the content of a source of a generator after the change.
///
/// Fails with the reason why source-watcher cannot read it.
pub(super) fn source_content(
    state: &State<'_>,
    source: &SourceId,
    known: &GeneratedArtifacts,
) -> Result<SourceContent, String> {
    if let Some(artifact) = state.input.trees.get(source).filter(|_| source.kind == EXTERNAL_ARTIFACT) {
        return Ok(SourceContent::Known(artifact.clone()));
    }
    match known.states(source) {
        Some([one]) => {
            return match &one.content {
                ArtifactContent::Made(artifact) if !one.is_optional => Ok(SourceContent::Known(artifact.clone())),
                ArtifactContent::Made(_) => Ok(SourceContent::Unknown(format!("it is a race if {source} changes"))),
                ArtifactContent::Same => Ok(content_of(state.input.deployed.get(source), source)),
                ArtifactContent::Missing(why) => Err(format!("its source {source} does not exist: {why}")),
                ArtifactContent::Unknown(why) => Ok(SourceContent::Unknown(why.clone())),
            };
        }
        Some(_) => return Ok(SourceContent::Unknown(format!("{source} changes more than once"))),
        None => {}
    }
    let id = source.object();
    if let Some(why) = source_object_change(state, &id) {
        return Ok(SourceContent::Unknown(why));
    }
    if !state.is_live(&id) {
        if state.stays_absent(&id) {
            return Err(format!("its source {source} does not exist"));
        }
        return Ok(SourceContent::Unknown(format!("{source} could not be read")));
    }
    let files = if state.is_suspended_after(&id) {
        state.input.deployed.get(source)
    } else {
        state.input.trees.get(source).filter(|_| !state.input.pinned.contains_key(source))
    };
    Ok(content_of(files, source))
}

fn content_of(files: Option<&Arc<Artifact>>, source: &SourceId) -> SourceContent {
    match files {
        Some(files) => files.unread_at("").map_or_else(|| SourceContent::Known(files.clone()), SourceContent::Unknown),
        None => SourceContent::Unchanged(format!("the content of {source} is not known here; --source can name it")),
    }
}

/// Returns how the change affects the object of a source, in words.
fn source_object_change(state: &State<'_>, id: &ObjectId) -> Option<String> {
    let applied = state.applied(id);
    let Some(live) = state.input.snapshot.resource(id) else {
        return (!applied.is_empty()).then(|| format!("{id} is created"));
    };
    let changes = applied
        .iter()
        .any(|applied| !differing_parts(&id.kind, &live.content, &applied.built.manifest, true, false).is_empty());
    if changes {
        return Some(format!("{id} changes"));
    }
    let chart_source = SourceId::of_chart(live.spec(), &id.namespace);
    (&*id.kind == "HelmChart" && state.input.trees.contains_key(&chart_source))
        .then(|| format!("{id} is packed from {chart_source}"))
}

/// Returns true if the change can affect what a generator makes: its spec, or a planned source of it.
pub(super) fn is_affected(
    state: &State<'_>,
    id: &ObjectId,
    live: Option<&Resource>,
    known: &GeneratedArtifacts,
) -> bool {
    let Some(live) = live else { return true };
    let before = GeneratorSpec::read(live.spec(), &id.namespace);
    let after = state.specs_after(id);
    let mut planned = before.sources.iter().map(|entry| &entry.source).filter(|source| {
        state.input.trees.contains_key(source)
            || known.last(source).is_some_and(|content| *content != ArtifactContent::Same)
            || source_object_change(state, &source.object()).is_some()
    });
    after.iter().any(|spec| GeneratorSpec::read(spec, &id.namespace) != before) || planned.next().is_some()
}
