//! Construction of an [`Index`]: owners are added one by one, records of one owner are merged, and recorded members are
//! matched with live objects.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::{ABSENT, Index, Owner};
use crate::kubernetes::object::{GroupKind, ObjectMetadata, Resource, ResourceType};
use crate::ownership::keys::{bits, schemes_of};
use crate::ownership::scheme::Record;
use crate::ownership::scheme::claim::OwnerId;
use crate::ownership::scheme::members::{Members, Scope};
use crate::ownership::schemes::registry::SCHEMES;

impl<'a> Index<'a> {
    /// Adds the owners that were read in full.
    pub(super) fn add_full_owners(&mut self) {
        for full in &self.snapshot.full {
            for (n, scheme) in SCHEMES.iter().enumerate().filter(|(_, scheme)| scheme.reads_as_owner(&full.object)) {
                if let Some(record) = (scheme.owner)(&full.object, &full.content) {
                    self.add(n, record, Some(&full.object), Some(full));
                }
            }
        }
    }

    /// Adds the owners that metadata alone shows, and finds labels that several objects carry: one pass over all objects.
    pub(super) fn add_metadata_owners(&mut self) {
        let snapshot = self.snapshot;
        let mut unique_labels: HashSet<(usize, &'a str)> = HashSet::new();
        let mut derived: BTreeMap<OwnerId, usize> = BTreeMap::new();
        for object in &snapshot.objects {
            let schemes = schemes_of(object);
            for n in bits(schemes.owner) {
                if snapshot.full(&object.id).is_none()
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
    pub(super) fn merge_aliased_owners(&mut self) {
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
                target.members = members.or(merged.members);
            }
        }
    }

    /// Matches recorded members with live objects. The namespace of a cluster-scoped member is dropped, as the API server
    /// drops it.
    pub(super) fn record_members(&mut self) {
        let cluster_scoped = self.snapshot.types.iter().filter(|kind| !kind.namespaced);
        let cluster_scoped: HashSet<GroupKind> = cluster_scoped.map(ResourceType::group_kind).collect();
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
