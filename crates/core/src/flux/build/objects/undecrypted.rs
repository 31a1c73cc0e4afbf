//! Parts of a built object that are unknown without the keys of SOPS.

use serde_json::Value;

use crate::kubernetes::object::ObjectId;

/// Placeholder for an unknown hash or an encrypted part of an identity; no name in a cluster can contain it.
pub(crate) const UNKNOWN: &str = crate::private::PLACEHOLDER;

/// Prefix of an encrypted value.
pub(in crate::flux::build) const CIPHERTEXT_PREFIX: &str = "ENC[AES256_GCM,";

/// Returns true if a value of a manifest is encrypted.
pub(in crate::flux::build) fn is_ciphertext(value: Option<&Value>) -> bool {
    value.and_then(Value::as_str).is_some_and(|text| text.starts_with(CIPHERTEXT_PREFIX))
}

/// Returns true if a part of a value is encrypted.
pub(in crate::flux::build) fn holds_ciphertext(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().any(holds_ciphertext),
        Value::Array(items) => items.iter().any(holds_ciphertext),
        _ => is_ciphertext(Some(value)),
    }
}

/// The largest part of an object that is unknown.
#[derive(Clone, Debug, PartialEq)]
pub enum Undecrypted {
    /// Its content, or a part of it.
    Content,
    /// The name of an object that it refers to.
    Reference,
    /// Its content and the hash in its name.
    Name(UnknownName),
    /// Its kind, namespace or name is encrypted.
    /// After [`crate::flux::build::sops::resolve_names`], this also marks live objects that may be such an object.
    Identity,
}

impl Undecrypted {
    /// Returns the reason why the object cannot be compared with the live one.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Content | Self::Name(_) | Self::Identity => "its content is encrypted: not compared",
            Self::Reference => "it refers to a name with a hash of encrypted content: not compared",
        }
    }
}

/// A generated name whose hash is unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnknownName {
    /// Objects of the inventory that can have the name.
    pub candidates: Vec<ObjectId>,
    /// The encrypted text differs from the last applied one. False also if the last applied one is unknown.
    pub content_changed: bool,
}
