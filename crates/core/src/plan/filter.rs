//! Restriction of a plan to some owners.

use std::collections::BTreeSet;

use super::{Change, Plan, ReasonCode};
use crate::kubernetes::object::ObjectId;
use crate::ownership::index::Index;
use crate::ownership::{Members, OwnerId, OwnershipStatus};

/// Restricts a plan to owners, their children at any depth, and everything that is deleted as a consequence.
pub fn restrict_to_owners(plan: &mut Plan, is_wanted: &dyn Fn(&OwnerId) -> bool, index: &Index<'_>) {
    let owners = with_children(plan, is_wanted, index);
    let mut deleted: BTreeSet<ObjectId> = BTreeSet::new();
    // A consequence has consequences: Pods of a ReplicaSet, which is a dependent of a Deployment.
    loop {
        let before = deleted.len();
        let more = plan.deletions().filter(|change| is_of(change, &owners) || is_caused_by(change, &deleted));
        deleted = more.map(|change| change.object.id.clone()).collect();
        if deleted.len() == before {
            break;
        }
    }
    plan.retain_changes(|change| is_of(change, &owners) || is_caused_by(change, &deleted));
    plan.retain_owners(|row| owners.contains(&row.owner));
}

/// Removes what a change leaves as it is: the contested objects of [`drop_standing_conflicts`], and suspended owners.
pub fn drop_untouched(plan: &mut Plan, index: &Index<'_>) {
    drop_standing_conflicts(plan, index);
    plan.drop_untouched_owners();
}

/// Removes the contested objects that were contested before and that the planned change leaves as they are: all their owners
/// list them already, and the plan has no row for them but that of a drift.
fn drop_standing_conflicts(plan: &mut Plan, index: &Index<'_>) {
    let changes = plan.changes().iter().filter(|change| change.reason.code != ReasonCode::Drift);
    let changed: BTreeSet<ObjectId> = changes.map(|change| change.object.id.clone()).collect();
    plan.retain_contested(|contested| {
        let mut owners = contested.owners.iter();
        changed.contains(&contested.object) || !owners.all(|owner| lists(index, owner, &contested.object))
    });
}

/// Returns true if the inventory of a live owner lists an object.
fn lists(index: &Index<'_>, owner: &OwnerId, object: &ObjectId) -> bool {
    match index.owner(owner).map(|owner| &owner.members) {
        Some(Members::Listed(ids)) => ids.contains(object),
        _ => false,
    }
}

fn is_of(change: &Change, owners: &BTreeSet<OwnerId>) -> bool {
    change.owner.as_ref().is_some_and(|owner| owners.contains(owner))
}

fn is_caused_by(change: &Change, deleted: &BTreeSet<ObjectId>) -> bool {
    change.cause.as_ref().is_some_and(|cause| deleted.contains(cause))
}

/// Returns the wanted owners of a plan and their children at any depth.
fn with_children(plan: &Plan, is_wanted: &dyn Fn(&OwnerId) -> bool, index: &Index<'_>) -> BTreeSet<OwnerId> {
    let of_changes = plan.changes().iter().filter_map(|change| change.owner.as_ref());
    let all: BTreeSet<&OwnerId> = plan.owners().iter().map(|row| &row.owner).chain(of_changes).collect();
    let parents: Vec<(&OwnerId, Vec<OwnerId>)> =
        all.iter().map(|child| (*child, parents(child, plan, index))).collect();
    let mut owners: BTreeSet<OwnerId> = all.into_iter().filter(|owner| is_wanted(owner)).cloned().collect();
    loop {
        let before = owners.len();
        for (child, parents) in &parents {
            if parents.iter().any(|parent| owners.contains(parent)) {
                owners.insert((*child).clone());
            }
        }
        if owners.len() == before {
            return owners;
        }
    }
}

