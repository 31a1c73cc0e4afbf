//! Tests that measure time. They run in a program of their own, which cargo runs beside no other, and one at a time.

#[expect(clippy::await_holding_lock, reason = "every test has a thread and a runtime of its own")]
mod client;
mod honouring_controller;
mod parallel_deletion;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test of this program runs, and keeps them waiting while the answer is held.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
