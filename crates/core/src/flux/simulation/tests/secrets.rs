//! Values of Secrets: what a plan hides, and what it must not hide.

use serde_json::{Value, json};

use super::super::testing::leaks::LeakCase;
use super::cluster::{Files, NS, TestCluster, artifact, cm, finished, ks};
use super::upgrades::{Template, deployed_from, spec, templates, tree, without};
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::update::Update;
use crate::flux::simulation::Preview;
use crate::flux::simulation::questions::Progress;
use crate::plan::ReasonCode;
use crate::testing::resource_type;

/// Returns the rows of a plan as it is shown, as `ACTION KIND/NAME -n NAMESPACE`.
fn shown(cluster: &TestCluster, after: &Files) -> (Vec<String>, String) {
    let preview = cluster.finish_preview(cluster.input(after));
    let plan = finished(preview.plan, &cluster.snapshot, &preview.secrets);
    let rows = plan.changes().iter().map(|change| format!("{} {}", change.action, change.object.id)).collect();
    (rows, serde_json::to_string(&plan).unwrap())
}

fn secret(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NS}, "stringData": data})
}

/// Returns files of a release whose values come from a Secret in the same tree.
fn release_files(version: &str, templates: &[Template], values: &str) -> Files {
    let mut of_release = spec(json!({}));
    of_release["valuesFrom"] = json!([{"kind": "Secret", "name": "values"}]);
    let mut files = tree(version, templates, of_release);
    files.push(("root/values.yaml", vec![secret("values", json!({"values.yaml": values}))]));
    files
}

#[test]
fn a_deletion_by_a_changed_values_secret_is_named() {
    let cluster = deployed_from(&release_files("1", &templates(), "password: hunter2hunter2\n"));
    for after in [
        release_files("1", &templates(), "password: hunter2hunter2\noff: [extra.yaml]\n"),
        release_files("2", &without("extra"), "password: hunter2hunter3\n"),
    ] {
        let (rows, text) = shown(&cluster, &after);
        assert!(rows.contains(&format!("delete configmap/extra -n {NS}")), "{rows:?}");
        assert!(rows.iter().all(|row| !row.contains("???")), "everything exists already: {rows:?}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains(&format!("\"namespace\":\"{NS}\",\"name\":\"app\"")), "{text}");
    }
}

#[test]
fn a_new_object_of_a_private_release_is_not_named() {
    let cluster = deployed_from(&release_files("1", &templates(), "n: hunter2\n"));
    let mut more = templates();
    more.push(("charts/app/templates/d.yaml", "d-{{ .Values.n }}", json!({})));
    let (rows, text) = shown(&cluster, &release_files("2", &more, "n: hunter2\n"));
    assert!(!text.contains("hunter2") && !text.contains("d-"), "{rows:?}");
    assert!(text.contains(NS), "{text}");
}

#[test]
fn a_release_whose_templates_look_up_an_object_with_values_of_a_secret_is_private() {
    let files = |version: &str, more: &[Template], data: &Value| {
        let mut all = templates();
        all.push(("charts/app/templates/lookup.yaml", "looked-up", json!({})));
        all.extend(more.iter().cloned());
        let mut files = tree(version, &all, spec(json!({})));
        let mut found = cm("found");
        found["data"] = data.clone();
        files.push(("apps/a.yaml", vec![found]));
        files
    };
    let new: Template = ("charts/app/templates/d.yaml", "d-new", json!({}));
    for (data, is_private) in [(json!({"a": "${VALUE}"}), true), (json!({"a": "open"}), false)] {
        let before = files("1", &[], &data);
        let mut cluster = deployed_from(&before);
        cluster.add(&secret("vars", json!({"VALUE": "hunter2hunter2"})), None);
        let from = json!({"postBuild": {"substituteFrom": [{"kind": "Secret", "name": "vars"}]}});
        cluster.apply(&ks("apps", "./apps", from), None, &artifact(&before));
        let found = cluster.data["found"].clone();
        cluster.content.insert("found".to_owned(), found);
        cluster.history = Some(before);
        cluster.snapshot.normalise();
        let (rows, text) = shown(&cluster, &files("2", std::slice::from_ref(&new), &data));
        assert_eq!(text.contains("d-new"), !is_private, "{data}: {rows:?} {text}");
    }
}

