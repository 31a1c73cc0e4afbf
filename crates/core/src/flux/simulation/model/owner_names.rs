//! Owners in rows, and the words for them that several reasons share.

use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::ObjectId;
use crate::ownership::OwnerId;
use crate::ownership::schemes::flux_kustomization::KIND;

/// Detail of the reason that the objects of an owner are in a cluster that was not read.
pub(crate) const NOT_READ: &str = "its objects are in another cluster (spec.kubeConfig)";

/// Returns the identity of a Kustomization as an owner.
pub(crate) fn owner_id(key: &NamespacedName) -> OwnerId {
    OwnerId::new("flux", KIND, &key.namespace, &key.name)
}

/// Returns an object of Flux as an owner.
pub(crate) fn flux_owner(id: &ObjectId) -> OwnerId {
    OwnerId::new("flux", &id.kind, &id.namespace, &id.name)
}

/// Returns the condition of another Kustomization, whose words begin with `it`, as a relative clause.
pub(crate) fn relative_clause(words: &str, other: &OwnerId, condition: &str) -> String {
    match condition.strip_prefix("it ") {
        Some(rest) => format!("{words} {other}, which {rest}"),
        None => format!("{words} {other}: {condition}"),
    }
}

/// Returns the words for a dependency whose build is not known.
pub(crate) fn dependency_detail(dependency: &OwnerId) -> String {
    format!("it depends on {dependency}, whose build is not known")
}
