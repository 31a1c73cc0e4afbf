//! Answers of the API server that the change itself ends.

use super::*;
use crate::flux::build::{self, BuildContext};
use crate::flux::simulation::model::refusals::{DeletionRefusal, Refusal};
use crate::kubernetes::object::LastChange;
use crate::plan::Fidelity;

fn refused(owner: &str, manifest: &Value, message: &str) -> Refusal {
    let (api_version, kind) = (manifest["apiVersion"].as_str().unwrap(), manifest["kind"].as_str().unwrap());
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let [name, namespace] = ["name", "namespace"].map(|key| manifest["metadata"][key].as_str().unwrap_or_default());
    Refusal {
        owner: NamespacedName { namespace: NS.into(), name: owner.into() },
        id: ObjectId::new(group, kind, namespace, name),
        manifest: manifest.clone().into(),
        spec: KustomizationSpec::new(&Value::Null),
        message: message.into(),
        is_late: false,
        condition: None,
    }
}

fn definition(values: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"size": {"type": "string", "enum": values}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.e.com"},
        "spec": {"group": "e.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

fn widget(size: &str) -> Value {
    json!({"apiVersion": "e.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": NS}, "spec": {"size": size}})
}

/// Two Kustomizations, `crds` with a definition and `k` with the rest.
fn files(values: &Value, size: &str, more: Vec<Value>) -> Files {
    let rest = [vec![widget(size)], more].concat();
    vec![
        ("root/k.yaml", vec![ks("crds", "./crds", json!({})), ks("k", "./p", json!({}))]),
        ("crds/c.yaml", vec![definition(values)]),
        ("p/a.yaml", rest),
    ]
}

fn cluster_of(files: &Files) -> TestCluster {
    let mut cluster = TestCluster::new(files);
    cluster.snapshot.types.extend([
        crate::testing::resource_type("e.com", "Widget", "widgets", true),
        crate::testing::resource_type(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            false,
        ),
    ]);
    cluster
}

#[test]
fn a_definition_that_gains_the_value_ends_the_refusal_of_its_resource() {
    let before = files(&json!(["a"]), "a", vec![cm("a"), cm("b")]);
    let invalid = "Widget.e.com \"w\" is invalid: spec.size: Unsupported value: \"b\"";
    let mut cluster = cluster_of(&before);
    cluster.refusals = vec![refused("k", &widget("b"), invalid)];
    let unchanged = files(&json!(["a"]), "b", vec![cm("b")]);
    assert_eq!(cluster.rows(&unchanged), set(&["keep a", "keep w"]), "nobody changes the definition");
    let gains = files(&json!(["a", "b"]), "b", vec![cm("b")]);
    assert_eq!(cluster.rows(&gains), set(&["delete a"]));
    let other = files(&json!(["a", "c"]), "b", vec![cm("b")]);
    assert_eq!(cluster.rows(&other), set(&["keep a", "keep w"]), "the new definition refuses it too");
}

#[test]
fn an_owner_that_comes_to_wait_ends_a_refusal_before_that() {
    let before = files(&json!(["a"]), "a", vec![cm("a"), cm("b")]);
    let mut after = files(&json!(["a", "b"]), "b", vec![cm("b")]);
    after[0].1[0] = ks("crds", "./crds", json!({"dependsOn": [{"name": "k"}]}));
    let mut cluster = cluster_of(&before);
    cluster.refusals = vec![refused("k", &widget("b"), "Widget.e.com \"w\" is invalid: spec.size: Unsupported value")];
    // With its old spec it waits for nobody.
    assert_eq!(cluster.rows(&after), set(&["delete a"]));
}

#[test]
fn a_refusal_that_the_change_may_end_is_a_race_that_names_the_event() {
    let before = vec![
        ("root/k.yaml", vec![ks("n", "./n", json!({})), ks("k", "./p", json!({}))]),
        ("n/n.yaml", vec![cluster_scoped("Namespace", "shop")]),
        ("p/a.yaml", vec![cm("a"), in_namespace(cm("b"), "shop")]),
    ];
    let mut after = before.clone();
    let denied =
        "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'held' with binding 'bound' denied request: no";
    let mut new = in_namespace(cm("b"), "shop");
    new["data"]["v"] = "2".into();
    after[2].1 = vec![new.clone()];
    let mut cluster = TestCluster::new(&before);
    cluster.refusals = vec![refused("k", &new, denied)];
    assert_eq!(cluster.rows(&after), set(&["keep a", "keep b"]));
    let mut labelled = cluster_scoped("Namespace", "shop");
    labelled["metadata"]["labels"] = json!({"trusted": "yes"});
    after[1].1 = vec![labelled];
    assert_eq!(cluster.rows(&after), set(&["delete? a"]));
    let plan = cluster.plan(&after);
    let row = plan.changes().iter().find(|change| &*change.object.id.name == "a").unwrap();
    assert!(
        row.reason.text().contains("after kustomization/n -n flux-system applies namespace/shop"),
        "{}",
        row.reason
    );
    let outcome = cluster.outcome(&after, "k");
    assert!(outcome.starts_with("Applies: may-be-refused: race: the server refuses configmap/b"), "{outcome}");
}

#[test]
fn a_refused_deletion_is_a_race_if_the_change_may_give_the_right() {
    let role = |verbs: &[&str]| {
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules})
    };
    let files = |verbs: &[&str], objects: Vec<Value>| {
        vec![("root/k.yaml", vec![ks("k", "./p", json!({})), role(verbs)]), ("p/a.yaml", objects)]
    };
    let mut cluster = TestCluster::new(&files(&["get"], vec![cm("a"), cm("b")]));
    let denied = "configmaps \"a\" is forbidden: User \"s\" cannot delete resource \"configmaps\" in API group \"\"";
    cluster.deletion_refusals = vec![DeletionRefusal {
        owner: NamespacedName { namespace: NS.into(), name: "k".into() },
        account: None,
        id: ObjectId::new("", "ConfigMap", NS, "a"),
        message: denied.into(),
    }];
    assert_eq!(cluster.rows(&files(&["get"], vec![cm("b")])), set(&["keep a"]));
    assert_eq!(cluster.rows(&files(&["get", "delete"], vec![cm("b")])), set(&["delete? a"]));
}

