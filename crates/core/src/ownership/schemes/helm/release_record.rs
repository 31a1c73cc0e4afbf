//! Members of a Helm release: the documents of the manifest in its record. Nothing but identities, the events and policies of hooks,
//! the revision and its status leaves this file.
//!
//! Source: docs/reference/ownership.md 2.4; Helm v4.2.2 `pkg/storage/driver/util.go`, `decodeRelease`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::bounds::{HELM_RECORD_SIZE, UnpackError, unpack_gzip};
use crate::kubernetes::object::{ObjectId, group_of};
use crate::ownership::scheme::members::Members;
use crate::yaml;

#[derive(Deserialize)]
struct Release {
    #[serde(default)]
    manifest: String,
    #[serde(default)]
    version: i64,
    info: Option<Info>,
    hooks: Option<Vec<HookRecord>>,
}

#[derive(Deserialize)]
struct HookRecord {
    #[serde(default)]
    manifest: String,
    #[serde(default)]
    weight: i64,
    events: Option<Vec<String>>,
    delete_policies: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Info {
    #[serde(default)]
    status: String,
}

/// A revision of a release as its record has it.
pub(crate) struct RecordedRevision {
    pub(crate) number: i64,
    /// `deployed`, `superseded`, `failed`, …
    pub(crate) status: String,
    pub(crate) members: Members,
    pub(crate) hooks: Vec<RecordedHook>,
}

/// A hook of a revision as its record has it.
pub(crate) struct RecordedHook {
    pub(crate) id: ObjectId,
    pub(crate) weight: i64,
    pub(crate) events: Vec<String>,
    pub(crate) policies: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReleaseObject {
    api_version: String,
    kind: String,
    #[serde(default)]
    metadata: ReleaseObjectMetadata,
    /// Elements of a `List`, which Helm treats as separate objects.
    #[serde(default)]
    items: Vec<ReleaseObject>,
}

#[derive(Default, Deserialize)]
struct ReleaseObjectMetadata {
    #[serde(default)]
    name: String,
    namespace: Option<String>,
}

/// Returns the members listed in `data.release`: base64 of JSON, gzipped or not, with one more base64 layer in a Secret.
/// An object without namespace gets that of the release. The manifest does not say which kinds are namespaced, so the
/// index removes the namespace of cluster-scoped kinds again.
pub(crate) fn members(data: &str, secret: bool, namespace: &str) -> Members {
    match release(data, secret) {
        Ok(release) => read(&release.manifest, namespace),
        Err(UnpackError::Damaged) => Members::Unreadable("its release record cannot be decoded".to_owned()),
        Err(UnpackError::Exceeded(exceeded)) => Members::Unreadable(format!("its release record has {exceeded}")),
    }
}

/// Returns the revision in `data.release` of a Secret; `None` if Helm cannot use it.
///
/// Fails with a limit of this tool that it exceeds.
pub(crate) fn revision(data: &str, namespace: &str) -> Result<Option<RecordedRevision>, String> {
    match release(data, true) {
        Ok(Release { manifest, version, info: Some(info), hooks }) => Ok(Some(RecordedRevision {
            number: version,
            status: info.status,
            members: read(&manifest, namespace),
            hooks: hooks.into_iter().flatten().filter_map(|hook| hook.read(namespace)).collect(),
        })),
        Ok(_) | Err(UnpackError::Damaged) => Ok(None),
        Err(UnpackError::Exceeded(exceeded)) => Err(exceeded.to_string()),
    }
}

fn release(data: &str, secret: bool) -> Result<Release, UnpackError> {
    let mut bytes = decode(data.as_bytes())?;
    if secret {
        bytes = decode(&bytes)?;
    }
    if bytes.starts_with(&[0x1f, 0x8b, 0x08]) {
        bytes = unpack_gzip(&bytes, HELM_RECORD_SIZE)?;
    }
    serde_json::from_slice(&bytes).map_err(|_| UnpackError::Damaged)
}

fn decode(text: &[u8]) -> Result<Vec<u8>, UnpackError> {
    STANDARD.decode(text).map_err(|_| UnpackError::Damaged)
}

fn read(manifest: &str, namespace: &str) -> Members {
    let documents = match yaml::results::<Option<ReleaseObject>>(manifest) {
        Ok(documents) => documents,
        Err(exceeded) => return Members::Unreadable(format!("its manifest has {exceeded}")),
    };
    let mut ids = vec![];
    for (n, document) in documents.enumerate() {
        // The parser's message can contain a Secret's value, so the error has the position only.
        let Ok(document) = document else {
            return Members::Unreadable(format!("document {} of its manifest cannot be read", n + 1));
        };
        if !document.is_none_or(|document| document.list(namespace, &mut ids)) {
            return Members::Unreadable(format!("document {} of its manifest is no object", n + 1));
        }
    }
    Members::Listed(ids)
}

impl HookRecord {
    /// Returns the hook; `None` if its manifest cannot be read.
    fn read(self, namespace: &str) -> Option<RecordedHook> {
        let Members::Listed(ids) = read(&self.manifest, namespace) else { return None };
        let [events, policies] = [self.events, self.delete_policies].map(Option::unwrap_or_default);
        Some(RecordedHook { id: ids.into_iter().next()?, weight: self.weight, events, policies })
    }
}

impl ReleaseObject {
    /// Adds the identities in this document. Returns false if it is no object.
    fn list(self, namespace: &str, ids: &mut Vec<ObjectId>) -> bool {
        if self.kind == "List" {
            return self.items.into_iter().all(|item| item.list(namespace, ids));
        }
        let own = self.metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        ids.push(ObjectId::new(group_of(&self.api_version), &self.kind, own.unwrap_or(namespace), &self.metadata.name));
        !self.kind.is_empty() && !self.metadata.name.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const MANIFEST: &str = "---\n# Source: a\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n---\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: other}\n";

    fn packed(gzip: bool) -> String {
        let json = serde_json::json!({"name": "web", "manifest": MANIFEST}).to_string();
        let bytes = if gzip {
            let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
            encoder.write_all(json.as_bytes()).unwrap();
            encoder.finish().unwrap()
        } else {
            json.into_bytes()
        };
        STANDARD.encode(bytes)
    }

    #[test]
    fn with_and_without_gzip_and_in_both_kinds() {
        let expected = Members::Listed(vec![
            ObjectId::new("apps", "Deployment", "prod", "web"),
            ObjectId::new("", "Service", "other", "web"),
        ]);
        for gzip in [true, false] {
            assert_eq!(members(&STANDARD.encode(packed(gzip)), true, "prod"), expected);
            assert_eq!(members(&packed(gzip), false, "prod"), expected);
        }
    }

    #[test]
    fn a_list_is_its_elements() {
        let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: a}}\n";
        assert_eq!(read(list, "prod"), Members::Listed(vec![ObjectId::new("", "Service", "prod", "a")]));
    }

