//! Results of server-side dry-runs in a plan: changed objects with their diffs, refusals, and the Kustomizations that a
//! refusal blocks.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::model::owner_names::owner_id;
use super::model::refusals::{DeletionRefusal, Refusal};
use super::rows::cascade_rows::mark_held_dependent;
use super::rows::object_rows::kustomization_row;
use crate::flux::apply::AppliedObject;
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::update::Update;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::deletion::cascade::{Cascade, CascadedObject};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::OwnerId;
use crate::plan::{Action, Certainty, Change, Diff, PinnedObject, Plan, Reason, ReasonCode};
use crate::text::join_limited;

/// Answers of the server to the dry-runs of one preview.
#[derive(Debug, Default)]
pub struct DryRuns {
    /// Objects that the Kustomizations apply.
    pub applied: Vec<(AppliedObject, DryRunResult)>,
    /// Deletions that the server refuses.
    pub refused_deletions: Vec<DeletionRefusal>,
    /// Deletions for which the server failed, with its message. A later try may succeed.
    pub failed_deletions: Vec<DeletionRefusal>,
    /// Differences of updated objects are wanted.
    pub with_diffs: bool,
}

impl DryRuns {
    /// Returns the refusals that stop a Kustomization. A failed server is none: a later try may succeed.
    pub fn refusals(&self) -> Vec<Refusal> {
        let mut refusals = vec![];
        for (AppliedObject { owner, id, built, .. }, result) in &self.applied {
            let message = match result {
                DryRunResult::Refused(message) | DryRunResult::DeletedOnly(message) => {
                    format!("the server refuses {}: {message}", built.shown_id())
                }
                DryRunResult::HeldByFinalizer(finalizer) => {
                    format!("{} {}", built.shown_id(), held_by(finalizer))
                }
                _ => continue,
            };
            let (owner, id, manifest) = (owner.clone(), id.clone(), built.manifest.clone());
            refusals.push(Refusal { owner, id, manifest, message });
        }
        refusals
    }

