//! ResourceSets: what their resources become when the change arrives.

use serde_json::{Value, json};

use super::answerer::expanded;
use super::cluster::{Files, NS, TestCluster, cluster_scoped, cm, ks, set};
use super::unfollowed::{operator, release, status};
use crate::flux::build::objects::objects;
use crate::flux::build::resource_sets::{SetRun, provided_by, reading_providers};
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::inventory_id;
use crate::plan::{Action, Certainty};

/// Returns a ResourceSet with these tenants as inputs.
pub(super) fn tenants(names: &[&str], resources: Value) -> Value {
    let inputs: Vec<Value> = names.iter().map(|name| json!({ "tenant": name })).collect();
    operator("ResourceSet", "tenants", json!({"inputs": inputs, "resources": resources}))
}

fn config_maps() -> Value {
    json!([cm("<< inputs.tenant >>")])
}

fn root(objects: Vec<Value>) -> Files {
    vec![("root/a.yaml", objects)]
}

/// Returns a cluster in which flux-operator has generated the resources of the ResourceSets in some files.
pub(super) fn cluster(before: &Files) -> TestCluster {
    let mut cluster = TestCluster::new(before);
    cluster.has_operator = true;
    cluster.upgrades = Some([].into());
    let sets: Vec<Value> = before
        .iter()
        .flat_map(|(_, objects)| objects)
        .filter(|object| object["kind"] == "ResourceSet")
        .cloned()
        .collect();
    for manifest in sets {
        generate(&mut cluster, &manifest, &manifest["spec"]);
    }
    cluster
}

/// Adds the resources of a ResourceSet with this spec to a cluster.
fn generate(cluster: &mut TestCluster, manifest: &Value, spec: &Value) {
    let name = manifest["metadata"]["name"].as_str().unwrap();
    let id = ObjectId::new("fluxcd.controlplane.io", "ResourceSet", NS, name);
    let text = expanded(&SetRun::new(&id, spec, false)).unwrap();
    let mut entries = vec![];
    for document in text.split("---").filter(|document| !document.trim().is_empty()) {
        let object: Value = serde_json::from_str(document).unwrap();
        entries.push(json!({"id": inventory_id::format(&objects(object.clone().into(), None)[0].id), "v": "v1"}));
        match object["kind"].as_str() {
            Some("Kustomization") => {
                let files =
                    super::cluster::artifact(&APPS.iter().map(|(path, name)| (*path, vec![cm(name)])).collect());
                cluster.apply(&object, None, &files);
            }
            _ => cluster.add_with_content(&object, None, json!({})),
        }
    }
    let live = cluster.kustomization(name);
    live.content["status"] = json!({"inventory": {"entries": entries},
        "conditions": [{"type": "Ready", "status": "True"}]});
    cluster.snapshot.normalise();
}

/// Paths of Kustomizations that ResourceSets generate, with the ConfigMap there.
const APPS: [(&str, &str); 3] = [("a/cm.yaml", "of-a"), ("b/cm.yaml", "of-b"), ("c/cm.yaml", "of-c")];

fn with_apps(root: Value) -> Files {
    let apps = APPS.iter().map(|(path, name)| (*path, vec![cm(name)]));
    [("root/a.yaml", vec![root])].into_iter().chain(apps).collect()
}

#[test]
fn a_removed_input_deletes_what_was_generated_of_it() {
    let before = root(vec![tenants(&["a", "b"], config_maps())]);
    let cluster = cluster(&before);
    let plan = cluster.plan(&root(vec![tenants(&["a"], config_maps())]));
    assert!(plan.is_complete(), "{:?}", plan.gaps());
    let row = plan.changes().iter().find(|row| row.action == Action::Delete).unwrap();
    assert_eq!((row.reason.to_string(), &*row.object.id.name), ("not-generated".to_owned(), "b"));
    assert_eq!(row.owner.as_ref().map(|owner| &*owner.name), Some("tenants"));
    assert_eq!(cluster.rows(&before), set(&[]));
    let owner = cluster.outcome(&root(vec![tenants(&["a"], config_maps())]), "tenants");
    assert_eq!(owner, "Applies: resources-generated: spec.inputs changes");
}

#[test]
fn what_a_deleted_set_may_not_delete_is_left_behind() {
    let mut set_of = tenants(&["a", "b"], config_maps());
    set_of["spec"]["serviceAccountName"] = "tenant".into();
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant", "namespace": NS}});
    let mut cluster = cluster(&root(vec![set_of, account.clone()]));
    cluster.upgrades = Some([("b", "forbidden")].into());
    let rows = set(&["delete tenants", "delete a", "keep b"]);
    assert_eq!(cluster.rows(&root(vec![account])), rows);
    let raced = set(&["delete tenants", "delete tenant", "delete? a", "keep b"]);
    assert_eq!(cluster.rows(&root(vec![cm("x")])), raced);
}

#[test]
fn a_set_that_a_deleted_parent_may_create_first_may_lose_what_it_took_over() {
    let files = |parent: &str, own: Vec<Value>| -> Files {
        vec![("root/k.yaml", vec![ks(parent, "./team", json!({}))]), ("team/a.yaml", [&[cm("y")], &own[..]].concat())]
    };
    let mut cluster = cluster(&files("team", vec![]));
    cluster.add(&cm("a"), None);
    cluster.snapshot.normalise();
    let row = |parent: &str| {
        let plan = cluster.plan(&files(parent, vec![tenants(&["a"], config_maps())]));
        let row = plan.changes().iter().find(|row| &*row.object.id.name == "a" && row.is_deletion());
        row.map(|row| (row.action, row.reason.text()))
    };
    let (action, text) = row("team2").unwrap();
    assert!(action == Action::Recreate && text.contains("team -n flux-system creates resourceset."), "{text}");
    assert_eq!(row("team"), None);
}

#[test]
fn a_set_that_stays_deletes_without_its_account_and_a_deleted_one_leaves_everything_behind() {
    let set_of = |names: &[&str]| {
        let mut set_of = tenants(names, config_maps());
        set_of["spec"]["serviceAccountName"] = "none".into();
        set_of
    };
    let cluster = cluster(&root(vec![set_of(&["a", "b"])]));
    assert_eq!(cluster.rows(&root(vec![set_of(&["a"])])), set(&["delete b"]), "a role can name an account in advance");
    assert_eq!(cluster.rows(&root(vec![])), set(&["delete tenants"]));
}

