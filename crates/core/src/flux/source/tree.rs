//! A tree of files as git would commit it: the input of everything that is built from a checkout.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What stands at a path of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// A regular file and its blob, without smudging or line-end conversion.
    Regular(Arc<[u8]>),
    /// A symbolic link and its target; source-controller drops it (reference 3.1).
    Symlink(String),
    /// A submodule; its content is no part of this tree.
    Submodule,
}

/// Files by their path below the root, `/`-separated, never starting with `/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    files: BTreeMap<String, File>,
}

impl Tree {
    /// Puts a file at a path, replacing what was there.
    pub fn insert(&mut self, path: impl Into<String>, file: File) {
        self.files.insert(path.into(), file);
    }

    /// Paths and files in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// The part below a directory; the whole tree for the root.
    #[must_use]
    pub fn below(self, directory: &str) -> Self {
        if directory.is_empty() {
            return self;
        }
        let prefix = format!("{directory}/");
        let inside = |(path, file): (String, File)| Some((path.strip_prefix(&prefix)?.to_owned(), file));
        Self { files: self.files.into_iter().filter_map(inside).collect() }
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl<P: Into<String>, C: AsRef<[u8]>> FromIterator<(P, C)> for Tree {
    /// A tree of regular files.
    fn from_iter<I: IntoIterator<Item = (P, C)>>(files: I) -> Self {
        let regular = |(path, content): (P, C)| (path.into(), File::Regular(content.as_ref().into()));
        Self { files: files.into_iter().map(regular).collect() }
    }
}
