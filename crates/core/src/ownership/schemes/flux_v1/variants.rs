//! Possible earlier configurations of a fluxd. A mark that one of them explains is left over from it.
//!
//! Source: docs/reference/qbec-and-flux-v1.md 11.2: with and without `.git`, other forms of the URL, master and main,
//! ordered subsets of the paths.

use std::collections::HashSet;

use super::git_source::GitSource;
use super::url::safe_url;

/// Largest number of paths of which all ordered subsets are built (65 subsets). Of more paths, only the empty list and the
/// lists without one path are built.
const MOST_PATHS: usize = 4;

/// Returns the variants of a source that hash to other sync sets, with the sync set. Each sync set appears once.
pub(crate) fn variants(source: &GitSource) -> Vec<(GitSource, String)> {
    let mut seen = HashSet::from([source.sync_set()]);
    let mut found = vec![];
    let (urls, branches, lists) = (urls(&source.url), branches(&source.branch), subsets(&source.paths));
    for url in &urls {
        for branch in &branches {
            for paths in &lists {
                let variant = GitSource { url: url.clone(), branch: branch.clone(), paths: paths.clone() };
                let set = variant.sync_set();
                if seen.insert(set.clone()) {
                    found.push((variant, set));
                }
            }
        }
    }
    found
}

fn urls(url: &str) -> Vec<String> {
    let known = safe_url(url);
    let mut urls = vec![known.clone()];
    if let Some((scheme, rest)) = known.split_once("://").filter(|(scheme, _)| *scheme != "file") {
        let (user, place) = rest.split_once('@').map_or((None, rest), |(user, place)| (Some(user), place));
        let git = user.filter(|_| scheme == "ssh").unwrap_or("git");
        urls.extend([format!("ssh://{git}@{place}"), format!("https://{place}")]);
    }
    let others: Vec<_> = urls.iter().map(|url| toggle_git_suffix(url)).collect();
    urls.extend(others);
    urls
}

fn toggle_git_suffix(url: &str) -> String {
    url.strip_suffix(".git").map_or_else(|| format!("{url}.git"), str::to_owned)
}

fn branches(branch: &str) -> Vec<String> {
    let mut branches = vec![branch.to_owned()];
    branches.extend(["master", "main"].into_iter().filter(|other| *other != branch).map(str::to_owned));
    branches
}

fn subsets(paths: &[String]) -> Vec<Vec<String>> {
    if paths.len() > MOST_PATHS {
        let without_one = (0..paths.len()).map(|at| [&paths[..at], &paths[at + 1..]].concat());
        return [paths.to_vec(), vec![]].into_iter().chain(without_one).collect();
    }
    let mut lists: Vec<Vec<usize>> = vec![vec![]];
    let mut at = 0;
    while at < lists.len() {
        let longer: Vec<_> = (0..paths.len())
            .filter(|path| !lists[at].contains(path))
            .map(|path| [&lists[at][..], &[path]].concat())
            .collect();
        lists.extend(longer);
        at += 1;
    }
    lists.sort_by_key(|list| (list.len() != paths.len() || !list.is_sorted(), list.len()));
    lists.into_iter().map(|list| list.into_iter().map(|path| paths[path].clone()).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(url: &str, branch: &str, paths: &[&str]) -> GitSource {
        GitSource {
            url: url.to_owned(),
            branch: branch.to_owned(),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        }
    }

    #[test]
    fn earlier_configurations_of_a_fluxd_are_variants() {
        let now = source("git@github.com:o/r", "master", &["a", "b"]);
        let sets: HashSet<String> = variants(&now).into_iter().map(|(_, set)| set).collect();
        let before = [
            source("git@github.com:o/r.git", "master", &["a", "b"]),
            source("https://github.com/o/r", "master", &["a", "b"]),
            source("https://github.com/o/r.git", "main", &["b"]),
            source("ssh://git@github.com/o/r", "main", &["a", "b"]),
            source("git@github.com:o/r", "master", &["b", "a"]),
            source("git@github.com:o/r", "master", &[]),
        ];
        for source in before {
            assert!(sets.contains(&source.sync_set()), "{source:?}");
        }
        assert!(!sets.contains(&now.sync_set()));
        assert!(!sets.contains(&source("git@github.com:o/other", "master", &["a", "b"]).sync_set()));
    }

    #[test]
    fn their_number_has_a_limit() {
        let paths: Vec<String> = (0..12).map(|number| format!("p{number}")).collect();
        let of = |count: usize| {
            let source =
                GitSource { url: "git@h:o/r".to_owned(), branch: "x".to_owned(), paths: paths[..count].to_vec() };
            variants(&source).len()
        };
        assert_eq!((of(0), of(2), of(4)), (11, 59, 779));
        assert!(of(12) < 200);
        assert!(variants(&source("/srv/repo.git", "master", &[])).iter().all(|(source, _)| !source.url.contains('@')));
    }
}