#[test]
fn an_owner_that_lists_the_same_data_hundreds_of_times_is_not_followed() {
    let from = |number: usize| json!(vec![json!({"kind": "ConfigMap", "name": "open"}); number]);
    for (number, is_followed) in [(200, true), (201, false)] {
        let mut of_release = spec(json!({}));
        of_release["valuesFrom"] = from(number);
        let mut open = cm("open");
        open["data"] = json!({"values.yaml": "a: b", "A": "b"});
        let mut cluster = deployed_from(&tree("1", &templates(), of_release.clone()));
        cluster.add(&open, None);
        cluster.snapshot.normalise();
        let after = tree("2", &without("extra"), of_release);
        assert_eq!(cluster.plan(&after).is_complete(), is_followed, "valuesFrom {number}");
        let variables = json!({"postBuild": {"substituteFrom": from(number)}});
        let files: Files = vec![("root/x.yaml", vec![ks("apps", "./apps", variables)]), ("apps/a.yaml", vec![cm("a")])];
        let mut cluster = TestCluster::new(&vec![("root/x.yaml", vec![cm("x")])]);
        cluster.add(&open, None);
        cluster.snapshot.normalise();
        assert_eq!(cluster.plan(&files).is_complete(), is_followed, "substituteFrom {number}");
    }
}

#[test]
fn an_update_of_an_object_of_a_private_release_is_told_without_its_values() {
    let cluster = deployed_from(&release_files("1", &templates(), "n: hunter2\n"));
    let mut changed = templates();
    changed[0].2 = json!({"example.com/n": "{{ .Values.n }}"});
    let (rows, text) = shown(&cluster, &release_files("2", &changed, "n: hunter2\n"));
    assert!(rows.iter().any(|row| row.starts_with("update configmap")), "{rows:?}");
    assert!(!text.contains("hunter2"), "{text}");
}

/// Returns a cluster with a Kustomization `apps` with the variable `VALUE` of a Secret, and files with its objects.
fn with_variable(value: &str, before: Vec<Value>, has_history: bool) -> TestCluster {
    let files: Files = vec![("root/x.yaml", vec![cm("x")]), ("apps/a.yaml", before)];
    let mut cluster = TestCluster::new(&files);
    cluster.add(&secret("vars", json!({ "VALUE": value })), None);
    let from = json!({"postBuild": {"substituteFrom": [{"kind": "Secret", "name": "vars"}]}});
    cluster.apply(&ks("apps", "./apps", from), None, &artifact(&files));
    cluster.history = has_history.then_some(files);
    cluster.snapshot.normalise();
    cluster
}

fn apps(objects: Vec<Value>) -> Files {
    vec![("root/x.yaml", vec![cm("x")]), ("apps/a.yaml", objects), ("child/a.yaml", vec![cm("of-child")])]
}

#[test]
fn a_name_that_is_public_is_not_hidden_because_a_secret_has_it_too() {
    for value in [NS, "configmap", "public-name", "web-config"] {
        let before = vec![cm("web-config"), cm("open"), cm("d-${VALUE}")];
        let mut cluster = with_variable(value, before, true);
        cluster.add(&cm("public-name"), None);
        cluster.snapshot.normalise();
        let mut object = cm("c");
        object["metadata"]["annotations"] = json!({"a": "${VALUE}"});
        let (rows, _) = shown(&cluster, &apps(vec![cm("${VALUE}-2"), object]));
        for row in ["delete configmap/web-config", "delete configmap/open", "create configmap/c"] {
            assert!(rows.contains(&format!("{row} -n {NS}")), "{value}: {rows:?}");
        }
        for row in ["create configmap/??????????-2", "delete configmap/d-??????????"] {
            assert!(rows.contains(&format!("{row} -n {NS}")), "{value}: {rows:?}");
        }
    }
}

