//! Programs of a test cluster, built from pinned Go modules.
//!
//! Each program has its own module under `tests/controlplane/`, because the dependencies conflict. A stamp records the
//! inputs of each build; when a pin changes, the program is built again.

pub mod crds;
mod source;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use self::source::Source;
use crate::{lock, say, sha256_hex, target_dir, workspace_root};

/// A program and the Go package that it is built from.
#[derive(Debug)]
struct Binary {
    name: &'static str,
    /// Name of a folder under `tests/controlplane/`.
    module: &'static str,
    package: &'static str,
    /// Linker flags in addition to those of every program.
    ldflags: &'static str,
    /// Build tags.
    tags: &'static str,
    /// Set if the program is built in a copy of its module.
    source: Option<Source>,
}

/// Version of kubectl and of the API server. Without this flag both report v0.0.0, which kubectl cannot parse.
const KUBERNETES_VERSION: &str = "-X k8s.io/component-base/version.gitVersion=v1.36.3";

const fn binary(name: &'static str, module: &'static str, package: &'static str) -> Binary {
    Binary { name, module, package, ldflags: "", tags: "", source: None }
}

const fn kubernetes(name: &'static str, package: &'static str) -> Binary {
    Binary { ldflags: KUBERNETES_VERSION, ..binary(name, "kubernetes", package) }
}

/// The command line of Flux. It embeds the manifests of a release, which are not in its module.
const FLUX: Binary = Binary {
    ldflags: "-X main.VERSION=2.9.4",
    source: Some(Source {
        module: "github.com/fluxcd/flux2/v2",
        placeholder: "cmd/flux/manifests/placeholder.yaml",
        replaced: None,
    }),
    ..binary("flux", "flux", "./cmd/flux")
};

/// A program of flux-operator. Both embed a web page, which is not in their module.
const fn flux_operator(name: &'static str, package: &'static str) -> Binary {
    Binary {
        source: Some(Source {
            module: "github.com/controlplaneio-fluxcd/flux-operator",
            placeholder: "web/dist/placeholder.txt",
            replaced: Some("github.com/google/go-containerregistry/pkg/authn/kubernetes"),
        }),
        ..binary(name, "flux-operator", package)
    }
}

/// Tests alert rules, for which it needs none of the service discoveries of Prometheus.
const PROMTOOL: Binary =
    Binary { tags: "remove_all_sd", ..binary("promtool", "promtool", "github.com/prometheus/prometheus/cmd/promtool") };

/// All programs in build order: those that every cluster needs come first.
const BINARIES: &[Binary] = &[
    binary("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    kubernetes("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    kubernetes("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    kubernetes("resident-kubectl", "."),
    binary("kustomize-controller", "kustomize-controller", "github.com/fluxcd/kustomize-controller"),
    binary("source-controller", "source-controller", "github.com/fluxcd/source-controller"),
    binary("helm-controller", "helm-controller", "github.com/fluxcd/helm-controller"),
    binary("source-watcher", "source-watcher", "github.com/fluxcd/source-watcher/v2/cmd"),
    binary("kustomize", "kustomize", "sigs.k8s.io/kustomize/kustomize/v5"),
    binary("actionlint", "actionlint", "github.com/rhysd/actionlint/cmd/actionlint"),
    binary("krew", "krew", "sigs.k8s.io/krew/cmd/krew"),
    binary("validate-krew-manifest", "krew", "sigs.k8s.io/krew/cmd/validate-krew-manifest"),
    FLUX,
    flux_operator("flux-operator", "./cmd/cli"),
    flux_operator("flux-operator-controller", "./cmd/operator"),
    binary("qbec", "qbec", "github.com/splunk/qbec"),
    binary("fluxd", "fluxd", "github.com/fluxcd/flux/cmd/fluxd"),
    binary("kapp", "kapp", "carvel.dev/kapp/cmd/kapp"),
    binary("helm", "helm", "helm.sh/helm/v4/cmd/helm"),
    binary("registry", "registry", "github.com/distribution/distribution/v3/cmd/registry"),
    binary("kube-state-metrics", "kube-state-metrics", "k8s.io/kube-state-metrics/v2"),
    binary("kustomize-judge", "kustomize-judge", "."),
    binary("text-judge", "text-judge", "."),
];

/// Programs that only one task needs. They are built if they are named.
const ON_REQUEST: &[Binary] = &[
    binary("act", "act", "github.com/nektos/act"),
    binary("flate", "flate", "github.com/home-operations/flate/cmd/flate"),
    binary("opa", "opa", "github.com/open-policy-agent/opa"),
    PROMTOOL,
];

/// Returns the names of all programs of the tests in build order.
pub fn names() -> Vec<&'static str> {
    BINARIES.iter().map(|binary| binary.name).collect()
}

/// `cargo xtask controlplane [NAME…]`: builds the missing programs; without names it also reads the CRDs.
pub fn command(names: &[&str]) -> Result<()> {
    if names.is_empty() {
        ensure(&self::names())?;
        return crds::ensure(&crds::names());
    }
    ensure(names)
}

/// Returns the path of a program that [`ensure`] builds. etcd and kube-apiserver are in `KUBEBUILDER_ASSETS` if it is set.
pub fn bin(name: &str) -> PathBuf {
    from_assets(name).unwrap_or_else(|| dir().join("bin").join(name))
}

/// Builds the programs that are missing or were built from other inputs. Several processes may call it at once.
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
    let found = BINARIES.iter().chain(ON_REQUEST).find(|binary| binary.name == name);
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

/// Returns a hash of all inputs of a build: pins, package, linker flags, tags, and the source of a program of this project.
fn stamp(binary: &Binary) -> Result<String> {
    let folder = module_dir(binary);
    let mut input = format!("{}\n{}\n", binary.package, ldflags(binary));
    if !binary.tags.is_empty() {
        input += &format!("{}\n", binary.tags);
    }
    let own: &[&str] = if binary.package == "." { &["main.go"] } else { &[] };
    for file in ["go.mod", "go.sum"].iter().chain(own) {
        let path = folder.join(file);
        input += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(sha256_hex(input.as_bytes()))
}

fn build(binary: &Binary, stamp: &str) -> Result<()> {
    let target = bin(binary.name);
    let temporary = target.with_extension("building");
    create_parent(&target)?;
    let folder = match &binary.source {
        Some(source) => source.copy(&module_dir(binary))?,
        None => module_dir(binary),
    };
    go(&folder)
        .args(["build", "-trimpath", "-buildvcs=false", "-tags", binary.tags, "-ldflags", &ldflags(binary), "-o"])
        .arg(&temporary)
        .arg(binary.package)
        .env("CGO_ENABLED", "0")
        .status()
        .context("cannot run go; building the control plane needs it on the PATH")?
        .success()
        .then_some(())
        .with_context(|| format!("go build {} failed in {}", binary.package, module_dir(binary).display()))?;
    // Remove the old stamp first and write the new one last: after an interruption the program is built again.
    let _ = fs::remove_file(stamp_file(binary));
    fs::rename(&temporary, &target).with_context(|| format!("cannot move {} into place", target.display()))?;
    create_parent(&stamp_file(binary))?;
    fs::write(stamp_file(binary), stamp).with_context(|| format!("cannot write the stamp of {}", binary.name))
}

/// Returns a `go` command that runs in `folder` and ignores workspaces.
pub(crate) fn go(folder: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(folder).env("GOWORK", "off");
    command
}

/// Locks `target/controlplane`. Waits while another process builds.
pub(crate) fn lock() -> Result<File> {
    lock::exclusive(&dir().join("lock"), "another build of the control plane")
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
