//! Flux v2 HelmRelease: two owner labels on rendered objects, `status.inventory` since helm-controller 1.5, and the Helm
//! release that it drives.
//!
//! Source: docs/reference/flux.md 1 and 6.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{flux, helm};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, parse_time};
use crate::ownership::scheme::claim::{Operations, OwnerId, Strength, label_claim};
use crate::ownership::scheme::hub::HubRules;
use crate::ownership::scheme::members::Members;
use crate::ownership::scheme::protection::ProtectionKey;
use crate::ownership::scheme::{AliasProof, Claimant, MetadataKey, Record, Scheme};

/// Label that names the owning HelmRelease.
pub const NAME: &str = "helm.toolkit.fluxcd.io/name";
/// Label that names the namespace of the owning HelmRelease.
pub const NAMESPACE: &str = "helm.toolkit.fluxcd.io/namespace";
/// API group of HelmRelease.
pub const GROUP: &str = "helm.toolkit.fluxcd.io";
/// Kind of the owner.
pub const KIND: &str = "HelmRelease";
/// Label or annotation of an object whose drift helm-controller overlooks.
pub(crate) const DRIFT: &str = "helm.toolkit.fluxcd.io/driftDetection";
const MANAGERS: &[&str] = &["helm-controller"];
/// Longer release names are shortened.
const LONGEST_NAME: usize = 53;
const BASE: Scheme = flux::base("helmrelease");

pub(crate) const SCHEME: Scheme = Scheme {
    member_keys: &[MetadataKey::Label(NAME), MetadataKey::Label(NAMESPACE)],
    selectors: &[NAME],
    other_keys: &[helm::HOOK, DRIFT],
    managers: MANAGERS,
    protections: &[
        ProtectionKey::except("helm.toolkit.fluxcd.io/prune", &["enabled"]),
        ProtectionKey::except("helm.toolkit.fluxcd.io/reconcile", &["enabled"]),
    ],
    claim: |object| label_claim(object, flux::SYSTEM, KIND, [NAME, NAMESPACE], MANAGERS, Operations::Any),
    gc_eligibility: helm::hook_eligibility,
    owner_kinds: &[(GROUP, KIND)],
    owner,
    alias_proof: Some(AliasProof {
        is_proven: |release, owner| release.namespace == owner.namespace,
        needed: "the labels of the HelmRelease on the object, or a HelmRelease in the namespace of the release",
    }),
    supersedes,
    drives: &[&helm::SCHEME],
    hub: Some(HubRules { target: flux::hub_target, keeps_aliases: false }),
    ..BASE
};

/// Besides the rule of all of Flux: the claim of a HelmRelease that is gone supersedes the claim of its Helm release. The
/// release of a live HelmRelease resolves to it already, so a different owner is another release; and a release that
/// outlived its HelmRelease is Helm's again.
fn supersedes(claim: &Claimant<'_>, other: &Claimant<'_>) -> bool {
    let is_driven = other.owner.system == helm::SCHEME.system && !other.is_live;
    (BASE.supersedes)(claim, other) || (is_driven && !claim.is_live && claim.strength <= Strength::Bare)
}

fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let id = OwnerId::new(flux::SYSTEM, KIND, &object.id.namespace, &object.id.name);
    let mut members = flux::inventory_members(content);
    if let (Members::Listed(ids), Some(chart)) = (&mut members, helm_chart(content)) {
        ids.push(chart);
    }
    Some(Record {
        aliases: releases(object, content),
        finished: content.pointer("/status/history/0/lastDeployed").and_then(Value::as_str).and_then(parse_time),
        status: flux::status(object, content, None),
        ..Record::new(id, members)
    })
}

/// Returns the HelmChart that the controller creates for a release: it carries the owner labels and is in no inventory.
pub(crate) fn helm_chart(content: &Value) -> Option<ObjectId> {
    let (namespace, name) = content.pointer("/status/helmChart")?.as_str()?.split_once('/')?;
    Some(ObjectId::new("source.toolkit.fluxcd.io", "HelmChart", namespace, name))
}

/// Returns true if a Secret is one of the records that Helm keeps of this release, by name and namespace in the status.
pub fn is_record(content: &Value, object: &ObjectMetadata) -> bool {
    let (Some(name), Some(stored)) =
        (text(content, "/status/history/0/name"), text(content, "/status/storageNamespace"))
    else {
        return false;
    };
    is_record_of(object, stored, name)
}

