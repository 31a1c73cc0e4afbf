//! Generation of the artifacts of one generator.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::captures;
use super::copy::Workspace;
use super::spec::{GeneratorSpec, OutputArtifact};
use super::workspace::Directory;
use super::{SourceContent, Stop};
use crate::flux::source::artifact::Artifact;

/// An artifact that a generator makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// With this content, and this checksum in the name of its archive.
    New(Arc<Artifact>, u32),
    /// As it is now.
    Same,
}

/// The artifacts that a generator makes, in order, and the reason why it stops before the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) artifacts: Vec<(OutputArtifact, Made)>,
    pub(crate) stop: Option<Stop>,
}

/// Generates the artifacts of a spec from the contents of its sources by their alias. `stays` returns true for an artifact
/// that is as it is now if no source of it is known.
pub(crate) fn generate(
    spec: &GeneratorSpec,
    contents: &BTreeMap<String, SourceContent>,
    stays: impl Fn(&OutputArtifact) -> bool,
) -> Generation {
    let mut generation = Generation { artifacts: vec![], stop: None };
    let artifacts = match captures::expand(spec, contents) {
        Ok(artifacts) => artifacts,
        Err(stop) => return Generation { stop: Some(stop), ..generation },
    };
    let mut workspace = Workspace::new(contents);
    for artifact in artifacts {
        let mut copied = artifact.copy.iter().map(|operation| contents.get(&operation.alias));
        let is_apart = !contents.contains_key(&artifact.name)
            && copied.all(|content| matches!(content, Some(SourceContent::Unchanged(_))));
        let made = if is_apart && stays(&artifact) {
            Made::Same
        } else {
            match make(&artifact, &mut workspace) {
                Ok(made) => made,
                Err(stop) => {
                    generation.stop = Some(stop);
                    break;
                }
            }
        };
        generation.artifacts.push((artifact, made));
    }
    generation
}

fn make(artifact: &OutputArtifact, workspace: &mut Workspace<'_>) -> Result<Made, Stop> {
    let name = &artifact.name;
    match workspace.contents.get(name) {
        Some(SourceContent::Unchanged(why) | SourceContent::Unknown(why)) => return Err(Stop::Unknown(why.clone())),
        // The artifact is built in the directory of the source.
        Some(SourceContent::Known(_)) => {}
        None => drop(workspace.directories.insert(name.clone(), Directory::default())),
    }
    for operation in &artifact.copy {
        workspace.copy(operation, name)?;
    }
    let directory = &workspace.directories[name];
    Ok(Made::New(Arc::new(directory.packed(name)), directory.checksum(name)))
}
