//! `prune flux-v1`: objects that fluxd would delete, and a preview of a change of its source.

use clap::Args;

use super::args::ExecutionArgs;
use super::manifests::ManifestArgs;
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::tools::manifests::Loader;
use gitops_core::ownership::schemes::flux_v1::GitSource;
use gitops_core::ownership::schemes::flux_v1::url::safe_url;
use gitops_core::prune::collectors::request::{FluxV1Request, NewSource};

/// Branch of fluxd without `--git-branch`.
const DEFAULT_BRANCH: &str = "master";

/// Plan and delete objects of a Flux v1 source that are in no manifest
///
/// Shows what fluxd would delete, what it would miss, and why an object stays. Without --plan, deletes in its place and in
/// its order, for example after fluxd was removed.
///
/// --new-git-url, --new-git-branch and --new-git-path show what fluxd will do once its source changes: objects that it
/// relabels, creates, deletes, or never finds again.
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "kubectl gitops prune flux-v1 [--git-url URL] -f FILE [OPTIONS]",
    after_long_help = "Examples:
  # Show what a fluxd that is gone left behind, and delete it
  kubectl gitops prune flux-v1 --plan --git-url URL --git-path deploy -f deploy
  kubectl gitops prune flux-v1 --git-url URL --git-path deploy -f deploy

  # Show what fluxd will do once its path changes
  kubectl gitops prune flux-v1 --plan --git-url URL --git-path a,b \\
    --new-git-path a -f a"
)]
pub struct FluxV1Args {
    /// URL that fluxd has; default: of the cluster's fluxd
    #[arg(long, value_name = "URL")]
    pub git_url: Option<String>,
    /// Branch that fluxd has; default: master
    #[arg(long, value_name = "BRANCH", requires = "git_url")]
    pub git_branch: Option<String>,
    /// Paths that fluxd has, in its order; default: all
    #[arg(long, value_name = "PATH", value_delimiter = ',', requires = "git_url")]
    pub git_path: Vec<String>,
    /// Namespaces that fluxd is limited to
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',')]
    pub k8s_allow_namespace: Vec<String>,
    /// Show what fluxd will do with this URL
    #[arg(long, value_name = "URL")]
    pub new_git_url: Option<String>,
    /// Show what fluxd will do with this branch
    #[arg(long, value_name = "BRANCH")]
    pub new_git_branch: Option<String>,
    /// Show what fluxd will do with these paths
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub new_git_path: Vec<String>,
    #[command(flatten)]
    pub manifests: ManifestArgs,
}

impl FluxV1Args {
    pub(super) fn request(&self, execution: &ExecutionArgs, session: &mut Session) -> Result<FluxV1Request> {
        self.check_urls(session)?;
        self.check_branches()?;
        Ok(FluxV1Request {
            source: self.source()?,
            allow_namespaces: self.k8s_allow_namespace.clone(),
            new: self.new_source()?,
            manifests: self.manifests.read(Loader::Fluxd, "default", execution, session)?,
        })
    }

    fn source(&self) -> Result<Option<GitSource>> {
        let Some(url) = self.git_url.clone() else { return Ok(None) };
        let branch = self.git_branch.clone().unwrap_or_else(|| DEFAULT_BRANCH.to_owned());
        Ok(Some(GitSource { url, branch, paths: paths("--git-path", &self.git_path)? }))
    }

    fn new_source(&self) -> Result<Option<NewSource>> {
        let (url, branch) = (self.new_git_url.clone(), self.new_git_branch.clone());
        if url.is_none() && branch.is_none() && self.new_git_path.is_empty() {
            return Ok(None);
        }
        let paths = match &self.new_git_path[..] {
            [] => None,
            given => Some(paths("--new-git-path", given)?),
        };
        Ok(Some(NewSource { url, branch, paths }))
    }

    fn check_urls(&self, session: &mut Session) -> Result<()> {
        for (flag, url) in [("--git-url", &self.git_url), ("--new-git-url", &self.new_git_url)] {
            let Some(url) = url else { continue };
            if url.trim().is_empty() || url.chars().any(char::is_control) {
                return Err(Error::usage(format!("{flag} {url:?} is not a URL")).hint("give it as fluxd has it"));
            }
            let is_path = ["/", "./", "../", "file:"].iter().any(|start| url.starts_with(start));
            if safe_url(url).starts_with("file:") && !is_path {
                session
                    .terminal
                    .warning(&format!("fluxd hashes {flag} {url:?} as a local path, and so does this plan"));
            }
        }
        Ok(())
    }

    fn check_branches(&self) -> Result<()> {
        for (flag, branch) in [("--git-branch", &self.git_branch), ("--new-git-branch", &self.new_git_branch)] {
            if branch.as_ref().is_some_and(|branch| branch.trim().is_empty()) {
                return Err(Error::usage(format!("{flag} is empty"))
                    .hint(format!("omit it for fluxd's default, {DEFAULT_BRANCH}")));
            }
        }
        Ok(())
    }
}

/// Returns paths as fluxd reads them: an empty path alone means no path. An empty path among others is an error: the hash
/// does not show it, fluxd loads the whole repository beside the paths, and git refuses it. See
/// docs/reference/qbec-and-flux-v1.md 9.
fn paths(flag: &str, given: &[String]) -> Result<Vec<String>> {
    if given.iter().all(String::is_empty) {
        return Ok(vec![]);
    }
    if given.iter().any(String::is_empty) {
        return Err(Error::usage(format!("{flag} has an empty path among others"))
            .hint("remove it: fluxd reads it as the whole repository, git refuses it, and nothing is synced"));
    }
    if let Some(absolute) = given.iter().find(|path| path.starts_with('/')) {
        return Err(Error::usage(format!("{flag} {absolute} begins with /")).hint("fluxd takes relative paths only"));
    }
    Ok(given.to_vec())
}
