//! Every run of a Kustomization: forced deletions and what follows from them, the run with the old spec, and health.

use super::releases::{UNINSTALLED, installed, tree};
use super::*;
use crate::flux::apply::AppliedObject;
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::update::Update;
use crate::flux::simulation::model::refusals::DeletionRefusal;
use crate::kubernetes::object::OwnerReference;
use crate::plan::ReasonCode;
use crate::testing;

fn text(message: &str) -> String {
    message.to_owned()
}

fn is_named(applied: &AppliedObject, name: &str) -> bool {
    &*applied.id.name == name
}

fn is_k(applied: &AppliedObject) -> bool {
    is_named(applied, "k")
}

fn is_b(applied: &AppliedObject) -> bool {
    is_named(applied, "b")
}

/// A parent, `m`, with the child `k`, which has the child `g`.
fn nested(k: Value) -> Files {
    vec![
        ("root/m.yaml", vec![ks("m", "./m", json!({"force": true}))]),
        ("m/k.yaml", vec![ks("k", "./p", k), cm("x")]),
        ("p/a.yaml", vec![cm("a"), ks("g", "./q", json!({}))]),
        ("q/c.yaml", vec![cm("c")]),
    ]
}

#[test]
fn a_kustomization_that_is_deleted_by_force_is_finalized() {
    let mut cluster = TestCluster::new(&nested(json!({})));
    cluster.results = vec![(is_k, DryRunResult::DeletedOnly(text("invalid")))];
    let after = nested(json!({"interval": "never"}));
    assert_eq!(cluster.rows(&after), set(&["delete k", "delete a", "delete g", "delete c"]));
    let plan = cluster.plan(&after);
    let row = |name: &str| plan.changes().iter().find(|change| &*change.object.id.name == name).unwrap();
    let reason = "forced: it is deleted and not recreated, because the server refuses it: invalid";
    assert_eq!(row("k").reason.to_string(), reason);
    assert_eq!(row("a").cause.as_ref().map(|cause| &*cause.name), Some("k"));
    assert!(cluster.outcome(&after, "k").starts_with("Deleted: owner-deleted-with-objects"));
    assert!(cluster.outcome(&after, "m").starts_with("Blocked: apply-refused"));
    // Its finalizer follows its own rules.
    let orphaning = json!({"deletionPolicy": "Orphan"});
    let mut cluster = TestCluster::new(&nested(orphaning.clone()));
    cluster.results = vec![(is_k, DryRunResult::DeletedOnly(text("invalid")))];
    let after = nested(json!({"deletionPolicy": "Orphan", "interval": "never"}));
    assert_eq!(cluster.rows(&after), set(&["delete k", "keep a", "keep g"]));
}

#[test]
fn a_kustomization_that_is_replaced_by_force_comes_back_with_its_new_spec() {
    let mut cluster = TestCluster::new(&nested(json!({})));
    cluster.results = vec![(is_k, DryRunResult::Recreated(text("path is immutable")))];
    let mut after = nested(json!({}));
    after[1] = ("m/k.yaml", vec![ks("k", "./r", json!({})), cm("x")]);
    after.push(("r/a.yaml", vec![cm("a")]));
    assert_eq!(cluster.rows(&after), set(&["recreate k", "recreate a", "delete g", "delete c"]));
}

#[test]
fn a_kustomization_whose_finalizer_fails_never_comes_back() {
    let mut cluster = TestCluster::new(&nested(json!({})));
    cluster.results = vec![(is_k, DryRunResult::Recreated(text("path is immutable")))];
    cluster.deletion_refusals = vec![refused_to(None)];
    let mut after = nested(json!({}));
    after[1] = ("m/k.yaml", vec![ks("k", "./r", json!({})), cm("new")]);
    after.push(("r/a.yaml", vec![cm("other")]));
    assert_eq!(cluster.rows(&after), set(&["delete k", "keep a", "delete g", "delete c", "keep x"]));
    let outcome = cluster.outcome(&after, "m");
    assert!(outcome.contains("waits until its finalizer succeeds"), "{outcome}");
}

