//! What a person should know beside the verdicts: qbec's gotchas, shown instead of suffered.
//!
//! Source: reference qbec-and-flux-v1 A5.

use std::collections::{BTreeMap, BTreeSet};

use super::order::APPLY_ORDER;
use super::{DELETE_POLICY, QbecCollector};
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::schemes::qbec::{APPLICATION, ENVIRONMENT, TAG};
use crate::prune::collectors::{Decision, NativeAction};

/// Every warning, in a fixed order. They hold text written by others.
pub fn warnings(collector: &QbecCollector<'_>, verdicts: &[Decision<'_>]) -> Vec<String> {
    let mut warnings = unserved(collector);
    warnings.extend(verdicts.iter().flat_map(|verdict| directives(verdict.object)));
    warnings.extend(vanished_namespaces(collector, verdicts));
    warnings.extend(neighbours(collector));
    warnings.extend(unreachable(collector));
    warnings
}

fn unserved(collector: &QbecCollector<'_>) -> Vec<String> {
    let line = |api| format!("the cluster does not serve {api}: such manifests are kept by identity, never planned");
    collector.kinds.unserved(collector.input.locals).into_iter().map(line).collect()
}

fn directives(object: &ObjectMetadata) -> Vec<String> {
    let policy = |value: &str| !["never", "default", ""].contains(&value);
    let order = |value: &str| value.parse::<i64>().is_err();
    let ignored = |key: &str, bad: &dyn Fn(&str) -> bool| {
        let value = object.annotations.get(key).filter(|value| bad(value))?;
        Some(format!("{}: {key}={value:?} means nothing to qbec, which ignores it", object.id))
    };
    [ignored(DELETE_POLICY, &policy), ignored(APPLY_ORDER, &order)].into_iter().flatten().collect()
}

fn vanished_namespaces(collector: &QbecCollector<'_>, verdicts: &[Decision<'_>]) -> Vec<String> {
    let missed = verdicts.iter().filter(|verdict| verdict.theirs == NativeAction::Misses);
    let places: BTreeSet<_> = missed.map(|verdict| &verdict.object.id.namespace).collect();
    let line = |namespace| {
        let app = collector.input.app.describe();
        format!(
            "objects in namespace {namespace} are of {app} but {namespace} is in no manifest any more: missed by qbec"
        )
    };
    places.into_iter().filter(|namespace| !namespace.is_empty()).map(line).collect()
}

/// Other applications in the same namespaces: one of them may be the old name of this one (Q21).
fn neighbours(collector: &QbecCollector<'_>) -> Vec<String> {
    let mut count: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for object in collector.snapshot.objects.iter().filter(|object| object.controller().is_none()) {
        let labels = object.labels.get(APPLICATION).zip(object.labels.get(ENVIRONMENT));
        let Some((application, environment)) = labels else {
            continue;
        };
        let here = collector.scope.namespaces.contains(&object.id.namespace);
        if here && !collector.input.app.same_set(application, environment) {
            *count.entry((application, environment)).or_default() += 1;
        }
    }
    let line = |((application, environment), count)| {
        format!(
            "{count} object(s) of app {application}, environment {environment} live in the same namespaces: \
             if that is an old name of this one, qbec never collects them; plan them with --app and --env"
        )
    };
    count.into_iter().map(line).collect()
}

/// Objects of this application that no selector of qbec matches (Q4, D1).
fn unreachable(collector: &QbecCollector<'_>) -> Option<String> {
    let app = collector.input.app.application();
    let reachable =
        |object: &&ObjectMetadata| object.labels.get(ENVIRONMENT).is_some() && object.labels.get(TAG) != Some("");
    let of_app = collector.snapshot.objects.iter().filter(|object| object.labels.get(APPLICATION) == Some(app));
    let count = of_app.filter(|object| object.controller().is_none() && !reachable(object)).count();
    (count > 0).then(|| {
        format!("{count} object(s) of app {app} have no environment or an empty tag: no run of qbec ever reaches them")
    })
}
