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
    fn lists_are_cut_and_counts_agree() {
        assert_eq!(join_limited([""; 0], 2), "");
        assert_eq!(join_limited(["a", "b"], 2), "a, b");
        assert_eq!(join_limited(["a", "b", "c", "d"], 2), "a, b and 2 more");
        assert_eq!([0, 1, 2].map(|number| pluralize(number, "object")), ["0 objects", "1 object", "2 objects"]);
    }
}
