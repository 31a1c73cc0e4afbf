//! Values that SOPS encrypts in other objects than Secrets.

use serde_json::{Value, json};

use super::cluster::{Files, TestCluster, annotated, cm, finished, ks, set};
use super::resource_sets::{cluster as sets, tenants};
use super::upgrades::{Template, deployed_from, spec, templates, tree, without};
use crate::kubernetes::object::ManagedFieldsEntry;
use crate::plan::{Action, Certainty, Plan};

/// Returns a value as SOPS writes it.
fn secret(text: &str) -> Value {
    format!("ENC[AES256_GCM,data:{text},iv:i,tag:t,type:str]").into()
}

/// Returns a manifest as a file that SOPS encrypted.
fn encrypted(mut manifest: Value) -> Value {
    manifest["sops"] = json!({"mac": secret("mac"), "encrypted_regex": "^(tenant|values|substitute)$"});
    manifest
}

/// Returns files in which a Kustomization that decrypts applies some objects.
fn decrypting(objects: Vec<Value>) -> Files {
    vec![("root/k.yaml", vec![ks("k", "./p", json!({"decryption": {"provider": "sops"}}))]), ("p/a.yaml", objects)]
}

/// Returns the unknown rows as `NAME: REASON`.
fn unknown(plan: &Plan) -> Vec<String> {
    let rows = plan.changes().iter().filter(|change| change.action == Action::Unknown);
    let rows: Vec<String> = rows.map(|row| format!("{}: {}", row.object.id.name, row.reason)).collect();
    assert_eq!(plan.is_complete(), rows.is_empty(), "{:?}", plan.gaps());
    rows
}

/// Returns a ResourceSet for two tenants, the second of which may be encrypted.
fn set_with(second: Value, resources: &[&str]) -> Value {
    let resources: Vec<Value> = resources.iter().map(|name| cm(name)).collect();
    let mut set = tenants(&["a", "b"], resources.into());
    set["spec"]["inputs"][1]["tenant"] = second;
    set
}

#[test]
fn the_live_spec_tells_the_encrypted_values_that_were_applied_last() {
    const ALL: [&str; 2] = ["<< inputs.tenant >>", "x-<< inputs.tenant >>"];
    let with = |second: &str, resources: &[&str]| decrypting(vec![encrypted(set_with(secret(second), resources))]);
    let mut cluster = sets(&decrypting(vec![set_with("b".into(), &ALL)]));
    cluster.history = Some(with("b", &ALL));
    assert_eq!(unknown(&cluster.plan(&with("b", &ALL))), [""; 0]);
    let fewer = cluster.plan(&with("b", &ALL[..1]));
    assert_eq!(unknown(&fewer), [""; 0]);
    assert_eq!(cluster.rows(&with("b", &ALL[..1])), set(&["delete x-a", "delete x-b"]));
    let other = cluster.plan(&with("c", &ALL));
    assert_eq!(unknown(&other).len(), 1, "{:?}", other.changes());
    assert_eq!(cluster.rows(&with("c", &ALL)), set(&["unknown tenants"]));
    cluster.history = None;
    assert_eq!(unknown(&cluster.plan(&with("b", &ALL))).len(), 1, "what was applied last is not known");
}

#[test]
fn an_encrypted_value_can_hold_a_variable() {
    let with = |second: Value, value: &str| {
        let more = json!({"decryption": {"provider": "sops"}, "postBuild": {"substitute": {"v": value}}});
        let mut set = set_with(second, &["<< inputs.tenant >>"]);
        set = if set["spec"]["inputs"][1]["tenant"] == "b" { set } else { encrypted(set) };
        vec![("root/k.yaml", vec![ks("k", "./p", more)]), ("p/a.yaml", vec![set])]
    };
    let mut cluster = sets(&with("b".into(), "1"));
    cluster.history = Some(with(secret("b"), "1"));
    assert_eq!(unknown(&cluster.plan(&with(secret("b"), "1"))), [""; 0]);
    assert_eq!(unknown(&cluster.plan(&with(secret("b"), "2"))).len(), 1);
}

