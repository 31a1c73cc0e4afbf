//! ApplySet (`kubectl apply --prune --applyset`): members carry the ID of their parent, and the parent's ID is a hash of
//! its own identity. The parent records the kinds and namespaces in which kubectl looks for members.
//!
//! Source: docs/reference/ownership.md 2.6. kubectl and the published KEP use different prefixes; both are read.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::kubernetes::object::{GroupKind, ManagedFieldsEntry, ObjectId, ObjectMetadata};
use crate::ownership::scheme::claim::{Claim, ClaimEvidence, OwnerId, Strength, label_strength};
use crate::ownership::scheme::last_applied::kubectl_names_object;
use crate::ownership::scheme::members::{Area, Members, Scope};
use crate::ownership::scheme::{GcEligibility, MetadataKey, OwnerSource, Record, Scheme};

/// Name of the system, which Config Sync shares.
pub(crate) const SYSTEM: &str = "applyset";
pub(crate) const PART_OF: [&str; 2] = ["applyset.kubernetes.io/part-of", "applyset.k8s.io/part-of"];
pub(crate) const ID: [&str; 2] = ["applyset.kubernetes.io/id", "applyset.k8s.io/id"];
pub(crate) const KINDS: [&str; 2] =
    ["applyset.kubernetes.io/contains-group-kinds", "applyset.k8s.io/contains-group-kinds"];
pub(crate) const NAMESPACES: [&str; 2] =
    ["applyset.kubernetes.io/additional-namespaces", "applyset.k8s.io/additional-namespaces"];
const TOOLING: [&str; 2] = ["applyset.kubernetes.io/tooling", "applyset.k8s.io/tooling"];

/// Kind in claims, which do not name the kind of the parent.
const UNKNOWN: &str = "ApplySet";

const fn parent(kind: &'static str) -> OwnerSource {
    OwnerSource { group: "", kind, selector: ID[0], full: false, only_if_claimed: false }
}

/// Scheme of ApplySet. Parents may be objects of any kind; Secrets are the default, and only their metadata is read.
pub(crate) const SCHEME: Scheme = Scheme {
    member_keys: &[MetadataKey::Label(PART_OF[0]), MetadataKey::Label(PART_OF[1])],
    selectors: &[PART_OF[0], "!applyset.kubernetes.io/part-of,applyset.k8s.io/part-of"],
    other_keys: &[KINDS[0], KINDS[1], NAMESPACES[0], NAMESPACES[1], TOOLING[0], TOOLING[1]],
    claim,
    gc_eligibility,
    owner_labels: &ID,
    owner_sources: &[parent("Secret"), parent("ConfigMap")],
    owners_of_any_kind: true,
    owner,
    has_open_record: true,
    bookkeeping: |object| has_id(object).then_some("the record of an ApplySet"),
    ..Scheme::new("applyset", SYSTEM)
};

/// Returns the ID of a parent: 55 characters, whatever its name.
pub fn id_of(parent: &ObjectId) -> String {
    let ObjectId { group, kind, namespace, name, .. } = parent;
    let hash = Sha256::digest(format!("{name}.{namespace}.{kind}.{group}"));
    format!("applyset-{}-v1", URL_SAFE_NO_PAD.encode(hash))
}

/// Returns the tool that a parent belongs to: the text before the last `/`.
pub fn tool(parent: &ObjectMetadata) -> Option<&str> {
    let tooling = annotation(parent, TOOLING)?;
    Some(tooling.rsplit_once('/').map_or(tooling, |(tool, _)| tool))
}

/// Returns the identity under which claims name the parent with an ID.
pub(crate) fn alias(id: &str) -> OwnerId {
    OwnerId::new(SYSTEM, UNKNOWN, "", id)
}

fn annotation<'a>(object: &'a ObjectMetadata, keys: [&str; 2]) -> Option<&'a str> {
    keys.into_iter().find_map(|key| object.annotations.get(key))
}

fn claim(object: &ObjectMetadata) -> Option<Claim> {
    let (key, id) = PART_OF.into_iter().find_map(|key| Some((key, object.labels.get(key)?)))?;
    let evidence = ClaimEvidence::label(key, id);
    let (strength, evidence) = if !object.owner_references.is_empty() {
        // kubectl does not implement this rule of the KEP. It separates members from children that inherited the label.
        (Strength::Contradicted, evidence.with_witness("on an object with an owner reference"))
    } else if kubectl_names_object(object) == Some(false) {
        (Strength::Contradicted, evidence.with_witness("copied: last-applied-configuration names another object"))
    } else {
        (label_strength(object, key, SCHEME.managers), evidence)
    };
    Some(Claim { owner: alias(id), strength, evidence })
}

