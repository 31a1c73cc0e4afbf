//! `--diff`: what else changes. Every object that a tree applies is sent to the server as a dry-run, the way the
//! controller does; whatever the server says, the list of deletions stays whole.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cluster::{Cluster, Failure, FailureKind};
use crate::error::Error;
use crate::flux::apply::{Application, Update, drop_unknown, to_send, update};
use crate::object::{Object, ObjectId, ResourceType};
use crate::ownership::OwnerId;
use crate::prune::cascade::Cascade;
use crate::prune::plan::{Action, Actor, Certainty, Change, Diff, Outcome, Plan, Target};
use crate::snapshot::{Gap, Snapshot};

/// How many unknown fields of a manifest are dropped one answer after the other.
const TRIES: usize = 4;

/// What the server says of one application.
enum Answer {
    /// It takes it; the object is as before.
    Same,
    /// It creates it.
    Creates,
    /// It changes it.
    Changes(Update),
    /// It refuses, and why.
    Refuses(String),
    /// It refuses, and the controller deletes the object and creates it again.
    Recreates(String),
    /// It refuses what would be created as well: the controller deletes the object and it does not come back.
    Loses(String),
    /// It cannot be asked before the merge, and why.
    Unvalidated(String),
    /// It did not answer the question.
    Unknown(Failure),
}

/// Adds to a plan what the server says of every application; the second value is what to do about missing rights.
pub(super) async fn extend(
    cluster: &Cluster,
    snapshot: &Snapshot,
    applications: Vec<Application>,
    plan: Plan,
) -> (Plan, Option<String>) {
    let judge = &Judge { cluster, snapshot };
    let mut asked = BTreeSet::new();
    let applications: Vec<Application> =
        applications.into_iter().filter(|application| asked.insert(application.id.clone())).collect();
    let mut answers: FuturesUnordered<_> =
        applications.iter().map(|application| async move { (application, judge.ask(application).await) }).collect();
    let mut addition = Addition::new(plan, snapshot);
    while let Some((application, answer)) = answers.next().await {
        addition.take(application, answer);
    }
    addition.finish()
}

struct Judge<'a> {
    cluster: &'a Cluster,
    snapshot: &'a Snapshot,
}

impl Judge<'_> {
    async fn ask(&self, application: &Application) -> Answer {
        let Application { id, built, .. } = application;
        let seen = self.snapshot.object(id);
        if application.is_skipped(seen) {
            return Answer::Same;
        }
        if built.is_encrypted() {
            return Answer::Unvalidated("it is encrypted".to_owned());
        }
        let Some(kind) = self.snapshot.resource_type(&id.group_kind()) else {
            return Answer::Unvalidated("its kind is new".to_owned());
        };
        let home = ObjectId::new("", "Namespace", "", &id.namespace);
        let listed = self.snapshot.objects.iter().any(|object| object.id.is("", "Namespace"));
        if listed && !id.namespace.is_empty() && self.snapshot.object(&home).is_none() {
            return Answer::Unvalidated("its namespace is new".to_owned());
        }
        // The manifest's version is the one that is sent, and the one to compare in.
        let kind = ResourceType { version: built.version.as_str().into(), ..kind.clone() };
        let live = match self.cluster.fetch_whole(&kind, id).await {
            Ok(live) => live,
            Err(failure) => return Answer::Unknown(failure),
        };
        let mut manifest = to_send(application);
        match (self.apply(&kind, id, &mut manifest).await, live) {
            (Ok(applied), Some(live)) => {
                update(application, seen, &live, &applied).map_or(Answer::Same, Answer::Changes)
            }
            (Ok(_), None) => Answer::Creates,
            (Err(failure), _) if !is_refusal(&failure) => Answer::Unknown(failure),
            (Err(failure), Some(_)) if application.forces(seen) && is_immutable(&failure) => {
                self.after_force(&kind, id, manifest, &failure).await
            }
            (Err(failure), _) => Answer::Refuses(failure.message),
        }
    }

    /// Applies, without the fields that a built-in kind does not know.
    async fn apply(&self, kind: &ResourceType, id: &ObjectId, manifest: &mut Value) -> Result<Value, Failure> {
        let definition = format!("{}.{}", kind.plural, kind.group);
        let definition = ObjectId::new("apiextensions.k8s.io", "CustomResourceDefinition", "", &definition);
        let is_built_in = self.snapshot.object(&definition).is_none();
        let mut tries = 0;
        loop {
            match self.cluster.apply_dry_run(kind, id, manifest).await {
                Err(failure) if is_built_in && tries < TRIES && drop_unknown(manifest, &failure.message) => tries += 1,
                answer => return answer,
            }
        }
    }

    /// Whether the manifest can be created once the object is gone: asked under a name that nobody has.
    async fn after_force(&self, kind: &ResourceType, id: &ObjectId, mut manifest: Value, refusal: &Failure) -> Answer {
        let digest = Sha256::digest(id.to_string());
        let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let other = ObjectId { name: format!("dry-run-{name}").into(), ..id.clone() };
        manifest["metadata"]["name"] = json!(&*other.name);
        let said = &refusal.message;
        match self.cluster.apply_dry_run(kind, &other, &manifest).await {
            Ok(_) => Answer::Recreates(said.clone()),
            Err(failure) if is_refusal(&failure) => Answer::Loses(failure.message),
            Err(failure) => Answer::Unknown(failure),
        }
    }
}

