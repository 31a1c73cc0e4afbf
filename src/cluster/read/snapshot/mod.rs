//! Reads a cluster into a [`Snapshot`]: metadata of the owners, then of all objects, then the content of the owners.
//!
//! The order is a safety rule (docs/reference/ownership.md, safety rule 5): an owner writes labels before its inventory,
//! and prunes after it. An inventory counts only if its owner's resource version is the same before the first object list
//! and after the last one. Volumes are listed with the other objects but with their content, for their reclaim policy.

mod additions;
mod per_namespace;

use std::collections::HashSet;

use chrono::{DateTime, Utc};

use super::discovery::Discovered;
use super::fetch::is_path_segment;
use super::list::{ListRequest, Query, list_all};
use crate::cluster::connection::Cluster;
use crate::cluster::http::failure::Failure;
use gitops_core::flux::kinds;
use gitops_core::kubernetes::deletion::volumes;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, Resource, ResourceType};
use gitops_core::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use gitops_core::ownership::SCHEMES;
use gitops_core::ownership::index::sources_to_read;
use gitops_core::ownership::read_scope::ReadScope;
use per_namespace::{Namespaces, read_content, read_in_namespaces};

pub(crate) use additions::{add_release_records, add_stored_versions, add_suspendable, read_pods, read_referrers};

impl Cluster {
    /// Reads the metadata of every object and the content of every owner and source. Types that cannot be read are gaps.
    ///
    /// Fails when discovery fails.
    pub async fn snapshot(&self, now: DateTime<Utc>) -> Result<Snapshot, Failure> {
        let discovered = self.discover().await?;
        Ok(read_snapshot(self, discovered, now, None, None).await)
    }

    /// Reads as [`Cluster::snapshot`], but only the objects in `scope`.
    ///
    /// Fails when discovery fails.
    pub async fn snapshot_in_scope(&self, now: DateTime<Utc>, scope: &ReadScope) -> Result<Snapshot, Failure> {
        let discovered = self.discover().await?;
        Ok(read_snapshot(self, discovered, now, Some(scope), None).await)
    }

    /// Reads the owners, lets `choose` derive the scope from them, and reads the rest as [`Cluster::snapshot_in_scope`].
    /// Returns the snapshot and its scope; `None` is the whole cluster.
    ///
    /// Fails when discovery fails.
    pub async fn snapshot_by_owners(
        &self,
        now: DateTime<Utc>,
        choose: impl FnOnce(&Snapshot) -> Option<ReadScope>,
    ) -> Result<(Snapshot, Option<ReadScope>), Failure> {
        let discovered = self.discover().await?;
        let kinds: Vec<_> = discovered.types.iter().filter(|kind| is_owner(kind)).cloned().collect();
        let (owners, gaps) = self.list_full(&kinds, Query::default()).await;
        if !gaps.is_empty() {
            return Ok((read_snapshot(self, discovered, now, None, None).await, None));
        }
        let mut owners_only = Snapshot::new(now, ClusterIdentity::default());
        owners_only.resources = owners;
        let scope = choose(&owners_only);
        let snapshot = read_snapshot(self, discovered, now, scope.as_ref(), Some(owners_only.resources)).await;
        Ok((snapshot, scope))
    }
}

