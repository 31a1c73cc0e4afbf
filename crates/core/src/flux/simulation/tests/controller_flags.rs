//! Flags of the controller in a plan.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cluster_scoped, cm, ks, set};
use crate::flux::kustomize_controller::Features;
use crate::flux::simulation::{Preview, PreviewInput};
use crate::kubernetes::object::{GroupKind, KeyValues, ManagedFieldsEntry};

fn files(objects: Vec<Value>, with_child: bool) -> Files {
    let root = if with_child { vec![ks("k", "./p", json!({})), cm("x")] } else { vec![cm("x")] };
    vec![("root/k.yaml", root), ("p/a.yaml", objects)]
}

fn cluster() -> TestCluster {
    TestCluster::new(&files(vec![cm("a"), cm("b")], true))
}

#[test]
fn a_kustomization_that_the_selector_does_not_select_does_nothing() {
    let mut cluster = cluster();
    cluster.flags.watched = vec!["!shard".to_owned()];
    assert_eq!(cluster.rows(&files(vec![cm("b")], true)), set(&["delete a"]));
    let labels =
        cluster.object("k").labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Vec<_>>();
    let labels: KeyValues = labels.into_iter().chain([("shard".to_owned(), "b".to_owned())]).collect();
    cluster.kustomization("k").object.labels = labels;
    // Its manifest does not have the label, so that the parent removes it.
    assert_eq!(cluster.rows(&files(vec![cm("b")], true)), set(&["delete? a"]));
    assert_eq!(cluster.rows(&files(vec![], false)), set(&["delete k", "keep a", "keep b"]));
    cluster.flags.watched = vec!["shard".to_owned()];
    let outcome = cluster.outcome(&files(vec![cm("b")], true), "root");
    assert!(outcome.starts_with("Blocked: not-watched"), "{outcome}");
}

#[test]
fn a_kustomization_in_a_namespace_that_the_controller_does_not_watch_does_nothing() {
    let mut cluster = cluster();
    cluster.flags.watched_namespace = Some(NS.to_owned());
    assert_eq!(cluster.rows(&files(vec![cm("b")], true)), set(&["delete a"]));
    cluster.flags.watched_namespace = Some("other".to_owned());
    assert_eq!(cluster.rows(&files(vec![cm("b")], true)), set(&[]));
    let outcome = cluster.outcome(&files(vec![cm("b")], true), "k");
    assert!(
        outcome.starts_with("Blocked: not-watched: the controller reconciles only the namespace other"),
        "{outcome}"
    );
}

#[test]
fn a_default_service_account_that_is_missing_leaves_the_objects_behind() {
    let mut cluster = cluster();
    assert_eq!(cluster.rows(&files(vec![cm("a"), cm("b")], false)), set(&["delete k", "delete a", "delete b"]));
    cluster.flags.default_service_account = Some("team".to_owned());
    assert_eq!(cluster.rows(&files(vec![cm("a"), cm("b")], false)), set(&["delete k", "keep a", "keep b"]));
}

#[test]
fn an_overridden_manager_loses_its_fields() {
    let mut cluster = cluster();
    let live = cluster.kustomization("k");
    live.content["spec"]["suspend"] = true.into();
    let fields = Some(Box::new(json!({"f:suspend": {}})));
    live.object.managed_fields =
        vec![ManagedFieldsEntry { manager: "Lens".into(), suspend: true, spec: fields, ..Default::default() }];
    assert_eq!(cluster.rows(&files(vec![cm("b")], true)), set(&[]));
    cluster.flags.override_managers = vec!["Lens".to_owned()];
    assert_eq!(cluster.rows(&files(vec![cm("b")], true)), set(&["delete a"]));
}

