//! Finds programs by absolute path, so that no working tree and no current directory can supply one.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::git::Checkout;

/// Name of the git program.
pub const GIT: &str = "git";

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
    /// Relative entries of `PATH` and programs that are part of `trees` are skipped: whoever can change a working tree
    /// could supply the program. Fails if there is no such file.
    pub fn find(program: &Path, trees: &[&Path]) -> io::Result<Self> {
        if program.components().count() > 1 {
            return Self::at(program);
        }
        let (trees, name) = (tops(trees), executable_name(program.as_os_str()));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "it is not on the PATH");
        for candidate in std::env::split_paths(&path).map(|directory| directory.join(&name)) {
            match Self::at(&candidate) {
                Ok(found) if !is_executable(&found.file) => {}
                Ok(found) if candidate.is_absolute() && !trees.iter().any(|tree| found.is_part_of(tree)) => {
                    return Ok(found);
                }
                Ok(_) => failure = io::Error::other("PATH has it only in a relative directory or in the working tree"),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if failure.kind() == io::ErrorKind::NotFound => failure = error,
                Err(_) => {}
            }
        }
        Err(failure)
    }

    fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: std::path::absolute(path)?, file: path.canonicalize()? })
    }

    /// Returns true if a program is part of a working tree: if it is in its directory, and git does not ignore it. git
    /// itself must not be in it.
    fn is_part_of(&self, tree: &Path) -> bool {
        [&self.path, &self.file].into_iter().any(|path| {
            let can_be_ignored = path.file_stem() != Some(OsStr::new(GIT));
            is_inside(path, tree)
                && !(can_be_ignored && Checkout::find(tree).is_ok_and(|checkout| checkout.ignores(path)))
        })
    }
}

/// Returns the entries of `PATH` that are absolute and not inside of `trees`, for programs that start other programs.
pub fn safe_path(trees: &[&Path]) -> OsString {
    let trees = tops(trees);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let safe = std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute() && !trees.iter().any(|tree| is_inside(directory, tree)));
    std::env::join_paths(safe).unwrap_or_default()
}

/// Returns true if a file or directory is inside of a directory without symbolic links.
fn is_inside(path: &Path, directory: &Path) -> bool {
    let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
    parent.is_some_and(|parent| parent.starts_with(directory))
        || path.canonicalize().is_ok_and(|path| path.starts_with(directory))
}

/// Returns the files and directories at the top of the checkout that contains a directory, or of the directory if it is in
/// none. The repository of git is not one of them: its configuration can hold passwords.
pub fn checkout_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(top(directory).unwrap_or_else(|| directory.to_owned()))?.map(|entry| Ok(entry?.path()));
    entries.filter(|path| !path.as_ref().is_ok_and(|path| path.ends_with(".git"))).collect()
}

fn tops(trees: &[&Path]) -> Vec<PathBuf> {
    trees.iter().filter_map(|tree| top(tree)).collect()
}

/// Returns the top of the checkout that contains a directory, or the directory if it is in none.
fn top(directory: &Path) -> Option<PathBuf> {
    let path = directory.canonicalize().ok()?;
    let checkout = path.ancestors().find(|ancestor| ancestor.join(".git").exists());
    Some(checkout.unwrap_or(&path).to_owned())
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
