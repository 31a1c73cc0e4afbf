//! The matcher of `.sourceignore` files, which differs from gitignore.
//!
//! The last matching pattern wins. A later pattern can include a file below an excluded directory. A name without `/`
//! matches every segment of a path. Source: docs/reference/kustomize-controller.md 3.1.

use crate::bounds::{Budget, Exceeded, IGNORE_SIZE};
use crate::glob::Glob;

/// Names that no artifact contains.
const VCS: [&str; 4] = [".git/", ".gitignore", ".gitmodules", ".gitattributes"];

/// Patterns that apply as well if the source has no pattern of its own.
const DEFAULTS: [&str; 20] = [
    "*.jpg",
    "*.jpeg",
    "*.gif",
    "*.png",
    "*.wmv",
    "*.flv",
    "*.tar.gz",
    "*.zip",
    ".github/",
    ".circleci/",
    ".travis.yml",
    ".gitlab-ci.yml",
    "appveyor.yml",
    ".drone.yml",
    "cloudbuild.yaml",
    "codeship-services.yml",
    "codeship-steps.yml",
    "**/.goreleaser.yml",
    "**/.sops.yaml",
    "**/.flux.yaml",
];

/// One line of an ignore file, valid below a directory.
#[derive(Clone, Debug)]
struct Pattern {
    /// Segments of the directory that the pattern is scoped to.
    scope: Vec<String>,
    segments: Vec<Segment>,
    includes: bool,
    directories_only: bool,
}

/// The part of a pattern between two `/`.
#[derive(Clone, Debug)]
struct Segment {
    text: String,
    /// `None` if the text is malformed: it matches nothing.
    glob: Option<Glob>,
}

/// The patterns of a source, in order of priority; the last has the highest.
#[derive(Clone, Debug)]
pub struct Patterns {
    patterns: Vec<Pattern>,
    size: Budget,
}

impl Default for Patterns {
    fn default() -> Self {
        Self { patterns: vec![], size: Budget::new(IGNORE_SIZE) }
    }
}

impl Patterns {
    /// Adds the lines of an ignore file in a directory (empty for the root).
    ///
    /// Fails if the ignore rules of the source are too large together.
    pub fn add(&mut self, directory: &str, lines: &str) -> Result<(), Exceeded> {
        self.size.spend(lines.len())?;
        let unended = lines.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        let patterns = unended.filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        self.patterns.extend(patterns.map(|line| Pattern::parse(directory, line)));
        Ok(())
    }

    /// Adds the patterns of source-controller: always the version-control names, and its other defaults if there is no
    /// pattern in the whole source.
    #[must_use]
    pub fn with_defaults(self) -> Self {
        let defaults: &[&str] = if self.patterns.is_empty() { &DEFAULTS } else { &[] };
        let builtin = VCS.iter().chain(defaults).map(|line| Pattern::parse("", line));
        Self { patterns: builtin.chain(self.patterns).collect(), size: self.size }
    }

    /// Returns true if the file or directory at this path is excluded.
    pub fn excludes(&self, path: &str, directory: bool) -> bool {
        let segments: Vec<&str> = path.split('/').collect();
        let last = self.patterns.iter().rev().find(|pattern| pattern.matches(&segments, directory));
        last.is_some_and(|pattern| !pattern.includes)
    }
}

impl Pattern {
    fn parse(directory: &str, line: &str) -> Self {
        let (includes, rule) = line.strip_prefix('!').map_or((false, line), |rule| (true, rule));
        let trimmed = if rule.ends_with("\\ ") { rule } else { rule.trim_end_matches(' ') };
        let (directories_only, path) = trimmed.strip_suffix('/').map_or((false, trimmed), |path| (true, path));
        let scope = directory.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect();
        Self { scope, segments: path.split('/').map(Segment::parse).collect(), includes, directories_only }
    }

    fn matches(&self, path: &[&str], directory: bool) -> bool {
        let Some((scope, below)) = path.split_at_checked(self.scope.len()) else {
            return false;
        };
        if below.is_empty() || !scope.iter().zip(&self.scope).all(|(a, b)| a == b) {
            return false;
        }
        match self.segments.as_slice() {
            [name] => self.matches_name(name, below, directory),
            _ => self.matches_anchored(below, directory),
        }
    }

    fn matches_name(&self, name: &Segment, path: &[&str], directory: bool) -> bool {
        let found = path.iter().position(|segment| name.matches(segment));
        found.is_some_and(|at| !self.directories_only || directory || at + 1 < path.len())
    }