#[test]
fn a_default_account_that_is_missing_lets_a_deleted_set_leave_everything_behind() {
    let mut cluster = cluster(&root(vec![tenants(&["a"], config_maps()), cm("x")]));
    assert_eq!(cluster.rows(&root(vec![cm("x")])), set(&["delete tenants", "delete a"]));
    cluster.set_account = Some("none".to_owned());
    assert_eq!(cluster.rows(&root(vec![cm("x")])), set(&["delete tenants"]));
    cluster.add(
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "none", "namespace": NS}}),
        None,
    );
    cluster.snapshot.normalise();
    assert_eq!(cluster.rows(&root(vec![cm("x")])), set(&["delete tenants", "delete a"]));
}

#[test]
fn a_refused_deletion_of_a_kustomization_keeps_what_flux_operator_deletes_after_it() {
    let resources =
        || json!([ks("app-<< inputs.tenant >>", "./<< inputs.tenant >>", json!({})), cm("cm-<< inputs.tenant >>")]);
    let mut cluster = cluster(&with_apps(tenants(&["a", "b"], resources())));
    let (one, none) = (with_apps(tenants(&["a"], resources())), with_apps(cm("x")));
    assert_eq!(cluster.rows(&one), set(&["delete app-b", "delete of-b", "delete cm-b"]));
    cluster.upgrades = Some([("app-b", "denied")].into());
    assert_eq!(cluster.rows(&one), set(&["delete? app-b", "delete? of-b", "delete? cm-b"]));
    let left = set(&["delete tenants", "delete app-a", "delete of-a", "keep app-b", "keep cm-a", "keep cm-b"]);
    assert_eq!(cluster.rows(&none), left);
    // What comes later holds nothing back.
    cluster.upgrades = Some([("cm-b", "denied")].into());
    assert_eq!(cluster.rows(&one), set(&["delete app-b", "delete of-b", "delete? cm-b"]));
    let left = set(&[
        "delete tenants",
        "delete app-a",
        "delete of-a",
        "delete app-b",
        "delete of-b",
        "delete cm-a",
        "keep cm-b",
    ]);
    assert_eq!(cluster.rows(&none), left);
}

#[test]
fn an_added_input_creates_and_a_change_that_generates_the_same_is_silent() {
    let cluster = cluster(&root(vec![tenants(&["a"], config_maps())]));
    let plan = cluster.plan(&root(vec![tenants(&["a", "b"], config_maps())]));
    let rows: Vec<String> = plan.changes().iter().map(|row| format!("{} {}", row.object.id.name, row.reason)).collect();
    assert_eq!(rows, ["b generated"]);
    let mut same = tenants(&["a"], config_maps());
    same["spec"]["inputs"][0]["unused"] = "1".into();
    assert_eq!(cluster.plan(&root(vec![same])).changes().len(), 0);
}

#[test]
fn without_flux_operator_or_with_another_inventory_the_effect_is_unknown() {
    let after = root(vec![tenants(&["a"], config_maps())]);
    let mut cluster = cluster(&root(vec![tenants(&["a", "b"], config_maps())]));
    cluster.has_operator = false;
    assert_eq!(cluster.rows(&after), set(&["unknown tenants"]));
    cluster.has_operator = true;
    let entries = &mut cluster.kustomization("tenants").content["status"]["inventory"]["entries"];
    entries.as_array_mut().unwrap().push(json!({"id": "flux-system_c__ConfigMap", "v": "v1"}));
    assert_eq!(cluster.rows(&after), set(&["unknown tenants"]));
    let mut failing = tenants(&["a"], json!([cm("<< inputs.other >>")]));
    assert_eq!(cluster.rows(&root(vec![failing.clone()])), set(&["unknown tenants"]));
    failing["spec"].as_object_mut().unwrap().remove("resources");
    assert_eq!(cluster.rows(&root(vec![failing])), set(&["unknown tenants"]));
}

#[test]
fn protections_and_labels_of_others_keep_a_removed_object() {
    let mut cluster = cluster(&root(vec![tenants(&["a", "b", "c", "d"], config_maps())]));
    cluster.object("b").annotations =
        [("fluxcd.controlplane.io/prune".to_owned(), "disabled".to_owned())].into_iter().collect();
    cluster.object("c").labels =
        [("resourceset.fluxcd.controlplane.io/name".to_owned(), "other".to_owned())].into_iter().collect();
    let rows = cluster.rows(&root(vec![tenants(&["a"], config_maps())]));
    assert_eq!(rows, set(&["keep b", "keep c", "delete d"]));
}

#[test]
fn a_refused_object_or_one_without_a_dry_run_makes_deletions_a_race() {
    let mut cluster = cluster(&root(vec![tenants(&["a", "b"], config_maps())]));
    let after = root(vec![tenants(&["a", "c"], config_maps())]);
    assert_eq!(cluster.rows(&after), set(&["delete b"]));
    cluster.upgrades = Some([("c", "denied")].into());
    assert_eq!(cluster.rows(&after), set(&["delete? b"]));
    cluster.upgrades = None;
    assert_eq!(cluster.rows(&after), set(&["delete? b"]));
    assert_eq!(cluster.rows(&root(vec![tenants(&["a"], config_maps())])), set(&["delete b"]), "nothing else changes");
}

#[test]
fn failures_are_conditions() {
    let before = root(vec![tenants(&["a", "b"], config_maps())]);
    let mut failing = cluster(&before);
    failing.kustomization("tenants").content["status"]["conditions"] =
        json!([{"type": "Ready", "status": "False", "reason": "ReconciliationFailed"}]);
    assert_eq!(failing.rows(&root(vec![tenants(&["a"], config_maps())])), set(&["delete? b"]));
}

/// Returns a dependency on the ConfigMap `x`.
fn depends_on(mut more: Value) -> Value {
    more["apiVersion"] = "v1".into();
    more["kind"] = "ConfigMap".into();
    more["name"] = "x".into();
    more["namespace"] = NS.into();
    more
}

fn map(value: &str) -> Value {
    let mut map = cm("x");
    map["data"] = json!({ "v": value });
    map
}

