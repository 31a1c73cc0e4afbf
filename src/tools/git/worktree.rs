//! The files of the directory of a checkout, as `git add -A` would stage them.

use std::collections::{BTreeMap, BTreeSet};

use super::Checkout;
use super::blobs::check_count;
use super::changes::changed_files;
use super::entries::{Name, SUBMODULE, records};
use crate::error::Result;
use gitops_core::flux::source::path;
use gitops_core::flux::source::tree::{File, Tree};

/// A changed entry of the directory.
enum WorktreeChange {
    /// It is not there any more, or has entries of its own.
    Gone,
    /// A regular file, whose content git may convert.
    Regular,
    Other(File),
}

/// Returns the files that `git add -A` would stage, without writing anything.
pub(super) fn worktree(checkout: &Checkout) -> Result<Tree> {
    let mut staged = checkout.staged()?;
    let listing = checkout.run(&[], &["ls-files", "-z", "-m", "-o", "--exclude-standard"], None)?;
    let mut changed: BTreeSet<Name> = records(&listing).map(Name::of).collect();
    changed.extend(staged.iter().filter(|entry| entry.stage != "0").map(|entry| entry.path.clone()));
    for entry in staged.iter().filter(|entry| entry.pinned) {
        changed.remove(&entry.path);
    }
    check_count(staged.len() + changed.len(), &checkout.directory)?;
    let submodules: BTreeSet<Name> = staged
        .iter()
        .filter(|entry| entry.mode == SUBMODULE && changed.contains(&entry.path))
        .map(|entry| entry.path.clone())
        .collect();
    staged.retain(|entry| !changed.contains(&entry.path));
    let mut tree = checkout.tree_of(staged, &[])?;
    let (mut regular, mut directories) = (Vec::new(), BTreeMap::new());
    for name in changed {
        let path = name.text.trim_end_matches('/').to_owned();
        path::check(&path).map_err(|problem| checkout.refused(&problem))?;
        match change(checkout, &name, &path, submodules.contains(&name), &mut directories) {
            WorktreeChange::Gone => {}
            WorktreeChange::Regular => regular.push(path),
            WorktreeChange::Other(file) => checkout.insert(&mut tree, path, file)?,
        }
    }
    for (path, file) in changed_files(checkout, regular)? {
        checkout.insert(&mut tree, path, file)?;
    }
    Ok(tree)
}

fn change(
    checkout: &Checkout,
    name: &Name,
    path: &str,
    is_submodule: bool,
    directories: &mut BTreeMap<String, bool>,
) -> WorktreeChange {
    if !name.is_utf8 {
        return WorktreeChange::Other(File::Unread("its name is not UTF-8".to_owned()));
    }
    if !is_in_tree(checkout, path, directories) {
        return WorktreeChange::Gone;
    }
    let at = checkout.directory.join(path);
    let kind = match std::fs::symlink_metadata(&at) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if is_gone(&error) => return WorktreeChange::Gone,
        Err(error) => return WorktreeChange::Other(unread(&error)),
    };
    if kind.is_file() {
        WorktreeChange::Regular
    } else if kind.is_symlink() {
        let target = std::fs::read_link(&at).map(|target| target.to_string_lossy().into_owned());
        WorktreeChange::Other(target.map_or_else(|error| unread(&error), File::Symlink))
    } else if !kind.is_dir() {
        WorktreeChange::Other(File::Unread("it is not a regular file, and git cannot add it".to_owned()))
    } else if is_submodule || name.text.ends_with('/') {
        // Git would add an untracked checkout inside of this one as a submodule.
        WorktreeChange::Other(File::Submodule)
    } else {
        WorktreeChange::Gone
    }
}

/// Returns false if a directory of a path is a symbolic link: the file is then not in the checkout. `known` keeps the
/// answer for each directory.
fn is_in_tree(checkout: &Checkout, path: &str, known: &mut BTreeMap<String, bool>) -> bool {
    let Some((directory, _)) = path.rsplit_once('/') else { return true };
    if let Some(known) = known.get(directory) {
        return *known;
    }
    let at = checkout.directory.join(directory);
    let answer = !at.is_symlink() && is_in_tree(checkout, directory, known);
    known.insert(directory.to_owned(), answer);
    answer
}

fn unread(error: &std::io::Error) -> File {
    File::Unread(format!("it cannot be read: {error}"))
}

/// Returns true if there is no file at a path, also because a directory of the path is a file.
fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}
