//! Parts of output: words, escapes, lines and tables.

pub mod duration;
pub mod prose;
pub mod sanitize;
pub mod table;
pub(crate) mod wrap;

/// Returns a number with a comma between thousands: `3,990`.
pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
