//! Reads a cluster into a [`Snapshot`]: owners' metadata, then all objects, then the owners' content.
//!
//! The order is a safety rule (design 3.4, 5): an owner writes labels before its inventory, and prunes after it. Only an
//! owner whose resource version stood still from before the first object list to after the last speaks for them.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;

use super::list::{Listing, Query};
use super::{Cluster, Failure};
use crate::flux::kinds;
use crate::object::{FullObject, Object, ObjectId, ResourceType};
use crate::ownership::SCHEMES;
use crate::ownership::index::sources_to_read;
use crate::snapshot::{ClusterIdentity, Gap, GapKind, Snapshot};

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
        let (owners, others): (Vec<_>, Vec<_>) = discovered.types.iter().cloned().partition(is_owner);
        let sources = others.iter().filter(|kind| SOURCES.iter().any(|(group, name)| kind.is(group, name)));
        let full: Vec<_> = owners.iter().chain(sources).cloned().collect();
        let mut snapshot = Snapshot::new(now, ClusterIdentity { uid: String::new(), server: self.server.clone() });
        snapshot.gaps = discovered.gaps;
        self.sweep(owners, &mut snapshot).await;
        self.sweep(others, &mut snapshot).await;
        self.sweep_namespaces(&discovered.types, &mut snapshot).await;
        let (contents, gaps) = self.read_full(&full, Query::default()).await;
        let whole = |kind: &&ResourceType| !gaps.iter().any(|gap| gap.subject == kind.resource());
        let whole: Vec<&ResourceType> = full.iter().filter(whole).collect();
        snapshot.take_full(contents, |id| whole.iter().any(|kind| kind.is(&id.group, &id.kind)));
        snapshot.gaps.extend(gaps);
        for source in sources_to_read(&snapshot) {
            let is = |kind: &&ResourceType| kind.is(source.group, source.kind);
            let kinds: Vec<_> = discovered.types.iter().filter(is).cloned().collect();
            let selector = Some(source.selector).filter(|selector| !selector.is_empty());
            let (contents, gaps) = self.read_full(&kinds, Query { namespace: None, selector }).await;
            snapshot.take_full(contents, |_| false);
            snapshot.gaps.extend(gaps);
        }
        snapshot.types = discovered.types;
        snapshot.other_versions = discovered.other_versions;
        snapshot.normalise();
        let system = ObjectId::new("", "Namespace", "", "kube-system");
        snapshot.cluster.uid = snapshot.object(&system).map(|object| object.uid.to_string()).unwrap_or_default();
        Ok(snapshot)
    }

    /// Adds the content of the kinds of Flux that no plan needs but `get` shows.
    pub async fn add_suspendable(&self, snapshot: &mut Snapshot) {
        let known = |kind: &&ResourceType| kinds::find(&kind.group, &kind.kind).is_some();
        let held = |kind: &&ResourceType| {
            snapshot.full.iter().any(|full| kind.is(&full.object.id.group, &full.object.id.kind))
        };
        let missing: Vec<_> = snapshot.types.iter().filter(known).filter(|kind| !held(kind)).cloned().collect();
        let (contents, gaps) = self.read_full(&missing, Query::default()).await;
        snapshot.full.extend(contents);
        snapshot.gaps.extend(gaps);
        snapshot.normalise();
    }

    /// Metadata of all objects of these types, added to the snapshot.
    async fn sweep(&self, types: Vec<ResourceType>, snapshot: &mut Snapshot) {
        let mut lists = JoinSet::new();
        for kind in types {
            let cluster = self.clone();
            lists.spawn(async move { cluster.list_metadata(&kind, Query::default()).await });
        }
        while let Some(done) = lists.join_next().await {
            let listing: Listing<Object> = done.expect("a list does not panic");
            snapshot.objects.extend(listing.items);
            snapshot.gaps.extend(listing.gap);
        }
    }

    /// Types that may not be listed in the whole cluster are listed namespace by namespace: in the one given, else in
    /// all that are known. What stays unread stays a gap.
    async fn sweep_namespaces(&self, types: &[ResourceType], snapshot: &mut Snapshot) {
        let denied = |kind: &&ResourceType| {
            let same = |gap: &Gap| gap.kind == GapKind::Forbidden && gap.subject == kind.resource();
            kind.namespaced && snapshot.gaps.iter().any(same)
        };
        let denied: Vec<ResourceType> = types.iter().filter(denied).cloned().collect();
        let known = snapshot.objects.iter().filter(|object| object.id.is("", "Namespace"));
        let mut namespaces: Vec<String> = known.map(|object| object.id.name.to_string()).collect();
        let all_known = !namespaces.is_empty();
        if self.namespace_given || !all_known {
            namespaces = vec![self.namespace.clone()];
        }
        for kind in denied {
            let mut lists = JoinSet::new();
            for namespace in namespaces.clone() {
                let (cluster, kind) = (self.clone(), kind.clone());
                lists.spawn(async move {
                    cluster.list_metadata(&kind, Query { namespace: Some(&namespace), selector: None }).await
                });
            }
            let mut unread = 0;
            while let Some(done) = lists.join_next().await {
                let listing = done.expect("a list does not panic");
                snapshot.objects.extend(listing.items);
                unread += usize::from(listing.gap.is_some());
            }
            let whole = all_known && !self.namespace_given && unread == 0;
            let resource = kind.resource();
            snapshot.gaps.retain(|gap| !whole || gap.subject != resource);
            let read = namespaces.len() - unread;
            if !whole && read > 0 {
                let gap = snapshot.gaps.iter_mut().find(|gap| gap.subject == resource);
                let which = if namespaces.len() == 1 { namespaces[0].clone() } else { format!("{read} namespaces") };
                gap.into_iter().for_each(|gap| gap.message.push_str(&format!("; read in {which} only")));
            }
        }
    }

    /// All objects of these types with their content, in the order of the types, and what could not be read.
    pub async fn read_full(&self, types: &[ResourceType], query: Query<'_>) -> (Vec<FullObject>, Vec<Gap>) {
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
            let listing: Listing<FullObject> = done.expect("a list does not panic");
            objects.extend(listing.items);
            gaps.extend(listing.gap);
        }
        objects.sort_by(|a, b| a.object.id.cmp(&b.object.id));
        gaps.sort();
        (objects, gaps)
    }
}

fn is_owner(kind: &ResourceType) -> bool {
    SCHEMES.iter().any(|scheme| scheme.owner_kinds.iter().any(|(group, name)| kind.is(group, name)))
}
