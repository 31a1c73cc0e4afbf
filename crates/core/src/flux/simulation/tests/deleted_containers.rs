//! Namespaces and definitions that are deleted while Kustomizations need them, and versions that are not served.

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cluster_scoped, cm, in_namespace, ks, rows, set};
use crate::kubernetes::object::GroupKind;
use crate::kubernetes::snapshot::OtherVersion;
use crate::testing;

const GROUP: &str = "shop.example.com";

/// Returns a Kustomization `k` that has objects in the namespace of another one, `d`, and loses `a` if `is_after`. The namespace
/// leaves `d` then.
fn files(dependant: Value, dependency: Value, is_after: bool) -> Files {
    let namespace = cluster_scoped("Namespace", "shop");
    vec![
        ("root/d.yaml", vec![ks("d", "./d", dependency)]),
        ("root/k.yaml", vec![ks("k", "./p", dependant)]),
        ("d/x.yaml", if is_after { vec![cm("x")] } else { vec![cm("x"), namespace] }),
        (
            "p/a.yaml",
            if is_after { vec![in_namespace(cm("in"), "shop")] } else { vec![in_namespace(cm("in"), "shop"), cm("a")] },
        ),
    ]
}

#[test]
fn a_kustomization_fails_once_the_namespace_of_its_objects_is_deleted() {
    let on = |name: &str| json!({"dependsOn": [{"name": name}]});
    for (dependant, dependency, row) in
        [(on("d"), json!({}), "delete? a"), (json!({}), json!({}), "delete? a"), (json!({}), on("k"), "delete a")]
    {
        let (before, after) = (files(dependant.clone(), dependency.clone(), false), files(dependant, dependency, true));
        assert_eq!(rows(&before, &after), set(&["delete shop", "delete in", row]));
    }
    // A new object is refused as soon as its namespace is terminating.
    let (before, mut after) = (files(on("d"), json!({}), false), files(on("d"), json!({}), true));
    after[3].1.push(in_namespace(cm("new"), "shop"));
    assert_eq!(rows(&before, &after), set(&["delete shop", "delete in", "keep a"]));
}

#[test]
fn the_order_that_decides_is_named() {
    let cluster = TestCluster::new(&files(json!({}), json!({}), false));
    let outcome = cluster.outcome(&files(json!({}), json!({}), true), "k");
    assert!(outcome.contains("nothing more is applied once namespace/shop is deleted"), "{outcome}");
}

#[test]
fn what_a_namespace_takes_along_says_which_mark_or_owner_it_had() {
    let mut cluster = TestCluster::new(&files(json!({}), json!({}), false));
    cluster.object("in").annotations = [("kustomize.toolkit.fluxcd.io/prune", "disabled")].into_iter().collect();
    let plan = cluster.plan(&files(json!({}), json!({}), true));
    let row = plan.changes().iter().find(|change| &*change.object.id.name == "in").unwrap();
    let expected = "its mark kustomize.toolkit.fluxcd.io/prune=disabled does not keep it; although kustomization/k -n flux-system applies it";
    assert_eq!(row.reason.text(), expected);
    let owner = plan.owners().iter().find(|row| &*row.owner.name == "k").unwrap();
    assert!(owner.loses_what_it_needs(), "{owner:?}");
}

#[test]
fn a_dependant_of_an_uncertain_dependency_is_uncertain() {
    let with = |mut files: Files, objects: Vec<Value>| {
        files.push(("root/e.yaml", vec![ks("e", "./e", json!({"dependsOn": [{"name": "k"}]}))]));
        files.push(("e/e.yaml", objects));
        files
    };
    let before = with(files(json!({}), json!({}), false), vec![cm("e1"), cm("e2")]);
    let after = with(files(json!({}), json!({}), true), vec![cm("e1")]);
    assert!(rows(&before, &after).contains("delete? e2"));
}

