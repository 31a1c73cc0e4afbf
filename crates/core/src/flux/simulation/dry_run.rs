//! Results of server-side dry-runs in a plan: changed objects with their diffs, refusals, and the Kustomizations that a
//! refusal blocks.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::premises::asked_change::AskedChange;
use crate::flux::apply::AppliedObject;
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::question::{DryRunAnswer, Question, Request};
use crate::flux::apply::update::Update;
use crate::flux::build::objects::BuiltObject;
use crate::flux::simulation::model::held_deletions::held_deletion;
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::questions::Answers;
use crate::flux::simulation::model::refusals::{Delay, DeletionRefusal, ForcedDeletion, Refusal, Standing};
use crate::flux::simulation::rows::applied_objects::{LastRuns, RunsBeforeSuspension};
use crate::flux::simulation::rows::object_rows::kustomization_row;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::OwnerId;
use crate::plan::{Action, Change, Diff, Outcome, PinnedObject, Plan, Reason, ReasonCode};
use crate::text::join_limited;

/// Number of objects that one gap names.
const NAMED_OBJECTS: usize = 5;

/// The answer to the apply of an object.
#[derive(Clone, Copy)]
struct Answered<'r> {
    applied: &'r AppliedObject,
    result: &'r DryRunResult,
    /// Condition on which the answer is another one; `None` for an answer that holds.
    condition: Option<&'r str>,
    /// The server accepts the dry-run and refuses the apply.
    is_late: bool,
}

/// Answers of the server to the changes by the Kustomizations of one preview.
#[derive(Default)]
pub(super) struct DryRuns<'r> {
    /// Objects that the Kustomizations apply.
    applied: Vec<Answered<'r>>,
    /// Refusals that stop a Kustomization, or may stop it.
    pub(super) refusals: Vec<Refusal>,
    /// Applies that succeed only after other changes.
    pub(super) delays: Vec<Delay>,
    /// Live objects that Kustomizations delete by force.
    pub(super) forced: Vec<ForcedDeletion>,
    /// Objects that an apply changes, apart from their metadata.
    pub(super) changed: BTreeSet<(NamespacedName, ObjectId)>,
    /// Deletions that the server refuses.
    pub(super) refused_deletions: Vec<DeletionRefusal>,
    /// Deletions that a later try may allow: the server failed, or the change ends its refusal.
    failed_deletions: Vec<DeletionRefusal>,
    /// First gap of each resource, and the objects without an answer.
    missing: BTreeMap<&'r str, (&'r Gap, BTreeSet<&'r ObjectId>)>,
    /// Other reasons for an incomplete rehearsal.
    gaps: Vec<Gap>,
    /// Updates that depend on a condition, by Kustomization.
    possible_updates: Vec<(Answered<'r>, String)>,
    /// Objects whose changes no answer confirms.
    open: Vec<ObjectId>,
    /// There are changes that could not be sent.
    has_unsent: bool,
}

impl<'r> DryRuns<'r> {
    /// Collects the answers so far, in the order of the questions.
    pub(super) fn collect(changes: &'r [AskedChange], answers: &'r Answers) -> Self {
        let mut dry_runs = Self::default();
        for asked in changes {
            let (question, answer) = (&asked.question, asked.answer(answers));
            dry_runs.has_unsent |= answer.is_none() || asked.is_unread;
            if asked.is_hidden || asked.is_unread {
                dry_runs.open.push(question.id.clone());
            }
            match (&question.request, answer) {
                (Request::ApplyBuilt(applied), Some(DryRunAnswer::Result(result))) => {
                    let (result, condition) = (asked.result(result), asked.condition());
                    dry_runs.delays.extend(delay(applied, &asked.standing));
                    let is_late = asked.is_refused_late();
                    dry_runs.add_applied(Answered { applied, result, condition, is_late });
                }
                (_, Some(DryRunAnswer::Result(result))) => {
                    dry_runs.add_deletion(question, asked.result(result), asked.condition());
                }
                (request, Some(DryRunAnswer::Missing(gap))) => {
                    let id = match request {
                        Request::ApplyBuilt(applied) | Request::Create(applied) => applied.built.shown_id(),
                        Request::Apply { .. } | Request::Record(_) | Request::Delete | Request::Read => &question.id,
                    };
                    dry_runs.missing.entry(&gap.subject).or_insert((gap, BTreeSet::new())).1.insert(id);
                    dry_runs.open.push(id.clone());
                }
                (_, None) => dry_runs.open.push(question.id.clone()),
            }
        }
        dry_runs.gaps.extend(answers.dry_runs.unknown_rights().cloned());
        dry_runs
    }

