//! Reads a cluster into a [`Snapshot`]: metadata of the owners, then of all objects, then the content of the owners.
//!
//! The order is a safety rule (docs/reference/ownership.md, safety rule 5): an owner writes labels before its inventory,
//! and prunes after it. An inventory counts only if its owner's resource version is the same before the first object list
//! and after the last one. Volumes are listed with the other objects but with their content, for their reclaim policy.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;

use super::discovery::Discovered;
use super::fetch::is_path_segment;
use super::list::{Listing, Query};
use super::per_namespace::Namespaces;
use crate::cluster::{Cluster, Failure};
use gitops_core::flux::kinds;
use gitops_core::kubernetes::deletion::volumes;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, Resource, ResourceType};
use gitops_core::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use gitops_core::ownership::SCHEMES;
use gitops_core::ownership::index::sources_to_read;
use gitops_core::ownership::read_scope::ReadScope;

impl Cluster {
    /// Reads the metadata of every object and the content of every owner and source. Types that cannot be read are gaps.
    ///
    /// Fails when discovery fails.
    pub async fn snapshot(&self, now: DateTime<Utc>) -> Result<Snapshot, Failure> {
        let discovered = self.discover().await?;
        Ok(self.read_snapshot(discovered, now, None, None).await)
    }

    /// Reads as [`Cluster::snapshot`], but only the objects in `scope`.
    ///
    /// Fails when discovery fails.
    pub async fn snapshot_in_scope(&self, now: DateTime<Utc>, scope: &ReadScope) -> Result<Snapshot, Failure> {
        let discovered = self.discover().await?;
        Ok(self.read_snapshot(discovered, now, Some(scope), None).await)
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
        let (owners, gaps) = self.read_full(&kinds, Query::default()).await;
        if !gaps.is_empty() {
            return Ok((self.read_snapshot(discovered, now, None, None).await, None));
        }
        let mut owners_only = Snapshot::new(now, ClusterIdentity::default());
        owners_only.resources = owners;
        let scope = choose(&owners_only);
        let snapshot = self.read_snapshot(discovered, now, scope.as_ref(), Some(owners_only.resources)).await;
        Ok((snapshot, scope))
    }

