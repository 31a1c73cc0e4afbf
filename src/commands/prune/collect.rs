//! The flags of `prune --by qbec|flux-v1|applyset`, translated into a request to a collector.

use std::path::PathBuf;

use clap::Args;

use crate::commands::Session;
use crate::error::{Error, Result};
use crate::tools::manifests;
use crate::tools::manifests::Loader;
use crate::tools::qbec;
use gitops_core::ownership::schemes::flux_v1::GitSource;
use gitops_core::ownership::schemes::flux_v1::url::safe_url;
use gitops_core::prune::collectors::manifest::LocalManifest;
use gitops_core::prune::collectors::qbec::filter::{NameFilter, QbecFilters};
use gitops_core::prune::collectors::qbec::scope::QbecApp;
use gitops_core::prune::collectors::request::{CollectorRequest, NewSource, SystemOptions};
use gitops_core::prune::collectors::safety::Allow;

/// Flags of the systems that mark what they apply.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Options of --by qbec, flux-v1 and applyset")]
pub struct GcArgs {
    /// With --by qbec, flux-v1 or applyset: the manifests as they are now, a file, a directory, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub filenames: Vec<String>,
    /// The manifests hold nothing, so that everything may go
    #[arg(long)]
    pub allow_empty: bool,
    /// Namespace of manifests that name none
    #[arg(long, value_name = "NAMESPACE")]
    pub default_namespace: Option<String>,
    /// qbec: the application's name
    #[arg(long, value_name = "APP")]
    pub app: Option<String>,
    /// qbec: the environment
    #[arg(long, value_name = "ENV")]
    pub env: Option<String>,
    /// qbec: the tag given to qbec as --app-tag
    #[arg(long, value_name = "TAG")]
    pub app_tag: Option<String>,
    /// qbec: the folder of qbec.yaml; the qbec on PATH renders it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["app", "filenames", "default_namespace"])]
    pub qbec_root: Option<PathBuf>,
    /// qbec: qbec.yaml sets clusterScopedLists
    #[arg(long)]
    pub cluster_scoped_lists: bool,
    /// qbec: only this component
    #[arg(long, value_name = "NAME")]
    pub component: Vec<String>,
    /// qbec: all components but this
    #[arg(long, value_name = "NAME")]
    pub exclude_component: Vec<String>,
    /// qbec: only this kind, in full, singular or plural
    #[arg(long, value_name = "KIND")]
    pub kind: Vec<String>,
    /// qbec: all kinds but this
    #[arg(long, value_name = "KIND")]
    pub exclude_kind: Vec<String>,
    /// qbec: only this namespace
    #[arg(long, value_name = "NAMESPACE")]
    pub include_namespace: Vec<String>,
    /// qbec: all namespaces but this
    #[arg(long, value_name = "NAMESPACE")]
    pub exclude_namespace: Vec<String>,
    /// qbec: cluster-scoped objects too, or not; by default not when namespaces are filtered
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub include_cluster_objects: Option<bool>,
    /// flux-v1: the URL given to fluxd as --git-url; that of the cluster's fluxd when absent
    #[arg(long, value_name = "URL")]
    pub git_url: Option<String>,
    /// flux-v1: the branch; master when absent, as in fluxd
    #[arg(long, value_name = "BRANCH", requires = "git_url")]
    pub git_branch: Option<String>,
    /// flux-v1: a path in the repository, in the order given to fluxd; the whole repository when absent
    #[arg(long, value_name = "PATH", value_delimiter = ',', requires = "git_url")]
    pub git_path: Vec<String>,
    /// flux-v1: the namespaces that fluxd is limited to
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',')]
    pub k8s_allow_namespace: Vec<String>,
    /// flux-v1: show what fluxd will do once this is its URL
    #[arg(long, value_name = "URL")]
    pub new_git_url: Option<String>,
    /// flux-v1: show what fluxd will do once this is its branch
    #[arg(long, value_name = "BRANCH")]
    pub new_git_branch: Option<String>,
    /// flux-v1: show what fluxd will do once these are its paths
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub new_git_path: Vec<String>,
    /// applyset: the parent given to kubectl as --applyset: NAME, configmap/NAME or RESOURCE.GROUP/NAME
    #[arg(long, value_name = "PARENT")]
    pub applyset: Option<String>,
}