    /// Adds the gap of a preview whose answers never confirm a plan.
    pub(super) fn add_endless(&mut self) {
        let message = "each answer of the server led to another plan, and no plan was confirmed".to_owned();
        let subject = "answers to dry-runs".to_owned();
        self.gaps.push(Gap { kind: GapKind::Failed, subject, namespace: None, message });
    }

    fn add_applied(&mut self, answered: Answered<'r>) {
        self.applied.push(answered);
        let Answered { applied, result, condition, is_late } = answered;
        self.forced.extend(forced_deletion(applied, result));
        let AppliedObject { owner, spec, id, built, .. } = applied;
        if matches!(result, DryRunResult::Updated(Update { changes_content: true, .. }) | DryRunResult::Recreated(_)) {
            self.changed.insert((owner.clone(), id.clone()));
        }
        let message = match result {
            DryRunResult::Refused(message) | DryRunResult::DeletedOnly(message) => {
                format!("the server refuses {}: {message}", built.shown_id())
            }
            DryRunResult::HeldByFinalizer(finalizer) => format!("{} {}", built.shown_id(), held_by(finalizer)),
            DryRunResult::NotValidated(_) if condition.is_none() => return self.open.push(id.clone()),
            _ if condition.is_none() => return,
            _ => String::new(),
        };
        let (owner, spec, id, manifest) = (owner.clone(), spec.clone(), id.clone(), built.manifest.clone());
        let refusal = Refusal { owner, id, manifest, spec, message, is_late, condition: condition.map(str::to_owned) };
        self.refusals.push(refusal);
    }

    fn add_deletion(&mut self, question: &Question, result: &DryRunResult, condition: Option<&str>) {
        let (deletions, message) = match (result, condition) {
            (DryRunResult::Accepted, Some(condition)) => (&mut self.failed_deletions, condition.to_owned()),
            (_, Some(condition)) => {
                (&mut self.failed_deletions, format!("it stays while the server refuses it: {condition}"))
            }
            (DryRunResult::Refused(message), None) => (&mut self.refused_deletions, message.clone()),
            (DryRunResult::ServerFailed(message), None) => {
                (&mut self.failed_deletions, format!("it stays while the server fails to answer: {message}"))
            }
            _ => return,
        };
        let (owner, account) = (NamespacedName::of(&question.owner), question.service_account.clone());
        deletions.push(DeletionRefusal { owner, account, id: question.id.clone(), message });
    }

    /// Keeps the results of the last runs, which are those that the plan shows, and the updates of those that may come
    /// before a suspension.
    pub(super) fn retain_last_runs(&mut self, runs: &LastRuns<'_>, before_suspension: &RunsBeforeSuspension<'_>) {
        let possible = self.applied.iter().filter_map(|answered| {
            let applied = answered.applied;
            let &(spec, built, ref condition) = before_suspension.get(&(&applied.owner, &applied.id))?;
            let is_update = matches!(answered.result, DryRunResult::Updated(_)) && is_same_run(applied, spec, built);
            is_update.then(|| (*answered, condition.clone()))
        });
        self.possible_updates = possible.collect();
        self.applied.retain(|Answered { applied, .. }| {
            let run = runs.get(&(&applied.owner, &applied.id));
            run.is_some_and(|&(spec, built)| is_same_run(applied, spec, built))
        });
    }

    /// Returns the objects that are not compared because the keys to their content are not here.
    pub(super) fn not_compared(&self) -> Vec<ObjectId> {
        let encrypted = self.applied.iter().map(|answered| &answered.applied.built);
        encrypted.filter(|built| built.undecrypted.is_some()).map(|built| built.shown_id().clone()).collect()
    }

