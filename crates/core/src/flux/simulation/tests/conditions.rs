//! Conditions for a reconciliation: dependencies, expressions, accounts, keys, flags, and what the API server accepts.

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cluster_scoped, cm, ks, set};
use super::premises::verified_with;
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::update::Update;
use crate::kubernetes::object::{GroupKind, ManagedFieldsEntry, ObjectId};
use crate::kubernetes::snapshot::OtherVersion;
use crate::plan::{Certainty, Change, ReasonCode};
use crate::testing;

/// Returns a dependency `d`, and a dependant `k` that loses `a` if `is_after`.
fn two(dependency: Value, dependant: Value, is_after: bool) -> Files {
    vec![
        ("root/d.yaml", vec![ks("d", "./d", dependency)]),
        ("root/k.yaml", vec![ks("k", "./p", dependant)]),
        ("d/x.yaml", vec![cm("x"), cm("y")]),
        ("p/a.yaml", if is_after { vec![cm("b")] } else { vec![cm("a"), cm("b")] }),
    ]
}

fn with_expression(expression: &str) -> Value {
    json!({"dependsOn": [{"name": "d", "readyExpr": expression}]})
}

/// Returns one child that moves to another directory with a spec, loses `a` and gets further manifests.
fn child(spec: Value, manifests: Vec<Value>) -> Files {
    vec![("root/k.yaml", vec![ks("k", "./q", spec)]), ("q/a.yaml", [vec![cm("b")], manifests].concat())]
}

fn cluster() -> TestCluster {
    TestCluster::new(&vec![("root/k.yaml", vec![ks("k", "./p", json!({}))]), ("p/a.yaml", vec![cm("a"), cm("b")])])
}

#[test]
fn a_missing_service_account_does_not_stop_a_reconciliation() {
    assert_eq!(cluster().rows(&child(json!({"serviceAccountName": "none"}), vec![])), set(&["delete a"]));
}

#[test]
fn an_expression_replaces_the_status_of_a_dependency() {
    let ready = "dep.status.conditions.filter(c, c.type == 'Ready').all(c, c.status == 'True')";
    for (expression, broken, expected) in [
        ("dep.spec.prune == true", true, set(&["delete a"])),
        ("dep.spec.prune == true", false, set(&["delete a"])),
        ("dep.spec.path == self.spec.path", false, set(&[])),
        ("dep.spec.prune", false, set(&[])),
        (ready, false, set(&["delete a"])),
        (ready, true, set(&["delete? a"])),
        ("dep.spec.prune ==", false, set(&["delete? a"])),
        ("dep.metadata.annotations['v'] == 'x'", false, set(&["delete? a"])),
    ] {
        let cluster = TestCluster::new(&two(json!({}), with_expression(expression), false));
        let mut after = two(json!({}), with_expression(expression), true);
        if broken {
            after[2].1.push(cm("broken"));
        }
        assert_eq!(cluster.rows(&after), expected, "{expression} {broken}");
    }
}

#[test]
fn an_expression_about_the_status_of_a_dependency_needs_its_health() {
    let ready = "dep.status.conditions.filter(c, c.type == 'Ready').all(c, c.status == 'True')";
    for (expression, check, expected) in [
        (ready, "none", set(&["delete? a"])),
        (ready, "x", set(&["delete a"])),
        ("dep.spec.prune == true", "none", set(&["delete a"])),
    ] {
        let checks =
            json!({"healthChecks": [{"apiVersion": "v1", "kind": "ConfigMap", "name": check, "namespace": NS}]});
        let mut cluster = TestCluster::new(&two(checks.clone(), with_expression(expression), false));
        let after = two(checks, with_expression(expression), true);
        assert_eq!(cluster.rows(&after), expected, "{expression} {check}");
        if check == "none" {
            cluster.features.additive_ready_expr = true;
            assert_eq!(cluster.rows(&after), set(&[]), "the gate needs its readiness too");
        }
    }
}

/// Returns `two` with a dependency of the source `other`.
fn of_another_source(is_after: bool) -> Files {
    two(
        json!({"sourceRef": {"kind": "GitRepository", "name": "other"}}),
        json!({"dependsOn": [{"name": "d"}]}),
        is_after,
    )
}

fn cluster_of_two_sources() -> TestCluster {
    let mut cluster = TestCluster::new(&of_another_source(false));
    cluster.sources = vec!["other"];
    cluster
}

