//! Reads the part of the cluster that `inventory` needs: everything, or less where the answer is the same.

use super::args::InventoryArgs;
use crate::cluster::Cluster;
use crate::cluster::read::hub::{cluster_uid, read_hub};
use crate::cluster::read::snapshot::add_release_records;
use crate::commands::{Session, owners};
use crate::error::{Error, Result};
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::{ExtraOwners, Index};
use gitops_core::ownership::read_scope::ReadScope;

/// A cluster as far as it was read.
pub(super) struct Reading {
    pub(super) snapshot: Snapshot,
    /// Part of the cluster that was read; `None` for everything.
    pub(super) scope: Option<ReadScope>,
    /// Owners that the snapshot does not show.
    pub(super) extra: ExtraOwners,
}

impl Reading {
    fn of_everything(snapshot: Snapshot) -> Self {
        Self { snapshot, scope: None, extra: ExtraOwners::default() }
    }

    /// Returns true if the answer is certainly that of the whole cluster.
    pub(super) fn is_sufficient(&self, index: &Index<'_>) -> bool {
        self.scope.as_ref().is_none_or(|scope| !self.snapshot.objects.is_empty() && !scope.is_in_doubt(index))
    }
}

/// Reads what the question needs.
///
/// # Errors
/// If the cluster, or the hub, cannot be read at all.
pub(super) async fn read(args: &InventoryArgs, session: &mut Session) -> Result<Reading> {
    let system = args.by.as_deref().map(owners::system).transpose()?;
    if let Some(file) = &args.snapshot {
        return Ok(Reading::of_everything(session.recorded(file)?));
    }
    let cluster = session.cluster().await?;
    if args.read_secrets || args.owner_context.is_some() {
        return read_with_extra_owners(args, session, &cluster).await;
    }
    // Dependents in a tree and unmanaged objects have no labels of a system.
    let needs_labels_only = args.why.is_empty() && !args.unmanaged && !args.output.is_nested();
    let (snapshot, scope) = match &owners::named(&args.owners)?[..] {
        [owner] if needs_labels_only => {
            let namespace = session.connection.namespace.as_deref();
            cluster.snapshot_by_owners(session.now, |owners| scope_of_owner(owner, namespace, owners)).await?
        }
        [] if needs_labels_only && let Some(scope) = system.as_deref().and_then(ReadScope::of_system) => {
            (cluster.snapshot_in_scope(session.now, &scope).await?, Some(scope))
        }
        _ => return read_everything(session).await,
    };
    Ok(Reading { scope, ..Reading::of_everything(snapshot) })
}

/// Reads the whole cluster.
///
/// # Errors
/// If the cluster cannot be read at all.
pub(super) async fn read_everything(session: &mut Session) -> Result<Reading> {
    let cluster = session.cluster().await?;
    Ok(Reading::of_everything(session.snapshot_of(&cluster).await?))
}

/// Reads everything, and the records of Helm releases or the owners of a hub. These list objects that may have lost their
/// labels, so no part of the cluster can be left out.
async fn read_with_extra_owners(args: &InventoryArgs, session: &mut Session, cluster: &Cluster) -> Result<Reading> {
    let mut before = None;
    if let Some(context) = &args.owner_context {
        let hub = connect_to_hub(context, session, cluster).await?;
        let owners = read_hub(&hub, &cluster.server, args.read_secrets).await?;
        before = Some((context, hub, owners));
    }
    let mut reading = Reading::of_everything(session.snapshot_of(cluster).await?);
    if args.read_secrets {
        add_release_records(cluster, &mut reading.snapshot).await;
    }
    if let Some((context, hub, before)) = &before {
        let owners = read_hub(hub, &cluster.server, args.read_secrets).await?.since(before);
        for gap in &owners.gaps {
            let subject = format!("{} of context {context}", gap.subject);
            reading.snapshot.gaps.push(Gap { subject, ..gap.clone() });
        }
        reading.extra.hub = Some(owners);
    }
    Ok(reading)
}

/// Connects to the hub: another context of the same kubeconfig, and another cluster.
async fn connect_to_hub(context: &str, session: &Session, cluster: &Cluster) -> Result<Cluster> {
    let hub = session.cluster_of(context).await?;
    let is_same_cluster = match (cluster_uid(&hub).await, cluster_uid(cluster).await) {
        (Some(hub), Some(own)) => hub == own,
        _ => hub.server == cluster.server,
    };
    if is_same_cluster {
        return Err(Error::usage(format!("--owner-context {context} is the cluster itself"))
            .hint("omit --owner-context: the owners of this cluster are always read"));
    }
    Ok(hub)
}

fn scope_of_owner(text: &str, namespace: Option<&str>, owners: &Snapshot) -> Option<ReadScope> {
    let index = Index::build(owners);
    let id = owners::find(text, namespace, &index).ok()?;
    ReadScope::of_owner(index.owner(&id)?)
}
