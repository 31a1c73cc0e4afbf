//! What was read of a cluster, in one value: every view and plan is a pure function of it, and it can be a file.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::gap::Gap;
use super::object::{GroupKind, ObjectId, ObjectMetadata, Resource, ResourceType};

/// Schema name of the recorded form.
pub const SCHEMA: &str = "kubectl-gitops/snapshot/v1";

/// Groups of Flux whose objects only `get` reads, but for ResourceSet, and what it reads of their specs.
const SHOWN_ONLY: [&str; 3] = ["image.toolkit.fluxcd.io", "notification.toolkit.fluxcd.io", "fluxcd.controlplane.io"];
const SHOWN: [&str; 6] = ["suspend", "timeout", "type", "sourceRef", "imageRepositoryRef", "providerRef"];

/// A version in which a kind is served beside the one that it is read in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OtherVersion {
    /// Group and kind.
    #[serde(flatten)]
    pub what: GroupKind,
    /// Version, without group.
    pub version: Box<str>,
}

/// Which cluster this is: plans are pinned to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterIdentity {
    /// Uid of the namespace kube-system, the usual identity of a cluster; empty when it could not be read.
    pub uid: String,
    /// URL of the API server.
    pub server: String,
}

/// The metadata of a cluster's objects, the content of its owners, and what could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// When reading began.
    pub taken: DateTime<Utc>,
    /// Which cluster.
    pub cluster: ClusterIdentity,
    /// The types that were looked for.
    pub types: Vec<ResourceType>,
    /// Further versions of these types. Every cluster has some: where there is none, nobody looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_versions: Vec<OtherVersion>,
    /// Every object, metadata only, sorted by identity.
    pub objects: Vec<ObjectMetadata>,
    /// Owners, sources and whatever can be suspended, with content, read after `objects`; volumes, read with them.
    pub full: Vec<Resource>,
    /// Uids of owners whose resource version moved between the two times they were read: before the first object and
    /// after the last. Their record does not speak for what was seen in between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<Box<str>>,
    /// What could not be read.
    pub gaps: Vec<Gap>,
}

impl Snapshot {
    /// An empty snapshot of a cluster.
    pub fn new(taken: DateTime<Utc>, cluster: ClusterIdentity) -> Self {
        let schema = SCHEMA.to_owned();
        Self {
            schema,
            taken,
            cluster,
            types: vec![],
            other_versions: vec![],
            objects: vec![],
            full: vec![],
            moved: vec![],
            gaps: vec![],
        }
    }

    /// Puts everything in order, so that two readings of one cluster are equal, and drops doubles: some servers show
    /// one stored object under two groups with one uid.
    pub fn normalise(&mut self) {
        self.types.sort();
        self.other_versions.sort();
        self.other_versions.dedup();
        self.objects.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let mut seen = std::collections::HashSet::with_capacity(self.objects.len());
        let mut first = self.objects.iter().map(|object| seen.insert(&*object.uid)).collect::<Vec<_>>().into_iter();
        self.objects.retain(|_| first.next().unwrap_or(true));
        self.full.sort_by(|a, b| a.object.id.cmp(&b.object.id));
        self.full.dedup_by(|a, b| a.object.id == b.object.id);
        self.gaps.sort();
        self.gaps.dedup();
    }

    /// Takes the content of owners and sources, which was read after all objects. Where an owner is also an object, its
    /// second reading is the one that counts; the first is the witness of whether it moved.
    pub fn take_full(&mut self, contents: Vec<Resource>, read_whole: impl Fn(&ObjectId) -> bool) {
        let mut newer: HashMap<Box<str>, ObjectMetadata> = HashMap::with_capacity(contents.len());
        newer.extend(contents.iter().map(|full| (full.object.uid.clone(), full.object.clone())));
        let moved = &mut self.moved;
        self.objects.retain_mut(|object| match newer.remove(&object.uid) {
            Some(newer) => {
                if newer.resource_version != object.resource_version {
                    moved.push(object.uid.clone());
                }
                *object = newer;
                true
            }
            None => !read_whole(&object.id),
        });
        self.objects.extend(newer.into_values());
        self.full.extend(contents);
        self.moved.sort();
    }

