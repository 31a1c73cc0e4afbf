//! The reading of the cluster that an execution judges by: read anew for each wave, and brought up to date before each
//! deletion.
//!
//! Order within a deletion: the content of its cascade, the object, then the owners. An owner that lists an object now is
//! seen, whatever happened since the plan. One index serves a whole wave unless something changed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use chrono::Utc;

use crate::cluster::http::failure::Failure;
use crate::cluster::read::discovery::Discovered;
use crate::cluster::read::fetch::is_path_segment;
use gitops_core::kubernetes::deletion::cascade::Cascade;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, Resource, ResourceType};
use gitops_core::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use gitops_core::ownership::classify::{objects_of_owner, owners_to_list};
use gitops_core::ownership::index::Index;
use gitops_core::ownership::{OwnerId, OwnerSource};
use gitops_core::plan::outcome::DeletionResult;
use gitops_core::plan::{Change, Reason};
use gitops_core::prune::reevaluation::{Reevaluation, not_read};

/// Maximum number of objects that are evaluated together.
const BATCH: usize = 200;

/// The types of a cascade, in one namespace or everywhere.
pub(super) struct Content {
    pub(super) types: Vec<ResourceType>,
    pub(super) namespace: Option<Arc<str>>,
}

/// An object to read, and its type if it is served.
pub(super) type Address = (ObjectId, Option<ResourceType>);

/// The lists that together show every owner.
pub(super) type OwnerLists = Vec<(ResourceType, OwnerSource)>;

/// The cluster as it was read last, and the evaluations that hold for it.
pub(super) struct Reading<'p> {
    snapshot: Snapshot,
    judge: Reevaluation<'p>,
    /// Uid of the planned cluster; empty if it is not known.
    cluster: &'p str,
    /// Reasons to keep objects, for the snapshot and the results as they are.
    reasons: HashMap<ObjectId, Option<Reason>>,
    /// Objects that the owners of planned objects are.
    owner_objects: HashMap<OwnerId, Vec<ObjectId>>,
    /// Reason why nothing may be deleted by this reading.
    unread: Option<Reason>,
    /// Reason why nothing may be deleted by the last reading of the owners.
    owners_unread: Option<Reason>,
}

impl<'p> Reading<'p> {
    pub(super) fn new(judge: Reevaluation<'p>, cluster: &'p str) -> Self {
        Self {
            snapshot: Snapshot::new(Utc::now(), ClusterIdentity::default()),
            judge,
            cluster,
            reasons: HashMap::new(),
            owner_objects: HashMap::new(),
            unread: None,
            owners_unread: None,
        }
    }

    /// Puts a reading of the whole cluster in place.
    pub(super) fn replace(&mut self, read: Result<Snapshot, Failure>) {
        self.reasons.clear();
        self.owner_objects.clear();
        match read {
            Ok(mut snapshot) => {
                let uid = &snapshot.cluster.uid;
                let is_other = !self.cluster.is_empty() && !uid.is_empty() && uid != self.cluster;
                self.unread = is_other.then(|| not_read("another cluster answers than the one of the plan"));
                // Each deletion reads its object, and after it the owners: an owner that changed meanwhile is seen then.
                snapshot.changed_during_read.clear();
                self.snapshot = snapshot;
            }
            Err(failure) => self.unread = Some(not_read(failure.to_string())),
        }
    }

    /// Returns true if something is unread that the plan had read, so that nothing may be deleted by this reading.
    pub(super) fn has_new_gap(&self) -> bool {
        self.unread.is_none() && self.judge.new_gap(&self.snapshot).is_some()
    }

    /// Returns the reason why nothing may be deleted by this reading.
    pub(super) fn unread(&self) -> Option<&Reason> {
        self.unread.as_ref()
    }

    /// Returns for each of these deletions if its cascade has to be listed again.
    pub(super) fn careful(&self, changes: &[&Change]) -> Vec<bool> {
        let cascade = Cascade::new(&self.snapshot);
        let ids = changes.iter().map(|change| &change.object.id);
        ids.map(|id| {
            let object = self.snapshot.object(id);
            needs_discovery(id) || object.is_some_and(|object| !cascade.types_to_list(object).0.is_empty())
        })
        .collect()
    }

    /// Returns the content of an object's cascade: for a Namespace or a definition all of it, for others the types of their
    /// known dependents.
    pub(super) fn content(&self, id: &ObjectId) -> Content {
        let object = self.snapshot.object(id);
        let (types, namespace) =
            object.map(|object| Cascade::new(&self.snapshot).types_to_list(object)).unwrap_or_default();
        Content { types, namespace }
    }

    /// Records the result of a deletion.
    pub(super) fn end(&mut self, change: &'p Change, result: &DeletionResult) {
        self.judge.end(change, result);
        if !result.is_deletion() {
            self.reasons.clear();
        }
    }

    pub(super) fn resource_type(&self, id: &ObjectId) -> Option<ResourceType> {
        self.snapshot.resource_type(&id.group_kind()).filter(|_| is_path_segment(&id.name)).cloned()
    }

    /// Puts newer types of the server in place.
    pub(super) fn replace_types(&mut self, discovered: Discovered) {
        let mut types = discovered.types;
        types.sort();
        if types != self.snapshot.types {
            self.reasons.clear();
            self.snapshot.types = types;
        }
        self.snapshot.gaps.extend(discovered.gaps);
        self.snapshot.gaps.sort();
        self.snapshot.gaps.dedup();
    }

