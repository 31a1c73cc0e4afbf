//! Owners whose effect is not computed: a change that affects what they deploy gives an unknown row and a gap.

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cm, ks};
use super::releases::record;
use crate::flux::build::Interrupt;
use crate::flux::simulation::Preview;
use crate::flux::simulation::kustomization::derivation::Derivation;
use crate::flux::simulation::owners::behaviour::comparison::{Comparison, Part};
use crate::flux::simulation::questions::Answers;
use crate::kubernetes::object::ObjectId;
use crate::plan::{Action, Outcome, Plan};

pub(super) fn flux(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": NS}, "spec": spec})
}

pub(super) fn release(spec: Value) -> Value {
    flux("helm.toolkit.fluxcd.io/v2", "HelmRelease", "app", spec)
}

pub(super) fn source(kind: &str, name: &str, spec: Value) -> Value {
    flux("source.toolkit.fluxcd.io/v1", kind, name, spec)
}

pub(super) fn operator(kind: &str, name: &str, spec: Value) -> Value {
    flux("fluxcd.controlplane.io/v1", kind, name, spec)
}

fn data(kind: &str, name: &str, values: Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": NS}, "data": values})
}

/// A file of any content in a chart or an artifact; a text is YAML too.
fn file(text: &str) -> Vec<Value> {
    vec![json!({"text": text})]
}

/// Status of an owner that is ready and has one object.
pub(super) fn status() -> Value {
    json!({
        "conditions": [{"type": "Ready", "status": "True"}],
        "inventory": {"entries": [{"id": "flux-system_web__ConfigMap", "v": "v1"}]},
        "history": [{"name": "app", "namespace": NS, "chartName": "app", "chartVersion": "1", "version": 1}],
        "storageNamespace": NS,
    })
}

/// Returns a cluster after some files were applied; every owner but Kustomizations is ready and has one object.
pub(super) fn cluster(before: &Files, has_history: bool) -> TestCluster {
    let mut cluster = TestCluster::new(before);
    for full in &mut cluster.snapshot.resources {
        if !full.object.id.is("kustomize.toolkit.fluxcd.io", "Kustomization") && full.at("/spec").is_some() {
            full.content["status"] = status();
        }
    }
    cluster.history = has_history.then(|| before.clone());
    cluster
}

/// Returns the unknown rows as `NAME: REASON`, after checking that each has a gap, and an owner with this outcome.
fn unknown_rows(plan: &Plan) -> Vec<String> {
    let rows = plan.changes().iter().filter(|change| change.action == Action::Unknown);
    let rows: Vec<String> = rows.map(|row| format!("{}: {}", row.object.id.name, row.reason)).collect();
    assert_eq!((plan.gaps().len(), plan.is_complete()), (rows.len(), rows.is_empty()), "{:?}", plan.gaps());
    assert_eq!(plan.summary().unknown, rows.len());
    let unknown = plan.owners().iter().filter(|row| row.outcome == Outcome::Unknown).count();
    assert!(unknown >= rows.len(), "{:?}", plan.owners());
    rows
}

fn unknown(before: &Files, after: &Files) -> Vec<String> {
    unknown_rows(&cluster(before, true).plan(after))
}

/// Returns what the reason of the only unknown row says before the consequence; empty without unknown rows.
fn what(before: &Files, after: &Files) -> String {
    let rows = unknown(before, after);
    assert!(rows.len() < 2, "{rows:?}");
    let text = rows.into_iter().next().unwrap_or_default();
    let (_, reason) = text.split_once("not-followed: ").unwrap_or_default();
    reason.split("; ").next().unwrap_or_default().to_owned()
}

fn root(objects: Vec<Value>) -> Files {
    vec![("root/a.yaml", objects)]
}