#[test]
fn a_name_that_another_owner_made_of_an_unread_secret_makes_no_value_public() {
    let value = "hunter2hunter2";
    let mut cluster = with_variable(value, vec![cm("web-config")], true);
    cluster.add(&cm(value), None);
    let other = json!({"sourceRef": {"kind": "GitRepository", "name": "elsewhere"},
        "postBuild": {"substituteFrom": [{"kind": "Secret", "name": "unread"}]}});
    let entry = json!({"id": format!("{NS}_{value}__ConfigMap"), "v": "v1"});
    cluster.add_with_content(&ks("other", "./o", other), None, json!({"inventory": {"entries": [entry]}}));
    cluster.snapshot.normalise();
    let (rows, text) = shown(&cluster, &apps(vec![cm("web-config"), cm("new-${VALUE}")]));
    assert!(rows.contains(&format!("create configmap/new-?????????? -n {NS}")), "{rows:?}");
    assert!(!text.contains(value), "{text}");
}

#[test]
fn the_name_of_an_object_without_a_value_of_a_secret_is_shown() {
    // The value is a part of a name that stands in the tree.
    let cluster = with_variable("shop", vec![cm("shop-web"), cm("db-${VALUE}")], true);
    let (rows, _) = shown(&cluster, &apps(vec![cm("x2")]));
    assert!(rows.contains(&format!("delete configmap/shop-web -n {NS}")), "{rows:?}");
    assert!(rows.contains(&format!("delete configmap/db-?????????? -n {NS}")), "{rows:?}");
}

#[test]
fn a_changed_form_in_a_live_child_is_hidden_whatever_the_plan_needs_of_its_parent() {
    let child = |spec: Value| ks("child", "./child", spec);
    let live = child(json!({"targetNamespace": "${VALUE//u/-}", "dependsOn": [{"name": "${VALUE//u/-}"}]}));
    for (has_history, after) in [
        (true, vec![live.clone()]),
        (true, vec![child(json!({}))]),
        (true, vec![]),
        (true, vec![child(json!({"kubeConfig": {"secretRef": {"name": "other"}}}))]),
        (false, vec![live.clone()]),
        (false, vec![child(json!({}))]),
        (false, vec![]),
    ] {
        // Nothing is read for a suspended parent whose last applied revision is not known.
        for suspends in [false, has_history] {
            let mut cluster = with_variable("hunter2-hunter3", vec![live.clone()], has_history);
            cluster.kustomization("apps").content["spec"]["suspend"] = suspends.into();
            // What was applied last, the spec shows.
            cluster.kustomization("child").content["spec"]["targetNamespace"] = "h-nter2-h-nter3".into();
            cluster.kustomization("child").content["spec"]["dependsOn"][0]["name"] = "h-nter2-h-nter3".into();
            let (rows, text) = shown(&cluster, &apps(after.clone()));
            assert!(!text.contains("h-nter"), "{has_history} {after:?}: {rows:?} {text}");
        }
    }
}

#[test]
fn without_the_last_applied_revision_what_the_tree_writes_openly_is_shown() {
    let child = |path: &str| ks("child", path, json!({"postBuild": {"substitute": {"A": "b"}}}));
    let cluster = with_variable("hunter2-hunter3", vec![child("./child"), cm("d-${VALUE}")], false);
    let files = |path: &str| apps(vec![child(path), cm("d-${VALUE}")]);
    let (rows, text) = shown(&cluster, &files("./child"));
    assert!(rows.contains(&format!("create configmap/of-child -n {NS}")), "{rows:?}");
    assert!(!text.contains("hunter2"), "{text}");
    let missing = cluster.outcome(&files("./gone"), "child");
    assert!(missing.contains("are not shown") || missing.contains("./gone"), "{missing}");
}

