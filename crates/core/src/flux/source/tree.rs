//! A tree of files as git would commit it.

use std::collections::BTreeMap;
use std::sync::Arc;

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// A regular file and its blob, without smudging or line-end conversion.
    Regular(Arc<[u8]>),
    /// A symbolic link and its target; source-controller drops it (docs/reference/kustomize-controller.md 3.1).
    Symlink(String),
    /// A submodule; its content is not part of this tree.
    Submodule,
}

/// Files by their path below the root, `/`-separated, never starting with `/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    files: BTreeMap<String, File>,
}

impl Tree {
    pub fn insert(&mut self, path: impl Into<String>, file: File) {
        self.files.insert(path.into(), file);
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
    fn from_iter<I: IntoIterator<Item = (P, C)>>(files: I) -> Self {
        let files = files.into_iter();
        Self { files: files.map(|(path, content)| (path.into(), File::Regular(content.as_ref().into()))).collect() }
    }
}
