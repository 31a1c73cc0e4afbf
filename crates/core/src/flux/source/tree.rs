//! A tree of files as git would commit it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::path;
use super::path::PathProblem;

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// A regular file and its blob, without smudging or line-end conversion.
    Regular(Arc<[u8]>),
    /// A symbolic link and its target; source-controller drops it (docs/reference/kustomize-controller.md 3.1).
    Symlink(String),
    /// A submodule; its content is not part of this tree. source-controller leaves an empty directory in its place.
    Submodule,
    /// A file or directory whose content is not known, with the reason as a sentence.
    Unread(String),
}

/// Files by their path below the root. Every path passed [`path::check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    files: BTreeMap<String, File>,
}

impl Tree {
    /// Adds a file.
    ///
    /// Fails if the path cannot be that of a file below the root, or if the tree has a file at it, above it or below it.
    pub fn insert(&mut self, at: impl Into<String>, file: File) -> Result<(), PathProblem> {
        let path = at.into();
        path::check(&path)?;
        let above = path::ancestors(&path).find(|above| self.files.contains_key(*above));
        let below = format!("{path}/");
        let taken = self.files.range(below.clone()..).next().is_some_and(|(next, _)| next.starts_with(&below));
        if above.is_some() || taken || self.files.contains_key(&path) {
            return Err(PathProblem { reason: "the tree has another file at the same place", path });
        }
        self.files.insert(path, file);
        Ok(())
    }

    /// Replaces a file, or removes it if `newer` is `None`. The path must be one of a tree.
    pub(crate) fn replace(&mut self, at: &str, newer: Option<File>) {
        match newer {
            Some(newer) => drop(self.files.insert(at.to_owned(), newer)),
            None => drop(self.files.remove(at)),
        }
    }

    pub fn get(&self, at: &str) -> Option<&File> {
        self.files.get(at)
    }

    /// Returns true if there is a file or a directory at a path; the root always is there.
    pub(crate) fn has(&self, at: &str) -> bool {
        let below = format!("{at}/");
        let mut next = self.files.range(below.clone()..);
        at.is_empty() || self.files.contains_key(at) || next.next().is_some_and(|(path, _)| path.starts_with(&below))
    }

    /// Returns paths and files in order of the paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Returns the part below a directory; the whole tree for the root.
    #[must_use]
    pub fn below(self, directory: &str) -> Self {
        if directory.is_empty() {
            return self;
        }
        let prefix = format!("{directory}/");
        let files = self.files.into_iter();
        Self { files: files.filter_map(|(path, file)| Some((path.strip_prefix(&prefix)?.to_owned(), file))).collect() }
    }

    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl<P: Into<String>, C: AsRef<[u8]>> FromIterator<(P, C)> for Tree {
    /// Collects regular files. Panics if [`Tree::insert`] fails.
    fn from_iter<I: IntoIterator<Item = (P, C)>>(files: I) -> Self {
        let mut tree = Self::default();
        for (path, content) in files {
            tree.insert(path, File::Regular(content.as_ref().into())).expect("a path of its own");
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_file_or_a_directory_and_is_there_once() {
        let refused = |paths: [&str; 2]| {
            let mut tree = Tree::default();
            paths.map(|path| tree.insert(path, File::Submodule).is_err())
        };
        for second in ["a/b", "a/b/c", "a"] {
            assert_eq!(refused(["a/b", second]), [false, true], "{second}");
        }
        for second in ["a/b.yaml", "a/bc", "a-b", "b"] {
            assert_eq!(refused(["a/b", second]), [false, false], "{second}");
        }
    }
}
