//! `snapshot FILE`: records what every reading verb needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

use futures::{StreamExt, stream};

use super::Session;
use crate::cluster::read::content::read_data;
use crate::cluster::read::snapshot::{add_stored_versions, add_suspendable, read_referrers};
use crate::cluster::{Cluster, FailureKind};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::tools::snapshot_file;
use gitops_core::flux::build::charts::stored_artifact::charts_of_releases;
use gitops_core::flux::build::config_maps_in_use;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::text::{join_limited, pluralize};

/// Number of objects that a warning names.
const NAMED: usize = 5;
/// Number of charts or ConfigMaps that are read at once.
const READS_AT_ONCE: usize = 8;

/// Record the cluster's metadata in a file
///
/// Writes the metadata of every object, the names of objects that others refer to, the content of owners and sources, and
/// what could not be read. No data of Secrets and no last-applied annotation is in it. Passwords in URLs, parameters of
/// Argo CD and environments of containers are removed. Unless you pass --with-values, so are variables and patches of
/// Kustomizations, values of HelmReleases, templates of ResourceSets, and the data of ConfigMaps. Every reading verb takes
/// the file with --snapshot instead of a cluster.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  # Record the current cluster, compressed
  kubectl gitops snapshot cluster.json.gz

  # Record what plans of a working tree need too
  kubectl gitops snapshot cluster.json.gz --with-values --with-charts

  # Plan a prune without a cluster
  kubectl gitops prune --plan --snapshot cluster.json.gz")]
pub struct SnapshotArgs {
    /// File to write; compressed when its name ends in .gz
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Keep variables, patches, values and templates, which may hold secrets
    ///
    /// A plan of a working tree from the snapshot needs them where a Kustomization has variables or spec.patches, and where
    /// a HelmRelease or a ResourceSet changes; without them the effect is not known. The ConfigMaps that
    /// spec.postBuild.substituteFrom and spec.valuesFrom name are recorded too, with their data. Secrets never are.
    #[arg(long)]
    pub with_values: bool,
    /// Record the charts of HelmReleases, which source-controller stores
    ///
    /// A plan of a working tree from the snapshot needs them, and the values of HelmReleases, where an upgrade takes its
    /// chart from a repository. They are read through the API server, which needs the right to get services/proxy.
    #[arg(long)]
    pub with_charts: bool,
}

/// Records a snapshot of the cluster. Fails if nothing can be read, or if the file cannot be written.
pub async fn run(args: &SnapshotArgs, session: &mut Session) -> Result<ExitCode> {
    if args.file == Path::new("-") {
        return Err(Error::usage("a snapshot is written to a file, not to standard output")
            .hint("name a file, such as cluster.json.gz"));
    }
    let cluster = session.cluster().await?;
    let mut snapshot = session.snapshot_of(&cluster).await?;
    add_suspendable(&cluster, &mut snapshot).await;
    let (referrers, gaps) = read_referrers(&cluster, &snapshot, None).await;
    snapshot.referrers = Some(referrers);
    snapshot.gaps.extend(gaps);
    add_stored_versions(&cluster, &mut snapshot).await;
    if args.with_charts {
        snapshot.kube_version = cluster.version().await.unwrap_or_default();
        add_charts(&mut snapshot, &cluster, session).await;
    }
    snapshot.redact(args.with_values);
    if args.with_values {
        add_config_maps(&mut snapshot, &cluster, session).await;
    }
    let bytes = snapshot_file::write(&args.file, &snapshot)?;
    let (objects, types) = (snapshot.objects.len(), snapshot.types.len());
    session.terminal.status(&format!("{objects} objects of {types} types in {} ({bytes} bytes)", args.file.display()));
    let without = snapshot.owners_without_values();
    if without > 0 {
        let owners = pluralize(without, "owner");
        session.terminal.hint(&format!(
            "{owners} have values that are left out, and a plan of a working tree needs them; --with-values records them, and \
             secrets in them"
        ));
    }
    Ok(session.report_gaps(&snapshot.gaps))
}

/// Adds the data of the ConfigMaps with variables and values of owners. One that cannot be read is named in a warning: a plan
/// that needs it says so.
async fn add_config_maps(snapshot: &mut Snapshot, cluster: &Cluster, session: &mut Session) {
    let used = config_maps_in_use(snapshot);
    let reads = used.iter().map(|reference| async move { (read_data(cluster, reference).await, reference) });
    let read: Vec<_> = stream::iter(reads).buffered(READS_AT_ONCE).collect().await;
    for (answer, reference) in read {
        match answer {
            Ok(object) => snapshot.add_data(&reference.id(), &object),
            Err(failure) if failure.kind == FailureKind::NotFound => {}
            Err(failure) => session.terminal.warning(&format!("{} is not recorded: {failure}", reference.id())),
        }
    }
}

/// Adds the charts of all HelmReleases. A chart that cannot be read is named in a warning: a plan that needs it says so.
async fn add_charts(snapshot: &mut Snapshot, cluster: &Cluster, session: &mut Session) {
    let (mut charts, mut missing) = (BTreeMap::new(), BTreeMap::<String, Vec<&ObjectId>>::new());
    for (release, artifact) in charts_of_releases(snapshot) {
        match artifact {
            Ok(artifact) => drop(charts.insert(artifact.digest.clone(), artifact)),
            Err(why) => missing.entry(why).or_default().push(release),
        }
    }
    for (why, releases) in missing {
        let named = join_limited(&releases, NAMED);
        session.terminal.warning(&format!("the chart of {named} is not recorded: {why}"));
    }
    let fetches = charts.into_values().map(|artifact| async move {
        let answer = cluster.fetch_artifact(&artifact).await.map_err(|failure| failure.to_string());
        (answer.and_then(|answer| artifact.check(&answer.body).map(|()| answer.body)), artifact)
    });
    let fetched: Vec<_> = stream::iter(fetches).buffered(READS_AT_ONCE).collect().await;
    for (archive, artifact) in fetched {
        match archive {
            Ok(archive) => snapshot.add_chart(artifact.digest, &archive),
            Err(why) => {
                session.terminal.warning(&format!("the chart {} is not recorded: {why}", artifact.digest));
            }
        }
    }
}