/// kubectl prunes by the label alone, also objects with a label that an operator copied. But an object of an operator
/// outside of the parent's scope was never a member.
fn gc_eligibility(object: &ObjectMetadata) -> GcEligibility {
    let mut writers = object.managed_fields.iter().filter(|writer| owns_label(writer)).peekable();
    let is_by_others = writers.peek().is_some() && writers.all(|writer| !writer.manager.starts_with("kubectl"));
    if is_by_others && kubectl_names_object(object) != Some(true) {
        return GcEligibility::WrittenByOthers(
            "kubectl did not write its label, yet kubectl prunes by the label alone",
        );
    }
    GcEligibility::Normal
}

fn owns_label(writer: &ManagedFieldsEntry) -> bool {
    writer.labels.iter().any(|label| PART_OF.contains(&&**label))
}

fn has_id(object: &ObjectMetadata) -> bool {
    ID.iter().any(|key| object.labels.get(key).is_some())
}

fn owner(object: &ObjectMetadata, _: &Value) -> Option<Record> {
    let label = ID.into_iter().find_map(|key| object.labels.get(key))?;
    let id = OwnerId::new(SYSTEM, &object.id.kind, &object.id.namespace, &object.id.name);
    let expected = id_of(&object.id);
    // The KEP's text has the hash alone.
    let bare = expected.trim_start_matches("applyset-").trim_end_matches("-v1");
    let members = if label == expected || label == bare {
        Members::Selected(scope(object))
    } else {
        Members::Unreadable(format!("its label {} is not the ID of this object ({expected})", ID[0]))
    };
    Some(Record { aliases: vec![alias(label)], ..Record::new(id, members) })
}

/// Returns the scope in `contains-group-kinds` and `additional-namespaces`. Without a list of kinds, kubectl discovers them.
fn scope(parent: &ObjectMetadata) -> Scope {
    let kinds = items(parent, KINDS).map(|kinds| kinds.map(group_kind).collect());
    let namespaces = (!parent.id.namespace.is_empty()).then(|| {
        let own = ["", &*parent.id.namespace].into_iter().map(Into::into);
        own.chain(items(parent, NAMESPACES).into_iter().flatten().map(Into::into)).collect()
    });
    Scope(vec![Area { namespaces, kinds }])
}

/// Returns the items of a list that an annotation holds.
fn items<'a>(parent: &'a ObjectMetadata, keys: [&str; 2]) -> Option<impl Iterator<Item = &'a str> + use<'a>> {
    annotation(parent, keys).map(|text| text.split(',').map(str::trim).filter(|item| !item.is_empty()))
}

