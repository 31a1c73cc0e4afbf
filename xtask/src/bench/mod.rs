//! `cargo xtask bench`: measures how long commands take, compared with the programs that do the same work or that they run.
//!
//! It is not a test: the times depend on the machine and are only printed beside their targets. Each case fills a cluster and
//! gives programs to [`measure::Times`], which runs them in turn; medians are compared.

mod commit;
mod curl;
mod deletion;
mod inventory;
mod measure;
mod objects;
mod releases;
mod report;
mod seed;
mod server;
mod suspension;
mod tree;

use anyhow::Result;

use crate::Usage;

/// Runs the benchmark that the options name. The error is [`Usage`] for unknown options.
pub fn dispatch(words: &[&str]) -> Result<()> {
    match words {
        ["--kustomizations", count] => suspension::run(number(count)?),
        ["--releases", count] => releases::run(number(count)?),
        ["--prune", count] => deletion::run(number(count)?),
        ["--tree"] => tree::run(tree::Size::USUAL),
        ["--tree", "--kustomizations", count] => tree::run(tree::Size::fleet(number(count)?)),
        _ => inventory::run(inventory::Options::parse(words)?),
    }
}

fn number(word: &str) -> Result<usize, Usage> {
    word.parse().map_err(|_| Usage)
}
