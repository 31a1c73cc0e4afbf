//! Requests of an execution: what is read before a deletion, the DELETE, and what became of it.

use std::collections::HashMap;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::delete::{DeletionProgress, delete, wait_until_gone};
use super::reading::{Address, Content, OwnerLists};
use crate::cluster::connection::Cluster;
use crate::cluster::http::failure::{Failure, FailureKind};
use crate::cluster::read::list::Query;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, Resource, ResourceType};
use gitops_core::plan::outcome::DeletionResult;
use gitops_core::plan::{PinnedObject, Reason};
use gitops_core::prune::reevaluation::{not_read, replaced, unsettled};

/// Number of attempts to delete an object that changes between its last read and the DELETE, or whose DELETE fails.
pub(super) const ATTEMPTS: usize = 3;
/// Pause before another attempt after a failure, unless the server asks for a longer one.
const PAUSE: Duration = Duration::from_millis(200);
/// Time in which a DELETE without an answer is expected to take effect.
const GRACE: Duration = Duration::from_secs(2);

/// An object as it was read right before its deletion.
#[derive(Clone)]
pub(super) struct Look {
    pub(super) kind: ResourceType,
    pub(super) fresh: ObjectMetadata,
}

/// Result of the reads between the evaluation and the DELETE.
pub(super) enum Preparation {
    /// Content of the objects that the observer needs.
    Contents(Vec<(ObjectId, Value)>),
    /// The object changed since it was evaluated.
    ObjectChanged,
    /// The claimed owner changed since it was read, or cannot be read.
    OwnerChanged,
}

/// Result of one DELETE.
pub(super) enum Sent {
    Ended(DeletionResult),
    /// Nothing was deleted; another attempt may succeed.
    Again(Failure),
}

/// A DELETE that may be sent.
pub(super) struct Deletion {
    pub(super) look: Look,
    /// An earlier DELETE of this object failed.
    pub(super) has_failed: bool,
    /// End of the time to wait.
    pub(super) end: Instant,
}

/// State of an object after a DELETE that failed or whose answer was lost.
enum Settled {
    Gone,
    Terminating,
    /// It still exists and is not terminating.
    Unchanged,
    /// It could not be read.
    Unreadable(Failure),
}

/// Lists the content of a cascade. Fails with the reason to keep its root.
pub(super) async fn list_content(cluster: &Cluster, content: &Content) -> Result<Vec<ObjectMetadata>, Reason> {
    let quiet = cluster.without_deprecations();
    let query = Query { namespace: content.namespace.as_deref(), selector: None };
    let mut newer = vec![];
    for listing in join_all(content.types.iter().map(|kind| quiet.list_metadata(kind, query))).await {
        if let Some(gap) = listing.gap {
            return Err(not_read(format!("{} in its cascade: {}", gap.subject, gap.message)));
        }
        newer.extend(listing.items);
    }
    Ok(newer)
}

/// Reads the object of a planned deletion. Fails with the result of the deletion if it must not or need not be sent.
pub(super) async fn look(
    cluster: &Cluster,
    kind: Option<ResourceType>,
    planned: &PinnedObject,
) -> Result<Look, DeletionResult> {
    let Some(kind) = kind else { return Err(DeletionResult::Failed("its type is not served".to_owned())) };
    match cluster.fetch_metadata(&kind, &planned.id).await {
        Ok(Some(fresh)) if *fresh.uid != *planned.uid => Err(DeletionResult::Skipped(replaced())),
        Ok(Some(fresh)) => Ok(Look { kind, fresh }),
        Ok(None) => Err(DeletionResult::Gone),
        Err(failure) => Err(DeletionResult::Failed(failure.to_string())),
    }
}

