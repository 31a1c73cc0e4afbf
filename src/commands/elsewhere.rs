//! Hints that name the type or the namespace which a command line left out, so that an empty answer is not taken for an
//! empty cluster. What cannot be listed is in no hint.

use std::collections::BTreeMap;

use futures::future::join_all;

use super::Session;
use super::resource_args::is_named;
use super::select::{RIGHTS, SelectedObjects};
use crate::cluster::{Cluster, Query};
use crate::error::Error;
use crate::suggest::nearest;
use gitops_core::flux::kinds;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::text::join_limited;

/// Number of namespaces or objects that a hint names.
const NAMED: usize = 5;

/// Prints in which other namespaces there are objects of these types.
pub(crate) async fn hint_other_namespaces(
    session: &mut Session,
    cluster: &Cluster,
    types: &[ResourceType],
    selector: Option<&str>,
) {
    let found = list_everywhere(cluster, types, selector).await;
    print_namespaces(session, found.iter().map(|(_, object)| &*object.id.namespace));
}

/// Prints how many objects there are in each of these namespaces; nothing without objects.
pub(crate) fn print_namespaces<'a>(session: &mut Session, namespaces: impl Iterator<Item = &'a str>) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for namespace in namespaces {
        *counts.entry(namespace).or_default() += 1;
    }
    if counts.is_empty() {
        return;
    }
    let places = counts.iter().map(|(namespace, count)| format!("{namespace} ({count})"));
    session.terminal.hint(&format!("there are some in {}: use -n or -A", join_limited(places, NAMED)));
}

/// Prints hints about named objects that were not read: the namespaces in which there is one, a name like theirs, or how to
/// see the rights that are missing.
pub(crate) async fn hint_missing(session: &mut Session, cluster: &Cluster, selected: &SelectedObjects) {
    if selected.is_forbidden {
        session.terminal.hint(RIGHTS);
    }
    let missing = &selected.missing;
    let mut types: Vec<ResourceType> = vec![];
    for (kind, _) in missing {
        if !types.contains(kind) {
            types.push(kind.clone());
        }
    }
    let everywhere = list_everywhere(cluster, &types, None).await;
    for (kind, name) in missing {
        let same = everywhere.iter().filter(|(found, object)| *found == kind && *object.id.name == **name);
        let namespaces: Vec<&str> = same.map(|(_, object)| &*object.id.namespace).collect();
        let singular = &kind.singular;
        if let Some(first) = namespaces.first() {
            let all = join_limited(&namespaces, NAMED);
            session.terminal.hint(&format!("there is a {singular} {name} in namespace {all}: use -n {first}"));
            continue;
        }
        let here =
            everywhere.iter().filter(|(found, object)| *found == kind && *object.id.namespace == cluster.namespace);
        if let Some(near) = nearest(name, here.map(|(_, object)| &*object.id.name)) {
            session.terminal.hint(&format!("did you mean {singular} {near}?"));
        }
    }
}

/// Returns the error for words that begin with the name of an object instead of a TYPE, or `None` if no object has it.
pub(crate) async fn name_without_type(
    cluster: &Cluster,
    (verb, flags): (&str, &str),
    words: &[String],
    served: &[ResourceType],
) -> Option<Error> {
    let word = name_in_place_of_type(words, served)?;
    let types: Vec<ResourceType> = types_of_flux(served).cloned().collect();
    let mut everywhere = list_everywhere(cluster, &types, None).await;
    everywhere.retain(|(_, object)| *object.id.name == *word);
    let found = everywhere.iter().map(|(kind, object)| (*kind, &object.id)).collect();
    type_is_missing(found, (Some(&cluster.namespace), cluster.namespace_given), (verb, flags), words)
}

/// Returns the error of [`name_without_type`] for a recorded cluster; `namespace` is that of `-n`.
pub(crate) fn recorded_name_without_type(
    snapshot: &Snapshot,
    namespace: Option<&str>,
    (verb, flags): (&str, &str),
    words: &[String],
) -> Option<Error> {
    let word = name_in_place_of_type(words, &snapshot.types)?;
    let named = snapshot.resources.iter().map(|full| &full.object.id).filter(|id| *id.name == *word);
    let found =
        named.filter_map(|id| Some((types_of_flux(&snapshot.types).find(|kind| kind.is(&id.group, &id.kind))?, id)));
    type_is_missing(found.collect(), (namespace, namespace.is_some()), (verb, flags), words)
}

/// Returns the first word if it can only be the name of an object.
fn name_in_place_of_type<'a>(words: &'a [String], served: &[ResourceType]) -> Option<&'a str> {
    words
        .first()
        .map(String::as_str)
        .filter(|word| !word.contains('/') && !served.iter().any(|kind| is_named(kind, word)))
}

fn types_of_flux(served: &[ResourceType]) -> impl Iterator<Item = &ResourceType> {
    served.iter().filter(|kind| kinds::find(&kind.group, &kind.kind).is_some())
}

/// Returns the error for the name of these objects in place of a TYPE; `None` without objects. `place` is the namespace of the
/// command, or `None` for all, and whether a flag says so.
fn type_is_missing(
    found: Vec<(&ResourceType, &ObjectId)>,
    (place, is_given): (Option<&str>, bool),
    (verb, flags): (&str, &str),
    words: &[String],
) -> Option<Error> {
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(_, id)| place.is_none_or(|place| place == &*id.namespace));
    let is_here = !here.is_empty();
    let found = if is_here { here } else { elsewhere };
    let (kind, id) = found.first()?;
    let (singular, namespace, word) = (&kind.singular, &id.namespace, &id.name);
    let flag = if is_here && !is_given { String::new() } else { format!(" -n {namespace}") };
    let mut what: Vec<String> = found.iter().map(|(kind, _)| format!("{} {word}", kind.singular)).collect();
    what.dedup();
    let place = if is_here { String::new() } else { format!(" in namespace {namespace}") };
    let hint = format!(
        "there is a {}{place}: `kubectl gitops {verb}{flag} {singular} {}{flags}`",
        join_limited(what, NAMED),
        words.join(" ")
    );
    Some(Error::usage(format!("{:?} is no resource type; a TYPE comes before the name", &**word)).hint(hint))
}

/// Lists the objects of these types in all namespaces, or in that of the command where the user may list no other.
async fn list_everywhere<'a>(
    cluster: &Cluster,
    types: &'a [ResourceType],
    selector: Option<&str>,
) -> Vec<(&'a ResourceType, ObjectMetadata)> {
    let lists = types.iter().map(|kind| async move {
        let everywhere = cluster.list_metadata(kind, Query { namespace: None, selector }).await;
        if everywhere.gap.is_none() {
            return (kind, everywhere.items);
        }
        let namespace = Some(&*cluster.namespace);
        (kind, cluster.list_metadata(kind, Query { namespace, selector }).await.items)
    });
    let lists = join_all(lists).await;
    lists.into_iter().flat_map(|(kind, items)| items.into_iter().map(move |item| (kind, item))).collect()
}
