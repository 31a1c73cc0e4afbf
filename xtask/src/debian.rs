//! Programs and libraries of Debian, unpacked below `target/` and not installed: no right of root is needed, and nothing of
//! the machine changes. Only tasks that say so need Debian or one of its descendants.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{child, lock, say, target_dir};

/// Returns the root folder of the packages that [`ensure`] unpacks.
pub fn root() -> PathBuf {
    dir().join("root")
}

/// Returns the path of a program that [`ensure`] unpacks.
pub fn bin(name: &str) -> PathBuf {
    let folders = ["usr/bin", "bin"].map(|folder| root().join(folder).join(name));
    folders.iter().find(|path| path.exists()).unwrap_or(&folders[0]).clone()
}

/// Returns the folders of the libraries, for `LD_LIBRARY_PATH`.
pub fn libraries() -> String {
    let folders = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib"];
    folders.map(|folder| root().join(folder).display().to_string()).join(":")
}

/// Downloads and unpacks the packages that are missing, such as `zsh` or `libc6:arm64`. Their dependencies are not followed.
pub fn ensure(packages: &[&str]) -> Result<()> {
    let _lock = lock::exclusive(&dir().join("lock"), "another download of Debian packages")?;
    let missing: Vec<&str> = packages.iter().copied().filter(|package| !stamp(package).exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    say(format!("unpacking Debian packages: {}", missing.join(" ")));
    let (lists, downloads) = (dir().join("lists"), dir().join("downloads"));
    for folder in [lists.join("partial"), dir().join("cache/archives/partial"), dir().join("stamps"), root()] {
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let _ = fs::remove_dir_all(&downloads);
    fs::create_dir_all(&downloads).with_context(|| format!("cannot create {}", downloads.display()))?;
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.args(["-qq", "-o", &format!("Dir::State::Lists={}", lists.display())]);
        apt.args(["-o", &format!("Dir::Cache={}", dir().join("cache").display()), "-o", "APT::Sandbox::User="]);
        apt.args(["-o", "APT::Architectures::=amd64", "-o", "APT::Architectures::=arm64"]).current_dir(&downloads);
        apt
    };
    child::run(apt().arg("update")).context("this task needs Debian or Ubuntu")?;
    for package in missing {
        let _ = fs::remove_dir_all(&downloads);
        fs::create_dir_all(&downloads)?;
        child::run(apt().args(["download", package]))?;
        for file in fs::read_dir(&downloads)? {
            child::run(Command::new("dpkg").arg("-x").arg(file?.path()).arg(root()))?;
        }
        fs::write(stamp(package), "").with_context(|| format!("cannot write the stamp of {package}"))?;
    }
    Ok(())
}

fn stamp(package: &str) -> PathBuf {
    dir().join("stamps").join(package)
}

fn dir() -> PathBuf {
    target_dir().join("tools/debian")
}
