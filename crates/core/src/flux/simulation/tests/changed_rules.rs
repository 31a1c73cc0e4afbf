//! Rules by which the API server accepts objects, and that the change itself creates, changes or deletes.

use super::*;
use crate::flux::apply::AppliedObject;
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::simulation::model::refusals::{DeletionRefusal, Refusal};
use crate::plan::Certainty;
use crate::testing::resource_type;

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

pub(super) fn refused(owner: &str, manifest: &Value, spec: &Value, message: &str) -> Refusal {
    let id = crate::flux::build::objects::objects(manifest.clone().into(), None)[0].id.clone();
    Refusal {
        owner: NamespacedName { namespace: NS.into(), name: owner.into() },
        id,
        manifest: manifest.clone().into(),
        spec: KustomizationSpec::new(spec),
        message: message.into(),
        is_late: false,
        condition: None,
    }
}

fn value(name: &str, value: &str) -> Value {
    let mut manifest = cm(name);
    manifest["data"] = json!({"v": value});
    manifest
}

fn policy(name: &str, operation: &str, expression: &str) -> Value {
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": ["configmaps"]});
    json!({"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}})
}

fn binding(name: &str, policy: &str, exempt: Option<&str>) -> Value {
    let mut matches = json!({});
    if let Some(label) = exempt {
        matches["namespaceSelector"]["matchExpressions"] = json!([{"key": label, "operator": "DoesNotExist"}]);
    }
    json!({"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": policy, "validationActions": ["Deny"], "matchResources": matches}})
}

fn denied(policy: &str, binding: &str) -> String {
    format!(
        "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: no"
    )
}

/// A cluster with these files, in which the types of rules are served.
fn cluster_of(files: &Files) -> TestCluster {
    let mut cluster = TestCluster::new(files);
    let rbac = "rbac.authorization.k8s.io";
    let admission = "admissionregistration.k8s.io";
    for (group, kind, plural, namespaced) in [
        (admission, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false),
        (admission, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", false),
        (admission, "MutatingAdmissionPolicy", "mutatingadmissionpolicies", false),
        (admission, "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", false),
        (rbac, "Role", "roles", true),
        (rbac, "RoleBinding", "rolebindings", true),
        ("", "Service", "services", true),
        ("", "ResourceQuota", "resourcequotas", true),
        ("", "LimitRange", "limitranges", true),
        ("", "Pod", "pods", true),
        ("apps", "Deployment", "deployments", true),
        ("e.com", "Widget", "widgets", true),
        ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false),
    ] {
        cluster.snapshot.types.push(resource_type(group, kind, plural, namespaced));
    }
    // A refusal elsewhere lets the tests tell changes from objects that stay as they are.
    cluster.refusals = vec![refused("other", &cm("z"), &Value::Null, "no")];
    cluster.snapshot.normalise();
    cluster
}

/// `rules` with the policy objects, and `k`.
fn files(rules: Vec<Value>, more: Value, objects: Vec<Value>) -> Files {
    vec![
        ("root/k.yaml", vec![ks("rules", "./rules", json!({})), ks("k", "./p", more)]),
        ("rules/r.yaml", rules),
        ("p/a.yaml", objects),
    ]
}

#[test]
fn a_refusal_ends_with_its_policy_unless_another_one_denies_the_object_too() {
    let held = || policy("held", "UPDATE", "object.data.v != '2'");
    let before = files(vec![held(), binding("bound", "held", None), cm("c")], json!({}), vec![cm("a"), cm("b")]);
    let after = |rules: Vec<Value>| files(rules, json!({}), vec![value("b", "2")]);
    let mut cluster = cluster_of(&before);
    cluster.refusals.push(refused("k", &value("b", "2"), &Value::Null, &denied("held", "bound")));
    assert_eq!(cluster.rows(&after(vec![held(), cm("c")])), set(&["delete a", "delete bound"]));
    let kept = after(vec![held(), binding("bound", "held", None), cm("c")]);
    assert_eq!(cluster.rows(&kept), set(&["keep a", "keep b"]));
    let other = after(vec![policy("held", "UPDATE", "object.data.v != '3'"), binding("bound", "held", None), cm("c")]);
    assert_eq!(cluster.rows(&other), set(&["delete a"]), "the policy denies something else now");

    for (expression, row) in [("object.data.v != '2'", "keep a"), ("object.data.v != '4'", "delete a")] {
        cluster.add(&policy("too", "UPDATE", expression), None);
        cluster.add(&binding("too-bound", "too", None), None);
        cluster.snapshot.normalise();
        let rows = cluster.rows(&after(vec![held(), cm("c")]));
        assert!(rows.contains(row), "{expression}: {rows:?}");
        cluster.snapshot.objects.retain(|object| !object.id.name.starts_with("too"));
    }
}

#[test]
fn an_object_that_quotes_a_policy_is_refused_without_the_policy_too() {
    let held = || policy("held", "UPDATE", "object.data.v != '2'");
    let before = files(vec![held(), binding("bound", "held", None), cm("c")], json!({}), vec![cm("a"), cm("b")]);
    let after = files(vec![held(), cm("c")], json!({}), vec![value("b", "2")]);
    let rows = |message: &str| {
        let mut cluster = cluster_of(&before);
        cluster.refusals.push(refused("k", &value("b", "2"), &Value::Null, message));
        cluster.rows(&after)
    };
    let denial = denied("held", "bound");
    assert_eq!(rows(&denial), set(&["delete a", "delete bound"]), "the policy itself");
    let invalid = format!("ConfigMap \"b\" is invalid: metadata.labels: Invalid value: {denial:?}: a label is short");
    assert_eq!(rows(&invalid), set(&["delete bound", "keep a", "keep b"]));
    let webhook = format!("admission webhook \"h.e.com\" denied the request: {denial}");
    let rows = rows(&webhook);
    assert!(rows.contains("delete? a"), "nobody knows what the webhook does then: {rows:?}");
}

#[test]
fn a_policy_that_comes_may_deny_what_is_accepted_now() {
    let held = policy("held", "UPDATE", "object.data.v != '2'");
    let mut cluster = cluster_of(&files(vec![cm("c")], json!({}), vec![cm("a"), cm("b")]));
    cluster.add(&held, None);
    cluster.snapshot.normalise();
    let after = |more: Value| files(vec![cm("c"), binding("bound", "held", None)], more, vec![value("b", "2")]);
    assert_eq!(cluster.rows(&after(json!({}))), set(&["delete? a"]), "nobody knows which comes first");
    let dependant = after(json!({"dependsOn": [{"name": "rules"}]}));
    assert_eq!(cluster.rows(&dependant), set(&["delete? a"]), "the server needs time to know the binding");
    let mut allowed = dependant.clone();
    allowed[2].1 = vec![value("b", "3")];
    assert_eq!(cluster.rows(&allowed), set(&["delete a"]));
    let own = vec![
        ("root/k.yaml", vec![ks("rules", "./rules", json!({})), ks("k", "./p", json!({}))]),
        ("rules/r.yaml", vec![cm("c")]),
        ("p/a.yaml", vec![value("b", "2"), binding("bound", "held", None)]),
    ];
    assert_eq!(cluster.rows(&own), set(&["delete a"]), "a run applies its ConfigMaps before the binding");
    let unknown = policy("held", "UPDATE", "request.userInfo.username != 'x'");
    cluster.data.insert("held".into(), unknown);
    assert_eq!(cluster.rows(&dependant), set(&["delete? a"]), "nobody here can evaluate it");
}

#[test]
fn a_parameter_of_a_policy_that_changes_changes_its_verdict() {
    let mut held = policy("held", "UPDATE", "object.data.v != params.data.v");
    held["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let bound = |reference: Value| {
        let mut bound = binding("bound", "held", None);
        bound["spec"]["paramRef"] = reference;
        bound
    };
    let named = json!({"name": "limits", "namespace": NS});
    let of = |reference: Value, limit: &str| {
        let mut cluster =
            cluster_of(&files(vec![value("limits", limit), cm("c")], json!({}), vec![cm("a"), value("b", "1")]));
        cluster.add(&held, None);
        cluster.add(&bound(reference), None);
        cluster.snapshot.normalise();
        cluster
    };
    let dependant = json!({"dependsOn": [{"name": "rules"}]});
    let after = |rules: Vec<Value>, object: Value| files(rules, dependant.clone(), vec![object]);
    let to = |limit: &str| after(vec![value("limits", limit), cm("c")], value("b", "2"));
    let cluster = of(named, "9");
    assert_eq!(cluster.rows(&to("2")), set(&["delete? a"]), "the server needs time to know the parameter");
    assert_eq!(cluster.rows(&to("3")), set(&["delete a"]));
    let unchanged = after(vec![value("limits", "1"), cm("c")], value("b", "1"));
    assert_eq!(cluster.rows(&unchanged), set(&["delete? a"]), "an object that does not change is asked about too");
    let cluster = of(json!({"selector": {"matchLabels": {"limits": "yes"}}, "namespace": NS}), "9");
    assert_eq!(cluster.rows(&to("2")), set(&["delete a"]), "nothing is selected");
    let mut selected = value("limits", "9");
    selected["metadata"]["labels"] = json!({"limits": "yes"});
    let labelled = after(vec![selected, cm("c")], value("b", "2"));
    assert_eq!(cluster.rows(&labelled), set(&["delete? a"]), "the label selects one more");
}

#[test]
fn a_policy_with_mutations_may_make_something_else_of_an_object() {
    let of_kind = |mut manifest: Value| {
        manifest["kind"] = manifest["kind"].as_str().unwrap().replace("Validating", "Mutating").into();
        manifest
    };
    let mut mutating = of_kind(policy("m", "UPDATE", "true"));
    mutating["spec"]["mutations"] = json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}]);
    let bound = || of_kind(binding("bound", "m", None));
    let mut cluster = cluster_of(&files(vec![cm("c")], json!({}), vec![cm("a"), cm("b")]));
    let after = |rules: Vec<Value>| files(rules, json!({}), vec![value("b", "2")]);
    assert_eq!(cluster.rows(&after(vec![cm("c"), mutating.clone(), bound()])), set(&["delete? a"]));
    let mut elsewhere = mutating.clone();
    elsewhere["spec"]["matchConstraints"]["resourceRules"][0]["resources"] = json!(["secrets"]);
    assert_eq!(cluster.rows(&after(vec![cm("c"), elsewhere, bound()])), set(&["delete a"]));
    cluster.add(&mutating, None);
    cluster.add(&bound(), None);
    cluster.snapshot.normalise();
    let other = policy("other", "UPDATE", "true");
    let rows = cluster.rows(&after(vec![cm("c"), other.clone(), binding("o", "other", None)]));
    assert_eq!(rows, set(&["delete a"]), "what it makes of the object today is in the answer of the server");
}