#[test]
fn a_dependency_of_another_source_only_has_to_be_ready() {
    let cluster = cluster_of_two_sources();
    let mut moved = of_another_source(true);
    moved[2].1.push(cm("a"));
    assert_eq!(cluster.rows(&moved), set(&["recreate? a"]));
    let mut same_source = two(json!({}), json!({"dependsOn": [{"name": "d"}]}), true);
    same_source[2].1.push(cm("a"));
    let before = two(json!({}), json!({"dependsOn": [{"name": "d"}]}), false);
    assert_eq!(TestCluster::new(&before).rows(&same_source), set(&["keep a"]));
}

#[test]
fn a_dependency_of_another_source_that_fails_may_fail_too_late() {
    let mut broken = of_another_source(true);
    broken[2].1.push(cm("broken"));
    let mut cluster = cluster_of_two_sources();
    assert_eq!(cluster.rows(&broken), set(&["delete? a"]));
    let outcome = cluster.outcome(&broken, "k");
    assert!(outcome.contains("it has another source and is ready now, so that either may come first"), "{outcome}");
    let mut removed = of_another_source(true);
    removed.remove(0);
    assert_eq!(cluster.rows(&removed), set(&["delete d", "delete? a", "delete x", "delete y"]));
    cluster.kustomization("d").content["status"]["conditions"][0]["status"] = "False".into();
    assert_eq!(cluster.rows(&broken), set(&[]), "it is not ready before either");
}

#[test]
fn a_suspended_dependency_of_another_source_stays_ready() {
    let mut cluster = cluster_of_two_sources();
    cluster.kustomization("d").content["spec"]["suspend"] = true.into();
    let fields = Some(Box::new(json!({"f:suspend": {}})));
    cluster.kustomization("d").object.managed_fields =
        vec![ManagedFieldsEntry { manager: "flux".into(), suspend: true, spec: fields, ..Default::default() }];
    assert_eq!(cluster.rows(&of_another_source(true)), set(&["delete a"]));
}

#[test]
fn a_dependency_that_the_change_suspends_may_reconcile_the_new_revision_before() {
    let dependant = json!({"dependsOn": [{"name": "d"}]});
    let after = |checks: Value| {
        let mut suspended = checks;
        suspended["suspend"] = true.into();
        two(suspended, dependant.clone(), true)
    };
    let mut cluster = TestCluster::new(&two(json!({}), dependant.clone(), false));
    assert_eq!(cluster.rows(&after(json!({}))), set(&["delete? a"]));
    let outcome = cluster.outcome(&after(json!({})), "k");
    assert!(outcome.ends_with("reconciles the new revision before it is suspended"), "{outcome}");
    cluster.kustomization("d").content["spec"]["suspend"] = true.into();
    assert_eq!(cluster.rows(&after(json!({}))), set(&[]), "it is suspended already");
    let outcome = cluster.outcome(&after(json!({})), "k");
    assert!(outcome.ends_with("which cannot reconcile: suspended"), "{outcome}");
    let checks = json!({"healthChecks": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "namespace": NS}]});
    let unhealthy = TestCluster::new(&two(checks.clone(), dependant.clone(), false));
    assert_eq!(unhealthy.rows(&after(checks)), set(&[]), "its health check fails before");
}

#[test]
fn what_a_suspended_kustomization_may_change_before_is_a_row() {
    let files = |suspend: bool, value: &str| {
        let mut changed = cm("a");
        changed["data"] = json!({ "v": value });
        vec![("root/k.yaml", vec![ks("k", "./p", json!({ "suspend": suspend }))]), ("p/a.yaml", vec![changed])]
    };
    let mut cluster = TestCluster::new(&files(false, "1"));
    let update = Update { reason: ReasonCode::Changed.into(), diff: String::new(), changes_content: true };
    cluster.results.push((|applied| &*applied.id.name == "a", DryRunResult::Updated(update)));
    let rows = |cluster: &TestCluster| {
        let plan = cluster.plan(&files(true, "2"));
        let row = |change: &Change| format!("{} {} {:?}", change.action, change.object.id.name, change.certainty);
        plan.changes().iter().filter(|change| &*change.object.id.kind == "ConfigMap").map(row).collect::<Vec<_>>()
    };
    assert_eq!(rows(&cluster), ["update a Race"]);
    cluster.kustomization("k").content["spec"]["suspend"] = true.into();
    assert!(rows(&cluster).is_empty(), "it is suspended already");
}

