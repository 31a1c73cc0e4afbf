//! Plans: a row for each object that something would delete or change, or that looks prunable.
//!
//! Every planner fills a [`Plan`] and every output reads one. Its fields are private: planners add rows, and `summary`,
//! `complete` and the order are derived, so that no step can lose or contradict a part of it.

pub mod alarm;
pub mod change;
pub mod contradictions;
pub mod documents;
pub mod execution;
pub mod file;
pub mod filter;
pub mod finished;
mod gaps;
pub mod grave;
pub mod limits;
pub mod mask;
pub mod outcome;
pub mod policy;
pub mod reason;
pub mod subject;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Add;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

pub use alarm::Alarm;
pub use change::{
    Action, Actor, BlockedByFinalizers, Certainty, Change, Contested, ControllerUpgrade, Diff, Fidelity, Outcome,
    OwnerOutcome, PinnedObject, if_deleted,
};
pub(crate) use change::{EmptiedFile, awaits_finalizer};
pub use documents::{fleet, sequence};
pub use finished::FinishedPlan;
pub use reason::{Reason, ReasonCode};
pub use subject::Subject;

use crate::kubernetes::deletion::volumes::PolicyChanges;
use crate::kubernetes::gap::{AnswerGap, Gap};
use crate::kubernetes::object::{GroupKind, ObjectId};
use crate::kubernetes::references::{StillReferenced, is_unknown};
use crate::kubernetes::referrer::Referrer;
use crate::kubernetes::snapshot::ClusterIdentity;
use crate::ownership::OwnerId;

/// Name of the JSON schema; a contract with programs.
pub const SCHEMA: &str = "kubectl-gitops/plan/v1";

/// Objects that stay, with their references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Referrers {
    /// Objects as the builds have them.
    pub(crate) built: Vec<Referrer>,
    /// Built kinds whose references are not known.
    pub(crate) unknown_kinds: BTreeSet<GroupKind>,
    /// Live objects; `None` if they were not read for this plan.
    pub(crate) live: Option<Vec<Referrer>>,
}

/// A plan. Its parts are always sorted, so that two runs over the same cluster are equal to the byte.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "PlanDocument", into = "PlanDocument")]
pub struct Plan {
    document: PlanDocument,
}

/// The JSON form of a plan, in the order of its keys. `schema`, `complete` and `summary` are derived when it is written, and
/// are not set inside of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct PlanDocument {
    schema: String,
    complete: bool,
    rehearsed: bool,
    /// The API server was asked nothing about a working tree, so updates and refusals are not known.
    #[serde(default, rename = "withoutDryRuns", skip_serializing_if = "std::ops::Not::not")]
    without_dry_runs: bool,
    gaps: Vec<AnswerGap>,
    cluster: ClusterIdentity,
    /// Other clusters in which owners of this one change objects, by the names in `cluster` of their objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    spokes: BTreeMap<Arc<str>, ClusterIdentity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recorded: Option<DateTime<Utc>>,
    /// Tree, revision, branch, sources and cluster; absent for a plan of the cluster alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<Subject>,
    owners: Vec<OwnerOutcome>,
    changes: Vec<Change>,
    #[serde(default)]
    diffs: Vec<Diff>,
    #[serde(default)]
    contested: Vec<Contested>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unrehearsed: Vec<ObjectId>,
    /// Objects whose update is not in the plan, because SOPS encrypts them or a name that they refer to.
    #[serde(default, rename = "notCompared", skip_serializing_if = "Vec::is_empty")]
    not_compared: Vec<ObjectId>,
    /// Kustomization files that the change empties. The alarms name them.
    #[serde(skip)]
    emptied_files: Vec<EmptiedFile>,
    /// Reclaim policies that the change sets.
    #[serde(skip)]
    policy_changes: PolicyChanges,
    /// Suspended owners that the change does not touch.
    #[serde(skip)]
    untouched_owners: BTreeSet<OwnerId>,
    /// Kinds of objects that the plan depends on beside those of its rows; `None` if it depends on all.
    #[serde(skip)]
    read_kinds: Option<BTreeSet<GroupKind>>,
    /// Objects that stay, with their references.
    #[serde(skip)]
    referrers: Referrers,
    /// Deleted objects that others still refer to.
    #[serde(skip)]
    still_referenced: Vec<StillReferenced>,
    /// Version of kustomize-controller that the change installs, if rules of deletions differ there.
    #[serde(default, rename = "controllerUpgrade", skip_serializing_if = "Option::is_none")]
    controller_upgrade: Option<ControllerUpgrade>,
    #[serde(default, rename = "blockedByFinalizers")]
    blocked_by_finalizers: Vec<BlockedByFinalizers>,
    alarms: Vec<Alarm>,
    summary: Summary,
}

