//! Upgrades of releases whose chart is in the tree; joining templates stands for helm.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cm, ks, set};
use super::releases::record;
use super::unfollowed::{cluster, release};
use crate::flux::simulation::owners::behaviour::effective_fields::with_defaults;
use crate::kubernetes::object::ManagedFieldsEntry;
use crate::plan::{Action, Outcome, Plan};
use crate::testing::Build;

/// A template, its object, and the annotations of the object.
pub(super) type Template = (&'static str, &'static str, Value);

pub(super) fn templates() -> Vec<Template> {
    vec![
        ("charts/app/templates/web.yaml", "web", json!({})),
        ("charts/app/templates/kept.yaml", "kept", json!({"helm.sh/resource-policy": "keep"})),
        ("charts/app/templates/extra.yaml", "extra", json!({})),
    ]
}

pub(super) fn spec(values: Value) -> Value {
    let chart = json!({"chart": "./charts/app", "sourceRef": {"kind": "GitRepository", "name": "repo"}});
    json!({"chart": {"spec": chart}, "values": values})
}

pub(super) fn tree(version: &str, templates: &[Template], spec: Value) -> Files {
    let mut files: Files = vec![
        ("root/x.yaml", vec![cm("x")]),
        ("root/a.yaml", vec![release(spec)]),
        ("charts/app/Chart.yaml", vec![json!({"apiVersion": "v2", "name": "app", "version": version})]),
    ];
    for (at, name, annotations) in templates {
        let mut manifest = cm(name);
        manifest["metadata"]["annotations"] = annotations.clone();
        files.push((at, vec![manifest]));
    }
    files
}

/// Returns a cluster in which version 1 of the chart is deployed without values.
pub(super) fn deployed(spec_before: Value) -> TestCluster {
    deployed_from(&tree("1", &templates(), spec_before))
}

/// Returns such a cluster after these files were applied.
pub(super) fn deployed_from(files: &Files) -> TestCluster {
    let mut cluster = cluster(files, true);
    let mut entries = vec![];
    for (_, name, annotations) in templates() {
        let mut manifest = cm(name);
        manifest["metadata"]["annotations"] = annotations;
        cluster.add(&manifest, None);
        entries.push(json!({"id": format!("{NS}_{name}__ConfigMap"), "v": "v1"}));
    }
    cluster.add(&record(), None);
    let status = &mut cluster.kustomization("app").content["status"];
    status["inventory"]["entries"] = json!(entries);
    status["history"][0]["status"] = "deployed".into();
    cluster.snapshot.normalise();
    cluster
}

pub(super) fn without(name: &str) -> Vec<Template> {
    templates().into_iter().filter(|(_, object, _)| *object != name).collect()
}

pub(super) fn reason(plan: &Plan) -> (Outcome, String) {
    let row = plan.owners().iter().find(|row| row.owner.kind == "HelmRelease").unwrap();
    (row.outcome, row.reason.to_string())
}

#[test]
fn a_template_that_leaves_the_chart_is_deleted_unless_it_is_kept() {
    let cluster = deployed(spec(json!({})));
    let after = tree("2", &without("extra"), spec(json!({})));
    assert_eq!(cluster.rows(&after), set(&["delete extra"]));
    let plan = cluster.plan(&after);
    assert!(plan.is_complete(), "{:?}", plan.gaps());
    let (outcome, reason) = reason(&plan);
    assert_eq!(outcome, Outcome::Applies);
    assert!(reason.starts_with("release-upgraded: charts/app/") && reason.contains("; chart app 1 → 2"), "{reason}");
    assert_eq!(cluster.rows(&tree("2", &without("kept"), spec(json!({})))), set(&["keep kept"]));
    let row = plan.changes().iter().find(|row| &*row.object.id.name == "extra").unwrap();
    assert_eq!(
        (row.reason.to_string(), row.cause.as_ref().unwrap().name.to_string()),
        ("not-in-chart".into(), "app".into())
    );
}

#[test]
fn objects_whose_manifests_change_are_updated() {
    let cluster = deployed(spec(json!({})));
    let updates = |files: &Files| {
        let plan = cluster.plan(files);
        let rows =
            plan.changes().iter().filter(|row| row.action == Action::Update && &*row.object.id.kind == "ConfigMap");
        rows.map(|row| row.object.id.name.to_string()).collect::<BTreeSet<_>>()
    };
    let mut changed = templates();
    changed[0].2 = json!({"example.com/size": "2"});
    assert_eq!(updates(&tree("2", &changed, spec(json!({})))), set(&["web"]));
    let off = json!({"off": ["web.yaml"]});
    assert_eq!(updates(&tree("2", &changed, spec(off))), set(&[]), "what is deleted is not updated");
}

#[test]
fn values_that_a_snapshot_lacks_make_the_effect_unknown() {
    let after = tree("1", &templates(), spec(json!({})));
    for (keeps, expected) in [(false, set(&["unknown app"])), (true, set(&[]))] {
        let mut cluster = deployed(spec(json!({"image": "1"})));
        cluster.snapshot.redact(keeps);
        assert_eq!(cluster.rows(&after), expected);
        let (outcome, reason) = reason(&cluster.plan(&after));
        assert_eq!((outcome == Outcome::Unknown, reason.contains("--with-values")), (!keeps, !keeps), "{reason}");
    }
}

