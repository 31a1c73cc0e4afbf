//! How an [`Index`] is filled: owners enter it one by one, parts of one owner are folded into it, and what they recorded is
//! joined with what lives.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{ABSENT, Index, Owner};
use crate::kubernetes::object::{GroupKind, ObjectMetadata, Resource};
use crate::ownership::keys::{bits, schemes_of};
use crate::ownership::schemes::{flux_v1, qbec};
use crate::ownership::{GcEligibility, Members, OwnerId, Record, SCHEMES, Scope, owner_status};

impl<'a> Index<'a> {
    /// Owners that metadata alone shows, and what later steps need to know of marks: one pass over all objects.
    pub(crate) fn read_metadata(&mut self) {
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
                if *scheme == qbec::SCHEME && (scheme.reach)(object) == GcEligibility::Normal {
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
            self.enter(n, Record::new(id, Members::Selected(Scope::everywhere())), None, None);
        }
    }

    pub(crate) fn enter(
        &mut self,
        n: usize,
        record: Record,
        object: Option<&'a ObjectMetadata>,
        full: Option<&'a Resource>,
    ) {
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
            Some(object) => owner_status::during(state, object, self.snapshot.changed_while_reading(object)),
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
            in_hub: false,
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
    pub(crate) fn fold(&mut self) {
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
    pub(crate) fn join(&mut self) {
        let types = self.snapshot.types.iter().filter(|kind| !kind.namespaced);
        let cluster_scoped: HashSet<GroupKind> =
            types.map(crate::kubernetes::object::ResourceType::group_kind).collect();
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
}

/// Groups are fewer than members, and members that fit into memory fewer than this.
fn index_of(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(ABSENT)
}