#[test]
fn dependencies_are_read_as_flux_operator_reads_them() {
    let expression = |text: &str| json!({"ready": true, "readyExpr": text});
    let (deleted, raced, blocked) = ("delete b", "delete? b", "");
    for (before, after, dependency, expected) in [
        (None, None, json!({}), blocked),
        (None, Some("1"), json!({}), deleted),
        (Some("1"), Some("1"), json!({}), deleted),
        (Some("1"), None, json!({}), raced),
        (Some("1"), Some("1"), json!({"ready": true}), deleted),
        (Some("1"), Some("1"), expression("data.v == '1'"), deleted),
        (Some("1"), Some("1"), expression("data.v == '2'"), blocked),
        (Some("1"), Some("1"), expression("data.v"), blocked),
        (Some("1"), Some("1"), expression("spec.v == '1'"), blocked),
        (Some("1"), Some("1"), expression("status.v == '1'"), raced),
        (Some("1"), Some("1"), expression("data.v =="), raced),
        (Some("1"), Some("2"), expression("data.v == '2'"), deleted),
        (Some("1"), Some("2"), expression("data.v == '1'"), raced),
        (Some("1"), Some("2"), expression("data.v == '3'"), blocked),
        (None, Some("2"), expression("data.v == '2'"), deleted),
        (None, Some("2"), expression("data.v == '1'"), blocked),
    ] {
        let files = |names: &[&str], value: Option<&str>, dependency: Option<&Value>| {
            let mut of_set = tenants(names, config_maps());
            if let Some(dependency) = dependency {
                of_set["spec"]["dependsOn"] = json!([depends_on(dependency.clone())]);
            }
            root([value.map(map).into_iter().collect(), vec![of_set]].concat())
        };
        let mut cluster = cluster(&files(&["a", "b"], before, None));
        cluster.content.extend(before.map(|value| ("x".to_owned(), map(value))));
        let mut rows = cluster.rows(&files(&["a"], after, Some(&dependency)));
        rows.remove("delete x");
        assert_eq!(rows, set(&[expected][..usize::from(!expected.is_empty())]), "{before:?} {after:?} {dependency}");
    }
}

#[test]
fn a_set_that_waited_deletes_once_its_dependency_is_there() {
    let set_of = |dependencies: Value| {
        let mut set_of = tenants(&["a"], config_maps());
        set_of["spec"]["dependsOn"] = dependencies;
        set_of
    };
    let waiting = set_of(json!([depends_on(json!({}))]));
    let mut cluster = TestCluster::new(&root(vec![waiting.clone()]));
    (cluster.has_operator, cluster.upgrades) = (true, Some([].into()));
    generate(&mut cluster, &waiting, &tenants(&["a", "b"], config_maps())["spec"]);
    cluster.kustomization("tenants").content["status"]["conditions"] =
        json!([{"type": "Ready", "status": "False", "reason": "DependencyNotReady"}]);
    cluster.snapshot.normalise();
    assert_eq!(cluster.rows(&root(vec![waiting.clone(), cm("y")])), set(&[]));
    assert_eq!(cluster.rows(&root(vec![waiting, cm("x")])), set(&["delete b"]));
    assert_eq!(cluster.rows(&root(vec![set_of(json!([]))])), set(&["delete b"]));
}

/// Adds an annotation of flux-operator to a manifest.
fn marked(mut manifest: Value, key: &str, value: &str) -> Value {
    manifest["metadata"]["annotations"][format!("fluxcd.controlplane.io/{key}")] = value.into();
    manifest
}

/// Returns a ConfigMap that copies the data of `src`.
fn copy_of_source(name: &str) -> Value {
    marked(cm(name), "copyFrom", &format!("{NS}/src"))
}

/// Returns the ConfigMap `src` with a value, and the label that flux-operator watches.
fn source(value: &str, is_watched: bool) -> Value {
    let mut source = cm("src");
    source["data"] = json!({ "name": value });
    if is_watched {
        source["metadata"]["labels"] = json!({"reconcile.fluxcd.io/watch": "Enabled"});
    }
    source
}

#[test]
fn copied_data_is_followed() {
    let substituted = ks("k", "./k", json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "vars"}]}}));
    for (is_watched, expected) in [(true, "delete a"), (false, "delete? a")] {
        let files = |value: &str| -> Files {
            let of_set = tenants(&["a"], json!([copy_of_source("vars")]));
            let all = vec![of_set, source(value, is_watched), substituted.clone()];
            vec![("root/a.yaml", all), ("k/cm.yaml", vec![cm("${name}")])]
        };
        let before = files("a");
        let mut cluster = cluster(&before);
        for name in ["vars", "src"] {
            cluster.data.insert(name.to_owned(), json!({"kind": "ConfigMap", "data": {"name": "a"}}));
        }
        let built = cluster.add(&cm("a"), Some("k"));
        cluster.kustomization("k").content["status"]["inventory"]["entries"] =
            json!([{"id": inventory_id::format(&built), "v": "v1"}]);
        cluster.snapshot.normalise();
        assert_eq!(cluster.rows(&before), set(&[]));
        assert_eq!(cluster.rows(&files("b")), set(&[expected]), "{is_watched}");
        let plan = cluster.plan(&files("b"));
        assert!(plan.is_complete(), "{:?}", plan.gaps());
        let vars = plan.changes().iter().find(|row| &*row.object.id.name == "vars").unwrap();
        assert_eq!((vars.action, vars.certainty == Certainty::Race), (Action::Update, !is_watched), "{}", vars.reason);
    }
}

#[test]
fn without_the_source_of_its_data_a_set_does_nothing() {
    let files = |names: &[&str], has_source: bool| {
        let of_set = tenants(names, json!([copy_of_source("<< inputs.tenant >>")]));
        root([vec![of_set, cm("y")], has_source.then(|| source("a", true)).into_iter().collect()].concat())
    };
    let cluster = |has_source: bool| {
        let mut cluster = cluster(&files(&["a", "b"], has_source));
        cluster.data.insert("src".to_owned(), json!({"kind": "ConfigMap", "data": {"name": "a"}}));
        cluster
    };
    assert_eq!(cluster(true).rows(&files(&["a"], true)), set(&["delete b"]));
    assert_eq!(cluster(false).rows(&files(&["a"], false)), set(&[]));
    assert_eq!(cluster(true).rows(&files(&["a", "b"], false)), set(&["delete src"]));
    let outcome = cluster(true).outcome(&files(&["a", "b"], false), "tenants");
    assert!(outcome.starts_with("Blocked: build-failed: ") && outcome.ends_with("which is deleted"), "{outcome}");
}