/// Lists the metadata of all owners. Fails with the reason to keep everything.
pub(super) async fn list_owners(
    cluster: &Cluster,
    lists: &OwnerLists,
) -> Result<HashMap<ObjectId, ObjectMetadata>, Reason> {
    let listings = join_all(lists.iter().map(|(kind, source)| async {
        let selector = Some(source.selector).filter(|selector| !selector.is_empty());
        cluster.list_metadata(kind, Query { namespace: None, selector }).await
    }));
    let mut listed = HashMap::new();
    for ((_, source), listing) in lists.iter().zip(listings.await) {
        if let Some(gap) = listing.gap {
            return Err(not_read(format!("{}: {}", gap.subject, gap.message)));
        }
        let own = listing.items.into_iter().filter(|object| source.includes(object));
        listed.extend(own.map(|object| (object.id.clone(), object)));
    }
    Ok(listed)
}

/// Reads owners with their content, after they were listed. Fails with the reason to keep everything.
pub(super) async fn fetch_owners(
    cluster: &Cluster,
    addresses: Vec<Address>,
    lists: &OwnerLists,
    listed: &HashMap<ObjectId, ObjectMetadata>,
) -> Result<Vec<(ObjectId, Option<Resource>)>, Reason> {
    let reads = join_all(addresses.iter().map(|(id, kind)| fetch_owner(cluster, id, kind.as_ref()))).await;
    let mut owners = vec![];
    for ((id, _), read) in addresses.into_iter().zip(reads) {
        let fresh = read.map_err(|failure| not_read(format!("{id}: {failure}")))?;
        let is_listed_kind =
            lists.iter().any(|(kind, source)| kind.is(&id.group, &id.kind) && source.selector.is_empty());
        if is_listed_kind && fresh.is_some() != listed.contains_key(&id) {
            return Err(not_read(format!("one answer of the server contains {id}, another one does not")));
        }
        owners.push((id, fresh));
    }
    Ok(owners)
}

async fn fetch_owner(
    cluster: &Cluster,
    id: &ObjectId,
    kind: Option<&ResourceType>,
) -> Result<Option<Resource>, Failure> {
    match kind {
        // The content of a Secret is never read; its metadata says what set it is the parent of.
        Some(kind) if id.is("", "Secret") => {
            let object = cluster.fetch_metadata(kind, id).await?;
            Ok(object.map(|object| Resource { object, content: Value::Null }))
        }
        Some(kind) => cluster.fetch(kind, id).await,
        // Its type is not served, so it does not exist.
        None => Ok(None),
    }
}

/// Reads what the observer needs before a deletion, and then the claimed owner once more.
pub(super) async fn prepare(
    cluster: &Cluster,
    fresh: &ObjectMetadata,
    wanted: Vec<Address>,
    claimed_owner: &[(ResourceType, ObjectId, Option<ObjectMetadata>)],
) -> Result<Preparation, Failure> {
    let mut contents = vec![];
    for (id, kind) in wanted {
        let Some(kind) = kind else { continue };
        let content = cluster.fetch_json(&kind, &id).await?;
        let version = content.as_ref().and_then(|content| content.pointer("/metadata/resourceVersion")?.as_str());
        if id == fresh.id && version != Some(&*fresh.resource_version) {
            return Ok(Preparation::ObjectChanged);
        }
        contents.extend(content.map(|content| (id, content)));
    }
    let reads = try_join_all(claimed_owner.iter().map(|(kind, id, _)| cluster.fetch_metadata(kind, id))).await;
    let is_unchanged = reads.is_ok_and(|reads| {
        reads.iter().zip(claimed_owner).all(|(now, (_, _, known))| version(now.as_ref()) == version(known.as_ref()))
    });
    Ok(if is_unchanged { Preparation::Contents(contents) } else { Preparation::OwnerChanged })
}

fn version(object: Option<&ObjectMetadata>) -> Option<(&str, &str)> {
    object.map(|object| (&*object.uid, &*object.resource_version))
}

