//! Conditions that keep a Kustomization from reconciling, so that it applies and prunes nothing.
//!
//! Source: docs/reference/kustomize-controller.md 1 (steps 3 to 6), 4.1 (long names) and 7.2 (dependencies).

use std::cell::OnceCell;

use super::dependencies::Dependant;
use crate::flux::health_exprs::{InvalidExprs, invalid_exprs};
use crate::flux::simulation::model::facts::watch_selector::unwatched;
use crate::flux::simulation::model::node::Blocker;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;
use crate::plan::{Reason, ReasonCode};

/// Longest value of a label.
const MAX_LABEL_LENGTH: usize = 63;

/// Returns the condition that blocks a Kustomization with this spec, a certain one first.
pub(crate) fn blocker(
    state: &State<'_>,
    consequences: &Consequences<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
) -> Option<Blocker> {
    let own = [own_blocker(state, key, spec), missing_keys(state, key, spec), missing_kube_config(state, key, spec)];
    let is_in_circle = OnceCell::new();
    let dependant = Dependant { state, consequences, key, spec, is_in_circle: &is_in_circle };
    let dependencies = spec.dependencies(&key.namespace);
    let of_dependencies = dependencies.filter_map(|dependency| dependant.blocker(&dependency));
    own.into_iter()
        .flatten()
        .chain(unwatched(state, key))
        .chain(of_dependencies)
        .max_by_key(|blocker| blocker.is_certain)
}

/// Returns the condition of the Kustomization itself that blocks it.
fn own_blocker(state: &State<'_>, key: &NamespacedName, spec: &KustomizationSpec) -> Option<Blocker> {
    if spec.is_suspended() {
        return Some(Blocker::certain(ReasonCode::Suspended, ""));
    }
    if key.name.len() > MAX_LABEL_LENGTH {
        let detail = "its name is longer than 63 characters, so no object can carry its label";
        return Some(Blocker::certain(ReasonCode::NameTooLong, detail));
    }
    let exprs = invalid_exprs(spec.value()).map(|InvalidExprs { detail, is_certain }| Blocker {
        reason: Reason::new(ReasonCode::ExpressionInvalid, detail),
        is_certain,
    });
    let source = denied_source(state, key, spec).map(|reason| Blocker { reason, is_certain: true });
    let found = [exprs, denied_account(state, spec), source].into_iter().flatten();
    // The first certain one, or else the first.
    found.min_by_key(|blocker| !blocker.is_certain)
}

/// Returns a blocker if the controller does not decrypt with a service account of the Kustomization, or may not. Source:
/// kustomization_controller.go v1.9.5, and the feature gates of pkg/auth v0.54.3.
fn denied_account(state: &State<'_>, spec: &KustomizationSpec) -> Option<Blocker> {
    let account = spec.decryption_account()?;
    let features = &state.input.features;
    let (gate, denied) =
        ("ObjectLevelWorkloadIdentity", format!("it may not decrypt with the service account {account}"));
    if features.denies_decryption_accounts {
        let detail = format!("{denied}, because the controller runs without the feature gate {gate}");
        return Some(Blocker::certain(ReasonCode::AccessDenied, detail));
    }
    let detail = format!("{denied} unless the controller runs with the feature gate {gate}");
    (!features.gates_are_known).then(|| Blocker::possible(ReasonCode::AccessDenied, detail))
}

/// Returns the reason why the controller denies a Kustomization the access to its source.
pub(crate) fn denied_source(state: &State<'_>, key: &NamespacedName, spec: &KustomizationSpec) -> Option<Reason> {
    let source = spec.source(&key.namespace);
    let features = &state.input.features;
    let why = if features.no_cross_namespace_refs && source.namespace != key.namespace {
        "with --no-cross-namespace-refs"
    } else if features.denies_external_artifacts && source.kind == "ExternalArtifact" {
        "without the feature gate ExternalArtifact"
    } else {
        return None;
    };
    Some(Reason::new(ReasonCode::AccessDenied, format!("it may not use {source}, because the controller runs {why}")))
}

/// Returns a blocker if the Secret with the keys for decryption does not exist: every build then fails.
fn missing_keys(state: &State<'_>, key: &NamespacedName, spec: &KustomizationSpec) -> Option<Blocker> {
    let secret = ObjectId::new("", "Secret", &key.namespace, spec.keys_secret()?);
    state.is_absent(&secret).then(|| {
        let detail = format!("{secret} with its keys for decryption does not exist");
        missing(state, &secret, Reason::new(ReasonCode::KeysMissing, detail))
    })
}

/// Returns a blocker if the object of `spec.kubeConfig` does not exist.
fn missing_kube_config(state: &State<'_>, key: &NamespacedName, spec: &KustomizationSpec) -> Option<Blocker> {
    let id = state.kube_config(&key.namespace, spec.value()).filter(|id| state.is_absent(id))?;
    let detail = format!("{id}, by which it reaches its cluster, does not exist");
    Some(missing(state, &id, Reason::new(ReasonCode::KubeConfigMissing, detail)))
}

/// Returns the blocker of an object that does not exist: it is certain unless another owner creates the object.
fn missing(state: &State<'_>, id: &ObjectId, reason: Reason) -> Blocker {
    Blocker { reason, is_certain: state.stays_absent(id) }
}