#[test]
fn a_limit_range_that_comes_before_a_pod_may_refuse_it() {
    let limits = |bound: &str, kind: &str| {
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": NS},
            "spec": {"limits": [{"type": kind, bound: {"cpu": "1"}}]}})
    };
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": NS}});
    let own = |limits: Value| files(vec![cm("c")], json!({}), vec![cm("b"), limits, pod.clone()]);
    let cluster = cluster_of(&files(vec![cm("c")], json!({}), vec![cm("a"), cm("b")]));
    assert_eq!(cluster.rows(&own(limits("max", "Container"))), set(&["delete? a"]));
    assert_eq!(cluster.rows(&own(limits("default", "Container"))), set(&["delete a"]), "it has no bound");
    assert_eq!(cluster.rows(&own(limits("max", "PersistentVolumeClaim"))), set(&["delete a"]));
    let others = files(vec![cm("c"), limits("min", "Pod")], json!({}), vec![cm("b"), pod.clone()]);
    assert_eq!(cluster.rows(&others), set(&["delete? a"]));
    let later = |mut files: Files| {
        files[0].1[0] = ks("rules", "./rules", json!({"dependsOn": [{"name": "k"}]}));
        files
    };
    let cluster = cluster_of(&later(files(vec![cm("c")], json!({}), vec![cm("a"), cm("b")])));
    assert_eq!(cluster.rows(&later(others)), set(&["delete a"]));
}

#[test]
fn labels_of_a_namespace_end_an_exemption_and_begin_one() {
    let namespace = |labels: Value| {
        let mut manifest = cluster_scoped("Namespace", "shop");
        manifest["metadata"]["labels"] = labels;
        manifest
    };
    let inside = |name: &str, text: &str| in_namespace(value(name, text), "shop");
    let files = |labels: Value, objects: Vec<Value>| {
        vec![
            ("root/k.yaml", vec![ks("k", "./p", json!({}))]),
            ("p/a.yaml", [vec![namespace(labels)], objects].concat()),
        ]
    };
    let trusted = json!({"trusted": "yes"});
    let new = || inside("b", "2");
    for (before, after, is_denied, rows) in [
        (json!({}), trusted.clone(), true, set(&["delete a"])),
        (json!({}), json!({"team": "x"}), true, set(&["keep a", "keep b"])),
        (trusted.clone(), json!({"team": "x"}), false, set(&["keep a", "keep b"])),
        (trusted.clone(), json!({"team": "x", "trusted": "no"}), false, set(&["delete a"])),
    ] {
        let before = files(before, vec![inside("a", "1"), inside("b", "1")]);
        let mut cluster = cluster_of(&before);
        cluster.history = Some(before);
        cluster.add(&policy("held", "UPDATE", "object.data.v != '2'"), None);
        cluster.add(&binding("bound", "held", Some("trusted")), None);
        cluster.snapshot.normalise();
        if is_denied {
            cluster.refusals.push(refused("k", &new(), &Value::Null, &denied("held", "bound")));
        }
        let (plan, _) = super::premises::verified(&cluster, &files(after.clone(), vec![new()]));
        let shown = plan.changes().iter().filter(|row| !matches!(row.action, Action::Create | Action::Update));
        let found: BTreeSet<String> = shown.map(|row| format!("{} {}", row.action, row.object.id.name)).collect();
        assert_eq!(found, rows, "{after}");
    }
}