#[test]
fn encrypted_values_of_a_release_are_known_if_they_stay() {
    let with = |templates: &[Template], password: Value, is_encrypted: bool| -> Files {
        let version = if templates.len() == 3 { "1" } else { "2" };
        let mut files = tree(version, templates, spec(json!({"password": password})));
        let mut release = files[1].1.remove(0);
        if is_encrypted {
            release = encrypted(release);
        }
        files[1] = ("p/a.yaml", vec![release]);
        files.extend(decrypting(vec![]).into_iter().take(1));
        files
    };
    let mut cluster = deployed_from(&with(&templates(), "hunter2hunter2".into(), false));
    cluster.history = Some(with(&templates(), secret("a"), true));
    let after = |templates: &[Template], text: &str| with(templates, secret(text), true);
    assert_eq!(unknown(&cluster.plan(&after(&templates(), "a"))), [""; 0]);
    let fewer = after(&without("extra"), "a");
    assert_eq!(unknown(&cluster.plan(&fewer)), [""; 0]);
    assert_eq!(cluster.rows(&fewer), set(&["delete extra"]));
    let preview = cluster.finish_preview(cluster.input(&fewer));
    let shown = serde_json::to_string(&preview.plan).unwrap();
    assert!(!shown.contains("hunter2") && !shown.contains("ENC["), "{shown}");
    assert_eq!(unknown(&cluster.plan(&after(&templates(), "b"))).len(), 1);
}

#[test]
fn an_encrypted_value_that_somebody_else_changed_is_not_known() {
    const ALL: [&str; 2] = ["<< inputs.tenant >>", "x-<< inputs.tenant >>"];
    let with = |resources: &[&str]| decrypting(vec![encrypted(set_with(secret("b"), resources))]);
    let mut cluster = sets(&decrypting(vec![set_with("b".into(), &ALL)]));
    cluster.history = Some(with(&ALL));
    for (fields, is_known) in [(json!({"f:inputs": {}, "f:resources": {}}), true), (json!({"f:resources": {}}), false)]
    {
        cluster.kustomization("tenants").object.managed_fields = vec![ManagedFieldsEntry {
            manager: "kustomize-controller".into(),
            applies: true,
            spec: Some(Box::new(fields)),
            ..Default::default()
        }];
        assert_eq!(unknown(&cluster.plan(&with(&ALL[..1]))).is_empty(), is_known);
    }
}

#[test]
fn an_encrypted_spec_of_a_kustomization_is_no_text() {
    let with = |value: Value, objects: Vec<Value>| -> Files {
        let more = json!({"postBuild": {"substitute": {"env": value}}});
        let child = ks("c", "./c", more);
        let child = if child["spec"]["postBuild"]["substitute"]["env"] == "prod" { child } else { encrypted(child) };
        let mut files = decrypting(vec![child]);
        files.push(("c/a.yaml", objects));
        files
    };
    let objects = || vec![cm("app-${env}"), cm("b")];
    let mut cluster = TestCluster::new(&with("prod".into(), objects()));
    cluster.history = Some(with(secret("a"), objects()));
    for (text, objects) in [("a", objects()), ("b", objects()), ("a", vec![cm("app-${env}")])] {
        let plan = cluster.plan(&with(secret(text), objects));
        assert!(!plan.is_complete(), "{text}: {:?}", plan.changes());
        assert_eq!(plan.deletions().count(), 0, "{text}");
    }
}

#[test]
fn variables_with_another_encrypted_text_are_not_known() {
    // The Secret is applied by the Kustomization that decrypts, and another one reads it.
    let with = |value: Option<Value>, kind: &str, more: &[&str]| -> Files {
        let from = json!({"postBuild": {"substituteFrom": [{"kind": kind, "name": "vars"}]}});
        let data = |value| {
            let mut data = cm("vars");
            (data["kind"], data["data"]["v"]) = (kind.into(), value);
            encrypted(data)
        };
        let mut files = decrypting(value.into_iter().map(data).collect());
        files.push(("root/reader.yaml", vec![ks("reader", "./r", from)]));
        files.push(("r/a.yaml", more.iter().map(|name| cm(name)).collect()));
        files
    };
    for kind in ["ConfigMap", "Secret"] {
        let all: &[&str] = &["a-${v}", "b"];
        let value = if kind == "Secret" { "cHJvZA==" } else { "prod" };
        let mut cluster = TestCluster::new(&with(Some(value.into()), kind, all));
        cluster.history = Some(with(Some(secret("1")), kind, all));
        let same = with(Some(secret("1")), kind, &all[..1]);
        assert_eq!(cluster.rows(&same), set(&["delete b"]), "{kind}");
        let other = cluster.plan(&with(Some(secret("2")), kind, &all[..1]));
        assert!(!other.is_complete() && other.deletions().all(|row| row.certainty == Certainty::Race), "{kind}");
        let outcome = cluster.outcome(&with(Some(secret("2")), kind, all), "reader");
        assert!(outcome.contains("it is encrypted, and not known to be what was applied last"), "{outcome}");
        cluster.history = None;
        assert!(!cluster.plan(&same).is_complete(), "{kind}: what was applied last is not known");
    }
}

