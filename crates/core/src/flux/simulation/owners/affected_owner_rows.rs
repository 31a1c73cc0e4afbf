//! Rows, outcomes and gaps of owners whose effect is not computed.

use std::collections::{BTreeMap, BTreeSet};

use super::resource_set::set_owner;
use crate::flux::simulation::model::affected_owner::{Effect, Unfollowed};
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::{flux_helmrelease, flux_kustomization, flux_operator};
use crate::ownership::{Members, OwnerId};
use crate::plan::{Action, Actor, Change, Outcome, OwnerOutcome, PinnedObject, Plan};

impl Unfollowed {
    fn owner(&self) -> OwnerId {
        OwnerId::new("flux", &self.id.kind, &self.id.namespace, &self.id.name)
    }

    fn is_kustomization(&self) -> bool {
        self.id.is(flux_kustomization::GROUP, flux_kustomization::KIND)
    }

    fn actor(&self) -> Actor {
        match &*self.id.group {
            flux_kustomization::GROUP => Actor::KustomizeController,
            flux_helmrelease::GROUP => Actor::HelmController,
            flux_operator::GROUP => Actor::FluxOperator,
            _ => Actor::SourceWatcher,
        }
    }
}

impl State<'_> {
    /// Adds the affected owners to a plan: an outcome, a row and a gap for each whose effect is not known.
    pub(crate) fn add_unfollowed(&self, plan: &mut Plan) {
        for unfollowed in &self.unfollowed {
            let (owner, id) = (unfollowed.owner(), &unfollowed.id);
            match &unfollowed.effect {
                Effect::Creates(remark) => plan.update_changes(|change| {
                    if change.object.id == *id && matches!(change.action, Action::Create | Action::Recreate) {
                        change.reason.add_detail(remark);
                    }
                }),
                Effect::Suspended(reason)
                | Effect::Fails(reason)
                | Effect::Generates(reason)
                | Effect::Replaces(reason)
                | Effect::Expands(_, reason)
                | Effect::Upgrades(_, reason) => {
                    if let Effect::Upgrades(upgrade, _) = &unfollowed.effect
                        && let Some(message) = &upgrade.assumption
                    {
                        let (subject, message) = (format!("effect of the change on {owner}"), message.clone());
                        plan.add_gaps([Gap { kind: GapKind::Failed, subject, namespace: None, message }]);
                    }
                    let outcome = match unfollowed.effect {
                        Effect::Suspended(_) | Effect::Fails(_) => Outcome::Blocked,
                        _ => Outcome::Applies,
                    };
                    let outcome = OwnerOutcome::new(owner, outcome, reason.clone());
                    plan.add_owners([OwnerOutcome { parents: self.parents_of(id), ..outcome }]);
                }
                Effect::Unknown(reason) => {
                    if !unfollowed.is_kustomization() {
                        let outcome = OwnerOutcome::new(owner.clone(), Outcome::Unknown, reason.clone());
                        plan.add_owners([OwnerOutcome { parents: self.parents_of(id), ..outcome }]);
                    }
                    let subject = format!("effect of the change on {owner}");
                    let message = reason.detail.clone();
                    plan.add_gaps([Gap { kind: GapKind::Failed, subject, namespace: None, message }]);
                    if plan.changes().iter().any(|change| change.object.id == *id) {
                        plan.update_changes(|change| {
                            if change.object.id == *id {
                                change.reason.add_detail(&reason.detail);
                            }
                        });
                        continue;
                    }
                    let object = match self.live_object(id) {
                        Some(live) => PinnedObject::from(live),
                        None => PinnedObject::absent(id.clone()),
                    };
                    let by = unfollowed.actor();
                    plan.add_changes([Change::new(Action::Unknown, object, Some(owner), by, reason.clone())]);
                }
            }
        }
    }

    /// Sets the outcomes of Kustomizations whose effect is not computed, and the parents of those that such an owner
    /// manages.
    pub(crate) fn add_unfollowed_outcomes(&self, owners: &mut BTreeMap<&NamespacedName, OwnerOutcome>) {
        for (set, expansion) in self.expansions() {
            for child in
                expansion.objects.keys().filter(|id| id.is(flux_kustomization::GROUP, flux_kustomization::KIND))
            {
                if let Some(row) = owners.get_mut(&NamespacedName::of(child)) {
                    row.parents.insert(set_owner(set));
                }
            }
        }
        for found in &self.unfollowed {
            let Effect::Unknown(reason) = &found.effect else { continue };
            let kustomization = owners.get_mut(&NamespacedName::of(&found.id)).filter(|_| found.is_kustomization());
            if let Some(row) = kustomization.filter(|row| row.outcome != Outcome::Deleted) {
                (row.outcome, row.reason) = (Outcome::Unknown, reason.clone());
            }
            let Some(live) = self.input.snapshot.resource(&found.id) else { continue };
            let Members::Listed(members) = self.members(live) else { continue };
            for child in members.iter().filter(|id| id.is_here(flux_kustomization::GROUP, flux_kustomization::KIND)) {
                if let Some(row) = owners.get_mut(&NamespacedName::of(child)) {
                    row.parents.insert(found.owner());
                }
            }
        }
    }

    /// Returns the affected owners whose effect is not known.
    pub(crate) fn unfollowed_owners(&self) -> impl Iterator<Item = OwnerId> {
        let unknown = self.unfollowed.iter().filter(|found| matches!(found.effect, Effect::Unknown(_)));
        unknown.map(Unfollowed::owner)
    }

    /// Returns the Kustomizations that apply an object, or list it in their inventory.
    fn parents_of(&self, id: &ObjectId) -> BTreeSet<OwnerId> {
        let nodes = self.nodes_by_object();
        nodes.get(id).into_iter().flatten().map(|node| owner_id(&node.id.key)).collect()
    }
}
