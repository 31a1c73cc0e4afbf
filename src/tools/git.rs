//! Reads a checkout with the `git` program: the content that git would commit, without ignored files.
//!
//! Source: docs/reference/kustomize-controller.md 3.1 (last paragraph): blobs without smudge filters or conversion, and no
//! submodules.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, Result};
use gitops_core::flux::source::tree::{File, Tree};

/// Options of every call. The configuration of a checkout, or of a bare repository inside of it, can name programs that
/// git runs; these options turn them off.
const SAFE_OPTIONS: [&str; 6] =
    ["-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"];

/// A state of a checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeState {
    /// Tracked and untracked files as they are in the directory, without ignored ones.
    Worktree,
    /// The files in git's index.
    Index,
    /// A commit, branch or tag.
    Revision(String),
}

/// A git work tree.
#[derive(Clone, Debug)]
pub struct Checkout {
    directory: PathBuf,
}

impl Checkout {
    /// Finds the checkout that contains a directory.
    ///
    /// Fails when no checkout contains it, or `git` cannot be run.
    pub fn find(directory: &Path) -> Result<Self> {
        let here = Self { directory: directory.to_path_buf() };
        let top = here.text(&["rev-parse", "--show-toplevel"]).map_err(|error| {
            error.hint("--repo takes a git checkout; --source KIND/NAMESPACE/NAME=DIR takes any directory")
        })?;
        Ok(Self { directory: PathBuf::from(top) })
    }

