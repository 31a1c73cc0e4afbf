//! Text for a terminal.

use kubectl_gitops::output::text::sanitize::{escape, one_line};

/// Nothing that is printed controls the terminal or the reading order; one line is one line; text that is escaped stays as
/// it is.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (escaped, line) = (escape(&text), one_line(&text));
    for printed in [&escaped, &line] {
        assert!(!printed.contains(is_control), "{printed:?}");
        assert_eq!(escape(printed), **printed);
    }
    assert!(!line.contains(['\n', '\t']), "{line:?}");
    assert!(escaped.len() <= 6 * text.len());
}

fn is_control(c: char) -> bool {
    let is_direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    is_direction || (c.is_control() && c != '\n' && c != '\t')
}
