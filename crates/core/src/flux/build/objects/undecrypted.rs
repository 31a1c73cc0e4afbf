//! Parts of a built object that are unknown without the keys of SOPS.

use crate::kubernetes::object::ObjectId;

/// Placeholder for an unknown hash or an encrypted part of an identity; no name in a cluster can contain it.
pub(crate) const UNKNOWN: &str = crate::private::PLACEHOLDER;

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
