//! The reading of the cluster that an execution judges by: read anew for each wave, and brought up to date before each
//! deletion.
//!
//! Order within a deletion: the content of its cascade, the object, then the owners. An owner that lists an object now is
//! seen, whatever happened since the plan. One index serves a whole wave unless something changed.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use chrono::Utc;
use futures::future::join_all;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::cluster::read::fetch::is_path_segment;
use crate::cluster::read::list::Query;
use crate::cluster::{Cluster, Failure};
use gitops_core::kubernetes::deletion::cascade::Cascade;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, Resource, ResourceType};
use gitops_core::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use gitops_core::ownership::classify::{objects_of_owner, owners_to_list};
use gitops_core::ownership::index::Index;
use gitops_core::ownership::{OwnerId, OwnerSource};
use gitops_core::plan::outcome::DeletionResult;
use gitops_core::plan::{Change, Reason};
use gitops_core::prune::reevaluation::{Reevaluation, not_read};

/// Age of a reading after which no further deletion is started without a new one.
const MAX_AGE: Duration = Duration::from_secs(30);
/// Maximum number of objects that are evaluated together.
const BATCH: usize = 200;

/// The cluster as it was read last, and the evaluations that hold for it.
pub(super) struct Reading<'p> {
    state: RefCell<State<'p>>,
    /// Uid of the planned cluster; empty if it is not known.
    cluster: &'p str,
    read_at: Cell<Option<Instant>>,
    /// Held while the owners are read.
    owners_turn: Mutex<()>,
}

struct State<'p> {
    snapshot: Snapshot,
    judge: Reevaluation<'p>,
    /// Reasons to keep objects, for the snapshot and the results as they are.
    reasons: HashMap<ObjectId, Option<Reason>>,
    /// Objects that the owners of planned objects are.
    owner_objects: HashMap<OwnerId, Vec<ObjectId>>,
    /// Reason why nothing may be deleted by this reading.
    unread: Option<Reason>,
    owners: OwnersRead,
}

/// Readings of the owners. Deletions that wait at the same time share one: a reading covers all that asked before it began.
#[derive(Default)]
struct OwnersRead {
    asked: u64,
    covered: u64,
    /// Objects of owners that those who wait want to be read.
    wanted: BTreeSet<ObjectId>,
    failure: Option<Reason>,
}

impl<'p> Reading<'p> {
    pub(super) fn new(judge: Reevaluation<'p>, cluster: &'p str) -> Self {
        let state = State {
            snapshot: Snapshot::new(Utc::now(), ClusterIdentity::default()),
            judge,
            reasons: HashMap::new(),
            owner_objects: HashMap::new(),
            unread: None,
            owners: OwnersRead::default(),
        };
        Self { state: RefCell::new(state), cluster, read_at: Cell::new(None), owners_turn: Mutex::default() }
    }

    /// Makes the reading too old to start another deletion.
    pub(super) fn expire(&self) {
        self.read_at.set(None);
    }

    pub(super) fn is_old(&self) -> bool {
        self.read_at.get().is_none_or(|at| at.elapsed() > MAX_AGE)
    }

    /// Records the result of a deletion.
    pub(super) fn end(&self, change: &'p Change, result: &DeletionResult) {
        let mut state = self.state.borrow_mut();
        state.judge.end(change, result);
        if !result.is_deletion() {
            state.reasons.clear();
        }
    }

    pub(super) fn resource_type(&self, id: &ObjectId) -> Option<ResourceType> {
        self.state.borrow().snapshot.resource_type(&id.group_kind()).cloned()
    }

    /// Reads the whole cluster again.
    pub(super) async fn read_all(&self, cluster: &Cluster) {
        let read = cluster.snapshot(Utc::now()).await;
        let mut state = self.state.borrow_mut();
        state.reasons.clear();
        state.owner_objects.clear();
        match read {
            Ok(mut snapshot) => {
                let uid = &snapshot.cluster.uid;
                let is_other = !self.cluster.is_empty() && !uid.is_empty() && uid != self.cluster;
                state.unread = is_other.then(|| not_read("another cluster answers than the one of the plan"));
                // Each deletion reads its object, and after it the owners: an owner that changed meanwhile is seen then.
                snapshot.changed_during_read.clear();
                state.snapshot = snapshot;
            }
            Err(failure) => state.unread = Some(not_read(failure.to_string())),
        }
        self.read_at.set(Some(Instant::now()));
    }

