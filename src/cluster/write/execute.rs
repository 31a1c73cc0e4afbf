//! Execution of a plan, wave by wave. Each wave begins with a new reading of the cluster, and each deletion follows a
//! re-evaluation (docs/reference/ownership.md 8, rule 7).
//!
//! `schedule` says what to do next, `step` has the requests, `reading` judges, and this puts together what they say.

use std::time::Duration;

use chrono::Utc;
use futures::StreamExt;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::observer::{Execution, Observer};
use super::reading::{Reading, needs_discovery};
use super::schedule::Action;
use super::signals::Interrupts;
use super::step::{self, ATTEMPTS, Preparation, Sent};
use super::wave::{Done, Waiting, Wave};
use crate::cluster::connection::Cluster;
use crate::cluster::http::failure::FailureKind;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::plan::execution::waves;
use gitops_core::plan::outcome::{DeletionResult, Event, PruneResult, StepResult};
use gitops_core::plan::{Change, Plan, Reason};
use gitops_core::prune::reevaluation::{Reevaluate, Reevaluation, not_read};

/// Time that running deletions get to end after a signal.
const GRACE: Duration = Duration::from_secs(2);

/// An execution under way.
struct Run<'p, 'r> {
    cluster: &'p Cluster,
    timeout: Duration,
    parallel: usize,
    owners_age: Duration,
    reading: Reading<'p>,
    observer: &'r mut dyn Observer,
    result: PruneResult,
    /// End of the time for running deletions after a signal.
    grace: Option<Instant>,
}

/// Deletes the roots of a plan wave after wave, each after `reevaluate` and the rules for its cascade. Calls `observer`
/// for every [`Event`]. A signal or a failure of the observer ends the execution: no further deletion is started.
pub async fn execute(
    cluster: &Cluster,
    plan: &Plan,
    reevaluate: &Reevaluate<'_>,
    execution: &Execution,
    observer: &mut dyn Observer,
) -> PruneResult {
    let mut run = Run {
        cluster: &cluster.with_request_timeout(execution.timeout),
        timeout: execution.timeout,
        parallel: execution.parallel,
        owners_age: execution.owners_age,
        reading: Reading::new(Reevaluation::new(plan, reevaluate), &plan.cluster().uid),
        observer,
        result: PruneResult::default(),
        grace: None,
    };
    let mut interrupts = Interrupts::new();
    for wave in waves(plan, &execution.waves) {
        run.execute_wave(&wave, &mut interrupts).await;
    }
    run.result
}

