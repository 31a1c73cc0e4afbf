//! Reads a cluster into a [`Snapshot`]: owners' metadata, then all objects, then the owners' content.
//!
//! The order is a safety rule (design 3.4, 5): an owner writes labels before its inventory, and prunes after it. Only an
//! owner whose resource version stood still from before the first object list to after the last speaks for them.
//! Volumes are objects whose policy matters: they are listed with the others, but with their content.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;

use super::list::{Listing, Query};
use super::namespaced::Namespaces;
use crate::cluster::{Cluster, Discovered, Failure};
use gitops_core::flux::kinds;
use gitops_core::kubernetes::deletion::volumes;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, Resource, ResourceType};
use gitops_core::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use gitops_core::ownership::SCHEMES;
use gitops_core::ownership::index::sources_to_read;
use gitops_core::ownership::read_scope::ReadScope;

/// Kinds beside owners whose content tells where an owner's objects come from.
const SOURCES: [(&str, &str); 6] = [
    ("source.toolkit.fluxcd.io", "GitRepository"),
    ("source.toolkit.fluxcd.io", "OCIRepository"),
    ("source.toolkit.fluxcd.io", "Bucket"),
    ("source.toolkit.fluxcd.io", "HelmRepository"),
    ("source.toolkit.fluxcd.io", "HelmChart"),
    ("source.toolkit.fluxcd.io", "ExternalArtifact"),
];

impl Cluster {
    /// Everything: the metadata of every object of every type and the content of every owner and source.
    ///
    /// # Errors
    /// When discovery fails, or when not one type can be read.
    pub async fn snapshot(&self, now: DateTime<Utc>) -> Result<Snapshot, Failure> {
        let discovered = self.discover().await?;
        Ok(self.read(discovered, now, None, None).await)
    }

    /// What [`Cluster::snapshot`] reads of these types, or as much of it as a narrower reading needs. `early` are owners
    /// that were read in full already; their metadata is not read again before the objects.
    pub(crate) async fn read(
        &self,
        discovered: Discovered,
        now: DateTime<Utc>,
        narrow: Option<&ReadScope>,
        early: Option<Vec<Resource>>,
    ) -> Snapshot {
        // Namespaces come with the owners: they say where a user with few rights can look for the owners at once.
        let (first, others): (Vec<_>, Vec<_>) =
            discovered.types.iter().cloned().partition(|kind| is_owner(kind) || kind.is("", "Namespace"));
        let sources = others.iter().filter(|kind| SOURCES.iter().any(|(group, name)| kind.is(group, name)));
        let full: Vec<_> = first.iter().filter(|kind| is_owner(kind)).chain(sources).cloned().collect();
        let mut snapshot = Snapshot::new(now, ClusterIdentity { uid: String::new(), server: self.server.clone() });
        snapshot.gaps = discovered.gaps;
        let unread = first.iter().filter(|kind| early.is_none() || !is_owner(kind)).cloned().collect();
        snapshot.objects.extend(early.into_iter().flatten().map(|full| full.object));
        self.sweep(unread, None, &mut snapshot).await;
        let namespaces = Namespaces::of(self, &snapshot.objects);
        let here = self.metadata_by_namespace(&first, &namespaces, &mut snapshot.gaps).await;
        snapshot.objects.extend(here);
        let is_volume = |kind: &ResourceType| narrow.is_none() && kind.is("", volumes::KIND);
        let (read_whole, swept): (Vec<_>, Vec<_>) = others.iter().cloned().partition(is_volume);
        let volumes = self.read_full(&read_whole, Query::default());
        let ((), (contents, gaps)) = futures::join!(self.sweep(swept, narrow, &mut snapshot), volumes);
        snapshot.objects.extend(contents.iter().map(|full| full.object.clone()));
        snapshot.full.extend(contents);
        snapshot.gaps.extend(gaps);
        let here = self.metadata_by_namespace(&others, &namespaces, &mut snapshot.gaps).await;
        snapshot.objects.extend(here);
        let (contents, gaps) = self.content(&full, None, &namespaces).await;
        let whole = |kind: &&ResourceType| !gaps.iter().any(|gap| gap.subject == kind.resource());
        let whole: Vec<&ResourceType> = full.iter().filter(whole).collect();
        snapshot.take_full(contents, |id| whole.iter().any(|kind| kind.is(&id.group, &id.kind)));
        snapshot.gaps.extend(gaps);
        for source in sources_to_read(&snapshot) {
            let is = |kind: &&ResourceType| kind.is(source.group, source.kind);
            let kinds: Vec<_> = discovered.types.iter().filter(is).cloned().collect();
            let selector = Some(source.selector).filter(|selector| !selector.is_empty());
            let (contents, gaps) = self.content(&kinds, selector, &namespaces).await;
            snapshot.take_full(contents, |_| false);
            snapshot.gaps.extend(gaps);
        }
        snapshot.types = discovered.types;
        snapshot.other_versions = discovered.other_versions;
        snapshot.normalise();
        let system = ObjectId::new("", "Namespace", "", "kube-system");
        snapshot.cluster.uid = snapshot.object(&system).map(|object| object.uid.to_string()).unwrap_or_default();
        snapshot
    }

