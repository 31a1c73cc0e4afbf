//! Installed by the real Krew, without any network, and run through the real kubectl.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use test_support::folder::folder;
use test_support::gitops::binary;
use xtask::controlplane;

fn run(program: &Path, home: &Path, args: &[&str]) -> Output {
    let bin = home.join("krew/bin");
    let completers = home.join("completers");
    let kubectl = controlplane::bin("kubectl");
    let path =
        format!("{}:{}:{}:/usr/bin:/bin", completers.display(), bin.display(), kubectl.parent().unwrap().display());
    Command::new(program)
        .args(args)
        .env_clear()
        .env("HOME", home)
        .env("TMPDIR", home)
        .env("KREW_ROOT", home.join("krew"))
        .env("KREW_NO_UPGRADE_CHECK", "1")
        .env("PATH", path)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The manifest with the sums of an archive in place of the release's.
fn manifest(home: &Path, archive: &Path) -> String {
    let sum = sh(&format!("sha256sum '{}' | cut -d' ' -f1", archive.display()));
    let text = fs::read_to_string("plugin.yaml").unwrap();
    let zero = "0".repeat(64);
    let file = home.join("gitops.yaml");
    fs::write(&file, text.replace(&zero, sum.trim())).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn krew_installs_the_plugin_and_kubectl_runs_and_completes_it() {
    controlplane::ensure(&["krew", "validate-krew-manifest", "kubectl"]).unwrap();
    let home = folder("krew");
    let stage = home.join("stage");
    fs::create_dir_all(&stage).unwrap();
    fs::copy(binary(), stage.join("kubectl-gitops")).unwrap();
    fs::copy("LICENSE", stage.join("LICENSE")).unwrap();
    let archive = home.join("gitops.tar.gz");
    sh(&format!("tar -C '{}' -cf - LICENSE kubectl-gitops | gzip -1 > '{}'", stage.display(), archive.display()));
    let manifest = manifest(&home, &archive);

    let validator = controlplane::bin("validate-krew-manifest");
    let validated = run(&validator, &home, &["-manifest", &manifest, "-skip-install"]);
    assert!(validated.status.success(), "{}", String::from_utf8_lossy(&validated.stderr));

    let krew = controlplane::bin("krew");
    let archive = format!("--archive={}", archive.display());
    let installed = run(&krew, &home, &["install", &format!("--manifest={manifest}"), &archive]);
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));

    let kubectl = controlplane::bin("kubectl");
    let version = run(&kubectl, &home, &["gitops", "version"]);
    assert_eq!(String::from_utf8_lossy(&version.stdout), concat!("kubectl-gitops ", env!("CARGO_PKG_VERSION"), "\n"));

    fs::create_dir_all(home.join("completers")).unwrap();
    let link = home.join("completers/kubectl_complete-gitops");
    std::os::unix::fs::symlink(home.join("krew/bin/kubectl-gitops"), link).unwrap();
    let completed = run(&kubectl, &home, &["__complete", "gitops", "prune", "-o", ""]);
    let candidates = String::from_utf8_lossy(&completed.stdout).into_owned();
    assert!(candidates.lines().any(|line| line.starts_with("yaml")), "{candidates}");
    assert!(candidates.trim_end().ends_with(":4"), "{candidates}");

    sh(&format!("git init -q '{}'", home.join("krew/index/default").display()));
    let removed = run(&krew, &home, &["uninstall", "gitops"]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    assert!(!run(&kubectl, &home, &["gitops", "version"]).status.success(), "it is gone");
}

#[test]
fn the_manifest_has_only_fields_that_krew_reads() {
    let manifest: serde_json::Value = serde_yaml::from_str(&fs::read_to_string("plugin.yaml").unwrap()).unwrap();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&manifest), ["apiVersion", "kind", "metadata", "spec"]);
    let known = ["version", "homepage", "shortDescription", "description", "caveats", "platforms"];
    assert!(keys(&manifest["spec"]).iter().all(|key| known.contains(&key.as_str())));
    assert!(manifest["spec"]["shortDescription"].as_str().unwrap().len() <= 50);
    for platform in manifest["spec"]["platforms"].as_array().unwrap() {
        assert_eq!(keys(platform).len(), 4, "{platform}");
    }
}