#[test]
fn a_release_that_is_deleted_by_force_is_uninstalled() {
    let mut cluster = installed(json!({}));
    cluster.results = vec![(|applied| is_named(applied, "app"), DryRunResult::DeletedOnly(text("invalid")))];
    let after = tree(json!({"interval": "never"}));
    let expected: Vec<&str> = UNINSTALLED.into_iter().chain(["delete app"]).collect();
    assert_eq!(cluster.rows(&after), set(&expected));
}

#[test]
fn a_definition_that_gets_another_scope_by_force_loses_its_resources() {
    fn is_definition(applied: &AppliedObject) -> bool {
        &*applied.id.kind == "CustomResourceDefinition"
    }
    let definition = |scope: &str| {
        let versions = json!([{"name": "v1", "served": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]);
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.e.com"}, "spec": {"group": "e.com", "scope": scope,
                "names": {"kind": "Widget", "plural": "widgets"}, "versions": versions}})
    };
    let widget = |namespace: Value| json!({"apiVersion": "e.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": namespace}});
    let files = |scope: &str, more: Value, of_others: Value, own: Vec<Value>| {
        let (mut spec, mut other) = (json!({"force": true}), of_others);
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let other_objects = vec![widget(json!(NS)), cm("y")];
        let objects = other.as_object_mut().unwrap().remove("objects").map_or(other_objects, |it| vec![it]);
        vec![
            ("root/k.yaml", vec![ks("k", "./p", spec), ks("o", "./o", other)]),
            ("p/a.yaml", [vec![definition(scope)], own].concat()),
            ("o/o.yaml", objects),
        ]
    };
    let none = || json!({"objects": cm("y")});
    let before = files("Namespaced", json!({}), none(), vec![widget(json!(NS)), cm("a"), cm("b")]);
    let cluster_of = |before: &Files| {
        let mut cluster = TestCluster::new(before);
        let definitions = ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions");
        cluster.snapshot.types.extend([
            testing::resource_type("e.com", "Widget", "widgets", true),
            testing::resource_type(definitions.0, definitions.1, definitions.2, false),
        ]);
        cluster.snapshot.normalise();
        cluster.results = vec![(is_definition, DryRunResult::Recreated(text("scope is immutable")))];
        cluster
    };
    let cluster = cluster_of(&before);
    let after = |more: Value, namespace: Value| files("Cluster", more, none(), vec![widget(namespace), cm("b")]);
    let replaced = "recreate widgets.e.com";
    let clustered = set(&[replaced, "delete w", "delete a"]);
    assert_eq!(cluster.rows(&after(json!({}), Value::Null)), clustered);
    let lost = set(&[replaced, "delete w", "keep a"]);
    assert_eq!(cluster.rows(&after(json!({}), json!(NS))), lost, "the controller asks for it in the namespace");
    let with_account = after(json!({"serviceAccountName": "s"}), json!(NS));
    assert_eq!(cluster.rows(&with_account), clustered, "an account has no memory of scopes");

    for (more, expected) in [
        (json!({}), set(&[replaced, "delete w", "delete? y"])),
        (json!({"dependsOn": [{"name": "k"}]}), set(&[replaced, "delete w", "keep y"])),
    ] {
        let cluster = cluster_of(&files("Namespaced", json!({}), more.clone(), vec![cm("x")]));
        let mut after = files("Cluster", json!({}), more, vec![cm("x")]);
        after[2].1.pop();
        assert_eq!(cluster.rows(&after), expected);
    }
}

