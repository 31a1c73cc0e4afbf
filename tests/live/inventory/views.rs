//! `inventory` on a cluster that kustomize-controller, Helm and kapp really manage: narrower readings, Helm's records, and
//! users with few rights.

use std::fs;
use std::process::Command;

use gitops_core::kubernetes::object::KeyValues;
use gitops_core::kubernetes::selector::Selector;
use serde_json::Value;
use test_support::cluster::with_kustomize_controller;
use test_support::flux;
use test_support::folder::folder;
use test_support::gitops::{Run, gitops, gitops_as};
use test_support::shared_cluster;
use xtask::cluster::Cluster;
use xtask::controlplane::bin;

// The cluster of these tests, with kustomize-controller and an audit log.
shared_cluster!(with_kustomize_controller);

fn tool(cluster: &Cluster, name: &str, args: &[&str]) {
    let mut command = Command::new(bin(name));
    let output = command.args(args).env("KUBECONFIG", cluster.kubeconfig()).output().expect("the tool runs");
    assert!(output.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A chart with a ConfigMap, a ClusterRole and a Secret, installed as a release; the Secret's value is `hunter2`.
fn install(cluster: &Cluster, namespace: &str, release: &str) {
    let chart = folder(&format!("chart-{release}"));
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: web\nversion: 0.1.0\n").unwrap();
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\n---\n\
        apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: \"system:{{ .Release.Name }}\"}\nrules: []\n---\n\
        apiVersion: v1\nkind: Secret\nmetadata: {name: \"{{ .Release.Name }}\"}\nstringData: {password: hunter2}\n";
    fs::write(chart.join("templates/all.yaml"), manifest).unwrap();
    let _ = cluster.kubectl(&["create", "namespace", namespace]);
    tool(cluster, "helm", &["install", release, chart.to_str().unwrap(), "-n", namespace]);
}

fn kapp(cluster: &Cluster, namespace: &str) {
    let manifest = folder("kapp").join("app.yaml");
    let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: kapped, namespace: {namespace}}}\n");
    fs::write(&manifest, text).unwrap();
    let _ = cluster.kubectl(&["create", "namespace", namespace]);
    tool(cluster, "kapp", &["deploy", "-y", "-a", "shop", "-n", namespace, "-f", manifest.to_str().unwrap()]);
}

fn document(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"))
}

/// Facts of an answer about the owners in the namespace `narrow`, without what tells one reading from another. Other tests
/// change the rest of the cluster between two readings.
fn body(run: &Run) -> Value {
    let mut answer = document(run);
    for (rows, owner) in [("owners", ""), ("objects", "/owner")] {
        if let Some(rows) = answer[rows].as_array_mut() {
            rows.retain(|row| row.pointer(owner).unwrap_or(row)["namespace"] == "narrow");
        }
    }
    let fields = answer.as_object_mut().unwrap();
    ["taken", "totals", "scope", "gaps", "complete"].into_iter().for_each(|key| drop(fields.remove(key)));
    // A recorded cluster has no content, so only a live one shows readiness.
    for owner in answer["owners"].as_array_mut().into_iter().flatten() {
        owner.as_object_mut().unwrap().retain(|key, _| key != "ready" && key != "unread");
    }
    for owner in answer["objects"].as_array_mut().into_iter().flatten() {
        owner["owner"].as_object_mut().unwrap().retain(|key, _| key != "ready" && key != "unread");
        for row in owner["objects"].as_array_mut().into_iter().flatten() {
            row.as_object_mut().unwrap().retain(|key, _| key != "state" && key != "ready");
        }
    }
    answer
}

