//! The artifact that source-controller makes of a tree: what a Kustomization can see.
//!
//! Source: reference kustomize-controller 3.1.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::ignore::Patterns;
use super::path;
use super::tree::{File, Tree};
use crate::text::hex;

/// Which files a kind of source leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IgnoreFilter {
    /// Ignore files of every directory, and the defaults while there is no pattern: GitRepository, OCIRepository.
    #[default]
    Full,
    /// The ignore file of the root, no defaults: Bucket.
    RootOnly,
    /// Nothing: an OCIRepository whose layer is copied, an ExternalArtifact.
    Nothing,
}

/// The fields of a source that decide what is packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceOptions {
    /// How files are filtered.
    pub filter: IgnoreFilter,
    /// `spec.ignore`: lines with the highest priority.
    pub ignore: Option<String>,
    /// `spec.sparseCheckout`: plain string prefixes; empty means everything.
    pub sparse: Vec<String>,
}

/// Regular files and directories that survive the filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Artifact {
    files: BTreeMap<String, Arc<[u8]>>,
    directories: BTreeSet<String>,
    digest: String,
}

impl Artifact {
    /// Packs a tree as source-controller does.
    pub fn pack(tree: &Tree, options: &SourceOptions) -> Self {
        let sparse: Vec<&str> = options.sparse.iter().map(|entry| entry.trim_start_matches("./")).collect();
        let checked_out = |at: &str| sparse.is_empty() || sparse.iter().any(|prefix| at.starts_with(prefix));
        let regular = tree.iter().filter_map(|(at, file)| match file {
            File::Regular(content) if checked_out(at) => Some((at, content)),
            _ => None,
        });
        let regular: Vec<_> = regular.collect();
        let patterns = patterns(&regular, options);
        let mut directories = BTreeSet::new();
        let links = tree.iter().filter(|(at, file)| !matches!(file, File::Regular(_)) && checked_out(at));
        for at in regular.iter().map(|(at, _)| *at).chain(links.map(|(at, _)| at)) {
            let mut directory = path::parent(at);
            while !directory.is_empty() {
                if !patterns.excludes(directory, true) {
                    directories.insert(directory.to_owned());
                }
                directory = path::parent(directory);
            }
        }
        let kept = regular.into_iter().filter(|(at, _)| !patterns.excludes(at, false));
        Self::new(kept.map(|(at, content)| (at.to_owned(), content.clone())).collect(), directories)
    }

    fn new(files: BTreeMap<String, Arc<[u8]>>, mut directories: BTreeSet<String>) -> Self {
        // Unpacking makes the directories above every file and directory, also those that were excluded themselves.
        let kept: Vec<String> = files.keys().chain(&directories).cloned().collect();
        for at in kept {
            let mut directory = path::parent(&at);
            while !directory.is_empty() {
                directories.insert(directory.to_owned());
                directory = path::parent(directory);
            }
        }
        let digest = hash(&files, &directories);
        Self { files, directories, digest }
    }

    /// An artifact of one file, for what is built a second time.
    pub fn of_file(at: &str, content: &[u8]) -> Self {
        Self::new([(at.to_owned(), content.into())].into(), BTreeSet::new())
    }

    /// `sha256:` and the hash of some bytes, as the controllers write digests.
    pub fn digest_of(bytes: &[u8]) -> String {
        format!("sha256:{}", hex(&Sha256::digest(bytes)))
    }

    /// The content of a file.
    pub fn file(&self, at: &str) -> Option<&[u8]> {
        self.files.get(at).map(|content| &**content)
    }

    /// Whether a directory is in the artifact; the root always is.
    pub fn has_directory(&self, at: &str) -> bool {
        at.is_empty() || self.directories.contains(at)
    }

    /// Paths and contents in order.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(at, content)| (at.as_str(), &**content))
    }

    /// Every directory but the root, in order.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        self.directories.iter().map(String::as_str)
    }

    /// The digest of a part: files by name, and directories with all that is below them.
    pub fn digest_below(&self, paths: &BTreeSet<String>) -> String {
        let files =
            paths.iter().flat_map(|at| self.files.get_key_value(at).into_iter().chain(self.files.range(below(at))));
        let directories =
            paths.iter().flat_map(|at| self.directories.get(at).into_iter().chain(self.directories.range(below(at))));
        hash(files, directories)
    }

    /// Hash of paths and contents: two artifacts with one digest build to the same objects.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