#[test]
fn a_namespace_that_is_deleted_by_force_takes_its_kustomizations_along() {
    let mut k = in_namespace(ks("k", "./p", json!({})), "shop");
    k["spec"]["sourceRef"]["namespace"] = NS.into();
    let files = |note: &str| {
        vec![
            ("root/m.yaml", vec![ks("m", "./m", json!({"force": true})), ks("l", "./l", json!({}))]),
            ("m/n.yaml", vec![annotated(cluster_scoped("Namespace", "shop"), "note", note)]),
            ("l/k.yaml", vec![k.clone()]),
            ("p/a.yaml", vec![cm("a")]),
        ]
    };
    let mut cluster = TestCluster::new(&files("1"));
    let owner = [(NAME, "k"), (NAMESPACE, "shop")];
    cluster.object("a").labels = owner.into_iter().collect();
    cluster.results = vec![(|applied| is_named(applied, "shop"), DryRunResult::DeletedOnly(text("invalid")))];
    assert_eq!(cluster.rows(&files("2")), set(&["delete shop", "delete k", "delete a"]));
}

#[test]
fn an_owner_that_is_deleted_by_force_takes_its_dependents_along() {
    let deployment = |labels: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": NS},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}})
    };
    let files = |labels: Value| {
        vec![
            ("root/k.yaml", vec![ks("k", "./p", json!({"force": true}))]),
            ("p/a.yaml", vec![deployment(labels), cm("a")]),
        ]
    };
    let mut cluster = TestCluster::new(&files(json!({"app": "web"})));
    cluster.snapshot.types.push(testing::resource_type("apps", "Deployment", "deployments", true));
    let mut dependent = testing::object("apps", "ReplicaSet", NS, "web-1");
    dependent.labels = [("app", "web"), ("pod-template-hash", "1")].into_iter().collect();
    dependent.owner_references = vec![OwnerReference {
        group: "apps".into(),
        kind: "Deployment".into(),
        name: "web".into(),
        uid: cluster.object("web").uid.clone(),
        controller: true,
        block_owner_deletion: true,
    }];
    cluster.snapshot.objects.push(dependent);
    cluster.snapshot.normalise();
    let is_web: fn(&AppliedObject) -> bool = |applied| is_named(applied, "web");
    cluster.results = vec![(is_web, DryRunResult::Recreated(text("immutable")))];
    // The labels of the template are part of the name of the ReplicaSet.
    let other = files(json!({"app": "other"}));
    assert_eq!(cluster.rows(&other), set(&["recreate web", "delete web-1"]));
    let same = files(json!({"app": "web"}));
    assert_eq!(cluster.rows(&same), set(&["recreate web", "delete? web-1"]));
    // Another object of the stage may stop the Kustomization first.
    cluster.results.push((|applied| is_named(applied, "a"), DryRunResult::Refused(text("denied"))));
    let mut both = other.clone();
    both[1].1[1]["data"] = json!({"v": "2"});
    assert_eq!(cluster.rows(&both), set(&["delete? web", "delete? web-1", "keep a"]));
    let plan = cluster.plan(&both);
    let row = plan.changes().iter().find(|change| &*change.object.id.name == "web").unwrap();
    assert!(row.reason.text().contains("before another object stops its Kustomization"), "{}", row.reason);
}

#[test]
fn a_finalizer_holds_what_is_deleted_by_force() {
    let before = one_child(json!({"force": true}));
    let after = vec![before[0].clone(), ("p/a.yaml", vec![annotated(cm("b"), "note", "2")])];
    let mut cluster = TestCluster::new(&before);
    cluster.results = vec![(is_b, DryRunResult::HeldByFinalizer(text("example.com/hold")))];
    assert_eq!(cluster.rows(&after), set(&["delete b", "keep a", "delete x"]));
    assert!(cluster.outcome(&after, "k").contains("example.com/hold"));
}

#[test]
fn a_forced_deletion_in_the_run_with_the_old_spec_counts() {
    let before = one_child(json!({"force": true}));
    let changed = annotated(cm("b"), "note", "2");
    let after = vec![("root/k.yaml", vec![ks("k", "./p", json!({})), cm("x")]), ("p/a.yaml", vec![changed])];
    let mut cluster = TestCluster::new(&before);
    cluster.results = vec![
        (|applied| is_b(applied) && applied.spec.forces(), DryRunResult::Recreated(text("immutable"))),
        (is_b, DryRunResult::Refused(text("immutable"))),
    ];
    // The next run finds what the first one has created.
    assert_eq!(cluster.rows(&after), set(&["recreate b", "delete a"]));
    assert!(cluster.outcome(&after, "k").starts_with("Applies"), "{}", cluster.outcome(&after, "k"));
}

