//! Namespaces that nobody can delete, and the one that comes back.

use crate::kubernetes::object::ObjectId;

/// Namespaces that Kubernetes needs, with the message of the API server about their deletion (k8s.io/apiserver v0.36.3 `Admit`
/// in pkg/admission/plugin/namespace/lifecycle/admission.go). It does not protect `kube-node-lease`.
const REFUSED: [(&str, &str); 3] = [
    ("default", "namespaces \"default\" is forbidden: this namespace may not be deleted"),
    ("kube-system", "namespaces \"kube-system\" is forbidden: this namespace may not be deleted"),
    ("kube-public", "namespaces \"kube-public\" is forbidden: this namespace may not be deleted"),
];

/// Returns the message with which every API server refuses to delete an object; `None` if it depends on the server.
pub(crate) fn always_refused(id: &ObjectId) -> Option<&'static str> {
    let found = REFUSED.into_iter().find(|(name, _)| id.is("", "Namespace") && *id.name == **name);
    found.map(|(_, message)| message)
}

/// Returns true for the Namespace of the Leases of nodes, which the API server creates again (Kubernetes v1.36.3
/// pkg/controlplane/controller/systemnamespaces).
pub(crate) fn comes_back(id: &ObjectId) -> bool {
    id.is("", "Namespace") && &*id.name == "kube-node-lease"
}
