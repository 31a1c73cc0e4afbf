//! Options of an execution, and the party that follows it.

use std::time::Duration;

use serde_json::Value;

use gitops_core::kubernetes::object::ObjectId;
use gitops_core::plan::Change;
use gitops_core::plan::outcome::Event;

/// Options of an execution.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Time to wait for each object to be gone, and for each answer of the server.
    pub timeout: Duration,
    /// Objects in the order of deletion, wave by wave. Objects that it does not name follow in Flux's order.
    pub waves: Vec<Vec<ObjectId>>,
    /// Maximum number of objects of one wave that are deleted at the same time.
    pub parallel: usize,
    /// Time after a reading of the owners in which it serves; [`OWNERS_AGE`] but in tests.
    pub owners_age: Duration,
}

/// Time after a reading of the owners in which it serves for the next deletions.
pub const OWNERS_AGE: Duration = Duration::from_millis(200);

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
