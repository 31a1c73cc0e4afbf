//! `prune applyset`: objects that `kubectl apply --prune --applyset` would delete.

use clap::Args;

use super::args::ExecutionArgs;
use super::manifests::ManifestArgs;
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::tools::manifests::Loader;
use gitops_core::prune::collectors::request::ApplySetRequest;

/// Plan and delete objects of an ApplySet that are in no manifest
///
/// Shows what `kubectl apply --prune --applyset` would delete, what it would miss, and why an object stays. Without --plan,
/// deletes in its place and in its order.
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "kubectl gitops prune applyset --applyset PARENT -n NS -f FILE [OPTIONS]",
    after_long_help = "Examples:
  # What would `kubectl apply --prune --applyset=shop -n prod -f deploy` prune?
  kubectl gitops prune applyset --plan --applyset shop -n prod -f deploy"
)]
pub struct ApplySetArgs {
    /// Parent of the set: NAME of a Secret, or RESOURCE/NAME
    #[arg(long, value_name = "PARENT")]
    pub applyset: String,
    #[command(flatten)]
    pub manifests: ManifestArgs,
}

impl ApplySetArgs {
    pub(super) fn request(&self, execution: &ExecutionArgs, session: &mut Session) -> Result<ApplySetRequest> {
        let parent = self.applyset.as_str();
        let (kind, name) = parent.split_once('/').unwrap_or(("secret", parent));
        if kind.is_empty() || name.is_empty() || name.contains('/') {
            return Err(Error::usage(format!("--applyset {parent:?} is not NAME or RESOURCE/NAME")));
        }
        let namespace = session.connection.namespace.clone().unwrap_or_default();
        let default_namespace = if namespace.is_empty() { "default".to_owned() } else { namespace.clone() };
        let manifests = self.manifests.read(Loader::Strict, &default_namespace, execution, session)?;
        Ok(ApplySetRequest { kind: kind.to_owned(), name: name.to_owned(), namespace, manifests })
    }
}
