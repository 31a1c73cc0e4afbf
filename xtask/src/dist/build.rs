//! Builds and runs the program of a platform, as far as this machine can.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::platforms::{GLIBC, Platform};
use crate::{child, debian, python, target_dir, workspace_root};

/// Debian's Rust for another architecture, and what its programs need to run here.
const RUST_OF_DEBIAN: [&str; 7] = [
    "rustc-web",
    "libstd-rust-web-1.96",
    "libstd-rust-web-dev:amd64",
    "libllvm22",
    "libstd-rust-web-dev:arm64",
    "libc6:arm64",
    "libgcc-s1:arm64",
];

/// Builds the program in release mode and returns its path. Fails if this machine has no linker for the platform.
pub fn build(platform: &Platform) -> Result<PathBuf> {
    let folder = target_dir().join("dist-build");
    let mut cargo = match platform.os {
        "linux" => linux(platform)?,
        os if Platform::host().is_some_and(|host| host.os == os) => {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--target", platform.target]);
            cargo
        }
        os => bail!("{} has no linker for {os}: build {} there", std::env::consts::OS, platform.name()),
    };
    cargo.args(["--release", "--locked", "--package", "kubectl-gitops", "--bin", "kubectl-gitops", "--target-dir"]);
    cargo.arg(&folder).env("RUSTFLAGS", flags()).current_dir(workspace_root());
    child::run(&mut cargo).with_context(|| format!("{} does not build", platform.name()))?;
    let suffix = if platform.os == "windows" { ".exe" } else { "" };
    Ok(folder.join(platform.target).join("release").join(format!("kubectl-gitops{suffix}")))
}

/// Returns flags that keep the folders of this machine out of the program.
fn flags() -> String {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).unwrap_or_default();
    format!("--remap-path-prefix={}=/cargo --remap-path-prefix={}=/src", home.display(), workspace_root().display())
}

/// Returns the builder for Linux: zig links with an old glibc, also for another architecture.
fn linux(platform: &Platform) -> Result<Command> {
    python::RELEASE.ensure()?;
    let mut cargo = Command::new(python::RELEASE.bin("cargo-zigbuild"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = vec![python::RELEASE.bin("")];
    folders.extend(std::env::split_paths(&path));
    cargo.env("PATH", std::env::join_paths(folders)?).env("CARGO", env!("CARGO"));
    cargo.args(["zigbuild", "--target", &format!("{}.{GLIBC}", platform.target)]);
    if !has_standard_library(platform)? {
        debian::ensure(&RUST_OF_DEBIAN)?;
        cargo.env("RUSTC", debian::bin("rustc")).env("LD_LIBRARY_PATH", debian::libraries());
        cargo.env_remove("RUSTUP_TOOLCHAIN");
    }
    Ok(cargo)
}

/// Returns true if the compiler of this workspace has the standard library of the platform.
fn has_standard_library(platform: &Platform) -> Result<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let mut command = Command::new(rustc);
    let folder = child::output(command.args(["--print", "target-libdir", "--target", platform.target]))?;
    Ok(Path::new(String::from_utf8_lossy(&folder).trim()).exists())
}

/// Returns the command that runs a program of the platform here. Fails if there is none.
pub fn runner(platform: &Platform, program: &Path) -> Result<Command> {
    if Platform::host().is_some_and(|host| host.name() == platform.name()) {
        return Ok(Command::new(program));
    }
    if platform.name() != "linux/arm64" || std::env::consts::OS != "linux" {
        bail!("{} does not run on this machine", platform.name());
    }
    debian::ensure(&["qemu-user-static", "libc6:arm64", "libgcc-s1:arm64"])?;
    let mut command = Command::new(debian::bin("qemu-aarch64-static"));
    command.arg("-L").arg(debian::root()).arg(program);
    Ok(command)
}

/// Returns the newest version of glibc that a program for Linux names, as `2.17`.
pub fn needed_glibc(program: &[u8]) -> Option<(u32, u32)> {
    let mark = b"GLIBC_";
    let starts = program.windows(mark.len()).enumerate().filter(|(_, window)| window == mark);
    let version = |at: usize| {
        let text: String = program[at + mark.len()..].iter().take(8).map(|byte| char::from(*byte)).collect();
        let mut numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    };
    starts.filter_map(|(at, _)| version(at)).max()
}