#[test]
fn a_deletion_is_decided_by_the_policies_after_the_change() {
    let keeps = policy("keeps", "DELETE", "oldObject.metadata.name != 'a'");
    let rules = || vec![keeps.clone(), binding("bound", "keeps", None), cm("c")];
    let mut cluster = cluster_of(&files(rules(), json!({}), vec![cm("a"), cm("b")]));
    cluster.deletion_refusals = vec![DeletionRefusal {
        owner: NamespacedName { namespace: NS.into(), name: "k".into() },
        account: None,
        id: ObjectId::new("", "ConfigMap", NS, "a"),
        message: denied("keeps", "bound"),
    }];
    assert_eq!(cluster.rows(&files(rules(), json!({}), vec![cm("b")])), set(&["keep a"]));
    let ends = files(vec![keeps.clone(), cm("c")], json!({}), vec![cm("b")]);
    assert_eq!(cluster.rows(&ends), set(&["delete a", "delete bound"]));
    let mut cluster = cluster_of(&files(vec![cm("c")], json!({}), vec![cm("a"), cm("b")]));
    cluster.add(&keeps, None);
    cluster.snapshot.normalise();
    let dependant = json!({"dependsOn": [{"name": "rules"}]});
    let comes = files(vec![cm("c"), binding("bound", "keeps", None)], dependant, vec![cm("b")]);
    assert_eq!(cluster.rows(&comes), set(&["delete? a"]), "the server needs time to know the binding");
}

#[test]
fn a_right_that_a_bound_role_gains_ends_a_refusal() {
    let role = |name: &str, verbs: &[&str]| {
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
        json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": name, "namespace": NS}, "rules": rules})
    };
    let account = json!({"serviceAccountName": "s"});
    let files = |role: Value, objects: Vec<Value>| files(vec![role, cm("c")], account.clone(), objects);
    let mut cluster = cluster_of(&files(role("r", &["get", "patch"]), vec![cm("a"), cm("b")]));
    cluster
        .add(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s", "namespace": NS}}), None);
    cluster.add(
        &json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "bound", "namespace": NS},
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": NS}]}),
        None,
    );
    cluster.snapshot.normalise();
    cluster.deletion_refusals = vec![DeletionRefusal {
        owner: NamespacedName { namespace: NS.into(), name: "k".into() },
        account: Some("s".into()),
        id: ObjectId::new("", "ConfigMap", NS, "a"),
        message: "configmaps \"a\" is forbidden: User \"s\" cannot delete resource \"configmaps\"".into(),
    }];
    assert_eq!(cluster.rows(&files(role("r", &["get", "patch", "delete"]), vec![cm("b")])), set(&["delete a"]));
    assert_eq!(cluster.rows(&files(role("r", &["get"]), vec![cm("b")])), set(&["keep a"]));
    let unbound = files(role("free", &["get", "delete"]), vec![cm("b")]);
    assert!(cluster.rows(&unbound).contains("keep a"), "no binding gives the account that role");
}

#[test]
fn a_binding_that_goes_with_a_kustomization_may_take_the_rights_of_its_finalizer() {
    let bound = |account: &str| {
        json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "bound", "namespace": NS},
            "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": account}]})
    };
    let role = || json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "r", "namespace": NS}, "rules": []});
    let goes = |rights: Vec<Value>, spec: Value| {
        let root = |objects| ("root/k.yaml", objects);
        let both = vec![ks("rbac", "./rbac", json!({})), ks("k", "./p", spec)];
        let files = vec![root(both), ("rbac/r.yaml", rights), ("p/a.yaml", vec![cm("a")])];
        let after = vec![root(vec![]), files[1].clone(), files[2].clone()];
        let mut cluster = cluster_of(&files);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s", "namespace": NS}});
        cluster.add(&account, None);
        cluster.snapshot.normalise();
        cluster.history = Some(files);
        let rows = cluster.rows(&after);
        (rows.contains("delete a"), cluster.outcome(&after, "k"))
    };
    let account = || json!({"serviceAccountName": "s"});
    let (is_certain, why) = goes(vec![bound("s"), role()], account());
    assert!(!is_certain && why.contains("which may give its account its rights, is deleted too"), "{why}");
    assert!(!goes(vec![role()], account()).0, "something else may bind the role");
    assert!(goes(vec![bound("other"), role()], account()).0, "the binding is of another account");
    assert!(goes(vec![bound("s"), role()], json!({})).0, "it acts as the controller");
}

#[test]
fn an_approval_in_the_same_commit_ends_the_refusal_of_a_deletion() {
    let mut guard = policy("guard", "DELETE", "has(params.data) && oldObject.metadata.uid in params.data");
    guard["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    guard["spec"]["matchConditions"] = json!([{"name": "user", "expression": "request.userInfo.username == 'k'"}]);
    let mut bound = binding("bound", "guard", None);
    bound["spec"]["paramRef"] = json!({"name": "approvals", "namespace": NS});
    let approving = |uid: &str| {
        let mut approvals = cm("approvals");
        approvals["data"] = json!({uid: ""});
        approvals
    };
    let files = |uid, objects| files(vec![guard.clone(), bound.clone(), approving(uid)], json!({}), objects);
    let mut cluster = cluster_of(&files("other", vec![cm("a"), cm("b")]));
    cluster.content.insert("a".to_owned(), json!({"metadata": {"uid": "u"}}));
    cluster.content.insert("approvals".to_owned(), approving("other"));
    cluster.deletion_refusals = vec![DeletionRefusal {
        owner: NamespacedName { namespace: NS.into(), name: "k".into() },
        account: None,
        id: ObjectId::new("", "ConfigMap", NS, "a"),
        message: denied("guard", "bound"),
    }];
    assert_eq!(cluster.rows(&files("u", vec![cm("b")])), set(&["delete a"]));
    assert_eq!(cluster.rows(&files("v", vec![cm("b")])), set(&["keep a"]), "it approves something else");
    assert_eq!(cluster.rows(&files("other", vec![cm("b")])), set(&["keep a"]));
}

fn service(name: &str, port: u16) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NS},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}})
}

