//! Steps that hand objects over to other owners without deleting them.
//!
//! A list of steps is judged by the plans of the simulation alone, which are about every order of events: no object that
//! something manages in the end may be deleted on the way. The search starts with the change itself, holds back each owner
//! that loses an object, and leaves out what turns out not to be needed. It is bounded and has no randomness.

mod edit;
pub mod leaving_out;
pub mod patch;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::flux::kinds::SOURCE_GROUP;
use crate::flux::spec::{KustomizationSpec, SourceId};
use crate::helm::target::ReleaseTarget;
use crate::kubernetes::deletion::volumes::CLAIM;
use crate::kubernetes::gap::{EFFECTS, Gap, GapKind};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::ownership::schemes::flux_helmrelease as releases;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::ownership::schemes::flux_operator as operator;
use crate::ownership::{Members, OwnerId};
use crate::plan::alarm::AlarmCode;
use crate::plan::mask::SecretMask;
use crate::plan::{Action, Alarm, Change, FinishedPlan, Outcome, Plan, ReasonCode};
pub use patch::Hold;
use patch::{Field, FilePatch};

/// Name of the JSON schema; a contract with programs.
pub const SCHEMA: &str = "kubectl-gitops/handover/v1";

/// Field manager of settings and marks. kustomize-controller takes over the fields of managers whose names begin with kubectl.
pub const FIELD_MANAGER: &str = "gitops-handover";

/// Maximum number of lists that are tried.
pub const MAX_LISTS: usize = 48;

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
    /// Object whose deletion is the cause, such as its namespace or an owner.
    cause: Option<ObjectId>,
    /// The objects whose deletion leads to this one, and what would hold them.
    above: BTreeSet<ObjectId>,
}

impl Loss {
    /// Returns the owner or object on which a setting would prevent the deletion.
    pub fn holder(&self) -> Option<&ObjectId> {
        self.holder.as_ref().map(|(id, _)| id)
    }

    /// Returns true if its owner gives the object away, and is not deleted itself.
    pub fn is_given_away(&self) -> bool {
        matches!(self.holder, Some((_, [Hold::KeepInventory, ..])))
    }

