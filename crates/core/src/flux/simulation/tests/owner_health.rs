//! The health of releases and ResourceSets, and what waits for it: Kustomizations, other releases, other sets.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cm, ks, set};
use super::unfollowed::flux;
use super::upgrades::{deployed_from, spec, templates, tree};
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::update::Update;
use crate::plan::ReasonCode;
use crate::testing::resource_type;

/// A release in the Kustomization `i` with these checks; `a` depends on `i` and has `a` and, with `before`, `gone`.
fn files(release: &Value, checks: &Value, before: bool) -> Files {
    let mut files = tree("1", &templates(), release.clone());
    files[1].0 = "i/release.yaml";
    let dependant = json!({"dependsOn": [{"name": "i"}]});
    files.push(("root/k.yaml", vec![ks("i", "./i", checks.clone()), ks("a", "./a", dependant)]));
    files.push(("a/a.yaml", if before { vec![cm("a"), cm("gone")] } else { vec![cm("a")] }));
    files
}

/// Returns a cluster after these files were applied, whose API server accepts everything.
fn cluster(files: &Files) -> TestCluster {
    let mut cluster = deployed_from(files);
    cluster.upgrades = Some(BTreeMap::new());
    let update = Update { reason: ReasonCode::Changed.into(), diff: String::new(), changes_content: true };
    cluster.results = vec![(|applied| applied.built.id.kind.as_ref() == "HelmRelease", DryRunResult::Updated(update))];
    cluster
}

fn with(more: &Value) -> Value {
    let mut release = spec(json!({"off": ["extra.yaml"]}));
    more.as_object().unwrap().iter().for_each(|(key, value)| release[key] = value.clone());
    release
}

/// Returns a spec whose values are missing, so that the upgrade fails.
fn failing() -> Value {
    with(&json!({"valuesFrom": [{"kind": "ConfigMap", "name": "none"}]}))
}

#[test]
fn a_kustomization_that_waits_is_as_healthy_as_its_release() {
    let (waits, before) = (json!({"wait": true}), spec(json!({})));
    let rows =
        |after: &Value, checks: &Value| cluster(&files(&before, checks, true)).rows(&files(after, checks, false));
    assert_eq!(rows(&with(&json!({})), &waits), set(&["delete extra", "delete gone"]));
    assert_eq!(rows(&failing(), &waits), set(&[]));
    let outcome = cluster(&files(&before, &waits, true)).outcome(&files(&failing(), &waits, false), "a");
    let why = "configmap/none -n flux-system in its valuesFrom does not exist";
    assert_eq!(
        outcome,
        format!(
            "Blocked: dependency-not-ready: it depends on kustomization/i -n flux-system, which changes \
             helmrelease.helm.toolkit.fluxcd.io/app -n flux-system, which is not ready: {why}"
        )
    );
    assert_eq!(rows(&with(&json!({"suspend": true})), &waits), set(&["delete gone"]), "its conditions stay");
    let expression = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "current": "true"});
    let checks = json!({"wait": true, "healthCheckExprs": [expression]});
    assert_eq!(rows(&failing(), &checks), set(&["delete? gone"]), "an expression can call it healthy");
}

#[test]
fn an_upgrade_with_a_refused_hook_is_not_ready_unless_its_remedy_installs_the_release_again() {
    let (waits, before) = (json!({"wait": true}), spec(json!({})));
    let hooked = |release: &Value, before: bool| {
        let mut files = files(release, &waits, before);
        let mut hook = cm("hook");
        hook["metadata"]["annotations"] = json!({"helm.sh/hook": "post-upgrade"});
        files.push(("charts/app/templates/hook.yaml", vec![hook]));
        files
    };
    let outcome = |strategy: &str| {
        let remediation = json!({"retries": 1, "strategy": strategy});
        let mut cluster = cluster(&hooked(&before, true));
        cluster.add(&cm("hook"), None);
        cluster.snapshot.normalise();
        cluster.upgrades = Some(BTreeMap::from([("hook", "denied")]));
        cluster.outcome(&hooked(&with(&json!({"upgrade": {"remediation": remediation}})), false), "a")
    };
    let rolled_back = outcome("rollback");
    assert!(rolled_back.starts_with("Blocked: dependency-not-ready: "), "{rolled_back}");
    assert!(rolled_back.contains("denied"), "{rolled_back}");
    let installed_again = outcome("uninstall");
    assert!(installed_again.contains("race: it applies only if"), "{installed_again}");
}

