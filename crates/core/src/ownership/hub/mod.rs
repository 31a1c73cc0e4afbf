//! Owners that live in a hub cluster and apply to others: Kustomizations and HelmReleases with `spec.kubeConfig`, Argo CD
//! Applications with another destination.
//!
//! A hub has owners for many clusters, and two clusters can look alike, so an owner is taken to mean this cluster only
//! when its address is this cluster's (reference ownership-and-prune 5.2). Everything else that applies elsewhere is
//! "remote, not checked": what claims it is neither leaked nor orphaned. What applies to the hub itself is no owner here.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::index::Index;
use super::schemes::{argocd, flux_helmrelease, flux_kustomization};
use super::{Members, SCHEMES, owner_status};
use crate::kubernetes::gap::Gap;
use crate::kubernetes::object::{ObjectId, Resource};

/// Kinds of a hub's owners that can apply to another cluster.
pub const KINDS: [(&str, &str); 3] = [
    (flux_kustomization::GROUP, flux_kustomization::KIND),
    (flux_helmrelease::GROUP, flux_helmrelease::KIND),
    ("argoproj.io", argocd::KIND),
];

/// What was read of a hub.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    /// Its owners, as they were after this cluster was read.
    pub owners: Vec<Resource>,
    /// Uids of owners that changed while this cluster was being read.
    pub moved: BTreeSet<Box<str>>,
    /// Addresses in the Secrets and ConfigMaps that owners name, where these may be read.
    pub addresses: BTreeMap<Access, String>,
    /// The address of this cluster; none where it means another machine to the hub.
    pub this: Option<String>,
    /// What could not be read.
    pub gaps: Vec<Gap>,
}

/// The object that says how an owner reaches the cluster it applies to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// The Secret or ConfigMap.
    pub id: ObjectId,
    /// The key of a Secret, where one is named.
    pub key: Option<String>,
}

/// Where an owner of a hub applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Destination {
    /// The hub itself.
    Hub,
    /// This cluster: the address is its own.
    Here,
    /// Another cluster, or one that cannot be told.
    Unknown,
}

/// The Secret or ConfigMap by which an owner of Flux reaches another cluster.
pub fn access(full: &Resource) -> Option<Access> {
    let named = |kind: &str, at: &str| {
        let name = full.text(&format!("/spec/kubeConfig/{at}/name"))?;
        let key = full.text(&format!("/spec/kubeConfig/{at}/key")).map(str::to_owned);
        Some(Access { id: ObjectId::new("", kind, &full.object.id.namespace, name), key })
    };
    named("Secret", "secretRef").or_else(|| named("ConfigMap", "configMapRef"))
}

impl Hub {
    /// The hub as it is now, with what changed since an earlier reading.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        let version = |full: &Resource| (full.object.uid.clone(), full.object.resource_version.clone());
        let before: BTreeMap<_, _> = earlier.owners.iter().map(version).collect();
        let moved = self.owners.iter().map(version).filter(|(uid, now)| before.get(uid) != Some(now));
        self.moved = moved.map(|(uid, _)| uid).collect();
        self
    }

    fn target(&self, full: &Resource) -> Destination {
        let here = |address: &str| match self.this.as_deref().is_some_and(|this| same_address(address, this)) {
            true => Destination::Here,
            false => Destination::Unknown,
        };
        if full.object.id.is(KINDS[2].0, KINDS[2].1) {
            let text = |pointer: &str| full.text(pointer).unwrap_or_default();
            let (server, name) = (text("/spec/destination/server"), text("/spec/destination/name"));
            return match (argocd::is_in_cluster(server, name), server) {
                (true, _) => Destination::Hub,
                // The name stands for an address that only Argo CD's own Secrets tell.
                (false, "") => Destination::Unknown,
                (false, server) => here(server),
            };
        }
        if full.at("/spec/kubeConfig").is_none_or(Value::is_null) {
            return Destination::Hub;
        }
        access(full)
            .and_then(|access| self.addresses.get(&access))
            .map_or(Destination::Unknown, |address| here(address))
    }
}

impl Index<'_> {
    /// Takes in the owners of a hub that do not apply to the hub itself.
    pub(crate) fn enter_hub(&mut self, hub: &Hub) {
        for full in &hub.owners {
            let is_owner = |(_, scheme): &(usize, &&super::Scheme)| {
                scheme.owner_kinds.iter().any(|(group, kind)| full.object.id.is(group, kind))
            };
            let Some((n, scheme)) = SCHEMES.iter().enumerate().find(is_owner) else { continue };
            let target = hub.target(full);
            let Some(mut record) = (scheme.owner)(&full.object, &full.content).filter(|_| target != Destination::Hub)
            else {
                continue;
            };
            let id = record.id.clone();
            if self.owners.contains_key(&id) {
                // Marks name both; which of them wrote a mark cannot be told.
                self.rivals.insert(id);
                continue;
            }
            // A Helm release of this cluster is not part of a HelmRelease that may well be another cluster's.
            if target == Destination::Unknown && **scheme == flux_helmrelease::SCHEME {
                record.aliases.clear();
            }
            record.members = match (target, record.members) {
                (Destination::Here, Members::Remote(ids)) => Members::Listed(ids),
                (Destination::Here, members) => members,
                (_, Members::Listed(ids) | Members::Remote(ids)) => Members::Remote(ids),
                _ => Members::Remote(vec![]),
            };
            record.state = owner_status::during(record.state, &full.object, hub.moved.contains(&full.object.uid));
            self.enter(n, record, None, None);
            self.owners.get_mut(&id).into_iter().for_each(|owner| owner.in_hub = true);
        }
        if let Some(gap) = hub.gaps.first() {
            self.blind = Some(format!("{} could not be read, and an owner there may list it", gap.subject));
        }
    }
}

/// Whether two addresses of API servers are one.
fn same_address(one: &str, other: &str) -> bool {
    parts(one).is_some_and(|one| parts(other) == Some(one))
}

/// Scheme and host without case and without the usual port, and the path without the last `/`.
fn parts(address: &str) -> Option<(String, String, String)> {
    let (scheme, rest) = address.trim().split_once("://")?;
    let (scheme, (host, path)) = (scheme.to_lowercase(), rest.split_once('/').unwrap_or((rest, "")));
    let host = host.to_lowercase();
    let usual = if scheme == "https" { ":443" } else { ":80" };
    let host = host.strip_suffix(usual).unwrap_or(&host).to_owned();
    (!host.is_empty()).then(|| (scheme, host, path.trim_end_matches('/').to_owned()))
}
