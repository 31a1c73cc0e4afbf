//! Installed by the real flux from a catalog on loopback, as RFC-0013 of Flux describes, and run and completed by it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;

use flate2::Compression;
use test_support::folder::{Folder, reports};
use test_support::gitops::binary;
use test_support::servers;
use xtask::controlplane;
use xtask::dist::{self, archive, manifests};

use crate::krew::{platform, sum};

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// Archive for flux with the program under test, in a folder of its own.
static ARCHIVE: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = reports().join("release-for-flux");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(platform().flux_archive(VERSION));
    archive::write(&path, &dist::flux_entries(platform(), &binary()).unwrap(), Compression::none()).unwrap();
    path
});

/// A home folder whose catalog has the plugin.
struct Flux {
    home: Folder,
    catalog: String,
}

impl Flux {
    fn new(name: &str, sum: String) -> Self {
        controlplane::ensure(&["flux"]).unwrap();
        let home = Folder::outside_checkouts(name);
        let archives = servers::files(ARCHIVE.parent().unwrap());
        let address = format!("{archives}/{}", ARCHIVE.file_name().unwrap().display());
        let manifest = manifests::flux(VERSION, &[(platform(), sum)]).replace(&platform().flux_url(VERSION), &address);
        home.write("catalog/gitops.yaml", manifest);
        home.write("catalog/catalog.yaml", manifests::flux_catalog());
        let catalog = format!("{}/", servers::files(&home.path().join("catalog")));
        Self { home, catalog }
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(controlplane::bin("flux"));
        command.args(args).env_clear().env("HOME", self.home.path()).env("TMPDIR", self.home.path());
        command.env("FLUXCD_PLUGIN_CATALOG", &self.catalog).env("PATH", "/usr/bin:/bin").output().unwrap()
    }

    fn succeed(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn flux_installs_runs_and_completes_the_plugin() {
    let flux = Flux::new("flux-plugin", sum(&ARCHIVE));
    assert!(flux.succeed(&["plugin", "search"]).contains("gitops"));
    flux.succeed(&["plugin", "install", "gitops"]);
    assert!(flux.succeed(&["plugin", "list"]).contains(env!("CARGO_PKG_VERSION")));
    assert_eq!(flux.succeed(&["gitops", "version"]), concat!("kubectl-gitops ", env!("CARGO_PKG_VERSION"), "\n"));

    // Help and messages name the program as the user does.
    let help = flux.succeed(&["gitops", "prune", "--help"]);
    assert!(help.contains("Usage: flux gitops prune") && !help.contains("kubectl gitops"), "{help}");
    let mistyped = flux.run(&["gitops", "prun"]);
    let message = String::from_utf8_lossy(&mistyped.stderr).into_owned();
    assert_eq!(mistyped.status.code(), Some(2));
    assert!(message.contains("`flux gitops`") && !message.contains("kubectl gitops"), "{message}");

    let candidates = flux.succeed(&["__complete", "gitops", ""]);
    assert!(candidates.lines().any(|line| line.starts_with("inventory")), "{candidates}");
    let candidates = flux.succeed(&["__complete", "gitops", "suspend", "kustom"]);
    assert!(candidates.lines().any(|line| line == "kustomizations"), "{candidates}");

    flux.succeed(&["plugin", "uninstall", "gitops"]);
    assert!(!flux.run(&["gitops", "version"]).status.success());
}

#[test]
fn flux_refuses_another_archive_than_that_of_the_catalog() {
    let flux = Flux::new("flux-plugin-sum", "0".repeat(64));
    let refused = flux.run(&["plugin", "install", "gitops"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("checksum verification failed"), "{message}");
}
