//! Joins what objects claim with what owners recorded.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{Claim, Members, OwnerId, SCHEMES, Scheme, Strength};
use crate::object::{FullObject, Object, ObjectId};
use crate::snapshot::Snapshot;

/// Whether an owner's record can be trusted right now; anything but `Settled` keeps its leaked objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "why", rename_all = "kebab-case")]
pub enum OwnerState {
    /// Ready for its current generation, not suspended, not reconciling, unchanged during the scan.
    Settled,
    /// Suspended.
    Suspended,
    /// Not Ready.
    NotReady(String),
    /// A reconcile is under way, or the last change is not observed yet.
    Reconciling,
    /// Its resource version moved while objects were being read.
    Changed,
    /// Being deleted.
    Terminating,
}

/// A live owner.
#[derive(Clone, Debug)]
pub struct Owner<'a> {
    /// Identity.
    pub id: OwnerId,
    /// The object itself.
    pub object: &'a FullObject,
    /// What it recorded.
    pub members: Members,
    /// Whether the record can be trusted now.
    pub state: OwnerState,
}

/// What an object is, seen from all schemes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Recorded by the owner that it claims.
    Managed(OwnerId),
    /// Carries a live owner's claim, but the owner's inventory does not list it.
    Leaked(Claim),
    /// Carries a claim of an owner that does not exist.
    Orphaned(Claim),
    /// Carries marks that were copied from another object.
    Copied(Claim),
    /// No claim, no controller reference.
    Unmanaged,
    /// No claim, but a controller reference: something else in the cluster made it.
    Controlled,
}

/// Owners and claims of one snapshot.
pub struct Index<'a> {
    snapshot: &'a Snapshot,
    owners: BTreeMap<OwnerId, Owner<'a>>,
    /// Who recorded an object; more than one owner is a conflict.
    recorded: HashMap<ObjectId, Vec<OwnerId>>,
}

impl<'a> Index<'a> {
    /// Reads every owner's record.
    pub fn build(snapshot: &'a Snapshot) -> Self {
        let mut owners = BTreeMap::new();
        let mut recorded: HashMap<ObjectId, Vec<OwnerId>> = HashMap::new();
        for full in &snapshot.full {
            let Some(scheme) = scheme_of(full) else { continue };
            let id = owner_id(scheme, full);
            let members = (scheme.members)(full);
            if let Members::Listed(ids) = &members {
                for member in ids {
                    recorded.entry(member.clone()).or_default().push(id.clone());
                }
            }
            let state = state(full, snapshot.object(&full.object.id));
            owners.insert(id.clone(), Owner { id, object: full, members, state });
        }
        Self { snapshot, owners, recorded }
    }

    /// Every live owner, in order.
    pub fn owners(&self) -> impl Iterator<Item = &Owner<'a>> {
        self.owners.values()
    }

    /// The live owner of this identity.
    pub fn owner(&self, id: &OwnerId) -> Option<&Owner<'a>> {
        self.owners.get(id)
    }

    /// Whether any live owner of a system is in the cluster.
    pub fn has_system(&self, system: &str) -> bool {
        self.owners.keys().any(|id| id.system == system)
    }

    /// The live owners that recorded an object.
    pub fn recorded_by(&self, id: &ObjectId) -> &[OwnerId] {
        self.recorded.get(id).map_or(&[], Vec::as_slice)
    }

    /// Every object with its standing.
    pub fn standings(&self) -> impl Iterator<Item = (&'a Object, Standing)> {
        self.snapshot.objects.iter().map(|object| (object, self.standing(object)))
    }

    /// What an object is.
    pub fn standing(&self, object: &Object) -> Standing {
        let recorded = self.recorded_by(&object.id);
        let claim = claims(object).into_iter().next();
        match (claim, recorded.first()) {
            (Some(claim), _) if recorded.contains(&claim.owner) => Standing::Managed(claim.owner),
            (_, Some(owner)) => Standing::Managed(owner.clone()),
            (Some(claim), None) if claim.strength == Strength::Contradicted => Standing::Copied(claim),
            (Some(claim), None) if self.owners.contains_key(&claim.owner) => match claim.strength {
                Strength::Bare => Standing::Copied(claim),
                _ => Standing::Leaked(claim),
            },
            (Some(claim), None) => Standing::Orphaned(claim),
            (None, None) if object.controller().is_some() => Standing::Controlled,
            (None, None) => Standing::Unmanaged,
        }
    }
}

/// Every claim that an object makes, in the order of [`SCHEMES`].
pub fn claims(object: &Object) -> Vec<Claim> {
    SCHEMES.iter().filter_map(|scheme| (scheme.claim)(object)).collect()
}

fn scheme_of(full: &FullObject) -> Option<&'static Scheme> {
    let id = &full.object.id;
    SCHEMES.into_iter().find(|scheme| scheme.owner_kinds.iter().any(|(group, kind)| id.is(group, kind)))
}

fn owner_id(scheme: &Scheme, full: &FullObject) -> OwnerId {
    let id = &full.object.id;
    OwnerId {
        system: scheme.system.to_owned(),
        kind: id.kind.to_string(),
        namespace: id.namespace.to_string(),
        name: id.name.to_string(),
    }
}

/// An owner is read twice: its metadata before the objects, its content after them. Its record speaks for the objects
/// only when nothing happened in between and nothing is happening now.
fn state(full: &FullObject, before: Option<&Object>) -> OwnerState {
    let object = &full.object;
    if object.deleting.is_some() {
        return OwnerState::Terminating;
    }
    if crate::suspension::effective(full).is_some() {
        return OwnerState::Suspended;
    }
    let observed = full.at("/status/observedGeneration").and_then(serde_json::Value::as_i64);
    if full.condition("Reconciling").is_some_and(|condition| condition.status == "True")
        || observed.is_some_and(|generation| generation != object.generation)
    {
        return OwnerState::Reconciling;
    }
    match full.condition("Ready") {
        Some(ready) if ready.status == "True" => {}
        Some(ready) if ready.status == "Unknown" => return OwnerState::Reconciling,
        Some(ready) => return OwnerState::NotReady(ready.message.to_owned()),
        None => return OwnerState::NotReady("it has no Ready condition yet".to_owned()),
    }
    match before {
        Some(before) if before.resource_version != object.resource_version => OwnerState::Changed,
        _ => OwnerState::Settled,
    }
}