    /// Returns the same with a mark on the object itself in place of a setting of one of these Kustomizations: that setting would keep
    /// everything else that the Kustomization lets go of, too.
    #[must_use]
    pub fn with_mark(self, marking: &BTreeSet<ObjectId>, live: &Index<'_>) -> Self {
        match live_holder(&self, live) {
            Some((holder, _)) if marking.contains(&holder) => {
                Self { holder: Some((self.object.clone(), &[Hold::Protect])), ..self }
            }
            _ => self,
        }
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
/// in the end, or although they are `wanted`. Each plan comes with the names that it must not show.
pub fn losses<'p>(
    steps: impl IntoIterator<Item = (&'p Plan, &'p SecretMask)>,
    last: &Snapshot,
    wanted: &BTreeSet<ObjectId>,
) -> Vec<Loss> {
    let managed = listed(last);
    let losses = steps.into_iter().flat_map(|(plan, secrets)| {
        let rows: BTreeMap<&ObjectId, &Change> = plan.deletions().map(|change| (&change.object.id, change)).collect();
        let lost = plan.deletions().filter(|change| {
            let id = &change.object.id;
            // The inventory of a release that is upgraded in a step still lists what the upgrade deletes.
            let is_managed = last.object(id).is_some() && managed.contains(id);
            wanted.contains(id) || is_managed || change.may_come_back
        });
        lost.map(|change| Loss { above: holders_above(change, &rows, secrets), ..loss(change, secrets) })
            .collect::<Vec<_>>()
    });
    losses.collect()
}

/// Returns the objects whose deletion leads to that of an object, the cause, the cause of the cause, and so on, and what would hold them.
fn holders_above(change: &Change, rows: &BTreeMap<&ObjectId, &Change>, secrets: &SecretMask) -> BTreeSet<ObjectId> {
    let (mut seen, mut next) = (BTreeSet::new(), change.cause.as_ref());
    let mut holders = BTreeSet::new();
    while let Some(row) = next.filter(|id| seen.insert(*id)).and_then(|id| rows.get(id)) {
        holders.extend(
            holder(row).map(|(id, _)| id).into_iter().chain([row.object.id.clone()]).map(|id| secrets.written(&id)),
        );
        next = row.cause.as_ref();
    }
    holders
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

/// Returns a hold for each owner and object that prevents a deletion of a plan: the one that costs least. With all of them the change
/// deletes nothing that would take a new owner along, such as its namespace.
pub fn all_holds(plan: &Plan, live: &Snapshot) -> Holds {
    let index = Index::build(live);
    let losses = plan.deletions().map(|change| loss(change, &SecretMask::default()));
    let holders = losses.filter_map(|loss| live_holder(&loss, &index));
    holders.filter_map(|(holder, order)| Some((holder, *order.first()?))).collect()
}

/// Returns the objects that owners have in the last state, from the owners on that no other one has. One that another owner had at
/// first, and none has in the end, was only kept.
pub fn managed_from_roots(first: &Snapshot, last: &Snapshot) -> BTreeSet<ObjectId> {
    let (before, after) = (Index::build(first), Index::build(last));
    let mut queue: Vec<&ObjectId> = after.owners().filter_map(|owner| Some(&owner.object?.id)).collect();
    queue.retain(|id| {
        let mut listing = [&before, &after].into_iter().flat_map(|index| index.recorded_by(id));
        listing.all(|owner| owner.is_object(id))
    });
    listed_below(queue, &after)
}

/// Returns the objects that owners have in a state, and those that the owners among these have.
pub fn managed_below(owners: &[ObjectId], state: &Snapshot) -> BTreeSet<ObjectId> {
    listed_below(owners.iter().collect(), &Index::build(state))
}

fn listed_below<'a>(mut queue: Vec<&'a ObjectId>, index: &'a Index<'a>) -> BTreeSet<ObjectId> {
    let mut managed = BTreeSet::new();
    while let Some(id) = queue.pop() {
        let Some(Members::Listed(members)) = index.owner_of_object(id).map(|owner| &owner.members) else { continue };
        queue.extend(members.iter().filter(|member| managed.insert((*member).clone())));
    }
    managed
}

fn loss(change: &Change, secrets: &SecretMask) -> Loss {
    Loss {
        cause: change.cause.as_ref().map(|id| secrets.written(id)),
        object: secrets.written(&change.object.id),
        holder: holder(change).map(|(id, holds)| (secrets.written(&id), holds)),
        owner: change.owner.clone().map(|owner| secrets.masked_owner(owner)),
        reason: secrets.mask(&change.reason.to_string()),
        above: BTreeSet::new(),
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
    let is_of_owner = change.cause.as_ref().is_some_and(|cause| cause.is(GROUP, KIND));
    let holds: &[Hold] = if is_of_owner || of_deleted.contains(&code) {
        &[Hold::Orphan, Hold::KeepInventory]
    } else {
        &[Hold::KeepInventory, Hold::Orphan]
    };
    Some((ObjectId::new(GROUP, KIND, &owner.namespace, &owner.name), holds))
}

/// Returns the holds to try after a list with these holds has losses. `tried` are the holds that did not help each owner.
///
/// A loss that no hold prevents is left while another one has a hold to try: that may prevent both.
///
/// Fails with the first loss that no hold prevents, once nothing else is left to try.
pub fn next_holds(
    holds: &Holds,
    tried: &mut BTreeSet<(ObjectId, Hold)>,
    losses: &[Loss],
    live: &Snapshot,
) -> Result<Holds, Box<Loss>> {
    let (mut next, mut blamed, mut vain) = (holds.clone(), BTreeSet::new(), None);
    let index = Index::build(live);
    // What keeps a namespace or an owner may keep all that goes with it.
    let first = losses.iter().filter(|loss| !losses.iter().any(|other| loss.cause.as_ref() == Some(&other.object)));
    for loss in first {
        let Some((key, order)) = live_holder(loss, &index) else {
            vain.get_or_insert(loss);
            continue;
        };
        if !blamed.insert(key.clone()) {
            continue;
        }
        tried.extend(holds.get(&key).map(|hold| (key.clone(), *hold)));
        let hold = order.iter().copied().find(|hold| !tried.contains(&(key.clone(), *hold)));
        match hold {
            Some(hold) => drop(next.insert(key.clone(), hold)),
            None => drop(vain.get_or_insert(loss)),
        }
    }
    match vain {
        Some(loss) if next == *holds => Err(Box::new(loss.clone())),
        _ => Ok(next),
    }
}

/// Returns what can hold a lost object and is there before the change. In place of a Kustomization that the change makes, that is the one
/// that lists the object now: in another order of events it deletes it.
fn live_holder(loss: &Loss, index: &Index<'_>) -> Option<(ObjectId, &'static [Hold])> {
    let (holder, order) = loss.holder.as_ref().filter(|(holder, _)| holder.cluster.is_none())?;
    if index.snapshot().object(holder).is_some() {
        return Some((holder.clone(), order));
    }
    let is_kustomization =
        |owner: &&OwnerId| owner.system == "flux" && owner.kind == KIND && !owner.is_object(&loss.object);
    let listing = index.recorded_by(&loss.object).iter().find(is_kustomization).filter(|_| holder.is(GROUP, KIND))?;
    Some((ObjectId::new(GROUP, KIND, &listing.namespace, &listing.name), order))
}

/// Returns the objects that an owner of the first state lists, that exist in the last one, and that nothing lists there:
/// nobody would ever delete them. The same is true of the claims of a StatefulSet that is gone. `secrets` are the names that the plans of the steps must not show.
pub fn left_over<'p>(
    first: &Snapshot,
    last: &Snapshot,
    secrets: impl IntoIterator<Item = &'p SecretMask>,
) -> Vec<ObjectId> {
    let managed = listed(last);
    let before = listed(first);
    let sets = before.iter().filter(|id| id.is("apps", "StatefulSet") && first.object(id).is_some());
    let gone: Vec<&ObjectId> = sets.filter(|id| last.object(id).is_none()).collect();
    let claims = gone.into_iter().flat_map(|set| claims_of_set(set, first)).map(|(_, _, claim)| claim.clone());
    let before: BTreeSet<ObjectId> = claims.chain(before.iter().cloned()).collect();
    let left = before.into_iter().filter(|id| last.object(id).is_some() && !managed.contains(id));
    SecretMask::written_by_all(secrets, left.collect())
}

/// Returns the objects with a mark of this field manager that protects nothing any more in the last state: no HelmRelease that listed
/// them in the first one still does.
pub fn ended_marks(first: &Snapshot, last: &Snapshot, manager: &str) -> Vec<ObjectId> {
    let (before, after) = (Index::build(first), Index::build(last));
    let key = Hold::Keep.field().name;
    let marked = first.objects.iter().filter(|object| {
        let own = object.managed_fields.iter().filter(|entry| &*entry.manager == manager);
        own.flat_map(|entry| &entry.annotations).any(|annotation| &**annotation == key)
    });
    let ended = marked.map(|object| &object.id).filter(|id| {
        let mut listing = before.recorded_by(id).iter().filter(|owner| owner.kind == releases::KIND);
        last.object(id).is_some() && !listing.any(|owner| after.recorded_by(id).contains(owner))
    });
    ended.cloned().collect()
}

/// Returns an object that keeps a mark of a hold after the last step: its new owner applies it with another field manager.
pub fn mark_left<'h>(holds: &'h Holds, first: &Snapshot, last: &Snapshot) -> Option<&'h ObjectId> {
    let Field { name, .. } = Hold::Protect.field();
    let is_marked =
        |state: &Snapshot, id: &ObjectId| state.object(id).is_some_and(|object| object.annotations.get(name).is_some());
    let mut marked = holds.iter().filter(|(_, hold)| **hold == Hold::Protect).map(|(id, _)| id);
    marked.find(|id| is_marked(last, id) && !is_marked(first, id))
}

/// Objects that stay behind of a HelmRelease that is suspended when it is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    pub release: ObjectId,
    /// The Secrets with the history of its release: no other HelmRelease goes on with it.
    pub history: bool,
    /// Helm's labels, annotations and field managers, on objects that no release has any more.
    pub marks: bool,
}

