//! Answers of the server to the dry-runs, and the gaps where there is none.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::{Failure, FailureKind};
use crate::error::Error;
use gitops_core::flux::apply::AppliedObject;
use gitops_core::flux::apply::dry_run::{DryRunResult, HIDDEN_MESSAGE};
use gitops_core::flux::simulation::dry_run::DryRuns;
use gitops_core::flux::simulation::rehearsal::{DeletionRefusal, PlannedDeletion};
use gitops_core::flux::simulation::{Preview, Refusal};
use gitops_core::kubernetes::gap::{Gap, GapKind};
use gitops_core::kubernetes::object::{ObjectId, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::plan::Plan;
use gitops_core::text::join_limited;

/// Number of objects that one message names.
pub(super) const NAMED_OBJECTS: usize = 5;

/// A plan with the answers of the server.
pub(crate) struct Rehearsed {
    pub(crate) plan: Plan,
    pub(crate) warning: Option<String>,
    pub(crate) hint: Option<String>,
}

/// Answers of the server to all dry-runs.
pub(super) struct Answers {
    dry_runs: DryRuns,
    /// First failure by resource, and the objects without an answer.
    failures: BTreeMap<String, (Failure, BTreeSet<ObjectId>)>,
    /// Failures to find out about rights.
    unknown_rights: BTreeMap<String, Failure>,
    /// Objects that are not asked about, because their names hold values of Secrets.
    hidden: Vec<ObjectId>,
    /// Objects of clusters that were read from files.
    unasked: Vec<ObjectId>,
    is_endless: bool,
}

impl Answers {
    pub(super) fn new(with_diffs: bool) -> Self {
        let dry_runs = DryRuns { with_diffs, ..DryRuns::default() };
        Self {
            dry_runs,
            failures: BTreeMap::new(),
            unknown_rights: BTreeMap::new(),
            hidden: vec![],
            unasked: vec![],
            is_endless: false,
        }
    }

    pub(super) fn add_apply(
        &mut self,
        snapshot: &Snapshot,
        applied: AppliedObject,
        result: Result<DryRunResult, Failure>,
    ) {
        match result {
            Ok(result) => {
                let result = result.without_secrets(&applied);
                self.dry_runs.applied.push((applied, result));
            }
            Err(failure) if applied.built.masked.is_some() => {
                let failure = Failure { message: HIDDEN_MESSAGE.to_owned(), ..failure };
                self.add_failure(snapshot, applied.built.shown_id(), failure);
            }
            Err(failure) => self.add_failure(snapshot, &applied.id, failure),
        }
    }

    pub(super) fn add_deletion(
        &mut self,
        snapshot: &Snapshot,
        deletion: PlannedDeletion<'_>,
        result: Result<Option<DryRunResult>, Failure>,
    ) {
        let refusal =
            |message| DeletionRefusal { owner: deletion.owner.clone(), id: deletion.object.id.clone(), message };
        match result {
            Ok(Some(DryRunResult::ServerFailed(message))) => self.dry_runs.failed_deletions.push(refusal(message)),
            Ok(Some(DryRunResult::Refused(message))) => self.dry_runs.refused_deletions.push(refusal(message)),
            Ok(_) => {}
            Err(failure) => self.add_failure(snapshot, &deletion.object.id, failure),
        }
    }

    fn add_failure(&mut self, snapshot: &Snapshot, id: &ObjectId, failure: Failure) {
        let mut resource = snapshot.type_of(id).map_or_else(|| id.group_kind().to_string(), ResourceType::resource);
        if let Some(cluster) = &id.cluster {
            resource += &format!(" in cluster {cluster}");
        }
        self.failures.entry(resource).or_insert_with(|| (failure, BTreeSet::new())).1.insert(id.clone());
    }

    pub(super) fn add_failures(&mut self, failures: BTreeMap<String, Failure>) {
        self.unknown_rights.extend(failures);
    }

    /// Records an object that is not asked about. Returns false.
    pub(super) fn leave_open(&mut self, id: &ObjectId) -> bool {
        self.hidden.push(id.clone());
        false
    }

    /// Records an object of a cluster that was read from a file, and cannot be asked.
    pub(super) fn add_unasked(&mut self, id: &ObjectId) {
        self.unasked.push(id.clone());
    }

    /// Records that new questions came up after the last round.
    pub(super) fn add_endless(&mut self) {
        self.is_endless = true;
    }

    pub(super) fn refusals(&self) -> Vec<Refusal> {
        self.dry_runs.refusals()
    }

    pub(super) fn refused_deletions(&self) -> Vec<DeletionRefusal> {
        self.dry_runs.refused_deletions.clone()
    }

    /// Adds the answers to the plan that the preview made with their refusals.
    pub(super) fn add_to(
        mut self,
        plan: Plan,
        snapshot: &Snapshot,
        preview: &Preview<'_>,
        warning: Option<String>,
    ) -> Rehearsed {
        self.dry_runs.applied.sort_by(|(a, _), (b, _)| (&a.id, &a.owner).cmp(&(&b.id, &b.owner)));
        let (gaps, hint) = (self.gaps(), self.hint());
        let not_validated = self.dry_runs.applied.iter();
        let not_validated = not_validated.filter(|(_, result)| matches!(result, DryRunResult::NotValidated(_)));
        let mut open: Vec<ObjectId> = not_validated.map(|(applied, _)| applied.id.clone()).collect();
        let asks_every_cluster = self.unasked.is_empty();
        open.extend(self.hidden);
        open.extend(self.unasked);
        open.extend(self.failures.into_values().flat_map(|(_, objects)| objects));
        let mut plan = self.dry_runs.add_to(plan, snapshot, &preview.applied_objects());
        if gaps.is_empty() && asks_every_cluster {
            plan.set_rehearsed();
        }
        plan.set_unrehearsed(open);
        plan.add_gaps(gaps);
        Rehearsed { plan, warning, hint }
    }

    /// Returns a gap for each resource without an answer, and for each service account whose rights are not known.
    fn gaps(&self) -> Vec<Gap> {
        let mut gaps = vec![];
        for (resource, (failure, objects)) in &self.failures {
            let gap = failure.gap(format!("answers to dry-runs of {resource}"), None);
            let objects = join_limited(objects.iter().map(ToString::to_string), NAMED_OBJECTS);
            gaps.push(Gap { message: format!("{}; not rehearsed: {objects}", gap.message), ..gap });
        }
        gaps.extend(self.unknown_rights.iter().map(|(subject, failure)| failure.gap(subject.clone(), None)));
        if self.is_endless {
            let message = "each answer of the server led to another plan, and no plan was confirmed".to_owned();
            gaps.push(Gap {
                kind: GapKind::Failed,
                subject: "answers to dry-runs".to_owned(),
                namespace: None,
                message,
            });
        }
        gaps
    }

    /// Returns the hint for missing rights.
    fn hint(&self) -> Option<String> {
        let failures = self.failures.values().map(|(failure, _)| failure).chain(self.unknown_rights.values());
        let denied = failures.into_iter().find(|failure| failure.kind == FailureKind::Forbidden)?;
        let hint = Error::from(denied.clone()).hint?;
        Some(format!("dry-runs need the rights of docs/rbac.md, or plan without them: --offline; {hint}"))
    }
}