    /// Puts a newer listing of a cascade in place.
    pub(super) fn replace_content(&mut self, content: &Content, newer: Vec<ObjectMetadata>) {
        if self.snapshot.replace_listed(&content.types, content.namespace.as_deref(), newer) {
            self.reasons.clear();
        }
    }

    /// Returns the lists that together show every owner whose inventory could contain an object. Types that the user may
    /// not list are left out: the plan shows them as gaps.
    pub(super) fn owner_lists(&self) -> OwnerLists {
        let gaps = &self.snapshot.gaps;
        let types = self.snapshot.types.iter().filter(|kind| !gaps.iter().any(|gap| gap.subject == kind.resource()));
        let sources = owners_to_list();
        types
            .flat_map(|kind| {
                let own = sources.iter().filter(|source| kind.is(source.group, source.kind));
                own.map(|source| (kind.clone(), *source)).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Returns the owners to read with their content: the claimed owners of these deletions, and those that are new, gone or
    /// changed in a newer listing.
    pub(super) fn owners_to_read<'a>(
        &mut self,
        lists: &OwnerLists,
        listed: &HashMap<ObjectId, ObjectMetadata>,
        changes: impl Iterator<Item = &'a Change>,
    ) -> Vec<Address> {
        let mut ids: BTreeSet<ObjectId> = changes.flat_map(|change| self.objects_of_claimed_owner(change)).collect();
        let known = self.snapshot.resources.iter().map(|full| &full.object);
        let owners = known.filter(|object| lists.iter().any(|(_, source)| source.includes(object)));
        ids.extend(owners.filter(|object| !listed.contains_key(&object.id)).map(|object| object.id.clone()));
        ids.extend(listed.values().filter(|object| !self.has_owner(object)).map(|object| object.id.clone()));
        ids.into_iter().map(|id| (id.clone(), self.resource_type(&id))).collect()
    }

    fn has_owner(&self, object: &ObjectMetadata) -> bool {
        let known = self.snapshot.resource(&object.id).map(|full| &full.object);
        known.is_some_and(|known| known.uid == object.uid && known.resource_version == object.resource_version)
    }

    /// Puts a reading of the owners in place, or the reason why there is none.
    pub(super) fn replace_owners(&mut self, read: Result<Vec<(ObjectId, Option<Resource>)>, Reason>) {
        self.owners_unread = None;
        match read {
            Ok(owners) => owners.into_iter().for_each(|(id, fresh)| self.replace_owner(&id, fresh)),
            Err(reason) => self.owners_unread = Some(reason),
        }
    }

    /// Replaces an owner, or removes it if `fresh` is `None`.
    fn replace_owner(&mut self, id: &ObjectId, fresh: Option<Resource>) {
        if id.is("", "Secret") {
            let object = fresh.map(|full| full.object);
            if self.snapshot.object(id) != object.as_ref() {
                self.reasons.clear();
            }
            return self.snapshot.replace_object(id, object);
        }
        let is_same = match (self.snapshot.resource(id), &fresh) {
            (Some(known), Some(fresh)) => known.content == fresh.content && known.object.is_same_as(&fresh.object),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            self.reasons.clear();
        }
        self.snapshot.replace_resource(id, fresh);
    }

    /// Returns the objects that the claimed owner of an object is, each as it was read last.
    pub(super) fn claimed_owner(&mut self, change: &Change) -> Vec<(ResourceType, ObjectId, Option<ObjectMetadata>)> {
        let ids = self.objects_of_claimed_owner(change).into_iter();
        ids.filter_map(|id| {
            let full = self.snapshot.resource(&id).map(|full| &full.object);
            let known = full.or_else(|| self.snapshot.object(&id)).cloned();
            Some((self.resource_type(&id)?, id, known))
        })
        .collect()
    }

    fn objects_of_claimed_owner(&mut self, change: &Change) -> Vec<ObjectId> {
        let Some(owner) = &change.owner else { return vec![] };
        if let Some(objects) = self.owner_objects.get(owner) {
            return objects.clone();
        }
        let objects = objects_of_owner(&Index::build(&self.snapshot), owner);
        self.owner_objects.insert(owner.clone(), objects.clone());
        objects
    }

    /// Returns the reason to keep the first of these objects, which was read as `fresh`; the others are the rest of its wave.
    /// They are evaluated with it, so that one index serves a wave in which nothing changes.
    pub(super) fn reason_to_keep(&mut self, changes: &[&Change], fresh: &ObjectMetadata) -> Option<Reason> {
        if let Some(reason) = &self.owners_unread {
            return Some(reason.clone());
        }
        let id = &changes[0].object.id;
        if !self.snapshot.object(id).is_some_and(|known| known.is_same_as(fresh)) {
            self.reasons.clear();
        }
        self.snapshot.replace_object(id, Some(fresh.clone()));
        if !self.reasons.contains_key(id) {
            let batch = &changes[..changes.len().min(BATCH)];
            let reasons = self.judge.reasons_to_keep(&self.snapshot, batch);
            let ids = batch.iter().map(|change| change.object.id.clone());
            self.reasons.extend(ids.zip(reasons));
        }
        // An evaluation is used once: the next attempt of an object evaluates it again.
        self.reasons.remove(id).flatten()
    }
}

/// Returns true for a Namespace or a definition: the types that the server has decide on its content.
pub(super) fn needs_discovery(id: &ObjectId) -> bool {
    id.is_container()
}
