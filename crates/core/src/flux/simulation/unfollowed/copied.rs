//! Files that an ArtifactGenerator copies from a source.
//!
//! A path that matches is copied with everything below it. Exclusions match a path or, without a slash, a file name.
//! Where a pattern has more than `*`, `?` and classes, every file counts as copied.
//! Source: docs/reference/flux.md 8.

use serde_json::Value;

use crate::glob::Glob;

/// A copy operation from one source.
pub(crate) struct CopyRule {
    from: String,
    exclude: Vec<String>,
}

impl CopyRule {
    /// Reads an operation that copies from the source with this alias; `None` if it copies from another one.
    pub(crate) fn read(operation: &Value, alias: &str) -> Option<Self> {
        let from = operation.get("from")?.as_str()?.strip_prefix('@')?;
        let (from_alias, path) = from.split_once('/').unwrap_or((from, ""));
        let exclude = operation.get("exclude").and_then(Value::as_array).into_iter().flatten();
        let exclude = exclude.filter_map(Value::as_str).map(str::to_owned).collect();
        let path = path.trim_start_matches("./").trim_end_matches('/').to_owned();
        (from_alias == alias).then_some(Self { from: path, exclude })
    }

    /// Returns true if a file of the source is copied.
    pub(crate) fn copies(&self, path: &str) -> bool {
        let is_excluded = self.exclude.iter().any(|pattern| {
            let name = path.rsplit('/').next().unwrap_or(path);
            !is_special(pattern) && (matches(pattern, path) || (!pattern.contains('/') && matches(pattern, name)))
        });
        let above = path.match_indices('/').map(|(end, _)| &path[..end]).chain([path]);
        !is_excluded
            && (self.from.is_empty()
                || self.from == "."
                || is_special(&self.from)
                || above.into_iter().any(|part| matches(&self.from, part)))
    }
}

/// Returns true if a pattern has alternatives or placeholders, which are not matched here.
fn is_special(pattern: &str) -> bool {
    pattern.contains(['{', '\\'])
}

/// Returns true if a pattern matches a path segment by segment; `**` matches any number of segments.
fn matches(pattern: &str, path: &str) -> bool {
    let segments: Vec<&str> = path.split('/').collect();
    // Position n is set if the pattern so far matches the first n segments.
    let mut reached = vec![false; segments.len() + 1];
    reached[0] = true;
    for part in pattern.split('/') {
        let mut next = vec![false; reached.len()];
        if part == "**" {
            let first = reached.iter().position(|is_reached| *is_reached).unwrap_or(reached.len());
            next.iter_mut().skip(first).for_each(|is_reached| *is_reached = true);
        } else if let Ok(glob) = Glob::parse(part.as_bytes()) {
            for (at, segment) in segments.iter().enumerate() {
                next[at + 1] = reached[at] && glob.matches(segment.as_bytes());
            }
        }
        reached = next;
    }
    reached[segments.len()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_that_match_and_files_below_a_directory_that_matches_are_copied() {
        let rows = [
            ("@repo/apps/web", "apps/web/a.yaml", true),
            ("@repo/apps/web/", "apps/web/sub/a.yaml", true),
            ("@repo/apps/web", "apps/web2/a.yaml", false),
            ("@repo/apps/web/a.yaml", "apps/web/a.yaml", true),
            ("@repo/apps/*", "apps/web/a.yaml", true),
            ("@repo/apps/*.yaml", "apps/a.yaml", true),
            ("@repo/apps/*.yaml", "apps/web/a.yml", false),
            ("@repo/**", "README.md", true),
            ("@repo/apps/**", "apps/web/a.yaml", true),
            ("@repo/apps/**", "infra/a.yaml", false),
            ("@repo/apps/**/*.yaml", "apps/a.yaml", true),
            ("@repo/apps/**/*.yaml", "apps/x/y/a.yaml", true),
            ("@repo/apps/**/*.yaml", "apps/x/y/a.md", false),
            ("@repo/{apps,infra}/**", "docs/a.md", true),
            ("@repo/", "docs/a.md", true),
        ];
        for (from, path, expected) in rows {
            let rule = CopyRule::read(&json!({"from": from, "to": "@artifact/"}), "repo").unwrap();
            assert_eq!(rule.copies(path), expected, "{from} {path}");
        }
        assert!(CopyRule::read(&json!({"from": "@other/**"}), "repo").is_none());
    }

    #[test]
    fn excluded_files_are_not_copied() {
        let operation = json!({"from": "@repo/apps/**", "exclude": ["*.md", "**/test/**", "{a,b}"]});
        let rule = CopyRule::read(&operation, "repo").unwrap();
        let copied = ["apps/x/README.md", "apps/x/test/a.yaml", "apps/x/a.yaml", "apps/a"].map(|at| rule.copies(at));
        assert_eq!(copied, [false, false, true, true]);
    }
}
