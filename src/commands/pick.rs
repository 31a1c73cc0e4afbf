//! Reads the objects that a command line means: by name one request each, otherwise one list for each type.

use futures::future::join_all;

use super::Session;
use super::targets;
use super::targets::Targets;
use crate::cluster::{Cluster, Query};
use crate::error::{Error, Result};
use gitops_core::flux::kinds;
use gitops_core::flux::kinds::Suspends;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::{ObjectId, Resource, ResourceType};

/// Which objects.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    /// `TYPE NAME…`, `TYPE/NAME…`, or nothing for every kind.
    pub words: &'a [String],
    /// Label selector.
    pub selector: Option<&'a str>,
    /// Not only the context's namespace.
    pub all_namespaces: bool,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Picked {
    /// The types that were looked at.
    pub types: Vec<ResourceType>,
    /// The objects, in the order of their identity or as they were named.
    pub objects: Vec<(ResourceType, Resource)>,
    /// What was named and could not be read, in kubectl's words.
    pub errors: Vec<String>,
    /// Lists that could not be read, or not wholly.
    pub gaps: Vec<Gap>,
    /// What was named; empty when everything of the types is meant.
    pub named: Vec<(ResourceType, String)>,
}

impl Picked {
    /// Whether an object is among those that are meant.
    pub fn is_wanted(&self, kind: &ResourceType, name: &str) -> bool {
        self.named.is_empty() || self.named.iter().any(|(known, wanted)| known == kind && wanted == name)
    }

    /// Puts a newer reading of an object in the place of the older one.
    pub fn replace(&mut self, kind: &ResourceType, full: Resource) {
        self.forget(&full.object.uid);
        self.objects.push((kind.clone(), full));
    }

    /// Drops an object that is gone.
    pub fn forget(&mut self, uid: &str) {
        self.objects.retain(|(_, known)| *known.object.uid != *uid);
    }
}

/// Finds the types by discovery and reads the objects.
///
/// # Errors
/// When a TYPE is not known, or the cluster does not answer.
pub async fn read(cluster: &Cluster, wish: Selection<'_>) -> Result<Picked> {
    Ok(read_with_types(cluster, wish).await?.0)
}

/// As [`read`], with every type that the cluster serves.
///
/// # Errors
/// As [`read`].
pub async fn read_with_types(cluster: &Cluster, wish: Selection<'_>) -> Result<(Picked, Vec<ResourceType>)> {
    let discovered = cluster.discover().await?;
    let picked = match targets::parse(wish.words, &discovered.types)? {
        Targets::Types(types) => list(cluster, types, wish).await,
        Targets::Names(_) if wish.all_namespaces => {
            let error = Error::usage("a resource cannot be retrieved by name across all namespaces");
            return Err(error.hint("leave -A out, or name no object"));
        }
        Targets::Names(_) if wish.selector.is_some() => {
            return Err(Error::usage("name cannot be provided when a selector is specified"));
        }
        Targets::Names(names) => fetch(cluster, names).await,
    };
    Ok((picked, discovered.types))
}

async fn list(cluster: &Cluster, types: Vec<ResourceType>, wish: Selection<'_>) -> Picked {
    let namespace = (!wish.all_namespaces).then_some(&*cluster.namespace);
    let (objects, gaps) = cluster.read_full(&types, Query { namespace, selector: wish.selector }).await;
    let typed = |full: Resource| {
        let kind = types.iter().find(|kind| kind.is(&full.object.id.group, &full.object.id.kind))?;
        Some((kind.clone(), full))
    };
    Picked { objects: objects.into_iter().filter_map(typed).collect(), types, gaps, ..Picked::default() }
}

async fn fetch(cluster: &Cluster, names: Vec<(ResourceType, String)>) -> Picked {
    let reads = names.iter().map(|(kind, name)| async move {
        let namespace = if kind.namespaced { &*cluster.namespace } else { "" };
        let id = ObjectId::new(&kind.group, &kind.kind, namespace, name);
        (kind, name, cluster.fetch(kind, &id).await)
    });
    let answers = join_all(reads).await;
    let mut picked = Picked::default();
    for (kind, name, answer) in answers {
        match answer {
            Ok(Some(full)) if !picked.objects.iter().any(|(_, known)| known.object.id == full.object.id) => {
                picked.objects.push((kind.clone(), full));
            }
            Ok(Some(_)) => {}
            Ok(None) => picked.errors.push(not_found(kind, name)),
            Err(failure) => picked.errors.push(failure.to_string()),
        }
        if !picked.types.contains(kind) {
            picked.types.push(kind.clone());
        }
    }
    picked.named = names;
    picked
}

/// kubectl's words for an object that does not exist.
pub fn not_found(kind: &ResourceType, name: &str) -> String {
    format!("Error from server (NotFound): {} {name:?} not found", kind.resource())
}

/// Whether objects of a type can be suspended at all.
pub fn suspendable(kind: &ResourceType) -> bool {
    kinds::find(&kind.group, &kind.kind).is_some_and(|kind| kind.suspends != Suspends::Nothing)
}

/// kubectl's words when nothing was found; not an error.
pub fn nothing_found(session: &mut Session, namespace: Option<&str>) {
    let place = namespace.map(|namespace| format!(" in {namespace} namespace.")).unwrap_or_default();
    session.terminal.status(&crate::output::sanitize::one_line(&format!("No resources found{place}")));
}
