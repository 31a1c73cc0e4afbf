//! Text that messages and documents share: counts, lists and hashes.

use std::fmt::Display;

use sha2::{Digest, Sha256};

/// Returns a number with its noun: `1 object`, `3 objects`.
pub fn pluralize(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns a step of a JSON pointer without its escapes (RFC 6901).
pub(crate) fn unescape_step(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Returns true if a text is an ASCII word, but for the case of its letters: as `strings.EqualFold` of Go, for which a
/// long `ſ` is an `s`, and the sign of Kelvin a `k`.
pub(crate) fn is_same_folded(text: &str, word: &str) -> bool {
    let folded = text.chars().map(|c| match c {
        'ſ' => 's',
        '\u{212A}' => 'k',
        c => c.to_ascii_lowercase(),
    });
    folded.eq(word.chars().map(|c| c.to_ascii_lowercase()))
}

/// Returns lower-case hexadecimal text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a hash of parts, each with its length, so that other parts with the same text have another hash.
pub(crate) fn hash_of_parts<'a>(parts: impl Iterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// Returns the SHA-256 of some bytes as controllers write it, `sha256:…`.
pub fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// Returns a value as one word of a shell: in single quotes, unless it has plain characters only. Names that others wrote can be
/// commands: the API server accepts a Role with the name `$(reboot)`.
pub fn shell_word(value: &str) -> String {
    let is_plain = value.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@=,+%".contains(c));
    if is_plain && !value.is_empty() { value.to_owned() } else { format!("'{}'", value.replace('\'', "'\\''")) }
}

/// Returns a word that a shell reads as it is, that is no flag, and that holds no password; `None` if it is another one.
pub fn plain_word(word: &str) -> Option<&str> {
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "._-+/:".contains(c));
    (is_plain && !word.is_empty() && !word.starts_with('-')).then_some(word)
}

/// Returns `and 2 more` if a list of `total` items is cut at `limit`.
pub fn and_more(total: usize, limit: usize) -> Option<String> {
    (total > limit).then(|| format!("and {} more", total - limit))
}

/// Joins at most `limit` items: `a, b, c and 2 more`.
pub fn join_limited(items: impl IntoIterator<Item = impl Display>, limit: usize) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    let listed = items[..items.len().min(limit)].join(", ");
    match and_more(items.len(), limit) {
        Some(more) => format!("{listed} {more}"),
        None => listed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_go_folds_are_the_same() {
        for (text, expected) in [
            ("disabled", true),
            ("DISABLED", true),
            ("diſabled", true),
            ("disabled ", false),
            ("dısabled", false),
            ("", false),
        ] {
            assert_eq!(is_same_folded(text, "disabled"), expected, "{text}");
        }
        assert!(is_same_folded("\u{212A}eep", "Keep"));
    }

    #[test]
    fn a_command_of_a_hint_holds_no_other_command() {
        for (name, expected) in [
            ("apps/web:1.0", "apps/web:1.0"),
            ("", "''"),
            ("$(reboot)", "'$(reboot)'"),
            ("a b", "'a b'"),
            ("??????????", "'??????????'"),
            ("it's;id", "'it'\\''s;id'"),
        ] {
            assert_eq!(shell_word(name), expected);
        }
        for word in
            ["", "-n", "--kubeconfig=x", "a;b", "a b", "`id`", "$(id)", "u@h", "a\nb", "a=b", "~", "*", "??????????"]
        {
            assert_eq!(plain_word(word), None, "{word}");
        }
        assert_eq!(plain_word("oci://example.com/app"), Some("oci://example.com/app"));
    }

    #[test]
    fn lists_are_cut_and_counts_agree() {
        assert_eq!(join_limited([""; 0], 2), "");
        assert_eq!(join_limited(["a", "b"], 2), "a, b");
        assert_eq!(join_limited(["a", "b", "c", "d"], 2), "a, b and 2 more");
        assert_eq!([0, 1, 2].map(|number| pluralize(number, "object")), ["0 objects", "1 object", "2 objects"]);
    }
}