    /// Content of these types in the whole cluster, or in the namespaces where it may be read.
    pub(crate) async fn content(
        &self,
        types: &[ResourceType],
        selector: Option<&str>,
        namespaces: &Namespaces,
    ) -> (Vec<Resource>, Vec<Gap>) {
        let (mut contents, mut gaps) = self.read_full(types, Query { namespace: None, selector }).await;
        contents.extend(self.content_by_namespace(types, selector, namespaces, &mut gaps).await);
        (contents, gaps)
    }

    /// Adds the content of the kinds of Flux that no plan needs but `get` shows.
    pub async fn add_suspendable(&self, snapshot: &mut Snapshot) {
        let known = |kind: &&ResourceType| kinds::find(&kind.group, &kind.kind).is_some();
        let held = |kind: &&ResourceType| {
            snapshot.full.iter().any(|full| kind.is(&full.object.id.group, &full.object.id.kind))
        };
        let missing: Vec<_> = snapshot.types.iter().filter(known).filter(|kind| !held(kind)).cloned().collect();
        let namespaces = Namespaces::of(self, &snapshot.objects);
        let (contents, gaps) = self.content(&missing, None, &namespaces).await;
        snapshot.full.extend(contents);
        snapshot.gaps.extend(gaps);
        snapshot.normalise();
    }

    /// Metadata of all objects of these types, or of those that a reading needs, added to the snapshot.
    async fn sweep(&self, types: Vec<ResourceType>, narrow: Option<&ReadScope>, snapshot: &mut Snapshot) {
        let mut lists = JoinSet::new();
        for kind in types {
            for selector in narrow.map_or(vec![""], |narrow| narrow.selectors(&kind.group, &kind.kind)) {
                let (cluster, kind, selector) = (self.clone(), kind.clone(), selector.to_owned());
                lists.spawn(async move {
                    let selector = Some(&*selector).filter(|selector| !selector.is_empty());
                    cluster.list_metadata(&kind, Query { namespace: None, selector }).await
                });
            }
        }
        while let Some(done) = lists.join_next().await {
            let listing: Listing<ObjectMetadata> = done.expect("a list does not panic");
            snapshot.objects.extend(listing.items);
            snapshot.gaps.extend(listing.gap);
        }
    }

    /// All objects of these types with their content, in the order of the types, and what could not be read.
    pub async fn read_full(&self, types: &[ResourceType], query: Query<'_>) -> (Vec<Resource>, Vec<Gap>) {
        let namespace: Option<Arc<str>> = query.namespace.map(Into::into);
        let selector: Option<Arc<str>> = query.selector.map(Into::into);
        let mut lists = JoinSet::new();
        for kind in types {
            let (cluster, kind, namespace, selector) =
                (self.clone(), kind.clone(), namespace.clone(), selector.clone());
            lists.spawn(async move {
                let query = Query { namespace: namespace.as_deref(), selector: selector.as_deref() };
                cluster.list_full(&kind, query).await
            });
        }
        let mut objects = vec![];
        let mut gaps = vec![];
        while let Some(done) = lists.join_next().await {
            let listing: Listing<Resource> = done.expect("a list does not panic");
            objects.extend(listing.items);
            gaps.extend(listing.gap);
        }
        objects.sort_by(|a, b| a.object.id.cmp(&b.object.id));
        gaps.sort();
        (objects, gaps)
    }
}

/// Whether a type's objects are owners of some scheme.
pub(crate) fn is_owner(kind: &ResourceType) -> bool {
    SCHEMES.iter().any(|scheme| scheme.owner_kinds.iter().any(|(group, name)| kind.is(group, name)))
}