#[test]
fn a_changed_release_is_unknown_and_says_why() {
    let with = |tag: &str| root(vec![release(json!({"values": {"image": {"tag": tag}}}))]);
    let expected = "app: not-followed: spec.values changes; its chart is not rendered here, because its release is not deployed and ready: plan again after \
                    kubectl wait helmrelease/app -n flux-system --for=condition=Ready, so its object may be deleted; \
                    would be at stake: 1 object; to find out: helm get manifest app -n flux-system";
    let mut deployed = cluster(&with("1"), true);
    deployed.add(&record(), None);
    deployed.snapshot.normalise();
    assert_eq!(unknown_rows(&deployed.plan(&with("2"))), [expected]);
    assert_eq!(unknown(&with("1"), &with("1")), [""; 0]);
    let plan = deployed.plan(&with("2"));
    let row = plan.owners().iter().find(|row| row.owner.kind == "HelmRelease").unwrap();
    assert_eq!(row.parents.iter().map(|parent| &*parent.name).collect::<Vec<_>>(), ["root"]);
}

#[test]
fn the_live_spec_serves_where_the_last_revision_is_missing() {
    let with = |tag: &str| root(vec![release(json!({"chart": {"spec": {"chart": "a"}}, "values": {"tag": tag}}))]);
    let mut without_history = cluster(&with("1"), false);
    without_history.kustomization("app").content["spec"]["chart"]["spec"]["version"] = "*".into();
    assert_eq!(unknown_rows(&without_history.plan(&with("1"))), [""; 0]);
    assert_eq!(unknown_rows(&without_history.plan(&with("2"))).len(), 1);
}

#[test]
fn metadata_intervals_and_suspension_are_no_change_of_a_release() {
    let before = root(vec![release(json!({"values": {"a": 1}, "interval": "1m"}))]);
    let mut labelled = release(json!({"values": {"a": 1}, "interval": "5m", "timeout": "1m", "suspend": false}));
    labelled["metadata"]["labels"] = json!({"team": "a"});
    assert_eq!(unknown(&before, &root(vec![labelled])), [""; 0]);
    let suspended = root(vec![release(json!({"values": {"a": 1}, "suspend": true}))]);
    assert_eq!(unknown(&before, &suspended), [""; 0]);
    assert_eq!(what(&suspended, &before), "spec.interval changes, it is resumed");
}

#[test]
fn a_suspended_release_is_blocked_and_not_unknown() {
    let with = |tag: &str| root(vec![release(json!({"values": {"tag": tag}, "suspend": true}))]);
    let plan = cluster(&with("1"), true).plan(&with("2"));
    assert!(plan.is_complete());
    let row = plan.owners().iter().find(|row| row.owner.kind == "HelmRelease").unwrap();
    assert_eq!(row.outcome, Outcome::Blocked);
    assert_eq!(row.reason.to_string(), "suspended: spec.values changes; this takes effect once it is resumed");
}

#[test]
fn values_from_config_maps_and_secrets_count() {
    for kind in ["ConfigMap", "Secret"] {
        let from = release(json!({"valuesFrom": [{"kind": kind, "name": "values"}]}));
        let with = |values: Value| root(vec![from.clone(), data(kind, "values", values)]);
        let [one, two] = ["YTogMQ==", "YTogMg=="];
        let before = with(json!({"values.yaml": one}));
        let changed = format!("values.yaml of {}/values -n flux-system changes", kind.to_lowercase());
        assert_eq!(what(&before, &with(json!({"values.yaml": two}))), changed);
        assert_eq!(what(&before, &with(json!({"values.yaml": one, "other": two}))), "", "another key");
        assert!(what(&before, &root(vec![from.clone()])).ends_with("is deleted"));
        assert!(what(&root(vec![from.clone()]), &before).ends_with("is created"));
    }
    let keyed = release(json!({"valuesFrom": [{"kind": "ConfigMap", "name": "values", "valuesKey": "k"}]}));
    let with = |value: &str| root(vec![keyed.clone(), data("ConfigMap", "values", json!({"k": value}))]);
    assert_eq!(what(&with("1"), &with("2")), "k of configmap/values -n flux-system changes");
}

#[test]
fn values_without_an_answer_are_neither_equal_nor_different() {
    let files = root(vec![data("ConfigMap", "values", json!({"k": "1"}))]);
    let cluster = cluster(&files, false);
    let mut preview = Preview::new(cluster.input(&files));
    cluster.finish(|answers| preview.step(answers));
    let (consequences, none) = (preview.consequences(), Answers::default());
    let mut derivation = Derivation::new(&preview.state, &consequences, &none);
    let id = ObjectId::new("", "ConfigMap", NS, "values");
    let difference = Comparison::new(&mut derivation).difference(&id, Part::Data(Some("k")));
    assert!(matches!(difference, Err(Interrupt::Missing)));
    assert_eq!(derivation.needs.data.len(), 1);
}

