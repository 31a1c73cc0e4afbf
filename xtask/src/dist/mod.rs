//! `cargo xtask dist`: the archives of a release and the manifests of the installers, from one table of platforms.
//!
//! An archive is made only of a program that ran here: it writes its own man pages and completion scripts.

pub mod archive;
pub mod build;
pub mod manifests;
pub mod platforms;
pub mod provenance;
pub mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use flate2::Compression;

use self::archive::{Entries, executable, plain};
use self::manifests::Sum;
use self::platforms::{GLIBC, PLATFORMS, PLUGIN, Platform, flux_release};
use crate::{answer, child, say, sha256_hex, target_dir, workspace_root};

/// Files with the sums of the archives, and manifests, in the folder of a release.
const SUMS: &str = "SHA256SUMS";
/// File with what the archives were built from.
const PROVENANCE: &str = "provenance.intoto.jsonl";

/// `cargo xtask dist [OS/ARCH…]`, `dist manifests`, `dist templates`, `dist sign KEY`, `dist version`.
pub fn command(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["version"] => {
            answer(version()?);
            Ok(())
        }
        ["manifests"] => write_manifests(&folder(), true),
        ["templates"] => write_templates(),
        ["sign", key] => sign(&folder(), Path::new(key)),
        [] => build_all(&[Platform::host().context("releases have no program for this machine")?]),
        names => build_all(&names.iter().map(|name| Platform::find(name)).collect::<Result<Vec<_>>>()?),
    }
}

/// Returns the folder of a release.
pub fn folder() -> PathBuf {
    target_dir().join("dist")
}

/// Returns the version in `Cargo.toml` as a tag, such as `v1.2.3`.
pub fn version() -> Result<String> {
    let manifest = fs::read_to_string(workspace_root().join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    Ok(format!("v{}", line.context("Cargo.toml has no version")?))
}

fn build_all(platforms: &[&Platform]) -> Result<()> {
    let version = version()?;
    fs::create_dir_all(folder()).with_context(|| format!("cannot create {}", folder().display()))?;
    for platform in platforms {
        say(format!("building {}", platform.name()));
        let program = build::build(platform)?;
        check_glibc(platform, &program)?;
        let archive = folder().join(platform.archive(&version));
        let command = || build::runner(platform, &program);
        archive::write(&archive, &entries(platform, &program, &command)?, Compression::best())?;
        archive::write(
            &folder().join(platform.flux_archive(&version)),
            &flux_entries(platform, &program)?,
            Compression::best(),
        )?;
        let materials = sbom::document(platform.target, &version)?;
        sbom::check(&fs::read(&program)?, &materials)?;
        fs::write(archive.with_extension("").with_extension("cdx.json"), materials)?;
        let size = fs::metadata(&archive)?.len();
        answer(format!("{}: built, ran, {:.1} MB: {}", platform.name(), size as f64 / 1e6, archive.display()));
    }
    write_manifests(&folder(), false)
}

fn check_glibc(platform: &Platform, program: &Path) -> Result<()> {
    let needed = build::needed_glibc(&fs::read(program)?);
    if let Some((major, minor)) = needed.filter(|_| platform.os == "linux") {
        let needed = format!("{major}.{minor}");
        let floor = GLIBC.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        if Some((major, minor)) > floor {
            bail!("{} needs glibc {needed}, which is newer than {GLIBC}", platform.name());
        }
    }
    Ok(())
}

/// Returns the files of an archive. `command` returns a command that runs the program.
pub fn entries(platform: &Platform, program: &Path, command: &dyn Fn() -> Result<Command>) -> Result<Entries> {
    let mut entries = program_and_texts(platform.program(), program)?;
    let pages = man_folder(platform)?;
    child::output(command()?.arg("man").arg(&pages))?;
    archive::add_folder(&mut entries, &pages, "man/")?;
    fs::remove_dir_all(&pages).with_context(|| format!("cannot remove {}", pages.display()))?;
    let name = format!("kubectl-{PLUGIN}");
    for (shell, file) in [
        ("bash", format!("{name}.bash")),
        ("fish", format!("{name}.fish")),
        ("powershell", format!("_{name}.ps1")),
        ("zsh", format!("_{name}")),
    ] {
        entries.insert(format!("completions/{file}"), plain(child::output(command()?.args(["completion", shell]))?));
    }
    let wrapper = child::output(command()?.args(["completion", "kubectl"]))?;
    entries.insert(format!("completions/kubectl_complete-{PLUGIN}"), executable(wrapper));
    Ok(entries)
}

/// Returns the files of an archive for flux, which takes the program alone and completes by it.
pub fn flux_entries(platform: &Platform, program: &Path) -> Result<Entries> {
    program_and_texts(platform.flux_program(), program)
}

fn program_and_texts(name: String, program: &Path) -> Result<Entries> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    Ok(Entries::from([
        (name, executable(read(program)?)),
        ("LICENSE".to_owned(), plain(read(&workspace_root().join("LICENSE"))?)),
        ("README.md".to_owned(), plain(read(&workspace_root().join("README.md"))?)),
    ]))
}

