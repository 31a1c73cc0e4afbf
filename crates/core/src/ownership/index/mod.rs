//! Index of one snapshot: its owners, and which of them recorded which object.

pub mod hub;
mod hub_owners;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde_json::Value;

use self::hub::Hub;
use super::rules::keys::{bits, schemes_of};
use super::scheme::claim::OwnerId;
use super::scheme::members::{Members, Scope};
use super::scheme::owner_status::OwnerStatus;
use super::scheme::{OwnerSource, Record, Scheme};
use super::schemes::registry::SCHEMES;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata, Resource, ResourceType};
use crate::kubernetes::snapshot::Snapshot;

/// Position of a member that is not among the snapshot's objects.
pub(crate) const ABSENT: u32 = u32::MAX;

/// Owners that the objects of the cluster do not show.
#[derive(Clone, Debug, Default)]
pub struct ExtraOwners {
    /// Owners that the user described, such as the Git source of a Flux v1 that is gone.
    pub described: Vec<(&'static Scheme, Record)>,
    /// Hub cluster whose owners may apply to this one.
    pub hub: Option<Hub>,
}

/// A live owner, with what it recorded.
#[derive(Clone, Debug)]
pub struct Owner<'a> {
    pub id: OwnerId,
    /// Scheme that read it.
    pub scheme: &'static Scheme,
    /// Its object, or the object that records it; none for owners that only labels name, or that the user described.
    pub object: Option<&'a ObjectMetadata>,
    /// Its object with content, where that was read in full.
    pub full: Option<&'a Resource>,
    pub members: Members,
    /// Members that the owner itself announces to prune.
    pub prunable: Vec<ObjectId>,
    /// Current status; only the record of a ready owner can be trusted.
    pub status: OwnerStatus,
    /// Time at which it last finished writing its objects, where it says so.
    pub finished: Option<DateTime<Utc>>,
    /// True if it is in a hub cluster.
    pub in_hub: bool,
    /// Positions of the listed members among the snapshot's objects, [`ABSENT`] for members that are not there.
    pub(crate) positions: Vec<u32>,
    rank: u64,
}

/// Owners and claims of one snapshot.
pub struct Index<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) owners: BTreeMap<OwnerId, Owner<'a>>,
    /// Positions of the snapshot's objects.
    positions: HashMap<&'a ObjectId, u32>,
    /// Sets of owners that recorded the same objects; the first is empty. Several owners are a conflict.
    groups: Vec<Vec<OwnerId>>,
    /// Group of each object of the snapshot.
    recorded: Vec<u32>,
    /// Group of each member that is not in the snapshot.
    absent: HashMap<ObjectId, u32>,
    /// Live owners by the other identities under which claims name them.
    pub(crate) aliases: HashMap<OwnerId, Vec<OwnerId>>,
    /// Number of a scheme, verification key and owner, for [`Scheme::verify`].
    pub(crate) verification_keys: Vec<(usize, String, OwnerId)>,
    /// Schemes (by bit) with an owner that claims cannot be resolved to.
    pub(crate) unresolvable: u32,
    /// Owners with the same name as an owner in the hub that applies to another cluster, or to this one too.
    pub(crate) hub_conflicts: HashSet<OwnerId>,
    /// Reason why an owner that was not read may list what no known owner lists.
    pub(crate) unread_owner_reason: Option<String>,
    /// Number of a scheme, and the values of its unique label that several objects carry.
    pub(crate) repeated_labels: HashSet<(usize, &'a str)>,
}

impl Owner<'_> {
    /// Returns true if the owner looks for its members where an object is.
    pub(crate) fn covers(&self, id: &ObjectId) -> bool {
        matches!(&self.members, Members::Selected(scope) if scope.covers(id))
    }

    /// Returns true if the record proves nothing about an object, because whoever may write in the namespace of the owner
    /// may change it, and the object is elsewhere. What the user described, and owners of the whole cluster, are trusted.
    pub(crate) fn is_open_to_tenants(&self, id: &ObjectId) -> bool {
        let namespace = &self.id.namespace;
        self.scheme.has_open_record
            && self.object.is_some()
            && !namespace.is_empty()
            && **namespace != *id.namespace
            && self.scheme.home != Some(namespace)
    }
}

impl<'a> Index<'a> {
    /// Returns the index of a snapshot.
    pub fn build(snapshot: &'a Snapshot) -> Self {
        Self::build_with(snapshot, &ExtraOwners::default())
    }

