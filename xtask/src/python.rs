//! Programs that are published as Python packages, in virtual environments under `target/`.
//!
//! Files in `tests/tools` pin their versions and the hashes of their files. A stamp records them, so a changed pin installs
//! them again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{child, lock, say, sha256_hex, target_dir, workspace_root};

/// Programs that one file pins.
#[derive(Debug)]
pub struct Tools {
    /// Folder under `target/tools`.
    folder: &'static str,
    /// File in `tests/tools`.
    requirements: &'static str,
}

/// Linters for the tests.
pub const LINTERS: Tools = Tools { folder: "python", requirements: "requirements.txt" };
/// Zig as a linker, for `cargo xtask dist`.
pub const RELEASE: Tools = Tools { folder: "python-release", requirements: "release-requirements.txt" };

impl Tools {
    /// Returns the path of a program that [`Tools::ensure`] installs.
    pub fn bin(&self, name: &str) -> PathBuf {
        self.dir().join("bin").join(name)
    }

    /// Installs the programs if they are missing or were installed from other pins. Several processes may call it at once.
    pub fn ensure(&self) -> Result<()> {
        let requirements = workspace_root().join("tests/tools").join(self.requirements);
        let pins = fs::read(&requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
        let (stamp, expected) = (self.dir().join("stamp"), sha256_hex(&pins));
        let is_fresh = || fs::read_to_string(&stamp).is_ok_and(|recorded| recorded == expected);
        if is_fresh() {
            return Ok(());
        }
        let _lock = lock::exclusive(&target_dir().join("tools/lock"), "another installation of the tools")?;
        // Another process may have installed them while this one waited.
        if is_fresh() {
            return Ok(());
        }
        say(format!("installing the tools of tests/tools/{}", self.requirements));
        let needs = "install Python 3.10 or later with its module venv (on Debian: python3-venv)";
        child::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(self.dir())).context(needs)?;
        self.install(&requirements)?;
        fs::write(&stamp, expected).with_context(|| format!("cannot write {}", stamp.display()))
    }

    fn install(&self, requirements: &Path) -> Result<()> {
        let mut pip = Command::new(self.bin("python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
        child::run(pip.args(["--require-hashes", "--only-binary", ":all:", "--requirement"]).arg(requirements))
    }

    fn dir(&self) -> PathBuf {
        target_dir().join("tools").join(self.folder)
    }
}
