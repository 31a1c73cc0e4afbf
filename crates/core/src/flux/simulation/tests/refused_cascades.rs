//! Deletions by the controllers of Kubernetes that admission rules refuse.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cluster_scoped, cm, finished, in_namespace, ks, set};
use crate::flux::simulation::model::refusals::DeletionRefusal;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{ObjectId, OwnerReference, Resource};
use crate::kubernetes::referrer::Referrer;
use crate::plan::mask::SecretMask;
use crate::testing::resource_type;

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// Returns a Kustomization `rules` with these objects, and one with these.
fn files(rules: Vec<Value>, objects: Vec<Value>) -> Files {
    let kustomizations = vec![ks("rules", "./rules", json!({})), ks("k", "./p", json!({}))];
    vec![("root/k.yaml", kustomizations), ("rules/r.yaml", rules), ("p/a.yaml", objects)]
}

fn namespace() -> Value {
    cluster_scoped("Namespace", "shop")
}

/// Returns a policy about the deletion of ConfigMaps by users for which a condition is true, and its binding.
fn rules(condition: &str) -> Vec<Value> {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]});
    let policy = json!({"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "held"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}],
            "matchConditions": [{"name": "who", "expression": condition}]}});
    let binding = json!({"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "bound"}, "spec": {"policyName": "held", "validationActions": ["Deny"]}});
    vec![policy, binding]
}

/// Returns a cluster with the rules and a namespace, in which the API server refuses to delete the ConfigMap `in`.
fn cluster(rules: Vec<Value>, content: &[&str]) -> TestCluster {
    cluster_of(&files(rules, vec![cm("stay"), cm("owner"), namespace()]), content)
}

fn cluster_of(files: &Files, content: &[&str]) -> TestCluster {
    let mut cluster = TestCluster::new(files);
    let admission = "admissionregistration.k8s.io";
    for (group, kind, plural, namespaced) in [
        (admission, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false),
        (admission, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", false),
        (admission, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false),
        ("", "Service", "services", true),
        ("apps", "StatefulSet", "statefulsets", true),
    ] {
        cluster.snapshot.types.push(resource_type(group, kind, plural, namespaced));
    }
    for account in ["namespace-controller", "generic-garbage-collector"] {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}});
        cluster.add(&in_namespace(account, "kube-system"), None);
    }
    for name in content {
        cluster.add(&in_namespace(cm(name), "shop"), None);
    }
    cluster.upgrades = Some(BTreeMap::from([("in", "denied by held")]));
    cluster.snapshot.normalise();
    cluster
}

const EVERYBODY: &str = "true";

#[test]
fn an_object_that_the_namespace_controller_may_not_delete_keeps_its_namespace() {
    let after = |rules: Vec<Value>| files(rules, vec![cm("stay"), cm("owner")]);
    let rows = |condition: &str| cluster(rules(condition), &["in"]).rows(&after(rules(condition)));
    assert_eq!(rows(EVERYBODY), set(&["delete shop", "keep in"]));
    let of_flux = "request.userInfo.username == 'system:serviceaccount:flux-system:kustomize-controller'";
    assert_eq!(rows(of_flux), set(&["delete shop", "delete in"]), "the rule is about another user");
    let of_namespaces = "request.userInfo.username == 'system:serviceaccount:kube-system:namespace-controller'";
    assert_eq!(rows(of_namespaces), set(&["delete shop", "keep in"]));
    let none = cluster(vec![cm("r")], &["in"]).rows(&after(vec![cm("r")]));
    assert_eq!(none, set(&["delete shop", "delete in"]), "there is no rule");

    let cluster = cluster(rules(EVERYBODY), &["in"]);
    let plan = finished(cluster.plan(&after(rules(EVERYBODY))), &cluster.snapshot, &SecretMask::default());
    let blocked: Vec<String> = plan.blocked_by_finalizers().iter().map(|held| format!("{held:?}")).collect();
    assert!(
        blocked[0].contains("the server refuses to let the namespace controller delete configmap/in"),
        "{blocked:?}"
    );
}

#[test]
fn the_namespace_controller_stops_at_the_first_object_of_a_kind_that_it_may_not_delete() {
    let cluster = cluster(rules(EVERYBODY), &["a", "in", "z"]);
    let rows = cluster.rows(&files(rules(EVERYBODY), vec![cm("stay"), cm("owner")]));
    assert_eq!(rows, set(&["delete shop", "delete a", "keep in", "delete? z"]));
}

