//! Config Sync: an ApplySet whose parent is a RootSync or RepoSync, with an annotation that names its object. Its
//! inventory is a ResourceGroup of the same name.
//!
//! Source: docs/reference/ownership.md 2.9.

use serde_json::Value;

use super::{applyset, cli_utils};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::scheme::claim::{Claim, ClaimEvidence, OwnerId, Strength};
use crate::ownership::scheme::members::Members;
use crate::ownership::scheme::owner_status::{OwnerStatus, condition, is_true};
use crate::ownership::scheme::protection::ProtectionKey;
use crate::ownership::scheme::{Claimant, MetadataKey, Record, Scheme};

const RESOURCE_ID: &str = "configsync.gke.io/resource-id";
const MANAGER: &str = "configsync.gke.io/manager";
const MANAGED: &str = "configmanagement.gke.io/managed";
const GROUP: &str = "configsync.gke.io";
const ROOT_NAMESPACE: &str = "config-management-system";

/// Scheme of RootSync and RepoSync.
pub(crate) const SCHEME: Scheme = Scheme {
    member_keys: &[MetadataKey::Annotation(RESOURCE_ID)],
    other_keys: &[MANAGER],
    managers: &["configsync.gke.io", "configsync"],
    protections: &[ProtectionKey::except(MANAGED, &["enabled"])],
    claim,
    owner_kinds: &[(GROUP, "RootSync"), (GROUP, "RepoSync")],
    owner,
    home: Some(ROOT_NAMESPACE),
    has_open_record: true,
    supersedes,
    ..Scheme::new("config-sync", applyset::SYSTEM)
};

/// A RootSync or RepoSync supersedes the claims of its own ApplySet and inventory.
fn supersedes(claim: &Claimant<'_>, other: &Claimant<'_>) -> bool {
    let OwnerId { kind, namespace, name, .. } = claim.owner;
    claim.strength <= Strength::Bare && aliases(&ObjectId::new(GROUP, kind, namespace, name)).contains(other.owner)
}

/// Returns the names of a RootSync or RepoSync in claims: the ID of its ApplySet and the ID of its inventory.
fn aliases(sync: &ObjectId) -> [OwnerId; 2] {
    let ObjectId { namespace, name, .. } = sync;
    [applyset::alias(&applyset::id_of(sync)), cli_utils::alias(&format!("{namespace}_{name}"))]
}

/// Returns `<group>_<kind in lower case>_<namespace>_<name>`, without the namespace part for cluster-scoped objects.
fn resource_id(id: &ObjectId) -> String {
    let kind = id.kind.to_lowercase();
    match &*id.namespace {
        "" => format!("{}_{kind}_{}", id.group, id.name),
        namespace => format!("{}_{kind}_{namespace}_{}", id.group, id.name),
    }
}

/// Parses a manager: `:root` is RootSync root-sync, `:root_<name>` another; `<ns>` is RepoSync repo-sync in a
/// namespace, `<ns>_<name>` another.
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
    let own = named == resource_id(&object.id) && object.controller_reference().is_none();
    let strength = if own { Strength::Bound } else { Strength::Contradicted };
    Some(Claim { owner, strength, evidence: ClaimEvidence::annotation(RESOURCE_ID, named) })
}

fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let ObjectId { kind, namespace, name, .. } = &object.id;
    let id = OwnerId::new(SCHEME.system, kind, namespace, name);
    let is_busy = is_true(content, "Reconciling") || is_true(content, "Syncing");
    let status = match condition(content, "Stalled") {
        Some(stalled) if stalled.status == "True" => OwnerStatus::NotReady(stalled.message.to_owned()),
        _ if is_busy => OwnerStatus::Reconciling,
        _ => OwnerStatus::Ready,
    };
    let group = OwnerId::new(cli_utils::SCHEME.system, "ResourceGroup", namespace, name);
    let aliases = [&aliases(&object.id)[..], &[group]].concat();
    Some(Record { aliases, status, ..Record::new(id, Members::Unrecorded) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, object};

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
