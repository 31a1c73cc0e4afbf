//! Rights that a Role or ClusterRole of a tree gives.

use serde_json::Value;

use crate::kubernetes::object::{ObjectId, ResourceType, list_at};

/// Returns true if the rules of a role give a right to change an object of a kind.
pub(crate) fn grants(role: &Value, verb: &str, kind: &ResourceType, id: &ObjectId) -> bool {
    list_at(role, "/rules").iter().any(|rule| {
        let names = list_at(rule, "/resourceNames");
        has(rule, "/verbs", verb)
            && has(rule, "/apiGroups", &kind.group)
            && has(rule, "/resources", &kind.plural)
            && (names.is_empty() || names.iter().any(|name| *name == *id.name))
    })
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
}
