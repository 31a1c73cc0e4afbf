//! A reading of a cluster in one value. Every view and plan is a pure function of a snapshot, and it can be a file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::gap::Gap;
use super::object::{GroupKind, ObjectId, ObjectMetadata, OwnerReference, Resource, ResourceType};
use super::referrer::Referrer;

/// Schema name of the recorded form.
pub const SCHEMA: &str = "kubectl-gitops/snapshot/v1";
/// Key of a kubeconfig in a Secret whose reference names none.
pub const DEFAULT_KEY: &str = "value";

/// A served version of a kind, other than the one in which it is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherVersion {
    #[serde(flatten)]
    pub what: GroupKind,
    /// Version without the group.
    pub version: Box<str>,
}

/// Identity of a cluster. Plans are pinned to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterIdentity {
    /// Uid of the namespace kube-system, the usual identity of a cluster; empty if it could not be read.
    pub uid: String,
    /// URL of the API server.
    pub server: String,
}

/// The metadata of a cluster's objects, the content of its owners, and what could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Snapshot {
    pub schema: String,
    /// Time at which the reading began.
    pub taken: DateTime<Utc>,
    pub cluster: ClusterIdentity,
    /// Types that were listed.
    pub types: Vec<ResourceType>,
    /// Other versions of these types. Every cluster has some: empty means that they were not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_versions: Vec<OtherVersion>,
    /// Metadata of every object, sorted by identity.
    pub objects: Vec<ObjectMetadata>,
    /// Objects with content, sorted by identity: volumes, and, read after `objects`, owners, sources and
    /// objects that can be suspended.
    #[serde(rename = "full")]
    pub resources: Vec<Resource>,
    /// Other objects that refer to objects, with what they refer to, sorted; absent if they were not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub referrers: Option<Vec<Referrer>>,
    /// Versions in `status.storedVersions` of definitions, by their names, as far as they were read. The API server refuses a
    /// definition that lacks one of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stored_versions: BTreeMap<String, Vec<String>>,
    /// Version of the API server, such as `v1.33.1`; empty if it was not recorded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    /// Packed charts of releases by their digest, in base64, if they were recorded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub charts: BTreeMap<String, String>,
    /// Sorted uids of owners whose resource version changed between the reading of `objects` and that of `resources`.
    /// Their inventory cannot be compared with the objects.
    #[serde(rename = "moved", default, skip_serializing_if = "Vec::is_empty")]
    pub changed_during_read: Vec<Box<str>>,
    pub gaps: Vec<Gap>,
    /// Readings of other clusters by their names. The identities of their objects name the cluster.
    #[serde(skip)]
    pub spokes: BTreeMap<Arc<str>, Snapshot>,
    /// Names of the clusters that Secrets with a kubeconfig reach, by the Secret and its key; no key for the default one.
    #[serde(skip)]
    pub kube_configs: BTreeMap<(ObjectId, Option<String>), Arc<str>>,
}

impl Snapshot {
    /// Creates an empty snapshot.
    pub fn new(taken: DateTime<Utc>, cluster: ClusterIdentity) -> Self {
        let schema = SCHEMA.to_owned();
        Self {
            schema,
            taken,
            cluster,
            types: vec![],
            other_versions: vec![],
            objects: vec![],
            resources: vec![],
            referrers: None,
            stored_versions: BTreeMap::new(),
            kube_version: String::new(),
            charts: BTreeMap::new(),
            changed_during_read: vec![],
            gaps: vec![],
            spokes: BTreeMap::new(),
            kube_configs: BTreeMap::new(),
        }
    }

    /// Adds the reading of another cluster under a name.
    pub fn add_spoke(&mut self, name: &str, mut spoke: Snapshot) {
        let name: Arc<str> = name.into();
        for object in &mut spoke.objects {
            object.id.cluster = Some(name.clone());
        }
        for resource in &mut spoke.resources {
            resource.object.id.cluster = Some(name.clone());
        }
        for referrer in spoke.referrers.iter_mut().flatten() {
            referrer.set_cluster(&name);
        }
        self.spokes.insert(name, spoke);
    }

    /// Returns the name of the cluster that the kubeconfig in a Secret reaches, if it was read.
    pub(crate) fn spoke_of(&self, secret: &ObjectId, key: Option<&str>) -> Option<&Arc<str>> {
        let other_key = key.filter(|key| *key != DEFAULT_KEY).map(str::to_owned);
        self.kube_configs.get(&(secret.clone(), other_key)).filter(|name| self.spokes.contains_key(*name))
    }

