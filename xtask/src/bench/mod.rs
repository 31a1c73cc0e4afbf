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

/// Runs the benchmark that the options name. Returns `None` for unknown options.
pub fn dispatch(words: &[&str]) -> Option<Result<()>> {
    Some(match words {
        ["--kustomizations", count] => suspension::run(count.parse().ok()?),
        ["--releases", count] => releases::run(count.parse().ok()?),
        ["--prune", count] => deletion::run(count.parse().ok()?),
        ["--tree"] => tree::run(tree::Size::USUAL),
        ["--tree", "--kustomizations", count] => tree::run(tree::Size::fleet(count.parse().ok()?)),
        _ => inventory::run(inventory::Options::parse(words)?),
    })
}
