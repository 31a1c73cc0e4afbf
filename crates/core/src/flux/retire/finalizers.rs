//! The workloads that serve finalizers, as far as a cluster shows them.
//!
//! No record says which process removes a finalizer. Operators are usually installed together with the definitions of what they
//! reconcile, so the workloads of the same owner serve them, then those of owners that depend on it or that it manages, then those with
//! the same name in the labels of Kubernetes.

use crate::flux::spec::KustomizationSpec;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::OwnerId;
use crate::ownership::index::Index;

/// Labels by which an application names all of its objects.
const APPLICATION: [&str; 3] = ["app.kubernetes.io/instance", "app.kubernetes.io/part-of", "app.kubernetes.io/name"];

/// Returns the workloads that serve the finalizers of a custom resource; none if none is known.
pub(super) fn servers<'a>(object: &ObjectMetadata, index: &Index<'a>) -> Vec<&'a ObjectId> {
    let snapshot = index.snapshot();
    let Some(kind) = snapshot.type_of(&object.id) else { return vec![] };
    let Some(definition) = snapshot.object(&kind.definition()) else { return vec![] };
    let owners: Vec<&OwnerId> = index.recorded_by(&definition.id).iter().collect();
    let near: Vec<&OwnerId> = index
        .owners()
        .filter(|owner| {
            let parents = owner.object.map_or(&[][..], |object| index.recorded_by(&object.id));
            let is_child = parents.iter().any(|parent| owners.contains(&parent));
            let spec = owner.full.map(KustomizationSpec::of);
            let mut needs = spec.iter().flat_map(|spec| spec.depends_on(&owner.id.namespace));
            is_child
                || needs.any(|key| owners.iter().any(|of| (&*of.namespace, &*of.name) == (&*key.namespace, &*key.name)))
        })
        .map(|owner| &owner.id)
        .collect();
    let workloads: Vec<&ObjectMetadata> = snapshot.objects.iter().filter(|object| is_workload(&object.id)).collect();
    let recorded: [Vec<&ObjectId>; 2] = [&owners, &near].map(|owners| {
        let own = workloads.iter().filter(|it| index.recorded_by(&it.id).iter().any(|owner| owners.contains(&owner)));
        own.map(|object| &object.id).collect()
    });
    let named = workloads.iter().filter(|object| is_of_same_application(object, definition)).map(|object| &object.id);
    recorded.into_iter().find(|found| !found.is_empty()).unwrap_or_else(|| named.collect())
}

fn is_of_same_application(object: &ObjectMetadata, definition: &ObjectMetadata) -> bool {
    APPLICATION.iter().any(|key| {
        let name = definition.labels.get(key);
        name.is_some() && object.labels.get(key) == name
    })
}

fn is_workload(id: &ObjectId) -> bool {
    ["Deployment", "StatefulSet", "DaemonSet"].iter().any(|kind| id.is_here("apps", kind))
}
