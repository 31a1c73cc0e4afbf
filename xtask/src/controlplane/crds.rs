//! Custom resource definitions of Flux and the Flux operator, read from the downloaded Go modules.
//!
//! They are read when a test needs them and never committed here: some have another licence than this project.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{dir, go, lock};
use crate::say;

/// A Go module with CRDs in `config/crd/bases`.
#[derive(Debug)]
struct CrdSet {
    name: &'static str,
    module: &'static str,
    version: &'static str,
}

const fn set(name: &'static str, module: &'static str, version: &'static str) -> CrdSet {
    CrdSet { name, module, version }
}

const SETS: &[CrdSet] = &[
    set("kustomize-controller", "github.com/fluxcd/kustomize-controller", "v1.9.5"),
    set("source-controller", "github.com/fluxcd/source-controller", "v1.9.3"),
    set("helm-controller", "github.com/fluxcd/helm-controller", "v1.6.3"),
    set("source-watcher", "github.com/fluxcd/source-watcher/v2", "v2.2.2"),
    set("notification-controller", "github.com/fluxcd/notification-controller", "v1.9.3"),
    set("image-reflector-controller", "github.com/fluxcd/image-reflector-controller", "v1.1.1"),
    set("image-automation-controller", "github.com/fluxcd/image-automation-controller", "v1.1.2"),
    set("flux-operator", "github.com/controlplaneio-fluxcd/flux-operator", "v0.58.1"),
];

/// Returns the names of all sets.
pub fn names() -> Vec<&'static str> {
    SETS.iter().map(|set| set.name).collect()
}

/// Returns the folder with the CRDs of `name`. [`ensure`] creates it.
pub fn folder(name: &str) -> PathBuf {
    dir().join("crds").join(name)
}

/// Reads the sets that are missing or have another version.
pub fn ensure(names: &[&str]) -> Result<()> {
    let wanted = names.iter().map(|name| find(name)).collect::<Result<Vec<_>>>()?;
    if wanted.iter().all(|set| is_fresh(set)) {
        return Ok(());
    }
    let _lock = lock()?;
    wanted.iter().filter(|set| !is_fresh(set)).try_for_each(|set| read(set))
}

fn find(name: &str) -> Result<&'static CrdSet> {
    SETS.iter().find(|set| set.name == name).with_context(|| format!("no CRDs are called {name}"))
}

fn is_fresh(set: &CrdSet) -> bool {
    fs::read_to_string(folder(set.name).join("version")).is_ok_and(|version| version == set.version)
}

fn read(set: &CrdSet) -> Result<()> {
    say(format!("reading the CRDs of {} {}", set.name, set.version));
    let bases = download(set)?.join("config/crd/bases");
    let target = folder(set.name);
    let temporary = target.with_extension("reading");
    let _ = fs::remove_dir_all(&temporary);
    fs::create_dir_all(&temporary).with_context(|| format!("cannot create {}", temporary.display()))?;
    for entry in fs::read_dir(&bases).with_context(|| format!("cannot list {}", bases.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            // Not `fs::copy`: it keeps the read-only mode of the module cache, and `cargo clean` could not remove the file.
            fs::write(temporary.join(path.file_name().unwrap_or_default()), fs::read(&path)?)?;
        }
    }
    fs::write(temporary.join("version"), set.version)?;
    let _ = fs::remove_dir_all(&target);
    fs::rename(&temporary, &target).with_context(|| format!("cannot move {} into place", target.display()))
}

fn download(set: &CrdSet) -> Result<PathBuf> {
    let module = format!("{}@{}", set.module, set.version);
    // Run outside every module, so that go changes no go.sum.
    let output = go(&std::env::temp_dir())
        .args(["mod", "download", "-json", &module])
        .output()
        .context("cannot run go; reading the CRDs needs it on the PATH")?;
    let answer: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("go mod download {module}: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
    let folder = answer["Dir"].as_str().map(Path::new).map(Path::to_path_buf);
    folder.with_context(|| format!("go mod download {module}: {}", answer["Error"].as_str().unwrap_or("no folder")))
}
