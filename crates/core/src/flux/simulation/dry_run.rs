//! Results of server-side dry-runs in a plan: changed objects with their diffs, refusals, and the Kustomizations that a
//! refusal blocks.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::model::owner_names::owner_id;
use super::model::questions::Answers;
use super::model::refusals::{DeletionRefusal, Refusal};
use super::rows::cascade_rows::mark_held_dependent;
use super::rows::object_rows::kustomization_row;
use crate::flux::apply::AppliedObject;
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::question::{DryRunAnswer, Question, Request};
use crate::flux::apply::update::Update;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::deletion::cascade::{Cascade, CascadedObject};
use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::OwnerId;
use crate::plan::{Action, Certainty, Change, Diff, PinnedObject, Plan, Reason, ReasonCode};
use crate::text::join_limited;

/// Number of objects that one gap names.
const NAMED_OBJECTS: usize = 5;

/// A change by a Kustomization that the API server is asked about, or that needs no request.
pub(super) struct AskedChange {
    pub(super) question: Question,
    /// Answer that is known without a request.
    pub(super) known: Option<DryRunAnswer>,
    /// The name holds values of Secrets, so that no request may have it.
    pub(super) is_hidden: bool,
    /// The cluster cannot be asked.
    pub(super) is_unread: bool,
}

impl AskedChange {
    /// Returns the answer; `None` if it was not recorded.
    fn answer<'r>(&'r self, answers: &'r Answers) -> Option<&'r DryRunAnswer> {
        self.known.as_ref().or_else(|| answers.dry_runs.get(self.question.key()))
    }
}

