//! Warnings about objects that fluxd never deletes, and about settings with a random effect.
//!
//! Rules: docs/reference/qbec-and-flux-v1.md 10 (F2, F9, F13, F16, F17) and 11.2.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::FluxV1Collector;
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::schemes::flux_v1::{IGNORE, LEGACY_MARK, MARK, mark, resource_id};
use crate::prune::collectors::collector::Decision;
use crate::text::pluralize;

/// Returns all warnings in a fixed order. They hold text written by others.
pub(super) fn warnings(collector: &FluxV1Collector<'_>, decisions: &[Decision<'_>]) -> Vec<String> {
    let mut warnings = unserved_apis(collector);
    warnings.extend(exported_marks(collector));
    warnings.extend(decisions.iter().filter_map(|decision| contradictory_ignore(decision.object)));
    warnings.extend(shared_resource_ids(decisions));
    warnings.extend(legacy_marks(collector));
    warnings.extend(copied_marks(collector));
    warnings
}

fn unserved_apis(collector: &FluxV1Collector<'_>) -> Vec<String> {
    let apis = collector.kinds.unserved(collector.input.locals).into_iter();
    apis.map(|api| {
        format!("the cluster does not serve {api}: fluxd drops such manifests; this tool keeps their objects")
    })
    .collect()
}

fn exported_marks(collector: &FluxV1Collector<'_>) -> Vec<String> {
    let exported = collector.input.locals.iter().filter(|local| local.exported_mark.is_some());
    exported
        .map(|local| {
            format!(
                "{} ({}) contains a label {MARK} that was exported from a cluster: fluxd does not change it, and never \
                 deletes the object",
                local.id, local.origin
            )
        })
        .collect()
}

fn contradictory_ignore(object: &ObjectMetadata) -> Option<String> {
    let values: BTreeSet<&str> = IGNORE.iter().filter_map(|key| object.annotations.get(key)).collect();
    (values.len() > 1)
        .then(|| format!("{}: its two ignore annotations differ, and fluxd picks one at random", object.id))
}

fn shared_resource_ids(decisions: &[Decision<'_>]) -> Vec<String> {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for decision in decisions {
        *numbers.entry(resource_id(&decision.object.id)).or_default() += 1;
    }
    let shared = numbers.into_iter().filter(|(_, number)| *number > 1);
    shared.map(|(id, _)| format!("{id} is the id of several objects: fluxd deletes one of them in each sync")).collect()
}

fn legacy_marks(collector: &FluxV1Collector<'_>) -> Option<String> {
    let objects = collector.snapshot.objects.iter().filter(|object| {
        let legacy = object.labels.get(LEGACY_MARK).filter(|_| object.labels.get(MARK).is_none());
        object.owner_references.is_empty() && legacy.is_some_and(|value| value == own_mark(collector, object))
    });
    let number = objects.count();
    (number > 0).then(|| {
        format!(
            "only Flux 1.13 and earlier labelled {} of this source ({LEGACY_MARK}): no later fluxd deletes them",
            pluralize(number, "object")
        )
    })
}

/// Warns of objects that carry the mark of another object (F2).
fn copied_marks(collector: &FluxV1Collector<'_>) -> Option<String> {
    let marked = collector.snapshot.objects.iter().filter_map(|object| Some((object, object.labels.get(MARK)?)));
    let (genuine, other): (Vec<_>, Vec<_>) = marked.partition(|(object, value)| own_mark(collector, object) == *value);
    let genuine: HashSet<&str> = genuine.into_iter().map(|(_, value)| value).collect();
    let number = other.iter().filter(|(_, value)| genuine.contains(value)).count();
    (number > 0).then(|| {
        format!("the label {MARK} of {} was copied from an object of this source", pluralize(number, "object"))
    })
}

fn own_mark(collector: &FluxV1Collector<'_>, object: &ObjectMetadata) -> String {
    mark(&collector.input.sync_set, &resource_id(&object.id))
}