#[test]
fn a_custom_stage_is_applied_before_the_rest_fails() {
    let mut cluster = cluster();
    let mut nowhere = cm("c");
    nowhere["metadata"]["namespace"] = "nowhere".into();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s", "namespace": NS}});
    let after = files(vec![cm("b"), nowhere, account, cluster_scoped("ClusterRole", "early")], true);
    let created = |cluster: &TestCluster| {
        let plan = cluster.plan(&after);
        let created = plan.changes().iter().filter(|change| change.action == crate::plan::Action::Create);
        created.map(|change| change.object.id.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(created(&cluster), ["early"]);
    cluster.flags.custom_stage_kinds = [GroupKind::new("", "ServiceAccount")].into();
    assert_eq!(created(&cluster), ["s", "early"]);
}

#[test]
fn an_external_artifact_is_denied_without_its_gate() {
    let mut cluster = cluster();
    let mut child = ks("k", "./p", json!({}));
    child["spec"]["sourceRef"] = json!({"kind": "ExternalArtifact", "name": "made"});
    let after = vec![("root/k.yaml", vec![child, cm("x")]), ("p/a.yaml", vec![cm("b")])];
    cluster.features.denies_external_artifacts = true;
    let outcome = cluster.outcome(&after, "k");
    assert!(outcome.starts_with("Blocked: access-denied") && outcome.contains("ExternalArtifact"), "{outcome}");
}

#[test]
fn a_service_account_for_decryption_needs_its_gate() {
    let decryption = json!({"decryption": {"provider": "sops", "serviceAccountName": "keys"}});
    let after = vec![("root/k.yaml", vec![ks("k", "./q", decryption), cm("x")]), ("q/a.yaml", vec![cm("b")])];
    let mut cluster = cluster();
    assert_eq!(cluster.rows(&after), set(&["delete? a"]), "the gates are not known");
    cluster.features.gates_are_known = true;
    assert_eq!(cluster.rows(&after), set(&["delete a"]), "the gate is on");
    cluster.features.denies_decryption_accounts = true;
    assert_eq!(cluster.rows(&after), set(&[]));
    let outcome = cluster.outcome(&after, "k");
    assert!(outcome.starts_with("Blocked: access-denied: it may not decrypt"), "{outcome}");
}

#[test]
fn a_live_cycle_lets_every_kustomization_of_the_source_wait_for_its_interval() {
    let depends = |name: &str| json!({"dependsOn": [{"name": name}]});
    let cycle = |a: Value, b: Value| ("root/c.yaml", vec![ks("c1", "./c", a), ks("c2", "./c", b)]);
    let tree = |cycle: (&'static str, Vec<Value>), path: &'static str, a: Vec<Value>| {
        vec![
            ("root/k.yaml", vec![ks("k", path, json!({}))]),
            cycle,
            ("c/c.yaml", vec![]),
            ("p/a.yaml", a),
            ("q/z.yaml", vec![cm("a"), cm("b")]),
        ]
    };
    let none = || cycle(json!({}), depends("c1"));
    let before = |cycle| tree(cycle, "./p", vec![cm("a"), cm("b")]);
    let after = |cycle| tree(cycle, "./q", vec![cm("b")]);
    assert_eq!(TestCluster::new(&before(none())).rows(&after(none())), set(&["recreate a"]));
    let both = || cycle(depends("c2"), depends("c1"));
    let cluster = TestCluster::new(&before(both()));
    assert_eq!(cluster.rows(&after(both())), set(&["recreate? a"]));
    let outcome = cluster.outcome(&after(both()), "c1");
    assert!(outcome.starts_with("Blocked: dependency-cycle") && outcome.contains("triggers nothing"), "{outcome}");
}

#[test]
fn a_kustomization_that_begins_to_depend_on_itself_never_applies_its_new_spec() {
    let files =
        |k: Value| vec![("root/k.yaml", vec![k]), ("p/a.yaml", vec![cm("a"), cm("b")]), ("q/z.yaml", vec![cm("b")])];
    let cluster = TestCluster::new(&files(ks("k", "./p", json!({}))));
    let own = json!({"dependsOn": [{"name": "k"}]});
    assert_eq!(cluster.rows(&files(ks("k", "./q", own))), set(&[]));
    assert_eq!(cluster.rows(&files(ks("k", "./q", json!({})))), set(&["delete a"]));
}

#[test]
fn older_controllers_cannot_read_an_inventory_with_an_underscore_in_a_name() {
    let before = vec![("root/a.yaml", vec![cluster_scoped("ClusterRole", "x_one"), cm("a"), cm("b")])];
    let after = vec![("root/a.yaml", vec![cm("b")])];
    let rows = |version| {
        let mut cluster = TestCluster::new(&before);
        cluster.features = Features::of(version);
        cluster.rows(&after).into_iter().filter(|row| row.starts_with("delete")).collect::<BTreeSet<_>>()
    };
    assert_eq!(rows((1, 9, 1)), set(&["delete x_one", "delete a"]));
    assert_eq!(rows((1, 7, 3)), set(&[]));
}

#[test]
fn controllers_before_1_9_do_not_know_ignored_fields() {
    let parent = |path: &str| -> Files {
        let ignore = json!({"ignore": [{"paths": ["/spec/path"]}]});
        vec![
            ("root/m.yaml", vec![ks("m", "./m", ignore)]),
            ("m/k.yaml", vec![ks("k", path, json!({}))]),
            ("p/a.yaml", vec![cm("a")]),
            ("q/z.yaml", vec![cm("z")]),
        ]
    };
    let rows = |version| {
        let mut cluster = TestCluster::new(&parent("./p"));
        cluster.features = Features::of(version);
        cluster.rows(&parent("./q"))
    };
    assert_eq!(rows((1, 9, 5)), set(&[]));
    assert_eq!(rows((1, 8, 0)), set(&["delete a"]));
}

#[test]
fn ignore_rules_are_matched_with_the_labels_that_an_apply_makes() {
    let parent = |path: &str, spec: Value| -> Files {
        vec![
            ("root/m.yaml", vec![ks("m", "./m", spec)]),
            ("m/k.yaml", vec![ks("k", path, json!({}))]),
            ("p/a.yaml", vec![cm("a")]),
            ("q/z.yaml", vec![cm("z")]),
        ]
    };
    let rows = |selector: &str, live: &[(&str, &str)]| {
        let rule = json!({"target": {"labelSelector": selector}, "paths": ["/spec/path"]});
        let spec = json!({"commonMetadata": {"labels": {"env": "prod"}}, "ignore": [rule]});
        let mut cluster = TestCluster::new(&parent("./p", spec.clone()));
        let labels = cluster.object("k").labels.clone();
        let labels = labels.iter().chain(live.iter().copied()).collect();
        cluster.object("k").labels = labels;
        cluster.rows(&parent("./q", spec))
    };
    let [kept, deleted, race] = [set(&[]), set(&["delete a"]), set(&["delete? a"])];
    assert_eq!(rows("env=prod", &[]), kept);
    assert_eq!(rows("env!=prod", &[]), deleted);
    assert_eq!(rows("kustomize.toolkit.fluxcd.io/name=m", &[]), kept);
    assert_eq!(rows("kustomize.toolkit.fluxcd.io/name=root", &[]), deleted);
    assert_eq!(rows("pinned=yes", &[]), deleted);
    assert_eq!(rows("pinned=yes", &[("pinned", "yes")]), race);
    assert_eq!(rows("pinned!=yes", &[("pinned", "yes")]), race);
}

/// Files with a parent with these ignore rules, and its child.
fn parent_with_rules(rules: Value, child: Value, maps: &[(&'static str, &'static str)]) -> Files {
    let mut files = vec![
        ("root/m.yaml", vec![ks("m", "./m", json!({ "ignore": rules }))]),
        ("m/k.yaml", vec![child]),
        ("p/a.yaml", vec![cm("a")]),
        ("q/z.yaml", vec![cm("z")]),
    ];
    files.extend(maps.iter().map(|(at, name)| (*at, vec![cm(name)])));
    files
}

#[test]
fn a_rule_that_the_controller_cannot_read_stops_it() {
    let rows = |name: &str, maps: &[(&'static str, &'static str)]| {
        let rules = json!([{"target": {"name": name}, "paths": ["/data/x"]}]);
        let child = ks("k", "./p", json!({}));
        let files = |maps| parent_with_rules(rules.clone(), child.clone(), maps);
        let cluster = TestCluster::new(&files(&[("m/b.yaml", "b")]));
        (cluster.rows(&files(maps)), cluster.outcome(&files(maps), "m"))
    };
    assert_eq!(rows("b.*", &[]).0, set(&["delete b"]));
    let (deleted, outcome) = rows("(", &[]);
    assert_eq!(deleted, set(&[]));
    assert!(outcome.starts_with("Blocked: expression-invalid") && outcome.contains("\"(\""), "{outcome}");
    assert_eq!(rows("a{", &[]).0, set(&["delete? b"]));
}

#[test]
fn an_ignored_field_that_cannot_be_replaced_stops_the_parent_at_its_child() {
    let rows = |path: &str, before: Value, after: Value| {
        let rules = json!([{"target": {"kind": "Kustomization"}, "paths": [path]}]);
        let mut cluster = TestCluster::new(&parent_with_rules(rules.clone(), before, &[("m/b.yaml", "b")]));
        cluster.features = Features::of((1, 9, 5));
        cluster.rows(&parent_with_rules(rules, after, &[]))
    };
    let child = |path: &str, more: Value| ks("k", path, more);
    let timeout = || json!({"timeout": "1m"});
    // The parent prunes nothing, and the child keeps its path.
    assert_eq!(rows("/spec/timeout", child("./p", timeout()), child("./q", json!({}))), set(&["keep b"]));
    assert_eq!(rows("spec/timeout", child("./p", timeout()), child("./q", timeout())), set(&["keep b"]));
    // The manifest has the field, or nothing else changes.
    let both = set(&["delete a", "delete b"]);
    assert_eq!(rows("/spec/timeout", child("./p", timeout()), child("./q", json!({"timeout": "2m"}))), both);
    assert_eq!(rows("/spec/timeout", child("./p", timeout()), child("./p", json!({}))), set(&["delete b"]));
    assert_eq!(rows("spec/timeout", child("./p", timeout()), child("./p", timeout())), set(&["delete b"]));
    // Offline it is not known if a ConfigMap changes.
    let rules = json!([{"paths": ["data/x"], "target": {"kind": "ConfigMap"}}]);
    let child = ks("k", "./p", json!({ "ignore": rules }));
    let mut cluster =
        TestCluster::new(&vec![("root/k.yaml", vec![child.clone()]), ("p/a.yaml", vec![cm("a"), cm("b")])]);
    cluster.features = Features::of((1, 9, 5));
    assert_eq!(cluster.rows(&vec![("root/k.yaml", vec![child]), ("p/a.yaml", vec![cm("a")])]), set(&["delete? b"]));
}

#[test]
fn a_plan_names_the_rules_of_the_controller_that_the_change_installs() {
    let deployment = |image: &str| {
        let container = json!({"name": "manager", "image": image, "args": ["--feature-gates=ExternalArtifact=true"]});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kustomize-controller", "namespace": NS},
            "spec": {"template": {"spec": {"containers": [container]}}}})
    };
    let instance = |version: &str| {
        json!({"apiVersion": "fluxcd.controlplane.io/v1", "kind": "FluxInstance", "metadata": {"name": "flux", "namespace": NS},
            "spec": {"distribution": {"version": version}}})
    };
    let upgrade_from = |manifest: Value, running, features: Features| {
        let mut cluster = cluster();
        for (group, kind, plural) in
            [("apps", "Deployment", "deployments"), ("fluxcd.controlplane.io", "FluxInstance", "fluxinstances")]
        {
            cluster.snapshot.types.push(crate::testing::resource_type(group, kind, plural, true));
        }
        cluster.features = features;
        let files = files(vec![cm("a"), manifest], true);
        let input = PreviewInput { controller_version: Some(running), ..cluster.input(&files) };
        let mut preview = Preview::new(input);
        let plan = cluster.finish(|answers| preview.step(answers)).plan;
        plan.controller_upgrade().map(|upgrade| (upgrade.to.clone(), upgrade.rules.clone()))
    };
    let upgrade = |manifest: Value, running| upgrade_from(manifest, running, Features::of(running));
    let image = "ghcr.io/fluxcd/kustomize-controller";
    assert_eq!(upgrade(deployment(&format!("{image}:v1.9.5")), (1, 9, 5)), None);
    // Gates that are not known do not differ.
    let ungated = |tag: &str| {
        let mut manifest = deployment(&format!("{image}:{tag}"));
        manifest["spec"]["template"]["spec"]["containers"][0]["args"] = json!([]);
        manifest
    };
    assert_eq!(upgrade(ungated("v1.9.5"), (1, 9, 4)), None);
    let read = |running, denies| Features {
        denies_external_artifacts: denies,
        denies_decryption_accounts: true,
        gates_are_known: true,
        ..Features::of(running)
    };
    let (_, rules) = upgrade_from(ungated("v1.9.5"), (1, 9, 4), read((1, 9, 4), false)).unwrap();
    assert_eq!(rules, ["no Kustomization may use an ExternalArtifact"], "the gate is on now");
    let (_, rules) = upgrade_from(instance("2.9.x"), (1, 8, 3), read((1, 8, 3), true)).unwrap();
    assert!(!rules.iter().any(|rule| rule.contains("ExternalArtifact")), "the operator keeps the flags: {rules:?}");
    let (to, rules) = upgrade(deployment(&format!("{image}:v1.9.5")), (1, 8, 3)).unwrap();
    assert_eq!(to, "1.9.5");
    assert!(rules.iter().any(|rule| rule.starts_with("an object that may not be deleted stays in the inventory")));
    let newer = upgrade(deployment(&format!("{image}:v1.99.0")), (1, 9, 5)).unwrap();
    assert!(newer.1.last().unwrap().starts_with("it is newer than this tool"), "{newer:?}");
    assert_eq!(upgrade(instance("2.9.x"), (1, 8, 3)).unwrap().0, "1.9");
    assert_eq!(upgrade(instance("2.9.x"), (1, 9, 5)), None);
    assert_eq!(upgrade(instance("2.x"), (1, 8, 3)), None, "the range has several minor versions");
}
