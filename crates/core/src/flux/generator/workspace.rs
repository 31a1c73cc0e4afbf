//! Directories in which source-watcher builds artifacts: one for each source by its alias, and one for each artifact by
//! its name.
//!
//! An artifact with the name of an alias is built in the directory of that source, on top of its files.
//! Source: source-watcher v2.2.2 `internal/builder/builder.go`; `os.Root` of Go 1.26.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::flux::source::artifact::Artifact;
use crate::flux::source::ignore::Patterns;
use crate::flux::source::path;

/// Files and directories below a root.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    pub(super) files: BTreeMap<String, Arc<[u8]>>,
    pub(super) directories: BTreeSet<String>,
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    Directory,
}

impl Directory {
    pub(super) fn of(artifact: &Artifact) -> Self {
        let files = artifact.shared_files().map(|(at, content)| (at.to_owned(), content.clone())).collect();
        Self { files, directories: artifact.directories().map(str::to_owned).collect() }
    }

    /// Returns the kind of the entry at a clean path; `None` if there is none.
    pub(super) fn entry(&self, at: &str) -> Option<EntryKind> {
        if self.files.contains_key(at) {
            return Some(EntryKind::File);
        }
        (at == "." || self.directories.contains(at)).then_some(EntryKind::Directory)
    }

    /// Creates a directory and those above it. A file in its place is no error, as in source-watcher.
    ///
    /// Fails if a file is above it.
    pub(super) fn create(&mut self, at: &str) -> Result<(), String> {
        if at == "." || self.entry(at).is_some() {
            return Ok(());
        }
        if let Some(file) = path::ancestors(at).find(|above| self.files.contains_key(*above)) {
            return Err(format!("{file} is not a directory"));
        }
        self.directories.extend(path::ancestors(at).map(str::to_owned));
        self.directories.insert(at.to_owned());
        Ok(())
    }

    /// Writes a file and creates the directories above it.
    ///
    /// Fails if a directory is in its place, or a file above it.
    pub(super) fn write(&mut self, at: &str, content: Arc<[u8]>) -> Result<(), String> {
        let parent = path::parent(at);
        self.create(if parent.is_empty() { "." } else { parent })?;
        if self.files.contains_key(parent) {
            return Err(format!("{parent} is not a directory"));
        }
        if self.entry(at) == Some(EntryKind::Directory) {
            return Err(format!("{at} is a directory"));
        }
        self.files.insert(at.to_owned(), content);
        Ok(())
    }

    /// Returns the names in a directory in order; none if it is no directory.
    pub(super) fn names(&self, directory: &str) -> BTreeSet<&str> {
        let prefix = prefix_of(directory);
        let entries = self.entries_below(&prefix).map(|(at, _)| &at[prefix.len()..]);
        entries.filter(|rest| !rest.contains('/')).collect()
    }

