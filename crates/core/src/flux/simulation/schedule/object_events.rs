//! The events that affect one object, for one combination of the events that may or may not happen.

use std::collections::BTreeSet;

use super::event_order::EventOrder;
use super::outcomes::Rules;
use crate::flux::build::objects::BuiltObject;
use crate::flux::kustomize_controller::Features;
use crate::flux::simulation::model::facts::refused_deletions::RefusedRuns;
use crate::flux::simulation::model::node::{Finalization, Node, Pass, PassId, PassOutcome, SimulationEvent};
use crate::flux::simulation::model::protection::{is_marked, label_owner, prune_protection};
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::schemes::flux_kustomization::{PRUNE, RECONCILE, SSA};

/// Something that may or may not happen, with the index of its Kustomization.
#[derive(Clone, PartialEq)]
pub(crate) enum Branch {
    /// The optional pass with this number happens.
    Pass(usize, usize),
    /// The conditions of the passes hold, all of them at once.
    Conditions(usize),
    /// The Kustomization, which is deleted, reconciles the new revision before.
    LastReconciliation(usize),
    /// The Kustomization is deleted.
    Deletion(usize),
    /// The finalizer deletes the objects.
    Finalization(usize),
    /// The finalizer reads an inventory that lists the objects of the last reconciliation; it may read an older one.
    CurrentInventory(usize),
    /// The pass with this number deletes the object by force before another object stops it.
    Force(usize, usize),
    /// A pass prunes what the inventory lists before the pass that precedes it, because the cache of the controller is late.
    StaleInventory(usize, usize),
}

impl Branch {
    /// Returns everything that may or may not happen to an object.
    pub(crate) fn collect(
        id: &ObjectId,
        live: Option<&ObjectMetadata>,
        nodes: &[&Node],
        order: &EventOrder,
        features: Features,
    ) -> Vec<Self> {
        let mut branches = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            let is_listed = node.inventory.contains(id);
            for (id, _) in node.numbered_passes().filter(|(_, pass)| pass.is_optional) {
                let branch = Self::of_pass(at, node, &id);
                if !branches.contains(&branch) {
                    branches.push(branch);
                }
            }
            let forced =
                node.passes.iter().enumerate().filter_map(|(number, pass)| Some((number, pass.forced.get(id)?)));
            let uncertain = forced.filter(|(_, forced)| !forced.is_certain);
            branches.extend(uncertain.map(|(number, _)| Self::Force(at, number)));
            if node.passes.iter().any(|pass| pass.condition.is_some()) {
                branches.push(Self::Conditions(at));
            }
            if may_be_deleted_first(node, order)
                && differs_without_reconciliation(node, id, live, nodes.len() > 1, features)
            {
                branches.push(Self::LastReconciliation(at));
            }
            if let Some(deletion) = &node.deletion {
                if !deletion.is_certain {
                    branches.push(Self::Deletion(at));
                }
                if matches!(deletion.finalization, Finalization::Depends(_)) {
                    branches.push(Self::Finalization(at));
                }
                if !is_listed && node.passes.iter().any(|pass| pass.applies(id)) {
                    branches.push(Self::CurrentInventory(at));
                }
            }
            let stale = (0..node.passes.len())
                .filter(|number| (is_listed && turns_pruning_on(node, *number)) || may_overlook(node, id, *number));
            branches.extend(stale.map(|number| Self::StaleInventory(at, number)));
        }
        branches
    }

    /// Returns the branch of an optional pass of the Kustomization `at`. If the last one is optional, all happen or none.
    fn of_pass(at: usize, node: &Node, id: &PassId) -> Self {
        let last = node.passes.len() - 1;
        Self::Pass(at, if node.passes[last].is_optional { last } else { id.number })
    }
}

/// Returns true if a live Kustomization is deleted for certain, and perhaps before it reconciles the new revision: the workers
/// may be busy.
fn may_be_deleted_first(node: &Node, order: &EventOrder) -> bool {
    let first = SimulationEvent::Apply(PassId { node: node.id.clone(), number: 0 });
    let deletion = node.deletion.as_ref().filter(|deletion| deletion.is_certain && !node.id.is_new);
    deletion.is_some_and(|deletion| !deletion.triggers.iter().all(|trigger| order.precedes(&first, trigger)))
}