#[test]
fn a_refusal_in_the_run_with_the_old_spec_prunes_nothing() {
    let before = one_child(json!({}));
    let changed = annotated(cm("b"), "note", "2");
    let after = vec![
        ("root/k.yaml", vec![ks("k", "./q", json!({})), cm("x")]),
        ("p/a.yaml", vec![changed]),
        ("q/a.yaml", vec![cm("a"), cm("b")]),
    ];
    let mut cluster = TestCluster::new(&before);
    assert_eq!(cluster.rows(&after), set(&["recreate a"]));
    let is_refused: fn(&AppliedObject) -> bool = |applied| is_b(applied) && applied.spec.path() == "./p";
    cluster.results = vec![(is_refused, DryRunResult::Refused(text("immutable")))];
    assert_eq!(cluster.rows(&after), set(&[]));
    assert!(cluster.outcome(&after, "k").starts_with("Applies"), "{}", cluster.outcome(&after, "k"));
}

#[test]
fn a_dependant_waits_until_its_dependency_has_reconciled_its_new_spec() {
    let files = |k: &str, l: &str| {
        let dependant = ks("l", l, json!({"dependsOn": [{"name": "k"}]}));
        vec![
            ("root/k.yaml", vec![ks("k", k, json!({})), dependant]),
            ("p/a.yaml", vec![cm("a")]),
            ("q/b.yaml", vec![cm("b")]),
        ]
    };
    let cluster = TestCluster::new(&files("./p", "./q"));
    // k takes b over and prunes a, then l creates a and finds that b is not its own.
    assert_eq!(cluster.rows(&files("./q", "./p")), set(&["recreate a", "keep b"]));
}

fn refused_to(account: Option<&str>) -> DeletionRefusal {
    DeletionRefusal {
        owner: NamespacedName { namespace: NS.into(), name: "k".into() },
        account: account.map(str::to_owned),
        id: ObjectId::new("", "ConfigMap", NS, "a"),
        message: "forbidden".into(),
    }
}

#[test]
fn each_run_prunes_with_its_own_account() {
    let account = json!({"serviceAccountName": "team"});
    let files = |spec: &Value, objects: Vec<Value>| {
        vec![("root/k.yaml", vec![ks("k", "./p", spec.clone())]), ("p/a.yaml", objects)]
    };
    let all = vec![cm("a"), cm("b")];
    // The first run, with the rights of the controller, deletes.
    let mut cluster = TestCluster::new(&files(&json!({}), all.clone()));
    cluster.deletion_refusals = vec![refused_to(Some("team"))];
    let after = files(&account, vec![cm("b")]);
    assert_eq!(cluster.rows(&after), set(&["delete a"]));
    assert!(cluster.outcome(&after, "k").starts_with("Applies: new-revision"), "{}", cluster.outcome(&after, "k"));
    // What the first run may not delete returns to the inventory.
    let mut cluster = TestCluster::new(&files(&account, all.clone()));
    cluster.deletion_refusals = vec![refused_to(Some("team"))];
    assert_eq!(cluster.rows(&files(&json!({}), vec![cm("b")])), set(&["delete a"]));
    assert_eq!(cluster.rows(&files(&account, vec![cm("b")])), set(&["keep a"]));
}

