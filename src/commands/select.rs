//! Reads the objects that the command line selects: named objects with one request each, others with one list per type.

use futures::future::join_all;

use super::Session;
use super::elsewhere::{name_without_type, recorded_name_without_type};
use super::resource_args::{ResourceArgs, parse_selector};
use crate::cluster::{Cluster, FailureKind, Query};
use crate::error::{Error, Result};
use gitops_core::flux::kinds;
use gitops_core::flux::kinds::Suspends;
use gitops_core::kubernetes::gap::{Gap, GapKind};
use gitops_core::kubernetes::object::{ObjectId, Resource, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;

/// Hint for a user who may not read what a command is about.
pub(crate) const RIGHTS: &str = "`kubectl auth can-i --list` shows your rights";

/// Arguments that select objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'a> {
    /// Name of the command, for hints.
    pub(crate) verb: &'a str,
    /// Other flags of the command, for hints.
    pub(crate) flags: &'a str,
    /// `TYPE NAME…`, `TYPE/NAME…`, or nothing for every kind of Flux.
    pub(crate) words: &'a [String],
    pub(crate) selector: Option<&'a str>,
    pub(crate) all_namespaces: bool,
}

/// Result of a [`Selection`].
#[derive(Debug, Default)]
pub(crate) struct SelectedObjects {
    /// Types that were read.
    pub(crate) types: Vec<ResourceType>,
    /// Objects, sorted by identity, or in the order of their names on the command line.
    pub(crate) objects: Vec<(ResourceType, Resource)>,
    /// Messages about named objects that could not be read.
    pub(crate) errors: Vec<String>,
    /// Lists that could not be read completely.
    pub(crate) gaps: Vec<Gap>,
    /// Named objects that do not exist.
    pub(crate) missing: Vec<(ResourceType, String)>,
    /// True if the user may not read one of the named objects.
    pub(crate) is_forbidden: bool,
    /// Named objects; empty if all objects of the types are selected.
    named: Vec<(ResourceType, String)>,
}

impl SelectedObjects {
    /// Returns true if nothing was found and nothing failed.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.errors.is_empty() && self.gaps.is_empty()
    }

    /// Fails if the user may read none of the types, in this namespace or in all. A document has the gaps instead.
    pub(crate) fn ensure_readable(&self, namespace: Option<&str>) -> Result<()> {
        let forbidden = self.gaps.iter().filter(|gap| gap.kind == GapKind::Forbidden);
        let mut types = self.types.iter();
        let is_unread = types.all(|kind| forbidden.clone().any(|gap| gap.subject == kind.resource()));
        let Some(gap) = forbidden.clone().next().filter(|_| is_unread) else { return Ok(()) };
        let message = &gap.message;
        let message = match namespace {
            _ if self.types.len() == 1 => format!("Error from server (Forbidden): {message}"),
            Some(name) => format!("none of these types can be read in namespace {name}: {message}"),
            None => format!("none of these types can be read in the whole cluster: {message}"),
        };
        Err(Error::failed(message).hint(RIGHTS))
    }

    /// Returns true if an object belongs to the selection.
    pub(crate) fn includes(&self, kind: &ResourceType, name: &str) -> bool {
        self.named.is_empty() || self.named.iter().any(|(known, named)| known == kind && named == name)
    }

    /// Adds an object, in place of an older version.
    pub(crate) fn replace(&mut self, kind: &ResourceType, full: Resource) {
        self.remove(&full.object.uid);
        self.objects.push((kind.clone(), full));
    }

    pub(crate) fn remove(&mut self, uid: &str) {
        self.objects.retain(|(_, known)| *known.object.uid != *uid);
    }
}

