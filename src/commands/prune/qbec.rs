//! `prune qbec`: objects that qbec would delete.

use std::path::PathBuf;

use clap::Args;

use super::args::ExecutionArgs;
use super::manifests::ManifestArgs;
use crate::commands::Session;
use crate::error::Result;
use crate::tools::manifests::Loader;
use crate::tools::programs::qbec;
use crate::tools::sandbox::{self, Sandbox};
use gitops_core::prune::collectors::qbec::filter::{NameFilter, QbecFilters};
use gitops_core::prune::collectors::qbec::scope::QbecApp;
use gitops_core::prune::collectors::request::QbecRequest;

/// Plan and delete objects of a qbec environment that are in no manifest
///
/// Shows what `qbec apply` would delete and miss. Without --plan, deletes in its place and order.
///
/// With --qbec-root, qbec runs with your rights, and data sources of qbec.yaml may run other programs: render a tree that
/// you have not read elsewhere, and pass its manifests with -f.
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "kubectl gitops prune qbec --qbec-root DIR --env ENV [OPTIONS]\n       \
                      kubectl gitops prune qbec --app APP --env ENV -f FILE [OPTIONS]",
    after_long_help = "Examples:
  # Render the environment with the qbec on PATH, and show the plan
  kubectl gitops prune qbec --plan --qbec-root . --env dev

  # Use manifests that were rendered elsewhere
  qbec show dev > dev.yaml
  kubectl gitops prune qbec --plan --app shop --env dev -f dev.yaml"
)]
pub struct QbecArgs {
    /// Name of the application
    #[arg(long, value_name = "APP", required_unless_present = "qbec_root")]
    pub app: Option<String>,
    /// Name of the environment
    #[arg(long, value_name = "ENV")]
    pub env: String,
    /// Tag that was given to qbec as --app-tag
    #[arg(long, value_name = "TAG")]
    pub app_tag: Option<String>,
    /// Directory of qbec.yaml; the qbec on PATH renders it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["app", "filenames", "default_namespace"])]
    pub qbec_root: Option<PathBuf>,
    /// Set clusterScopedLists as in qbec.yaml
    #[arg(long)]
    pub cluster_scoped_lists: bool,
    /// Limit the plan to this component
    #[arg(long, value_name = "NAME")]
    pub component: Vec<String>,
    /// Omit this component from the plan
    #[arg(long, value_name = "NAME")]
    pub exclude_component: Vec<String>,
    /// Limit the plan to this kind: full, singular or plural
    #[arg(long, value_name = "KIND")]
    pub kind: Vec<String>,
    /// Omit this kind from the plan
    #[arg(long, value_name = "KIND")]
    pub exclude_kind: Vec<String>,
    /// Limit the plan to this namespace
    #[arg(long, value_name = "NAMESPACE")]
    pub include_namespace: Vec<String>,
    /// Omit this namespace from the plan
    #[arg(long, value_name = "NAMESPACE")]
    pub exclude_namespace: Vec<String>,
    /// Include cluster-scoped objects; default: no namespace filter
    #[arg(long, value_name = "BOOL", hide_possible_values = true, hide_short_help = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub include_cluster_objects: Option<bool>,
    #[command(flatten)]
    pub manifests: ManifestArgs,
}

impl QbecArgs {
    pub(super) async fn request(&self, execution: &ExecutionArgs, session: &mut Session) -> Result<QbecRequest> {
        let (environment, tag) = (self.env.as_str(), self.app_tag.as_deref());
        let filters = self.filters()?;
        let Some(root) = &self.qbec_root else {
            let app = QbecApp::new(self.app.as_deref().unwrap_or_default(), environment, tag)?;
            let manifests = self.manifests.read(Loader::Strict, "default", execution, session)?;
            return Ok(QbecRequest { app, filters, cluster_scoped_lists: self.cluster_scoped_lists, manifests });
        };
        // Checks the environment and the tag before qbec is run.
        QbecApp::new("any", environment, tag)?;
        if let Some(missing) = sandbox::missing_restriction() {
            session.terminal.warning(missing);
        }
        let rendered = qbec::render(root, environment, tag, &Sandbox::of_this_process()).await?;
        let app = QbecApp::new(&rendered.application, environment, tag)?;
        let cluster_scoped_lists = rendered.cluster_scoped_lists || self.cluster_scoped_lists;
        let manifests = self.manifests.with_locals(rendered.locals, &rendered.default_namespace, execution)?;
        Ok(QbecRequest { app, filters, cluster_scoped_lists, manifests })
    }

    fn filters(&self) -> Result<QbecFilters> {
        Ok(QbecFilters::new(
            NameFilter::new("components", &self.component, &self.exclude_component)?,
            NameFilter::new("kinds", &self.kind, &self.exclude_kind)?,
            NameFilter::new("namespaces", &self.include_namespace, &self.exclude_namespace)?,
            self.include_cluster_objects,
        ))
    }
}