#[test]
fn what_a_private_owner_made_is_private() {
    // The ResourceSet holds a changed form, and so does what it generated.
    let inputs = json!([{"n": "${VALUE//u/-}"}]);
    let set = json!({"apiVersion": "fluxcd.controlplane.io/v1", "kind": "ResourceSet", "metadata": {"name": "set", "namespace": NS},
        "spec": {"inputs": inputs, "resources": [ks("made", "./<< inputs.n >>", json!({}))]}});
    let mut cluster = with_variable("hunter2-hunter3", vec![set.clone()], true);
    cluster.has_operator = true;
    cluster.add_with_content(&cm("unused"), None, json!({}));
    let made = ks("made", "./h-nter2-h-nter3", json!({}));
    cluster.apply(&made, None, &artifact(&apps(vec![])));
    let entry = json!({"id": format!("{NS}_made_kustomize.toolkit.fluxcd.io_Kustomization"), "v": "v1"});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    cluster.kustomization("set").content["status"] = json!({"inventory": {"entries": [entry]}, "conditions": ready});
    cluster.snapshot.normalise();
    for after in [vec![set], vec![]] {
        let (rows, text) = shown(&cluster, &apps(after));
        assert!(!text.contains("h-nter"), "{rows:?} {text}");
    }
}

#[test]
fn a_live_spec_that_is_not_what_was_applied_last_is_hidden() {
    // Changes whose first step is refused, and live children with a changed form.
    for (ways, form) in [([7, 86], 6), ([133, 83], 10), ([126, 7], 3), ([96, 83], 10)] {
        for case in LeakCase::of_deployed(ways, form) {
            let plans = [&case.private.plan, &case.private.back].map(|plan| serde_json::to_string(plan).unwrap());
            let texts = [&*plans[0], &plans[1], &case.private.searches].join("\n");
            let mut forms = case.forbidden().into_iter();
            assert_eq!(forms.find(|form| texts.contains(form.as_str())), None, "{:?}", case.ways);
        }
    }
}

/// Returns a cluster after some files were applied, and its plan for others. Their Kustomization of the folder `apps`
/// has the variable `VALUE` of a Secret.
fn planned_with_variable(mut cluster: TestCluster, before: &Files, after: &Files) -> String {
    cluster.add(&secret("vars", json!({"VALUE": "hunter2hunter2"})), None);
    let from = json!({"postBuild": {"substituteFrom": [{"kind": "Secret", "name": "vars"}]}});
    cluster.apply(&ks("apps", "./apps", from), None, &artifact(before));
    cluster.history = Some(before.clone());
    cluster.snapshot.normalise();
    let (_, text) = shown(&cluster, after);
    text
}

#[test]
fn claims_of_a_set_with_a_private_name_are_not_named() {
    let files = |name: &str, replicas: u8| -> Files {
        let spec = json!({"replicas": replicas, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}]});
        let metadata = json!({"name": name, "namespace": NS});
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec});
        vec![("root/x.yaml", vec![cm("x")]), ("apps/a.yaml", vec![set])]
    };
    for (name, is_hidden) in [("db-${VALUE}", true), ("db-hunter2hunter2", false)] {
        let before = files(name, 3);
        let mut cluster = TestCluster::new(&before);
        for (group, kind, plural) in
            [("apps", "StatefulSet", "statefulsets"), ("", "PersistentVolumeClaim", "persistentvolumeclaims")]
        {
            cluster.snapshot.types.push(resource_type(group, kind, plural, true));
        }
        let metadata = json!({"name": "data-db-hunter2hunter2-2", "namespace": NS});
        cluster.add(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}), None);
        cluster.content.insert("db-hunter2hunter2".to_owned(), json!({"spec": {"replicas": 3}}));
        let text = planned_with_variable(cluster, &before, &files(name, 2));
        assert!(text.contains("scaled-down"), "{text}");
        // The uid of an object has its name here.
        assert_eq!(!text.contains("\"name\":\"data-db-hunter2hunter2-2\""), is_hidden, "{name}: {text}");
        assert_eq!(text.contains("\"name\":\"data-db-??????????-2\""), is_hidden, "{name}: {text}");
    }
}