#[test]
fn a_forced_object_is_created_again_if_the_server_refuses_to_change_it() {
    let frozen = |value: &str| {
        let mut object = marked(cm("a"), "force", "enabled");
        object["data"] = json!({ "v": value });
        root(vec![tenants(&["x"], json!([object]))])
    };
    let rows = |upgrades: Option<&[(&'static str, &'static str)]>| {
        let mut cluster = cluster(&frozen("1"));
        cluster.upgrades = upgrades.map(|refused| refused.iter().copied().collect());
        let plan = cluster.plan(&frozen("2"));
        (cluster.rows(&frozen("2")), plan.is_complete())
    };
    let immutable = "ConfigMap \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set";
    assert_eq!(rows(Some(&[("a", immutable)])), (set(&["recreate a"]), true));
    assert_eq!(rows(Some(&[("a", "denied by a policy")])), (set(&[]), true));
    assert_eq!(rows(Some(&[])), (set(&[]), true));
    assert_eq!(rows(None), (set(&["unknown tenants"]), false));
}

#[test]
fn labels_of_all_resources_replace_those_of_the_set() {
    let key = "resourceset.fluxcd.controlplane.io/name";
    let files = |names: &[&str], is_labelled: bool| {
        let mut of_set = tenants(names, config_maps());
        if is_labelled {
            of_set["spec"]["commonMetadata"] = json!({"labels": {key: "other"}});
        }
        root(vec![of_set])
    };
    let mut labelled = cluster(&files(&["a", "b"], true));
    labelled.object("b").labels = [(key, "other")].into_iter().collect();
    assert_eq!(labelled.rows(&files(&["a"], true)), set(&["keep b"]));
    let plan = cluster(&files(&["a", "b"], false)).plan(&files(&["a", "b"], true));
    let updated: Vec<&str> = plan.changes().iter().map(|row| &*row.object.id.name).collect();
    assert_eq!(updated, ["a", "b"], "{:?}", plan.changes());
}

#[test]
fn providers_are_selected_by_expressions_too() {
    let select = |values: &[&str]| {
        let expression = json!({"key": "team", "operator": "In", "values": values});
        json!([{"selector": {"matchExpressions": [expression]}}])
    };
    let rows = |values: &[&str]| {
        let rset = set_from(select(values), config_maps());
        let files = |tenant: &str| root(vec![rset.clone(), provider("p", tenant)]);
        let exported = json!([{"tenant": "a", "id": "7"}]);
        let mut cluster = cluster_of_providers(&files("a"), &rset, &[("p", exported)]);
        cluster.snapshot.normalise();
        cluster.rows(&files("b"))
    };
    assert_eq!(rows(&["x"]), set(&["delete a"]));
}

#[test]
fn a_namespace_takes_its_content_along_and_needs_no_dry_run_of_what_comes_with_a_new_one() {
    let resources = json!([cluster_scoped("Namespace", "<< inputs.tenant >>"), {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm-<< inputs.tenant >>", "namespace": "<< inputs.tenant >>"},
    }]);
    let before = root(vec![tenants(&["a", "b"], resources.clone())]);
    let cluster = cluster(&before);
    let rows = cluster.rows(&root(vec![tenants(&["a", "c"], resources)]));
    assert_eq!(rows, set(&["delete b", "delete cm-b"]));
}

#[test]
fn kustomizations_that_are_generated_are_followed() {
    let resources = || json!([ks("app-<< inputs.tenant >>", "./<< inputs.tenant >>", json!({}))]);
    let before = with_apps(tenants(&["a", "b"], resources()));
    let cluster = cluster(&before);
    assert_eq!(cluster.rows(&before), set(&[]));
    let rows = cluster.rows(&with_apps(tenants(&["a"], resources())));
    assert_eq!(rows, set(&["delete app-b", "delete of-b"]));
    let plan = cluster.plan(&with_apps(tenants(&["a", "b", "c"], resources())));
    let created: Vec<&str> = plan.changes().iter().map(|row| &*row.object.id.name).collect();
    assert_eq!(created, ["of-c", "app-c"], "{:?}", plan.gaps());
    let parent = plan.owners().iter().find(|row| row.owner.name == "app-c").unwrap().parents.first().unwrap();
    assert_eq!((&*parent.kind, &*parent.name), ("ResourceSet", "tenants"));
    let other = json!([ks("app-<< inputs.tenant >>", "./c", json!({}))]);
    let rows = cluster.rows(&with_apps(tenants(&["a", "b"], other)));
    assert_eq!(rows, set(&["delete of-a", "delete of-b"]));
}

#[test]
fn a_release_that_is_generated_is_followed() {
    let with = |tag: &str| tenants(&["a"], json!([release(json!({"values": {"tag": tag}}))]));
    let mut cluster = cluster(&root(vec![with("1")]));
    cluster.kustomization("app").content["status"] = status();
    assert_eq!(cluster.rows(&root(vec![with("1")])), set(&[]));
    assert_eq!(cluster.rows(&root(vec![with("2")])), set(&["unknown app"]));
}

#[test]
fn inputs_of_providers_are_followed() {
    let provider = |name: &str, tenant: &str| {
        let mut provider =
            operator("ResourceSetInputProvider", name, json!({"type": "Static", "defaultValues": {"tenant": tenant}}));
        provider["metadata"]["labels"]["team"] = "x".into();
        provider
    };
    let mut rset = tenants(&["own"], config_maps());
    rset["spec"]["inputsFrom"] = json!([{"name": "p"}, {"selector": {"matchLabels": {"team": "x"}}}]);
    let files = |providers: Vec<Value>| root([vec![rset.clone()], providers].concat());
    let before = files(vec![provider("p", "a"), provider("q", "b")]);
    let mut cluster = TestCluster::new(&before);
    (cluster.has_operator, cluster.upgrades) = (true, Some([].into()));
    generate(&mut cluster, &rset, &tenants(&["own", "a", "b"], config_maps())["spec"]);
    for (name, tenant) in [("p", "a"), ("q", "b")] {
        cluster.kustomization(name).content["status"] = json!({"exportedInputs": [{"tenant": tenant, "id": "7"}]});
    }
    assert_eq!(cluster.rows(&before), set(&[]));
    let rows = cluster.rows(&files(vec![provider("p", "a"), provider("q", "c")]));
    assert_eq!(rows, set(&["delete b"]));
    assert_eq!(cluster.rows(&files(vec![provider("p", "a")])), set(&["delete q", "delete b"]));
    let unnamed = files(vec![provider("q", "b")]);
    assert_eq!(cluster.rows(&unnamed), set(&["delete p"]), "p is named");
    let blocked = cluster.outcome(&unnamed, "tenants");
    assert!(
        blocked.starts_with("Blocked: build-failed: ")
            && blocked.ends_with("the provider p of its inputs does not exist")
    );
    let plan = cluster.plan(&files(vec![provider("p", "a"), provider("q", "b"), provider("r", "d")]));
    let created: Vec<&str> = plan.changes().iter().map(|row| &*row.object.id.name).collect();
    assert_eq!(created, ["d", "r"]);
}

