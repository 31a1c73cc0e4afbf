//! Reads blobs with `git cat-file`, each once and none that is too large.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::Arc;

use super::Checkout;
use super::entries::{GitEntry, SUBMODULE, SYMLINK};
use crate::error::{Error, Result};
use crate::tools::limits;
use gitops_core::flux::source::path::PathProblem;
use gitops_core::flux::source::tree::{File, Tree};

/// A blob, or the reason why it was not read.
pub(super) type Blob = Result<Arc<[u8]>, String>;

impl Checkout {
    /// Returns the tree of these entries.
    ///
    /// Fails if a path is not allowed in a tree, there are too many files, or they are too large together.
    /// `variables` are added to the environment.
    pub(super) fn tree_of(&self, entries: Vec<GitEntry>, variables: &[(&str, &Path)]) -> Result<Tree> {
        check_count(entries.len(), &self.directory)?;
        let blobs = entries.iter().filter(|entry| entry.mode != SUBMODULE && entry.path.is_utf8);
        let blobs = self.blobs(blobs.map(|entry| &*entry.object).collect(), variables)?;
        let mut tree = Tree::default();
        for entry in entries {
            let file = match (entry.mode.as_str(), blobs.get(&entry.object)) {
                (SUBMODULE, _) => File::Submodule,
                _ if !entry.path.is_utf8 => File::Unread("its name is not UTF-8".to_owned()),
                (SYMLINK, Some(Ok(content))) => File::Symlink(String::from_utf8_lossy(content).into_owned()),
                (_, blob) => file_of(blob),
            };
            self.insert(&mut tree, entry.path.text, file)?;
        }
        Ok(tree)
    }

    /// Adds a file to a tree. Fails if its path is not allowed.
    pub(super) fn insert(&self, tree: &mut Tree, path: String, file: File) -> Result<()> {
        tree.insert(path, file).map_err(|problem| self.refused(&problem))
    }

    pub(super) fn refused(&self, problem: &PathProblem) -> Error {
        Error::failed(format!("{} has a file that cannot be checked out: {problem}", self.directory.display()))
            .hint("source-controller refuses such a tree; rename or remove the file")
    }

    /// Reads blobs by their object names. `variables` are added to the environment.
    pub(super) fn blobs(&self, objects: BTreeSet<&str>, variables: &[(&str, &Path)]) -> Result<BTreeMap<String, Blob>> {
        let present = if self.is_partial { Some(self.present_objects(variables)?) } else { None };
        let (wanted, absent): (Vec<&str>, Vec<&str>) =
            objects.into_iter().partition(|object| present.as_ref().is_none_or(|present| present.contains(*object)));
        let why = "it is not in this partial clone; `git fetch --refetch --no-filter` fetches all content";
        let mut blobs: BTreeMap<String, Blob> =
            absent.into_iter().map(|object| (object.to_owned(), Err(why.to_owned()))).collect();
        let (mut readable, mut total) = (Vec::new(), 0);
        let sizes = self.run(variables, &["cat-file", "--batch-check"], Some(lines(&wanted)))?;
        for (object, answer) in wanted.iter().zip(String::from_utf8_lossy(&sizes).lines()) {
            match answer.split(' ').collect::<Vec<_>>()[..] {
                [_, "blob", size] => {
                    let bytes = size.parse().unwrap_or(u64::MAX);
                    match too_large(bytes) {
                        Some(why) => drop(blobs.insert((*object).to_owned(), Err(why))),
                        None => {
                            total += bytes;
                            readable.push(*object);
                        }
                    }
                }
                _ => drop(blobs.insert((*object).to_owned(), Err("git has no content for it".to_owned()))),
            }
        }
        check_total(total, &self.directory)?;
        let arguments = ["cat-file", "--batch"];
        let contents = self.git(variables).read(&arguments, Some(lines(&readable)), |output| {
            let mut output = std::io::BufReader::with_capacity(1 << 16, output);
            readable.iter().map(|_| read_blob(&mut output).map_err(|error| self.unexpected(&error))).collect()
        });
        let contents: Vec<Arc<[u8]>> = contents?;
        blobs.extend(readable.into_iter().map(str::to_owned).zip(contents.into_iter().map(Ok)));
        Ok(blobs)
    }

    /// Returns the objects of a partial clone. Asking for another one would make older versions of git fetch it.
    fn present_objects(&self, variables: &[(&str, &Path)]) -> Result<HashSet<String>> {
        let arguments = ["cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)"];
        let listing = self.run(variables, &arguments, None)?;
        Ok(String::from_utf8_lossy(&listing).lines().map(str::to_owned).collect())
    }

    fn unexpected(&self, error: &std::io::Error) -> Error {
        Error::failed(format!("git cat-file in {}: {error}", self.directory.display()))
    }
}

/// Returns the regular file with this content.
pub(super) fn file_of(blob: Option<&Blob>) -> File {
    match blob {
        Some(Ok(content)) => File::Regular(content.clone()),
        Some(Err(why)) => File::Unread(why.clone()),
        None => File::Unread("git did not return its content".to_owned()),
    }
}

/// Returns the reason not to read a file of this size, if it is too large.
pub(super) fn too_large(size: u64) -> Option<String> {
    let limit = limits::bytes(limits::MAX_FILE);
    (size > limits::MAX_FILE).then(|| format!("it has {size} bytes, and the limit for one file is {limit}"))
}

/// Fails if a tree has too many files.
pub(in crate::tools) fn check_count(files: usize, directory: &Path) -> Result<()> {
    let limit = limits::MAX_TREE_FILES;
    if files <= limit {
        return Ok(());
    }
    Err(Error::failed(format!("{} has {files} files, and the limit is {limit}", directory.display()))
        .hint("name the directory that Flux deploys with --source KIND/NAMESPACE/NAME=DIR"))
}

/// Fails if the files of a tree are too large together.
pub(in crate::tools) fn check_total(bytes: u64, directory: &Path) -> Result<()> {
    if bytes <= limits::MAX_TREE {
        return Ok(());
    }
    let limit = limits::bytes(limits::MAX_TREE);
    let message = format!("the files in {} have {bytes} bytes, and the limit is {limit}", directory.display());
    Err(Error::failed(message).hint("name the directory that Flux deploys with --source KIND/NAMESPACE/NAME=DIR"))
}

fn lines(objects: &[&str]) -> Vec<u8> {
    objects.iter().flat_map(|object| [object.as_bytes(), b"\n"]).flatten().copied().collect()
}

fn other_output() -> std::io::Error {
    std::io::Error::other("it ended early, or its output is not that of cat-file")
}

/// Reads `<object> blob <size>\n<content>\n`.
fn read_blob(output: &mut impl BufRead) -> std::io::Result<Arc<[u8]>> {
    let mut header = String::new();
    output.take(256).read_line(&mut header)?;
    let size: u64 = header.trim_end().rsplit(' ').next().and_then(|size| size.parse().ok()).ok_or_else(other_output)?;
    if size > limits::MAX_FILE {
        return Err(other_output());
    }
    let mut content = Vec::new();
    output.take(size + 1).read_to_end(&mut content)?;
    if content.pop() != Some(b'\n') || content.len() as u64 != size {
        return Err(other_output());
    }
    Ok(content.into())
}