    /// Adds the results to a plan. An update of an object that is not in `applied`, the objects that Kustomizations
    /// apply in this plan, is left out.
    pub(super) fn add_to(
        mut self,
        plan: Plan,
        snapshot: &Snapshot,
        applied: &HashSet<(&NamespacedName, &ObjectId)>,
        with_diffs: bool,
    ) -> Plan {
        self.applied.sort_by_key(|answered| (&answered.applied.id, &answered.applied.owner));
        let mut rows = Rows::new(plan, snapshot);
        rows.with_diffs = with_diffs;
        for answered in self.applied {
            let Answered { applied: object, result, condition, .. } = answered;
            let is_applied = applied.contains(&(&object.owner, &object.id));
            match condition {
                Some(condition) if is_applied => rows.add_open(object, result, condition),
                None if is_applied || !matches!(result, DryRunResult::Updated(_)) => {
                    rows.add_result(object, result, is_applied)
                }
                _ => {}
            }
        }
        for (Answered { applied: object, result, .. }, condition) in self.possible_updates {
            rows.add_open(object, result, &condition);
        }
        for failed in self.failed_deletions {
            rows.mark_deletion_failed(&failed);
        }
        let mut plan = rows.into_plan();
        self.gaps.extend(self.missing.into_values().map(|(gap, objects)| {
            let objects = join_limited(objects.into_iter().map(ToString::to_string), NAMED_OBJECTS);
            Gap { message: format!("{}; not rehearsed: {objects}", gap.message), ..gap.clone() }
        }));
        if self.gaps.is_empty() && !self.has_unsent {
            plan.set_rehearsed();
        }
        plan.set_unrehearsed(self.open);
        plan.add_gaps(self.gaps);
        plan
    }
}

/// Returns true if an object was applied as it is by a run of its Kustomization with a spec.
fn is_same_run(applied: &AppliedObject, spec: &KustomizationSpec, built: &BuiltObject) -> bool {
    applied.spec.apply_fields() == spec.apply_fields() && applied.built.manifest == built.manifest
}

/// Rows and diffs to add to a plan.
struct Rows<'a> {
    plan: Plan,
    snapshot: &'a Snapshot,
    rows: Vec<Change>,
    diffs: Vec<Diff>,
    refusals: BTreeMap<OwnerId, Vec<String>>,
    with_diffs: bool,
}

impl<'a> Rows<'a> {
    fn new(plan: Plan, snapshot: &'a Snapshot) -> Self {
        Self { plan, snapshot, rows: vec![], diffs: vec![], refusals: BTreeMap::new(), with_diffs: false }
    }

    /// Adds the result for an object. `is_applied` is true if the Kustomization applies it in this plan.
    fn add_result(&mut self, applied: &AppliedObject, result: &DryRunResult, is_applied: bool) {
        let id = &applied.id;
        match result {
            DryRunResult::Unchanged | DryRunResult::Created | DryRunResult::Accepted => {}
            DryRunResult::NotValidated(reason) => self.mark_creation_unvalidated(id, reason),
            DryRunResult::Updated(Update { reason, diff, .. }) => {
                // The plan has a row of an object that is deleted, recreated or moved to another owner.
                let is_added = self.add_row(applied, Action::Update, reason.clone());
                let waits = if is_added { self.conditions_of(&applied.owner) } else { vec![] };
                if let Some(row) = self.rows.last_mut() {
                    waits.into_iter().for_each(|condition| row.make_race(condition));
                }
                let live = self.snapshot.object(id).filter(|_| is_added);
                if let Some((row, held)) = self.rows.last_mut().zip(live.and_then(held_deletion)) {
                    row.make_race(format!("{held}, and then it is created again"));
                }
                if (is_added || self.is_not_followed(id)) && self.with_diffs {
                    self.diffs.push(Diff { object: id.clone(), text: diff.clone() });
                }
            }
            // The plan has the row.
            DryRunResult::Recreated(_) => {}
            DryRunResult::DeletedOnly(message) => self.add_refusal(applied, message),
            DryRunResult::HeldByFinalizer(finalizer) => self.add_refusal(applied, &held_by(finalizer)),
            // An earlier run, with another spec, applies it.
            DryRunResult::Refused(message) if is_applied => self.add_refusal(applied, message),
            DryRunResult::Refused(message) | DryRunResult::ServerFailed(message) => {
                self.add_refusal(applied, message);
                self.plan.retain_changes(|change| change.action != Action::Create || change.object.id != *id);
                // What exists stays as it is.
                let action = if self.snapshot.object(id).is_some() { Action::Keep } else { Action::Unknown };
                self.add_row(applied, action, Reason::new(ReasonCode::Refused, message.as_str()));
            }
        }
    }

