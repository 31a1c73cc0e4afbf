//! Verification of our builds: building the last applied revision again must give the bytes that the controller built.
//!
//! `status.history[].digest` of a Kustomization is the sha256 of the built objects.
//! Source: docs/reference/kustomize-controller.md 3.6.

use std::sync::Arc;

use serde_json::Value;

use super::failure::Interrupt;
use super::needs::BuildContext;
use super::run::{build, build_digest};
use crate::flux::source::artifact::Artifact;
use crate::flux::source::matching::commit_of;
use crate::flux::spec::{KustomizationSpec, NamespacedName, SourceId};
use crate::kubernetes::object::Resource;
use crate::plan::Fidelity;

/// The newest build in the status of a Kustomization.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedBuild {
    pub owner: NamespacedName,
    /// Its spec, unchanged since the build.
    pub spec: KustomizationSpec,
    pub source: SourceId,
    /// Revision of the source, such as `main@sha1:…`.
    pub revision: String,
    /// Digest of the objects, `sha256:…`.
    digest: String,
}

impl RecordedBuild {
    /// Reads the newest build; `None` if there is no digest, or if the spec has changed since.
    pub fn read(kustomization: &Resource) -> Option<Self> {
        let revision = kustomization.text("/status/lastAppliedRevision")?;
        let observed = kustomization.at("/status/observedGeneration").and_then(Value::as_i64)?;
        if observed != kustomization.object.generation {
            return None;
        }
        let newest = kustomization.at("/status/history/0")?;
        let built = newest.pointer("/metadata/revision").and_then(Value::as_str).unwrap_or(revision);
        let digest = newest.get("digest").and_then(Value::as_str).filter(|_| built == revision)?;
        let owner = NamespacedName::of(&kustomization.object.id);
        let spec = KustomizationSpec::of(kustomization);
        let source = spec.source(&owner.namespace);
        Some(Self { owner, spec, source, revision: revision.to_owned(), digest: digest.to_owned() })
    }

    /// Returns the Git commit of the revision, if it names one.
    pub fn commit(&self) -> Option<&str> {
        commit_of(&self.revision)
    }

    /// Begins a build of another artifact: adds to the needs of the context what it needs first.
    pub fn begin(&self, artifact: &Arc<Artifact>, context: &mut BuildContext<'_>) {
        // What it returns is asked for again by those who use it.
        drop(build(artifact, &self.owner, &self.spec, context));
    }

    /// Builds the artifact of the commit and compares the digests; `None` if a build added to the needs of the context.
    pub fn verify(&self, artifact: &Arc<Artifact>, context: &mut BuildContext<'_>) -> Option<Fidelity> {
        match build_digest(artifact, &self.owner, &self.spec, context) {
            Ok(digest) if digest == self.digest => return Some(Fidelity::Verified),
            Ok(_) | Err(Interrupt::Failed(_)) => {}
            Err(Interrupt::Missing) => return None,
        }
        // The status of one that is suspended also observes a spec with which nothing was built.
        if self.spec.is_suspended() {
            return Some(Fidelity::Unknown);
        }
        if !self.spec.decrypts() {
            return Some(Fidelity::Unverified);
        }
        // Without the keys, encrypted objects have other bytes than in the controller's build.
        let is_encrypted = match build(artifact, &self.owner, &self.spec, context) {
            Ok(objects) => objects.iter().any(|object| object.undecrypted.is_some()),
            Err(Interrupt::Failed(_)) => false,
            Err(Interrupt::Missing) => return None,
        };
        Some(if is_encrypted { Fidelity::Unknown } else { Fidelity::Unverified })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::build::needs::{Answers, Needs};
    use crate::flux::kustomize_controller::Features;
    use crate::testing::flux_object;
    use crate::text::sha256;
    use serde_json::json;

    fn status(observed: i64, newest: Value) -> Value {
        json!({"observedGeneration": observed, "lastAppliedRevision": "main@sha1:abc", "history": [newest]})
    }

    fn read(status: Value) -> Option<RecordedBuild> {
        let spec = json!({"sourceRef": {"kind": "GitRepository", "name": "repo"}});
        RecordedBuild::read(&flux_object("Kustomization", json!({"spec": spec, "status": status}), &[]))
    }

    #[test]
    fn the_newest_build_of_the_observed_spec_is_read() {
        let newest = json!({"digest": "sha256:00", "metadata": {"revision": "main@sha1:abc"}});
        let recorded = read(status(3, newest.clone())).unwrap();
        assert_eq!((recorded.commit(), &*recorded.digest), (Some("abc"), "sha256:00"));
        assert_eq!(recorded.source.to_string(), "GitRepository/shop/repo");
        assert!(read(status(3, json!({"digest": "sha256:00"}))).is_some(), "older controllers record no revision");
        assert_eq!(read(status(2, newest)), None, "the spec has changed since");
        let other = json!({"digest": "sha256:00", "metadata": {"revision": "main@sha1:def"}});
        assert_eq!(read(status(3, other)), None, "the newest build is of another revision");
        assert_eq!(read(status(3, json!({}))), None, "there is no digest");
    }

    #[test]
    fn a_build_is_verified_by_its_digest() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";
        let digest = sha256(text.as_bytes());
        let artifact = Arc::new(Artifact::of_file("a.yaml", b""));
        for (output, suspend, expected) in [
            (text, false, Fidelity::Verified),
            ("kind: Other\n", false, Fidelity::Unverified),
            (text, true, Fidelity::Verified),
            ("kind: Other\n", true, Fidelity::Unknown),
        ] {
            let mut recorded = read(status(3, json!({ "digest": digest }))).unwrap();
            recorded.spec = KustomizationSpec::new(&json!({ "suspend": suspend }));
            let (mut answers, mut needs) = (Answers::default(), Needs::default());
            let mut context = BuildContext::new(Features::default(), &answers, &mut needs);
            assert_eq!(recorded.verify(&artifact, &mut context), None, "kustomize has not run");
            needs.runs.into_keys().for_each(|key| answers.record_run(key, Ok(output.to_owned())));
            let mut needs = Needs::default();
            let mut context = BuildContext::new(Features::default(), &answers, &mut needs);
            assert_eq!(recorded.verify(&artifact, &mut context), Some(expected));
        }
    }
}
