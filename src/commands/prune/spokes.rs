//! `--spoke NAMESPACE/SECRET=CLUSTER`: reads the clusters to which owners with `spec.kubeConfig` apply.
//!
//! Neither the Secret with the kubeconfig nor the ConfigMap with the address is read. The user says which cluster it reaches,
//! and reads that cluster with the user's own rights, or from a snapshot.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use futures::{StreamExt, stream};

use crate::cluster::config::kubeconfig;
use crate::cluster::{Cluster, Environment};
use crate::commands::Session;
use crate::commands::contexts::CLUSTERS_AT_ONCE;
use crate::error::{Error, Result};
use crate::tools::snapshot_file;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::{ClusterIdentity, DEFAULT_KEY, Snapshot};
use gitops_core::ownership::index::hub::access;

/// Connections to other clusters by their names. A cluster that was read from a file has none.
pub(super) type SpokeClusters = BTreeMap<Arc<str>, Cluster>;

const CONFIG_MAP: &str = "ConfigMap";

/// A value of `--spoke`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoke {
    /// Secret with the kubeconfig, or ConfigMap with the address of the cluster.
    config: ObjectId,
    /// Key in the Secret, if it is not the default one.
    key: Option<String>,
    /// Context of the kubeconfig, or file of a snapshot.
    cluster: String,
}

impl FromStr for Spoke {
    type Err = String;

    /// Parses `NAMESPACE/SECRET=CLUSTER`, `NAMESPACE/SECRET/KEY=CLUSTER` or `ConfigMap/NAMESPACE/NAME=CLUSTER`. No namespace has
    /// a capital letter.
    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write NAMESPACE/SECRET=CONTEXT, or NAMESPACE/SECRET=FILE with the file of a snapshot; \
                            ConfigMap/NAMESPACE/NAME names a ConfigMap";
        let (config, cluster) = text.split_once('=').ok_or(FORM)?;
        let parts: Vec<&str> = config.split('/').collect();
        let (kind, namespace, name, key) = match parts[..] {
            [CONFIG_MAP, namespace, name] => (CONFIG_MAP, namespace, name, None),
            [namespace, name] => ("Secret", namespace, name, None),
            [namespace, name, key] => ("Secret", namespace, name, Some(key)),
            _ => return Err(FORM.to_owned()),
        };
        if parts.iter().any(|part| part.is_empty()) || cluster.is_empty() {
            return Err(FORM.to_owned());
        }
        let config = ObjectId::new("", kind, namespace, name);
        let other_key = key.filter(|key| *key != DEFAULT_KEY);
        Ok(Self { config, key: other_key.map(str::to_owned), cluster: cluster.to_owned() })
    }
}

impl Display for Spoke {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        let ObjectId { kind, namespace, name, .. } = &self.config;
        let prefix = if &**kind == CONFIG_MAP { "ConfigMap/" } else { "" };
        write!(formatter, "{prefix}{namespace}/{name}={}", self.cluster)
    }
}

impl Spoke {
    /// Returns true if a cluster has the Secret or ConfigMap, or an owner that names it.
    pub(super) fn is_of(&self, snapshot: &Snapshot) -> bool {
        snapshot.object(&self.config).is_some()
            || snapshot.resources.iter().filter_map(access).any(|access| access.id == self.config)
    }
}

/// Source of the reading of a cluster.
enum Place {
    Context,
    File(PathBuf),
}

/// Reads the clusters of `--spoke` into a snapshot, each once. With a snapshot from a file, no cluster is contacted.
///
/// # Errors
/// If a Secret or ConfigMap is named twice, if a cluster is neither a context nor a file, if it cannot be read, or if two of the clusters
/// are the same.
pub(super) async fn read(
    spokes: &[Spoke],
    session: &Session,
    snapshot: &mut Snapshot,
    offline: bool,
) -> Result<SpokeClusters> {
    let mut clusters = SpokeClusters::new();
    let readings = places(spokes, session, offline)?.into_iter().map(|(name, place)| async move {
        let (spoke, cluster) = match place {
            Place::File(file) => (snapshot_file::read(&file)?, None),
            Place::Context => read_context(name, session).await?,
        };
        Ok::<_, Error>((name, spoke, cluster))
    });
    let readings: Vec<_> = stream::iter(readings).buffered(CLUSTERS_AT_ONCE).collect().await;
    for reading in readings {
        let (name, spoke, cluster) = reading?;
        ensure_is_other(name, &spoke.cluster, snapshot)?;
        snapshot.add_spoke(name, spoke);
        clusters.extend(cluster.map(|cluster| (name.into(), cluster)));
    }
    for spoke in spokes {
        let access = (spoke.config.clone(), spoke.key.clone());
        if snapshot.kube_configs.insert(access, spoke.cluster.as_str().into()).is_some() {
            let ObjectId { kind, namespace, name, .. } = &spoke.config;
            return Err(Error::usage(format!("--spoke names the {kind} {namespace}/{name} twice"))
                .hint(format!("name each {kind} once, with the cluster that it reaches")));
        }
    }
    Ok(clusters)
}

