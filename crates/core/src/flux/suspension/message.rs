//! Which messages can be stored. A message is kept as it was given, line breaks included; whoever shows it escapes it.

use crate::error::{Error, Hint, Result};

/// How long a message may be, in bytes. The API server allows 256 KiB for all annotations of an object together; the
/// rest is left to the others.
pub const LONGEST: usize = 250 * 1024;

/// Checks a message before anything is sent.
///
/// # Errors
/// An invalid message: it is empty, too long, or holds NUL, which no annotation survives.
pub fn check(message: &str) -> Result<()> {
    if message.trim().is_empty() {
        return Err(Error::invalid("the message is empty").hint(Hint::Message));
    }
    if message.len() > LONGEST {
        let (length, most) = (message.len().div_ceil(1024), LONGEST / 1024);
        return Err(Error::invalid(format!("the message is too long: {length} KiB, at most {most} KiB fit"))
            .hint("give a link to the long story"));
    }
    if message.contains('\0') {
        return Err(Error::invalid("the message holds a NUL character, which cannot be stored"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_cannot_be_stored_are_refused_before_anything_is_sent() {
        let long = "x".repeat(LONGEST + 1);
        let longest = "x".repeat(LONGEST);
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
            assert_eq!(check(message).is_err(), refused, "{name}");
        }
    }
}