    /// Adds the row of an object about which the server gives another answer on a condition. What is new or deleted by
    /// force has a row, which is a race.
    fn add_open(&mut self, applied: &AppliedObject, result: &DryRunResult, condition: &str) {
        let (action, reason) = match result {
            DryRunResult::Updated(Update { reason, .. }) => (Action::Update, reason.clone()),
            DryRunResult::Unchanged => return,
            _ if self.snapshot.object(&applied.id).is_some() => (Action::Update, ReasonCode::Refused.into()),
            _ => return,
        };
        if self.add_row(applied, action, reason)
            && let Some(row) = self.rows.last_mut()
        {
            row.make_race(condition);
        }
    }

    /// Returns the conditions under which a Kustomization applies anything.
    fn conditions_of(&self, owner: &NamespacedName) -> Vec<String> {
        let owner = owner_id(owner);
        let mut applying = self.plan.owners().iter().filter(|outcome| outcome.outcome == Outcome::Applies);
        let outcome = applying.find(|outcome| outcome.owner == owner);
        outcome.map(|outcome| outcome.reason.conditions.clone()).unwrap_or_default()
    }

    fn add_refusal(&mut self, applied: &AppliedObject, message: &str) {
        let refusal = format!("{}: {message}", applied.id);
        self.refusals.entry(owner_id(&applied.owner)).or_default().push(refusal);
    }

    fn mark_creation_unvalidated(&mut self, id: &ObjectId, reason: &str) {
        self.plan.update_changes(|change| {
            if change.action == Action::Create && change.object.id == *id {
                change.reason.add_detail(&format!("not validated: {reason}"));
            }
        });
    }

    fn mark_deletion_failed(&mut self, failed: &DeletionRefusal) {
        let owner = owner_id(&failed.owner);
        self.plan.update_changes(|change| {
            if change.is_deletion() && change.object.id == failed.id && change.owner.as_ref() == Some(&owner) {
                change.make_race(&failed.message);
            }
        });
    }

    /// Adds a row unless the plan has one of the object. Returns true if it was added.
    fn add_row(&mut self, applied: &AppliedObject, action: Action, reason: Reason) -> bool {
        let id = &applied.id;
        if self.plan.changes().iter().chain(&self.rows).any(|change| change.object.id == *id) {
            return false;
        }
        let object = match self.snapshot.object(id) {
            Some(object) => PinnedObject::from(object),
            None => PinnedObject::absent(id.clone()),
        };
        self.rows.push(kustomization_row(action, object, &applied.owner, reason));
        true
    }

    /// Returns true if the plan has the row of an owner whose effect is not computed.
    fn is_not_followed(&self, id: &ObjectId) -> bool {
        let mut rows = self.plan.changes().iter();
        rows.any(|row| row.object.id == *id && row.reason.code == ReasonCode::NotFollowed)
    }

    fn block_refused_owners(&mut self) {
        for (owner, refusals) in &self.refusals {
            let refusals = join_limited(refusals.iter().collect::<BTreeSet<_>>(), 1);
            let detail = format!(
                "the server refuses {refusals}; until this is fixed, nothing more is applied and nothing is deleted"
            );
            self.plan.block_owner(owner, &Reason::new(ReasonCode::ApplyRefused, detail));
        }
    }

    fn into_plan(mut self) -> Plan {
        self.block_refused_owners();
        self.plan.add_changes(self.rows);
        self.plan.add_diffs(self.diffs);
        self.plan
    }
}

fn held_by(finalizer: &str) -> String {
    format!("is deleted, and the controller waits without a limit until its finalizer {finalizer} is removed")
}

/// Returns the delay of an apply that succeeds only after other changes.
fn delay(applied: &AppliedObject, standing: &Standing) -> Option<Delay> {
    let Standing::Replaced(_, after) = standing else { return None };
    let AppliedObject { owner, spec, id, built, .. } = applied;
    let (owner, id, manifest, spec) = (owner.clone(), id.clone(), built.manifest.clone(), spec.clone());
    (!after.is_empty()).then(|| Delay { owner, id, manifest, spec, after: after.clone() })
}

