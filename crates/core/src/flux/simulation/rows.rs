//! The plan that follows from the fates of all objects.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Finalization, Node, Pass, PassOutcome, SimulationEvent};
use super::outcomes::{FinalState, PossibleOutcomes, guard};
use super::{Consequences, Preview, encrypted};
use crate::flux::spec::NamespacedName;
use crate::kubernetes::deletion::cascade::{CascadeKind, CascadedObject};
use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::OwnerId;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND, NAME, NAMESPACE};
use crate::plan::{
    Action, Actor, Certainty, Change, Fidelity, Outcome, OwnerOutcome, PinnedObject, Plan, Reason, ReasonCode,
};

impl Preview<'_> {
    /// Rows and owners of the last state; an unsettled one is a gap.
    pub(crate) fn plan(&self, consequences: &Consequences<'_>, settled: bool) -> Plan {
        let mut gaps = self.world.snapshot.gaps.clone();
        if !settled {
            let message = "Kustomizations that change each other do not come to rest".to_owned();
            gaps.push(Gap { kind: GapKind::Failed, subject: "preview".to_owned(), namespace: None, message });
        }
        let here = |node: &Node| {
            let spec = node.last().map(|pass| &pass.spec).filter(|spec| !spec.is_remote());
            spec.is_some_and(|spec| self.world.trees.contains_key(&spec.source(&node.id.key.namespace)))
        };
        for node in self.nodes.iter().filter(|node| here(node) || (!node.id.fresh && node.passes.len() > 1)) {
            // Its spec changes and what it builds with it is not in this tree, or what it builds here is not known.
            if let Some(PassOutcome::Elsewhere(message)) = node.last().map(|pass| &pass.outcome) {
                let changed = if here(node) { "" } else { " with its changed spec" };
                let subject = format!("what {} builds{changed}", owner_id(&node.id.key));
                gaps.push(Gap { kind: GapKind::Failed, subject, namespace: None, message: message.detail.clone() });
            }
        }
        let mut changes: Vec<Change> =
            consequences.fates.iter().filter_map(|(id, fate)| self.change(id, fate, consequences)).collect();
        changes.extend(self.cascaded(consequences));
        changes.extend(self.misread_names());
        self.tell_veiled(&mut changes);
        let mut plan = Plan::new(self.world.snapshot.cluster.clone());
        plan.add_gaps(gaps);
        plan.add_owners(self.owners());
        plan.add_changes(changes);
        plan.add_contested(self.contested());
        plan
    }

    fn change(&self, id: &ObjectId, fate: &PossibleOutcomes, consequences: &Consequences<'_>) -> Option<Change> {
        let live = self.object(id);
        let certainty = if fate.ends.len() > 1 { Certainty::Race } else { Certainty::Certain };
        let ends = |end: FinalState| fate.ends.contains(&end);
        let taken = live.and_then(|_| consequences.taken.get(id));
        let homeless = consequences.loses_home(id);
        let action = if ends(FinalState::Goes) || (ends(FinalState::ComesBack) && homeless) {
            Action::Delete
        } else if ends(FinalState::ComesBack) {
            Action::Recreate
        } else if ends(FinalState::Appears) {
            if homeless {
                return None;
            }
            Action::Create
        } else if taken.is_some() || ends(FinalState::Never) {
            // What a cascade takes is its row, and what never was needs none.
            return None;
        } else {
            return self.kept(id, live?, fate);
        };
        let event = fate.deleters.first();
        let (mut reason, cause): (Reason, _) = match event {
            Some(SimulationEvent::Finalize(node)) => {
                let owner = ObjectId::new(GROUP, KIND, &node.key.namespace, &node.key.name);
                (ReasonCode::OwnerDeleted.into(), Some(owner))
            }
            Some(SimulationEvent::Prune(node, _)) => (self.why_stale(&node.key, fate), None),
            _ => (ReasonCode::InBuild.into(), None),
        };
        if certainty == Certainty::Race {
            reason.add_detail(&self.race(fate));
        }
        let owner = event.map(|event| event.node().key.clone()).or_else(|| fate.appliers.first().cloned());
        let object = live.map_or_else(|| PinnedObject::absent(id.clone()), PinnedObject::from);
        let owner = owner.map(|key| owner_id(&key));
        let change = Change::new(action, object, owner, Actor::KustomizeController, reason);
        Some(Change { certainty, cause, ..change })
    }

    fn why_stale(&self, owner: &NamespacedName, fate: &PossibleOutcomes) -> Reason {
        let others: Vec<&NamespacedName> = fate.appliers.iter().filter(|key| *key != owner).collect();
        if let Some(other) = others.first() {
            let detail = format!("{} applies it after it was pruned", owner_id(other));
            return Reason::new(ReasonCode::Moved, detail);
        }
        let node = self.nodes.iter().find(|node| node.id.key == *owner);
        if fate.wanted {
            let same = node.is_some_and(|node| node.passes.windows(2).all(|pair| pair[0].spec == pair[1].spec));
            let (code, what) =
                if same { (ReasonCode::ChangedVariables, "variables") } else { (ReasonCode::ChangedSpec, "spec") };
            return Reason::new(code, format!("the new revision is first reconciled with the old {what}"));
        }
        let nothing =
            node.and_then(Node::last).and_then(|pass| pass.applied()).is_some_and(|desired| desired.is_empty());
        if nothing {
            let path = node.and_then(Node::last).map(|pass| pass.spec.path().to_owned()).unwrap_or_default();
            return Reason::new(ReasonCode::NotInBuild, format!("its path {path} contains no manifests"));
        }
        ReasonCode::NotInBuild.into()
    }

    /// What a race depends on, in words.
    fn race(&self, fate: &PossibleOutcomes) -> String {
        let owners: BTreeSet<String> = fate
            .deleters
            .iter()
            .chain(&fate.spared)
            .map(|event| &event.node().key)
            .chain(&fate.appliers)
            .map(|key| owner_id(key).to_string())
            .collect();
        format!("race: it depends on which of these comes first: {}", owners.into_iter().collect::<Vec<_>>().join(", "))
    }

    /// A row for what looks prunable and stays.
    fn kept(&self, id: &ObjectId, live: &ObjectMetadata, fate: &PossibleOutcomes) -> Option<Change> {
        let lists = |node: &&Node| !node.id.fresh && node.inventory.contains(id);
        let builds = |node: &Node| node.passes.iter().any(|pass| pass.desired().is_some_and(|d| d.contains_key(id)));
        let loser = self.nodes.iter().filter(lists).find(|node| {
            let dropped = node.last().and_then(Pass::wanted).is_some_and(|desired| !desired.contains_key(id));
            node.removal.is_some() || dropped
        })?;
        let left_behind = |detail: String| Reason::new(ReasonCode::LeftBehind, detail);
        let reason = if let Some(winner) = fate.appliers.iter().find(|key| **key != loser.id.key && fate.wanted) {
            Reason::new(ReasonCode::HandedOver, format!("{} applies it first", owner_id(winner)))
        } else if builds(loser) && loser.removal.is_none() && fate.wanted {
            return None;
        } else if let Some((key, value)) = guard(live, self.world.features) {
            left_behind(format!("protected by {key}: {value}"))
        } else if let Some(Finalization::Leaves(why)) = loser.removal.as_ref().map(|removal| &removal.finalization) {
            left_behind(format!(
                "{} is deleted and leaves its objects behind, because it {why}",
                owner_id(&loser.id.key)
            ))
        } else if live.labels.get(NAME) != Some(&*loser.id.key.name)
            || live.labels.get(NAMESPACE) != Some(&*loser.id.key.namespace)
        {
            left_behind("its labels name another owner".to_owned())
        } else if loser.last().is_some_and(|pass| !pass.spec.prunes()) {
            left_behind("its owner does not prune".to_owned())
        } else if let Some(PassOutcome::Partial { why, .. }) = loser.last().map(|pass| &pass.outcome) {
            Reason::new(ReasonCode::HeldBack, format!("it is deleted once this is resolved: {}", why.detail))
        } else {
            left_behind("nothing deletes it".to_owned())
        };
        let owner = Some(owner_id(&loser.id.key));
        Some(Change::new(Action::Keep, live, owner, Actor::KustomizeController, reason))
    }

    /// Rows for what goes along with a namespace, a definition or the object that it depends on.
    fn cascaded(&self, consequences: &Consequences<'_>) -> Vec<Change> {
        consequences.taken.values().map(|cascaded| self.cascaded_row(cascaded, consequences)).collect()
    }

    fn cascaded_row(&self, cascaded: &CascadedObject<'_>, consequences: &Consequences<'_>) -> Change {
        let id = &cascaded.object.id;
        let comes_back =
            |id: &ObjectId| consequences.fates.get(id).is_some_and(|fate| fate.ends.contains(&FinalState::ComesBack));
        let mut row = Change::cascaded(cascaded, self.listed_by(id).map(|key| owner_id(&key)));
        // Whoever applies it creates it again, unless its namespace does not come back.
        let is_wanted = consequences.fates.get(id).is_some_and(|fate| fate.wanted) && !consequences.loses_home(id);
        let namespace = ObjectId::new("", "Namespace", "", &id.namespace);
        if is_wanted || (comes_back(&namespace) && is_furniture(id)) {
            row.action = Action::Recreate;
        }
        if !self.root_of(&cascaded.cause, consequences).is_none_or(|(_, sure)| sure) {
            row.certainty = Certainty::Race;
        }
        match cascaded.kind {
            // A chart's crds/ are in the inventory and Helm never deletes them; its templates it does.
            CascadeKind::HelmRelease if id.is("apiextensions.k8s.io", "CustomResourceDefinition") => {
                row.action = Action::Unknown;
                row.reason.add_detail("only if it is a template of its chart");
            }
            // A ReplicaSet gets its old name again when its Deployment comes back with the same template.
            CascadeKind::Dependent { .. } if comes_back(&cascaded.cause) => {
                row.certainty = Certainty::Race;
                row.reason = Reason::new(ReasonCode::Dependent, "its owner comes back and may create it again");
            }
            _ => {}
        }
        row
    }

    /// RBAC objects whose name holds `__`: the inventory reads back as another name, so they are never pruned
    /// (reference kustomize-controller 1.1).
    fn misread_names(&self) -> Vec<Change> {
        let mut rows = Vec::new();
        for node in self.nodes.iter().filter(|node| !node.id.fresh) {
            let misread = |id: &&ObjectId| id.name.contains(':') && self.object(id).is_none();
            for id in node.inventory.iter().filter(misread) {
                let real = ObjectId { name: id.name.replace(':', "__").into(), ..id.clone() };
                let built =
                    node.last().and_then(|pass| pass.desired()).is_some_and(|desired| desired.contains_key(&real));
                let Some(live) = self.object(&real).filter(|_| !built) else { continue };
                let detail = "its name contains __, which the controller reads as another name";
                let reason = Reason::new(ReasonCode::LeftBehind, detail);
                let owner = Some(owner_id(&node.id.key));
                rows.push(Change::new(Action::Keep, live, owner, Actor::KustomizeController, reason));
            }
        }
        rows
    }

    fn listed_by(&self, id: &ObjectId) -> Option<NamespacedName> {
        self.nodes.iter().find(|node| node.inventory.contains(id)).map(|node| node.id.key.clone())
    }

    fn owners(&self) -> Vec<OwnerOutcome> {
        let mut owners: BTreeMap<&NamespacedName, OwnerOutcome> = BTreeMap::new();
        // What comes and goes at once is no owner that anyone loses.
        for node in self.nodes.iter().filter(|node| !node.id.fresh || node.removal.is_none()) {
            let key = &node.id.key;
            let (outcome, mut reason) = outcome(node);
            if reason.code == ReasonCode::NewRevision {
                reason = encrypted::reason(node).unwrap_or(reason);
            }
            let fidelity = self.world.fidelity.get(key).copied().unwrap_or(Fidelity::Unknown);
            let row = OwnerOutcome { owner: owner_id(key), outcome, reason, fidelity };
            // A Kustomization that goes and comes back is shown by what comes of it.
            owners.insert(key, row);
        }
        owners.into_values().collect()
    }
}

