//! Lines of a text on a terminal: broken between words, so that none is cut and a command stays whole.

use dialoguer::console::measure_text_width;

/// Breaks a line between words where it is wider than `width`; `None` or 0 is no limit. The first line begins after `margin`
/// spaces and the others after `continued`. A command between backticks is broken only if it has no room on a line of its own.
pub(crate) fn wrap(text: &str, margin: usize, continued: usize, width: Option<usize>) -> String {
    let begin = " ".repeat(continued);
    let (mut whole, mut line, mut is_begun) = (String::new(), " ".repeat(margin), false);
    for command in commands_and_words(text) {
        let words: Vec<&str> =
            if fits(&format!("{begin}{command}"), width) { vec![command] } else { command.split(' ').collect() };
        for word in words {
            let longer = if is_begun { format!("{line} {word}") } else { format!("{line}{word}") };
            if is_begun && !fits(&longer, width) {
                whole += line.trim_end();
                whole.push('\n');
                line = format!("{begin}{word}");
            } else {
                line = longer;
            }
            is_begun = true;
        }
    }
    whole + line.trim_end()
}

/// Returns true if a line is not wider than `width`.
fn fits(line: &str, width: Option<usize>) -> bool {
    width.is_none_or(|width| width == 0 || measure_text_width(line) <= width)
}

/// Splits a text at its spaces, but not within backticks.
fn commands_and_words(text: &str) -> Vec<&str> {
    let mut parts = vec![];
    let (mut start, mut is_in_command) = (0, false);
    for (at, character) in text.char_indices() {
        match character {
            '`' => is_in_command = !is_in_command,
            ' ' if !is_in_command => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_are_broken_between_words_and_commands_stay_whole() {
        let text = "planning . at d6ae9ed, as if merged into main";
        assert_eq!(wrap(text, 0, 2, Some(20)), "planning . at\n  d6ae9ed, as if\n  merged into main");
        for width in [None, Some(0), Some(80)] {
            assert_eq!(wrap(text, 0, 2, width), text);
        }
        assert_eq!(wrap(text, 2, 4, Some(30)), "  planning . at d6ae9ed, as if\n    merged into main");
        assert_eq!(wrap("averylongword b", 0, 2, Some(5)), "averylongword\n  b");
        assert_eq!(
            wrap("run it: `git fetch --unshallow` now", 0, 2, Some(29)),
            "run it:\n  `git fetch --unshallow` now"
        );
        assert_eq!(wrap("see `a bb ccc dddd` or `lone", 0, 1, Some(8)), "see `a\n bb ccc\n dddd`\n or\n `lone");
        assert_eq!(wrap("", 0, 2, Some(20)), "");
    }
}
