//! Common rules of the owners of Flux v2 and flux-operator: inventory, suspension, status, source, and the takeover of
//! objects from Flux v1.

use serde_json::Value;

use super::{flux_v1, inventory_id};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, list_at, parse_time, text_at};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::scheme::claim::Strength;
use crate::ownership::scheme::hub::{Access, HubTarget};
use crate::ownership::scheme::members::Members;
use crate::ownership::scheme::owner_status::{OwnerStatus, condition, is_true};
use crate::ownership::scheme::{Claimant, Scheme, SourceReference};

pub(crate) const SYSTEM: &str = "flux";

/// Annotation that suspends an object, whatever its value (fluxcd/flux2 pull request 4271).
pub const SUSPENDED: &str = "reconcile.fluxcd.io/suspended";

/// Scheme without keys and owners, for the kinds of Flux to build on.
pub(crate) const fn base(name: &'static str) -> Scheme {
    Scheme {
        has_own_controller: true,
        home: Some("flux-system"),
        supersedes: |claim, other| claim.strength <= Strength::Corroborated && is_of_flux_v1(other),
        revision,
        last_reconciled: |owner| owner.text("/status/history/0/lastReconciled").and_then(parse_time),
        source,
        ..Scheme::new(name, SYSTEM)
    }
}

fn is_of_flux_v1(claim: &Claimant<'_>) -> bool {
    claim.owner.system == flux_v1::SCHEME.system
}

/// Returns true if an object is suspended: by the annotation, by `spec.suspend`, or by the switch annotation of its kind.
pub(crate) fn is_suspended(object: &ObjectMetadata, content: &Value, switch: Option<&str>) -> bool {
    object.annotations.get(SUSPENDED).is_some()
        || content.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or_default()
        || switch.and_then(|key| object.annotations.get(key)).is_some_and(is_switched_off)
}

/// Returns true if a `…/reconcile` annotation with this value suspends.
pub(crate) fn is_switched_off(value: &str) -> bool {
    value.eq_ignore_ascii_case("disabled")
}

/// Returns the status of an owner from its suspension, its observed generation, and the conditions Reconciling and Ready.
pub(crate) fn status(object: &ObjectMetadata, content: &Value, switch: Option<&str>) -> OwnerStatus {
    if is_suspended(object, content, switch) {
        return OwnerStatus::Suspended;
    }
    let ready = condition(content, "Ready");
    let observed = content
        .pointer("/status/observedGeneration")
        .and_then(Value::as_i64)
        .or_else(|| ready.and_then(|ready| ready.observed_generation));
    if is_true(content, "Reconciling") || observed.is_some_and(|generation| generation != object.generation) {
        return OwnerStatus::Reconciling;
    }
    match ready {
        Some(ready) if ready.status == "True" => OwnerStatus::Ready,
        Some(ready) if ready.status == "Unknown" => OwnerStatus::Reconciling,
        Some(ready) => OwnerStatus::NotReady(ready.message.to_owned()),
        None => OwnerStatus::NotReady("it has no Ready condition yet".to_owned()),
    }
}

/// Returns the members in `status.inventory.entries`.
pub(crate) fn inventory_members(content: &Value) -> Members {
    let Some(entries) = content.pointer("/status/inventory/entries").and_then(Value::as_array) else {
        return Members::Unrecorded;
    };
    let ids = entries.iter().map(|entry| entry.get("id").and_then(Value::as_str).unwrap_or_default());
    let is_remote = content.pointer("/spec/kubeConfig").is_some_and(|config| !config.is_null());
    match ids.map(inventory_id::parse).collect() {
        Ok(ids) if is_remote => Members::Remote(ids),
        Ok(ids) => Members::Listed(ids),
        Err(reason) => Members::Unreadable(reason),
    }
}

/// Returns the objects of a readable inventory with the API version, without the group, in which each is listed.
pub(crate) fn inventory_versions(content: &Value) -> impl Iterator<Item = (ObjectId, &str)> {
    let entries = list_at(content, "/status/inventory/entries").iter();
    entries.filter_map(|entry| {
        let id = inventory_id::parse(entry.get("id")?.as_str()?).ok()?;
        Some((id, entry.get("v")?.as_str().filter(|version| !version.is_empty())?))
    })
}

/// Returns the destination in `spec.kubeConfig` of an owner.
pub(crate) fn hub_target(owner: &Resource) -> HubTarget {
    target(owner.spec(), &owner.object.id.namespace)
}

/// Returns the destination in the `kubeConfig` of the spec of an owner in a namespace.
pub(crate) fn target(spec: &Value, namespace: &str) -> HubTarget {
    let Some(config) = spec.get("kubeConfig").filter(|config| !config.is_null()) else { return HubTarget::Hub };
    for (kind, reference) in [("Secret", "secretRef"), ("ConfigMap", "configMapRef")] {
        let [name, key] = ["name", "key"].map(|field| text_at(config, &format!("/{reference}/{field}")));
        if !name.is_empty() {
            let id = ObjectId::new("", kind, namespace, name);
            return HubTarget::Access(Access { id, key: (!key.is_empty()).then(|| key.to_owned()) });
        }
    }
    HubTarget::Unknown
}

