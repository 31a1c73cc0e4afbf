//! Everything `get` needs to know: the objects asked for, what stands above them, and Events where only they can tell.

use std::collections::BTreeSet;
use std::path::Path;

use futures::future::join_all;

use super::Session;
use super::filters;
use super::pick;
use super::pick::{Picked, Selection};
use super::targets;
use super::targets::Targets;
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use gitops_core::flux::kinds;
use gitops_core::flux::suspension::evidence::{HonourVerdict, Sighting, verdict};
use gitops_core::flux::suspension::view;
use gitops_core::flux::suspension::view::Known;
use gitops_core::kubernetes::object::{ObjectId, Resource, ResourceType};

/// What was read for `get`.
#[derive(Debug, Default)]
pub struct ReadRequest {
    /// The objects asked for.
    pub picked: Picked,
    /// What stands above them and was not asked for.
    pub above: Vec<Resource>,
    /// Events about objects that only the annotation suspends.
    pub events: Vec<Sighting>,
}

impl ReadRequest {
    /// The objects asked for.
    pub fn objects(&self) -> impl Iterator<Item = &Resource> {
        self.picked.objects.iter().map(|(_, full)| full)
    }

    /// Every object that was read, by identity.
    pub fn known(&self) -> Known<'_> {
        self.above.iter().chain(self.objects()).map(|full| (&full.object.id, full)).collect()
    }
}

/// Reads from a cluster.
///
/// # Errors
/// When a TYPE is not known, or the cluster does not answer.
pub async fn of_cluster(cluster: &Cluster, wish: Selection<'_>) -> Result<ReadRequest> {
    let (picked, served) = pick::read_with_types(cluster, wish).await?;
    let mut reading = ReadRequest { picked, ..ReadRequest::default() };
    complete(cluster, &served, &mut reading).await;
    Ok(reading)
}

/// Adds what stands above the objects, one request for each, level by level, and Events where they can tell more than
/// the objects do.
pub async fn complete(cluster: &Cluster, served: &[ResourceType], reading: &mut ReadRequest) {
    let mut asked = BTreeSet::new();
    loop {
        let missing: Vec<(ResourceType, ObjectId)> = {
            let known = reading.known();
            let above = known.values().flat_map(|full| view::above(full)).collect::<BTreeSet<_>>();
            let unknown = above.into_iter().filter(|id| !known.contains_key(id) && asked.insert(id.clone()));
            let typed = |id: ObjectId| Some((served.iter().find(|kind| kind.is(&id.group, &id.kind))?.clone(), id));
            unknown.filter_map(typed).collect()
        };
        if missing.is_empty() {
            break;
        }
        for (answer, (kind, id)) in
            join_all(missing.iter().map(|(kind, id)| cluster.fetch(kind, id))).await.into_iter().zip(&missing)
        {
            match answer {
                Ok(found) => reading.above.extend(found),
                Err(failure) => reading.picked.gaps.push(failure.gap(kind.resource(), Some(&id.namespace))),
            }
        }
    }
    let silent: Vec<_> = reading.objects().filter(|full| verdict(full, &[]) == HonourVerdict::NoEvidence).collect();
    let (events, gaps) = cluster.sightings(&silent).await;
    reading.events = events;
    reading.picked.gaps.extend(gaps);
    reading.picked.gaps.sort();
    reading.picked.gaps.dedup();
}

/// Reads from a recorded cluster; there, without `-n`, all namespaces are meant.
///
/// # Errors
/// When the file is no snapshot, or a TYPE is not known.
pub fn of_file(file: &Path, wish: Selection<'_>, session: &mut Session) -> Result<ReadRequest> {
    let selector = wish.selector.map(filters::selector).transpose()?.unwrap_or_default();
    let snapshot = session.recorded(file)?;
    let namespace = session.connection.namespace.as_deref().filter(|_| !wish.all_namespaces);
    let here = |full: &Resource| {
        namespace.is_none_or(|namespace| *full.object.id.namespace == *namespace)
            && selector.matches(&full.object.labels)
    };
    let mut picked = Picked { gaps: snapshot.gaps.clone(), ..Picked::default() };
    let flux: Vec<_> = snapshot.types.iter().filter(|kind| kinds::find(&kind.group, &kind.kind).is_some()).collect();
    picked.gaps.retain(|gap| flux.iter().any(|kind| kind.resource() == gap.subject));
    let of_kind = |kind: &ResourceType| {
        let full =
            snapshot.full.iter().filter(|full| kind.is(&full.object.id.group, &full.object.id.kind) && here(full));
        full.map(|full| (kind.clone(), full.clone())).collect::<Vec<_>>()
    };
    match targets::parse(wish.words, &snapshot.types)? {
        Targets::Names(_) if wish.selector.is_some() => {
            return Err(Error::usage("name cannot be provided when a selector is specified"));
        }
        Targets::Types(types) => picked.objects = types.iter().flat_map(of_kind).collect(),
        Targets::Names(names) => {
            for (kind, name) in names {
                let found = of_kind(&kind).into_iter().filter(|(_, full)| *full.object.id.name == *name);
                let before = picked.objects.len();
                picked.objects.extend(found);
                if picked.objects.len() == before {
                    picked.errors.push(pick::not_found(&kind, &name));
                }
            }
        }
    }
    Ok(ReadRequest { picked, above: snapshot.full, events: vec![] })
}
