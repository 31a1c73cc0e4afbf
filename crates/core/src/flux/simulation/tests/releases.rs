//! Releases that are uninstalled: because their HelmRelease is deleted, or because their target changes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cm, ks, set};
use super::unfollowed::{cluster, release};
use crate::ownership::schemes::helm::RELEASE_NAME;
use crate::plan::{Action, Certainty, Outcome, Plan};
use crate::testing::resource_type;

const KEEP: &str = "helm.sh/resource-policy";

pub(super) fn tree(spec: Value) -> Files {
    vec![("root/x.yaml", vec![cm("x")]), ("root/a.yaml", vec![release(spec)])]
}

/// Returns Helm's record of the release `app`.
pub(super) fn record() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
        "name": "sh.helm.release.v1.app.v1", "namespace": NS, "labels": {"owner": "helm", "name": "app"}}})
}

/// Returns a cluster with a release of the ConfigMaps `web` and `kept`, a ConfigMap that `web` owns, and Helm's
/// record.
pub(super) fn installed(spec: Value) -> TestCluster {
    installed_from(&tree(spec))
}

/// Returns such a cluster after these files were applied, which have the HelmRelease `app`.
fn installed_from(files: &Files) -> TestCluster {
    let mut cluster = cluster(files, true);
    cluster.add(&cm("web"), None);
    cluster.add(&cm("kept"), None);
    let kept = cluster.object("kept");
    kept.annotations = [(KEEP, "keep"), (RELEASE_NAME, "app")].into_iter().collect();
    let owner = cluster.object("web").uid.clone();
    cluster.add(&cm("dependent"), None);
    let reference = crate::kubernetes::object::OwnerReference {
        group: "".into(),
        kind: "ConfigMap".into(),
        name: "web".into(),
        uid: owner,
        controller: false,
        block_owner_deletion: false,
    };
    cluster.object("dependent").owner_references = vec![reference];
    cluster.add(&record(), None);
    let entries = ["flux-system_web__ConfigMap", "flux-system_kept__ConfigMap"].map(|id| json!({"id": id, "v": "v1"}));
    cluster.kustomization("app").content["status"]["inventory"]["entries"] = json!(entries);
    cluster.snapshot.normalise();
    cluster
}

fn outcome(plan: &Plan) -> (Outcome, String) {
    let row = plan.owners().iter().find(|row| row.owner.kind == "HelmRelease").unwrap();
    (row.outcome, row.reason.to_string())
}

pub(super) const UNINSTALLED: [&str; 4] =
    ["delete web", "delete dependent", "keep kept", "delete sh.helm.release.v1.app.v1"];

#[test]
fn a_suspension_that_the_commit_changes_may_come_before_the_deletion() {
    // The renamed parent reconciles the new revision before it is deleted.
    let files = |parent: &str, suspend: bool| -> Files {
        let child = ks(parent, "./p", json!({}));
        vec![("root/k.yaml", vec![child]), ("p/a.yaml", vec![release(json!({"suspend": suspend}))])]
    };
    for (before, after, expected) in [(true, true, None), (true, false, Some(true)), (false, true, Some(true))] {
        let plan = installed_from(&files("k", before)).plan(&files("other", after));
        let row = plan.deletions().find(|row| &*row.object.id.name == "web");
        assert_eq!(row.map(|row| row.certainty == Certainty::Race), expected, "{before} {after}");
        if let Some(row) = row {
            assert!(row.reason.text().contains("is suspended when it is deleted"), "{}", row.reason);
        }
    }
}

#[test]
fn another_helmrelease_with_the_release_installs_it_again() {
    let rows = |spec: Value| {
        let mut other = release(spec);
        other["metadata"]["name"] = "two".into();
        let before: Files = [tree(json!({})), vec![("root/b.yaml", vec![other.clone()])]].concat();
        let mut cluster = installed_from(&before);
        let status = cluster.kustomization("app").content["status"].clone();
        cluster.kustomization("two").content["status"] = status;
        cluster.rows(&vec![("root/x.yaml", vec![cm("x")]), ("root/b.yaml", vec![other])])
    };
    let again = ["delete app", "recreate web", "delete dependent", "keep kept", "recreate sh.helm.release.v1.app.v1"];
    assert_eq!(rows(json!({"releaseName": "app"})), set(&again));
    let mut gone = set(&UNINSTALLED);
    gone.extend(set(&["delete app"]));
    assert_eq!(rows(json!({"releaseName": "app", "suspend": true})), gone);
    assert_eq!(rows(json!({"releaseName": "app", "storageNamespace": "other"})), gone);
}