fn revision(owner: &Resource) -> Option<String> {
    let pointers = ["/status/lastAppliedRevision", "/status/history/0/chartVersion"];
    pointers.into_iter().find_map(|pointer| owner.text(pointer)).map(str::to_owned)
}

/// Returns the source object that an owner references, with its URL and revision if the source was read.
fn source(snapshot: &Snapshot, owner: &Resource) -> Option<SourceReference> {
    let pointers = ["/spec/sourceRef", "/spec/chartRef", "/spec/chart/spec/sourceRef"];
    let reference = pointers.into_iter().find_map(|pointer| owner.at(pointer))?;
    let kind = reference.get("kind")?.as_str()?;
    let name = reference.get("name")?.as_str()?;
    let namespace = reference.get("namespace").and_then(Value::as_str).unwrap_or(&owner.object.id.namespace);
    let found = snapshot.resources.iter().find(|candidate| {
        let id = &candidate.object.id;
        let is_source = id.group.starts_with("source.") && id.group.contains("fluxcd.io");
        is_source && &*id.kind == kind && &*id.namespace == namespace && &*id.name == name
    });
    Some(SourceReference {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        path: owner.text("/spec/path").or_else(|| owner.text("/spec/chart/spec/chart")).map(str::to_owned),
        url: found
            .and_then(|found| found.text("/spec/url").or_else(|| found.text("/spec/endpoint")))
            .map(str::to_owned),
        revision: found.and_then(|found| found.text("/status/artifact/revision")).map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Build, object};

    #[test]
    fn an_inventory_is_listed_remote_broken_or_not_there() {
        let entries = json!([{"id": "shop_web_apps_Deployment", "v": "v1"}]);
        let web = ObjectId::new("apps", "Deployment", "shop", "web");
        let local = json!({"spec": {"kubeConfig": null}, "status": {"inventory": {"entries": entries}}});
        assert_eq!(inventory_members(&local), Members::Listed(vec![web.clone()]));
        let remote = json!({"spec": {"kubeConfig": {}}, "status": {"inventory": {"entries": entries}}});
        assert_eq!(inventory_members(&remote), Members::Remote(vec![web]));
        for broken in [json!([{"id": "a_b"}]), json!([{"v": "v1"}]), json!([7]), json!([{"id": {}}])] {
            let status = json!({"status": {"inventory": {"entries": broken}}});
            assert!(matches!(inventory_members(&status), Members::Unreadable(_)), "{broken}");
        }
        assert_eq!(inventory_members(&json!({"status": {"inventory": "absurd"}})), Members::Unrecorded);
        assert_eq!(inventory_members(&Value::Null), Members::Unrecorded);
    }

    fn ready_condition(status: &str) -> Value {
        json!({"type": "Ready", "status": status, "message": "m"})
    }

    #[test]
    fn an_owner_is_ready_only_when_nothing_is_going_on() {
        let no_condition = OwnerStatus::NotReady("it has no Ready condition yet".to_owned());
        let rows = [
            (
                "ready",
                json!({"status": {"observedGeneration": 3, "conditions": [ready_condition("True")]}}),
                OwnerStatus::Ready,
            ),
            (
                "false",
                json!({"status": {"conditions": [ready_condition("False")]}}),
                OwnerStatus::NotReady("m".to_owned()),
            ),
            ("unknown", json!({"status": {"conditions": [ready_condition("Unknown")]}}), OwnerStatus::Reconciling),
            (
                "old",
                json!({"status": {"observedGeneration": 2, "conditions": [ready_condition("True")]}}),
                OwnerStatus::Reconciling,
            ),
            (
                "reconciling",
                json!({"status": {"conditions": [ready_condition("True"), {"type": "Reconciling", "status": "True"}]}}),
                OwnerStatus::Reconciling,
            ),
            (
                "old condition",
                json!({"status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]}}),
                OwnerStatus::Reconciling,
            ),
            (
                "suspended",
                json!({"spec": {"suspend": true}, "status": {"conditions": [ready_condition("True")]}}),
                OwnerStatus::Suspended,
            ),
            ("new", json!({}), no_condition.clone()),
            ("absurd", json!({"status": {"conditions": "x"}}), no_condition),
        ];
        let mut owner = object("kustomize.toolkit.fluxcd.io", "Kustomization", "flux-system", "apps");
        owner.generation = 3;
        for (name, content, expected) in rows {
            assert_eq!(status(&owner, &content, None), expected, "{name}");
        }
        let settled = json!({"status": {"conditions": [ready_condition("True")]}});
        let annotated = owner.clone().annotation(SUSPENDED, "");
        assert_eq!(status(&annotated, &settled, None), OwnerStatus::Suspended);
        let switched = owner.annotation("example.com/reconcile", "Disabled");
        assert_eq!(status(&switched, &settled, Some("example.com/reconcile")), OwnerStatus::Suspended);
        assert_eq!(status(&switched, &settled, None), OwnerStatus::Ready);
    }
}