#[test]
fn a_node_port_is_free_once_its_service_is_gone() {
    let files = |rules: Vec<Value>, objects: Vec<Value>| files(rules, json!({}), objects);
    let taken =
        "Service \"new\" is invalid: spec.ports[0].nodePort: Invalid value: 31000: provided port is already allocated";
    let mut cluster = cluster_of(&files(vec![service("old", 31000), cm("c")], vec![cm("a"), cm("b")]));
    cluster.refusals.push(refused("k", &service("new", 31000), &Value::Null, taken));
    let new = || vec![cm("b"), service("new", 31000)];
    assert_eq!(cluster.rows(&files(vec![cm("c")], new())), set(&["delete a", "delete old"]));
    assert_eq!(cluster.rows(&files(vec![service("old", 31001), cm("c")], new())), set(&["delete a"]));
    assert_eq!(cluster.rows(&files(vec![service("old", 31000)], new())), set(&["delete c", "keep a", "unknown new"]));
    let two = files(vec![service("third", 31000), cm("c")], new());
    assert!(cluster.rows(&two).contains("delete? a"), "two ask for the port");
}

#[test]
fn what_is_pruned_first_is_created_anew() {
    let deployment = |selector: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": NS},
            "spec": {"selector": {"matchLabels": {"a": selector}}}})
    };
    let immutable = "Deployment.apps \"d\" is invalid: spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"e\"}}: field is immutable";
    let before = files(vec![deployment("d"), cm("c")], json!({}), vec![cm("a"), cm("b")]);
    let mut cluster = cluster_of(&before);
    cluster.refusals.push(refused("k", &deployment("e"), &Value::Null, immutable));
    let moved = files(vec![cm("c")], json!({}), vec![cm("b"), deployment("e")]);
    assert_eq!(cluster.rows(&moved), set(&["delete a", "recreate d"]));
    let kept = files(vec![deployment("d"), cm("c")], json!({}), vec![cm("b"), deployment("e")]);
    assert!(cluster.rows(&kept).contains("keep a"), "nobody deletes the live one");

    // The run with the old spec prunes it, and the run with the new spec creates it.
    let own = |path: &str| vec![("root/k.yaml", vec![ks("k", path, json!({}))])];
    let before =
        [own("./p"), vec![("p/a.yaml", vec![deployment("d"), cm("a"), cm("b")]), ("q/b.yaml", vec![cm("b")])]].concat();
    let after =
        [own("./q"), vec![("p/a.yaml", vec![cm("a"), cm("b")]), ("q/b.yaml", vec![cm("b"), deployment("e")])]].concat();
    let mut cluster = cluster_of(&before);
    cluster.refusals.push(refused("k", &deployment("e"), &Value::Null, immutable));
    assert_eq!(cluster.rows(&after), set(&["delete a", "recreate d"]));
}

#[test]
fn what_a_finalizer_deletes_is_created_anew_by_the_owner_of_the_same_name() {
    let files = |parent: &str, number: &str| {
        vec![
            ("root/m.yaml", vec![ks(parent, "./m", json!({}))]),
            ("m/k.yaml", vec![ks("k", "./p", json!({}))]),
            ("p/a.yaml", vec![value("d", number), cm("a")]),
        ]
    };
    let mut cluster = TestCluster::new(&files("m", "1"));
    let immutable = "ConfigMap \"d\" is invalid: data: Forbidden: field is immutable when `immutable` is set";
    cluster.refusals.push(refused("k", &value("d", "2"), &Value::Null, immutable));
    assert_eq!(cluster.rows(&files("m", "2")), set(&["keep d"]));
    let renamed = cluster.rows(&files("new", "2"));
    assert!(renamed.is_superset(&set(&["recreate a", "recreate d"])), "{renamed:?}");
}

#[test]
fn a_definition_that_changes_refuses_what_does_not_change() {
    let definition = |fields: Value, served: bool| {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.e.com"},
            "spec": {"group": "e.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "served": served, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
    };
    let text = json!({"type": "string"});
    let widget = json!({"apiVersion": "e.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": NS}, "spec": {"size": "a", "old": "b"}});
    let files = |definition: Value, objects: Vec<Value>| {
        vec![
            ("root/k.yaml", vec![ks("k", "./p", json!({}))]),
            ("p/a.yaml", [vec![definition, widget.clone()], objects].concat()),
        ]
    };
    let both = json!({"size": text, "old": text});
    let before = files(definition(both.clone(), true), vec![cm("a"), cm("b")]);
    let mut cluster = cluster_of(&before);
    cluster.history = Some(before);
    let rows = |after: Value| {
        let (plan, _) = super::premises::verified(&cluster, &files(after, vec![cm("b")]));
        let rows = plan.changes().iter().filter(|row| row.action != Action::Update);
        rows.map(|row| format!("{} {}", row.action, row.object.id.name)).collect::<BTreeSet<_>>()
    };
    assert_eq!(rows(definition(json!({"size": text, "old": text, "new": text}), true)), set(&["delete a"]));
    assert_eq!(rows(definition(json!({"size": text}), true)), set(&["keep a", "keep w"]));
    assert_eq!(rows(definition(both, false)), set(&["keep a", "keep w"]), "its version is not served");
}

#[test]
fn a_stage_that_fails_in_the_middle_has_passed_its_check() {
    let mut bad = service("zz", 31005);
    bad["spec"]["ports"][0]["port"] = json!(99999);
    let mut cluster = cluster_of(&files(vec![cm("c")], json!({}), vec![cm("a"), cm("b")]));
    let both = vec![cm("b"), service("one", 31000), service("two", 31000)];
    let created = |cluster: &TestCluster, objects: Vec<Value>| {
        let plan = cluster.plan(&files(vec![cm("c")], json!({}), objects));
        let created = plan.changes().iter().filter(|row| row.action == Action::Create);
        created.map(|row| row.object.id.name.to_string()).collect::<BTreeSet<_>>()
    };
    assert_eq!(created(&cluster, both.clone()), set(&["one"]));
    cluster.refusals.push(refused("k", &bad, &Value::Null, "Service \"zz\" is invalid: spec.ports[0].port"));
    assert_eq!(created(&cluster, [both, vec![bad]].concat()), set(&[]));
}

