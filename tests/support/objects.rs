//! Objects for tests that make a cluster up.
#![allow(unreachable_pub, reason = "every test file compiles its own copy")]

use gitops_core::kubernetes::object::{KeyValues, ObjectId, ObjectMetadata};

/// An object with nothing but an identity.
pub fn bare(id: ObjectId) -> ObjectMetadata {
    ObjectMetadata {
        uid: format!("uid-{}-{}-{}", id.kind, id.namespace, id.name).into(),
        id,
        version: "v1".into(),
        resource_version: "1".into(),
        generation: 0,
        created: None,
        deleting: None,
        finalizers: vec![],
        labels: KeyValues::default(),
        annotations: KeyValues::default(),
        references: vec![],
        writers: vec![],
    }
}