#[test]
fn what_a_release_says_of_a_private_source_of_its_chart_is_not_shown() {
    let of_registry = json!({"chartRef": {"kind": "OCIRepository", "name": "oci"}, "values": {}});
    let files = |address: &str, tag: &str, names: &[&str]| {
        let mut files = tree("1", &templates(), of_registry.clone());
        let release = files[1].1.remove(0);
        let named = names.iter().map(|name| {
            let mut release = release.clone();
            release["metadata"]["name"] = (*name).into();
            release
        });
        files[1].1 = named.collect();
        let fields = json!({"url": address, "ref": {"tag": tag}});
        files.push(("apps/a.yaml", vec![super::unfollowed::source("OCIRepository", "oci", fields)]));
        files
    };
    // The source changes, which a command can show, or a new release needs the chart.
    for names in [&["app"][..], &["app", "new"]] {
        for (address, is_hidden) in [("oci://example.com/${VALUE}", true), ("oci://example.com/hunter2hunter2", false)]
        {
            let before = files(address, "1", &["app"]);
            let text = planned_with_variable(deployed_from(&before), &before, &files(address, "2", names));
            assert_eq!(!text.contains("hunter2"), is_hidden, "{address} {names:?}: {text}");
        }
    }
}

#[test]
fn the_branch_of_a_private_source_is_not_named_by_what_commits_to_it() {
    let files = |branch: &str, more: Vec<Value>| -> Files {
        let fields = json!({"url": "https://example.com/other", "ref": {"branch": branch}});
        vec![
            ("root/a.yaml", [vec![cm("x")], more].concat()),
            ("apps/a.yaml", vec![super::unfollowed::source("GitRepository", "other", fields)]),
        ]
    };
    let automation = json!({"apiVersion": "image.toolkit.fluxcd.io/v1", "kind": "ImageUpdateAutomation",
        "metadata": {"name": "images", "namespace": NS}, "spec": {"sourceRef": {"kind": "GitRepository", "name": "other"}}});
    for (branch, is_hidden) in [("${VALUE}", true), ("hunter2hunter2", false)] {
        let before = files(branch, vec![]);
        let mut cluster = TestCluster::new(&before);
        let kind = ("image.toolkit.fluxcd.io", "ImageUpdateAutomation", "imageupdateautomations", true);
        cluster.snapshot.types.push(crate::testing::resource_type(kind.0, kind.1, kind.2, kind.3));
        let text = planned_with_variable(cluster, &before, &files(branch, vec![automation.clone()]));
        assert_eq!(!text.contains("hunter2"), is_hidden, "{branch}: {text}");
    }
}

#[test]
fn a_present_failure_of_what_reads_a_secret_is_not_quoted() {
    for (reads, is_hidden) in [(true, true), (false, false)] {
        let mut cluster = with_variable("hunter2-hunter3", vec![cm("a")], true);
        let live = cluster.kustomization("apps");
        if !reads {
            live.content["spec"]["postBuild"] = Value::Null;
        }
        let message = "timeout waiting for: [Namespace/h-nter2-h-nter3 status: 'Terminating']";
        live.content["status"]["conditions"] =
            json!([{"type": "Ready", "status": "False", "reason": "ReconciliationFailed", "message": message}]);
        let outcome = cluster.outcome(&apps(vec![cm("b")]), "apps");
        assert!(outcome.contains("its present failure is resolved"), "{outcome}");
        assert_eq!(!outcome.contains("h-nter"), is_hidden, "{outcome}");
    }
}