    /// Reads all discovered types, or those in `scope`. `owners` are owners read before: their metadata is not listed
    /// again before the other objects.
    async fn read_snapshot(
        &self,
        discovered: Discovered,
        now: DateTime<Utc>,
        scope: Option<&ReadScope>,
        owners: Option<Vec<Resource>>,
    ) -> Snapshot {
        let mut snapshot = Snapshot::new(now, ClusterIdentity { uid: String::new(), server: self.server.clone() });
        snapshot.gaps = discovered.gaps;

        // Namespaces come with the owners: a user with few rights finds the owners in them.
        let (first, others): (Vec<_>, Vec<_>) =
            discovered.types.iter().cloned().partition(|kind| is_owner(kind) || kind.is("", "Namespace"));
        let unread = first.iter().filter(|kind| owners.is_none() || !is_owner(kind)).cloned().collect();
        snapshot.objects.extend(owners.into_iter().flatten().map(|full| full.object));
        self.add_metadata(unread, None, &mut snapshot).await;
        let namespaces = Namespaces::to_read(self, &snapshot.objects);
        self.add_metadata_by_namespace(&first, &namespaces, &mut snapshot).await;

        let (with_content, metadata_only): (Vec<_>, Vec<_>) =
            others.iter().cloned().partition(|kind| scope.is_none() && kind.is("", volumes::KIND));
        let volumes = self.read_full(&with_content, Query::default());
        let ((), (contents, gaps)) = futures::join!(self.add_metadata(metadata_only, scope, &mut snapshot), volumes);
        snapshot.objects.extend(contents.iter().map(|full| full.object.clone()));
        snapshot.resources.extend(contents);
        snapshot.gaps.extend(gaps);
        self.add_metadata_by_namespace(&others, &namespaces, &mut snapshot).await;

        let sources = others.iter().filter(|kind| is_source(kind));
        let full: Vec<_> = first.iter().filter(|kind| is_owner(kind)).chain(sources).cloned().collect();
        let (contents, gaps) = self.read_content(&full, None, &namespaces).await;
        snapshot.gaps.extend(self.find_lost_owners(&full, &snapshot.objects, &contents, &gaps).await);
        let complete: Vec<_> =
            full.iter().filter(|kind| !gaps.iter().any(|gap| gap.subject == kind.resource())).collect();
        snapshot.add_resources(contents, |id| complete.iter().any(|kind| kind.is(&id.group, &id.kind)));
        snapshot.gaps.extend(gaps);
        for source in sources_to_read(&snapshot) {
            let kinds: Vec<_> =
                discovered.types.iter().filter(|kind| kind.is(source.group, source.kind)).cloned().collect();
            let selector = Some(source.selector).filter(|selector| !selector.is_empty());
            let (contents, gaps) = self.read_content(&kinds, selector, &namespaces).await;
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
        &self,
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
                match self.fetch_metadata(kind, &object.id).await {
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

    /// Adds the content of the Flux kinds that `get` shows and no plan needs.
    pub async fn add_suspendable(&self, snapshot: &mut Snapshot) {
        let has_content = |kind: &ResourceType| {
            snapshot.resources.iter().any(|full| kind.is(&full.object.id.group, &full.object.id.kind))
        };
        let flux_kinds = snapshot.types.iter().filter(|kind| kinds::find(&kind.group, &kind.kind).is_some());
        let missing: Vec<_> = flux_kinds.filter(|kind| !has_content(kind)).cloned().collect();
        let namespaces = Namespaces::to_read(self, &snapshot.objects);
        let (contents, gaps) = self.read_content(&missing, None, &namespaces).await;
        snapshot.resources.extend(contents);
        snapshot.gaps.extend(gaps);
        snapshot.normalise();
    }

    /// Reads the content of all objects of these types: in the whole cluster, or in the namespaces where that is allowed.
    pub(super) async fn read_content(
        &self,
        types: &[ResourceType],
        selector: Option<&str>,
        namespaces: &Namespaces,
    ) -> (Vec<Resource>, Vec<Gap>) {
        let (mut contents, mut gaps) = self.read_full(types, Query { namespace: None, selector }).await;
        contents.extend(self.read_content_by_namespace(types, selector, namespaces, &mut gaps).await);
        (contents, gaps)
    }

    /// Adds the metadata of all objects of these types, or of those in `scope`.
    async fn add_metadata(&self, types: Vec<ResourceType>, scope: Option<&ReadScope>, snapshot: &mut Snapshot) {
        let mut lists = JoinSet::new();
        for kind in types {
            for selector in scope.map_or(vec![""], |scope| scope.selectors(&kind.group, &kind.kind)) {
                let (cluster, kind, selector) = (self.clone(), kind.clone(), selector.to_owned());
                lists.spawn(async move {
                    let selector = Some(&*selector).filter(|selector| !selector.is_empty());
                    cluster.list_metadata(&kind, Query { namespace: None, selector }).await
                });
            }
        }
        while let Some(listed) = lists.join_next().await {
            let listing: Listing<ObjectMetadata> = listed.expect("a list does not panic");
            snapshot.objects.extend(listing.items);
            snapshot.gaps.extend(listing.gap);
        }
    }

    async fn add_metadata_by_namespace(
        &self,
        types: &[ResourceType],
        namespaces: &Namespaces,
        snapshot: &mut Snapshot,
    ) {
        let objects = self.read_metadata_by_namespace(types, namespaces, &mut snapshot.gaps).await;
        snapshot.objects.extend(objects);
    }

    /// Returns all objects of these types with their content, sorted by identity, and a gap for each unreadable type.
    pub async fn read_full(&self, types: &[ResourceType], query: Query<'_>) -> (Vec<Resource>, Vec<Gap>) {
        let namespace: Option<Arc<str>> = query.namespace.map(Into::into);
        let selector: Option<Arc<str>> = query.selector.map(Into::into);
        let mut lists = JoinSet::new();
        for kind in types {
            let (cluster, kind) = (self.clone(), kind.clone());
            let (namespace, selector) = (namespace.clone(), selector.clone());
            lists.spawn(async move {
                let query = Query { namespace: namespace.as_deref(), selector: selector.as_deref() };
                cluster.list_full(&kind, query).await
            });
        }
        let mut objects = vec![];
        let mut gaps = vec![];
        while let Some(listed) = lists.join_next().await {
            let listing: Listing<Resource> = listed.expect("a list does not panic");
            objects.extend(listing.items);
            gaps.extend(listing.gap);
        }
        objects.sort_by(|a, b| a.object.id.cmp(&b.object.id));
        gaps.sort();
        (objects, gaps)
    }
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