/// Answers of the server to the changes by the Kustomizations of one preview.
#[derive(Default)]
pub(super) struct DryRuns<'r> {
    /// Objects that the Kustomizations apply.
    applied: Vec<(&'r AppliedObject, &'r DryRunResult)>,
    /// Refusals that stop a Kustomization. A failed server is none: a later try may succeed.
    pub(super) refusals: Vec<Refusal>,
    /// Deletions that the server refuses.
    pub(super) refused_deletions: Vec<DeletionRefusal>,
    /// Deletions for which the server failed, with its message. A later try may succeed.
    failed_deletions: Vec<DeletionRefusal>,
    /// First gap of each resource, and the objects without an answer.
    missing: BTreeMap<&'r str, (&'r Gap, BTreeSet<&'r ObjectId>)>,
    /// Other reasons for an incomplete rehearsal.
    gaps: Vec<Gap>,
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
                    dry_runs.add_applied(applied, result);
                }
                (_, Some(DryRunAnswer::Result(result))) => {
                    let owner = NamespacedName::of(&question.owner);
                    dry_runs.add_deletion(owner, &question.id, result);
                }
                (request, Some(DryRunAnswer::Missing(gap))) => {
                    let id = match request {
                        Request::ApplyBuilt(applied) => applied.built.shown_id(),
                        Request::Apply(_) | Request::Delete | Request::Read => &question.id,
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

    fn add_applied(&mut self, applied: &'r AppliedObject, result: &'r DryRunResult) {
        self.applied.push((applied, result));
        let AppliedObject { owner, id, built, .. } = applied;
        let message = match result {
            DryRunResult::Refused(message) | DryRunResult::DeletedOnly(message) => {
                format!("the server refuses {}: {message}", built.shown_id())
            }
            DryRunResult::HeldByFinalizer(finalizer) => format!("{} {}", built.shown_id(), held_by(finalizer)),
            DryRunResult::NotValidated(_) => return self.open.push(id.clone()),
            _ => return,
        };
        let (owner, id, manifest) = (owner.clone(), id.clone(), built.manifest.clone());
        self.refusals.push(Refusal { owner, id, manifest, message });
    }

    fn add_deletion(&mut self, owner: NamespacedName, id: &ObjectId, result: &DryRunResult) {
        let (deletions, message) = match result {
            DryRunResult::Refused(message) => (&mut self.refused_deletions, message),
            DryRunResult::ServerFailed(message) => (&mut self.failed_deletions, message),
            _ => return,
        };
        deletions.push(DeletionRefusal { owner, id: id.clone(), message: message.clone() });
    }

    /// Returns the objects that are not compared because the keys to their content are not here.
    pub(super) fn not_compared(&self) -> BTreeSet<String> {
        let encrypted = self.applied.iter().filter(|(applied, _)| applied.built.undecrypted.is_some());
        encrypted.map(|(applied, _)| applied.built.shown_id().to_string()).collect()
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
        self.applied.sort_by(|(a, _), (b, _)| (&a.id, &a.owner).cmp(&(&b.id, &b.owner)));
        let mut rows = Rows::new(plan, snapshot);
        rows.with_diffs = with_diffs;
        for (object, result) in self.applied {
            if !matches!(result, DryRunResult::Updated(_)) || applied.contains(&(&object.owner, &object.id)) {
                rows.add_result(object, result);
            }
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

    fn add_result(&mut self, applied: &AppliedObject, result: &DryRunResult) {
        let id = &applied.id;
        match result {
            DryRunResult::Unchanged | DryRunResult::Created | DryRunResult::Accepted => {}
            DryRunResult::NotValidated(reason) => self.mark_creation_unvalidated(id, reason),
            DryRunResult::Updated(Update { reason, diff }) => {
                // The plan has a row of an object that is deleted, recreated or moved to another owner.
                if (self.add_row(applied, Action::Update, reason.clone()) || self.is_not_followed(id))
                    && self.with_diffs
                {
                    self.diffs.push(Diff { object: id.clone(), text: diff.clone() });
                }
            }
            DryRunResult::Recreated(message) => {
                self.add_row(applied, Action::Recreate, Reason::new(ReasonCode::Forced, message.as_str()));
            }
            DryRunResult::DeletedOnly(message) => {
                self.add_refusal(applied, message);
                let detail = format!("it is deleted and not recreated, because the server refuses it: {message}");
                self.add_row(applied, Action::Delete, Reason::new(ReasonCode::Forced, detail));
            }
            DryRunResult::HeldByFinalizer(finalizer) => {
                let detail = held_by(finalizer);
                self.add_refusal(applied, &detail);
                self.add_row(applied, Action::Delete, Reason::new(ReasonCode::Forced, format!("it {detail}")));
            }
            DryRunResult::Refused(message) | DryRunResult::ServerFailed(message) => {
                self.add_refusal(applied, message);
                self.plan.retain_changes(|change| change.action != Action::Create || change.object.id != *id);
                self.add_row(applied, Action::Unknown, Reason::new(ReasonCode::Refused, message.as_str()));
            }
        }
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
                change.make_race(&format!("it stays while the server fails to answer: {}", failed.message));
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

    /// Marks recreations as a race where a refusal of another object may stop the Kustomization before it recreates.
    fn mark_interrupted_recreations(&mut self) {
        for row in &mut self.rows {
            if !row.is_deletion() {
                continue;
            }
            let refusals = row.owner.as_ref().and_then(|owner| self.refusals.get(owner)).map_or(0, Vec::len);
            let of_object = usize::from(row.action == Action::Delete);
            let fails_otherwise = refusals == 0 && row.owner.as_ref().is_some_and(|owner| fails(&self.plan, owner));
            if refusals > of_object || fails_otherwise {
                (row.action, row.certainty) = (Action::Delete, Certainty::Race);
                row.reason.add_detail(
                    "race: it may be deleted before another object stops its Kustomization, and is then not recreated",
                );
            }
        }
    }

    /// Adds the objects that Kubernetes deletes as a consequence of the forced deletions.
    fn add_cascade(&mut self) {
        let forced = self.rows.iter().filter(|row| row.is_deletion());
        let roots: Vec<&ObjectMetadata> = forced.filter_map(|row| self.snapshot.object(&row.object.id)).collect();
        if roots.is_empty() {
            return;
        }
        let listed: BTreeSet<&ObjectId> =
            self.plan.changes().iter().chain(&self.rows).map(|change| &change.object.id).collect();
        let mut cascaded = Cascade::new(self.snapshot).closure(roots);
        cascaded.retain(|cascaded| !listed.contains(&cascaded.object.id));
        let cascaded: BTreeMap<ObjectId, CascadedObject<'_>> =
            cascaded.into_iter().map(|cascaded| (cascaded.object.id.clone(), cascaded)).collect();
        for dependent in cascaded.values() {
            let mut row = Change::cascaded(dependent, None);
            mark_held_dependent(&mut row, dependent, &cascaded, self.snapshot);
            self.rows.push(row);
        }
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
        self.mark_interrupted_recreations();
        self.add_cascade();
        self.block_refused_owners();
        self.plan.add_changes(self.rows);
        self.plan.add_diffs(self.diffs);
        self.plan
    }
}

fn held_by(finalizer: &str) -> String {
    format!("is deleted, and the controller waits without a limit until its finalizer {finalizer} is removed")
}

/// Returns true if the apply of an owner fails in a plan.
fn fails(plan: &Plan, owner: &OwnerId) -> bool {
    plan.owners().iter().any(|row| row.owner == *owner && row.reason.code == ReasonCode::ApplyRefused)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::flux::build::objects::BuiltObject;
    use crate::flux::spec::KustomizationSpec;
    use crate::kubernetes::snapshot::ClusterIdentity;
    use crate::plan::{Outcome, OwnerOutcome};
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
        AppliedObject { owner, spec: KustomizationSpec::new(&json!({})), id, built }
    }

    fn update() -> DryRunResult {
        DryRunResult::Updated(Update { reason: ReasonCode::Changed.into(), diff: "-a\n+b\n".to_owned() })
    }

    fn text(message: &str) -> String {
        message.to_owned()
    }

    fn dry_runs(results: &[(AppliedObject, DryRunResult)]) -> DryRuns<'_> {
        let mut dry_runs = DryRuns::default();
        results.iter().for_each(|(applied, result)| dry_runs.add_applied(applied, result));
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
        assert_eq!(found, ["unknown a Certain: refused: denied", "unknown b Certain: refused: webhook"]);
        assert_eq!(plan.owners()[0].outcome, Outcome::Blocked);
        assert!(plan.owners()[0].reason.detail.contains("denied and 1 more"), "{}", plan.owners()[0].reason.detail);
    }

    #[test]
    fn a_forced_recreation_deletes_dependents_and_is_a_race_with_a_refusal() {
        let recreated = || (applied("a"), DryRunResult::Recreated(text("immutable")));
        let (found, _) = rows(&[recreated()], &[]);
        assert_eq!(found, ["recreate a Certain: forced: immutable", "delete dependent Certain: dependent"]);
        let (found, _) = rows(&[recreated(), (applied("b"), DryRunResult::Refused(text("denied")))], &[]);
        assert!(found[0].starts_with("delete a Race: forced: immutable; race: "), "{found:?}");
        let held = vec![(applied("a"), DryRunResult::HeldByFinalizer(text("example.com/hold")))];
        let refusals = dry_runs(&held).refusals;
        assert!(refusals[0].message.contains("example.com/hold"));
        let (found, plan) = rows(&held, &[]);
        assert!(found[0].starts_with("delete a Certain: forced: it is deleted, and the controller waits"), "{found:?}");
        assert_eq!(plan.owners()[0].outcome, Outcome::Blocked);
        let (found, plan) = rows(&[(applied("a"), DryRunResult::DeletedOnly(text("denied")))], &[]);
        assert!(found[0].starts_with("delete a Certain: forced: it is deleted and not recreated"), "{found:?}");
        assert_eq!(plan.owners()[0].outcome, Outcome::Blocked);
    }
}
