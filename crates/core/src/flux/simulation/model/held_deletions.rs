//! Objects that finalizers keep terminating once they are deleted, or that are being deleted when the change arrives.
//!
//! kustomize-controller applies and prunes such an object like any other: the apply changes it, and another DELETE changes
//! nothing. Once it is gone, the next reconciliation creates it again (observed). It is never healthy: kstatus of
//! fluxcd/cli-utils v1.2.2 looks at the time of its deletion first (`checkGenericProperties`).

use std::collections::BTreeMap;

use crate::flux::controllers::foreign_finalizers;
use crate::kubernetes::deletion::finalizers::awaited_finalizers;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::text::join_limited;

/// Returns what holds an object that is being deleted, as a clause; `None` if it is not being deleted or nothing holds it.
pub(crate) fn held_deletion(object: &ObjectMetadata) -> Option<String> {
    object.deletion_timestamp?;
    let holding: Vec<&str> = awaited_finalizers(object).collect();
    let (what, verb) = if holding.len() == 1 { ("finalizer", "is") } else { ("finalizers", "are") };
    let names = join_limited(&holding, 3);
    (!holding.is_empty())
        .then(|| format!("it is being deleted already, and is gone once its {what} {names} {verb} removed"))
}

/// Live objects with finalizers that neither Kubernetes nor Flux removes, and what they would keep terminating.
#[derive(Default)]
pub(crate) struct Holders {
    /// One such object of each Namespace and each definition.
    content: BTreeMap<ObjectId, ObjectId>,
    /// One such Pod of each Namespace.
    pods: BTreeMap<ObjectId, ObjectId>,
}

impl Holders {
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let mut holders = Self::default();
        let objects = snapshot.clusters().flat_map(|(_, cluster)| &cluster.objects);
        for object in objects.filter(|object| foreign_finalizers(object).next().is_some()) {
            let id = &object.id;
            let definition = snapshot.type_of(id).map(|kind| kind.definition().in_cluster(id.cluster.as_ref()));
            let namespace = (!id.namespace.is_empty()).then(|| id.namespace_object());
            if let Some(namespace) = namespace.clone().filter(|_| id.is("", "Pod")) {
                holders.pods.entry(namespace).or_insert_with(|| id.clone());
            }
            for container in definition.into_iter().chain(namespace) {
                holders.content.entry(container).or_insert_with(|| id.clone());
            }
        }
        holders
    }

    /// Returns the object whose finalizers keep another one once that is deleted: itself, or something in it.
    pub(crate) fn keeper<'h>(&'h self, object: &'h ObjectMetadata) -> Option<&'h ObjectId> {
        let itself = foreign_finalizers(object).next().map(|_| &object.id);
        itself.or_else(|| self.content.get(&object.id))
    }

    /// Returns a Pod that its finalizers keep in a Namespace. The namespace controller deletes nothing else there before all
    /// Pods are gone (Kubernetes v1.36.3 `pkg/controller/namespace/deletion/namespaced_resources_deleter.go`
    /// `deleteAllContent`; since 1.33).
    pub(crate) fn pod_in(&self, namespace: &ObjectId) -> Option<&ObjectId> {
        self.pods.get(namespace)
    }
}