#[test]
fn values_that_another_kustomization_applies_count() {
    let files = |value: &str| -> Files {
        let from = release(json!({"valuesFrom": [{"kind": "ConfigMap", "name": "values"}]}));
        vec![
            ("root/k.yaml", vec![ks("k", "./k", json!({})), from]),
            ("k/v.yaml", vec![data("ConfigMap", "values", json!({"values.yaml": value}))]),
        ]
    };
    assert_eq!(what(&files("1"), &files("2")), "values.yaml of configmap/values -n flux-system changes");
}

#[test]
fn values_are_compared_with_live_data_where_the_last_revision_is_missing() {
    let from = |kind: &str| release(json!({"valuesFrom": [{"kind": kind, "name": "values"}]}));
    let files = |kind: &str, value: &str| root(vec![from(kind), data(kind, "values", json!({"values.yaml": value}))]);
    let cluster = cluster(&files("ConfigMap", "1"), false);
    assert_eq!(unknown_rows(&cluster.plan(&files("ConfigMap", "1"))), [""; 0]);
    assert_eq!(unknown_rows(&cluster.plan(&files("ConfigMap", "2"))).len(), 1);
}

#[test]
fn the_source_of_a_chart_counts() {
    let chart = json!({"chart": {"spec": {"chart": "a", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}}});
    let with = |spec: Value| root(vec![release(chart.clone()), source("HelmRepository", "charts", spec)]);
    let before = with(json!({"url": "https://a", "interval": "1m"}));
    assert_eq!(
        what(&before, &with(json!({"url": "https://b"}))),
        "helmrepository.source.toolkit.fluxcd.io/charts -n flux-system changes"
    );
    assert_eq!(what(&before, &with(json!({"url": "https://a", "interval": "5m"}))), "");
    for kind in ["OCIRepository", "HelmChart"] {
        let owner = release(json!({"chartRef": {"kind": kind, "name": "s"}}));
        let with = |version: &str| root(vec![owner.clone(), source(kind, "s", json!({"version": version}))]);
        let changed = format!("{}.source.toolkit.fluxcd.io/s -n flux-system changes", kind.to_lowercase());
        assert_eq!(what(&with("1"), &with("2")), changed);
    }
    let owner = release(json!({"chartRef": {"kind": "HelmChart", "name": "c"}}));
    let chart = source("HelmChart", "c", json!({"chart": "a", "sourceRef": {"kind": "HelmRepository", "name": "r"}}));
    let with = |url: &str| root(vec![owner.clone(), chart.clone(), source("HelmRepository", "r", json!({"url": url}))]);
    assert_eq!(what(&with("a"), &with("b")), "helmrepository.source.toolkit.fluxcd.io/r -n flux-system changes");
}

#[test]
fn the_files_of_a_chart_in_the_tree_count() {
    let chart = |more: Value| {
        let mut spec = json!({"chart": "./charts/a", "sourceRef": {"kind": "GitRepository", "name": "repo"},
            "valuesFiles": ["charts/values-prod.yaml"]});
        more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
        release(json!({"chart": {"spec": spec}}))
    };
    let about = json!({"name": "a", "version": "1", "dependencies": [{"name": "lib", "repository": "file://../lib"}]});
    let files = |changed: &str, more: Value| -> Files {
        let content = |path: &str| file(if path == changed { "new" } else { "old" });
        vec![
            ("root/a.yaml", vec![chart(more)]),
            ("charts/a/Chart.yaml", vec![about.clone()]),
            // A chart that is not read here.
            ("charts/a/requirements.yaml", vec![json!({})]),
            ("charts/lib/Chart.yaml", vec![json!({"name": "lib", "version": "1"})]),
            ("charts/a/templates/x.yaml", content("template")),
            ("charts/lib/templates/y.yaml", content("library")),
            ("charts/b/templates/z.yaml", content("other")),
            ("charts/values-prod.yaml", content("values")),
        ]
    };
    let what = |changed: &str, more: Value| what(&files("", more.clone()), &files(changed, more));
    let source = " of GitRepository/flux-system/repo changes";
    assert_eq!(what("template", json!({})), format!("charts/a/templates/x.yaml{source}"));
    assert_eq!(what("library", json!({})), format!("charts/lib/templates/y.yaml{source}"));
    assert_eq!(what("values", json!({})), format!("charts/values-prod.yaml{source}"));
    assert_eq!(what("other", json!({})), "");
    let revision = "GitRepository/flux-system/repo changes (reconcileStrategy: Revision)";
    assert_eq!(what("other", json!({"reconcileStrategy": "Revision"})), revision);
    let unknown = unknown_rows(&cluster(&files("", json!({})), false).plan(&files("", json!({}))));
    assert!(unknown[0].contains("cannot be compared: its revision is not in the checkout"), "{unknown:?}");
}