/// Returns a provider of one input with this tenant.
fn provider(name: &str, tenant: &str) -> Value {
    let mut provider =
        operator("ResourceSetInputProvider", name, json!({"type": "Static", "defaultValues": {"tenant": tenant}}));
    provider["metadata"]["labels"]["team"] = "x".into();
    provider
}

/// Returns a ResourceSet with the inputs of these providers.
fn set_from(providers: Value, resources: Value) -> Value {
    operator("ResourceSet", "tenants", json!({"inputsFrom": providers, "resources": resources}))
}

fn selected() -> Value {
    json!([{"selector": {"matchLabels": {"team": "x"}}}])
}

/// Returns a cluster in which flux-operator has generated the resources of the set `tenants` of what these providers export.
fn cluster_of_providers(files: &Files, rset: &Value, exported: &[(&str, Value)]) -> TestCluster {
    let mut cluster = TestCluster::new(files);
    (cluster.has_operator, cluster.upgrades) = (true, Some([].into()));
    let inputs: Vec<Value> = exported.iter().flat_map(|(_, inputs)| inputs.as_array().unwrap()).cloned().collect();
    generate(&mut cluster, rset, &json!({"inputs": inputs, "resources": rset["spec"]["resources"]}));
    for (name, inputs) in exported {
        cluster.kustomization(name).content["status"] = json!({ "exportedInputs": inputs });
    }
    cluster
}

#[test]
fn templates_read_the_provider_of_an_input() {
    let mut rset = set_from(selected(), json!([cm("<< inputs.provider >>-<< inputs.tenant >>")]));
    rset["spec"]["inputs"] = json!([{"tenant": "own", "providers": "x"}]);
    let spec = reading_providers(&ObjectId::new("fluxcd.controlplane.io", "ResourceSet", NS, "tenants"), &rset["spec"]);
    let inputs = provided_by(&rset["spec"], vec![json!({"tenant": "a"})], &ObjectId::new("", "Provider", NS, "p"));
    let field = inputs[0].as_object().unwrap().keys().find(|key| *key != "tenant").unwrap();
    assert_eq!(
        inputs[0][field],
        json!({"apiVersion": "fluxcd.controlplane.io/v1", "kind": "Provider", "name": "p", "namespace": NS})
    );
    assert_eq!(spec["resources"][0]["metadata"]["name"], format!("<< inputs.{field} >>-<< inputs.tenant >>"));
    assert_eq!(spec["inputs"][0][field]["name"], "tenants");
    let other = json!({"resources": ["<< inputs.providers >>"]});
    assert_eq!(reading_providers(&ObjectId::new("", "", NS, "x"), &other), other, "another field");
}

#[test]
fn the_id_of_a_new_provider_is_content_that_is_not_known_yet() {
    let with_id = |field: &str| {
        let mut object = cm("<< inputs.tenant >>");
        object["data"] = json!({field: "<< inputs.id | hex >>"});
        json!([object])
    };
    let named = json!([cm("<< inputs.tenant >>-<< inputs.id | hex >>")]);
    let deployed = json!([ks("app-<< inputs.tenant >>", "./<< inputs.id >>", json!({}))]);
    let exported = [("p0", json!([{"tenant": "z", "id": "7"}])), ("p1", json!([{"tenant": "x", "id": "8"}]))];
    let after = |tenant: &str, rset: &Value| root(vec![rset.clone(), provider("p0", "z"), provider("p2", tenant)]);
    let cluster_of = |rset: &Value| {
        let before = root(vec![rset.clone(), provider("p0", "z"), provider("p1", "x")]);
        cluster_of_providers(&before, rset, &exported)
    };
    let rset = set_from(selected(), with_id("id"));
    let cluster = cluster_of(&rset);
    let plan = cluster.plan(&after("y", &rset));
    assert!(plan.is_complete(), "{:?}", plan.gaps());
    assert_eq!(cluster.rows(&after("y", &rset)), set(&["delete p1", "delete x"]));
    let plan = cluster.plan(&after("x", &rset));
    let row = plan.changes().iter().find(|row| &*row.object.id.name == "x").unwrap();
    assert_eq!(row.action, Action::Recreate, "{}", row.reason);
    let mut taken_over = cluster_of(&rset);
    taken_over.add(&cm("y"), None);
    taken_over.snapshot.normalise();
    let plan = taken_over.plan(&after("y", &rset));
    assert!(plan.diffs().iter().all(|diff| &*diff.object.name != "y"), "a made-up id is not shown");
    for resources in [named, deployed] {
        let rset = set_from(selected(), resources);
        let why = cluster_of(&rset).outcome(&after("y", &rset), "tenants");
        assert!(why.contains("what it generates depends on an input that is not known yet"), "{why}");
    }
}

#[test]
fn a_provider_that_becomes_static_has_the_id_of_its_uid() {
    let rset = set_from(json!([{"name": "p"}]), json!([cm("n-<< inputs.id >>")]));
    let branches = operator("ResourceSetInputProvider", "p", json!({"type": "GitHubBranch", "url": "https://g/a/b"}));
    let exported = json!([{"branch": "x", "id": "11"}, {"branch": "y", "id": "12"}]);
    let mut cluster = cluster_of_providers(&root(vec![rset.clone(), branches]), &rset, &[("p", exported)]);
    let id = crate::flux::build::resource_sets::input_id(&cluster.kustomization("p").object.uid);
    let after = root(vec![rset, provider("p", "a")]);
    assert_eq!(cluster.rows(&after), set(&["delete n-11", "delete n-12"]));
    let plan = cluster.plan(&after);
    let created: Vec<&str> =
        plan.changes().iter().filter(|row| row.action == Action::Create).map(|row| &*row.object.id.name).collect();
    assert_eq!(created, [format!("n-{id}")]);
    assert!(cluster.object("p").uid.len() > 1);
}