#[test]
fn a_schema_that_refuses_a_value_of_a_secret_does_not_quote_it() {
    let definition = |size: &str| {
        let spec = json!({"type": "object", "properties": {"size": {"type": "string", "enum": [size]}}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.e.com"},
            "spec": {"group": "e.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": schema}}]}})
    };
    let widget = |size: &str| json!({"apiVersion": "e.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": NS}, "spec": {"size": size}});
    let (value, variable) = ("hunter2hunter2", "${VALUE}");
    for (allowed, size, is_hidden) in
        [("b", variable, true), (variable, "b", true), ("b", value, false), (value, "b", false)]
    {
        let mut cluster = with_variable(value, vec![definition("a"), widget("a")], true);
        let definitions = ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false);
        for (group, kind, plural, namespaced) in [definitions, ("e.com", "Widget", "widgets", true)] {
            cluster.snapshot.types.push(crate::testing::resource_type(group, kind, plural, namespaced));
        }
        let update = Update { reason: ReasonCode::Changed.into(), diff: String::new(), changes_content: true };
        cluster.results = vec![(|_| true, DryRunResult::Updated(update))];
        let (rows, text) = shown(&cluster, &apps(vec![definition(allowed), widget(size)]));
        assert!(text.contains("refuses it after kustomization/apps"), "{allowed} {size}: {rows:?} {text}");
        assert_eq!(text.contains("hunter2"), !is_hidden, "{allowed} {size}: {text}");
    }
}

#[test]
fn a_missing_path_of_a_private_source_is_not_quoted() {
    let sparse = |name: &str, entry: &str| {
        let fields = json!({"url": "https://example.com/repo", "sparseCheckout": ["root", "apps", entry]});
        super::unfollowed::source("GitRepository", name, fields)
    };
    let files = |sources: Vec<Value>, more: Vec<Value>| -> Files {
        vec![("root/a.yaml", [vec![cm("x")], more].concat()), ("apps/a.yaml", sources)]
    };
    let of_second = ks("k", "./apps", json!({"sourceRef": {"kind": "GitRepository", "name": "second"}}));
    for (entry, is_hidden) in [("${VALUE}", true), ("hunter2hunter2", false)] {
        let before = files(vec![sparse("repo", entry)], vec![]);
        let after = files(vec![sparse("repo", entry)], vec![cm("y")]);
        let stuck = planned_with_variable(TestCluster::new(&before), &before, &after);
        assert!(stuck.contains("keeps the artifact that it has"), "{entry}: {stuck}");
        assert_eq!(!stuck.contains("hunter2"), is_hidden, "{entry}: {stuck}");
        let before = files(vec![sparse("repo", "apps")], vec![]);
        let after = files(vec![sparse("repo", "apps"), sparse("second", entry)], vec![of_second.clone()]);
        let new = planned_with_variable(TestCluster::new(&before), &before, &after);
        assert!(new.contains("second"), "{entry}: {new}");
        assert_eq!(!new.contains("hunter2"), is_hidden, "{entry}: {new}");
    }
}

#[test]
fn a_new_namespace_of_a_private_release_is_not_named() {
    let files = |namespace: &str, releases: usize| {
        let mut files = tree("1", &templates(), spec(json!({})));
        let mut release = files[1].1.remove(0);
        release["spec"]["targetNamespace"] = namespace.into();
        release["spec"]["install"] = json!({"createNamespace": true});
        files.push(("apps/a.yaml", [vec![cm("y")], vec![release; releases]].concat()));
        files
    };
    for (namespace, is_hidden) in [("${VALUE}", true), ("hunter2hunter2", false)] {
        let before = files(namespace, 0);
        let planned = |is_rehearsed: bool| {
            let mut cluster = TestCluster::new(&before);
            cluster.upgrades = is_rehearsed.then(std::collections::BTreeMap::new);
            planned_with_variable(cluster, &before, &files(namespace, 1))
        };
        let text = [false, true].map(planned).concat();
        assert!(text.contains("\"kind\":\"HelmRelease\""), "{text}");
        assert_eq!(!text.contains("hunter2"), is_hidden, "{namespace}: {text}");
    }
}