#[test]
fn a_narrow_reading_asks_for_less_and_answers_the_same() {
    let cluster = &cluster();
    let tree = folder("narrow");
    flux::config_maps(&tree, 3);
    flux::deploy(cluster, "narrow", &tree);
    install(cluster, "narrow", "narrow");
    kapp(cluster, "narrow");
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: reads-all}\n\
                rules: [{apiGroups: ['*'], resources: ['*'], verbs: [get, list]}]\n";
    cluster.kubectl_stdin(&["apply", "-f", "-"], role).unwrap();
    let _ = cluster.kubectl(&["create", "clusterrolebinding", "bob-reads", "--clusterrole=reads-all", "--user=bob"]);
    let kubeconfig = cluster.kubeconfig_for("bob");
    let file = folder("narrow-recording").join("cluster.json.gz");
    let file = file.to_str().unwrap();
    assert_eq!(gitops_as(&kubeconfig, &["snapshot", file]).code, 0);
    let narrowed = "labelSelector=";
    for (args, selector) in [
        (&["--by", "kapp"][..], "labelSelector=kapp.k14s.io%2Fapp&"),
        (&["--by", "helm"], "labelSelector=app.kubernetes.io%2Fmanaged-by%3DHelm&"),
        (&["--by", "helm", "--conflicts"], "labelSelector=app.kubernetes.io%2Fmanaged-by%3DHelm&"),
        (&["--by", "qbec"], "labelSelector=qbec.io%2Fapplication&"),
        (&["--by", "kapp", "--orphaned"], "labelSelector=kapp.k14s.io%2Fapp&"),
        (
            &["narrow/kustomization/apps"],
            "labelSelector=kustomize.toolkit.fluxcd.io%2Fname%3Dapps%2Ckustomize.toolkit.fluxcd.io%2Fnamespace%3Dnarrow&",
        ),
        (&["narrow/kustomization/apps", "--leaked"], "labelSelector=kustomize.toolkit.fluxcd.io%2Fname%3Dapps"),
    ] {
        let before = cluster.requests_of("bob", "gitops-inventory/").unwrap().len();
        let live = gitops_as(&kubeconfig, &[&["inventory", "-o", "json"], args].concat());
        let requests = cluster.requests_of("bob", "gitops-inventory/").unwrap().split_off(before);
        let recorded = gitops_as(&kubeconfig, &[&["inventory", "-o", "json", "--snapshot", file], args].concat());
        assert_eq!((live.code, body(&live)), (0, body(&recorded)), "{args:?}");
        assert!(document(&live)["scope"].is_string() && document(&recorded).get("scope").is_none(), "{args:?}");
        let lists: Vec<&str> =
            requests.iter().filter(|request| request.verb == "list").map(|r| r.uri.as_str()).collect();
        let of = |path: &str| lists.iter().filter(|uri| uri.starts_with(path)).collect::<Vec<_>>();
        assert!(of("/apis/apps/v1/statefulsets?").iter().any(|uri| uri.contains(selector)), "{args:?}: {lists:#?}");
        let statefulsets = of("/apis/apps/v1/statefulsets?");
        assert!(statefulsets.iter().all(|uri| uri.contains(narrowed)), "{args:?}: {statefulsets:#?}");
        let whole = of("/api/v1/configmaps?");
        assert!(whole.iter().any(|uri| !uri.contains(narrowed)), "what records owners is read whole: {whole:#?}");
    }
    // Whatever goes beyond the marks needs everything.
    for args in [&["--by", "helm", "-o", "tree"][..], &["--by", "helm", "--unmanaged"], &["--by", "flux"], &[]] {
        let before = cluster.requests_of("bob", "gitops-inventory/").unwrap().len();
        let run = gitops_as(&kubeconfig, &[&["inventory"], args].concat());
        let requests = cluster.requests_of("bob", "gitops-inventory/").unwrap().split_off(before);
        let statefulsets = requests.iter().find(|request| request.uri.contains("/statefulsets?")).unwrap();
        assert!(!statefulsets.uri.contains(narrowed) && !run.stderr.contains("were read"), "{args:?}: {run:?}");
    }
}

