//! The artifact that source-controller packs of a tree, and that a Kustomization is built from.
//!
//! Source: docs/reference/kustomize-controller.md 3.1.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::ignore::Patterns;
use super::options::{IgnoreFilter, SourceOptions};
use super::path;
use super::tree::{File, Tree};
use crate::text::hash_of_parts;

/// Number of symbolic links that Linux follows in one path.
const MAX_LINKS: usize = 40;

/// Regular files and directories of a source that its ignore rules keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Artifact {
    files: BTreeMap<String, Arc<[u8]>>,
    directories: BTreeSet<String>,
    unread: Vec<Unread>,
    digest: String,
    digests: PartDigests,
}

/// A file or directory that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unread {
    /// Its path; empty for the rules of the whole source.
    path: String,
    why: String,
}

impl Unread {
    /// Returns true if the content at or below a path depends on it.
    fn concerns(&self, at: &str) -> bool {
        self.path == at || is_below(&self.path, at) || is_below(at, &self.path)
    }

    /// Returns false for a file that no build lists by itself.
    fn may_be_manifest(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').is_none_or(|(_, ending)| ["yaml", "yml", "json"].contains(&ending))
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.why) } else { write!(f, "{}: {}", self.path, self.why) }
    }
}

/// Digests of parts of an artifact so far. The plans of several clusters ask for the same ones.
#[derive(Debug, Default)]
struct PartDigests(Mutex<HashMap<BTreeSet<String>, String>>);

impl Clone for PartDigests {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for PartDigests {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for PartDigests {}

impl Artifact {
    /// Packs a tree as source-controller does.
    pub fn pack(tree: &Tree, options: &SourceOptions) -> Self {
        let checked_out: Vec<_> = tree.iter().filter(|(at, _)| is_checked_out(at, &options.sparse)).collect();
        let regular = checked_out.iter().filter_map(|(at, file)| match file {
            File::Regular(content) => Some((*at, content)),
            _ => None,
        });
        let mut files: Vec<(&str, &Arc<[u8]>)> = regular.collect();
        let (patterns, unread_rules) = match patterns(&checked_out, options) {
            Ok(patterns) => (patterns, None),
            Err(why) => (Patterns::default(), Some(Unread { path: String::new(), why })),
        };
        // A directory of a link stays, although the link itself is dropped.
        let mut directories = BTreeSet::new();
        let unread = checked_out.iter().filter(|(at, _)| !patterns.excludes(at, false)).filter_map(|(at, file)| {
            let File::Unread(why) = file else { return None };
            Some(Unread { path: (*at).to_owned(), why: why.clone() })
        });
        let unread = unread_rules.into_iter().chain(unread).collect();
        for (at, file) in checked_out {
            let itself = (*file == File::Submodule).then_some(at);
            let found = path::ancestors(at).chain(itself).filter(|at| !patterns.excludes(at, true));
            directories.extend(found.map(str::to_owned));
        }
        files.retain(|(at, _)| !patterns.excludes(at, false));
        let kept = files.into_iter().map(|(at, content)| (at.to_owned(), content.clone())).collect();
        Self { unread, ..Self::of_parts(kept, directories) }
    }

    /// Creates an artifact of files and directories.
    pub(crate) fn of_parts(files: BTreeMap<String, Arc<[u8]>>, mut directories: BTreeSet<String>) -> Self {
        // Unpacking creates the directories above every file and directory, including excluded ones.
        let kept: Vec<String> = files.keys().chain(&directories).cloned().collect();
        for at in &kept {
            directories.extend(path::ancestors(at).map(str::to_owned));
        }
        let digest = hash(&files, &directories);
        Self { files, directories, unread: vec![], digest, digests: PartDigests::default() }
    }

    pub(crate) fn of_file(at: &str, content: &[u8]) -> Self {
        Self::of_parts([(at.to_owned(), content.into())].into(), BTreeSet::new())
    }

    pub fn file(&self, at: &str) -> Option<&[u8]> {
        self.files.get(at).map(|content| &**content)
    }

    /// Returns true if a directory is in the artifact; the root always is.
    pub(crate) fn has_directory(&self, at: &str) -> bool {
        at.is_empty() || self.directories.contains(at)
    }

    /// Returns paths and contents in order of the paths.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(at, content)| (at.as_str(), &**content))
    }

    /// Returns paths and contents in order of the paths, without a copy of the contents.
    pub(crate) fn shared_files(&self) -> impl Iterator<Item = (&str, &Arc<[u8]>)> {
        self.files.iter().map(|(at, content)| (at.as_str(), content))
    }

