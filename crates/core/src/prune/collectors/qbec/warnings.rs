//! Warnings about objects that qbec overlooks, and about settings that it ignores.
//!
//! Rules: docs/reference/qbec-and-flux-v1.md 4.

use std::collections::{BTreeMap, BTreeSet};

use super::QbecCollector;
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::schemes::qbec::{APPLICATION, APPLY_ORDER, DELETE_POLICY, ENVIRONMENT, TAG};
use crate::prune::collectors::collector::{Decision, NativeAction};
use crate::text::pluralize;

/// Returns all warnings in a fixed order. They hold text written by others.
pub(super) fn warnings(collector: &QbecCollector<'_>, decisions: &[Decision<'_>]) -> Vec<String> {
    let mut warnings = unserved_apis(collector);
    warnings.extend(decisions.iter().flat_map(|decision| ignored_directives(decision.object)));
    warnings.extend(missed_namespaces(collector, decisions));
    warnings.extend(other_apps(collector));
    warnings.extend(unselectable_objects(collector));
    warnings
}

fn unserved_apis(collector: &QbecCollector<'_>) -> Vec<String> {
    let apis = collector.kinds.unserved(collector.input.locals).into_iter();
    apis.map(|api| format!("the cluster does not serve {api}: objects of such manifests are kept")).collect()
}

fn ignored_directives(object: &ObjectMetadata) -> Vec<String> {
    let policy = object.annotations.get(DELETE_POLICY).filter(|value| !["never", "default", ""].contains(value));
    let order = object.annotations.get(APPLY_ORDER).filter(|value| value.parse::<i64>().is_err());
    [(DELETE_POLICY, policy), (APPLY_ORDER, order)]
        .into_iter()
        .filter_map(|(key, value)| {
            Some(format!("{}: qbec ignores {key}={:?}, which is no valid value", object.id, value?))
        })
        .collect()
}

fn missed_namespaces(collector: &QbecCollector<'_>, decisions: &[Decision<'_>]) -> Vec<String> {
    let missed = decisions.iter().filter(|decision| decision.native == NativeAction::Misses);
    let namespaces: BTreeSet<_> =
        missed.map(|decision| &decision.object.id.namespace).filter(|namespace| !namespace.is_empty()).collect();
    let app = collector.input.app.description();
    namespaces
        .into_iter()
        .map(|namespace| {
            format!("qbec misses the objects of {app} in namespace {namespace}, which no manifest names any more")
        })
        .collect()
}

/// Warns of other applications in the same namespaces: one of them may be the old name of this one (Q21).
fn other_apps(collector: &QbecCollector<'_>) -> Vec<String> {
    let mut apps: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for object in collector.snapshot.objects.iter().filter(|object| object.controller_reference().is_none()) {
        let labels = object.labels.get(APPLICATION).zip(object.labels.get(ENVIRONMENT));
        let Some((application, environment)) = labels else { continue };
        let is_in_scope = collector.scope.namespaces.contains(&object.id.namespace);
        if is_in_scope && !collector.input.app.is_environment(application, environment) {
            *apps.entry((application, environment)).or_default() += 1;
        }
    }
    apps.into_iter()
        .map(|((application, environment), number)| {
            format!(
                "the same namespaces contain {} of app {application}, environment {environment}: if that is an old \
                 name of this app, qbec never deletes them; plan that app and environment too",
                pluralize(number, "object")
            )
        })
        .collect()
}

/// Warns of objects of this application that no selector of qbec matches (Q4; docs/reference/qbec-and-flux-v1.md 11.1).
fn unselectable_objects(collector: &QbecCollector<'_>) -> Option<String> {
    let app = collector.input.app.application();
    let objects = collector.snapshot.objects.iter().filter(|object| {
        object.labels.get(APPLICATION) == Some(app)
            && object.controller_reference().is_none()
            && (object.labels.get(ENVIRONMENT).is_none() || object.labels.get(TAG) == Some(""))
    });
    let number = objects.count();
    (number > 0).then(|| {
        format!(
            "qbec never selects {} of app {app} without an environment or with an empty tag",
            pluralize(number, "object")
        )
    })
}
