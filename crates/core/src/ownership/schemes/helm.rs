//! Helm: a label and two annotations on every object of a release; the release itself is a Secret (or ConfigMap) per
//! revision, recognised by name and labels without reading its data.
//!
//! Source: reference ownership-and-prune 1.5, kustomize-controller 7.

use serde::Deserialize;
use serde_json::{Value, json};

use super::helm_release;
use crate::kubernetes::object::{ObjectMetadata, Resource};
use crate::ownership::annotation_strength;
use crate::ownership::{
    Claim, GcEligibility, Members, MetadataKey, OwnerId, OwnerSource, OwnerStatus, Protection, Record, Scheme,
};

/// Marks a hook: it carries the release's marks and is in no record of it.
pub const HOOK: &str = "helm.sh/hook";
const RELEASE_NAME: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const POLICY: &str = "helm.sh/resource-policy";
/// Kind under which a release is shown; it is not an object.
const KIND: &str = "Release";
const RECORD_PREFIX: &str = "sh.helm.release.v1.";
/// Type of the Secrets that hold records.
const RECORD_TYPE: &str = "helm.sh/release.v1";
/// Keys of what is left of a record that was read.
const LISTED: &str = "listed";
const UNREADABLE: &str = "unreadable";

const fn record(kind: &'static str) -> OwnerSource {
    OwnerSource { group: "", kind, selector: "owner=helm", full: false, only_if_marked: false }
}

/// The scheme record.
pub const SCHEME: Scheme = Scheme {
    name: "helm",
    system: "helm",
    member_keys: &[MetadataKey::Annotation(RELEASE_NAME)],
    selectors: &["app.kubernetes.io/managed-by=Helm"],
    owner_labels: &["owner"],
    other_marks: &[RELEASE_NAMESPACE, HOOK, MANAGED_BY],
    owner_kinds: &[],
    owner_sources: &[record("Secret"), record("ConfigMap")],
    managers: &[],
    claim,
    owner,
    proof: None,
    reach: hook_reach,
    keep_mark,
};

/// A release as an owner.
pub(crate) fn release(namespace: &str, name: &str) -> OwnerId {
    OwnerId::new(SCHEME.system, KIND, namespace, name)
}

/// All three marks are needed: `helm template` output carries the label alone.
fn claim(object: &ObjectMetadata) -> Option<Claim> {
    let name = object.annotations.get(RELEASE_NAME)?;
    let namespace = object.annotations.get(RELEASE_NAMESPACE)?;
    object.labels.get(MANAGED_BY).filter(|value| *value == "Helm")?;
    let strength = annotation_strength(object, RELEASE_NAME, &["helm", "helm-controller"]);
    let evidence = format!("annotations {RELEASE_NAME}={name}, {RELEASE_NAMESPACE}={namespace}");
    Some(Claim { owner: release(namespace, name), strength, evidence })
}

/// A release record without its data: only what it lists is left. `None` for Secrets of another type, whatever they are
/// labelled.
pub fn record_of(full: Resource) -> Option<Resource> {
    let secret = full.object.id.is("", "Secret");
    if secret && full.text("/type") != Some(RECORD_TYPE) {
        return None;
    }
    let members =
        helm_release::members(full.text("/data/release").unwrap_or_default(), secret, &full.object.id.namespace);
    let content = match members {
        Members::Listed(ids) => json!({ LISTED: ids }),
        Members::Unreadable(why) => json!({ UNREADABLE: why }),
        _ => Value::Null,
    };
    Some(Resource { object: full.object, content })
}

/// What [`record_of`] left.
fn recorded(content: &Value) -> Members {
    if let Some(why) = content.get(UNREADABLE).and_then(Value::as_str) {
        return Members::Unreadable(why.to_owned());
    }
    let listed = content.get(LISTED).and_then(|listed| Vec::deserialize(listed).ok());
    listed.map_or(Members::Unrecorded, Members::Listed)
}

/// One revision of a release. Its data is parsed only where the caller chose to read it.
fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let label = |key: &str| object.labels.get(key);
    let revision = object.id.name.strip_prefix(RECORD_PREFIX)?;
    let kind_fits = object.id.is("", "Secret") || object.id.is("", "ConfigMap");
    if label("owner") != Some("helm") || !kind_fits {
        return None;
    }
    let (name, number) = revision.rsplit_once(".v")?;
    let state = match label("status").unwrap_or_default() {
        "deployed" | "superseded" | "" => OwnerStatus::Ready,
        status if status.starts_with("pending") => OwnerStatus::Reconciling,
        "uninstalling" => OwnerStatus::Terminating,
        status => OwnerStatus::NotReady(format!("its newest revision is {status}")),
    };
    Some(Record {
        state,
        rank: number.parse().ok()?,
        ..Record::new(release(&object.id.namespace, name), recorded(content))
    })
}

/// Hooks are not part of the manifest that a release records.
pub(crate) fn hook_reach(object: &ObjectMetadata) -> GcEligibility {
    match object.annotations.get(HOOK) {
        Some(_) => GcEligibility::NeverRecorded("it is a Helm hook"),
        None => GcEligibility::Normal,
    }
}

/// Any value protects: Helm itself reads the key in three ways.
pub(crate) fn keep_mark(object: &ObjectMetadata) -> Option<Protection> {
    let value = object.annotations.get(POLICY)?;
    Some(Protection { key: POLICY.to_owned(), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::Strength;
    use crate::testing::{Make, object};

    #[test]
    fn all_three_marks_make_a_claim() {
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
        assert_eq!((found.id, found.rank, found.state), (release("prod", "my.web"), 12, OwnerStatus::Ready));
        let pending = owner(&record("sh.helm.release.v1.web.v1", "pending-upgrade"), &Value::Null).unwrap();
        assert_eq!(pending.state, OwnerStatus::Reconciling);
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
        let full = |kind: &str| secret().full(json!({"type": kind, "data": {"release": data, "other": "hunter2"}}));
        let left = record_of(full(RECORD_TYPE)).unwrap();
        assert_eq!(
            left.content,
            json!({"listed": [{"group": "", "kind": "Secret", "namespace": "prod", "name": "web"}]})
        );
        let listed = Members::Listed(vec![crate::kubernetes::object::ObjectId::new("", "Secret", "prod", "web")]);
        assert_eq!(owner(&left.object, &left.content).unwrap().members, listed);
        assert_eq!(record_of(full("Opaque")), None, "of another type");
        let broken = record_of(secret().full(json!({"type": RECORD_TYPE, "data": {"release": "hunter2"}}))).unwrap();
        assert!(matches!(owner(&broken.object, &broken.content).unwrap().members, Members::Unreadable(_)));
        assert!(!broken.content.to_string().contains("hunter2"));
    }
}
