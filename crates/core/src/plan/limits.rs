//! Limits that a plan must not exceed: for deletions by this tool a reason to refuse, in a preview an alarm.
//!
//! See docs/reference/ownership.md 8, rule 6.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::alarm::{Alarm, AlarmCode, Remedy};
use super::grave::{AllowedKinds, GraveKind};
use super::{Action, Actor, Change, EmptiedFile, Outcome, Plan, Reason, ReasonCode};
use crate::kubernetes::object::ObjectId;
use crate::ownership::index::{Index, Owner};
use crate::ownership::{Members, OwnerId, OwnerStatus};
use crate::text::{join_limited, pluralize};

/// Limits that the user set, or the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Maximum number of deleted objects, cascades included.
    pub max_delete: usize,
    /// Maximum percentage of the objects of an owner that stays.
    pub max_percent: u8,
    /// Permits the execution of an incomplete plan.
    pub allow_incomplete: bool,
    /// Permissions to delete grave kinds.
    pub allowed: AllowedKinds,
}

/// Number of deleted objects from which the percentage of an owner counts. A percentage of few objects says little: one of
/// two ConfigMaps is half of an owner.
const MIN_FOR_PERCENT: usize = 10;

/// Number of deleted owners that is an alarm if their parent stays. To remove an application is an ordinary change, and it
/// has up to three Kustomizations. A parent that is deleted with its children is an alarm whatever their number.
const MIN_DELETED_OWNERS: usize = 4;

impl Default for Limits {
    fn default() -> Self {
        Self { max_delete: 50, max_percent: 50, allow_incomplete: false, allowed: AllowedKinds::default() }
    }
}

/// Base of the percentage of an owner's objects that are deleted.
#[derive(Clone, Copy)]
pub enum Base<'a> {
    /// The objects that each owner recorded.
    Inventories(&'a Index<'a>),
    /// The deleted objects and this number of objects that stay.
    Staying(usize),
}

/// Returns the limits that a plan of this tool exceeds.
pub fn check_plan(plan: &Plan, base: Base<'_>, limits: &Limits) -> Vec<Alarm> {
    let mut exceeded = vec![];
    if !plan.is_complete() && !limits.allow_incomplete {
        let number = pluralize(plan.counting_gaps().count(), "thing");
        let detail = format!("the plan is incomplete: {number} could not be read");
        exceeded.push(Alarm::new(AlarmCode::Incomplete, None, detail, Remedy::AllowIncomplete));
    }
    exceeded.extend(total(plan, limits));
    // Recreated objects count too.
    for (owner, lost) in count_by_owner(plan.deletions()) {
        exceeded.extend(match base {
            Base::Staying(0) if limits.max_percent < 100 => Some(emptied(owner, lost, Remedy::CheckPaths)),
            Base::Staying(staying) => percentage(owner, "", lost, lost + staying, limits),
            Base::Inventories(_) if is_deleted(plan, owner) => None,
            Base::Inventories(index) => match index.owner(owner).map(|owner| &owner.members) {
                Some(Members::Listed(ids)) if !ids.is_empty() => percentage(owner, "", lost, lost + ids.len(), limits),
                Some(_) => Some(emptied(owner, lost, Remedy::InspectOwner)),
                None => None,
            },
        });
    }
    exceeded
}

/// Number of owners that one alarm names, and of alarms of one code.
const NAMED: usize = 10;
/// Number of objects with the same need that one alarm names.
const NAMED_OF_ONE_NEED: usize = 3;

/// Returns the limits that a preview exceeds, most severe first. Owners that are deleted themselves share one alarm,
/// which comes after that of the owner that causes it: a hundred applications must not hide one mistyped path.
pub(crate) fn check_preview(plan: &Plan, index: &Index<'_>, limits: &Limits) -> Vec<Alarm> {
    let (mut emptied, mut shrunk, mut deleted) = (vec![], vec![], vec![]);
    let losses = lost_by_owner(plan, index);
    for (owner, lost) in &losses {
        let members = index.owner(owner).map(|owner| &owner.members);
        let Some(Members::Listed(recorded) | Members::Remote(recorded)) = members else { continue };
        let (all, cause) = (recorded.len().max(*lost), cause(plan, owner));
        if is_deleted(plan, owner) {
            deleted.push(*owner);
        } else if *lost < all || limits.max_percent >= 100 {
            let own = percentage(owner, &cause, *lost, all, limits);
            shrunk.extend(own.or_else(|| shrinks_with_children(plan, index, owner, &losses, limits)));
        } else {
            let detail = format!("this deletes 100 % of {owner}{cause}");
            emptied.push(Alarm::new(AlarmCode::OwnerEmptied, Some(owner), detail, Remedy::CheckPaths));
        }
    }
    let mut exceeded = emptied;
    exceeded.extend(files_emptied(plan, &exceeded, limits));
    exceeded.extend(owners_deleted(plan, &deleted).filter(|_| limits.max_percent < 100));
    exceeded.extend(blocked(plan, index));
    exceeded.extend(still_referenced(plan));
    exceeded.extend(not_allowed(plan, limits));
    exceeded.extend(total(plan, limits));
    exceeded.extend(shrunk);
    exceeded
}