#[test]
fn a_release_lists_its_objects_once_secrets_may_be_read_and_nothing_of_them_is_shown() {
    let cluster = &cluster();
    install(cluster, "records", "records");
    let ask = |args: &[&str]| gitops(cluster, &[&["inventory", "records/release/records"], args].concat());
    let owner = |run: &Run| document(run)["objects"][0]["owner"].clone();
    let without = owner(&ask(&["-o", "json"]));
    assert_eq!((&without["record"], &without["objects"]), (&"unrecorded".into(), &3.into()), "{without}");
    let with = ask(&["-o", "json", "--read-secrets"]);
    assert_eq!((&owner(&with)["record"], &owner(&with)["objects"]), (&"listed".into(), &3.into()), "{with:?}");
    let names: Vec<String> = document(&with)["objects"][0]["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].to_string())
        .collect();
    assert!(names.contains(&"\"system:records\"".to_owned()), "a name with a colon: {names:?}");

    // One object goes; one is made by helm's manager with the release's marks, but the record does not list it.
    cluster.kubectl(&["delete", "configmap", "records", "-n", "records"]).unwrap();
    let extra = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: records, labels: {app.kubernetes.io/managed-by: Helm}, \
                 annotations: {meta.helm.sh/release-name: records, meta.helm.sh/release-namespace: records}}\n";
    cluster.kubectl_stdin(&["apply", "--server-side", "--field-manager=helm", "-f", "-"], extra).unwrap();
    let with = owner(&ask(&["-o", "json", "--read-secrets"]));
    assert_eq!((&with["missing"], &with["leaked"]), (&1.into(), &1.into()), "{with}");
    let without = owner(&ask(&["-o", "json"]));
    assert_eq!(
        (&without["missing"], &without["leaked"]),
        (&0.into(), &0.into()),
        "without a record nobody knows: {without}"
    );

    for format in ["table", "wide", "json", "yaml", "name", "tree"] {
        let run = ask(&["--read-secrets", "-o", format]);
        let text = format!("{}{}", run.stdout, run.stderr);
        assert!(run.code == 0 && !text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{format}: {text}");
    }
    // Alice may read everything but Secrets.
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: no-secrets}\nrules:\n\
                - {apiGroups: [''], resources: [configmaps, namespaces], verbs: [get, list]}\n\
                - {apiGroups: ['kustomize.toolkit.fluxcd.io'], resources: ['*'], verbs: [get, list]}\n";
    cluster.kubectl_stdin(&["apply", "-f", "-"], role).unwrap();
    cluster.kubectl(&["create", "clusterrolebinding", "alice", "--clusterrole=no-secrets", "--user=alice"]).unwrap();
    let run = gitops_as(&cluster.kubeconfig_for("alice"), &["inventory", "--read-secrets", "-v", "1"]);
    assert_eq!(run.code, 5, "{run:?}");
    assert!(run.stderr.contains("warning: secrets could not be read: secrets is forbidden"), "{}", run.stderr);
}