#[test]
fn a_lookup_by_a_value_of_a_secret_is_not_told() {
    let lookup: Template = ("charts/app/templates/lookup-kind.yaml", "looked-up", json!({}));
    let templates = [templates(), vec![lookup]].concat();
    let values = "n: hunter2hunter2\n";
    let cluster = deployed_from(&release_files("1", &super::upgrades::templates(), values));
    let (_, text) = shown(&cluster, &release_files("2", &templates, values));
    assert!(!text.contains("hunter2") && text.contains("unknown"), "{text}");
    let open = spec(json!({"n": "hunter2hunter2"}));
    let cluster = deployed_from(&tree("1", &super::upgrades::templates(), open.clone()));
    let (_, text) = shown(&cluster, &tree("2", &templates, open));
    assert!(text.contains("its chart looks up hunter2hunter2, which the cluster does not serve"), "{text}");
}

#[test]
fn a_secret_does_not_choose_which_objects_are_looked_up() {
    let why = "what its chart looks up depends on values of a Secret";
    let values = "n: ConfigMap\n";
    for (file, is_chosen) in
        [("charts/app/templates/lookup-kind.yaml", true), ("charts/app/templates/lookup.yaml", false)]
    {
        let lookup: Template = (file, "made-after-a-lookup", json!({}));
        let mut cluster = deployed_from(&release_files("1", &super::upgrades::templates(), values));
        cluster.add(&cm("found"), None);
        cluster.content.insert("found".to_owned(), cm("found"));
        cluster.snapshot.normalise();
        let after = [templates(), vec![lookup]].concat();
        let (_, text) = shown(&cluster, &release_files("2", &after, values));
        assert_eq!(text.contains(why), is_chosen, "{file}: {text}");
    }
}

#[test]
fn no_chart_is_fetched_by_a_value_of_a_secret() {
    let address = json!({"url": "https://charts.example.com"});
    let repository = super::unfollowed::source("HelmRepository", "charts", address);
    let release = |chart: &str| {
        let reference = json!({"kind": "HelmRepository", "name": "charts"});
        let chart = json!({"chart": chart, "version": "2.0.0", "sourceRef": reference});
        json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "app", "namespace": NS},
            "spec": {"chart": {"spec": chart}}})
    };
    let files = |releases: Vec<Value>| -> Files {
        vec![("root/x.yaml", vec![cm("x"), repository.clone()]), ("apps/a.yaml", [vec![cm("y")], releases].concat())]
    };
    for (chart, expected) in [("${VALUE}", 0), ("hunter2hunter2", 1)] {
        let before = files(vec![]);
        let mut cluster = TestCluster::new(&before);
        cluster.remote = Some(std::collections::BTreeMap::new());
        cluster.add(&secret("vars", json!({"VALUE": "hunter2hunter2"})), None);
        let from = json!({"postBuild": {"substituteFrom": [{"kind": "Secret", "name": "vars"}]}});
        cluster.apply(&ks("apps", "./apps", from), None, &artifact(&before));
        cluster.history = Some(before.clone());
        cluster.snapshot.normalise();
        let after = files(vec![release(chart)]);
        let mut preview = Preview::new(cluster.input(&after));
        let mut asked = std::collections::BTreeSet::new();
        cluster.finish(|answers| {
            let progress = preview.step(answers);
            if let Progress::Needs(needs) = &progress {
                asked.extend(needs.builds.remote_charts.iter().map(ToString::to_string));
            }
            progress
        });
        assert_eq!(asked.len(), expected, "{chart}: {asked:?}");
    }
}
