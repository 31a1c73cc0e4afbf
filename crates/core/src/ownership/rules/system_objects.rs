//! Objects that Kubernetes itself creates, and records that systems keep of themselves. They are not called unmanaged.
//!
//! Rules in order; the output names the rule:
//! - label `kubernetes.io/bootstrapping=rbac-defaults`: RBAC that the API server restores at every start;
//! - label `kube-aggregator.kubernetes.io/automanaged`: APIServices of the API server's own groups and of CRDs;
//! - annotation `apf.kubernetes.io/autoupdate-spec=true`: flow control defaults;
//! - annotation `pv.kubernetes.io/provisioned-by`: volumes that a provisioner created for a claim;
//! - namespaces `default` and `kube-*`; ServiceAccount `default`; ConfigMap `kube-root-ca.crt`;
//!   Service, Endpoints and EndpointSlice `default/kubernetes`; ServiceCIDR `kubernetes`;
//!   the ConfigMaps by which the API server publishes itself in kube-system; PriorityClasses `system-*-critical`;
//! - Endpoints of a Service of the same name, EndpointSlices that a controller labelled as its own;
//! - ServiceAccounts in kube-system that bootstrap RBAC has the role `system:controller:NAME` for: a
//!   kube-controller-manager with `--use-service-account-credentials`, such as kubeadm's, creates one per controller;
//! - kinds that only running components write: Event, Lease, LeaseCandidate, Node, CSINode, IPAddress, StorageVersion,
//!   VolumeAttachment, ComponentStatus, and everything in `metrics.k8s.io`;
//! - records of ownership systems ([`crate::ownership::Scheme::bookkeeping`]).

use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::schemes::registry::SCHEMES;

/// Annotations that the rules depend on.
pub(crate) const ANNOTATIONS: [&str; 2] = [AUTO_UPDATE, PROVISIONED];
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
const PROVISIONED: &str = "pv.kubernetes.io/provisioned-by";

/// Kinds that only running components write.
const RUNTIME_KINDS: [(&str, &str); 10] = [
    ("", "Event"),
    ("events.k8s.io", "Event"),
    ("coordination.k8s.io", "Lease"),
    ("coordination.k8s.io", "LeaseCandidate"),
    ("", "Node"),
    ("storage.k8s.io", "CSINode"),
    ("networking.k8s.io", "IPAddress"),
    ("internal.apiserver.k8s.io", "StorageVersion"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("", "ComponentStatus"),
];

/// Objects of fixed identity: group, kind, namespace (`*` for any), name.
const FIXED: [(&str, &str, &str, &str); 10] = [
    ("", "Namespace", "", "default"),
    ("", "ServiceAccount", "*", "default"),
    ("", "ConfigMap", "*", "kube-root-ca.crt"),
    ("", "Service", "default", "kubernetes"),
    ("", "Endpoints", "default", "kubernetes"),
    ("discovery.k8s.io", "EndpointSlice", "default", "kubernetes"),
    ("networking.k8s.io", "ServiceCIDR", "", "kubernetes"),
    ("", "ConfigMap", "kube-system", "extension-apiserver-authentication"),
    ("", "ConfigMap", "kube-system", "kube-apiserver-legacy-service-account-token-tracking"),
    ("scheduling.k8s.io", "PriorityClass", "", "system-cluster-critical"),
];

/// Returns the rule by which an object is not unmanaged, if there is one. `find` returns other objects of the cluster.
pub(crate) fn rule<'a>(
    object: &ObjectMetadata,
    find: impl Fn(&ObjectId) -> Option<&'a ObjectMetadata>,
) -> Option<&'static str> {
    let id = &object.id;
    if is_bootstrap(object) {
        return Some("bootstrap RBAC");
    }
    if object.labels.get("kube-aggregator.kubernetes.io/automanaged").is_some() {
        return Some("managed by the API server");
    }
    if object.annotations.get(AUTO_UPDATE) == Some("true") {
        return Some("a flow control default");
    }
    if object.annotations.get(PROVISIONED).is_some() {
        return Some("provisioned for a claim");
    }
    if RUNTIME_KINDS.iter().any(|(group, kind)| id.is(group, kind)) || &*id.group == "metrics.k8s.io" {
        return Some("written by running components");
    }
    if FIXED.iter().any(|(group, kind, namespace, name)| {
        id.is(group, kind) && *name == &*id.name && (*namespace == "*" || *namespace == &*id.namespace)
    }) {
        return Some("present in every cluster");
    }
    if id.is("", "Namespace") && id.name.starts_with("kube-") {
        return Some("a namespace of Kubernetes itself");
    }
    if id.is("scheduling.k8s.io", "PriorityClass") && &*id.name == "system-node-critical" {
        return Some("present in every cluster");
    }
    if id.is("discovery.k8s.io", "EndpointSlice")
        && object.labels.get("endpointslice.kubernetes.io/managed-by").is_some()
    {
        return Some("created for a Service");
    }
    if id.is("", "Endpoints") && find(&ObjectId::new("", "Service", &id.namespace, &id.name)).is_some() {
        return Some("created for a Service");
    }
    if id.is("", "ServiceAccount") && &*id.namespace == "kube-system" {
        let name = format!("system:controller:{}", id.name);
        let roles = [("ClusterRole", ""), ("Role", "kube-system")]
            .map(|(kind, namespace)| ObjectId::new("rbac.authorization.k8s.io", kind, namespace, &name));
        if roles.iter().any(|role| find(role).is_some_and(is_bootstrap)) {
            return Some("created for a controller of Kubernetes");
        }
    }
    SCHEMES.iter().find_map(|scheme| (scheme.bookkeeping)(object))
}

