//! The programs that a test cluster and its neighbours consist of, built from pinned Go modules.
//!
//! Each lives in a module folder of its own under `tests/controlplane/`, because their dependencies exclude each other.
//! What is built carries a stamp of everything that decided it, so a changed pin is never served an old binary.

pub mod crds;

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{say, sha256_hex, target_dir, workspace_root};

/// One program: what it is called and what it is made of.
#[derive(Debug)]
struct Binary {
    name: &'static str,
    /// Folder under `tests/controlplane/`.
    module: &'static str,
    package: &'static str,
    /// Added to the linker flags that every program gets.
    ldflags: &'static str,
}

/// kubectl compares this with the server's and refuses what it cannot parse; without it both say v0.0.0.
const KUBERNETES_VERSION: &str = "-X k8s.io/component-base/version.gitVersion=v1.36.3";

const fn binary(name: &'static str, module: &'static str, package: &'static str) -> Binary {
    Binary { name, module, package, ldflags: "" }
}

const fn kubernetes(name: &'static str, package: &'static str) -> Binary {
    Binary { name, module: "kubernetes", package, ldflags: KUBERNETES_VERSION }
}

/// Every program, those that everything needs first.
const BINARIES: &[Binary] = &[
    binary("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    kubernetes("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    kubernetes("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    binary("kustomize-controller", "kustomize-controller", "github.com/fluxcd/kustomize-controller"),
    binary("source-controller", "source-controller", "github.com/fluxcd/source-controller"),
    binary("helm-controller", "helm-controller", "github.com/fluxcd/helm-controller"),
    binary("kustomize", "kustomize", "sigs.k8s.io/kustomize/kustomize/v5"),
    binary("krew", "krew", "sigs.k8s.io/krew/cmd/krew"),
    binary("validate-krew-manifest", "krew", "sigs.k8s.io/krew/cmd/validate-krew-manifest"),
    binary("qbec", "qbec", "github.com/splunk/qbec"),
    binary("fluxd", "fluxd", "github.com/fluxcd/flux/cmd/fluxd"),
    binary("kapp", "kapp", "carvel.dev/kapp/cmd/kapp"),
    binary("helm", "helm", "helm.sh/helm/v4/cmd/helm"),
    binary("kube-state-metrics", "kube-state-metrics", "k8s.io/kube-state-metrics/v2"),
];

/// The names of every program of the table, in the order in which they are built.
pub fn names() -> Vec<&'static str> {
    BINARIES.iter().map(|binary| binary.name).collect()
}

/// `cargo xtask controlplane [NAME…]`: builds what is missing, and reads the CRDs when everything is asked for.
pub fn command(names: &[&str]) -> Result<()> {
    if names.is_empty() {
        ensure(&self::names())?;
        return crds::ensure(&crds::names());
    }
    ensure(names)
}

/// Where the program lies once [`ensure`] has made it; etcd and kube-apiserver come from `KUBEBUILDER_ASSETS` if it is
/// set, as controller developers have them there.
pub fn bin(name: &str) -> PathBuf {
    from_assets(name).unwrap_or_else(|| dir().join("bin").join(name))
}

/// Builds those of `names` that are missing or were made from other inputs. Safe to call from several processes at once.
pub fn ensure(names: &[&str]) -> Result<()> {
    let wanted = names.iter().map(|name| find(name)).collect::<Result<Vec<_>>>()?;
    if missing(&wanted)?.is_empty() {
        return Ok(());
    }
    let _lock = lock()?;
    // Another process may have built them while this one waited.
    let missing = missing(&wanted)?;
    for (index, (binary, stamp)) in missing.iter().enumerate() {
        say(format!("[{}/{}] building {}", index + 1, missing.len(), binary.name));
        let start = Instant::now();
        build(binary, stamp)?;
        say(format!("[{}/{}] built {} in {:.0?}", index + 1, missing.len(), binary.name, start.elapsed()));
    }
    Ok(())
}

fn find(name: &str) -> Result<&'static Binary> {
    let found = BINARIES.iter().find(|binary| binary.name == name);
    found.with_context(|| format!("no program is called {name}; known are {}", names().join(", ")))
}

fn missing<'a>(wanted: &[&'a Binary]) -> Result<Vec<(&'a Binary, String)>> {
    let mut missing = Vec::new();
    for binary in wanted {
        if from_assets(binary.name).is_some() {
            continue;
        }
        let stamp = stamp(binary)?;
        let fresh = fs::read_to_string(stamp_file(binary)).is_ok_and(|recorded| recorded == stamp);
        if !fresh || !bin(binary.name).exists() {
            missing.push((*binary, stamp));
        }
    }
    Ok(missing)
}

/// Everything that decides what the program is: its pins, its package and how it is linked.
fn stamp(binary: &Binary) -> Result<String> {
    let folder = module_dir(binary);
    let mut input = format!("{}\n{}\n", binary.package, ldflags(binary));
    for file in ["go.mod", "go.sum"] {
        let path = folder.join(file);
        input += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(sha256_hex(input.as_bytes()))
}

fn build(binary: &Binary, stamp: &str) -> Result<()> {
    let target = bin(binary.name);
    let temporary = target.with_extension("building");
    create_parent(&target)?;
    go(&module_dir(binary))
        .args(["build", "-trimpath", "-buildvcs=false", "-ldflags", &ldflags(binary), "-o"])
        .arg(&temporary)
        .arg(binary.package)
        .env("CGO_ENABLED", "0")
        .status()
        .context("cannot run go; building the control plane needs it on the PATH")?
        .success()
        .then_some(())
        .with_context(|| format!("go build {} failed in {}", binary.package, module_dir(binary).display()))?;
    // The old stamp goes before the program changes and the new one comes after: an interruption means another build.
    let _ = fs::remove_file(stamp_file(binary));
    fs::rename(&temporary, &target).with_context(|| format!("cannot move {} into place", target.display()))?;
    create_parent(&stamp_file(binary))?;
    fs::write(stamp_file(binary), stamp).with_context(|| format!("cannot write the stamp of {}", binary.name))
}

/// A `go` command that runs in `folder` and looks at nothing around it.
pub(crate) fn go(folder: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(folder).env("GOWORK", "off");
    command
}

/// One lock for everything below `target/controlplane`: two builds at once only slow each other down.
pub(crate) fn lock() -> Result<File> {
    let path = dir().join("lock");
    create_parent(&path)?;
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => say("waiting for another build of the control plane"),
        Err(TryLockError::Error(error)) => bail!("cannot lock {}: {error}", path.display()),
    }
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

pub(crate) fn dir() -> PathBuf {
    target_dir().join("controlplane")
}

fn module_dir(binary: &Binary) -> PathBuf {
    workspace_root().join("tests/controlplane").join(binary.module)
}

fn stamp_file(binary: &Binary) -> PathBuf {
    dir().join("stamps").join(binary.name)
}

fn ldflags(binary: &Binary) -> String {
    format!("-s -w {}", binary.ldflags).trim_end().to_owned()
}

fn from_assets(name: &str) -> Option<PathBuf> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").filter(|assets| assets != OsStr::new(""))?;
    let path = Path::new(&assets).join(name);
    (matches!(name, "etcd" | "kube-apiserver") && path.exists()).then_some(path)
}

fn create_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))
}