/// Sends a DELETE, and waits until the object is gone. Calls `waiting` with the finalizers whenever they change.
pub(super) async fn send(cluster: &Cluster, deletion: &Deletion, waiting: &mut dyn FnMut(&[String])) -> Sent {
    let Look { kind, fresh } = &deletion.look;
    let failure = match delete(cluster, kind, fresh, false).await {
        Ok(()) => return Sent::Ended(finish(cluster, deletion, waiting).await),
        Err(failure) if failure.kind == FailureKind::Conflict => return Sent::Again(failure),
        Err(failure) => failure,
    };
    let result = match settle(cluster, deletion, &failure).await {
        // A refused DELETE deleted nothing: somebody else did.
        Settled::Gone if !is_temporary(&failure) && !deletion.has_failed => DeletionResult::Gone,
        Settled::Gone => DeletionResult::Deleted,
        Settled::Terminating => finish(cluster, deletion, waiting).await,
        Settled::Unreadable(read) => {
            DeletionResult::Unknown(format!("{failure}; reading {} again failed too: {read}", fresh.id))
        }
        Settled::Unchanged if !is_temporary(&failure) => DeletionResult::Failed(failure.to_string()),
        Settled::Unchanged => {
            let pause = failure.retry_after.unwrap_or_default().max(PAUSE);
            if Instant::now() + pause >= deletion.end {
                return Sent::Ended(given_up(Some(failure)));
            }
            sleep(pause).await;
            return Sent::Again(failure);
        }
    };
    Sent::Ended(result)
}

/// Returns the result of a deletion after the last attempt.
pub(super) fn given_up(failed: Option<Failure>) -> DeletionResult {
    match failed {
        Some(failure) if failure.kind == FailureKind::Conflict => DeletionResult::Skipped(unsettled(ATTEMPTS)),
        Some(failure) if failure.code.is_none() => {
            DeletionResult::Unknown(format!("{failure}; the object still exists, and the DELETE may still take effect"))
        }
        Some(failure) => DeletionResult::Failed(failure.to_string()),
        None => DeletionResult::Skipped(unsettled(ATTEMPTS)),
    }
}

/// Waits until a deletion that the server accepted has taken effect.
pub(super) async fn finish(
    cluster: &Cluster,
    deletion: &Deletion,
    waiting: &mut dyn FnMut(&[String]),
) -> DeletionResult {
    let Look { kind, fresh } = &deletion.look;
    match wait_until_gone(cluster, kind, fresh, deletion.end, waiting).await {
        Ok(DeletionProgress::Gone) => DeletionResult::Deleted,
        Ok(DeletionProgress::Terminating(finalizers)) => DeletionResult::Terminating(finalizers),
        Ok(DeletionProgress::Unchanged) => {
            DeletionResult::Failed("the server accepted the deletion, but the object is not being deleted".to_owned())
        }
        Err(failure) => DeletionResult::Unknown(format!(
            "the server accepted the deletion, but the object cannot be read again: {failure}"
        )),
    }
}

/// Reads an object after a DELETE that failed. Without an answer, the DELETE may still take effect for a moment.
async fn settle(cluster: &Cluster, deletion: &Deletion, failure: &Failure) -> Settled {
    let Look { kind, fresh } = &deletion.look;
    let end = Instant::now() + if failure.code.is_some() { Duration::ZERO } else { GRACE };
    let mut pause = Duration::from_millis(50);
    loop {
        let settled = match cluster.fetch_metadata(kind, &fresh.id).await {
            Ok(Some(current)) if current.uid == fresh.uid && current.deletion_timestamp.is_none() => Settled::Unchanged,
            Ok(Some(current)) if current.uid == fresh.uid => return Settled::Terminating,
            Ok(_) => return Settled::Gone,
            Err(failure) => Settled::Unreadable(failure),
        };
        let wait_for_read = matches!(settled, Settled::Unreadable(_)) && pause < GRACE;
        if Instant::now() >= end && !wait_for_read {
            return settled;
        }
        sleep(pause).await;
        pause *= 2;
    }
}

/// Returns true if the same DELETE may succeed later: the server was busy, failed, or did not answer.
fn is_temporary(failure: &Failure) -> bool {
    failure.code.is_none_or(|code| code == 408 || code == 429 || code >= 500)
}
