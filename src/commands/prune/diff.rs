//! `--diff`: what else changes. Every object that a tree applies is sent to the server as a dry-run, the way the
//! controller does. What it refuses stops the Kustomization that applies it: what that would delete is held back, and
//! still told.

use std::collections::{BTreeSet, HashSet};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::diff_rows::DiffRows;
use crate::cluster::{Cluster, Failure, FailureKind};
use gitops_core::flux::apply::{Application, Update, drop_unknown, to_send, update};
use gitops_core::flux::simulation::Refusal;
use gitops_core::flux::spec::NamespacedName;
use gitops_core::kubernetes::object::{ObjectId, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::plan::document::Plan;

/// How many unknown fields of a manifest are dropped one answer after the other.
const TRIES: usize = 4;

/// How many objects one message names.
const NAMED: usize = 5;

/// What the server says of one application.
pub(crate) enum DryRunResult {
    /// It takes it; the object is as before.
    Same,
    /// It creates it.
    Creates,
    /// It changes it.
    Changes(Update),
    /// It refuses, and why.
    Refuses(String),
    /// What it has to ask did not answer, so that it refuses today and perhaps not tomorrow.
    Falters(String),
    /// It refuses, and the controller deletes the object and creates it again.
    Recreates(String),
    /// It refuses what would be created as well: the controller deletes the object and it does not come back.
    Loses(String),
    /// It cannot be asked before the merge, and why.
    Unvalidated(String),
    /// It did not answer the question.
    Unknown(Failure),
}

/// What the server says of every application.
pub(crate) struct DryRuns(Vec<(Application, DryRunResult)>);

/// Asks the server; of an object that two Kustomizations apply, one is asked for.
pub(crate) async fn ask(cluster: &Cluster, snapshot: &Snapshot, applications: Vec<Application>) -> DryRuns {
    let judge = &DryRunJudge { cluster, snapshot };
    let mut asked = BTreeSet::new();
    let applications = applications.into_iter().filter(|application| asked.insert(application.id.clone()));
    let answers: FuturesUnordered<_> = applications
        .map(|application| async move {
            let answer = judge.ask(&application).await;
            (application, answer)
        })
        .collect();
    DryRuns(answers.collect().await)
}

impl DryRuns {
    /// What stops a Kustomization.
    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        let refusal = |(application, answer): &(Application, DryRunResult)| {
            let (DryRunResult::Refuses(why) | DryRunResult::Loses(why)) = answer else { return None };
            let Application { owner, id, built, .. } = application;
            let why = format!("the server refuses {id}: {why}");
            Some(Refusal { owner: owner.clone(), id: id.clone(), manifest: built.manifest.clone(), why })
        };
        self.0.iter().filter_map(refusal).collect()
    }

    /// Adds to a plan what was said; `applied` is what Kustomizations still apply. The second value is what to do about
    /// missing rights.
    pub(crate) fn extend(self, plan: Plan, snapshot: &Snapshot, applied: &[Application]) -> (Plan, Option<String>) {
        let applied: HashSet<(&NamespacedName, &ObjectId)> =
            applied.iter().map(|application| (&application.owner, &application.id)).collect();
        let mut addition = DiffRows::new(plan, snapshot);
        for (application, answer) in self.0 {
            if !matches!(answer, DryRunResult::Changes(_)) || applied.contains(&(&application.owner, &application.id)) {
                addition.take(&application, answer);
            }
        }
        addition.finish()
    }
}

/// What is left out, as the keys to it are not here.
pub(crate) fn uncompared(applications: &[Application]) -> Option<String> {
    let veiled: BTreeSet<String> =
        applications.iter().filter(|application| application.built.undecrypted.is_some()).map(|a| a.id.to_string()).collect();
    let more = if veiled.len() > NAMED { format!(" and {} more", veiled.len() - NAMED) } else { String::new() };
    let names: Vec<String> = veiled.iter().take(NAMED).cloned().collect();
    let what = "encrypted, or name what has a hash of encrypted content";
    (!veiled.is_empty()).then(|| format!("not compared, as they are {what}: {}{more}", names.join(", ")))
}

struct DryRunJudge<'a> {
    cluster: &'a Cluster,
    snapshot: &'a Snapshot,
}

impl DryRunJudge<'_> {
    async fn ask(&self, application: &Application) -> DryRunResult {
        let Application { id, built, .. } = application;
        let seen = self.snapshot.object(id);
        if application.is_skipped(seen) {
            return DryRunResult::Same;
        }
        if let Some(undecrypted) = &built.undecrypted {
            return DryRunResult::Unvalidated(undecrypted.reason().to_owned());
        }
        let Some(kind) = self.snapshot.resource_type(&id.group_kind()) else {
            return DryRunResult::Unvalidated("its kind is new".to_owned());
        };
        let home = ObjectId::new("", "Namespace", "", &id.namespace);
        let listed = self.snapshot.objects.iter().any(|object| object.id.is("", "Namespace"));
        if listed && !id.namespace.is_empty() && self.snapshot.object(&home).is_none() {
            return DryRunResult::Unvalidated("its namespace is new".to_owned());
        }
        // The manifest's version is the one that is sent, and the one to compare in.
        let kind = ResourceType { version: built.version.as_str().into(), ..kind.clone() };
        let live = match self.cluster.fetch_whole(&kind, id).await {
            Ok(live) => live,
            Err(failure) => return DryRunResult::Unknown(failure),
        };
        let mut manifest = to_send(application);
        match (self.apply(&kind, id, &mut manifest).await, live) {
            (Ok(applied), Some(live)) => {
                update(application, seen, &live, &applied).map_or(DryRunResult::Same, DryRunResult::Changes)
            }
            (Ok(_), None) => DryRunResult::Creates,
            (Err(failure), _) if !is_refusal(&failure) => DryRunResult::Unknown(failure),
            (Err(failure), Some(_)) if application.forces(seen) && is_immutable(&failure) => {
                self.after_force(&kind, id, manifest, &failure).await
            }
            (Err(failure), _) if failure.code == Some(500) => DryRunResult::Falters(failure.message),
            (Err(failure), _) => DryRunResult::Refuses(failure.message),
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
    async fn after_force(
        &self,
        kind: &ResourceType,
        id: &ObjectId,
        mut manifest: Value,
        refusal: &Failure,
    ) -> DryRunResult {
        let digest = Sha256::digest(id.to_string());
        let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let other = ObjectId { name: format!("dry-run-{name}").into(), ..id.clone() };
        manifest["metadata"]["name"] = json!(&*other.name);
        let said = &refusal.message;
        match self.cluster.apply_dry_run(kind, &other, &manifest).await {
            Ok(_) => DryRunResult::Recreates(said.clone()),
            Err(failure) if is_refusal(&failure) => DryRunResult::Loses(failure.message),
            Err(failure) => DryRunResult::Unknown(failure),
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
