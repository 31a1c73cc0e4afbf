//! Steps that hand objects over to other owners without deleting them.
//!
//! A list of steps is judged by the plans of the simulation alone, which are about every order of events: no object that
//! something manages in the end may be deleted on the way. The search starts with the change itself, holds back each owner
//! that loses an object, and leaves out what turns out not to be needed. It is bounded and has no randomness.

mod edit;
pub mod patch;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::kubernetes::deletion::volumes::CLAIM;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::ownership::schemes::flux_helmrelease as releases;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::ownership::schemes::flux_operator as operator;
use crate::ownership::{Members, OwnerId};
use crate::plan::alarm::AlarmCode;
use crate::plan::mask::SecretMask;
use crate::plan::{Action, Alarm, Change, FinishedPlan, Plan, ReasonCode};
use patch::FilePatch;
pub use patch::Hold;

/// Name of the JSON schema; a contract with programs.
pub const SCHEMA: &str = "kubectl-gitops/handover/v1";

/// Maximum number of lists that are tried.
pub const MAX_LISTS: usize = 24;

/// Settings of owners, and of objects of releases, before the change.
pub type Holds = BTreeMap<ObjectId, Hold>;

/// An object that a list of steps would delete although something manages it in the end. Its texts hold no value of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub object: ObjectId,
    /// Owner that deletes it.
    pub owner: Option<OwnerId>,
    /// Rule by which it is deleted, for people.
    pub reason: String,
    /// The owner or object on which a setting prevents the deletion, and the settings to try, the one that costs least first.
    holder: Option<(ObjectId, &'static [Hold])>,
}

impl Loss {
    /// Returns the owner or object on which a setting would prevent the deletion.
    pub fn holder(&self) -> Option<&ObjectId> {
        self.holder.as_ref().map(|(id, _)| id)
    }
}

/// Returns the settings of owners in Git that are not in a state, although a commit has them: something else that the build has decides.
pub fn without_effect(holds: &Holds, state: &Snapshot) -> Holds {
    let in_spec = holds.iter().filter(|(_, hold)| hold.field().is_in_spec());
    let missing =
        in_spec.filter(|(id, hold)| state.resource(id).is_some_and(|live| !hold.field().is_set(&live.content)));
    missing.map(|(id, hold)| (id.clone(), *hold)).collect()
}

/// Returns the objects that the plans of a list delete, certainly or in some order of events, although they are managed
/// in the end. Each plan comes with the names that it must not show.
pub fn losses<'p>(steps: impl IntoIterator<Item = (&'p Plan, &'p SecretMask)>, last: &Snapshot) -> Vec<Loss> {
    let managed = listed(last);
    let deletions = steps.into_iter().flat_map(|(plan, secrets)| plan.deletions().map(move |change| (change, secrets)));
    // The inventory of a release that is upgraded in a step still lists what the upgrade deletes.
    let is_lost = |id: &ObjectId| last.object(id).is_some() && managed.contains(id);
    let lost = deletions.filter(|(change, _)| is_lost(&change.object.id) || change.may_come_back);
    lost.map(|(change, secrets)| loss(change, secrets)).collect()
}

/// Returns the objects that the inventories of a state list.
pub fn listed(snapshot: &Snapshot) -> BTreeSet<ObjectId> {
    let index = Index::build(snapshot);
    let members = index.owners().filter_map(|owner| match &owner.members {
        Members::Listed(members) => Some(members.iter().cloned()),
        _ => None,
    });
    members.flatten().collect()
}

fn loss(change: &Change, secrets: &SecretMask) -> Loss {
    Loss {
        object: secrets.written(&change.object.id),
        holder: holder(change).map(|(id, holds)| (secrets.written(&id), holds)),
        owner: change.owner.clone().map(|owner| secrets.masked_owner(owner)),
        reason: secrets.mask(&change.reason.to_string()),
    }
}