/// Returns what stays behind of the HelmReleases that are deleted while they are suspended, by a hold or before the steps, where
/// something does.
pub fn remains(holds: &Holds, first: &Snapshot, last: &Snapshot) -> Vec<Remains> {
    let (before, after) = (Index::build(first), Index::build(last));
    let later: Vec<_> = last
        .resources
        .iter()
        .filter(|full| full.object.id.is_here(releases::GROUP, releases::KIND))
        .map(|full| releases::release_record(&full.object.id, full.spec()))
        .collect();
    let held = holds.iter().filter(|(_, hold)| **hold == Hold::Suspend).map(|(id, _)| id);
    let gone = suspended(first).filter(|id| id.is_here(releases::GROUP, releases::KIND) && last.object(id).is_none());
    let suspended: BTreeSet<&ObjectId> = held.chain(gone).collect();
    let remains = suspended.into_iter().map(|id| {
        let recorded = first.resource(id).and_then(|full| ReleaseTarget::recorded(&full.content));
        let members = before.owner_of_object(id).map(|owner| &owner.members);
        let listed = if let Some(Members::Listed(members)) = members { &members[..] } else { &[] };
        Remains {
            release: id.clone(),
            history: recorded.is_some_and(|of| !later.contains(&(of.name, of.storage_namespace))),
            marks: listed.iter().any(|object| {
                let is_of_helm = after.recorded_by(object).iter().any(|owner| owner.kind == releases::KIND);
                &*object.group != SOURCE_GROUP && last.object(object).is_some() && !is_of_helm
            }),
        }
    });
    remains.filter(|remains| remains.history || remains.marks).collect()
}

/// Returns an object that several owners apply in the last state, and fewer of them in the first one, with those owners. One that is
/// suspended applies nothing.
pub fn contested(first: &Snapshot, last: &Snapshot) -> Option<(ObjectId, Vec<OwnerId>)> {
    let (before, after) = (Index::build(first), Index::build(last));
    last.ids().find_map(|id| {
        let owners = appliers(id, &after);
        (owners.len() > 1 && owners.len() > appliers(id, &before).len()).then(|| (id.clone(), owners))
    })
}

/// Returns the owners that apply an object.
fn appliers(id: &ObjectId, index: &Index<'_>) -> Vec<OwnerId> {
    let owners = index.recorded_by(id).iter().filter(|owner| owner.system == "flux" && !owner.is_object(id));
    let active = owners.filter(|owner| {
        let full = index.owner(owner).and_then(|owner| owner.full);
        full.is_some_and(|full| !full.flag("/spec/suspend") && full.object.deletion_timestamp.is_none())
    });
    active.cloned().collect()
}

/// Returns what is not known if one of these plans deletes objects: whether Kustomizations that the change makes take them over, of which
/// no planned source has the objects.
pub fn unfollowed<'p>(plans: impl IntoIterator<Item = &'p Plan>, first: &Snapshot, last: &Snapshot) -> Vec<Gap> {
    let plans: Vec<&Plan> = plans.into_iter().collect();
    if !plans.iter().flat_map(|plan| plan.deletions()).any(|change| !change.object.id.is(GROUP, KIND)) {
        return vec![];
    }
    let rows = plans.iter().flat_map(|plan| plan.owners()).filter(|row| row.outcome == Outcome::Blocked);
    let blocked: BTreeSet<&OwnerId> = rows.map(|row| &row.owner).collect();
    let new = last
        .resources
        .iter()
        .filter(|full| full.object.id.is_here(GROUP, KIND))
        .filter(|full| first.object(&full.object.id).is_none() && !full.flag("/spec/suspend"));
    let open = new.filter(|full| full.at("/status/inventory").is_none()).filter_map(|full| {
        let ObjectId { namespace, name, .. } = &full.object.id;
        let owner = OwnerId::new("flux", KIND, namespace, name);
        let message = "what it applies is not in this checkout, and it takes over what it finds: that may be what the change deletes";
        (!blocked.contains(&owner)).then(|| Gap {
            kind: GapKind::Failed,
            subject: format!("{EFFECTS}{owner}"),
            namespace: None,
            message: message.to_owned(),
        })
    });
    open.collect()
}

/// Returns the object of one of these owners that another owner had at first and that none has in the end.
pub fn left_behind(first: &Snapshot, last: &Snapshot, owners: &[OwnerId]) -> Option<ObjectId> {
    let (before, after) = (listed(first), listed(last));
    let index = Index::build(last);
    let mut objects = owners.iter().filter_map(|owner| Some(&index.owner(owner)?.object?.id));
    objects.find(|id| before.contains(*id) && !after.contains(*id)).cloned()
}

/// Cost of the settings of a list. Less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Number of owners that are left over, and go on to apply their objects.
    owners: usize,
    /// Number of marked objects, and of objects that are left over.
    objects: usize,
}

impl Cost {
    /// Returns the cost of these settings between two states.
    pub fn of(holds: &Holds, first: &Snapshot, last: &Snapshot) -> Self {
        let (left, index) = (left_over(first, last, []), Index::build(last));
        let owners = left.iter().filter(|id| index.owner_of_object(id).is_some()).count();
        let marks = holds.values().filter(|hold| **hold == Hold::Protect).count();
        Self { owners, objects: marks + left.len() }
    }

    /// Returns true if an owner is left over.
    pub fn leaves_owner(self) -> bool {
        self.owners > 0
    }
}

/// Returns the Kustomizations whose settings leave something over: marks on the objects that move would not. Where that is an owner, so that
/// marks are needed, those that stay are among them: marks alone need no third step.
pub fn leaving_over(holds: &Holds, first: &Snapshot, last: &Snapshot) -> BTreeSet<ObjectId> {
    let index = Index::build(first);
    let left = left_over(first, last, []);
    let owners = left.iter().flat_map(|id| index.recorded_by(id)).filter_map(|owner| index.owner(owner)?.object);
    let set = owners.filter(|owner| matches!(holds.get(&owner.id), Some(Hold::Orphan | Hold::KeepInventory)));
    let mut leaving: BTreeSet<ObjectId> = set.map(|owner| owner.id.clone()).collect();
    let later = Index::build(last);
    if !leaving.is_empty() && left.iter().any(|id| later.owner_of_object(id).is_some()) {
        leaving.extend(staying(first, last).into_iter().filter(|id| !left.contains(id)));
    }
    leaving
}

/// Returns the Kustomizations that are there before and after a change.
pub fn staying(first: &Snapshot, last: &Snapshot) -> BTreeSet<ObjectId> {
    let live = first.resources.iter().map(|full| &full.object.id).filter(|id| id.is_here(GROUP, KIND));
    live.filter(|id| last.object(id).is_some()).cloned().collect()
}

/// New names of Kustomizations by their old ones.
pub type Renames = BTreeMap<ObjectId, ObjectId>;

