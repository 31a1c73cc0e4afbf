//! Execution of a plan: a dry-run of every deletion first, then the deletions wave by wave, each after a fresh read and a
//! re-evaluation (docs/reference/ownership.md 8, rule 7).

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use futures::stream::{self, FuturesUnordered};
use futures::{StreamExt, future};
use tokio::signal::ctrl_c;

use super::delete::DeletionProgress;
use crate::cluster::read::fetch::is_path_segment;
use crate::cluster::{Cluster, Failure, FailureKind};
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, Resource, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::OwnerId;
use gitops_core::plan::execution::waves;
use gitops_core::plan::outcome::{DeletionResult, PruneResult, StepResult};
use gitops_core::plan::{Change, Plan};

/// Number of attempts to delete an object that changes between its last read and the DELETE.
const ATTEMPTS: usize = 3;
/// Maximum number of objects that are re-evaluated together.
const BATCH: usize = 200;

/// Re-evaluates objects of a snapshot. Returns the reason to keep each of them, or `None` to delete it.
pub type Reevaluate<'a> = dyn Fn(&Snapshot, &[&ObjectId]) -> Vec<Option<String>> + 'a;

/// Options of an execution.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Time to wait for each object to be gone.
    pub timeout: Duration,
    /// Objects in the order of deletion, wave by wave. Objects that it does not name follow in Flux's order.
    pub waves: Vec<Vec<ObjectId>>,
    /// Maximum number of objects of one wave that are deleted at the same time.
    pub parallel: usize,
}

/// The cluster as it was read last, and the re-evaluations that hold for it.
struct FreshState<'a> {
    snapshot: &'a mut Snapshot,
    reevaluate: &'a Reevaluate<'a>,
    /// Reasons to keep objects, for the snapshot as it is.
    reasons: HashMap<ObjectId, Option<String>>,
}

impl FreshState<'_> {
    /// Replaces an object, or removes it if `fresh` is `None`.
    fn update_object(&mut self, id: &ObjectId, fresh: Option<&ObjectMetadata>) {
        if !is_equal(self.snapshot.object(id), fresh) {
            self.reasons.clear();
        }
        self.snapshot.replace_object(id, fresh.cloned());
    }

    /// Replaces an owner, or removes it if `fresh` is `None`.
    fn update_owner(&mut self, id: &ObjectId, fresh: Option<Resource>) {
        let known = self.snapshot.resources.iter().find(|full| full.object.id == *id);
        let is_same_content = known.map(|full| &full.content) == fresh.as_ref().map(|full| &full.content);
        if !is_same_content || !is_equal(self.snapshot.object(id), fresh.as_ref().map(|full| &full.object)) {
            self.reasons.clear();
        }
        self.snapshot.replace_resource(id, fresh);
    }

    /// Returns the reason to keep the first of these objects. The others are evaluated with it, so that a wave whose objects
    /// and owners did not change since they were listed is evaluated at once.
    fn reason_to_keep(&mut self, changes: &[&Change]) -> Option<String> {
        let id = &changes[0].object.id;
        if !self.reasons.contains_key(id) {
            let ids: Vec<&ObjectId> = changes.iter().take(BATCH).map(|change| &change.object.id).collect();
            let reasons = (self.reevaluate)(self.snapshot, &ids);
            self.reasons.extend(ids.into_iter().cloned().zip(reasons));
        }
        // An evaluation is used once: the next attempt of an object evaluates it again.
        self.reasons.remove(id).flatten()
    }
}

/// Returns true if nothing but the resource version differs.
fn is_equal(known: Option<&ObjectMetadata>, fresh: Option<&ObjectMetadata>) -> bool {
    match (known, fresh) {
        (Some(known), Some(fresh)) => {
            ObjectMetadata { resource_version: fresh.resource_version.clone(), ..known.clone() } == *fresh
        }
        (None, None) => true,
        _ => false,
    }
}

impl Cluster {
    /// Sends every deletion as a server dry-run, `parallel` at a time. Returns the refused deletions with the reason.
    pub async fn dry_run_deletions(
        &self,
        plan: &Plan,
        snapshot: &Snapshot,
        parallel: usize,
    ) -> Vec<(ObjectId, String)> {
        let dry_runs = plan.roots().map(|change| async {
            let id = &change.object.id;
            let answer = match (kind_of(snapshot, id), snapshot.object(id)) {
                (Some(kind), Some(object)) => {
                    self.delete(kind, object, true).await.map_err(|failure| failure.to_string())
                }
                _ => Err("its type is not served".to_owned()),
            };
            answer.err().map(|why| (id.clone(), why))
        });
        stream::iter(dry_runs).buffered(parallel).filter_map(future::ready).collect().await
    }