#[test]
fn objects_that_are_never_sent_are_never_validated() {
    let before = one_child(json!({}));
    let ignored = annotated(in_namespace(cm("far"), "none"), "ssa", "Ignore");
    let after = vec![before[0].clone(), ("p/a.yaml", vec![cm("b"), ignored]), before[2].clone()];
    assert_eq!(rows(&before, &after), set(&["delete a"]));
    // A namespace that nobody creates is waited for in vain.
    let ignored = annotated(cluster_scoped("Namespace", "none"), "ssa", "Ignore");
    let after = vec![before[0].clone(), ("p/a.yaml", vec![cm("b"), ignored]), before[2].clone()];
    assert_eq!(rows(&before, &after), set(&["keep a"]));
}

#[test]
fn common_metadata_overwrites_marks() {
    let common =
        |value: &str| json!({"commonMetadata": {"annotations": {"kustomize.toolkit.fluxcd.io/reconcile": value}}});
    let new = annotated(cm("new"), "reconcile", "disabled");
    let before = one_child(json!({}));
    let after = |value: &str| {
        let child = vec![ks("k", "./p", common(value))];
        vec![("root/k.yaml", child), ("p/a.yaml", vec![cm("a"), cm("b"), new.clone()]), before[2].clone()]
    };
    let created = |files: &Files| {
        let plan = TestCluster::new(&before).plan(files);
        plan.changes().iter().any(|change| change.action == Action::Create && &*change.object.id.name == "new")
    };
    assert!(created(&after("enabled")));
    assert!(!created(&after("disabled")));
}

/// Plays a preview after the Kustomizations were built again as they were applied. Returns its plan, and the names of
/// the objects that the API server is asked about.
pub(super) fn verified(cluster: &TestCluster, files: &Files) -> (Plan, BTreeSet<String>) {
    verified_with(cluster, files, Some(DryRunScope::default()))
}

