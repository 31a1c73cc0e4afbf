//! Users with few rights: types that may not be listed in the whole cluster are listed namespace by namespace. What stays
//! unread stays a gap.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::list::{Listing, Query};
use crate::cluster::Cluster;
use gitops_core::kubernetes::gap::{Gap, GapKind};
use gitops_core::kubernetes::object::{ObjectMetadata, Resource, ResourceType};
use gitops_core::text::pluralize;

/// The namespaces in which to look: the one of `-n`, else all that are known, else the context's.
#[derive(Debug)]
pub(crate) struct Namespaces {
    names: Vec<Arc<str>>,
    /// Whether these are all there are.
    all: bool,
}

impl Namespaces {
    /// By what could be listed of them.
    pub(crate) fn of(cluster: &Cluster, objects: &[ObjectMetadata]) -> Self {
        let known = objects.iter().filter(|object| object.id.is("", "Namespace"));
        let names: Vec<Arc<str>> = known.map(|object| Arc::from(&*object.id.name)).collect();
        if cluster.namespace_given || names.is_empty() {
            return Self { names: vec![Arc::from(&*cluster.namespace)], all: false };
        }
        Self { names, all: true }
    }

    /// Puts what is known now of a type into its gap: it goes when every namespace was read.
    fn settle(&self, kind: &ResourceType, unread: usize, gaps: &mut Vec<Gap>) {
        let resource = kind.resource();
        if self.all && unread == 0 {
            gaps.retain(|gap| gap.subject != resource);
            return;
        }
        let read = self.names.len() - unread;
        let which = match &self.names[..] {
            [one] => one.to_string(),
            _ => pluralize(read, "namespace"),
        };
        // A type that was listed in parts has a gap for each part.
        for gap in gaps.iter_mut().filter(|gap| gap.subject == resource && read > 0) {
            gap.message.push_str(&format!("; read in {which} only"));
        }
    }
}

impl Cluster {
    /// Metadata of those of these types that the gaps say are denied.
    pub(crate) async fn metadata_by_namespace(
        &self,
        types: &[ResourceType],
        namespaces: &Namespaces,
        gaps: &mut Vec<Gap>,
    ) -> Vec<ObjectMetadata> {
        let list = |cluster: Self, kind: ResourceType, namespace: Arc<str>| async move {
            cluster.list_metadata(&kind, Query { namespace: Some(&namespace), selector: None }).await
        };
        by_namespace(self, types, namespaces, gaps, list).await
    }

    /// Content of those of these types that the gaps say are denied.
    pub(crate) async fn content_by_namespace(
        &self,
        types: &[ResourceType],
        selector: Option<&str>,
        namespaces: &Namespaces,
        gaps: &mut Vec<Gap>,
    ) -> Vec<Resource> {
        let list = |cluster: Self, kind: ResourceType, namespace: Arc<str>| {
            let selector: Option<Arc<str>> = selector.map(Into::into);
            async move {
                let query = Query { namespace: Some(&namespace), selector: selector.as_deref() };
                cluster.list_full(&kind, query).await
            }
        };
        by_namespace(self, types, namespaces, gaps, list).await
    }
}

async fn by_namespace<T: Send + 'static, L: Future<Output = Listing<T>> + Send + 'static>(
    cluster: &Cluster,
    types: &[ResourceType],
    namespaces: &Namespaces,
    gaps: &mut Vec<Gap>,
    list: impl Fn(Cluster, ResourceType, Arc<str>) -> L,
) -> Vec<T> {
    let denied = |kind: &&ResourceType| {
        let same = |gap: &Gap| gap.kind == GapKind::Forbidden && gap.subject == kind.resource();
        kind.namespaced && gaps.iter().any(same)
    };
    let denied: Vec<&ResourceType> = types.iter().filter(denied).collect();
    let mut items = vec![];
    for kind in denied {
        let mut lists = JoinSet::new();
        for namespace in &namespaces.names {
            lists.spawn(list(cluster.clone(), kind.clone(), namespace.clone()));
        }
        let mut unread = 0;
        while let Some(done) = lists.join_next().await {
            let listing = done.expect("a list does not panic");
            items.extend(listing.items);
            unread += usize::from(listing.gap.is_some());
        }
        namespaces.settle(kind, unread, gaps);
    }
    items
}
