//! Installed by the real Krew, without any network, and run through the real kubectl.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use flate2::Compression;
use test_support::folder::{Folder, reports};
use test_support::gitops::binary;
use test_support::servers;
use xtask::controlplane;
use xtask::dist::archive::{self, Entries};
use xtask::dist::{self, manifests, platforms::Platform};

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// Files of an archive with the program under test.
pub(crate) static ENTRIES: LazyLock<Entries> = LazyLock::new(|| {
    let program = binary().to_owned();
    dist::entries(platform(), &program, &|| Ok(Command::new(&program))).unwrap()
});

/// Archive with the program under test, in a folder of its own.
pub(crate) static ARCHIVE: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = reports().join("release");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(platform().archive(VERSION));
    archive::write(&path, &ENTRIES, Compression::none()).unwrap();
    path
});

/// The platform of this machine.
pub(crate) fn platform() -> &'static Platform {
    Platform::host().expect("a platform of releases")
}

/// Returns the lower-case SHA-256 of a file.
pub(crate) fn sum(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

/// A home folder with a Krew of its own.
struct Krew(Folder);

impl Krew {
    fn new(name: &str) -> Self {
        controlplane::ensure(&["krew", "validate-krew-manifest", "kubectl"]).unwrap();
        Self(Folder::outside_checkouts(name))
    }

    fn home(&self) -> &Path {
        self.0.path()
    }

    /// Runs a program of the control plane without network, if the kernel allows that.
    fn run(&self, program: &str, args: &[&str]) -> Output {
        let kubectl = controlplane::bin("kubectl");
        let folders = [&self.home().join("completers"), &self.home().join("krew/bin"), kubectl.parent().unwrap()];
        let path: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
        Command::new(controlplane::bin(program))
            .args(args)
            .env_clear()
            .env("HOME", self.home())
            .env("TMPDIR", self.home())
            .env("KREW_ROOT", self.home().join("krew"))
            .env("KREW_NO_UPGRADE_CHECK", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ALLOW_PROTOCOL", "file")
            .env("PATH", format!("{}:/usr/bin:/bin", path.join(":")))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn succeed(&self, program: &str, args: &[&str]) -> String {
        let output = self.run(program, args);
        assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Writes the manifest of a release that has this archive alone.
    fn manifest(&self, version: &str, sum: String) -> String {
        let text = manifests::krew(version, &[(platform(), sum)]);
        self.0.write("gitops.yaml", text).to_str().unwrap().to_owned()
    }

    /// Installs an archive with its manifest.
    fn install(&self, archive: &Path, sum: String) -> Output {
        let manifest = format!("--manifest={}", self.manifest(VERSION, sum));
        self.run("krew", &["install", &manifest, &format!("--archive={}", archive.display())])
    }

    /// Packs an archive from other files than a release.
    fn pack(&self, entries: &Entries) -> PathBuf {
        let path = self.home().join("other.tar.gz");
        archive::write(&path, entries, Compression::none()).unwrap();
        path
    }
}

#[test]
fn krew_installs_the_archive_and_kubectl_runs_and_completes_the_plugin() {
    let krew = Krew::new("krew");
    let installed = krew.install(&ARCHIVE, sum(&ARCHIVE));
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let plugins = krew.succeed("kubectl", &["plugin", "list", "--name-only"]);
    assert_eq!(plugins.lines().last(), Some("kubectl-gitops"), "{plugins}");
    let version = krew.succeed("kubectl", &["gitops", "version"]);
    assert_eq!(version, concat!("kubectl-gitops ", env!("CARGO_PKG_VERSION"), "\n"));
    let store = krew.home().join("krew/store/gitops").join(VERSION);
    for file in ["LICENSE", "README.md", "man/kubectl-gitops-prune.1", "completions/_kubectl-gitops"] {
        assert!(store.join(file).is_file(), "{file}");
    }

    // The wrapper of the archive, where the user puts it.
    fs::create_dir_all(krew.home().join("completers")).unwrap();
    let wrapper = store.join("completions/kubectl_complete-gitops");
    symlink(&wrapper, krew.home().join("completers/kubectl_complete-gitops")).unwrap();
    let candidates = krew.succeed("kubectl", &["__complete", "gitops", "prune", "-o", ""]);
    assert!(candidates.lines().any(|line| line.starts_with("yaml")), "{candidates}");
    assert!(candidates.trim_end().ends_with(":4"), "{candidates}");

    krew.0.git(&["init", "-q", "krew/index/default"]);
    krew.succeed("krew", &["uninstall", "gitops"]);
    assert!(!krew.run("kubectl", &["gitops", "version"]).status.success(), "it is gone");
}

/// As from a custom index: no manifest on the command line, archives by URL, and an upgrade to the next version.
#[test]
fn krew_upgrades_the_plugin_from_an_index() {
    let krew = Krew::new("krew-index");
    let server = servers::files(ARCHIVE.parent().unwrap());
    let index = krew.home().join("index");
    fs::create_dir_all(index.join("plugins")).unwrap();
    krew.0.git(&["init", "-q", "-b", "main", "index"]);
    let release = |version: &str| {
        let address = format!("{server}/{}", ARCHIVE.file_name().unwrap().display());
        let manifest = manifests::krew(version, &[(platform(), sum(&ARCHIVE))]);
        let manifest = manifest.replace(&platform().url(version), &address);
        fs::write(index.join("plugins/gitops.yaml"), manifest).unwrap();
        krew.0.git(&["-C", "index", "add", "."]);
        krew.0.git(&["-C", "index", "commit", "-q", "-m", version]);
    };
    release("v0.0.1");
    krew.succeed("krew", &["index", "add", "local", &format!("file://{}", index.display())]);
    krew.succeed("krew", &["install", "--no-update-index", "local/gitops"]);
    assert!(krew.succeed("krew", &["list"]).contains("gitops"));
    assert!(krew.home().join("krew/store/gitops/v0.0.1").is_dir());
    release("v0.0.2");
    // Krew updates its default index too, which is on the Internet.
    krew.0.git(&["-C", "krew/index/local", "pull", "-q"]);
    krew.succeed("krew", &["upgrade", "--no-update-index", "gitops"]);
    assert!(krew.home().join("krew/store/gitops/v0.0.2").is_dir());
    assert!(!krew.home().join("krew/store/gitops/v0.0.1").exists(), "the old version is removed");
    krew.succeed("kubectl", &["gitops", "version"]);
    krew.succeed("krew", &["uninstall", "gitops"]);
}

#[test]
fn krew_refuses_another_archive_than_that_of_the_manifest() {
    let krew = Krew::new("krew-sum");
    let refused = krew.install(&ARCHIVE, "0".repeat(64));
    assert!(!refused.status.success());
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("checksum does not match"), "{message}");
    assert!(!krew.run("kubectl", &["gitops", "version"]).status.success());
}

/// Krew does not notice it: the archive of a release is checked instead.
#[test]
fn a_program_without_its_executable_bit_is_no_plugin() {
    assert!(ENTRIES["kubectl-gitops"].is_executable);
    let krew = Krew::new("krew-mode");
    let mut entries = ENTRIES.clone();
    entries.get_mut("kubectl-gitops").unwrap().is_executable = false;
    let archive = krew.pack(&entries);
    assert!(krew.install(&archive, sum(&archive)).status.success());
    assert!(!krew.run("kubectl", &["gitops", "version"]).status.success());
}

/// The check of krew-index installs each platform from its URL, and wants a licence beside the program.
#[test]
fn the_validator_of_krew_index_accepts_the_release_and_misses_a_licence() {
    let krew = Krew::new("krew-validate");
    fs::create_dir_all(krew.home().join("completers")).unwrap();
    symlink(controlplane::bin("krew"), krew.home().join("completers/kubectl-krew")).unwrap();
    let validate = |archive: &Path| {
        let server = servers::files(archive.parent().unwrap());
        let address = format!("{server}/{}", archive.file_name().unwrap().display());
        let manifest = manifests::krew(VERSION, &[(platform(), sum(archive))]);
        let path = krew.0.write("gitops.yaml", manifest.replace(&platform().url(VERSION), &address));
        krew.run("validate-krew-manifest", &["-manifest", path.to_str().unwrap()])
    };
    let accepted = validate(&ARCHIVE);
    assert!(accepted.status.success(), "{}", String::from_utf8_lossy(&accepted.stderr));
    let mut entries = ENTRIES.clone();
    entries.remove("LICENSE");
    let refused = validate(&krew.pack(&entries));
    let message = String::from_utf8_lossy(&refused.stderr).to_lowercase();
    assert!(!refused.status.success() && message.contains("license"), "{message}");
}

#[test]
fn the_manifest_of_this_repository_is_valid_and_comes_from_the_table_of_platforms() {
    let krew = Krew::new("krew-repository");
    for (file, expected) in dist::templates().unwrap() {
        let committed = fs::read_to_string(file).unwrap();
        assert!(committed == expected, "{file} is stale: run `cargo xtask dist templates`");
    }
    // The validator wants the name of the plugin as the name of the file.
    let manifest = krew.0.write("gitops.yaml", fs::read_to_string("plugin.yaml").unwrap());
    krew.succeed("validate-krew-manifest", &["-skip-install", "-manifest", manifest.to_str().unwrap()]);
}

/// Krew ignores fields that it does not know, also mistyped ones.
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

/// krew-release-bot replaces the tag, and each address by itself and the sum of what it downloads.
#[test]
fn the_template_of_the_release_bot_renders_to_the_manifest() {
    let template = fs::read_to_string(".krew.yaml").unwrap();
    let mut rendered = String::new();
    for line in template.replace("{{ .TagName }}", VERSION).lines() {
        let address = line.trim().strip_prefix("{{addURIAndSha \"").and_then(|rest| rest.strip_suffix("\" .TagName}}"));
        match address {
            Some(address) => {
                let zeros = "0".repeat(64);
                rendered += &format!("    uri: {address}\n    sha256: \"{zeros}\"\n");
            }
            None => rendered += &format!("{line}\n"),
        }
    }
    let manifest = fs::read_to_string("plugin.yaml").unwrap();
    let without_comments = manifest.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n"));
    assert_eq!(rendered, without_comments.collect::<String>());
}

/// CycloneDX 1.5: every dependency is a component, and what only tests, build scripts, macros or other programs of the
/// workspace need is none. The program itself shows what it links.
#[test]
fn the_bill_of_materials_has_the_linked_crates_of_a_target() {
    let document = |target: &str| -> serde_json::Value {
        let text = dist::sbom::document(target, VERSION).unwrap();
        assert_eq!(text, dist::sbom::document(target, VERSION).unwrap(), "two calls return the same");
        serde_json::from_str(&text).unwrap()
    };
    let linux = document("x86_64-unknown-linux-gnu");
    assert_eq!((&linux["bomFormat"], &linux["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let names = |document: &serde_json::Value| -> Vec<String> {
        let components = document["components"].as_array().unwrap().iter();
        components.map(|component| component["name"].as_str().unwrap().to_owned()).collect()
    };
    for crate_name in ["kube", "rustls", "landlock", "gitops-core"] {
        assert!(names(&linux).iter().any(|name| name == crate_name), "{crate_name}");
    }
    for crate_name in ["insta", "xtask", "kubectl-gitops", "syn", "serde_derive", "schemars"] {
        assert!(!names(&linux).iter().any(|name| name == crate_name), "{crate_name}");
    }
    assert!(!names(&document("x86_64-pc-windows-msvc")).iter().any(|name| name == "landlock"));
    let known: Vec<_> = linux["components"].as_array().unwrap().iter().map(|one| &one["bom-ref"]).collect();
    for dependency in linux["dependencies"].as_array().unwrap() {
        assert!(dependency["dependsOn"].as_array().unwrap().iter().all(|one| known.contains(&one)), "{dependency}");
    }
    let has_license = |component: &serde_json::Value| component.get("licenses").is_some();
    assert!(linux["components"].as_array().unwrap().iter().all(has_license));
    let (program, text) = (fs::read(binary()).unwrap(), linux.to_string());
    let missing =
        |text: &str| dist::sbom::check(&program, text).err().map(|error| error.to_string()).unwrap_or_default();
    let found = missing(&text);
    // The tests build the program with its JSON Schemas, which a release does not have.
    let others = found.trim_start_matches("the bill of materials lacks crates of the program: ").split(", ");
    assert_eq!(others.filter(|one| !one.is_empty() && !one.starts_with("schemars-")).count(), 0, "{found}");
    let without_kube = text.replace("\"name\":\"kube-client\"", "\"name\":\"other\"");
    assert!(missing(&without_kube).contains("kube-client-"));
    assert!(dist::sbom::check(b"stripped", &text).unwrap_err().to_string().contains("names 0 crates"));
}

#[test]
fn two_archives_of_the_same_files_are_equal() {
    let krew = Krew::new("krew-equal");
    let again = krew.pack(&ENTRIES);
    assert_eq!(sum(&again), sum(&ARCHIVE));
    let listing = Command::new("tar").args(["--numeric-owner", "-tvzf"]).arg(&again).env("TZ", "UTC").output().unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();
    assert!(listing.lines().all(|line| line.contains(" 0/0 ") && line.contains("1980-01-01 00:00")), "{listing}");
    assert!(
        listing.lines().any(|line| line.starts_with("-rwxr-xr-x") && line.ends_with(" kubectl-gitops")),
        "{listing}"
    );
    let mode = fs::metadata(binary()).unwrap().permissions().mode();
    assert_ne!(mode & 0o111, 0);
}
