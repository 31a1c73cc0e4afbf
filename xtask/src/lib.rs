//! The project's own tasks, as a library, so that tests can use the same control plane that `cargo xtask` starts.
//!
//! * [`bench`] measures.
//! * [`controlplane`] builds the programs that a cluster consists of.
//! * [`cluster`] runs them.
//! * [`git`] makes the repositories that tests need.
//! * [`oracle`] compares plans with what the real controllers do on them.

pub mod bench;
pub mod cluster;
pub mod controlplane;
pub mod demo;
pub mod git;
pub mod man;
pub mod oracle;
pub mod record;
pub mod test;
pub mod tool;

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The folder of the workspace's `Cargo.toml`, wherever a task is started from.
pub fn workspace_root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Where everything that is made goes: never outside, so that `cargo clean` removes it all.
pub fn target_dir() -> PathBuf {
    workspace_root().join("target")
}

/// Tells the person who waits what is going on; on stderr, so that answers on stdout can be used in scripts.
#[expect(clippy::print_stderr, reason = "a task runner talks to the person who started it")]
pub fn say(message: impl AsRef<str>) {
    eprintln!("{}", message.as_ref());
}

/// Prints what a task was asked for, on stdout.
#[expect(clippy::print_stdout, reason = "the answer of a task")]
pub fn answer(message: impl AsRef<str>) {
    println!("{}", message.as_ref());
}

/// The SHA-256 of `bytes` in lower-case hexadecimal, the form that artifacts and stamps use.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