#[test]
fn a_refusal_is_open_if_its_rule_is_deleted_too_or_nobody_answers() {
    let mut cluster = cluster(rules(EVERYBODY), &["in"]);
    let mut left = rules(EVERYBODY);
    left.pop();
    let rows = cluster.rows(&files(left, vec![cm("stay"), cm("owner")]));
    assert_eq!(rows, set(&["delete shop", "delete bound", "delete? in"]));
    let owner = NamespacedName { namespace: NS.into(), name: "other".into() };
    let id = ObjectId::new("", "ConfigMap", NS, "other");
    cluster.deletion_refusals = vec![DeletionRefusal { owner, account: None, id, message: "no".into() }];
    cluster.upgrades = None;
    let rows = cluster.rows(&files(rules(EVERYBODY), vec![cm("stay"), cm("owner")]));
    assert_eq!(rows, set(&["delete shop", "delete? in"]));
}

#[test]
fn a_dependent_that_the_garbage_collector_may_not_delete_stays_with_its_own_dependents() {
    let mut cluster = cluster(rules(EVERYBODY), &[]);
    for (name, owner) in [("in", "owner"), ("grandchild", "in")] {
        cluster.add(&cm(name), None);
        cluster.object(name).owner_references = vec![OwnerReference {
            group: "".into(),
            kind: "ConfigMap".into(),
            name: owner.into(),
            uid: format!("configmap/{owner} -n {NS}").into(),
            controller: false,
            block_owner_deletion: false,
        }];
    }
    cluster.snapshot.normalise();
    let after = files(rules(EVERYBODY), vec![cm("stay"), namespace()]);
    assert_eq!(cluster.rows(&after), set(&["delete owner", "keep in"]));
    cluster.upgrades = Some(BTreeMap::new());
    assert_eq!(cluster.rows(&after), set(&["delete owner", "delete in", "delete grandchild"]));
}

/// Returns a webhook that must allow the deletion of everything but Services, and the Service that it calls.
fn webhook(policy: &str, namespace: &str) -> [Value; 2] {
    let resources = json!(["configmaps", "statefulsets"]);
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": resources});
    let service = json!({"name": "hook", "namespace": namespace});
    let webhook = json!({"name": "hook.example.com", "failurePolicy": policy, "rules": [rule],
        "clientConfig": {"service": service}});
    let configuration = json!({"apiVersion": ADMISSION, "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hooks"}, "webhooks": [webhook]});
    [
        configuration,
        in_namespace(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"}}), namespace),
    ]
}

#[test]
fn a_webhook_that_loses_its_service_may_keep_what_is_deleted_with_it() {
    let rows = |policy: &str, configuration_goes: bool| {
        let [configuration, service] = webhook(policy, "shop");
        let rules = if configuration_goes { vec![configuration.clone(), cm("r")] } else { vec![cm("r")] };
        let mut cluster = cluster(rules, &["in"]);
        cluster.add(&service, None);
        if !configuration_goes {
            cluster.add(&configuration, None);
        }
        cluster.upgrades = Some(BTreeMap::new());
        cluster.snapshot.normalise();
        cluster.rows(&files(vec![cm("r")], vec![cm("stay"), cm("owner")]))
    };
    assert_eq!(rows("Fail", false), set(&["delete shop", "delete hook", "delete? in"]));
    assert_eq!(rows("Ignore", false), set(&["delete shop", "delete hook", "delete in"]));
    assert_eq!(rows("Fail", true), set(&["delete shop", "delete hook", "delete in", "delete hooks"]));
}

#[test]
fn what_a_run_deletes_after_the_service_of_a_webhook_may_be_refused() {
    let set_of = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": NS}});
    let rows = |policy: &str| {
        let [configuration, service] = webhook(policy, NS);
        let objects = vec![cm("stay"), cm("a"), set_of.clone(), service];
        let mut cluster = cluster_of(&files(vec![cm("r")], objects), &[]);
        cluster.add(&configuration, None);
        cluster.snapshot.normalise();
        cluster.rows(&files(vec![cm("r")], vec![cm("stay")]))
    };
    assert_eq!(rows("Fail"), set(&["delete? a", "delete db", "delete hook"]));
    assert_eq!(rows("Ignore"), set(&["delete a", "delete db", "delete hook"]));
}

#[test]
fn a_namespace_waits_for_an_api_group_whose_service_is_deleted() {
    let [_, service] = webhook("Fail", NS);
    let rules = || vec![cm("r")];
    let before = files(rules(), vec![cm("stay"), namespace(), service.clone()]);
    let mut cluster = cluster_of(&before, &["in"]);
    let group = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.x.example.com"}, "spec": {"service": {"name": "hook", "namespace": NS}}});
    cluster.add(&group, None);
    let live = Resource { object: cluster.object("v1.x.example.com").clone(), content: json!({"spec": group["spec"]}) };
    cluster.snapshot.referrers = Some(Referrer::of_live(&live).into_iter().collect());
    cluster.snapshot.normalise();
    let held = |objects: Vec<Value>| {
        let plan = cluster.plan(&files(rules(), objects));
        let plan = finished(plan, &cluster.snapshot, &SecretMask::default());
        let details = plan.blocked_by_finalizers().iter().filter_map(|held| held.detail.clone());
        details.collect::<Vec<_>>()
    };
    let waits = "the namespace controller waits for an answer of apiservice.apiregistration.k8s.io/v1.x.example.com, and \
                 service/hook -n flux-system is deleted";
    assert_eq!(held(vec![cm("stay")]), [waits]);
    assert_eq!(held(vec![cm("stay"), service]), [""; 0], "the group goes on to answer");
}