    /// Returns what could not be read of this cluster and of the others.
    pub(crate) fn all_gaps(&self) -> impl Iterator<Item = Gap> {
        let others = self.spokes.iter().flat_map(|(name, spoke)| spoke.gaps.iter().map(|gap| gap.in_cluster(name)));
        self.gaps.iter().cloned().chain(others)
    }

    /// Returns the reading of another cluster by its name, or this one without a name; `None` if it was not read.
    pub fn of_cluster(&self, name: Option<&Arc<str>>) -> Option<&Snapshot> {
        match name {
            None => Some(self),
            Some(name) => self.spokes.get(name),
        }
    }

    /// Returns this reading, and those of other clusters with their names.
    pub fn clusters(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &Snapshot)> {
        std::iter::once((None, self)).chain(self.spokes.iter().map(|(name, spoke)| (Some(name), spoke)))
    }

    /// Returns the object of an owner reference, if it was read.
    pub(crate) fn referenced(&self, from: &ObjectMetadata, reference: &OwnerReference) -> Option<&ObjectMetadata> {
        let OwnerReference { group, kind, name, uid, .. } = reference;
        let namespaces = [&*from.id.namespace, ""];
        let mut ids = namespaces.into_iter().map(|namespace| ObjectId::new(group, kind, namespace, name));
        ids.find_map(|id| self.object(&id)).filter(|found| found.uid == *uid)
    }

    pub fn type_of(&self, id: &ObjectId) -> Option<&ResourceType> {
        self.of_cluster(id.cluster.as_ref())?.resource_type(&id.group_kind())
    }

    /// Adds the data of a ConfigMap that was listed, and which managers set it.
    pub fn add_data(&mut self, id: &ObjectId, object: &Value) {
        let content = json!({
            "data": object["data"],
            "metadata": { "managedFields": object["metadata"]["managedFields"] },
        });
        if let Some(object) = self.object(id).cloned() {
            self.replace_resource(id, Some(Resource { object, content }));
        }
    }

    /// Adds a packed chart with this digest.
    pub fn add_chart(&mut self, digest: String, archive: &[u8]) {
        self.charts.insert(digest, STANDARD.encode(archive));
    }

    /// Returns the packed chart with a digest; `None` if it was not recorded.
    pub fn chart(&self, digest: &str) -> Option<Vec<u8>> {
        STANDARD.decode(self.charts.get(digest)?).ok()
    }

    /// Sorts everything, so that two readings of the same state are equal, and drops duplicates: some servers list one
    /// stored object under two API groups, with the same uid.
    pub fn normalise(&mut self) {
        self.sort();
        self.other_versions.dedup();
        let mut seen = HashSet::with_capacity(self.objects.len());
        let mut first = self.objects.iter().map(|object| seen.insert(&*object.uid)).collect::<Vec<_>>().into_iter();
        self.objects.retain(|_| first.next().unwrap_or(true));
        self.resources.dedup_by(|a, b| a.object.id == b.object.id);
        self.gaps.dedup();
    }

    /// Sorts everything: objects are found by their order.
    pub fn sort(&mut self) {
        self.types.sort();
        self.other_versions.sort();
        self.objects.sort_by(|a, b| a.id.cmp(&b.id));
        self.resources.sort_by(|a, b| a.object.id.cmp(&b.object.id));
        self.gaps.sort();
    }

    /// Adds owners and sources with content, which are read after all objects. Their metadata replaces the older metadata.
    /// An object that is missing now, although `read_whole` is true for its kind, is removed.
    pub fn add_resources(&mut self, contents: Vec<Resource>, read_whole: impl Fn(&ObjectId) -> bool) {
        let mut newer: HashMap<Box<str>, ObjectMetadata> = HashMap::with_capacity(contents.len());
        newer.extend(contents.iter().map(|full| (full.object.uid.clone(), full.object.clone())));
        let changed = &mut self.changed_during_read;
        self.objects.retain_mut(|object| match newer.remove(&object.uid) {
            Some(newer) => {
                if newer.resource_version != object.resource_version {
                    changed.push(object.uid.clone());
                }
                *object = newer;
                true
            }
            None => !read_whole(&object.id),
        });
        self.objects.extend(newer.into_values());
        self.resources.extend(contents);
        self.changed_during_read.sort();
    }

    pub(crate) fn changed_while_reading(&self, owner: &ObjectMetadata) -> bool {
        self.changed_during_read.binary_search(&owner.uid).is_ok()
    }