    /// Adds the results to a plan. An update of an object that is not in `applied`, the objects that Kustomizations
    /// apply in this plan, is left out.
    pub fn add_to(self, plan: Plan, snapshot: &Snapshot, applied: &[AppliedObject]) -> Plan {
        let applied: HashSet<(&NamespacedName, &ObjectId)> =
            applied.iter().map(|applied| (&applied.owner, &applied.id)).collect();
        let mut rows = Rows::new(plan, snapshot);
        rows.with_diffs = self.with_diffs;
        for (object, result) in self.applied {
            if !matches!(result, DryRunResult::Updated(_)) || applied.contains(&(&object.owner, &object.id)) {
                rows.add_result(&object, result);
            }
        }
        for failed in self.failed_deletions {
            rows.mark_deletion_failed(&failed);
        }
        rows.into_plan()
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

    fn add_result(&mut self, applied: &AppliedObject, result: DryRunResult) {
        let id = &applied.id;
        match result {
            DryRunResult::Unchanged | DryRunResult::Created => {}
            DryRunResult::NotValidated(reason) => self.mark_creation_unvalidated(id, &reason),
            DryRunResult::Updated(Update { reason, diff }) => {
                // The plan has a row of an object that is deleted, recreated or moved to another owner.
                if (self.add_row(applied, Action::Update, reason) || self.is_not_followed(id)) && self.with_diffs {
                    self.diffs.push(Diff { object: id.clone(), text: diff });
                }
            }
            DryRunResult::Recreated(message) => {
                self.add_row(applied, Action::Recreate, Reason::new(ReasonCode::Forced, message));
            }
            DryRunResult::DeletedOnly(message) => {
                self.add_refusal(applied, &message);
                let detail = format!("it is deleted and not recreated, because the server refuses it: {message}");
                self.add_row(applied, Action::Delete, Reason::new(ReasonCode::Forced, detail));
            }
            DryRunResult::HeldByFinalizer(finalizer) => {
                let detail = held_by(&finalizer);
                self.add_refusal(applied, &detail);
                self.add_row(applied, Action::Delete, Reason::new(ReasonCode::Forced, format!("it {detail}")));
            }
            DryRunResult::Refused(message) | DryRunResult::ServerFailed(message) => {
                self.add_refusal(applied, &message);
                self.plan.retain_changes(|change| change.action != Action::Create || change.object.id != *id);
                self.add_row(applied, Action::Unknown, Reason::new(ReasonCode::Refused, message));
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

    /// Returns `ACTION NAME CERTAINTY: REASON` for each row, and the plan.
    fn rows(results: Vec<(AppliedObject, DryRunResult)>, kept: &[AppliedObject]) -> (Vec<String>, Plan) {
        let live = ["a", "b"].map(|name| object("", "ConfigMap", "shop", name));
        let dependent = object("apps", "ReplicaSet", "shop", "dependent").referring_to(&live[0].uid);
        let snapshot = snapshot(live.into_iter().chain([dependent]).collect(), vec![]);
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_owners([OwnerOutcome::new(owner_id(&applied("a").owner), Outcome::Applies, ReasonCode::NewRevision)]);
        let plan = DryRuns { applied: results, with_diffs: true, ..DryRuns::default() }.add_to(plan, &snapshot, kept);
        let row = |change: &Change| {
            format!("{} {} {:?}: {}", change.action, change.object.id.name, change.certainty, change.reason)
        };
        (plan.changes().iter().map(row).collect(), plan)
    }

    #[test]
    fn an_update_has_a_row_and_a_diff_while_its_kustomization_applies_it() {
        let (found, plan) = rows(vec![(applied("a"), update()), (applied("b"), update())], &[applied("a")]);
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
        let refusals = DryRuns { applied: results.clone(), ..DryRuns::default() }.refusals();
        assert_eq!(refusals.len(), 1, "a server that failed may accept later");
        assert!(refusals[0].message.ends_with("a -n shop: denied"), "{refusals:?}");
        let (found, plan) = rows(results, &[]);
        assert_eq!(found, ["unknown a Certain: refused: denied", "unknown b Certain: refused: webhook"]);
        assert_eq!(plan.owners()[0].outcome, Outcome::Blocked);
        assert!(plan.owners()[0].reason.detail.contains("denied and 1 more"), "{}", plan.owners()[0].reason.detail);
    }

    #[test]
    fn a_forced_recreation_deletes_dependents_and_is_a_race_with_a_refusal() {
        let recreated = || (applied("a"), DryRunResult::Recreated(text("immutable")));
        let (found, _) = rows(vec![recreated()], &[]);
        assert_eq!(found, ["recreate a Certain: forced: immutable", "delete dependent Certain: dependent"]);
        let (found, _) = rows(vec![recreated(), (applied("b"), DryRunResult::Refused(text("denied")))], &[]);
        assert!(found[0].starts_with("delete a Race: forced: immutable; race: "), "{found:?}");
        let held = vec![(applied("a"), DryRunResult::HeldByFinalizer(text("example.com/hold")))];
        let refusals = DryRuns { applied: held.clone(), ..DryRuns::default() }.refusals();
        assert!(refusals[0].message.contains("example.com/hold"));
        let (found, plan) = rows(held, &[]);
        assert!(found[0].starts_with("delete a Certain: forced: it is deleted, and the controller waits"), "{found:?}");
        assert_eq!(plan.owners()[0].outcome, Outcome::Blocked);
        let (found, plan) = rows(vec![(applied("a"), DryRunResult::DeletedOnly(text("denied")))], &[]);
        assert!(found[0].starts_with("delete a Certain: forced: it is deleted and not recreated"), "{found:?}");
        assert_eq!(plan.owners()[0].outcome, Outcome::Blocked);
    }
}