/// Returns what can hold a deleted object, with the settings to try.
fn holder(change: &Change) -> Option<(ObjectId, &'static [Hold])> {
    let code = change.reason.code;
    let of_others = [releases::GROUP, operator::GROUP];
    if let Some(cause) = change.cause.as_ref().filter(|cause| of_others.contains(&&*cause.group)) {
        let is_release = cause.is(releases::GROUP, releases::KIND);
        return match code {
            ReasonCode::Uninstalled if is_release => Some((cause.clone(), &[Hold::Suspend])),
            ReasonCode::NotInChart if is_release => Some((change.object.id.clone(), &[Hold::Keep])),
            ReasonCode::OwnerDeleted | ReasonCode::NotGenerated if cause.is(operator::GROUP, "ResourceSet") => {
                Some((cause.clone(), &[Hold::Disable]))
            }
            _ => None,
        };
    }
    let owner = change.owner.as_ref().filter(|owner| owner.system == "flux" && owner.kind == KIND)?;
    let of_deleted = [ReasonCode::OwnerDeleted, ReasonCode::OwnerDeletedWithObjects, ReasonCode::OwnerDeletedUncertain];
    let holds: &[Hold] = if change.cause.is_some() || of_deleted.contains(&code) {
        &[Hold::Orphan, Hold::KeepInventory]
    } else {
        &[Hold::KeepInventory, Hold::Orphan]
    };
    Some((ObjectId::new(GROUP, KIND, &owner.namespace, &owner.name), holds))
}

/// Returns the holds to try after a list with these holds has losses. `tried` are the holds that did not help each owner.
///
/// Fails with the first loss that no hold prevents.
pub fn next_holds(
    holds: &Holds,
    tried: &mut BTreeSet<(ObjectId, Hold)>,
    losses: &[Loss],
    live: &Snapshot,
) -> Result<Holds, Box<Loss>> {
    let (mut next, mut blamed) = (holds.clone(), BTreeSet::new());
    for loss in losses {
        let holder =
            loss.holder.as_ref().filter(|(holder, _)| holder.cluster.is_none() && live.object(holder).is_some());
        let Some((key, order)) = holder else { return Err(Box::new(loss.clone())) };
        if !blamed.insert(key.clone()) {
            continue;
        }
        tried.extend(holds.get(key).map(|hold| (key.clone(), *hold)));
        let hold = order.iter().copied().find(|hold| !tried.contains(&(key.clone(), *hold)));
        let Some(hold) = hold else { return Err(Box::new(loss.clone())) };
        next.insert(key.clone(), hold);
    }
    Ok(next)
}

/// Returns the objects that an owner of the first state lists, that exist in the last one, and that nothing lists there:
/// nobody would ever delete them. `secrets` are the names that the plans of the steps must not show.
pub fn left_over<'p>(
    first: &Snapshot,
    last: &Snapshot,
    secrets: impl IntoIterator<Item = &'p SecretMask>,
) -> Vec<ObjectId> {
    let managed = listed(last);
    let before = listed(first).into_iter();
    let left = before.filter(|id| last.object(id).is_some() && !managed.contains(id));
    SecretMask::written_by_all(secrets, left.collect())
}

/// Returns an object that several owners apply in the last state, and fewer of them in the first one, with those owners. One that is
/// suspended applies nothing.
pub fn contested(first: &Snapshot, last: &Snapshot) -> Option<(ObjectId, Vec<OwnerId>)> {
    let (before, after) = (Index::build(first), Index::build(last));
    let appliers = |index: &Index<'_>, id: &ObjectId| -> Vec<OwnerId> {
        let owners = index.recorded_by(id).iter().filter(|owner| owner.system == "flux" && !owner.is_object(id));
        let is_active = |owner: &&OwnerId| {
            let full = index.owner(owner).and_then(|owner| owner.full);
            full.is_some_and(|full| !full.flag("/spec/suspend") && full.object.deletion_timestamp.is_none())
        };
        owners.filter(is_active).cloned().collect()
    };
    last.ids().find_map(|id| {
        let owners = appliers(&after, id);
        (owners.len() > 1 && owners.len() > appliers(&before, id).len()).then(|| (id.clone(), owners))
    })
}