/// Returns the owners that manage the object of an owner: by its live claims, and by the plan, which knows children that
/// are created, adopted, or without labels.
fn parents(child: &OwnerId, plan: &Plan, index: &Index<'_>) -> Vec<OwnerId> {
    let rows = plan.owners().iter().filter(|row| row.owner == *child);
    let mut parents: Vec<OwnerId> = rows.flat_map(|row| row.parents.iter().cloned()).collect();
    let changes = plan.changes().iter().filter(|change| child.is_object(&change.object.id));
    parents.extend(changes.filter_map(|change| change.owner.clone()));
    if let Some(object) = index.owner(child).and_then(|owner| owner.object) {
        match index.status(object) {
            OwnershipStatus::Managed(owner) => parents.push(owner),
            _ => parents.extend(index.claims(object).into_iter().next().map(|claim| claim.owner)),
        }
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::snapshot::{ClusterIdentity, Snapshot};
    use crate::plan::{Action, Actor, Contested, Outcome, OwnerOutcome, PinnedObject, ReasonCode};

    fn owner_named(name: &str) -> OwnerId {
        OwnerId::new("flux", "Kustomization", "n", name)
    }

    fn id_of(kind: &str, name: &str) -> ObjectId {
        ObjectId::new("", kind, "n", name)
    }

    fn deletion(id: ObjectId, owner: Option<OwnerId>, cause: Option<ObjectId>) -> Change {
        let object = PinnedObject { uid: "u".to_owned(), ..PinnedObject::absent(id) };
        let change = Change::new(Action::Delete, object, owner, Actor::GarbageCollector, ReasonCode::Dependent);
        Change { cause, ..change }
    }

    fn outcome_of(name: &str) -> OwnerOutcome {
        OwnerOutcome::new(owner_named(name), Outcome::Applies, ReasonCode::NewRevision)
    }

    #[test]
    fn consequences_at_any_depth_stay_in_the_plan() {
        let changes = vec![
            deletion(id_of("Deployment", "web"), Some(owner_named("apps")), None),
            deletion(id_of("ReplicaSet", "web-1"), None, Some(id_of("Deployment", "web"))),
            deletion(id_of("Pod", "web-1-a"), None, Some(id_of("ReplicaSet", "web-1"))),
            deletion(id_of("Pod", "theirs"), None, Some(id_of("ReplicaSet", "other"))),
            deletion(id_of("ReplicaSet", "other"), Some(owner_named("other")), None),
        ];
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_owners([outcome_of("apps"), outcome_of("other")]);
        plan.add_changes(changes);
        let snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        restrict_to_owners(&mut plan, &|asked| asked.name == "apps", &Index::build(&snapshot));
        let names: Vec<&str> = plan.changes().iter().map(|change| &*change.object.id.name).collect();
        assert_eq!(names, ["web", "web-1-a", "web-1"]);
    }

    /// A conflict of owners whose inventories do not list the object already is new.
    #[test]
    fn only_standing_conflicts_are_dropped() {
        let entries =
            serde_json::json!([{"id": "n_old__ConfigMap", "v": "v1"}, {"id": "n_edited__ConfigMap", "v": "v1"}]);
        let content = serde_json::json!({"spec": {}, "status": {"inventory": {"entries": entries}}});
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        for name in ["one", "two"] {
            let object = crate::testing::object("kustomize.toolkit.fluxcd.io", "Kustomization", "n", name);
            snapshot.resources.push(crate::kubernetes::object::Resource { object, content: content.clone() });
        }
        let owners = vec![owner_named("one"), owner_named("two")];
        let contested = |name| Contested { object: id_of("ConfigMap", name), owners: owners.clone() };
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_contested(["old", "edited", "new"].map(contested));
        let object = PinnedObject::absent(id_of("ConfigMap", "edited"));
        let by = Actor::KustomizeController;
        plan.add_changes([Change::new(Action::Update, object, Some(owner_named("one")), by, ReasonCode::Changed)]);
        drop_standing_conflicts(&mut plan, &Index::build(&snapshot));
        let names: Vec<&str> = plan.contested().iter().map(|contested| &*contested.object.name).collect();
        assert_eq!(names, ["edited", "new"]);
    }
}
