//! What changed between kustomize-controller versions, as far as it changes a plan.
//!
//! Source: reference kustomize-controller 1.2, 1.4, 2.2, 3.3, 3.5.

/// Rules that depend on the controller's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// A substituted variable must be set or have a default.
    pub strict_substitution: bool,
    /// `ssa: Ignore` on the live object protects it from being pruned.
    pub ignore_protects: bool,
    /// An object whose application is skipped leaves the inventory and is forgotten.
    pub forgets_skipped: bool,
    /// `spec.deletionPolicy` is honoured.
    pub deletion_policy: bool,
    /// An image entry of the spec replaces the file's entry as a whole.
    pub whole_images: bool,
}

/// The newest behaviour that this tool knows.
impl Default for Features {
    fn default() -> Self {
        Self::of((1, 9, 5))
    }
}

impl Features {
    /// The rules of a version.
    pub fn of(version: (u32, u32, u32)) -> Self {
        Self {
            strict_substitution: version >= (1, 9, 0),
            ignore_protects: version >= (1, 8, 5),
            forgets_skipped: ((1, 7, 0)..(1, 8, 5)).contains(&version),
            deletion_policy: version >= (1, 5, 0),
            whole_images: version < (1, 9, 4),
        }
    }
}

/// Reads `v1.9.5`, `1.9` or an image tag; what follows a third number is ignored.
pub fn parse_version(text: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = text.trim_start_matches('v').split(['.', '-', '+', '@']).map(str::parse::<u32>);
    let major = numbers.next()?.ok()?;
    let minor = numbers.next()?.ok()?;
    Some((major, minor, numbers.next().and_then(Result::ok).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_tags_write_them() {
        let rows = [
            ("v1.9.5", Some((1, 9, 5))),
            ("1.8", Some((1, 8, 0))),
            ("v1.7.0-rc.1", Some((1, 7, 0))),
            ("v1.9.2@sha256:00", Some((1, 9, 2))),
            ("latest", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_version(text), expected, "{text}");
        }
    }

    #[test]
    fn skipped_objects_are_forgotten_only_between_1_7_0_and_1_8_4() {
        let forgets = |version| Features::of(version).forgets_skipped;
        assert!(!forgets((1, 6, 9)) && forgets((1, 7, 0)) && forgets((1, 8, 4)) && !forgets((1, 8, 5)));
    }
}