/// Sets the fields of holds in a state, as a commit of them does.
pub fn set_holds(holds: &Holds, state: &mut Snapshot) {
    for (id, hold) in holds.iter().filter(|(_, hold)| hold.field().is_in_spec()) {
        let field = hold.field();
        set_in_spec(state, id, field.name, field.written());
    }
}

fn set_in_spec(state: &mut Snapshot, id: &ObjectId, field: &str, value: Value) {
    let Some(Resource { object, mut content }) = state.resource(id).cloned() else { return };
    content["spec"][field] = value;
    state.replace_resource(id, Some(Resource { object, content }));
}

/// Returns the Kustomizations that are suspended in the first state and that are still there in the last one: what a commit changes for
/// them happens once they are resumed.
pub fn parked(first: &Snapshot, last: &Snapshot) -> Vec<ObjectId> {
    let owners =
        first.resources.iter().filter(|full| full.object.id.is_here(GROUP, KIND) && full.flag("/spec/suspend"));
    owners.map(|full| full.object.id.clone()).filter(|id| last.object(id).is_some()).collect()
}

/// Ends the suspension of owners in a state.
pub fn resume(owners: &[ObjectId], state: &mut Snapshot) {
    owners.iter().for_each(|id| set_in_spec(state, id, "suspend", false.into()));
}

/// A claim that steps delete, and one of the same name that they create in another namespace: it is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimCopy {
    pub from: ObjectId,
    pub to: ObjectId,
}

/// Returns the claims that get another namespace, and whose data nothing moves.
fn claims_to_copy(steps: &[HandoverStep]) -> Vec<ClaimCopy> {
    let changes = || steps.iter().flat_map(|step| step.plan.changes()).filter(|change| change.object.id.is("", CLAIM));
    let deleted = changes().filter(|change| change.is_deletion()).map(|change| &change.object.id);
    let copies: BTreeSet<ClaimCopy> = deleted
        .flat_map(|from| {
            let created = changes().filter(|change| change.action == Action::Create).map(|change| &change.object.id);
            let moved = created.filter(|to| to.name == from.name && to.namespace != from.namespace);
            moved.map(|to| ClaimCopy { from: from.clone(), to: to.clone() })
        })
        .collect();
    copies.into_iter().collect()
}

/// The proposed list of steps.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Handover {
    schema: &'static str,
    /// Every plan is complete.
    complete: bool,
    /// Objects that would be deleted if the change were merged at once.
    pub lost_at_once: Vec<ObjectId>,
    pub steps: Vec<HandoverStep>,
    /// Claims that get another namespace: their data must be copied by hand before they are deleted.
    pub claims_to_copy: Vec<ClaimCopy>,
    /// Objects that nothing manages after the last step.
    pub left_over: Vec<ObjectId>,
}

/// One step, with its plan.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HandoverStep {
    pub number: usize,
    /// Instruction for a person, in one line.
    pub title: String,
    /// Changes of files of the checkout: of the deployed revision in the first step, else of the change.
    pub patches: Vec<FilePatch>,
    #[cfg_attr(feature = "schema", schemars(with = "Plan"))]
    pub plan: FinishedPlan,
    /// Commands for the cluster, to run once Flux has applied the patches.
    pub commands: Vec<String>,
    /// Costs of the step, and objects that it leaves behind.
    pub notes: Vec<String>,
    /// Commands that show that the step is done.
    pub done_when: Vec<String>,
    pub way_back: String,
}