/// Reads all discovered types, or those in `scope`. `owners` are owners read before: their metadata is not listed
/// again before the other objects.
async fn read_snapshot(
    cluster: &Cluster,
    discovered: Discovered,
    now: DateTime<Utc>,
    scope: Option<&ReadScope>,
    owners: Option<Vec<Resource>>,
) -> Snapshot {
    let cluster = &cluster.without_deprecations();
    let mut snapshot = Snapshot::new(now, ClusterIdentity { uid: String::new(), server: cluster.server.clone() });
    snapshot.gaps = discovered.gaps;

    // Namespaces come with the owners: a user with few rights finds the owners in them.
    let (first, others): (Vec<_>, Vec<_>) =
        discovered.types.iter().cloned().partition(|kind| is_owner(kind) || kind.is("", "Namespace"));
    let unread = first.iter().filter(|kind| owners.is_none() || !is_owner(kind)).cloned().collect();
    snapshot.objects.extend(owners.into_iter().flatten().map(|full| full.object));
    add_metadata(cluster, unread, None, &mut snapshot).await;
    let namespaces = Namespaces::to_read(cluster, &snapshot.objects);
    add_metadata_in_namespaces(cluster, &first, &namespaces, &mut snapshot).await;

    let (with_content, metadata_only): (Vec<_>, Vec<_>) =
        others.iter().cloned().partition(|kind| scope.is_none() && kind.is("", volumes::KIND));
    let volumes = cluster.list_full(&with_content, Query::default());
    let ((), (contents, gaps)) = futures::join!(add_metadata(cluster, metadata_only, scope, &mut snapshot), volumes);
    snapshot.objects.extend(contents.iter().map(|full| full.object.clone()));
    snapshot.resources.extend(contents);
    snapshot.gaps.extend(gaps);
    add_metadata_in_namespaces(cluster, &others, &namespaces, &mut snapshot).await;

    let sources = others.iter().filter(|kind| is_source(kind));
    let full: Vec<_> = first.iter().filter(|kind| is_owner(kind)).chain(sources).cloned().collect();
    let (contents, gaps) = read_content(cluster, &full, None, &namespaces).await;
    snapshot.gaps.extend(find_lost_owners(cluster, &full, &snapshot.objects, &contents, &gaps).await);
    let complete: Vec<_> = full.iter().filter(|kind| !gaps.iter().any(|gap| gap.subject == kind.resource())).collect();
    snapshot.add_resources(contents, |id| complete.iter().any(|kind| kind.is(&id.group, &id.kind)));
    snapshot.gaps.extend(gaps);
    for source in sources_to_read(&snapshot) {
        let kinds: Vec<_> =
            discovered.types.iter().filter(|kind| kind.is(source.group, source.kind)).cloned().collect();
        let selector = Some(source.selector).filter(|selector| !selector.is_empty());
        let (contents, gaps) = read_content(cluster, &kinds, selector, &namespaces).await;
        snapshot.add_resources(contents, |_| false);
        snapshot.gaps.extend(gaps);
    }

    snapshot.types = discovered.types;
    snapshot.other_versions = discovered.other_versions;
    snapshot.normalise();
    let kube_system = ObjectId::new("", "Namespace", "", "kube-system");
    snapshot.cluster.uid = snapshot.object(&kube_system).map(|object| object.uid.to_string()).unwrap_or_default();
    snapshot
}

/// Returns a gap for each object of these types that the list of metadata contains, that the list with content does not,
/// and that still exists or cannot be read: a list that is not whole.
async fn find_lost_owners(
    cluster: &Cluster,
    types: &[ResourceType],
    listed: &[ObjectMetadata],
    contents: &[Resource],
    gaps: &[Gap],
) -> Vec<Gap> {
    let read: HashSet<&str> = contents.iter().map(|full| &*full.object.uid).collect();
    let mut lost = vec![];
    for kind in types.iter().filter(|kind| !gaps.iter().any(|gap| gap.subject == kind.resource())) {
        let own = listed.iter().filter(|object| kind.is(&object.id.group, &object.id.kind));
        for object in own.filter(|object| !read.contains(&*object.uid) && is_path_segment(&object.id.name)) {
            match cluster.fetch_metadata(kind, &object.id).await {
                Ok(current) if current.as_ref().is_none_or(|current| current.uid != object.uid) => {}
                Ok(_) => {
                    let problem = format!("one list contains {}, another one does not", object.id);
                    lost.push(Failure::unreadable(problem).gap(kind.resource(), None));
                }
                Err(failure) => lost.push(failure.gap(kind.resource(), None)),
            }
        }
    }
    lost
}

/// Adds the metadata of all objects of these types, or of those in `scope`.
async fn add_metadata(cluster: &Cluster, types: Vec<ResourceType>, scope: Option<&ReadScope>, snapshot: &mut Snapshot) {
    let requests = types.iter().flat_map(|kind| {
        let selectors = scope.map_or(vec![""], |scope| scope.selectors(&kind.group, &kind.kind));
        selectors.into_iter().map(|selector| ListRequest {
            kind: kind.clone(),
            namespace: None,
            selector: selector.into(),
        })
    });
    let (objects, gaps) = list_all(cluster, requests).await;
    snapshot.objects.extend::<Vec<ObjectMetadata>>(objects);
    snapshot.gaps.extend(gaps);
}

async fn add_metadata_in_namespaces(
    cluster: &Cluster,
    types: &[ResourceType],
    namespaces: &Namespaces,
    snapshot: &mut Snapshot,
) {
    let objects: Vec<ObjectMetadata> = read_in_namespaces(cluster, types, "", namespaces, &mut snapshot.gaps).await;
    snapshot.objects.extend(objects);
}

/// Returns true if objects of this type are owners in some scheme.
fn is_owner(kind: &ResourceType) -> bool {
    SCHEMES.iter().any(|scheme| scheme.owner_kinds.iter().any(|(group, name)| kind.is(group, name)))
}

/// Returns true if objects of this type are Flux sources, or generate sources or inputs: their content says where the
/// objects of an owner come from.
fn is_source(kind: &ResourceType) -> bool {
    let is_known = kinds::find(&kind.group, &kind.kind).is_some();
    (&*kind.group == kinds::SOURCE_GROUP && is_known) || kinds::INPUTS.iter().any(|(group, name)| kind.is(group, name))
}
