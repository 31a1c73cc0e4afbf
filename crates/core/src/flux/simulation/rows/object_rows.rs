//! Rows of the plan: what happens to each object, decided from its possible outcomes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::owner_rows::{add_affected_owners, add_owner_deletion, owner_rows};
use crate::flux::apply::dry_run::foreign_finalizer;
use crate::flux::simulation::model::node::{Finalization, Node, Pass, PassOutcome, SimulationEvent, Unserved};
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::protection::{live_owner, prune_protection};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::simulation::schedule::outcomes::{FinalState, PossibleOutcomes};
use crate::flux::spec::NamespacedName;
use crate::kubernetes::deletion::cascade::{CascadeKind, CascadedObject};
use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Action, Actor, Certainty, Change, PinnedObject, Plan, Reason, ReasonCode};
use crate::text::pluralize;

/// Returns the row of an action of kustomize-controller on behalf of a Kustomization.
pub(crate) fn kustomization_row(
    action: Action,
    object: impl Into<PinnedObject>,
    owner: &NamespacedName,
    reason: impl Into<Reason>,
) -> Change {
    Change::new(action, object, Some(owner_id(owner)), Actor::KustomizeController, reason)
}

impl State<'_> {
    /// Returns the plan of the last state. A state that is not stable is a gap.
    pub(crate) fn plan(&self, consequences: &Consequences<'_>, is_stable: bool) -> Plan {
        let mut plan = Plan::new(self.input.snapshot.cluster.clone());
        let spokes = self.input.snapshot.spokes.iter();
        plan.set_spokes(spokes.map(|(name, spoke)| (name.clone(), spoke.cluster.clone())).collect());
        plan.add_gaps(self.input.snapshot.all_gaps());
        plan.add_gaps(self.unknown_builds());
        if !is_stable {
            let message = "Kustomizations change each other, and no stable state was found".to_owned();
            plan.add_gaps([Gap { kind: GapKind::Failed, subject: "preview".to_owned(), namespace: None, message }]);
        }
        let incomplete = consequences.outcomes.iter().filter(|(_, outcomes)| outcomes.is_incomplete);
        plan.add_gaps(incomplete.map(|(id, outcomes)| {
            let appliers = pluralize(outcomes.appliers.len(), "Kustomization");
            let message = format!("it is changed by {appliers}, in more possible orders than can be explored");
            Gap { kind: GapKind::Failed, subject: id.to_string(), namespace: None, message }
        }));
        let nodes_by_object = self.nodes_by_object();
        let outcomes = consequences.outcomes.iter().map(|(id, outcomes)| {
            let nodes = nodes_by_object.get(id).map_or(&[][..], Vec::as_slice);
            self.row(id, outcomes, consequences, nodes)
        });
        let mut changes: Vec<Change> = outcomes.flatten().collect();
        changes.extend(consequences.cascaded.values().map(|cascaded| self.cascaded_row(cascaded, consequences)));
        spread_unknown(&mut changes);
        changes.extend(owner_rows(self, consequences));
        changes.extend(self.misread_names());
        self.annotate_encrypted(&mut changes);
        plan.add_owners(self.owner_outcomes());
        plan.add_changes(changes);
        plan.add_contested(self.contested());
        plan.set_unrehearsed(unrehearsed(&plan));
        add_affected_owners(self, &mut plan);
        plan.set_emptied_files(self.emptied_files(&plan));
        plan
    }

    /// Returns the row of an object that a Kustomization deletes, creates or keeps. `nodes` are the Kustomizations that list
    /// or apply it.
    fn row(
        &self,
        id: &ObjectId,
        outcomes: &PossibleOutcomes,
        consequences: &Consequences<'_>,
        nodes: &[&Node],
    ) -> Option<Change> {
        let live = self.live_object(id);
        let container_is_deleted = self.container_is_deleted(id, consequences);
        let may_be_recreated = outcomes.may_end_as(FinalState::Recreated);
        let action = if outcomes.may_end_as(FinalState::Deleted) || (may_be_recreated && container_is_deleted) {
            Action::Delete
        } else if may_be_recreated {
            Action::Recreate
        } else if outcomes.may_end_as(FinalState::Created) {
            if container_is_deleted {
                return None;
            }
            Action::Create
        } else if outcomes.may_end_as(FinalState::Absent) || (live.is_some() && consequences.cascaded.contains_key(id))
        {
            // An object that a cascade deletes has the row of the cascade.
            return None;
        } else {
            return self.kept_row(id, live?, outcomes, nodes);
        };
        let event = outcomes.deletions.first();
        let (reason, cause) = match event {
            Some(SimulationEvent::Finalize(node)) => {
                let owner = ObjectId::new(GROUP, KIND, &node.key.namespace, &node.key.name);
                (ReasonCode::OwnerDeleted.into(), Some(owner))
            }
            Some(SimulationEvent::Prune(pass)) => (self.prune_reason(&pass.node.key, outcomes), None),
            Some(SimulationEvent::Apply(_)) | None => (ReasonCode::InBuild.into(), None),
        };
        let owner = event.map(SimulationEvent::owner).or_else(|| outcomes.appliers.first());
        let object = live.map_or_else(|| PinnedObject::absent(id.clone()), PinnedObject::from);
        let row = Change::new(action, object, owner.map(owner_id), Actor::KustomizeController, reason);
        let mut row = Change { cause, ..row };
        // A live object is deleted with its namespace or its definition at the latest.
        let is_deleted_anyway = live.is_some() && container_is_deleted;
        if !outcomes.is_certain() && !is_deleted_anyway {
            row.make_race(&self.race_condition(id, outcomes));
        }
        if action == Action::Create && self.is_collected_at_once(id) {
            row.make_race("the garbage collector deletes it, because no owner that it refers to exists");
        }
        if let Some(unserved) = event.and_then(|event| self.node(event.node())?.unserved.get(id)) {
            row.make_race(&format!("it stays if version {} is not served by then", unserved.version));
        }
        Some(row)
    }

    /// Returns the reason why a Kustomization prunes an object.
    fn prune_reason(&self, owner: &NamespacedName, outcomes: &PossibleOutcomes) -> Reason {
        let may_return = outcomes.may_end_as(FinalState::Recreated);
        if let Some(other) = outcomes.appliers.iter().find(|key| may_return && *key != owner) {
            let detail = format!("{} applies it after it was pruned", owner_id(other));
            return Reason::new(ReasonCode::Moved, detail);
        }
        let node = self.nodes.iter().find(|node| node.id.key == *owner);
        if outcomes.is_desired && may_return {
            let keeps_spec = node.is_some_and(|node| node.passes.windows(2).all(|pair| pair[0].spec == pair[1].spec));
            let (code, what) = match keeps_spec {
                true => (ReasonCode::ChangedVariables, "variables"),
                false => (ReasonCode::ChangedSpec, "spec"),
            };
            return Reason::new(code, format!("the new revision is first reconciled with the old {what}"));
        }
        match node.and_then(Node::last_pass) {
            Some(pass) if pass.new_inventory().is_some_and(|objects| objects.is_empty()) => {
                let detail = format!("its path {} contains no manifests", pass.spec.path());
                Reason::new(ReasonCode::NotInBuild, detail)
            }
            _ => ReasonCode::NotInBuild.into(),
        }
    }

    /// Returns the row of an object that looks prunable and stays.
    fn kept_row(
        &self,
        id: &ObjectId,
        live: &ObjectMetadata,
        outcomes: &PossibleOutcomes,
        nodes: &[&Node],
    ) -> Option<Change> {
        let owner = nodes.iter().find(|node| {
            let desired = node.last_pass().and_then(Pass::desired_objects);
            let is_dropped = desired.is_some_and(|objects| !objects.contains_key(id));
            !node.id.is_new && node.inventory.contains(id) && (node.deletion.is_some() || is_dropped)
        })?;
        let reason = self.keep_reason(owner, live, outcomes)?;
        Some(kustomization_row(Action::Keep, live, &owner.id.key, reason))
    }

    /// Returns the reason why an object stays that its owner deletes or no longer builds. `None` if a pass of the owner
    /// applies it all the same.
    fn keep_reason(&self, owner: &Node, live: &ObjectMetadata, outcomes: &PossibleOutcomes) -> Option<Reason> {
        let key = &owner.id.key;
        let last = owner.last_pass();
        if let Some(refusal) = self.deletion_refusal(key, &live.id) {
            return Some(Reason::new(ReasonCode::DeletionRefused, refusal));
        }
        if let Some(Unserved { version, is_certain: true }) = owner.unserved.get(&live.id) {
            let detail = format!("its inventory entry has version {version}, which the API server does not serve");
            return Some(Reason::new(ReasonCode::LeftBehind, detail));
        }
        if outcomes.is_desired {
            if let Some(other) = outcomes.appliers.iter().find(|other| *other != key) {
                let detail = format!("{} applies it first", owner_id(other));
                return Some(Reason::new(ReasonCode::HandedOver, detail));
            }
            if owner.deletion.is_none() && owner.passes.iter().any(|pass| pass.applies(&live.id)) {
                return None;
            }
        }
        let finalization = owner.deletion.as_ref().map(|deletion| &deletion.finalization);
        let detail = if let Some((key, value)) = prune_protection(live, self.input.features) {
            format!("protected by {key}: {value}")
        } else if let Some(Finalization::LeavesObjects(why)) = finalization {
            format!("{} is deleted and leaves its objects behind, because it {why}", owner_id(key))
        } else if live_owner(live).as_ref() != Some(key) {
            "its labels name another owner".to_owned()
        } else if last.is_some_and(|pass| !pass.spec.prunes()) {
            "its owner does not prune".to_owned()
        } else if let Some(PassOutcome::Partial { reason, .. }) = last.map(|pass| &pass.outcome) {
            let detail = format!("it is deleted once this is resolved: {}", reason.detail);
            return Some(Reason::new(ReasonCode::HeldBack, detail));
        } else {
            "nothing deletes it".to_owned()
        };
        Some(Reason::new(ReasonCode::LeftBehind, detail))
    }

    /// Returns the row of an object that is deleted with its namespace, its definition, its owners or its release.
    fn cascaded_row(&self, cascaded: &CascadedObject<'_>, consequences: &Consequences<'_>) -> Change {
        let id = &cascaded.object.id;
        let owner = self.nodes.iter().find(|node| node.inventory.contains(id)).map(|node| owner_id(&node.id.key));
        let mut row = Change::cascaded(cascaded, owner);
        let is_desired = consequences.outcomes.get(id).is_some_and(|outcomes| outcomes.is_desired);
        let namespace = id.namespace_object();
        if (is_desired && !self.container_is_deleted(id, consequences))
            || (is_namespace_default(id) && consequences.may_be_recreated(&namespace))
        {
            row.action = Action::Recreate;
        }
        let is_uncertain = consequences.triggers_of(cascaded).is_some_and(|(_, is_certain)| !is_certain);
        let root = consequences.root_of(&cascaded.cause);
        if is_uncertain && consequences.acting(root).is_none() {
            row.make_race(&format!("it depends on whether {root} is deleted"));
        }
        if let Some(deletion) = consequences.owner_deletion(cascaded) {
            add_owner_deletion(&mut row, &cascaded.cause, deletion);
        } else if let CascadeKind::Dependent { .. } = cascaded.kind {
            self.qualify_dependent(&mut row, cascaded, is_desired, consequences);
        }
        if row.certainty == Certainty::Certain && consequences.follows_from_doubt(cascaded) {
            row.make_race(&format!("it depends on whether {} is deleted", cascaded.cause));
        }
        if is_uncertain {
            row.certainty = Certainty::Race;
        }
        row
    }

    /// Adds to the row of a dependent what its deletion by the garbage collector depends on.
    fn qualify_dependent(
        &self,
        row: &mut Change,
        cascaded: &CascadedObject<'_>,
        is_desired: bool,
        consequences: &Consequences<'_>,
    ) {
        let owner = &cascaded.cause;
        if consequences.may_be_recreated(owner) || consequences.is_recreated_by_owner(owner) {
            // A recreated Deployment with the same template creates a ReplicaSet with the old name.
            row.certainty = Certainty::Race;
            row.reason.add_detail("its owner is recreated and may create it again");
        } else if is_desired {
            // The apply can remove the reference to the owner before the garbage collector sees the deletion.
            row.make_race("a Kustomization applies it and may remove its owner reference first");
        } else {
            mark_held_dependent(row, cascaded, &consequences.cascaded, self.input.snapshot);
        }
    }

    /// Returns true if an object that is created refers only to owners that do not exist.
    fn is_collected_at_once(&self, id: &ObjectId) -> bool {
        let mut applied = self.nodes.iter().filter_map(|node| node.last_pass()?.applied_objects()?.get(id));
        applied.any(|built| {
            let references = built.manifest.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            let mut uids =
                references.into_iter().flatten().map(|reference| reference["uid"].as_str().unwrap_or_default());
            let cluster = self.input.snapshot.of_cluster(id.cluster.as_ref());
            let exists =
                |uid: &str| cluster.is_some_and(|cluster| cluster.objects.iter().any(|object| &*object.uid == uid));
            references.is_some_and(|references| !references.is_empty()) && !uids.any(exists)
        })
    }

    /// Returns rows for RBAC objects whose names contain `__`. The inventory lists another name, so they are never
    /// pruned (docs/reference/kustomize-controller.md 2.1).
    fn misread_names(&self) -> Vec<Change> {
        let mut rows = Vec::new();
        for node in self.nodes.iter().filter(|node| !node.id.is_new) {
            for id in node.inventory.iter().filter(|id| id.name.contains(':') && self.live_object(id).is_none()) {
                let real = ObjectId { name: id.name.replace(':', "__").into(), ..id.clone() };
                if node.last_pass().is_some_and(|pass| pass.applies(&real)) {
                    continue;
                }
                let Some(live) = self.live_object(&real) else { continue };
                let detail = "its name contains __, which the controller reads as another name";
                let reason = Reason::new(ReasonCode::LeftBehind, detail);
                rows.push(kustomization_row(Action::Keep, live, &node.id.key, reason));
            }
        }
        rows
    }
}

