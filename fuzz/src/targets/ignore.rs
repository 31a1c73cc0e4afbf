//! Ignore files.

use gitops_core::flux::source::ignore::Patterns;

/// The input is a path and an ignore file. Comments and empty lines change nothing; the last line decides: `*` excludes
/// everything, `!*` nothing; without a pattern the built-in ones apply.
pub(crate) fn check(data: &[u8]) {
    let Some((path, text)) = super::split(data) else { return };
    if path.is_empty() {
        return;
    }
    let excludes = |text: &str, directory: bool| {
        let mut patterns = Patterns::default();
        patterns.add("", text).expect("the input is small");
        patterns.with_defaults().excludes(path, directory)
    };
    for directory in [false, true] {
        let excluded = excludes(text, directory);
        assert_eq!(excluded, excludes(&format!("# comment\n\n{text}\n  \n#\n"), directory));
        assert!(excludes(&format!("{text}\n*"), directory));
        assert!(!excludes(&format!("{text}\n!*"), directory));
    }
}