fn patterns(files: &[(&str, &Arc<[u8]>)], options: &SourceOptions) -> Patterns {
    if options.filter == IgnoreFilter::Nothing {
        return Patterns::default();
    }
    let mut found: Vec<_> = files.iter().filter(|(at, _)| at.rsplit('/').next() == Some(".sourceignore")).collect();
    // Directory by directory as a walk meets them: a directory's own file before those below it.
    found.sort_by_key(|(at, _)| path::parent(at).split('/').map(str::to_owned).collect::<Vec<_>>());
    let mut patterns = Patterns::default();
    if options.filter == IgnoreFilter::RootOnly {
        found.retain(|(at, _)| path::parent(at).is_empty());
    }
    for (at, content) in found {
        patterns.add(path::parent(at), &String::from_utf8_lossy(content));
    }
    patterns.add("", options.ignore.as_deref().unwrap_or_default());
    if options.filter == IgnoreFilter::Full { patterns.with_defaults() } else { patterns }
}

/// The keys below a directory; `0` is the character after `/`.
fn below(directory: &str) -> Range<String> {
    format!("{directory}/")..format!("{directory}0")
}

fn hash<'a>(
    files: impl IntoIterator<Item = (&'a String, &'a Arc<[u8]>)>,
    directories: impl IntoIterator<Item = &'a String>,
) -> String {
    let mut hash = Sha256::new();
    for (at, content) in files {
        hash.update((at.len() as u64).to_le_bytes());
        hash.update(at);
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    directories.into_iter().for_each(|directory| hash.update(directory));
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(files: &[&str], options: &SourceOptions) -> Vec<String> {
        let tree: Tree = files.iter().map(|file| file.split_once('=').unwrap_or((file, ""))).collect();
        Artifact::pack(&tree, options).files.into_keys().collect()
    }

    #[test]
    fn defaults_go_once_anyone_writes_a_pattern() {
        let files = [".github/ci.yaml", ".sops.yaml", "a.yaml", "logo.png", ".gitignore"];
        assert_eq!(pack(&files, &SourceOptions::default()), ["a.yaml"]);
        let with = [&files[..], &["deep/.sourceignore=nothing"]].concat();
        let kept = [".github/ci.yaml", ".sops.yaml", "a.yaml", "deep/.sourceignore", "logo.png"];
        assert_eq!(pack(&with, &SourceOptions::default()), kept);
    }

    #[test]
    fn the_sources_own_ignore_has_the_last_word() {
        let options = SourceOptions { ignore: Some("!b.yaml".to_owned()), ..Default::default() };
        assert_eq!(pack(&[".sourceignore=*.yaml", "a.yaml", "b.yaml"], &options), [".sourceignore", "b.yaml"]);
    }

    #[test]
    fn other_sources_filter_less() {
        let files = [".github/ci.yaml", "logo.png", "a.yaml", "deep/.sourceignore=*.yaml", "deep/b.yaml"];
        let with = |filter| pack(&files, &SourceOptions { filter, ..Default::default() }).len();
        assert_eq!(with(IgnoreFilter::RootOnly), 5);
        assert_eq!(with(IgnoreFilter::Nothing), 5);
        assert_eq!(with(IgnoreFilter::Full), 4);
    }

    #[test]
    fn sparse_checkout_is_a_plain_prefix() {
        let options = SourceOptions { sparse: vec!["./app".to_owned()], ..Default::default() };
        assert_eq!(
            pack(&["root.yaml", "app/a.yaml", "apple.yaml", "b/a.yaml"], &options),
            ["app/a.yaml", "apple.yaml"]
        );
    }

    #[test]
    fn symlinks_are_dropped_and_their_directory_stays() {
        let mut tree: Tree = [("a.yaml", "")].into_iter().collect();
        tree.insert("links/b.yaml", File::Symlink("../a.yaml".to_owned()));
        let artifact = Artifact::pack(&tree, &SourceOptions::default());
        assert_eq!(artifact.file("links/b.yaml"), None);
        assert!(artifact.has_directory("links"));
    }

    #[test]
    fn a_directory_lives_unless_it_is_excluded_itself() {
        let files = [(".sourceignore", "gone/\n*.txt"), ("gone/a.yaml", ""), ("bare/a.txt", "")];
        let artifact = Artifact::pack(&files.into_iter().collect(), &SourceOptions::default());
        assert!(!artifact.has_directory("gone"));
        assert!(artifact.has_directory("bare"));
        assert!(artifact.has_directory(""));
    }
}
