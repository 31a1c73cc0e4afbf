//! Reads a checkout with the `git` program: what git would commit, never what is merely lying in the directory.
//!
//! Source: reference kustomize-controller 3.1 (last paragraph): blobs, no smudged or converted content, no submodules.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, Result};
use gitops_core::flux::source::tree::{File, Tree};

/// Which state of a checkout is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeState {
    /// Tracked and untracked files as they are in the directory, without ignored ones.
    Worktree,
    /// What is staged.
    Index,
    /// A revision.
    Revision(String),
}

/// A checkout.
#[derive(Clone, Debug)]
pub struct Checkout {
    directory: PathBuf,
}

impl Checkout {
    /// Finds the checkout that a directory lies in.
    ///
    /// # Errors
    /// When there is none, or `git` cannot be run.
    pub fn find(directory: &Path) -> Result<Self> {
        let here = Self { directory: directory.to_path_buf() };
        let top = here.text(&["rev-parse", "--show-toplevel"]).map_err(|error| {
            error.hint("--repo takes a git checkout; --source KIND/NAMESPACE/NAME=DIR takes any directory")
        })?;
        Ok(Self { directory: PathBuf::from(top) })
    }

    /// The directory at the top.
    pub fn top(&self) -> &Path {
        &self.directory
    }

    /// A directory of this checkout as a path below its top; empty for the top.
    pub fn prefix(&self, directory: &Path) -> String {
        let top = self.directory.canonicalize().unwrap_or_else(|_| self.directory.clone());
        let below = directory.strip_prefix(top).map(|below| below.to_string_lossy().replace('\\', "/"));
        below.unwrap_or_default()
    }

    /// Whether git ignores a directory as a whole.
    pub fn ignores(&self, directory: &Path) -> bool {
        self.run(&["check-ignore", "-q", &directory.to_string_lossy()], None).is_ok()
    }

    /// URLs of all remotes.
    ///
    /// # Errors
    /// When `git` fails.
    pub fn remotes(&self) -> Result<Vec<String>> {
        // `git config` fails when nothing matches: a checkout without remotes.
        let urls = self.run(&["config", "--get-regexp", r"^remote\..*\.(url|pushurl)$"], None).unwrap_or_default();
        let urls = String::from_utf8_lossy(&urls);
        Ok(urls.lines().filter_map(|line| line.split_once(' ')).map(|(_, url)| url.to_owned()).collect())
    }

    /// The branch that is checked out; an error on a detached head.
    ///
    /// # Errors
    /// When no branch is checked out.
    pub fn branch(&self) -> Result<String> {
        self.text(&["symbolic-ref", "--short", "HEAD"]).map_err(|_| {
            Error::usage("no branch is checked out").hint("name the branch that Flux deploys with --branch")
        })
    }

    /// Whether history was cut off, so that older revisions may not be there.
    pub fn is_shallow(&self) -> bool {
        self.text(&["rev-parse", "--is-shallow-repository"]).is_ok_and(|text| text == "true")
    }

    /// The tree of a state.
    ///
    /// # Errors
    /// When `git` fails or a file cannot be read.
    pub fn tree(&self, state: &WorktreeState) -> Result<Tree> {
        match state {
            WorktreeState::Index => self.blobs(&self.run(&["ls-files", "-z", "--stage"], None)?, index_entry),
            WorktreeState::Revision(revision) => {
                if revision.starts_with('-') {
                    return Err(Error::usage(format!("{revision:?} is no revision")));
                }
                self.blobs(&self.run(&["ls-tree", "-r", "-z", "--full-tree", revision], None)?, tree_entry)
            }
            WorktreeState::Worktree => self.worktree(),
        }
    }

    /// The index with what differs from it in the directory: `git add -A` without writing anything.
    fn worktree(&self) -> Result<Tree> {
        let staged = self.run(&["ls-files", "-z", "--stage"], None)?;
        let changed = self.names(&["ls-files", "-z", "-m", "-o", "--exclude-standard"])?;
        let deleted = self.names(&["ls-files", "-z", "-d"])?;
        let replaced: std::collections::BTreeSet<_> = changed.iter().chain(&deleted).cloned().collect();
        let kept = staged.split(|byte| *byte == 0).filter(|line| {
            index_entry(&String::from_utf8_lossy(line)).is_some_and(|entry| !replaced.contains(&entry.path))
        });
        let kept: Vec<u8> = kept.flat_map(|line| [line, &[0]].concat()).collect();
        let mut tree = self.blobs(&kept, index_entry)?;
        let converts = self.converts();
        for path in changed.into_iter().filter(|path| !deleted.contains(path)) {
            if path.ends_with('/') {
                // An untracked checkout inside this one: git would add it as a submodule.
                tree.insert(path.trim_end_matches('/'), File::Submodule);
            } else {
                let file = self.file(&path, converts)?;
                tree.insert(path, file);
            }
        }
        Ok(tree)
    }