/// Returns files with a ConfigMap that a Kustomization with decryption applies.
fn with_data(data: Value) -> Value {
    let mut manifest = cm("found");
    manifest["data"]["a"] = data;
    manifest
}

#[test]
fn an_object_that_was_encrypted_is_private() {
    let live = || with_data("hunter2hunter2".into());
    let mut cluster = TestCluster::new(&decrypting(vec![live(), cm("open")]));
    let mut open = cm("open");
    open["data"]["a"] = "before".into();
    cluster.data.insert("open".to_owned(), open);
    cluster.history = Some(decrypting(vec![encrypted(with_data(secret("a"))), cm("open")]));
    let after = decrypting(vec![with_data("new".into()), cm("open")]);
    cluster.compares = true;
    let text = format!("{:?}", cluster.finish_preview(cluster.input(&after)).plan);
    assert!(!text.contains("hunter2") && text.contains("before"), "{text}");
    (cluster.compares, cluster.quotes_live) = (false, true);
    let text = format!("{:?}", cluster.finish_preview(cluster.input(&after)).plan);
    assert!(!text.contains("hunter2") && text.contains("before"), "{text}");
}

#[test]
fn a_release_whose_templates_look_up_an_encrypted_object_is_private() {
    let files = |version: &str, more: &[Template], found: Value| {
        let mut all = templates();
        all.push(("charts/app/templates/lookup.yaml", "looked-up", json!({})));
        all.extend(more.iter().cloned());
        let mut files = tree(version, &all, spec(json!({})));
        files.extend(decrypting(vec![found]));
        files
    };
    let new: Template = ("charts/app/templates/d.yaml", "d-new", json!({}));
    for is_encrypted in [true, false] {
        let manifest = || if is_encrypted { encrypted(with_data(secret("a"))) } else { with_data("open".into()) };
        let mut cluster = deployed_from(&files("1", &[], with_data("open".into())));
        cluster.content.insert("found".to_owned(), with_data("open".into()));
        cluster.history = Some(files("1", &[], manifest()));
        let preview = cluster.finish_preview(cluster.input(&files("2", std::slice::from_ref(&new), manifest())));
        let text = serde_json::to_string(&preview.plan).unwrap();
        assert_eq!(text.contains("d-new"), !is_encrypted, "{text}");
    }
}

/// Returns the texts of the plan of a change, with the differences of all objects, and as it is if the server refuses each change and
/// quotes the live object.
fn texts(cluster: &mut TestCluster, after: &Files) -> [String; 2] {
    [(true, false), (false, true)].map(|(compares, quotes_live)| {
        (cluster.compares, cluster.quotes_live) = (compares, quotes_live);
        format!("{:?}", cluster.finish_preview(cluster.input(after)).plan)
    })
}

#[test]
fn a_live_object_is_private_unless_it_is_known_that_it_was_not_encrypted() {
    let live = || with_data("hunter2hunter2".into());
    let with = |object: Value, decrypts: bool| -> Files {
        let more = if decrypts { json!({"decryption": {"provider": "sops"}}) } else { json!({}) };
        vec![("root/k.yaml", vec![ks("k", "./p", more)]), ("p/a.yaml", vec![object])]
    };
    for (what, decrypts, history, is_hidden) in [
        ("no history", true, None, true),
        ("it was plain", true, Some(with(live(), true)), false),
        ("nothing is decrypted", false, None, false),
    ] {
        let mut cluster = TestCluster::new(&with(live(), decrypts));
        cluster.history = history;
        for text in texts(&mut cluster, &with(with_data("new".into()), decrypts)) {
            assert_eq!(!text.contains("hunter2"), is_hidden, "{what}: {text}");
        }
    }
}