/// Parses `Deployment.apps`, split at the first dot; core kinds have none.
fn group_kind(item: &str) -> GroupKind {
    let (kind, group) = item.split_once('.').unwrap_or((item, ""));
    GroupKind::new(group, kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::scheme::last_applied::KUBECTL;
    use crate::testing::{Build, object};

    /// Name, namespace, kind, group and ID of each parent.
    const VECTORS: [(&str, &str, &str, &str, &str); 8] = [
        ("my-set", "test", "Secret", "", "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1"),
        ("my-set", "", "ApplySet", "company.com", "applyset-rhp1a-HVAVT_dFgyEygyA1BEB82HPp2o10UiFTpqtAs-v1"),
        ("simple", "test", "Secret", "", "applyset-bjd1LnyQq0mtUu-riZCqjDQOmh0iNb9O2RcuT12WR0k-v1"),
        ("my-app", "prod", "Secret", "", "applyset-cxyxQT2xQuFXLF5UShtu4xsummH79TR7wbsJHV26dEg-v1"),
        ("my-app", "prod", "ConfigMap", "", "applyset-T4D2H8ETUq1lodNqtnZD3T-sSjATWbAQbjoD7epTis4-v1"),
        ("platform", "", "ApplySet", "example.com", "applyset-UIEo5wvk3iXhxU_gwh2mFOUkRu3VkjhmGYlO9ishRJA-v1"),
        (
            "root-sync",
            "config-management-system",
            "RootSync",
            "configsync.gke.io",
            "applyset-e22zDPwKdkFqCzUzScEvOv2nZZ55DLNRI-wrMTICH94-v1",
        ),
        (
            "repo-sync",
            "bookstore",
            "RepoSync",
            "configsync.gke.io",
            "applyset-zRhlvbVLlghU_dOe1Q_1hAQKvU2KM5REVLxzVAcctaw-v1",
        ),
    ];

    #[test]
    fn every_vector_is_computed() {
        for (name, namespace, kind, group, id) in VECTORS {
            assert_eq!(id_of(&ObjectId::new(group, kind, namespace, name)), id, "{name}");
            assert_eq!(id.len(), 55);
        }
    }

    #[test]
    fn a_parent_with_another_id_is_rejected() {
        let parent = object("", "Secret", "test", "my-set");
        let good = owner(&parent.clone().label(ID[0], VECTORS[0].4), &Value::Null).unwrap();
        assert!(matches!(good.members, Members::Selected(_)));
        let forged = owner(&parent.clone().label(ID[0], "somethingelse"), &Value::Null).unwrap();
        assert!(matches!(forged.members, Members::Unreadable(_)));
        assert!(owner(&parent, &Value::Null).is_none());
    }

    #[test]
    fn both_prefixes_are_read() {
        let member = object("", "ConfigMap", "test", "cm").label(PART_OF[1], "x");
        assert_eq!(claim(&member).unwrap().owner, alias("x"));
        let hash = "0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY";
        let parent = object("", "Secret", "test", "my-set").label(ID[1], hash);
        assert!(matches!(owner(&parent, &Value::Null).unwrap().members, Members::Selected(_)));
    }

    #[test]
    fn the_parent_says_where_it_looks() {
        let parent = object("", "Secret", "test", "my-set")
            .annotation(KINDS[0], "Deployment.apps,ConfigMap, Role.rbac.authorization.k8s.io");
        let scope = scope(&parent.annotation(NAMESPACES[0], "other"));
        let rows = [
            (ObjectId::new("apps", "Deployment", "test", "a"), true),
            (ObjectId::new("", "ConfigMap", "other", "a"), true),
            (ObjectId::new("rbac.authorization.k8s.io", "Role", "test", "a"), true),
            (ObjectId::new("", "ConfigMap", "third", "a"), false),
            (ObjectId::new("", "Secret", "test", "a"), false),
        ];
        for (id, covered) in rows {
            assert_eq!(scope.covers(&id), covered, "{id}");
        }
    }

    #[test]
    fn empty_and_absent_lists_of_kinds_differ() {
        let secret = ObjectId::new("", "Secret", "test", "a");
        let parent = object("", "Secret", "test", "my-set");
        assert!(scope(&parent).covers(&secret));
        assert!(!scope(&parent.annotation(KINDS[0], "")).covers(&secret));
    }

    #[test]
    fn the_tool_ends_at_the_last_slash() {
        for (tooling, expected) in
            [("kubectl/v1.36.3", "kubectl"), ("helm/v3", "helm"), ("example.com/tool/why", "example.com/tool")]
        {
            let parent = object("", "Secret", "test", "my-set").annotation(TOOLING[0], tooling);
            assert_eq!(tool(&parent), Some(expected));
        }
    }

    #[test]
    fn a_member_with_any_owner_reference_is_contradicted() {
        let member = object("", "ConfigMap", "test", "cm").label(PART_OF[0], "x");
        assert_eq!(claim(&member).unwrap().strength, Strength::Bare);
        assert_eq!(claim(&member.referring_to("y")).unwrap().strength, Strength::Contradicted);
    }

    fn member() -> ObjectMetadata {
        object("", "ConfigMap", "test", "cm").label(PART_OF[0], "x")
    }

    fn applied_under_another_name(named: &str) -> ObjectMetadata {
        member().writer("ci-bot", PART_OF[0]).annotation(KUBECTL, named)
    }

    #[test]
    fn a_label_that_kubectl_did_not_write_is_not_normal() {
        let rows = [
            ("stripped", member(), true),
            ("kubectl", member().writer("kubectl-client-side-apply", PART_OF[0]), true),
            ("by hand", member().writer("kubectl-label", PART_OF[0]), true),
            ("operator", member().writer("shop-operator", PART_OF[0]), false),
            ("kubectl under another name", applied_under_another_name("/ConfigMap/test/cm"), true),
        ];
        for (name, object, normal) in rows {
            assert_eq!(gc_eligibility(&object) == GcEligibility::Normal, normal, "{name}");
            assert_eq!(claim(&object).unwrap().strength, Strength::Bare, "{name}");
        }
        assert_eq!(
            claim(&applied_under_another_name("/ConfigMap/test/other")).unwrap().strength,
            Strength::Contradicted
        );
    }
}
