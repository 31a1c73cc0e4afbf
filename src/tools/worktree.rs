//! Reads the tree that a source is made of: a part of a checkout as git would commit it, or a plain folder.

use std::path::Path;

use super::git::{Checkout, WorktreeState};
use crate::error::{Error, Result};
use gitops_core::flux::source::tree::{File, Tree};

/// More than this in one file is no manifest; it would only fill the memory.
const LARGEST: u64 = 64 << 20;

/// The tree of a folder. Inside a checkout it is what git would commit of it, unless git ignores the folder.
///
/// # Errors
/// When the folder cannot be read, or a state of git is asked for where there is no git.
pub fn read(folder: &Path, state: &WorktreeState) -> Result<Tree> {
    let failed = |error| Error::failed(format!("cannot read {}: {error}", folder.display()));
    let folder = folder.canonicalize().map_err(failed)?;
    if !folder.is_dir() {
        return Err(Error::usage(format!("{} is not a directory", folder.display())));
    }
    let checkout = Checkout::find(&folder).ok().filter(|checkout| !checkout.ignores(&folder));
    match (checkout, state) {
        (Some(checkout), state) => {
            let prefix = checkout.prefix(&folder);
            Ok(checkout.tree(state)?.below(&prefix))
        }
        (None, WorktreeState::Worktree) => {
            let mut tree = Tree::default();
            walk(&folder, "", &mut tree)?;
            Ok(tree)
        }
        (None, _) => Err(Error::usage(format!("{} is not in a git checkout", folder.display()))),
    }
}

fn walk(folder: &Path, prefix: &str, tree: &mut Tree) -> Result<()> {
    let failed = |error: std::io::Error| Error::failed(format!("cannot read {}: {error}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
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
            if size > LARGEST {
                return Err(Error::failed(format!("{} is too large: {size} bytes", entry.path().display()))
                    .hint("no manifest is that large; is this the right directory?"));
            }
            tree.insert(name, File::Regular(std::fs::read(entry.path()).map_err(failed)?.into()));
        }
    }
    Ok(())
}