    /// Returns the index of a snapshot and of owners that it does not show.
    pub fn build_with(snapshot: &'a Snapshot, extra: &ExtraOwners) -> Self {
        let mut index = Self {
            snapshot,
            owners: BTreeMap::new(),
            positions: snapshot.ids().zip(0..).collect(),
            groups: vec![vec![]],
            recorded: vec![0; snapshot.objects.len()],
            absent: HashMap::new(),
            aliases: HashMap::new(),
            verification_keys: vec![],
            unresolvable: 0,
            hub_conflicts: HashSet::new(),
            unread_owner_reason: None,
            repeated_labels: HashSet::new(),
        };
        index.add_full_owners();
        index.add_metadata_owners();
        for (scheme, record) in &extra.described {
            index.add(scheme_number(scheme), record.clone(), None, None);
        }
        index.unread_owner_reason = index.find_unread_owners();
        extra.hub.iter().for_each(|hub| index.add_hub(hub));
        index.merge_aliased_owners();
        index.record_members();
        index
    }

    /// Returns the snapshot that was indexed.
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// Returns all live owners in order.
    pub fn owners(&self) -> impl Iterator<Item = &Owner<'a>> {
        self.owners.values()
    }

    /// Returns the live owner with an identity.
    pub fn owner(&self, id: &OwnerId) -> Option<&Owner<'a>> {
        self.owners.get(id)
    }

    /// Returns the live owner that an object is.
    pub(crate) fn owner_of_object(&self, id: &ObjectId) -> Option<&Owner<'a>> {
        if id.cluster.is_some() {
            return None;
        }
        let schemes = SCHEMES.iter().filter(|scheme| scheme.has_owner_kind(id));
        let mut ids = schemes.map(|scheme| OwnerId::new(scheme.system, &id.kind, &id.namespace, &id.name));
        ids.find_map(|id| self.owners.get(&id))
    }

    /// Returns the position of an object in the snapshot.
    pub(crate) fn position(&self, id: &ObjectId) -> Option<usize> {
        self.positions.get(id).map(|at| *at as usize)
    }

    /// Returns the live owners that recorded the object at a position.
    pub(crate) fn recorded_at(&self, at: usize) -> &[OwnerId] {
        &self.groups[self.recorded[at] as usize]
    }

    pub fn recorded_by(&self, id: &ObjectId) -> &[OwnerId] {
        let group = match self.position(id) {
            Some(at) => self.recorded[at],
            None => self.absent.get(id).copied().unwrap_or_default(),
        };
        &self.groups[group as usize]
    }
}

impl<'a> Index<'a> {
    /// Adds the owners that were read in full.
    fn add_full_owners(&mut self) {
        for full in &self.snapshot.resources {
            for (n, scheme) in SCHEMES.iter().enumerate().filter(|(_, scheme)| scheme.reads_as_owner(&full.object)) {
                if let Some(record) = (scheme.owner)(&full.object, &full.content) {
                    self.add(n, record, Some(&full.object), Some(full));
                }
            }
        }
    }

