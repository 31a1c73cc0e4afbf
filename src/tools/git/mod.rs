//! Reads a checkout with the `git` program: the content that git would commit, without ignored files.
//!
//! Source: docs/reference/kustomize-controller.md 3.1 (last paragraph): blobs without smudge filters or conversion, and no
//! submodules. A checkout may be foreign: docs/safety.md says what git may do with it.

mod blobs;
mod changes;
pub mod entries;
mod history;
mod location;
mod merge;
mod program;
mod worktree;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::tools::limits;
use entries::{GitEntry, index_entry, records, tree_entry};
use gitops_core::flux::source::tree::Tree;
use gitops_core::text::shell_word;
use program::Git;

pub(in crate::tools) use blobs::{check_count, check_total};
pub(crate) use history::Divergence;

/// A state of a checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeState {
    /// Tracked and untracked files as they are in the directory, without ignored ones.
    Worktree,
    /// The files in git's index.
    Index,
    /// A commit, branch or tag.
    Revision(String),
    /// The result of merging the commit `theirs` into the commit `ours`.
    Merge { ours: String, theirs: String },
}

/// A git work tree.
#[derive(Clone, Debug)]
pub struct Checkout {
    /// Top directory, absolute and without symbolic links.
    directory: PathBuf,
    /// Filters that the configuration defines.
    filters: BTreeSet<String>,
    /// Options that turn these filters off.
    options: Vec<String>,
    /// True if objects may be missing, to be fetched from a remote when they are needed.
    is_partial: bool,
}

impl Checkout {
    /// Returns the top directory of the checkout.
    pub fn top(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of a directory relative to the top, with `/`; empty for the top itself.
    pub fn prefix(&self, directory: &Path) -> String {
        let below = directory.strip_prefix(&self.directory).map(|below| below.to_string_lossy().replace('\\', "/"));
        below.unwrap_or_default()
    }

    pub fn ignores(&self, directory: &Path) -> bool {
        self.run(&[], &["check-ignore", "-q", "--", &directory.to_string_lossy()], None).is_ok()
    }

    /// Returns the name and the URL of all remotes, of those to fetch from and to push to.
    ///
    /// Fails when `git` fails.
    pub fn remotes(&self) -> Result<Vec<(String, String)>> {
        let urls = self.configuration(r"^remote\..*\.(url|pushurl)$")?;
        let named = urls.into_iter().filter_map(|(key, url)| {
            let (name, _) = key.strip_prefix("remote.")?.rsplit_once('.')?;
            Some((name.to_owned(), url))
        });
        Ok(named.collect())
    }

    /// Returns the files of a state.
    ///
    /// Fails when `git` fails, the index has a merge conflict, or a limit is exceeded. A file that cannot be read is in the
    /// tree with the reason.
    pub fn tree(&self, state: &WorktreeState) -> Result<Tree> {
        match state {
            WorktreeState::Index => self.tree_of(self.index()?, &[]),
            WorktreeState::Revision(revision) => {
                if revision.starts_with('-') {
                    return Err(Error::usage(format!("{revision:?} is not a revision")));
                }
                self.tree_object(revision, &[]).map_err(|error| {
                    match self.text(&["rev-parse", "--verify", "--quiet", revision]) {
                        Ok(_) => error,
                        Err(_) => no_revision(&self.directory, revision),
                    }
                })
            }
            WorktreeState::Merge { ours, theirs } => merge::merged(self, ours, theirs),
            WorktreeState::Worktree => worktree::worktree(self),
        }
    }

    /// Returns the files of a commit or tree object. `variables` are added to the environment.
    fn tree_object(&self, object: &str, variables: &[(&str, &Path)]) -> Result<Tree> {
        let listing = self.run(variables, &["ls-tree", "-r", "-z", "--full-tree", object], None)?;
        self.tree_of(records(&listing).filter_map(tree_entry).collect(), variables)
    }

    /// Returns the entries of the index. Fails if one is in a merge conflict.
    fn index(&self) -> Result<Vec<GitEntry>> {
        let entries = self.staged()?;
        match entries.iter().find(|entry| entry.stage != "0") {
            Some(conflict) => Err(Error::failed(format!("{} has a merge conflict in the index", conflict.path.text))
                .hint("resolve it and run `git add` on the file")),
            None => Ok(entries),
        }
    }

    fn staged(&self) -> Result<Vec<GitEntry>> {
        let listing = self.run(&[], &["ls-files", "-z", "--stage", "-v"], None)?;
        Ok(records(&listing).filter_map(index_entry).collect())
    }

    fn text(&self, arguments: &[&str]) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.run(&[], arguments, None)?).trim().to_owned())
    }

    /// Returns the keys and values of the configuration whose key matches.
    fn configuration(&self, pattern: &str) -> Result<Vec<(String, String)>> {
        location::configuration(&self.git(&[]), pattern)
    }

    fn run(&self, variables: &[(&str, &Path)], arguments: &[&str], input: Option<Vec<u8>>) -> Result<Vec<u8>> {
        self.git(variables).output(arguments, input)
    }

    fn git<'a>(&'a self, variables: &'a [(&'a str, &'a Path)]) -> Git<'a> {
        Git { directory: &self.directory, options: &self.options, variables, time: limits::GIT_TIME }
    }
}

/// Returns the words that run git in a directory, for a command to copy: with `-C`, unless this process runs there.
pub(crate) fn git_in(directory: &Path) -> String {
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    match (directory.canonicalize(), here) {
        (Ok(directory), Ok(here)) if here.starts_with(&directory) => "git".to_owned(),
        _ => format!("git -C {}", shell_word(&directory.display().to_string())),
    }
}

/// Returns the error for a revision that a checkout does not have.
pub(crate) fn no_revision(checkout: &Path, revision: &str) -> Error {
    Error::usage(format!("{} has no revision {revision:?}", checkout.display()))
        .hint("name a commit, a branch or a tag that `git rev-parse` finds, or `git fetch` it")
}