/// Returns false if the deletion of a Kustomization has the same effect on an object whether it reconciles before or not: what
/// is not pruned before is deleted by the finalizer.
fn differs_without_reconciliation(
    node: &Node,
    id: &ObjectId,
    live: Option<&ObjectMetadata>,
    is_shared: bool,
    features: Features,
) -> bool {
    let is_finalized = node.deletion.as_ref().is_some_and(|it| it.finalization == Finalization::DeletesObjects);
    let is_listed = node.inventory.contains(id);
    let is_protected = live.is_some_and(|live| prune_protection(live, features).is_some());
    node.passes.iter().any(|pass| match pass.applied(id) {
        Some(built) => {
            let apply = ObjectApply::new(built, &pass.spec, &node.id.key, features);
            apply.protects != is_protected || (!is_listed && (is_shared || !is_finalized))
        }
        None => is_listed && !is_finalized && pass.spec.prunes(),
    })
}

/// Returns true if a pass prunes and the one before it does not.
fn turns_pruning_on(node: &Node, number: usize) -> bool {
    number > 0 && !node.passes[number - 1].spec.prunes() && node.passes[number].spec.prunes()
}

/// Returns true if a pass with another spec than the one before it prunes an object that only that one has created: an older
/// inventory does not list it.
fn may_overlook(node: &Node, id: &ObjectId, number: usize) -> bool {
    let Some((pass, [earlier @ .., before])) = node.passes.get(number).zip(node.passes.get(..number)) else {
        return false;
    };
    pass.prunes(id)
        && pass.spec != before.spec
        && before.new_inventory().is_some_and(|objects| objects.contains_key(id))
        && !earlier.iter().any(|pass| pass.applies(id))
        && !node.inventory.contains(id)
}

/// An event and its effect on the object.
pub(crate) struct ScheduledEvent {
    pub(crate) event: SimulationEvent,
    pub(crate) effect: Effect,
}

/// Effect of an event on the object.
pub(crate) enum Effect {
    Apply(ObjectApply),
    /// A Kustomization deletes the live object by force.
    Force,
    /// A Kustomization deletes the object, unless it is protected or its labels name another owner.
    Delete(NamespacedName),
    /// The API server refuses the deletion.
    RefusedDeletion,
}

impl Effect {
    /// Returns the application, if the event applies the object.
    pub(crate) fn application(&self) -> Option<&ObjectApply> {
        match self {
            Self::Apply(apply) => Some(apply),
            Self::Force | Self::Delete(_) | Self::RefusedDeletion => None,
        }
    }
}

/// Application of the object by one Kustomization.
pub(crate) struct ObjectApply {
    /// Owner that the labels name afterwards.
    pub(crate) owner_label: NamespacedName,
    /// The manifest protects the object from being pruned.
    pub(crate) protects: bool,
    /// The manifest tells the controller not to apply it.
    pub(crate) is_skipped: bool,
    pub(crate) only_if_absent: bool,
    /// The object is the namespace of the Kustomization, which therefore cannot create it.
    pub(crate) only_if_present: bool,
}

impl ObjectApply {
    pub(crate) fn new(
        built: &BuiltObject,
        spec: &KustomizationSpec,
        owner: &NamespacedName,
        features: Features,
    ) -> Self {
        let is_ignored = is_marked(built, spec, SSA, "ignore");
        let is_disabled = is_marked(built, spec, RECONCILE, "disabled");
        Self {
            owner_label: label_owner(spec, owner),
            protects: is_marked(built, spec, PRUNE, "disabled")
                || is_disabled
                || (is_ignored && features.ignore_protects),
            is_skipped: is_disabled || is_ignored,
            only_if_absent: is_marked(built, spec, SSA, "ifnotpresent"),
            only_if_present: built.id.is_here("", "Namespace") && *built.id.name == *owner.namespace,
        }
    }

    /// Returns true if the object exists afterwards in any case.
    pub(crate) fn creates(&self) -> bool {
        !self.is_skipped && !self.only_if_present
    }

    /// Returns true if the inventory lists the object afterwards.
    fn is_listed(&self, context: &ScheduleContext<'_>) -> bool {
        !context.rules.features.forgets_skipped || !(self.is_skipped || (self.only_if_absent && context.exists))
    }
}

