//! Helm: a label and two annotations on every object of a release; the release itself is a Secret (or ConfigMap) per
//! revision, recognised by name and labels without reading its data.
//!
//! Source: docs/reference/ownership.md 2.4 and docs/reference/flux.md 6.

pub(crate) mod release_record;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::kubernetes::object::{ObjectMetadata, Resource};
use crate::ownership::scheme::claim::{Claim, ClaimEvidence, OwnerId, annotation_strength};
use crate::ownership::scheme::members::Members;
use crate::ownership::scheme::owner_status::OwnerStatus;
use crate::ownership::scheme::protection::ProtectionKey;
use crate::ownership::scheme::{GcEligibility, MetadataKey, OwnerSource, Record, Scheme};

/// Annotation of a hook: it carries the labels of the release and is in no record of it.
pub const HOOK: &str = "helm.sh/hook";
/// Annotation with the weight of a hook: those with a lower one run first.
pub(crate) const HOOK_WEIGHT: &str = "helm.sh/hook-weight";
/// Annotation that says when a hook is deleted.
pub(crate) const HOOK_POLICY: &str = "helm.sh/hook-delete-policy";
/// Annotation of the objects of templates: the name of the release.
pub(crate) const RELEASE_NAME: &str = "meta.helm.sh/release-name";
pub(crate) const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Kind of a release as an owner; it is not an object.
const KIND: &str = "Release";
const RECORD_PREFIX: &str = "sh.helm.release.v1.";
/// Type of the Secrets that contain records.
const RECORD_TYPE: &str = "helm.sh/release.v1";
/// Keys in the reduced content of a record.
const LISTED: &str = "listed";
const UNREADABLE: &str = "unreadable";

const fn record(kind: &'static str) -> OwnerSource {
    OwnerSource { group: "", kind, selector: "owner=helm", full: false, only_if_claimed: false }
}

pub(crate) const SCHEME: Scheme = Scheme {
    member_keys: &[MetadataKey::Annotation(RELEASE_NAME)],
    selectors: &["app.kubernetes.io/managed-by=Helm"],
    other_keys: &[RELEASE_NAMESPACE, HOOK, HOOK_POLICY, MANAGED_BY],
    common_labels: &["owner", MANAGED_BY],
    // Helm itself interprets values in three ways, so any value protects.
    protections: &[ProtectionKey::any("helm.sh/resource-policy")],
    claim,
    gc_eligibility: hook_eligibility,
    owner_labels: &["owner"],
    owner_sources: &[record("Secret"), record("ConfigMap")],
    owner,
    has_open_record: true,
    bookkeeping,
    ..Scheme::new("helm", "helm")
};

/// Returns the identity of a release as an owner.
pub(crate) fn release(namespace: &str, name: &str) -> OwnerId {
    OwnerId::new(SCHEME.system, KIND, namespace, name)
}

/// All three keys are needed: the output of `helm template` has the label alone.
fn claim(object: &ObjectMetadata) -> Option<Claim> {
    let name = object.annotations.get(RELEASE_NAME)?;
    let namespace = object.annotations.get(RELEASE_NAMESPACE)?;
    object.labels.get(MANAGED_BY).filter(|value| *value == "Helm")?;
    let strength = annotation_strength(object, RELEASE_NAME, &["helm", "helm-controller"]);
    let evidence = ClaimEvidence::of(format!("annotations {RELEASE_NAME}={name}, {RELEASE_NAMESPACE}={namespace}"));
    Some(Claim { owner: release(namespace, name), strength, evidence })
}

/// Reduces a release record to the identities that it lists. `None` for Secrets of another type, whatever their labels.
pub fn record_of(full: Resource) -> Option<Resource> {
    let secret = full.object.id.is("", "Secret");
    if secret && full.text("/type") != Some(RECORD_TYPE) {
        return None;
    }
    let members =
        release_record::members(full.text("/data/release").unwrap_or_default(), secret, &full.object.id.namespace);
    let content = match members {
        Members::Listed(ids) => json!({ LISTED: ids }),
        Members::Unreadable(why) => json!({ UNREADABLE: why }),
        _ => Value::Null,
    };
    Some(Resource { object: full.object, content })
}

/// Returns the members in a record that [`record_of`] reduced.
fn recorded(content: &Value) -> Members {
    if let Some(why) = content.get(UNREADABLE).and_then(Value::as_str) {
        return Members::Unreadable(why.to_owned());
    }
    let listed = content.get(LISTED).and_then(|listed| Vec::deserialize(listed).ok());
    listed.map_or(Members::Unrecorded, Members::Listed)
}