#[test]
fn a_provider_that_is_resumed_exports_what_changed_while_it_was_off() {
    let rset = set_from(json!([{"name": "p"}]), config_maps());
    let mut off = provider("p", "y");
    off["metadata"]["annotations"]["fluxcd.controlplane.io/reconcile"] = "disabled".into();
    let before = root(vec![rset.clone(), off]);
    let cluster = cluster_of_providers(&before, &rset, &[("p", json!([{"tenant": "x", "id": "7"}]))]);
    assert_eq!(cluster.rows(&before), set(&[]));
    let after = root(vec![rset.clone(), provider("p", "y")]);
    assert_eq!(cluster.rows(&after), set(&["delete x"]));
    let why = cluster.outcome(&after, "tenants");
    assert!(why.contains("resourcesetinputprovider.fluxcd.controlplane.io/p -n flux-system is resumed"), "{why}");
    let branches = |is_off: bool| {
        let mut found = provider("p", "y");
        found["spec"] = json!({"type": "GitHubBranch", "url": "https://g/a/b"});
        if is_off {
            found["metadata"]["annotations"]["fluxcd.controlplane.io/reconcile"] = "disabled".into();
        }
        root(vec![rset.clone(), found])
    };
    let cluster = cluster_of_providers(&branches(true), &rset, &[("p", json!([{"tenant": "x", "id": "7"}]))]);
    assert_eq!(cluster.rows(&branches(false)), set(&["unknown tenants"]));
}

#[test]
fn artifacts_that_a_provider_selects_are_inputs() {
    const GENERATOR: &str = "source.extensions.fluxcd.io/generator";
    let generator = json!({"apiVersion": "source.extensions.fluxcd.io/v1beta1", "kind": "ArtifactGenerator",
        "metadata": {"name": "gen", "namespace": NS}, "spec": {"pathPattern": "@repo/apps/{app}",
            "sources": [{"alias": "repo", "kind": "GitRepository", "name": "repo"}],
            "artifacts": [{"name": "{app}", "copy": [{"from": "@repo/apps/{app}/**", "to": "@artifact/"}]}]}});
    let artifact = |name: &str| {
        json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "ExternalArtifact",
            "metadata": {"name": name, "namespace": NS, "labels": {"app": name, GENERATOR: "1"}},
            "spec": {"sourceRef": {"kind": "ArtifactGenerator", "name": "gen", "namespace": NS}}})
    };
    let provider = operator(
        "ResourceSetInputProvider",
        "p",
        json!({"type": "ExternalArtifact", "selectors": [{"matchLabels": {GENERATOR: "1"}}]}),
    );
    let cases = |data: &str| {
        let mut object = cm("app-<< inputs.name >>");
        object["data"] = json!({ "v": data });
        let rset = set_from(json!([{"name": "p"}]), json!([object]));
        let repository = super::unfollowed::source("GitRepository", "repo", json!({"url": "https://example.com/repo"}));
        let root = vec![repository, rset.clone(), provider.clone(), generator.clone()];
        let files = |apps: &[(&'static str, &str)]| -> Files {
            let apps = apps.iter().map(|(path, content)| (*path, vec![cm(content)]));
            [("root/a.yaml", root.clone())].into_iter().chain(apps).collect()
        };
        let input = |name: &str| json!({"name": name, "namespace": NS, "app": name, "id": name, "revision": "1"});
        let before = files(&[("apps/one/a.yaml", "a"), ("apps/two/a.yaml", "b")]);
        let exported = json!([input("one"), input("two")]);
        let mut cluster = cluster_of_providers(&before, &rset, &[("p", exported)]);
        for (name, content) in [("one", "a"), ("two", "b")] {
            cluster.add_with_content(&artifact(name), None, json!({}));
            cluster.artifacts.insert(name, vec![("a.yaml", vec![cm(content)])]);
        }
        cluster.kustomization("gen").content["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}],
            "inventory": [{"name": "one", "namespace": NS}, {"name": "two", "namespace": NS}]});
        cluster.snapshot.normalise();
        let rows = |apps: &[(&'static str, &str)]| cluster.rows(&files(apps));
        let same = [("apps/one/a.yaml", "a"), ("apps/two/a.yaml", "b")];
        let third = [("apps/one/a.yaml", "a"), ("apps/two/a.yaml", "b"), ("apps/three/a.yaml", "c")];
        assert_eq!(rows(&same), set(&[]));
        assert_eq!(rows(&same[..1]), set(&["delete app-two", "delete two"]));
        assert_eq!(rows(&third), set(&["unknown tenants"]));
        let changed = cluster.plan(&files(&[("apps/one/a.yaml", "x"), ("apps/two/a.yaml", "b")]));
        assert!(changed.is_complete(), "{:?}", changed.gaps());
        let names: Vec<&str> = changed.changes().iter().map(|row| &*row.object.id.name).collect();
        names.contains(&"app-one")
    };
    assert!(!cases("1"), "nothing reads the revision");
    assert!(cases("<< inputs.revision | hex >>"));
}

#[test]
fn a_label_that_selects_a_provider_counts_without_the_last_revision() {
    let rset = set_from(selected(), config_maps());
    let with = |labels: Value| {
        let mut last = provider("q", "b");
        last["metadata"]["labels"] = labels;
        root(vec![rset.clone(), provider("p", "a"), last])
    };
    let exported = [("p", json!([{"tenant": "a", "id": "7"}])), ("q", json!([{"tenant": "b", "id": "8"}]))];
    let cluster = cluster_of_providers(&with(json!({"team": "x"})), &rset, &exported);
    assert_eq!(cluster.rows(&with(json!({"team": "x"}))), set(&[]));
    assert_eq!(cluster.rows(&with(json!({"team": "y"}))), set(&["delete b"]));
    assert_eq!(cluster.rows(&with(json!({}))), set(&["delete b"]));
}

#[test]
fn a_set_that_names_another_provider_generates_nothing_for_a_moment() {
    let [before, after] =
        ["p", "q"].map(|name| root(vec![set_from(json!([{ "name": name }]), config_maps()), provider(name, "a")]));
    let cluster = cluster_of_providers(&before, &before[0].1[0], &[("p", json!([{"tenant": "a", "id": "7"}]))]);
    assert_eq!(cluster.rows(&after), set(&["delete p", "recreate? a"]), "q exports nothing at first");
}

#[test]
fn nothing_is_deleted_before_the_objects_of_earlier_steps_are_ready() {
    let stepped = |tenants: &[&str], steps: [Value; 2]| {
        let mut stepped = self::tenants(tenants, json!([]));
        stepped["spec"].as_object_mut().unwrap().remove("resources");
        let [first, second] = steps.map(|resources| json!({"name": "step", "resources": resources}));
        stepped["spec"]["steps"] = json!([first, second]);
        stepped
    };
    let app = || json!([ks("app", "./a", json!({}))]);
    let rows = |steps: fn(Value, Value) -> [Value; 2], content: &str| {
        let set_of = |tenants: &[&str]| stepped(tenants, steps(app(), config_maps()));
        let cluster = cluster(&with_apps(set_of(&["x", "y"])));
        let mut after = with_apps(set_of(&["x"]));
        after[1].1 = vec![cm(content)];
        cluster.rows(&after)
    };
    assert_eq!(rows(|app, other| [app, other], "of-a"), set(&["delete y"]));
    assert_eq!(rows(|app, other| [app, other], "broken"), set(&["delete? y"]));
    assert_eq!(rows(|app, other| [other, app], "broken"), set(&["delete y"]), "the last step is checked afterwards");
}

#[test]
fn variables_that_a_set_generates_are_followed_and_copied_ones_are_not() {
    let variables = |copies: bool| {
        let mut found = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "vars", "namespace": NS, "annotations": {}}, "data": {"name": "<< inputs.tenant >>"}});
        if copies {
            found = copy_of_source("vars");
        }
        found
    };
    let substituted = ks("k", "./k", json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "vars"}]}}));
    for (copies, expected) in [(false, set(&["delete a"])), (true, set(&[]))] {
        let files = |tenant: &str| -> Files {
            let sets = tenants(&[tenant], json!([variables(copies), cm("of-<< inputs.tenant >>")]));
            vec![("root/a.yaml", vec![sets, substituted.clone()]), ("k/cm.yaml", vec![cm("${name}")])]
        };
        let before = files("a");
        let mut cluster = TestCluster::new(&before);
        (cluster.has_operator, cluster.upgrades) = (true, Some([].into()));
        generate(&mut cluster, &before[0].1[0], &before[0].1[0]["spec"]);
        cluster.data.insert("vars".to_owned(), json!({"kind": "ConfigMap", "data": {"name": "a"}}));
        cluster.add(&cm("src"), None);
        cluster.data.remove("src");
        let built = cluster.add(&cm("a"), Some("k"));
        cluster.kustomization("k").content["status"]["inventory"]["entries"] =
            json!([{"id": inventory_id::format(&built), "v": "v1"}]);
        cluster.snapshot.normalise();
        let mut rows = cluster.rows(&files("b"));
        assert!(rows.remove("delete of-a"), "{rows:?}");
        assert_eq!(rows, expected, "{copies}");
    }
}