fn is_bootstrap(object: &ObjectMetadata) -> bool {
    object.labels.get("kubernetes.io/bootstrapping") == Some("rbac-defaults")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, object};

    #[test]
    fn objects_of_kubernetes_itself_and_no_others() {
        let automanaged = ("kube-aggregator.kubernetes.io/automanaged", "onstart");
        let rows = [
            (
                object("rbac.authorization.k8s.io", "ClusterRole", "", "admin")
                    .label("kubernetes.io/bootstrapping", "rbac-defaults"),
                true,
            ),
            (object("rbac.authorization.k8s.io", "ClusterRole", "", "admin"), false),
            (object("apiregistration.k8s.io", "APIService", "", "v1.").label(automanaged.0, automanaged.1), true),
            (object("apiregistration.k8s.io", "APIService", "", "v1beta1.metrics.k8s.io"), false),
            (object("flowcontrol.apiserver.k8s.io", "FlowSchema", "", "probes").annotation(AUTO_UPDATE, "true"), true),
            (object("flowcontrol.apiserver.k8s.io", "FlowSchema", "", "mine").annotation(AUTO_UPDATE, "false"), false),
            (object("", "ConfigMap", "shop", "kube-root-ca.crt"), true),
            (object("", "ConfigMap", "shop", "kube-root-ca"), false),
            (object("", "Namespace", "", "kube-system"), true),
            (object("", "Namespace", "", "default"), true),
            (object("", "Namespace", "", "shop"), false),
            (object("", "ServiceAccount", "shop", "default"), true),
            (object("", "ServiceAccount", "shop", "web"), false),
            (object("", "Service", "default", "kubernetes"), true),
            (object("", "Service", "shop", "kubernetes"), false),
            (object("coordination.k8s.io", "Lease", "kube-node-lease", "node-1"), true),
            (object("", "Endpoints", "shop", "external"), false),
            (object("", "Secret", "shop", "sh.helm.release.v1.web.v1").label("owner", "helm"), true),
            (object("", "Secret", "shop", "web").label("owner", "helm"), false),
            (object("", "ConfigMap", "shop", "app").label("kapp.k14s.io/is-app", ""), true),
        ];
        for (object, own) in rows {
            assert_eq!(rule(&object, |_| None).is_some(), own, "{}", object.id);
        }
    }

    fn rbac_object(kind: &str, namespace: &str, name: &str) -> ObjectMetadata {
        object("rbac.authorization.k8s.io", kind, namespace, name)
    }

    fn bootstrapped(role: ObjectMetadata) -> ObjectMetadata {
        role.label("kubernetes.io/bootstrapping", "rbac-defaults")
    }

    #[test]
    fn objects_that_follow_from_another_object() {
        let others = [
            object("", "Service", "shop", "web"),
            bootstrapped(rbac_object("ClusterRole", "", "system:controller:job-controller")),
            bootstrapped(rbac_object("Role", "kube-system", "system:controller:token-cleaner")),
            rbac_object("ClusterRole", "", "system:controller:mine"),
        ];
        let find = |id: &ObjectId| others.iter().find(|other| other.id == *id);
        let rows = [
            ("Endpoints", "shop", "web", true),
            ("Endpoints", "shop", "other", false),
            ("ServiceAccount", "kube-system", "job-controller", true),
            ("ServiceAccount", "kube-system", "token-cleaner", true),
            ("ServiceAccount", "shop", "job-controller", false),
            ("ServiceAccount", "kube-system", "mine", false),
            ("ServiceAccount", "kube-system", "other", false),
        ];
        for (kind, namespace, name, own) in rows {
            assert_eq!(rule(&object("", kind, namespace, name), find).is_some(), own, "{kind} {namespace}/{name}");
        }
    }
}