/// Returns the alarms of kustomization files that are built and list no resource any more. Who removes an application removes
/// its entry or its file; one entry is an object that is removed.
fn files_emptied(plan: &Plan, emptied: &[Alarm], limits: &Limits) -> Vec<Alarm> {
    let files = plan.emptied_files().iter().filter(|file| file.entries > 1);
    let new = files.filter(|file| !emptied.iter().any(|alarm| alarm.owner.as_ref() == Some(&file.owner)));
    let alarms = new.map(|EmptiedFile { owner, path, entries }| {
        let detail =
            format!("this removes {entries} entries from {path}, which {owner} still builds without any resource");
        Alarm::new(AlarmCode::FileEmptied, Some(owner), detail, Remedy::CheckPaths)
    });
    alarms.filter(|_| limits.max_percent < 100).collect()
}

/// Returns the alarm of owners that are deleted: too many, or some of them together with their parent.
fn owners_deleted(plan: &Plan, deleted: &[&OwnerId]) -> Option<Alarm> {
    if deleted.len() < MIN_DELETED_OWNERS && !deleted.iter().any(|owner| has_deleted_parent(plan, owner)) {
        return None;
    }
    let names = join_limited(deleted, NAMED);
    let detail = format!("this deletes {} and their objects: {names}", pluralize(deleted.len(), "owner"));
    Some(Alarm::new(AlarmCode::OwnersDeleted, None, detail, Remedy::CheckPaths))
}

fn has_deleted_parent(plan: &Plan, owner: &OwnerId) -> bool {
    let row = plan.deletions().find(|change| owner.is_object(&change.object.id));
    row.and_then(|change| change.owner.as_ref()).is_some_and(|parent| is_deleted(plan, parent))
}

/// Returns the alarm of an owner that stays and loses too much with the owners that it manages: one Kustomization can hold
/// all applications of a cluster.
fn shrinks_with_children(
    plan: &Plan,
    index: &Index<'_>,
    owner: &OwnerId,
    lost_by_owner: &BTreeMap<&OwnerId, usize>,
    limits: &Limits,
) -> Option<Alarm> {
    let (mut lost, mut all) = (lost_by_owner.get(owner).copied().unwrap_or_default(), 0);
    let (mut family, mut queue) = (BTreeSet::from([owner]), vec![owner]);
    while let Some(member) = queue.pop() {
        let Some(Members::Listed(recorded)) = index.owner(member).map(|owner| &owner.members) else { continue };
        all += recorded.len();
        if member != owner && is_deleted(plan, member) {
            lost += lost_by_owner.get(member).copied().unwrap_or_default();
        }
        let children = recorded.iter().filter_map(|id| index.owner_of_object(id)).map(|child| &child.id);
        queue.extend(children.filter(|child| family.insert(child)));
    }
    percentage(owner, " with the owners that it manages", lost, all, limits)
}

fn total(plan: &Plan, limits: &Limits) -> Option<Alarm> {
    let total = plan.deletions().count();
    let detail = format!("this deletes {}, more than {}", pluralize(total, "object"), limits.max_delete);
    let remedy = Remedy::RaiseMaxDelete(total);
    (total > limits.max_delete).then(|| Alarm::new(AlarmCode::TooManyDeletions, None, detail, remedy))
}

/// Returns the alarm of owners that apply today and that the change would block, at once or once what they need is deleted. To
/// suspend an owner is a decision.
fn blocked(plan: &Plan, index: &Index<'_>) -> Option<Alarm> {
    let all = plan.owners().iter().filter(|row| row.outcome == Outcome::Blocked || row.loses_what_it_needs());
    let applied_today = all
        .filter(|row| index.owner(&row.owner).is_some_and(applies_today) && row.reason.code != ReasonCode::Suspended);
    let mut by_reason: Vec<(String, Vec<String>)> = vec![];
    for row in applied_today {
        // The reason of an owner that waits for another one of them is that of the other.
        let reason = plan.blocking_owner(row).map_or_else(|| row.reason.to_string(), |_| row.reason.code.to_string());
        let owner = row.owner.to_string();
        match by_reason.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, owners)) => owners.push(owner),
            None => by_reason.push((reason, vec![owner])),
        }
    }
    let number = by_reason.iter().map(|(_, owners)| owners.len()).sum();
    let blocked = by_reason.iter().map(|(reason, owners)| format!("{} ({reason})", join_limited(owners, NAMED)));
    let detail = format!(
        "this blocks {} that can be applied today: {}",
        pluralize(number, "owner"),
        join_limited(blocked.collect::<Vec<_>>(), NAMED)
    );
    (number > 0).then(|| Alarm::new(AlarmCode::OwnersBlocked, None, detail, Remedy::Unblock))
}

