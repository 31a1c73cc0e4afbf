//! Recorded objects and clusters.

use chrono::DateTime;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, ResourceType};
use gitops_core::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use gitops_core::testing;
pub use gitops_core::testing::Build;

/// An object with nothing but an identity; `place` is `NAMESPACE/NAME`, or `NAME` of what is cluster-scoped.
pub fn object(api_version: &str, kind: &str, place: &str) -> ObjectMetadata {
    let (group, version) = group_and_version(api_version);
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    ObjectMetadata { version: version.into(), ..identified(ObjectId::new(group, kind, namespace, name)) }
}

/// An object of version v1 with nothing but this identity.
pub fn identified(id: ObjectId) -> ObjectMetadata {
    ObjectMetadata {
        uid: format!("uid-{id}").into(),
        ..testing::object(&id.group, &id.kind, &id.namespace, &id.name).created(0)
    }
}

/// A type that the cluster serves; its name in singular is the kind in lower case.
pub fn resource_type(api_version: &str, kind: &str, plural: &str, namespaced: bool) -> ResourceType {
    let (group, version) = group_and_version(api_version);
    ResourceType {
        version: version.into(),
        singular: kind.to_lowercase().into(),
        ..testing::resource_type(group, kind, plural, namespaced)
    }
}

/// A recorded cluster that serves these types and holds these objects.
pub fn snapshot(types: &[(&str, &str, &str, bool)], objects: Vec<ObjectMetadata>) -> Snapshot {
    let mut snapshot = Snapshot::new(DateTime::UNIX_EPOCH, ClusterIdentity::default());
    for (api_version, kind, plural, namespaced) in types {
        snapshot.types.push(resource_type(api_version, kind, plural, *namespaced));
    }
    snapshot.objects = objects;
    snapshot.normalise();
    snapshot
}

fn group_and_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}