#[test]
fn what_a_failed_attempt_decrypted_is_private() {
    // The last revision that was applied has neither value. A later one, which failed in a later stage, had both encrypted.
    let with = |found: Option<Value>, old: &str| -> Files {
        let mut kept = cm("kept");
        kept["data"] = json!({"a": old});
        decrypting(found.into_iter().chain([kept]).collect())
    };
    let mut cluster = TestCluster::new(&with(None, "hunter2hunter2"));
    cluster.history = Some(with(None, "before"));
    cluster.add(&with_data("hunter2hunter2".into()), Some("k"));
    cluster.snapshot.normalise();
    let after = with(Some(with_data("new".into())), "new");
    for (status, is_hidden) in [("True", false), ("False", true)] {
        cluster.kustomization("k").content["status"]["conditions"][0]["status"] = status.into();
        for text in texts(&mut cluster, &after) {
            assert_eq!(!text.contains("hunter2"), is_hidden, "{status}: {text}");
        }
    }
}

#[test]
fn what_an_owner_made_of_an_encrypted_spec_is_private() {
    // The child may have had an encrypted variable. The tree now has a plain one.
    let with = |value: &str, child: &str| -> Files {
        let more = json!({"postBuild": {"substitute": {"v": value}}});
        let mut files = decrypting(vec![ks("c", "./c", more)]);
        let mut of_child = cm("of-child");
        of_child["data"] = json!({"a": "${v}", "b": child});
        files.push(("c/a.yaml", vec![of_child]));
        files
    };
    let mut cluster = TestCluster::new(&with("hunter2hunter2", "1"));
    for (value, is_hidden) in [("new", true), ("hunter2hunter2", false)] {
        let plan = texts(&mut cluster, &with(value, "2"));
        assert_eq!(!plan[0].contains("hunter2"), is_hidden, "{value}: {}", plan[0]);
    }
}

#[test]
fn a_variable_that_may_have_been_encrypted_is_private() {
    // The tree no longer has the variable, and the live object stays.
    let with = |value: Option<&str>, names: &[&str]| -> Files {
        let vars = |value| annotated(with_variable(value), "prune", "disabled");
        let from = json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "vars"}]}});
        let mut files = decrypting(value.into_iter().map(vars).collect());
        files.push(("root/r.yaml", vec![ks("r", "./r", from)]));
        files.push(("r/a.yaml", names.iter().map(|name| cm(name)).collect()));
        files
    };
    let cluster = TestCluster::new(&with(Some("hunter2hunter2"), &["a"]));
    for (value, is_hidden) in [(None, true), (Some("hunter2hunter2"), false)] {
        let preview = cluster.finish_preview(cluster.input(&with(value, &["a", "b-${v}"])));
        let plan = finished(preview.plan, &cluster.snapshot, &preview.secrets);
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(!text.contains("hunter2"), is_hidden, "{value:?}: {text}");
    }
}

/// Returns a ConfigMap with a variable.
fn with_variable(value: &str) -> Value {
    let mut vars = cm("vars");
    vars["data"] = json!({"v": value});
    vars
}

#[test]
fn an_encrypted_target_does_not_replace_a_release() {
    let with = |name: Value| {
        let mut files = tree("1", &templates(), spec(json!({})));
        let mut release = files[1].1.remove(0);
        if name != "app" {
            release["spec"]["releaseName"] = name;
            release = encrypted(release);
        }
        files[1] = ("p/a.yaml", vec![release]);
        files.extend(decrypting(vec![]).into_iter().take(1));
        files
    };
    let cluster = deployed_from(&with("app".into()));
    let plan = cluster.plan(&with(secret("1")));
    assert_eq!((plan.deletions().count(), unknown(&plan).len()), (0, 1), "{:?}", plan.changes());
}

#[test]
fn an_encrypted_chart_of_a_release_is_not_known() {
    let with = |chart: Value, version: &str| {
        let mut files = tree(version, &templates(), spec(json!({})));
        let mut release = files[1].1.remove(0);
        release["spec"]["chart"] = Value::Null;
        release["spec"]["chartRef"] = json!({"kind": "HelmChart", "name": "chart"});
        let mut of_chart = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart",
            "metadata": {"name": "chart", "namespace": super::cluster::NS},
            "spec": {"chart": chart, "sourceRef": {"kind": "GitRepository", "name": "repo"}}});
        if of_chart["spec"]["chart"] != "./charts/app" {
            of_chart = encrypted(of_chart);
        }
        files[1] = ("p/a.yaml", vec![release, of_chart]);
        files.extend(decrypting(vec![]).into_iter().take(1));
        files
    };
    let mut cluster = deployed_from(&with("./charts/app".into(), "1"));
    cluster.history = Some(with(secret("1"), "1"));
    let plan = cluster.plan(&with(secret("2"), "1"));
    assert_eq!((plan.deletions().count(), unknown(&plan).len()), (0, 1), "{:?}", plan.changes());
}

