//! Deleted objects that something which stays still needs.

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cluster_scoped, cm, finished, in_namespace, ks};
use crate::plan::mask::SecretMask;
use crate::plan::{Action, Certainty};
use crate::testing;

fn object(api_version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": NS}, "spec": spec})
}

fn deployment(volumes: &Value) -> Value {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"volumes": volumes}});
    object("apps/v1", "Deployment", "web", &json!({"selector": {"matchLabels": {"app": "web"}}, "template": template}))
}

fn volumes() -> Value {
    json!([{"persistentVolumeClaim": {"claimName": "data"}}, {"configMap": {"name": "settings"}}])
}

fn ingress() -> Value {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    object("networking.k8s.io/v1", "Ingress", "web", &json!({"defaultBackend": backend}))
}

/// Returns a cluster with an application and the types of its objects.
fn cluster() -> TestCluster {
    let mut cluster = TestCluster::new(&application(true, &volumes()));
    for (group, kind, plural, namespaced) in [
        ("apps", "Deployment", "deployments", true),
        ("networking.k8s.io", "Ingress", "ingresses", true),
        ("", "PersistentVolumeClaim", "persistentvolumeclaims", true),
        ("", "PersistentVolume", "persistentvolumes", false),
        ("", "Service", "services", true),
    ] {
        cluster.snapshot.types.push(testing::resource_type(group, kind, plural, namespaced));
    }
    cluster.snapshot.normalise();
    cluster
}

/// Returns the files of an application: what others refer to, and what stays.
fn application(needed: bool, volumes: &Value) -> Files {
    let mut manifests = vec![deployment(volumes), ingress(), cm("other")];
    if needed {
        manifests.push(object("v1", "PersistentVolumeClaim", "data", &json!({})));
        manifests.push(object("v1", "Service", "web", &json!({"selector": {"app": "web"}})));
        manifests.push(cm("settings"));
    }
    vec![("root/apps.yaml", vec![ks("apps", "./apps", json!({}))]), ("apps/a.yaml", manifests)]
}

/// Returns the details of the alarms, and the rows of what is deleted.
fn said(cluster: &TestCluster, after: &Files) -> (Vec<String>, Vec<String>) {
    let plan = finished(cluster.plan(after), &cluster.snapshot, &SecretMask::default());
    let alarms = plan.alarms().iter().filter(|alarm| alarm.code.to_string() == "still-referenced");
    let rows = plan.deletions().map(|change| format!("{}: {}", change.object.id.name, change.reason));
    (alarms.map(|alarm| alarm.detail.clone()).collect(), rows.collect())
}

#[test]
fn a_deployment_and_an_ingress_that_stay_need_what_the_commit_removes() {
    let cluster = cluster();
    let (alarms, rows) = said(&cluster, &application(false, &volumes()));
    let web = "deployment.apps/web -n flux-system mounts it";
    let expected = [
        format!(
            "this deletes persistentvolumeclaim/data -n flux-system, configmap/settings -n flux-system, each of which is \
             still needed: {web}"
        ),
        "this deletes service/web -n flux-system, which is still needed: \
         ingress.networking.k8s.io/web -n flux-system sends traffic to it"
            .to_owned(),
    ];
    assert_eq!(alarms, expected);
    assert_eq!(rows[0], format!("settings: not-in-build: still needed: {web}"));
    assert_eq!(said(&cluster, &application(true, &volumes())), (vec![], vec![]));
}