#[test]
fn a_rule_that_the_change_brings_may_refuse_what_a_cascade_deletes() {
    let rows = |cluster: &TestCluster, rules: Vec<Value>| {
        let rules = [rules, vec![cm("r")]].concat();
        cluster.rows(&files(rules, vec![cm("stay"), cm("owner")]))
    };
    let mut new = cluster(vec![cm("r")], &["in"]);
    new.upgrades = Some(BTreeMap::new());
    assert_eq!(rows(&new, rules(EVERYBODY)), set(&["delete shop", "delete? in"]));
    let of_others = rules("request.userInfo.username == 'somebody'");
    assert_eq!(rows(&new, of_others), set(&["delete shop", "delete in"]), "the rule is about another user");
    // A live policy that a new binding binds, or that asks for something else.
    let [held, bound] = <[Value; 2]>::try_from(rules(EVERYBODY)).unwrap();
    let mut unbound = cluster(vec![held.clone(), cm("r")], &["in"]);
    unbound.upgrades = Some(BTreeMap::new());
    assert_eq!(rows(&unbound, vec![held.clone(), bound.clone()]), set(&["delete shop", "delete? in"]));
    let mut lenient = held.clone();
    lenient["spec"]["validations"] = json!([{"expression": "true"}]);
    let mut strict = cluster(vec![lenient, bound.clone(), cm("r")], &["in"]);
    strict.upgrades = Some(BTreeMap::new());
    assert_eq!(rows(&strict, vec![held, bound]), set(&["delete shop", "delete? in"]));
}

#[test]
fn a_namespace_whose_content_may_be_refused_is_perhaps_not_created_again() {
    let kustomizations = |place: &str| {
        let mut own = vec![
            (
                "root/k.yaml",
                vec![
                    ks("rules", "./rules", json!({})),
                    ks("a", "./a", json!({})),
                    ks("b", "./b", json!({"dependsOn": [{"name": "a"}]})),
                ],
            ),
            ("rules/r.yaml", vec![cm("r")]),
        ];
        own.push(("a/a.yaml", if place == "a" { vec![cm("x"), namespace()] } else { vec![cm("x")] }));
        own.push(("b/b.yaml", if place == "b" { vec![cm("y"), namespace()] } else { vec![cm("y")] }));
        own
    };
    let mut cluster = cluster_of(&kustomizations("a"), &["in"]);
    cluster.upgrades = Some(BTreeMap::new());
    assert_eq!(cluster.rows(&kustomizations("b")), set(&["recreate shop", "delete in"]));
    let mut after = kustomizations("b");
    after[1].1.extend(rules(EVERYBODY));
    let rows = cluster.rows(&after);
    assert!(rows.contains("recreate? shop") && rows.contains("delete? in"), "{rows:?}");
}

#[test]
fn a_webhook_without_the_workload_that_answers_may_refuse_deletions_and_changes() {
    let deployment = |name: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": NS},
            "spec": {"template": {"metadata": {"labels": {"app": name}}}}})
    };
    let rows = |policy: &str, name: &str| {
        let [mut configuration, mut service] = webhook(policy, NS);
        configuration["webhooks"][0]["rules"][0]["operations"] = json!(["*"]);
        service["spec"]["selector"] = json!({"app": "hook-server"});
        let dependant = ks("k", "./p", json!({"dependsOn": [{"name": "rules"}]}));
        let own = |rules: Vec<Value>, objects: Vec<Value>| -> Files {
            let kustomizations = vec![ks("rules", "./rules", json!({})), dependant.clone()];
            vec![("root/k.yaml", kustomizations), ("rules/r.yaml", rules), ("p/a.yaml", objects)]
        };
        let mut cluster = cluster_of(&own(vec![cm("r"), deployment(name)], vec![cm("a"), cm("b")]), &[]);
        for object in [&configuration, &service] {
            cluster.add(object, None);
        }
        cluster.content = [("hook".to_owned(), service), (name.to_owned(), deployment(name))].into();
        cluster.snapshot.types.push(resource_type("apps", "Deployment", "deployments", true));
        cluster.snapshot.normalise();
        cluster.rows(&own(vec![cm("r")], vec![cm("b"), cm("new")]))
    };
    assert_eq!(rows("Fail", "hook-server"), set(&["delete hook-server", "delete? a"]));
    assert_eq!(rows("Fail", "other"), set(&["delete other", "delete a"]));
    assert_eq!(rows("Ignore", "hook-server"), set(&["delete hook-server", "delete a"]));
}