#[test]
fn the_token_controller_deletes_a_token_of_another_account_or_of_none() {
    let account =
        |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NS}});
    let token = |account: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata":
            {"name": "tok", "namespace": NS, "annotations": {"kubernetes.io/service-account.name": account}}})
    };
    let files = |objects: Vec<Value>| -> Files {
        let accounts = vec![account("one"), account("two")];
        vec![("root/k.yaml", vec![ks("k", "./p", json!({}))]), ("p/a.yaml", [accounts, objects].concat())]
    };
    let row = |cluster: &TestCluster, objects: Vec<Value>| {
        let plan = cluster.plan(&files(objects));
        let mut rows = plan.changes().iter().filter(|row| &*row.object.id.name == "tok");
        rows.next().map(|row| format!("{} {:?} {}", row.action, row.certainty, row.by))
    };
    let cluster = TestCluster::new(&files(vec![]));
    assert_eq!(row(&cluster, vec![token("one")]), text("create Certain kustomize-controller"));
    assert_eq!(row(&cluster, vec![token("none"), account("none")]), text("create Certain kustomize-controller"));
    assert_eq!(row(&cluster, vec![token("none")]), text("create Race kustomize-controller"));

    let mut cluster = TestCluster::new(&files(vec![token("one")]));
    let update = Update { reason: ReasonCode::Changed.into(), diff: String::new(), changes_content: true };
    cluster.results.push((|applied| &*applied.id.name == "tok", DryRunResult::Updated(update)));
    assert_eq!(row(&cluster, vec![token("two")]), text("update Certain kustomize-controller"), "it has no uid yet");
    let uid_of = |cluster: &TestCluster, name: &str| {
        let mut objects = cluster.snapshot.objects.iter();
        objects.find(|object| object.id == ObjectId::new("", "ServiceAccount", NS, name)).unwrap().uid.to_string()
    };
    let uid = uid_of(&cluster, "one");
    let live = cluster.snapshot.objects.iter_mut().find(|object| &*object.id.name == "tok").unwrap();
    live.annotations =
        [("kubernetes.io/service-account.name", "one"), ("kubernetes.io/service-account.uid", uid.as_str())]
            .into_iter()
            .collect();
    assert_eq!(row(&cluster, vec![token("two")]), text("recreate Certain token-controller"));
    let mut labelled = token("one");
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(row(&cluster, vec![labelled]), text("update Certain kustomize-controller"));
}

fn text(row: &str) -> Option<String> {
    Some(row.to_owned())
}

#[test]
fn a_cycle_through_an_expression_blocks_nobody() {
    let files = |is_after| {
        let mut files = two(json!({"dependsOn": [{"name": "k"}]}), with_expression("dep.spec.prune == true"), is_after);
        if is_after {
            files[2].1.pop();
        }
        files
    };
    assert_eq!(TestCluster::new(&files(false)).rows(&files(true)), set(&["delete a", "delete y"]));
}

/// Returns a parent `m` that waits for `slow`, and its child `k` that waits for `d`. If `is_after`, `slow` creates a
/// workload, the child changes its path, and `m` has a further child.
fn waiting_parent(is_after: bool) -> Files {
    let on = |name: &str| json!({"dependsOn": [{"name": name}]});
    let (path, new) = if is_after { ("./q", vec![ks("n", "./n", json!({}))]) } else { ("./p", vec![]) };
    let slow = if is_after { vec![cm("s"), workload()] } else { vec![cm("s")] };
    vec![
        ("root/k.yaml", vec![ks("slow", "./s", json!({"wait": true})), ks("m", "./m", on("slow"))]),
        ("root/d.yaml", vec![ks("d", "./d", json!({}))]),
        ("s/x.yaml", slow),
        ("m/k.yaml", [vec![ks("k", path, on("d"))], new].concat()),
        ("d/x.yaml", vec![cm("d-1")]),
        ("p/a.yaml", if is_after { vec![cm("b")] } else { vec![cm("a"), cm("b")] }),
        ("q/z.yaml", vec![cm("z")]),
        ("n/n.yaml", vec![cm("n-1")]),
    ]
}