#[test]
fn a_release_of_a_new_input_is_created_and_says_so() {
    let cluster = cluster(&root(vec![tenants(&["a"], config_maps())]));
    let plan = cluster.plan(&root(vec![tenants(&["a"], json!([cm("<< inputs.tenant >>"), release(json!({}))]))]));
    let row = plan.changes().iter().find(|row| &*row.object.id.kind == "HelmRelease").unwrap();
    assert!(row.reason.text().contains("its release will be installed"), "{}", row.reason);
}

#[test]
fn a_new_set_is_expanded_too() {
    let cluster = cluster(&root(vec![]));
    let plan = cluster.plan(&root(vec![tenants(&["a"], config_maps())]));
    let created: Vec<&str> = plan.changes().iter().map(|row| &*row.object.id.name).collect();
    assert_eq!(created, ["a", "tenants"]);
}

#[test]
fn an_object_that_is_not_generated_for_a_moment_is_a_race() {
    let provider =
        operator("ResourceSetInputProvider", "p", json!({"type": "Static", "defaultValues": {"tenant": "b"}}));
    let resources = json!([cluster_scoped("Namespace", "<< inputs.tenant >>"), {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "in-<< inputs.tenant >>", "namespace": "<< inputs.tenant >>"},
    }]);
    let cluster = cluster(&root(vec![tenants(&["a", "b"], resources.clone())]));
    let mut after = tenants(&["a"], resources);
    after["spec"]["inputsFrom"] = json!([{"name": "p"}]);
    let rows = cluster.rows(&root(vec![after, provider]));
    assert_eq!(rows, set(&["recreate? b", "recreate? in-b"]));
}

#[test]
fn what_a_kustomization_deploys_is_a_race_with_it() {
    let resources = || json!([ks("app-<< inputs.tenant >>", "./<< inputs.tenant >>", json!({}))]);
    let cluster = cluster(&with_apps(tenants(&["a", "b"], resources())));
    let mut after = tenants(&["a"], resources());
    after["spec"]["inputsFrom"] = json!([{"name": "p"}]);
    let mut files = with_apps(after);
    files.push((
        "root/p.yaml",
        vec![operator("ResourceSetInputProvider", "p", json!({"type": "Static", "defaultValues": {"tenant": "b"}}))],
    ));
    assert_eq!(cluster.rows(&files), set(&["recreate? app-b", "recreate? of-b"]));
}

#[test]
fn an_object_that_cannot_be_applied_holds_the_deletions_back() {
    let cluster = cluster(&root(vec![tenants(&["a", "b"], config_maps())]));
    let plan = cluster.plan(&root(vec![tenants(&["a", "Bad_Name"], config_maps())]));
    let row = plan.changes().iter().find(|row| row.action == Action::Delete).unwrap();
    let expected = "not-generated: race: it stays while the API server refuses another object of its ResourceSet, as it does now: \
                    the API server refuses the name \"Bad_Name\"";
    assert_eq!(row.reason.to_string(), expected);
}

#[test]
fn an_object_of_two_sets_may_be_recreated() {
    let other = |names: &[&str]| {
        let mut other = tenants(names, config_maps());
        other["metadata"]["name"] = "other".into();
        other
    };
    let cluster = cluster(&root(vec![tenants(&["a", "b"], config_maps()), other(&["c"])]));
    let rows = cluster.rows(&root(vec![tenants(&["a"], config_maps()), other(&["b", "c"])]));
    assert_eq!(rows, set(&["recreate? b"]));
}

#[test]
fn a_failed_job_that_asks_for_it_is_created_again() {
    let job = json!([{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "<< inputs.tenant >>",
        "namespace": NS, "annotations": {"fluxcd.controlplane.io/recreateOnFailure": "enabled"}}}]);
    let before = root(vec![tenants(&["a", "b"], job.clone())]);
    let after = root(vec![tenants(&["a"], job)]);
    let mut cluster = cluster(&before);
    cluster.snapshot.types.push(crate::testing::resource_type("batch", "Job", "jobs", true));
    cluster.snapshot.normalise();
    let content = |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
    cluster.content.insert("a".to_owned(), content("Complete"));
    assert_eq!(cluster.rows(&after), set(&["delete b"]), "{}", cluster.outcome(&after, "tenants"));
    cluster.content.insert("a".to_owned(), content("Failed"));
    assert_eq!(cluster.rows(&after), set(&["recreate a", "delete b"]));
    let plan = cluster.plan(&after);
    let row = plan.changes().iter().find(|row| row.action == Action::Recreate).unwrap();
    assert_eq!(row.reason.to_string(), "failed-job");
    assert_eq!(cluster.rows(&before), set(&[]), "flux-operator does not act because of another commit");
    cluster.object("a").labels = std::iter::empty::<(String, String)>().collect();
    assert_eq!(cluster.rows(&after), set(&["delete b"]), "another owner has it");
}