#[test]
fn values_decide_what_is_rendered() {
    let cluster = deployed(spec(json!({})));
    let after = |values: Value| tree("1", &templates(), spec(values));
    assert_eq!(cluster.rows(&after(json!({"off": ["extra.yaml", "web.yaml"]}))), set(&["delete extra", "delete web"]));
    let image = cluster.plan(&after(json!({"image": "2"})));
    assert_eq!((image.summary().delete, image.is_complete()), (0, true));
    assert_eq!(reason(&image).0, Outcome::Applies);
    let from = |name: &str| json!({"kind": "ConfigMap", "name": name});
    let mut with_values = spec(json!({}));
    with_values["valuesFrom"] = json!([from("values")]);
    let data = |text: &str| {
        vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "values", "namespace": NS},
        "data": {"values.yaml": text}})]
    };
    let mut files = tree("1", &templates(), with_values.clone());
    files.push(("root/values.yaml", data("off: [extra.yaml]")));
    assert_eq!(cluster.rows(&files), set(&["delete extra"]));
    let missing = cluster.plan(&tree("1", &templates(), with_values));
    assert!(reason(&missing).1.contains("configmap/values -n flux-system in its valuesFrom does not exist"));
}

#[test]
fn a_chart_of_the_same_version_is_not_packed_again() {
    let cluster = deployed(spec(json!({})));
    let plan = cluster.plan(&tree("1", &without("extra"), spec(json!({}))));
    assert_eq!((plan.summary().delete, plan.is_complete()), (0, true), "{:?}", plan.gaps());
    let mut follows = spec(json!({}));
    follows["chart"]["spec"]["reconcileStrategy"] = "Revision".into();
    let cluster = deployed(follows.clone());
    assert_eq!(cluster.rows(&tree("1", &without("extra"), follows)), set(&["delete extra"]));
}

#[test]
fn what_only_an_intermediate_upgrade_removes_is_a_race() {
    let mut before = spec(json!({}));
    before["values"] = json!({"image": "1"});
    let cluster = deployed(before);
    // Template `web` moves to another file, which the new values switch on and the old chart does not have.
    let mut moved = without("web");
    moved.push(("charts/app/templates/new.yaml", "web", json!({})));
    let rows = cluster.rows(&tree("2", &moved, spec(json!({"off": ["web.yaml"]}))));
    assert_eq!(rows, set(&["recreate? web"]));
}

#[test]
fn what_only_an_intermediate_upgrade_has_is_taken_over_and_deleted() {
    let rows = |annotations: Value| {
        let more = [("charts/app/templates/more.yaml", "more", annotations)];
        let before = [templates(), more.to_vec()].concat();
        let mut cluster = deployed_from(&tree("1", &before, spec(json!({"off": ["more.yaml"]}))));
        cluster.add(&cm("more"), None);
        cluster.snapshot.normalise();
        cluster.rows(&tree("2", &templates(), spec(json!({}))))
    };
    assert_eq!(rows(json!({})), set(&["delete? more"]));
    assert_eq!(rows(json!({"helm.sh/resource-policy": "keep"})), set(&[]), "it is kept then");
    let hook = |policy: &str| json!({"helm.sh/hook": "post-upgrade", "helm.sh/hook-delete-policy": policy});
    assert_eq!(rows(hook("hook-succeeded")), set(&["delete? more"]));
    assert_eq!(rows(hook("before-hook-creation")), set(&["recreate? more"]));
}

#[test]
fn a_request_for_an_upgrade_runs_hooks_once() {
    let hook = json!({"helm.sh/hook": "post-upgrade"});
    let all = [templates(), vec![("charts/app/templates/hook.yaml", "hook", hook)]].concat();
    let rows = |annotations: Value, status: Value| {
        let files = tree("1", &all, spec(json!({})));
        let mut cluster = deployed_from(&files);
        cluster.add(&cm("hook"), None);
        for (key, value) in status.as_object().unwrap() {
            cluster.kustomization("app").content["status"][key] = value.clone();
        }
        cluster.snapshot.normalise();
        let mut after = files;
        after[1].1[0]["metadata"]["annotations"] = annotations;
        cluster.rows(&after)
    };
    let request = |at: &str| json!({"reconcile.fluxcd.io/forceAt": "1", "reconcile.fluxcd.io/requestedAt": at});
    assert_eq!(rows(request("1"), json!({})), set(&["recreate hook"]));
    assert_eq!(rows(request("2"), json!({})), set(&[]), "helm-controller ignores it");
    assert_eq!(rows(request("1"), json!({"lastHandledForceAt": "1"})), set(&[]));
    assert_eq!(rows(request("1"), json!({"lastHandledReconcileAt": "1"})), set(&[]));
}

#[test]
fn an_upgrade_that_can_fail_is_a_race() {
    let cluster = deployed(spec(json!({})));
    let mut added = without("extra");
    added.push(("charts/app/templates/new.yaml", "new", json!({})));
    let after = tree("2", &added, spec(json!({})));
    assert_eq!(cluster.rows(&after), set(&["delete? extra"]));
    let plan = cluster.plan(&after);
    let row = plan.changes().iter().find(|row| &*row.object.id.name == "extra").unwrap();
    assert!(row.reason.text().contains("it stays if the upgrade fails"), "{}", row.reason);
    let mut hook = without("extra");
    hook.push(("charts/app/templates/hook.yaml", "hook", json!({"helm.sh/hook": "pre-upgrade"})));
    assert_eq!(cluster.rows(&tree("2", &hook, spec(json!({})))), set(&["delete? extra"]));
}

#[test]
fn an_upgrade_that_the_server_accepts_is_certain() {
    let mut cluster = deployed(spec(json!({})));
    let mut changed = without("extra");
    changed.push(("charts/app/templates/new.yaml", "new", json!({})));
    let after = tree("2", &changed, spec(json!({})));
    cluster.upgrades = Some(BTreeMap::new());
    assert_eq!(cluster.rows(&after), set(&["delete? extra"]), "Helm may have applied it in another way");
    for name in ["web", "kept", "extra"] {
        let entry = ManagedFieldsEntry { manager: "helm-controller".into(), applies: true, ..Default::default() };
        cluster.object(name).managed_fields = vec![entry];
    }
    assert_eq!(cluster.rows(&after), set(&["delete extra"]));
    cluster.upgrades = Some([("new", "denied")].into());
    assert_eq!(cluster.rows(&after), set(&["keep extra"]), "nothing in the commit mends the refusal");
    let (outcome, why) = reason(&cluster.plan(&after));
    assert_eq!(outcome, Outcome::Blocked);
    assert!(
        why.starts_with("apply-refused: ") && why.ends_with("as it does now: configmap/new -n flux-system: denied")
    );
    cluster.upgrades = Some([("extra", "held by a webhook")].into());
    assert_eq!(cluster.rows(&after), set(&["keep extra"]), "Helm applies the upgrade and cannot delete the object");
    let mut client_side = spec(json!({}));
    client_side["upgrade"] = json!({"serverSideApply": "disabled"});
    cluster.upgrades = Some(BTreeMap::new());
    assert_eq!(cluster.rows(&tree("2", &changed, client_side)), set(&["delete? extra"]));
}