#[test]
fn a_quota_has_room_for_the_objects_that_are_applied_first() {
    let quota = |hard: u32, used: &str| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": NS},
            "spec": {"hard": {"count/configmaps": hard}},
            "status": {"hard": {"count/configmaps": "4"}, "used": {"count/configmaps": used}}})
    };
    let rows = TestCluster::all_rows;
    let mut cluster = cluster_of(&files(vec![cm("c")], json!({}), vec![cm("a"), cm("b")]));
    cluster.add(&quota(4, "3"), None);
    cluster.snapshot.normalise();
    let after = |rules: Vec<Value>, more: Vec<Value>| files(rules, json!({}), [vec![cm("b")], more].concat());
    let one = after(vec![cm("c")], vec![cm("d")]);
    assert_eq!(rows(&cluster, &one), set(&["create d", "delete a"]));
    let two = after(vec![cm("c")], vec![cm("d"), cm("e")]);
    assert_eq!(rows(&cluster, &two), set(&["create d", "keep a", "unknown e"]));
    let of_two = after(vec![cm("c"), cm("d")], vec![cm("e")]);
    assert_eq!(rows(&cluster, &of_two), set(&["create? d", "create? e", "delete? a"]));

    // One that is used up, until another owner raises it.
    let full = "configmaps \"d\" is forbidden: exceeded quota: few, requested: count/configmaps=1, used: 4, limited: 4";
    let mut cluster = cluster_of(&files(vec![quota(3, "4"), cm("c")], json!({}), vec![cm("a"), cm("b")]));
    cluster.refusals.push(refused("k", &cm("d"), &Value::Null, full));
    let raised = after(vec![quota(9, "4"), cm("c")], vec![cm("d")]);
    assert_eq!(rows(&cluster, &raised), set(&["create d", "delete a", "update few"]));
    let kept = after(vec![quota(3, "4"), cm("c")], vec![cm("d")]);
    assert_eq!(rows(&cluster, &kept), set(&["keep a", "unknown d"]));
}

#[test]
fn a_policy_can_ask_for_labels_of_the_namespace_that_change() {
    let strict = |is_strict: bool| {
        let mut namespace = cluster_scoped("Namespace", "shop");
        if is_strict {
            namespace["metadata"]["labels"] = json!({"strict": "yes"});
        }
        namespace
    };
    let own = |is_strict, objects: Vec<Value>| {
        let shop = objects.into_iter().map(|object| in_namespace(object, "shop"));
        let rules = vec![policy("held", "UPDATE", "!('strict' in namespaceObject.metadata.labels)")];
        files(rules, json!({}), [strict(is_strict)].into_iter().chain(shop).collect())
    };
    let bound = binding("bound", "held", None);
    let mut cluster = cluster_of(&own(false, vec![cm("a"), cm("b")]));
    cluster.content.insert("shop".to_owned(), strict(false));
    cluster.add(&bound, None);
    cluster.snapshot.normalise();
    assert_eq!(cluster.rows(&own(true, vec![value("b", "2")])), set(&["keep a", "keep b"]));
    assert_eq!(cluster.rows(&own(false, vec![value("b", "2")])), set(&["delete a"]));

    let mut cluster = cluster_of(&own(true, vec![cm("a"), cm("b")]));
    cluster.content.insert("shop".to_owned(), managed(strict(true), "strict"));
    cluster.add(&bound, None);
    cluster.snapshot.normalise();
    let changed = in_namespace(value("b", "2"), "shop");
    cluster.refusals.push(refused("k", &changed, &Value::Null, &denied("held", "bound")));
    assert_eq!(cluster.rows(&own(false, vec![value("b", "2")])), set(&["delete a"]));
    assert_eq!(cluster.rows(&own(true, vec![value("b", "2")])), set(&["keep a", "keep b"]));
}

/// Returns an object with a label that kustomize-controller owns.
fn managed(mut object: Value, label: &str) -> Value {
    let fields = json!({"f:metadata": {"f:labels": {format!("f:{label}"): {}}}});
    let entry = json!({"manager": "kustomize-controller", "operation": "Apply", "fieldsV1": fields});
    object["metadata"]["managedFields"] = json!([entry]);
    object
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"serviceAccountName": "team"}})
}

#[test]
fn a_pod_may_be_refused_by_the_security_that_its_namespace_gets() {
    let with_level = |level: &str| {
        let mut namespace = cluster_scoped("Namespace", "shop");
        namespace["metadata"]["labels"] = json!({"pod-security.kubernetes.io/enforce": level});
        namespace
    };
    let rows = |before: &str, after: &str| {
        let own =
            |level: &str, more: Vec<Value>| files(vec![cm("c")], json!({}), [vec![with_level(level)], more].concat());
        let mut cluster = cluster_of(&own(before, vec![cm("a")]));
        let live = managed(with_level(before), "pod-security.kubernetes.io/enforce");
        cluster.content.insert("shop".to_owned(), live);
        cluster.rows(&own(after, vec![pod("d")]))
    };
    assert_eq!(rows("privileged", "restricted"), set(&["delete? a"]));
    assert_eq!(rows("baseline", "unheard-of"), set(&["delete? a"]), "that counts as restricted");
    assert_eq!(rows("restricted", "baseline"), set(&["delete a"]));
    let new = files(vec![cm("c")], json!({}), vec![with_level("restricted"), pod("d")]);
    let rows = cluster_of(&files(vec![cm("c")], json!({}), vec![cm("a")])).rows(&new);
    assert_eq!(rows, set(&["delete? a"]));
}

#[test]
fn a_pod_may_be_refused_once_its_account_is_gone() {
    let account =
        in_namespace(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "team"}}), "shop");
    let namespace = || cluster_scoped("Namespace", "shop");
    let before = files(vec![account.clone(), namespace()], json!({}), vec![cm("a")]);
    let cluster = cluster_of(&before);
    let kept = files(vec![account, namespace()], json!({}), vec![pod("d")]);
    assert_eq!(cluster.rows(&kept), set(&["delete a"]));
    let gone = files(vec![namespace()], json!({}), vec![pod("d")]);
    assert_eq!(cluster.rows(&gone), set(&["delete? a", "delete team"]));
}

#[test]
fn a_new_quota_counts_what_is_there_already() {
    let quota = |hard: Value| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": NS}, "spec": {"hard": hard}});
    let dependant = || json!({"dependsOn": [{"name": "rules"}]});
    let cluster = cluster_of(&files(vec![cm("c")], dependant(), vec![cm("a"), cm("b")]));
    let rows = |count: u8| {
        let hard = json!({"count/configmaps": count.to_string()});
        cluster.rows(&files(vec![cm("c"), quota(hard)], dependant(), vec![cm("b"), cm("d")]))
    };
    assert_eq!(rows(3), set(&["delete? a"]));
    assert_eq!(rows(4), set(&["delete a"]));
}

