//! The part of a preview that concerns some owners.

use std::collections::BTreeSet;

use super::document::{Change, Contested, Plan};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::OwnerId;
use crate::ownership::schemes::flux_kustomization;

/// The part of a plan that concerns some owners: what they own, what they made that owns in turn, and what goes along.
pub fn narrowed(plan: Plan, wanted: &dyn Fn(&OwnerId) -> bool, snapshot: &Snapshot) -> Plan {
    let mut owners: BTreeSet<OwnerId> =
        plan.owners.iter().map(|row| row.owner.clone()).filter(|id| wanted(id)).collect();
    let made_by = |object: &ObjectMetadata| {
        let label = |key: &str| object.labels.get(key).map(str::to_owned);
        label(flux_kustomization::NAME).zip(label(flux_kustomization::NAMESPACE))
    };
    let children: Vec<_> = plan.owners.iter().map(|row| &row.owner).collect();
    // Children of children: as often as the deepest nesting, which is less than the number of owners.
    for _ in 0..children.len() {
        let before = owners.len();
        for child in &children {
            let id = ObjectId::new(flux_kustomization::GROUP, &child.kind, &child.namespace, &child.name);
            let parent = snapshot.object(&id).and_then(made_by);
            if parent.is_some_and(|(name, space)| owners.iter().any(|o| o.name == name && o.namespace == space)) {
                owners.insert((*child).clone());
            }
        }
        if owners.len() == before {
            break;
        }
    }
    let own = |change: &Change| change.owner.as_ref().is_some_and(|owner| owners.contains(owner));
    let mut going: BTreeSet<ObjectId> =
        plan.deletions().filter(|change| own(change)).map(|c| c.object.id.clone()).collect();
    let along = |change: &Change, going: &BTreeSet<ObjectId>| change.cause.as_ref().is_some_and(|c| going.contains(c));
    // What goes along takes others along: Pods with their ReplicaSet, which goes with its Deployment.
    loop {
        let before = going.len();
        let more: Vec<_> = plan.deletions().filter(|c| along(c, &going)).map(|c| c.object.id.clone()).collect();
        going.extend(more);
        if going.len() == before {
            break;
        }
    }
    let changes: Vec<Change> = plan.changes.into_iter().filter(|change| own(change) || along(change, &going)).collect();
    let updated = |id: &ObjectId| changes.iter().any(|change| change.object.id == *id);
    let diffs = plan.diffs.into_iter().filter(|diff| updated(&diff.object)).collect();
    let concerns = |contested: &Contested| contested.owners.iter().any(|owner| owners.contains(owner));
    let contested = plan.contested.into_iter().filter(concerns).collect();
    let rows = plan.owners.into_iter().filter(|row| owners.contains(&row.owner)).collect();
    Plan { contested, diffs, ..Plan::new(plan.cluster, plan.gaps, rows, changes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::snapshot::ClusterIdentity;
    use crate::plan::document::{Action, Actor, Certainty, Fidelity, Outcome, OwnerOutcome, PinnedObject};

    #[test]
    fn what_goes_along_at_any_depth_stays_in_the_part() {
        let owner = |name: &str| OwnerId::new("flux", "Kustomization", "n", name);
        let id = |kind: &str, name: &str| ObjectId::new("", kind, "n", name);
        let row = |id: ObjectId, owner: Option<OwnerId>, cause: Option<ObjectId>| Change {
            action: Action::Delete,
            certainty: Certainty::Certain,
            object: PinnedObject { id, uid: "u".to_owned(), resource_version: "1".to_owned() },
            owner,
            by: Actor::GarbageCollector,
            reason: "dependent".to_owned(),
            cause,
        };
        let outcome = |name: &str| OwnerOutcome {
            owner: owner(name),
            outcome: Outcome::Applies,
            reason: String::new(),
            fidelity: Fidelity::Unknown,
        };
        let changes = vec![
            row(id("Deployment", "web"), Some(owner("apps")), None),
            row(id("ReplicaSet", "web-1"), None, Some(id("Deployment", "web"))),
            row(id("Pod", "web-1-a"), None, Some(id("ReplicaSet", "web-1"))),
            row(id("Pod", "theirs"), None, Some(id("ReplicaSet", "other"))),
            row(id("ReplicaSet", "other"), Some(owner("other")), None),
        ];
        let plan = Plan::new(ClusterIdentity::default(), vec![], vec![outcome("apps"), outcome("other")], changes);
        let snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        let part = narrowed(plan, &|asked| asked.name == "apps", &snapshot);
        let names: Vec<&str> = part.changes.iter().map(|change| &*change.object.id.name).collect();
        assert_eq!(names, ["web", "web-1-a", "web-1"]);
    }
}