#[test]
fn what_the_server_always_refuses_is_not_applied() {
    let mut on_server = spec(json!({}));
    on_server["upgrade"] = json!({"serverSideApply": "enabled"});
    let plan = |refused: &'static str, changed: Template| {
        let mut all = without("extra");
        all.retain(|(at, ..)| *at != changed.0);
        all.push(changed);
        let mut cluster = deployed(on_server.clone());
        cluster.upgrades = Some([(refused, "denied")].into());
        cluster.plan(&tree("2", &all, on_server.clone()))
    };
    let rows = |plan: Plan| -> BTreeSet<String> {
        plan.changes().iter().map(|row| format!("{} {}", row.action, row.object.id.name)).collect()
    };
    let changed = rows(plan("web", ("charts/app/templates/web.yaml", "web", json!({"changes": "yes"}))));
    assert_eq!(changed, set(&["keep extra", "keep web"]));
    let new = rows(plan("new", ("charts/app/templates/new.yaml", "new", json!({}))));
    assert_eq!(new, set(&["keep extra"]));
}

#[test]
fn a_hook_is_created_again_unless_it_terminates_too_slowly_or_is_a_definition() {
    let hooked = || {
        let mut templates = templates();
        templates[2].2 = json!({"helm.sh/hook": "post-upgrade"});
        templates
    };
    let rows = |finalizers: &[&str], wait: bool| {
        let mut cluster = deployed(spec(json!({})));
        // The hook of the old chart is no object of the release.
        let old = tree("1", &hooked(), spec(json!({})));
        cluster.history = Some(old);
        let status = &mut cluster.kustomization("app").content["status"];
        status["inventory"]["entries"].as_array_mut().unwrap().pop();
        cluster.object("extra").finalizers = finalizers.iter().map(|name| (*name).into()).collect();
        let mut spec = spec(json!({}));
        spec["upgrade"] = json!({"disableWait": !wait});
        cluster.rows(&tree("2", &hooked(), spec))
    };
    assert_eq!(rows(&[], false), set(&["recreate extra"]));
    assert_eq!(rows(&["kubernetes.io/pvc-protection"], false), set(&["recreate? extra"]));
    assert_eq!(rows(&["kubernetes.io/pvc-protection"], true), set(&["recreate? extra"]), "the wait can time out");
}

#[test]
fn dependents_of_what_may_stay_in_an_upgrade_may_stay() {
    let mut cluster = deployed(spec(json!({})));
    let entry = ManagedFieldsEntry { manager: "helm-controller".into(), applies: true, ..Default::default() };
    cluster.object("extra").managed_fields = vec![entry];
    for (name, owner) in [("set", "extra"), ("pod", "set")] {
        let uid = cluster.object(owner).uid.to_string();
        cluster.add(&cm(name), None);
        cluster.snapshot.normalise();
        let dependent = cluster.object(name);
        *dependent = dependent.clone().referring_to(&uid);
        dependent.owner_references[0].group = "".into();
        dependent.owner_references[0].kind = "ConfigMap".into();
    }
    let after = tree("2", &without("extra"), spec(json!({})));
    assert_eq!(cluster.rows(&after), set(&["delete extra", "delete pod", "delete set"]));
    let mut added = without("extra");
    added.push(("charts/app/templates/new.yaml", "new", json!({})));
    assert_eq!(
        cluster.rows(&tree("2", &added, spec(json!({})))),
        set(&["delete? extra", "delete? pod", "delete? set"])
    );
    cluster.upgrades = Some([("extra", "held by a webhook")].into());
    assert_eq!(cluster.rows(&after), set(&["keep extra"]));
}

#[test]
fn the_remediation_of_an_upgrade_is_named() {
    let cluster = deployed(spec(json!({})));
    let reason_with = |remediation: Value| {
        let mut spec = spec(json!({}));
        spec["upgrade"] = json!({"remediation": remediation});
        reason(&cluster.plan(&tree("2", &without("extra"), spec))).1
    };
    assert!(!reason_with(json!({"retries": 0})).contains("remediation"));
    assert!(reason_with(json!({"retries": 3})).ends_with("deleted objects are created again (upgrade.remediation)"));
    let uninstalls = reason_with(json!({"remediateLastFailure": true, "strategy": "uninstall"}));
    assert!(uninstalls.ends_with("all objects of the release are deleted (upgrade.remediation)"), "{uninstalls}");
}

#[test]
fn post_renderers_run_over_what_the_chart_renders() {
    let images = |tag: &str| {
        let mut spec = spec(json!({}));
        spec["postRenderers"] = json!([{"kustomize": {"images": [{"name": "app", "newTag": tag}]}}]);
        spec
    };
    let cluster = deployed(images("1"));
    let plan = cluster.plan(&tree("1", &templates(), images("2")));
    assert_eq!((plan.summary().delete, plan.is_complete(), reason(&plan).0), (0, true, Outcome::Applies));
    assert_eq!(cluster.rows(&tree("2", &without("extra"), images("1"))), set(&["delete extra"]));
    let why = |name: &'static str| {
        let mut templates = templates();
        templates.push(("charts/app/templates/more.yaml", name, json!({})));
        reason(&cluster.plan(&tree("2", &templates, images("1"))))
    };
    let (outcome, fails) = why("broken");
    assert_eq!(outcome, Outcome::Blocked);
    assert!(fails.contains("a post-renderer fails: broken manifest"), "{fails}");
    let (outcome, crashes) = why("crashes");
    assert_eq!(outcome, Outcome::Unknown);
    assert!(crashes.contains("its post-renderers cannot be run here: a signal ended kustomize"), "{crashes}");
}

