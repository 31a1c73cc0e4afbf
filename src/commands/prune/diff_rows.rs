//! What the answers to dry-runs add to a plan: rows, diffs, owners that fail, and what could not be asked.

use gitops_core::text::join_limited;
use std::collections::{BTreeMap, BTreeSet};

use super::diff::DryRunResult;
use crate::cluster::{Failure, FailureKind};
use crate::error::Error;
use gitops_core::flux::apply::{Application, Update};
use gitops_core::kubernetes::deletion::cascade::{Cascade, CascadedObject};
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::OwnerId;
use gitops_core::plan::document::{Action, Actor, Certainty, Change, Diff, Outcome, PinnedObject, Plan};

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
            DryRunResult::Recreates(why) => drop(self.add(application, Action::Recreate, format!("forced: {why}"))),
            DryRunResult::Loses(why) => {
                self.refuse(application, &why);
                let reason = format!("forced: it is deleted and does not come back, as the server refuses it: {why}");
                self.add(application, Action::Delete, reason);
            }
            DryRunResult::Refuses(why) | DryRunResult::Falters(why) => {
                self.refuse(application, &why);
                self.plan.changes.retain(|change| change.action != Action::Create || change.object.id != *id);
                self.add(application, Action::Unknown, format!("refused: {why}"));
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
        let is_it = |change: &&mut Change| change.action == Action::Create && change.object.id == *id;
        if let Some(row) = self.plan.changes.iter_mut().find(is_it) {
            row.reason = format!("{}; unvalidated: {why}", row.reason);
        }
    }

    /// Adds a row, unless the plan has one of the object; whether it was added.
    fn add(&mut self, application: &Application, action: Action, reason: String) -> bool {
        let id = &application.id;
        if self.plan.changes.iter().any(|change| change.object.id == *id) {
            return false;
        }
        let absent = || PinnedObject { id: id.clone(), uid: String::new(), resource_version: String::new() };
        let object = self.snapshot.object(id).map_or_else(absent, PinnedObject::from);
        let (certainty, by) = (Certainty::Certain, Actor::KustomizeController);
        let owner = Some(owner_id(application));
        self.rows.push(Change { action, certainty, object, owner, by, reason, cause: None });
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
            self.plan.changes.iter().chain(&self.rows).map(|change| &change.object.id).collect();
        let taken = Cascade::new(self.snapshot).closure(roots).into_iter();
        let row = |taken: CascadedObject<'_>| Change {
            action: Action::Delete,
            certainty: if taken.is_sure { Certainty::Certain } else { Certainty::Race },
            object: PinnedObject::from(taken.object),
            owner: None,
            by: taken.by,
            reason: match taken.by {
                Actor::PersistentVolumeController => taken.reason.to_owned(),
                _ => "forced: goes along".to_owned(),
            },
            cause: Some(taken.cause),
        };
        taken.filter(|taken| !known.contains(&taken.object.id)).map(row).collect()
    }

    /// What is deleted by force comes back with the application of everything, which a refusal of anything stops.
    fn stop_returns(&mut self) {
        let refusals = &self.refusals;
        for row in &mut self.rows {
            let refused = row.owner.as_ref().and_then(|owner| refusals.get(owner)).map_or(0, Vec::len);
            let own = usize::from(row.action == Action::Delete);
            if matches!(row.action, Action::Recreate | Action::Delete) && refused > own {
                (row.action, row.certainty) = (Action::Delete, Certainty::Race);
                row.reason +=
                    "; race: it may be deleted before the refusal stops its Kustomization, and then stays away";
            }
        }
    }

    /// The plan with everything, and what to do about missing rights.
    pub(crate) fn finish(mut self) -> (Plan, Option<String>) {
        self.stop_returns();
        let along = self.forced_along();
        self.rows.extend(along);
        for (owner, refused) in &self.refusals {
            let refused = join_limited(refused.iter().collect::<BTreeSet<_>>(), 1);
            let reason = format!(
                "the server refuses {refused}; until that is mended nothing more is applied and nothing is deleted"
            );
            for row in self.plan.owners.iter_mut().filter(|row| row.owner == *owner) {
                (row.outcome, row.reason) = (Outcome::Blocked, reason.clone());
            }
        }
        let denied = self.unknown.values().find(|failure| failure.kind == FailureKind::Denied).cloned();
        let hint = denied.and_then(|failure| Error::from(failure).hint);
        let hint = hint.map(|hint| format!("--diff needs the right to patch, if only for dry-runs; {hint}"));
        let gaps: Vec<Gap> = self.unknown.iter().map(|(resource, failure)| gap(resource, failure)).collect();
        (self.plan.with_updates(self.rows, self.diffs).with_gaps(gaps), hint)
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
