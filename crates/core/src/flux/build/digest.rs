//! The self-check: the last applied revision built anew has to give the bytes that the controller built.
//!
//! Source: reference kustomize-controller 3.5 and 3.7: `status.history[].digest` is the sha256 of the built objects.

use std::sync::Arc;

use serde_json::Value;

use super::{Answers, Needs, Replaced, build, text};
use crate::flux::features::Features;
use crate::flux::source::artifact::Artifact;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::Resource;
use crate::plan::Fidelity;

/// What a controller says that it built last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Commit that was built.
    pub commit: String,
    /// Digest of the objects, `sha256:…`.
    pub digest: String,
}

/// The newest build that a Kustomization records, when its spec has not changed since.
pub fn claimed(kustomization: &Resource) -> Option<Claimed> {
    let revision = kustomization.text("/status/lastAppliedRevision")?;
    let (_, commit) = revision.rsplit_once("sha1:")?;
    let observed = kustomization.at("/status/observedGeneration").and_then(Value::as_i64)?;
    if observed != kustomization.object.generation {
        return None;
    }
    let newest = kustomization.at("/status/history/0")?;
    let of = newest.pointer("/metadata/revision").and_then(Value::as_str);
    let digest = newest.get("digest").and_then(Value::as_str).filter(|_| of.is_none_or(|of| of == revision))?;
    Some(Claimed { commit: commit.to_owned(), digest: digest.to_owned() })
}

/// Builds and compares; `None` when something was added to `needs` first.
pub fn check(
    claimed: &Claimed,
    artifact: &Arc<Artifact>,
    owner: &NamespacedName,
    spec: &KustomizationSpec,
    features: Features,
    answers: &Answers,
    needs: &mut Needs,
) -> Option<Fidelity> {
    let built = text(artifact, owner, spec, features, answers, needs)?;
    let digest = built.map(|text| Artifact::digest_of(text.as_bytes()));
    if digest.is_ok_and(|digest| digest == claimed.digest) {
        return Some(Fidelity::Verified);
    }
    // Without the keys the bytes of what was encrypted cannot be had.
    let objects = build(artifact, owner, spec, features, (answers, &Replaced::new()), needs)?;
    let veiled = spec.decrypts() && objects.is_ok_and(|objects| objects.iter().any(|object| object.veil.is_some()));
    Some(if veiled { Fidelity::Unknown } else { Fidelity::Unverified })
}