impl GcArgs {
    /// The request that these flags make of a system; `None` when they are all absent.
    ///
    /// # Errors
    /// When flags are missing or do not belong together, and when the manifests cannot be read or hold nothing.
    pub async fn request(
        &self,
        by: Option<&str>,
        allow: Allow,
        session: &mut Session,
    ) -> Result<Option<CollectorRequest>> {
        let Some(flag) = self.given().first().copied() else {
            // Nothing but its manifests tells qbec's garbage from what is in use.
            return if by == Some("qbec") {
                Err(missing("--app, --env and -f, or --qbec-root", "qbec"))
            } else {
                Ok(None)
            };
        };
        let by = by
            .filter(|by| ["qbec", "flux-v1", "applyset"].contains(by))
            .ok_or_else(|| Error::usage(format!("{} needs --by qbec, --by flux-v1 or --by applyset", flag.0)))?;
        if let Some((flag, system)) = self.given().into_iter().find(|(_, system)| !system.is_empty() && *system != by) {
            return Err(Error::usage(format!("{flag} belongs to --by {system}, not to --by {by}")));
        }
        let request = match by {
            "qbec" => self.qbec(allow, session).await?,
            "flux-v1" => self.flux_v1(allow, session)?,
            _ => self.set(allow, session)?,
        };
        if request.locals.is_empty() && !self.allow_empty {
            return Err(Error::refused("refused: the manifests hold no object, so everything would be deleted")
                .hint("check -f; --allow-empty says that it is meant so"));
        }
        Ok(Some(request))
    }

    /// The flags that are present, with the one system that they belong to.
    fn given(&self) -> Vec<(&'static str, &'static str)> {
        let all = [
            (!self.filenames.is_empty(), "-f", ""),
            (self.allow_empty, "--allow-empty", ""),
            (self.default_namespace.is_some(), "--default-namespace", ""),
            (self.app.is_some(), "--app", "qbec"),
            (self.env.is_some(), "--env", "qbec"),
            (self.app_tag.is_some(), "--app-tag", "qbec"),
            (self.qbec_root.is_some(), "--qbec-root", "qbec"),
            (self.cluster_scoped_lists, "--cluster-scoped-lists", "qbec"),
            (!self.component.is_empty(), "--component", "qbec"),
            (!self.exclude_component.is_empty(), "--exclude-component", "qbec"),
            (!self.kind.is_empty(), "--kind", "qbec"),
            (!self.exclude_kind.is_empty(), "--exclude-kind", "qbec"),
            (!self.include_namespace.is_empty(), "--include-namespace", "qbec"),
            (!self.exclude_namespace.is_empty(), "--exclude-namespace", "qbec"),
            (self.include_cluster_objects.is_some(), "--include-cluster-objects", "qbec"),
            (self.git_url.is_some(), "--git-url", "flux-v1"),
            (!self.k8s_allow_namespace.is_empty(), "--k8s-allow-namespace", "flux-v1"),
            (self.new_git_url.is_some(), "--new-git-url", "flux-v1"),
            (self.new_git_branch.is_some(), "--new-git-branch", "flux-v1"),
            (!self.new_git_path.is_empty(), "--new-git-path", "flux-v1"),
            (self.applyset.is_some(), "--applyset", "applyset"),
        ];
        all.into_iter().filter(|(present, ..)| *present).map(|(_, flag, system)| (flag, system)).collect()
    }

    async fn qbec(&self, allow: Allow, session: &mut Session) -> Result<CollectorRequest> {
        let environment = self.env.as_deref().ok_or_else(|| missing("--env", "qbec"))?;
        let filters = QbecFilters::new(
            NameFilter::new("components", &self.component, &self.exclude_component)?,
            NameFilter::new("kinds", &self.kind, &self.exclude_kind)?,
            NameFilter::new("namespaces", &self.include_namespace, &self.exclude_namespace)?,
            self.include_cluster_objects,
        );
        let tag = self.app_tag.as_deref();
        if let Some(root) = &self.qbec_root {
            QbecApp::new("any", environment, tag)?;
            let rendered = qbec::render(root, environment, tag).await?;
            let app = QbecApp::new(&rendered.application, environment, tag)?;
            let cluster_scoped_lists = rendered.cluster_scoped_lists || self.cluster_scoped_lists;
            let system = SystemOptions::Qbec { app, filters, cluster_scoped_lists };
            let default_namespace = rendered.default_namespace.into();
            return Ok(CollectorRequest { system, locals: rendered.locals, default_namespace, allow });
        }
        let application = self.app.as_deref().ok_or_else(|| missing("--app (or --qbec-root)", "qbec"))?;
        let app = QbecApp::new(application, environment, tag)?;
        let system = SystemOptions::Qbec { app, filters, cluster_scoped_lists: self.cluster_scoped_lists };
        self.with_manifests(system, allow, Loader::Strict, "default", session)
    }