#[test]
fn a_quota_of_storage_has_room_for_the_claims_that_are_applied_first() {
    let quota = |hard: &str, used: &str| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": NS},
            "spec": {"hard": {"requests.storage": hard}},
            "status": {"hard": {"requests.storage": hard}, "used": {"requests.storage": used}}})
    };
    let claim = |name: &str, size: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": NS},
            "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": size}}}})
    };
    let mut cluster = cluster_of(&files(vec![cm("c")], json!({}), vec![cm("a"), cm("b")]));
    cluster.snapshot.types.push(resource_type("", "PersistentVolumeClaim", "persistentvolumeclaims", true));
    cluster.add(&quota("3Gi", "1Gi"), None);
    cluster.snapshot.normalise();
    let rows = |sizes: [&str; 2]| {
        let claims = vec![cm("b"), claim("one", sizes[0]), claim("two", sizes[1])];
        cluster.rows(&files(vec![cm("c")], json!({}), claims))
    };
    assert_eq!(rows(["1Gi", "1024Mi"]), set(&["delete a"]));
    assert_eq!(rows(["2Gi", "1Mi"]), set(&["keep a", "unknown two"]));
}

#[test]
fn a_binding_that_is_forced_to_another_role_takes_the_rights_of_the_old_one() {
    let role = |name: &str, verbs: &[&str]| {
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
        json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": name, "namespace": NS}, "rules": rules})
    };
    let bound = |role: &str| {
        json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "bound", "namespace": NS},
            "roleRef": {"kind": "Role", "name": role}, "subjects": [{"kind": "ServiceAccount", "name": "team"}]})
    };
    let roles = || vec![role("many", &["get", "patch", "delete"]), role("few", &["get", "patch"])];
    let account = in_namespace(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "team"}}), NS);
    let own = |binding: &str, objects: Vec<Value>| {
        let more = json!({"serviceAccountName": "team", "dependsOn": [{"name": "rules"}]});
        let mut own = files([roles(), vec![bound(binding)]].concat(), more, objects);
        own[0].1[0]["spec"]["force"] = true.into();
        own
    };
    let mut cluster = cluster_of(&own("many", vec![cm("a"), cm("b")]));
    cluster.add(&account, None);
    cluster.snapshot.normalise();
    let recreated = DryRunResult::Recreated("roleRef is immutable".to_owned());
    cluster.results = vec![(|applied| applied.built.manifest["roleRef"]["name"] == "few", recreated)];
    assert_eq!(cluster.rows(&own("few", vec![cm("b")])), set(&["keep a", "recreate bound"]));
    assert_eq!(cluster.rows(&own("many", vec![cm("b")])), set(&["delete a"]));
}

#[test]
fn another_default_class_is_accepted_once_the_old_one_is_none() {
    let class = |name: &str, is_default: bool| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "globalDefault": is_default});
    let mut cluster = cluster_of(&files(vec![class("one", true), cm("c")], json!({}), vec![cm("a"), cm("b")]));
    cluster.snapshot.types.push(resource_type("scheduling.k8s.io", "PriorityClass", "priorityclasses", false));
    cluster.snapshot.normalise();
    let message = "priorityclasses.scheduling.k8s.io \"two\" is forbidden: PriorityClass one is already marked as default. \
                   Only one default can exist";
    cluster.refusals.push(refused("k", &class("two", true), &Value::Null, message));
    let rows = |rules: Vec<Value>| cluster.rows(&files(rules, json!({}), vec![cm("b"), class("two", true)]));
    assert_eq!(rows(vec![class("one", true), cm("c")]), set(&["keep a", "unknown two"]));
    assert_eq!(rows(vec![class("one", false), cm("c")]), set(&["delete a"]));
    assert_eq!(rows(vec![cm("c")]), set(&["delete a", "delete one"]));
}

#[test]
fn a_rule_that_no_longer_asks_about_an_object_ends_its_refusal() {
    let held = || policy("held", "UPDATE", "object.data.v != '2'");
    let bound = || binding("bound", "held", None);
    let before = files(vec![held(), bound()], json!({}), vec![cm("a"), cm("b")]);
    let mut cluster = cluster_of(&before);
    cluster.refusals.push(refused("k", &value("b", "2"), &Value::Null, &denied("held", "bound")));
    let rows =
        |policy: Value, binding: Value| cluster.rows(&files(vec![policy, binding], json!({}), vec![value("b", "2")]));
    let with_condition = |expression: &str| {
        let mut policy = held();
        policy["spec"]["matchConditions"] = json!([{"name": "c", "expression": expression}]);
        policy
    };
    assert_eq!(rows(with_condition("object.metadata.name != 'b'"), bound()), set(&["delete a"]));
    assert_eq!(rows(with_condition("object.metadata.name != 'z'"), bound()), set(&["keep a", "keep b"]));
    assert_eq!(rows(with_condition("request.userInfo.username != 'z'"), bound()), set(&["delete? a"]));
    let excluding = |name: &str| {
        let mut policy = held();
        let rule =
            json!({"apiGroups": [""], "operations": ["*"], "resources": ["configmaps"], "resourceNames": [name]});
        policy["spec"]["matchConstraints"]["excludeResourceRules"] = json!([rule]);
        policy
    };
    assert_eq!(rows(excluding("b"), bound()), set(&["delete a"]));
    assert_eq!(rows(excluding("z"), bound()), set(&["keep a", "keep b"]));
    let mut selecting = bound();
    selecting["spec"]["matchResources"]["objectSelector"] = json!({"matchLabels": {"x": "y"}});
    assert_eq!(rows(held(), selecting), set(&["delete? a"]), "labels of the object are not compared");
}

/// Rows of a commit that forces `i`, while the role of the account of `k` gets these verbs before.
fn rows_of_forced(verbs: &[&str]) -> BTreeSet<String> {
    let role = |verbs: &[&str]| {
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
        json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "rights", "namespace": NS}, "rules": rules})
    };
    let bound = json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "bound", "namespace": NS},
        "roleRef": {"kind": "Role", "name": "rights"}, "subjects": [{"kind": "ServiceAccount", "name": "team"}]});
    let own = |verbs: &[&str], objects: Vec<Value>| {
        let more = json!({"serviceAccountName": "team", "force": true, "dependsOn": [{"name": "rules"}]});
        files(vec![role(verbs), bound.clone()], more, objects)
    };
    let mut cluster = cluster_of(&own(&["get", "create", "patch", "delete"], vec![cm("a"), cm("i")]));
    let account = in_namespace(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "team"}}), NS);
    cluster.add(&account, None);
    cluster.snapshot.normalise();
    let recreated = DryRunResult::Recreated("data is immutable".to_owned());
    cluster.results = vec![(|applied| &*applied.id.name == "i", recreated)];
    cluster.rows(&own(verbs, vec![value("i", "2")]))
}