/// The branches that happen in one combination of them.
#[derive(Clone, Copy)]
pub(crate) struct ChosenBranches<'a> {
    pub(crate) branches: &'a [Branch],
    /// Number of branches that the combination decides: one bit each.
    pub(crate) toggled: usize,
    pub(crate) combination: usize,
    /// The branches beyond those happen.
    pub(crate) beyond: bool,
}

/// The object of a schedule and the branches that happen.
pub(crate) struct ScheduleContext<'a> {
    pub(crate) id: &'a ObjectId,
    /// The object is live.
    pub(crate) exists: bool,
    pub(crate) chosen: ChosenBranches<'a>,
    pub(crate) rules: Rules<'a>,
    /// Runs of Kustomizations that the server does not let delete the object.
    pub(crate) refused: &'a RefusedRuns<'a>,
}

impl ScheduleContext<'_> {
    /// Returns true if a branch happens. One that is not listed makes no difference to the object.
    fn happens(&self, branch: &Branch) -> bool {
        let ChosenBranches { branches, toggled, combination, beyond } = self.chosen;
        match branches.iter().position(|other| other == branch) {
            Some(at) if at < toggled => combination >> at & 1 == 1,
            Some(_) => beyond,
            None => true,
        }
    }

    /// Returns the effect of a deletion by a Kustomization with a service account.
    fn deletion(&self, owner: &NamespacedName, account: Option<&str>) -> Effect {
        if self.refused.contains(owner, account) { Effect::RefusedDeletion } else { Effect::Delete(owner.clone()) }
    }

    /// Returns true if the pass with this identity of the Kustomization `at` deletes the live object by force.
    fn is_forced(&self, at: usize, id: &PassId, pass: &Pass) -> bool {
        let forced = pass.forced.get(self.id);
        forced.is_some_and(|forced| forced.is_certain || self.happens(&Branch::Force(at, id.number)))
    }

    /// Returns the passes of the Kustomization `at` that happen. One that the next may overtake happens if none follows.
    fn happening_passes<'n>(&self, at: usize, node: &'n Node) -> Vec<(PassId, &'n Pass)> {
        let mut passes: Vec<(PassId, &Pass)> = node.numbered_passes().collect();
        passes.retain(|(_, pass)| pass.condition.is_none() || self.happens(&Branch::Conditions(at)));
        if !self.happens(&Branch::LastReconciliation(at)) {
            passes.clear();
        }
        let is_optional = node.last_pass().is_some_and(|pass| pass.is_optional);
        let last = passes.last().map(|(id, _)| id.number).filter(|_| !is_optional);
        let choices = passes.iter().map(|(id, pass)| {
            !pass.is_optional || last == Some(id.number) || self.happens(&Branch::of_pass(at, node, id))
        });
        let chosen: Vec<bool> = choices.collect();
        let happening = passes.into_iter().enumerate().filter(|(number, (_, pass))| {
            chosen[*number] || (pass.is_needed_without_next && chosen.get(number + 1) == Some(&false))
        });
        happening.map(|(_, pass)| pass).collect()
    }

    /// Returns the application of the object by a pass, if there is one.
    fn apply(&self, node: &Node, pass: &Pass) -> Option<ObjectApply> {
        let built = pass.applied(self.id)?;
        Some(ObjectApply::new(built, &pass.spec, &node.id.key, self.rules.features))
    }
}

/// The events of one object.
pub(crate) struct Schedule {
    pub(crate) events: Vec<ScheduledEvent>,
    /// Applications by the Kustomizations that are not deleted, after all events.
    pub(crate) final_applies: Vec<ObjectApply>,
}

impl Schedule {
    /// Collects the events of the branches that happen.
    pub(crate) fn new(nodes: &[&Node], context: &ScheduleContext<'_>) -> Self {
        let mut schedule = Self { events: Vec::new(), final_applies: Vec::new() };
        for (at, node) in nodes.iter().enumerate() {
            let is_listed = schedule.add_passes(at, node, context);
            schedule.add_deletion(at, node, is_listed, context);
        }
        schedule
    }

