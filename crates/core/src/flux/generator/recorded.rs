//! The artifacts that generators have made: generated again from the deployed revisions, and compared with what
//! source-watcher recorded.
//!
//! source-watcher names the archive of an artifact by a checksum of its files, and records a digest of the sources.
//! Source: source-watcher v2.2.2 `internal/builder/dirhash.go`, `api/v1beta1/observed_source.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::SourceContent;
use super::generate::{Made, generate};
use super::spec::{AliasedSource, GeneratorSpec};
use crate::flux::kinds::{GENERATOR, GENERATOR_GROUP};
use crate::flux::source::artifact::Artifact;
use crate::flux::spec::SourceId;
use crate::kubernetes::object::{Resource, text_at};
use crate::kubernetes::snapshot::Snapshot;
use crate::text::sha256;

/// Artifacts of generators in a cluster.
#[derive(Clone, Debug, Default)]
pub struct RecordedArtifacts {
    /// Those that are equal to what source-watcher stores.
    pub verified: BTreeMap<SourceId, Arc<Artifact>>,
    /// Those that differ, so that what is computed here cannot be relied on.
    pub differing: BTreeSet<SourceId>,
}

impl RecordedArtifacts {
    /// Generates the artifacts of a cluster from the deployed artifacts of sources. Those of other sources are left out.
    pub fn find(snapshot: &Snapshot, deployed: &BTreeMap<SourceId, Arc<Artifact>>) -> Self {
        let mut found = Self::default();
        let generators: Vec<&Resource> =
            snapshot.resources.iter().filter(|full| full.object.id.is(GENERATOR_GROUP, GENERATOR)).collect();
        // An artifact can be a source of another generator.
        for _ in 0..=generators.len() {
            let known = found.verified.len();
            let sources: BTreeMap<SourceId, Arc<Artifact>> =
                deployed.iter().chain(&found.verified).map(|(id, artifact)| (id.clone(), artifact.clone())).collect();
            for generator in &generators {
                found.add(snapshot, generator, &sources);
            }
            if found.verified.len() == known {
                break;
            }
        }
        found
    }

    fn add(&mut self, snapshot: &Snapshot, generator: &Resource, sources: &BTreeMap<SourceId, Arc<Artifact>>) {
        let namespace = &*generator.object.id.namespace;
        let spec = GeneratorSpec::read(generator.spec(), namespace);
        let is_current = generator.condition("Ready").is_some_and(|ready| {
            ready.status == "True" && ready.observed_generation == Some(generator.object.generation)
        });
        if !is_current
            || Some(text_at(&generator.content, "/status/observedSourcesDigest")) != digest(snapshot, &spec).as_deref()
        {
            return;
        }
        let mut contents = BTreeMap::new();
        for AliasedSource { alias, source } in &spec.sources {
            let content = match sources.get(source) {
                Some(artifact) => SourceContent::Known(artifact.clone()),
                None => SourceContent::Unchanged(format!("the deployed revision of {source} is not known here")),
            };
            contents.insert(alias.clone(), content);
        }
        let inventory = generator.at("/status/inventory").and_then(Value::as_array).cloned().unwrap_or_default();
        for (artifact, made) in generate(&spec, &contents, |_| true).artifacts {
            let Made::New(artifact_content, checksum) = made else { continue };
            let entry = inventory.iter().find(|entry| text_at(entry, "/name") == artifact.name);
            let Some(recorded) = entry.map(|entry| text_at(entry, "/filename")) else { continue };
            let id = SourceId::external_artifact(namespace, &artifact.name);
            if recorded == format!("{checksum}.tar.gz") {
                self.verified.insert(id, artifact_content);
            } else {
                self.differing.insert(id);
            }
        }
    }
}

/// Returns the digest of the present artifacts of all sources; `None` if one is not known.
fn digest(snapshot: &Snapshot, spec: &GeneratorSpec) -> Option<String> {
    let mut parts = vec![];
    for entry in &spec.sources {
        let source = snapshot.resource(&entry.source.object())?;
        let [digest, revision, url] =
            ["digest", "revision", "url"].map(|field| source.text(&format!("/status/artifact/{field}")));
        parts.push(format!("{}=[digest={},revision={},url={}]", entry.alias, digest?, revision?, url?));
    }
    parts.sort();
    Some(sha256(parts.join("|").as_bytes()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::flux::source::options::{IgnoreFilter, SourceOptions};
    use crate::testing::{flux_object, snapshot};

    const DIGEST: &str = "repo=[digest=sha256:1,revision=main@sha1:1,url=http://source/1.tar.gz]";

    /// Returns how many artifacts of a generator are verified, and how many differ from what is recorded.
    fn found(file_name: &str, digest: &str, observed: i64, ready: &str) -> (usize, usize) {
        let spec = json!({"sources": [{"alias": "repo", "kind": "GitRepository", "name": "apps"}],
            "artifacts": [{"name": "app", "copy": [{"from": "@repo/a.yaml", "to": "@artifact/"}]}]});
        let status = json!({"observedSourcesDigest": sha256(digest.as_bytes()),
            "conditions": [{"type": "Ready", "status": ready, "observedGeneration": observed}],
            "inventory": [{"name": "app", "namespace": "shop", "filename": file_name}]});
        let generator = flux_object(GENERATOR, json!({"spec": spec, "status": status}), &[]);
        let artifact = json!({"digest": "sha256:1", "revision": "main@sha1:1", "url": "http://source/1.tar.gz"});
        let repository = flux_object("GitRepository", json!({"status": {"artifact": artifact}}), &[]);
        let options = SourceOptions { filter: IgnoreFilter::Nothing, ..Default::default() };
        let files = Artifact::pack(&[("a.yaml", "a: 1")].into_iter().collect(), &options);
        let id = SourceId { kind: "GitRepository".into(), namespace: "shop".into(), name: "apps".into() };
        let objects = vec![generator.object.clone(), repository.object.clone()];
        let cluster = snapshot(objects, vec![generator, repository]);
        let recorded = RecordedArtifacts::find(&cluster, &[(id, Arc::new(files))].into());
        (recorded.verified.len(), recorded.differing.len())
    }

    #[test]
    fn an_artifact_is_relied_on_only_if_source_watcher_has_made_the_same() {
        let file_name = {
            let spec = json!({"artifacts": [{"name": "app", "copy": [{"from": "@repo/a.yaml", "to": "@artifact/"}]}]});
            let options = SourceOptions { filter: IgnoreFilter::Nothing, ..Default::default() };
            let files = Arc::new(Artifact::pack(&[("a.yaml", "a: 1")].into_iter().collect(), &options));
            let contents = [("repo".to_owned(), SourceContent::Known(files))].into();
            let generation = generate(&GeneratorSpec::read(&spec, "shop"), &contents, |_| true);
            let [(_, Made::New(_, checksum))] = &generation.artifacts[..] else { panic!("{generation:?}") };
            format!("{checksum}.tar.gz")
        };
        assert_eq!(found(&file_name, DIGEST, 3, "True"), (1, 0));
        assert_eq!(found("1234567890.tar.gz", DIGEST, 3, "True"), (0, 1), "another checksum");
        assert_eq!(found(&file_name, "repo=[]", 3, "True"), (0, 0), "made from another revision");
        assert_eq!(found(&file_name, DIGEST, 2, "True"), (0, 0), "made from another spec");
        assert_eq!(found(&file_name, DIGEST, 3, "False"), (0, 0), "not ready");
    }
}
