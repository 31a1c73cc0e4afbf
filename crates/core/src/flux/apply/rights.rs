//! Rights that Roles, ClusterRoles and their bindings give.
//!
//! Source: Kubernetes v1.36.3 `plugin/pkg/auth/authorizer/rbac/rbac.go`, and
//! `pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go`: a ClusterRole with an aggregation rule
//! has the rules of those that it selects, whatever its manifest says.

use serde_json::Value;

use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{KeyValues, ObjectId, ResourceType, list_at, text_at, texts_at};
use crate::kubernetes::selector::label_selector::selects;

/// Group of the roles and their bindings.
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";

/// All roles and bindings of a cluster.
#[derive(Default)]
pub(crate) struct Rbac<'r> {
    pub(crate) objects: Vec<(&'r ObjectId, &'r Value)>,
}

impl Rbac<'_> {
    /// Returns true if a service account may change an object.
    pub(crate) fn allows(&self, account: &NamespacedName, verb: &str, kind: &ResourceType, id: &ObjectId) -> bool {
        let bindings = self.objects.iter().filter(|(binding, value)| {
            let is_near = match &*binding.kind {
                "RoleBinding" => !id.namespace.is_empty() && binding.namespace == id.namespace,
                kind => kind == "ClusterRoleBinding",
            };
            is_near && binds(binding, value, account)
        });
        let mut roles = bindings.filter_map(|(binding, value)| self.role(binding, value));
        roles.any(|role| self.rules_of(role).into_iter().any(|role| grants(role, verb, kind, id)))
    }

    /// Returns true if a service account may bind the role that a binding names: it has the verb for that, or all
    /// rights of the role. `kind` is that of the role.
    ///
    /// Source: `BindingAuthorized` in `pkg/registry/rbac/escalation_check.go`, which asks in the namespace of the
    /// binding.
    pub(crate) fn may_bind(
        &self,
        account: &NamespacedName,
        kind: &ResourceType,
        binding: &ObjectId,
        value: &Value,
    ) -> bool {
        let named = ObjectId::new(RBAC, &kind.kind, &binding.namespace, text_at(value, "/roleRef/name"));
        let role = self.role(binding, value).map(|role| self.rules_of(role));
        self.allows(account, "bind", kind, &named)
            || role.is_some_and(|role| self.covers(account, &binding.namespace, &role))
    }

    /// Returns true if a service account has all rights that the rules of roles give in a namespace, so that it may
    /// grant them.
    pub(crate) fn covers(&self, account: &NamespacedName, namespace: &str, roles: &[&Value]) -> bool {
        let bindings = self.objects.iter().filter(|(binding, value)| {
            let is_near = &*binding.kind == "ClusterRoleBinding"
                || (&*binding.kind == "RoleBinding" && !namespace.is_empty() && *binding.namespace == *namespace);
            is_near && binds(binding, value, account)
        });
        let bound = bindings.filter_map(|(binding, value)| self.role(binding, value));
        let own: Vec<&Value> =
            bound.flat_map(|role| self.rules_of(role)).flat_map(|role| list_at(role, "/rules")).collect();
        roles.iter().flat_map(|role| list_at(role, "/rules")).all(|wanted| is_covered(wanted, &own))
    }

    fn role(&self, binding: &ObjectId, value: &Value) -> Option<&Value> {
        let found = self.objects.iter().find(|(id, _)| names_role(binding, value, id));
        found.map(|(_, role)| *role)
    }

    /// Returns the roles whose rules a role has: itself, or those that it selects.
    fn rules_of<'v>(&'v self, role: &'v Value) -> Vec<&'v Value> {
        let (mut found, mut at): (Vec<&Value>, usize) = (vec![role], 0);
        while let Some(role) = found.get(at).copied() {
            for selector in list_at(role, "/aggregationRule/clusterRoleSelectors") {
                let selected = self.objects.iter().filter(|(id, other)| {
                    let labels: KeyValues = texts_at(other, "/metadata/labels").collect();
                    &*id.kind == "ClusterRole" && selects(selector, |key| labels.get(key))
                });
                let new: Vec<&Value> = selected
                    .map(|(_, other)| *other)
                    .filter(|other| !found.iter().any(|known| std::ptr::eq(*known, *other)))
                    .collect();
                found.extend(new);
            }
            at += 1;
        }
        found.retain(|role| role.get("aggregationRule").is_none_or(Value::is_null));
        found
    }
}

