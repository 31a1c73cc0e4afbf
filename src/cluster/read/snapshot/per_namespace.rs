//! Namespace by namespace reads, for users who may not list a type in the whole cluster. Namespaces that cannot be read
//! leave the gap in place.

use std::sync::Arc;

use crate::cluster::connection::Cluster;
use crate::cluster::read::list::{Item, ListRequest, Query, list_all};
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
            gap.add_part_read(&format!("{namespaces} only"));
        }
    }
}

/// Reads the content of all objects of these types: in the whole cluster, or in the namespaces where that is allowed.
pub(super) async fn read_content(
    cluster: &Cluster,
    types: &[ResourceType],
    selector: Option<&str>,
    namespaces: &Namespaces,
) -> (Vec<Resource>, Vec<Gap>) {
    let (mut contents, mut gaps) = cluster.list_full(types, Query { namespace: None, selector }).await;
    let own = selector.unwrap_or_default();
    contents.extend(read_in_namespaces::<Resource>(cluster, types, own, namespaces, &mut gaps).await);
    (contents, gaps)
}

/// Reads those of these types that have a Forbidden gap, and updates their gaps.
pub(super) async fn read_in_namespaces<T: Item>(
    cluster: &Cluster,
    types: &[ResourceType],
    selector: &str,
    namespaces: &Namespaces,
    gaps: &mut Vec<Gap>,
) -> Vec<T> {
    let forbidden: Vec<&ResourceType> =
        types.iter().filter(|kind| kind.namespaced && is_forbidden(kind, gaps)).collect();
    let requests = forbidden.iter().flat_map(|kind| {
        namespaces.names.iter().map(|namespace| ListRequest {
            kind: (*kind).clone(),
            namespace: Some(namespace.clone()),
            selector: selector.into(),
        })
    });
    let (items, unread) = list_all(cluster, requests).await;
    for kind in forbidden {
        let resource = kind.resource();
        namespaces.update_gaps(kind, unread.iter().filter(|gap| gap.subject == resource).count(), gaps);
    }
    items
}

fn is_forbidden(kind: &ResourceType, gaps: &[Gap]) -> bool {
    gaps.iter().any(|gap| gap.kind == GapKind::Forbidden && gap.subject == kind.resource())
}
