//! `--diff`: sends every object that the Kustomizations apply to the server as a dry-run, as kustomize-controller would.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::Value;

use crate::cluster::{Cluster, Failure, FailureKind};
use crate::error::Error;
use gitops_core::flux::apply::AppliedObject;
use gitops_core::flux::apply::dry_run::{
    ApplyError, DryRunResult, HIDDEN_MESSAGE, UnknownFieldRetries, rename_for_creation,
};
use gitops_core::flux::apply::manifest::manifest_to_apply;
use gitops_core::flux::simulation::dry_run::DryRuns;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::{ObjectId, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::text::join_limited;

/// Number of objects that one message names.
const NAMED_OBJECTS: usize = 5;

/// Answers of the server to all dry-runs.
#[derive(Default)]
pub(crate) struct DryRunAnswers {
    pub(crate) dry_runs: DryRuns,
    /// First failure by resource, for the objects without an answer.
    failures: BTreeMap<String, Failure>,
}

/// Sends the dry-runs. An object of two Kustomizations is sent once.
pub(crate) async fn send(cluster: &Cluster, snapshot: &Snapshot, mut objects: Vec<AppliedObject>) -> DryRunAnswers {
    let sender = &DryRunSender { cluster, snapshot };
    let mut sent = BTreeSet::new();
    objects.retain(|applied| sent.insert(applied.id.clone()));
    let requests: FuturesUnordered<_> = objects
        .into_iter()
        .map(|applied| async move {
            let result = match sender.send(&applied).await {
                Ok(result) => Ok(result.without_secrets(&applied)),
                Err(failure) if applied.built.masked.is_some() => {
                    Err(Failure { message: HIDDEN_MESSAGE.to_owned(), ..failure })
                }
                Err(failure) => Err(failure),
            };
            (applied, result)
        })
        .collect();
    let mut results: Vec<_> = requests.collect().await;
    results.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
    let mut answers = DryRunAnswers::default();
    for (applied, result) in results {
        match result {
            Ok(result) => answers.dry_runs.0.push((applied, result)),
            Err(failure) => {
                let kind = applied.id.group_kind();
                let resource = snapshot.resource_type(&kind).map_or_else(|| kind.to_string(), ResourceType::resource);
                answers.failures.entry(resource).or_insert(failure);
            }
        }
    }
    answers
}

impl DryRunAnswers {
    /// Returns a gap for each resource without an answer. Deletions are known without dry-runs.
    pub(crate) fn gaps(&self) -> Vec<Gap> {
        let mut gaps = vec![];
        for (resource, failure) in &self.failures {
            let gap = failure.gap(format!("what changes in {resource}"), None);
            gaps.push(Gap { message: format!("{}; deletions are complete", gap.message), ..gap });
        }
        gaps
    }

    /// Returns the hint for missing rights.
    pub(crate) fn hint(&self) -> Option<String> {
        let denied = self.failures.values().find(|failure| failure.kind == FailureKind::Forbidden)?;
        let hint = Error::from(denied.clone()).hint?;
        Some(format!("--diff needs the right to patch, if only for dry-runs; {hint}"))
    }
}

/// Returns a warning that names the objects that are not compared because the keys to their content are not here.
pub(crate) fn encrypted_warning(objects: &[AppliedObject]) -> Option<String> {
    let encrypted = objects.iter().filter(|applied| applied.built.undecrypted.is_some());
    let encrypted: BTreeSet<String> = encrypted.map(|applied| applied.built.shown_id().to_string()).collect();
    if encrypted.is_empty() {
        return None;
    }
    let reason = "encrypted, or name what has a hash of encrypted content";
    Some(format!("not compared, as they are {reason}: {}", join_limited(encrypted, NAMED_OBJECTS)))
}

struct DryRunSender<'a> {
    cluster: &'a Cluster,
    snapshot: &'a Snapshot,
}

impl DryRunSender<'_> {
    async fn send(&self, applied: &AppliedObject) -> Result<DryRunResult, Failure> {
        let id = &applied.id;
        if let Some(result) = DryRunResult::without_request(applied, self.snapshot) {
            return Ok(result);
        }
        let Some(kind) = self.snapshot.resource_type(&id.group_kind()) else { return Ok(DryRunResult::Unchanged) };
        // The controller sends, and compares in, the version of the manifest.
        let kind = ResourceType { version: applied.built.version.as_str().into(), ..kind.clone() };
        let live = self.cluster.fetch_json(&kind, id).await?;
        let mut manifest = manifest_to_apply(applied);
        let failure = match self.apply(&kind, id, &mut manifest).await {
            Ok(merged) => return Ok(DryRunResult::of_accepted(applied, self.snapshot, live.as_ref(), &merged)),
            Err(failure) => failure,
        };
        let error = apply_error(&failure);
        let may_replace = live.is_some() && applied.forces(self.snapshot.object(id));
        if may_replace && error.is_refusal() && error.is_immutable_field() {
            return self.recreate(&kind, id, manifest, failure).await;
        }
        error.result().ok_or(failure)
    }

    /// Applies without the fields that a built-in kind does not know.
    async fn apply(&self, kind: &ResourceType, id: &ObjectId, manifest: &mut Value) -> Result<Value, Failure> {
        let mut retries = UnknownFieldRetries::new(kind, self.snapshot);
        loop {
            match self.cluster.apply_dry_run(kind, id, manifest).await {
                Err(failure) if retries.should_retry(manifest, apply_error(&failure)) => {}
                answer => return answer,
            }
        }
    }

    /// Returns the result of deleting the object and creating it again.
    async fn recreate(
        &self,
        kind: &ResourceType,
        id: &ObjectId,
        mut manifest: Value,
        refusal: Failure,
    ) -> Result<DryRunResult, Failure> {
        let other = rename_for_creation(id, &mut manifest);
        match self.cluster.apply_dry_run(kind, &other, &manifest).await {
            Ok(_) => Ok(DryRunResult::Recreated(refusal.message)),
            Err(failure) if apply_error(&failure).is_refusal() => Ok(DryRunResult::DeletedOnly(failure.message)),
            Err(failure) => Err(failure),
        }
    }
}

fn apply_error(failure: &Failure) -> ApplyError<'_> {
    ApplyError { code: failure.code, message: &failure.message }
}
