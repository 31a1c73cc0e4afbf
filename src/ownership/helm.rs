//! Helm: a label and two annotations on every object of a release; the release itself is a Secret (or ConfigMap) per
//! revision, recognised by name and labels without reading its data.
//!
//! Source: reference ownership-and-prune 1.5, kustomize-controller 7.

use serde_json::Value;

use super::{Claim, KeepMark, Key, Members, OwnerId, OwnerSource, OwnerState, Reach, Record, Scheme};
use super::{annotation_strength, helm_release};
use crate::object::Object;

/// Marks a hook: it carries the release's marks and is in no record of it.
pub const HOOK: &str = "helm.sh/hook";
const RELEASE_NAME: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const POLICY: &str = "helm.sh/resource-policy";
/// Kind under which a release is shown; it is not an object.
const KIND: &str = "Release";
const RECORD_PREFIX: &str = "sh.helm.release.v1.";

const fn record(kind: &'static str) -> OwnerSource {
    OwnerSource { group: "", kind, selector: "owner=helm", full: false, only_if_marked: false }
}

/// The scheme record.
pub const SCHEME: Scheme = Scheme {
    name: "helm",
    system: "helm",
    member_keys: &[Key::Annotation(RELEASE_NAME)],
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
fn claim(object: &Object) -> Option<Claim> {
    let name = object.annotations.get(RELEASE_NAME)?;
    let namespace = object.annotations.get(RELEASE_NAMESPACE)?;
    object.labels.get(MANAGED_BY).filter(|value| *value == "Helm")?;
    let strength = annotation_strength(object, RELEASE_NAME, &["helm", "helm-controller"]);
    let evidence = format!("annotations {RELEASE_NAME}={name}, {RELEASE_NAMESPACE}={namespace}");
    Some(Claim { owner: release(namespace, name), strength, evidence })
}

/// One revision of a release. Its data is parsed only where the caller chose to read it.
fn owner(object: &Object, content: &Value) -> Option<Record> {
    let label = |key: &str| object.labels.get(key);
    let revision = object.id.name.strip_prefix(RECORD_PREFIX)?;
    let kind_fits = object.id.is("", "Secret") || object.id.is("", "ConfigMap");
    if label("owner") != Some("helm") || !kind_fits {
        return None;
    }
    let (name, number) = revision.rsplit_once(".v")?;
    let members = match content.pointer("/data/release").and_then(Value::as_str) {
        Some(data) => helm_release::members(data, object.id.is("", "Secret"), &object.id.namespace),
        None => Members::Unrecorded,
    };
    let state = match label("status").unwrap_or_default() {
        "deployed" | "superseded" | "" => OwnerState::Settled,
        status if status.starts_with("pending") => OwnerState::Reconciling,
        "uninstalling" => OwnerState::Terminating,
        status => OwnerState::NotReady(format!("its newest revision is {status}")),
    };
    Some(Record { state, rank: number.parse().ok()?, ..Record::new(release(&object.id.namespace, name), members) })
}

/// Hooks are not part of the manifest that a release records.
pub(crate) fn hook_reach(object: &Object) -> Reach {
    match object.annotations.get(HOOK) {
        Some(_) => Reach::NeverRecorded("it is a Helm hook"),
        None => Reach::Normal,
    }
}

/// Any value protects: Helm itself reads the key in three ways.
pub(crate) fn keep_mark(object: &Object) -> Option<KeepMark> {
    let value = object.annotations.get(POLICY)?;
    Some(KeepMark { key: POLICY.to_owned(), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::Strength;
    use crate::ownership::testing::{Make, object};

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
        assert_eq!((found.id, found.rank, found.state), (release("prod", "my.web"), 12, OwnerState::Settled));
        let pending = owner(&record("sh.helm.release.v1.web.v1", "pending-upgrade"), &Value::Null).unwrap();
        assert_eq!(pending.state, OwnerState::Reconciling);
        for name in ["web", "sh.helm.release.v1.web", "sh.helm.release.v1.web.vx", "sh.helm.release.v1."] {
            assert!(owner(&record(name, "deployed"), &Value::Null).is_none(), "{name}");
        }
        assert!(
            owner(&object("", "Pod", "prod", "sh.helm.release.v1.web.v1").label("owner", "helm"), &Value::Null)
                .is_none()
        );
    }
}
