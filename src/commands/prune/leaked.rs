//! `prune` without manifests: objects that are leaked or orphaned in the cluster.

use super::args::{Include, PruneArgs};
use crate::commands::{Session, owners};
use crate::error::Result;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::OwnerId;
use gitops_core::ownership::index::Index;
use gitops_core::prune::leaked;
use gitops_core::prune::leaked::{LeakDecision, PruneOptions};

/// Translates the flags for an index, in which the owners must exist.
pub(super) fn options(args: &PruneArgs, session: &Session, index: &Index<'_>) -> Result<PruneOptions> {
    let namespace = session.connection.namespace.clone();
    let find = |text: &String| owners::find(text, namespace.as_deref(), index);
    let owners: Vec<OwnerId> = args.owners.iter().map(find).collect::<Result<_>>()?;
    Ok(PruneOptions {
        owners,
        system: args.by.as_deref().map(owners::system).transpose()?,
        include_orphaned: args.include.contains(&Include::Orphaned),
        assume_no_hub: args.assume_no_hub,
        allowed: args.execution.allowed(),
        namespace,
    })
}

/// Re-evaluates an object after a fresh read. Returns the reason to keep it, or `None` to delete it.
pub(super) fn reason_to_keep(index: &Index<'_>, id: &ObjectId, options: &PruneOptions) -> Option<String> {
    let Some(object) = index.snapshot().object(id) else { return Some("it no longer exists".to_owned()) };
    match leaked::evaluate(index, object, &index.status(object), options) {
        Some((_, LeakDecision::Delete(_))) => None,
        Some((_, LeakDecision::Keep(reason))) => Some(reason.to_string()),
        None => Some("no owner claims it any more, or its owner lists it".to_owned()),
    }
}