    /// Adds the reconciliations of a Kustomization. Returns true if its inventory lists the object afterwards.
    fn add_passes(&mut self, at: usize, node: &Node, context: &ScheduleContext<'_>) -> bool {
        let is_listed_now = node.inventory.contains(context.id);
        let mut is_listed = is_listed_now;
        let mut is_misplaced = node.misplaced.contains_key(context.id);
        for (id, pass) in context.happening_passes(at, node) {
            if context.is_forced(at, &id, pass) {
                self.add(SimulationEvent::Force(id.clone()), Effect::Force);
            }
            let apply = context.apply(node, pass);
            let is_applied = apply.is_some();
            let will_be_listed = apply.as_ref().is_some_and(|apply| apply.is_listed(context));
            if let Some(apply) = apply {
                self.add(SimulationEvent::Apply(id.clone()), Effect::Apply(apply));
            }
            if !matches!(pass.outcome, PassOutcome::Applied(_)) {
                continue;
            }
            let is_stale = context.happens(&Branch::StaleInventory(at, id.number));
            let lists_dropped = is_stale && is_listed_now && turns_pruning_on(node, id.number);
            let overlooks = is_stale && may_overlook(node, context.id, id.number);
            is_listed &= !overlooks;
            let mut returns = false;
            let is_dropped = if is_applied { is_misplaced } else { lists_dropped || is_listed };
            if pass.spec.prunes() && is_dropped {
                let account = context.rules.flags.service_account(&pass.spec);
                let effect = context.deletion(&node.id.key, account);
                // What could not be deleted is listed again.
                returns = matches!(effect, Effect::RefusedDeletion) && context.rules.features.retries_deletions;
                self.add(SimulationEvent::Prune(id), effect);
            }
            is_listed = will_be_listed || returns;
            is_misplaced &= returns;
        }
        is_listed
    }

    /// Adds the finalization of a Kustomization that is deleted, or the last application of one that is not.
    fn add_deletion(&mut self, at: usize, node: &Node, is_listed: bool, context: &ScheduleContext<'_>) {
        let deletion = node.deletion.as_ref();
        let Some(deletion) = deletion.filter(|deletion| deletion.is_certain || context.happens(&Branch::Deletion(at)))
        else {
            let last = context.happening_passes(at, node).pop().map(|(_, pass)| pass);
            let is_optional = node.last_pass().is_some_and(|pass| pass.is_optional);
            let steady = last.filter(|pass| !is_optional && pass.condition.is_none() && pass.new_inventory().is_some());
            self.final_applies.extend(steady.and_then(|pass| context.apply(node, pass)));
            return;
        };
        let deletes_objects = match &deletion.finalization {
            Finalization::DeletesObjects => true,
            Finalization::LeavesObjects(_) => false,
            Finalization::Depends(_) => context.happens(&Branch::Finalization(at)),
        };
        let is_known = node.inventory.contains(context.id) || context.happens(&Branch::CurrentInventory(at));
        if is_listed && deletes_objects && is_known {
            let effect = context.deletion(&node.id.key, deletion.account.as_deref());
            self.add(SimulationEvent::Finalize(node.id.clone()), effect);
        }
    }

    fn add(&mut self, event: SimulationEvent, effect: Effect) {
        self.events.push(ScheduledEvent { event, effect });
    }

    /// Returns the owners of which the labels can name one at the beginning. Those that do not delete the object have the
    /// same effect, so that one stands for them; `None` if there is no owner.
    pub(crate) fn distinct_owners<'o>(&self, owners: &'o BTreeSet<NamespacedName>) -> Vec<Option<&'o NamespacedName>> {
        let (deleting, others): (Vec<_>, Vec<_>) = owners.iter().partition(|owner| self.deletes(owner));
        let stands_for_others = others.first().map(|owner| Some(*owner));
        let nobody = owners.is_empty().then_some(None);
        deleting.into_iter().map(Some).chain(stands_for_others).chain(nobody).collect()
    }

    fn deletes(&self, owner: &NamespacedName) -> bool {
        self.events.iter().any(|scheduled| matches!(&scheduled.effect, Effect::Delete(key) if key == owner))
    }

    /// Returns the Kustomizations that apply the object.
    pub(crate) fn appliers(&self) -> impl Iterator<Item = &NamespacedName> {
        let applies = self.events.iter().filter(|scheduled| matches!(scheduled.effect, Effect::Apply(_)));
        applies.map(|scheduled| scheduled.event.owner())
    }
}
