//! FluxInstances: the source and the Kustomization that flux-operator makes of `spec.sync`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cluster::{Files, TestCluster, artifact, cm, ks, set};
use super::unfollowed::{operator, source};
use crate::plan::{Action, Outcome, Plan};

/// Returns the manifest of an instance that synchronises `./a`, with other fields of its `sync` and of its spec.
fn instance(sync: Value, more: Value) -> Value {
    let mut spec = json!({
        "distribution": {"version": "2.x", "registry": "ghcr.io/fluxcd"},
        "sync": {"kind": "GitRepository", "url": "https://example.com/repo", "ref": "refs/heads/main", "path": "./a",
            "name": "repo"},
    });
    sync.as_object().unwrap().iter().for_each(|(key, value)| spec["sync"][key] = value.clone());
    more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
    operator("FluxInstance", "flux", spec)
}

fn patches(target: &str, patch: &str) -> Value {
    json!({"kustomize": {"patches": [{"target": {"kind": target}, "patch": patch}]}})
}

fn files(instance: Value) -> Files {
    vec![
        ("root/i.yaml", vec![instance]),
        ("a/a.yaml", vec![cm("a"), cm("both")]),
        ("b/b.yaml", vec![cm("b"), cm("both")]),
    ]
}

/// Returns a cluster in which flux-operator has applied an instance: its source and its Kustomization `repo`.
fn cluster(before: &Value, more: Value) -> TestCluster {
    cluster_of(&files(before.clone()), more)
}