fn workload() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "never", "namespace": NS}})
}

#[test]
fn a_child_keeps_its_spec_while_its_parent_waits() {
    let mut cluster = TestCluster::new(&waiting_parent(false));
    cluster.snapshot.types.push(testing::resource_type("apps", "Deployment", "deployments", true));
    let after = waiting_parent(true);
    assert_eq!(cluster.rows(&after), set(&["delete a", "delete? b"]));
    let plan = cluster.plan(&after);
    let created = plan.changes().iter().filter(|change| change.action == crate::plan::Action::Create);
    let created: Vec<_> = created.map(|row| (&*row.object.id.name, row.certainty)).collect();
    let (certain, race) = (Certainty::Certain, Certainty::Race);
    assert_eq!(created, [("n-1", race), ("z", race), ("never", certain), ("n", race)]);
    let outcome = cluster.outcome(&after, "k");
    assert!(
        outcome
            .contains("its spec comes from kustomization/m -n flux-system, which applies only if kustomization/slow"),
        "{outcome}"
    );
}

#[test]
fn an_expression_and_the_status_must_hold_if_the_gate_is_on() {
    let mut cluster = TestCluster::new(&two(json!({}), with_expression("true"), false));
    let mut after = two(json!({}), with_expression("true"), true);
    after[2].1.push(cm("broken"));
    assert_eq!(cluster.rows(&after), set(&["delete a"]));
    cluster.features.additive_ready_expr = true;
    assert_eq!(cluster.rows(&after), set(&[]));
}

#[test]
fn a_changed_expression_is_named_as_the_condition() {
    let cluster = TestCluster::new(&two(json!({}), json!({"dependsOn": [{"name": "d"}]}), false));
    let expression = "dep.metadata.annotations['v'] == 'x'";
    let outcome = cluster.outcome(&two(json!({}), with_expression(expression), true), "k");
    assert!(outcome.contains("race: it applies only if its readyExpr") && outcome.contains("annotations"), "{outcome}");
}

#[test]
fn a_dependency_that_is_terminating_blocks() {
    let dependant = json!({"dependsOn": [{"name": "d"}]});
    let mut cluster = TestCluster::new(&two(json!({}), dependant.clone(), false));
    cluster.kustomization("d").object.deletion_timestamp = Some(chrono::DateTime::UNIX_EPOCH);
    assert!(!cluster.rows(&two(json!({}), dependant, true)).contains("delete a"));
}

#[test]
fn a_dependency_that_cannot_become_healthy_blocks() {
    let checks = |name: &str| json!({"healthChecks": [{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "namespace": NS}]});
    let dependant = json!({"dependsOn": [{"name": "d"}]});
    for (name, is_blocked) in [("x", true), ("y", false), ("none", true)] {
        let cluster = TestCluster::new(&two(checks(name), dependant.clone(), false));
        let mut after = two(checks(name), dependant.clone(), true);
        after[2].1.remove(0);
        let expected = if is_blocked { set(&["delete x"]) } else { set(&["delete x", "delete a"]) };
        assert_eq!(cluster.rows(&after), expected, "{name}");
    }
    let mut cluster = TestCluster::new(&two(json!({"wait": true}), dependant.clone(), false));
    cluster.kustomization("d").content["status"]["conditions"] =
        json!([{"type": "Ready", "status": "False", "reason": "HealthCheckFailed"}]);
    let after = two(json!({"wait": true}), dependant, true);
    assert_eq!(cluster.rows(&after), set(&["delete? a"]));
    assert!(cluster.outcome(&after, "k").contains("becomes healthy"));
}

