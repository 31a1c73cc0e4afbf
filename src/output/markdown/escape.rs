//! Text of the cluster and the tree inside of Markdown, HTML and Mermaid: it stays text, whatever it holds.

use std::fmt::Write;

use crate::output::sanitize::one_line;

/// Text in a table cell, a list or a heading: one line, in which nothing is markup and nobody is mentioned.
pub(crate) fn text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 16);
    for character in one_line(text).chars() {
        match character {
            // An entity alone would be a mention again where the page is drawn.
            '@' => safe.push_str("@<!-- -->"),
            c if is_plain(c) => safe.push(c),
            c => write!(safe, "&#{};", u32::from(c)).expect("a String takes any text"),
        }
    }
    safe
}

/// A name: like [`text`], set as code, where no page looks for mentions, references or emoji.
pub(crate) fn code(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("<code>{}</code>", text(name).replace("@<!-- -->", "&#64;")) }
}

/// Text between the quotes of a Mermaid label; Mermaid writes entities with `#` instead of `&#`.
pub(crate) fn label(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 16);
    for character in one_line(text).chars() {
        match character {
            c if is_plain(c) && c != '%' => safe.push(c),
            c => write!(safe, "#{};", u32::from(c)).expect("a String takes any text"),
        }
    }
    safe
}

/// A block of code that no text can close: its fence is longer than any run of backticks inside.
pub(crate) fn fenced(language: &str, content: &str) -> String {
    let longest = content.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}{language}\n{}\n{fence}\n", crate::output::sanitize::escape(content.trim_end_matches('\n')))
}

/// Letters and digits of any script, and punctuation that is markup nowhere.
fn is_plain(character: char) -> bool {
    !character.is_ascii() || character.is_ascii_alphanumeric() || " -./,:;%+=?'".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_markup() {
        let hostile = "a|b `c` <img src=x> **d** [e](f) & \"g\" #1 @team \\ _h_ ~i~ !j {k} $l\nnext";
        for escaped in [text(hostile), code(hostile), label(hostile)] {
            let inner = escaped.trim_start_matches("<code>").trim_end_matches("</code>").replace("@<!-- -->", "");
            assert!(
                !inner.contains(['|', '`', '<', '>', '*', '[', ']', '"', '@', '\\', '_', '~', '!', '{', '$', '\n']),
                "{inner}"
            );
        }
        assert_eq!(text("2 Pods, 100 %: ./a-b"), "2 Pods, 100 %: ./a-b");
        assert_eq!(text("@team"), "@<!-- -->team");
        assert_eq!(code("@team"), "<code>&#64;team</code>");
        assert_eq!(label("say \"hi\"; 5 %%"), "say #34;hi#34;; 5 #37;#37;");
        assert_eq!(text("größer\u{202e}"), "größer&#92;u202e");
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        let block = fenced("diff", "+```\n+````\n");
        assert!(block.starts_with("`````diff\n") && block.ends_with("\n`````\n"), "{block}");
    }
}