/// Reads the cluster of a context, without the flags that are about the planned cluster.
async fn read_context(name: &str, session: &Session) -> Result<(Snapshot, Option<Cluster>)> {
    let read = async {
        let cluster = session.cluster_of(name).await?;
        Ok((session.snapshot_of(&cluster).await?, Some(cluster)))
    };
    read.await.map_err(|error: Error| {
        let message = format!("cannot read the cluster of --spoke …={name}: {}", error.message);
        Error { message, ..error }
    })
}

/// Returns where each cluster is read, in the order of the flags.
fn places<'s>(spokes: &'s [Spoke], session: &Session, offline: bool) -> Result<Vec<(&'s str, Place)>> {
    let mut found: Vec<(&str, Place)> = vec![];
    if spokes.is_empty() {
        return Ok(found);
    }
    let mut contexts = vec![];
    if !offline {
        contexts = kubeconfig::names(&session.connection, &Environment::process())?.contexts;
    }
    for name in spokes.iter().map(|spoke| spoke.cluster.as_str()) {
        if found.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let place = if contexts.iter().any(|context| context == name) {
            Place::Context
        } else if Path::new(name).exists() {
            Place::File(name.into())
        } else if offline {
            return Err(Error::usage(format!("--spoke: there is no snapshot {name}"))
                .hint("with --snapshot no cluster is read: record each spoke with `kubectl gitops snapshot FILE`"));
        } else {
            let known = contexts.iter().map(String::as_str);
            return Err(Error::usage(format!("--spoke: {name} is neither a context nor a file"))
                .hint(kubeconfig::suggestion("context", name, known)));
        };
        found.push((name, place));
    }
    Ok(found)
}

/// Returns true if two clusters have the same uid, or the same URL where a uid is not known.
fn is_same(one: &ClusterIdentity, other: &ClusterIdentity) -> bool {
    match (one.uid.as_str(), other.uid.as_str()) {
        ("", _) | (_, "") => one.server.trim_end_matches('/') == other.server.trim_end_matches('/'),
        (one, other) => one == other,
    }
}

/// Refuses a cluster that was read already: its objects would be two objects each.
fn ensure_is_other(name: &str, own: &ClusterIdentity, snapshot: &Snapshot) -> Result<()> {
    if is_same(own, &snapshot.cluster) {
        return Err(Error::usage(format!("--spoke: {name} is the cluster that is planned"))
            .hint("leave this --spoke out; what a kubeconfig applies to its own cluster is not followed"));
    }
    match snapshot.spokes.iter().find(|(_, other)| is_same(own, &other.cluster)) {
        Some((other, _)) => Err(Error::usage(format!("--spoke: {name} and {other} are the same cluster"))
            .hint("name the cluster in the same way for all of its Secrets")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spoke_names_a_secret_a_key_and_a_cluster() {
        let parsed: Spoke = "flux-system/edge=arn:aws:eks:eu:1:cluster/edge".parse().unwrap();
        assert_eq!(
            (&parsed.config, parsed.key.as_deref()),
            (&ObjectId::new("", "Secret", "flux-system", "edge"), None)
        );
        assert_eq!(parsed.cluster, "arn:aws:eks:eu:1:cluster/edge");
        let key = |text: &str| text.parse::<Spoke>().unwrap().key;
        assert_eq!(key("a/b/c=x"), Some("c".to_owned()));
        assert_eq!(key("a/b/value=x"), None, "the default key");
        let map: Spoke = "ConfigMap/flux-system/edge=edge".parse().unwrap();
        assert_eq!((&map.config, map.key.as_deref()), (&ObjectId::new("", "ConfigMap", "flux-system", "edge"), None));
        assert_eq!(map.to_string(), "ConfigMap/flux-system/edge=edge");
        for wrong in ["ConfigMap/a/b/c=x", "ConfigMap//b=x", "", "edge", "a=b", "a/=b", "/a=b", "a/b=", "a/b/c/d=e"] {
            assert!(wrong.parse::<Spoke>().is_err(), "{wrong:?}");
        }
    }
}