#[test]
fn what_a_deleted_object_holds_is_deleted_with_it() {
    let cluster_with = |child: &Value| {
        let mut cluster = deployed(spec(json!({})));
        let files: Files = vec![("deep/a.yaml", vec![cm("deep")])];
        cluster.apply(child, None, &super::cluster::artifact(&files));
        let id = "flux-system_child_kustomize.toolkit.fluxcd.io_Kustomization";
        let status = &mut cluster.kustomization("app").content["status"];
        status["inventory"]["entries"].as_array_mut().unwrap().push(json!({"id": id, "v": "v1"}));
        cluster.snapshot.normalise();
        cluster
    };
    let child = ks("child", "./deep", json!({}));
    let mut cluster = cluster_with(&child);
    let with_child = |version: &str, has_child: bool| {
        let mut files = tree(version, &templates(), spec(json!({})));
        files.push(("deep/a.yaml", vec![cm("deep")]));
        if has_child {
            files.push(("charts/app/templates/child.yaml", vec![child.clone()]));
        }
        files
    };
    cluster.history = Some(with_child("1", true));
    assert_eq!(cluster.rows(&with_child("2", false)), set(&["delete child", "delete deep"]));
}

#[test]
fn a_release_that_is_not_rendered_as_it_is_deployed_is_unknown() {
    let why = |change: &dyn Fn(&mut TestCluster), version: &str, templates: &[Template], spec: Value| {
        let mut cluster = deployed(super::upgrades::spec(json!({})));
        change(&mut cluster);
        let plan = cluster.plan(&tree(version, templates, spec));
        assert_eq!((plan.is_complete(), plan.summary().delete, plan.summary().unknown), (false, 0, 1));
        reason(&plan).1
    };
    let nothing = |_: &mut TestCluster| {};
    let inventory = |cluster: &mut TestCluster| {
        let status = &mut cluster.kustomization("app").content["status"];
        status["inventory"]["entries"].as_array_mut().unwrap().pop();
    };
    let differs = why(&inventory, "2", &without("extra"), spec(json!({})));
    assert!(differs.contains("renders here to other objects than its inventory lists: configmap/extra"), "{differs}");
    let failed = |cluster: &mut TestCluster| {
        cluster.kustomization("app").content["status"]["history"][0]["status"] = "pending-upgrade".into();
    };
    assert!(why(&failed, "2", &without("extra"), spec(json!({}))).contains("not deployed and ready"));
    let fields = [
        ("newField", json!("on"), "spec.newField"),
        ("valuesFrom", json!([{"kind": "ConfigMap", "name": "a", "targetPath": "b[0]"}]), "targetPath"),
    ];
    for (field, value, expected) in fields {
        let mut changed = spec(json!({}));
        changed[field] = value;
        let reason = why(&nothing, "2", &without("extra"), changed);
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn fields_that_delete_nothing_do_not_hide_an_upgrade() {
    for (field, value) in [
        ("driftDetection", json!({"mode": "enabled"})),
        ("serviceAccountName", json!("tenant")),
        ("postRenderStrategy", json!("nohooks")),
        ("waitStrategy", json!({"name": "legacy"})),
        ("test", json!({"enable": true})),
    ] {
        let mut changed = spec(json!({}));
        changed[field] = value;
        let cluster = deployed(spec(json!({})));
        assert_eq!(cluster.rows(&tree("2", &without("extra"), changed.clone())), set(&["delete extra"]), "{field}");
        let expected = if field == "test" { set(&["unknown app"]) } else { set(&[]) };
        assert_eq!(cluster.rows(&tree("1", &templates(), changed)), expected, "{field}");
    }
}

#[test]
fn a_release_that_was_rolled_back_is_upgraded_by_any_change() {
    let mut cluster = deployed(spec(json!({})));
    cluster.upgrades = Some([].into());
    for name in ["web", "kept", "extra"] {
        let entry = ManagedFieldsEntry { manager: "helm-controller".into(), applies: true, ..Default::default() };
        cluster.object(name).managed_fields = vec![entry];
    }
    // The revision that was applied last has the chart that failed.
    cluster.history = Some(tree("2", &without("web"), spec(json!({}))));
    let status = &mut cluster.kustomization("app").content["status"];
    status["conditions"] = json!([
        {"type": "Ready", "status": "False", "reason": "RollbackSucceeded"},
        {"type": "Remediated", "status": "True", "reason": "RollbackSucceeded"},
    ]);
    let after = tree("3", &without("extra"), spec(json!({})));
    assert_eq!(cluster.rows(&after), set(&["delete extra"]));
    let (_, reason) = reason(&cluster.plan(&after));
    assert!(reason.ends_with("; chart app 3, after an upgrade that failed and was rolled back"), "{reason}");
    // The chart that failed is still the one in the tree. helm-controller tries it again with any new generation.
    for field in ["timeout", "interval"] {
        let mut changed = spec(json!({}));
        changed[field] = "20m".into();
        assert_eq!(cluster.rows(&tree("2", &without("web"), changed)), set(&["delete web"]), "{field}");
    }
    assert_eq!(cluster.rows(&tree("2", &without("web"), spec(json!({})))), set(&[]));
}

#[test]
fn a_chart_that_is_reverted_after_a_rollback_is_no_upgrade() {
    let mut hooked = templates();
    hooked.push(("charts/app/templates/hook.yaml", "hook", json!({"helm.sh/hook": "pre-upgrade"})));
    let mut cluster = deployed_from(&tree("2", &without("web"), spec(json!({}))));
    cluster.add(&cm("hook"), None);
    let status = &mut cluster.kustomization("app").content["status"];
    status["conditions"] = json!([
        {"type": "Ready", "status": "False", "reason": "RollbackSucceeded"},
        {"type": "Remediated", "status": "True", "reason": "RollbackSucceeded"},
    ]);
    status["history"][0]["configDigest"] = "sha256:4".into();
    status["lastAttemptedConfigDigest"] = "sha256:4".into();
    cluster.snapshot.normalise();
    let mut later = spec(json!({}));
    later["timeout"] = "20m".into();
    let values = spec(json!({"image": "2"}));
    assert_eq!(cluster.rows(&tree("1", &hooked, spec(json!({})))), set(&[]));
    assert_eq!(cluster.rows(&tree("1", &hooked, later)), set(&["recreate? hook"]), "it may come before the chart");
    assert_eq!(cluster.rows(&tree("1", &hooked, values)), set(&["recreate hook"]));
    assert_eq!(cluster.rows(&tree("3", &hooked, spec(json!({})))), set(&["recreate hook"]));
    cluster.kustomization("app").content["status"]["lastAttemptedConfigDigest"] = "sha256:5".into();
    assert_eq!(cluster.rows(&tree("1", &hooked, spec(json!({})))), set(&["recreate? hook"]), "its values changed too");
    let values = spec(json!({"image": "2"}));
    assert_eq!(cluster.rows(&tree("1", &hooked, values)), set(&["recreate? hook"]), "they may be those of before");
}

#[test]
fn values_that_change_and_come_back_upgrade_a_release_that_was_rolled_back() {
    let values = |text: &str| {
        vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "values", "namespace": NS},
            "data": {"values.yaml": text}})]
    };
    let files = |path: &str, first: &str| {
        let mut from = spec(json!({}));
        from["valuesFrom"] = json!([{"kind": "ConfigMap", "name": "values"}]);
        let mut files = tree("1", &templates(), from);
        files.push(("root/k.yaml", vec![ks("k", path, json!({}))]));
        files.push(("p/values.yaml", values(first)));
        files.push(("q/values.yaml", values("{}")));
        files
    };
    let mut cluster = deployed_from(&files("./p", "{}"));
    cluster.upgrades = Some([].into());
    let status = &mut cluster.kustomization("app").content["status"];
    status["conditions"] = json!([
        {"type": "Ready", "status": "False", "reason": "RollbackSucceeded"},
        {"type": "Remediated", "status": "True", "reason": "RollbackSucceeded"},
    ]);
    status["history"][0]["configDigest"] = "sha256:4".into();
    status["lastAttemptedConfigDigest"] = "sha256:4".into();
    for is_stored in [false, true] {
        if is_stored {
            // The API server stores the defaults of the spec.
            let spec = &mut cluster.kustomization("app").content["spec"];
            *spec = with_defaults("HelmRelease", spec);
        }
        assert_eq!(cluster.rows(&files("./q", "{}")), set(&[]));
        // The Kustomization applies the new revision with its old path, and then with the new one.
        let after = files("./q", "off: [extra.yaml]");
        assert_eq!(cluster.rows(&after), set(&["recreate? extra"]));
        let plan = cluster.plan(&after);
        let text = plan.deletions().next().unwrap().reason.text();
        assert!(
            text.contains("unless another upgrade comes before its values are those of its last release"),
            "{text}"
        );
    }
}