    /// Deletes the roots of a plan wave after wave. Calls `report` for every step when it and all steps before it have
    /// ended. Ctrl-C ends the execution: no further deletion is started.
    pub async fn execute(
        &self,
        plan: &Plan,
        snapshot: &mut Snapshot,
        reevaluate: &Reevaluate<'_>,
        execution: &Execution,
        report: &mut dyn FnMut(&StepResult),
    ) -> PruneResult {
        let state = &RefCell::new(FreshState { snapshot, reevaluate, reasons: HashMap::new() });
        let mut result = PruneResult::default();
        let mut interrupted = pin!(ctrl_c());
        let mut stop = false;
        for wave in &waves(plan, &execution.waves) {
            let mut steps: Vec<Option<DeletionResult>> = vec![None; wave.len()];
            let mut running = FuturesUnordered::new();
            let (mut started, mut reported) = (0, 0);
            while reported < wave.len() {
                while !stop && started < wave.len() && running.len() < execution.parallel {
                    let at = started;
                    running.push(async move { (at, self.delete_one(&wave[at..], state, execution.timeout).await) });
                    started += 1;
                }
                if stop {
                    for (at, step) in steps.iter_mut().enumerate().skip(reported).filter(|(_, step)| step.is_none()) {
                        *step = Some(match at < started {
                            true => DeletionResult::Failed("interrupted: the deletion may have been sent".to_owned()),
                            false => DeletionResult::NotTried,
                        });
                    }
                } else {
                    tokio::select! {
                        Some((at, step)) = running.next() => steps[at] = Some(step),
                        _ = &mut interrupted => stop = true,
                    }
                }
                while let Some(step) = steps.get_mut(reported).and_then(Option::take) {
                    let row = StepResult { object: wave[reported].object.clone(), step };
                    report(&row);
                    result.steps.push(row);
                    reported += 1;
                }
            }
        }
        result.interrupted = stop;
        result
    }

    /// Deletes the first of these changes; the others are the rest of its wave. Nothing else runs between the last read of
    /// the object and its owner and the re-evaluation, so no older read can replace it.
    async fn delete_one(
        &self,
        changes: &[&Change],
        state: &RefCell<FreshState<'_>>,
        timeout: Duration,
    ) -> DeletionResult {
        let change = changes[0];
        let id = &change.object.id;
        let Some(kind) = kind_of(state.borrow().snapshot, id).cloned().filter(|_| is_path_segment(&id.name)) else {
            return DeletionResult::Failed("its type is not served".to_owned());
        };
        for _ in 0..ATTEMPTS {
            let fresh = match self.read_again(&kind, change, state).await {
                Ok(Some(fresh)) => fresh,
                Ok(None) => return DeletionResult::Gone,
                Err(failure) => return DeletionResult::Failed(failure.to_string()),
            };
            if *fresh.uid != *change.object.uid {
                return DeletionResult::Skipped("another object has taken its name".to_owned());
            }
            if let Some(reason) = state.borrow_mut().reason_to_keep(changes) {
                return DeletionResult::Skipped(reason);
            }
            match self.delete(&kind, &fresh, false).await {
                Ok(()) => return self.finish(&kind, &fresh, timeout).await,
                Err(failure) if failure.kind == FailureKind::NotFound => return DeletionResult::Gone,
                Err(failure) if failure.kind == FailureKind::Conflict => {}
                Err(failure) => return DeletionResult::Failed(failure.to_string()),
            }
        }
        DeletionResult::Skipped(format!("it changed {ATTEMPTS} times while it was being deleted"))
    }

    async fn finish(&self, kind: &ResourceType, object: &ObjectMetadata, timeout: Duration) -> DeletionResult {
        match self.wait_until_gone(kind, object, timeout).await {
            Ok(DeletionProgress::Gone) => DeletionResult::Deleted,
            Ok(DeletionProgress::Terminating(finalizers)) => DeletionResult::Terminating(finalizers),
            Err(failure) => {
                DeletionResult::Failed(format!("deleted, but it cannot be seen whether it is gone: {failure}"))
            }
        }
    }

    /// Reads the object and then its owner again, and puts both into the snapshot.
    async fn read_again(
        &self,
        kind: &ResourceType,
        change: &Change,
        state: &RefCell<FreshState<'_>>,
    ) -> Result<Option<ObjectMetadata>, Failure> {
        let id = &change.object.id;
        let fresh = self.fetch_metadata(kind, id).await?;
        state.borrow_mut().update_object(id, fresh.as_ref());
        if fresh.is_none() {
            return Ok(None);
        }
        let owner = change.owner.as_ref().and_then(|owner| owner_to_read(state.borrow().snapshot, owner));
        if let Some((kind, owner)) = owner {
            let newer = self.fetch(&kind, &owner).await?;
            state.borrow_mut().update_owner(&owner, newer);
        }
        Ok(fresh)
    }
}

fn kind_of<'a>(snapshot: &'a Snapshot, id: &ObjectId) -> Option<&'a ResourceType> {
    snapshot.resource_type(&id.group_kind())
}

/// Returns the object of an owner, if it was read with its content.
fn owner_to_read(snapshot: &Snapshot, owner: &OwnerId) -> Option<(ResourceType, ObjectId)> {
    let id = &snapshot.resources.iter().find(|full| owner.is_object(&full.object.id))?.object.id;
    Some((kind_of(snapshot, id)?.clone(), id.clone()))
}