#[test]
fn a_dependant_that_is_deleted_never_reconciles() {
    let k = ks("k", "./p", json!({"dependsOn": [{"name": "d"}]}));
    let d = ks("d", "./d", json!({}));
    let files = |root: Vec<Value>, objects: Vec<Value>| {
        vec![("root/k.yaml", root), ("d/x.yaml", vec![cm("x")]), ("p/a.yaml", objects)]
    };
    let kept = annotated(cm("m"), "prune", "disabled");
    let cluster = TestCluster::new(&files(vec![d.clone(), k], vec![cm("a"), kept]));
    // It neither removes the protection nor creates an object.
    let after = files(vec![d], vec![cm("a"), cm("m"), cm("new")]);
    assert_eq!(cluster.rows(&after), set(&["delete k", "delete a", "keep m"]));
    assert!(cluster.plan(&after).changes().iter().all(|change| &*change.object.id.name != "new"));
}

/// A Kustomization `k` that depends on `d`, which waits for the health of its objects.
fn waiting(d: Vec<Value>, more: &[(&'static str, Vec<Value>)], objects: Vec<Value>) -> Files {
    let root = vec![ks("d", "./d", json!({"wait": true})), ks("k", "./p", json!({"dependsOn": [{"name": "d"}]}))];
    let mut files = vec![("root/k.yaml", root), ("d/x.yaml", d), ("p/a.yaml", objects)];
    files.extend(more.iter().cloned());
    files
}

fn of_kind(version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NS}})
}

fn with_workloads(files: &Files) -> TestCluster {
    let mut cluster = TestCluster::new(files);
    for (group, kind, plural) in
        [("", "Service", "services"), ("batch", "CronJob", "cronjobs"), ("apps", "Deployment", "deployments")]
    {
        cluster.snapshot.types.push(testing::resource_type(group, kind, plural, true));
    }
    cluster
}

#[test]
fn a_dependency_that_waits_gets_what_is_healthy_at_once() {
    let all = vec![cm("a"), cm("b")];
    let cluster = with_workloads(&waiting(vec![cm("x")], &[], all));
    for created in [of_kind("v1", "Service", "s"), of_kind("batch/v1", "CronJob", "s")] {
        let after = waiting(vec![cm("x"), created], &[], vec![cm("b")]);
        assert_eq!(cluster.rows(&after), set(&["delete a"]));
    }
    let after = waiting(vec![cm("x"), of_kind("apps/v1", "Deployment", "s")], &[], vec![cm("b")]);
    assert_eq!(cluster.rows(&after), set(&["delete? a"]));
    let child = vec![cm("x"), ks("c", "./c", json!({}))];
    let after = waiting(child.clone(), &[("c/y.yaml", vec![cm("y")])], vec![cm("b")]);
    assert_eq!(cluster.rows(&after), set(&["delete a"]));
    let missing = waiting(child, &[], vec![cm("b")]);
    assert_eq!(cluster.rows(&missing), set(&[]));
    let outcome = cluster.outcome(&missing, "k");
    assert!(outcome.contains("which waits for kustomization/c -n flux-system, which cannot reconcile"), "{outcome}");
}

#[test]
fn a_kustomization_that_waits_for_health_may_be_finalized_after_its_successor_applies() {
    let named = |name: &str, objects: Vec<Value>| -> Files {
        vec![("root/k.yaml", vec![ks(name, "./p", json!({"wait": true}))]), ("p/a.yaml", objects)]
    };
    let mut cluster = with_workloads(&named("k", vec![cm("a")]));
    assert_eq!(cluster.rows(&named("new", vec![cm("a")])), set(&["delete k", "recreate a"]));
    // The run with the old spec creates what needs time.
    let after = named("new", vec![cm("a"), of_kind("apps/v1", "Deployment", "never")]);
    assert_eq!(cluster.rows(&after), set(&["delete k", "recreate? a"]));
    let after = named("new", vec![cm("a"), of_kind("v1", "Service", "s")]);
    assert_eq!(cluster.rows(&after), set(&["delete k", "recreate a"]));
    // It waits all the time.
    for (status, reason, expected) in [
        ("Unknown", "Progressing", "recreate? a"),
        ("False", "HealthCheckFailed", "recreate? a"),
        ("False", "BuildFailed", "recreate a"),
    ] {
        cluster.kustomization("k").content["status"]["conditions"] =
            json!([{"type": "Ready", "status": status, "reason": reason}]);
        let rows = cluster.rows(&named("new", vec![cm("a")]));
        assert_eq!(rows, set(&["delete k", expected]), "{status} {reason}");
    }
}