#[test]
fn users_with_one_namespace_see_its_owners_and_no_leaks() {
    let cluster = &cluster();
    for namespace in ["mine", "theirs"] {
        let tree = folder(namespace);
        flux::config_maps(&tree, 3);
        flux::deploy(cluster, namespace, &tree);
        flux::leak(cluster, namespace, &tree, 2);
    }
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: reads, namespace: mine}\n\
                rules: [{apiGroups: ['*'], resources: ['*'], verbs: [get, list]}]\n";
    cluster.kubectl_stdin(&["apply", "-f", "-"], role).unwrap();
    cluster.kubectl(&["create", "rolebinding", "carol", "--role=reads", "--user=carol", "-n", "mine"]).unwrap();
    let carol = |args: &[&str]| gitops_as(&cluster.kubeconfig_for("carol"), args);
    let run = carol(&["inventory", "-n", "mine", "-o", "json", "-v", "1"]);
    let owners = document(&run)["owners"].clone();
    assert_eq!(run.code, 5, "{run:?}");
    assert_eq!(owners.as_array().unwrap().len(), 1, "{owners:#}");
    assert_eq!((&owners[0]["name"], &owners[0]["objects"]), (&"apps".into(), &2.into()), "{owners:#}");
    assert_eq!((&owners[0]["leaked"], &owners[0]["unknown"]), (&0.into(), &1.into()), "{owners:#}");
    assert!(run.stderr.contains("kustomizations.kustomize.toolkit.fluxcd.io could not be read"), "{}", run.stderr);
    assert!(run.stderr.contains("read in mine only"), "{}", run.stderr);
    for question in ["--leaked", "--orphaned"] {
        let run = carol(&["inventory", "-n", "mine", question, "-o", "json"]);
        assert_eq!((run.code, document(&run)["findings"].as_array().unwrap().len()), (5, 0), "{question}: {run:?}");
    }
    let plan = carol(&["prune", "--plan", "-n", "mine", "-o", "name"]);
    assert_eq!((plan.code, plan.stdout.as_str()), (5, ""), "{plan:?}");
    // A user who may read everything sees the leak.
    assert_eq!(document(&gitops(cluster, &["inventory", "-n", "mine", "-o", "json"]))["owners"][0]["leaked"], 1);
    // With the right to list namespaces all are tried; what is refused is said.
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: lists-namespaces}\n\
                rules: [{apiGroups: [''], resources: [namespaces], verbs: [get, list]}]\n";
    cluster.kubectl_stdin(&["apply", "-f", "-"], role).unwrap();
    cluster
        .kubectl(&["create", "clusterrolebinding", "carol", "--clusterrole=lists-namespaces", "--user=carol"])
        .unwrap();
    let run = carol(&["inventory", "-o", "json"]);
    assert_eq!((run.code, document(&run)["owners"].as_array().unwrap().len()), (5, 1), "{run:?}");
    assert!(run.stderr.contains("read in 1 namespace only"), "{}", run.stderr);
}

#[test]
fn selectors_select_what_the_api_server_selects() {
    let cluster = &cluster();
    cluster.kubectl(&["create", "namespace", "labels"]).unwrap();
    let rows: [(&str, &[(&str, &str)]); 4] = [
        ("plain", &[]),
        ("web", &[("app", "web"), ("weight", "7")]),
        ("db", &[("app", "db"), ("example.com/tier", "back"), ("weight", "x")]),
        ("empty", &[("app", "")]),
    ];
    for (name, labels) in rows {
        cluster.kubectl(&["create", "configmap", name, "-n", "labels"]).unwrap();
        for (key, value) in labels {
            cluster.kubectl(&["label", "configmap", name, "-n", "labels", &format!("{key}={value}")]).unwrap();
        }
    }
    for text in [
        "app",
        "!app",
        "app=web",
        "app==web",
        "app!=web",
        "app in (web,db)",
        "app notin (web)",
        "app=",
        "app in ()",
        "app in (web,)",
        "weight>6",
        "weight<8",
        "example.com/tier",
        "app=web,weight",
        "in notin (in)",
        " app = web ",
        "app=web,",
        ",app",
        "app=a b",
        "!app=x",
        "app in web",
        "app in (web",
        "weight>x",
        "app=a/b",
        "-a",
        "=web",
        "app is web",
        "a/b/c",
        "app=web,,weight",
    ] {
        let listed = cluster.kubectl(&["get", "configmap", "-n", "labels", "-o", "name", "-l", text]);
        let Ok(selector) = Selector::parse(text) else {
            assert!(listed.is_err(), "{text:?} is a selector: {listed:?}");
            continue;
        };
        let mut expected: Vec<String> = listed
            .unwrap_or_else(|error| panic!("{text:?} is no selector: {error:#}"))
            .lines()
            .map(str::to_owned)
            .collect();
        expected.retain(|name| name != "configmap/kube-root-ca.crt");
        let matches =
            |(_, labels): &&(&str, &[(&str, &str)])| selector.matches(&labels.iter().copied().collect::<KeyValues>());
        let mut selected: Vec<String> =
            rows.iter().filter(matches).map(|(name, _)| format!("configmap/{name}")).collect();
        selected.sort();
        assert_eq!(selected, expected, "{text:?}");
    }
}
