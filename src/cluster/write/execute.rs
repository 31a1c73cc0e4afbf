//! Execution of a plan: a dry-run of every deletion first, then the deletions wave by wave. Each wave begins with a new
//! reading of the cluster, and each deletion follows a re-evaluation (docs/reference/ownership.md 8, rule 7).

use std::cell::RefCell;
use std::pin::pin;
use std::time::Duration;

use futures::stream::{self, FuturesUnordered};
use futures::{StreamExt, future};
use tokio::signal::ctrl_c;

use super::reading::Reading;
use crate::cluster::Cluster;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::plan::Plan;
use gitops_core::plan::execution::waves;
use gitops_core::plan::outcome::{DeletionResult, Event, PruneResult, StepResult};
use gitops_core::prune::reevaluation::{Reevaluate, Reevaluation};

/// Options of an execution.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Time to wait for each object to be gone, and for each answer of the server.
    pub timeout: Duration,
    /// Objects in the order of deletion, wave by wave. Objects that it does not name follow in Flux's order.
    pub waves: Vec<Vec<ObjectId>>,
    /// Maximum number of objects of one wave that are deleted at the same time.
    pub parallel: usize,
}

/// An execution under way.
pub(super) struct Run<'p, 'r> {
    pub(super) cluster: Cluster,
    pub(super) timeout: Duration,
    pub(super) reading: Reading<'p>,
    report: RefCell<&'r mut dyn FnMut(Event<'_>)>,
}

impl Run<'_, '_> {
    pub(super) fn report(&self, event: Event<'_>) {
        (self.report.borrow_mut())(event);
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
            let answer = match (snapshot.resource_type(&id.group_kind()), snapshot.object(id)) {
                (Some(kind), Some(object)) => {
                    self.delete(kind, object, true).await.map_err(|failure| failure.to_string())
                }
                _ => Err("its type is not served".to_owned()),
            };
            answer.err().map(|why| (id.clone(), why))
        });
        stream::iter(dry_runs).buffered(parallel).filter_map(future::ready).collect().await
    }

    /// Deletes the roots of a plan wave after wave, each after `reevaluate` and the rules for its cascade. Calls `report`
    /// for every [`Event`]. Ctrl-C ends the execution: no further deletion is started.
    pub async fn execute(
        &self,
        plan: &Plan,
        reevaluate: &Reevaluate<'_>,
        execution: &Execution,
        report: &mut dyn FnMut(Event<'_>),
    ) -> PruneResult {
        let run = &Run {
            cluster: self.with_request_timeout(execution.timeout),
            timeout: execution.timeout,
            reading: Reading::new(Reevaluation::new(plan, reevaluate), &plan.cluster().uid),
            report: RefCell::new(report),
        };
        let mut result = PruneResult::default();
        let mut interrupted = pin!(ctrl_c());
        let waves = waves(plan, &execution.waves);
        for wave in &waves {
            run.reading.expire();
            let mut steps: Vec<Option<DeletionResult>> = vec![None; wave.len()];
            let mut running = FuturesUnordered::new();
            let (mut started, mut reported) = (0, 0);
            while reported < wave.len() {
                if !result.interrupted && started < wave.len() && running.is_empty() && run.reading.is_old() {
                    tokio::select! {
                        () = run.reading.read_all(&run.cluster) => {}
                        _ = &mut interrupted => result.interrupted = true,
                    }
                }
                // When the reading is too old, the running deletions end before the next reading.
                while !result.interrupted
                    && started < wave.len()
                    && running.len() < execution.parallel
                    && !run.reading.is_old()
                {
                    let at = started;
                    running.push(async move { (at, run.delete_one(&wave[at..]).await) });
                    started += 1;
                }
                if result.interrupted {
                    for (at, step) in steps.iter_mut().enumerate().skip(reported).filter(|(_, step)| step.is_none()) {
                        *step = Some(match at < started {
                            true => DeletionResult::Unknown("interrupted: the deletion may have been sent".to_owned()),
                            false => DeletionResult::NotTried,
                        });
                    }
                } else {
                    tokio::select! {
                        Some((at, step)) = running.next() => {
                            run.reading.end(wave[at], &step);
                            let row = StepResult { object: wave[at].object.clone(), step };
                            run.report(Event::Ended(&row));
                            steps[at] = Some(row.step);
                        }
                        _ = &mut interrupted => result.interrupted = true,
                    }
                }
                while let Some(step) = steps.get_mut(reported).and_then(Option::take) {
                    let row = StepResult { object: wave[reported].object.clone(), step };
                    run.report(Event::Reported(&row));
                    result.steps.push(row);
                    reported += 1;
                }
            }
        }
        result
    }
}
