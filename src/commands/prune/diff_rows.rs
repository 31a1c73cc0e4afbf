//! What the answers to dry-runs add to a plan: rows, diffs, owners that fail, and what could not be asked.

use std::collections::{BTreeMap, BTreeSet};

use super::diff::DryRunResult;
use crate::cluster::{Failure, FailureKind};
use gitops_core::error::Error;
use gitops_core::flux::apply::{Application, Update};
use gitops_core::kubernetes::deletion::cascade::Cascade;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, ResourceType};
use gitops_core::kubernetes::snapshot::{Gap, Snapshot};
use gitops_core::ownership::OwnerId;
use gitops_core::plan::{Action, Actor, Certainty, Change, Diff, PinnedObject, Plan, Reason, ReasonCode};

/// Rows, diffs and gaps on their way into a plan.
pub(crate) struct DiffRows<'a> {
    plan: Plan,
    snapshot: &'a Snapshot,
    rows: Vec<Change>,
    diffs: Vec<Diff>,
    /// What could not be asked, by resource; the first failure speaks for all of them.
    unknown: BTreeMap<String, Failure>,
    refusals: BTreeMap<OwnerId, Vec<String>>,
}

impl<'a> DiffRows<'a> {
    /// Nothing was added yet.
    pub(crate) fn new(plan: Plan, snapshot: &'a Snapshot) -> Self {
        let (unknown, refusals) = (BTreeMap::new(), BTreeMap::new());
        Self { plan, snapshot, rows: vec![], diffs: vec![], unknown, refusals }
    }

    /// Takes the answer to one application.
    pub(crate) fn take(&mut self, application: &Application, answer: DryRunResult) {
        let id = &application.id;
        match answer {
            DryRunResult::Same => {}
            DryRunResult::Creates => self.note_creation(id, None),
            DryRunResult::Unvalidated(why) => self.note_creation(id, Some(why)),
            DryRunResult::Changes(Update { reason, diff }) => {
                // What goes, is handed over or comes back has its row.
                if self.add(application, Action::Update, reason) {
                    self.diffs.push(Diff { object: id.clone(), text: diff });
                }
            }
            DryRunResult::Recreates(why) => {
                self.add(application, Action::Recreate, Reason::new(ReasonCode::Forced, why));
            }
            DryRunResult::Loses(why) => {
                self.refuse(application, &why);
                let detail = format!("it is deleted and not created again, because the server refuses it: {why}");
                self.add(application, Action::Delete, Reason::new(ReasonCode::Forced, detail));
            }
            DryRunResult::Refuses(why) | DryRunResult::Falters(why) => {
                self.refuse(application, &why);
                self.plan.retain_changes(|change| change.action != Action::Create || change.object.id != *id);
                self.add(application, Action::Unknown, Reason::new(ReasonCode::Refused, why));
            }
            DryRunResult::Unknown(failure) => {
                let resource = self.snapshot.resource_type(&id.group_kind()).map(ResourceType::resource);
                self.unknown.entry(resource.unwrap_or_else(|| id.group_kind().to_string())).or_insert(failure);
            }
        }
    }

    fn refuse(&mut self, application: &Application, why: &str) {
        let refused = format!("{}: {why}", application.id);
        self.refusals.entry(owner_id(application)).or_default().push(refused);
    }

    fn note_creation(&mut self, id: &ObjectId, unvalidated: Option<String>) {
        let Some(why) = unvalidated else { return };
        self.plan.update_changes(|change| {
            if change.action == Action::Create && change.object.id == *id {
                change.reason.add_detail(&format!("not validated: {why}"));
            }
        });
    }

    /// Adds a row, unless the plan has one of the object; whether it was added.
    fn add(&mut self, application: &Application, action: Action, reason: Reason) -> bool {
        let id = &application.id;
        if self.plan.changes().iter().any(|change| change.object.id == *id) {
            return false;
        }
        let object = self.snapshot.object(id).map_or_else(|| PinnedObject::absent(id.clone()), PinnedObject::from);
        let owner = Some(owner_id(application));
        self.rows.push(Change::new(action, object, owner, Actor::KustomizeController, reason));
        true
    }

    /// What goes along with what is deleted by force.
    fn forced_along(&self) -> Vec<Change> {
        let forced = self.rows.iter().filter(|row| matches!(row.action, Action::Delete | Action::Recreate));
        let roots: Vec<&ObjectMetadata> = forced.filter_map(|row| self.snapshot.object(&row.object.id)).collect();
        if roots.is_empty() {
            return vec![];
        }
        let known: BTreeSet<&ObjectId> =
            self.plan.changes().iter().chain(&self.rows).map(|change| &change.object.id).collect();
        let taken = Cascade::new(self.snapshot).closure(roots).into_iter();
        taken.filter(|taken| !known.contains(&taken.object.id)).map(|taken| Change::cascaded(&taken, None)).collect()
    }

    /// What is deleted by force comes back with the application of everything, which a refusal of anything stops.
    fn stop_returns(&mut self) {
        let refusals = &self.refusals;
        for row in &mut self.rows {
            let refused = row.owner.as_ref().and_then(|owner| refusals.get(owner)).map_or(0, Vec::len);
            let own = usize::from(row.action == Action::Delete);
            if matches!(row.action, Action::Recreate | Action::Delete) && refused > own {
                (row.action, row.certainty) = (Action::Delete, Certainty::Race);
                row.reason.add_detail(
                    "race: it may be deleted before the refusal stops its Kustomization, and is then not created again",
                );
            }
        }
    }

    /// The plan with everything, and what to do about missing rights.
    pub(crate) fn finish(mut self) -> (Plan, Option<String>) {
        self.stop_returns();
        let along = self.forced_along();
        self.rows.extend(along);
        for (owner, refused) in &self.refusals {
            let first = refused.iter().min().map(String::as_str).unwrap_or_default();
            let more = if refused.len() > 1 { format!(" (and {} more)", refused.len() - 1) } else { String::new() };
            let detail = format!(
                "the server refuses {first}{more}; until that is resolved nothing more is applied and nothing is deleted"
            );
            self.plan.block_owner(owner, &Reason::new(ReasonCode::ApplyRefused, detail));
        }
        let denied = self.unknown.values().find(|failure| failure.kind == FailureKind::Denied).cloned();
        let hint = denied.and_then(|failure| Error::from(failure).hint);
        let hint = hint.map(|hint| format!("--diff needs the right to patch, if only for dry-runs; {hint}"));
        let gaps: Vec<Gap> = self.unknown.iter().map(|(resource, failure)| gap(resource, failure)).collect();
        self.plan.add_changes(self.rows);
        self.plan.add_diffs(self.diffs);
        self.plan.add_gaps(gaps);
        (self.plan.rehearsed(), hint)
    }
}

fn gap(resource: &str, failure: &Failure) -> Gap {
    let gap = failure.gap(format!("what changes in {resource}"), None);
    // Deletions are known all the same.
    Gap { message: format!("{}; deletions are complete", gap.message), ..gap }
}

fn owner_id(application: &Application) -> OwnerId {
    OwnerId {
        system: "flux".to_owned(),
        kind: "Kustomization".to_owned(),
        namespace: application.owner.namespace.clone(),
        name: application.owner.name.clone(),
    }
}
