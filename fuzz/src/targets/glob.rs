//! Globs.

use gitops_core::bounds::{Budget, SUBSTITUTION_STEPS};
use gitops_core::glob::Glob;

/// The input is a pattern and a text. An escaped text matches itself; a prefix that is found matches; the shortest is not
/// longer than the longest; the steps are at most the product of the lengths.
pub(crate) fn check(data: &[u8]) {
    let Some((pattern, text)) = super::split(data) else { return };
    let escaped: String = text.chars().flat_map(|c| ['\\', c]).collect();
    assert!(Glob::parse(escaped.as_bytes()).expect("an escaped text is a pattern").matches(text.as_bytes()));
    let Ok(glob) = Glob::parse(pattern.as_bytes()) else { return };
    let mut bound = SUBSTITUTION_STEPS;
    bound.limit = (2 * (pattern.len() + 1) * (text.len() + 1)).min(bound.limit);
    let ends = [false, true].map(|longest| glob.prefix(text.as_bytes(), longest, &mut Budget::new(bound)));
    let [shortest, longest] = ends.map(|end| end.expect("the steps are bounded"));
    assert!(shortest <= longest && shortest.is_some() == longest.is_some());
    for end in [shortest, longest].into_iter().flatten() {
        assert!(end > 0 && glob.matches(&text.as_bytes()[..end]), "{end}");
    }
    if !text.is_empty() {
        assert_eq!(glob.matches(text.as_bytes()), longest == Some(text.len()));
    }
}