    /// Returns every directory except the root, in order.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        self.directories.iter().map(String::as_str)
    }

    /// Returns the paths of the files below a directory, in order.
    pub(crate) fn files_below(&self, directory: &str) -> impl Iterator<Item = &str> {
        self.files.range(keys_below(directory)).map(|(at, _)| at.as_str())
    }

    pub(crate) fn directories_below(&self, directory: &str) -> impl Iterator<Item = &str> {
        self.directories.range(keys_below(directory)).map(String::as_str)
    }

    /// Returns the files that the artifact has and that could not be read, each with the reason; also ignore rules that are
    /// too large to be applied, or that are not known.
    pub fn unread(&self) -> Vec<String> {
        self.unread.iter().map(Unread::to_string).collect()
    }

    /// Returns what could not be read at, above or below a path: what is there is not known then.
    pub(crate) fn unread_at(&self, at: &str) -> Option<String> {
        self.unread.iter().find(|unread| unread.concerns(at)).map(Unread::to_string)
    }

    /// Returns what could not be read of what a build in a directory, or of a file, may read.
    pub(crate) fn unread_manifest(&self, at: &str) -> Option<String> {
        let found = self.unread.iter().find(|unread| {
            unread.concerns(at) && (unread.may_be_manifest() || unread.path == at || is_below(at, &unread.path))
        });
        found.map(Unread::to_string)
    }

    /// Returns a digest of some files and directories, directories with everything below them.
    pub(crate) fn digest_below(&self, paths: &BTreeSet<String>) -> String {
        let mut known = self.digests.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = known.get(paths) {
            return digest.clone();
        }
        let digest = self.hash_below(paths);
        known.insert(paths.clone(), digest.clone());
        digest
    }

    fn hash_below(&self, paths: &BTreeSet<String>) -> String {
        let mut files = Vec::new();
        let mut directories = Vec::new();
        for at in paths {
            files.extend(self.files.get_key_value(at));
            files.extend(self.files.range(keys_below(at)));
            directories.extend(self.directories.get(at));
            directories.extend(self.directories.range(keys_below(at)));
        }
        hash(files, directories)
    }

    /// Returns a hash of paths and contents; artifacts with the same digest build to the same objects.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// `sparse` holds string prefixes, not directories: `app` also matches `apple.yaml`.
fn is_checked_out(at: &str, sparse: &[String]) -> bool {
    sparse.is_empty() || sparse.iter().any(|prefix| at.starts_with(prefix.trim_start_matches("./")))
}

/// Returns the ignore rules of a checkout.
///
/// Fails if they are too large, or if a link to them leads to where this program does not look.
fn patterns(checked_out: &[(&str, &File)], options: &SourceOptions) -> Result<Patterns, String> {
    if options.filter == IgnoreFilter::Nothing {
        return Ok(Patterns::default());
    }
    let files: BTreeMap<&str, &File> = checked_out.iter().copied().collect();
    let ignore_files = files.iter().filter(|(at, file)| {
        at.rsplit('/').next() == Some(".sourceignore")
            && (matches!(file, File::Regular(_)) || options.follows_links && matches!(file, File::Symlink(_)))
    });
    let mut found = vec![];
    for at in ignore_files.map(|(at, _)| *at) {
        found.extend(opened(at, &files)?.map(|content| (at, content)));
    }
    // In the order of a walk: the file of a directory before those below it.
    found.sort_by_key(|(at, _)| path::parent(at).split('/').map(str::to_owned).collect::<Vec<_>>());
    let mut patterns = Patterns::default();
    if options.filter == IgnoreFilter::RootOnly {
        found.retain(|(at, _)| path::parent(at).is_empty());
    }
    let written = found.into_iter().map(|(at, content)| (path::parent(at), String::from_utf8_lossy(content)));
    let of_options = options.ignore.as_deref().unwrap_or_default();
    for (directory, text) in written.chain([("", of_options.into())]) {
        patterns.add(directory, &text).map_err(|exceeded| format!("it has {exceeded}"))?;
    }
    Ok(if options.filter == IgnoreFilter::Full { patterns.with_defaults() } else { patterns })
}

/// Returns the file that is opened at a path of a checkout, through symbolic links; `None` if there is none, or a directory.
///
/// Fails if a link leaves the checkout, if links lead in a circle, or if the file was not read. Source: `ReadIgnoreFile` in
/// pkg/sourceignore v0.18.0, which opens the file as the operating system does.
fn opened<'f>(at: &str, files: &BTreeMap<&str, &'f File>) -> Result<Option<&'f Arc<[u8]>>, String> {
    let mut path = at.to_owned();
    for _ in 0..MAX_LINKS {
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        let first = ends.map(|end| path.split_at(end)).find_map(|(part, rest)| Some((part, *files.get(part)?, rest)));
        let (link, target, rest) = match first {
            None | Some((_, File::Submodule, _)) => return Ok(None),
            Some((_, File::Regular(content), "")) => return Ok(Some(content)),
            Some((link, File::Symlink(target), rest)) => (link, target, rest),
            Some((part, File::Regular(_), _)) => {
                return Err(format!("{at}: the link leads through {part}, which is no directory"));
            }
            Some((_, File::Unread(why), _)) => return Err(format!("{at}: {why}")),
        };
        let resolved = path::resolve(path::parent(link), target);
        let inside = resolved.ok_or_else(|| format!("{at}: the link to {target} leaves the repository"))?;
        path = path::join(&inside, rest.trim_start_matches('/'));
        path.truncate(path.trim_end_matches('/').len());
    }
    Err(format!("{at}: the link leads in a circle"))
}