/// Returns true if an owner is ready, or reconciles the revision again that it applied last: it is not ready meanwhile.
fn applies_today(owner: &Owner<'_>) -> bool {
    match owner.status {
        OwnerStatus::Ready => true,
        OwnerStatus::Reconciling | OwnerStatus::Changed => owner.full.is_some_and(|full| {
            let applied = full.text("/status/lastAppliedRevision");
            applied.is_some() && applied == full.text("/status/lastAttemptedRevision")
        }),
        OwnerStatus::Suspended | OwnerStatus::NotReady(_) | OwnerStatus::Terminating => false,
    }
}

/// Returns the alarms of deleted objects that something which stays still needs. All objects with the same need share one, and
/// the gravest objects are first.
fn still_referenced(plan: &Plan) -> Vec<Alarm> {
    let mut by_need: BTreeMap<String, Vec<&ObjectId>> = BTreeMap::new();
    for found in plan.still_referenced() {
        by_need.entry(found.remark()).or_default().push(&found.object);
    }
    let mut needs: Vec<(String, Vec<&ObjectId>)> = by_need.into_iter().collect();
    needs.iter_mut().for_each(|(_, objects)| objects.sort_by_key(|id| Reverse(GraveKind::of(id))));
    needs.sort_by_key(|(_, objects)| (Reverse(GraveKind::of(objects[0])), objects[0]));
    let more: usize = needs.iter().skip(NAMED).map(|(_, objects)| objects.len()).sum();
    let mut details: Vec<String> = needs.iter().take(NAMED).map(|(need, objects)| needed(objects, need)).collect();
    if more > 0 {
        let are = if more == 1 { "is" } else { "are" };
        details.push(format!("this deletes {} that {are} still needed", pluralize(more, "more object")));
    }
    let alarms = details.into_iter();
    alarms.map(|detail| Alarm::new(AlarmCode::StillReferenced, None, detail, Remedy::RemoveReferences)).collect()
}

/// Returns the sentence about deleted objects that all have one need.
fn needed(objects: &[&ObjectId], need: &str) -> String {
    let each = if objects.len() == 1 { "which" } else { "each of which" };
    format!("this deletes {}, {each} is {need}", join_limited(objects, NAMED_OF_ONE_NEED))
}

/// Returns the alarm of deletions that need a permission. A plan that this tool executes keeps these objects instead.
fn not_allowed(plan: &Plan, limits: &Limits) -> Option<Alarm> {
    let mut kinds: BTreeMap<(GraveKind, &str), usize> = BTreeMap::new();
    for change in plan.deletions() {
        let Some(kind) = limits.allowed.missing_for(&change.object.id) else { continue };
        *kinds.entry((kind, &change.object.id.kind)).or_default() += 1;
    }
    let counts: Vec<_> = kinds.iter().rev().map(|((_, kind), number)| pluralize(*number, kind)).collect();
    let mut permissions: Vec<_> = kinds.into_keys().rev().map(|(kind, _)| kind).collect();
    permissions.dedup();
    let remedy = Remedy::Allow(permissions);
    let detail = format!("this deletes objects that Git cannot restore: {}", counts.join(", "));
    (!counts.is_empty()).then(|| Alarm::new(AlarmCode::NotAllowed, None, detail, remedy))
}

/// Returns how many objects each owner loses. What the garbage collector deletes is lost if the owner lists it: others
/// are not among what its share is counted of.
fn lost_by_owner<'p>(plan: &'p Plan, index: &Index<'_>) -> BTreeMap<&'p OwnerId, usize> {
    let is_own = |change: &&Change| {
        change.by != Actor::GarbageCollector
            || change.owner.as_ref().is_none_or(|owner| index.recorded_by(&change.object.id).contains(owner))
    };
    count_by_owner(plan.deletions().filter(|change| change.action == Action::Delete).filter(is_own))
}

fn count_by_owner<'p>(changes: impl Iterator<Item = &'p Change>) -> BTreeMap<&'p OwnerId, usize> {
    let mut counts = BTreeMap::new();
    for owner in changes.filter_map(|change| change.owner.as_ref()) {
        *counts.entry(owner).or_default() += 1;
    }
    counts
}

