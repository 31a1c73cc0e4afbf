//! Reads the owners of a hub cluster, and by which addresses they reach the clusters they apply to.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::Kubeconfig;

use crate::cluster::config::connect::is_loopback;
use crate::cluster::{Cluster, Failure, Query};
use gitops_core::kubernetes::object::{ObjectId, Resource, ResourceType};
use gitops_core::ownership::hub::{Access, Hub, access, owner_kinds};

/// Where Flux looks for a kubeconfig in a Secret that names no key.
const KEYS: [&str; 2] = ["value", "value.yaml"];

impl Cluster {
    /// The owners in this cluster that may apply to the cluster at `this`. The Secrets in which they keep access to other
    /// clusters are read only when asked, and nothing but addresses is kept of them.
    ///
    /// # Errors
    /// When discovery fails.
    pub async fn hub(&self, this: &str, read_secrets: bool) -> Result<Hub, Failure> {
        let discovered = self.discover().await?;
        let is_owner = |kind: &&ResourceType| owner_kinds().any(|(group, name)| kind.is(group, name));
        let kinds: Vec<_> = discovered.types.iter().filter(is_owner).cloned().collect();
        let (owners, mut gaps) = self.read_full(&kinds, Query::default()).await;
        gaps.extend(discovered.gaps.into_iter().filter(|gap| {
            let group = gap.subject.split('/').next().unwrap_or_default();
            owner_kinds().any(|(known, _)| known == group)
        }));
        let wanted: BTreeSet<Access> = owners.iter().filter_map(access).collect();
        let mut addresses = BTreeMap::new();
        for access in wanted.into_iter().filter(|access| read_secrets || &*access.id.kind != "Secret") {
            let kind = discovered.types.iter().find(|kind| kind.is(&access.id.group, &access.id.kind));
            let Some(kind) = kind else { continue };
            // What may not be read leaves its owners "remote, not checked", and that is said of each.
            if let Ok(Some(full)) = self.fetch(kind, &access.id).await
                && let Some(address) = address(&full, access.key.as_deref())
            {
                addresses.insert(access, address);
            }
        }
        let this = means_the_same(this, &self.server).then(|| this.to_owned());
        Ok(Hub { owners, addresses, this, gaps, ..Hub::default() })
    }

    /// The identity of a cluster: the uid of its namespace kube-system, where it may be read.
    pub async fn uid(&self) -> Option<Box<str>> {
        let namespaces = ResourceType {
            group: "".into(),
            version: "v1".into(),
            kind: "Namespace".into(),
            plural: "namespaces".into(),
            singular: "".into(),
            short_names: vec![],
            namespaced: false,
        };
        let system = ObjectId::new("", "Namespace", "", "kube-system");
        Some(self.fetch_metadata(&namespaces, &system).await.ok()??.uid)
    }
}

/// Whether an address means the same here and to a hub. A hub's loopback is its own machine: ours only where we reach the
/// hub on loopback too.
fn means_the_same(address: &str, hub: &str) -> bool {
    let on_loopback = |address: &str| address.parse().is_ok_and(|address| is_loopback(&address));
    !on_loopback(address) || on_loopback(hub)
}

/// The address of the API server in a ConfigMap's `address`, or in the kubeconfig that a Secret holds.
fn address(full: &Resource, key: Option<&str>) -> Option<String> {
    if full.object.id.is("", "ConfigMap") {
        return full.text("/data/address").map(str::to_owned);
    }
    let data = full.at("/data")?;
    let keys = key.map_or(KEYS.to_vec(), |key| vec![key]);
    let packed = keys.into_iter().find_map(|key| data.get(key)?.as_str())?;
    let text = String::from_utf8(STANDARD.decode(packed).ok()?).ok()?;
    let config = Kubeconfig::from_yaml(&text).ok()?;
    let current = config.current_context?;
    let context = config.contexts.into_iter().find(|named| named.name == current)?.context?;
    config.clusters.into_iter().find(|named| named.name == context.cluster)?.cluster?.server
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use gitops_core::testing::{Make, object};

    #[test]
    fn a_loopback_address_is_ours_only_where_the_hub_is_on_loopback_too() {
        for (this, hub, same) in [
            ("https://127.0.0.1:6443", "https://hub.example.com", false),
            ("https://localhost:6443", "https://10.0.0.9:6443", false),
            ("https://127.0.0.1:6443", "https://127.0.0.1:7443", true),
            ("https://10.0.0.1:6443", "https://hub.example.com", true),
        ] {
            assert_eq!(means_the_same(this, hub), same, "{this} {hub}");
        }
    }

    #[test]
    fn only_the_address_leaves_a_secret() {
        let config = "apiVersion: v1\nkind: Config\ncurrent-context: b\ncontexts:\n- {name: a, context: {cluster: a}}\n\
            - {name: b, context: {cluster: b, user: u}}\nclusters:\n- {name: a, cluster: {server: 'https://a'}}\n\
            - {name: b, cluster: {server: 'https://b'}}\nusers: [{name: u, user: {token: hunter2}}]\n";
        let secret = |key: &str, text: &str| {
            object("", "Secret", "flux-system", "access").full(json!({"data": {key: STANDARD.encode(text)}}))
        };
        for (key, text, asked, expected) in [
            ("value", config, None, Some("https://b")),
            ("value.yaml", config, None, Some("https://b")),
            ("other", config, Some("other"), Some("https://b")),
            ("other", config, None, None),
            ("value", "current-context: gone", None, None),
            ("value", "[", None, None),
        ] {
            assert_eq!(address(&secret(key, text), asked).as_deref(), expected, "{key} {text}");
        }
        let map = object("", "ConfigMap", "flux-system", "access").full(json!({"data": {"address": "https://c"}}));
        assert_eq!(address(&map, None).as_deref(), Some("https://c"));
    }
}
