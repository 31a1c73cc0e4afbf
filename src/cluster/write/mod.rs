//! Requests that change objects or ask the server to pretend: dry-run apply, merge patch, pinned DELETE, plan execution.

pub(crate) mod delete;
pub(crate) mod dry_run;
pub(crate) mod execute;
pub(crate) mod observer;
pub(crate) mod patch;
mod reading;
mod schedule;
pub(crate) mod signals;
mod step;
pub(crate) mod wait;
mod wave;
