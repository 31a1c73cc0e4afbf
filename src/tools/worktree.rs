//! Reads the directory that a source is built from: part of a checkout as git would commit it, or a plain directory.

use std::path::Path;

use super::git::{Checkout, WorktreeState, check_count, check_total};
use super::{files, limits};
use crate::error::{Error, Result};
use gitops_core::flux::source::tree::{File, Tree};

/// Returns the files of a directory: in a checkout those that git would commit, unless git ignores the directory.
///
/// Fails when the directory cannot be read, git refuses the checkout, a limit is exceeded, or it is not in a checkout and
/// `state` is not the work tree. A file that cannot be read is in the tree with the reason.
pub fn read(directory: &Path, state: &WorktreeState) -> Result<Tree> {
    let root = directory.canonicalize().map_err(|error| cannot_read(directory, &error))?;
    if !root.is_dir() {
        return Err(Error::usage(format!("{} is not a directory", root.display())));
    }
    let checkout = Checkout::containing(&root)?.filter(|checkout| !checkout.ignores(&root));
    match (checkout, state) {
        (Some(checkout), state) => Ok(checkout.tree(state)?.below(&checkout.prefix(&root))),
        (None, WorktreeState::Worktree) => {
            let mut walk = DirectoryWalk { root: &root, tree: Tree::default(), bytes: 0 };
            walk.add(&root, "", 0)?;
            Ok(walk.tree)
        }
        (None, _) => Err(Error::usage(format!("{} is not in a git checkout", root.display()))
            .hint("name a directory in a checkout that git does not ignore: only commits have revisions")),
    }
}

/// The files found so far in a plain directory.
struct DirectoryWalk<'a> {
    root: &'a Path,
    tree: Tree,
    bytes: u64,
}

impl DirectoryWalk<'_> {
    /// Adds the files below a directory. As in an artifact, what is no file, directory or link does not count.
    fn add(&mut self, directory: &Path, prefix: &str, depth: usize) -> Result<()> {
        if depth > limits::MAX_DEPTH {
            return Err(Error::failed(format!(
                "{} has more than {} nested directories, the limit",
                self.root.display(),
                limits::MAX_DEPTH
            )));
        }
        let entries = match std::fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>) {
            Ok(entries) => entries,
            Err(error) if depth > 0 => {
                return self.insert(prefix.trim_end_matches('/').to_owned(), File::Unread(unread(&error)));
            }
            Err(error) => return Err(cannot_read(directory, &error)),
        };
        check_count(self.tree.len() + entries.len(), self.root)?;
        for entry in entries {
            let name = entry.file_name();
            let Some(text) = name.to_str() else {
                let shown = name.as_encoded_bytes().escape_ascii();
                let why = "its name is not UTF-8".to_owned();
                self.insert(format!("{prefix}{shown}"), File::Unread(why))?;
                continue;
            };
            let path = format!("{prefix}{text}");
            let kind = entry.file_type().map_err(|error| cannot_read(&entry.path(), &error))?;
            if kind.is_dir() {
                if text != ".git" {
                    self.add(&entry.path(), &format!("{path}/"), depth + 1)?;
                }
            } else if kind.is_symlink() {
                let target = std::fs::read_link(entry.path());
                let file = target.map(|target| File::Symlink(target.to_string_lossy().into_owned()));
                self.insert(path, file.unwrap_or_else(|error| File::Unread(unread(&error))))?;
            } else if kind.is_file() {
                let file = match files::read_regular(&entry.path(), limits::MAX_FILE) {
                    Ok(content) => {
                        self.bytes += content.len() as u64;
                        check_total(self.bytes, self.root)?;
                        File::Regular(content.into())
                    }
                    Err(error) => File::Unread(unread(&error)),
                };
                self.insert(path, file)?;
            }
        }
        Ok(())
    }

    fn insert(&mut self, path: String, file: File) -> Result<()> {
        self.tree.insert(path, file).map_err(|problem| {
            Error::failed(format!("{} has a file that cannot be in an artifact: {problem}", self.root.display()))
                .hint("rename or remove the file")
        })
    }
}

fn unread(error: &std::io::Error) -> String {
    format!("it cannot be read: {error}")
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Error {
    Error::failed(format!("cannot read {}: {error}", path.display()))
}