#[test]
fn a_new_release_deletes_nothing_where_nothing_is_at_stake() {
    let before = root(vec![cm("x")]);
    let with = |spec: Value| root(vec![cm("x"), release(spec)]);
    let after = with(json!({"chart": {"spec": {"chart": "a"}}}));
    let stakes = cluster(&before, true).plan(&after);
    assert!(stakes.gaps()[0].message.contains("a hook of its chart, or a failed installation"), "{:?}", stakes.gaps());
    let elsewhere = with(json!({"targetNamespace": "other", "chart": {"spec": {"chart": "a"}}}));
    let plan = cluster(&before, true).plan(&elsewhere);
    assert!(plan.is_complete(), "{:?}", plan.gaps());
    let row = plan.changes().iter().find(|change| &*change.object.id.name == "app").unwrap();
    assert_eq!(row.action, Action::Create);
    assert!(row.reason.text().starts_with("its release will be installed; "), "{}", row.reason);
    let mut existing = cluster(&before, true);
    existing.add(&data("Secret", "sh.helm.release.v1.app.v1", json!({})), None);
    existing.object("sh.helm.release.v1.app.v1").labels = [("owner", "helm"), ("name", "app")].into_iter().collect();
    existing.snapshot.normalise();
    let plan = existing.plan(&after);
    assert!(!plan.is_complete());
    assert!(plan.gaps()[0].message.contains("its release may exist already"), "{:?}", plan.gaps());
}

#[test]
fn a_new_release_whose_chart_is_in_the_tree_and_is_not_rendered_may_delete_anywhere() {
    let chart = json!({"chart": "./charts/app", "sourceRef": {"kind": "GitRepository", "name": "repo"}});
    let spec = json!({"targetNamespace": "other", "chart": {"spec": chart}});
    let about = json!({"apiVersion": "v2", "name": "app", "version": "1"});
    let plan = |template: &'static str| {
        let mut after = root(vec![cm("x"), release(spec.clone())]);
        after.extend([("charts/app/Chart.yaml", vec![about.clone()]), (template, vec![cm("web")])]);
        cluster(&root(vec![cm("x")]), true).plan(&after)
    };
    let rendered = plan("charts/app/templates/web.yaml");
    assert!(rendered.is_complete(), "{:?}", rendered.gaps());
    let endless = plan("charts/app/templates/endless.yaml");
    assert!(endless.gaps()[0].message.contains("has the same name in any namespace"), "{:?}", endless.gaps());
}

#[test]
fn a_resource_set_with_changed_inputs_is_unknown() {
    let set = |more: Value| {
        let mut spec = json!({"resources": [{"kind": "ConfigMap", "metadata": {"annotations":
            {"fluxcd.controlplane.io/copyFrom": "flux-system/template"}}}],
            "inputsFrom": [{"kind": "ResourceSetInputProvider", "selector": {"matchLabels": {"team": "a"}}}]});
        more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
        operator("ResourceSet", "set", spec)
    };
    let provider = |team: &str, value: &str| {
        let mut provider = operator("ResourceSetInputProvider", "inputs", json!({"defaultValues": {"v": value}}));
        provider["metadata"]["labels"] = json!({"team": team});
        provider
    };
    let with = |more: Value, provider: Value, template: &str| {
        root(vec![set(more), provider, data("ConfigMap", "template", json!({"k": template}))])
    };
    let before = with(json!({}), provider("a", "1"), "1");
    assert_eq!(what(&before, &with(json!({"inputs": [{"a": 1}]}), provider("a", "1"), "1")), "spec.inputs changes");
    assert_eq!(what(&before, &with(json!({"wait": true}), provider("a", "1"), "1")), "spec.wait changes");
    let changed = "resourcesetinputprovider.fluxcd.controlplane.io/inputs -n flux-system changes";
    assert_eq!(what(&before, &with(json!({}), provider("a", "2"), "1")), changed);
    assert_eq!(what(&before, &with(json!({}), provider("b", "1"), "1")), changed, "it is no longer selected");
    assert_eq!(what(&before, &with(json!({}), provider("a", "1"), "2")), "configmap/template -n flux-system changes");
    assert_eq!(what(&before, &before), "");
    let unselected = with(json!({}), provider("b", "1"), "1");
    assert_eq!(what(&unselected, &with(json!({}), provider("b", "2"), "1")), "");
}

