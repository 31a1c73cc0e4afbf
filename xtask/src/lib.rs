//! Tasks of the project. A library, because the tests start the same control plane as `cargo xtask`.
//!
//! * [`actions`] runs the action for GitHub and the component for GitLab.
//! * [`bench`] measures how long the commands take.
//! * [`controlplane`] builds the programs of a test cluster.
//! * [`cluster`] runs these programs.
//! * [`dist`] makes the archives and manifests of a release.
//! * [`debian`] unpacks programs of Debian.
//! * [`python`] installs the programs that are Python packages.
//! * [`git`] runs git in the repositories of tests.
//! * [`oracle`] compares plans with the real kustomize-controller.
//! * [`picture`] draws the plan of the demo.

pub mod actions;
pub mod bench;
pub mod browser;
mod child;
pub mod cluster;
pub mod controlplane;
pub mod debian;
pub mod dependencies;
pub mod dist;
pub mod fuzz;
pub mod git;
pub mod leaks;
mod lock;
pub mod man;
pub mod mutants;
pub mod oracle;
pub mod picture;
pub mod python;
pub mod record;
pub mod schemas;
pub mod shells;
pub mod test;
pub mod tool;

use std::fmt;
use std::path::PathBuf;

pub use launch::{answer, demo, files, say, workspace_root};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Error of a command line that names no task.
#[derive(Debug)]
pub struct Usage;

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such task")
    }
}

impl std::error::Error for Usage {}

/// Returns the folder for all output of the tasks. `cargo clean` removes it.
pub fn target_dir() -> PathBuf {
    workspace_root().join("target")
}

/// Returns the string at a JSON pointer, or an empty one.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the items of the array at a JSON pointer, if it is one.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the SHA-256 of `bytes` in lower-case hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns `bytes` in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
