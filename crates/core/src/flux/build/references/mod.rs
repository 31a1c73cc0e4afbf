//! Checks of everything that kustomize would open, before it runs.
//!
//! The controller builds in a file system that ends at the artifact's root, while the kustomize program reads any file.
//! Therefore every kustomization file and every configuration of a plugin is read here first, and written again: kustomize
//! then reads exactly what was checked. Source: docs/reference/kustomize-controller.md 3.4 and 3.8.

mod collect;
mod plugins;
mod urls;

use std::collections::{BTreeMap, BTreeSet};

use crate::flux::source::artifact::Artifact;
pub use collect::check;

/// Files and URLs that a run of kustomize reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// URLs that kustomize fetches, in the order of the files.
    pub remote: Vec<String>,
    /// Files to write over the artifact before kustomize runs: kustomization files and configurations of plugins.
    pub written: BTreeMap<String, String>,
    /// Directory of the build, and every referenced file and directory.
    paths: BTreeSet<String>,
}

impl Inputs {
    /// Returns the first URL that kustomize clones with git only. It requests the others as files first.
    pub(super) fn repository(&self) -> Option<&str> {
        self.remote.iter().map(String::as_str).find(|url| !urls::is_http(url))
    }

    /// Directory of the build, and every referenced file and directory, in order.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    /// Returns a digest of the files that the build reads. It does not cover the files to write.
    pub(super) fn digest(&self, artifact: &Artifact) -> String {
        if self.paths.contains("") { artifact.digest().to_owned() } else { artifact.digest_below(&self.paths) }
    }
}

/// Reason why kustomize must not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The controller refuses the reference as well.
    #[error("{0}")]
    Refused(String),
    /// kustomize could leave the artifact or this machine in a way that the controller need not refuse.
    #[error("{0}")]
    Unsafe(String),
    /// A file decides what kustomize opens, and this tool cannot read it.
    #[error("{0}")]
    Unreadable(String),
}

#[cfg(test)]
mod tests;
