//! Flux v1: every applied object carries a hash of its source and its own identity. The hash can only be verified against
//! a known source: from the arguments of a fluxd Deployment, or given by the user.
//!
//! Source: docs/reference/qbec-and-flux-v1.md 6, 8, 10 and 11.2.

pub mod args;
mod git_source;
mod label_report;
#[cfg(test)]
mod tests;
pub mod url;
mod variants;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::scheme::claim::{Claim, ClaimEvidence, OwnerId, Strength};
use crate::ownership::scheme::last_applied::kubectl_names_object;
use crate::ownership::scheme::members::{Area, Members, Scope};
use crate::ownership::scheme::owner_status::OwnerStatus;
use crate::ownership::scheme::protection::ProtectionKey;
use crate::ownership::scheme::{GcEligibility, MetadataKey, OwnerSource, Record, Scheme};
use args::FluxdArgs;
pub use git_source::GitSource;
use git_source::SYSTEM;

/// Label with the hash, from 1.14.0 on.
pub const MARK: &str = "fluxcd.io/sync-gc-mark";
/// Label with the hash in 1.11 to 1.13; later versions ignore it.
pub const LEGACY_MARK: &str = "flux.weave.works/sync-gc-mark";
/// Hash of the applied manifest; says nothing about membership.
const CHECKSUM: &str = "fluxcd.io/sync-checksum";

/// Annotations of the policy `ignore`.
pub(crate) const IGNORE: [&str; 2] = ["fluxcd.io/ignore", "flux.weave.works/ignore"];

pub(crate) const SCHEME: Scheme = Scheme {
    member_keys: &[MetadataKey::Label(MARK), MetadataKey::Label(LEGACY_MARK)],
    selectors: &[MARK, "!fluxcd.io/sync-gc-mark,flux.weave.works/sync-gc-mark"],
    other_keys: &[CHECKSUM],
    unique_label: Some(MARK),
    protections: &[ProtectionKey::except(IGNORE[0], &["false"]), ProtectionKey::except(IGNORE[1], &["false"])],
    claim,
    gc_eligibility,
    verify: Some(is_member),
    owner_sources: &[OwnerSource {
        group: "apps",
        kind: "Deployment",
        selector: "",
        full: true,
        only_if_claimed: true,
    }],
    owner,
    has_open_record: true,
    label_report: Some(label_report::report),
    ..Scheme::new(SYSTEM, SYSTEM)
};

/// Returns the id in the hash: `<namespace>:<kind>/<name>`, kind in lower case, no group; `<cluster>` for cluster-scoped objects.
pub fn resource_id(id: &ObjectId) -> String {
    let namespace = if id.namespace.is_empty() { "<cluster>" } else { &*id.namespace };
    format!("{namespace}:{}/{}", id.kind.to_lowercase(), id.name)
}

pub fn mark(sync_set: &str, resource_id: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(sync_set);
    hash.update(resource_id);
    format!("sha256.{}", URL_SAFE_NO_PAD.encode(hash.finalize()))
}

/// Returns true if a label value can be a mark. The last of 43 characters encodes 4 bits.
pub(crate) fn is_well_formed(mark: &str) -> bool {
    let Some(hash) = mark.strip_prefix("sha256.") else {
        return false;
    };
    hash.len() == 43
        && hash.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && b"AEIMQUYcgkosw048".contains(&hash.as_bytes()[42])
}

fn live_mark(object: &ObjectMetadata) -> Option<(&'static str, &str)> {
    [MARK, LEGACY_MARK].into_iter().find_map(|key| Some((key, object.labels.get(key)?)))
}

/// Returns the owner in the claim of a mark that no known source explains.
fn unknown_source() -> OwnerId {
    OwnerId::new(SYSTEM, "Source", "", "unknown")
}

fn claim(object: &ObjectMetadata) -> Option<Claim> {
    let (key, value) = live_mark(object)?;
    let (strength, witness) = match kubectl_names_object(object) {
        _ if !is_well_formed(value) => (Strength::Contradicted, "malformed"),
        _ if object.controller_reference().is_some() => {
            (Strength::Contradicted, "on an object that a controller created")
        }
        Some(false) => (Strength::Contradicted, "copied: last-applied-configuration names another object"),
        Some(true) => {
            (Strength::Corroborated, "foreign: of no known source; last-applied-configuration is the object's own")
        }
        None => (Strength::Bare, "foreign: of no known source"),
    };
    Some(Claim { owner: unknown_source(), strength, evidence: ClaimEvidence::label(key, value).with_witness(witness) })
}

fn is_member(object: &ObjectMetadata, sync_set: &str) -> bool {
    live_mark(object).is_some_and(|(_, value)| mark(sync_set, &resource_id(&object.id)) == value)
}

/// Some marked objects are never collected (docs/reference/qbec-and-flux-v1.md 8.1, and F7 to F9 in 10).
fn gc_eligibility(object: &ObjectMetadata) -> GcEligibility {
    if object.labels.get(MARK).is_none() {
        return GcEligibility::NeverCollected(
            "it only has the mark of Flux v1 before 1.14, which later versions ignore",
        );
    }
    if !object.owner_references.is_empty() {
        return GcEligibility::NeverCollected("Flux v1 never collects objects with owner references");
    }
    if object.id.is("", "Endpoints") || object.id.is("", "ComponentStatus") {
        return GcEligibility::NeverCollected("Flux v1 never collects this kind");
    }
    GcEligibility::Normal
}

/// Returns the record of a Deployment with a container that has `--git-url`.
fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let args = FluxdArgs::find(content)?;
    let id = OwnerId::new(SYSTEM, &object.id.kind, &object.id.namespace, &object.id.name);
    let replicas = ["/spec/replicas", "/status/availableReplicas"];
    let status = match replicas.map(|pointer| content.pointer(pointer).and_then(Value::as_i64)) {
        [Some(0), _] => OwnerStatus::Suspended,
        [_, Some(1..)] => OwnerStatus::Ready,
        _ => OwnerStatus::NotReady("no fluxd pod is available".to_owned()),
    };
    Some(match args.and_then(|args| Ok((args.source()?, args))) {
        Ok((source, args)) => {
            // Cluster-scoped objects are collected whatever namespaces are allowed.
            let namespaces = args.namespaces().map(|list| list.into_iter().chain([""]).map(Into::into).collect());
            let scope = Scope(vec![Area { namespaces, kinds: None }]);
            let verification_key = Some(source.sync_set());
            Record { verification_key, status, ..Record::new(id, Members::Selected(scope)) }
        }
        Err(why) => Record { is_unresolvable: true, status, ..Record::new(id, Members::Unreadable(why)) },
    })
}