#[test]
fn a_disabled_resource_set_is_not_unknown() {
    let set = |value: &str, reconcile: &str| {
        let mut set = operator("ResourceSet", "set", json!({"inputs": [value]}));
        set["metadata"]["annotations"] = json!({"fluxcd.controlplane.io/reconcile": reconcile});
        root(vec![set])
    };
    assert_eq!(what(&set("1", "disabled"), &set("2", "disabled")), "");
    assert_eq!(what(&set("1", "disabled"), &set("1", "enabled")), "it is resumed");
    assert_eq!(what(&set("1", "enabled"), &set("2", "disabled")), "");
}

#[test]
fn a_changed_flux_instance_is_unknown() {
    let with =
        |version: &str| root(vec![operator("FluxInstance", "flux", json!({"distribution": {"version": version}}))]);
    assert_eq!(what(&with("2.x"), &with("2.9.x")), "spec.distribution changes");
    assert_eq!(what(&with("2.x"), &with("2.x")), "");
}

#[test]
fn a_kustomization_on_another_cluster_is_unknown_if_its_build_or_its_spec_changes() {
    let files = |value: &str, more: Value| -> Files {
        let mut spec = json!({"kubeConfig": {"secretRef": {"name": "spoke"}}});
        more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
        vec![
            ("root/k.yaml", vec![ks("k", "./k", spec), data("Secret", "spoke", json!({"value": "eA=="}))]),
            ("k/a.yaml", vec![data("ConfigMap", "a", json!({"k": value}))]),
        ]
    };
    let before = files("1", json!({}));
    assert_eq!(what(&before, &files("2", json!({}))), "its build changes");
    assert_eq!(what(&before, &files("1", json!({"targetNamespace": "x"}))), "spec.targetNamespace changes");
    assert_eq!(what(&before, &files("1", json!({"interval": "5m", "wait": true}))), "");
    assert_eq!(what(&before, &files("2", json!({"suspend": true}))), "");
    assert_eq!(what(&before, &before), "");
    let rows = unknown_rows(&cluster(&before, false).plan(&before));
    assert!(rows[0].contains("its build cannot be compared"), "{rows:?}");
}

#[test]
fn the_source_object_of_a_kustomization_counts() {
    let files = |version: &str| {
        let fed = json!({"sourceRef": {"kind": "OCIRepository", "name": "oci"}});
        root(vec![ks("fed", "./", fed), source("OCIRepository", "oci", json!({"ref": {"tag": version}}))])
    };
    assert_eq!(what(&files("1"), &files("2")), "ocirepository.source.toolkit.fluxcd.io/oci -n flux-system changes");
    assert_eq!(what(&files("1"), &files("1")), "");
}

#[test]
fn a_new_kustomization_that_is_not_followed_gets_a_remark() {
    let secret = data("Secret", "spoke", json!({"value": "eA=="}));
    let before = root(vec![cm("x"), secret.clone()]);
    let remote = ks("k", "./root", json!({"kubeConfig": {"secretRef": {"name": "spoke"}}}));
    let plan = cluster(&before, true).plan(&root(vec![cm("x"), secret, remote]));
    assert!(plan.is_complete(), "{:?}", plan.gaps());
    let row = plan.changes().iter().find(|change| &*change.object.id.name == "k").unwrap();
    assert!(row.reason.text().contains("it applies its objects to another cluster"), "{}", row.reason);
}