/// Returns the deletion of an object by force that a result means.
fn forced_deletion(applied: &AppliedObject, result: &DryRunResult) -> Option<ForcedDeletion> {
    let detail = match result {
        DryRunResult::Recreated(message) => message.clone(),
        DryRunResult::DeletedOnly(message) => {
            format!("it is deleted and not recreated, because the server refuses it: {message}")
        }
        DryRunResult::HeldByFinalizer(finalizer) => format!("it {}", held_by(finalizer)),
        _ => return None,
    };
    let AppliedObject { owner, spec, id, built, .. } = applied;
    Some(ForcedDeletion {
        owner: owner.clone(),
        id: id.clone(),
        manifest: built.manifest.clone(),
        spec: spec.clone(),
        comes_back: matches!(result, DryRunResult::Recreated(_)),
        reason: Reason::new(ReasonCode::Forced, detail),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::snapshot::ClusterIdentity;
    use crate::plan::OwnerOutcome;
    use crate::testing::{Build, object, snapshot};

    fn applied(name: &str) -> AppliedObject {
        let id = ObjectId::new("", "ConfigMap", "shop", name);
        let built = BuiltObject {
            id: id.clone(),
            version: "v1".to_owned(),
            manifest: json!({}).into(),
            undecrypted: None,
            masked: None,
        };
        let owner = NamespacedName { namespace: "flux".to_owned(), name: "apps".to_owned() };
        AppliedObject { owner, spec: KustomizationSpec::new(&json!({})), id, built, live_is_private: false }
    }

    fn update() -> DryRunResult {
        DryRunResult::Updated(Update {
            reason: ReasonCode::Changed.into(),
            diff: "-a\n+b\n".to_owned(),
            changes_content: true,
        })
    }

    fn text(message: &str) -> String {
        message.to_owned()
    }

    fn dry_runs(results: &[(AppliedObject, DryRunResult)]) -> DryRuns<'_> {
        let mut dry_runs = DryRuns::default();
        for (applied, result) in results {
            dry_runs.add_applied(Answered { applied, result, condition: None, is_late: false });
        }
        dry_runs
    }

    /// Returns `ACTION NAME CERTAINTY: REASON` for each row, and the plan.
    fn rows(results: &[(AppliedObject, DryRunResult)], kept: &[AppliedObject]) -> (Vec<String>, Plan) {
        let live = ["a", "b"].map(|name| object("", "ConfigMap", "shop", name));
        let dependent = object("apps", "ReplicaSet", "shop", "dependent").referring_to(&live[0].uid);
        let snapshot = snapshot(live.into_iter().chain([dependent]).collect(), vec![]);
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_owners([OwnerOutcome::new(owner_id(&applied("a").owner), Outcome::Applies, ReasonCode::NewRevision)]);
        let kept = kept.iter().map(|applied| (&applied.owner, &applied.id)).collect();
        let plan = dry_runs(results).add_to(plan, &snapshot, &kept, true);
        let row = |change: &Change| {
            format!("{} {} {:?}: {}", change.action, change.object.id.name, change.certainty, change.reason)
        };
        (plan.changes().iter().map(row).collect(), plan)
    }

    #[test]
    fn an_update_has_a_row_and_a_diff_while_its_kustomization_applies_it() {
        let (found, plan) = rows(&[(applied("a"), update()), (applied("b"), update())], &[applied("a")]);
        assert_eq!(found, ["update a Certain: changed"]);
        assert_eq!(plan.diffs().iter().map(|diff| &*diff.text).collect::<Vec<_>>(), ["-a\n+b\n"]);
        assert_eq!(plan.owners()[0].outcome, Outcome::Applies);
    }

    #[test]
    fn a_refusal_blocks_the_kustomization() {
        let results = vec![
            (applied("a"), DryRunResult::Refused(text("denied"))),
            (applied("b"), DryRunResult::ServerFailed(text("webhook"))),
        ];
        let refusals = dry_runs(&results).refusals;
        assert_eq!(refusals.len(), 1, "a server that failed may accept later");
        assert!(refusals[0].message.ends_with("a -n shop: denied"), "{refusals:?}");
        let (found, plan) = rows(&results, &[]);
        assert_eq!(found, ["keep a Certain: refused: denied", "keep b Certain: refused: webhook"]);
        assert_eq!(plan.owners()[0].outcome, Outcome::Blocked);
        assert!(plan.owners()[0].reason.detail.contains("denied and 1 more"), "{}", plan.owners()[0].reason.detail);
    }
}
