//! `prune` without manifests: objects that are leaked or orphaned in the cluster.

use super::args::{Include, PruneArgs};
use crate::commands::{Session, owners};
use crate::error::Result;
use gitops_core::ownership::index::Index;
use gitops_core::prune::leaked::PruneOptions;

/// Translates the flags for an index, in which the owners must exist.
pub(super) fn options(args: &PruneArgs, session: &Session, index: &Index<'_>) -> Result<PruneOptions> {
    let namespace = session.connection.namespace.clone();
    let named = args.owners.iter().map(|text| owners::find(text, namespace.as_deref(), index));
    Ok(PruneOptions {
        owners: named.collect::<Result<_>>()?,
        system: args.by.as_deref().map(owners::system).transpose()?,
        include_orphaned: args.include.contains(&Include::Orphaned),
        assume_no_hub: args.assume_no_hub,
        allowed: args.execution.allowed(),
        namespace,
    })
}
