//! A live owner, and which objects are owners.

use chrono::{DateTime, Utc};

use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::hub::Hub;
use crate::ownership::keys::schemes_of;
use crate::ownership::schemes::flux_v1;
use crate::ownership::{Members, OwnerId, OwnerSource, OwnerStatus, SCHEMES, Scheme};

/// What the user says of owners that the cluster cannot show.
#[derive(Clone, Debug, Default)]
pub struct ExtraOwners {
    /// Sources of Flux v1 installations.
    pub flux_v1: Vec<flux_v1::GitSource>,
    /// A hub cluster whose owners may apply to this one.
    pub hub: Option<Hub>,
}

/// A live owner.
#[derive(Clone, Debug)]
pub struct Owner<'a> {
    /// Identity.
    pub id: OwnerId,
    /// Its scheme.
    pub scheme: &'static Scheme,
    /// The object that it is, or that records it; none for owners that live in labels alone (qbec) or were given.
    pub object: Option<&'a ObjectMetadata>,
    /// That object with content, where it was read in full.
    pub full: Option<&'a Resource>,
    /// What it recorded.
    pub members: Members,
    /// Members that the owner itself says it will prune.
    pub prunable: Vec<ObjectId>,
    /// Whether the record can be trusted now.
    pub state: OwnerStatus,
    /// When it last finished writing its objects, where it says so.
    pub finished: Option<DateTime<Utc>>,
    /// Whether it lives in a hub cluster.
    pub in_hub: bool,
    /// Where the listed members are among the snapshot's objects; [`ABSENT`] for those that are not.
    pub(crate) positions: Vec<u32>,
    pub(crate) rank: u64,
}

impl Owner<'_> {
    /// Takes what an older or lesser reading of the same owner knew beyond this one.
    pub(crate) fn absorb(self, other: Self) -> Self {
        let members = self.members.or(other.members);
        Self { members, object: self.object.or(other.object), full: self.full.or(other.full), ..self }
    }
}

/// Which owners of a general kind a cluster has, so that they need reading in full: a sweep of metadata shows it.
pub fn sources_to_read(snapshot: &Snapshot) -> Vec<OwnerSource> {
    let marked = snapshot.objects.iter().fold(0, |all, object| all | schemes_of(object).member);
    let mut wanted = vec![];
    for (n, scheme) in SCHEMES.iter().enumerate() {
        for source in scheme.owner_sources.iter().filter(|source| source.full) {
            let needed = !source.only_if_marked || marked & (1 << n) != 0;
            let is_there =
                |object: &ObjectMetadata| object.id.is(source.group, source.kind) && selects(source.selector, object);
            if needed && snapshot.objects.iter().any(is_there) {
                wanted.push(*source);
            }
        }
    }
    wanted
}

/// Whether an object is one that a scheme reads in full as an owner.
pub(crate) fn owns(scheme: &Scheme, object: &ObjectMetadata) -> bool {
    let source = |source: &OwnerSource| object.id.is(source.group, source.kind) && selects(source.selector, object);
    scheme.owner_kinds.iter().any(|(group, kind)| object.id.is(group, kind)) || scheme.owner_sources.iter().any(source)
}

fn selects(selector: &str, object: &ObjectMetadata) -> bool {
    match selector.split_once('=') {
        None if selector.is_empty() => true,
        None => object.labels.get(selector).is_some(),
        Some((key, value)) => object.labels.get(key) == Some(value),
    }
}
