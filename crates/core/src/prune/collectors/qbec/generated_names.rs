//! Objects of manifests with `generateName`. Each apply of qbec creates a new one and deletes the older ones; this tool
//! creates nothing, so it keeps the newest.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::QbecCollector;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::prune::collectors::collector::manifest::LocalManifest;
use crate::prune::collectors::collector::served_kinds::canonical_id;

/// Length of the suffix that the API server generates.
const SUFFIX_LENGTH: usize = 5;

/// Returns the uids of the newest objects: as many for each prefix as there are manifests.
pub(super) fn newest_objects<'a>(collector: &QbecCollector<'a>) -> HashSet<&'a str> {
    let mut generations: HashMap<ObjectId, Vec<&'a ObjectMetadata>> = HashMap::new();
    for object in collector.snapshot.objects.iter().filter(|object| object.deletion_timestamp.is_none()) {
        if let Some(prefix) = manifest_of(collector, object) {
            generations.entry(prefix).or_default().push(object);
        }
    }
    let mut newest = HashSet::new();
    for (prefix, mut objects) in generations {
        objects.sort_by_key(|object| Reverse((object.creation_timestamp, &object.id.name)));
        let locals = collector.input.locals.iter();
        let manifests = locals.filter(|local| {
            local.generate_name.as_deref() == Some(&*prefix.name)
                && applied_id(collector, local, &prefix.name) == prefix
        });
        newest.extend(objects.into_iter().take(manifests.count()).map(|object| &*object.uid));
    }
    newest
}

/// Returns the manifest that created an object, as an identity whose name is the prefix.
pub(super) fn manifest_of(collector: &QbecCollector<'_>, object: &ObjectMetadata) -> Option<ObjectId> {
    if !collector.input.app.selects(object) {
        return None;
    }
    let id = canonical_id(&object.id);
    collector.input.locals.iter().find_map(|local| {
        let prefix = local.generate_name.as_deref()?;
        let suffix = id.name.strip_prefix(prefix)?;
        let is_generated = suffix.len() == SUFFIX_LENGTH && applied_id(collector, local, &id.name) == id;
        is_generated.then(|| ObjectId { name: prefix.into(), ..id.clone() })
    })
}

fn applied_id(collector: &QbecCollector<'_>, local: &LocalManifest, name: &str) -> ObjectId {
    let id = ObjectId { name: name.into(), ..local.id.clone() };
    collector.kinds.applied_id(&id, &collector.input.default_namespace)
}