#[test]
fn a_dependency_waits_for_its_children() {
    let child = || vec![ks("c", "./c", json!({}))];
    let cluster = TestCluster::new(&waiting(child(), &[("c/y.yaml", vec![cm("y")])], vec![cm("a"), cm("b")]));
    let same = waiting(child(), &[("c/y.yaml", vec![cm("y")])], vec![cm("b")]);
    assert_eq!(cluster.rows(&same), set(&["delete a"]));
    // It may be checked before it notices the new revision.
    let broken = waiting(child(), &[("c/y.yaml", vec![cm("broken")])], vec![cm("b")]);
    assert_eq!(cluster.rows(&broken), set(&["delete? a"]));
    let moved = waiting(vec![ks("c", "./none", json!({}))], &[("c/y.yaml", vec![cm("y")])], vec![cm("b")]);
    assert_eq!(cluster.rows(&moved), set(&[]), "its spec changes");
    let suspended = waiting(vec![ks("c", "./c", json!({"suspend": true}))], &[], vec![cm("b")]);
    assert_eq!(cluster.rows(&suspended), set(&["delete a"]), "it stays ready");
    // Neither can go first.
    let circle = vec![ks("c", "./c", json!({"dependsOn": [{"name": "d"}]}))];
    let circle = waiting(circle, &[("c/y.yaml", vec![cm("y")])], vec![cm("b")]);
    assert_eq!(cluster.rows(&circle), set(&[]));
}

#[test]
fn a_dependency_that_is_reconciled_at_the_moment_is_as_ready_as_it_was() {
    let files = |objects: Vec<Value>| {
        let d = ks("d", "./d", json!({"sourceRef": {"kind": "GitRepository", "name": "other"}}));
        let root = vec![d, ks("k", "./p", json!({"dependsOn": [{"name": "d"}]}))];
        vec![("root/k.yaml", root), ("d/x.yaml", vec![cm("x")]), ("p/a.yaml", objects)]
    };
    let mut cluster = TestCluster::new(&files(vec![cm("a"), cm("b")]));
    for (attempted, expected) in [("main@1", &["delete a"][..]), ("main@2", &[])] {
        let status = &mut cluster.kustomization("d").content["status"];
        status["conditions"] = json!([{"type": "Ready", "status": "Unknown", "reason": "Progressing"}]);
        status["lastAppliedRevision"] = "main@1".into();
        status["lastAttemptedRevision"] = attempted.into();
        assert_eq!(cluster.rows(&files(vec![cm("b")])), set(expected), "{attempted}");
    }
}

#[test]
fn a_dependency_that_changes_what_it_waits_for_may_never_be_ready() {
    let deployment = |note: &str| annotated(of_kind("apps/v1", "Deployment", "web"), "note", note);
    let mut cluster = with_workloads(&waiting(vec![deployment("1")], &[], vec![cm("a"), cm("b")]));
    let after = waiting(vec![deployment("2")], &[], vec![cm("b")]);
    let update = |changes_content| {
        DryRunResult::Updated(Update { reason: ReasonCode::Changed.into(), diff: String::new(), changes_content })
    };
    let is_web: fn(&AppliedObject) -> bool = |applied| is_named(applied, "web");
    cluster.results = vec![(is_web, update(false))];
    assert_eq!(cluster.rows(&after), set(&["delete a"]), "its pods stay");
    cluster.results = vec![(is_web, update(true))];
    assert_eq!(cluster.rows(&after), set(&["delete? a"]));
    let outcome = cluster.outcome(&after, "k");
    assert!(outcome.contains("which changes deployment.apps/web -n flux-system, becomes healthy"), "{outcome}");
}