#[test]
fn a_namespace_that_is_being_deleted_holds_its_kustomization() {
    let before = vec![
        ("root/k.yaml", vec![ks("k", "./p", json!({}))]),
        ("p/a.yaml", vec![cluster_scoped("Namespace", "shop"), cm("a"), cm("b")]),
    ];
    let after = vec![before[0].clone(), ("p/a.yaml", vec![cluster_scoped("Namespace", "shop"), cm("b")])];
    let mut cluster = TestCluster::new(&before);
    assert_eq!(cluster.rows(&after), set(&["delete a"]));
    cluster.object("shop").deletion_timestamp = Some(chrono::DateTime::UNIX_EPOCH);
    assert_eq!(cluster.rows(&after), set(&["delete? a"]));
    assert!(cluster.outcome(&after, "k").contains("until namespace/shop, which is being deleted, is gone"));
}

fn definition(served: &[&str]) -> Value {
    let versions: Vec<Value> =
        ["v1", "v2"].iter().map(|name| json!({"name": name, "served": served.contains(name)})).collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"}, "versions": versions}})
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Widget", "metadata": {"name": name, "namespace": NS}})
}

/// Returns a cluster that knows the definition, with these objects in `p` and, if it has one, this definition in `root`.
fn cluster(definition_in_root: Option<Value>, objects: Vec<Value>, served: &[&str]) -> TestCluster {
    let root = [vec![ks("k", "./p", json!({}))], definition_in_root.into_iter().collect()].concat();
    let mut cluster = TestCluster::new(&vec![("root/k.yaml", root), ("p/a.yaml", objects)]);
    let custom = ("apiextensions.k8s.io", "CustomResourceDefinition");
    cluster.snapshot.types.push(testing::resource_type(custom.0, custom.1, "customresourcedefinitions", false));
    let mut kind = testing::resource_type(GROUP, "Widget", "widgets", true);
    kind.version = served[0].into();
    cluster.snapshot.types.push(kind);
    let what = GroupKind::new(GROUP, "Widget");
    let others = served[1..].iter().map(|version| OtherVersion { what: what.clone(), version: (*version).into() });
    let known = OtherVersion { what: GroupKind::new("apps", "Deployment"), version: "v1beta1".into() };
    cluster.snapshot.other_versions = others.chain([known]).collect();
    cluster
}

fn after(definition_in_root: Option<Value>, objects: Vec<Value>) -> Files {
    let root = [vec![ks("k", "./p", json!({}))], definition_in_root.into_iter().collect()].concat();
    vec![("root/k.yaml", root), ("p/a.yaml", objects)]
}

#[test]
fn an_object_whose_recorded_version_is_not_served_is_left_behind() {
    for (served, expected) in [(["v2", "v1"].as_slice(), "delete w"), (["v2"].as_slice(), "keep w")] {
        let cluster = cluster(None, vec![widget("w"), cm("b")], served);
        assert_eq!(cluster.rows(&after(None, vec![cm("b")])), set(&[expected]), "{served:?}");
    }
    let mut cluster = cluster(None, vec![widget("w"), cm("b")], &["v2"]);
    assert!(cluster.outcome(&after(None, vec![cm("b")]), "k").starts_with("Applies"));
    cluster.flags.default_service_account = Some("team".to_owned());
    assert!(cluster.outcome(&after(None, vec![cm("b")]), "k").contains("does not serve version v1 of widget"));
}

#[test]
fn an_object_of_a_kind_that_is_gone_is_never_pruned_by_who_reads_the_types_anew() {
    let mut cluster = cluster(None, vec![widget("w"), cm("b")], &["v1"]);
    cluster.snapshot.types.retain(|kind| &*kind.kind != "Widget");
    cluster.snapshot.objects.retain(|object| &*object.id.kind != "Widget");
    let dropped = after(None, vec![cm("b")]);
    assert!(cluster.outcome(&dropped, "k").starts_with("Applies"));
    cluster.flags.default_service_account = Some("team".to_owned());
    assert!(cluster.outcome(&dropped, "k").contains("does not serve version v1 of widget"));
    let returns = after(Some(definition(&["v1"])), vec![cm("b")]);
    assert!(cluster.outcome(&returns, "k").starts_with("Applies"), "its kind may be there by then");
}