/// Whether the server judged the manifest; everything else, missing rights included, is no judgement.
fn is_refusal(failure: &Failure) -> bool {
    let denied = failure.kind == FailureKind::Denied && failure.message.contains(" cannot patch resource ");
    let judged = matches!(
        failure.kind,
        FailureKind::Denied
            | FailureKind::Invalid
            | FailureKind::Conflict
            | FailureKind::Missing
            | FailureKind::AlreadyExists
    );
    let broken = failure.code == Some(500) && failure.kind == FailureKind::Other;
    !denied && (judged || broken)
}

/// What the controller takes for an immutable field: any conflict, any invalid object, and two phrases.
fn is_immutable(failure: &Failure) -> bool {
    matches!(failure.code, Some(409 | 422))
        || ["is immutable", "immutable field"].iter().any(|phrase| failure.message.contains(phrase))
}

/// Rows, diffs and gaps on their way into a plan.
struct Addition<'a> {
    plan: Plan,
    snapshot: &'a Snapshot,
    rows: Vec<Change>,
    diffs: Vec<Diff>,
    /// What could not be asked, by resource; the first failure speaks for all of them.
    unknown: BTreeMap<String, Failure>,
    refusals: BTreeMap<OwnerId, Vec<String>>,
}

impl<'a> Addition<'a> {
    fn new(plan: Plan, snapshot: &'a Snapshot) -> Self {
        let (unknown, refusals) = (BTreeMap::new(), BTreeMap::new());
        Self { plan, snapshot, rows: vec![], diffs: vec![], unknown, refusals }
    }

    fn take(&mut self, application: &Application, answer: Answer) {
        let id = &application.id;
        match answer {
            Answer::Same => {}
            Answer::Creates => self.note_creation(id, None),
            Answer::Unvalidated(why) => self.note_creation(id, Some(why)),
            Answer::Changes(Update { reason, diff }) => {
                // What goes, is handed over or comes back has its row.
                if self.add(application, Action::Update, reason) {
                    self.diffs.push(Diff { object: id.clone(), text: diff });
                }
            }
            Answer::Recreates(why) => drop(self.add(application, Action::Recreate, format!("forced: {why}"))),
            Answer::Loses(why) => {
                self.refuse(application, &why);
                let reason = format!("forced: it is deleted and does not come back, as the server refuses it: {why}");
                self.add(application, Action::Delete, reason);
            }
            Answer::Refuses(why) => {
                self.refuse(application, &why);
                self.plan.changes.retain(|change| change.action != Action::Create || change.object.id != *id);
                self.add(application, Action::Unknown, format!("refused: {why}"));
            }
            Answer::Unknown(failure) => {
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
        let absent = || Target { id: id.clone(), uid: String::new(), resource_version: String::new() };
        let object = self.snapshot.object(id).map_or_else(absent, Target::from);
        let (certainty, by) = (Certainty::Certain, Actor::KustomizeController);
        let owner = Some(owner_id(application));
        self.rows.push(Change { action, certainty, object, owner, by, reason, cause: None });
        true
    }

    /// What goes along with what is deleted by force.
    fn forced_along(&self) -> Vec<Change> {
        let forced = self.rows.iter().filter(|row| matches!(row.action, Action::Delete | Action::Recreate));
        let roots: Vec<&Object> = forced.filter_map(|row| self.snapshot.object(&row.object.id)).collect();
        if roots.is_empty() {
            return vec![];
        }
        let known: BTreeSet<&ObjectId> =
            self.plan.changes.iter().chain(&self.rows).map(|change| &change.object.id).collect();
        let taken = Cascade::new(self.snapshot).closure(roots).into_iter();
        let row = |taken: crate::prune::cascade::Taken<'_>| Change {
            action: Action::Delete,
            certainty: Certainty::Certain,
            object: Target::from(taken.object),
            owner: None,
            by: taken.by,
            reason: "forced: goes along".to_owned(),
            cause: Some(taken.cause),
        };
        taken.filter(|taken| !known.contains(&taken.object.id)).map(row).collect()
    }

    /// What is deleted by force comes back with the application of everything, which a refusal of anything stops.
    fn stop_returns(&mut self) {
        let refusals = &self.refusals;
        let stopped = |row: &&mut Change| row.owner.as_ref().is_some_and(|owner| refusals.contains_key(owner));
        for row in self.rows.iter_mut().filter(|row| row.action == Action::Recreate).filter(stopped) {
            (row.action, row.certainty) = (Action::Delete, Certainty::Race);
            row.reason += "; race: it may be deleted before the refusal stops its Kustomization, and then stays away";
        }
    }

    fn finish(mut self) -> (Plan, Option<String>) {
        self.stop_returns();
        let along = self.forced_along();
        self.rows.extend(along);
        for (owner, refused) in &self.refusals {
            let first = refused.iter().min().map(String::as_str).unwrap_or_default();
            let more = if refused.len() > 1 { format!(" (and {} more)", refused.len() - 1) } else { String::new() };
            let reason = format!(
                "the server refuses {first}{more}; until that is mended nothing more is applied and nothing is deleted"
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
