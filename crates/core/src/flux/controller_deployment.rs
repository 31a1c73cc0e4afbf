//! Deployments of Flux's controllers: their flags and service accounts.
//!
//! The functions are the same for all controllers; what a flag means is said where it is used.

use serde_json::Value;

use super::kinds::KUSTOMIZE_CONTROLLER;
use super::spec::NamespacedName;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, list_at, text_at};
use crate::kubernetes::snapshot::Snapshot;

/// Returns the service account of the pods of a Deployment in this namespace; `None` if it names none, or one that does not
/// exist, so that it has no pods.
pub fn service_account(deployment: &Value, namespace: &str, snapshot: &Snapshot) -> Option<NamespacedName> {
    let name = text_at(deployment, "/spec/template/spec/serviceAccountName");
    if name.is_empty() {
        return None;
    }
    snapshot.object(&ObjectId::new("", "ServiceAccount", namespace, name))?;
    Some(NamespacedName { namespace: namespace.to_owned(), name: name.to_owned() })
}

/// Returns the Deployment of a controller of Flux by its name.
pub fn deployment<'s>(snapshot: &'s Snapshot, name: &str) -> Option<&'s ObjectMetadata> {
    deployments(snapshot, name).next()
}

/// Returns the Deployments of a controller of Flux by their name: one, or one for each namespace that it watches.
pub fn deployments<'s>(snapshot: &'s Snapshot, name: &str) -> impl Iterator<Item = &'s ObjectMetadata> {
    snapshot.objects.iter().filter(move |object| object.id.is("apps", "Deployment") && &*object.id.name == name)
}

/// Returns `--default-service-account` of the Deployment of a controller of Flux, if it has one.
pub fn default_service_account(deployment: &Value) -> Option<String> {
    flag(deployment, "default-service-account")
}

/// Returns true if the Deployment of a controller of Flux has `--no-cross-namespace-refs`.
pub fn denies_other_namespaces(deployment: &Value) -> bool {
    flag(deployment, "no-cross-namespace-refs").is_some_and(|value| is_true(&value))
}

/// Returns `--watch-label-selector` of the Deployment of a controller of Flux, if it has one.
pub fn watch_selector(deployment: &Value) -> Option<String> {
    flag(deployment, "watch-label-selector")
}

/// Returns the Deployments of further controllers of this name, which reconcile other objects (sharding).
pub fn shards<'s>(snapshot: &'s Snapshot, name: &str) -> impl Iterator<Item = &'s ObjectMetadata> {
    let deployments = snapshot.objects.iter().filter(|object| object.id.is("apps", "Deployment"));
    deployments.filter(move |object| object.id.name.starts_with(name) && *object.id.name != *name)
}

/// Returns the last value of a flag by its name without dashes; `None` if it is absent or empty.
pub(super) fn flag(deployment: &Value, wanted: &str) -> Option<String> {
    let set = flags(container(deployment)?).into_iter().filter(|(name, _)| name == wanted);
    set.map(|(_, value)| value).next_back().filter(|value| !value.is_empty())
}

pub(super) fn container(deployment: &Value) -> Option<&Value> {
    let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    containers.into_iter().flatten().find(|container| is_controller(container))
}

pub(super) fn flags(container: &Value) -> Vec<(String, String)> {
    let arguments = list_at(container, "/args").iter();
    parse(&arguments.filter_map(Value::as_str).collect::<Vec<_>>())
}

/// Returns the flags of a command line as names without dashes and values. A flag without a value is `true`.
fn parse(arguments: &[&str]) -> Vec<(String, String)> {
    let mut flags = vec![];
    let mut rest = arguments.iter().peekable();
    while let Some(argument) = rest.next() {
        let Some(flag) = argument.strip_prefix("--") else { continue };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, value),
            None => match rest.next_if(|next| !next.starts_with('-')) {
                Some(value) => (flag, *value),
                None => (flag, "true"),
            },
        };
        flags.push((name.to_owned(), value.to_owned()));
    }
    flags
}

/// Returns the feature gates in the value of a flag, with true for those that are on.
pub(super) fn gates(value: &str) -> impl Iterator<Item = (&str, bool)> {
    let all = value.split(',').filter_map(|gate| gate.trim().split_once('='));
    all.map(|(gate, value)| (gate, is_true(value)))
}

/// Returns true if Go reads a text as a true Boolean.
pub(super) fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// Returns true if a Deployment wants no pods, or has none that is available.
pub(super) fn is_stopped(deployment: &Value) -> bool {
    let wants_none = deployment.pointer("/spec/replicas").is_some_and(|replicas| *replicas == 0);
    // The status of a new Deployment is empty.
    let has_status = deployment.pointer("/status/observedGeneration").is_some();
    let has_none = deployment.pointer("/status/availableReplicas").is_none_or(|available| *available == 0);
    wants_none || (has_status && has_none)
}

fn is_controller(container: &Value) -> bool {
    text(container, "image").contains(KUSTOMIZE_CONTROLLER) || text(container, "name") == "manager"
}

pub(super) fn text<'a>(container: &'a Value, key: &str) -> &'a str {
    container.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flags_have_their_value_behind_an_equals_sign_or_a_space() {
        let read = parse(&["--concurrent=20", "--override-manager", "a", "--no-remote-bases", "--x=", "y"]);
        let read: Vec<(&str, &str)> = read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(read, [("concurrent", "20"), ("override-manager", "a"), ("no-remote-bases", "true"), ("x", "")]);
        assert!(is_true("True") && is_true("1") && !is_true("yes") && !is_true(""));
    }

    #[test]
    fn a_controller_without_an_available_pod_is_stopped() {
        let cases = [
            (json!({"spec": {"replicas": 0}}), true),
            (json!({"spec": {"replicas": 1}, "status": {"observedGeneration": 1, "unavailableReplicas": 1}}), true),
            (json!({"spec": {"replicas": 1}, "status": {"observedGeneration": 1, "availableReplicas": 1}}), false),
            (json!({"spec": {"replicas": 1}, "status": {}}), false),
            (json!({}), false),
        ];
        for (deployment, expected) in cases {
            assert_eq!(is_stopped(&deployment), expected, "{deployment}");
        }
    }
}
