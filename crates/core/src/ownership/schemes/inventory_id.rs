//! Inventory entry id `<namespace>_<name>_<group>_<Kind>` that Flux, flux-operator and cli-utils share.
//!
//! Source: docs/reference/kustomize-controller.md 2.1. Parsing follows the controllers exactly, including that `__` in a name
//! reads as `:` for every kind although only RBAC kinds are written so.

use crate::kubernetes::object::ObjectId;

/// Parses an entry id. Fails if it has fewer than three separators or an empty kind.
pub fn parse(id: &str) -> Result<ObjectId, String> {
    parts(id).ok_or_else(|| format!("inventory entry {id:?} is not <namespace>_<name>_<group>_<Kind>"))
}

fn parts(id: &str) -> Option<ObjectId> {
    let (namespace, rest) = id.split_once('_')?;
    let (identity, kind) = rest.rsplit_once('_')?;
    let (name, group) = identity.rsplit_once('_')?;
    let is_complete = !kind.is_empty() && !name.is_empty();
    is_complete.then(|| ObjectId::new(group, kind, namespace, &name.replace("__", ":")))
}

/// Formats an entry id as the controllers do: `:` becomes `__` in the names of RBAC kinds only.
pub fn format(id: &ObjectId) -> String {
    let rbac = &*id.group == "rbac.authorization.k8s.io"
        && matches!(&*id.kind, "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding");
    let name = if rbac { id.name.replace(':', "__") } else { id.name.to_string() };
    format!("{}_{name}_{}_{}", id.namespace, id.group, id.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Id, namespace, name, group and kind of the examples in docs/reference/kustomize-controller.md 2.1.
    const VECTORS: [(&str, &str, &str, &str, &str); 10] = [
        ("default_podinfo__Service", "default", "podinfo", "", "Service"),
        ("_sys__x_rbac.authorization.k8s.io_ClusterRole", "", "sys:x", "rbac.authorization.k8s.io", "ClusterRole"),
        ("_foo___rbac.authorization.k8s.io_ClusterRole", "", "foo:", "rbac.authorization.k8s.io", "ClusterRole"),
        ("___foo_rbac.authorization.k8s.io_ClusterRole", "", ":foo", "rbac.authorization.k8s.io", "ClusterRole"),
        (
            "_prometheusrules.monitoring.coreos.com_apiextensions.k8s.io_CustomResourceDefinition",
            "",
            "prometheusrules.monitoring.coreos.com",
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
        ),
        ("prod_web_apps_Deployment", "prod", "web", "apps", "Deployment"),
        ("prod_cfg__ConfigMap", "prod", "cfg", "", "ConfigMap"),
        ("_prod__Namespace", "", "prod", "", "Namespace"),
        (
            "_system__thing__read_rbac.authorization.k8s.io_ClusterRole",
            "",
            "system:thing:read",
            "rbac.authorization.k8s.io",
            "ClusterRole",
        ),
        ("x_a:b_example.com_Odd", "x", "a:b", "example.com", "Odd"),
    ];

    #[test]
    fn every_vector_parses_and_is_written_back() {
        for (id, namespace, name, group, kind) in VECTORS {
            let parsed = parse(id).unwrap();
            assert_eq!(parsed, ObjectId::new(group, kind, namespace, name), "{id}");
            assert_eq!(format(&parsed), id);
        }
    }

    #[test]
    fn too_few_separators_are_an_error() {
        for id in ["no-separators", "a_b", "a_b_c", ""] {
            assert!(parse(id).is_err(), "{id}");
        }
    }

    #[test]
    fn an_rbac_name_with_two_underscores_does_not_survive_the_round_trip() {
        let real = ObjectId::new("rbac.authorization.k8s.io", "ClusterRole", "", "zz__under");
        assert_ne!(parse(&format(&real)).unwrap(), real);
    }
}
