//! `cargo xtask cluster …`: a cluster that runs until `cluster down`.

use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{Cluster, Flux, Options};
use crate::{Usage, answer, say};

/// Runs a subcommand. The error is [`Usage`] if there is no such subcommand.
pub fn dispatch(words: &[&str]) -> Result<()> {
    match words {
        ["up", "--dir", dir] => up(dir, Flux::None),
        ["up", "--dir", dir, flux] | ["up", flux, "--dir", dir] => up(dir, parse_flux(flux)?),
        ["publish", "--dir", dir, what] => publish(dir, what),
        ["down", "--dir", dir] => Cluster::down(dir),
        _ => bail!(Usage),
    }
}

fn parse_flux(flag: &str) -> Result<Flux> {
    match flag {
        "--flux" => Ok(Flux::Kustomize),
        "--flux=all" => Ok(Flux::All),
        "--flux=crds" => Ok(Flux::Crds),
        _ => bail!(Usage),
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