#[test]
fn a_refused_deletion_lets_the_uninstall_fail_after_the_other_deletions() {
    let gone: Files = vec![("root/x.yaml", vec![cm("x")])];
    let record = "sh.helm.release.v1.app.v1";
    let plan = |spec: Value, refused: &[(&'static str, &'static str)]| {
        let mut cluster = installed(spec);
        cluster.upgrades = Some(refused.iter().copied().collect());
        (cluster.rows(&gone), cluster.plan(&gone))
    };
    let (rows, refused) = plan(json!({}), &[("web", "forbidden")]);
    let held = ["delete app", "keep web", "keep kept", "keep sh.helm.release.v1.app.v1"];
    assert_eq!(rows, set(&held));
    let (outcome, reason) = outcome(&refused);
    assert_eq!(outcome, Outcome::Deleted);
    assert!(reason.starts_with("owner-stuck: ") && reason.ends_with("web -n flux-system: forbidden"), "{reason}");
    let row = |plan: &Plan, name: &str| {
        plan.changes().iter().find(|row| &*row.object.id.name == name).unwrap().reason.to_string()
    };
    assert_eq!(row(&refused, "web"), "deletion-refused: forbidden");
    assert!(row(&refused, record).starts_with("held-back: the uninstall fails: "), "{}", row(&refused, record));
    let (rows, _) = plan(json!({}), &[(record, "forbidden")]);
    let purged = ["delete app", "delete web", "delete dependent", "keep kept", "keep sh.helm.release.v1.app.v1"];
    assert_eq!(rows, set(&purged));
    let (rows, accepted) = plan(json!({}), &[]);
    let mut all = set(&UNINSTALLED);
    all.extend(set(&["delete app"]));
    assert_eq!(rows, all);
    assert!(accepted.owners().iter().all(|row| row.owner.kind != "HelmRelease"));
}

#[test]
fn a_hook_that_cannot_be_replaced_stops_the_uninstall() {
    let gone: Files = vec![("root/x.yaml", vec![cm("x")])];
    let mut cluster = installed(json!({}));
    for (name, event) in [("before", "pre-delete"), ("after", "post-delete")] {
        cluster.add(&cm(name), None);
        let hook = cluster.object(name);
        hook.annotations = [("helm.sh/hook", event)].into_iter().collect();
        let labels = [("helm.toolkit.fluxcd.io/name", "app"), ("helm.toolkit.fluxcd.io/namespace", NS)];
        hook.labels = labels.into_iter().collect();
    }
    cluster.snapshot.normalise();
    let mut rows = |refused: &'static str| {
        cluster.upgrades = Some([(refused, "forbidden")].into());
        cluster.rows(&gone)
    };
    assert_eq!(
        rows("before"),
        set(&["delete app", "keep before", "keep web", "keep kept", "keep sh.helm.release.v1.app.v1"])
    );
    let without_last = ["delete app", "recreate before", "keep web", "keep kept", "keep sh.helm.release.v1.app.v1"];
    assert_eq!(rows("web"), set(&without_last));
    let mut all = set(&UNINSTALLED);
    all.extend(set(&["delete app", "recreate before", "keep after"]));
    assert_eq!(rows("after"), all, "the records go, and the next try finds no release");
}

#[test]
fn rights_that_go_with_a_release_make_its_uninstall_a_race() {
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant", "namespace": NS}});
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "tenant"}});
    let files =
        |objects: Vec<Value>| -> Files { vec![("root/x.yaml", objects), ("root/s.yaml", vec![account.clone()])] };
    let spec = json!({"serviceAccountName": "tenant"});
    let cluster = installed_from(&files(vec![release(spec.clone()), role.clone()]));
    let certainty = |objects: Vec<Value>| {
        let plan = cluster.plan(&files(objects));
        plan.deletions().find(|row| &*row.object.id.name == "web").unwrap().certainty
    };
    assert_eq!(certainty(vec![role]), Certainty::Certain);
    assert_eq!(certainty(vec![cm("x")]), Certainty::Race);
}

