//! Values that no output shows: those of Secrets, and what derives from them.

use std::fmt;

/// Placeholder for a part of a text that is secret or not known. No name in a cluster can contain it.
pub(crate) const PLACEHOLDER: &str = "??????????";

/// A value of a Secret, or one that derives from such a value. It cannot be formatted or serialised, so that no text, row,
/// reason or name can hold it. What is computed of it is private again, until one of the places that docs/safety.md lists
/// decides otherwise.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Private<T>(T);

impl<T> Private<T> {
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value, for a computation or for a program in the sandbox. tests/offline/architecture.rs lists the files
    /// that may call it.
    pub fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Private<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("private")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_value_has_no_text() {
        let value = Private::new("hunter2".to_owned());
        assert_eq!(format!("{value:?} {:?}", [&value]), "private [private]");
        assert_eq!(value.reveal(), "hunter2");
    }
}
