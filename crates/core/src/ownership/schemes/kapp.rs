//! kapp: a label with the number of the app, and an annotation that names the object; the app is a ConfigMap.
//!
//! Source: docs/reference/ownership.md 2.7.

use md5::{Digest, Md5};
use serde::Deserialize;
use serde_json::Value;

use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::scheme::claim::{Claim, ClaimEvidence, OwnerId, Strength};
use crate::ownership::scheme::members::{Members, Scope};
use crate::ownership::scheme::owner_status::OwnerStatus;
use crate::ownership::scheme::protection::ProtectionKey;
use crate::ownership::scheme::{AliasProof, MetadataKey, OwnerSource, Record, Scheme};

const APP: &str = "kapp.k14s.io/app";
const IDENTITY: &str = "kapp.k14s.io/identity";
const ASSOCIATION: &str = "kapp.k14s.io/association";
const IS_APP: &str = "kapp.k14s.io/is-app";
const KIND: &str = "App";
/// Suffix of app names if kapp uses qualified ConfigMap names.
const SUFFIX: &str = ".apps.k14s.io";

pub(crate) const SCHEME: Scheme = Scheme {
    member_keys: &[MetadataKey::Label(APP)],
    selectors: &[APP],
    other_keys: &[IDENTITY, ASSOCIATION],
    protections: &[
        ProtectionKey::except("kapp.k14s.io/delete-strategy", &[""]),
        ProtectionKey::any("kapp.k14s.io/orphaned"),
        ProtectionKey::any("kapp.k14s.io/noop"),
        ProtectionKey::any("kapp.k14s.io/exists"),
    ],
    claim,
    owner_labels: &[IS_APP],
    owner_sources: &[OwnerSource {
        group: "",
        kind: "ConfigMap",
        selector: IS_APP,
        full: true,
        only_if_claimed: false,
    }],
    owner,
    alias_proof: Some(AliasProof { is_proven: |_, _| false, needed: "nothing, because kapp keeps no list" }),
    has_open_record: true,
    bookkeeping,
    ..Scheme::new("kapp", "kapp")
};

/// Returns the name of an object in labels and annotations: `<namespace>/<group>/<Kind>/<name>`.
fn key(id: &ObjectId) -> String {
    format!("{}/{}/{}/{}", id.namespace, id.group, id.kind, id.name)
}

/// Returns the value of the association label of an object.
fn association(id: &ObjectId) -> String {
    format!("v1.{}", crate::text::hex(&Md5::digest(key(id))))
}

/// Returns true if `v1;<key>;<apiVersion>` names this object.
fn names_object(identity: &str, id: &ObjectId) -> bool {
    let fields: Vec<&str> = identity.split(';').collect();
    matches!(fields[..], ["v1", named, _] if named == key(id))
}

/// Returns the identity under which claims name the app with a label value.
fn alias(value: &str) -> OwnerId {
    OwnerId::new(SCHEME.system, KIND, "", value)
}