/// Makes the deletions unknown that an object causes, directly or through others, which is perhaps not deleted.
fn spread_unknown(changes: &mut [Change]) {
    let unknown = changes.iter().filter(|change| change.action == Action::Unknown);
    let mut reached: BTreeSet<ObjectId> = unknown.map(|change| change.object.id.clone()).collect();
    let mut is_growing = !reached.is_empty();
    while is_growing {
        is_growing = false;
        for change in changes.iter_mut().filter(|change| change.is_deletion()) {
            if change.cause.as_ref().is_some_and(|cause| reached.contains(cause)) {
                change.action = Action::Unknown;
                is_growing |= reached.insert(change.object.id.clone());
            }
        }
    }
}

/// Makes the row of a dependent a race if a finalizer holds its owner, or an owner of its owner.
pub(crate) fn mark_held_dependent(
    row: &mut Change,
    dependent: &CascadedObject<'_>,
    cascaded: &BTreeMap<ObjectId, CascadedObject<'_>>,
    snapshot: &Snapshot,
) {
    let mut next = Some(dependent);
    for _ in 0..=cascaded.len() {
        let Some(CascadedObject { cause, kind: CascadeKind::Dependent { .. }, .. }) = next else { return };
        if let Some(finalizer) = snapshot.object(cause).and_then(foreign_finalizer) {
            return row.make_race(&format!("it stays until the finalizer {finalizer} of {cause} is removed"));
        }
        next = cascaded.get(cause);
    }
}

/// Returns true if the control plane creates the object in every namespace.
fn is_namespace_default(id: &ObjectId) -> bool {
    (id.is("", "ServiceAccount") && &*id.name == "default")
        || (id.is("", "ConfigMap") && &*id.name == "kube-root-ca.crt")
}

/// Returns the objects of a plan that dry-runs would have to confirm: everything that kustomize-controller changes.
pub(crate) fn unrehearsed(plan: &Plan) -> Vec<ObjectId> {
    let by_controller = plan.changes().iter().filter(|change| change.by == Actor::KustomizeController);
    let rows = by_controller.filter(|change| !matches!(change.action, Action::Keep | Action::Unknown));
    rows.map(|change| change.object.id.clone()).collect()
}
