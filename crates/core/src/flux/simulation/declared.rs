//! The objects that owners declare once a tree is their source, whether or not anything keeps them from being applied.

use std::collections::{BTreeMap, BTreeSet};

use super::Preview;
use super::model::affected_owner::Reaction;
use super::model::facts::unknown_builds::follows_another_tree;
use super::model::node::{Pass, PassOutcome};
use super::rows::secret_names::secret_mask;
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::mask::SecretMask;
use crate::plan::{Plan, Reason, ReasonCode};

/// Objects in the inventories of releases and ResourceSets, by owner.
pub type Recorded = BTreeMap<ObjectId, BTreeSet<ObjectId>>;

/// Objects that owners declare in a revision. It is written without values of Secrets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declared {
    /// Owners by object.
    pub objects: BTreeMap<ObjectId, BTreeSet<ObjectId>>,
    /// Owners of which it is not known what they declare.
    pub unknown: BTreeMap<ObjectId, Reason>,
    /// Those of them that certainly apply nothing, so that what they applied before stays.
    pub blocked: BTreeSet<ObjectId>,
}

impl Preview<'_> {
    /// Returns the wanted objects that owners declare, after the last step, which gave `plan`. What derives from a Secret is
    /// left out. An owner in `recorded` that the trees do not change declares what its inventory lists.
    pub fn declared(&self, plan: &Plan, recorded: &Recorded, is_wanted: impl Fn(&ObjectId) -> bool) -> Declared {
        let mut declared = Declared::default();
        let secrets = secret_mask(&self.state);
        for node in self.state.nodes.iter().filter(|node| node.may_stay()) {
            let key = &node.id.key;
            let owner = secrets.written(&ObjectId::new(GROUP, KIND, &key.namespace, &key.name));
            match node.last_pass().map(|pass| &pass.outcome) {
                Some(PassOutcome::Blocked(reason)) => {
                    declared.leave_open(&owner, reason, &secrets);
                    declared.blocked.insert(owner.clone());
                }
                Some(PassOutcome::Unknown(reason)) if !follows_another_tree(reason) => {
                    declared.leave_open(&owner, reason, &secrets);
                }
                _ => {}
            }
            let objects = node.last_pass().and_then(Pass::desired_objects).into_iter().flatten();
            declared.add(&owner, objects.map(|(id, _)| id), &is_wanted);
        }
        for owner in &self.state.affected {
            let id = secrets.written(&owner.id);
            match &owner.reaction {
                Reaction::Unknown(reason) | Reaction::Waits(reason) => declared.leave_open(&id, reason, &secrets),
                Reaction::Installs(remark) if !owner.id.is(GROUP, KIND) => {
                    declared.leave_open(&id, &Reason::new(ReasonCode::NotFollowed, *remark), &secrets);
                }
                _ => {}
            }
        }
        let deleted: BTreeSet<&ObjectId> =
            plan.changes().iter().filter(|row| row.is_deletion()).map(|row| &row.object.id).collect();
        let unaffected = recorded.iter().filter(|(id, _)| self.state.affected_owner(id).is_none());
        for (owner, listed) in unaffected.filter(|(id, _)| !deleted.contains(id)) {
            declared.add(&secrets.written(owner), listed.iter(), &is_wanted);
        }
        for (owner, applies) in self.state.owner_applies() {
            declared.add(&secrets.written(owner), applies.objects.keys(), &is_wanted);
        }
        declared
    }
}

impl Declared {
    /// Returns true if it is not known what one of these owners declares: it may be what it declared before.
    pub fn leaves_open(&self, owners: &BTreeSet<ObjectId>) -> bool {
        owners.iter().any(|owner| self.unknown.contains_key(owner))
    }

    fn leave_open(&mut self, owner: &ObjectId, reason: &Reason, secrets: &SecretMask) {
        self.unknown.insert(owner.clone(), reason.with_texts(|text| secrets.mask(text)));
    }

    fn add<'o>(
        &mut self,
        owner: &ObjectId,
        objects: impl Iterator<Item = &'o ObjectId>,
        is_wanted: impl Fn(&ObjectId) -> bool,
    ) {
        for id in objects.filter(|id| !id.is_private() && is_wanted(id)) {
            self.objects.entry(id.clone()).or_default().insert(owner.clone());
        }
    }
}