#[test]
fn a_definition_of_the_same_build_decides_about_the_version_and_one_of_another_build_is_a_race() {
    let both = definition(&["v1", "v2"]);
    let own = cluster(None, vec![both.clone(), widget("w"), cm("b")], &["v1", "v2"]);
    assert_eq!(own.rows(&after(None, vec![definition(&["v2"]), cm("b")])), set(&["keep w"]));
    let other = cluster(Some(both), vec![widget("w"), cm("b")], &["v1", "v2"]);
    assert_eq!(other.rows(&after(Some(definition(&["v2"])), vec![cm("b")])), set(&["delete? w"]));
}

#[test]
fn a_definition_that_drops_a_stored_version_is_refused_and_nothing_is_pruned() {
    let both = definition(&["v1", "v2"]);
    let mut cluster = cluster(None, vec![both.clone(), cm("a"), cm("b")], &["v1", "v2"]);
    let mut dropped = both;
    dropped["spec"]["versions"].as_array_mut().unwrap().remove(0);
    let dropping = after(None, vec![dropped, cm("b")]);
    assert_eq!(cluster.rows(&dropping), set(&["delete a"]), "it is not known in which versions objects are stored");
    let name = format!("widgets.{GROUP}");
    cluster.snapshot.stored_versions.insert(name.clone(), vec!["v2".to_owned()]);
    assert_eq!(cluster.rows(&dropping), set(&["delete a"]));
    cluster.snapshot.stored_versions.insert(name, vec!["v1".to_owned(), "v2".to_owned()]);
    assert_eq!(cluster.rows(&dropping), set(&["keep a"]));
    assert!(cluster.outcome(&dropping, "k").contains("it drops version v1, in which objects may be stored"));
    assert_eq!(
        cluster.rows(&after(None, vec![definition(&["v2"]), cm("b")])),
        set(&["delete a"]),
        "it only stops serving v1"
    );
}

#[test]
fn a_new_definition_waits_for_its_names() {
    let named = |plural: &str, short_name: &str| {
        let mut named = definition(&["v1"]);
        named["metadata"]["name"] = format!("{plural}.{GROUP}").into();
        named["spec"]["names"] = json!({"kind": plural.to_uppercase(), "plural": plural, "shortNames": [short_name]});
        named
    };
    let mut cluster = cluster(Some(definition(&["v1"])), vec![cm("a"), cm("b")], &["v1"]);
    cluster.snapshot.types.last_mut().unwrap().short_names = vec!["wd".into()];
    let stays = |definitions: Vec<Value>| after(Some(definition(&["v1"])), [definitions, vec![cm("b")]].concat());
    assert_eq!(cluster.rows(&stays(vec![named("gadgets", "gd")])), set(&["delete a"]));
    assert_eq!(cluster.rows(&stays(vec![named("gadgets", "wd")])), set(&["keep a"]));
    assert!(
        cluster
            .outcome(&stays(vec![named("gadgets", "wd")]), "k")
            .contains(&format!("widgets.{GROUP} has its name wd"))
    );
    let two = vec![named("gadgets", "gd"), named("gizmos", "gd")];
    assert_eq!(cluster.rows(&stays(two)), set(&["keep a"]));
    let leaves = after(None, vec![named("gadgets", "wd"), cm("b")]);
    let expected = format!("delete widgets.{GROUP}");
    assert_eq!(cluster.rows(&leaves), set(&["delete a", &expected]), "the controller tries again until it is gone");
    // A live one keeps its names and lacks the new one; the wait may end before that is known.
    cluster.add(&named("gadgets", "gd"), Some("k"));
    cluster.snapshot.normalise();
    assert_eq!(cluster.rows(&stays(vec![named("gadgets", "gx")])), set(&["delete a"]));
    assert_eq!(cluster.rows(&stays(vec![named("gadgets", "wd")])), set(&["delete? a"]));
}

#[test]
fn a_custom_resource_is_not_created_by_a_build_that_deletes_its_definition() {
    let both = definition(&["v1", "v2"]);
    let cluster = cluster(None, vec![both, widget("w"), cm("b")], &["v1", "v2"]);
    let plan = cluster.plan(&after(None, vec![widget("w"), widget("new"), cm("b")]));
    let created = plan.changes().iter().any(|change| change.action == crate::plan::Action::Create);
    assert!(!created, "it would be gone at once");
}

