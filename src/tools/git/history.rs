//! Commits and branches of a checkout.

use super::{Checkout, WorktreeState};
use crate::error::{Error, Result};
use gitops_core::flux::history::Commit;
use gitops_core::kubernetes::object::parse_time;

/// Commit that is checked out.
const HEAD: &str = "HEAD";

/// Common history of two commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Divergence {
    /// Last commit that both have; `None` if there is none.
    pub merge_base: Option<String>,
    /// Number of commits that only the second has.
    pub behind: u64,
}

impl Checkout {
    /// Returns the branch that is checked out; `None` for a detached HEAD.
    pub fn branch(&self) -> Option<String> {
        self.text(&["symbolic-ref", "--quiet", "--short", HEAD]).ok()
    }

    /// Returns the commit that is checked out; `None` before the first commit.
    pub fn head(&self) -> Option<String> {
        self.commit(HEAD)
    }

    /// Returns the commit that a revision names; `None` if the checkout does not have it.
    pub fn commit(&self, revision: &str) -> Option<String> {
        if revision.starts_with('-') {
            return None;
        }
        self.text(&["rev-parse", "--verify", "--quiet", &format!("{revision}^{{commit}}")]).ok()
    }

    /// Returns the names of the local branches and of those of the remotes.
    ///
    /// Fails when `git` fails.
    pub fn branches(&self) -> Result<Vec<String>> {
        let listing = self.text(&["for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes"])?;
        let names = listing.lines().filter_map(|name| {
            let local = name.strip_prefix("refs/heads/");
            local.or_else(|| Some(name.strip_prefix("refs/remotes/")?.split_once('/')?.1))
        });
        Ok(names.filter(|name| *name != HEAD).map(str::to_owned).collect())
    }

    /// Returns true for a shallow clone, in which older revisions may be missing.
    pub fn is_shallow(&self) -> bool {
        self.text(&["rev-parse", "--is-shallow-repository"]).is_ok_and(|text| text == "true")
    }

    /// Returns true if the files of a state differ from the commit that is checked out.
    ///
    /// Fails when `git` fails.
    pub fn is_dirty(&self, state: &WorktreeState) -> Result<bool> {
        let is_worktree = match state {
            WorktreeState::Worktree => true,
            WorktreeState::Index => false,
            WorktreeState::Revision(_) | WorktreeState::Merge { .. } => return Ok(false),
        };
        if self.head().is_none() {
            return Ok(true);
        }
        let staged = ["diff-index", "--cached", "--name-only", "-z", HEAD, "--"];
        if !self.run(&[], &staged, None)?.is_empty() {
            return Ok(true);
        }
        let changed = ["ls-files", "-z", "-m", "-o", "--exclude-standard"];
        Ok(is_worktree && !self.run(&[], &changed, None)?.is_empty())
    }

    /// Compares two commits that the checkout has.
    ///
    /// Fails when `git` fails.
    pub fn divergence(&self, commit: &str, deployed: &str) -> Result<Divergence> {
        let (base, found) = self.git(&[]).answer(&["merge-base", commit, deployed])?;
        let merge_base = found.then(|| String::from_utf8_lossy(&base).trim().to_owned());
        let behind = self.text(&["rev-list", "--count", deployed, &format!("^{commit}")])?;
        Ok(Divergence { merge_base, behind: behind.parse().unwrap_or_default() })
    }
    /// Returns the commits of a branch, newest first, each merge as one commit: at most `limit`, none older than the date
    /// `since`, and none that `without` has.
    ///
    /// Fails when `git` fails.
    pub fn line(&self, tip: &str, limit: usize, since: Option<&str>, without: Option<&str>) -> Result<Vec<Commit>> {
        let limit = format!("--max-count={limit}");
        let oldest = since.map(|since| format!("--since={since}"));
        let excluded = without.map(|commit| format!("^{commit}"));
        let mut arguments = vec!["log", "--first-parent", "-z", "--format=%H%n%P%n%an%n%cI%n%s", &limit];
        arguments.extend(oldest.iter().map(String::as_str));
        arguments.push(tip);
        arguments.extend(excluded.iter().map(String::as_str));
        arguments.push("--");
        let listing = self.text(&arguments)?;
        let commits = listing.split('\0').filter(|record| !record.is_empty()).map(|record| {
            commit(record).ok_or_else(|| Error::failed(format!("git log in {} is not readable", self.top().display())))
        });
        commits.collect()
    }

    /// Returns true if a commit has another one in its history; `None` if the checkout lacks one of them.
    pub fn has_in_history(&self, commit: &str, ancestor: &str) -> Option<bool> {
        self.git(&[]).answer(&["merge-base", "--is-ancestor", ancestor, commit]).ok().map(|(_, found)| found)
    }
}

/// Reads a record of the listing of commits.
fn commit(record: &str) -> Option<Commit> {
    let mut fields = record.trim_start_matches('\n').splitn(5, '\n');
    let [sha, parents, author, date, subject] = std::array::from_fn(|_| fields.next());
    Some(Commit {
        sha: sha?.to_owned(),
        parents: parents?.split_whitespace().map(str::to_owned).collect(),
        author: author?.to_owned(),
        date: parse_time(date?),
        subject: subject?.to_owned(),
    })
}
