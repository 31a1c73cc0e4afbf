//! Finds programs by absolute path, so that no working tree and no current directory can supply one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Absolute path as it was given or found. A program with several names reads its name from it.
    pub path: PathBuf,
    /// The same path without symbolic links.
    pub file: PathBuf,
}

impl Program {
    /// Finds a program: by its path if it has several parts, else in `PATH`.
    ///
    /// Relative entries of `PATH`, and entries inside of `trees`, are skipped: whoever can change a working tree could
    /// supply the program. Fails if there is no such file.
    pub fn find(program: &Path, trees: &[&Path]) -> Result<Self> {
        if program.components().count() > 1 {
            return Self::at(program)
                .map_err(|error| Error::failed(format!("cannot run {}: {error}", program.display())));
        }
        let trees: Vec<PathBuf> = trees.iter().filter_map(|tree| top(tree)).collect();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let (mut skipped, name) = (false, executable_name(program.as_os_str()));
        for directory in std::env::split_paths(&path) {
            let candidate = directory.join(&name);
            if !is_executable(&candidate) {
                continue;
            }
            let is_inside = |path: &Path| {
                let real = path.canonicalize();
                real.is_ok_and(|real| trees.iter().any(|tree| real.starts_with(tree)))
            };
            if !directory.is_absolute() || is_inside(&directory) || is_inside(&candidate) {
                skipped = true;
            } else if let Ok(found) = Self::at(&candidate) {
                return Ok(found);
            }
        }
        let name = program.display();
        Err(match skipped {
            true => {
                Error::failed(format!("cannot run {name}: PATH has it only in a working tree or a relative directory"))
                    .hint("add an absolute directory outside of the working tree to PATH")
            }
            false => Error::failed(format!("cannot run {name}: it is in no directory of PATH")),
        })
    }

    fn at(path: &Path) -> std::io::Result<Self> {
        let file = path.canonicalize()?;
        Ok(Self { path: std::path::absolute(path)?, file })
    }
}

/// Returns the entries of `PATH` that are absolute and not inside of `trees`, for programs that start other programs.
pub fn safe_path(trees: &[&Path]) -> std::ffi::OsString {
    let trees: Vec<PathBuf> = trees.iter().filter_map(|tree| top(tree)).collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let safe = std::env::split_paths(&path).filter(|directory| {
        let real = directory.canonicalize();
        directory.is_absolute() && real.is_ok_and(|real| !trees.iter().any(|tree| real.starts_with(tree)))
    });
    std::env::join_paths(safe).unwrap_or_default()
}

/// Returns the top of the checkout that contains a directory, or the directory if it is in none.
fn top(directory: &Path) -> Option<PathBuf> {
    let directory = directory.canonicalize().ok()?;
    let checkout = directory.ancestors().find(|ancestor| ancestor.join(".git").exists());
    Some(checkout.unwrap_or(&directory).to_owned())
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

/// Adds `.exe` on Windows. Scripts (`.bat`, `.cmd`) are not looked for.
fn executable_name(name: &OsStr) -> PathBuf {
    let mut name = PathBuf::from(name);
    if name.extension().is_none() && !std::env::consts::EXE_EXTENSION.is_empty() {
        name.set_extension(std::env::consts::EXE_EXTENSION);
    }
    name
}