/// Returns the alarm of an owner that stays and loses all its objects.
fn emptied(owner: &OwnerId, lost: usize, remedy: Remedy) -> Alarm {
    let detail = format!("this deletes everything of {owner}: {lost} of {lost} objects");
    Alarm::new(AlarmCode::OwnerEmptied, Some(owner), detail, remedy)
}

/// Returns the alarm of an owner that loses more than the permitted percentage of its objects.
fn percentage(owner: &OwnerId, cause: &str, lost: usize, all: usize, limits: &Limits) -> Option<Alarm> {
    if lost < MIN_FOR_PERCENT || lost * 100 <= all * usize::from(limits.max_percent) {
        return None;
    }
    let (percent, limit) = (lost * 100 / all, limits.max_percent);
    let detail = format!("this deletes {percent} % of {owner}{cause}: {lost} of {all} objects, more than {limit} %");
    let remedy = Remedy::RaiseMaxPercent((lost * 100).div_ceil(all));
    Some(Alarm::new(AlarmCode::OwnerShrinks, Some(owner), detail, remedy))
}

/// Returns true if the plan deletes the owner object itself.
fn is_deleted(plan: &Plan, owner: &OwnerId) -> bool {
    plan.deletions().any(|change| owner.is_object(&change.object.id))
}