#[test]
fn an_account_that_may_be_missing_decides_the_uninstall_and_not_the_helm_chart() {
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant", "namespace": NS}});
    let chart = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart",
        "metadata": {"name": "flux-system-app", "namespace": NS}, "spec": {"chart": "app"}});
    let spec = json!({"serviceAccountName": "tenant"});
    let certainties = |is_there: bool, objects: &[Value]| {
        let all = |more: &[Value]| -> Files { vec![("root/x.yaml", [&[cm("x")], more].concat())] };
        let own = [release(spec.clone())];
        let before = if is_there { [&own[..], std::slice::from_ref(&account)].concat() } else { own.to_vec() };
        let mut cluster = installed_from(&all(&before));
        cluster.add(&chart, None);
        cluster.kustomization("app").content["status"]["helmChart"] = format!("{NS}/flux-system-app").into();
        cluster.snapshot.normalise();
        let plan = cluster.plan(&all(objects));
        let of = |name: &str| plan.deletions().find(|row| &*row.object.id.name == name).map(|row| row.certainty);
        (of("web"), of("flux-system-app"))
    };
    let [certain, race] = [Some(Certainty::Certain), Some(Certainty::Race)];
    assert_eq!(certainties(false, std::slice::from_ref(&account)), (race, certain), "it is created first");
    assert_eq!(certainties(true, &[]), (race, certain), "it may be deleted first");
    assert_eq!(certainties(true, std::slice::from_ref(&account)), (certain, certain));
    assert_eq!(certainties(false, &[]), (None, certain));
}

#[test]
fn a_release_in_another_cluster_is_uninstalled_there() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "spoke", "namespace": NS}});
    let remote = json!({"kubeConfig": {"secretRef": {"name": "spoke"}}});
    let with = |objects: Vec<Value>| -> Files { vec![("root/x.yaml", objects), ("root/s.yaml", vec![secret.clone()])] };
    let before = with(vec![release(remote.clone())]);
    let mut found = installed_from(&before);
    let unread = found.plan(&with(vec![cm("x")]));
    assert!(!unread.is_complete() && unread.deletions().count() == 1, "the cluster was not read: {:?}", unread.gaps());
    found.move_to_spoke_if(|object| {
        ["web", "kept", "dependent", "sh.helm.release.v1.app.v1"].contains(&&*object.id.name)
    });
    let plan = found.plan(&with(vec![cm("x")]));
    assert!(plan.is_complete(), "{:?}", plan.gaps());
    let there = plan.changes().iter().filter(|row| row.object.id.cluster.is_some());
    let there: BTreeSet<String> = there.map(|row| format!("{} {}", row.action, row.object.id.name)).collect();
    assert_eq!(there, set(&UNINSTALLED));
    // The finalizer of helm-controller needs the kubeconfig.
    found.snapshot.objects.retain(|object| &*object.id.name != "spoke");
    let blocked = found.plan(&vec![("root/x.yaml", vec![cm("x")])]);
    let deletions = blocked.deletions().filter(|row| row.object.id.cluster.is_some());
    assert_eq!(deletions.count(), 0, "{:?}", blocked.changes());
}

