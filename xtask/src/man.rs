//! `cargo xtask man`: writes the man pages anew; a test compares them with the command line.

use anyhow::Result;

use crate::tool;

/// Writes `man/`.
pub fn run() -> Result<()> {
    tool::run(&tool::build(false)?, &["man", "man"])
}