/// Names what makes an owner lose objects, with a leading colon: the object that is deleted, or the detail of a reason.
fn cause(plan: &Plan, owner: &OwnerId) -> String {
    for change in plan.deletions().filter(|change| change.owner.as_ref() == Some(owner)) {
        // Remarks are about the object.
        let reason = Reason { remarks: vec![], ..change.reason.clone() }.text();
        match &change.cause {
            Some(cause) if plan.deletions().any(|deleted| deleted.object.id == *cause) => {
                return format!(": {cause} is deleted");
            }
            _ if !reason.is_empty() => return format!(": {reason}"),
            _ => {}
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::gap::{Gap, GapKind};
    use crate::kubernetes::object::Resource;
    use crate::kubernetes::references::{StillReferenced, User};
    use crate::kubernetes::referrer::Usage;
    use crate::kubernetes::snapshot::{ClusterIdentity, Snapshot};
    use crate::plan::{Outcome, OwnerOutcome, PinnedObject};
    use crate::testing;

    fn owner() -> OwnerId {
        OwnerId {
            system: "flux".to_owned(),
            kind: "Kustomization".to_owned(),
            namespace: "n".to_owned(),
            name: "apps".to_owned(),
        }
    }

    /// Returns the alarms of a plan that deletes `lost` of the ten objects in an owner's inventory.
    fn messages(lost: usize, limits: Limits) -> Vec<String> {
        messages_of(lost, 10, false, limits)
    }

    /// Returns the same alarms for `all` objects in the inventory; the plan may delete the owner too.
    fn messages_of(lost: usize, all: usize, owner_is_deleted: bool, limits: Limits) -> Vec<String> {
        let snapshot = cluster(all);
        let plan = deletions(lost, owner_is_deleted);
        check_preview(&plan, &Index::build(&snapshot), &limits).into_iter().map(|alarm| alarm.detail).collect()
    }

    /// Returns a cluster with the owner, which has this number of objects in its inventory.
    fn cluster(all: usize) -> Snapshot {
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        let entries: Vec<_> =
            (0..all).map(|n| serde_json::json!({"id": format!("n_o{n}__ConfigMap"), "v": "v1"})).collect();
        let object = testing::object("kustomize.toolkit.fluxcd.io", "Kustomization", "n", "apps");
        let content = serde_json::json!({"spec": {}, "status": {"inventory": {"entries": entries}}});
        snapshot.resources.push(Resource { object, content });
        snapshot
    }

    /// Returns a plan that deletes objects of the owner, and perhaps the owner.
    fn deletions(lost: usize, owner_is_deleted: bool) -> Plan {
        let change = |n: usize| {
            let id = ObjectId::new("", "ConfigMap", "n", &format!("o{n}"));
            let object = PinnedObject { id, uid: n.to_string(), resource_version: "1".to_owned() };
            let reason = Reason::new(ReasonCode::NotInBuild, "its path ./aps contains no manifests");
            Change::new(Action::Delete, object, Some(owner()), Actor::KustomizeController, reason)
        };
        let mut changes: Vec<Change> = (0..lost).map(change).collect();
        if owner_is_deleted {
            let id = ObjectId::new("kustomize.toolkit.fluxcd.io", "Kustomization", "n", "apps");
            let own = PinnedObject { id, ..changes[0].object.clone() };
            changes.push(Change { object: own, owner: None, ..changes[0].clone() });
        }
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_changes(changes);
        plan
    }

    /// Returns the alarms of a plan of this tool.
    fn refusals(plan: &Plan, base: Base<'_>, limits: Limits) -> Vec<(AlarmCode, String)> {
        check_plan(plan, base, &limits).into_iter().map(|alarm| (alarm.code, alarm.detail)).collect()
    }

    #[test]
    fn an_incomplete_plan_is_executed_only_with_permission() {
        let snapshot = cluster(10);
        let index = Index::build(&snapshot);
        let base = || Base::Inventories(&index);
        let mut plan = deletions(1, false);
        assert_eq!(refusals(&plan, base(), Limits::default()), []);
        let message = "forbidden".to_owned();
        plan.add_gaps([Gap { kind: GapKind::Forbidden, subject: "nodes".to_owned(), namespace: None, message }]);
        let expected = (AlarmCode::Incomplete, "the plan is incomplete: 1 thing could not be read".to_owned());
        assert_eq!(refusals(&plan, base(), Limits::default()), [expected]);
        assert_eq!(refusals(&plan, base(), Limits { allow_incomplete: true, ..Limits::default() }), []);
    }

    #[test]
    fn the_share_of_leaked_objects_counts_those_that_the_inventory_lists() {
        let alarms = |lost, recorded, owner_is_deleted| {
            let snapshot = cluster(recorded);
            let index = Index::build(&snapshot);
            refusals(&deletions(lost, owner_is_deleted), Base::Inventories(&index), Limits::default())
        };
        let shrinks = "this deletes 66 % of kustomization/apps -n n: 20 of 30 objects, more than 50 %".to_owned();
        assert_eq!(alarms(20, 10, false), [(AlarmCode::OwnerShrinks, shrinks)]);
        assert_eq!(alarms(20, 20, false), [], "exactly 50 %");
        assert_eq!(alarms(20, 10, true), [], "the owner does not stay");
        let emptied = "this deletes everything of kustomization/apps -n n: 3 of 3 objects".to_owned();
        assert_eq!(alarms(3, 0, false), [(AlarmCode::OwnerEmptied, emptied)], "its inventory is empty");
        let nobody = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        let index = Index::build(&nobody);
        assert_eq!(refusals(&deletions(3, false), Base::Inventories(&index), Limits::default()), []);
    }

    #[test]
    fn the_share_of_an_environment_counts_the_objects_that_stay() {
        let alarms = |lost, staying, max_percent| {
            let limits = Limits { max_percent, ..Limits::default() };
            refusals(&deletions(lost, false), Base::Staying(staying), limits)
        };
        let emptied = "this deletes everything of kustomization/apps -n n: 3 of 3 objects".to_owned();
        assert_eq!(alarms(3, 0, 50), [(AlarmCode::OwnerEmptied, emptied)]);
        assert_eq!(alarms(3, 0, 100), []);
        let shrinks = "this deletes 80 % of kustomization/apps -n n: 20 of 25 objects, more than 50 %".to_owned();
        assert_eq!(alarms(20, 5, 50), [(AlarmCode::OwnerShrinks, shrinks)]);
        assert_eq!(alarms(20, 20, 50), []);
    }

    #[test]
    fn an_emptied_owner_comes_first() {
        let expected = "this deletes 100 % of kustomization/apps -n n: its path ./aps contains no manifests";
        assert_eq!(messages(10, Limits::default()), [expected]);
        assert!(messages(10, Limits { max_percent: 100, ..Limits::default() }).is_empty());
        let both = messages(10, Limits { max_delete: 5, ..Limits::default() });
        assert_eq!(both, [expected, "this deletes 10 objects, more than 5"]);
    }

    #[test]
    fn the_cause_is_the_first_reason_with_a_detail() {
        let mut plan = Plan::new(ClusterIdentity::default());
        let row = |name: &str, detail: &str| {
            let object = PinnedObject::absent(ObjectId::new("", "ConfigMap", "n", name));
            let reason = Reason::new(ReasonCode::NotInBuild, detail);
            Change::new(Action::Delete, object, Some(owner()), Actor::KustomizeController, reason)
        };
        plan.add_changes([row("a", "")]);
        assert_eq!(cause(&plan, &owner()), "");
        plan.add_changes([row("b", "its path is empty")]);
        assert_eq!(cause(&plan, &owner()), ": its path is empty");
        plan.update_changes(|change| {
            change.reason.detail.clear();
            change.reason.remarks.push("still needed: deployment.apps/web -n n mounts it".to_owned());
        });
        assert_eq!(cause(&plan, &owner()), "", "what needs an object is not why its owner loses it");
    }

    #[test]
    fn claims_of_a_set_that_shrinks_are_no_share_of_its_owner_and_no_deletion_of_it() {
        let snapshot = cluster(1);
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_changes((0..3).map(|number| {
            let id = ObjectId::new("", "PersistentVolumeClaim", "n", &format!("data-db-{number}"));
            let object = PinnedObject { id, uid: number.to_string(), resource_version: "1".to_owned() };
            let by = Actor::GarbageCollector;
            let change = Change::new(Action::Delete, object, Some(owner()), by, ReasonCode::ScaledDown);
            Change { cause: Some(ObjectId::new("kustomize.toolkit.fluxcd.io", "Kustomization", "n", "apps")), ..change }
        }));
        let alarms = check_preview(&plan, &Index::build(&snapshot), &Limits::default());
        assert_eq!(alarms.iter().map(|alarm| alarm.code).collect::<Vec<_>>(), [AlarmCode::NotAllowed]);
        assert_eq!(cause(&plan, &owner()), "");
    }

    #[test]
    fn objects_with_the_same_need_share_an_alarm_and_the_gravest_are_first() {
        let found = |kind: &str, name: &str, user: &str| StillReferenced {
            object: ObjectId::new("", kind, "n", name),
            users: vec![User { object: ObjectId::new("apps", "Deployment", "n", user), usage: Usage::Mounts }],
            kept_by: None,
        };
        let mut all: Vec<_> = (0..5).map(|at| found("ConfigMap", &format!("m{at}"), "web")).collect();
        all.push(found("PersistentVolumeClaim", "data", "web"));
        all.extend((10..30).map(|at| found("Secret", &format!("s{at}"), &format!("app{at}"))));
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.set_still_referenced(all);
        let alarms = still_referenced(&plan);
        let details: Vec<&str> = alarms.iter().map(|alarm| &*alarm.detail).collect();
        let first = "this deletes persistentvolumeclaim/data -n n, configmap/m0 -n n, configmap/m1 -n n and 3 more, each of \
                     which is still needed: deployment.apps/web -n n mounts it";
        assert_eq!((details.len(), details[0]), (11, first));
        assert_eq!(
            details[1],
            "this deletes secret/s10 -n n, which is still needed: deployment.apps/app10 -n n mounts it"
        );
        assert_eq!(details[10], "this deletes 11 more objects that are still needed");
    }

    #[test]
    fn one_deleted_owner_is_an_ordinary_change() {
        assert_eq!(messages_of(10, 10, true, Limits::default()), [""; 0]);
        let limits = Limits { max_delete: 10, ..Limits::default() };
        assert_eq!(messages_of(10, 10, true, limits), ["this deletes 11 objects, more than 10"]);
    }

    /// Returns the alarms of a plan in which the Kustomization `root` manages `children`, each with `objects` ConfigMaps. The
    /// plan deletes the first `deleted` children with their objects, and perhaps the root.
    fn alarms_of_family(children: usize, objects: usize, deleted: usize, root_is_deleted: bool) -> Vec<String> {
        alarms_of_thinned_family(children, objects, deleted, root_is_deleted, 0)
    }

    /// As [`alarms_of_family`]; the children that stay lose `thinned` objects each.
    fn alarms_of_thinned_family(
        children: usize,
        objects: usize,
        deleted: usize,
        root_is_deleted: bool,
        thinned: usize,
    ) -> Vec<String> {
        let named = |name: &str| OwnerId { name: name.to_owned(), ..owner() };
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        let mut add = |name: &str, ids: Vec<String>| {
            let entries: Vec<_> = ids.iter().map(|id| serde_json::json!({"id": id, "v": "v1"})).collect();
            let object = testing::object("kustomize.toolkit.fluxcd.io", "Kustomization", "n", name);
            let content = serde_json::json!({"spec": {}, "status": {"inventory": {"entries": entries}}});
            snapshot.resources.push(Resource { object, content });
        };
        let names: Vec<String> = (0..children).map(|child| format!("child-{child}")).collect();
        add("root", names.iter().map(|name| format!("n_{name}_kustomize.toolkit.fluxcd.io_Kustomization")).collect());
        for name in &names {
            add(name, (0..objects).map(|at| format!("n_{name}-{at}__ConfigMap")).collect());
        }
        let mut changes = vec![];
        let mut delete = |group: &str, kind: &str, name: &str, owner: Option<OwnerId>| {
            let object = PinnedObject::absent(ObjectId::new(group, kind, "n", name));
            changes.push(Change::new(
                Action::Delete,
                object,
                owner,
                Actor::KustomizeController,
                ReasonCode::OwnerDeleted,
            ));
        };
        for name in &names[..deleted] {
            delete("kustomize.toolkit.fluxcd.io", "Kustomization", name, Some(named("root")));
            (0..objects).for_each(|at| delete("", "ConfigMap", &format!("{name}-{at}"), Some(named(name))));
        }
        for name in &names[deleted..] {
            (0..thinned).for_each(|at| delete("", "ConfigMap", &format!("{name}-{at}"), Some(named(name))));
        }
        if root_is_deleted {
            delete("kustomize.toolkit.fluxcd.io", "Kustomization", "root", None);
        }
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_changes(changes);
        let alarms = check_preview(&plan, &Index::build(&snapshot), &Limits::default());
        alarms.into_iter().map(|alarm| alarm.detail).collect()
    }

    #[test]
    fn several_deleted_owners_are_an_alarm_and_with_their_parent_any_number() {
        assert_eq!(alarms_of_family(20, 3, 3, false), [""; 0], "an application with three Kustomizations");
        let alarm = &alarms_of_family(20, 3, 4, false)[0];
        assert!(alarm.starts_with("this deletes 4 owners and their objects: kustomization/child-0 -n n, "), "{alarm}");
        let alarm = &alarms_of_family(1, 3, 1, true)[0];
        let both = "kustomization/child-0 -n n, kustomization/root -n n";
        assert_eq!(*alarm, format!("this deletes 2 owners and their objects: {both}"));
    }

    #[test]
    fn the_share_of_a_parent_counts_the_objects_of_its_children() {
        assert_eq!(alarms_of_family(4, 20, 2, false), [""; 0], "exactly half");
        assert_eq!(alarms_of_thinned_family(4, 10, 2, false, 4), [""; 0], "a child that stays answers for itself");
        let shrinks = "this deletes 66 % of kustomization/root -n n with the owners that it manages: 42 of 63 objects";
        assert_eq!(alarms_of_family(3, 20, 2, false), [format!("{shrinks}, more than 50 %")]);
    }

    #[test]
    fn a_file_that_lists_nothing_any_more_is_an_alarm() {
        let snapshot = cluster(10);
        let alarms = |lost, entries, max_percent| {
            let mut plan = deletions(lost, false);
            let path = "apps/cart/kustomization.yaml".to_owned();
            plan.set_emptied_files(vec![EmptiedFile { owner: owner(), path, entries }]);
            let limits = Limits { max_percent, ..Limits::default() };
            let alarms = check_preview(&plan, &Index::build(&snapshot), &limits);
            alarms.into_iter().map(|alarm| (alarm.code, alarm.detail)).collect::<Vec<_>>()
        };
        let detail = "this removes 3 entries from apps/cart/kustomization.yaml, which kustomization/apps -n n still builds without any resource";
        assert_eq!(alarms(3, 3, 50), [(AlarmCode::FileEmptied, detail.to_owned())]);
        assert_eq!(alarms(1, 1, 50), [], "one object is removed");
        assert_eq!(alarms(3, 3, 100), []);
        assert_eq!(alarms(10, 3, 50).len(), 1, "the owner is emptied");
    }

    #[test]
    fn only_a_percentage_above_the_limit_is_an_alarm() {
        assert_eq!(messages_of(9, 10, false, Limits::default()), [""; 0], "fewer than 10 objects");
        assert_eq!(messages_of(10, 20, false, Limits::default()), [""; 0], "exactly 50 %");
        let alarm = &messages_of(10, 19, false, Limits::default())[0];
        assert!(alarm.starts_with("this deletes 52 % of kustomization/apps -n n"), "{alarm}");
        let alarm = percentage(&owner(), "", 10, 19, &Limits::default()).unwrap();
        assert_eq!(alarm.remedy, Some(Remedy::RaiseMaxPercent(53)), "enough for what is deleted");
        let raised = Limits { max_percent: 53, ..Limits::default() };
        assert_eq!(messages_of(10, 19, false, raised), [""; 0]);
        assert_eq!(messages_of(10, 19, true, Limits::default()), [""; 0], "the owner does not stay");
    }

    #[test]
    fn an_owner_that_loses_everything_is_an_alarm_however_few_objects_it_has() {
        assert_eq!(messages_of(1, 1, false, Limits::default()).len(), 1);
    }

    #[test]
    fn an_owner_that_is_ready_and_would_be_blocked_is_an_alarm() {
        let snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        let object = testing::object("kustomize.toolkit.fluxcd.io", "Kustomization", "n", "apps");
        let ready = |status: &str| {
            let (status, attempted) = status.split_once(" and ").unwrap_or((status, "one"));
            serde_json::json!({"spec": {}, "status": {"observedGeneration": object.generation,
                "lastAppliedRevision": "one", "lastAttemptedRevision": attempted,
                "conditions": [{"type": "Ready", "status": status}]}})
        };
        let details = |status: &str, code| {
            let mut snapshot = snapshot.clone();
            snapshot.resources.push(Resource { object: object.clone(), content: ready(status) });
            let mut plan = Plan::new(ClusterIdentity::default());
            plan.add_owners([OwnerOutcome::new(owner(), Outcome::Blocked, Reason::new(code, "why"))]);
            let alarms = check_preview(&plan, &Index::build(&snapshot), &Limits::default());
            alarms.into_iter().map(|alarm| alarm.detail).collect::<Vec<_>>()
        };
        let alarm = "this blocks 1 owner that can be applied today: kustomization/apps -n n (path-not-found: why)";
        assert_eq!(details("True", ReasonCode::PathNotFound), [alarm]);
        assert_eq!(details("False", ReasonCode::PathNotFound), [""; 0], "it did not apply before either");
        assert_eq!(details("True", ReasonCode::Suspended), [""; 0], "somebody decided that");
        assert_eq!(details("Unknown", ReasonCode::PathNotFound), [alarm], "it applies the same revision again");
        let refused = details("Unknown and another revision", ReasonCode::PathNotFound);
        assert_eq!(refused, [""; 0], "it tries a revision that it has not applied");
    }

    #[test]
    fn owners_that_are_blocked_for_one_reason_name_it_once() {
        let content = serde_json::json!({"status": {"observedGeneration": 0,
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let names = ["a", "b", "c"];
        let resources = names.map(|name| {
            let object = testing::object("kustomize.toolkit.fluxcd.io", "Kustomization", "n", name);
            let mut content = content.clone();
            content["status"]["observedGeneration"] = object.generation.into();
            Resource { object, content }
        });
        let snapshot = testing::snapshot(vec![], resources.to_vec());
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_owners(names.map(|name| {
            let detail = if name == "b" { "other" } else { "same" };
            let owner = OwnerId::new("flux", "Kustomization", "n", name);
            OwnerOutcome::new(owner, Outcome::Blocked, Reason::new(ReasonCode::BuildFailed, detail))
        }));
        let alarms = check_preview(&plan, &Index::build(&snapshot), &Limits::default());
        let text = "this blocks 3 owners that can be applied today: kustomization/a -n n, kustomization/c -n n \
                    (build-failed: same), kustomization/b -n n (build-failed: other)";
        assert_eq!(alarms[0].detail, text);
    }

    #[test]
    fn an_owner_whose_dependency_is_deleted_is_blocked_from_then_on() {
        let object = testing::object("kustomize.toolkit.fluxcd.io", "Kustomization", "n", "apps");
        let content = serde_json::json!({"status": {"observedGeneration": object.generation,
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let snapshot = testing::snapshot(vec![], vec![Resource { object, content }]);
        let mut plan = Plan::new(ClusterIdentity::default());
        let reason = Reason::new(ReasonCode::DependencyDeleted, "it depends on kustomization/base -n n");
        plan.add_owners([OwnerOutcome::new(owner(), Outcome::Applies, reason)]);
        let alarms = check_preview(&plan, &Index::build(&snapshot), &Limits::default());
        let details: Vec<_> = alarms.iter().map(|alarm| &*alarm.detail).collect();
        let alarm = "this blocks 1 owner that can be applied today: kustomization/apps -n n (dependency-deleted: it depends on \
                     kustomization/base -n n)";
        assert_eq!(details, [alarm]);
    }

    #[test]
    fn grave_kinds_are_an_alarm_until_they_are_allowed() {
        let mut plan = Plan::new(ClusterIdentity::default());
        let change = |id| {
            Change::new(Action::Recreate, PinnedObject::absent(id), None, Actor::KustomizeController, ReasonCode::Moved)
        };
        let claim = |name| change(ObjectId::new("", "PersistentVolumeClaim", "n", name));
        plan.add_changes([claim("a"), claim("b"), change(ObjectId::new("", "Namespace", "", "n"))]);
        let snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        let alarms = |kinds: &[GraveKind]| {
            let limits = Limits { allowed: kinds.iter().copied().collect(), ..Limits::default() };
            let alarms = check_preview(&plan, &Index::build(&snapshot), &limits);
            alarms.into_iter().map(|alarm| (alarm.detail, alarm.remedy.unwrap())).collect::<Vec<_>>()
        };
        let text = |counts: &str| format!("this deletes objects that Git cannot restore: {counts}");
        let both = [GraveKind::Namespaces, GraveKind::Volumes];
        assert_eq!(alarms(&[]), [(text("1 Namespace, 2 PersistentVolumeClaims"), Remedy::Allow(both.to_vec()))]);
        assert_eq!(alarms(&both[1..]), [(text("1 Namespace"), Remedy::Allow(vec![GraveKind::Namespaces]))]);
        assert_eq!(alarms(&both), []);
    }
}
