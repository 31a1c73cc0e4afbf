//! Identity of the manifest in a last-applied annotation, without its content.
//!
//! kubectl's annotation and qbec's contain whole manifests, Secret data included, and are never kept. The identity in them
//! is the one proof that labels were written for this very object (docs/reference/qbec-and-flux-v1.md 11.1, 11.2 and Q25).
//! It is derived while metadata is read, and stored under a key of this tool.

use std::borrow::Cow;

use serde::Deserialize;

use crate::kubernetes::object::{ObjectMetadata, group_of};

/// Key under which the identity in kubectl's last-applied annotation is stored.
pub const KUBECTL: &str = "kubectl-gitops/last-applied-identity";

/// Returns the annotation to store in place of kubectl's last-applied annotation, and `None` for every other key.
pub(crate) fn derive_kubectl(key: &str, value: &str) -> Option<(&'static str, String)> {
    let manifest = (key == "kubectl.kubernetes.io/last-applied-configuration").then_some(value)?;
    Some((KUBECTL, identity(manifest.as_bytes())?))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    metadata: ManifestMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestMetadata<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    generate_name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
}

/// Returns `group/Kind/namespace/name` of a JSON manifest, or `None` if it cannot be read. A name that ends in
/// `*` is a generateName.
pub(crate) fn identity(manifest: &[u8]) -> Option<String> {
    let Manifest { api_version, kind, metadata } = serde_json::from_slice(manifest).ok()?;
    let group = group_of(&api_version);
    let ManifestMetadata { name, generate_name, namespace } = metadata;
    let name = if name.is_empty() { format!("{generate_name}*") } else { name.into_owned() };
    let parts = [group, &*kind, &*namespace, &*name];
    let is_valid = name != "*" && parts.iter().all(|part| part.len() <= 253 && !part.contains('/'));
    is_valid.then(|| parts.join("/"))
}

/// Returns true if a derived identity is an object's own. A manifest without namespace fits any, and groups are not
/// compared: servers move kinds between groups.
pub(crate) fn names_object(identity: &str, object: &ObjectMetadata) -> bool {
    let mut parts = identity.split('/').skip(1);
    let (Some(kind), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let has_name = match name.strip_suffix('*') {
        Some(prefix) => object.id.name.starts_with(prefix),
        None => *name == *object.id.name,
    };
    let has_namespace = namespace.is_empty() || object.id.namespace.is_empty() || *namespace == *object.id.namespace;
    has_name && has_namespace && *kind == *object.id.kind
}

/// Returns true if kubectl's last-applied annotation names the object; `None` without one, as after a server-side apply.
pub(crate) fn kubectl_names_object(object: &ObjectMetadata) -> Option<bool> {
    object.annotations.get(KUBECTL).map(|identity| names_object(identity, object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn only_the_identity_leaves_a_last_applied_manifest() {
        let secret =
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"shop"},"data":{"k":"aHVudGVy"}}"#;
        assert_eq!(
            derive_kubectl("kubectl.kubernetes.io/last-applied-configuration", secret),
            Some((KUBECTL, "/Secret/shop/s".to_owned()))
        );
        assert_eq!(derive_kubectl("other", secret), None);
    }

    #[test]
    fn an_absurd_manifest_has_no_identity() {
        let slash = r#"{"apiVersion":"v1","kind":"S/x","metadata":{"name":"s"}}"#;
        let nameless = r#"{"apiVersion":"v1","kind":"S","metadata":{}}"#;
        for manifest in ["", "{", "[]", slash, nameless] {
            assert_eq!(derive_kubectl("kubectl.kubernetes.io/last-applied-configuration", manifest), None);
        }
    }

    #[test]
    fn an_identity_fits_its_own_object_only() {
        let job = object("batch", "Job", "shop", "job-6nmml");
        let rows = [
            ("batch/Job//job-*", true),
            ("batch/Job/shop/job-6nmml", true),
            ("extensions/Job/shop/job-6nmml", true),
            ("batch/Job/other/job-6nmml", false),
            ("batch/Job/shop/job", false),
            ("batch/CronJob/shop/job-6nmml", false),
            ("", false),
        ];
        for (identity, own) in rows {
            assert_eq!(names_object(identity, &job), own, "{identity}");
        }
    }
}
