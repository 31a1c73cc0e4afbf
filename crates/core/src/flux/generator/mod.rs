//! Artifacts that source-watcher generates for ArtifactGenerators: files of sources, copied by rules.
//!
//! Source: source-watcher v2.2.2 `internal/controller/artifactgenerator_controller.go`.

mod captures;
mod copy;
pub mod exclusion;
mod generate;
pub mod merge;
pub mod recorded;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
mod workspace;

use std::sync::Arc;

use crate::flux::source::artifact::Artifact;
pub(crate) use generate::{Generation, Made, generate};

/// Content of a source of a generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceContent {
    Known(Arc<Artifact>),
    /// It is not known and stays as it is; the reason why it is not known.
    Unchanged(String),
    /// It is not known, for this reason.
    Unknown(String),
}

/// Reason why a generator makes no further artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// source-watcher fails, for this reason.
    Fails(String),
    /// It is not known what source-watcher makes, for this reason.
    Unknown(String),
}
