//! `cargo xtask man`: writes the man pages. A test compares them with the command line.

use anyhow::Result;

use crate::tool;

/// Writes the man pages to `man/`.
pub fn run() -> Result<()> {
    tool::run(&tool::build(false)?, &["man", "man"])
}