/// Returns a new, empty folder for the man pages of a platform. No other call has it, also none in another thread.
fn man_folder(platform: &Platform) -> Result<PathBuf> {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let name = format!("{}-{}-{}", platform.target, std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
    let path = target_dir().join("dist-man").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok(path)
}

/// Writes the sums and the manifests for the archives in a folder. With `all`, every platform must have both of its archives.
pub fn write_manifests(folder: &Path, all: bool) -> Result<()> {
    let version = version()?;
    let archives = sums(folder, all, |platform| platform.archive(&version))?;
    let flux_archives = sums(folder, all, |platform| platform.flux_archive(&version))?;
    let plugin_lines = lines(&archives, |platform| platform.archive(&version));
    let flux_lines = lines(&flux_archives, |platform| platform.flux_archive(&version));
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&format!("{}_checksums.txt", flux_release(&version)), flux_lines.clone())?;
    write(SUMS, plugin_lines + &flux_lines)?;
    write("plugin.yaml", manifests::krew(&version, &archives))?;
    write(&format!("{PLUGIN}.yaml"), manifests::flux(&version, &flux_archives))?;
    write("catalog.yaml", manifests::flux_catalog())
}

/// Returns the sums of the archives with these names in a folder. With `all`, every platform must have one.
fn sums(folder: &Path, all: bool, name: impl Fn(&Platform) -> String) -> Result<Vec<Sum<'static>>> {
    let mut sums = vec![];
    for platform in &PLATFORMS {
        let path = folder.join(name(platform));
        match fs::read(&path) {
            Ok(content) => sums.push((platform, sha256_hex(&content))),
            Err(_) if !all => {}
            Err(error) => bail!("{} has no archive: {}: {error}", platform.name(), path.display()),
        }
    }
    Ok(sums)
}

/// Returns sums as `sha256sum` writes them.
fn lines(sums: &[Sum], name: impl Fn(&Platform) -> String) -> String {
    sums.iter().map(|(platform, sum)| format!("{sum}  {}\n", name(platform))).collect()
}

/// Writes a signature beside each archive of a folder, and the signed provenance of all of them.
fn sign(folder: &Path, key: &Path) -> Result<()> {
    let sums = fs::read_to_string(folder.join(SUMS)).with_context(|| format!("cannot read {SUMS}"))?;
    let subjects: Vec<(String, String)> = sums
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(sum, name)| (name.to_owned(), sum.to_owned()))
        .collect();
    for (name, sum) in &subjects {
        let content = fs::read(folder.join(name)).with_context(|| format!("cannot read {name}"))?;
        if sha256_hex(&content) != *sum {
            bail!("{name} is another one than that of {SUMS}");
        }
        fs::write(folder.join(format!("{name}.sig")), provenance::signature(key, &content)?)?;
    }
    let commit = child::output(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(workspace_root()))?;
    let lock = sha256_hex(&fs::read(workspace_root().join("Cargo.lock"))?);
    let commit = String::from_utf8_lossy(&commit);
    let statement = provenance::statement(&version()?, commit.trim(), &lock, &subjects);
    fs::write(folder.join(PROVENANCE), provenance::envelope(key, &statement)?)?;
    Ok(())
}

/// Files of this repository that come from the table: name and content.
pub fn templates() -> Result<[(&'static str, String); 2]> {
    Ok([("plugin.yaml", manifests::unreleased(&version()?)), (".krew.yaml", manifests::krew_template())])
}

/// Writes the files of this repository that come from the table.
pub fn write_templates() -> Result<()> {
    for (name, text) in templates()? {
        fs::write(workspace_root().join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}
