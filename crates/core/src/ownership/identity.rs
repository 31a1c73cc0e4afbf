//! Whom a last-applied annotation speaks of, without its content.
//!
//! `qbec.io/last-applied` and kubectl's own hold whole manifests, Secret data included, and are never kept. The identity
//! in them is the one proof that a mark was written for this very object (reference qbec-and-flux-v1 D1, D2, Q25), so
//! it is derived while metadata is read and stored under a key of ours.

use std::borrow::Cow;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::kubernetes::object::ObjectMetadata;

/// Key under which the identity in qbec's last-applied annotation is stored.
pub const QBEC: &str = "kubectl-gitops/qbec-identity";
/// Key under which the identity in kubectl's last-applied annotation is stored.
pub const KUBECTL: &str = "kubectl-gitops/last-applied-identity";

/// A manifest larger than this when unpacked is not read: objects are smaller than 1.5 MiB.
const LARGEST: u64 = 4 << 20;

/// The key and value to store instead of a last-applied annotation: `group/Kind/namespace/name`, where a name that ends
/// in `*` is a generateName. `None` for other keys and for values that cannot be read. Call it for marked objects only.
pub fn derive_identity(key: &str, value: &str) -> Option<(&'static str, String)> {
    match key {
        "qbec.io/last-applied" => {
            let packed = STANDARD.decode(value).ok()?;
            let mut manifest = vec![];
            flate2::read::GzDecoder::new(&*packed).take(LARGEST).read_to_end(&mut manifest).ok()?;
            Some((QBEC, identity(&manifest)?))
        }
        "kubectl.kubernetes.io/last-applied-configuration" => Some((KUBECTL, identity(value.as_bytes())?)),
        _ => None,
    }
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

fn identity(manifest: &[u8]) -> Option<String> {
    let Manifest { api_version, kind, metadata } = serde_json::from_slice(manifest).ok()?;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let ManifestMetadata { name, generate_name, namespace } = metadata;
    let name = if name.is_empty() { format!("{generate_name}*") } else { name.into_owned() };
    let plain = |part: &str| part.len() <= 253 && !part.contains('/');
    let whole = plain(group) && plain(&kind) && plain(&namespace) && plain(&name) && name != "*";
    whole.then(|| format!("{group}/{kind}/{namespace}/{name}"))
}

/// Whether a derived identity is an object's own. A manifest without namespace fits any, and groups are not compared:
/// servers move kinds between groups.
pub fn is_of(identity: &str, object: &ObjectMetadata) -> bool {
    let mut parts = identity.split('/').skip(1);
    let (Some(kind), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let named = match name.strip_suffix('*') {
        Some(prefix) => object.id.name.starts_with(prefix),
        None => *name == *object.id.name,
    };
    let cluster_scoped = object.id.namespace.is_empty();
    named && *kind == *object.id.kind && (namespace.is_empty() || cluster_scoped || *namespace == *object.id.namespace)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::testing::object;

    fn packed(manifest: &str) -> String {
        let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        gzip.write_all(manifest.as_bytes()).unwrap();
        STANDARD.encode(gzip.finish().unwrap())
    }

    #[test]
    fn only_the_identity_leaves_a_last_applied_manifest() {
        let secret =
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"shop"},"data":{"k":"aHVudGVy"}}"#;
        assert_eq!(
            derive_identity("kubectl.kubernetes.io/last-applied-configuration", secret),
            Some((KUBECTL, "/Secret/shop/s".to_owned()))
        );
        let job = r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"generateName":"job-"}}"#;
        assert_eq!(derive_identity("qbec.io/last-applied", &packed(job)), Some((QBEC, "batch/Job//job-*".to_owned())));
        assert_eq!(derive_identity("other", secret), None);
    }

    #[test]
    fn absurd_values_are_none() {
        let bomb = packed(&format!("{{\"kind\":\"{}\"}}", "a".repeat(9 << 20)));
        let slash = r#"{"apiVersion":"v1","kind":"S/x","metadata":{"name":"s"}}"#;
        let nameless = r#"{"apiVersion":"v1","kind":"S","metadata":{}}"#;
        for value in ["", "%%%", "aGVsbG8=", &bomb, &packed("[]"), &packed(slash), &packed(nameless)] {
            assert_eq!(derive_identity("qbec.io/last-applied", value), None);
        }
        assert_eq!(derive_identity("kubectl.kubernetes.io/last-applied-configuration", "{"), None);
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
            assert_eq!(is_of(identity, &job), own, "{identity}");
        }
    }
}