    fn flux_v1(&self, allow: Allow, session: &mut Session) -> Result<CollectorRequest> {
        for (flag, url) in [("--git-url", &self.git_url), ("--new-git-url", &self.new_git_url)] {
            let Some(url) = url else { continue };
            if url.trim().is_empty() || url.chars().any(char::is_control) {
                return Err(Error::usage(format!("{flag} {url:?} is no URL")).hint("give it as fluxd has it"));
            }
            let path = ["/", "./", "../", "file:"].iter().any(|start| url.starts_with(start));
            if safe_url(url).starts_with("file:") && !path {
                let warning =
                    format!("{flag} {url:?} is no URL to fluxd, which hashes it as a local path; so does this");
                session.terminal.warning(&warning);
            }
        }
        for (flag, branch) in [("--git-branch", &self.git_branch), ("--new-git-branch", &self.new_git_branch)] {
            if branch.as_ref().is_some_and(|branch| branch.trim().is_empty()) {
                return Err(Error::usage(format!("{flag} is empty")).hint("fluxd's own default is master"));
            }
        }
        let source = self.git_url.as_ref().map(|url| -> Result<GitSource> {
            let branch = self.git_branch.clone().unwrap_or_else(|| "master".to_owned());
            Ok(GitSource { url: url.clone(), branch, paths: paths("--git-path", &self.git_path)? })
        });
        let change = self.new_git_url.is_some() || self.new_git_branch.is_some() || !self.new_git_path.is_empty();
        let new_paths = (!self.new_git_path.is_empty()).then(|| paths("--new-git-path", &self.new_git_path));
        let new = NewSource {
            url: self.new_git_url.clone(),
            branch: self.new_git_branch.clone(),
            paths: new_paths.transpose()?,
        };
        let system = SystemOptions::FluxV1 {
            source: source.transpose()?,
            allow_namespaces: self.k8s_allow_namespace.clone(),
            new: change.then_some(new),
        };
        self.with_manifests(system, allow, Loader::Fluxd, "default", session)
    }

    fn set(&self, allow: Allow, session: &mut Session) -> Result<CollectorRequest> {
        let parent = self.applyset.as_deref().ok_or_else(|| missing("--applyset", "applyset"))?;
        let (kind, name) = parent.split_once('/').unwrap_or(("secret", parent));
        if kind.is_empty() || name.is_empty() || name.contains('/') {
            return Err(Error::usage(format!("--applyset {parent:?} is not NAME or RESOURCE/NAME")));
        }
        let namespace = session.connection.namespace.clone().unwrap_or_default();
        let default = if namespace.is_empty() { "default".to_owned() } else { namespace.clone() };
        let system = SystemOptions::ApplySet { kind: kind.to_owned(), name: name.to_owned(), namespace };
        self.with_manifests(system, allow, Loader::Strict, &default, session)
    }

    fn with_manifests(
        &self,
        system: SystemOptions,
        allow: Allow,
        loader: Loader,
        default: &str,
        session: &mut Session,
    ) -> Result<CollectorRequest> {
        if self.filenames.is_empty() && !self.allow_empty {
            return Err(Error::usage("the manifests are missing: what they lack is what goes").hint("pass -f"));
        }
        let read = manifests::read(&self.filenames, loader, &mut std::io::stdin())?;
        for warning in read.warnings {
            session.terminal.warning(&crate::output::sanitize::one_line(&warning));
        }
        let locals: Vec<LocalManifest> = read.locals;
        let default_namespace = self.default_namespace.as_deref().unwrap_or(default).into();
        Ok(CollectorRequest { system, locals, default_namespace, allow })
    }
}

fn missing(flag: &str, system: &str) -> Error {
    Error::usage(format!("--by {system} needs {flag}"))
}

/// Paths as fluxd reads them: an empty one alone is none at all; with an empty one among others, which the hash does not
/// show, fluxd loads the whole repository beside the paths, and Git refuses it (reference B4, C14).
fn paths(flag: &str, given: &[String]) -> Result<Vec<String>> {
    if given.iter().all(String::is_empty) {
        return Ok(vec![]);
    }
    if given.iter().any(String::is_empty) {
        return Err(Error::usage(format!("{flag} is given with and without a path"))
            .hint("an empty path among others is the whole repository to fluxd and an error to git: nothing would be synced; leave it out"));
    }
    if let Some(absolute) = given.iter().find(|path| path.starts_with('/')) {
        return Err(Error::usage(format!("{flag} {absolute} begins with /")).hint("fluxd takes relative paths only"));
    }
    Ok(given.to_vec())
}
