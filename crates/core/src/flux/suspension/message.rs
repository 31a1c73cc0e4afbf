//! Limits of a suspension message. A message is stored unchanged, line breaks included, and escaped when it is shown.

use crate::error::{Error, Hint, Result};

/// Longest message in bytes. The API server allows 256 KiB for all annotations of an object together.
pub const MAX_BYTES: usize = 250 * 1024;

/// Returns an error if a message is empty, too long, or has a NUL character, which no annotation can have.
pub fn validate(message: &str) -> Result<()> {
    if message.trim().is_empty() {
        return Err(Error::invalid("the message is empty").hint(Hint::Message));
    }
    if message.len() > MAX_BYTES {
        let (length, most) = (message.len().div_ceil(1024), MAX_BYTES / 1024);
        return Err(Error::invalid(format!("the message is too long: {length} KiB, the limit is {most} KiB"))
            .hint("write a shorter message with a link to the details"));
    }
    if message.contains('\0') {
        return Err(Error::invalid("the message has a NUL character, which an annotation cannot store"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_an_annotation_cannot_store_are_errors() {
        let long = "x".repeat(MAX_BYTES + 1);
        let longest = "x".repeat(MAX_BYTES);
        for (name, message, refused) in [
            ("ordinary", "drill", false),
            ("several lines", "drill\nuntil noon", false),
            ("terminal escapes are stored, and escaped when shown", "\u{1b}[31mred", false),
            ("longest", longest.as_str(), false),
            ("empty", "", true),
            ("blank", " \n", true),
            ("too long", long.as_str(), true),
            ("NUL", "a\0b", true),
        ] {
            assert_eq!(validate(message).is_err(), refused, "{name}");
        }
    }
}