impl Selection<'_> {
    /// Reads the objects from a cluster. Returns them with all types that the cluster serves.
    pub(crate) async fn read(self, cluster: &Cluster) -> Result<(SelectedObjects, Vec<ResourceType>)> {
        self.selector.map(parse_selector).transpose()?;
        let served = cluster.discover().await?.types;
        let parsed = match ResourceArgs::parse(self.words, &served) {
            Ok(parsed) => parsed,
            Err(error) => {
                let better = name_without_type(cluster, (self.verb, self.flags), self.words, &served).await;
                return Err(better.unwrap_or(error));
            }
        };
        let selected = match parsed {
            ResourceArgs::Types(types) => self.list(cluster, types).await,
            ResourceArgs::Names(_) if self.all_namespaces => {
                let error = Error::usage("a resource cannot be retrieved by name across all namespaces");
                return Err(error.hint("leave -A out, or name no object"));
            }
            ResourceArgs::Names(_) if self.selector.is_some() => return Err(name_with_selector()),
            ResourceArgs::Names(names) => fetch(cluster, names).await,
        };
        Ok((selected, served))
    }

    async fn list(self, cluster: &Cluster, types: Vec<ResourceType>) -> SelectedObjects {
        let namespace = (!self.all_namespaces).then_some(&*cluster.namespace);
        let (found, gaps) = cluster.list_full(&types, Query { namespace, selector: self.selector }).await;
        let mut objects = vec![];
        for full in found {
            if let Some(kind) = types.iter().find(|kind| kind.is(&full.object.id.group, &full.object.id.kind)) {
                objects.push((kind.clone(), full));
            }
        }
        SelectedObjects { objects, types, gaps, ..SelectedObjects::default() }
    }

    /// Reads the objects from a snapshot; from all namespaces unless `namespace` is given.
    pub(crate) fn read_snapshot(self, snapshot: &Snapshot, namespace: Option<&str>) -> Result<SelectedObjects> {
        let place = namespace.filter(|_| !self.all_namespaces);
        let selector = self.selector.map(parse_selector).transpose()?.unwrap_or_default();
        let mut candidates: Vec<&Resource> = snapshot.resources.iter().collect();
        candidates.retain(|full| place.is_none_or(|namespace| *full.object.id.namespace == *namespace));
        candidates.retain(|full| selector.matches(&full.object.labels));
        let mut selected = SelectedObjects { gaps: snapshot.gaps.clone(), ..SelectedObjects::default() };
        let flux: Vec<String> = snapshot
            .types
            .iter()
            .filter(|kind| kinds::find(&kind.group, &kind.kind).is_some())
            .map(ResourceType::resource)
            .collect();
        selected.gaps.retain(|gap| flux.contains(&gap.subject));
        let parsed = ResourceArgs::parse(self.words, &snapshot.types).map_err(|error| {
            recorded_name_without_type(snapshot, place, (self.verb, self.flags), self.words).unwrap_or(error)
        })?;
        match parsed {
            ResourceArgs::Names(_) if self.selector.is_some() => return Err(name_with_selector()),
            ResourceArgs::Types(types) => {
                for kind in types {
                    selected.objects.extend(of_type(&candidates, &kind, None));
                }
            }
            ResourceArgs::Names(names) => {
                for (kind, name) in names {
                    let found = of_type(&candidates, &kind, Some(&name));
                    if found.is_empty() {
                        selected.errors.push(not_found(&kind, &name));
                    }
                    selected.objects.extend(found);
                }
            }
        }
        Ok(selected)
    }
}

fn of_type(candidates: &[&Resource], kind: &ResourceType, name: Option<&str>) -> Vec<(ResourceType, Resource)> {
    let of_kind = candidates.iter().filter(|full| kind.is(&full.object.id.group, &full.object.id.kind));
    let named = of_kind.filter(|full| name.is_none_or(|name| *full.object.id.name == *name));
    named.map(|full| (kind.clone(), (*full).clone())).collect()
}

async fn fetch(cluster: &Cluster, names: Vec<(ResourceType, String)>) -> SelectedObjects {
    let requests = names.iter().map(|(kind, name)| async move {
        let namespace = if kind.namespaced { &*cluster.namespace } else { "" };
        let id = ObjectId::new(&kind.group, &kind.kind, namespace, name);
        (kind, name, cluster.fetch(kind, &id).await)
    });
    let answers = join_all(requests).await;
    let mut selected = SelectedObjects::default();
    for (kind, name, answer) in answers {
        match answer {
            Ok(Some(full)) if !selected.objects.iter().any(|(_, known)| known.object.id == full.object.id) => {
                selected.objects.push((kind.clone(), full));
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                selected.errors.push(not_found(kind, name));
                selected.missing.push((kind.clone(), name.clone()));
            }
            Err(failure) => {
                selected.is_forbidden |= failure.kind == FailureKind::Forbidden;
                selected.errors.push(failure.to_string());
            }
        }
        if !selected.types.contains(kind) {
            selected.types.push(kind.clone());
        }
    }
    selected.named = names;
    selected
}

fn name_with_selector() -> Error {
    Error::usage("name cannot be provided when a selector is specified")
}

/// Returns the message of kubectl for an object that does not exist.
pub(crate) fn not_found(kind: &ResourceType, name: &str) -> String {
    format!("Error from server (NotFound): {} {name:?} not found", kind.resource())
}

/// Returns true if objects of a type can be suspended.
pub(crate) fn is_suspendable(kind: &ResourceType) -> bool {
    kinds::find(&kind.group, &kind.kind).is_some_and(|kind| kind.suspends != Suspends::Nothing)
}

/// Prints the message of kubectl for an empty result, which is no error. It says so if types could not be read.
pub(crate) fn print_no_resources(session: &mut Session, namespace: Option<&str>, complete: bool) {
    let place = match (namespace, complete) {
        (Some(namespace), true) => format!(" in {namespace} namespace."),
        (Some(namespace), false) => format!(" in {namespace} namespace, of the types that could be read."),
        (None, true) => String::new(),
        (None, false) => ", of the types that could be read.".to_owned(),
    };
    session.terminal.status(&format!("No resources found{place}"));
}
