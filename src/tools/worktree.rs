//! Reads the directory that a source is built from: part of a checkout as git would commit it, or a plain directory.

use std::path::Path;

use super::git::{Checkout, WorktreeState};
use crate::error::{Error, Result};
use gitops_core::flux::source::tree::{File, Tree};

/// Size limit of one file: larger ones are not manifests and would fill the memory.
const MAX_FILE_SIZE: u64 = 64 << 20;

/// Returns the files of a directory: in a checkout those that git would commit, unless git ignores the directory.
///
/// Fails when the directory cannot be read, or is not in a checkout and `state` is not the work tree.
pub fn read(directory: &Path, state: &WorktreeState) -> Result<Tree> {
    let directory = directory.canonicalize().map_err(|error| cannot_read(directory, &error))?;
    if !directory.is_dir() {
        return Err(Error::usage(format!("{} is not a directory", directory.display())));
    }
    let checkout = Checkout::find(&directory).ok().filter(|checkout| !checkout.ignores(&directory));
    match (checkout, state) {
        (Some(checkout), state) => {
            let prefix = checkout.prefix(&directory);
            Ok(checkout.tree(state)?.below(&prefix))
        }
        (None, WorktreeState::Worktree) => {
            let mut tree = Tree::default();
            walk(&directory, "", &mut tree)?;
            Ok(tree)
        }
        (None, _) => Err(Error::usage(format!("{} is not in a git checkout", directory.display()))),
    }
}

fn walk(directory: &Path, prefix: &str, tree: &mut Tree) -> Result<()> {
    for entry in std::fs::read_dir(directory).map_err(|error| cannot_read(directory, &error))? {
        let entry = entry.map_err(|error| cannot_read(directory, &error))?;
        let failed = |error| cannot_read(&entry.path(), &error);
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            if entry.file_name() != ".git" {
                walk(&entry.path(), &format!("{name}/"), tree)?;
            }
        } else if kind.is_symlink() {
            let target = std::fs::read_link(entry.path()).map_err(failed)?;
            tree.insert(name, File::Symlink(target.to_string_lossy().into_owned()));
        } else if kind.is_file() {
            let size = entry.metadata().map_err(failed)?.len();
            if size > MAX_FILE_SIZE {
                return Err(Error::failed(format!("{} is too large: {size} bytes", entry.path().display()))
                    .hint("no manifest is that large; is this the right directory?"));
            }
            tree.insert(name, File::Regular(std::fs::read(entry.path()).map_err(failed)?.into()));
        }
    }
    Ok(())
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Error {
    Error::failed(format!("cannot read {}: {error}", path.display()))
}