#[test]
fn a_changed_name_storage_namespace_or_chart_replaces_the_release() {
    let chart = |name: &str| json!({"chart": {"spec": {"chart": name, "sourceRef": {"name": "charts"}}}});
    let rows = [
        (json!({}), json!({"releaseName": "other"}), "release name"),
        (json!({}), json!({"storageNamespace": "elsewhere"}), "storage namespace"),
    ];
    for (before, after, part) in rows {
        let cluster = installed(before);
        assert_eq!(cluster.rows(&tree(after.clone())), set(&UNINSTALLED), "{after}");
        let plan = cluster.plan(&tree(after));
        assert!(plan.is_complete(), "{:?}", plan.gaps());
        let (outcome, reason) = outcome(&plan);
        assert_eq!(outcome, Outcome::Applies);
        assert!(reason.starts_with(&format!("release-replaced: its {part} changes")), "{reason}");
    }
    // Nobody knows if the new chart exists. Its release has the name and the revision of the old one.
    let replaced = installed(chart("app")).rows(&tree(chart("other")));
    let raced = ["delete? web", "delete? dependent", "keep kept", "recreate? sh.helm.release.v1.app.v1"];
    assert_eq!(replaced, set(&raced));
    let mut in_place = chart("other");
    in_place["upgrade"] = json!({"chartNameChangeStrategy": "InPlaceUpdate"});
    assert_eq!(installed(chart("app")).rows(&tree(in_place)), set(&["unknown app"]));
}

#[test]
fn a_changed_target_namespace_leaves_open_what_is_deleted_in_the_old_one() {
    let cluster = installed(json!({}));
    let after = tree(json!({"targetNamespace": "other", "releaseName": "app"}));
    let rows = ["unknown app", "unknown web", "unknown dependent", "keep kept", "recreate sh.helm.release.v1.app.v1"];
    assert_eq!(cluster.rows(&after), set(&rows));
    assert_eq!(cluster.plan(&after).gaps().len(), 1);
}

#[test]
fn an_object_with_the_same_name_in_the_new_namespace_may_be_deleted() {
    let mut cluster = installed(json!({}));
    for name in ["web", "kept", "foreign"] {
        let mut manifest = cm(name);
        manifest["metadata"]["namespace"] = "other".into();
        cluster.add(&manifest, None);
    }
    cluster.snapshot.normalise();
    let plan = cluster.plan(&tree(json!({"targetNamespace": "other", "releaseName": "app"})));
    let rows = plan.changes().iter().filter(|row| &*row.object.id.namespace == "other");
    let rows: Vec<String> = rows.map(|row| format!("{} {}", row.action, row.object.id)).collect();
    assert_eq!(rows, ["unknown configmap/web -n other"]);
    assert!(!plan.is_complete());
}

#[test]
fn the_chart_in_the_tree_tells_its_name() {
    let spec =
        json!({"chart": {"spec": {"chart": "./charts/app", "sourceRef": {"kind": "GitRepository", "name": "repo"}}}});
    let with = |name: &str| {
        let mut files = tree(spec.clone());
        files.push(("charts/app/Chart.yaml", vec![json!({"apiVersion": "v2", "name": name, "version": "1"})]));
        files
    };
    let mut cluster = installed(spec.clone());
    cluster.history = Some(with("app"));
    let rows = ["delete web", "delete dependent", "keep kept", "recreate sh.helm.release.v1.app.v1"];
    assert_eq!(cluster.rows(&with("other")), set(&rows));
    assert_eq!(cluster.rows(&with("app")), set(&[]));
}

#[test]
fn conditions_of_a_replacement_are_races_in_words() {
    let raced = |change: &dyn Fn(&mut TestCluster), more: Value| {
        let mut cluster = installed(json!({}));
        change(&mut cluster);
        let mut spec = json!({"releaseName": "other"});
        more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
        let plan = cluster.plan(&tree(spec));
        plan.changes().iter().find(|row| &*row.object.id.name == "web").unwrap().reason.text()
    };
    let nothing = |_: &mut TestCluster| {};
    assert!(!raced(&nothing, json!({})).contains("race"));
    let dependent = raced(&nothing, json!({"dependsOn": [{"name": "db"}]}));
    assert!(
        dependent.contains("race: it waits until helmrelease.helm.toolkit.fluxcd.io/db -n flux-system"),
        "{dependent}"
    );
    let values = raced(&nothing, json!({"valuesFrom": [{"kind": "ConfigMap", "name": "missing"}]}));
    assert!(values.contains("race: it waits until configmap/missing"), "{values}");
    let blocked = raced(
        &|cluster| {
            let ready = json!([{"type": "Ready", "status": "False", "reason": "SourceNotReady"}]);
            cluster.kustomization("app").content["status"]["conditions"] = ready;
        },
        json!({}),
    );
    assert!(blocked.contains("race: it waits until this is resolved: SourceNotReady"), "{blocked}");
}

