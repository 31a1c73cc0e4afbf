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

/// Returns a sentence of which it is not known which words others wrote. Words that a renderer or a forge may take for more
/// than text are code, with the namespace that follows a name, and so is what stands between backticks.
pub(crate) fn sentence(text: &str) -> String {
    let parts =
        text.split('`').enumerate().map(|(number, part)| if number % 2 == 1 { span(part) } else { words(part) });
    parts.collect()
}

/// Returns the words of a sentence outside of backticks.
fn words(text: &str) -> String {
    let mut words = text.split(' ');
    let mut quoted: Vec<String> = vec![];
    while let Some(word) = words.next() {
        let (before, core, mut after) = without_punctuation(word);
        if is_plain_word(core) {
            quoted.push(word.to_owned());
            continue;
        }
        let mut code = core.to_owned();
        let mut rest = words.clone();
        if after.is_empty()
            && let (Some("-n"), Some(namespace)) = (rest.next(), rest.next())
        {
            let (bracket, namespace, end) = without_punctuation(namespace);
            code = format!("{code} -n {bracket}{namespace}");
            (after, words) = (end, rest);
        }
        quoted.push(format!("{before}{}{after}", span(&code)));
    }
    quoted.join(" ")
}

/// Splits a word into the brackets before it, the word, and the punctuation after it.
fn without_punctuation(word: &str) -> (&str, &str, &str) {
    let begun = word.trim_start_matches('(');
    let core = begun.trim_end_matches([',', '.', ';', ':', ')']);
    (&word[..word.len() - begun.len()], core, &begun[core.len()..])
}

/// Returns true for a number, and for a word of letters, also with a dash or an apostrophe in it.
fn is_plain_word(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
        || word.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'\''))
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
    fn a_sentence_is_text_with_names_and_commands_as_code() {
        for (text, expected) in [
            (
                "Merged at once, it deletes 2 objects: configmap/a -n shop, configmap/b-1 -n web. In 2 steps (see)",
                "Merged at once, it deletes 2 objects: `configmap/a -n shop`, `configmap/b-1 -n web`. In 2 steps (see)",
            ),
            ("take it back (`git apply -R`), as it was", "take it back (`git apply -R`), as it was"),
            ("Data of (pvc/x) remains; Helm's", "Data of (`pvc/x`) remains; Helm's"),
            ("@team www.x.de #1 **b** [a](b) <i> a|b", "`@team` `www.x.de` `#1` `**b**` `[a](b`) `<i>` `a\\u007cb`"),
            ("a `b @team", "a `b @team`"),
            ("", ""),
        ] {
            assert_eq!(sentence(text), expected, "{text:?}");
        }
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