/// Returns the record of one revision. Its data is read only if the user allowed to read Secrets.
fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let revision = object.id.name.strip_prefix(RECORD_PREFIX)?;
    let kind_fits = object.id.is("", "Secret") || object.id.is("", "ConfigMap");
    if object.labels.get("owner") != Some("helm") || !kind_fits {
        return None;
    }
    let (name, number) = revision.rsplit_once(".v")?;
    let status = match object.labels.get("status").unwrap_or_default() {
        "deployed" | "superseded" | "" => OwnerStatus::Ready,
        status if status.starts_with("pending") => OwnerStatus::Reconciling,
        "uninstalling" => OwnerStatus::Terminating,
        status => OwnerStatus::NotReady(format!("its newest revision is {status}")),
    };
    Some(Record {
        status,
        rank: number.parse().ok()?,
        ..Record::new(release(&object.id.namespace, name), recorded(content))
    })
}

/// Hooks are not part of the manifest that a release records.
pub(crate) fn hook_eligibility(object: &ObjectMetadata) -> GcEligibility {
    match object.annotations.get(HOOK) {
        Some(_) => GcEligibility::NeverRecorded("it is a Helm hook"),
        None => GcEligibility::Normal,
    }
}

fn bookkeeping(object: &ObjectMetadata) -> Option<&'static str> {
    let is_record = object.labels.get("owner") == Some("helm") && object.id.name.starts_with(RECORD_PREFIX);
    is_record.then_some("the record of a Helm release")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::scheme::claim::Strength;
    use crate::testing::{Build, object};

    #[test]
    fn all_three_keys_make_a_claim() {
        let both =
            object("", "Service", "prod", "web").annotation(RELEASE_NAME, "web").annotation(RELEASE_NAMESPACE, "prod");
        let full = both.clone().label(MANAGED_BY, "Helm");
        assert_eq!(claim(&full).unwrap().owner, release("prod", "web"));
        assert_eq!(claim(&both), None);
        assert_eq!(claim(&both.label(MANAGED_BY, "helm")), None, "lower case");
        assert_eq!(claim(&object("", "Service", "prod", "web").label(MANAGED_BY, "Helm")), None, "helm template");
        let written = full.writer("helm", RELEASE_NAME);
        assert_eq!(claim(&written).unwrap().strength, Strength::Corroborated);
    }

    #[test]
    fn a_release_is_known_by_its_record() {
        let record =
            |name: &str, status| object("", "Secret", "prod", name).label("owner", "helm").label("status", status);
        let found = owner(&record("sh.helm.release.v1.my.web.v12", "deployed"), &Value::Null).unwrap();
        assert_eq!((found.id, found.rank, found.status), (release("prod", "my.web"), 12, OwnerStatus::Ready));
        let pending = owner(&record("sh.helm.release.v1.web.v1", "pending-upgrade"), &Value::Null).unwrap();
        assert_eq!(pending.status, OwnerStatus::Reconciling);
        for name in ["web", "sh.helm.release.v1.web", "sh.helm.release.v1.web.vx", "sh.helm.release.v1."] {
            assert!(owner(&record(name, "deployed"), &Value::Null).is_none(), "{name}");
        }
        assert!(
            owner(&object("", "Pod", "prod", "sh.helm.release.v1.web.v1").label("owner", "helm"), &Value::Null)
                .is_none()
        );
    }

    #[test]
    fn nothing_but_identities_is_left_of_a_record() {
        use base64::Engine;
        use base64::engine::general_purpose::STANDARD;
        let manifest = "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {password: hunter2}\n";
        let release = json!({"name": "web", "manifest": manifest, "config": {"password": "hunter2"}}).to_string();
        let data = STANDARD.encode(STANDARD.encode(release));
        let secret = || object("", "Secret", "prod", "sh.helm.release.v1.web.v1").label("owner", "helm");
        let full =
            |kind: &str| secret().with_content(json!({"type": kind, "data": {"release": data, "other": "hunter2"}}));
        let left = record_of(full(RECORD_TYPE)).unwrap();
        assert_eq!(
            left.content,
            json!({"listed": [{"group": "", "kind": "Secret", "namespace": "prod", "name": "web"}]})
        );
        let listed = Members::Listed(vec![crate::kubernetes::object::ObjectId::new("", "Secret", "prod", "web")]);
        assert_eq!(owner(&left.object, &left.content).unwrap().members, listed);
        assert_eq!(record_of(full("Opaque")), None, "of another type");
        let broken =
            record_of(secret().with_content(json!({"type": RECORD_TYPE, "data": {"release": "hunter2"}}))).unwrap();
        assert!(matches!(owner(&broken.object, &broken.content).unwrap().members, Members::Unreadable(_)));
        assert!(!broken.content.to_string().contains("hunter2"));
    }
}