    /// Reads the content of an object's cascade again: for a Namespace or a definition all of it, for others the types of
    /// their known dependents. Fails with the reason to keep the object.
    pub(super) async fn read_content(&self, cluster: &Cluster, change: &Change) -> Result<(), Reason> {
        if let Some(reason) = &self.state.borrow().unread {
            return Err(reason.clone());
        }
        let id = &change.object.id;
        if id.is("", "Namespace") || id.is("apiextensions.k8s.io", "CustomResourceDefinition") {
            let discovered = cluster.discover().await.map_err(|failure| not_read(failure.to_string()))?;
            let mut state = self.state.borrow_mut();
            let mut types = discovered.types;
            types.sort();
            if types != state.snapshot.types {
                state.reasons.clear();
                state.snapshot.types = types;
            }
            state.snapshot.gaps.extend(discovered.gaps);
            state.snapshot.gaps.sort();
            state.snapshot.gaps.dedup();
        }
        let (types, namespace) = {
            let state = self.state.borrow();
            let Some(object) = state.snapshot.object(id) else { return Ok(()) };
            Cascade::new(&state.snapshot).types_to_list(object)
        };
        if types.is_empty() {
            return Ok(());
        }
        let query = Query { namespace: namespace.as_deref(), selector: None };
        let mut newer = vec![];
        for listing in join_all(types.iter().map(|kind| cluster.list_metadata(kind, query))).await {
            if let Some(gap) = listing.gap {
                return Err(not_read(format!("{} in its cascade: {}", gap.subject, gap.message)));
            }
            newer.extend(listing.items);
        }
        let mut state = self.state.borrow_mut();
        if state.snapshot.replace_listed(&types, namespace.as_deref(), newer) {
            state.reasons.clear();
        }
        Ok(())
    }

    /// Puts a newer reading of an object in place.
    pub(super) fn update_object(&self, id: &ObjectId, fresh: &ObjectMetadata) {
        let mut state = self.state.borrow_mut();
        if !state.snapshot.object(id).is_some_and(|known| known.is_same_as(fresh)) {
            state.reasons.clear();
        }
        state.snapshot.replace_object(id, Some(fresh.clone()));
    }

    /// Reads all owners that could list an object, and the claimed owner, in a reading that begins now or later. Fails with
    /// the reason to keep the object.
    pub(super) async fn read_owners(&self, cluster: &Cluster, change: &Change) -> Result<(), Reason> {
        let ticket = {
            let mut state = self.state.borrow_mut();
            let objects = state.objects_of_claimed_owner(change);
            state.owners.wanted.extend(objects);
            state.owners.asked += 1;
            state.owners.asked
        };
        let _turn = self.owners_turn.lock().await;
        let (covers, wanted) = {
            let mut state = self.state.borrow_mut();
            if state.owners.covered >= ticket {
                return state.owners.failure.clone().map_or(Ok(()), Err);
            }
            (state.owners.asked, std::mem::take(&mut state.owners.wanted))
        };
        let failure = self.read_all_owners(cluster, wanted).await.err();
        let mut state = self.state.borrow_mut();
        state.owners.covered = covers;
        state.owners.failure.clone_from(&failure);
        failure.map_or(Ok(()), Err)
    }

