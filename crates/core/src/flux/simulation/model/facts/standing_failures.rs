//! Failures of live Kustomizations that can last, although neither their builds nor the answers of the API server show why.
//!
//! Source: `Reconcile` and `reconcile` in kustomization_controller.go of kustomize-controller v1.9.5, and the messages of
//! manager_apply.go and manager_delete.go of fluxcd/pkg/ssa v0.76.2.

use serde_json::Value;

use crate::flux::build::objects::data::DataRef;
use crate::flux::build::substitute::data_references;
use crate::flux::simulation::model::node::{Node, Pass};
use crate::flux::simulation::model::state::State;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{Condition, ObjectId, Resource};
use crate::kubernetes::redact::redact_urls;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Reason, ReasonCode};

/// Failures of an apply that a dry-run shows: it precedes the apply, and what is deleted by force was refused by one.
const SHOWN_BY_DRY_RUNS: [&str; 5] = [
    " dry-run failed",
    " namespace not specified: ",
    " not found: ",
    " immutable field detected, ",
    " normalization error: ",
];
/// Failure of an apply that follows from the manifests alone.
const ENCRYPTED: &str = " is SOPS encrypted, ";
/// Begin of a failure of `spec.ignore`, which follows from the spec alone.
const INVALID_RULE: &str = "invalid ";
/// Failures to get the files of a source that follow from the tree, or that its next artifact ends.
const SHOWN_BY_SOURCES: [&str; 4] =
    ["kustomization path not found", "Source '", "Source artifact not found", "Source is not ready"];

/// Adds to a pass of a live Kustomization the condition that its present failure ends, if nothing else shows whether it does.
pub(crate) fn add_standing_failure(state: &State<'_>, key: &NamespacedName, pass: &mut Pass) {
    let Some(live) = state.live.get(key) else { return };
    let Some(failure) = standing_failure(state, key, live, pass) else { return };
    let id = ObjectId::new(GROUP, KIND, &key.namespace, &key.name);
    // It can name what a value of a Secret names, which neither the tree nor the cluster need have any more.
    let is_hidden = state.is_private(&id) || data_references(live).iter().any(DataRef::is_secret);
    let failure = if is_hidden { String::new() } else { format!(": {failure}") };
    let detail = format!("it applies only once its present failure is resolved{failure}");
    pass.add_condition(Reason::new(ReasonCode::NotReady, detail));
}

/// Returns the present failure of a Kustomization, if a pass can fail in the same way.
fn standing_failure(state: &State<'_>, key: &NamespacedName, live: &Resource, pass: &Pass) -> Option<String> {
    let ready = live.condition("Ready")?;
    let spec = &pass.spec;
    match (ready.status, ready.reason) {
        ("False", "ReconciliationFailed") if !ready.message.is_empty() => {
            let is_applied = named_object(ready.message)
                .is_none_or(|name| pass.applied_objects().into_iter().flatten().any(|(id, _)| name == described(id)));
            let reaches_cluster = spec.is_remote() || state.input.flags.service_account(spec).is_some();
            let is_shown = ready.message.contains(ENCRYPTED)
                || ready.message.starts_with(INVALID_RULE)
                || (state.input.dry_runs.is_some() && contains_any(ready.message, &SHOWN_BY_DRY_RUNS))
                || (ready.message.starts_with("failed to build kube client") && !reaches_cluster);
            (is_applied && !is_shown).then(|| brief(ready))
        }
        // While it tries again, only its history says that it fails.
        ("Unknown", "Progressing") => {
            let last = live.at("/status/history/0/lastReconciledStatus").and_then(Value::as_str);
            last.filter(|last| *last == "ReconciliationFailed").map(str::to_owned)
        }
        ("False", "BuildFailed") => {
            let is_about_keys = spec.decrypts() && ready.message.contains("decrypt");
            is_about_keys.then(|| brief(ready))
        }
        ("False", "ArtifactFailed") => {
            let is_shown = ready.message.is_empty() || contains_any(ready.message, &SHOWN_BY_SOURCES);
            (!is_shown).then(|| brief(ready))
        }
        ("False", "AccessDenied") => {
            let source = spec.source(&key.namespace);
            let may_be_denied = source.namespace != key.namespace || source.kind == "ExternalArtifact";
            may_be_denied.then(|| brief(ready))
        }
        _ => None,
    }
}

/// Returns the condition of the deletion of an object that a Kustomization fails to prune now.
pub(crate) fn failing_prune(state: &State<'_>, owner: &NamespacedName, id: &ObjectId) -> Option<String> {
    let live = state.live.get(owner)?;
    let ready = live.condition("Ready").filter(|ready| ready.reason == "PruneFailed")?;
    let name = described(id);
    let failing = ["query failed", "delete failed"].iter().find(|what| {
        let phrase = format!("{name} {what}");
        ready.message.match_indices(&phrase).any(|(at, _)| !ready.message[..at].ends_with(is_part_of_name))
    })?;
    Some(format!("it stays until the controller no longer fails to delete it, as it does now: {failing}"))
}

/// Returns an object that the last pass of a Kustomization prunes, and that it fails to prune now.
pub(crate) fn unpruned_object<'n>(state: &State<'_>, node: &'n Node) -> Option<&'n ObjectId> {
    let last = node.last_pass()?;
    let mut dropped = node.inventory.iter().filter(|id| last.prunes(id));
    dropped.find(|id| failing_prune(state, &node.id.key, id).is_some())
}

/// Returns true for a character that is a part of the names in a message.
fn is_part_of_name(character: char) -> bool {
    character.is_alphanumeric() || "/-.:".contains(character)
}

fn contains_any(message: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| message.contains(part))
}

/// Returns the object that a message begins with.
fn named_object(message: &str) -> Option<&str> {
    let first = message.split(' ').next()?;
    let is_object = first.contains('/') && first.starts_with(|character: char| character.is_ascii_uppercase());
    is_object.then_some(first)
}

/// Returns an object as the messages of the controller name it.
fn described(id: &ObjectId) -> String {
    let ObjectId { kind, namespace, name, .. } = id;
    if namespace.is_empty() { format!("{kind}/{name}") } else { format!("{kind}/{namespace}/{name}") }
}

/// Returns what fails, without what the API server said about it, which can quote values.
fn brief(ready: Condition<'_>) -> String {
    let line = ready.message.lines().next().unwrap_or_default();
    let is_about_health = line.starts_with("timeout waiting for") || line.starts_with("failed early");
    let what = if is_about_health { line } else { line.split(": ").next().unwrap_or_default() };
    format!("{} ({})", redact_urls(what), ready.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_begins_with_its_object() {
        let of_object = "ConfigMap/shop/web apply failed: conflict";
        assert_eq!(named_object(of_object), Some("ConfigMap/shop/web"));
        for message in ["timeout waiting for: [Namespace/shop status: 'InProgress']", "rpc/error", ""] {
            assert_eq!(named_object(message), None, "{message}");
        }
        assert_eq!(described(&ObjectId::new("", "ConfigMap", "shop", "web")), "ConfigMap/shop/web");
        assert_eq!(described(&ObjectId::new("", "Namespace", "", "shop")), "Namespace/shop");
    }
}