    /// Adds the owners that metadata alone shows, and finds labels that several objects carry: one pass over all objects.
    fn add_metadata_owners(&mut self) {
        let snapshot = self.snapshot;
        let mut unique_labels: HashSet<(usize, &'a str)> = HashSet::new();
        let mut derived: BTreeMap<OwnerId, usize> = BTreeMap::new();
        for object in &snapshot.objects {
            let schemes = schemes_of(object);
            for n in bits(schemes.owner) {
                if snapshot.resource(&object.id).is_none()
                    && let Some(record) = (SCHEMES[n].owner)(object, &Value::Null)
                {
                    self.add(n, record, Some(object), None);
                }
            }
            for n in bits(schemes.member) {
                if let Some(owner) = (SCHEMES[n].derive_owner)(object) {
                    derived.insert(owner, n);
                }
                if let Some(value) = SCHEMES[n].unique_label.and_then(|key| object.labels.get(key))
                    && !unique_labels.insert((n, value))
                {
                    self.repeated_labels.insert((n, value));
                }
            }
        }
        for (id, n) in derived {
            self.add(n, Record::new(id, Members::Selected(Scope::everywhere())), None, None);
        }
    }

    /// Adds one owner. If it is there already, the newer record is completed with what only the older one has.
    pub(crate) fn add(
        &mut self,
        n: usize,
        record: Record,
        object: Option<&'a ObjectMetadata>,
        full: Option<&'a Resource>,
    ) {
        let Record { id, aliases, is_unresolvable, verification_key, members, prunable, status, finished, rank } =
            record;
        if is_unresolvable {
            self.unresolvable |= 1 << n;
        }
        for alias in aliases {
            let owners = self.aliases.entry(alias).or_default();
            if !owners.contains(&id) {
                owners.push(id.clone());
            }
        }
        self.verification_keys.extend(verification_key.map(|key| (n, key, id.clone())));
        let status = match object {
            Some(object) => status.after_reading(object, self.snapshot.changed_while_reading(object)),
            None => status,
        };
        let mut owner = Owner {
            id: id.clone(),
            scheme: SCHEMES[n],
            positions: vec![],
            object,
            full,
            members,
            prunable,
            status,
            finished,
            rank,
            in_hub: false,
        };
        if let Some(known) = self.owners.remove(&id) {
            let (newer, older) = if owner.rank > known.rank { (owner, known) } else { (known, owner) };
            owner = Owner {
                members: newer.members.or(older.members),
                object: newer.object.or(older.object),
                full: newer.full.or(older.full),
                ..newer
            };
        }
        self.owners.insert(id, owner);
    }

    /// Merges an owner that is the record of another owner (the Helm release of a HelmRelease, the ResourceGroup of a
    /// RootSync) into that owner.
    fn merge_aliased_owners(&mut self) {
        let mut merges: Vec<(OwnerId, OwnerId)> = vec![];
        for id in self.owners.keys() {
            let mut named = self.aliases.get(id).into_iter().flatten();
            if let Some(target) = named.find(|target| *target != id && self.owners.contains_key(target)) {
                merges.push((id.clone(), target.clone()));
            }
        }
        for (id, target) in merges {
            if let (Some(merged), Some(target)) = (self.owners.remove(&id), self.owners.get_mut(&target)) {
                let members = std::mem::replace(&mut target.members, Members::Unrecorded);
                target.members = members.joined(merged.members);
            }
        }
    }

    /// Matches recorded members with live objects, without the namespace of cluster-scoped members: the API
    /// server drops it too.
    fn record_members(&mut self) {
        let cluster_scoped: HashSet<GroupKind> =
            self.snapshot.types.iter().filter(|kind| !kind.namespaced).map(ResourceType::group_kind).collect();
        let Self { owners, groups, positions, recorded, absent, .. } = self;
        for owner in owners.values_mut() {
            let Members::Listed(ids) = &mut owner.members else {
                continue;
            };
            let own_group = group_number(groups.len());
            groups.push(vec![owner.id.clone()]);
            let mut extended: HashMap<u32, u32> = HashMap::new();
            for id in ids.iter_mut() {
                if !id.namespace.is_empty() && cluster_scoped.contains(&id.group_kind()) {
                    id.namespace = "".into();
                }
                let position = positions.get(id).copied().unwrap_or(ABSENT);
                owner.positions.push(position);
                let group = match recorded.get_mut(position as usize) {
                    Some(group) => group,
                    None => absent.entry(id.clone()).or_default(),
                };
                if *group == 0 {
                    *group = own_group;
                } else if groups[*group as usize].last() != Some(&owner.id) {
                    *group = *extended.entry(*group).or_insert_with_key(|before| {
                        let mut owners = groups[*before as usize].clone();
                        owners.push(owner.id.clone());
                        groups.push(owners);
                        group_number(groups.len() - 1)
                    });
                }
            }
        }
    }
}

/// There are fewer groups than members, and fewer members in memory than this limit.
fn group_number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(ABSENT)
}

/// Returns the position of a scheme in the registry.
pub(crate) fn scheme_number(scheme: &Scheme) -> usize {
    SCHEMES.iter().position(|known| *known == scheme).expect("every scheme is in the registry")
}

/// Returns the owners of general kinds that must be read in full, by the metadata of a cluster.
pub fn sources_to_read(snapshot: &Snapshot) -> Vec<OwnerSource> {
    let claimed = snapshot.objects.iter().fold(0, |all, object| all | schemes_of(object).member);
    let mut sources = vec![];
    for (n, scheme) in SCHEMES.iter().enumerate() {
        for source in scheme.owner_sources.iter().filter(|source| source.full) {
            let is_needed = !source.only_if_claimed || claimed & (1 << n) != 0;
            if is_needed && snapshot.objects.iter().any(|object| source.includes(object)) {
                sources.push(*source);
            }
        }
    }
    sources
}