#[test]
fn a_failed_test_that_is_no_longer_ignored_is_an_upgrade() {
    let mut hooked = templates();
    hooked.push(("charts/app/templates/hook.yaml", "hook", json!({"helm.sh/hook": "pre-upgrade"})));
    let tested = |test: Value, remediation: Value| {
        let mut spec = spec(json!({}));
        spec["test"] = test;
        spec["upgrade"] = json!({ "remediation": remediation });
        spec
    };
    let ignored = || tested(json!({"enable": true, "ignoreFailures": true}), json!({}));
    let mut cluster = deployed_from(&tree("1", &hooked, ignored()));
    cluster.add(&cm("hook"), None);
    let status = &mut cluster.kustomization("app").content["status"];
    status["history"][0]["testHooks"] = json!({"t": {"phase": "Failed"}});
    status["lastAttemptedReleaseAction"] = "upgrade".into();
    cluster.snapshot.normalise();
    let rows = |cluster: &TestCluster, test: Value, remediation: Value| {
        cluster.rows(&tree("1", &hooked, tested(test, remediation)))
    };
    let all = || json!({"enable": true, "ignoreFailures": true});
    assert_eq!(rows(&cluster, json!({"enable": true}), json!({})), set(&["recreate hook"]));
    assert_eq!(rows(&cluster, all(), json!({"ignoreTestFailures": false})), set(&["recreate hook"]));
    assert_eq!(rows(&cluster, json!({"enable": true}), json!({"ignoreTestFailures": true})), set(&[]));
    assert_eq!(rows(&cluster, json!({"enable": false}), json!({})), set(&[]));
    cluster.kustomization("app").content["status"]["history"][0]["testHooks"]["t"]["phase"] = "Succeeded".into();
    assert_eq!(rows(&cluster, json!({"enable": true}), json!({})), set(&[]));
}

#[test]
fn a_release_whose_installation_failed_is_upgraded_by_any_change() {
    let mut hooked = templates();
    hooked.push(("charts/app/templates/hook.yaml", "hook", json!({"helm.sh/hook": "pre-install,pre-upgrade"})));
    let mut cluster = deployed_from(&tree("1", &hooked, spec(json!({}))));
    cluster.add(&cm("hook"), None);
    let status = &mut cluster.kustomization("app").content["status"];
    status["history"][0]["status"] = "failed".into();
    status["conditions"] = json!([{"type": "Ready", "status": "False", "reason": "InstallFailed"}]);
    cluster.snapshot.normalise();
    for (field, value) in [("install", json!({"timeout": "20m"})), ("maxHistory", 3.into()), ("timeout", "20m".into())]
    {
        let mut changed = spec(json!({}));
        changed[field] = value;
        let after = tree("1", &hooked, changed);
        assert_eq!(cluster.rows(&after), set(&["recreate hook"]), "{field}");
        let (_, reason) = reason(&cluster.plan(&after));
        assert!(reason.contains("; chart app 1, after an installation that failed"), "{reason}");
    }
    assert_eq!(cluster.rows(&tree("1", &hooked, spec(json!({})))), set(&[]));
}

