//! What a person should know beside the verdicts: what fluxd never collects, and where it is left to chance.
//!
//! Source: reference qbec-and-flux-v1 B5 (F2, F9, F13, F16, F17) and D2.

use std::collections::{BTreeMap, HashSet};

use super::{FluxV1Input, IGNORE};
use crate::kubernetes::object::ObjectMetadata;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux_v1::{LEGACY_MARK, MARK, mark, resource_id};
use crate::prune::collectors::Decision;
use crate::prune::collectors::type_aliases::Kinds;

/// Every warning, in a fixed order. They hold text written by others.
pub fn warnings(input: &FluxV1Input<'_>, snapshot: &Snapshot, verdicts: &[Decision<'_>]) -> Vec<String> {
    let own = |object: &ObjectMetadata| mark(&input.sync_set, &resource_id(&object.id));
    let mut warnings = unserved(input, snapshot);
    warnings.extend(exported(input));
    warnings.extend(verdicts.iter().filter_map(|verdict| two_policies(verdict.object)));
    warnings.extend(twins(verdicts));
    let legacy = |object: &&ObjectMetadata| {
        let value = object.labels.get(LEGACY_MARK).filter(|_| object.labels.get(MARK).is_none());
        object.references.is_empty() && value.is_some_and(|value| value == own(object))
    };
    let left = snapshot.objects.iter().filter(legacy).count();
    warnings.extend((left > 0).then(|| {
        format!(
            "{left} object(s) of this source carry only the mark of Flux 1.13 and earlier ({LEGACY_MARK}): \
             no later fluxd collects them"
        )
    }));
    let copies = copies(snapshot, own);
    warnings.extend(
        (copies > 0).then(|| format!("{copies} object(s) carry a mark that was copied from an object of this source")),
    );
    warnings
}

fn unserved(input: &FluxV1Input<'_>, snapshot: &Snapshot) -> Vec<String> {
    let line =
        |api| format!("the cluster does not serve {api}: fluxd forgets such manifests; here they are kept by identity");
    Kinds::of(snapshot).unserved(input.locals).into_iter().map(line).collect()
}

fn exported(input: &FluxV1Input<'_>) -> Vec<String> {
    let marked = input.locals.iter().filter(|local| local.exported_mark.is_some());
    let line = |local: &crate::prune::collectors::manifest::LocalManifest| {
        format!(
            "{} ({}) carries a mark that was exported from a cluster: fluxd keeps it, and never collects the object",
            local.id, local.origin
        )
    };
    marked.map(line).collect()
}

fn two_policies(object: &ObjectMetadata) -> Option<String> {
    let values: HashSet<_> = IGNORE.iter().filter_map(|key| object.annotations.get(key)).collect();
    (values.len() > 1)
        .then(|| format!("{}: its two ignore annotations differ, and fluxd picks one at random", object.id))
}

fn twins(verdicts: &[Decision<'_>]) -> Vec<String> {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for verdict in verdicts {
        *count.entry(resource_id(&verdict.object.id)).or_default() += 1;
    }
    let twins = count.into_iter().filter(|(_, count)| *count > 1);
    twins.map(|(id, _)| format!("{id} is the id of several objects: fluxd deletes one of them in each sync")).collect()
}

/// How many objects carry another object's mark (F2).
fn copies(snapshot: &Snapshot, own: impl Fn(&ObjectMetadata) -> String) -> usize {
    let marked = || snapshot.objects.iter().filter_map(|object| Some((object, object.labels.get(MARK)?)));
    let genuine: HashSet<&str> = marked().filter(|(object, value)| own(object) == *value).map(|row| row.1).collect();
    marked().filter(|(object, value)| genuine.contains(value) && own(object) != *value).count()
}