    /// Returns the top directory of the checkout.
    pub fn top(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of a directory relative to the top, with `/`; empty for the top itself.
    pub fn prefix(&self, directory: &Path) -> String {
        let top = self.directory.canonicalize().unwrap_or_else(|_| self.directory.clone());
        let below = directory.strip_prefix(top).map(|below| below.to_string_lossy().replace('\\', "/"));
        below.unwrap_or_default()
    }

    /// Returns true if git ignores the directory.
    pub fn ignores(&self, directory: &Path) -> bool {
        self.run(&["check-ignore", "-q", &directory.to_string_lossy()], None).is_ok()
    }

    /// Returns the fetch and push URLs of all remotes.
    ///
    /// Fails when `git` fails.
    pub fn remotes(&self) -> Result<Vec<String>> {
        // `git config` fails when nothing matches, as in a checkout without remotes.
        let urls = self.run(&["config", "--get-regexp", r"^remote\..*\.(url|pushurl)$"], None).unwrap_or_default();
        let urls = String::from_utf8_lossy(&urls);
        Ok(urls.lines().filter_map(|line| line.split_once(' ')).map(|(_, url)| url.to_owned()).collect())
    }

    /// Returns the branch that is checked out.
    ///
    /// Fails when the head is detached.
    pub fn branch(&self) -> Result<String> {
        self.text(&["symbolic-ref", "--short", "HEAD"]).map_err(|_| {
            Error::usage("no branch is checked out").hint("name the branch that Flux deploys with --branch")
        })
    }

    /// Returns true for a shallow clone, in which older revisions may be missing.
    pub fn is_shallow(&self) -> bool {
        self.text(&["rev-parse", "--is-shallow-repository"]).is_ok_and(|text| text == "true")
    }

    /// Returns the files of a state.
    ///
    /// Fails when `git` fails or a file cannot be read.
    pub fn tree(&self, state: &WorktreeState) -> Result<Tree> {
        match state {
            WorktreeState::Index => {
                self.blobs(parse_listing(&self.run(&["ls-files", "-z", "--stage"], None)?, index_entry))
            }
            WorktreeState::Revision(revision) => {
                if revision.starts_with('-') {
                    return Err(Error::usage(format!("{revision:?} is not a revision")));
                }
                let listing = self.run(&["ls-tree", "-r", "-z", "--full-tree", revision], None)?;
                self.blobs(parse_listing(&listing, tree_entry))
            }
            WorktreeState::Worktree => self.worktree(),
        }
    }

    /// Returns the files that `git add -A` would stage, without writing anything.
    fn worktree(&self) -> Result<Tree> {
        let staged = self.run(&["ls-files", "-z", "--stage"], None)?;
        let changed = self.names(&["ls-files", "-z", "-m", "-o", "--exclude-standard"])?;
        let deleted = self.names(&["ls-files", "-z", "-d"])?;
        let replaced: std::collections::BTreeSet<_> = changed.iter().chain(&deleted).cloned().collect();
        let mut unchanged = parse_listing(&staged, index_entry);
        unchanged.retain(|entry| !replaced.contains(&entry.path));
        let mut tree = self.blobs(unchanged)?;
        let converts = self.converts_content();
        for path in changed.into_iter().filter(|path| !deleted.contains(path)) {
            if path.ends_with('/') {
                // Git would add an untracked checkout inside this one as a submodule.
                tree.insert(path.trim_end_matches('/'), File::Submodule);
            } else {
                let file = self.file(&path, converts)?;
                tree.insert(path, file);
            }
        }
        Ok(tree)
    }

    /// Returns a changed file as git would store it. `converts` is the result of [`Self::converts_content`].
    fn file(&self, path: &str, converts: bool) -> Result<File> {
        let at = self.directory.join(path);
        let failed = |error: std::io::Error| Error::failed(format!("cannot read {}: {error}", at.display()));
        let kind = std::fs::symlink_metadata(&at).map_err(failed)?;
        if kind.is_symlink() {
            return Ok(File::Symlink(std::fs::read_link(&at).map_err(failed)?.to_string_lossy().into_owned()));
        }
        if kind.is_dir() {
            return Ok(File::Submodule);
        }
        // A `git` process for each file would be slow.
        if converts {
            return self.convert(path).map(|content| File::Regular(content.into()));
        }
        Ok(File::Regular(std::fs::read(&at).map_err(failed)?.into()))
    }

    /// Returns the content of a file after git's conversion. Git writes objects to a temporary directory, not to the
    /// repository of the checkout.
    fn convert(&self, path: &str) -> Result<Vec<u8>> {
        let temporary = super::temporary_directory()?;
        let objects = self.directory.join(self.text(&["rev-parse", "--git-path", "objects"])?);
        let variables =
            [("GIT_OBJECT_DIRECTORY", temporary.path()), ("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects.as_path())];
        let hash = self.run_with(&variables, &["hash-object", "-w", "--path", path, "--", path], None)?;
        self.run_with(&variables, &["cat-file", "blob", String::from_utf8_lossy(&hash).trim()], None)
    }

    /// Returns true if git may store other content than a file has: only autocrlf and attributes cause that.
    fn converts_content(&self) -> bool {
        let crlf = self.text(&["config", "--get", "core.autocrlf"]).is_ok_and(|value| value != "false");
        crlf || self.directory.join(".gitattributes").exists()
    }

    /// Reads the blobs of these entries in one child process.
    fn blobs(&self, entries: Vec<IndexEntry>) -> Result<Tree> {
        let blobs = entries.iter().filter(|entry| entry.mode != SUBMODULE);
        let wanted: String = blobs.map(|entry| format!("{}\n", entry.object)).collect();
        let output = self.run(&["cat-file", "--batch"], Some(wanted.as_bytes()))?;
        let mut rest = &output[..];
        let mut tree = Tree::default();
        for entry in entries {
            if entry.mode == SUBMODULE {
                tree.insert(entry.path, File::Submodule);
                continue;
            }
            let missing = || Error::failed(format!("git has no content for {}", entry.path));
            let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(missing)?;
            let header = String::from_utf8_lossy(&rest[..end]);
            let size = header.rsplit(' ').next().and_then(|size| size.parse::<usize>().ok()).ok_or_else(missing)?;
            let content = rest.get(end + 1..end + 1 + size).ok_or_else(missing)?;
            rest = rest.get(end + 2 + size..).ok_or_else(missing)?;
            let file = match entry.mode.as_str() {
                SYMLINK => File::Symlink(String::from_utf8_lossy(content).into_owned()),
                _ => File::Regular(content.into()),
            };
            tree.insert(entry.path, file);
        }
        Ok(tree)
    }

    fn names(&self, arguments: &[&str]) -> Result<Vec<String>> {
        let listing = self.run(arguments, None)?;
        let names = listing.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    fn text(&self, arguments: &[&str]) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.run(arguments, None)?).trim().to_owned())
    }

    fn run(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>> {
        self.run_with(&[], arguments, input)
    }

    fn run_with(&self, variables: &[(&str, &Path)], arguments: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>> {
        let mut command = Command::new("git");
        command.args(SAFE_OPTIONS).arg("-C").arg(&self.directory).args(arguments).env("GIT_OPTIONAL_LOCKS", "0");
        command.envs(variables.iter().copied());
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(cannot_run)?;
        // A separate thread writes, because git answers before it has read everything.
        let writer = input.zip(child.stdin.take()).map(|(input, mut stdin)| {
            let input = input.to_vec();
            std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &input))
        });
        let output = child.wait_with_output().map_err(cannot_run)?;
        if let Some(writer) = writer {
            let _ = writer.join();
        }
        if output.status.success() {
            return Ok(output.stdout);
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let message = stderr.trim().trim_start_matches("fatal: ");
        Err(Error::failed(format!("git {} in {}: {message}", arguments[0], self.directory.display())))
    }
}

fn cannot_run(error: std::io::Error) -> Error {
    Error::failed(format!("cannot run git: {error}"))
}

/// Modes of entries that are not regular files.
const SUBMODULE: &str = "160000";
const SYMLINK: &str = "120000";

/// A file in the index or in a tree object.
struct IndexEntry {
    mode: String,
    object: String,
    path: String,
}

/// Parses a NUL-separated listing.
fn parse_listing(listing: &[u8], parse: fn(&str) -> Option<IndexEntry>) -> Vec<IndexEntry> {
    listing.split(|byte| *byte == 0).filter_map(|line| parse(&String::from_utf8_lossy(line))).collect()
}

/// Parses `<mode> <object> <stage>\t<path>`; of a merge conflict only "ours" (stage 2) counts.
fn index_entry(line: &str) -> Option<IndexEntry> {
    let (meta, path) = line.split_once('\t')?;
    let mut fields = meta.split(' ');
    let (mode, object, stage) = (fields.next()?, fields.next()?, fields.next()?);
    matches!(stage, "0" | "2").then(|| IndexEntry {
        mode: mode.to_owned(),
        object: object.to_owned(),
        path: path.to_owned(),
    })
}

/// Parses `<mode> <type> <object>\t<path>`.
fn tree_entry(line: &str) -> Option<IndexEntry> {
    let (meta, path) = line.split_once('\t')?;
    let mut fields = meta.split(' ');
    let (mode, object) = (fields.next()?, fields.nth(1)?);
    Some(IndexEntry { mode: mode.to_owned(), object: object.to_owned(), path: path.to_owned() })
}