impl<'p> Run<'p, '_> {
    /// Executes one wave. After the end of the execution, nothing of it is started.
    async fn execute_wave(&mut self, changes: &[&'p Change], interrupts: &mut Interrupts) {
        let mut wave = Wave::new(changes, self.parallel, self.owners_age);
        loop {
            while let Some(action) = self.next(&mut wave) {
                self.start(&mut wave, action);
            }
            let is_over = self.grace.is_some_and(|end| Instant::now() >= end);
            if self.is_ending() && (is_over || !wave.schedule.is_running()) {
                self.abandon(&mut wave);
            }
            self.report_ended(&mut wave);
            if wave.schedule.is_done() {
                return;
            }
            let grace = self.grace.unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                Some(waiting) = wave.waiting.recv() => self.report_waiting(&mut wave, waiting),
                Some(done) = wave.activities.next() => {
                    // An activity can end right after it sent what holds its object.
                    while let Ok(waiting) = wave.waiting.try_recv() {
                        self.report_waiting(&mut wave, waiting);
                    }
                    self.take(&mut wave, done);
                }
                () = interrupts.next(), if self.grace.is_none() => {
                    self.result.interrupted = true;
                    self.grace = Some(Instant::now() + GRACE);
                }
                () = sleep_until(grace), if self.grace.is_some() => {}
            }
        }
    }

    fn is_ending(&self) -> bool {
        self.result.interrupted || self.result.failure.is_some()
    }

    fn next(&self, wave: &mut Wave<'_, 'p>) -> Option<Action> {
        if self.is_ending() {
            wave.schedule.end();
        }
        wave.schedule.next(Instant::now())
    }

    fn start(&mut self, wave: &mut Wave<'_, 'p>, action: Action) {
        let cluster = self.cluster;
        match action {
            Action::ReadCluster => {
                wave.begin(async move { Done::Cluster(Box::new(cluster.snapshot(Utc::now()).await)) });
            }
            Action::Look(step) => self.look(wave, step),
            Action::ReadOwners => {
                let lists = self.reading.owner_lists();
                wave.begin(async move {
                    let listed = step::list_owners(cluster, &lists).await;
                    Done::OwnersListed(lists, listed)
                });
            }
            Action::Delete { step, confirm } => self.delete(wave, step, confirm),
        }
    }

    /// Puts the result of an activity in place, and continues with what follows from it.
    fn take(&mut self, wave: &mut Wave<'_, 'p>, done: Done) {
        let cluster = self.cluster;
        match done {
            Done::Cluster(read) => {
                self.reading.replace(*read);
                // A type that somebody removes while the cluster is read is a gap. It is none in the next reading.
                if self.reading.has_new_gap() && !std::mem::replace(&mut wave.is_read_again, true) {
                    return self.start(wave, Action::ReadCluster);
                }
                wave.is_read_again = false;
                wave.schedule.cluster_read(Instant::now(), self.reading.careful(wave.changes));
            }
            Done::Discovered(step, Ok(discovered)) => {
                self.reading.replace_types(discovered);
                self.list_content(wave, step);
            }
            Done::Discovered(step, Err(failure)) => self.keep(wave, step, not_read(failure.to_string())),
            Done::Listed(step, content, Ok(newer)) => {
                self.reading.replace_content(&content, newer);
                self.read_object(wave, step);
            }
            Done::Listed(step, _, Err(reason)) => self.keep(wave, step, reason),
            Done::Looked(step, Ok(look)) => {
                wave.steps[step].look = Some(*look);
                wave.schedule.looked(step);
            }
            // An earlier DELETE may have taken effect after all.
            Done::Looked(step, Err(DeletionResult::Gone)) if wave.steps[step].failed.is_some() => {
                self.end(wave, step, DeletionResult::Deleted);
            }
            Done::Looked(step, Err(result)) => self.end(wave, step, result),
            Done::OwnersListed(lists, Ok(listed)) => {
                let looked_at = wave.steps.iter().zip(wave.changes).filter(|(step, _)| step.look.is_some());
                let addresses = self.reading.owners_to_read(&lists, &listed, looked_at.map(|(_, change)| *change));
                wave.begin(async move { Done::Owners(step::fetch_owners(cluster, addresses, &lists, &listed).await) });
            }
            Done::OwnersListed(_, Err(reason)) => self.take(wave, Done::Owners(Err(reason))),
            // An owner that is made or deleted between two answers makes them differ. It does not in the next reading.
            Done::Owners(Err(_)) if !wave.are_owners_read_again => {
                wave.are_owners_read_again = true;
                self.start(wave, Action::ReadOwners);
            }
            Done::Owners(read) => {
                wave.are_owners_read_again = false;
                self.reading.replace_owners(read);
                wave.schedule.owners_read(Instant::now());
            }
            // Nothing more is sent.
            Done::Prepared(step, _) if self.is_ending() => wave.schedule.retry(step),
            Done::Prepared(step, Ok(Preparation::Contents(contents))) => self.send(wave, step, contents),
            Done::Prepared(step, Ok(Preparation::ObjectChanged)) => self.retry(wave, step),
            Done::Prepared(step, Ok(Preparation::OwnerChanged)) => wave.schedule.owner_changed(step),
            Done::Prepared(step, Err(failure)) => self.end(wave, step, DeletionResult::Failed(failure.to_string())),
            Done::Sent(step, Sent::Ended(result)) => self.end(wave, step, result),
            Done::Sent(step, Sent::Again(failure)) => {
                let failed = &mut wave.steps[step].failed;
                if failed.is_none() || failure.kind != FailureKind::Conflict {
                    *failed = Some(failure);
                }
                self.retry(wave, step);
            }
        }
    }

    /// Reads the content of a step's cascade again, and then its object.
    fn look(&mut self, wave: &mut Wave<'_, 'p>, step: usize) {
        let cluster = self.cluster;
        if let Some(reason) = self.reading.unread() {
            return self.keep(wave, step, reason.clone());
        }
        if needs_discovery(&wave.changes[step].object.id) {
            wave.begin(async move { Done::Discovered(step, cluster.discover().await) });
        } else if wave.schedule.is_careful(step) {
            self.list_content(wave, step);
        } else {
            self.read_object(wave, step);
        }
    }

    fn list_content(&mut self, wave: &mut Wave<'_, 'p>, step: usize) {
        let cluster = self.cluster;
        let content = self.reading.content(&wave.changes[step].object.id);
        wave.begin(async move {
            let newer = step::list_content(cluster, &content).await;
            Done::Listed(step, content, newer)
        });
    }

    fn read_object(&mut self, wave: &mut Wave<'_, 'p>, step: usize) {
        let cluster = self.cluster;
        let planned = &wave.changes[step].object;
        let kind = self.reading.resource_type(&planned.id);
        wave.begin(async move { Done::Looked(step, step::look(cluster, kind, planned).await.map(Box::new)) });
    }

    /// Judges an object that was looked at. Nothing else runs between this and the decision, so no older read can replace
    /// a newer one.
    fn delete(&mut self, wave: &mut Wave<'_, 'p>, step: usize, confirm: bool) {
        let cluster = self.cluster;
        let change = wave.changes[step];
        let deletion = wave.deletion(step, self.timeout);
        let fresh = &deletion.look.fresh;
        if let Some(reason) = self.reading.reason_to_keep(&wave.changes[step..], fresh) {
            return self.keep(wave, step, reason);
        }
        if deletion.has_failed && fresh.deletion_timestamp.is_some() {
            let mut waiting = wave.report_of_waiting(step);
            return wave.begin(async move {
                Done::Sent(step, Sent::Ended(step::finish(cluster, &deletion, &mut waiting).await))
            });
        }
        let wanted: Vec<_> =
            self.observer.wanted(change).into_iter().map(|id| (id.clone(), self.reading.resource_type(&id))).collect();
        let claimed_owner = if confirm { self.reading.claimed_owner(change) } else { vec![] };
        if wanted.is_empty() && claimed_owner.is_empty() {
            return self.send(wave, step, vec![]);
        }
        wave.begin(async move {
            Done::Prepared(step, step::prepare(cluster, &deletion.look.fresh, wanted, &claimed_owner).await)
        });
    }

    /// Lets the observer prepare, and sends the DELETE.
    fn send(&mut self, wave: &mut Wave<'_, 'p>, step: usize, contents: Vec<(ObjectId, Value)>) {
        let cluster = self.cluster;
        let change = wave.changes[step];
        let prepared = self.observer.prepare(change, contents);
        self.fail(prepared);
        self.report(Event::Deleting(&change.object));
        if self.result.failure.is_some() {
            return self.end(wave, step, DeletionResult::NotTried);
        }
        let deletion = wave.deletion(step, self.timeout);
        let mut waiting = wave.report_of_waiting(step);
        wave.begin(async move { Done::Sent(step, step::send(cluster, &deletion, &mut waiting).await) });
    }

    /// Looks at a step again, unless it was the last attempt.
    fn retry(&mut self, wave: &mut Wave<'_, 'p>, step: usize) {
        let own = &mut wave.steps[step];
        own.attempts += 1;
        // What a DELETE did that failed otherwise is said, although the execution ends.
        let is_conflict = own.failed.as_ref().is_none_or(|failure| failure.kind == FailureKind::Conflict);
        if own.attempts < ATTEMPTS && (is_conflict || !self.is_ending()) {
            return wave.schedule.retry(step);
        }
        let result = step::given_up(own.failed.take());
        self.end(wave, step, result);
    }

    fn keep(&mut self, wave: &mut Wave<'_, 'p>, step: usize, reason: Reason) {
        self.end(wave, step, DeletionResult::Skipped(reason));
    }

    /// Records and reports the end of a deletion.
    fn end(&mut self, wave: &mut Wave<'_, 'p>, step: usize, result: DeletionResult) {
        let change = wave.changes[step];
        self.reading.end(change, &result);
        let row = StepResult { object: change.object.clone(), step: result };
        self.report(Event::Ended(&row));
        wave.schedule.ended(step);
        wave.steps[step].look = None;
        wave.steps[step].result = Some(row.step);
    }

    /// Ends all steps of a wave after the execution ended: those that are running may have been sent.
    fn abandon(&mut self, wave: &mut Wave<'_, 'p>) {
        wave.activities.clear();
        for (step, is_running) in wave.schedule.left() {
            if is_running {
                let result = match wave.steps[step].held_by.take() {
                    Some(held_by) => DeletionResult::Terminating(held_by),
                    None => DeletionResult::Unknown("interrupted: the deletion may have been sent".to_owned()),
                };
                self.end(wave, step, result);
            } else {
                wave.schedule.ended(step);
                wave.steps[step].result = Some(DeletionResult::NotTried);
            }
        }
    }

    /// Reports the steps that have ended, in their order.
    fn report_ended(&mut self, wave: &mut Wave<'_, 'p>) {
        while let Some(step) = wave.steps.get_mut(wave.reported).and_then(|step| step.result.take()) {
            let row = StepResult { object: wave.changes[wave.reported].object.clone(), step };
            self.report(Event::Reported(&row));
            self.result.steps.push(row);
            wave.reported += 1;
        }
    }

    fn report_waiting(&mut self, wave: &mut Wave<'_, 'p>, (step, held_by): Waiting) {
        self.report(Event::Waiting(&wave.changes[step].object, &held_by));
        wave.steps[step].held_by = Some(held_by);
    }

    fn report(&mut self, event: Event<'_>) {
        let reported = self.observer.event(event);
        self.fail(reported);
    }

    /// Records the first failure of the observer.
    fn fail(&mut self, result: Result<(), String>) {
        if let Err(why) = result {
            self.result.failure.get_or_insert(why);
        }
    }
}
