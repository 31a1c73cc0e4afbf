//! Words that every ring says the same way.

/// `1 object`, `3 objects`: a number and its noun.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