    /// Lists the metadata of all owners, and reads those with content that are new, changed or wanted.
    async fn read_all_owners(&self, cluster: &Cluster, wanted: BTreeSet<ObjectId>) -> Result<(), Reason> {
        let lists = self.state.borrow().owner_lists();
        let listings = join_all(lists.iter().map(|(kind, source)| async {
            let selector = Some(source.selector).filter(|selector| !selector.is_empty());
            cluster.list_metadata(kind, Query { namespace: None, selector }).await
        }));
        let mut listed: HashMap<ObjectId, ObjectMetadata> = HashMap::new();
        for ((_, source), listing) in lists.iter().zip(listings.await) {
            if let Some(gap) = listing.gap {
                return Err(not_read(format!("{}: {}", gap.subject, gap.message)));
            }
            let own = listing.items.into_iter().filter(|object| source.includes(object));
            listed.extend(own.map(|object| (object.id.clone(), object)));
        }
        let mut to_read = wanted;
        to_read.extend(self.state.borrow().changed_owners(&lists, &listed));
        let reads = join_all(to_read.iter().map(|id| async move {
            let unread = |failure: Failure| not_read(format!("{id}: {failure}"));
            match self.resource_type(id).filter(|_| is_path_segment(&id.name)) {
                // The content of a Secret is never read; its metadata says what set it is the parent of.
                Some(kind) if id.is("", "Secret") => {
                    let object = cluster.fetch_metadata(&kind, id).await.map_err(unread)?;
                    Ok(object.map(|object| Resource { object, content: Value::Null }))
                }
                Some(kind) => cluster.fetch(&kind, id).await.map_err(unread),
                // Its type is not served, so it does not exist.
                None => Ok(None),
            }
        }));
        for (id, read) in to_read.iter().zip(reads.await) {
            let fresh = read?;
            let is_listed_kind =
                lists.iter().any(|(kind, source)| kind.is(&id.group, &id.kind) && source.selector.is_empty());
            if is_listed_kind && fresh.is_some() != listed.contains_key(id) {
                return Err(not_read(format!("one answer of the server contains {id}, another one does not")));
            }
            self.state.borrow_mut().update_owner(id, fresh);
        }
        Ok(())
    }

    /// Returns the reason to keep the first of these objects; the others are the rest of its wave. They are evaluated with
    /// it, so that one index serves a wave in which nothing changes.
    pub(super) fn reason_to_keep(&self, changes: &[&Change]) -> Option<Reason> {
        let mut state = self.state.borrow_mut();
        let id = &changes[0].object.id;
        if !state.reasons.contains_key(id) {
            let batch = &changes[..changes.len().min(BATCH)];
            let reasons = state.judge.reasons_to_keep(&state.snapshot, batch);
            let ids = batch.iter().map(|change| change.object.id.clone());
            state.reasons.extend(ids.zip(reasons));
        }
        // An evaluation is used once: the next attempt of an object evaluates it again.
        state.reasons.remove(id).flatten()
    }
}

impl State<'_> {
    /// Returns the lists that together show every owner whose inventory could contain an object. Types that the user may
    /// not list are left out: the plan shows them as gaps.
    fn owner_lists(&self) -> Vec<(ResourceType, OwnerSource)> {
        let is_unreadable = |kind: &ResourceType| self.snapshot.gaps.iter().any(|gap| gap.subject == kind.resource());
        let types = self.snapshot.types.iter().filter(|kind| !is_unreadable(kind));
        let sources = owners_to_list();
        types
            .flat_map(|kind| {
                let own = sources.iter().filter(|source| kind.is(source.group, source.kind));
                own.map(|source| (kind.clone(), *source)).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Returns the owners that differ between the reading and a newer listing, or that only one of them has.
    fn changed_owners(
        &self,
        lists: &[(ResourceType, OwnerSource)],
        listed: &HashMap<ObjectId, ObjectMetadata>,
    ) -> Vec<ObjectId> {
        let is_owner = |object: &ObjectMetadata| lists.iter().any(|(_, source)| source.includes(object));
        let gone = self.snapshot.resources.iter().map(|full| &full.object).filter(|object| is_owner(object));
        let gone = gone.filter(|object| !listed.contains_key(&object.id)).map(|object| object.id.clone());
        let is_known = |object: &ObjectMetadata| {
            let known = self.snapshot.resource(&object.id).map(|full| &full.object);
            known.is_some_and(|known| known.uid == object.uid && known.resource_version == object.resource_version)
        };
        let changed = listed.values().filter(|object| !is_known(object)).map(|object| object.id.clone());
        gone.chain(changed).collect()
    }

    /// Replaces an owner, or removes it if `fresh` is `None`.
    fn update_owner(&mut self, id: &ObjectId, fresh: Option<Resource>) {
        if id.is("", "Secret") {
            let fresh = fresh.map(|full| full.object);
            if self.snapshot.object(id) != fresh.as_ref() {
                self.reasons.clear();
            }
            return self.snapshot.replace_object(id, fresh);
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

    fn objects_of_claimed_owner(&mut self, change: &Change) -> Vec<ObjectId> {
        let Some(owner) = &change.owner else { return vec![] };
        if let Some(objects) = self.owner_objects.get(owner) {
            return objects.clone();
        }
        let objects = objects_of_owner(&Index::build(&self.snapshot), owner);
        self.owner_objects.insert(owner.clone(), objects.clone());
        objects
    }
}