#[test]
fn encrypted_instructions_to_controllers_are_not_known() {
    let with = |key: &str, value: Value| {
        let mut object = cm("a");
        object["metadata"]["annotations"] = json!({ key: value });
        decrypting(vec![encrypted(object), cm("b")])
    };
    let cluster = TestCluster::new(&with("example.com/x", "plain".into()));
    for (key, value, is_known) in [
        ("kustomize.toolkit.fluxcd.io/ssa", secret("1"), false),
        ("kustomize.toolkit.fluxcd.io/ssa", "Merge".into(), true),
        ("example.com/x", secret("1"), true),
    ] {
        let outcome = cluster.outcome(&with(key, value), "k");
        assert_eq!(
            !outcome.contains(&format!("{key} of configmap/a -n flux-system is encrypted")),
            is_known,
            "{outcome}"
        );
    }
}

#[test]
fn a_provider_with_encrypted_labels_may_be_selected() {
    let with = |provider: Option<Value>| {
        let mut set = set_with("b".into(), &["x-<< inputs.tenant >>"]);
        set["spec"]["inputsFrom"] = json!([{"selector": {"matchLabels": {"a": "b"}}}]);
        decrypting([set].into_iter().chain(provider).collect())
    };
    let provider = |label: Value| {
        json!({"apiVersion": "fluxcd.controlplane.io/v1", "kind": "ResourceSetInputProvider",
            "metadata": {"name": "more", "namespace": super::cluster::NS, "labels": {"a": label}},
            "spec": {"type": "Static", "defaultValues": {"tenant": "c"}}})
    };
    let cluster = sets(&with(None));
    assert_eq!(unknown(&cluster.plan(&with(Some(provider("other".into()))))), [""; 0]);
    let hidden = cluster.plan(&with(Some(encrypted(provider(secret("1"))))));
    assert_eq!(unknown(&hidden).len(), 1, "{:?}", hidden.changes());
}

#[test]
fn an_encrypted_source_with_another_text_can_fetch_something_else() {
    let with = |branch: Value, objects: &[&str]| {
        let fields = json!({"url": "https://example.com/repo", "ref": {"branch": branch}});
        let mut repository = super::unfollowed::source("GitRepository", "repo", fields);
        if repository["spec"]["ref"]["branch"] != "main" {
            repository = encrypted(repository);
        }
        let mut files = decrypting(vec![repository]);
        files.push(("root/c.yaml", vec![ks("c", "./c", json!({}))]));
        files.push(("c/a.yaml", objects.iter().map(|name| cm(name)).collect()));
        files
    };
    let mut cluster = TestCluster::new(&with("main".into(), &["a", "b"]));
    cluster.history = Some(with(secret("1"), &["a", "b"]));
    for (text, outcome) in [("1", "Applies"), ("2", "Unknown")] {
        let found = cluster.outcome(&with(secret(text), &["a"]), "c");
        assert!(found.starts_with(outcome), "{text}: {found}");
    }
}

#[test]
fn what_a_release_made_of_an_encrypted_spec_is_private() {
    let with = |color: &str| {
        let mut files = tree("1", &templates(), spec(json!({"color": color})));
        let release = files[1].1.remove(0);
        files[1] = ("p/a.yaml", vec![release]);
        let mut manifest = cm("web");
        manifest["data"] = json!({"a": "{{ .Values.color }}"});
        files.retain(|(at, _)| *at != "charts/app/templates/web.yaml");
        files.push(("charts/app/templates/web.yaml", vec![manifest]));
        files
    };
    let files = |color: &str| {
        let mut files = with(color);
        files.extend(decrypting(vec![]).into_iter().take(1));
        files
    };
    let mut cluster = deployed_from(&files("hunter2hunter2"));
    cluster.compares = true;
    let mut live = cm("web");
    live["data"] = json!({"a": "hunter2hunter2"});
    cluster.data.insert("web".to_owned(), live);
    // The last revision that was applied is known. A later attempt failed.
    for (status, is_hidden) in [("False", true), ("True", false)] {
        cluster.kustomization("k").content["status"]["conditions"][0]["status"] = status.into();
        let text = format!("{:?}", cluster.finish_preview(cluster.input(&files("new"))).plan);
        assert_eq!(!text.contains("hunter2"), is_hidden, "{status}: {text}");
        assert_eq!(!text.contains("configmap/web -n flux-system (live)"), is_hidden, "{status}: {text}");
    }
}