#[test]
fn what_is_being_deleted_already_is_neither_deleted_nor_updated_for_certain() {
    let files = |objects| vec![("root/k.yaml", vec![ks("k", "./p", json!({}))]), ("p/a.yaml", objects)];
    let mut cluster = TestCluster::new(&files(vec![cm("a"), cm("b")]));
    let gone = files(vec![cm("b")]);
    assert_eq!(cluster.rows(&gone), set(&["delete a"]));
    let object = cluster.object("a");
    object.deletion_timestamp = Some(chrono::DateTime::UNIX_EPOCH);
    object.finalizers = vec!["example.com/hold".into()];
    assert_eq!(cluster.rows(&gone), set(&["delete? a"]));
    let is_a: fn(&AppliedObject) -> bool = |applied| is_named(applied, "a");
    let update = Update { reason: ReasonCode::Changed.into(), diff: String::new(), changes_content: true };
    cluster.results = vec![(is_a, DryRunResult::Updated(update))];
    let plan = cluster.plan(&files(vec![annotated(cm("a"), "note", "1"), cm("b")]));
    let row = plan.changes().iter().find(|change| &*change.object.id.name == "a").unwrap();
    let expected = "it is being deleted already, and is gone once its finalizer example.com/hold is removed, and then it is \
                    created again";
    assert_eq!((row.action, &row.reason.conditions[..]), (Action::Update, &[expected.to_owned()][..]));
}

#[test]
fn an_update_by_the_child_of_a_kustomization_that_may_wait_for_ever_is_a_race() {
    let files = |objects: Vec<Value>| {
        let dependant = ks("k", "./p", json!({"dependsOn": [{"name": "d"}]}));
        let root = vec![ks("d", "./d", json!({"wait": true})), dependant, ks("m", "./m", json!({}))];
        let shared = || vec![cm("shared")];
        vec![
            ("root/k.yaml", root),
            ("d/x.yaml", vec![cm("x")]),
            ("p/a.yaml", objects),
            ("m/s.yaml", shared()),
            ("e/s.yaml", shared()),
        ]
    };
    let mut cluster = TestCluster::new(&files(vec![cm("a")]));
    cluster.kustomization("d").content["status"]["conditions"] =
        json!([{"type": "Ready", "status": "False", "reason": "HealthCheckFailed"}]);
    let is_of_child: fn(&AppliedObject) -> bool = |applied| is_named(applied, "shared") && applied.owner.name == "e";
    let update = Update { reason: ReasonCode::Changed.into(), diff: String::new(), changes_content: true };
    cluster.results = vec![(is_of_child, DryRunResult::Updated(update))];
    let plan = cluster.plan(&files(vec![cm("a"), ks("e", "./e", json!({}))]));
    let row = plan.changes().iter().find(|change| &*change.object.id.name == "shared").unwrap();
    assert_eq!((row.action, row.certainty), (Action::Update, Certainty::Race), "{}", row.reason);
}

#[test]
fn a_health_check_of_what_another_one_deletes_depends_on_the_order() {
    let files = |d: Value, e: Vec<Value>, objects: Vec<Value>| {
        let checks = json!({"healthChecks": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "namespace": NS}]});
        let mut d = ks("d", "./d", d);
        d["spec"]["healthChecks"] = checks["healthChecks"].clone();
        let root = vec![ks("e", "./e", json!({})), d, ks("k", "./p", json!({"dependsOn": [{"name": "d"}]}))];
        vec![("root/k.yaml", root), ("e/x.yaml", e), ("d/z.yaml", vec![cm("z")]), ("p/a.yaml", objects)]
    };
    let all = || vec![cm("a"), cm("b")];
    let after_e = json!({"dependsOn": [{"name": "e"}]});
    for (d, expected) in [(json!({}), &["delete x", "delete? a"][..]), (after_e, &["delete x"][..])] {
        let cluster = TestCluster::new(&files(d.clone(), vec![cm("x"), cm("y")], all()));
        assert_eq!(cluster.rows(&files(d, vec![cm("y")], vec![cm("b")])), set(expected));
    }
}

