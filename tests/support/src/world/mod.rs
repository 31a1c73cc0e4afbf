//! An API server in memory, with state: objects, types, cascading deletion, preconditions. Before every request, an actor
//! may change something, as other people and controllers do. A witness with simple rules of its own judges each DELETE.
//!
//! It serves one connection in the process, without sockets, so that a run takes milliseconds and a seed repeats it.
//!
//! ```ignore
//! let world = World::new(seed);
//! let cluster = world.connect();
//! …                                   // plan
//! world.expect(&plan);                // what the witness compares deletions with
//! world.wait_for_answer();            // the actor acts while somebody reads the plan
//! execute(&cluster, …).await;
//! assert_eq!(world.violations(), [""; 0]);
//! ```

mod actor;
mod objects;
mod requests;
mod witness;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gitops_core::plan::{Plan, ReasonCode};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use kubectl_gitops::cluster::Cluster;
use serde_json::Value;

use crate::random::Random;

/// Plural, namespace and name.
pub(crate) type Key = (&'static str, String, String);

/// A type that the server knows, served or not.
pub(crate) struct Type {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) namespaced: bool,
}

/// The server; clones share it.
#[derive(Clone)]
pub struct World(Arc<Mutex<State>>);

pub(crate) struct State {
    pub(crate) objects: BTreeMap<Key, Value>,
    /// Served types by plural, with the time since when.
    pub(crate) served: HashMap<&'static str, u64>,
    /// Number of requests so far.
    pub(crate) clock: u64,
    pub(crate) revision: u64,
    pub(crate) random: Random,
    /// The actor acts before one of so many requests; 0 is never.
    pub(crate) activity: usize,
    /// Set when the token has expired.
    pub(crate) expired: bool,
    /// Uids whose deletion a webhook refuses, and those that it has refused.
    pub(crate) denied: HashSet<String>,
    pub(crate) refused: HashSet<String>,
    pub(crate) history: History,
    pub(crate) expected: Expected,
    pub(crate) violations: Vec<String>,
    /// Uids that a DELETE of the client removed, by itself or by its cascade.
    pub(crate) deleted: HashSet<String>,
    pub(crate) deletions: usize,
    /// True if the client sends one request after another.
    pub(crate) is_sequential: bool,
}

/// Times of changes and of reads, as numbers of requests.
#[derive(Default)]
pub(crate) struct History {
    /// Last change of each object, or its removal.
    pub(crate) changed: HashMap<Key, u64>,
    /// Last GET of each object.
    pub(crate) gets: HashMap<Key, u64>,
    /// Last list of each type, in one namespace or, with an empty one, in all.
    pub(crate) lists: HashMap<(&'static str, String), u64>,
    pub(crate) discovery: u64,
    /// Beginning of the execution, and the last DELETE that was meant.
    pub(crate) execution: u64,
    pub(crate) last_delete: u64,
}

/// The plan that the user has confirmed.
#[derive(Default)]
pub(crate) struct Expected {
    /// Uids of all rows that delete.
    pub(crate) rows: HashSet<String>,
    /// Labels of the rows when the plan was made, by uid.
    pub(crate) labels: HashMap<String, Value>,
    /// Uids of the roots that are orphaned.
    pub(crate) orphaned: HashSet<String>,
}

impl World {
    /// Creates the cluster of a seed.
    pub fn new(seed: u64) -> Self {
        let mut state = State {
            objects: BTreeMap::new(),
            served: HashMap::new(),
            clock: 0,
            revision: 100,
            random: Random::new(seed),
            activity: 0,
            expired: false,
            denied: HashSet::new(),
            refused: HashSet::new(),
            history: History::default(),
            expected: Expected::default(),
            violations: vec![],
            deleted: HashSet::new(),
            deletions: 0,
            is_sequential: true,
        };
        state.populate();
        Self(Arc::new(Mutex::new(state)))
    }

    /// Connects a client in this process.
    pub fn connect(&self) -> Cluster {
        let world = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let world = world.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                let answer = world.state().answer(&parts, &body);
                Ok::<_, Infallible>(answer.map(Full::from) as Response<Full<bytes::Bytes>>)
            }
        });
        Cluster::with_client(kube::Client::new(service, "default"), "https://world.invalid")
    }

    /// Sets how often the actor acts: before one of so many requests; 0 is never.
    pub fn set_activity(&self, activity: usize) {
        self.state().activity = activity;
    }

    /// Records the plan that the user has confirmed, and how the client executes it.
    pub fn expect(&self, plan: &Plan, is_sequential: bool) {
        let mut state = self.state();
        let rows: HashSet<String> = plan.deletions().map(|change| change.object.uid.clone()).collect();
        let own = state.objects.values().filter(|object| rows.contains(objects::uid(object)));
        let labels = own.map(|object| (objects::uid(object).to_owned(), objects::claim(object))).collect();
        let orphaned = plan.roots().filter(|change| change.reason.code == ReasonCode::Orphaned);
        let orphaned = orphaned.map(|change| change.object.uid.clone()).collect();
        state.expected = Expected { rows, labels, orphaned };
        state.is_sequential = is_sequential;
    }

    /// Lets the actor act several times, as while somebody reads the plan, and begins the execution.
    pub fn wait_for_answer(&self) {
        let mut state = self.state();
        for _ in 0..state.random.below(4) {
            state.act();
        }
        state.history.execution = state.clock;
        state.history.last_delete = state.clock;
    }

    /// Returns what the witness saw that must not happen.
    pub fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }

    /// Returns true if an object of this uid exists and is not terminating.
    pub fn is_alive(&self, uid: &str) -> bool {
        let state = self.state();
        state
            .objects
            .values()
            .any(|object| objects::uid(object) == uid && object["metadata"]["deletionTimestamp"].is_null())
    }

    /// Returns true if the client deleted the object of this uid, by itself or by a cascade.
    pub fn was_deleted(&self, uid: &str) -> bool {
        self.state().deleted.contains(uid)
    }

    /// Number of deletions that the client sent and the server accepted.
    pub fn deletions(&self) -> usize {
        self.state().deletions
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
