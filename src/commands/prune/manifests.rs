//! Flags of the systems that keep no inventory, so that only the manifests tell which objects are still wanted.

use clap::{Args, ValueEnum};

use super::args::ExecutionArgs;
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::output::sanitize;
use crate::tools::manifests;
use crate::tools::manifests::Loader;
use gitops_core::prune::collectors::collector::manifest::LocalManifest;
use gitops_core::prune::collectors::collector::safety::Allow;
use gitops_core::prune::collectors::request::{CollectorRequest, SystemOptions};

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

/// Values of `--include`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ManifestInclude {
    Missed,
}

impl ManifestArgs {
    /// Reads the manifests and returns the request of a system.
    pub(super) fn request(
        &self,
        system: SystemOptions,
        loader: Loader,
        default_namespace: &str,
        execution: &ExecutionArgs,
        session: &mut Session,
    ) -> Result<CollectorRequest> {
        if self.filenames.is_empty() && !self.allow_empty {
            return Err(Error::usage("the manifests are missing: objects that they do not contain are deleted")
                .hint("pass them with -f"));
        }
        let read = manifests::read(&self.filenames, loader, &mut std::io::stdin())?;
        for warning in read.warnings {
            session.terminal.warning(&sanitize::one_line(&warning));
        }
        let default_namespace = self.default_namespace.as_deref().unwrap_or(default_namespace);
        self.request_of(system, read.locals, default_namespace, execution)
    }

    /// Returns the request of a system for manifests that were read. Refuses to plan with none.
    pub(super) fn request_of(
        &self,
        system: SystemOptions,
        locals: Vec<LocalManifest>,
        default_namespace: &str,
        execution: &ExecutionArgs,
    ) -> Result<CollectorRequest> {
        if locals.is_empty() && !self.allow_empty {
            return Err(Error::refused("refused: the manifests contain no object, so everything would be deleted")
                .hint("check -f; pass --allow-empty if it is intended"));
        }
        let allow = Allow {
            missed: self.include.contains(&ManifestInclude::Missed),
            namespaces: execution.allow_namespaces,
            crds: execution.allow_crds,
        };
        Ok(CollectorRequest { system, locals, default_namespace: default_namespace.into(), allow })
    }
}
