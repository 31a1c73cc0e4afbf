//! Namespace by namespace reads, for users who may not list a type in the whole cluster. Namespaces that cannot be read
//! leave the gap in place.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::list::{Listing, Query};
use crate::cluster::Cluster;
use gitops_core::kubernetes::gap::{Gap, GapKind};
use gitops_core::kubernetes::object::{ObjectMetadata, Resource, ResourceType};
use gitops_core::text::pluralize;

/// The namespaces to read: the one of `-n`, else all known ones, else the context's.
#[derive(Debug)]
pub(super) struct Namespaces {
    names: Vec<Arc<str>>,
    /// `true` if the cluster has no other namespace.
    all: bool,
}

impl Namespaces {
    /// Chooses the namespaces to read, given the objects listed so far.
    pub(super) fn to_read(cluster: &Cluster, objects: &[ObjectMetadata]) -> Self {
        let known = objects.iter().filter(|object| object.id.is("", "Namespace"));
        let names: Vec<Arc<str>> = known.map(|object| Arc::from(&*object.id.name)).collect();
        if cluster.namespace_given || names.is_empty() {
            return Self { names: vec![Arc::from(&*cluster.namespace)], all: false };
        }
        Self { names, all: true }
    }

    /// Removes the gaps of a type that was read in every namespace; otherwise adds to them what was read.
    fn update_gaps(&self, kind: &ResourceType, unread: usize, gaps: &mut Vec<Gap>) {
        let resource = kind.resource();
        if self.all && unread == 0 {
            gaps.retain(|gap| gap.subject != resource);
            return;
        }
        let read = self.names.len() - unread;
        if read == 0 {
            return;
        }
        let namespaces = match &self.names[..] {
            [one] => one.to_string(),
            _ => pluralize(read, "namespace"),
        };
        // A type that was listed in parts has a gap for each part.
        for gap in gaps.iter_mut().filter(|gap| gap.subject == resource) {
            gap.message.push_str(&format!("; read in {namespaces} only"));
        }
    }
}

impl Cluster {
    /// Reads the metadata of those of these types that have a Forbidden gap.
    pub(super) async fn read_metadata_by_namespace(
        &self,
        types: &[ResourceType],
        namespaces: &Namespaces,
        gaps: &mut Vec<Gap>,
    ) -> Vec<ObjectMetadata> {
        let list = |cluster: Self, kind: ResourceType, namespace: Arc<str>| async move {
            cluster.list_metadata(&kind, Query { namespace: Some(&namespace), selector: None }).await
        };
        read_by_namespace(self, types, namespaces, gaps, list).await
    }

    /// Reads the content of those of these types that have a Forbidden gap.
    pub(super) async fn read_content_by_namespace(
        &self,
        types: &[ResourceType],
        selector: Option<&str>,
        namespaces: &Namespaces,
        gaps: &mut Vec<Gap>,
    ) -> Vec<Resource> {
        let selector: Option<Arc<str>> = selector.map(Into::into);
        let list = |cluster: Self, kind: ResourceType, namespace: Arc<str>| {
            let selector = selector.clone();
            async move {
                let query = Query { namespace: Some(&namespace), selector: selector.as_deref() };
                cluster.list_full(&kind, query).await
            }
        };
        read_by_namespace(self, types, namespaces, gaps, list).await
    }
}

async fn read_by_namespace<T: Send + 'static, L: Future<Output = Listing<T>> + Send + 'static>(
    cluster: &Cluster,
    types: &[ResourceType],
    namespaces: &Namespaces,
    gaps: &mut Vec<Gap>,
    list: impl Fn(Cluster, ResourceType, Arc<str>) -> L,
) -> Vec<T> {
    let mut items = vec![];
    for kind in types.iter().filter(|kind| kind.namespaced) {
        if !gaps.iter().any(|gap| gap.kind == GapKind::Forbidden && gap.subject == kind.resource()) {
            continue;
        }
        let mut lists = JoinSet::new();
        for namespace in &namespaces.names {
            lists.spawn(list(cluster.clone(), kind.clone(), namespace.clone()));
        }
        let mut unread = 0;
        while let Some(listed) = lists.join_next().await {
            let listing = listed.expect("a list does not panic");
            items.extend(listing.items);
            unread += usize::from(listing.gap.is_some());
        }
        namespaces.update_gaps(kind, unread, gaps);
    }
    items
}
