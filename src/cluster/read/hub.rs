//! Owners of a hub cluster, and the API server addresses of the clusters that they apply to.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::Kubeconfig;

use super::list::Query;
use crate::cluster::config::proxy::is_loopback;
use crate::cluster::connection::Cluster;
use crate::cluster::http::failure::Failure;
use gitops_core::kubernetes::object::{ObjectId, Resource, ResourceType};
use gitops_core::ownership::index::hub::{Access, Hub, access, owner_kinds};
use gitops_core::yaml;

/// Keys that Flux tries for the kubeconfig in a Secret when the reference names none.
const KEYS: [&str; 2] = ["value", "value.yaml"];

/// Returns the owners in this cluster that may apply to the cluster at `target`. Reads the Secrets that grant access
/// to other clusters only if `read_secrets` is set, and keeps only addresses from them.
///
/// Fails when discovery fails.
pub(crate) async fn read_hub(cluster: &Cluster, target: &str, read_secrets: bool) -> Result<Hub, Failure> {
    let discovered = cluster.discover().await?;
    let owners = discovered.types.iter().filter(|kind| owner_kinds().any(|(group, name)| kind.is(group, name)));
    let kinds: Vec<_> = owners.cloned().collect();
    let (owners, mut gaps) = cluster.list_full(&kinds, Query::default()).await;
    gaps.extend(discovered.gaps.into_iter().filter(|gap| {
        let group = gap.subject.split('/').next().unwrap_or_default();
        owner_kinds().any(|(known, _)| known == group)
    }));
    let wanted: BTreeSet<Access> = owners.iter().filter_map(access).collect();
    let mut addresses = BTreeMap::new();
    for access in wanted.into_iter().filter(|access| read_secrets || &*access.id.kind != "Secret") {
        let kind = discovered.types.iter().find(|kind| kind.is(&access.id.group, &access.id.kind));
        let Some(kind) = kind else { continue };
        // If it cannot be read, its owners are reported as "remote, not checked".
        if let Ok(Some(full)) = cluster.fetch(kind, &access.id).await
            && let Some(address) = address(&full, access.key.as_deref())
        {
            addresses.insert(access, address);
        }
    }
    let this = same_address_from(target, &cluster.server).then(|| target.to_owned());
    Ok(Hub { owners, addresses, this, gaps, ..Hub::default() })
}

/// Returns the identity of the cluster: the uid of its namespace kube-system, if it may be read.
pub(crate) async fn cluster_uid(cluster: &Cluster) -> Option<Box<str>> {
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
    Some(cluster.fetch_metadata(&namespaces, &system).await.ok()??.uid)
}

/// Returns true if an address means the same server to this machine and to the hub: a loopback address does so only if
/// the hub is on this machine too.
fn same_address_from(address: &str, hub: &str) -> bool {
    !is_loopback_url(address) || is_loopback_url(hub)
}

fn is_loopback_url(url: &str) -> bool {
    url.parse().is_ok_and(|url| is_loopback(&url))
}

/// Returns the API server's address: `data.address` of a ConfigMap, or the current context's in a Secret's kubeconfig.
fn address(full: &Resource, key: Option<&str>) -> Option<String> {
    if full.object.id.is("", "ConfigMap") {
        return full.text("/data/address").map(str::to_owned);
    }
    let data = full.at("/data")?;
    let keys = key.map_or(KEYS.to_vec(), |key| vec![key]);
    let packed = keys.into_iter().find_map(|key| data.get(key)?.as_str())?;
    let text = String::from_utf8(STANDARD.decode(packed).ok()?).ok()?;
    yaml::check_depth(&text).ok()?;
    let config = Kubeconfig::from_yaml(&text).ok()?;
    let current = config.current_context?;
    let context = config.contexts.into_iter().find(|named| named.name == current)?.context?;
    config.clusters.into_iter().find(|named| named.name == context.cluster)?.cluster?.server
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use gitops_core::testing::{Build, object};

    #[test]
    fn loopback_address_is_the_same_only_if_the_hub_is_local() {
        for (this, hub, same) in [
            ("https://127.0.0.1:6443", "https://hub.example.com", false),
            ("https://localhost:6443", "https://10.0.0.9:6443", false),
            ("https://127.0.0.1:6443", "https://127.0.0.1:7443", true),
            ("https://10.0.0.1:6443", "https://hub.example.com", true),
        ] {
            assert_eq!(same_address_from(this, hub), same, "{this} {hub}");
        }
    }

    #[test]
    fn address_from_kubeconfig_secret() {
        let config = "apiVersion: v1\nkind: Config\ncurrent-context: b\ncontexts:\n- {name: a, context: {cluster: a}}\n\
            - {name: b, context: {cluster: b, user: u}}\nclusters:\n- {name: a, cluster: {server: 'https://a'}}\n\
            - {name: b, cluster: {server: 'https://b'}}\nusers: [{name: u, user: {token: hunter2}}]\n";
        let secret = |key: &str, text: &str| {
            object("", "Secret", "flux-system", "access").with_content(json!({"data": {key: STANDARD.encode(text)}}))
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
        let map =
            object("", "ConfigMap", "flux-system", "access").with_content(json!({"data": {"address": "https://c"}}));
        assert_eq!(address(&map, None).as_deref(), Some("https://c"));
    }
}