    /// A changed file as git would store it; `converts` says whether git may store something else than the file holds.
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
        let raw = std::fs::read(&at).map_err(failed)?;
        // Only attributes or autocrlf make a blob differ from the file; asking git for each file would be slow.
        if converts {
            return self.converted(path).map(|content| File::Regular(content.into()));
        }
        Ok(File::Regular(raw.into()))
    }

    /// A file after git's own conversion. Objects are written to a place of their own: reading changes no checkout.
    fn converted(&self, path: &str) -> Result<Vec<u8>> {
        let place = std::env::temp_dir().join(format!("kubectl-gitops-objects-{}", std::process::id()));
        let own = self.text(&["rev-parse", "--git-path", "objects"])?;
        let own = self.directory.join(own);
        let failed = |error: std::io::Error| Error::failed(format!("cannot write to {}: {error}", place.display()));
        std::fs::create_dir_all(&place).map_err(failed)?;
        let apart = [("GIT_OBJECT_DIRECTORY", place.as_path()), ("GIT_ALTERNATE_OBJECT_DIRECTORIES", own.as_path())];
        let content =
            self.run_in(&apart, &["hash-object", "-w", "--path", path, "--", path], None).and_then(|object| {
                let object = String::from_utf8_lossy(&object).trim().to_owned();
                self.run_in(&apart, &["cat-file", "blob", &object], None)
            });
        let _ = std::fs::remove_dir_all(&place);
        content
    }

    fn converts(&self) -> bool {
        let crlf = self.text(&["config", "--get", "core.autocrlf"]).is_ok_and(|value| value != "false");
        crlf || self.directory.join(".gitattributes").exists()
    }

    /// Reads the blobs of a listing in one child process.
    fn blobs(&self, listing: &[u8], parse: fn(&str) -> Option<IndexEntry>) -> Result<Tree> {
        let lines = listing.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let entries: Vec<IndexEntry> = lines.filter_map(|line| parse(&line)).collect();
        let wanted: String =
            entries.iter().filter(|entry| entry.mode != "160000").map(|e| e.object.clone() + "\n").collect();
        let output = self.run(&["cat-file", "--batch"], Some(wanted.as_bytes()))?;
        let mut rest = &output[..];
        let mut tree = Tree::default();
        for entry in entries {
            if entry.mode == "160000" {
                tree.insert(entry.path, File::Submodule);
                continue;
            }
            let broken = || Error::failed(format!("git has no content for {}", entry.path));
            let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(broken)?;
            let header = String::from_utf8_lossy(&rest[..end]);
            let size = header.rsplit(' ').next().and_then(|size| size.parse::<usize>().ok()).ok_or_else(broken)?;
            let content = rest.get(end + 1..end + 1 + size).ok_or_else(broken)?;
            rest = rest.get(end + 2 + size..).ok_or_else(broken)?;
            let file = match entry.mode.as_str() {
                "120000" => File::Symlink(String::from_utf8_lossy(content).into_owned()),
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
        self.run_in(&[], arguments, input)
    }

    fn run_in(&self, variables: &[(&str, &Path)], arguments: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>> {
        let failed = |error: std::io::Error| Error::failed(format!("cannot run git: {error}"));
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.directory).args(arguments).env("GIT_OPTIONAL_LOCKS", "0");
        command.envs(variables.iter().copied());
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
        // Written from a thread of its own: git answers while it still reads.
        let writer = input.zip(child.stdin.take()).map(|(input, mut stdin)| {
            let input = input.to_vec();
            std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &input))
        });
        let output = child.wait_with_output().map_err(failed)?;
        if let Some(writer) = writer {
            let _ = writer.join();
        }
        if output.status.success() {
            return Ok(output.stdout);
        }
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.trim().trim_start_matches("fatal: ");
        Err(Error::failed(format!("git {} in {}: {message}", arguments[0], self.directory.display())))
    }
}

/// One entry of a listing.
struct IndexEntry {
    mode: String,
    object: String,
    path: String,
}

/// `<mode> <object> <stage>\t<path>`; of a conflict only our side counts.
fn index_entry(line: &str) -> Option<IndexEntry> {
    let (meta, path) = line.split_once('\t')?;
    let mut fields = meta.split(' ');
    let (mode, object, stage) = (fields.next()?, fields.next()?, fields.next()?);
    let ours = matches!(stage, "0" | "2");
    ours.then(|| IndexEntry { mode: mode.to_owned(), object: object.to_owned(), path: path.to_owned() })
}

/// `<mode> <type> <object>\t<path>`.
fn tree_entry(line: &str) -> Option<IndexEntry> {
    let (meta, path) = line.split_once('\t')?;
    let mut fields = meta.split(' ');
    let (mode, object) = (fields.next()?, fields.nth(1)?);
    Some(IndexEntry { mode: mode.to_owned(), object: object.to_owned(), path: path.to_owned() })
}