#[test]
fn an_unknown_owner_says_what_is_at_stake_and_how_to_find_out() {
    let mut claim = cm("data");
    claim["kind"] = "PersistentVolumeClaim".into();
    claim["metadata"]["name"] = "<< inputs.tenant >>-data".into();
    let mut cluster = cluster(&root(vec![tenants(&["a", "b"], json!([cm("<< inputs.tenant >>"), claim]))]));
    cluster.has_operator = false;
    let why = cluster.outcome(&root(vec![tenants(&["a"], config_maps())]), "tenants");
    let end = "would be at stake: 2 PersistentVolumeClaims, 2 others; to find out: kubectl get resourceset tenants -n flux-system \
               -o yaml | flux-operator build resourceset --filename -";
    assert!(why.ends_with(end), "{why}");
}

#[test]
fn a_job_that_may_have_failed_is_created_again() {
    let job = |mark: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job-<< inputs.tenant >>", "namespace": NS,
            "annotations": {"fluxcd.controlplane.io/recreateOnFailure": mark}}})
    };
    let rows = |mark: &str| {
        let mut cluster = cluster(&root(vec![tenants(&["a"], json!([job(mark)]))]));
        cluster.snapshot.types.push(crate::testing::resource_type("batch", "Job", "jobs", true));
        cluster.snapshot.normalise();
        cluster.rows(&root(vec![tenants(&["a", "b"], json!([job(mark)]))]))
    };
    assert_eq!(rows("enabled"), set(&["recreate? job-a"]));
    assert_eq!(rows("Enabled"), set(&[]), "flux-operator compares exactly");
}

#[test]
fn what_a_set_generates_between_two_changes_is_taken_over_and_deleted() {
    let provider = |tenant: &str| {
        operator("ResourceSetInputProvider", "p", json!({"type": "Static", "defaultValues": {"tenant": tenant}}))
    };
    let with = |tenants: &[&str], name: &str| {
        let mut found = self::tenants(tenants, json!([cm(name)]));
        found["spec"]["inputsFrom"] = json!([{"name": "p"}]);
        found
    };
    let rows = |old: Option<Value>, new: Value, live: &str| {
        let sets: Vec<Value> = old.clone().into_iter().collect();
        let mut cluster = TestCluster::new(&root([sets, vec![provider("a")]].concat()));
        (cluster.has_operator, cluster.upgrades) = (true, Some([].into()));
        if let Some(old) = &old {
            generate(&mut cluster, old, &tenants(&["a"], old["spec"]["resources"].clone())["spec"]);
        }
        cluster.kustomization("p").content["status"] = json!({"exportedInputs": [{"tenant": "a", "id": "7"}]});
        cluster.add(&cm(live), None);
        cluster.snapshot.normalise();
        cluster.rows(&root(vec![new, provider("b")]))
    };
    let [old, new] = ["<< inputs.tenant >>", "new-<< inputs.tenant >>"].map(|name| with(&[], name));
    assert_eq!(rows(None, old.clone(), "a"), set(&["delete? a"]), "a new set may read the old inputs first");
    assert_eq!(rows(None, old.clone(), "c"), set(&[]));
    // The old spec with the new inputs, and the new spec with the old ones.
    assert_eq!(rows(Some(old.clone()), new.clone(), "b"), set(&["delete a", "delete? b"]));
    assert_eq!(rows(Some(old.clone()), new, "new-a"), set(&["delete a", "delete? new-a"]));
    assert_eq!(rows(Some(old.clone()), old, "new-a"), set(&["delete a"]));
}

#[test]
fn what_a_set_that_waits_changes_of_a_kustomization_is_a_race() {
    let resources = |path: &str| json!([ks("app-<< inputs.tenant >>", path, json!({}))]);
    let before = with_apps(tenants(&["a"], resources("./a")));
    let mut after = tenants(&["a"], resources("./c"));
    assert_eq!(cluster(&before).rows(&with_apps(after.clone())), set(&["delete of-a"]));
    after["spec"]["dependsOn"] = json!([depends_on(json!({"ready": true, "readyExpr": "data.v == '2'"}))]);
    let cluster = |before: &Files| {
        let mut cluster = self::cluster(before);
        cluster.add(&cm("x"), None);
        cluster.snapshot.normalise();
        cluster
    };
    assert_eq!(cluster(&before).rows(&with_apps(after.clone())), set(&["delete? of-a"]), "x cannot be read");
    let mut new = tenants(&["a", "b"], resources("./<< inputs.tenant >>"));
    new["spec"]["dependsOn"] = after["spec"]["dependsOn"].clone();
    let plan = cluster(&before).plan(&with_apps(new));
    let rows: Vec<String> =
        plan.changes().iter().map(|row| format!("{} {} {:?}", row.action, row.object.id.name, row.certainty)).collect();
    assert_eq!(rows, ["create of-b Race", "create app-b Race"]);
}

#[test]
fn a_class_that_is_not_ready_keeps_a_set_from_pruning() {
    let group = "nodes.example.com";
    let class = json!({"apiVersion": format!("{group}/v1"), "kind": "NodeClass", "metadata": {"name": "c"}});
    let files = |maps: &[Value]| root(vec![tenants(&["x"], json!([&[class.clone()][..], maps].concat()))]);
    let rows = |ready: &str| {
        let mut cluster = cluster(&files(&[cm("a"), cm("b")]));
        cluster.snapshot.types.push(crate::testing::resource_type(group, "NodeClass", "nodeclasses", false));
        cluster.snapshot.normalise();
        let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
        cluster.content.insert("c".to_owned(), json!({"kind": "NodeClass", "status": status}));
        cluster.rows(&files(&[cm("b")]))
    };
    assert_eq!(rows("True"), set(&["delete a"]));
    assert_eq!(rows("False"), set(&["delete? a"]));
}
