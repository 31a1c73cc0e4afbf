//! Flux v1: every applied object carries a hash of its source and its own identity. The hash cannot be read, only
//! checked against a source that is known: from a fluxd Deployment's arguments, or given by the user.
//!
//! Source: reference qbec-and-flux-v1 B1, B3, B5, D2.

pub mod args;
#[cfg(test)]
mod tests;
pub mod url;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::{
    Area, Claim, GcEligibility, Members, MetadataKey, OwnerId, OwnerSource, OwnerStatus, Protection, Record, Scheme,
    Scope,
};
use crate::ownership::{Strength, identity};
use args::FluxdArgs;
use url::safe_url;

/// The mark, from 1.14.0 on.
pub const MARK: &str = "fluxcd.io/sync-gc-mark";
/// The mark of 1.11 to 1.13, which no later version looks at.
pub const LEGACY_MARK: &str = "flux.weave.works/sync-gc-mark";
/// Hash of the applied manifest; says nothing about membership.
const CHECKSUM: &str = "fluxcd.io/sync-checksum";
/// Keys of the `ignore` policy on live objects.
const IGNORE: [&str; 2] = ["fluxcd.io/ignore", "flux.weave.works/ignore"];

/// The scheme record.
pub const SCHEME: Scheme = Scheme {
    name: "flux-v1",
    system: "flux-v1",
    member_keys: &[MetadataKey::Label(MARK), MetadataKey::Label(LEGACY_MARK)],
    selectors: &[MARK, "!fluxcd.io/sync-gc-mark,flux.weave.works/sync-gc-mark"],
    owner_labels: &[],
    other_marks: &[CHECKSUM],
    owner_kinds: &[],
    owner_sources: &[OwnerSource { group: "apps", kind: "Deployment", selector: "", full: true, only_if_marked: true }],
    managers: &[],
    claim,
    owner,
    proof: Some(is_member),
    reach,
    keep_mark,
};

/// A Git source as fluxd was configured with it. Everything here is hashed as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSource {
    /// `--git-url`.
    pub url: String,
    /// `--git-branch`.
    pub branch: String,
    /// `--git-path`, in order.
    pub paths: Vec<String>,
}

impl GitSource {
    /// The sync set name: the hash of URL, branch and paths, without separators.
    pub fn sync_set(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(safe_url(&self.url));
        hash.update(&self.branch);
        self.paths.iter().for_each(|path| hash.update(path));
        URL_SAFE_NO_PAD.encode(hash.finalize())
    }

    /// This source as an owner that the user named.
    pub fn record(&self) -> Record {
        let mut name = format!("{} {}", safe_url(&self.url), self.branch);
        self.paths.iter().for_each(|path| name.extend([" ", path]));
        let id = OwnerId::new(SCHEME.system, "Source", "", &name);
        Record { secret: Some(self.sync_set()), ..Record::new(id, Members::Selected(Scope::everywhere())) }
    }
}

/// The id in the hash: `<namespace>:<kind>/<name>`, kind in lower case, no group; `<cluster>` for cluster-scoped objects.
pub fn resource_id(id: &ObjectId) -> String {
    let namespace = if id.namespace.is_empty() { "<cluster>" } else { &*id.namespace };
    format!("{namespace}:{}/{}", id.kind.to_lowercase(), id.name)
}

/// The mark of a resource id under a sync set name.
pub fn mark(sync_set: &str, resource_id: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(sync_set);
    hash.update(resource_id);
    format!("sha256.{}", URL_SAFE_NO_PAD.encode(hash.finalize()))
}

/// Whether a label value can be a mark at all; the last of 43 characters carries 4 bits.
pub fn is_well_formed(mark: &str) -> bool {
    let Some(hash) = mark.strip_prefix("sha256.") else {
        return false;
    };
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    hash.len() == 43 && hash.bytes().all(legal) && b"AEIMQUYcgkosw048".contains(&hash.as_bytes()[42])
}

fn live_mark(object: &ObjectMetadata) -> Option<(&'static str, &str)> {
    [MARK, LEGACY_MARK].into_iter().find_map(|key| Some((key, object.labels.get(key)?)))
}

/// The owner that a mark names before any source has proven it: none that exists.
pub(crate) fn unknown_source() -> OwnerId {
    OwnerId::new(SCHEME.system, "Source", "", "unknown")
}

fn claim(object: &ObjectMetadata) -> Option<Claim> {
    let (key, value) = live_mark(object)?;
    let applied = object.annotations.get(identity::KUBECTL).map(|applied| identity::is_of(applied, object));
    let (strength, class) = match applied {
        _ if !is_well_formed(value) => (Strength::Contradicted, "malformed"),
        _ if object.controller().is_some() => (Strength::Contradicted, "on an object that a controller made"),
        Some(false) => (Strength::Contradicted, "copied: last-applied-configuration names another object"),
        Some(true) => {
            (Strength::Corroborated, "foreign: of no known source; last-applied-configuration is the object's own")
        }
        None => (Strength::Bare, "foreign: of no known source"),
    };
    Some(Claim { owner: unknown_source(), strength, evidence: format!("label {key}={value}, {class}") })
}

fn is_member(object: &ObjectMetadata, sync_set: &str) -> bool {
    live_mark(object).is_some_and(|(_, value)| mark(sync_set, &resource_id(&object.id)) == value)
}

/// What Flux v1 never collects although it is marked (reference B3.1, B5 F7-F9).
fn reach(object: &ObjectMetadata) -> GcEligibility {
    if object.labels.get(MARK).is_none() {
        return GcEligibility::NeverCollected(
            "only the mark of Flux v1 before 1.14 is on it, which later versions do not look at",
        );
    }
    if !object.references.is_empty() {
        return GcEligibility::NeverCollected("Flux v1 never collects objects with owner references");
    }
    if object.id.is("", "Endpoints") || object.id.is("", "ComponentStatus") {
        return GcEligibility::NeverCollected("Flux v1 never collects this kind");
    }
    GcEligibility::Normal
}

/// A Deployment with a container that has `--git-url`.
fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let args = FluxdArgs::find(content)?;
    let id = OwnerId::new(SCHEME.system, &object.id.kind, &object.id.namespace, &object.id.name);
    let number = |pointer: &str| content.pointer(pointer).and_then(Value::as_i64);
    let state = match (number("/spec/replicas"), number("/status/availableReplicas")) {
        (Some(0), _) => OwnerStatus::Suspended,
        (_, Some(1..)) => OwnerStatus::Ready,
        _ => OwnerStatus::NotReady("no fluxd pod is available".to_owned()),
    };
    Some(match args.and_then(|args| Ok((args.source()?, args))) {
        Ok((source, args)) => {
            // Cluster-scoped objects are collected whatever namespaces are allowed.
            let namespaces = args.namespaces().map(|list| list.into_iter().chain([""]).map(Into::into).collect());
            let scope = Scope(vec![Area { namespaces, kinds: None }]);
            let secret = Some(source.sync_set());
            Record { secret, state, ..Record::new(id, Members::Selected(scope)) }
        }
        Err(why) => Record { opaque: true, state, ..Record::new(id, Members::Unreadable(why)) },
    })
}

/// Exact values only; any one of the keys protects (reference B3.2, F17).
fn keep_mark(object: &ObjectMetadata) -> Option<Protection> {
    IGNORE.into_iter().find_map(|key| {
        let value = object.annotations.get(key).filter(|value| ["true", "sync_only"].contains(value))?;
        Some(Protection { key: key.to_owned(), value: value.to_owned() })
    })
}
