//! The wave under way: its steps, and the activities that run for them. Activities share nothing; each ends with a value.

use std::collections::HashMap;
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::reading::{Content, OwnerLists};
use super::schedule::Schedule;
use super::step::{Deletion, Look, Preparation, Sent};
use crate::cluster::http::failure::Failure;
use crate::cluster::read::discovery::Discovered;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::plan::outcome::DeletionResult;
use gitops_core::plan::{Change, Reason};

/// End of an activity. Numbers are positions in the wave.
pub(super) enum Done {
    Cluster(Box<Result<Snapshot, Failure>>),
    Discovered(usize, Result<Discovered, Failure>),
    Listed(usize, Content, Result<Vec<ObjectMetadata>, Reason>),
    Looked(usize, Result<Box<Look>, DeletionResult>),
    OwnersListed(OwnerLists, Result<HashMap<ObjectId, ObjectMetadata>, Reason>),
    Owners(Result<Vec<(ObjectId, Option<Resource>)>, Reason>),
    Prepared(usize, Result<Preparation, Failure>),
    Sent(usize, Sent),
}

/// A step whose object is terminating, with what holds it.
pub(super) type Waiting = (usize, Vec<String>);

/// The wave under way.
pub(super) struct Wave<'w, 'p> {
    pub(super) changes: &'w [&'p Change],
    pub(super) schedule: Schedule,
    pub(super) steps: Vec<Step>,
    pub(super) activities: FuturesUnordered<LocalBoxFuture<'p, Done>>,
    pub(super) waiting: UnboundedReceiver<Waiting>,
    waiting_sender: UnboundedSender<Waiting>,
    /// Number of steps that were reported.
    pub(super) reported: usize,
    /// The cluster is being read a second time, because the first reading had a gap that the plan did not have.
    pub(super) is_read_again: bool,
    /// The owners are being read a second time, because the first reading failed.
    pub(super) are_owners_read_again: bool,
}

/// A deletion in its wave.
#[derive(Default)]
pub(super) struct Step {
    /// Number of attempts that failed, and the failure that counts.
    pub(super) attempts: usize,
    pub(super) failed: Option<Failure>,
    pub(super) look: Option<Look>,
    pub(super) end: Option<Instant>,
    /// Finalizers that hold the object, once it is terminating.
    pub(super) held_by: Option<Vec<String>>,
    pub(super) result: Option<DeletionResult>,
}

impl<'w, 'p> Wave<'w, 'p> {
    pub(super) fn new(changes: &'w [&'p Change], parallel: usize, owners_age: Duration) -> Self {
        let (waiting_sender, waiting) = unbounded_channel();
        Self {
            changes,
            schedule: Schedule::new(changes.len(), parallel, owners_age),
            steps: changes.iter().map(|_| Step::default()).collect(),
            activities: FuturesUnordered::new(),
            waiting,
            waiting_sender,
            reported: 0,
            is_read_again: false,
            are_owners_read_again: false,
        }
    }

    pub(super) fn begin(&self, activity: impl Future<Output = Done> + 'p) {
        self.activities.push(activity.boxed_local());
    }

    /// Returns a function that reports what holds the object of a step.
    pub(super) fn report_of_waiting(&self, step: usize) -> impl FnMut(&[String]) + use<> {
        let sender = self.waiting_sender.clone();
        move |held_by| drop(sender.send((step, held_by.to_vec())))
    }

    /// Returns the deletion of a step that was looked at. The time to wait begins with the first attempt.
    pub(super) fn deletion(&mut self, step: usize, timeout: Duration) -> Deletion {
        let step = &mut self.steps[step];
        let end = *step.end.get_or_insert_with(|| Instant::now() + timeout);
        let look = step.look.clone().expect("a step that was looked at");
        Deletion { look, has_failed: step.failed.is_some(), end }
    }
}
