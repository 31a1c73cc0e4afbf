//! Labels and annotations by which people keep objects from being deleted.
//!
//! Source: docs/reference/ownership.md 4. Unknown values protect: a typo in a protection must not delete.

use serde::{Deserialize, Serialize};

use crate::kubernetes::object::ObjectMetadata;

/// A label or annotation that protects one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Protection {
    /// Label or annotation key.
    pub key: String,
    /// Value on the object.
    pub value: String,
}

/// A key that protects objects, as a label or as an annotation.
#[derive(Clone, Copy, Debug)]
pub struct ProtectionKey {
    /// Label or annotation key.
    pub key: &'static str,
    pub values: ProtectedValues,
}

/// Values of a key that protect an object. Values are compared without case and surrounding spaces.
#[derive(Clone, Copy, Debug)]
pub enum ProtectedValues {
    Any,
    /// Every value but these.
    Except(&'static [&'static str]),
    /// Comma-separated lists with an item that starts with one of these.
    ItemPrefix(&'static [&'static str]),
}

impl ProtectionKey {
    /// Returns a key that protects with any value.
    pub const fn any(key: &'static str) -> Self {
        Self { key, values: ProtectedValues::Any }
    }

    /// Returns a key that protects with any value but these.
    pub const fn except(key: &'static str, values: &'static [&'static str]) -> Self {
        Self { key, values: ProtectedValues::Except(values) }
    }

    pub fn find(&self, object: &ObjectMetadata) -> Option<Protection> {
        let values = [object.labels.get(self.key), object.annotations.get(self.key)];
        let value = values.into_iter().flatten().find(|value| self.values.include(value))?;
        Some(Protection { key: self.key.to_owned(), value: value.to_owned() })
    }
}

impl ProtectedValues {
    fn include(&self, value: &str) -> bool {
        let lowercase = value.trim().to_lowercase();
        match self {
            Self::Any => true,
            Self::Except(harmless) => !harmless.contains(&lowercase.as_str()),
            Self::ItemPrefix(prefixes) => {
                lowercase.split(',').any(|item| prefixes.iter().any(|prefix| item.trim().starts_with(prefix)))
            }
        }
    }
}
