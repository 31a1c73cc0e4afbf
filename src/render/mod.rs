//! How answers look: tables as kubectl prints them, documents for programs, and the guard against terminal escapes.
//!
//! Every function here gives back text; [`crate::terminal::Terminal`] alone writes it.

pub mod document;
pub mod duration;
pub mod plan;
pub mod sanitize;
pub mod suspensions;
pub mod table;

/// `1 object`, `3 objects`: a number and its noun.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
