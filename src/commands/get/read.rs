//! Data of `get`: the selected objects, their owners and sources, and Events where only they can show a reconciliation.

use std::collections::BTreeSet;

use futures::future::join_all;

use crate::cluster::Cluster;
use crate::cluster::read::events::object_events;
use crate::commands::select::{SelectedObjects, Selection};
use crate::error::Result;
use gitops_core::flux::suspension::evidence::{HonourVerdict, ObjectEvent};
use gitops_core::flux::suspension::view::{ObjectsById, owners_and_sources};
use gitops_core::kubernetes::object::{ObjectId, Resource, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;

#[derive(Debug, Default)]
pub(super) struct GetData {
    pub(super) selected: SelectedObjects,
    /// Owners and sources of the selected objects.
    related: Vec<Resource>,
    /// Events about objects that only the annotation suspends.
    pub(super) events: Vec<ObjectEvent>,
}

impl GetData {
    pub(super) async fn read(cluster: &Cluster, selection: Selection<'_>) -> Result<Self> {
        let (selected, served) = selection.read(cluster).await?;
        let mut data = Self { selected, ..Self::default() };
        let mut asked = BTreeSet::new();
        while data.read_related(cluster, &served, &mut asked).await {}
        data.read_events(cluster).await;
        data.selected.gaps.sort();
        data.selected.gaps.dedup();
        Ok(data)
    }

    /// Returns data of a recorded cluster.
    pub(super) fn recorded(selected: SelectedObjects, snapshot: Snapshot) -> Self {
        Self { selected, related: snapshot.resources, events: vec![] }
    }

    /// Returns data without owners, sources and Events.
    pub(super) fn unrelated(selected: SelectedObjects) -> Self {
        Self { selected, ..Self::default() }
    }

    /// Returns the selected objects.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Resource> {
        self.selected.objects.iter().map(|(_, full)| full)
    }

    /// Returns all objects, the selected ones and the related ones.
    pub(super) fn by_id(&self) -> ObjectsById<'_> {
        self.related.iter().chain(self.objects()).map(|full| (&full.object.id, full)).collect()
    }

    /// Reads the owners and sources that were not read yet, one request for each. Returns true if it found any: these may
    /// have owners and sources too.
    async fn read_related(
        &mut self,
        cluster: &Cluster,
        served: &[ResourceType],
        asked: &mut BTreeSet<ObjectId>,
    ) -> bool {
        let known = self.by_id();
        let mut missing: BTreeSet<ObjectId> = known.values().flat_map(|full| owners_and_sources(full)).collect();
        missing.retain(|id| !known.contains_key(id) && asked.insert(id.clone()));
        let requests = missing.iter().filter_map(|id| {
            let kind = served.iter().find(|kind| kind.is(&id.group, &id.kind))?;
            Some(async move { (kind, id, cluster.fetch(kind, id).await) })
        });
        let answers = join_all(requests).await;
        let before = self.related.len();
        for (kind, id, answer) in answers {
            match answer {
                Ok(found) => self.related.extend(found),
                Err(failure) => self.selected.gaps.push(failure.gap(kind.resource(), Some(&id.namespace))),
            }
        }
        self.related.len() > before
    }

    async fn read_events(&mut self, cluster: &Cluster) {
        let without_evidence: Vec<_> =
            self.objects().filter(|full| HonourVerdict::of(full, &[]) == HonourVerdict::NoEvidence).collect();
        let (events, gaps) = object_events(cluster, &without_evidence).await;
        self.events = events;
        self.selected.gaps.extend(gaps);
    }
}