    #[test]
    fn a_record_above_a_limit_is_unreadable_and_the_limit_is_named() {
        let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        let block = [b' '; 1 << 20];
        (0..=HELM_RECORD_SIZE.limit >> 20).for_each(|_| gzip.write_all(&block).unwrap());
        let bomb = STANDARD.encode(gzip.finish().unwrap());
        let deep = read(&"[".repeat(100_000), "prod");
        for (found, name) in [(members(&bomb, false, "prod"), "helm-record-size"), (deep, "yaml-depth")] {
            let Members::Unreadable(why) = found else { panic!("{name} was not checked") };
            assert!(why.contains(name), "{why}");
        }
    }

    #[test]
    fn a_broken_record_is_unreadable() {
        for data in ["", "!!", "aGVsbG8=", &STANDARD.encode("{}x")] {
            assert!(matches!(members(data, true, "prod"), Members::Unreadable(_)), "{data}");
        }
        assert!(matches!(read("a: [", "prod"), Members::Unreadable(_)));
        assert!(matches!(read("just text", "prod"), Members::Unreadable(_)));
        assert_eq!(read("", "prod"), Members::Listed(vec![]));
        assert_eq!(read("apiVersion: v1\nkind: List\nitems: []", "prod"), Members::Listed(vec![]));
        let nameless = "apiVersion: v1\nkind: Secret\nstringData: {password: hunter2}\n";
        let odd = "apiVersion: v1\nkind: Secret\nmetadata: hunter2\n";
        for text in [nameless, odd, &format!("{odd}---\n{nameless}")] {
            let Members::Unreadable(why) = read(text, "prod") else { panic!("{text}") };
            assert!(why.starts_with("document 1 of its manifest") && !why.contains("hunter2"), "{why}");
        }
    }
}
