//! Joins what objects claim with what owners recorded.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::marks::{bits, schemes_of};
use super::owner::owns;
pub use super::owner::{Given, Owner, sources_to_read};
use super::{Members, OwnerId, Reach, Record, SCHEMES, Scheme, flux_v1, qbec, settled};
use crate::object::{FullObject, GroupKind, Object, ObjectId};
use crate::snapshot::Snapshot;

/// The position of a member that is not among the snapshot's objects.
pub(super) const ABSENT: u32 = u32::MAX;

/// Owners and claims of one snapshot.
pub struct Index<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) owners: BTreeMap<OwnerId, Owner<'a>>,
    /// Where an identity is among the snapshot's objects.
    positions: HashMap<&'a ObjectId, u32>,
    /// Sets of owners that recorded the same objects; the first is empty. More than one owner is a conflict.
    groups: Vec<Vec<OwnerId>>,
    /// The group of each object of the snapshot.
    recorded: Vec<u32>,
    /// The group of members that are not in the snapshot.
    absent: HashMap<ObjectId, u32>,
    /// Identities in claims that stand for an owner.
    pub(super) aliases: HashMap<OwnerId, Vec<OwnerId>>,
    /// Secrets that prove claims: scheme, secret, owner.
    pub(super) proofs: Vec<(usize, String, OwnerId)>,
    /// Schemes (by bit) with an owner that claims cannot be resolved to.
    pub(super) opaque: u32,
    /// Marks of Flux v1 that more than one object carries.
    pub(super) repeated: HashSet<&'a str>,
}

impl<'a> Index<'a> {
    /// Reads every owner's record.
    pub fn build(snapshot: &'a Snapshot) -> Self {
        Self::build_with(snapshot, &Given::default())
    }

    /// As [`Index::build`], with what the user says.
    pub fn build_with(snapshot: &'a Snapshot, given: &Given) -> Self {
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
        index.fold();
        index.join();
        index
    }

    /// Owners that metadata alone shows, and what later steps need to know of marks: one pass over all objects.
    fn read_metadata(&mut self) {
        let snapshot = self.snapshot;
        let mut marks: HashSet<&'a str> = HashSet::new();
        let mut apps: HashMap<String, usize> = HashMap::new();
        for object in &snapshot.objects {
            let found = schemes_of(object);
            for n in bits(found.owner) {
                if snapshot.full(&object.id).is_none()
                    && let Some(record) = (SCHEMES[n].owner)(object, &Value::Null)
                {
                    self.enter(n, record, Some(object), None);
                }
            }
            for n in bits(found.member) {
                let scheme = SCHEMES[n];
                if *scheme == qbec::SCHEME && (scheme.reach)(object) == Reach::Normal {
                    qbec::owner_name(object).into_iter().for_each(|name| _ = apps.insert(name, n));
                } else if *scheme == flux_v1::SCHEME
                    && let Some(mark) = object.labels.get(flux_v1::MARK)
                    && !marks.insert(mark)
                {
                    self.repeated.insert(mark);
                }
            }
        }
        for (name, n) in apps {
            let id = OwnerId::new(SCHEMES[n].system, qbec::KIND, "", &name);
            self.enter(n, Record::new(id, Members::Selected(super::Scope::everywhere())), None, None);
        }
    }

    fn enter(&mut self, n: usize, record: Record, object: Option<&'a Object>, full: Option<&'a FullObject>) {
        let Record { id, aliases, opaque, secret, members, prunable, state, finished, rank } = record;
        if opaque {
            self.opaque |= 1 << n;
        }
        for alias in aliases {
            let owners = self.aliases.entry(alias).or_default();
            if !owners.contains(&id) {
                owners.push(id.clone());
            }
        }
        self.proofs.extend(secret.map(|secret| (n, secret, id.clone())));
        let state = match object {
            Some(object) => settled::during(state, object, self.snapshot.has_moved(object)),
            None => state,
        };
        let new = Owner {
            id: id.clone(),
            scheme: SCHEMES[n],
            positions: vec![],
            object,
            full,
            members,
            prunable,
            state,
            finished,
            rank,
        };
        match self.owners.remove(&id) {
            None => _ = self.owners.insert(id, new),
            Some(old) => {
                let newest = if new.rank > old.rank { (new, old) } else { (old, new) };
                self.owners.insert(id, newest.0.absorb(newest.1));
            }
        }
    }

    /// An owner that is another owner's record of itself (a Helm release that a HelmRelease drives, the ResourceGroup of
    /// a RootSync) becomes part of it.
    fn fold(&mut self) {
        let parts: Vec<(OwnerId, OwnerId)> = self
            .owners
            .keys()
            .filter_map(|id| {
                let whole =
                    self.aliases.get(id)?.iter().find(|whole| *whole != id && self.owners.contains_key(whole))?;
                Some((id.clone(), whole.clone()))
            })
            .collect();
        for (part, whole) in parts {
            if let (Some(part), Some(whole)) = (self.owners.remove(&part), self.owners.get_mut(&whole)) {
                let members = std::mem::replace(&mut whole.members, Members::Unrecorded);
                whole.members = members.or(part.members);
            }
        }
    }

    /// Who recorded what. A namespace on an entry of a cluster-scoped kind is dropped, as the API server drops it.
    fn join(&mut self) {
        let types = self.snapshot.types.iter().filter(|kind| !kind.namespaced);
        let cluster_scoped: HashSet<GroupKind> = types.map(crate::object::ResourceType::group_kind).collect();
        let Self { owners, groups, positions, recorded, absent, .. } = self;
        for owner in owners.values_mut() {
            let Members::Listed(ids) = &mut owner.members else {
                continue;
            };
            let alone = index_of(groups.len());
            groups.push(vec![owner.id.clone()]);
            let mut joined: HashMap<u32, u32> = HashMap::new();
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
                    *group = alone;
                } else if groups[*group as usize].last() != Some(&owner.id) {
                    *group = *joined.entry(*group).or_insert_with_key(|before| {
                        let mut together = groups[*before as usize].clone();
                        together.push(owner.id.clone());
                        groups.push(together);
                        index_of(groups.len() - 1)
                    });
                }
            }
        }
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
    pub(super) fn position(&self, id: &ObjectId) -> Option<usize> {
        self.positions.get(id).map(|at| *at as usize)
    }

    /// The live owners that recorded the object at a position.
    pub(super) fn recorded_at(&self, at: usize) -> &[OwnerId] {
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

/// Groups are fewer than members, and members that fit into memory fewer than this.
fn index_of(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(ABSENT)
}

#[cfg(test)]
mod tests;