#[test]
fn a_health_check_without_a_version_is_of_apps_and_one_of_an_unserved_kind_never_succeeds() {
    let dependant = json!({"dependsOn": [{"name": "d"}]});
    let rows = |check: Value, created: Value| {
        let checks = json!({"healthChecks": [check]});
        let mut cluster = TestCluster::new(&two(checks.clone(), dependant.clone(), false));
        cluster.snapshot.types.push(testing::resource_type("apps", "Deployment", "deployments", true));
        let (group, kind) = ("apiextensions.k8s.io", "CustomResourceDefinition");
        cluster.snapshot.types.push(testing::resource_type(group, kind, "customresourcedefinitions", false));
        let mut after = two(checks, dependant.clone(), true);
        after[2].1.push(created);
        cluster.rows(&after)
    };
    let check = |version: &str, kind: &str, name: &str| json!({"apiVersion": version, "kind": kind, "name": name, "namespace": NS});
    assert_eq!(rows(check("", "Deployment", "never"), workload()), set(&["delete? a"]), "it is created");
    assert_eq!(rows(check("", "Deployment", "none"), workload()), set(&[]), "it does not exist");
    assert_eq!(rows(check("", "ConfigMap", "x"), cm("new")), set(&[]), "apps has no such kind");
    assert_eq!(rows(check("v1", "ConfigMap", "x"), cm("new")), set(&["delete a"]));
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.a.io"},
        "spec": {"group": "a.io", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"}, "versions": []}});
    assert_eq!(rows(check("a.io/v1", "Widget", "w"), cm("new")), set(&[]));
    assert!(rows(check("a.io/v1", "Widget", "w"), definition).contains("delete a"), "somebody may create one");
}

#[test]
fn a_dependency_that_creates_something_with_a_state_may_not_become_healthy() {
    let dependant = json!({"dependsOn": [{"name": "d"}]});
    let release = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": "r", "namespace": NS}, "spec": {}});
    for (dependency, created, expected) in [
        (json!({"wait": true}), release.clone(), "delete? a"),
        (json!({"wait": true}), cm("new"), "delete a"),
        (json!({}), release, "delete a"),
    ] {
        let cluster = TestCluster::new(&two(dependency.clone(), dependant.clone(), false));
        let mut after = two(dependency.clone(), dependant.clone(), true);
        after[2].1.push(created.clone());
        assert!(cluster.rows(&after).contains(expected), "{dependency} {created}: {:?}", cluster.rows(&after));
    }
}

#[test]
fn missing_keys_and_invalid_health_expressions_stop_the_controller() {
    let mut cluster = cluster();
    cluster.snapshot.types.push(testing::resource_type("", "Secret", "secrets", true));
    let decryption = |provider: &str| json!({"decryption": {"provider": provider, "secretRef": {"name": "keys"}}});
    assert_eq!(cluster.rows(&child(decryption("sops"), vec![])), set(&[]));
    assert_eq!(cluster.rows(&child(decryption(""), vec![])), set(&["delete a"]));
    let health =
        |current: &str| json!({"healthCheckExprs": [{"apiVersion": "v1", "kind": "ConfigMap", "current": current}]});
    assert_eq!(cluster.rows(&child(health("data.a == 'b'"), vec![])), set(&["delete a"]));
    assert_eq!(cluster.rows(&child(health("data.a =="), vec![])), set(&["delete? a"]));
    let outcome = cluster.outcome(&child(health("data.a =="), vec![]), "k");
    assert!(outcome.contains("expression-invalid"), "{outcome}");
}

#[test]
fn entries_of_health_expressions_that_the_controller_refuses_stop_it() {
    let entry =
        |version: &str, kind: &str, current: &str| json!({"apiVersion": version, "kind": kind, "current": current});
    let twice = [entry("a.io/v1", "A", "true"), entry("a.io/v1alpha2", "A", "true")];
    for (entries, expected) in [
        (json!([twice[0]]), set(&["delete a"])),
        (json!(twice), set(&[])),
        (json!([entry("a.io/v1", "A", "")]), set(&[])),
    ] {
        let after = child(json!({"healthCheckExprs": entries}), vec![]);
        assert_eq!(cluster().rows(&after), expected, "{entries}");
    }
    let outcome = cluster().outcome(&child(json!({"healthCheckExprs": twice}), vec![]), "k");
    let why = "the controller stops: two entries of healthCheckExprs are for a.a.io";
    assert_eq!(outcome, format!("Blocked: expression-invalid: {why}"));
}

#[test]
fn an_expression_without_a_kind_decides_the_health_of_its_group() {
    let checks =
        |version: &str| json!({"wait": true, "healthCheckExprs": [{"apiVersion": version, "current": "false"}]});
    let dependant = json!({"dependsOn": [{"name": "d"}]});
    for (version, expected) in [("v1", set(&["delete? a"])), ("a.io/v1", set(&["delete a"]))] {
        let cluster = TestCluster::new(&two(checks(version), dependant.clone(), false));
        let mut after = two(checks(version), dependant.clone(), true);
        after[2].1.push(cm("new"));
        assert_eq!(cluster.rows(&after), expected, "{version}");
    }
}

#[test]
fn a_source_in_another_namespace_needs_the_flag() {
    let mut cluster = cluster();
    let source = json!({"sourceRef": {"kind": "GitRepository", "name": "repo", "namespace": NS}});
    cluster.features.no_cross_namespace_refs = true;
    assert_eq!(cluster.rows(&child(source, vec![])), set(&["delete a"]));
    let mut elsewhere = ks("k", "./p", json!({}));
    elsewhere["spec"]["sourceRef"]["namespace"] = "other".into();
    let outcome = cluster.outcome(&vec![("root/k.yaml", vec![elsewhere]), ("p/a.yaml", vec![cm("b")])], "k");
    assert!(outcome.starts_with("Blocked: access-denied: it may not use GitRepository/other/repo"), "{outcome}");
}

#[test]
fn objects_that_the_api_server_refuses_stop_the_apply() {
    let mut cluster = cluster();
    let (group, kind) = ("rbac.authorization.k8s.io", "ClusterRole");
    cluster.snapshot.other_versions =
        vec![OtherVersion { what: GroupKind::new(group, kind), version: "v1beta1".into() }];
    let role =
        |version: &str| json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": {"name": "r"}});
    let mut number = cm("n");
    number["data"] = json!({"v": 5});
    let mut annotated = cm("n");
    annotated["metadata"]["annotations"] = json!({"v": true});
    let variables = |value: Value| ks("g", "./g", json!({"postBuild": {"substitute": {"v": value}}}));
    for (manifest, is_refused) in [
        (role("v1"), false),
        (role("v1beta1"), false),
        (role("v1alpha1"), true),
        (number, true),
        (annotated, true),
        (cluster_scoped("Namespace", "a.b"), true),
        (cluster_scoped("Namespace", &"a".repeat(64)), true),
        (cluster_scoped("Namespace", "a-b"), false),
        (cm("a.b"), false),
        (variables(json!(5)), true),
        (variables(json!("5")), false),
    ] {
        let rows = cluster.rows(&child(json!({}), vec![manifest.clone()]));
        assert_eq!(rows.contains("delete a"), !is_refused, "{manifest}: {rows:?}");
    }
}

#[test]
fn a_label_that_is_no_text_makes_the_controller_drop_the_others() {
    let mut cluster = cluster();
    let mut ignored = cm("z");
    ignored["metadata"]["labels"] = json!({"kustomize.toolkit.fluxcd.io/ssa": "Ignore"});
    let creates = |cluster: &TestCluster, manifest: &Value| {
        let plan = cluster.plan(&child(json!({}), vec![manifest.clone()]));
        plan.changes().iter().any(|change| change.action == crate::plan::Action::Create)
    };
    assert!(!creates(&cluster, &ignored));
    ignored["metadata"]["labels"]["x"] = true.into();
    assert!(creates(&cluster, &ignored));
    cluster.kustomization("k").object.finalizers.clear();
    assert_eq!(cluster.rows(&vec![("root/x.yaml", vec![cm("x")])]), set(&["delete k", "delete? a", "delete? b"]));
}

#[test]
fn without_dry_runs_a_changed_manifest_may_become_unhealthy() {
    let web = |image: &str| {
        let spec = json!({"template": {"spec": {"containers": [{"name": "c", "image": image}]}}});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": NS}, "spec": spec})
    };
    let files = |image: &str, dropped: bool| {
        let mut files = two(json!({"wait": true}), json!({"dependsOn": [{"name": "d"}]}), dropped);
        files[2].1.push(web(image));
        files
    };
    let before = files("1", false);
    let mut cluster = TestCluster::new(&before);
    cluster.snapshot.types.push(testing::resource_type("apps", "Deployment", "deployments", true));
    cluster.add(&web("1"), Some("d"));
    cluster.snapshot.normalise();
    cluster.history = Some(before);
    let certainty = |after: &Files| {
        let (plan, _) = verified_with(&cluster, after, None);
        plan.changes().iter().find(|row| &*row.object.id.name == "a").map(|row| row.certainty)
    };
    assert_eq!(certainty(&files("1", true)), Some(Certainty::Certain));
    assert_eq!(certainty(&files("2", true)), Some(Certainty::Race));
}
