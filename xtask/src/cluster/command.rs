//! `cargo xtask cluster …`: a cluster that runs until `cluster down`.

use std::time::Instant;

use anyhow::{Context, Result};

use super::{Cluster, Flux, Options};
use crate::{answer, say};

/// Runs a subcommand. Returns `None` if there is no such subcommand.
pub fn dispatch(words: &[&str]) -> Option<Result<()>> {
    match words {
        ["up", "--dir", dir] => Some(up(dir, Flux::None)),
        ["up", "--dir", dir, flux] | ["up", flux, "--dir", dir] => Some(up(dir, parse_flux(flux)?)),
        ["publish", "--dir", dir, what] => Some(publish(dir, what)),
        ["down", "--dir", dir] => Some(Cluster::down(dir)),
        _ => None,
    }
}

fn parse_flux(flag: &str) -> Option<Flux> {
    match flag {
        "--flux" => Some(Flux::Kustomize),
        "--flux=all" => Some(Flux::All),
        "--flux=crds" => Some(Flux::Crds),
        _ => None,
    }
}

fn up(dir: &str, flux: Flux) -> Result<()> {
    let start = Instant::now();
    let cluster = Cluster::up(Options { dir: Some(dir.into()), flux, ..Options::default() })?;
    say(format!("the cluster is ready after {:.1?}", start.elapsed()));
    answer(cluster.kubeconfig().display().to_string());
    cluster.keep_running();
    Ok(())
}

fn publish(dir: &str, what: &str) -> Result<()> {
    let (source, path) = what.split_once('=').context("publish takes KIND/NAMESPACE/NAME=PATH")?;
    answer(Cluster::attach(dir)?.publish(source, path)?);
    Ok(())
}