#[test]
fn a_forced_object_stays_or_goes_if_the_right_to_delete_or_to_create_is_lost_before() {
    assert_eq!(rows_of_forced(&["get", "create", "patch", "delete"]), set(&["delete a", "recreate i"]));
    assert_eq!(rows_of_forced(&["get", "patch", "delete"]), set(&["keep a", "delete i"]));
    assert_eq!(rows_of_forced(&["get", "create", "patch"]), set(&["keep a", "keep i"]));
}

#[test]
fn a_forced_object_is_not_created_anew_if_its_namespace_is_no_longer_exempt() {
    let held = policy("held", "CREATE", "object.data.v != '2'");
    let own = |is_exempt: bool, objects: Vec<Value>| {
        let mut namespace = cluster_scoped("Namespace", "shop");
        if is_exempt {
            namespace["metadata"]["labels"] = json!({"trusted": "yes"});
        }
        let shop = objects.into_iter().map(|object| in_namespace(object, "shop"));
        files(vec![cm("c")], json!({"force": true}), [namespace].into_iter().chain(shop).collect())
    };
    let mut cluster = cluster_of(&own(true, vec![cm("a"), cm("i")]));
    let mut live = cluster_scoped("Namespace", "shop");
    live["metadata"]["labels"] = json!({"trusted": "yes"});
    cluster.content.insert("shop".to_owned(), managed(live, "trusted"));
    for rule in [held, binding("bound", "held", Some("trusted"))] {
        cluster.add(&rule, None);
    }
    cluster.snapshot.normalise();
    let recreated = DryRunResult::Recreated("data is immutable".to_owned());
    cluster.results = vec![(|applied| &*applied.id.name == "i", recreated)];
    assert_eq!(cluster.rows(&own(true, vec![value("i", "2")])), set(&["delete a", "recreate i"]));
    assert_eq!(cluster.rows(&own(false, vec![value("i", "2")])), set(&["keep a", "delete i"]));
    assert_eq!(cluster.rows(&own(false, vec![value("i", "3")])), set(&["delete a", "recreate i"]));
}

#[test]
fn a_forced_object_goes_if_a_policy_no_longer_exempts_it() {
    let own = |is_exempt: bool, objects: Vec<Value>| {
        let mut namespace = cluster_scoped("Namespace", "shop");
        if is_exempt {
            namespace["metadata"]["labels"] = json!({"trusted": "yes"});
        }
        let shop = objects.into_iter().map(|object| in_namespace(object, "shop"));
        files(vec![cm("c")], json!({"force": true}), [namespace].into_iter().chain(shop).collect())
    };
    let rows = |operation: &str, reason: &str| {
        let before = own(true, vec![value("a", "1"), value("b", "1")]);
        let mut cluster = cluster_of(&before);
        cluster.history = Some(before);
        let mut held = policy("held", operation, "object == null || object.data.v != '2'");
        held["spec"]["validations"][0]["reason"] = reason.into();
        held["spec"]["matchConstraints"]["resourceRules"][0]["operations"] =
            json!(operation.split(' ').collect::<Vec<_>>());
        for rule in [held, binding("bound", "held", Some("trusted"))] {
            cluster.add(&rule, None);
        }
        let mut live = cluster_scoped("Namespace", "shop");
        live["metadata"]["labels"] = json!({"trusted": "yes"});
        cluster.content.insert("shop".to_owned(), managed(live, "trusted"));
        cluster.refusals = vec![refused("other", &cm("z"), &Value::Null, "no")];
        cluster.snapshot.normalise();
        let rows = cluster.rows(&own(false, vec![value("b", "2")]));
        rows.into_iter().filter(|row| !row.ends_with(" shop")).collect::<BTreeSet<_>>()
    };
    assert_eq!(rows("UPDATE", "Invalid"), set(&["delete a", "recreate b"]));
    assert_eq!(rows("UPDATE CREATE", "Invalid"), set(&["keep a", "delete b"]));
    assert_eq!(rows("UPDATE", "Forbidden"), set(&["keep a", "keep b"]));
}

#[test]
fn a_role_may_allow_the_creation_of_objects_by_their_names() {
    let own = |name: &str, objects: Vec<Value>| {
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch", "delete"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"], "resourceNames": [name]}]);
        let role = json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "rights", "namespace": NS}, "rules": rules});
        let bound = json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "bound", "namespace": NS},
            "roleRef": {"kind": "Role", "name": "rights"}, "subjects": [{"kind": "ServiceAccount", "name": "team"}]});
        let more = json!({"serviceAccountName": "team", "dependsOn": [{"name": "rules"}]});
        files(vec![role, bound], more, objects)
    };
    let mut cluster = cluster_of(&own("x", vec![cm("a")]));
    let account = in_namespace(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "team"}}), NS);
    cluster.add(&account, None);
    let forbidden = "configmaps \"b\" is forbidden: User \"system:serviceaccount:flux-system:team\" cannot create resource \
        \"configmaps\" in API group \"\" in the namespace \"flux-system\"";
    cluster.refusals.push(refused("k", &cm("b"), &Value::Null, forbidden));
    cluster.snapshot.normalise();
    let rows = |name: &str| {
        let plan = cluster.plan(&own(name, vec![cm("b")]));
        plan.changes().iter().map(|row| format!("{} {}", row.action, row.object.id.name)).collect::<BTreeSet<_>>()
    };
    assert!(rows("c").is_superset(&set(&["keep a", "unknown b"])), "{:?}", rows("c"));
    assert!(!rows("b").contains("keep a"), "{:?}", rows("b"));
}