#[test]
fn a_release_that_waits_for_something_is_upgraded_once_that_is_there() {
    let mut cluster = deployed(spec(json!({})));
    let status = &mut cluster.kustomization("app").content["status"];
    status["conditions"] = json!([{"type": "Ready", "status": "False", "reason": "DependencyNotReady"}]);
    let after = tree("2", &without("extra"), spec(json!({})));
    assert_eq!(cluster.rows(&after), set(&["delete? extra"]));
    let plan = cluster.plan(&after);
    let row = plan.deletions().next().unwrap();
    assert!(row.reason.text().contains("it waits until this is resolved: DependencyNotReady"), "{}", row.reason);
}

#[test]
fn what_a_waiting_release_has_not_compared_yet_is_compared_with_its_last_release() {
    let waiting = |before: &Files| {
        let mut cluster = deployed_from(before);
        cluster.kustomization("app").content["status"]["conditions"] =
            json!([{"type": "Ready", "status": "False", "reason": "DependencyNotReady"}]);
        cluster
    };
    let with = |values: Value, waits: bool| {
        let mut spec = spec(values);
        if waits {
            spec["dependsOn"] = json!([{"name": "other"}]);
        }
        spec
    };
    // Values that were applied while it waited.
    let off = || json!({"off": ["extra.yaml"]});
    let cluster = waiting(&tree("1", &templates(), with(off(), true)));
    assert_eq!(cluster.rows(&tree("1", &templates(), with(off(), false))), set(&["delete? extra"]));
    assert_eq!(cluster.rows(&tree("1", &templates(), with(off(), true))), set(&[]));
    // A chart that was applied while it waited, also if the dependency is created.
    let mut cluster = waiting(&tree("2", &without("extra"), with(json!({}), true)));
    for _ in 0..2 {
        assert_eq!(cluster.rows(&tree("2", &without("extra"), with(json!({}), false))), set(&["delete? extra"]));
        let mut after = tree("2", &without("extra"), with(json!({}), true));
        assert_eq!(cluster.rows(&after), set(&[]));
        let mut other = release(json!({"suspend": false}));
        other["metadata"]["name"] = "other".into();
        after.push(("root/other.yaml", vec![other]));
        assert!(cluster.rows(&after).contains("delete? extra"), "{:?}", cluster.rows(&after));
        let generation = cluster.object("app").generation;
        cluster.kustomization("app").content["status"]["lastAttemptedGeneration"] = generation.into();
    }
    // Nothing is left to compare.
    let mut cluster = waiting(&tree("1", &templates(), with(json!({}), true)));
    let generation = cluster.object("app").generation;
    cluster.kustomization("app").content["status"]["lastAttemptedGeneration"] = generation.into();
    let plan = cluster.plan(&tree("1", &templates(), with(json!({}), false)));
    assert!(plan.is_complete() && plan.owners().iter().all(|row| row.owner.name != "app"), "{:?}", plan.owners());
}

#[test]
fn a_chart_of_another_name_upgrades_a_release_in_place_if_the_strategy_says_so() {
    let mut in_place = spec(json!({}));
    in_place["upgrade"] = json!({"chartNameChangeStrategy": "InPlaceUpdate"});
    let mut after = tree("2", &without("extra"), in_place.clone());
    after[2].1[0]["name"] = "other".into();
    assert_eq!(deployed(in_place).rows(&after), set(&["delete extra"]));
}

#[test]
fn a_release_that_moves_to_another_cluster_leaves_its_objects_behind() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "spoke", "namespace": NS}});
    let files = |more: Value| {
        let mut spec = spec(json!({}));
        spec["kubeConfig"] = more;
        let mut files = tree("1", &templates(), spec);
        files.push(("root/s.yaml", vec![secret.clone()]));
        files
    };
    let cluster = deployed_from(&files(Value::Null));
    let plan = cluster.plan(&files(json!({"secretRef": {"name": "spoke"}})));
    let kept = ["keep web", "keep kept", "keep extra"];
    assert_eq!(cluster.rows(&files(json!({"secretRef": {"name": "spoke"}}))), set(&kept));
    assert!(!plan.is_complete() && plan.gaps()[0].message.contains("--spoke"), "{:?}", plan.gaps());
    let row = plan.changes().iter().find(|row| &*row.object.id.name == "web").unwrap();
    assert!(row.reason.to_string().starts_with("left-behind: its release moves to another cluster"), "{}", row.reason);
}

#[test]
fn values_that_the_change_removes_block_the_release_unless_it_is_upgraded_before() {
    let mut with_values = spec(json!({}));
    with_values["valuesFrom"] = json!([{"kind": "ConfigMap", "name": "values"}]);
    let mut cluster = deployed(with_values.clone());
    let values = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "values", "namespace": NS},
        "data": {"values.yaml": "a: b"}});
    let root = cluster.kustomization("root").object.id.clone();
    cluster.add(&values, Some(&root.name));
    let entry = json!({"id": format!("{NS}_values__ConfigMap"), "v": "v1"});
    cluster.kustomization("root").content["status"]["inventory"]["entries"].as_array_mut().unwrap().push(entry);
    cluster.snapshot.normalise();
    cluster.data.insert("values".to_owned(), values);
    let plan = cluster.plan(&tree("1", &templates(), with_values.clone()));
    let (outcome, why) = reason(&plan);
    assert_eq!((outcome, plan.is_complete()), (Outcome::Blocked, true), "{why}");
    assert!(why.contains("values-missing: ") && why.contains("in its valuesFrom is deleted"), "{why}");
    let rows = cluster.rows(&tree("2", &without("extra"), with_values));
    assert_eq!(rows, set(&["delete values", "delete? extra"]));
}