/// Plays such a preview with these dry-runs, or without any.
pub(super) fn verified_with(
    cluster: &TestCluster,
    files: &Files,
    dry_runs: Option<DryRunScope>,
) -> (Plan, BTreeSet<String>) {
    let input = cluster.input(files);
    let fidelity = input.last_applied.keys().map(|key| (key.clone(), Fidelity::Verified)).collect();
    let last_applied = input.last_applied.clone();
    let input = PreviewInput { fidelity, dry_runs, ..input };
    let (mut preview, mut names) = (Preview::new(input), BTreeSet::new());
    let finished = cluster.finish(|answers| {
        let mut needs = build::Needs::default();
        for (key, artifact) in &last_applied {
            let live =
                cluster.snapshot.resources.iter().find(|full| NamespacedName::of(&full.object.id) == *key).unwrap();
            let mut context = BuildContext::new(cluster.features, &answers.builds, &mut needs);
            let _ = build::build(artifact, key, &KustomizationSpec::of(live), &mut context);
        }
        if !needs.is_empty() {
            return Progress::of_builds(needs);
        }
        let progress = preview.step(answers);
        if let Progress::Needs(needs) = &progress {
            names.extend(needs.dry_runs.iter().map(|question| question.id.name.to_string()));
        }
        progress
    });
    (finished.plan, names)
}

fn asked(cluster: &TestCluster, files: &Files) -> BTreeSet<String> {
    verified(cluster, files).1
}

#[test]
fn unchanged_objects_are_asked_about_if_something_is_newer_than_the_last_run() {
    let before = one_child(json!({}));
    let after = vec![before[0].clone(), ("p/a.yaml", vec![cm("b")]), before[2].clone()];
    let mut cluster = TestCluster::new(&before);
    cluster.history = Some(before.clone());
    let run = |time: &str, status: &str| json!({"lastReconciled": time, "lastReconciledStatus": status});
    let success = run("2026-01-02T00:00:00Z", "ReconciliationSucceeded");
    let failure = run("2026-01-05T00:00:00Z", "ReconciliationFailed");
    cluster.kustomization("k").content["status"]["history"] = json!([failure, success]);
    assert_eq!(asked(&cluster, &after), set(&["a", "b"]), "it may be what the owner fails at");
    cluster.kustomization("k").content["status"]["history"] = json!([success, failure]);
    assert_eq!(asked(&cluster, &after), set(&["a"]));
    let change = |time: &str, manager: &str, applies: bool| {
        Some(LastChange { time: time.parse().unwrap(), manager: manager.into(), applies })
    };
    for (time, manager, applies, expected, name) in [
        ("2026-01-01T00:00:00Z", "other", false, &["a"][..], "the last run has seen that"),
        ("2026-01-03T00:00:00Z", "other", false, &["a", "b"], "another manager"),
        ("2026-01-03T00:00:00Z", "other", true, &["a", "b"], "another one that applies"),
        ("2026-01-03T00:00:00Z", "kustomize-controller", true, &["a"], "the controller applies it right now"),
    ] {
        cluster.object("b").last_change = change(time, manager, applies);
        assert_eq!(asked(&cluster, &after), set(expected), "{name}");
    }
    cluster.kustomization("k").content["status"]["conditions"][0]["status"] = json!("False");
    assert_eq!(asked(&cluster, &after), set(&["a", "b"]), "the same while it is not ready");
    cluster.kustomization("k").content["status"]["conditions"][0]["status"] = json!("True");
    assert_eq!(asked(&cluster, &after), set(&["a"]));
    let rule = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "rule"}});
    cluster.add(&rule, None);
    cluster.object("rule").creation_timestamp = Some("2026-01-01T00:00:00Z".parse().unwrap());
    cluster.snapshot.normalise();
    assert_eq!(asked(&cluster, &after), set(&["a"]), "a rule that the last run has passed");
    cluster.object("rule").last_change = change("2026-01-03T00:00:00Z", "other", false);
    assert_eq!(asked(&cluster, &after), set(&["a", "b"]), "a rule that was changed since");
}