#[test]
fn a_release_that_fails_and_is_not_tried_again_keeps_its_kustomization_unhealthy() {
    let (waits, release) = (json!({"wait": true}), spec(json!({})));
    for (stalled, expected) in [(false, set(&["delete? gone"])), (true, set(&[]))] {
        let mut cluster = deployed_from(&files(&release, &waits, true));
        let ready = json!({"type": "Ready", "status": "False", "reason": "UpgradeFailed"});
        let failed =
            json!({"type": "Stalled", "status": if stalled { "True" } else { "False" }, "reason": "RetriesExceeded"});
        cluster.kustomization("app").content["status"]["conditions"] = json!([ready, failed]);
        // It waits for the release, and has not succeeded yet.
        let status = &mut cluster.kustomization("i").content["status"];
        status["conditions"] = json!([{"type": "Ready", "status": "Unknown", "reason": "Progressing"}]);
        status["lastAttemptedRevision"] = "main@sha1:ffffffffffffffffffffffffffffffffffffffff".into();
        assert_eq!(cluster.rows(&files(&release, &waits, false)), expected, "{stalled}");
        let expression = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "current": "true"});
        cluster.kustomization("i").content["spec"]["healthCheckExprs"] = json!([expression]);
        let checks = json!({"wait": true, "healthCheckExprs": [expression]});
        assert_eq!(cluster.rows(&files(&release, &checks, false)), set(&["delete? gone"]), "an expression decides");
    }
}

#[test]
fn an_object_that_somebody_else_changes_may_not_be_healthy_when_it_is_checked() {
    let check =
        json!([{"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app", "namespace": NS}]);
    let checks = json!({"healthChecks": check});
    let moved = |release: &Value, before: bool| {
        let mut files = files(release, &checks, before);
        files[1].0 = "root/release.yaml";
        files.push(("i/i.yaml", vec![cm("i")]));
        files
    };
    let cluster = cluster(&moved(&spec(json!({})), true));
    assert_eq!(cluster.rows(&moved(&failing(), false)), set(&["delete? gone"]));
    assert_eq!(cluster.rows(&moved(&spec(json!({})), false)), set(&["delete gone"]), "nothing changes it");
}

#[test]
fn a_release_waits_for_one_that_may_not_become_ready() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": NS}});
    let other = |values: Value| {
        let chart = json!({"chart": "./charts/other", "sourceRef": {"kind": "GitRepository", "name": "repo"}});
        flux("helm.toolkit.fluxcd.io/v2", "HelmRelease", "aaa", json!({"chart": {"spec": chart}, "values": values}))
    };
    let files = |release: Value, values: Value| {
        let mut files = tree("1", &templates(), release);
        files.push(("root/other.yaml", vec![other(values)]));
        files.push(("charts/other/Chart.yaml", vec![json!({"apiVersion": "v2", "name": "other", "version": "1"})]));
        files.push(("charts/other/templates/pod.yaml", vec![pod.clone()]));
        files
    };
    let dependant = |more: Value| {
        let mut release = with(&more);
        release["dependsOn"] = json!([{"name": "aaa"}]);
        release
    };
    let mut before = dependant(json!({}));
    before["values"] = json!({});
    let mut cluster = cluster(&files(before, json!({"off": ["pod.yaml"]})));
    cluster.snapshot.types.push(resource_type("", "Pod", "pods", true));
    let status = &mut cluster.kustomization("aaa").content["status"];
    status["history"][0]["status"] = "deployed".into();
    status["inventory"] = json!({"entries": []});
    (status["history"][0]["name"], status["history"][0]["chartName"]) = ("aaa".into(), "other".into());
    let rows = |values: Value| cluster.rows(&files(dependant(json!({})), values));
    assert_eq!(rows(json!({"off": ["pod.yaml"]})), set(&["delete extra"]));
    assert_eq!(rows(json!({})), set(&["delete? extra"]), "the Pod may not become ready");
}

#[test]
fn a_namespace_of_a_new_release_exists_for_others() {
    let files = |is_released: bool, objects: Vec<Value>| {
        let mut files = tree("1", &templates(), spec(json!({})));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        files.push(("charts/app/templates/namespace.yaml", vec![namespace]));
        files.push(("root/k.yaml", vec![ks("a", "./a", json!({}))]));
        files.push(("a/a.yaml", objects));
        files.retain(|(at, _)| is_released || *at != "root/a.yaml");
        files
    };
    let mut inside = cm("inside");
    inside["metadata"]["namespace"] = "shop".into();
    let mut cluster = TestCluster::new(&files(false, vec![cm("a"), cm("gone")]));
    cluster.upgrades = Some(BTreeMap::new());
    assert_eq!(cluster.rows(&files(true, vec![cm("a"), inside.clone()])), set(&["delete gone"]));
    assert_eq!(cluster.rows(&files(false, vec![cm("a"), inside])), set(&["keep gone"]), "nobody creates the namespace");
}
