//! Destinations of owners that apply to another cluster than their own.

use crate::kubernetes::object::{ObjectId, Resource};

/// Rules by which owners of a scheme name the cluster that they apply to.
#[derive(Clone, Copy, Debug)]
pub struct HubRules {
    /// Returns the destination that an owner names.
    pub target: fn(&Resource) -> HubTarget,
    /// True if an owner with an unknown destination keeps its aliases. False where an alias names something that also
    /// exists in this cluster (a Helm release), which may not belong to that owner.
    pub keeps_aliases: bool,
}

/// Destination that an owner names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubTarget {
    /// The cluster in which the owner itself is.
    Hub,
    /// The API server with this address.
    Address(String),
    /// The API server whose address is in this object.
    Access(Access),
    /// A cluster whose address the owner does not name.
    Unknown,
}

/// Secret or ConfigMap that says how to reach a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// Identity of the Secret or ConfigMap.
    pub id: ObjectId,
    /// Key in a Secret, where one is named.
    pub key: Option<String>,
}