/// What the control plane puts into every namespace.
fn is_furniture(id: &ObjectId) -> bool {
    (id.is("", "ServiceAccount") && &*id.name == "default")
        || (id.is("", "ConfigMap") && &*id.name == "kube-root-ca.crt")
}

fn outcome(node: &Node) -> (Outcome, Reason) {
    if let Some(removal) = &node.removal {
        let mut reason = match &removal.finalization {
            Finalization::Deletes => {
                Reason::new(ReasonCode::OwnerDeletedWithObjects, "it is deleted with everything in its inventory")
            }
            Finalization::Leaves(why) => Reason::new(
                ReasonCode::OwnerDeletedAlone,
                format!("it is deleted and leaves its objects behind, because it {why}"),
            ),
            Finalization::Depends(why) => Reason::new(
                ReasonCode::OwnerDeletedDepending,
                format!("it is deleted; it is a race if its objects are deleted too: {why}"),
            ),
        };
        if !removal.sure {
            reason.add_detail("race: it may stay");
        }
        return (Outcome::Deleted, reason);
    }
    let last = node.last();
    match last.map(|pass| &pass.outcome) {
        Some(PassOutcome::Applied(_)) if node.unreadable.is_some() => {
            let why = node.unreadable.as_deref().unwrap_or_default();
            let detail = format!("its inventory is unreadable: {why}; it is replaced, and nothing is deleted");
            (Outcome::Blocked, Reason::new(ReasonCode::InventoryUnreadable, detail))
        }
        Some(PassOutcome::Applied(_)) if last.is_some_and(|pass| pass.optional) => {
            let detail = "race: it depends on an owner that this change deletes";
            (Outcome::Applies, Reason::new(ReasonCode::DependencyDeleted, detail))
        }
        Some(PassOutcome::Applied(_)) => (Outcome::Applies, ReasonCode::NewRevision.into()),
        Some(PassOutcome::Partial { why, .. } | PassOutcome::Blocked(why)) => (Outcome::Blocked, why.clone()),
        Some(PassOutcome::Elsewhere(why)) => (Outcome::Unchanged, why.clone()),
        None => (Outcome::Unchanged, ReasonCode::Terminating.into()),
    }
}

pub(crate) fn owner_id(key: &NamespacedName) -> OwnerId {
    OwnerId {
        system: "flux".to_owned(),
        kind: KIND.to_owned(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}