/// Returns the Kustomizations that apply others and get another name with the same path. Their renames can wait, each
/// for a step of its own after those of the Kustomizations that it applies: so they come in groups.
pub fn renamed_parents(first: &Snapshot, last: &Snapshot) -> Vec<Renames> {
    let index = Index::build(first);
    // One that a setting keeps, and that nothing manages any more, is none of the change.
    let (listed, managed) = (listed(first), managed_from_roots(first, last));
    let is_kept = |id: &ObjectId| last.object(id).is_some() && listed.contains(id) && !managed.contains(id);
    let kept = first.resources.iter().filter(|full| full.object.id.is_here(GROUP, KIND) && is_kept(&full.object.id));
    let mut left: BTreeMap<&ObjectId, BTreeSet<&ObjectId>> = only_in(first, last)
        .chain(kept)
        .filter_map(|full| {
            let Members::Listed(members) = &index.owner_of_object(&full.object.id)?.members else { return None };
            let children = members.iter().filter(|id| id.is(GROUP, KIND) && **id != full.object.id);
            Some((&full.object.id, children.collect()))
        })
        .filter(|(_, children): &(_, BTreeSet<_>)| !children.is_empty())
        .collect();
    let new_name = |old: &ObjectId| {
        let place = place_of(first.resource(old)?);
        Some(only_in(last, first).find(|new| place_of(new) == place)?.object.id.clone())
    };
    left.retain(|old, _| new_name(old).is_some());
    let mut groups = vec![];
    while !left.is_empty() {
        let applies_one = |children: &BTreeSet<&ObjectId>| children.iter().any(|id| left.contains_key(id));
        let lowest: Vec<&ObjectId> =
            left.iter().filter(|(_, children)| !applies_one(children)).map(|(old, _)| *old).collect();
        if lowest.is_empty() {
            break;
        }
        left.retain(|old, _| !lowest.contains(old));
        groups.push(lowest.into_iter().filter_map(|old| Some((old.clone(), new_name(old)?))).collect());
    }
    groups
}

/// Returns the Kustomizations of a state that another state does not have.
fn only_in<'s>(state: &'s Snapshot, other: &Snapshot) -> impl Iterator<Item = &'s Resource> {
    let owners = state.resources.iter().filter(|full| full.object.id.is_here(GROUP, KIND));
    owners.filter(|full| other.object(&full.object.id).is_none())
}

/// Returns the source and the path of a Kustomization.
fn place_of(full: &Resource) -> (SourceId, String) {
    let spec = KustomizationSpec::of(full);
    (spec.source(&full.object.id.namespace), spec.path().to_owned())
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

/// Returns the Kustomizations and HelmReleases that are suspended in the first state and that are still there in the last one: what a
/// commit changes for them happens once they are resumed.
pub fn parked(first: &Snapshot, last: &Snapshot) -> Vec<ObjectId> {
    suspended(first).filter(|id| last.object(id).is_some()).cloned().collect()
}

/// Returns the Kustomizations and HelmReleases that are suspended in the last state and that were not in the first one: what the change
/// gives them they take over once they are resumed.
pub fn put_to_sleep(first: &Snapshot, last: &Snapshot) -> Vec<ObjectId> {
    let before: BTreeSet<&ObjectId> = suspended(first).collect();
    suspended(last).filter(|id| !before.contains(id)).cloned().collect()
}

/// Returns the Kustomizations and HelmReleases that are suspended.
fn suspended(state: &Snapshot) -> impl Iterator<Item = &ObjectId> {
    let suspended = state.resources.iter().filter(|full| full.flag("/spec/suspend")).map(|full| &full.object.id);
    suspended.filter(|id| id.is_here(GROUP, KIND) || id.is_here(releases::GROUP, releases::KIND))
}

/// Ends the suspension of owners in a state.
pub fn resume(owners: &[ObjectId], state: &mut Snapshot) {
    owners.iter().for_each(|id| set_in_spec(state, id, "suspend", false.into()));
}

/// A claim whose owner makes another one in its place, in another namespace or under another name: that one is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimCopy {
    pub from: ObjectId,
    pub to: ObjectId,
}

/// Returns the claims that get another namespace or another name, and whose data nothing moves: also those that a StatefulSet makes, with
/// names that follow from its own. `first` is the state before the steps.
fn claims_to_copy(steps: &[HandoverStep], first: &Snapshot) -> Vec<ClaimCopy> {
    let changes: Vec<&Change> = steps.iter().flat_map(|step| step.plan.changes()).collect();
    let mut copies = BTreeSet::new();
    for deleted in changes.iter().filter(|change| change.is_deletion()) {
        let from = &deleted.object.id;
        if !from.is("", CLAIM) && !from.is("apps", "StatefulSet") {
            continue;
        }
        for to in changes.iter().filter(|change| change.action == Action::Create && takes_place(change, deleted)) {
            let to = &to.object.id;
            if from.is("", CLAIM) {
                copies.insert(ClaimCopy { from: from.clone(), to: to.clone() });
                continue;
            }
            copies.extend(claims_of_set(from, first).map(|(template, number, claim)| {
                let name = format!("{template}-{}-{number}", to.name).into();
                let to = ObjectId { namespace: to.namespace.clone(), name, ..claim.clone() };
                ClaimCopy { from: claim.clone(), to }
            }));
        }
    }
    copies.into_iter().collect()
}

/// Returns true if a created object is the deleted one in another namespace, or under another name that the same owner gives it: as
/// `namePrefix` and `nameSuffix` do, with something more, something less or another word at one end.
fn takes_place(created: &Change, deleted: &Change) -> bool {
    let (to, from) = (&created.object.id, &deleted.object.id);
    if to.group_kind() != from.group_kind() || to == from {
        return false;
    }
    if to.name == from.name {
        return true;
    }
    created.owner == deleted.owner && is_renamed(&from.name, &to.name)
}

/// Returns true if a name has something more or less at one end than another one, or another first or last word.
fn is_renamed(old: &str, new: &str) -> bool {
    let is_longer =
        [(new, old), (old, new)].iter().any(|(long, short)| long.starts_with(short) || long.ends_with(short));
    let [first, last] = [old.split_once('-').zip(new.split_once('-')), old.rsplit_once('-').zip(new.rsplit_once('-'))];
    is_longer
        || first.is_some_and(|((_, old), (_, new))| old == new)
        || last.is_some_and(|((old, _), (new, _))| old == new)
}