fn claim(object: &ObjectMetadata) -> Option<Claim> {
    let value = object.labels.get(APP)?;
    let associated = object.labels.get(ASSOCIATION).is_none_or(|live| live == association(&object.id));
    let (strength, witness) = match object.annotations.get(IDENTITY) {
        _ if object.controller_reference().is_some() => (Strength::Contradicted, "a controller created the object"),
        None => (Strength::Contradicted, "no identity: created by a member, not by kapp"),
        Some(identity) if names_object(identity, &object.id) && associated => {
            (Strength::Bound, "identity names this object")
        }
        Some(_) => (Strength::Contradicted, "identity or association of another object"),
    };
    Some(Claim { owner: alias(value), strength, evidence: ClaimEvidence::label(APP, value).with_witness(witness) })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AppSpec {
    label_key: String,
    label_value: String,
    last_change: Option<AppChange>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AppChange {
    finished_at: Option<String>,
    successful: Option<bool>,
}

impl AppChange {
    fn is_finished(&self) -> bool {
        self.finished_at.as_deref().is_some_and(|time| !time.starts_with("0001-"))
    }
}

fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    if !object.id.is("", "ConfigMap") || object.labels.get(IS_APP).is_none() {
        return None;
    }
    let name = object.id.name.strip_suffix(SUFFIX).unwrap_or(&object.id.name);
    let id = OwnerId::new(SCHEME.system, KIND, &object.id.namespace, name);
    let spec = content.pointer("/data/spec").and_then(Value::as_str).map(serde_json::from_str::<AppSpec>);
    let spec = match spec {
        None => return Some(unreadable(id, "its app record has no spec that was read")),
        Some(Err(_)) => return Some(unreadable(id, "the spec in its app record cannot be parsed")),
        Some(Ok(spec)) if spec.label_key != APP => return Some(unreadable(id, "its app record uses another label")),
        Some(Ok(spec)) => spec,
    };
    let status = match &spec.last_change {
        Some(change) if !change.is_finished() => OwnerStatus::Reconciling,
        Some(change) if change.successful == Some(false) => OwnerStatus::NotReady("its last change failed".to_owned()),
        _ => OwnerStatus::Ready,
    };
    let members = Members::Selected(Scope::everywhere());
    Some(Record { aliases: vec![alias(&spec.label_value)], status, ..Record::new(id, members) })
}

fn unreadable(id: OwnerId, reason: &str) -> Record {
    Record { is_unresolvable: true, ..Record::new(id, Members::Unreadable(reason.to_owned())) }
}

fn bookkeeping(object: &ObjectMetadata) -> Option<&'static str> {
    let records = [(IS_APP, "the record of a kapp app"), ("kapp.k14s.io/is-app-change", "the record of a kapp change")];
    records.into_iter().find(|(key, _)| object.labels.get(key).is_some()).map(|(_, description)| description)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Build, object};

    #[test]
    fn associations_and_identities_of_the_reference() {
        let rows = [
            (
                object("", "Service", "default", "simple-app"),
                "v1.462a95c01b2a0bdc4d5acadc4a22dd74",
                "v1;default//Service/simple-app;v1",
            ),
            (
                object("apps", "Deployment", "default", "simple-app"),
                "v1.22a4cbb25c518f776737777e8407b8d9",
                "v1;default/apps/Deployment/simple-app;apps/v1",
            ),
            (object("", "Namespace", "", "prod"), "v1.088f97d98bf2a40065d088bebec966f9", "v1;//Namespace/prod;v1"),
        ];
        for (object, expected, identity) in rows {
            assert_eq!(association(&object.id), expected);
            let marked = object.label(APP, "1").label(ASSOCIATION, expected).annotation(IDENTITY, identity);
            assert_eq!(claim(&marked).unwrap().strength, Strength::Bound, "{identity}");
        }
    }

    fn labelled_replica_set() -> ObjectMetadata {
        object("apps", "ReplicaSet", "default", "web").label(APP, "1")
    }

    #[test]
    fn without_its_own_identity_an_object_is_a_child_or_a_copy() {
        let own = "v1;default/apps/ReplicaSet/web;apps/v1";
        let rows = [
            ("child", labelled_replica_set()),
            ("copied", labelled_replica_set().annotation(IDENTITY, "v1;default/apps/ReplicaSet/other;apps/v1")),
            ("two fields", labelled_replica_set().annotation(IDENTITY, "v1;default/apps/ReplicaSet/web")),
            ("four fields", labelled_replica_set().annotation(IDENTITY, &format!("{own};x"))),
            ("other version", labelled_replica_set().annotation(IDENTITY, &own.replace("v1;d", "v2;d"))),
            ("association", labelled_replica_set().annotation(IDENTITY, own).label(ASSOCIATION, "v1.0")),
            ("controlled", labelled_replica_set().annotation(IDENTITY, own).controlled_by("x")),
        ];
        for (name, object) in rows {
            assert_eq!(claim(&object).unwrap().strength, Strength::Contradicted, "{name}");
        }
    }

    #[test]
    fn an_app_is_found_by_its_label_value() {
        let app = object("", "ConfigMap", "apps", "web.apps.k14s.io").label(IS_APP, "");
        let spec = json!({"labelKey": APP, "labelValue": "1600", "lastChange": {"finishedAt": "2026-01-01T00:00:00Z", "successful": true}});
        let record = owner(&app, &json!({"data": {"spec": spec.to_string()}})).unwrap();
        assert_eq!((record.id, record.aliases), (OwnerId::new("kapp", "App", "apps", "web"), vec![alias("1600")]));
        for broken in [json!({"data": {"spec": "{"}}), json!({"data": {}}), Value::Null] {
            let record = owner(&app, &broken).unwrap();
            assert!(record.is_unresolvable && matches!(record.members, Members::Unreadable(_)), "{broken}");
        }
    }
}