    /// Whether an owner moved while objects were being read.
    pub fn has_moved(&self, owner: &ObjectMetadata) -> bool {
        self.moved.binary_search(&owner.uid).is_ok()
    }

    /// The object of this identity.
    pub fn object(&self, id: &ObjectId) -> Option<&ObjectMetadata> {
        let found = self.objects.binary_search_by(|object| object.id.cmp(id)).ok()?;
        Some(&self.objects[found])
    }

    /// The full object of this identity.
    pub fn full(&self, id: &ObjectId) -> Option<&Resource> {
        let found = self.full.binary_search_by(|full| full.object.id.cmp(id)).ok()?;
        Some(&self.full[found])
    }

    /// The type that serves a group and kind.
    pub fn resource_type(&self, what: &GroupKind) -> Option<&ResourceType> {
        self.types.iter().find(|candidate| candidate.group == what.group && candidate.kind == what.kind)
    }

    /// Returns the gaps that may hide objects of a group and kind.
    pub fn gaps_hiding(&self, what: &GroupKind) -> impl Iterator<Item = &Gap> {
        self.gaps.iter().filter(move |gap| gap.hides(what, &self.types))
    }

    /// Puts a newer reading of an object in the place of the older one, or removes it when it is gone.
    pub fn renew(&mut self, id: &ObjectId, newer: Option<ObjectMetadata>) {
        match (self.objects.binary_search_by(|object| object.id.cmp(id)), newer) {
            (Ok(at), Some(newer)) => self.objects[at] = newer,
            (Ok(at), None) => drop(self.objects.remove(at)),
            (Err(at), Some(newer)) => self.objects.insert(at, newer),
            (Err(_), None) => {}
        }
    }

    /// Puts a newer reading of a full object in the place of the older one, or removes it when it is gone.
    pub fn renew_full(&mut self, id: &ObjectId, newer: Option<Resource>) {
        self.renew(id, newer.as_ref().map(|full| full.object.clone()));
        match (self.full.binary_search_by(|full| full.object.id.cmp(id)), newer) {
            (Ok(at), Some(newer)) => self.full[at] = newer,
            (Ok(at), None) => drop(self.full.remove(at)),
            (Err(at), Some(newer)) => self.full.insert(at, newer),
            (Err(_), None) => {}
        }
    }

    /// Drops content that may hold secrets before a snapshot leaves the process: the values of Helm releases, of kinds
    /// that only `get` shows everything that it does not read, such as the address of a Provider, and what a volume's
    /// type has of its own but for the path that decides whether it is deleted.
    pub fn redact(&mut self) {
        for full in &mut self.full {
            let only_shown = SHOWN_ONLY.contains(&&*full.object.id.group) && &*full.object.id.kind != "ResourceSet";
            if let Some(spec) = full.content.get_mut("spec").and_then(serde_json::Value::as_object_mut) {
                spec.remove("values");
                spec.retain(|key, _| !only_shown || SHOWN.contains(&&**key));
            }
            if full.object.id.is("", "PersistentVolume") {
                redact_volume(&mut full.content);
            }
        }
    }
}

/// Credentials of flexVolumes, share names and handles are nobody's business; that a type is named says enough.
fn redact_volume(content: &mut serde_json::Value) {
    let Some(spec) = content.get_mut("spec").and_then(serde_json::Value::as_object_mut) else { return };
    for (key, value) in spec.iter_mut().filter(|(key, _)| *key != "claimRef") {
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|field, _| key == "hostPath" && field == "path");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::flux_object;

    #[test]
    fn nothing_secret_leaves_with_a_snapshot() {
        let mut snapshot = Snapshot::new(DateTime::UNIX_EPOCH, ClusterIdentity::default());
        let provider =
            json!({"spec": {"suspend": true, "address": "https://example.invalid/hook/SECRET", "proxy": "SECRET"}});
        snapshot.full.push(flux_object("Provider", provider, &[]));
        snapshot.full.push(flux_object(
            "HelmRelease",
            json!({"spec": {"suspend": true, "values": {"password": "SECRET"}}}),
            &[],
        ));
        snapshot.redact();
        let text = serde_json::to_string(&snapshot).unwrap();
        assert!(!text.contains("SECRET"), "{text}");
        assert!(snapshot.full.iter().all(|full| full.flag("/spec/suspend")));
    }
}
