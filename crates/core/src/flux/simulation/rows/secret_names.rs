//! Names of a plan that hold values of Secrets.
//!
//! A name is hidden only if nothing public has it: no kind of the API server, no live object, and no object that the tree
//! names openly. Everybody who may read the plan can know these: to hide them would hide rows, and would reveal that they are
//! equal to something private.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::flux::build::objects::BuiltObject;
use crate::flux::build::objects::data::DataRef;
use crate::flux::build::objects::undecrypted::UNKNOWN;
use crate::flux::build::substitute::data_references;
use crate::flux::simulation::model::node::Pass;
use crate::flux::simulation::model::state::State;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::Members;
use crate::plan::mask::SecretMask;

/// Returns the names that hold values of Secrets and are not public: those of objects that are built or generated, and those
/// of live objects that an owner named so.
pub(crate) fn secret_mask(state: &State<'_>) -> SecretMask {
    let (open, private): (Vec<&BuiltObject>, Vec<&BuiltObject>) =
        built_objects(state).partition(|object| object.masked.is_none());
    let unread = named_by_unread_owners(state);
    let mut public = public_words(state, &unread);
    public.extend(open.iter().flat_map(|object| words(&object.id)).map(Cow::Borrowed));
    let values: Vec<_> = state.secrets.iter().filter(|value| !public.contains(value.reveal().as_str())).collect();
    let mut hidden: Vec<(&ObjectId, Cow<'_, ObjectId>)> = vec![];
    for object in state.input.snapshot.clusters().flat_map(|(_, cluster)| &cluster.objects) {
        let id = &object.id;
        let shown = match state.secrets.held(id) {
            // What an earlier step made has its name from there.
            _ if id.is_private() => id.shown(),
            Some(held) if held.is_assumed => {
                let texts = values.iter().map(|value| value.reveal().as_str());
                let name = texts.fold(id.name.to_string(), |name, value| name.replace(value, UNKNOWN));
                Cow::Owned(ObjectId { name: name.into(), ..id.clone() })
            }
            held => Cow::Borrowed(held.and_then(|held| held.shown.as_ref()).unwrap_or(id)),
        };
        if *shown == *id && !unread.contains(id) {
            public.insert(Cow::Borrowed(&id.name));
        } else if *shown != *id {
            hidden.push((id, shown));
        }
    }
    for (id, shown) in named_after(state, &hidden) {
        public.remove(&*id.name);
        hidden.push((id, Cow::Owned(shown)));
    }
    hidden.extend(private.iter().map(|object| (&object.id, Cow::Borrowed(object.shown_id()))));
    let mut mask = SecretMask::default();
    for (id, shown) in hidden {
        for (word, shown) in words(id).into_iter().zip(words(&shown)) {
            // The server gives a cluster-scoped object no namespace.
            if !word.is_empty() && !public.contains(word) {
                mask.add_word(word, shown);
            }
        }
    }
    values.into_iter().for_each(|value| mask.add_value(value));
    mask
}

/// Returns the live objects that Kubernetes named after one of these, as they are written: claims of StatefulSets, and
/// dependents.
fn named_after<'s>(state: &State<'s>, hidden: &[(&'s ObjectId, Cow<'_, ObjectId>)]) -> Vec<(&'s ObjectId, ObjectId)> {
    let names: HashMap<(&str, &str), &str> = hidden
        .iter()
        .filter(|(id, shown)| id.name != shown.name)
        .map(|(id, shown)| ((&*id.namespace, &*id.name), &*shown.name))
        .collect();
    if names.is_empty() {
        return vec![];
    }
    let direct: HashSet<&ObjectId> = hidden.iter().map(|(id, _)| *id).collect();
    let objects = state.input.snapshot.clusters().flat_map(|(_, cluster)| &cluster.objects);
    let dependents = objects.filter(|object| {
        let is_made = !object.owner_references.is_empty() || object.id.is("", "PersistentVolumeClaim");
        is_made && !direct.contains(&object.id)
    });
    let found = dependents.filter_map(|ObjectMetadata { id, .. }| {
        let part = parts(&id.name).find(|part| names.contains_key(&(&*id.namespace, *part)))?;
        let shown = id.name.replace(part, names[&(&*id.namespace, part)]);
        Some((id, ObjectId { name: shown.into(), ..id.clone() }))
    });
    found.collect()
}