#[test]
fn a_lookup_is_answered_from_the_cluster() {
    let with_lookup = || {
        let mut templates = templates();
        templates.push(("charts/app/templates/lookup.yaml", "made", json!({})));
        templates
    };
    let after = || tree("2", &with_lookup(), spec(json!({})));
    // The template renders its object only if another one does not exist: each upgrade deletes it then.
    let mut cluster = deployed(spec(json!({})));
    cluster.history = Some(tree("1", &with_lookup(), spec(json!({}))));
    cluster.add(&cm("made"), None);
    let entry = json!({"id": format!("{NS}_made__ConfigMap"), "v": "v1"});
    let status = &mut cluster.kustomization("app").content["status"];
    status["inventory"]["entries"].as_array_mut().unwrap().push(entry);
    cluster.snapshot.normalise();
    assert_eq!(cluster.rows(&after()), set(&[]), "nothing is found, so the object is rendered again");
    cluster.content.insert("found".to_owned(), cm("found"));
    assert_eq!(cluster.rows(&after()), set(&["delete made"]));
    let mut own = with_lookup();
    own.push(("charts/app/templates/found.yaml", "found", json!({})));
    let plan = cluster.plan(&tree("2", &own, spec(json!({}))));
    let (outcome, why) = reason(&plan);
    assert_eq!(
        (outcome, plan.is_complete()),
        (Outcome::Applies, true),
        "its own upgrade comes after the lookup: {why}"
    );
    cluster.upgrades = Some([("found", "forbidden")].into());
    let plan = cluster.plan(&after());
    let (outcome, why) = reason(&plan);
    assert_eq!((outcome, plan.summary().delete), (Outcome::Blocked, 0), "{why}");
    assert!(why.contains("may not look up configmap/found -n flux-system: forbidden"), "{why}");
    cluster.upgrades = None;
    let mut touching = after();
    touching.push(("root/found.yaml", vec![cm("found")]));
    let plan = cluster.plan(&touching);
    let (outcome, why) = reason(&plan);
    assert_eq!((outcome, plan.is_complete()), (Outcome::Unknown, false), "{why}");
    assert!(why.contains("and the change may create, change or delete configmap/found -n flux-system"), "{why}");
}

#[test]
fn what_a_chart_decides_by_chance_is_not_known() {
    let random = |text: &str| {
        let mut files = tree("2", &without("extra"), spec(json!({})));
        files.push(("charts/app/templates/_random.tpl", vec![json!(text)]));
        files
    };
    let cluster = deployed(spec(json!({})));
    assert_eq!(cluster.rows(&random("{{ randAlphaNum 10 }}")), set(&["delete extra"]));
    let plan = cluster.plan(&random("{{ if eq (randNumeric 1) `5` }}x{{ end }}"));
    assert_eq!((reason(&plan).0, plan.is_complete()), (Outcome::Unknown, false));
    assert!(reason(&plan).1.contains("its chart compares random values or the time"), "{}", reason(&plan).1);
}

#[test]
fn a_release_whose_action_failed_is_upgraded_from_what_it_left() {
    let mut cluster = deployed(spec(json!({})));
    cluster.upgrades = Some([].into());
    for name in ["web", "kept", "extra"] {
        let entry = ManagedFieldsEntry { manager: "helm-controller".into(), applies: true, ..Default::default() };
        cluster.object(name).managed_fields = vec![entry];
    }
    let after = tree("2", &without("extra"), spec(json!({})));
    cluster.kustomization("app").content["status"]["history"][0]["status"] = "failed".into();
    cluster.kustomization("app").content["status"]["conditions"] =
        json!([{"type": "Ready", "status": "False", "reason": "InstallFailed"}]);
    assert_eq!(cluster.rows(&after), set(&["delete extra"]), "the first installation");
    // The inventory is that of the revision that failed. The one before it can have what carries the labels of the release.
    let failed = json!({"name": "app", "namespace": NS, "chartName": "app", "chartVersion": "1", "version": 2, "status": "failed"});
    let history = &mut cluster.kustomization("app").content["status"]["history"];
    *history = json!([failed, history[0]]);
    for name in ["web", "extra"] {
        let object = cluster.object(name);
        object.labels =
            [("helm.toolkit.fluxcd.io/name", "app"), ("helm.toolkit.fluxcd.io/namespace", NS)].into_iter().collect();
        object.annotations = [("meta.helm.sh/release-name", "app")].into_iter().collect();
    }
    assert_eq!(cluster.rows(&after), set(&["delete? extra"]));
}

#[test]
fn a_resumed_release_is_upgraded_if_it_differs_from_its_last_release() {
    let mut suspended = spec(json!({}));
    suspended["suspend"] = true.into();
    let mut cluster = deployed(suspended);
    cluster.upgrades = Some([].into());
    cluster.object("extra").managed_fields =
        vec![ManagedFieldsEntry { manager: "helm-controller".into(), applies: true, ..Default::default() }];
    assert_eq!(cluster.rows(&tree("2", &without("extra"), spec(json!({})))), set(&["delete extra"]));
    assert_eq!(cluster.rows(&tree("1", &templates(), spec(json!({})))), set(&[]));
    let renamed = tree("1", &templates(), spec(json!({"off": ["extra.yaml"]})));
    assert_eq!(cluster.rows(&renamed), set(&["delete extra"]));
    let outcome_of = |cluster: &TestCluster| {
        let plan = cluster.plan(&tree("1", &templates(), spec(json!({}))));
        let row = plan.owners().iter().find(|row| row.owner.kind == "HelmRelease");
        row.map(|row| row.outcome)
    };
    assert_eq!(outcome_of(&cluster), Some(Outcome::Applies), "its values may be others than those of its last release");
    let last = &mut cluster.kustomization("app").content["status"]["history"][0];
    (last["chartName"], last["chartVersion"]) = ("app".into(), "1".into());
    last["configDigest"] = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".into();
    assert_eq!(outcome_of(&cluster), None, "the digest is that of its values");
}

