//! The demo, and what it shares with the other tasks. A separate package, because somebody who tries the project waits
//! until all that the demo needs is compiled: `anyhow` is its only dependency.

pub mod demo;
pub mod files;

use std::path::{Path, PathBuf};

/// Returns the folder of the workspace's `Cargo.toml`. It does not depend on the working directory.
pub fn workspace_root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest).to_path_buf()
}

/// Prints progress on stderr, so that scripts can read the result on stdout.
#[expect(clippy::print_stderr, reason = "a task reports its progress")]
pub fn say(message: impl AsRef<str>) {
    eprintln!("{}", message.as_ref());
}

/// Prints the result of a task on stdout.
#[expect(clippy::print_stdout, reason = "the result of a task")]
pub fn answer(message: impl AsRef<str>) {
    println!("{}", message.as_ref());
}