#[test]
fn what_the_run_with_the_old_spec_updates_is_told_if_the_new_spec_is_blocked() {
    let files = |value: &str, spec: Value| -> Files {
        let mut map = cm("m");
        map["data"] = json!({"k": value});
        vec![("root/k.yaml", vec![ks("k", "./p", spec)]), ("p/m.yaml", vec![map])]
    };
    let mut cluster = TestCluster::new(&files("1", json!({})));
    let reason = crate::plan::Reason::from(ReasonCode::Changed);
    let update = Update { reason, diff: String::new(), changes_content: true };
    cluster.results = vec![(|applied| is_named(applied, "m"), DryRunResult::Updated(update))];
    let blocked = json!({"decryption": {"provider": "sops", "secretRef": {"name": "missing"}}});
    let after = files("2", blocked);
    assert!(cluster.outcome(&after, "k").starts_with("Blocked: keys-missing"), "{}", cluster.outcome(&after, "k"));
    let plan = cluster.plan(&after);
    let updated =
        |name: &str| plan.changes().iter().any(|row| row.action == Action::Update && &*row.object.id.name == name);
    assert!(updated("m"), "{:?}", plan.changes());
}

#[test]
fn a_child_that_a_deleted_parent_may_create_first_may_be_deleted_with_what_it_took_over() {
    let files = |parent: &str, child: &str, app: Value| -> Files {
        vec![
            ("root/k.yaml", vec![ks(parent, "./team", json!({}))]),
            ("team/app.yaml", vec![ks(child, "./app", app)]),
            ("app/a.yaml", vec![cm("a")]),
        ]
    };
    let cluster = TestCluster::new(&files("team", "app", json!({"deletionPolicy": "Orphan"})));
    let row = |child: Value| {
        let plan = cluster.plan(&files("team2", "app2", child));
        plan.changes().iter().find(|change| &*change.object.id.name == "a").map(|row| (row.action, row.reason.text()))
    };
    let (action, text) = row(json!({})).unwrap();
    let first = "it stays unless kustomization/team -n flux-system creates kustomization/app2 -n flux-system first";
    assert!(action == Action::Recreate && text.contains(first), "{action:?} {text}");
    assert_eq!(row(json!({"deletionPolicy": "Orphan"})).unwrap().0, Action::Keep);
}

#[test]
fn a_cluster_scoped_object_that_the_inventory_lists_with_a_namespace_is_pruned_once() {
    let files = |objects: Vec<Value>| vec![("root/a.yaml", objects)];
    let role = || cluster_scoped("ClusterRole", "r");
    let mut cluster = TestCluster::new(&files(vec![role(), cm("a"), cm("b")]));
    let entry = format!("{NS}_r_rbac.authorization.k8s.io_ClusterRole");
    let entries = cluster.kustomization("root").content["status"]["inventory"]["entries"].as_array_mut().unwrap();
    for listed in entries.iter_mut().filter(|listed| listed["id"] == "_r_rbac.authorization.k8s.io_ClusterRole") {
        listed["id"] = entry.as_str().into();
    }
    let kept = files(vec![role(), cm("b")]);
    assert_eq!(cluster.rows(&kept), set(&["recreate r", "delete a"]));
    let plan = cluster.plan(&kept);
    let row = plan.changes().iter().find(|change| &*change.object.id.name == "r").unwrap();
    assert!(
        row.reason.text().contains("lists it with the namespace flux-system, so it is pruned once"),
        "{}",
        row.reason
    );
    assert_eq!(cluster.rows(&files(vec![cm("a"), cm("b")])), set(&["delete r"]));
    cluster.object("r").annotations = [("kustomize.toolkit.fluxcd.io/prune", "disabled")].into_iter().collect();
    let protected = files(vec![annotated(role(), "prune", "disabled"), cm("b")]);
    assert_eq!(cluster.rows(&protected), set(&["delete a"]));
}