/// Returns true if a Secret is one of the records that Helm keeps of the release with this name in a namespace.
pub(crate) fn is_record_of(object: &ObjectMetadata, namespace: &str, name: &str) -> bool {
    let labels = &object.labels;
    object.id.is("", "Secret")
        && *object.id.namespace == *namespace
        && labels.get("owner") == Some("helm")
        && labels.get("name") == Some(name)
}

/// Returns the name of the release of a HelmRelease with this spec, and the namespace of Helm's records of it.
pub(crate) fn release_record(id: &ObjectId, spec: &Value) -> (String, String) {
    let stored = text(spec, "/storageNamespace").unwrap_or(&id.namespace);
    (release_name(id, spec), stored.to_owned())
}

fn release_name(id: &ObjectId, spec: &Value) -> String {
    shorten(&match (text(spec, "/releaseName"), text(spec, "/targetNamespace")) {
        (Some(asked), _) => asked.to_owned(),
        (None, Some(target)) => format!("{target}-{}", id.name),
        (None, None) => id.name.to_string(),
    })
}

/// Returns the non-empty text at a JSON pointer.
fn text<'a>(content: &'a Value, pointer: &str) -> Option<&'a str> {
    content.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns the Helm release as Helm names it: in the namespace of its objects, and in the namespace of its record.
fn releases(object: &ObjectMetadata, content: &Value) -> Vec<OwnerId> {
    let target = text(content, "/spec/targetNamespace");
    let spec = content.get("spec").unwrap_or(&Value::Null);
    let name = match text(content, "/status/history/0/name") {
        Some(installed) => installed.to_owned(),
        None => release_name(&object.id, spec),
    };
    let installed = text(content, "/status/history/0/namespace").or(target).unwrap_or(&object.id.namespace);
    let stored = text(content, "/status/storageNamespace")
        .or(text(content, "/spec/storageNamespace"))
        .unwrap_or(&object.id.namespace);
    let mut namespaces = vec![installed, stored];
    namespaces.dedup();
    namespaces.into_iter().map(|namespace| helm::release(namespace, &name)).collect()
}

/// Returns the first 40 characters, `-`, and 12 hex digits of the SHA-256 of the whole name, if it is too long.
fn shorten(name: &str) -> String {
    if name.len() <= LONGEST_NAME {
        return name.to_owned();
    }
    let digest = crate::text::hex(&Sha256::digest(name)[..6]);
    format!("{}-{digest}", name.chars().take(40).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::object;

    #[test]
    fn the_chart_that_the_controller_made_is_a_member() {
        let release = object(GROUP, KIND, "apps", "podinfo");
        let content = json!({"status": {
            "helmChart": "apps/apps-podinfo",
            "inventory": {"entries": [{"id": "apps_podinfo__Service", "v": "v1"}]},
        }});
        let record = owner(&release, &content).unwrap();
        let chart = ObjectId::new("source.toolkit.fluxcd.io", "HelmChart", "apps", "apps-podinfo");
        assert_eq!(record.members, Members::Listed(vec![ObjectId::new("", "Service", "apps", "podinfo"), chart]));
    }

    #[test]
    fn the_release_name_comes_from_history_else_from_the_spec() {
        let release = object(GROUP, KIND, "apps", "podinfo");
        let rows = [
            (json!({}), vec![("apps", "podinfo")]),
            (json!({"spec": {"targetNamespace": "prod"}}), vec![("prod", "prod-podinfo"), ("apps", "prod-podinfo")]),
            (json!({"spec": {"releaseName": "x", "storageNamespace": "st"}}), vec![("apps", "x"), ("st", "x")]),
            (
                json!({"status": {"history": [{"name": "y", "namespace": "z"}], "storageNamespace": "z"}}),
                vec![("z", "y")],
            ),
        ];
        for (content, expected) in rows {
            let expected: Vec<_> = expected.into_iter().map(|(ns, name)| helm::release(ns, name)).collect();
            assert_eq!(releases(&release, &content), expected, "{content}");
        }
    }

    #[test]
    fn a_long_release_name_is_shortened_to_53_characters() {
        let long = shorten(&"a".repeat(54));
        assert_eq!(long.len(), LONGEST_NAME);
        assert!(long.starts_with(&format!("{}-", "a".repeat(40))));
        assert_eq!(shorten(&"a".repeat(53)), "a".repeat(53));
    }
}
