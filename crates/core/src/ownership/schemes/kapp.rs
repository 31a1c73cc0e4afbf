//! kapp: a label with the app's value, and an annotation that names the object; the app is a ConfigMap.
//!
//! Source: reference ownership-and-prune 1.1, 2.2.

use md5::{Digest, Md5};
use serde::Deserialize;
use serde_json::Value;

use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::{
    Claim, Members, MetadataKey, OwnerId, OwnerSource, OwnerStatus, Protection, Record, Scheme, Scope, Strength,
};
use crate::ownership::{always_reached, first_mark};

const APP: &str = "kapp.k14s.io/app";
const IDENTITY: &str = "kapp.k14s.io/identity";
const ASSOCIATION: &str = "kapp.k14s.io/association";
const IS_APP: &str = "kapp.k14s.io/is-app";
const KIND: &str = "App";
/// Suffix of app names when kapp was told to use qualified ConfigMap names.
const SUFFIX: &str = ".apps.k14s.io";
/// Never deleted by kapp, whatever they carry.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The scheme record.
pub const SCHEME: Scheme = Scheme {
    name: "kapp",
    system: "kapp",
    member_keys: &[MetadataKey::Label(APP)],
    selectors: &[APP],
    owner_labels: &[IS_APP],
    other_marks: &[IDENTITY, ASSOCIATION],
    owner_kinds: &[],
    owner_sources: &[OwnerSource { group: "", kind: "ConfigMap", selector: IS_APP, full: true, only_if_marked: false }],
    managers: &[],
    claim,
    owner,
    proof: None,
    reach: always_reached,
    keep_mark,
};

/// `<namespace>/<group>/<Kind>/<name>`.
fn key(id: &ObjectId) -> String {
    format!("{}/{}/{}/{}", id.namespace, id.group, id.kind, id.name)
}

/// The association label of an object.
fn association(id: &ObjectId) -> String {
    format!("v1.{}", crate::text::hex(&Md5::digest(key(id))))
}

/// `v1;<key>;<apiVersion>` names this object.
fn names(identity: &str, id: &ObjectId) -> bool {
    let fields: Vec<&str> = identity.split(';').collect();
    matches!(fields[..], ["v1", named, _] if named == key(id))
}

/// The identity under which claims name the app with a label value.
fn alias(value: &str) -> OwnerId {
    OwnerId::new(SCHEME.system, KIND, "", value)
}

fn claim(object: &ObjectMetadata) -> Option<Claim> {
    let value = object.labels.get(APP)?;
    let associated = object.labels.get(ASSOCIATION).is_none_or(|live| live == association(&object.id));
    let (strength, witness) = match object.annotations.get(IDENTITY) {
        _ if object.controller().is_some() => (Strength::Contradicted, "a controller made the object"),
        None => (Strength::Contradicted, "without identity: made by a member, not by kapp"),
        Some(identity) if names(identity, &object.id) && associated => (Strength::Bound, "identity names this object"),
        Some(_) => (Strength::Contradicted, "identity or association is another object's"),
    };
    Some(Claim { owner: alias(value), strength, evidence: format!("label {APP}={value}, {witness}") })
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

fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    if !object.id.is("", "ConfigMap") || object.labels.get(IS_APP).is_none() {
        return None;
    }
    let name = object.id.name.strip_suffix(SUFFIX).unwrap_or(&object.id.name);
    let id = OwnerId::new(SCHEME.system, KIND, &object.id.namespace, name);
    let spec = content.pointer("/data/spec").and_then(Value::as_str).map(serde_json::from_str::<AppSpec>);
    let unreadable =
        |why: &str| Some(Record { opaque: true, ..Record::new(id.clone(), Members::Unreadable(why.to_owned())) });
    let spec = match spec {
        None => return unreadable("its app record has no spec that was read"),
        Some(Err(_)) => return unreadable("the spec in its app record cannot be parsed"),
        Some(Ok(spec)) if spec.label_key != APP => return unreadable("its app record uses another label"),
        Some(Ok(spec)) => spec,
    };
    let unfinished = |change: &AppChange| change.finished_at.as_deref().is_none_or(|at| at.starts_with("0001-"));
    let state = match &spec.last_change {
        Some(change) if unfinished(change) => OwnerStatus::Reconciling,
        Some(change) if change.successful == Some(false) => OwnerStatus::NotReady("its last change failed".to_owned()),
        _ => OwnerStatus::Ready,
    };
    let members = Members::Selected(Scope::everywhere());
    Some(Record { aliases: vec![alias(&spec.label_value)], state, ..Record::new(id, members) })
}

fn keep_mark(object: &ObjectMetadata) -> Option<Protection> {
    if object.id.is("", "Namespace") && NAMESPACES.contains(&&*object.id.name) {
        return Some(Protection { key: "namespace".to_owned(), value: object.id.name.to_string() });
    }
    let strategy = first_mark(object, &["kapp.k14s.io/delete-strategy"], |value| !value.is_empty());
    let others = ["kapp.k14s.io/orphaned", "kapp.k14s.io/noop", "kapp.k14s.io/exists"];
    strategy.or_else(|| first_mark(object, &others, |_| true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Make, object};

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

    #[test]
    fn without_its_own_identity_an_object_is_a_child_or_a_copy() {
        let web = || object("apps", "ReplicaSet", "default", "web").label(APP, "1");
        let own = "v1;default/apps/ReplicaSet/web;apps/v1";
        let rows = [
            ("child", web()),
            ("copied", web().annotation(IDENTITY, "v1;default/apps/ReplicaSet/other;apps/v1")),
            ("two fields", web().annotation(IDENTITY, "v1;default/apps/ReplicaSet/web")),
            ("four fields", web().annotation(IDENTITY, &format!("{own};x"))),
            ("other version", web().annotation(IDENTITY, &own.replace("v1;d", "v2;d"))),
            ("association", web().annotation(IDENTITY, own).label(ASSOCIATION, "v1.0")),
            ("controlled", web().annotation(IDENTITY, own).controlled_by("x")),
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
            assert!(record.opaque && matches!(record.members, Members::Unreadable(_)), "{broken}");
        }
    }
}
