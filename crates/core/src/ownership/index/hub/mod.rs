//! Owners in a hub cluster that apply to others: Kustomizations and HelmReleases with `spec.kubeConfig`, Applications with
//! another destination.
//!
//! A hub has owners for many clusters, and two clusters can look alike. So an owner belongs to this cluster only if its
//! address is this cluster's (docs/reference/ownership.md 6.3). Every other owner is "remote, not checked": what claims it is
//! neither leaked nor orphaned. An owner that applies to the hub itself is no owner here.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::kubernetes::gap::Gap;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::scheme::Scheme;
pub use crate::ownership::scheme::hub::Access;
use crate::ownership::scheme::hub::{HubRules, HubTarget};
use crate::ownership::schemes::registry::SCHEMES;

/// Owners and addresses that were read of a hub.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    /// Its owners, read after this cluster.
    pub owners: Vec<Resource>,
    /// Uids of owners that changed while this cluster was being read.
    pub changed: BTreeSet<Box<str>>,
    /// Addresses in the Secrets and ConfigMaps that owners name, where these may be read.
    pub addresses: BTreeMap<Access, String>,
    /// Address of this cluster; `None` if it means another machine to the hub.
    pub this: Option<String>,
    /// Owners that could not be read.
    pub gaps: Vec<Gap>,
}

/// Returns the number, the scheme and the rules of the owners of a kind that can apply to another cluster.
pub(super) fn rules(id: &ObjectId) -> Option<(usize, &'static Scheme, HubRules)> {
    let mut schemes = SCHEMES.iter().enumerate();
    schemes.find_map(|(n, scheme)| Some((n, *scheme, scheme.hub.filter(|_| scheme.has_owner_kind(id))?)))
}

/// Returns group and kind of the owners that can apply to another cluster.
pub fn owner_kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    SCHEMES.iter().filter(|scheme| scheme.hub.is_some()).flat_map(|scheme| scheme.owner_kinds.iter().copied())
}

/// Returns the Secret or ConfigMap by which an owner reaches another cluster.
pub fn access(owner: &Resource) -> Option<Access> {
    let (.., rules) = rules(&owner.object.id)?;
    match (rules.target)(owner) {
        HubTarget::Access(access) => Some(access),
        _ => None,
    }
}

impl Hub {
    /// Returns the hub as it is now, with the owners that changed since an earlier reading.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        let versions: BTreeMap<_, _> =
            earlier.owners.iter().map(|owner| (&owner.object.uid, &owner.object.resource_version)).collect();
        let changed =
            self.owners.iter().filter(|owner| versions.get(&owner.object.uid) != Some(&&owner.object.resource_version));
        self.changed = changed.map(|owner| owner.object.uid.clone()).collect();
        self
    }

    pub(super) fn is_this_cluster(&self, target: &HubTarget) -> bool {
        let address = match target {
            HubTarget::Address(address) => Some(address),
            HubTarget::Access(access) => self.addresses.get(access),
            HubTarget::Hub | HubTarget::Unknown => None,
        };
        address.zip(self.this.as_ref()).is_some_and(|(address, this)| is_same_address(address, this))
    }
}

/// Returns true if two addresses of API servers are the same.
fn is_same_address(one: &str, other: &str) -> bool {
    normalise_address(one).is_some_and(|one| normalise_address(other) == Some(one))
}

/// Returns scheme and host in lower case, without the default port, and the path without the last `/`.
fn normalise_address(address: &str) -> Option<(String, String, String)> {
    let (scheme, rest) = address.trim().split_once("://")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (scheme, authority) = (scheme.to_lowercase(), authority.to_lowercase());
    let default_port = if scheme == "https" { ":443" } else { ":80" };
    let host = authority.strip_suffix(default_port).unwrap_or(&authority).to_owned();
    (!host.is_empty()).then(|| (scheme, host, path.trim_end_matches('/').to_owned()))
}
