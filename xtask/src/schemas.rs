//! `cargo xtask schemas`: writes the JSON Schemas to `docs/schemas`. A test compares them with the types.

use std::process::Command;

use anyhow::{Context, Result};

use crate::{child, workspace_root};

/// Writes the schemas of all documents. Fails if a change would break programs that read or write the documents.
pub fn run() -> Result<()> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--quiet", "--test", "offline", "schemas::write_schemas", "--", "--ignored", "--exact"]);
    child::run(cargo.current_dir(workspace_root())).context("the schemas were not written")
}
