//! Requests of HelmReleases and ResourceSets that the server accepts now, and may refuse while the change is carried
//! out.

use serde_json::{Value, json};

use super::changed_rules::refused;
use super::cluster::{Files, NS, TestCluster, cm, set};
use super::resource_sets::{self, tenants};
use super::upgrades::{Template, deployed_from, spec, templates, tree, without};
use crate::testing::resource_type;

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Adds the types of rules to a cluster whose server accepts everything now.
fn ruled(mut cluster: TestCluster) -> TestCluster {
    for (group, kind, plural, namespaced) in [
        (ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false),
        (ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", false),
        (RBAC, "Role", "roles", true),
        (RBAC, "RoleBinding", "rolebindings", true),
        ("", "LimitRange", "limitranges", true),
        ("", "PersistentVolumeClaim", "persistentvolumeclaims", true),
        ("e.com", "Widget", "widgets", true),
        ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false),
    ] {
        cluster.snapshot.types.push(resource_type(group, kind, plural, namespaced));
    }
    cluster.upgrades = Some([].into());
    // A refusal elsewhere lets the tests tell changes from objects that stay as they are.
    cluster.refusals = vec![refused("other", &cm("z"), &Value::Null, "no")];
    cluster.snapshot.normalise();
    cluster
}

/// Returns the rows of an upgrade that drops `extra` and brings these objects, while other objects change.
fn upgraded(account: Option<&str>, before: Vec<Value>, after: Vec<Value>, new: Vec<Value>) -> Vec<String> {
    let mut spec = spec(json!({}));
    spec["serviceAccountName"] = json!(account);
    spec["upgrade"] = json!({"serverSideApply": "enabled"});
    let files = |version: &str, templates: &[Template], objects: Vec<Value>| -> Files {
        let mut files = tree(version, templates, spec.clone());
        files[0].1.extend(objects);
        files
    };
    let cluster = ruled(deployed_from(&files("1", &templates(), before)));
    let mut after = files("2", &without("extra"), after);
    after.push(("charts/app/templates/new.yaml", new));
    cluster.rows(&after).into_iter().filter(|row| row.ends_with("extra")).collect()
}

fn policy(operation: &str) -> Vec<Value> {
    let api_version = format!("{ADMISSION}/v1");
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": ["configmaps"]});
    let spec = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]});
    vec![
        json!({"apiVersion": api_version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": spec}),
        json!({"apiVersion": api_version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "bound"},
            "spec": {"policyName": "p", "validationActions": ["Deny"]}}),
    ]
}

/// Returns a role with these verbs that the account `s` has.
fn rights(verbs: &[&str]) -> Vec<Value> {
    let api_version = format!("{RBAC}/v1");
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": verbs}]);
    let metadata = |name: &str| json!({"name": name, "namespace": NS});
    vec![
        json!({"apiVersion": api_version, "kind": "Role", "metadata": metadata("r"), "rules": rules}),
        json!({"apiVersion": api_version, "kind": "RoleBinding", "metadata": metadata("bound"),
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": NS}]}),
    ]
}

#[test]
fn a_policy_of_the_change_can_refuse_what_a_release_applies_or_deletes() {
    assert_eq!(upgraded(None, vec![], policy("CREATE"), vec![cm("n")]), ["delete? extra"]);
    assert_eq!(upgraded(None, vec![], policy("CREATE"), vec![]), ["delete extra"], "nothing is created");
    assert_eq!(upgraded(None, vec![], policy("DELETE"), vec![]), ["delete? extra"]);
}

#[test]
fn an_account_that_loses_a_right_may_not_upgrade_its_release() {
    let all = ["get", "list", "create", "patch", "delete"];
    let rows = |left: &[&str]| upgraded(Some("s"), rights(&all), rights(left), vec![cm("n")]);
    assert_eq!(rows(&["get", "patch", "delete"]), ["delete? extra"]);
    assert_eq!(rows(&["get", "create", "patch"]), ["delete? extra"]);
    assert_eq!(rows(&["get", "create", "patch", "delete"]), ["delete extra"]);
    let other = upgraded(Some("other"), rights(&all), rights(&["get"]), vec![cm("n")]);
    assert_eq!(other, ["delete extra"], "the role is of another account");
}

#[test]
fn a_definition_of_the_change_can_refuse_a_value() {
    let definition = |values: &[&str]| {
        let size = json!({"type": "object", "properties": {"size": {"type": "string", "enum": values}}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": size}}});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.e.com"},
            "spec": {"group": "e.com", "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Namespaced",
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
    };
    let widget = json!({"apiVersion": "e.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": NS},
        "spec": {"size": "big"}});
    let rows = |values: &[&str]| {
        upgraded(None, vec![definition(&["small", "big"])], vec![definition(values)], vec![widget.clone()])
    };
    assert_eq!(rows(&["small"]), ["delete? extra"]);
    assert_eq!(rows(&["big"]), ["delete extra"]);
}

#[test]
fn a_limit_range_of_the_change_can_refuse_a_new_claim() {
    let range = |kind: &str| {
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": NS},
            "spec": {"limits": [{"type": kind, "max": {"storage": "1Gi"}}]}})
    };
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": NS},
        "spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let own = |kind: &str| upgraded(None, vec![], vec![], vec![range(kind), claim.clone()]);
    assert_eq!(own("PersistentVolumeClaim"), ["delete? extra"]);
    assert_eq!(own("Pod"), ["delete extra"]);
    let by_others = upgraded(None, vec![], vec![range("PersistentVolumeClaim")], vec![claim.clone()]);
    assert_eq!(by_others, ["delete? extra"]);
}

#[test]
fn rules_of_the_change_can_refuse_what_a_set_applies_or_deletes() {
    let rows = |names: &[&str], account: Option<&str>, before: Vec<Value>, after: Vec<Value>| {
        let files = |names: &[&str], objects: Vec<Value>| -> Files {
            let mut tenants = tenants(names, json!([cm("<< inputs.tenant >>")]));
            tenants["spec"]["serviceAccountName"] = json!(account);
            vec![("root/a.yaml", [vec![tenants], objects].concat())]
        };
        let rows = ruled(resource_sets::cluster(&files(&["a", "b"], before))).rows(&files(names, after));
        rows.into_iter().filter(|row| row.ends_with(" b")).collect::<Vec<_>>()
    };
    assert_eq!(rows(&["a", "n"], None, vec![], policy("CREATE")), ["delete? b"]);
    assert_eq!(rows(&["a"], None, vec![], policy("CREATE")), ["delete b"]);
    let all = rights(&["get", "create", "patch", "delete"]);
    assert_eq!(rows(&["a"], Some("s"), all.clone(), rights(&["get", "create", "patch"])), ["delete? b"]);
    assert_eq!(rows(&["a"], Some("s"), all, rights(&["get", "patch", "delete"])), ["delete b"]);
}

#[test]
fn what_a_set_takes_over_from_a_chart_comes_back_only_if_it_is_deleted_before() {
    let mut cluster = deployed_from(&tree("1", &templates(), spec(json!({}))));
    cluster.has_operator = true;
    cluster.upgrades = Some([].into());
    let mut after = tree("2", &without("extra"), spec(json!({})));
    after[0].1.push(tenants(&["extra"], json!([cm("<< inputs.tenant >>")])));
    assert_eq!(cluster.rows(&after), set(&["recreate? extra"]));
}
