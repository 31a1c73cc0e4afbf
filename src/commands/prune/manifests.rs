//! Flags of the systems that keep no inventory, so that only the manifests tell which objects are still wanted.

use clap::{Args, ValueEnum};

use super::args::ExecutionArgs;
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::tools::manifests;
use crate::tools::manifests::Loader;
use gitops_core::prune::collectors::collector::manifest::LocalManifest;
use gitops_core::prune::collectors::collector::safety::Allow;
use gitops_core::prune::collectors::request::Manifests;

/// Flags that all of these systems take.
#[derive(Args, Clone, Debug)]
pub struct ManifestArgs {
    /// Manifests: file, directory, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub filenames: Vec<String>,
    /// Accept manifests without any object
    #[arg(long)]
    pub allow_empty: bool,
    /// Namespace of manifests that have none
    #[arg(long, value_name = "NAMESPACE")]
    pub default_namespace: Option<String>,
    /// Plan objects too that the system itself misses
    #[arg(long, value_name = "missed", value_enum, hide_possible_values = true)]
    pub include: Vec<ManifestInclude>,
}

/// Objects that `--include` adds to a plan from manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ManifestInclude {
    Missed,
}

impl ManifestArgs {
    /// Reads the manifests of `-f` in the way of a system's own loader.
    pub(super) fn read(
        &self,
        loader: Loader,
        default_namespace: &str,
        execution: &ExecutionArgs,
        session: &mut Session,
    ) -> Result<Manifests> {
        if self.filenames.is_empty() && !self.allow_empty {
            return Err(Error::usage("the manifests are missing: objects that they do not contain are deleted")
                .hint("pass them with -f"));
        }
        let read = manifests::read(&self.filenames, loader, &mut std::io::stdin())?;
        for warning in read.warnings {
            session.terminal.warning(&warning);
        }
        let default_namespace = self.default_namespace.as_deref().unwrap_or(default_namespace);
        self.with_locals(read.locals, default_namespace, execution)
    }

    /// Returns manifests that were read or rendered. Refuses to plan with none.
    pub(super) fn with_locals(
        &self,
        locals: Vec<LocalManifest>,
        default_namespace: &str,
        execution: &ExecutionArgs,
    ) -> Result<Manifests> {
        if locals.is_empty() && !self.allow_empty {
            return Err(Error::refused("refused: the manifests contain no object, so everything would be deleted")
                .hint("check -f; pass --allow-empty if it is intended"));
        }
        let allow = Allow { missed: self.include.contains(&ManifestInclude::Missed), kinds: execution.allowed() };
        Ok(Manifests { locals, default_namespace: default_namespace.into(), allow })
    }
}
