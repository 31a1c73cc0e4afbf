//! Flux v2 Kustomization: two owner labels on every applied object, `status.inventory` on the Kustomization.
//!
//! Source: reference kustomize-controller 1.1 (inventory) and 9 (classification).

use serde_json::Value;

use super::{Claim, KeepMark, Key, Members, OwnerId, Scheme, inventory_id, label_strength};
use crate::object::{FullObject, Object};

/// Label that names the owning Kustomization.
pub const NAME: &str = "kustomize.toolkit.fluxcd.io/name";
/// Label that names its namespace.
pub const NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";
/// API group of Kustomization.
pub const GROUP: &str = "kustomize.toolkit.fluxcd.io";
/// Kind of the owner.
pub const KIND: &str = "Kustomization";
/// Keys that protect from pruning, with the value that does (compared without case; label or annotation).
const KEEP: [(&str, &str); 3] = [
    ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
    ("kustomize.toolkit.fluxcd.io/reconcile", "disabled"),
    ("kustomize.toolkit.fluxcd.io/ssa", "ignore"),
];

/// The scheme record.
pub const SCHEME: Scheme = Scheme {
    system: "flux",
    member_keys: &[Key::Label(NAME), Key::Label(NAMESPACE)],
    owner_kinds: &[(GROUP, KIND)],
    claim,
    members,
    keep_mark,
};

fn claim(object: &Object) -> Option<Claim> {
    let name = object.labels.get(NAME)?;
    let namespace = object.labels.get(NAMESPACE)?;
    let strength = label_strength(object, NAME, &["kustomize-controller"]);
    let owner = OwnerId {
        system: SCHEME.system.to_owned(),
        kind: KIND.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    Some(Claim { owner, strength, evidence: format!("labels {NAME}={name}, {NAMESPACE}={namespace}") })
}

fn members(owner: &FullObject) -> Members {
    let Some(entries) = owner.at("/status/inventory/entries").and_then(Value::as_array) else {
        return Members::Unrecorded;
    };
    let ids = entries.iter().map(|entry| entry.get("id").and_then(Value::as_str).unwrap_or_default());
    match ids.map(inventory_id::parse).collect() {
        Ok(ids) if owner.at("/spec/kubeConfig").is_some() => Members::Remote(ids),
        Ok(ids) => Members::Listed(ids),
        Err(broken) => Members::Unreadable(broken),
    }
}

fn keep_mark(object: &Object) -> Option<KeepMark> {
    KEEP.iter().find_map(|(key, protecting)| {
        let both = [object.labels.get(key), object.annotations.get(key)];
        let value = both.into_iter().flatten().find(|value| value.eq_ignore_ascii_case(protecting))?;
        Some(KeepMark { key: (*key).to_owned(), value: value.to_owned() })
    })
}