#[test]
fn a_dependency_that_the_change_deletes_makes_an_upgrade_wait() {
    let mut dependent = spec(json!({}));
    dependent["dependsOn"] = json!([{"name": "db"}]);
    let mut other = release(json!({"suspend": true}));
    other["metadata"]["name"] = "db".into();
    let with = |version: &str, templates: &[Template], is_there: bool| {
        let mut files = tree(version, templates, dependent.clone());
        files.extend(is_there.then(|| ("root/db.yaml", vec![other.clone()])));
        files
    };
    let cluster = deployed_from(&with("1", &templates(), true));
    let plan = cluster.plan(&with("2", &without("extra"), false));
    let row = plan.changes().iter().find(|row| &*row.object.id.name == "extra").unwrap();
    assert!(row.reason.text().contains("it waits until helmrelease.helm.toolkit.fluxcd.io/db"), "{}", row.reason);
}

#[test]
fn an_expression_for_a_dependency_that_does_not_change_is_evaluated() {
    for (expression, expected) in [
        ("dep.metadata.name == 'db'", Some("delete extra")),
        ("dep.spec.timeout == self.spec.timeout", None),
        ("dep.status.x == 1", Some("delete? extra")),
        ("dep.metadata.labels['a'] == 'b'", Some("delete? extra")),
    ] {
        let mut dependent = spec(json!({}));
        dependent["timeout"] = "1m".into();
        dependent["dependsOn"] = json!([{"name": "db", "readyExpr": expression}]);
        let mut other = release(json!({"timeout": "2m"}));
        other["metadata"]["name"] = "db".into();
        let with = |version: &str, templates: &[Template]| {
            let mut files = tree(version, templates, dependent.clone());
            files.push(("root/db.yaml", vec![other.clone()]));
            files
        };
        let mut cluster = deployed_from(&with("1", &templates()));
        cluster.kustomization("db").content["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(cluster.rows(&with("2", &without("extra"))), set(&expected), "{expression}");
    }
}

#[test]
fn a_chart_that_is_gone_blocks_the_release() {
    let mut after = tree("2", &without("extra"), spec(json!({})));
    after.retain(|(at, _)| !at.ends_with("Chart.yaml"));
    let plan = deployed(spec(json!({}))).plan(&after);
    let (outcome, reason) = reason(&plan);
    assert_eq!((outcome, plan.is_complete()), (Outcome::Blocked, true), "{reason}");
    assert!(reason.ends_with("./charts/app of its source has no Chart.yaml"), "{reason}");
}

#[test]
fn a_refusal_of_new_values_leaves_open_what_the_new_chart_deletes_before() {
    let mut cluster = deployed(spec(json!({})));
    for name in ["web", "kept", "extra"] {
        let entry = ManagedFieldsEntry { manager: "helm-controller".into(), applies: true, ..Default::default() };
        cluster.object(name).managed_fields = vec![entry];
    }
    cluster.upgrades = Some([("web", "field is immutable")].into());
    assert_eq!(cluster.rows(&tree("2", &without("extra"), spec(json!({})))), set(&["keep extra"]));
    let with_values = tree("2", &without("extra"), spec(json!({"image": "2"})));
    assert_eq!(cluster.rows(&with_values), set(&["delete? extra"]));
}

#[test]
fn a_release_of_another_name_creates_the_objects_of_its_predecessor_again() {
    let mut renamed = spec(json!({}));
    renamed["releaseName"] = "other".into();
    let cluster = deployed(spec(json!({})));
    let rows = ["recreate web", "keep kept", "recreate extra", "delete sh.helm.release.v1.app.v1"];
    assert_eq!(cluster.rows(&tree("1", &templates(), renamed.clone())), set(&rows));
    let rows = ["recreate web", "keep kept", "delete extra", "delete sh.helm.release.v1.app.v1"];
    assert_eq!(cluster.rows(&tree("2", &without("extra"), renamed)), set(&rows));
}

#[test]
fn a_release_that_is_replaced_runs_the_hooks_of_its_uninstall() {
    let rows = |annotations: Value, more: Value| {
        let all = [templates(), vec![("charts/app/templates/hook.yaml", "hook", annotations)]].concat();
        let mut cluster = deployed_from(&tree("1", &all, spec(json!({}))));
        cluster.add(&cm("hook"), None);
        cluster.snapshot.normalise();
        let mut renamed = spec(json!({}));
        renamed["releaseName"] = "other".into();
        renamed["uninstall"] = more;
        let mut rows = cluster.rows(&tree("1", &all, renamed));
        rows.retain(|row| row.ends_with("hook"));
        rows
    };
    let hook = |event: &str, policy: &str| json!({"helm.sh/hook": event, "helm.sh/hook-delete-policy": policy});
    assert_eq!(rows(hook("post-delete", "hook-succeeded"), json!({})), set(&["delete hook"]));
    assert_eq!(rows(hook("pre-delete", "before-hook-creation"), json!({})), set(&["recreate hook"]));
    assert_eq!(rows(hook("post-delete", "hook-succeeded"), json!({"disableHooks": true})), set(&[]));
}

#[test]
fn a_renamed_release_may_create_the_objects_of_its_predecessor_before_they_are_deleted() {
    let cluster = deployed(spec(json!({})));
    let mut after = tree("1", &templates(), spec(json!({})));
    after[1].1[0]["metadata"]["name"] = "successor".into();
    let rows = cluster.rows(&after);
    assert!(rows.contains("recreate? web") && rows.contains("recreate? extra"), "{rows:?}");
}