impl From<Plan> for PlanDocument {
    fn from(plan: Plan) -> Self {
        let (complete, summary) = (plan.is_complete(), plan.summary());
        Self { schema: SCHEMA.to_owned(), complete, summary, ..plan.document }
    }
}

impl TryFrom<PlanDocument> for Plan {
    type Error = String;

    /// Reads a document. What is derived must agree with what it is derived from.
    fn try_from(mut document: PlanDocument) -> Result<Self, String> {
        let schema = std::mem::take(&mut document.schema);
        if schema != SCHEMA {
            return Err(format!("its schema is {schema:?}; this version reads {SCHEMA:?}"));
        }
        let (complete, summary) = (std::mem::take(&mut document.complete), std::mem::take(&mut document.summary));
        let mut plan = Self { document };
        plan.sort();
        if plan.is_complete() != complete || plan.summary() != summary {
            return Err("its summary does not agree with its changes".to_owned());
        }
        Ok(plan)
    }
}

impl Plan {
    /// Creates an empty plan that is pinned to a cluster.
    pub fn new(cluster: ClusterIdentity) -> Self {
        Self { document: PlanDocument { cluster, ..PlanDocument::default() } }
    }

    /// Cluster that the plan is pinned to.
    pub fn cluster(&self) -> &ClusterIdentity {
        &self.document.cluster
    }

    /// Other clusters in which owners of this one change objects, by the names that identities have.
    pub fn spokes(&self) -> &BTreeMap<Arc<str>, ClusterIdentity> {
        &self.document.spokes
    }

    /// Sets the other clusters.
    pub(crate) fn set_spokes(&mut self, spokes: BTreeMap<Arc<str>, ClusterIdentity>) {
        self.document.spokes = spokes;
    }

    /// Time of the recording that the plan was made from; `None` for a live cluster.
    pub fn recorded(&self) -> Option<DateTime<Utc>> {
        self.document.recorded
    }

    /// Returns the subject of the plan; `None` for a plan of the cluster alone.
    pub fn subject(&self) -> Option<&Subject> {
        self.document.subject.as_ref()
    }

    /// Sets what this is a plan of.
    pub fn set_subject(&mut self, subject: Subject) {
        self.document.subject = Some(subject);
    }

    /// Everything that could not be read or computed, also what cannot change the plan.
    pub fn gaps(&self) -> &[AnswerGap] {
        &self.document.gaps
    }

    /// Gaps that can change the plan.
    pub fn counting_gaps(&self) -> impl Iterator<Item = &Gap> {
        self.document.gaps.iter().filter(|gap| gap.affects_answer).map(|gap| &gap.gap)
    }

    /// Returns true if nothing that could hide or misjudge an object is unknown.
    pub fn is_complete(&self) -> bool {
        self.counting_gaps().next().is_none()
    }

    /// Outcome of each owner that was looked at.
    pub fn owners(&self) -> &[OwnerOutcome] {
        &self.document.owners
    }

    /// One row per object that changes or looks prunable.
    pub fn changes(&self) -> &[Change] {
        &self.document.changes
    }

    /// Unified diffs of updated objects, where they were asked for.
    pub fn diffs(&self) -> &[Diff] {
        &self.document.diffs
    }

    /// Objects that more than one owner applies in the end: each owner undoes what the other does.
    pub fn contested(&self) -> &[Contested] {
        &self.document.contested
    }