#[test]
fn a_quota_counts_only_what_is_in_its_scopes() {
    let pod = |name: &str, class: &str| {
        let mut pod = in_namespace(pod(name), NS);
        pod["spec"] = json!({"priorityClassName": class});
        pod
    };
    let rows = |scopes: Value, objects: Vec<Value>| {
        let (hard, used) =
            (json!({"pods": "1", "services.nodeports": "1"}), json!({"pods": "0", "services.nodeports": "0"}));
        let mut quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": NS},
            "spec": scopes, "status": {"hard": hard, "used": used}});
        quota["spec"]["hard"] = quota["status"]["hard"].clone();
        let mut cluster = cluster_of(&files(vec![cm("c")], json!({}), vec![cm("a"), cm("b")]));
        for (kind, plural) in [("Pod", "pods"), ("Service", "services")] {
            cluster.snapshot.types.push(crate::testing::resource_type("", kind, plural, true));
        }
        cluster.add(&quota, None);
        cluster.snapshot.normalise();
        let plan = cluster.plan(&files(vec![cm("c")], json!({}), [vec![cm("b")], objects].concat()));
        let shown = plan.changes().iter().filter(|row| &*row.object.id.name == "a").map(|row| {
            let race = if row.certainty == Certainty::Race { "?" } else { "" };
            format!("{}{race}", row.action)
        });
        shown.collect::<String>()
    };
    let two = |class: &str| vec![pod("one", class), pod("two", class)];
    let of_class = |operator: &str| {
        let class = json!({"scopeName": "PriorityClass", "operator": operator, "values": ["high"]});
        json!({"scopeSelector": {"matchExpressions": [class]}})
    };
    assert_eq!(rows(json!({}), two("low")), "keep");
    assert_eq!(rows(of_class("In"), two("high")), "keep");
    assert_eq!(rows(of_class("In"), two("low")), "delete");
    assert_eq!(rows(of_class("NotIn"), two("high")), "delete");
    assert_eq!(rows(of_class("In"), two("")), "delete?", "a default class may count");
    assert_eq!(rows(json!({"scopes": ["Terminating"]}), two("low")), "delete");
    assert_eq!(rows(json!({"scopes": ["NotTerminating"]}), two("low")), "keep");
    let balancers = |spec: Value| {
        let service = |name: &str| {
            let metadata = json!({"name": name, "namespace": NS});
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        };
        vec![service("one"), service("two")]
    };
    let balancer = |allocates: bool, port: u16| {
        let ports = json!([{"port": port}]);
        json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": allocates, "ports": ports})
    };
    assert_eq!(rows(json!({}), balancers(balancer(true, 80))), "keep");
    assert_eq!(rows(json!({}), balancers(balancer(false, 80))), "delete");
    assert_eq!(
        rows(json!({"scopes": ["BestEffort"]}), balancers(balancer(true, 80))),
        "delete",
        "no Service has a scope"
    );
}

#[test]
fn an_account_may_grant_what_it_has_after_the_change() {
    let role = |name: &str, verbs: &[&str]| {
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]);
        json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": name, "namespace": NS}, "rules": rules})
    };
    let bound = json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "bound", "namespace": NS},
        "roleRef": {"kind": "Role", "name": "rights"}, "subjects": [{"kind": "ServiceAccount", "name": "team"}]});
    let account = in_namespace(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "team"}}), NS);
    let verbs = ["get", "patch", "create", "delete"];
    let own = |team: &[&str], other: &[&str], objects: Vec<Value>| {
        let rules = vec![role("rights", team), role("other", other), bound.clone()];
        files(rules, json!({"serviceAccountName": "team"}), objects)
    };
    let mut cluster = cluster_of(&own(&verbs, &["get"], vec![cm("a"), cm("b")]));
    cluster.add(&account, None);
    cluster.snapshot.normalise();
    let message = "roles.rbac.authorization.k8s.io \"x\" is forbidden: user \"system:serviceaccount:flux-system:team\" is \
                   attempting to grant RBAC permissions not currently held";
    let spec = json!({"serviceAccountName": "team"});
    cluster.refusals.push(refused("k", &role("x", &["watch"]), &spec, message));
    let rows = |team: &[&str], other: &[&str]| cluster.rows(&own(team, other, vec![cm("b"), role("x", &["watch"])]));
    assert_eq!(rows(&verbs, &["get", "list"]), set(&["keep a", "unknown x"]), "another role changes");
    assert_eq!(rows(&["*"], &["get"]), set(&["delete? a"]), "the server of the test refuses it to everybody");
}

#[test]
fn an_account_may_bind_what_it_has_or_may_bind_after_the_change() {
    let rules = |verbs: &[&str], resource: &str| json!([{"apiGroups": ["*"], "resources": [resource], "verbs": verbs}]);
    let role = |kind: &str, name: &str, rules: Value| {
        let metadata = if kind == "Role" { json!({"name": name, "namespace": NS}) } else { json!({"name": name}) };
        json!({"apiVersion": RBAC, "kind": kind, "metadata": metadata, "rules": rules})
    };
    let bind = |kind: &str, name: &str, account: &str| {
        json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": format!("{name}-{account}"), "namespace": NS},
            "roleRef": {"kind": kind, "name": name}, "subjects": [{"kind": "ServiceAccount", "name": account}]})
    };
    let all = || rules(&["get", "list", "watch", "patch", "create", "delete"], "*");
    let own = |more: Vec<Value>, objects: Vec<Value>| {
        let base = vec![
            role("Role", "rights", all()),
            role("Role", "other", rules(&["get"], "x")),
            bind("Role", "rights", "team"),
        ];
        files([base, more].concat(), json!({"serviceAccountName": "team"}), objects)
    };
    let missing = "rolebindings.rbac.authorization.k8s.io \"view-x\" not found".to_owned();
    let escalates = "rolebindings.rbac.authorization.k8s.io \"view-x\" is forbidden: user \"system:serviceaccount:flux-system:team\" is \
                     attempting to grant RBAC permissions not currently held"
        .to_owned();
    let is_impersonated_binding = |applied: &AppliedObject| {
        &*applied.id.name == "view-x" && applied.spec.value().get("serviceAccountName").is_some()
    };
    let rows = |message: String, live: Option<&Value>, more: Vec<Value>, objects: Vec<Value>| {
        let mut cluster = cluster_of(&own(vec![], vec![cm("a"), cm("b")]));
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "team"}});
        cluster.add(&in_namespace(account, NS), None);
        live.into_iter().for_each(|role| drop(cluster.add(role, None)));
        cluster.snapshot.normalise();
        cluster.results = vec![(is_impersonated_binding, DryRunResult::Refused(message))];
        cluster.all_rows(&own(more, [vec![cm("b"), bind("ClusterRole", "view", "x")], objects].concat()))
    };
    let view = |verbs: &[&str]| role("ClusterRole", "view", rules(verbs, "pods"));
    // An earlier stage of the run brings the role.
    let created = ["create view", "create view-x", "delete a"];
    assert_eq!(rows(missing.clone(), None, vec![], vec![view(&["watch"])]), set(&created));
    assert_eq!(
        rows(missing, None, vec![], vec![view(&["deletecollection"])]),
        set(&["create view", "keep a", "unknown view-x"])
    );
    // The change lets it bind the role.
    let binder = |name: &str| {
        let rules = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": [name]}]);
        vec![role("Role", "binder", rules), bind("Role", "binder", "team")]
    };
    let live = view(&["deletecollection"]);
    let created = ["create binder", "create binder-team", "create view-x", "delete a"];
    assert_eq!(rows(escalates.clone(), Some(&live), binder("view"), vec![]), set(&created));
    let created = ["create binder", "create binder-team", "keep a", "unknown view-x"];
    assert_eq!(rows(escalates, Some(&live), binder("other"), vec![]), set(&created));
}
