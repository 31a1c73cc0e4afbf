//! Joins what objects claim with what owners recorded.

pub mod build;
pub mod owner;
#[cfg(test)]
mod tests;
pub mod unread;

use std::collections::{BTreeMap, HashMap, HashSet};

use super::schemes::flux_v1;
use super::{OwnerId, SCHEMES, Scheme};
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::snapshot::Snapshot;
use owner::owns;
pub use owner::{ExtraOwners, Owner, sources_to_read};

/// The position of a member that is not among the snapshot's objects.
pub(crate) const ABSENT: u32 = u32::MAX;

/// Owners and claims of one snapshot.
pub struct Index<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) owners: BTreeMap<OwnerId, Owner<'a>>,
    /// Where an identity is among the snapshot's objects.
    positions: HashMap<&'a ObjectId, u32>,
    /// Sets of owners that recorded the same objects; the first is empty. More than one owner is a conflict.
    groups: Vec<Vec<OwnerId>>,
    /// The group of each object of the snapshot.
    recorded: Vec<u32>,
    /// The group of members that are not in the snapshot.
    absent: HashMap<ObjectId, u32>,
    /// Identities in claims that stand for an owner.
    pub(crate) aliases: HashMap<OwnerId, Vec<OwnerId>>,
    /// Secrets that prove claims: scheme, secret, owner.
    pub(crate) proofs: Vec<(usize, String, OwnerId)>,
    /// Schemes (by bit) with an owner that claims cannot be resolved to.
    pub(crate) opaque: u32,
    /// Owners of which a hub has another of the same name that applies to other clusters, or to this one too.
    pub(crate) rivals: HashSet<OwnerId>,
    /// Why an owner that is not known may list what no known owner does.
    pub(crate) blind: Option<String>,
    /// Marks of Flux v1 that more than one object carries.
    pub(crate) repeated: HashSet<&'a str>,
}

impl<'a> Index<'a> {
    /// Reads every owner's record.
    pub fn build(snapshot: &'a Snapshot) -> Self {
        Self::build_with(snapshot, &ExtraOwners::default())
    }

    /// As [`Index::build`], with what the user says.
    pub fn build_with(snapshot: &'a Snapshot, given: &ExtraOwners) -> Self {
        let mut index = Self {
            snapshot,
            owners: BTreeMap::new(),
            positions: snapshot.objects.iter().map(|object| &object.id).zip(0..).collect(),
            groups: vec![vec![]],
            recorded: vec![0; snapshot.objects.len()],
            absent: HashMap::new(),
            aliases: HashMap::new(),
            proofs: vec![],
            opaque: 0,
            blind: None,
            rivals: HashSet::new(),
            repeated: HashSet::new(),
        };
        for full in &snapshot.full {
            let of = |scheme: &&'static Scheme| owns(scheme, &full.object);
            for (n, scheme) in SCHEMES.iter().copied().enumerate().filter(|(_, scheme)| of(scheme)) {
                if let Some(record) = (scheme.owner)(&full.object, &full.content) {
                    index.enter(n, record, Some(&full.object), Some(full));
                }
            }
        }
        index.read_metadata();
        let v1 = SCHEMES.iter().position(|scheme| **scheme == flux_v1::SCHEME).unwrap_or_default();
        given.flux_v1.iter().for_each(|source| index.enter(v1, source.record(), None, None));
        index.blind = index.unread_lister();
        given.hub.iter().for_each(|hub| index.enter_hub(hub));
        index.fold();
        index.join();
        index
    }

    /// The snapshot that this index is of.
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// Every live owner, in order.
    pub fn owners(&self) -> impl Iterator<Item = &Owner<'a>> {
        self.owners.values()
    }

    /// The live owner of this identity.
    pub fn owner(&self, id: &OwnerId) -> Option<&Owner<'a>> {
        self.owners.get(id)
    }

    /// The live owner that an object is.
    pub fn owner_of_object(&self, id: &ObjectId) -> Option<&Owner<'a>> {
        let systems = SCHEMES.iter().filter(|scheme| scheme.owner_kinds.iter().any(|(group, kind)| id.is(group, kind)));
        let mut ids = systems.map(|scheme| OwnerId::new(scheme.system, &id.kind, &id.namespace, &id.name));
        ids.find_map(|id| self.owners.get(&id))
    }

    /// Whether any live owner of a system is in the cluster.
    pub fn has_system(&self, system: &str) -> bool {
        self.owners.keys().any(|id| id.system == system)
    }

    /// Where an identity is among the snapshot's objects.
    pub(crate) fn position(&self, id: &ObjectId) -> Option<usize> {
        self.positions.get(id).map(|at| *at as usize)
    }

    /// The live owners that recorded the object at a position.
    pub(crate) fn recorded_at(&self, at: usize) -> &[OwnerId] {
        &self.groups[self.recorded[at] as usize]
    }

    /// The live owners that recorded an object.
    pub fn recorded_by(&self, id: &ObjectId) -> &[OwnerId] {
        let group = match self.position(id) {
            Some(at) => self.recorded[at],
            None => self.absent.get(id).copied().unwrap_or_default(),
        };
        &self.groups[group as usize]
    }
}
