//! Paths inside an artifact: relative to its root, `/`-separated, without leading or trailing slash, empty for the root.

use std::fmt;

/// Maximum length of one name, in bytes: that of the file systems on which the controllers unpack an artifact.
pub const MAX_NAME: usize = 255;

/// Maximum length of a path, in bytes: with the directory of the copy in front it stays below Linux's 4096.
pub const MAX_PATH: usize = 3072;

/// A path that cannot be that of a file in a tree, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathProblem {
    pub path: String,
    pub reason: &'static str,
}

impl fmt::Display for PathProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.path, self.reason)
    }
}

/// Checks that a path names a file below the root: no empty, `.`, `..` or `.git` segment, no control character, no name
/// that is too long. source-controller cannot check out such a tree either (docs/reference/kustomize-controller.md 3.1).
pub fn check(path: &str) -> Result<(), PathProblem> {
    match problem(path, cfg!(windows)) {
        Some(reason) => Err(PathProblem { path: path.to_owned(), reason }),
        None => Ok(()),
    }
}

fn problem(path: &str, windows: bool) -> Option<&'static str> {
    if path.is_empty() {
        return Some("the path is empty");
    }
    if path.len() > MAX_PATH {
        return Some("the path is longer than 3072 bytes");
    }
    if path.chars().any(|c| c.is_ascii_control()) {
        return Some("the path has a control character");
    }
    if path.split('/').any(|segment| segment.len() > MAX_NAME) {
        return Some("a name in the path is longer than 255 bytes");
    }
    if path.split('/').any(str::is_empty) {
        return Some("the path is absolute, or has an empty segment");
    }
    // As Windows reads it: a checkout there must not get out of its directory either.
    for segment in path.split(['/', '\\']) {
        if segment == "." || segment == ".." {
            return Some("the path has the segment . or ..");
        }
        if is_dot_git(segment) {
            return Some("a name in the path means .git on some file system");
        }
    }
    (windows && path.contains(['\\', ':'])).then_some("the path has a character that Windows does not allow")
}

/// Returns true for `.git` and the names that HFS+ (ignored characters, case) and NTFS (8.3 name, trailing dots and spaces,
/// streams) take for it.
fn is_dot_git(segment: &str) -> bool {
    let stream = segment.split(':').next().unwrap_or_default();
    let visible: String = stream.chars().filter(|c| !is_ignored_by_hfs(*c)).collect();
    matches!(visible.trim_end_matches([' ', '.']).to_lowercase().as_str(), ".git" | "git~1")
}

fn is_ignored_by_hfs(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// Joins a path to the artifact's root as `SecureJoin` does (docs/reference/kustomize-controller.md 3.2):
/// absolute paths and `..` are clamped at the root.
pub(crate) fn secure_join(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            name => segments.push(name),
        }
    }
    segments.join("/")
}

/// Resolves a reference in a kustomization file of `directory`; `None` if it leaves the artifact.
pub(crate) fn resolve(directory: &str, reference: &str) -> Option<String> {
    if reference.starts_with('/') {
        return None;
    }
    let mut segments: Vec<&str> = directory.split('/').filter(|segment| !segment.is_empty()).collect();
    for segment in reference.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop()?;
            }
            name => segments.push(name),
        }
    }
    Some(segments.join("/"))
}

/// Returns the directory of a path; empty for a path in the root.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Returns every directory above a path except the root, the nearest first.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.rmatch_indices('/').map(|(end, _)| &path[..end])
}

/// Returns true if a path is a directory or below it; every path is in the root.
pub(crate) fn is_in(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory);
    directory.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(crate) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_the_root_and_out_of_git() {
        let name = "n".repeat(255);
        let deep = vec!["dir"; 700].join("/");
        for path in
            ["a", "a/b.yaml", ".gitignore", ".github/x", "a..b", "...", "git~2", ".gitx", "a\\b", "C:x", &name, &deep]
        {
            assert_eq!(problem(path, false), None, "{path:?}");
        }
        let refused = [
            "",
            "/",
            "/etc/passwd",
            "a/",
            "a//b",
            ".",
            "..",
            "../a",
            "a/../b",
            "a/./b",
            "a/..",
            "a\\..\\b",
            "..\\a",
            ".git",
            ".git/config",
            "a/.git",
            ".GIT/hooks",
            "a/.Git/b",
            "git~1",
            "GIT~1/x",
            ".git ",
            ".git.",
            ".git . ./x",
            ".git::$INDEX_ALLOCATION/x",
            ".g\u{200c}it",
            "\u{feff}.git/x",
            "a\\.git\\x",
            "a\0b",
            "a\nb",
            "a\tb",
            "a\u{7f}",
        ];
        for path in refused {
            assert!(problem(path, false).is_some(), "{path:?}");
        }
        let long = ["n".repeat(256), vec!["dir"; 1000].join("/")];
        assert!(long.iter().all(|path| problem(path, false).is_some()));
        for path in ["C:x", "C:/x", "a\\b", "a:stream"] {
            assert!(problem(path, true).is_some(), "{path:?}");
        }
    }

    #[test]
    fn spec_path_is_clamped_inside_the_root() {
        let rows = [
            ("", ""),
            ("./", ""),
            ("./clusters/prod", "clusters/prod"),
            ("/p/sub", "p/sub"),
            ("../../../p/sub", "p/sub"),
            ("a/../../b//c/", "b/c"),
        ];
        for (path, expected) in rows {
            assert_eq!(secure_join(path), expected, "{path}");
        }
    }

    #[test]
    fn a_reference_may_go_up_but_not_out() {
        assert_eq!(resolve("apps/web", "../base").as_deref(), Some("apps/base"));
        assert_eq!(resolve("apps/web", "../../base").as_deref(), Some("base"));
        assert_eq!(resolve("apps/web", "../../../etc"), None);
        assert_eq!(resolve("apps", "/etc/passwd"), None);
    }
}