#[test]
fn a_role_that_loses_the_right_makes_a_deletion_a_race() {
    let role = |verbs: &[&str]| {
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules})
    };
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s", "namespace": NS}});
    let files = |verbs: &[&str], objects: Vec<Value>| {
        let child = ks("k", "./p", json!({"serviceAccountName": "s"}));
        vec![("root/k.yaml", vec![child, account.clone(), role(verbs)]), ("p/a.yaml", objects)]
    };
    let before = files(&["get", "delete"], vec![cm("a"), cm("b")]);
    let mut cluster = TestCluster::new(&before);
    cluster.history = Some(before);
    // A refusal elsewhere lets the test tell changes from objects that stay as they are.
    cluster.refusals = vec![refused("other", &cm("z"), "no")];
    let row = |files: &Files| {
        let (plan, _) = verified(&cluster, files);
        let row = plan.changes().iter().find(|change| &*change.object.id.name == "a").unwrap();
        (row.action, row.certainty)
    };
    assert_eq!(row(&files(&["get", "delete"], vec![cm("b")])), (Action::Delete, Certainty::Certain));
    assert_eq!(row(&files(&["get"], vec![cm("b")])), (Action::Delete, Certainty::Race));
}

/// A definition with a schema of `spec`, and the rest of `k`.
fn with_schema(schema: &Value, more: Vec<Value>) -> Files {
    let mut own = definition(&json!(["a"]));
    own["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = schema.clone();
    vec![("root/k.yaml", vec![ks("k", "./p", json!({}))]), ("p/a.yaml", [vec![own], more].concat())]
}

fn sizes(rules: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "required": required, "properties": {"color": {"type": "string"},
        "size": {"type": "string", "x-kubernetes-validations": rules}}})
}

/// Rows of a change of a schema and of the live widget of size `a` to another size, which the server accepts now.
fn rows_with_schema(schema: &Value, size: &str, force: bool) -> BTreeSet<String> {
    let before = with_schema(&sizes(&json!([]), &[]), vec![widget("a"), cm("a"), cm("b")]);
    let mut cluster = cluster_of(&before);
    cluster.refusals = vec![refused("other", &cm("z"), "no")];
    cluster.content.insert("w".to_owned(), widget("a"));
    let mut after = with_schema(schema, vec![widget(size), cm("b")]);
    if force {
        let marked = annotated(widget(size), "force", "enabled");
        after[1].1[1] = marked;
    }
    cluster.rows(&after)
}

#[test]
fn a_definition_that_makes_a_field_immutable_refuses_its_change() {
    let immutable = sizes(&json!([{"rule": "self == oldSelf"}]), &[]);
    assert_eq!(rows_with_schema(&immutable, "b", false), set(&["keep a", "keep w"]));
    assert_eq!(rows_with_schema(&immutable, "a", false), set(&["delete a"]));
    assert_eq!(rows_with_schema(&immutable, "b", true), set(&["delete a", "recreate w"]));
    let never = sizes(&json!([{"rule": "self == 'a'"}]), &[]);
    assert_eq!(rows_with_schema(&never, "b", true), set(&["keep a", "delete w"]), "it is refused anew, too");
}

#[test]
fn a_definition_that_requires_a_field_refuses_a_change_without_it() {
    let required = sizes(&json!([]), &["color"]);
    assert_eq!(rows_with_schema(&required, "b", false), set(&["keep a", "keep w"]));
    assert_eq!(rows_with_schema(&required, "a", false), set(&["delete a"]), "nothing of the widget changes");
    let mut with_default = required;
    with_default["properties"]["color"]["default"] = "red".into();
    assert_eq!(rows_with_schema(&with_default, "b", false), set(&["delete a"]));
}