    fn matches_anchored(&self, mut path: &[&str], directory: bool) -> bool {
        let (mut matched, mut anywhere) = (false, false);
        for (index, segment) in self.segments.iter().enumerate() {
            match segment.text.as_str() {
                "" => {
                    anywhere = false;
                    continue;
                }
                "**" if index + 1 == self.segments.len() => break,
                "**" => {
                    anywhere = true;
                    continue;
                }
                crossing if crossing.contains("**") => return false,
                _ => {}
            }
            let Some(first) = path.first() else { return false };
            if anywhere {
                anywhere = false;
                match path.iter().position(|name| segment.matches(name)) {
                    Some(at) => {
                        matched = true;
                        path = &path[at + 1..];
                    }
                    // No early return: a `**` at the end can still leave the loop, without a match.
                    None => {
                        matched = false;
                        path = &[];
                    }
                }
            } else if segment.matches(first) {
                matched = true;
                path = &path[1..];
            } else {
                return false;
            }
        }
        matched && (!self.directories_only || directory || !path.is_empty())
    }
}

impl Segment {
    fn parse(text: &str) -> Self {
        Self { text: text.to_owned(), glob: Glob::parse(text.as_bytes()).ok() }
    }

    /// Returns true if a name of a path matches.
    fn matches(&self, name: &str) -> bool {
        self.glob.as_ref().is_some_and(|glob| glob.matches(name.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_like_source_controller() {
        // Name, ignore lines at the root, path, whether it is a directory, excluded.
        let rows = [
            ("a name excludes at every depth", "secret", "a/secret/b.yaml", false, true),
            ("a directory name excludes what is below", "deploy/", "deploy/a.yaml", false, true),
            ("a directory name does not exclude a file of that name", "deploy/", "x/deploy", false, false),
            (
                "below an excluded directory a file is included again",
                "deploy/\n!deploy/sub/x.yaml",
                "deploy/sub/x.yaml",
                false,
                false,
            ),
            ("its neighbour stays excluded", "deploy/\n!deploy/sub/x.yaml", "deploy/sub/y.yaml", false, true),
            ("a leading slash anchors", "/a.yaml", "a.yaml", false, true),
            ("an anchored name does not match deeper", "/a.yaml", "b/a.yaml", false, false),
            ("an anchored directory excludes what is below", "/clusters/dev", "clusters/dev/x.yaml", false, true),
            ("double star in front", "**/x.yaml", "a/b/x.yaml", false, true),
            ("double star in the middle", "a/**/b", "a/x/y/b", false, true),
            ("double star at the end", "abc/**", "abc/x/y", false, true),
            ("double star inside a name matches nothing", "a**b/c", "axb/c", false, false),
            ("everything out, one back in", "/*\n!/keep", "keep/x.yaml", false, false),
            ("everything out", "/*\n!/keep", "other/x.yaml", false, true),
            ("a comment is no pattern", "#a.yaml", "a.yaml", false, false),
            ("trailing spaces are cut", "a.yaml  ", "a.yaml", false, true),
            ("the last match wins", "!volcano\n**/middle/v[uo]l?ano", "head/middle/volcano", false, true),
            ("the last match wins, included", "**/middle/v[uo]l?ano\n!volcano", "head/middle/volcano", false, false),
            ("a broken class matches nothing", "[a", "[a", false, false),
        ];
        for (name, lines, path, directory, expected) in rows {
            let mut patterns = Patterns::default();
            patterns.add("", lines).unwrap();
            assert_eq!(patterns.excludes(path, directory), expected, "{name}");
        }
    }

    #[test]
    fn patterns_apply_below_their_directory() {
        let mut patterns = Patterns::default();
        patterns.add("apps/dev", "*.yaml").unwrap();
        assert!(patterns.excludes("apps/dev/x/a.yaml", false));
        assert!(!patterns.excludes("apps/prod/a.yaml", false));
        assert!(!patterns.excludes("apps/dev", true));
    }

    #[test]
    fn one_pattern_in_any_directory_replaces_the_defaults_except_version_control() {
        let none = Patterns::default().with_defaults();
        assert!(none.excludes(".github/workflows/ci.yaml", false));
        assert!(none.excludes("deep/.sops.yaml", false));
        let mut one = Patterns::default();
        one.add("some/where", "nothing").unwrap();
        let one = one.with_defaults();
        assert!(!one.excludes(".github/workflows/ci.yaml", false));
        assert!(!one.excludes("deep/.sops.yaml", false));
        assert!(one.excludes(".gitignore", false));
        assert!(one.excludes("sub/.git/config", false));
    }
}
