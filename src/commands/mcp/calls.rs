//! Calls of tools. They run on threads of their own, so that the server answers other requests in the meantime, and calls can be
//! cancelled.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::thread;

use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::tools::Call;
use super::{Event, success};

/// Number of tasks that run at once. Each can read a whole cluster and run several programs.
const TASKS_AT_ONCE: usize = 2;

/// A message: the answers to its requests as far as they are known, and calls of tools.
pub(super) struct Task {
    pub(super) parts: Vec<TaskPart>,
    pub(super) is_batch: bool,
}

/// A request of a task.
pub(super) enum TaskPart {
    Answer(Value),
    Call { id: Value, call: Box<Call> },
}

/// Tasks that are not answered yet.
pub(super) struct Calls {
    waiting: VecDeque<Task>,
    running: Vec<Running>,
    /// Number of tasks so far.
    begun: u64,
    events: Sender<Event>,
}

/// A task on a thread of its own.
struct Running {
    number: u64,
    ids: Vec<Value>,
    is_batch: bool,
    /// Ends the task when it is dropped; `None` for a task that is cancelled.
    cancel: Option<oneshot::Sender<()>>,
}

impl Task {
    /// Returns the ids of the calls.
    fn ids(&self) -> impl Iterator<Item = &Value> {
        self.parts.iter().filter_map(|part| match part {
            TaskPart::Call { id, .. } => Some(id),
            TaskPart::Answer(_) => None,
        })
    }

    /// Makes the calls, and returns the answer to the message; `None` if it has no request.
    async fn answer(self) -> Option<Value> {
        let mut answers = vec![];
        for part in self.parts {
            answers.push(match part {
                TaskPart::Answer(answer) => answer,
                TaskPart::Call { id, call } => success(&id, call.run().await),
            });
        }
        join(answers, self.is_batch)
    }
}

/// Returns the answers of a message as one.
fn join(mut answers: Vec<Value>, is_batch: bool) -> Option<Value> {
    if is_batch && !answers.is_empty() { Some(answers.into()) } else { answers.pop() }
}

impl Calls {
    pub(super) fn new(events: Sender<Event>) -> Self {
        Self { waiting: VecDeque::new(), running: vec![], begun: 0, events }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Returns true if a call with this id is not answered yet.
    pub(super) fn has(&self, id: &Value) -> bool {
        let mut running = self.running.iter().filter(|task| task.cancel.is_some()).flat_map(|task| &task.ids);
        running.any(|known| known == id) || self.waiting.iter().any(|task| task.ids().any(|known| known == id))
    }

    /// Adds a task. Returns its answer if it calls no tool.
    pub(super) fn add(&mut self, task: Task) -> Option<Value> {
        if task.ids().next().is_some() {
            self.waiting.push_back(task);
            return None;
        }
        let answers = task.parts.into_iter().filter_map(|part| match part {
            TaskPart::Answer(answer) => Some(answer),
            TaskPart::Call { .. } => None,
        });
        join(answers.collect(), task.is_batch)
    }

    /// Begins tasks that wait, as far as they may run.
    pub(super) fn begin(&mut self) {
        while self.running.len() < TASKS_AT_ONCE
            && let Some(task) = self.waiting.pop_front()
        {
            self.begun += 1;
            let (number, events, runtime) = (self.begun, self.events.clone(), Handle::current());
            let (cancel, is_cancelled) = oneshot::channel::<()>();
            let (ids, is_batch) = (task.ids().cloned().collect(), task.is_batch);
            self.running.push(Running { number, ids, is_batch, cancel: Some(cancel) });
            thread::spawn(move || {
                let answer = runtime.block_on(async {
                    tokio::select! {
                        answer = task.answer() => answer,
                        _ = is_cancelled => None,
                    }
                });
                // The server may have ended because its output was closed.
                let _ = events.send(Event::Answered { number, answer: answer.unwrap_or_default() });
            });
        }
    }

    /// Removes a task that ended. Returns true if somebody waits for its answer.
    pub(super) fn end(&mut self, number: u64) -> bool {
        let ended = self.running.iter().position(|task| task.number == number);
        ended.is_some_and(|at| self.running.swap_remove(at).cancel.is_some())
    }

    /// Cancels a call: it has no answer. A batch is answered as a whole, so its calls are not cancelled.
    pub(super) fn cancel(&mut self, id: &Value) {
        self.waiting.retain(|task| task.is_batch || task.ids().all(|waiting| waiting != id));
        if let Some(task) = self.running.iter_mut().find(|task| !task.is_batch && task.ids.contains(id)) {
            task.cancel = None;
        }
    }
}
