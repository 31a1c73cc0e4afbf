//! How much of the cluster `inventory` reads: everything, or less where the answer is the same.

use super::InventoryArgs;
use crate::cluster::Cluster;
use crate::cluster::config::args::ConnectionArgs;
use crate::commands::{Session, owners};
use crate::error::{Error, Result};
use crate::output::inventory::Format;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::{ExtraOwners, Index};
use gitops_core::ownership::read_scope::ReadScope;

/// What was read.
pub(crate) struct Read {
    /// The cluster.
    pub(crate) snapshot: Snapshot,
    /// In words, to what the reading was narrowed.
    pub(crate) narrowed: Option<String>,
    /// What else is known of owners.
    pub(crate) given: ExtraOwners,
}

impl Read {
    fn whole(snapshot: Snapshot) -> Self {
        Self { snapshot, narrowed: None, given: ExtraOwners::default() }
    }
}

/// Reads what the question needs.
///
/// # Errors
/// When the cluster, or the hub, cannot be read at all.
pub(crate) async fn read(args: &InventoryArgs, session: &mut Session) -> Result<Read> {
    let system = args.by.as_deref().map(owners::system).transpose()?;
    if let Some(file) = &args.snapshot {
        return Ok(Read::whole(session.recorded(file)?));
    }
    let cluster = session.cluster().await?;
    if args.read_secrets || args.owner_context.is_some() {
        return beyond(args, session, &cluster).await;
    }
    // A tree goes on to what carries no mark, and so does what nothing manages.
    let marked_only = args.why.is_none() && !args.unmanaged && args.output != Format::Tree;
    let narrowed = match &args.owners[..] {
        [owner] if marked_only => cluster.snapshot_by_owners(session.now, |first| of_owner(owner, first)).await?,
        [] if marked_only && let Some(reading) = system.as_deref().and_then(ReadScope::of_system) => {
            (cluster.snapshot_in_scope(session.now, &reading).await?, Some(reading))
        }
        _ => return Ok(Read::whole(session.snapshot_of(&cluster).await?)),
    };
    Ok(match narrowed {
        (snapshot, None) => Read::whole(snapshot),
        (snapshot, Some(reading)) if !snapshot.objects.is_empty() && !reading.is_in_doubt(&Index::build(&snapshot)) => {
            Read { narrowed: Some(reading.describe()), ..Read::whole(snapshot) }
        }
        _ => Read::whole(session.snapshot_of(&cluster).await?),
    })
}

/// Everything, with what Helm recorded or what a hub's owners record: there, objects may have lost their marks.
async fn beyond(args: &InventoryArgs, session: &mut Session, cluster: &Cluster) -> Result<Read> {
    let hub = match &args.owner_context {
        None => None,
        Some(context) => Some(hub_of(context, session, cluster).await?),
    };
    let read_hub = async |hub: &Cluster| hub.hub(&cluster.server, args.read_secrets).await;
    let before = match &hub {
        None => None,
        Some(hub) => Some(read_hub(hub).await?),
    };
    let mut read = Read::whole(session.snapshot_of(cluster).await?);
    if args.read_secrets {
        cluster.add_release_records(&mut read.snapshot).await;
    }
    if let (Some(hub), Some(before)) = (&hub, &before) {
        let owners = read_hub(hub).await?.since(before);
        let context = args.owner_context.as_deref().unwrap_or_default();
        let there = |gap: &Gap| Gap { subject: format!("{} of context {context}", gap.subject), ..gap.clone() };
        read.snapshot.gaps.extend(owners.gaps.iter().map(there));
        read.given.hub = Some(owners);
    }
    Ok(read)
}

/// The hub: another context of the same kubeconfig, and another cluster.
async fn hub_of(context: &str, session: &Session, cluster: &Cluster) -> Result<Cluster> {
    let own = &session.connection;
    let connection = ConnectionArgs {
        kubeconfig: own.kubeconfig.clone(),
        context: Some(context.to_owned()),
        request_timeout: own.request_timeout,
        disable_compression: own.disable_compression,
        ..ConnectionArgs::default()
    };
    let hub = Cluster::connect(&connection).await?;
    let same = match (hub.uid().await, cluster.uid().await) {
        (Some(hub), Some(own)) => hub == own,
        _ => hub.server == cluster.server,
    };
    if same {
        return Err(Error::usage(format!("--owner-context {context} is this cluster itself"))
            .hint("leave it out: the owners of this cluster are read in any case"));
    }
    Ok(hub)
}

fn of_owner(text: &str, owners: &Snapshot) -> Option<ReadScope> {
    let index = Index::build(owners);
    let id = owners::find(text, None, &index).ok()?;
    ReadScope::of_owner(index.owner(&id)?)
}