    /// Returns the paths of everything below a directory, those of directories before their content.
    pub(super) fn below(&self, directory: &str) -> Vec<(String, EntryKind)> {
        let prefix = prefix_of(directory);
        let mut found: Vec<(String, EntryKind)> =
            self.entries_below(&prefix).map(|(at, entry)| (at.clone(), entry)).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    fn entries_below(&self, prefix: &str) -> impl Iterator<Item = (&String, EntryKind)> {
        let files = self.files.range(prefix.to_owned()..).map(|(at, _)| (at, EntryKind::File));
        let directories = self.directories.range(prefix.to_owned()..).map(|at| (at, EntryKind::Directory));
        let below = files.take_while(move |(at, _)| at.starts_with(prefix));
        below.chain(directories.take_while(move |(at, _)| at.starts_with(prefix)))
    }

    /// Returns the artifact that source-watcher packs of the directory: without the files that source-controller ignores
    /// by default. The directory is called `name`, which counts for the rules too.
    pub(super) fn packed(&self, name: &str) -> Artifact {
        let patterns = Patterns::default().with_defaults();
        let Self { mut files, mut directories } = self.clone();
        files.retain(|at, _| !patterns.excludes(&format!("{name}/{at}"), false));
        directories.retain(|at| !patterns.excludes(&format!("{name}/{at}"), true));
        Artifact::of_parts(files, directories)
    }

    /// Returns the checksum of names and contents with which source-watcher names the archive of an artifact.
    pub(super) fn checksum(&self, name: &str) -> u32 {
        let mut lines: Vec<(String, u32)> =
            self.files.iter().map(|(at, content)| (format!("{name}/{at}"), adler32(content))).collect();
        lines.sort();
        let text: String = lines.iter().map(|(at, sum)| format!("{sum:x}  {at}\n")).collect();
        adler32(text.as_bytes())
    }
}

/// Returns the text with which the paths below a directory begin.
fn prefix_of(directory: &str) -> String {
    if directory == "." { String::new() } else { format!("{directory}/") }
}

/// Returns the Adler-32 checksum of some bytes.
fn adler32(bytes: &[u8]) -> u32 {
    let (mut low, mut high) = (1_u32, 0_u32);
    for chunk in bytes.chunks(5552) {
        for byte in chunk {
            low += u32::from(*byte);
            high += low;
        }
        low %= 65_521;
        high %= 65_521;
    }
    high << 16 | low
}

/// Returns a path as Go's `filepath.Clean` does.
pub(super) fn clean(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut segments: Vec<&str> = vec![];
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." if segments.last().is_some_and(|last| *last != "..") => drop(segments.pop()),
            ".." if is_absolute => {}
            other => segments.push(other),
        }
    }
    match (is_absolute, segments.join("/")) {
        (true, joined) => format!("/{joined}"),
        (false, joined) if joined.is_empty() => ".".to_owned(),
        (false, joined) => joined,
    }
}

/// Joins two paths as Go's `filepath.Join` does.
pub(super) fn join(directory: &str, name: &str) -> String {
    match (directory.is_empty(), name.is_empty()) {
        (true, true) => String::new(),
        (true, false) => clean(name),
        (false, _) => clean(&format!("{directory}/{name}")),
    }
}

/// Returns true if a clean path leads out of its root.
pub(super) fn leaves_root(clean: &str) -> bool {
    clean.starts_with('/') || clean == ".." || clean.starts_with("../")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &str)]) -> Directory {
        let mut found = Directory::default();
        for (at, content) in files {
            found.write(at, content.as_bytes().into()).unwrap();
        }
        found
    }

    #[test]
    fn paths_are_cleaned_as_in_go() {
        let rows = [
            ("", "."),
            ("a/./b//c/", "a/b/c"),
            ("a/../..", ".."),
            ("/../a", "/a"),
            ("../../a", "../../a"),
            ("a/..", "."),
            ("/", "/"),
        ];
        for (path, expected) in rows {
            assert_eq!(clean(path), expected, "{path}");
        }
        assert_eq!((join("", "a"), join("a/", "."), join("..", "a")), ("a".into(), "a".into(), "../a".into()));
        assert!(leaves_root("..") && leaves_root("/a") && !leaves_root("..a") && !leaves_root("a"));
    }

    #[test]
    fn a_file_is_no_directory() {
        let mut found = directory(&[("a", "1"), ("b/c", "2")]);
        assert!(found.write("a/x", [].into()).is_err());
        assert!(found.write("a/x/y", [].into()).is_err());
        assert!(found.write("b", [].into()).is_err());
        assert_eq!((found.create("a"), found.create("a/x/y").is_err()), (Ok(()), true));
        assert_eq!(found.names("."), BTreeSet::from(["a", "b"]));
    }

    #[test]
    fn files_that_are_ignored_by_default_are_not_packed() {
        let found = directory(&[("logo.png", ""), ("a.yaml", ""), (".github/x.yaml", ""), (".sourceignore", "*.yaml")]);
        let packed = found.packed("app");
        let files: Vec<&str> = packed.files().map(|(at, _)| at).collect();
        assert_eq!(files, [".sourceignore", "a.yaml"]);
        assert_eq!(found.packed("app.zip").files().count(), 0);
    }

    #[test]
    fn the_checksum_is_that_of_source_watcher() {
        assert_eq!(adler32(b"Wikipedia"), 0x11E6_0398);
        assert_eq!(Directory::default().checksum("app"), 1);
        let line = format!("{:x}  app/a.yaml\n", adler32(b"a: 1\n"));
        assert_eq!(directory(&[("a.yaml", "a: 1\n")]).checksum("app"), adler32(line.as_bytes()));
    }
}