#[test]
fn a_suspended_release_is_not_replaced_and_one_that_is_resumed_is() {
    let cluster = installed(json!({"suspend": true}));
    assert_eq!(cluster.rows(&tree(json!({"suspend": true, "releaseName": "other"}))), set(&[]));
    assert_eq!(cluster.rows(&tree(json!({"releaseName": "other"}))), set(&UNINSTALLED));
}

#[test]
fn fields_of_other_managers_stay_part_of_the_target() {
    let mut cluster = installed(json!({}));
    let entry = crate::kubernetes::object::ManagedFieldsEntry {
        manager: "k9s".into(),
        spec: Some(Box::new(json!({"f:releaseName": {}}))),
        ..Default::default()
    };
    let release = cluster.kustomization("app");
    release.object.managed_fields = vec![entry];
    release.content["spec"]["releaseName"] = "app".into();
    assert_eq!(cluster.rows(&tree(json!({"interval": "5m"}))), set(&[]));
}

#[test]
fn a_deleted_release_honours_its_uninstall_options() {
    let gone: Files = vec![("root/x.yaml", vec![cm("x")])];
    let rows = |spec: Value| installed(spec).rows(&gone);
    let with = |more: &[&str]| set(&[&["delete app", "keep kept"], more].concat());
    let record = "delete sh.helm.release.v1.app.v1";
    assert_eq!(rows(json!({})), with(&["delete web", "delete dependent", record]));
    assert_eq!(rows(json!({"uninstall": {"keepHistory": true}})), with(&["delete web", "delete dependent"]));
    assert_eq!(rows(json!({"uninstall": {"deletionPropagation": "orphan"}})), with(&["delete web", record]));
    assert_eq!(rows(json!({"suspend": true})), set(&["delete app"]));
    assert_eq!(rows(json!({"serviceAccountName": "missing"})), set(&["delete app"]));
}

#[test]
fn a_release_without_an_account_has_the_default_of_helm_controller() {
    let gone: Files = vec![("root/x.yaml", vec![cm("x")])];
    let rows = |account: &str, spec: Value| {
        let mut cluster = installed(spec);
        cluster.helm_controller.default_service_account = Some(account.to_owned());
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "team", "namespace": NS}});
        cluster.add(&account, None);
        cluster.snapshot.normalise();
        cluster.rows(&gone)
    };
    let all = [&UNINSTALLED[..], &["delete app"]].concat();
    assert_eq!(rows("missing", json!({})), set(&["delete app"]));
    assert_eq!(rows("missing", json!({"serviceAccountName": "team"})), set(&all));
    assert_eq!(rows("team", json!({})), set(&all));
}

#[test]
fn a_release_that_is_uninstalled_already_loses_its_records_only() {
    let rows = |keeps_history: bool, after: Option<&str>| {
        let with = |name: Option<&str>| {
            let mut spec = json!({"uninstall": {"keepHistory": keeps_history}});
            spec["releaseName"] = name.into();
            tree(spec)
        };
        let mut cluster = installed_from(&with(None));
        cluster.kustomization("app").content["status"]["history"][0]["status"] = "uninstalled".into();
        let gone = || vec![("root/x.yaml", vec![cm("x")])];
        cluster.rows(&after.map_or_else(gone, |name| with(Some(name))))
    };
    let record = "sh.helm.release.v1.app.v1";
    let stay = ["keep web", "keep kept"];
    assert_eq!(rows(true, None), set(&[&["delete app"][..], &stay].concat()));
    assert_eq!(rows(false, None), set(&[&["delete app", &format!("delete {record}")][..], &stay].concat()));
    assert_eq!(rows(false, Some("other")), set(&[&[&*format!("delete {record}")][..], &stay].concat()));
}