/// Returns the parts of a name between any two of its signs, the longest ones of each beginning first.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    let is_sign = |c: char| c == '-' || c == '.';
    let begins = std::iter::once(0).chain(name.match_indices(is_sign).map(|(at, _)| at + 1));
    begins.flat_map(move |begin| {
        let rest = &name[begin..];
        let ends = std::iter::once(rest.len()).chain(rest.rmatch_indices(is_sign).map(|(at, _)| at));
        ends.map(move |end| &rest[..end])
    })
}

/// Returns the objects that Kustomizations build and that other owners generate.
fn built_objects<'s>(state: &'s State<'_>) -> impl Iterator<Item = &'s BuiltObject> {
    let passes = state.nodes.iter().flat_map(|node| &node.passes);
    let built = passes.filter_map(Pass::desired_objects).flat_map(|objects| objects.values());
    built.chain(state.owner_applies().flat_map(|(_, applies)| applies.objects.values()))
}

/// Returns the live objects of owners that name Secrets which this plan does not read: the same values can be in their names.
fn named_by_unread_owners(state: &State<'_>) -> HashSet<ObjectId> {
    let resources = state.input.snapshot.resources.iter();
    let owners = resources.filter(|live| data_references(live).iter().any(DataRef::is_secret));
    let members = owners.filter_map(|live| match state.members(live) {
        Members::Listed(ids) => Some(ids),
        _ => None,
    });
    members.flatten().collect()
}

/// Returns the kinds of the clusters, and the names of the live objects that no owner can have named by a value of a Secret,
/// with their namespaces.
fn public_words<'s>(state: &'s State<'_>, unread: &HashSet<ObjectId>) -> HashSet<Cow<'s, str>> {
    let mut public = HashSet::new();
    for (name, cluster) in state.input.snapshot.clusters() {
        let is_open_here = |id: ObjectId| {
            let here = id.in_cluster(name);
            is_open(state, unread, state.live_object(&here).map_or(&here, |live| &live.id))
        };
        let open_types = cluster.types.iter().filter(|kind| {
            let definition = format!("{}.{}", kind.plural, kind.group);
            is_open_here(ObjectId::new("apiextensions.k8s.io", "CustomResourceDefinition", "", &definition))
        });
        for kind in open_types {
            public.extend([&*kind.group, &*kind.kind].map(Cow::Borrowed));
            // Messages write kinds in lower case.
            public.insert(Cow::Owned(kind.kind.to_lowercase()));
        }
        let mut namespaces: HashMap<&str, bool> = HashMap::new();
        for id in cluster.ids().filter(|id| is_open(state, unread, id)) {
            public.insert(Cow::Borrowed(&*id.name));
            let is_open_namespace = namespaces
                .entry(&id.namespace)
                .or_insert_with(|| is_open_here(ObjectId::new("", "Namespace", "", &id.namespace)));
            public.extend(is_open_namespace.then_some(Cow::Borrowed(&*id.namespace)));
        }
    }
    public
}

/// Returns true if no owner can have named a live object by a value of a Secret.
fn is_open(state: &State<'_>, unread: &HashSet<ObjectId>, id: &ObjectId) -> bool {
    match state.secrets.held(id) {
        _ if id.is_private() => false,
        Some(held) => !held.is_assumed && held.shown.is_none(),
        None => !unread.contains(id),
    }
}

/// Returns the parts of an identity that are written as words.
fn words(id: &ObjectId) -> [&str; 4] {
    [&id.group, &id.kind, &id.namespace, &id.name]
}
