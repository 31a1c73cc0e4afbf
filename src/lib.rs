//! The command line `kubectl gitops` and its adapters. The rules are in the crate `gitops_core`, which does no I/O.
//!
//! `commands` runs the verbs, `cluster` talks to the API server, `tools` runs programs and reads files, `output` renders
//! and prints. `controller` is the API for controllers that honour a suspension.

#![cfg_attr(not(test), warn(clippy::match_bool))]

pub mod cli;
pub mod cluster;
pub mod commands;
pub mod controller;
pub mod error;
pub mod exit;
pub mod name;
pub mod output;
#[cfg(feature = "schema")]
pub mod schema;
pub mod suggest;
pub mod tools;
pub mod usage;
