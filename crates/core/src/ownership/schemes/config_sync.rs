//! Config Sync: an ApplySet whose parent is a RootSync or RepoSync, with an annotation that names its object. Its
//! inventory is a ResourceGroup of the same name.
//!
//! Source: reference ownership-and-prune 1.2, 2.2.

use serde_json::Value;

use super::{applyset, cli_utils};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::{Claim, Members, MetadataKey, OwnerId, OwnerStatus, Protection, Record, Scheme, Strength};
use crate::ownership::{always_reached, owner_status};

const RESOURCE_ID: &str = "configsync.gke.io/resource-id";
const MANAGER: &str = "configsync.gke.io/manager";
const MANAGED: &str = "configmanagement.gke.io/managed";
const GROUP: &str = "configsync.gke.io";
const ROOT_NAMESPACE: &str = "config-management-system";

/// The scheme record.
pub const SCHEME: Scheme = Scheme {
    name: "config-sync",
    system: applyset::SCHEME.system,
    member_keys: &[MetadataKey::Annotation(RESOURCE_ID)],
    selectors: &[],
    owner_labels: &[],
    other_marks: &[MANAGER, MANAGED],
    owner_kinds: &[(GROUP, "RootSync"), (GROUP, "RepoSync")],
    owner_sources: &[],
    managers: &["configsync.gke.io", "configsync"],
    claim,
    owner,
    proof: None,
    reach: always_reached,
    keep_mark,
};

/// `<group>_<kind in lower case>_<namespace>_<name>`, without the namespace part for cluster-scoped objects.
fn resource_id(id: &ObjectId) -> String {
    let kind = id.kind.to_lowercase();
    match &*id.namespace {
        "" => format!("{}_{kind}_{}", id.group, id.name),
        namespace => format!("{}_{kind}_{namespace}_{}", id.group, id.name),
    }
}

/// `:root` is RootSync root-sync, `:root_<name>` another; `<ns>` is RepoSync repo-sync there, `<ns>_<name>` another.
fn manager(text: &str) -> OwnerId {
    let (scope, name) = text.split_once('_').map_or((text, None), |(scope, name)| (scope, Some(name)));
    match scope {
        ":root" => OwnerId::new(SCHEME.system, "RootSync", ROOT_NAMESPACE, name.unwrap_or("root-sync")),
        namespace => OwnerId::new(SCHEME.system, "RepoSync", namespace, name.unwrap_or("repo-sync")),
    }
}

fn claim(object: &ObjectMetadata) -> Option<Claim> {
    if object.annotations.get(MANAGED) != Some("enabled") {
        return None;
    }
    let named = object.annotations.get(RESOURCE_ID)?;
    let owner = manager(object.annotations.get(MANAGER)?);
    let own = named == resource_id(&object.id) && object.controller().is_none();
    let strength = if own { Strength::Bound } else { Strength::Contradicted };
    Some(Claim { owner, strength, evidence: format!("annotation {RESOURCE_ID}={named}") })
}

fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let ObjectId { kind, namespace, name, .. } = &object.id;
    let id = OwnerId::new(SCHEME.system, kind, namespace, name);
    let aliases = vec![
        applyset::alias(&applyset::id_of(&object.id)),
        cli_utils::alias(&format!("{namespace}_{name}")),
        OwnerId::new(cli_utils::SCHEME.system, "ResourceGroup", namespace, name),
    ];
    let busy = owner_status::is_true(content, "Reconciling") || owner_status::is_true(content, "Syncing");
    let state = match owner_status::condition(content, "Stalled") {
        Some(stalled) if stalled.status == "True" => OwnerStatus::NotReady(stalled.message.to_owned()),
        _ if busy => OwnerStatus::Reconciling,
        _ => OwnerStatus::Ready,
    };
    Some(Record { aliases, state, ..Record::new(id, Members::Unrecorded) })
}

fn keep_mark(object: &ObjectMetadata) -> Option<Protection> {
    crate::ownership::first_mark(object, &[MANAGED], |value| value == "disabled")
        .or_else(|| cli_utils::keep_mark(object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Make, object};

    #[test]
    fn every_manager_names_its_sync() {
        let rows = [
            (":root", "RootSync", ROOT_NAMESPACE, "root-sync"),
            (":root_infra", "RootSync", ROOT_NAMESPACE, "infra"),
            ("bookstore", "RepoSync", "bookstore", "repo-sync"),
            ("bookstore_x", "RepoSync", "bookstore", "x"),
        ];
        for (text, kind, namespace, name) in rows {
            assert_eq!(manager(text), OwnerId::new("applyset", kind, namespace, name), "{text}");
        }
    }

    #[test]
    fn a_mark_is_bound_to_its_object() {
        let web = object("apps", "Deployment", "bookstore", "web")
            .annotation(MANAGER, "bookstore")
            .annotation(MANAGED, "enabled");
        let own = web.clone().annotation(RESOURCE_ID, "apps_deployment_bookstore_web");
        assert_eq!(claim(&own).unwrap().strength, Strength::Bound);
        let other = web.clone().annotation(RESOURCE_ID, "apps_deployment_bookstore_other");
        assert_eq!(claim(&other).unwrap().strength, Strength::Contradicted);
        assert_eq!(claim(&web), None);
        let disabled = object("apps", "Deployment", "bookstore", "web")
            .annotation(MANAGER, "bookstore")
            .annotation(MANAGED, "disabled");
        assert_eq!(claim(&disabled.annotation(RESOURCE_ID, "apps_deployment_bookstore_web")), None);
        assert_eq!(
            resource_id(&ObjectId::new("rbac.authorization.k8s.io", "ClusterRole", "", "r")),
            "rbac.authorization.k8s.io_clusterrole_r"
        );
    }
}