#[test]
fn a_custom_resource_is_deleted_in_every_order_if_its_definition_is() {
    let both = definition(&["v1", "v2"]);
    let cluster = cluster(Some(both), vec![widget("w"), widget("dropped"), cm("b")], &["v1", "v2"]);
    let name = format!("delete widgets.{GROUP}");
    // The apply may fail, so that `dropped` is not pruned but deleted with its definition.
    let expected = set(&[&name, "delete w", "delete dropped", "delete? b"]);
    assert_eq!(cluster.rows(&after(None, vec![widget("w"), widget("new")])), expected);
}

#[test]
fn a_kustomization_does_not_create_its_own_namespace_again() {
    let mut child = ks("k", "./p", json!({"sourceRef": {"kind": "GitRepository", "name": "repo", "namespace": NS}}));
    child["metadata"]["namespace"] = "team".into();
    let team = cluster_scoped("Namespace", "team");
    let before = vec![
        ("root/ns.yaml", vec![team.clone(), cm("x")]),
        ("root/m.yaml", vec![ks("m", "./m", json!({}))]),
        ("m/k.yaml", vec![child]),
        ("p/a.yaml", vec![cm("a")]),
    ];
    let mut cluster = TestCluster::new(&before);
    cluster.object("a").labels =
        [("kustomize.toolkit.fluxcd.io/name", "k"), ("kustomize.toolkit.fluxcd.io/namespace", "team")]
            .into_iter()
            .collect();
    let mut after = before.clone();
    after[0] = ("root/ns.yaml", vec![cm("x")]);
    after[3] = ("p/a.yaml", vec![team, cm("a"), cm("new")]);
    // Either the root deletes the namespace first, or `k` applies it before that and it stays.
    assert_eq!(cluster.rows(&after), set(&["delete? team", "delete? k", "delete? a"]));
    let plan = cluster.plan(&after);
    let row = |name: &str| plan.changes().iter().find(|change| &*change.object.id.name == name).unwrap();
    assert_eq!(row("new").certainty, crate::plan::Certainty::Race);
    assert_eq!(row("team").reason.code, crate::plan::ReasonCode::NotInBuild, "nobody applies it after it was pruned");
}

#[test]
fn a_definition_that_goes_before_its_objects_may_stop_who_reads_the_types_anew() {
    let on = |name: &str, more: Value| {
        let mut spec = json!({"dependsOn": [{"name": name}]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let files = |more: &Value, last: &str, is_after: bool| -> Files {
        let all = |kept: Vec<Value>, dropped: Vec<Value>| if is_after { kept } else { [kept, dropped].concat() };
        let k = if last == "d" { more.clone() } else { on("d", more.clone()) };
        let d = if last == "d" { on("k", json!({})) } else { json!({}) };
        vec![
            ("root/k.yaml", vec![ks("d", "./d", d), ks("k", "./p", k), ks("l", "./l", on("k", json!({})))]),
            ("d/d.yaml", all(vec![cm("x")], vec![definition(&["v1"])])),
            ("p/a.yaml", all(vec![cm("b")], vec![widget("w"), cm("a")])),
            ("l/c.yaml", all(vec![cm("e")], vec![cm("c")])),
        ]
    };
    let rows = |more: Value, last: &str| {
        let mut cluster = TestCluster::new(&files(&more, last, false));
        let definitions = ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions");
        cluster.snapshot.types.push(testing::resource_type(definitions.0, definitions.1, definitions.2, false));
        cluster.snapshot.types.push(testing::resource_type(GROUP, "Widget", "widgets", true));
        let account = in_namespace(cluster_scoped("ServiceAccount", "team"), NS);
        cluster.add(&account, None);
        cluster.snapshot.normalise();
        cluster.rows(&files(&more, last, true))
    };
    let team = || json!({"serviceAccountName": "team"});
    let gone = format!("delete widgets.{GROUP}");
    for (more, last, row) in [(team(), "k", "delete? c"), (json!({}), "k", "delete c"), (team(), "d", "delete c")] {
        assert_eq!(rows(more, last), set(&[&gone, "delete w", "delete a", row]), "{last}");
    }
}