#[test]
fn a_definition_that_goes_with_a_release_makes_its_uninstall_a_race() {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.e.com"}, "spec": {"group": "e.com", "names": {"kind": "Widget"}}});
    let mut files = tree(json!({}));
    files.push(("root/d.yaml", vec![definition]));
    let mut cluster = installed_from(&files);
    let definitions = ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions");
    cluster.snapshot.types.push(resource_type(definitions.0, definitions.1, definitions.2, false));
    cluster.snapshot.types.push(resource_type("e.com", "Widget", "widgets", true));
    let widget = json!({"apiVersion": "e.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": NS}});
    cluster.add(&widget, None);
    for (name, event) in [("first", "pre-delete"), ("last", "post-delete")] {
        cluster.add(&cm(name), None);
        let hook = cluster.object(name);
        hook.annotations = [("helm.sh/hook", event)].into_iter().collect();
        let labels = [("helm.toolkit.fluxcd.io/name", "app"), ("helm.toolkit.fluxcd.io/namespace", NS)];
        hook.labels = labels.into_iter().collect();
    }
    let status = &mut cluster.kustomization("app").content["status"];
    let entry = json!({"id": format!("{NS}_w_e.com_Widget"), "v": "v1"});
    status["inventory"]["entries"].as_array_mut().unwrap().push(entry);
    cluster.snapshot.normalise();
    let both: Files = vec![("root/x.yaml", vec![cm("x")])];
    let record = "sh.helm.release.v1.app.v1";
    let after = ["delete? web", "delete? dependent", "recreate? last", &format!("delete? {record}")];
    let at_once = ["delete app", "delete widgets.e.com", "delete w", "recreate first", "keep kept"];
    assert_eq!(cluster.rows(&both), set(&[&at_once[..], &after].concat()));
    let plan = cluster.plan(&both);
    let web = plan.deletions().find(|row| &*row.object.id.name == "web").unwrap();
    let why = "it stays if the definition of widget.e.com is gone before Helm reads the manifest of the release";
    assert!(web.reason.text().contains(why), "{}", web.reason);
    let app = plan.deletions().find(|row| &*row.object.id.name == "app").unwrap();
    let why = "it stays Terminating if the definition of widget.e.com is gone";
    assert!(app.certainty == Certainty::Certain && app.reason.text().contains(why), "{}", app.reason);
    let alone: Files = vec![("root/x.yaml", vec![cm("x")]), files.pop().unwrap()];
    assert!(cluster.rows(&alone).contains("delete web"));
    let renamed: Files =
        vec![("root/x.yaml", vec![cm("x")]), ("root/a.yaml", vec![release(json!({"releaseName": "b"}))])];
    assert!(cluster.rows(&renamed).contains("delete? web"));
}

#[test]
fn a_release_without_a_record_of_helm_is_not_uninstalled() {
    let mut cluster = installed(json!({}));
    cluster.snapshot.objects.retain(|object| !object.id.is("", "Secret"));
    assert_eq!(cluster.rows(&vec![("root/x.yaml", vec![cm("x")])]), set(&["delete app"]));
}

/// Returns a cluster with a release whose HelmChart exists, made for the HelmRepository `charts` in a namespace.
fn with_chart(spec: &Value, namespace: &str) -> TestCluster {
    let mut cluster = installed(spec.clone());
    let chart = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart",
        "metadata": {"name": "flux-system-app", "namespace": namespace}, "spec": {"chart": "app"}});
    cluster.add(&chart, None);
    cluster.kustomization("app").content["status"]["helmChart"] = format!("{namespace}/flux-system-app").into();
    cluster.snapshot.normalise();
    cluster
}

fn of_repository(namespace: &str) -> Value {
    let source = json!({"kind": "HelmRepository", "name": "charts", "namespace": namespace});
    json!({"chart": {"spec": {"chart": "app", "sourceRef": source}}})
}

