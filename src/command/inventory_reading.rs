//! How much of the cluster `inventory` reads: everything, or less where the answer is the same.

use super::inventory::InventoryArgs;
use super::{Session, owners};
use crate::error::Result;
use crate::ownership::index::Index;
use crate::ownership::reading::Reading;
use crate::render::inventory::Format;
use crate::snapshot::Snapshot;

/// What was read, and in words to what it was narrowed.
pub(super) async fn read(args: &InventoryArgs, session: &mut Session) -> Result<(Snapshot, Option<String>)> {
    let system = args.by.as_deref().map(owners::system).transpose()?;
    if let Some(file) = &args.snapshot {
        return Ok((session.recorded(file)?, None));
    }
    let cluster = session.cluster().await?;
    if args.read_secrets {
        // What a release lists may have lost its marks.
        let mut snapshot = session.snapshot_of(&cluster).await?;
        cluster.add_release_records(&mut snapshot).await;
        return Ok((snapshot, None));
    }
    // A tree goes on to what carries no mark, and so does what nothing manages.
    let marked_only = args.why.is_none() && !args.unmanaged && args.output != Format::Tree;
    let narrowed = match &args.owners[..] {
        [owner] if marked_only => cluster.snapshot_by_owners(session.now, |first| of_owner(owner, first)).await?,
        [] if marked_only && let Some(reading) = system.as_deref().and_then(Reading::of_system) => {
            (cluster.snapshot_of(session.now, &reading).await?, Some(reading))
        }
        _ => return Ok((session.snapshot_of(&cluster).await?, None)),
    };
    Ok(match narrowed {
        (snapshot, None) => (snapshot, None),
        (snapshot, Some(reading)) if !snapshot.objects.is_empty() && !reading.is_in_doubt(&Index::build(&snapshot)) => {
            (snapshot, Some(reading.describe()))
        }
        _ => (session.snapshot_of(&cluster).await?, None),
    })
}

fn of_owner(text: &str, owners: &Snapshot) -> Option<Reading> {
    let index = Index::build(owners);
    let id = owners::find(text, &index).ok()?;
    Reading::of_owner(index.owner(&id)?)
}
