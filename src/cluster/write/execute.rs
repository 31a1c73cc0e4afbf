//! Carries out a plan: dry-run of everything first, then one object after another (or some of one wave side by side),
//! each judged again right before.
//!
//! Source: design 3.4, rule 7. Nothing here decides what may go; `judge` does, on a fresh reading.

use std::cell::RefCell;
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

/// How often a deletion is tried again when the object changed between its last reading and the DELETE.
const CONFLICTS: usize = 3;

/// Judges a fresh reading: `None` lets it go, text says why it stays.
pub type Reevaluate<'a> = dyn Fn(&Snapshot, &ObjectId) -> Option<String> + 'a;

/// How to execute.
#[derive(Clone, Debug)]
pub struct Execution {
    /// How long to wait for each object to be gone.
    pub timeout: Duration,
    /// What goes first, wave by wave; what is not named comes after it, in Flux's order.
    pub waves: Vec<Vec<ObjectId>>,
    /// How many objects of one wave go side by side.
    pub parallel: usize,
}

impl Cluster {
    /// Sends every deletion as a server dry-run, `parallel` side by side; what the server would refuse is returned, and
    /// then nothing was done.
    pub async fn rehearse(&self, plan: &Plan, snapshot: &Snapshot, parallel: usize) -> Vec<(ObjectId, String)> {
        let rehearsals = plan.roots().map(|change| async {
            let id = &change.object.id;
            let answer = match (kind_of(snapshot, id), snapshot.object(id)) {
                (Some(kind), Some(object)) => {
                    self.delete(kind, object, true).await.map_err(|failure| failure.to_string())
                }
                _ => Err("its type is not served".to_owned()),
            };
            answer.err().map(|why| (id.clone(), why))
        });
        stream::iter(rehearsals).buffered(parallel).filter_map(future::ready).collect().await
    }

    /// Deletes the plan's roots in delete order, wave after wave. `tell` hears of every step as soon as it and all
    /// before it have ended. Ctrl-C ends it: nothing more is begun.
    pub async fn execute(
        &self,
        plan: &Plan,
        snapshot: &mut Snapshot,
        judge: &Reevaluate<'_>,
        execution: &Execution,
        tell: &mut dyn FnMut(&StepResult),
    ) -> PruneResult {
        let snapshot = RefCell::new(snapshot);
        let mut result = PruneResult::default();
        let mut interrupted = pin!(ctrl_c());
        let mut stop = false;
        for wave in waves(plan, &execution.waves) {
            let mut steps: Vec<Option<DeletionResult>> = vec![None; wave.len()];
            let mut running = FuturesUnordered::new();
            let (mut begun, mut told) = (0, 0);
            while told < wave.len() {
                while !stop && begun < wave.len() && running.len() < execution.parallel {
                    let (at, change) = (begun, wave[begun]);
                    let timeout = execution.timeout;
                    let snapshot = &snapshot;
                    running.push(async move { (at, self.delete_one(change, snapshot, judge, timeout).await) });
                    begun += 1;
                }
                if stop {
                    let open = |(_, step): &(usize, &mut Option<DeletionResult>)| step.is_none();
                    for (at, step) in steps.iter_mut().enumerate().skip(told).filter(open) {
                        let sent = || DeletionResult::Failed("interrupted: the deletion may have been sent".to_owned());
                        *step = Some(if at < begun { sent() } else { DeletionResult::NotTried });
                    }
                } else {
                    tokio::select! {
                        Some((at, step)) = running.next() => steps[at] = Some(step),
                        _ = &mut interrupted => stop = true,
                    }
                }
                while let Some(step) = steps.get_mut(told).and_then(Option::take) {
                    let row = StepResult { object: wave[told].object.clone(), step };
                    tell(&row);
                    result.steps.push(row);
                    told += 1;
                }
            }
        }
        result.interrupted = stop;
        result
    }

    /// Between the last reading of the object and its owner and the judgement nothing else runs: what others read in the
    /// meantime never takes the place of it.
    async fn delete_one(
        &self,
        change: &Change,
        snapshot: &RefCell<&mut Snapshot>,
        judge: &Reevaluate<'_>,
        timeout: Duration,
    ) -> DeletionResult {
        let id = &change.object.id;
        let Some(kind) = kind_of(&snapshot.borrow(), id).cloned().filter(|_| is_path_segment(&id.name)) else {
            return DeletionResult::Failed("its type is not served".to_owned());
        };
        for _ in 0..CONFLICTS {
            let fresh = match self.renew(&kind, change, snapshot).await {
                Ok(Some(fresh)) => fresh,
                Ok(None) => return DeletionResult::Gone,
                Err(failure) => return DeletionResult::Failed(failure.to_string()),
            };
            if *fresh.uid != *change.object.uid {
                return DeletionResult::Skipped("another object has taken its name".to_owned());
            }
            if let Some(why) = judge(&snapshot.borrow(), id) {
                return DeletionResult::Skipped(why);
            }
            match self.delete(&kind, &fresh, false).await {
                Ok(()) => return self.finish(&kind, &fresh, timeout).await,
                Err(failure) if failure.kind == FailureKind::NotFound => return DeletionResult::Gone,
                Err(failure) if failure.kind == FailureKind::Conflict => {}
                Err(failure) => return DeletionResult::Failed(failure.to_string()),
            }
        }
        DeletionResult::Skipped(format!("it changed {CONFLICTS} times while it was being deleted"))
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

    /// Reads the object and its owner again, the object first, and puts both into the snapshot.
    async fn renew(
        &self,
        kind: &ResourceType,
        change: &Change,
        snapshot: &RefCell<&mut Snapshot>,
    ) -> Result<Option<ObjectMetadata>, Failure> {
        let id = &change.object.id;
        let fresh = self.fetch_metadata(kind, id).await?;
        snapshot.borrow_mut().replace_object(id, fresh.clone());
        if fresh.is_none() {
            return Ok(None);
        }
        let owner = change.owner.as_ref().and_then(|owner| owner_to_read(&snapshot.borrow(), owner));
        if let Some((kind, owner)) = owner {
            let newer: Option<Resource> = self.fetch(&kind, &owner).await?;
            snapshot.borrow_mut().replace_resource(&owner, newer);
        }
        Ok(fresh)
    }
}

fn kind_of<'a>(snapshot: &'a Snapshot, id: &ObjectId) -> Option<&'a ResourceType> {
    snapshot.resource_type(&id.group_kind())
}

/// The object that an owner is, where it was read in full.
fn owner_to_read(snapshot: &Snapshot, owner: &OwnerId) -> Option<(ResourceType, ObjectId)> {
    let same = |full: &&Resource| {
        let id = &full.object.id;
        *id.kind == *owner.kind && *id.namespace == *owner.namespace && *id.name == *owner.name
    };
    let id = &snapshot.full.iter().find(same)?.object.id;
    Some((kind_of(snapshot, id)?.clone(), id.clone()))
}
