//! Text of the cluster and of the tree in Markdown, HTML and Mermaid: it stays text, whatever it contains.
//!
//! Markdown quotes it as code, because renderers and forges look for no links, mentions, references, math or HTML in
//! code. A code span ends at the first run of backticks of its own length, so the length is computed.

use std::fmt::Write;

use crate::output::text::prose::{Prose, ProsePart};
use crate::output::text::sanitize::{escape, one_line};

/// Maximum size of a quoted text in bytes.
const LENGTH: usize = 400;
/// Maximum size of a label in a diagram, in bytes.
const LABEL: usize = 120;
/// Longest run of backticks that is quoted as it is. Renderers stop counting: cmark ignores code spans with more than 80
/// backticks, and takes 255 for the length of a longer fence.
const BACKTICKS: usize = 8;

/// Returns text as a code span of one line, also for a cell of a table. Empty text has no span.
pub fn span(text: &str) -> String {
    let escaped = escape_backticks(&short(text, LENGTH)).replace('|', "\\u007c");
    let line = escaped.trim();
    if line.is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_run(line) + 1);
    let space = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{line}{space}{fence}")
}

/// Returns a sentence in which the text of others is quoted.
pub(crate) fn quote(prose: &Prose) -> String {
    let parts = prose.parts().iter().map(|part| match part {
        ProsePart::Own(words) => words.clone(),
        ProsePart::Foreign(text) => span(text),
    });
    parts.collect()
}

/// Returns text as code in a line of HTML, where Markdown does not apply.
pub fn html_code(text: &str) -> String {
    let mut safe = "<code>".to_owned();
    for character in short(text, LENGTH).chars() {
        match character {
            c if is_plain(c) => safe.push(c),
            c => write!(safe, "&#{};", u32::from(c)).expect("a String takes any text"),
        }
    }
    safe + "</code>"
}

/// Returns text for the quotes of a Mermaid label; Mermaid writes entities with `#` instead of `&#`.
pub fn label(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 16);
    for character in short(text, LABEL).chars() {
        match character {
            c if is_plain(c) && c != '%' => safe.push(c),
            c => write!(safe, "#{};", u32::from(c)).expect("a String takes any text"),
        }
    }
    safe
}

/// Returns a block of code that no text can close. A line in it does not begin with a slash, because forges and bots read
/// commands such as `/close` from the source of a comment.
pub fn fenced(language: &str, content: &str) -> String {
    let content = escape_backticks(&escape(content.trim_end_matches('\n')));
    let lines: Vec<String> = content.split('\n').map(without_command).collect();
    let fence = "`".repeat(3.max(longest_run(&content) + 1));
    format!("{fence}{language}\n{}\n{fence}\n", lines.join("\n"))
}

fn without_command(line: &str) -> String {
    let text = line.trim_start();
    match text.strip_prefix('/') {
        Some(rest) => format!("{}\\u002f{rest}", &line[..line.len() - text.len()]),
        None => line.to_owned(),
    }
}

/// Returns the beginning of a text in one line. The rest is not read: a message may have megabytes.
fn short(text: &str, length: usize) -> String {
    cut(&one_line(&cut(text, 2 * length)), length)
}

fn cut(text: &str, length: usize) -> String {
    if text.len() <= length {
        return text.to_owned();
    }
    let end = (0..=length).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    format!("{}…", &text[..end])
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// Escapes all backticks of a text with a run that is longer than [`BACKTICKS`].
fn escape_backticks(text: &str) -> String {
    if longest_run(text) > BACKTICKS { text.replace('`', "\\u0060") } else { text.to_owned() }
}

/// Returns true for letters and digits of any script, and for punctuation that is no markup.
fn is_plain(character: char) -> bool {
    !character.is_ascii() || character.is_ascii_alphanumeric() || " -./,:;%+=?'".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_longer_than_the_backticks_inside() {
        for (text, expected) in [
            ("2 Pods, 100 %: ./a-b", "`2 Pods, 100 %: ./a-b`"),
            ("", ""),
            (" \t\n", ""),
            ("a\nb", "`a…`"),
            ("größer\u{202e}\u{200b}", "`größer\\u202e\\u200b`"),
            ("use `x`", "`` use `x` ``"),
            ("a``b", "```a``b```"),
            ("`", "`` ` ``"),
            ("a|b", "`a\\u007cb`"),
            ("a```````````b", &format!("`a{}b`", "\\u0060".repeat(11))),
        ] {
            assert_eq!(span(text), expected, "{text:?}");
        }
        assert_eq!(span(&"ä".repeat(5000)).chars().count(), LENGTH / 2 + 3);
    }

    #[test]
    fn html_and_labels_contain_no_markup() {
        let hostile = "a|b `c` <img src=x> **d** [e](f) & \"g\" #1 @team \\ _h_ ~i~ !j {k} $l\nnext";
        for escaped in [html_code(hostile), label(hostile)] {
            let inner = escaped.trim_start_matches("<code>").trim_end_matches("</code>");
            let markup = ['|', '`', '<', '>', '*', '[', ']', '"', '@', '\\', '_', '~', '!', '{', '$', '\n'];
            assert!(!inner.contains(markup), "{inner}");
        }
        assert_eq!(html_code("@team"), "<code>&#64;team</code>");
        assert_eq!(label("say \"hi\"; 5 %%"), "say #34;hi#34;; 5 #37;#37;");
    }

    #[test]
    fn a_block_is_not_closed_from_inside_and_contains_no_command() {
        let block = fenced("diff", "+```\n+````\n");
        assert!(block.starts_with("`````diff\n") && block.ends_with("\n`````\n"), "{block}");
        assert_eq!(
            fenced("diff", "/approve\n  /close\r/merge\n-/x"),
            "```diff\n\\u002fapprove\n  \\u002fclose\\r/merge\n-/x\n```\n"
        );
        let long = fenced("diff", &"`".repeat(300));
        assert!(long.starts_with("```diff\n\\u0060"), "{long}");
    }
}