/// Returns files with a Deployment that mounts a ConfigMap in one Kustomization, and that ConfigMap in another one.
fn apart(volume: &Value, settings: &[(&'static str, Value)]) -> Files {
    let owners = vec![ks("apps", "./apps", json!({})), ks("base", "./base", json!({}))];
    let web = deployment(&json!([volume]));
    let mut files: Files =
        vec![("root/apps.yaml", owners), ("apps/a.yaml", vec![web]), ("base/b.yaml", vec![cm("other")])];
    files.extend(settings.iter().map(|(path, manifest)| (*path, vec![manifest.clone()])));
    files
}

#[test]
fn only_a_reference_to_the_object_itself_counts() {
    let mounts = |name: &str| json!({"configMap": {"name": name}});
    let optional = json!({"configMap": {"name": "settings", "optional": true}});
    let settings = ("base/c.yaml", cm("settings"));
    let elsewhere = ("base/c.yaml", super::cluster::in_namespace(cm("settings"), "elsewhere"));
    let mut before = TestCluster::new(&apart(&mounts("settings"), std::slice::from_ref(&settings)));
    before.snapshot.types.push(testing::resource_type("apps", "Deployment", "deployments", true));
    before.snapshot.normalise();
    let count = |after: Files| said(&before, &after).0.len();
    assert_eq!(count(apart(&mounts("settings"), &[])), 1);
    let namespace = ("base/d.yaml", super::cluster::cluster_scoped("Namespace", "elsewhere"));
    let elsewhere = apart(&mounts("settings"), &[elsewhere, namespace]);
    assert_eq!(count(elsewhere), 1, "one of the same name in another namespace");
    assert_eq!(count(apart(&optional, &[])), 0, "it may be absent");
    assert_eq!(count(apart(&mounts("settings-2"), &[("base/c.yaml", cm("settings-2"))])), 0, "it is replaced");
    let moved = ("apps/c.yaml", cm("settings"));
    assert_eq!(count(apart(&mounts("settings"), &[moved])), 0, "another owner has it");
    let mut both = apart(&mounts("settings"), &[]);
    both[1].1 = vec![cm("rest")];
    assert_eq!(count(both), 0, "the Deployment goes, too");
}

#[test]
fn an_object_that_is_applied_only_if_it_is_absent_counts_as_it_is() {
    let files = |volumes: &Value, ssa: &str| {
        let mut web = deployment(volumes);
        web["metadata"]["annotations"] = json!({"kustomize.toolkit.fluxcd.io/ssa": ssa});
        let mut files = application(volumes != &json!([]), volumes);
        files[1].1[0] = web;
        files
    };
    for (ssa, expected) in [("IfNotPresent", 1), ("Override", 0)] {
        let mut cluster = cluster();
        let live = deployment(&json!([{"configMap": {"name": "settings"}}]));
        let object = cluster.snapshot.objects.iter().find(|object| object.id.is("apps", "Deployment")).unwrap().clone();
        let live = crate::kubernetes::object::Resource { object, content: live };
        cluster.snapshot.referrers = Some(crate::kubernetes::referrer::Referrer::of_live(&live).into_iter().collect());
        let (alarms, _) = said(&cluster, &files(&json!([]), ssa));
        let settings = alarms.iter().filter(|alarm| alarm.contains("configmap/settings"));
        assert_eq!(settings.count(), expected, "{ssa}: {alarms:?}");
    }
}

#[test]
fn what_the_commit_removes_with_its_references_is_not_needed() {
    let cluster = cluster();
    let mut after = application(false, &json!([]));
    after[1].1.retain(|manifest| manifest["kind"] != "Ingress");
    let (alarms, rows) = said(&cluster, &after);
    assert_eq!((alarms.len(), rows.len()), (0, 4), "{alarms:?}");
}

#[test]
fn kinds_whose_references_are_not_known_are_named_if_they_could_need_what_goes() {
    let canary =
        object("flagger.app/v1beta1", "Canary", "web", &json!({"targetRef": {"kind": "Deployment", "name": "web"}}));
    let files = |more: Vec<Value>| -> Files {
        vec![
            ("root/apps.yaml", vec![ks("apps", "./apps", json!({}))]),
            ("apps/a.yaml", [vec![canary.clone(), cm("other")], more].concat()),
        ]
    };
    let rule = object("monitoring.example.com/v1", "Rule", "r", &json!({}));
    let mut cluster = TestCluster::new(&files(vec![deployment(&json!([])), rule.clone()]));
    for (group, kind, plural) in [
        ("apps", "Deployment", "deployments"),
        ("flagger.app", "Canary", "canaries"),
        ("monitoring.example.com", "Rule", "rules"),
    ] {
        cluster.snapshot.types.push(testing::resource_type(group, kind, plural, true));
    }
    cluster.snapshot.normalise();
    let named = |after: &Files| {
        let plan = finished(cluster.plan(after), &cluster.snapshot, &SecretMask::default());
        assert_eq!(plan.deletions().count(), 1, "{plan:?}");
        plan.unknown_referrers().into_iter().filter(|kind| kind.contains("flagger.app")).count()
    };
    assert_eq!(named(&files(vec![rule])), 1, "the Deployment goes");
    assert_eq!(named(&files(vec![deployment(&json!([]))])), 0, "nothing that is known goes");
}

#[test]
fn an_owner_that_is_blocked_for_what_it_lacks_says_it_once() {
    let dependant = |more| ks("dependant", "./apps", more);
    let base = ks("base", "./base", json!({}));
    let depends = json!({"dependsOn": [{"name": "base"}]});
    let files = |root: Vec<Value>| -> Files {
        vec![("root/apps.yaml", root), ("apps/a.yaml", vec![cm("a")]), ("base/b.yaml", vec![cm("b")])]
    };
    let cluster = TestCluster::new(&files(vec![base, dependant(depends.clone())]));
    let after = files(vec![dependant(depends)]);
    let plan = finished(cluster.plan(&after), &cluster.snapshot, &SecretMask::default());
    assert!(plan.deletions().count() > 0, "{plan:?}");
    assert_eq!(said(&cluster, &after).0, [""; 0]);
}

#[test]
fn a_pod_on_a_node_keeps_a_claim_and_its_volume() {
    let mut cluster = cluster();
    let claim = cluster.object("data");
    claim.finalizers = ["kubernetes.io/pvc-protection".into()].into();
    let uid = claim.uid.clone();
    let pod = testing::object("", "Pod", NS, "by-hand");
    let content = json!({"spec": {"nodeName": "node", "volumes": volumes()}});
    let live = crate::kubernetes::object::Resource { object: pod.clone(), content };
    cluster.snapshot.referrers = Some(crate::kubernetes::referrer::Referrer::of_live(&live).into_iter().collect());
    let mut volume = testing::object("", "PersistentVolume", "", "pv");
    volume.finalizers = ["kubernetes.io/pv-protection".into()].into();
    volume.annotations = [("pv.kubernetes.io/provisioned-by", "csi.example.com")].into_iter().collect();
    let bound = json!({"namespace": NS, "name": "data", "uid": uid});
    let spec = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete", "claimRef": bound}});
    cluster.snapshot.objects.extend([pod, volume.clone()]);
    cluster.snapshot.resources.push(crate::kubernetes::object::Resource { object: volume, content: spec });
    cluster.snapshot.normalise();
    let mut after = application(false, &json!([]));
    after[1].1.retain(|manifest| manifest["kind"] != "Ingress");
    let plan = finished(cluster.plan(&after), &cluster.snapshot, &SecretMask::default());
    let blocked: Vec<String> = plan
        .blocked_by_finalizers()
        .iter()
        .map(|blocked| format!("{} by {}", blocked.object.name, blocked.finalizers.join(",")))
        .collect();
    assert_eq!(blocked, ["pv by kubernetes.io/pv-protection", "data by kubernetes.io/pvc-protection"]);
    let rows: Vec<String> =
        plan.deletions().map(|change| format!("{}: {}", change.object.id.name, change.reason.text())).collect();
    let kept = "data: kept terminating while Pod by-hand mounts it".to_owned();
    assert!(rows.contains(&kept), "{rows:#?}");
    assert!(rows.iter().any(|row| row.starts_with("pv: ") && row.ends_with("once the claim is gone")), "{rows:#?}");
}

#[test]
fn what_a_finalizer_keeps_is_not_created_again_before_it_is_gone() {
    let claim = object("v1", "PersistentVolumeClaim", "data", &json!({}));
    let files = |owner: &str| -> Files {
        let inside = ["inside-held", "inside-free"].map(|name| in_namespace(cm(name), "shop"));
        vec![
            ("root/k.yaml", vec![ks(owner, "./apps", json!({})), ks(&format!("{owner}-2"), "./other", json!({}))]),
            ("apps/a.yaml", vec![claim.clone(), cm("held"), cm("free")]),
            ("other/a.yaml", vec![cm("beside"), cluster_scoped("Namespace", "shop")]),
            ("other/b.yaml", inside.to_vec()),
        ]
    };
    let mut cluster = TestCluster::new(&files("old"));
    cluster.snapshot.types.push(testing::resource_type("", "PersistentVolumeClaim", "persistentvolumeclaims", true));
    cluster.object("data").finalizers = ["kubernetes.io/pvc-protection".into()].into();
    for name in ["held", "inside-held"] {
        cluster.object(name).finalizers = ["example.com/hold".into()].into();
    }
    let pod = testing::object("", "Pod", NS, "by-hand");
    let content = json!({"spec": {"nodeName": "node", "volumes": volumes()}});
    let live = crate::kubernetes::object::Resource { object: pod.clone(), content };
    cluster.snapshot.referrers = Some(crate::kubernetes::referrer::Referrer::of_live(&live).into_iter().collect());
    cluster.snapshot.objects.push(pod);
    cluster.snapshot.normalise();
    let plan = finished(cluster.plan(&files("new")), &cluster.snapshot, &SecretMask::default());
    let row = |name: &str| {
        let change = plan.deletions().find(|change| &*change.object.id.name == name).expect("a row");
        (change.action, change.certainty, change.reason.text())
    };
    let again = "it is not created again while";
    let kept = format!("{again} it is terminating; kept terminating while Pod by-hand mounts it");
    assert_eq!(row("data"), (Action::Delete, Certainty::Certain, kept));
    let (action, certainty, text) = row("held");
    assert_eq!((action, certainty), (Action::Recreate, Certainty::Race), "{text}");
    assert!(text.ends_with(&format!("{again} its finalizers keep it")), "{text}");
    let waits = "nothing more is applied until namespace/shop is gone, whose deletion waits for the finalizers of configmap/inside-held";
    for name in ["inside-held", "shop", "inside-free", "beside"] {
        let (action, certainty, text) = row(name);
        assert_eq!((action, certainty), (Action::Delete, Certainty::Race), "{name}: {text}");
        assert!(text.contains(waits), "{name}: {text}");
    }
    let moved: Vec<&str> =
        plan.deletions().filter(|change| change.is_moved_with_loss()).map(|change| &*change.object.id.name).collect();
    assert_eq!(moved, ["beside", "free", "held", "inside-free", "inside-held", "shop"], "the claim does not come back");
    assert_eq!((row("free").0, row("free").1), (Action::Recreate, Certainty::Certain));
}

#[test]
fn what_a_release_with_an_unknown_chart_may_change_raises_no_alarm() {
    let release = |map: &str| {
        let source = json!({"kind": "HelmRepository", "name": "charts"});
        let chart = json!({"spec": {"chart": "web", "version": "1.0.0", "sourceRef": source}});
        let spec = json!({"interval": "1h", "values": {"map": map}, "chart": chart});
        object("helm.toolkit.fluxcd.io/v2", "HelmRelease", "web", &spec)
    };
    let files = |named: &str, map: &str| -> Files {
        let manifests = vec![release(named), cm("other"), cm(map)];
        vec![("root/apps.yaml", vec![ks("apps", "./apps", json!({}))]), ("apps/a.yaml", manifests)]
    };
    let mut cluster = TestCluster::new(&files("settings", "settings"));
    cluster.snapshot.types.push(testing::resource_type("apps", "Deployment", "deployments", true));
    let web = testing::object("apps", "Deployment", NS, "web");
    let content = deployment(&json!([{"configMap": {"name": "settings"}}]));
    let live = crate::kubernetes::object::Resource { object: web.clone(), content };
    cluster.snapshot.referrers = Some(crate::kubernetes::referrer::Referrer::of_live(&live).into_iter().collect());
    cluster.snapshot.objects.push(web);
    let mut releases = cluster.snapshot.resources.iter_mut();
    let full = releases.find(|full| &*full.object.id.kind == "HelmRelease").expect("the release is live");
    let entry = json!({"id": format!("{NS}_web_apps_Deployment"), "v": "v1"});
    full.content["status"]["inventory"] = json!({ "entries": [entry] });
    cluster.snapshot.normalise();
    let web = "deployment.apps/web -n flux-system mounts it";
    let (alarms, rows) = said(&cluster, &files("new", "new"));
    assert_eq!(alarms, [""; 0]);
    let perhaps = format!("still needed unless helmrelease/web -n flux-system changes that: {web}");
    assert_eq!(rows, [format!("settings: not-in-build: {perhaps}")]);
    let (alarms, _) = said(&cluster, &files("settings", "new"));
    let certain = format!("this deletes configmap/settings -n flux-system, which is still needed: {web}");
    assert_eq!(alarms, [certain], "the release does not change");
}
