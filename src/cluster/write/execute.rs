//! Execution of a plan: a dry-run of every deletion first, then the deletions wave by wave. Each wave begins with a new
//! reading of the cluster, and each deletion follows a re-evaluation (docs/reference/ownership.md 8, rule 7).

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use futures::stream::{self, FuturesUnordered};
use futures::{StreamExt, future};
use serde_json::Value;
use tokio::time::timeout;

use super::reading::Reading;
use super::signals::Interrupts;
use crate::cluster::{Cluster, Failure};
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::plan::execution::waves;
use gitops_core::plan::outcome::{DeletionResult, Event, PruneResult, StepResult};
use gitops_core::plan::{Change, Plan};
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

/// Time that running deletions get to end after a signal.
const GRACE: Duration = Duration::from_secs(2);

/// Party that follows an execution and can end it: no deletion is started after one of its methods fails.
pub trait Observer {
    /// Returns the objects whose content [`Observer::prepare`] needs before a deletion.
    fn wanted(&self, _root: &Change) -> Vec<ObjectId> {
        vec![]
    }

    /// Prepares for a deletion whose DELETE is sent next. If it fails, the DELETE is not sent.
    fn prepare(&mut self, _root: &Change, _contents: Vec<(ObjectId, Value)>) -> Result<(), String> {
        Ok(())
    }

    fn event(&mut self, _event: Event<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// Nobody follows the execution.
impl Observer for () {}

/// Result of the preparation of a deletion.
pub(super) enum Prepared {
    Ready,
    /// The object changed since it was evaluated.
    Changed,
    /// The observer failed: nothing more is deleted.
    Stopped,
}

/// An execution under way.
pub(super) struct Run<'p, 'r> {
    pub(super) cluster: Cluster,
    pub(super) timeout: Duration,
    pub(super) reading: Reading<'p>,
    observer: RefCell<&'r mut dyn Observer>,
    /// Deletions that the server accepted, with what holds their objects.
    terminating: RefCell<HashMap<ObjectId, Vec<String>>>,
    /// First failure of the observer.
    failure: RefCell<Option<String>>,
}

impl<'p> Run<'p, '_> {
    pub(super) fn report(&self, event: Event<'_>) {
        if let Event::Waiting(object, held_by) = event {
            self.terminating.borrow_mut().insert(object.id.clone(), held_by.to_vec());
        }
        let reported = self.observer.borrow_mut().event(event);
        self.fail(reported);
    }

    /// Reads what the observer needs before a deletion, and lets it prepare.
    pub(super) async fn prepare(&self, root: &Change, fresh: &ObjectMetadata) -> Result<Prepared, Failure> {
        let wanted = self.observer.borrow().wanted(root);
        let mut contents = vec![];
        for id in wanted {
            let Some(kind) = self.reading.resource_type(&id) else { continue };
            let Some(content) = self.cluster.fetch_json(&kind, &id).await? else {
                if id == root.object.id {
                    return Ok(Prepared::Changed);
                }
                continue;
            };
            let version = content.pointer("/metadata/resourceVersion").and_then(Value::as_str);
            if id == root.object.id && version != Some(&*fresh.resource_version) {
                return Ok(Prepared::Changed);
            }
            contents.push((id, content));
        }
        let prepared = self.observer.borrow_mut().prepare(root, contents);
        self.fail(prepared);
        self.report(Event::Deleting(&root.object));
        Ok(if self.failure.borrow().is_none() { Prepared::Ready } else { Prepared::Stopped })
    }

    fn fail(&self, result: Result<(), String>) {
        if let Err(why) = result {
            self.failure.borrow_mut().get_or_insert(why);
        }
    }

    /// Records and reports the end of a deletion.
    fn end(&self, change: &'p Change, step: DeletionResult, slot: &mut Option<DeletionResult>) {
        self.reading.end(change, &step);
        let row = StepResult { object: change.object.clone(), step };
        self.report(Event::Ended(&row));
        *slot = Some(row.step);
    }

    /// Returns the result of a deletion that was running when the execution ended.
    fn abandoned(&self, id: &ObjectId) -> DeletionResult {
        match self.terminating.borrow().get(id) {
            Some(held_by) => DeletionResult::Terminating(held_by.clone()),
            None => DeletionResult::Unknown("interrupted: the deletion may have been sent".to_owned()),
        }
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

    /// Deletes the roots of a plan wave after wave, each after `reevaluate` and the rules for its cascade. Calls `observer`
    /// for every [`Event`]. A signal or a failure of the observer ends the execution: no further deletion is started.
    pub async fn execute(
        &self,
        plan: &Plan,
        reevaluate: &Reevaluate<'_>,
        execution: &Execution,
        observer: &mut dyn Observer,
    ) -> PruneResult {
        let run = &Run {
            cluster: self.with_request_timeout(execution.timeout),
            timeout: execution.timeout,
            reading: Reading::new(Reevaluation::new(plan, reevaluate), &plan.cluster().uid),
            observer: RefCell::new(observer),
            terminating: RefCell::default(),
            failure: RefCell::default(),
        };
        let mut result = PruneResult::default();
        let mut interrupts = Interrupts::new();
        let waves = waves(plan, &execution.waves);
        for wave in &waves {
            run.reading.expire();
            let mut steps: Vec<Option<DeletionResult>> = vec![None; wave.len()];
            let mut running = FuturesUnordered::new();
            let (mut started, mut reported) = (0, 0);
            while reported < wave.len() {
                let is_ending = |result: &PruneResult| result.interrupted || run.failure.borrow().is_some();
                if !is_ending(&result) && started < wave.len() && running.is_empty() && run.reading.is_old() {
                    tokio::select! {
                        () = run.reading.read_all(&run.cluster) => {}
                        () = interrupts.next() => result.interrupted = true,
                    }
                }
                // When the reading is too old, the running deletions end before the next reading.
                while !is_ending(&result)
                    && started < wave.len()
                    && running.len() < execution.parallel
                    && !run.reading.is_old()
                {
                    let at = started;
                    running.push(async move { (at, run.delete_one(&wave[at..]).await) });
                    started += 1;
                }
                let ended = if running.is_empty() {
                    None
                } else if result.interrupted {
                    timeout(GRACE, running.next()).await.ok().flatten()
                } else {
                    tokio::select! {
                        ended = running.next() => ended,
                        () = interrupts.next() => {
                            result.interrupted = true;
                            continue;
                        }
                    }
                };
                if let Some((at, step)) = ended {
                    run.end(wave[at], step, &mut steps[at]);
                } else if is_ending(&result) {
                    running.clear();
                    for at in reported..wave.len() {
                        match (&steps[at], at < started) {
                            (Some(_), _) => {}
                            (None, true) => run.end(wave[at], run.abandoned(&wave[at].object.id), &mut steps[at]),
                            (None, false) => steps[at] = Some(DeletionResult::NotTried),
                        }
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
        result.failure = run.failure.take();
        result
    }
}