impl Handover {
    /// Creates the list of these steps.
    pub fn new(lost_at_once: Vec<ObjectId>, steps: Vec<HandoverStep>, left_over: Vec<ObjectId>) -> Self {
        let complete = steps.iter().all(|step| step.plan.is_complete());
        let claims_to_copy = claims_to_copy(&steps);
        Self { schema: SCHEMA, complete, lost_at_once, steps, claims_to_copy, left_over }
    }

    /// Returns true if every plan is complete.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns the alarm about owners that are ready now and that a step blocks.
    pub fn blocked(&self) -> Option<&Alarm> {
        let alarms = self.steps.iter().flat_map(|step| step.plan.alarms());
        alarms.into_iter().find(|alarm| alarm.code == AlarmCode::OwnersBlocked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Actor, PinnedObject};
    use crate::testing;

    #[test]
    fn a_claim_in_another_namespace_is_a_copy() {
        let row = |action, namespace: &str| {
            let object = PinnedObject::absent(ObjectId::new("", CLAIM, namespace, "data"));
            Change::new(action, object, None, Actor::KustomizeController, ReasonCode::InBuild)
        };
        let step = |changes: Vec<Change>| {
            let mut plan = Plan::default();
            plan.add_changes(changes);
            HandoverStep {
                number: 1,
                title: String::new(),
                patches: vec![],
                commands: vec![],
                notes: vec![],
                plan: plan.into(),
                done_when: vec![],
                way_back: String::new(),
            }
        };
        let moved = Handover::new(vec![], vec![step(vec![row(Action::Delete, "a"), row(Action::Create, "b")])], vec![]);
        let copies: Vec<_> =
            moved.claims_to_copy.iter().map(|copy| (&*copy.from.namespace, &*copy.to.namespace)).collect();
        assert_eq!(copies, [("a", "b")]);
        let kept = Handover::new(vec![], vec![step(vec![row(Action::Create, "b")])], vec![]);
        assert_eq!(kept.claims_to_copy, []);
    }

    fn deletion(owner: &str, code: ReasonCode) -> Change {
        let object = testing::object("", "ConfigMap", "shop", "a");
        let owner = OwnerId::new("flux", KIND, "flux-system", owner);
        Change::new(Action::Recreate, &object, Some(owner), Actor::KustomizeController, code)
    }

    fn plan(change: Change) -> Plan {
        let mut plan = Plan::default();
        plan.add_changes([change]);
        plan
    }

    fn key(name: &str) -> ObjectId {
        ObjectId::new(GROUP, KIND, "flux-system", name)
    }

    #[test]
    fn only_what_something_manages_in_the_end_is_lost() {
        let plan = plan(deletion("old", ReasonCode::Moved));
        let object = || vec![testing::object("", "ConfigMap", "shop", "a")];
        let lists = |objects, id: &str| testing::snapshot(objects, vec![testing::kustomization("new", &[id])]);
        let lost_of = |plan: &Plan, last: &Snapshot| losses([(plan, &SecretMask::default())], last);
        let lost = lost_of(&plan, &lists(object(), "shop_a__ConfigMap"));
        assert_eq!(lost.iter().map(|loss| &*loss.object.name).collect::<Vec<_>>(), ["a"]);
        assert_eq!(lost_of(&plan, &lists(object(), "shop_b__ConfigMap")), []);
        assert_eq!(lost_of(&plan, &lists(vec![], "shop_a__ConfigMap")), [], "an inventory that nobody has updated");
        let replaced = Change { may_come_back: true, ..deletion("", ReasonCode::ReleaseReplaced) };
        let of_replaced = self::plan(replaced);
        assert_eq!(lost_of(&of_replaced, &lists(vec![], "shop_b__ConfigMap")).len(), 1, "its chart is not known");
    }

    #[test]
    fn an_object_that_gets_a_second_owner_is_contested() {
        let object = || testing::object("", "ConfigMap", "shop", "a");
        let state = |owners: &[&str]| {
            let owners = owners.iter().map(|name| testing::kustomization(name, &["shop_a__ConfigMap"]));
            testing::snapshot(vec![object()], owners.collect())
        };
        let of = |first: &[&str], last: &[&str]| contested(&state(first), &state(last)).map(|(_, owners)| owners.len());
        assert_eq!(of(&["old"], &["old", "new"]), Some(2));
        assert_eq!(of(&["old", "new"], &["old", "new"]), None, "the change is not the cause");
        assert_eq!(of(&["old"], &["new"]), None);
        let mut last = state(&["old", "new"]);
        let old = last.resources.iter().find(|full| &*full.object.id.name == "old").unwrap().object.id.clone();
        set_holds(&Holds::from([(old.clone(), Hold::Suspend)]), &mut last);
        assert!(Hold::Suspend.field().is_set(&last.resource(&old).unwrap().content));
        assert_eq!(contested(&state(&["old"]), &last), None, "a suspended owner applies nothing");
    }

    #[test]
    fn an_owner_gets_one_hold_after_the_other_and_then_there_is_no_list() {
        let of_owner = |owner: Resource| testing::snapshot(vec![owner.object.clone()], vec![owner]);
        let live = of_owner(testing::kustomization("old", &[]));
        let mut tried = BTreeSet::new();
        let loss = |change: &Change| super::loss(change, &SecretMask::default());
        let given_away = [loss(&deletion("old", ReasonCode::Moved))];
        let first = next_holds(&Holds::new(), &mut tried, &given_away, &live).unwrap();
        assert_eq!(first, Holds::from([(key("old"), Hold::KeepInventory)]));
        let second = next_holds(&first, &mut tried, &given_away, &live).unwrap();
        assert_eq!(second, Holds::from([(key("old"), Hold::Orphan)]));
        assert!(next_holds(&second, &mut tried, &given_away, &live).is_err());
        let deleted = [loss(&deletion("old", ReasonCode::OwnerDeleted))];
        let holds = next_holds(&Holds::new(), &mut BTreeSet::new(), &deleted, &live).unwrap();
        assert_eq!(holds, Holds::from([(key("old"), Hold::Orphan)]));
        let release = testing::flux_object("HelmRelease", serde_json::json!({}), &[]);
        let id = release.object.id.clone();
        let live_release = of_owner(release);
        let uninstalled = Change { owner: None, cause: Some(id.clone()), ..deletion("", ReasonCode::Uninstalled) };
        let holds = next_holds(&Holds::new(), &mut BTreeSet::new(), &[loss(&uninstalled)], &live_release).unwrap();
        assert_eq!(holds, Holds::from([(id.clone(), Hold::Suspend)]), "a suspended HelmRelease uninstalls nothing");
        let set = testing::object(operator::GROUP, "ResourceSet", "flux-system", "set");
        let of_set = Change { cause: Some(set.id.clone()), ..deletion("set", ReasonCode::NotGenerated) };
        let live_set = testing::snapshot(vec![set.clone()], vec![]);
        let holds = next_holds(&Holds::new(), &mut BTreeSet::new(), &[loss(&of_set)], &live_set).unwrap();
        assert_eq!(holds, Holds::from([(set.id, Hold::Disable)]));
        let object = testing::object("", "ConfigMap", "shop", "a");
        let upgraded = Change { cause: Some(id), ..deletion("", ReasonCode::NotInChart) };
        let live_object = testing::snapshot(vec![object.clone()], vec![]);
        let holds = next_holds(&Holds::new(), &mut BTreeSet::new(), &[loss(&upgraded)], &live_object).unwrap();
        assert_eq!(holds, Holds::from([(object.id, Hold::Keep)]), "Helm leaves a marked object behind");
        let unknown = [loss(&deletion("new", ReasonCode::Moved))];
        assert!(next_holds(&Holds::new(), &mut BTreeSet::new(), &unknown, &live).is_err(), "it does not exist yet");
    }
}