/// Returns true if a subject of a binding is a service account, or one of its groups.
pub(crate) fn binds(binding: &ObjectId, value: &Value, account: &NamespacedName) -> bool {
    list_at(value, "/subjects").iter().any(|subject| is_account(subject, binding, account))
}

pub(crate) fn names_role(binding: &ObjectId, value: &Value, role: &ObjectId) -> bool {
    let (kind, name) = (text_at(value, "/roleRef/kind"), text_at(value, "/roleRef/name"));
    let namespace = if kind == "Role" { &*binding.namespace } else { "" };
    (&*role.kind, &*role.namespace, &*role.name) == (kind, namespace, name)
}

/// Returns true if a subject is a service account, or one of its groups. `binding` names it.
fn is_account(subject: &Value, binding: &ObjectId, account: &NamespacedName) -> bool {
    let (name, NamespacedName { namespace, name: own }) = (text_at(subject, "/name"), account);
    match text_at(subject, "/kind") {
        "ServiceAccount" => {
            let of_subject = text_at(subject, "/namespace");
            let of_subject = if of_subject.is_empty() { &*binding.namespace } else { of_subject };
            name == own && of_subject == namespace
        }
        "User" => name == account.user(),
        "Group" => match name.strip_prefix("system:serviceaccounts") {
            Some(rest) => rest.is_empty() || rest.strip_prefix(':') == Some(namespace),
            None => name == "system:authenticated",
        },
        _ => false,
    }
}

/// Returns true if the rules of a role give a right to change an object of a kind. An apply that creates an object
/// names it.
pub(crate) fn grants(role: &Value, verb: &str, kind: &ResourceType, id: &ObjectId) -> bool {
    list_at(role, "/rules").iter().any(|rule| {
        let names = list_at(rule, "/resourceNames");
        gives(rule, verb, &kind.group, &kind.plural) && (names.is_empty() || names.iter().any(|name| *name == *id.name))
    })
}

/// Returns true if rules give each right that another rule gives.
fn is_covered(wanted: &Value, own: &[&Value]) -> bool {
    let [mut verbs, groups, resources, urls] = ["/verbs", "/apiGroups", "/resources", "/nonResourceURLs"]
        .map(|list| list_at(wanted, list).iter().filter_map(Value::as_str));
    let names = list_at(wanted, "/resourceNames");
    let of_names: Vec<&&Value> = own
        .iter()
        .filter(|rule| {
            let own = list_at(rule, "/resourceNames");
            own.is_empty() || (!names.is_empty() && names.iter().all(|name| own.contains(name)))
        })
        .collect();
    verbs.all(|verb| {
        let has_urls = urls
            .clone()
            .all(|url| own.iter().any(|rule| has(rule, "/verbs", verb) && has(rule, "/nonResourceURLs", url)));
        let has_resources = groups.clone().all(|group| {
            resources.clone().all(|resource| of_names.iter().any(|rule| gives(rule, verb, group, resource)))
        });
        has_urls && has_resources
    })
}

/// Returns true if a rule gives a right to some objects of a kind.
fn gives(rule: &Value, verb: &str, group: &str, resource: &str) -> bool {
    has(rule, "/verbs", verb) && has(rule, "/apiGroups", group) && has(rule, "/resources", resource)
}

