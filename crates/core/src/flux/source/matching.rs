//! Which sources of the cluster are the working tree.
//!
//! Source: reference kustomize-controller 5.5 and 8 (38): a source pinned to a tag or a commit, or on another branch,
//! does not change when the tree is merged.

use std::fmt;

use crate::kubernetes::object::Resource;

/// API group of the sources.
pub const GROUP: &str = "source.toolkit.fluxcd.io";

/// Kind, namespace and name of a source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId {
    /// `GitRepository`, `OCIRepository`, `Bucket`, …
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for SourceId {
    /// `GitRepository/flux-system/apps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

/// Whether a GitRepository is a checkout with these remotes on this branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// It is.
    Same,
    /// Its URL is none of the remotes.
    OtherUrl,
    /// It is this repository, but deployed from elsewhere.
    NotThisRef(String),
}

/// Compares a GitRepository with a checkout.
pub fn compare(source: &Resource, remotes: &[String], branch: &str) -> Match {
    let url = fold_url(source.text("/spec/url").unwrap_or_default());
    if !remotes.iter().any(|remote| fold_url(remote) == url) {
        return Match::OtherUrl;
    }
    let text = |pointer: &str| source.text(pointer).filter(|text| !text.is_empty());
    // Precedence: commit, name, semver, tag, branch, master.
    for (pointer, what) in [("/spec/ref/commit", "commit"), ("/spec/ref/name", "ref"), ("/spec/ref/semver", "semver")] {
        if let Some(pinned) = text(pointer) {
            if what == "ref" && pinned == format!("refs/heads/{branch}") {
                return Match::Same;
            }
            return Match::NotThisRef(format!("{what} {pinned}"));
        }
    }
    if let Some(tag) = text("/spec/ref/tag") {
        return Match::NotThisRef(format!("tag {tag}"));
    }
    match text("/spec/ref/branch").unwrap_or("master") {
        same if same == branch => Match::Same,
        other => Match::NotThisRef(format!("branch {other}")),
    }
}

/// One spelling for a repository: `host/path` without scheme, user, port of the scheme, `.git` or trailing slash.
pub fn fold_url(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    let url = url.strip_suffix(".git").unwrap_or(url);
    let (rest, scp) = match url.split_once("://") {
        Some((_, rest)) => (rest, false),
        None => (url, true),
    };
    let rest = match rest.split_once('@') {
        Some((user, rest)) if !user.contains('/') => rest,
        _ => rest,
    };
    let (host, path) = match (scp, rest.split_once(':'), rest.split_once('/')) {
        (true, Some((host, path)), _) if !host.contains('/') => (host, path),
        (_, _, Some((host, path))) => (host, path),
        _ => (rest, ""),
    };
    let host = [":22", ":443", ":80"].iter().find_map(|port| host.strip_suffix(port)).unwrap_or(host);
    format!("{}/{}", host.to_lowercase(), path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_repository_are_equal() {
        let same = [
            "https://github.com/org/repo",
            "https://github.com/org/repo.git",
            "https://user@GitHub.com/org/repo/",
            "ssh://git@github.com/org/repo",
            "ssh://git@github.com:22/org/repo.git",
            "git@github.com:org/repo.git",
            "git@github.com:/org/repo",
        ];
        for url in same {
            assert_eq!(fold_url(url), "github.com/org/repo", "{url}");
        }
        assert_ne!(fold_url("https://github.com/org/other"), "github.com/org/repo");
        assert_ne!(fold_url("http://127.0.0.1:8080/repo"), fold_url("http://127.0.0.1:9090/repo"));
    }
}