#[test]
fn a_release_deletes_its_helm_chart_whatever_else_becomes_of_it() {
    let reference = json!({"chartRef": {"kind": "OCIRepository", "name": "c"}});
    let with = |mut spec: Value, more: Value| {
        more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
        spec
    };
    let row = |before: Value, after: Value| {
        let plan = with_chart(&before, NS).plan(&tree(after));
        let found = plan.changes().iter().find(|row| &*row.object.id.name == "flux-system-app");
        found.map(|row| (row.action, row.certainty))
    };
    let deleted = Some((Action::Delete, Certainty::Certain));
    let before = of_repository(NS);
    assert_eq!(row(before.clone(), reference.clone()), deleted, "its new chart is not known");
    assert_eq!(
        row(before.clone(), with(reference.clone(), json!({"releaseName": "other"}))),
        deleted,
        "it is replaced"
    );
    let waits = json!({"dependsOn": [{"name": "missing"}]});
    assert_eq!(row(before.clone(), with(reference.clone(), waits)), deleted, "a dependency does not exist");
    assert_eq!(row(before.clone(), with(reference.clone(), json!({"suspend": true}))), None);
    assert_eq!(row(before.clone(), of_repository("other")), deleted, "its source is in another namespace");
    assert_eq!(row(before.clone(), with(before.clone(), json!({"releaseName": "other"}))), None);
    let suspended = with(reference.clone(), json!({"suspend": true}));
    assert_eq!(row(suspended, reference), deleted, "its spec changed while it was suspended");
}

#[test]
fn helm_controller_may_not_use_or_delete_charts_of_other_namespaces_if_its_flags_say_so() {
    let plan = |before: &str, after: Option<Value>| {
        let mut cluster = with_chart(&of_repository(before), before);
        cluster.helm_controller.no_cross_namespace_refs = true;
        let gone = || vec![("root/x.yaml", vec![cm("x")])];
        let files = after.map_or_else(gone, tree);
        (cluster.rows(&files), outcome(&cluster.plan(&files)))
    };
    let mut renamed = of_repository("other");
    renamed["releaseName"] = "other".into();
    let (rows, (outcome, reason)) = plan(NS, Some(renamed));
    assert_eq!((rows, outcome), (set(&["delete flux-system-app"]), Outcome::Blocked));
    assert!(reason.contains("access-denied: ") && reason.contains("--no-cross-namespace-refs"), "{reason}");
    let (rows, (outcome, reason)) = plan("other", None);
    let all = [&UNINSTALLED[..], &["delete app", "keep flux-system-app"]].concat();
    assert_eq!((rows, outcome), (set(&all), Outcome::Deleted));
    assert!(
        reason.starts_with("owner-stuck: it is deleted and stays Terminating: helm-controller may not"),
        "{reason}"
    );
}

#[test]
fn a_release_that_no_helm_controller_selects_stays_as_it_is() {
    let shard = |name: &str, spec: Value| {
        let mut release = release(spec);
        release["metadata"]["labels"] = json!({ "shard": name });
        vec![("root/x.yaml", vec![cm("x")]), ("root/a.yaml", vec![release])]
    };
    let renamed = json!({"releaseName": "other"});
    let gone = || vec![("root/x.yaml", vec![cm("x")])];
    let mut cluster = installed_from(&shard("b", json!({})));
    cluster.object("app").labels = cluster.object("app").labels.iter().chain([("shard", "b")]).collect();
    let labels = cluster.object("app").labels.clone();
    cluster.kustomization("app").object.labels = labels;
    let all = [&UNINSTALLED[..], &["delete app"]].concat();
    for (selectors, is_selected) in [(&["shard=b", "!shard"][..], true), (&["!shard"], false)] {
        cluster.helm_controller.watched = selectors.iter().map(|text| (*text).to_owned()).collect();
        let (rows, deleted) = (cluster.rows(&shard("b", renamed.clone())), cluster.rows(&gone()));
        if is_selected {
            assert_eq!((rows, deleted), (set(&UNINSTALLED), set(&all)));
            continue;
        }
        assert_eq!((rows, deleted), (set(&[]), set(&["delete app"])));
        let (outcome_of_change, reason) = outcome(&cluster.plan(&shard("b", renamed.clone())));
        assert!(outcome_of_change == Outcome::Blocked && reason.contains("--watch-label-selector"), "{reason}");
        assert!(outcome(&cluster.plan(&gone())).1.starts_with("owner-stuck: "));
        let raced = ["delete? web", "delete? dependent", "keep kept", "delete? sh.helm.release.v1.app.v1"];
        assert_eq!(cluster.rows(&tree(renamed.clone())), set(&raced), "its labels change");
    }
}