    /// Returns the identities of the objects of this cluster, sorted.
    pub fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.objects.iter().map(|object| &object.id)
    }

    pub fn object(&self, id: &ObjectId) -> Option<&ObjectMetadata> {
        let objects = &self.of_cluster(id.cluster.as_ref())?.objects;
        let found = objects.binary_search_by(|object| object.id.cmp(id)).ok()?;
        Some(&objects[found])
    }

    /// Returns an object with content.
    pub fn resource(&self, id: &ObjectId) -> Option<&Resource> {
        let resources = &self.of_cluster(id.cluster.as_ref())?.resources;
        let found = resources.binary_search_by(|full| full.object.id.cmp(id)).ok()?;
        Some(&resources[found])
    }

    pub fn resource_type(&self, what: &GroupKind) -> Option<&ResourceType> {
        self.types.iter().find(|candidate| candidate.group == what.group && candidate.kind == what.kind)
    }

    /// Returns true if the API server has a kind in a version, without its group; `None` if that is not known.
    pub fn serves(&self, what: &GroupKind, version: &str) -> Option<bool> {
        let preferred = self.resource_type(what)?;
        if self.other_versions.is_empty() || self.gaps_hiding(what).next().is_some() {
            return None;
        }
        let mut others = self.other_versions.iter().filter(|other| other.what == *what);
        Some(*preferred.version == *version || others.any(|other| *other.version == *version))
    }

    /// Returns the gaps that may hide objects of a group and kind.
    pub(crate) fn gaps_hiding(&self, what: &GroupKind) -> impl Iterator<Item = &Gap> {
        self.gaps.iter().filter(move |gap| gap.hides(what, &self.types))
    }

    pub(crate) fn has_read(&self, what: &GroupKind) -> bool {
        self.resource_type(what).is_some() && self.gaps_hiding(what).next().is_none()
    }

    /// Returns true if the API server does not serve a group and kind; false if that is not known.
    pub(crate) fn lacks_type(&self, what: &GroupKind) -> bool {
        !self.types.is_empty() && self.resource_type(what).is_none() && self.gaps_hiding(what).next().is_none()
    }

    /// Returns true if an object does not exist; false if that is not known.
    pub fn lacks(&self, id: &ObjectId) -> bool {
        let cluster = self.of_cluster(id.cluster.as_ref());
        cluster.is_some_and(|cluster| self.object(id).is_none() && cluster.has_read(&id.group_kind()))
    }

    /// Replaces the metadata of an object, or removes the object if `newer` is `None`.
    pub fn replace_object(&mut self, id: &ObjectId, newer: Option<ObjectMetadata>) {
        match (self.objects.binary_search_by(|object| object.id.cmp(id)), newer) {
            (Ok(at), Some(newer)) => self.objects[at] = newer,
            (Ok(at), None) => drop(self.objects.remove(at)),
            (Err(at), Some(newer)) => self.objects.insert(at, newer),
            (Err(_), None) => {}
        }
    }

    /// Replaces all objects of these types, in one namespace or everywhere, by a newer listing of them. Returns true if
    /// more than resource versions changed.
    pub fn replace_listed(
        &mut self,
        types: &[ResourceType],
        namespace: Option<&str>,
        mut newer: Vec<ObjectMetadata>,
    ) -> bool {
        let listed: HashSet<(&str, &str)> = types.iter().map(|kind| (&*kind.group, &*kind.kind)).collect();
        newer.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let replaced = self.objects.extract_if(.., |object| {
            listed.contains(&(&*object.id.group, &*object.id.kind))
                && namespace.is_none_or(|namespace| namespace == &*object.id.namespace)
        });
        let older: Vec<ObjectMetadata> = replaced.collect();
        // A server that lists one object under two API groups lists it once here, as in `normalise`.
        let known: HashSet<&str> = self.objects.iter().map(|object| &*object.uid).collect();
        newer.retain(|object| !known.contains(&*object.uid));
        let is_changed =
            older.len() != newer.len() || older.iter().zip(&newer).any(|(older, newer)| !older.is_same_as(newer));
        self.objects.extend(newer);
        self.objects.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        is_changed
    }

    /// Replaces an object with content, or removes it if `newer` is `None`.
    pub fn replace_resource(&mut self, id: &ObjectId, newer: Option<Resource>) {
        self.replace_object(id, newer.as_ref().map(|full| full.object.clone()));
        match (self.resources.binary_search_by(|full| full.object.id.cmp(id)), newer) {
            (Ok(at), Some(newer)) => self.resources[at] = newer,
            (Ok(at), None) => drop(self.resources.remove(at)),
            (Err(at), Some(newer)) => self.resources.insert(at, newer),
            (Err(_), None) => {}
        }
    }
}
