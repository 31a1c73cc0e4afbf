//! Limits that a plan must not exceed: for deletions by this tool a reason to refuse, in a preview an alarm.
//!
//! See docs/reference/ownership.md 8, rule 6.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Action, Plan};
use crate::ownership::index::Index;
use crate::ownership::{Members, OwnerId};
use crate::text::pluralize;

/// Limits that the user set, or the defaults.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of deleted objects, cascades included.
    pub max_delete: usize,
    /// Maximum percentage of an owner's objects.
    pub max_percent: u8,
    /// Permits the execution of an incomplete plan.
    pub allow_incomplete: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_delete: 50, max_percent: 10, allow_incomplete: false }
    }
}

/// A limit that a plan exceeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// Stable code for programs.
    pub code: AlarmCode,
    /// Owner that is affected; `null` where the plan as a whole exceeds a limit.
    pub owner: Option<OwnerId>,
    /// One short sentence for people.
    pub detail: String,
    /// Action that lifts the limit.
    #[serde(skip)]
    pub remedy: Option<Remedy>,
}

/// Code of an alarm; part of the contract of `kubectl-gitops/plan/v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlarmCode {
    /// An owner that stays loses all its objects.
    OwnerEmptied,
    /// Owners are deleted together with all their objects.
    OwnersDeleted,
    /// An owner loses more than the permitted percentage of its objects.
    OwnerShrinks,
    /// The plan deletes more objects than permitted.
    TooManyDeletions,
    /// The plan is incomplete.
    Incomplete,
}

/// Action that lifts a limit; the command line names the flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Check the paths that the change touches, and raise the percentage to 100 if the change is intended.
    CheckPaths,
    /// Raise the percentage to this value.
    RaiseMaxPercent(usize),
    /// Raise the number of deletions to this value.
    RaiseMaxDelete(usize),
    /// Get the missing permissions, or permit incomplete plans.
    AllowIncomplete,
    /// Look at an owner whose inventory is empty.
    InspectOwner,
}

impl Alarm {
    fn new(code: AlarmCode, owner: Option<&OwnerId>, detail: String, remedy: Remedy) -> Self {
        Self { code, owner: owner.cloned(), detail, remedy: Some(remedy) }
    }

    fn percentage(owner: &OwnerId, cause: &str, lost: usize, all: usize, limits: &Limits) -> Option<Self> {
        if lost * 100 <= all * usize::from(limits.max_percent) {
            return None;
        }
        let (percent, limit) = (lost * 100 / all, limits.max_percent);
        let detail =
            format!("this deletes {percent} % of {owner}{cause}: {lost} of {all} objects, more than {limit} %");
        let remedy = Remedy::RaiseMaxPercent((lost * 100).div_ceil(all));
        Some(Self::new(AlarmCode::OwnerShrinks, Some(owner), detail, remedy))
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
        let detail = format!("the plan is incomplete: {} could not be read", pluralize(plan.gaps().len(), "thing"));
        exceeded.push(Alarm::new(AlarmCode::Incomplete, None, detail, Remedy::AllowIncomplete));
    }
    exceeded.extend(total(plan, limits));
    for (owner, lost) in deletions_by_owner(plan) {
        let recorded = match base {
            Base::Staying(staying) => Some(lost + staying),
            Base::Inventories(index) => match index.owner(owner).map(|owner| &owner.members) {
                Some(Members::Listed(ids)) if !ids.is_empty() => Some(lost + ids.len()),
                Some(_) => {
                    let detail = format!("this deletes everything of {owner}: {lost} of {lost} objects");
                    exceeded.push(Alarm::new(AlarmCode::OwnerEmptied, Some(owner), detail, Remedy::InspectOwner));
                    None
                }
                None => None,
            },
        };
        exceeded.extend(recorded.and_then(|all| Alarm::percentage(owner, "", lost, all, limits)));
    }
    exceeded
}

/// Number of owners that one alarm names.
const NAMED: usize = 10;

/// Returns the limits that a preview exceeds, most severe first. Owners that are deleted themselves share one alarm,
/// which comes after that of the owner that causes it: a hundred applications must not hide one mistyped path.
pub fn check_preview(plan: &Plan, index: &Index<'_>, limits: &Limits) -> Vec<Alarm> {
    let (mut emptied, mut shrunk, mut deleted) = (vec![], vec![], vec![]);
    for (owner, lost) in lost_by_owner(plan) {
        let Some(Members::Listed(recorded)) = index.owner(owner).map(|owner| &owner.members) else { continue };
        let (all, cause) = (recorded.len().max(lost), cause(plan, owner));
        if lost < all || limits.max_percent >= 100 {
            shrunk.extend(Alarm::percentage(owner, &cause, lost, all, limits));
        } else if is_deleted(plan, owner) {
            deleted.push(owner.to_string());
        } else {
            let detail = format!("this deletes 100 % of {owner}{cause}");
            emptied.push(Alarm::new(AlarmCode::OwnerEmptied, Some(owner), detail, Remedy::CheckPaths));
        }
    }
    let mut exceeded = emptied;
    if !deleted.is_empty() {
        let more = if deleted.len() > NAMED { format!(" and {} more", deleted.len() - NAMED) } else { String::new() };
        let what = if deleted.len() == 1 { "owner and all its objects" } else { "owners and all their objects" };
        let names = deleted.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let detail = format!("this deletes {} {what}: {names}{more}", deleted.len());
        exceeded.push(Alarm::new(AlarmCode::OwnersDeleted, None, detail, Remedy::CheckPaths));
    }
    exceeded.extend(total(plan, limits));
    exceeded.extend(shrunk);
    exceeded
}