#[test]
fn a_conversion_without_its_service_fails_each_request_for_a_version_that_is_not_stored() {
    let converting = |stored: &str| {
        let mut own = definition(&json!(["a", "b"]));
        own["spec"]["versions"][0]["storage"] = (stored == "v1").into();
        let mut second = own["spec"]["versions"][0].clone();
        (second["name"], second["storage"]) = ("v2".into(), (stored == "v2").into());
        own["spec"]["versions"].as_array_mut().unwrap().push(second);
        own["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"clientConfig": {
            "service": {"name": "converter", "namespace": NS}}}});
        own
    };
    let files = |definition: Value, more: Vec<Value>| -> Files {
        let kustomizations = vec![ks("k", "./p", json!({}))];
        vec![("root/k.yaml", kustomizations), ("p/a.yaml", [vec![definition], more].concat())]
    };
    let before = files(definition(&json!(["a", "b"])), vec![widget("a"), cm("a"), cm("b")]);
    let mut cluster = cluster_of(&before);
    cluster.snapshot.types.push(crate::testing::resource_type("", "Service", "services", true));
    cluster.snapshot.normalise();
    cluster.refusals = vec![refused("other", &cm("z"), "no")];
    let applied = |stored: &str| files(converting(stored), vec![widget("a"), cm("b")]);
    assert_eq!(cluster.rows(&applied("v2")), set(&["keep a", "keep w"]));
    assert_eq!(cluster.rows(&applied("v1")), set(&["delete a"]), "nothing is converted");
    let mut second = applied("v2");
    second[1].1[1]["apiVersion"] = "e.com/v2".into();
    let live = definition(&json!(["a", "b"]));
    cluster.content.insert("widgets.e.com".to_owned(), live);
    assert_eq!(cluster.rows(&second), set(&["keep a", "keep w"]), "it was stored as v1");
    let pruned = files(converting("v2"), vec![cm("a"), cm("b")]);
    assert_eq!(cluster.rows(&pruned), set(&["keep w"]));
    cluster.add(
        &in_namespace(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "converter"}}), NS),
        None,
    );
    cluster.snapshot.normalise();
    assert_eq!(cluster.rows(&applied("v2")), set(&["delete a"]));
}

#[test]
fn a_keyword_that_is_not_judged_leaves_open_what_the_server_says() {
    let checked = |format: &str| {
        let mut schema = sizes(&json!([]), &[]);
        schema["properties"]["size"]["format"] = format.into();
        schema
    };
    assert_eq!(rows_with_schema(&checked("colour"), "b", false), set(&["delete a"]), "the server ignores it");
    assert_eq!(rows_with_schema(&checked("email"), "b", false), set(&["delete? a"]));
}

#[test]
fn what_moves_in_order_is_created_and_not_changed() {
    let moved = |place: usize, dependant: Value| -> Files {
        let mut files = vec![
            ("root/k.yaml", vec![ks("a", "./a", json!({})), ks("b", "./b", dependant)]),
            ("a/a.yaml", vec![cm("x")]),
            ("b/b.yaml", vec![cm("y")]),
        ];
        files[place].1.push(cm("m"));
        files
    };
    let in_order = || json!({"dependsOn": [{"name": "a"}], "serviceAccountName": "team"});
    let mut before = moved(1, in_order());
    before[2].1.push(cm("z"));
    let mut cluster = TestCluster::new(&before);
    cluster.refusals = vec![refused("other", &cm("z"), "no")];
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "team"}});
    cluster.add(&in_namespace(account, NS), None);
    cluster.snapshot.normalise();
    assert_eq!(cluster.rows(&moved(2, in_order())), set(&["delete z", "recreate m"]));
    let right = "configmaps \"m-dry-run-1\" is forbidden: User \"s\" cannot create resource \"configmaps\"";
    cluster.creation_refusals = [("m", right)].into();
    assert_eq!(cluster.rows(&moved(2, in_order())), set(&["keep z", "delete m"]));
    let rows = cluster.rows(&moved(2, json!({"serviceAccountName": "team"})));
    assert!(rows.contains("delete? z"), "perhaps b takes it over before a prunes: {rows:?}");
    cluster.creation_refusals = [("m", "admission webhook \"w\" denied the request: no")].into();
    assert_eq!(cluster.rows(&moved(2, in_order())), set(&["delete? z", "delete? m"]));
    cluster.creation_refusals =
        [("m", "admission webhook \"w\" denied the request: it is in flux-system/m already")].into();
    assert_eq!(cluster.rows(&moved(2, in_order())), set(&["delete z", "recreate m"]), "once it is gone, it is not");
}
