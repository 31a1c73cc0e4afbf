//! The plan that follows from the fates of all objects.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Finalization, Node, Pass, PassOutcome, SimulationEvent};
use super::outcomes::{FinalState, PossibleOutcomes, guard};
use super::{Consequences, Preview, encrypted};
use crate::flux::spec::NamespacedName;
use crate::kubernetes::deletion::cascade::CascadedObject;
use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::OwnerId;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND, NAME, NAMESPACE};
use crate::plan::document::{Action, Actor, Certainty, Change, Fidelity, Outcome, OwnerOutcome, PinnedObject, Plan};

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
                gaps.push(Gap { kind: GapKind::Failed, subject, namespace: None, message: message.clone() });
            }
        }
        let mut changes: Vec<Change> =
            consequences.fates.iter().filter_map(|(id, fate)| self.change(id, fate, consequences)).collect();
        changes.extend(self.cascaded(consequences));
        changes.extend(self.misread_names());
        self.tell_veiled(&mut changes);
        let plan = Plan::new(self.world.snapshot.cluster.clone(), gaps, self.owners(), changes);
        Plan { contested: self.contested(), ..plan }
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
        let (reason, cause) = match event {
            Some(SimulationEvent::Finalize(node)) => {
                let owner = ObjectId::new(GROUP, KIND, &node.key.namespace, &node.key.name);
                ("owner-deleted".to_owned(), Some(owner))
            }
            Some(SimulationEvent::Prune(node, _)) => (self.why_stale(&node.key, fate), None),
            _ => ("in-build".to_owned(), None),
        };
        let reason = if certainty == Certainty::Race { format!("{reason}; {}", self.race(fate)) } else { reason };
        let owner = event.map(|event| event.node().key.clone()).or_else(|| fate.appliers.first().cloned());
        let object = live.map_or_else(|| absent(id), PinnedObject::from);
        let by = Actor::KustomizeController;
        Some(Change { action, certainty, object, owner: owner.map(|key| owner_id(&key)), by, reason, cause })
    }

    fn why_stale(&self, owner: &NamespacedName, fate: &PossibleOutcomes) -> String {
        let others: Vec<&NamespacedName> = fate.appliers.iter().filter(|key| *key != owner).collect();
        if let Some(other) = others.first() {
            return format!("moved: {} takes it over after it was pruned", owner_id(other));
        }
        let node = self.nodes.iter().find(|node| node.id.key == *owner);
        if fate.wanted {
            let same = node.is_some_and(|node| node.passes.windows(2).all(|pair| pair[0].spec == pair[1].spec));
            let what = if same { "variables" } else { "spec" };
            return format!("changed-{what}: the new revision is first reconciled with the old {what}");
        }
        let nothing =
            node.and_then(Node::last).and_then(|pass| pass.applied()).is_some_and(|desired| desired.is_empty());
        if nothing {
            let path = node.and_then(Node::last).map(|pass| pass.spec.path().to_owned()).unwrap_or_default();
            return format!("not-in-build: its path {path} holds no manifests");
        }
        "not-in-build".to_owned()
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
        format!("race: depends on which comes first of {}", owners.into_iter().collect::<Vec<_>>().join(", "))
    }

    /// A row for what looks prunable and stays.
    fn kept(&self, id: &ObjectId, live: &ObjectMetadata, fate: &PossibleOutcomes) -> Option<Change> {
        let lists = |node: &&Node| !node.id.fresh && node.inventory.contains(id);
        let builds = |node: &Node| node.passes.iter().any(|pass| pass.desired().is_some_and(|d| d.contains_key(id)));
        let loser = self.nodes.iter().filter(lists).find(|node| {
            let dropped = node.last().and_then(Pass::wanted).is_some_and(|desired| !desired.contains_key(id));
            node.removal.is_some() || dropped
        })?;
        let reason = if let Some(winner) = fate.appliers.iter().find(|key| **key != loser.id.key && fate.wanted) {
            format!("handed-over: {} applies it first", owner_id(winner))
        } else if builds(loser) && loser.removal.is_none() && fate.wanted {
            return None;
        } else if let Some((key, value)) = guard(live, self.world.features) {
            format!("left-behind: protected by {key}: {value}")
        } else if let Some(Finalization::Leaves(why)) = loser.removal.as_ref().map(|removal| &removal.finalization) {
            format!("left-behind: {} goes and leaves its objects, as it {why}", owner_id(&loser.id.key))
        } else if live.labels.get(NAME) != Some(&*loser.id.key.name)
            || live.labels.get(NAMESPACE) != Some(&*loser.id.key.namespace)
        {
            "left-behind: its labels name another owner".to_owned()
        } else if loser.last().is_some_and(|pass| !pass.spec.prunes()) {
            "left-behind: prune is off, so it is forgotten".to_owned()
        } else if let Some(PassOutcome::Partial { why, .. }) = loser.last().map(|pass| &pass.outcome) {
            format!("held-back: it is deleted once this is mended: {why}")
        } else {
            "left-behind: nobody deletes it".to_owned()
        };
        let owner = Some(owner_id(&loser.id.key));
        let (certainty, by) = (Certainty::Certain, Actor::KustomizeController);
        Some(Change {
            action: Action::Keep,
            certainty,
            object: PinnedObject::from(live),
            owner,
            by,
            reason,
            cause: None,
        })
    }

    /// Rows for what goes along with a namespace, a definition or the object that it depends on.
    fn cascaded(&self, consequences: &Consequences<'_>) -> Vec<Change> {
        let row = |taken: &CascadedObject<'_>| {
            let id = &taken.object.id;
            let fate = consequences.fates.get(id);
            let sure = self.root_of(&taken.cause, consequences).is_none_or(|(_, sure)| sure);
            // A ReplicaSet gets its old name again when its Deployment comes back with the same template.
            let owner_returns = taken.by == Actor::GarbageCollector
                && consequences.fates.get(&taken.cause).is_some_and(|fate| fate.ends.contains(&FinalState::ComesBack));
            // Who wants it makes it again, unless its namespace does not come back.
            let homeless = consequences.loses_home(id);
            let home = ObjectId::new("", "Namespace", "", &id.namespace);
            let home_returns =
                consequences.fates.get(&home).is_some_and(|fate| fate.ends.contains(&FinalState::ComesBack));
            let returns = (fate.is_some_and(|fate| fate.wanted) && !homeless) || (home_returns && is_furniture(id));
            // A chart's crds/ are in the inventory and are never deleted by Helm; its templates are.
            let definition = id.is("apiextensions.k8s.io", "CustomResourceDefinition");
            Change {
                action: match taken.by {
                    Actor::HelmController if definition => Action::Unknown,
                    _ if returns => Action::Recreate,
                    _ => Action::Delete,
                },
                certainty: if sure && taken.is_sure && !owner_returns { Certainty::Certain } else { Certainty::Race },
                object: PinnedObject::from(taken.object),
                owner: self.listed_by(id).map(|key| owner_id(&key)),
                by: taken.by,
                reason: match taken.by {
                    Actor::HelmController if definition => "uninstalled: only if it is a template of its chart",
                    _ if owner_returns => "dependent: what it depends on comes back and may make it again",
                    _ => taken.reason,
                }
                .to_owned(),
                cause: Some(taken.cause.clone()),
            }
        };
        consequences.taken.values().map(row).collect()
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
                rows.push(Change {
                    action: Action::Keep,
                    certainty: Certainty::Certain,
                    object: PinnedObject::from(live),
                    owner: Some(owner_id(&node.id.key)),
                    by: Actor::KustomizeController,
                    reason: "left-behind: its name holds __, which the controller reads as another name".to_owned(),
                    cause: None,
                });
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
            if outcome == Outcome::Applies && reason.is_empty() {
                reason = encrypted::reason(node);
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

fn outcome(node: &Node) -> (Outcome, String) {
    if let Some(removal) = &node.removal {
        let reason = match &removal.finalization {
            Finalization::Deletes => "it goes with everything in its inventory".to_owned(),
            Finalization::Leaves(why) => format!("it goes and leaves its objects behind, as it {why}"),
            Finalization::Depends(why) => format!("it goes; whether its objects go too is a race: {why}"),
        };
        let reason = if removal.sure { reason } else { format!("race: {reason}, or it stays") };
        return (Outcome::Deleted, reason);
    }
    let last = node.last();
    match last.map(|pass| &pass.outcome) {
        Some(PassOutcome::Applied(_)) if node.unreadable.is_some() => {
            let why = node.unreadable.as_deref().unwrap_or_default();
            (Outcome::Blocked, format!("its inventory is unreadable: {why}; it is replaced, and nothing is deleted"))
        }
        Some(PassOutcome::Applied(_)) if last.is_some_and(|pass| pass.optional) => {
            (Outcome::Applies, "race: it depends on what this change deletes".to_owned())
        }
        Some(PassOutcome::Applied(_)) => (Outcome::Applies, String::new()),
        Some(PassOutcome::Partial { why, .. } | PassOutcome::Blocked(why)) => (Outcome::Blocked, why.clone()),
        Some(PassOutcome::Elsewhere(why)) => (Outcome::Unchanged, why.clone()),
        None => (Outcome::Unchanged, "it is being deleted".to_owned()),
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

fn absent(id: &ObjectId) -> PinnedObject {
    PinnedObject { id: id.clone(), uid: String::new(), resource_version: String::new() }
}