    /// Deleted objects that finalizers keep terminating.
    pub fn blocked_by_finalizers(&self) -> &[BlockedByFinalizers] {
        &self.document.blocked_by_finalizers
    }

    /// Limits that the plan exceeds, most severe first.
    pub fn alarms(&self) -> &[Alarm] {
        &self.document.alarms
    }

    /// Counts of the changes by action. Old records of releases count for themselves.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for change in &self.document.changes {
            *match change.action {
                _ if change.is_old_record() => &mut summary.old_records,
                Action::Delete => &mut summary.delete,
                Action::Recreate => &mut summary.recreate,
                Action::Keep => &mut summary.keep,
                Action::Create => &mut summary.create,
                Action::Update => &mut summary.update,
                Action::Unknown => &mut summary.unknown,
            } += 1;
        }
        summary
    }

    /// Changes that delete an object, in its own right or by a cascade.
    pub fn deletions(&self) -> impl Iterator<Item = &Change> {
        self.document.changes.iter().filter(|change| change.is_deletion())
    }

    /// Deletions in an object's own right; the cluster carries out the cascade by itself.
    pub fn roots(&self) -> impl Iterator<Item = &Change> {
        self.deletions().filter(|change| change.cause.is_none())
    }

    /// Owners that apply and prune nothing.
    pub fn blocked_owners(&self) -> impl Iterator<Item = &OwnerOutcome> {
        self.document.owners.iter().filter(|row| row.outcome == Outcome::Blocked)
    }

    /// Owners for which it is not known what they apply and prune.
    pub fn unknown_owners(&self) -> impl Iterator<Item = &OwnerOutcome> {
        self.document.owners.iter().filter(|row| row.outcome == Outcome::Unknown)
    }

    /// Returns the owner of this plan because of which another one is blocked, unknown or deleted. `None` if it has a reason
    /// of its own.
    pub fn blocking_owner(&self, row: &OwnerOutcome) -> Option<&OwnerOutcome> {
        let causes = match row.reason.code {
            ReasonCode::DependencyNotReady | ReasonCode::DependencyDeleted | ReasonCode::DependencyUnknown => {
                &row.dependencies
            }
            ReasonCode::ParentUnknown => &row.parents,
            _ => return None,
        };
        let mut stopped = self.document.owners.iter().filter(|cause| {
            cause.owner != row.owner && !matches!(cause.outcome, Outcome::Applies | Outcome::Unchanged)
        });
        stopped.find(|cause| causes.contains(&cause.owner))
    }

    /// Returns true if this plan does the same to the same object, by identity and uid.
    pub fn contains(&self, change: &Change) -> bool {
        self.document.changes.iter().any(|own| {
            own.action == change.action && own.object.id == change.object.id && own.object.uid == change.object.uid
        })
    }

    /// Sets the time of the recording that the plan was made from.
    #[must_use]
    pub fn recorded_at(mut self, recorded: Option<DateTime<Utc>>) -> Self {
        self.document.recorded = recorded;
        self
    }

    /// Records that the API server was asked about every change.
    pub(crate) fn set_rehearsed(&mut self) {
        self.document.rehearsed = true;
        self.document.unrehearsed.clear();
    }

    /// Records that the API server was asked nothing about the working tree.
    pub(crate) fn set_without_dry_runs(&mut self) {
        self.document.without_dry_runs = true;
    }

    /// Returns true if the API server was asked nothing about a working tree: its updates and refusals are not known.
    pub fn is_without_dry_runs(&self) -> bool {
        self.document.without_dry_runs
    }

    /// Sets the objects whose changes no dry-run has confirmed.
    pub(crate) fn set_unrehearsed(&mut self, objects: Vec<ObjectId>) {
        self.document.unrehearsed = objects;
        self.sort();
    }

    /// Sets the objects whose update is not in the plan, because SOPS encrypts them or a name that they refer to.
    pub(crate) fn set_not_compared(&mut self, objects: Vec<ObjectId>) {
        self.document.not_compared = objects;
        self.sort();
    }

    /// Returns the objects whose update is not in the plan, because SOPS encrypts them or a name that they refer to.
    pub fn not_compared(&self) -> &[ObjectId] {
        &self.document.not_compared
    }

    /// Adds gaps; an equal gap is kept once.
    pub fn add_gaps(&mut self, gaps: impl IntoIterator<Item = Gap>) {
        self.document.gaps.extend(gaps.into_iter().map(AnswerGap::from));
        self.sort();
    }

    pub fn add_owners(&mut self, owners: impl IntoIterator<Item = OwnerOutcome>) {
        self.document.owners.extend(owners);
        self.sort();
    }

    /// Adds changes of objects.
    pub fn add_changes(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.document.changes.extend(changes);
        self.sort();
    }

    /// Adds diffs of updated objects.
    pub fn add_diffs(&mut self, diffs: impl IntoIterator<Item = Diff>) {
        self.document.diffs.extend(diffs);
        self.sort();
    }

    /// Adds objects that more than one owner applies.
    pub fn add_contested(&mut self, contested: impl IntoIterator<Item = Contested>) {
        self.document.contested.extend(contested);
        self.sort();
    }

    /// Kustomization files that the change empties.
    pub(crate) fn emptied_files(&self) -> &[EmptiedFile] {
        &self.document.emptied_files
    }

    /// Sets the kustomization files that the change empties.
    pub(crate) fn set_emptied_files(&mut self, files: Vec<EmptiedFile>) {
        self.document.emptied_files = files;
    }

    /// Version of kustomize-controller that the change installs, if its rules are others.
    pub fn controller_upgrade(&self) -> Option<&ControllerUpgrade> {
        self.document.controller_upgrade.as_ref()
    }

    pub(crate) fn set_controller_upgrade(&mut self, upgrade: Option<ControllerUpgrade>) {
        self.document.controller_upgrade = upgrade;
    }

    /// Sets the suspended owners that the change does not touch.
    pub(crate) fn set_untouched_owners(&mut self, owners: BTreeSet<OwnerId>) {
        self.document.untouched_owners = owners;
    }

    pub(crate) fn referrers(&self) -> &Referrers {
        &self.document.referrers
    }

    /// Sets the objects that stay as the builds have them, and the built kinds whose references are not known.
    pub(crate) fn set_built_referrers(&mut self, built: Vec<Referrer>, unknown_kinds: BTreeSet<GroupKind>) {
        self.document.referrers = Referrers { built, unknown_kinds, live: None };
    }

    /// Sets the live objects that refer to others, in place of those that the snapshot recorded.
    pub fn set_live_referrers(&mut self, live: Vec<Referrer>) {
        self.document.referrers.live = Some(live);
    }

    /// Kinds of built objects whose references are not known, if an object is deleted that they could need: one of Kubernetes, or
    /// of a kind that is known.
    pub fn unknown_referrers(&self) -> Vec<String> {
        let mut deleted = self.deletions().map(|change| &change.object.id);
        let can_be_needed = deleted.any(|id| !is_unknown(&id.group, &id.kind));
        let kinds = self.document.referrers.unknown_kinds.iter().filter(|_| can_be_needed);
        kinds.map(ToString::to_string).collect()
    }

    /// Reclaim policies that the change sets.
    pub(crate) fn policy_changes(&self) -> &PolicyChanges {
        &self.document.policy_changes
    }

    pub(crate) fn set_policy_changes(&mut self, changes: PolicyChanges) {
        self.document.policy_changes = changes;
    }

    /// Deleted objects that something which stays still refers to.
    pub(crate) fn still_referenced(&self) -> &[StillReferenced] {
        &self.document.still_referenced
    }

    pub(crate) fn set_still_referenced(&mut self, found: Vec<StillReferenced>) {
        self.document.still_referenced = found;
    }

    /// Sets the deleted objects that finalizers keep terminating, in the order given.
    pub fn set_blocked_by_finalizers(&mut self, blocked: Vec<BlockedByFinalizers>) {
        self.document.blocked_by_finalizers = blocked;
    }

    /// Sets the limits that the plan exceeds, most severe first, in place of earlier ones.
    pub fn set_alarms(&mut self, alarms: Vec<Alarm>) {
        self.document.alarms = alarms;
    }

    /// Adds alarms that are less severe than those so far.
    pub(crate) fn add_alarms(&mut self, alarms: impl IntoIterator<Item = Alarm>) {
        self.document.alarms.extend(alarms);
    }

    /// Changes every row of an object.
    pub fn update_changes(&mut self, update: impl FnMut(&mut Change)) {
        self.document.changes.iter_mut().for_each(update);
        self.sort();
    }

    /// Removes the suspended owners that the change does not touch, unless they have a row.
    pub(crate) fn drop_untouched_owners(&mut self) {
        let mut untouched = std::mem::take(&mut self.document.untouched_owners);
        for owner in self.document.changes.iter().filter_map(|change| change.owner.as_ref()) {
            untouched.remove(owner);
        }
        self.retain_owners(|row| !untouched.contains(&row.owner));
    }

    /// Removes the contested objects for which `keep` returns false.
    pub(crate) fn retain_contested(&mut self, keep: impl FnMut(&Contested) -> bool) {
        self.document.contested.retain(keep);
    }

    /// Removes the changes for which `keep` returns false, and what the plan says about their objects elsewhere.
    pub fn retain_changes(&mut self, keep: impl FnMut(&Change) -> bool) {
        self.document.changes.retain(keep);
        let PlanDocument { changes, diffs, unrehearsed, blocked_by_finalizers, .. } = &mut self.document;
        let listed: HashSet<&ObjectId> = changes.iter().map(|change| &change.object.id).collect();
        diffs.retain(|diff| listed.contains(&diff.object));
        unrehearsed.retain(|id| listed.contains(id));
        blocked_by_finalizers.retain(|blocked| listed.contains(&blocked.object));
    }

    /// Removes the owners for which `keep` returns false, and contested objects that none of the rest applies.
    pub(crate) fn retain_owners(&mut self, keep: impl FnMut(&OwnerOutcome) -> bool) {
        self.document.owners.retain(keep);
        let PlanDocument { owners, contested, emptied_files, .. } = &mut self.document;
        let listed: BTreeSet<&OwnerId> = owners.iter().map(|row| &row.owner).collect();
        contested.retain(|contested| contested.owners.iter().any(|owner| listed.contains(owner)));
        emptied_files.retain(|file| listed.contains(&file.owner));
    }

    pub(crate) fn block_owner(&mut self, owner: &OwnerId, reason: &Reason) {
        for row in self.document.owners.iter_mut().filter(|row| row.owner == *owner) {
            (row.outcome, row.reason) = (Outcome::Blocked, reason.clone());
        }
        self.sort();
    }

    pub(crate) fn update_owners(&mut self, update: impl FnMut(&mut OwnerOutcome)) {
        self.document.owners.iter_mut().for_each(update);
        self.sort();
    }

    /// Sorts all parts. Those that others set in an order of their own stay as they are.
    fn sort(&mut self) {
        let PlanDocument { gaps, owners, changes, diffs, contested, unrehearsed, not_compared, .. } =
            &mut self.document;
        gaps.sort();
        gaps.dedup();
        owners.sort();
        changes.sort_by(|a, b| (&a.object, a.action).cmp(&(&b.object, b.action)));
        diffs.sort();
        contested.sort();
        for ids in [unrehearsed, not_compared] {
            ids.sort();
            ids.dedup();
        }
    }
}

/// Counts of changes by action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub delete: usize,
    pub recreate: usize,
    pub keep: usize,
    pub create: usize,
    pub update: usize,
    pub unknown: usize,
    /// Deleted records of old revisions of releases, which are not among the other deletions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub old_records: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Add for Summary {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            delete: self.delete + other.delete,
            recreate: self.recreate + other.recreate,
            keep: self.keep + other.keep,
            create: self.create + other.create,
            update: self.update + other.update,
            unknown: self.unknown + other.unknown,
            old_records: self.old_records + other.old_records,
        }
    }
}
