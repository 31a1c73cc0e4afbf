//! Rules of a `.helmignore`: files that Helm leaves out of a chart.
//!
//! Source: Helm v4.2.2 `pkg/ignore/rules.go` and `pkg/chart/loader/archive`. Patterns have no classes of characters
//! here.

use std::path::Path;

/// Pattern that every chart has: dotfiles are no templates.
const DEFAULT: &str = "templates/.?*";

/// Rules of a chart, in order. The first one that decides counts.
pub(crate) struct HelmIgnore<'t>(Vec<Rule<'t>>);

struct Rule<'t> {
    pattern: &'t str,
    is_negated: bool,
    /// It is about folders only.
    is_of_folders: bool,
    /// It is about the name, wherever that is.
    is_of_names: bool,
}

impl<'t> HelmIgnore<'t> {
    pub(crate) fn parse(text: &'t str) -> Self {
        let lines = text.trim_start_matches('\u{feff}').lines().chain([DEFAULT]).map(str::trim);
        Self(lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(Rule::parse).collect())
    }

    /// Returns true if a file or a folder at this path in the chart is left out, itself or with a folder that it is in.
    pub(crate) fn leaves_out(&self, path: &Path, is_folder: bool) -> bool {
        let mut folders = path.ancestors().skip(1).filter(|folder| *folder != Path::new(""));
        self.decides(path, is_folder) || folders.any(|folder| self.decides(folder, true))
    }

    fn decides(&self, path: &Path, is_folder: bool) -> bool {
        self.0.iter().any(|rule| {
            let is_of_kind = is_folder || !rule.is_of_folders;
            if rule.is_negated { !is_of_kind || !rule.matches(path) } else { is_of_kind && rule.matches(path) }
        })
    }
}

impl<'t> Rule<'t> {
    fn parse(line: &'t str) -> Self {
        let (is_negated, pattern) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (is_of_folders, pattern) = pattern.strip_suffix('/').map_or((false, pattern), |rest| (true, rest));
        let is_of_names = !pattern.contains('/');
        Self { pattern: pattern.strip_prefix('/').unwrap_or(pattern), is_negated, is_of_folders, is_of_names }
    }

    fn matches(&self, path: &Path) -> bool {
        let text = if self.is_of_names { path.file_name().and_then(|name| name.to_str()) } else { path.to_str() };
        text.is_some_and(|text| matches(self.pattern, text))
    }
}

/// Returns true if a pattern matches a whole text. `*` and `?` match no `/`.
fn matches(pattern: &str, text: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('*') => {
            let end = text.find('/').unwrap_or(text.len());
            let mut ends = (0..=end).filter(|at| text.is_char_boundary(*at));
            ends.any(|at| matches(rest.as_str(), &text[at..]))
        }
        Some(first) => {
            let mut left = text.chars();
            let is_same = left.next().is_some_and(|c| c == first || (first == '?' && c != '/'));
            is_same && matches(rest.as_str(), left.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_leave_files_out_as_helm_does() {
        for (text, path, is_folder, is_left_out) in [
            ("templates/b.yaml", "templates/b.yaml", false, true),
            ("templates/b.yaml", "templates/a.yaml", false, false),
            ("b.yaml", "templates/b.yaml", false, true),
            ("/b.yaml", "templates/b.yaml", false, false),
            ("*.md\n# c\n\n", "docs/a.md", false, true),
            ("docs/", "docs/a/b.txt", false, true),
            ("docs/", "docs", false, false),
            ("templates/*", "templates/a/b", false, true),
            ("!templates", "values.yaml", false, true),
            ("", "templates/.hidden", false, true),
            ("", "values.yaml", false, false),
        ] {
            assert_eq!(HelmIgnore::parse(text).leaves_out(Path::new(path), is_folder), is_left_out, "{text}: {path}");
        }
    }
}