fn has(rule: &Value, pointer: &str, value: &str) -> bool {
    list_at(rule, pointer).iter().any(|found| found == "*" || found == value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::resource_type;

    #[test]
    fn an_account_may_what_a_bound_role_grants() {
        let kind = resource_type("", "ConfigMap", "configmaps", true);
        let id = ObjectId::new("", "ConfigMap", "shop", "a");
        let object = |kind: &str, namespace: &str, name: &str| ObjectId::new(RBAC, kind, namespace, name);
        let rules = json!({"rules": [{"verbs": ["delete"], "apiGroups": [""], "resources": ["configmaps"]}]});
        let roles = [(object("Role", "shop", "r"), &rules), (object("ClusterRole", "", "r"), &rules)];
        let account = NamespacedName { namespace: "flux".to_owned(), name: "s".to_owned() };
        let own = json!({"kind": "ServiceAccount", "name": "s", "namespace": "flux"});
        for (binding, role, subject, expected) in [
            (object("RoleBinding", "shop", "b"), "Role", own.clone(), true),
            (object("RoleBinding", "shop", "b"), "ClusterRole", own.clone(), true),
            (object("RoleBinding", "other", "b"), "ClusterRole", own.clone(), false),
            (object("ClusterRoleBinding", "", "b"), "ClusterRole", own.clone(), true),
            (object("RoleBinding", "shop", "b"), "Role", json!({"kind": "ServiceAccount", "name": "s"}), false),
            (
                object("RoleBinding", "shop", "b"),
                "Role",
                json!({"kind": "Group", "name": "system:serviceaccounts:flux"}),
                true,
            ),
            (
                object("RoleBinding", "shop", "b"),
                "Role",
                json!({"kind": "Group", "name": "system:serviceaccounts:fl"}),
                false,
            ),
            (
                object("RoleBinding", "shop", "b"),
                "Role",
                json!({"kind": "User", "name": "system:serviceaccount:flux:s"}),
                true,
            ),
        ] {
            let value = json!({"roleRef": {"kind": role, "name": "r"}, "subjects": [subject]});
            let mut rbac = Rbac { objects: roles.iter().map(|(id, role)| (id, *role)).collect() };
            assert!(!rbac.allows(&account, "delete", &kind, &id), "no binding");
            rbac.objects.push((&binding, &value));
            assert_eq!(rbac.allows(&account, "delete", &kind, &id), expected, "{binding}: {value}");
            assert!(!rbac.allows(&account, "patch", &kind, &id), "{binding}: {value}");
        }
    }

    #[test]
    fn a_role_grants_what_one_rule_has_in_all_fields() {
        let kind = resource_type("", "ConfigMap", "configmaps", true);
        let id = ObjectId::new("", "ConfigMap", "shop", "a");
        for (rule, expected) in [
            (json!({"verbs": ["delete"], "apiGroups": [""], "resources": ["configmaps"]}), true),
            (json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}), true),
            (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}), false),
            (json!({"verbs": ["delete"], "apiGroups": ["apps"], "resources": ["configmaps"]}), false),
            (json!({"verbs": ["delete"], "apiGroups": [""], "resources": ["secrets"]}), false),
            (
                json!({"verbs": ["delete"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["b"]}),
                false,
            ),
            (
                json!({"verbs": ["delete"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"]}),
                true,
            ),
        ] {
            assert_eq!(grants(&json!({"rules": [rule.clone()]}), "delete", &kind, &id), expected, "{rule}");
        }
    }

    #[test]
    fn an_aggregated_role_has_the_rules_of_those_that_it_selects() {
        let kind = resource_type("", "ConfigMap", "configmaps", true);
        let id = ObjectId::new("", "ConfigMap", "shop", "a");
        let rule = json!([{"verbs": ["delete"], "apiGroups": [""], "resources": ["configmaps"]}]);
        let selecting = |label: &str| {
            json!({"metadata": {"labels": {"to": "top"}}, "rules": [],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": label}}]}})
        };
        let (top, middle) = (selecting("top"), selecting("middle"));
        let part = |label: &str| json!({"metadata": {"labels": {"to": label}}, "rules": rule.clone()});
        let account = NamespacedName { namespace: "flux".to_owned(), name: "s".to_owned() };
        let binding = json!({"roleRef": {"kind": "ClusterRole", "name": "top"},
            "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "flux"}]});
        let role = |name: &str| ObjectId::new(RBAC, "ClusterRole", "", name);
        let (bound, names) =
            (ObjectId::new(RBAC, "ClusterRoleBinding", "", "b"), [role("top"), role("middle"), role("part")]);
        for (label, expected) in [("top", true), ("middle", true), ("other", false)] {
            let part = part(label);
            let objects = vec![(&bound, &binding), (&names[0], &top), (&names[1], &middle), (&names[2], &part)];
            assert_eq!(Rbac { objects }.allows(&account, "delete", &kind, &id), expected, "{label}");
        }
        let stale = json!({"rules": rule.clone(), "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "none"}}]}});
        let objects = vec![(&bound, &binding), (&names[0], &stale)];
        assert!(!Rbac { objects }.allows(&account, "delete", &kind, &id), "its own rules are overwritten");
    }
}