/// Returns true if a path is below a directory; every path is below the root.
fn is_below(at: &str, directory: &str) -> bool {
    directory.is_empty() || at.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the range of the keys below a directory; `0` is the character after `/`. Everything is below the root.
fn keys_below(directory: &str) -> Range<String> {
    if directory.is_empty() {
        return String::new()..char::MAX.to_string();
    }
    format!("{directory}/")..format!("{directory}0")
}

fn hash<'a>(
    files: impl IntoIterator<Item = (&'a String, &'a Arc<[u8]>)>,
    directories: impl IntoIterator<Item = &'a String>,
) -> String {
    let contents = files.into_iter().flat_map(|(at, content)| [at.as_bytes(), content]);
    hash_of_parts(contents.chain(directories.into_iter().map(String::as_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::IGNORE_SIZE;

    fn pack(files: &[&str], options: &SourceOptions) -> Vec<String> {
        let tree: Tree = files.iter().map(|file| file.split_once('=').unwrap_or((file, ""))).collect();
        Artifact::pack(&tree, options).files.into_keys().collect()
    }

    #[test]
    fn one_pattern_replaces_the_defaults() {
        let files = [".github/ci.yaml", ".sops.yaml", "a.yaml", "logo.png", ".gitignore"];
        assert_eq!(pack(&files, &SourceOptions::default()), ["a.yaml"]);
        let with = [&files[..], &["deep/.sourceignore=nothing"]].concat();
        let kept = [".github/ci.yaml", ".sops.yaml", "a.yaml", "deep/.sourceignore", "logo.png"];
        assert_eq!(pack(&with, &SourceOptions::default()), kept);
    }

    #[test]
    fn the_ignore_lines_of_the_spec_have_the_highest_priority() {
        let options = SourceOptions { ignore: Some("!b.yaml".to_owned()), ..Default::default() };
        assert_eq!(pack(&[".sourceignore=*.yaml", "a.yaml", "b.yaml"], &options), [".sourceignore", "b.yaml"]);
    }

    #[test]
    fn buckets_and_copied_layers_have_fewer_ignore_rules() {
        let files = [".github/ci.yaml", "logo.png", "a.yaml", "deep/.sourceignore=*.yaml", "deep/b.yaml"];
        let with = |filter| pack(&files, &SourceOptions { filter, ..Default::default() }).len();
        assert_eq!(with(IgnoreFilter::RootOnly), 5);
        assert_eq!(with(IgnoreFilter::Nothing), 5);
        assert_eq!(with(IgnoreFilter::Full), 4);
    }

    #[test]
    fn sparse_checkout_is_a_string_prefix() {
        let options = SourceOptions { sparse: vec!["./app".to_owned()], ..Default::default() };
        assert_eq!(
            pack(&["root.yaml", "app/a.yaml", "apple.yaml", "b/a.yaml"], &options),
            ["app/a.yaml", "apple.yaml"]
        );
    }

    #[test]
    fn symlinks_are_dropped_and_their_directory_is_kept() {
        let mut tree: Tree = [("a.yaml", "")].into_iter().collect();
        tree.insert("links/b.yaml", File::Symlink("../a.yaml".to_owned())).unwrap();
        let artifact = Artifact::pack(&tree, &SourceOptions::default());
        assert_eq!(artifact.file("links/b.yaml"), None);
        assert!(artifact.has_directory("links"));
    }

    #[test]
    fn an_ignore_file_that_is_a_link_is_followed_inside_of_the_repository() {
        let options = SourceOptions { follows_links: true, ..Default::default() };
        let pack = |links: &[(&str, &str)], options: &SourceOptions| {
            let mut tree: Tree = [("rules/ignore", "*.txt"), ("a.txt", "")].into_iter().collect();
            for (at, target) in links {
                tree.insert(*at, File::Symlink((*target).to_owned())).unwrap();
            }
            let artifact = Artifact::pack(&tree, options);
            (artifact.file("a.txt").is_some(), artifact.unread().join(", "))
        };
        let dropped = (false, String::new());
        let kept = (true, String::new());
        assert_eq!(pack(&[(".sourceignore", "rules/ignore")], &options), dropped);
        assert_eq!(pack(&[(".sourceignore", "./link/ignore"), ("link", "rules")], &options), dropped);
        assert_eq!(pack(&[(".sourceignore", "rules/ignore")], &SourceOptions::default()), kept, "no checkout");
        assert_eq!(pack(&[(".sourceignore", "none")], &options), kept);
        assert_eq!(pack(&[(".sourceignore", "rules")], &options), kept);
        let (_, outside) = pack(&[(".sourceignore", "../outside")], &options);
        assert_eq!(outside, ".sourceignore: the link to ../outside leaves the repository");
        let (_, circle) = pack(&[(".sourceignore", "b"), ("b", ".sourceignore")], &options);
        assert_eq!(circle, ".sourceignore: the link leads in a circle");
    }

    #[test]
    fn too_large_ignore_rules_are_named_and_not_applied() {
        let pack = |size: usize| {
            let rules = format!("*.txt\n{}", "#".repeat(size - 6));
            let files = [(".sourceignore", rules.as_str()), ("a.txt", "")];
            Artifact::pack(&files.into_iter().collect(), &SourceOptions::default())
        };
        assert_eq!(pack(IGNORE_SIZE.limit).unread(), [""; 0]);
        let above = pack(IGNORE_SIZE.limit + 1);
        assert_eq!(above.unread(), ["it has more than 48 KiB of ignore rules (limit ignore-size)"]);
        assert!(above.file("a.txt").is_some());
    }

    #[test]
    fn a_submodule_is_an_empty_directory_and_unread_files_count_unless_they_are_excluded() {
        let mut tree: Tree = [(".sourceignore", "*.bin"), ("a.yaml", "")].into_iter().collect();
        tree.insert("lib/sub", File::Submodule).unwrap();
        for name in ["big.bin", "big.yaml"] {
            tree.insert(name, File::Unread("too large".to_owned())).unwrap();
        }
        let artifact = Artifact::pack(&tree, &SourceOptions::default());
        assert!(artifact.has_directory("lib/sub"));
        assert_eq!(artifact.unread(), ["big.yaml: too large"]);
    }

    #[test]
    fn what_depends_on_an_unread_file_is_known() {
        let mut tree: Tree = [("a/x.yaml", ""), ("b/y.yaml", "")].into_iter().collect();
        for name in ["a/big.yaml", "b/image.bin", "c"] {
            tree.insert(name, File::Unread("no".to_owned())).unwrap();
        }
        let artifact = Artifact::pack(&tree, &SourceOptions::default());
        let manifest = |at: &str| artifact.unread_manifest(at).unwrap_or_default();
        assert_eq!(
            ["", "a", "a/x.yaml", "a/big.yaml"].map(manifest),
            ["a/big.yaml: no", "a/big.yaml: no", "", "a/big.yaml: no"]
        );
        assert_eq!(["b", "b/image.bin", "c/deeper", "ab"].map(manifest), ["", "b/image.bin: no", "c: no", ""]);
        assert_eq!(artifact.unread_at("b").as_deref(), Some("b/image.bin: no"));
    }

    #[test]
    fn a_directory_without_files_is_kept_unless_it_is_excluded_itself() {
        let files = [(".sourceignore", "gone/\n*.txt"), ("gone/a.yaml", ""), ("bare/a.txt", "")];
        let artifact = Artifact::pack(&files.into_iter().collect(), &SourceOptions::default());
        assert!(!artifact.has_directory("gone"));
        assert!(artifact.has_directory("bare"));
        assert!(artifact.has_directory(""));
    }
}
