//! Text of others in comments.

use kubectl_gitops::output::markdown::escape::{fenced, html_code, label, span};

/// No text is active in a comment: it stays inside of its quotes, on its line, and is no markup, link, mention or command.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    check_span(&span(&text));
    let html = html_code(&text);
    let inner = html.strip_prefix("<code>").and_then(|rest| rest.strip_suffix("</code>")).expect("code");
    check_entities(&inner.replace("&#", "#"));
    check_entities(&label(&text));
    check_block(&fenced("diff", &text));
}

/// A code span ends at the first run of as many backticks as it begins with.
fn check_span(span: &str) {
    if span.is_empty() {
        return;
    }
    let fence = span.len() - span.trim_start_matches('`').len();
    assert!(fence > 0, "{span:?}");
    let inner = span[fence..].strip_suffix(&"`".repeat(fence)).expect("a closed span");
    assert!(!inner.is_empty() && inner.split(|c| c != '`').all(|run| run.len() != fence), "{span:?}");
    assert!(!inner.starts_with('`') && !inner.ends_with('`'), "{span:?}");
    assert!(!inner.contains(['|', '\n', '\r', '\t']) && !inner.contains(char::is_control), "{span:?}");
}

/// Text where every character with a meaning is an entity, `#60;`.
fn check_entities(text: &str) {
    let active =
        ['<', '>', '&', '"', '`', '@', '*', '_', '[', ']', '(', ')', '\\', '|', '!', '~', '$', '\n', '\r', '\t'];
    assert!(!text.contains(active), "{text:?}");
    for (at, _) in text.match_indices('#') {
        let digits = text[at + 1..].split(';').next().unwrap_or_default();
        assert!(!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()), "{text:?}");
    }
}

/// A block has one fence at each end that no line inside can close, and no line that is a command.
fn check_block(block: &str) {
    let lines: Vec<&str> = block.strip_suffix('\n').expect("a last line break").split('\n').collect();
    let [first, inner @ .., last] = &lines[..] else { panic!("{block:?}") };
    let fence = last.len();
    assert!(fence >= 3 && last.bytes().all(|byte| byte == b'`'), "{block:?}");
    assert_eq!(*first, format!("{last}diff"));
    for line in inner {
        let text = line.trim_start();
        assert!(text.len() - text.trim_start_matches('`').len() < fence, "{line:?}");
        assert!(!text.starts_with('/') && !line.contains(|c: char| c.is_control() && c != '\t'), "{line:?}");
    }
}
