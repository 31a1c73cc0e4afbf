//! Programs whose module lacks a file that their build embeds, or requires a module that is no longer available: built in a
//! copy of the module, with a placeholder, and with another version of that module.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{dir, go};
use crate::child::run;
use crate::files::copy_folder;

/// A module that is copied, and the file that the copy gets.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) module: &'static str,
    /// Path of the file in the module.
    pub(super) placeholder: &'static str,
    /// Module that is replaced by the version that the go.mod of this project requires.
    pub(super) replaced: Option<&'static str>,
}

impl Source {
    /// Copies the module in the version that the go.mod in `folder` requires, and returns the folder of the copy. go
    /// compares the module with the go.sum there.
    pub(super) fn copy(&self, folder: &Path) -> Result<PathBuf> {
        let output = go(folder).args(["mod", "download", "-json", self.module]).output().context("cannot run go")?;
        let answer: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("go mod download {}: {}", self.module, String::from_utf8_lossy(&output.stderr)))?;
        let from = answer["Dir"].as_str();
        let from = from.with_context(|| format!("go mod download {}: {}", self.module, answer["Error"]))?;
        let target = dir().join("sources").join(folder.file_name().unwrap_or_default());
        let _ = fs::remove_dir_all(&target);
        copy_folder(Path::new(from), &target)?;
        let placeholder = target.join(self.placeholder);
        fs::create_dir_all(placeholder.parent().unwrap_or(&target))?;
        fs::write(&placeholder, "# placeholder\n")
            .with_context(|| format!("cannot write {}", placeholder.display()))?;
        if let Some(module) = self.replaced {
            replace(module, folder, &target)?;
        }
        Ok(target)
    }
}

/// Makes a copied module use a module in the version of the go.mod in `folder`, with the checksums there.
fn replace(module: &str, folder: &Path, copy: &Path) -> Result<()> {
    let listed = go(folder).args(["list", "-m", "-f", "{{.Version}}", module]).output().context("cannot run go")?;
    let version = String::from_utf8_lossy(&listed.stdout).trim().to_owned();
    if version.is_empty() {
        bail!("go list -m {module}: {}", String::from_utf8_lossy(&listed.stderr).trim());
    }
    run(go(copy).args(["mod", "edit", &format!("-replace={module}={module}@{version}")]))?;
    let [sums, own] = [folder, copy].map(|folder| folder.join("go.sum"));
    let text = fs::read_to_string(&own)? + &fs::read_to_string(&sums)?;
    fs::write(&own, text).with_context(|| format!("cannot write {}", own.display()))
}
