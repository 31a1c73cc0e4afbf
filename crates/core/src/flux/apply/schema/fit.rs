//! How a manifest fits a schema, as far as it is decided.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::flux::apply::cause::NO_TYPED_PATCH;
use crate::text::unescape_step;

/// Result of a validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The schema accepts the manifest.
    Valid,
    /// The schema refuses a value.
    Invalid(Misfit),
    /// It is not known: what the answer depends on.
    Unknown(BTreeSet<Doubt>),
}

/// A value that a schema refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// JSON pointer of the value.
    pub(crate) pointer: String,
    pub(crate) message: String,
    /// The API server refuses the manifest whatever the live object has.
    pub(crate) is_never_ratcheted: bool,
}

/// A part of a definition whose verdict about a value is not known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Doubt {
    /// The part, as a predicate of the definition.
    pub(crate) reason: String,
    /// The part and the value: the verdict about the same two is the same.
    about: String,
}

impl Fit {
    /// Returns the worse result of two.
    pub(super) fn and(self, other: impl FnOnce() -> Self) -> Self {
        match (self, other) {
            (Self::Valid, other) => other(),
            (Self::Invalid(misfit), _) => Self::Invalid(misfit),
            (Self::Unknown(mut doubts), other) => match other() {
                Self::Valid => Self::Unknown(doubts),
                Self::Invalid(misfit) => Self::Invalid(misfit),
                Self::Unknown(more) => {
                    doubts.extend(more);
                    Self::Unknown(doubts)
                }
            },
        }
    }

    pub(super) fn invalid(pointer: &str, message: impl Into<String>) -> Self {
        Self::Invalid(Misfit { pointer: pointer.to_owned(), message: message.into(), is_never_ratcheted: false })
    }

    /// Returns the result for a manifest of which the server cannot make a patch.
    pub(super) fn no_patch(pointer: &str, why: &str) -> Self {
        let message = format!("{NO_TYPED_PATCH}: {}: {why}", dotted(pointer));
        Self::Invalid(Misfit { pointer: pointer.to_owned(), message, is_never_ratcheted: true })
    }

    pub(super) fn unknown(reason: impl Into<String>, part: &Value, value: &Value) -> Self {
        Self::Unknown([Doubt { reason: reason.into(), about: format!("{part} {value}") }].into())
    }
}

/// Returns a JSON pointer as the API server writes a path.
pub(super) fn dotted(pointer: &str) -> String {
    unescape_step(&pointer.trim_start_matches('/').replace('/', "."))
}

/// Returns the JSON pointer of a field.
pub(super) fn child(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}
