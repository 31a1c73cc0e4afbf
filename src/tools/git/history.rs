//! Commits and branches of a checkout.

use super::{Checkout, WorktreeState};
use crate::error::Result;

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
            let remote = || name.strip_prefix("refs/remotes/")?.split_once('/').map(|(_, branch)| branch);
            name.strip_prefix("refs/heads/").or_else(remote)
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
}