fn cluster_of(files: &Files, more: Value) -> TestCluster {
    let mut cluster = TestCluster::new(files);
    let mut spec = json!({"interval": "10m0s"});
    more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
    let mut kustomization = ks("repo", "./a", spec);
    let prefix = "kustomize.toolkit.fluxcd.io";
    kustomization["metadata"]["annotations"] =
        json!({format!("{prefix}/ssa"): "Ignore", format!("{prefix}/prune"): "Disabled"});
    cluster.apply(&kustomization, None, &artifact(files));
    let repository = json!({"interval": "1m0s", "ref": {"name": "refs/heads/main"}, "url": "https://example.com/repo"});
    cluster.add_with_content(&source("GitRepository", "repo", repository), None, json!({}));
    cluster.kustomization("flux").content["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    cluster.snapshot.normalise();
    cluster
}

fn outcome(plan: &Plan) -> (Outcome, String) {
    let row = plan.owners().iter().find(|row| row.owner.kind == "FluxInstance").unwrap();
    (row.outcome, row.reason.to_string())
}

#[test]
fn the_kustomization_of_a_multitenant_cluster_keeps_its_account() {
    let multitenant = || json!({"cluster": {"multitenant": true}});
    let after = files(instance(json!({"path": "./b"}), multitenant()));
    let before = instance(json!({}), multitenant());
    let account = json!({"serviceAccountName": "kustomize-controller"});
    let mut with_account = cluster(&before, account);
    // Without the account of its spec it would be that of the flag, which does not exist.
    with_account.flags.default_service_account = Some("none".to_owned());
    assert_eq!(with_account.rows(&after), set(&["delete a"]));
    let other = json!({"serviceAccountName": "other"});
    assert_eq!(cluster(&before, other).rows(&after), set(&["unknown flux"]));
    assert_eq!(cluster(&before, json!({})).rows(&after), set(&["unknown flux"]));
}

#[test]
fn a_changed_path_is_the_path_of_its_kustomization() {
    let cluster = cluster(&instance(json!({}), json!({})), json!({}));
    let after = files(instance(json!({"path": "./b"}), json!({})));
    assert_eq!(cluster.rows(&after), set(&["delete a"]));
    let plan = cluster.plan(&after);
    assert!(plan.is_complete(), "{:?}", plan.gaps());
    assert_eq!(outcome(&plan), (Outcome::Applies, "resources-generated: spec.sync changes".to_owned()));
    assert!(plan.changes().iter().any(|row| row.action == Action::Create && &*row.object.id.name == "b"));
    let row = plan.owners().iter().find(|row| row.owner.name == "repo").unwrap();
    assert_eq!(row.parents.iter().map(|parent| &*parent.name).collect::<Vec<_>>(), ["flux"]);
    let missing = files(instance(json!({"path": "./none"}), json!({})));
    assert_eq!(cluster.rows(&missing), BTreeSet::new());
    assert!(
        cluster.outcome(&missing, "repo").starts_with("Blocked: path-not-found"),
        "{:?}",
        cluster.outcome(&missing, "repo")
    );
}

#[test]
fn a_patch_of_its_kustomization_changes_its_spec() {
    let cluster = cluster(&instance(json!({}), json!({})), json!({}));
    for patch in ["spec: {path: ./b}", "[{op: replace, path: /spec/path, value: ./b}]"] {
        let plan = cluster.plan(&files(instance(json!({}), patches("Kustomization", patch))));
        assert_eq!(outcome(&plan).0, Outcome::Applies, "{:?}", outcome(&plan));
        assert_eq!((plan.summary().delete, plan.summary().unknown, plan.is_complete()), (1, 0, true), "{patch}");
    }
    let unpruned = files(instance(json!({"path": "./b"}), patches("Kustomization", "spec: {prune: false}")));
    assert_eq!(cluster.rows(&unpruned), set(&["keep a"]));
}

#[test]
fn patches_that_do_not_change_are_part_of_its_kustomization() {
    let more = json!({"kustomize": {"patches": [
        {"target": {"kind": "(Deployment|ServiceAccount)", "name": ".*"}, "patch": "[{op: add, path: /x, value: 1}]"},
        {"target": {"kind": "Kustomization", "name": "repo"}, "patch": "spec: {timeout: 5m}"},
    ]}});
    let before = instance(json!({}), more.clone());
    let after = files(instance(json!({"path": "./b"}), more));
    assert_eq!(cluster(&before, json!({"timeout": "5m"})).rows(&after), set(&["delete a"]));
    // Somebody else changed the Kustomization, or the patch is not evaluated as flux-operator does.
    assert_eq!(cluster(&before, json!({})).rows(&after), set(&["unknown flux"]));
}

#[test]
fn what_changes_no_object_has_no_row() {
    let cluster = cluster(&instance(json!({}), json!({})), json!({}));
    for after in [instance(json!({"interval": "5m"}), json!({})), instance(json!({}), json!({"wait": false}))] {
        let plan = cluster.plan(&files(after));
        assert_eq!((plan.summary().unknown, plan.is_complete()), (0, true), "{:?}", plan.gaps());
    }
    let disabled = |path: &str| {
        let mut instance = instance(json!({"path": path}), json!({}));
        instance["metadata"]["annotations"] = json!({"fluxcd.controlplane.io/reconcile": "disabled"});
        files(instance)
    };
    assert_eq!(outcome(&cluster.plan(&disabled("./b"))).0, Outcome::Blocked);
}

#[test]
fn a_changed_source_makes_the_content_unknown_and_not_the_instance() {
    let cluster = cluster(&instance(json!({}), json!({})), json!({}));
    for sync in [json!({"ref": "refs/heads/other"}), json!({"url": "https://b"}), json!({"pullSecret": "s"})] {
        let plan = cluster.plan(&files(instance(sync.clone(), json!({}))));
        assert_eq!(outcome(&plan).0, Outcome::Applies, "{sync} {:?}", outcome(&plan));
        let gaps: Vec<&str> = plan.gaps().iter().map(|gap| gap.message.as_str()).collect();
        let changed = "gitrepository.source.toolkit.fluxcd.io/repo -n flux-system changes; ";
        assert!(gaps.iter().any(|gap| gap.starts_with(changed)), "{sync} {gaps:?}");
    }
}

#[test]
fn what_is_not_followed_is_unknown_with_its_reason() {
    let plain = || instance(json!({}), json!({}));
    let rows = [
        (
            instance(json!({"path": "./b"}), json!({"distribution": {"version": "2.9.x"}})),
            "spec.distribution changes, spec.sync changes; ",
        ),
        (instance(json!({}), json!({"components": ["source-controller"]})), "spec.components changes; "),
        (instance(json!({}), json!({"cluster": {"multitenant": true}})), "spec.cluster changes; "),
        (instance(json!({}), json!({"storage": {"class": "a", "size": "1Gi"}})), "spec.storage changes; "),
        (instance(json!({}), json!({"sharding": {"shards": ["a"]}})), "spec.sharding changes; "),
        (instance(json!({}), json!({"commonMetadata": {"labels": {}}})), "spec.commonMetadata changes; "),
        (instance(json!({"kind": "OCIRepository"}), json!({})), "spec.sync.kind is not computed"),
        (instance(json!({"name": "other"}), json!({})), "spec.sync.name is not computed"),
        (instance(json!({}), json!({"sync": null})), "flux-operator deletes its source and its Kustomization"),
        (instance(json!({}), patches("Deployment", "[]")), "a patch changes that does not select only"),
        (instance(json!({}), patches("GitRepository", "spec: {}")), "a patch changes that does not select only"),
        (instance(json!({}), patches("Kustomization", "$patch: delete")), "cannot be evaluated here"),
    ];
    for (after, expected) in rows {
        let plan = cluster(&plain(), json!({})).plan(&files(after));
        let (outcome, reason) = outcome(&plan);
        assert!(outcome == Outcome::Unknown && reason.contains(expected), "{expected}: {outcome:?} {reason}");
        assert_eq!((plan.summary().unknown, plan.is_complete()), (1, false), "{expected}");
    }
    let mut failing = cluster(&plain(), json!({}));
    failing.kustomization("flux").content["status"]["conditions"][0]["status"] = "False".into();
    let after = files(instance(json!({"path": "./b"}), json!({})));
    assert!(outcome(&failing.plan(&after)).1.contains("it is not ready"));
    let mut recorded = cluster(&plain(), json!({}));
    recorded.snapshot.redact(true);
    assert!(outcome(&recorded.plan(&after)).1.contains("the snapshot has no values of its spec"));
}

#[test]
fn a_new_instance_takes_over_the_kustomization_that_exists() {
    let content = |instances: Vec<Value>| -> Files {
        vec![
            ("root/i.yaml", instances),
            ("a/a.yaml", vec![cm("a"), cm("both")]),
            ("b/b.yaml", vec![cm("b"), cm("both")]),
        ]
    };
    let before = content(vec![cm("x")]);
    let mut cluster = TestCluster::new(&before);
    cluster.apply(&ks("repo", "./a", json!({"interval": "10m0s"})), None, &artifact(&before));
    let repository = json!({"interval": "1m0s", "ref": {"branch": "main"}, "url": "https://example.com/repo"});
    cluster.add_with_content(&source("GitRepository", "repo", repository), None, json!({}));
    cluster.snapshot.normalise();
    let plan = |sync: Value| cluster.plan(&content(vec![cm("x"), instance(sync, json!({}))]));
    for path in ["./a", "a"] {
        let same = plan(json!({ "path": path }));
        assert_eq!((same.summary().unknown, same.is_complete()), (0, true), "{path} {:?}", same.gaps());
    }
    for (sync, field) in [
        (json!({"path": "./b"}), "spec.path of kustomization"),
        (json!({"ref": "refs/heads/other"}), "spec.ref of gitrepository"),
    ] {
        let (outcome, reason) = outcome(&plan(sync));
        assert!(outcome == Outcome::Unknown && reason.contains(field), "{outcome:?} {reason}");
    }
    let other = plan(json!({"path": "./b", "name": "new"}));
    assert_eq!((other.summary().unknown, other.is_complete()), (0, true), "{:?}", other.gaps());
}

#[test]
fn an_instance_that_its_own_kustomization_applies_moves_it() {
    let files = |path: &str, more: Vec<Value>| -> Files {
        let instance = instance(json!({"path": path}), json!({}));
        vec![
            ("root/x.yaml", vec![cm("x")]),
            ("a/a.yaml", vec![instance, cm("a"), cm("both")]),
            ("b/b.yaml", [more, vec![cm("b"), cm("both")]].concat()),
        ]
    };
    let moved = || instance(json!({"path": "./b"}), json!({}));
    let cluster = cluster_of(&files("./a", vec![]), json!({}));
    assert_eq!(cluster.rows(&files("./a", vec![moved()])), BTreeSet::new(), "nothing applies it yet");
    let plan = cluster.plan(&files("./b", vec![moved()]));
    assert_eq!(cluster.rows(&files("./b", vec![moved()])), set(&["delete a"]), "{:?}", plan.gaps());
    assert_eq!(outcome(&plan).0, Outcome::Applies);
    // The new path does not have the instance, which the Kustomization then prunes.
    assert_eq!(cluster.rows(&files("./b", vec![])), set(&["delete a", "delete flux"]));
    let mut installed = cluster_of(&files("./a", vec![]), json!({}));
    let entries = json!([{"id": "flux-system_source-controller_apps_Deployment", "v": "v1"}]);
    installed.kustomization("flux").content["status"]["inventory"] = json!({"entries": entries});
    let plan = installed.plan(&files("./b", vec![]));
    assert!(outcome(&plan).1.contains("flux-operator uninstalls Flux"), "{:?}", outcome(&plan));
    let instances = plan.owners().iter().filter(|row| row.owner.kind == "FluxInstance");
    assert_eq!((instances.count(), plan.summary().delete, plan.is_complete()), (1, 2, false));
}