/// Returns the live claims that a StatefulSet makes, each with the name of its template and its number. Names with a dash can also be
/// those of another live StatefulSet, whose name is longer.
pub(in crate::flux) fn claims_of_set<'s>(
    set: &'s ObjectId,
    snapshot: &'s Snapshot,
) -> impl Iterator<Item = (&'s str, &'s str, &'s ObjectId)> {
    let longer: Vec<&ObjectId> = snapshot
        .ids()
        .filter(|id| id.is("apps", "StatefulSet") && id.is_beside(set) && id.name.len() > set.name.len())
        .collect();
    let claims = snapshot.ids().filter(move |id| id.is("", CLAIM) && id.is_beside(set));
    claims.filter_map(move |id| {
        let (template, number) = claim_of_set(&id.name, &set.name)?;
        let is_other = longer.iter().any(|other| claim_of_set(&id.name, &other.name).is_some());
        (!is_other).then_some((template, number, id))
    })
}

/// Returns the template and the number in the name of a claim that a StatefulSet makes: template, StatefulSet, number.
fn claim_of_set<'c>(claim: &'c str, set: &str) -> Option<(&'c str, &'c str)> {
    let (pod, number) =
        claim.rsplit_once('-').filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()))?;
    let template = pod.strip_suffix(set)?.strip_suffix('-')?;
    (!template.is_empty()).then_some((template, number))
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
    /// Claims that get another namespace or another name: their data must be copied by hand before they are deleted.
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
    /// Creates the list of these steps, which begin with the state `first`.
    pub fn new(
        lost_at_once: Vec<ObjectId>,
        steps: Vec<HandoverStep>,
        left_over: Vec<ObjectId>,
        first: &Snapshot,
    ) -> Self {
        let complete = steps.iter().all(|step| step.plan.is_complete());
        let claims_to_copy = claims_to_copy(&steps, first);
        Self { schema: SCHEMA, complete, lost_at_once, steps, claims_to_copy, left_over }
    }

    /// Returns true if every plan is complete.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns the alarm about owners that are ready now and that a step blocks.
    pub fn blocked(&self) -> Option<&Alarm> {
        self.alarms().find(|alarm| alarm.code == AlarmCode::OwnersBlocked)
    }

    /// Returns the alarms of all steps.
    pub fn alarms(&self) -> impl Iterator<Item = &Alarm> {
        self.steps.iter().flat_map(|step| step.plan.alarms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::object::ObjectMetadata;
    use crate::plan::{Actor, PinnedObject};
    use crate::testing;

    #[test]
    fn a_claim_in_another_namespace_is_a_copy() {
        let row = |action, group: &str, kind: &str, namespace: &str, name: &str| {
            let object = PinnedObject::absent(ObjectId::new(group, kind, namespace, name));
            Change::new(action, object, None, Actor::KustomizeController, ReasonCode::InBuild)
        };
        let copies = |changes: Vec<Change>, claims: &[&str]| -> Vec<String> {
            let mut plan = Plan::default();
            plan.add_changes(changes);
            let step = HandoverStep {
                number: 1,
                title: String::new(),
                patches: vec![],
                commands: vec![],
                notes: vec![],
                plan: plan.into(),
                done_when: vec![],
                way_back: String::new(),
            };
            let live = claims.iter().map(|name| testing::object("", CLAIM, "a", name)).collect();
            let handover = Handover::new(vec![], vec![step], vec![], &testing::snapshot(live, vec![]));
            handover.claims_to_copy.iter().map(|copy| format!("{} to {}", copy.from, copy.to)).collect()
        };
        let claim = |action, namespace| row(action, "", CLAIM, namespace, "data");
        assert_eq!(
            copies(vec![claim(Action::Delete, "a"), claim(Action::Create, "b")], &[]),
            ["persistentvolumeclaim/data -n a to persistentvolumeclaim/data -n b"]
        );
        assert_eq!(copies(vec![claim(Action::Create, "b")], &[]), [""; 0]);
        let set = |action, namespace| row(action, "apps", "StatefulSet", namespace, "db");
        let moved = || vec![set(Action::Delete, "a"), set(Action::Create, "b")];
        assert_eq!(
            copies(moved(), &["data-db-0", "data-db-x", "db-0", "data-mydb-0", "data"]),
            ["persistentvolumeclaim/data-db-0 -n a to persistentvolumeclaim/data-db-0 -n b"]
        );
        assert_eq!(copies(vec![set(Action::Delete, "a")], &["data-db-0"]), [""; 0]);
        let named =
            |action, kind: &str, name: &str| row(action, if kind == CLAIM { "" } else { "apps" }, kind, "a", name);
        let renamed = |kind: &str, from: &str, to: &str, claims: &[&str]| {
            copies(vec![named(Action::Delete, kind, from), named(Action::Create, kind, to)], claims)
        };
        for (from, to) in [("data", "p-data"), ("data-v1", "data"), ("blue-data", "green-data"), ("data-v1", "data-v2")]
        {
            assert_eq!(renamed(CLAIM, from, to, &[]).len(), 1, "{from} {to}");
        }
        assert_eq!(renamed(CLAIM, "data", "cache", &[]), [""; 0], "something else");
        assert_eq!(
            renamed("StatefulSet", "db", "p-db", &["data-db-0"]),
            ["persistentvolumeclaim/data-db-0 -n a to persistentvolumeclaim/data-p-db-0 -n a"]
        );
        let other = OwnerId::new("flux", KIND, "flux-system", "other");
        let of_other = Change { owner: Some(other), ..named(Action::Create, CLAIM, "p-data") };
        assert_eq!(copies(vec![named(Action::Delete, CLAIM, "data"), of_other], &[]), [""; 0], "two owners name them");
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
        let with = |wanted: &[ObjectId], plan: &Plan, last: &Snapshot| {
            losses([(plan, &SecretMask::default())], last, &wanted.iter().cloned().collect())
        };
        let lost_of = |plan: &Plan, last: &Snapshot| with(&[], plan, last);
        let lost = lost_of(&plan, &lists(object(), "shop_a__ConfigMap"));
        assert_eq!(lost.iter().map(|loss| &*loss.object.name).collect::<Vec<_>>(), ["a"]);
        assert_eq!(lost_of(&plan, &lists(object(), "shop_b__ConfigMap")), []);
        assert_eq!(lost_of(&plan, &lists(vec![], "shop_a__ConfigMap")), [], "an inventory that nobody has updated");
        let wanted = [object()[0].id.clone()];
        assert_eq!(with(&wanted, &plan, &lists(vec![], "shop_b__ConfigMap")).len(), 1, "its new owner is deleted too");
        let replaced = Change { may_come_back: true, ..deletion("", ReasonCode::ReleaseReplaced) };
        let of_replaced = self::plan(replaced);
        assert_eq!(lost_of(&of_replaced, &lists(vec![], "shop_b__ConfigMap")).len(), 1, "its chart is not known");
    }

    #[test]
    fn a_loss_names_what_would_hold_the_objects_above_it() {
        let child = testing::object(GROUP, KIND, "flux-system", "child");
        let of_root = Change { object: (&child).into(), ..deletion("root", ReasonCode::NotInBuild) };
        let content = Change { cause: Some(child.id), ..deletion("child", ReasonCode::OwnerDeleted) };
        let mut plan = plan(of_root);
        plan.add_changes([content]);
        let last = testing::snapshot(
            vec![testing::object("", "ConfigMap", "shop", "a")],
            vec![testing::kustomization("new", &["shop_a__ConfigMap"])],
        );
        let lost = losses([(&plan, &SecretMask::default())], &last, &BTreeSet::new());
        assert_eq!(
            lost.iter().map(|loss| loss.above.clone()).collect::<Vec<_>>(),
            [BTreeSet::from([key("root"), key("child")])]
        );
    }

    #[test]
    fn what_an_owner_has_that_is_only_kept_is_not_managed_from_a_root() {
        let child = |name: &str| format!("flux-system_{name}_kustomize.toolkit.fluxcd.io_Kustomization");
        let state = |root: &[&str]| {
            let root: Vec<String> = root.iter().map(|name| child(name)).collect();
            let root = testing::kustomization("root", &root.iter().map(String::as_str).collect::<Vec<_>>());
            let owners = vec![
                root,
                testing::kustomization("old", &[&child("inner"), "shop_a__ConfigMap"]),
                testing::kustomization("inner", &["shop_b__ConfigMap"]),
                testing::kustomization("new", &["shop_c__ConfigMap"]),
            ];
            let objects = owners.iter().map(|owner| owner.object.clone());
            testing::snapshot(objects.collect(), owners)
        };
        let names = |last: &[&str]| -> Vec<String> {
            managed_from_roots(&state(&["root", "old", "new"]), &state(last))
                .iter()
                .map(|id| id.name.to_string())
                .collect()
        };
        assert_eq!(names(&["root", "old", "new"]), ["a", "b", "c", "inner", "new", "old", "root"]);
        assert_eq!(names(&["root", "new"]), ["c", "new", "root"]);
    }

    #[test]
    fn claims_of_a_set_that_is_gone_are_left_over() {
        let set = || testing::object("apps", "StatefulSet", "shop", "db");
        let claim = || testing::object("", CLAIM, "shop", "data-db-0");
        let owner = |ids: &[&str]| vec![testing::kustomization("web", ids)];
        let first = testing::snapshot(vec![set(), claim()], owner(&["shop_db_apps_StatefulSet"]));
        let left = |last: &Snapshot| left_over(&first, last, []);
        assert_eq!(left(&testing::snapshot(vec![claim()], owner(&[]))), [claim().id]);
        assert_eq!(left(&testing::snapshot(vec![], owner(&[]))), [], "Kubernetes deletes it with the set");
        assert_eq!(left(&first), []);
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
        let child = |root: &str| {
            let root = testing::kustomization(root, &["flux-system_old_kustomize.toolkit.fluxcd.io_Kustomization"]);
            let mut state = state(&["old", "new"]);
            state.resources.push(root);
            state.normalise();
            state
        };
        let owners = contested(&state(&["old"]), &child("root")).unwrap().1;
        assert_eq!(left_behind(&child("root"), &child("root"), &owners), None);
        assert_eq!(left_behind(&child("root"), &state(&["old", "new"]), &owners), Some(key("old")));
        let mut last = state(&["old", "new"]);
        let old = last.resources.iter().find(|full| &*full.object.id.name == "old").unwrap().object.id.clone();
        set_holds(&Holds::from([(old.clone(), Hold::Suspend)]), &mut last);
        assert!(Hold::Suspend.field().is_set(&last.resource(&old).unwrap().content));
        assert_eq!(contested(&state(&["old"]), &last), None, "a suspended owner applies nothing");
    }

    #[test]
    fn what_is_suspended_and_stays_can_be_resumed() {
        let state = |suspend: bool| {
            let release = testing::flux_object("HelmRelease", serde_json::json!({"spec": {"suspend": suspend}}), &[]);
            testing::snapshot(vec![release.object.clone()], vec![release])
        };
        let (mut first, gone) = (state(true), testing::snapshot(vec![], vec![]));
        let parked_then = parked(&first, &state(true));
        assert_eq!(parked_then.iter().map(|id| &*id.kind).collect::<Vec<_>>(), ["HelmRelease"]);
        assert_eq!((parked(&state(false), &state(true)), parked(&first, &gone)), (vec![], vec![]));
        resume(&parked_then, &mut first);
        assert_eq!(parked(&first, &first), []);
    }

    #[test]
    fn what_the_change_suspends_takes_over_later() {
        let suspended = |mut owner: Resource| {
            owner.content["spec"]["suspend"] = true.into();
            owner
        };
        let state = |owners: Vec<Resource>| {
            testing::snapshot(owners.iter().map(|owner| owner.object.clone()).collect(), owners)
        };
        let [old, new] = ["old", "new"].map(|name| testing::kustomization(name, &["shop_a__ConfigMap"]));
        let first = state(vec![suspended(old.clone())]);
        assert_eq!(put_to_sleep(&first, &state(vec![suspended(old.clone()), suspended(new.clone())])), [key("new")]);
        assert_eq!(put_to_sleep(&state(vec![old.clone()]), &state(vec![suspended(old)])), [key("old")], "it stays");
        let child = testing::kustomization("root", &["flux-system_new_kustomize.toolkit.fluxcd.io_Kustomization"]);
        let below = managed_below(&[key("root")], &state(vec![new, child]));
        assert_eq!(below.iter().map(|id| &*id.name).collect::<Vec<_>>(), ["a", "new"]);
    }

    #[test]
    fn a_new_owner_whose_objects_are_elsewhere_may_take_over_what_is_deleted() {
        let first = testing::snapshot(vec![], vec![]);
        let state = |content: Value| {
            let mut owner = testing::kustomization("new", &[]);
            owner.content = content;
            testing::snapshot(vec![owner.object.clone()], vec![owner])
        };
        let elsewhere = || state(serde_json::json!({"spec": {}}));
        let gaps = |plan: &Plan, last: &Snapshot| unfollowed([plan], &first, last).len();
        let deleting = plan(deletion("old", ReasonCode::OwnerDeleted));
        assert_eq!(gaps(&deleting, &elsewhere()), 1);
        assert_eq!(gaps(&Plan::default(), &elsewhere()), 0, "nothing is deleted");
        assert_eq!(gaps(&deleting, &state(serde_json::json!({"status": {"inventory": {}}}))), 0, "it is followed");
        assert_eq!(gaps(&deleting, &state(serde_json::json!({"spec": {"suspend": true}}))), 0, "it applies nothing");
        assert_eq!(unfollowed([&deleting], &elsewhere(), &elsewhere()), [], "it is not new");
    }

    #[test]
    fn a_mark_ends_once_the_release_has_let_go_of_its_object() {
        let manager = "gitops-handover";
        let mark = testing::owner_of(manager, false, 0, &[Hold::Keep.field().name]);
        let object = ObjectMetadata { managed_fields: vec![mark], ..testing::object("", "ConfigMap", "shop", "a") };
        let entries = |names: &[&str]| -> Vec<serde_json::Value> {
            names.iter().map(|name| serde_json::json!({"id": format!("shop_{name}__ConfigMap"), "v": "v1"})).collect()
        };
        let state = |names: &[&str], owners: Vec<Resource>| {
            let content = serde_json::json!({"status": {"inventory": {"entries": entries(names)}}});
            let release = testing::flux_object("HelmRelease", content, &[]);
            let objects = vec![object.clone(), release.object.clone()];
            testing::snapshot(objects, [owners, vec![release]].concat())
        };
        let taken_over = || vec![testing::kustomization("new", &["shop_a__ConfigMap"])];
        let ends = |first: &Snapshot, last: &Snapshot| ended_marks(first, last, manager).len();
        let held = state(&["a"], vec![]);
        assert_eq!(ends(&held, &state(&["b"], taken_over())), 1);
        assert_eq!(ends(&held, &held), 0, "another handover needs it");
        assert_eq!(ends(&state(&["b"], taken_over()), &state(&["b"], taken_over())), 1, "it was interrupted");
    }

    #[test]
    fn settings_that_leave_an_owner_over_cost_more_than_marks() {
        let state = |owners: Vec<Resource>, objects: &[&str]| {
            let maps = objects.iter().map(|name| testing::object("", "ConfigMap", "shop", name));
            testing::snapshot(maps.chain(owners.iter().map(|owner| owner.object.clone())).collect(), owners)
        };
        let owner = |name: &str, entries: &[&str]| testing::kustomization(name, entries);
        let child = "flux-system_inner_kustomize.toolkit.fluxcd.io_Kustomization";
        let (inner, map) = (owner("inner", &["shop_a__ConfigMap"]), "shop_b__ConfigMap");
        let first = state(vec![owner("outer", &[child, map]), inner.clone()], &["a", "b"]);
        let moved = owner("outer-two", &["shop_a__ConfigMap", map]);
        let kept = state(vec![moved.clone(), inner], &["a", "b"]);
        let clean = state(vec![moved], &["a", "b"]);
        let orphaned = Holds::from([(key("outer"), Hold::Orphan)]);
        let marked = Holds::from([(first.objects[0].id.clone(), Hold::Protect)]);
        let other = |state: &Snapshot| {
            let mut state = state.clone();
            let more = owner("other", &[]);
            state.replace_resource(&key("other"), Some(more));
            state
        };
        let all = BTreeSet::from([key("other"), key("outer")]);
        let found = leaving_over(&orphaned, &other(&first), &other(&kept));
        assert_eq!(found, all, "marks alone need no third step, and what is left over does not stay");
        assert_eq!(leaving_over(&orphaned, &first, &clean), BTreeSet::new());
        assert!(Cost::of(&marked, &first, &clean) < Cost::of(&orphaned, &first, &kept));
        assert!(Cost::of(&orphaned, &first, &clean) < Cost::of(&marked, &first, &clean));
        let dropped = state(vec![owner("outer-two", &["shop_a__ConfigMap"])], &["a", "b"]);
        assert_eq!(leaving_over(&orphaned, &first, &dropped), BTreeSet::from([key("outer")]));
        assert_eq!(leaving_over(&marked, &first, &dropped), BTreeSet::new(), "it has no setting");
        assert_eq!(Cost::of(&orphaned, &first, &dropped), Cost::of(&marked, &first, &clean), "nothing is left over");
        assert_eq!(staying(&first, &kept), BTreeSet::from([key("inner")]));
    }

    #[test]
    fn a_parent_is_renamed_where_a_new_owner_has_its_path() {
        let owner = |name: &str, path: &str, entries: &[&str]| {
            let mut owner = testing::kustomization(name, entries);
            owner.content["spec"] =
                serde_json::json!({"path": path, "sourceRef": {"kind": "GitRepository", "name": "repo"}});
            owner
        };
        let state = |owners: Vec<Resource>| {
            testing::snapshot(owners.iter().map(|owner| owner.object.clone()).collect(), owners)
        };
        let child = "flux-system_inner_kustomize.toolkit.fluxcd.io_Kustomization";
        let first = state(vec![owner("outer", "./o", &[child]), owner("inner", "./i", &[])]);
        let last = |path: &str| state(vec![owner("outer-two", path, &[]), owner("inner-two", "./i", &[])]);
        let outer = || Renames::from([(key("outer"), key("outer-two"))]);
        assert_eq!(renamed_parents(&first, &last("./o")), [outer()], "the inner one applies no Kustomization");
        assert!(renamed_parents(&first, &last("./p")).is_empty(), "its path has gone, so that it cannot wait");
        let entry = |name: &str| format!("flux-system_{name}_kustomize.toolkit.fluxcd.io_Kustomization");
        let above = |name: &str, applied: &str| owner(name, "./t", &[&entry(applied)]);
        let (mut deep, mut renamed) = (first.clone(), last("./o"));
        deep.replace_resource(&key("top"), Some(above("top", "outer")));
        renamed.replace_resource(&key("top-two"), Some(above("top-two", "outer-two")));
        let top = Renames::from([(key("top"), key("top-two"))]);
        assert_eq!(renamed_parents(&deep, &renamed), [outer(), top], "the one above comes last");
        let mut kept = renamed.clone();
        kept.replace_resource(&key("outer"), Some(owner("outer", "./o", &[child])));
        assert_eq!(renamed_parents(&deep, &kept).len(), 2, "`deletionPolicy: Orphan` of the one above keeps it");
        let circle = owner("outer", "./o", &[&entry("outer")]);
        deep.replace_resource(&key("outer"), Some(circle));
        assert_eq!(
            renamed_parents(&deep, &renamed).len(),
            1,
            "one that applies itself and no other has nothing to wait for"
        );
    }

    #[test]
    fn a_mark_that_the_new_owner_does_not_take_away_is_left() {
        let state = |annotations: &[(&str, &str)]| {
            let annotations = annotations.iter().copied().collect();
            let object = ObjectMetadata { annotations, ..testing::object("", "ConfigMap", "shop", "a") };
            testing::snapshot(vec![object], vec![])
        };
        let holds = Holds::from([(state(&[]).objects[0].id.clone(), Hold::Protect)]);
        let marked = || state(&[("kustomize.toolkit.fluxcd.io/prune", "disabled")]);
        let left = |first: &Snapshot, last: &Snapshot| mark_left(&holds, first, last).is_some();
        assert!(left(&state(&[]), &marked()), "Helm has another field manager");
        assert!(!left(&state(&[]), &state(&[])) && !left(&marked(), &marked()));
    }

    #[test]
    fn what_stays_behind_of_a_release_is_what_no_other_one_goes_on_with() {
        let object = || testing::object("", "ConfigMap", "shop", "a");
        let release = |name: &str, spec: serde_json::Value| {
            let content = serde_json::json!({"spec": spec, "status": {"storageNamespace": "shop",
                "history": [{"name": "web", "namespace": "shop", "version": 1}],
                "helmChart": "shop/shop-web", "inventory": {"entries": [{"id": "shop_a__ConfigMap", "v": "v1"}]}}});
            let mut full = testing::flux_object("HelmRelease", content, &[]);
            full.object.id.name = name.into();
            full
        };
        let chart = || testing::object(SOURCE_GROUP, "HelmChart", "shop", "shop-web");
        let state = |owner: Resource| testing::snapshot(vec![object(), chart(), owner.object.clone()], vec![owner]);
        let first = state(release("web", serde_json::json!({})));
        let holds: Holds = first.resources.iter().map(|full| (full.object.id.clone(), Hold::Suspend)).collect();
        let of = |last: Snapshot| -> Vec<(bool, bool)> {
            remains(&holds, &first, &last).iter().map(|remains| (remains.history, remains.marks)).collect()
        };
        assert_eq!(of(state(testing::kustomization("web", &["shop_a__ConfigMap"]))), [(true, true)]);
        assert_eq!(of(state(release("site", serde_json::json!({})))), [(true, false)]);
        assert_eq!(of(state(release("site", serde_json::json!({"releaseName": "web"})))), [], "its history goes on");
        let suspended = state(release("web", serde_json::json!({"suspend": true})));
        let later = state(testing::kustomization("web", &["shop_a__ConfigMap"]));
        let found = remains(&Holds::new(), &suspended, &later);
        assert_eq!(found.len(), 1, "an earlier step, or somebody else, has suspended it");
        assert_eq!(remains(&Holds::new(), &suspended, &suspended), [], "it stays");
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
        let object = given_away[0].object.clone();
        let mut both = live.clone();
        both.replace_object(&object, Some(testing::object("", "ConfigMap", "shop", "a")));
        let marked = given_away.clone().map(|loss| loss.with_mark(&BTreeSet::from([key("old")]), &Index::build(&both)));
        let marks = next_holds(&Holds::new(), &mut BTreeSet::new(), &marked, &both).unwrap();
        assert_eq!(marks, Holds::from([(object, Hold::Protect)]), "what else the owner lets go of goes");
        let deleted = [loss(&deletion("old", ReasonCode::OwnerDeleted))];
        assert_eq!([&given_away[0], &deleted[0]].map(Loss::is_given_away), [true, false]);
        let unmarked = deleted[0].clone().with_mark(&BTreeSet::new(), &Index::build(&live));
        assert_eq!(unmarked, deleted[0], "its setting leaves nothing over");
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
        let of_namespace = |code, cause: Option<ObjectId>, object: &ObjectMetadata| {
            let owner = Some(OwnerId::new("flux", KIND, "flux-system", "old"));
            Change { cause, ..Change::new(Action::Recreate, object, owner, Actor::KustomizeController, code) }
        };
        let namespace = testing::object("", "Namespace", "", "shop");
        let map = testing::object("", "ConfigMap", "shop", "a");
        let content = Change {
            owner: Some(OwnerId::new("flux", KIND, "flux-system", "web")),
            ..of_namespace(ReasonCode::InNamespace, Some(namespace.id.clone()), &map)
        };
        let moved = [loss(&content), loss(&of_namespace(ReasonCode::Moved, None, &namespace))];
        let holds = next_holds(&Holds::new(), &mut BTreeSet::new(), &moved, &live).unwrap();
        assert_eq!(holds, Holds::from([(key("old"), Hold::KeepInventory)]), "the namespace stays with its content");
        let child = testing::object(GROUP, KIND, "flux-system", "web");
        let of_child = Change { cause: Some(child.id.clone()), ..deletion("web", ReasonCode::OwnerDeleted) };
        let of_root = Change { object: (&child).into(), ..deletion("old", ReasonCode::OwnerDeleted) };
        let holds = next_holds(&Holds::new(), &mut BTreeSet::new(), &[loss(&of_child), loss(&of_root)], &live).unwrap();
        assert_eq!(holds, Holds::from([(key("old"), Hold::Orphan)]), "the child stays with its objects");
        let unknown = loss(&deletion("new", ReasonCode::Moved));
        let next = |losses: &[Loss]| next_holds(&Holds::new(), &mut BTreeSet::new(), losses, &live);
        assert!(next(std::slice::from_ref(&unknown)).is_err(), "it does not exist yet");
        let holds = next(&[unknown, loss(&deletion("old", ReasonCode::Moved))]).unwrap();
        assert_eq!(holds, Holds::from([(key("old"), Hold::KeepInventory)]), "it may prevent both");
        let listing = testing::kustomization("old", &["shop_a__ConfigMap"]);
        let renamed = loss(&deletion("new", ReasonCode::OwnerDeleted));
        let holds = next_holds(&Holds::new(), &mut BTreeSet::new(), &[renamed], &of_owner(listing)).unwrap();
        assert_eq!(
            holds,
            Holds::from([(key("old"), Hold::Orphan)]),
            "what has the object now deletes it in another order"
        );
    }
}
