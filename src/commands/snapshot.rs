//! `snapshot FILE`: records what every reading verb needs.

use std::path::PathBuf;

use clap::Args;

use super::Session;
use crate::error::Result;
use crate::exit::ExitCode;
use crate::tools::snapshot_file;

/// Record the cluster's metadata in a file
///
/// Writes the metadata of every object, the content of owners and sources, and what could not be read. No data of
/// Secrets and ConfigMaps and no last-applied annotation is in it. Passwords in URLs, Helm values, parameters of Argo CD
/// and environments of containers are removed, and so are variables and patches of Kustomizations unless you pass
/// --with-values. Every reading verb takes the file with --snapshot instead of a cluster.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  # Record the current cluster, compressed
  kubectl gitops snapshot cluster.json.gz

  # Plan a prune without a cluster
  kubectl gitops prune --plan --snapshot cluster.json.gz")]
pub struct SnapshotArgs {
    /// File to write; compressed when its name ends in .gz
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Keep variables and patches of Kustomizations, which may hold secrets
    ///
    /// A plan of a working tree from the snapshot needs them where a Kustomization has spec.postBuild.substitute or
    /// spec.patches; without them its build is not known.
    #[arg(long)]
    pub with_values: bool,
}

/// Records a snapshot of the cluster. Fails if nothing can be read, or if the file cannot be written.
pub async fn run(args: &SnapshotArgs, session: &mut Session) -> Result<ExitCode> {
    let cluster = session.cluster().await?;
    let mut snapshot = session.snapshot_of(&cluster).await?;
    cluster.add_suspendable(&mut snapshot).await;
    snapshot.redact(args.with_values);
    let bytes = snapshot_file::write(&args.file, &snapshot)?;
    let (objects, types) = (snapshot.objects.len(), snapshot.types.len());
    session.terminal.status(&format!("{objects} objects of {types} types in {} ({bytes} bytes)", args.file.display()));
    Ok(session.report_gaps(&snapshot.gaps))
}