fn total(plan: &Plan, limits: &Limits) -> Option<Alarm> {
    let total = plan.deletions().count();
    let detail = format!("this deletes {}, more than {}", pluralize(total, "object"), limits.max_delete);
    let remedy = Remedy::RaiseMaxDelete(total);
    (total > limits.max_delete).then(|| Alarm::new(AlarmCode::TooManyDeletions, None, detail, remedy))
}

/// Number of objects of each owner that are deleted, recreated ones included.
fn deletions_by_owner(plan: &Plan) -> BTreeMap<&OwnerId, usize> {
    let mut deleted = BTreeMap::new();
    for owner in plan.deletions().filter_map(|change| change.owner.as_ref()) {
        *deleted.entry(owner).or_default() += 1;
    }
    deleted
}

/// Number of objects that each owner loses for good.
fn lost_by_owner(plan: &Plan) -> BTreeMap<&OwnerId, usize> {
    let mut lost = BTreeMap::new();
    for change in plan.deletions().filter(|change| change.action == Action::Delete) {
        if let Some(owner) = &change.owner {
            *lost.entry(owner).or_default() += 1;
        }
    }
    lost
}

/// Returns true if the plan deletes the owner object itself.
fn is_deleted(plan: &Plan, owner: &OwnerId) -> bool {
    plan.deletions().any(|change| owner.is_object(&change.object.id))
}

/// Names what makes an owner lose objects, with a leading colon: the object that is deleted, or the detail of a reason.
fn cause(plan: &Plan, owner: &OwnerId) -> String {
    for change in plan.deletions().filter(|change| change.owner.as_ref() == Some(owner)) {
        match &change.cause {
            Some(cause) => return format!(": {cause} is deleted"),
            None if !change.reason.detail.is_empty() => return format!(": {}", change.reason.detail),
            None => {}
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::object::{ObjectId, Resource};
    use crate::kubernetes::snapshot::{ClusterIdentity, Snapshot};
    use crate::plan::{Actor, Change, PinnedObject, Reason, ReasonCode};
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
        messages_of(lost, false, limits)
    }

    /// Returns the same alarms; the plan may delete the owner too.
    fn messages_of(lost: usize, owner_is_deleted: bool, limits: Limits) -> Vec<String> {
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        let entries: Vec<_> =
            (0..10).map(|n| serde_json::json!({"id": format!("n_o{n}__ConfigMap"), "v": "v1"})).collect();
        let object = testing::object("kustomize.toolkit.fluxcd.io", "Kustomization", "n", "apps");
        let content = serde_json::json!({"spec": {}, "status": {"inventory": {"entries": entries}}});
        snapshot.resources.push(Resource { object, content });
        let change = |n: usize| {
            let id = ObjectId::new("", "ConfigMap", "n", &format!("o{n}"));
            let object = PinnedObject { id, uid: n.to_string(), resource_version: "1".to_owned() };
            let reason = Reason::new(ReasonCode::NotInBuild, "its path ./aps contains no manifests");
            Change::new(Action::Delete, object, Some(owner()), Actor::KustomizeController, reason)
        };
        let mut changes: Vec<Change> = (0..lost).map(change).collect();
        if owner_is_deleted {
            let own = PinnedObject { id: snapshot.resources[0].object.id.clone(), ..changes[0].object.clone() };
            changes.push(Change { object: own, owner: None, ..changes[0].clone() });
        }
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_changes(changes);
        check_preview(&plan, &Index::build(&snapshot), &limits).into_iter().map(|alarm| alarm.detail).collect()
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
    fn deleted_owners_share_one_alarm() {
        let messages = messages_of(10, true, Limits::default());
        assert_eq!(messages, ["this deletes 1 owner and all its objects: kustomization/apps -n n"]);
    }

    #[test]
    fn only_a_percentage_above_the_limit_is_an_alarm() {
        assert!(messages(1, Limits::default()).is_empty());
        assert!(messages(2, Limits::default())[0].starts_with("this deletes 20 % of kustomization/apps -n n"));
        assert!(messages(2, Limits { max_percent: 20, ..Limits::default() }).is_empty());
    }
}
