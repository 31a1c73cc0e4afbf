//! `get` and `inventory` of several clusters at once: two real API servers, and one that is down.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use test_support::connection::kubeconfig_of;
use test_support::folder::{Folder, init};
use test_support::gitops::{Run, gitops_as};
use xtask::cluster::{Cluster, Flux, Options};

/// Adds a context `down` whose API server does not exist.
fn add_broken_context(kubeconfig: &Path) {
    let mut config: Value = serde_json::from_slice(&fs::read(kubeconfig).unwrap()).unwrap();
    let mut add = |list: &str, entry: Value| config[list].as_array_mut().unwrap().push(entry);
    add("clusters", json!({"name": "down", "cluster": {"server": "http://127.0.0.1:1"}}));
    add("contexts", json!({"name": "down", "context": {"cluster": "down", "user": ""}}));
    fs::write(kubeconfig, config.to_string()).unwrap();
}

fn apply(cluster: &Cluster, manifest: &Value) {
    cluster.kubectl_stdin(&["apply", "-f", "-"], &manifest.to_string()).unwrap();
}

fn kustomization(name: &str, suspend: bool) -> Value {
    let source = json!({"kind": "GitRepository", "name": "x"});
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"interval": "1h", "prune": true, "suspend": suspend, "sourceRef": source}})
}

/// A ConfigMap with the labels of a Kustomization that does not exist.
fn orphan(name: &str) -> Value {
    let labels =
        json!({"kustomize.toolkit.fluxcd.io/name": "gone", "kustomize.toolkit.fluxcd.io/namespace": "default"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", "labels": labels}})
}

fn document(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run}"))
}

/// Returns context and name of each row.
fn rows(answer: &Value, list: &str) -> Vec<(String, String)> {
    let name = |row: &Value| row["name"].as_str().or(row["object"]["name"].as_str()).unwrap().to_owned();
    answer[list]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["context"].as_str().unwrap().to_owned(), name(row)))
        .collect()
}

fn owned(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(context, name)| ((*context).to_owned(), (*name).to_owned())).collect()
}

#[test]
fn several_clusters_are_one_answer_and_a_broken_one_is_a_gap() {
    let options = || Options { flux: Flux::Crds, ..Options::default() };
    let (eu, us) = (Cluster::up(options()).unwrap(), Cluster::up(options()).unwrap());
    for (cluster, name, orphaned) in [(&eu, "shop-eu", "left-eu"), (&us, "shop-us", "left-us")] {
        apply(cluster, &kustomization(name, name == "shop-us"));
        apply(cluster, &orphan(orphaned));
    }
    apply(&eu, &kustomization("also-eu", true));
    let kubeconfig = kubeconfig_of(&[("eu", &eu), ("us", &us)]);
    add_broken_context(&kubeconfig);
    let ask = |line: &str| gitops_as(&kubeconfig, &line.split(' ').collect::<Vec<_>>());

    // The order is that of the request, and then that of each cluster.
    let both = ask("get ks --contexts us,eu");
    let lines: Vec<Vec<&str>> = both.stdout.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    assert_eq!(lines[0], ["CONTEXT", "NAMESPACE", "KIND", "NAME"], "{both}");
    let names: Vec<_> = lines[1..].iter().map(|line| (line[0], line[3])).collect();
    assert_eq!((both.code, names), (0, vec![("us", "shop-us"), ("eu", "also-eu"), ("eu", "shop-eu")]), "{both}");
    let by_name = document(&ask("get ks --contexts us,eu --sort-by name -o json"));
    assert_eq!(rows(&by_name, "items"), owned(&[("eu", "also-eu"), ("eu", "shop-eu"), ("us", "shop-us")]));
    assert!(
        ask("get ks --contexts us -o csv").stdout.starts_with("CONTEXT,NAMESPACE,"),
        "one context has a column too"
    );
    let suspended = ask("get --suspended --contexts us,eu -o yaml");
    let suspended: Value = serde_yaml::from_str(&suspended.stdout).unwrap();
    assert_eq!(rows(&suspended, "items"), owned(&[("us", "shop-us"), ("eu", "also-eu")]));

    // A cluster that is down is a gap of the answer, and the others answer.
    for (line, list, expected) in [
        ("get ks --all-contexts -o json", "items", &[("eu", "also-eu"), ("eu", "shop-eu"), ("us", "shop-us")][..]),
        ("inventory --all-contexts -o json", "owners", &[("eu", "also-eu"), ("eu", "shop-eu"), ("us", "shop-us")]),
        ("inventory --orphaned --contexts us,down,eu -o json", "findings", &[("us", "left-us"), ("eu", "left-eu")]),
    ] {
        let run = ask(line);
        let answer = document(&run);
        assert_eq!((run.code, rows(&answer, list)), (5, owned(expected)), "{line}: {run}");
        assert_eq!((&answer["complete"], &answer["gaps"][0]["context"]), (&json!(false), &json!("down")), "{line}");
        assert!(run.stderr.contains("warning: cluster in context down could not be read: The connection to"), "{run}");
    }
    let inventory = document(&ask("inventory --contexts us,eu -o json"));
    assert_eq!((inventory.get("cluster"), &inventory["complete"]), (None, &json!(true)));
    let contexts = inventory["contexts"].as_array().unwrap();
    let objects: u64 = contexts.iter().map(|context| context["totals"]["objects"].as_u64().unwrap()).sum();
    assert_eq!(inventory["totals"]["objects"], objects);
    assert_ne!(contexts[0]["cluster"]["uid"], contexts[1]["cluster"]["uid"]);

    // Every text says where a row is from.
    let tree = ask("inventory -o tree --contexts us,eu").stdout;
    let order: Vec<_> =
        ["context us", "shop-us", "context eu", "shop-eu"].map(|text| tree.find(text).unwrap()).to_vec();
    assert!(order.is_sorted(), "{tree}");
    let page = ask("inventory --orphaned -o html --contexts us,eu").stdout;
    assert!(page.contains("us: Objects") && page.contains("eu: Objects"));
    assert!(ask("inventory --by flux --contexts us").stdout.starts_with("CONTEXT "));
    assert!(ask("inventory --contexts us,eu").stderr.contains(" in 2 clusters: "));

    // A cluster under two contexts counts once, unless their namespaces differ and only these are shown.
    let twice = kubeconfig_of(&[("eu", &eu), ("again", &eu)]);
    let ask_twice = |line: &str| gitops_as(&twice, &line.split(' ').collect::<Vec<_>>());
    let both = ask_twice("get ks -A --all-contexts -o json");
    let answer = document(&both);
    assert_eq!(rows(&answer, "items"), owned(&[("eu", "also-eu"), ("eu", "shop-eu")]), "{both}");
    assert_eq!(answer["contexts"], json!([{"context": "eu"}, {"context": "again", "sameClusterAs": "eu"}]), "{both}");
    assert!(both.stderr.contains("context again is the same cluster as eu, and counts once\n"), "{both}");

    // An object that only one cluster has, and a type that none has.
    let named = ask("get kustomization shop-eu --contexts us,eu");
    assert!(named.code == 5 && named.stdout.contains("shop-eu"), "{named}");
    assert!(named.stderr.contains("context us: Error from server (NotFound)"), "{named}");
    let unknown = ask("get nonsense --contexts us,eu");
    assert!(
        unknown.code != 0 && unknown.stdout.is_empty() && unknown.stderr.matches("nonsense").count() == 1,
        "{unknown}"
    );
    let down = ask("get --contexts down");
    assert!(down.code == 1 && down.stderr.starts_with("The connection to the server"), "{down}");

    findings_are_accepted_by_entry(&kubeconfig);
    one_checkout_is_planned_for_each(&kubeconfig, &eu, &us);
}

/// Replaces the tokens of a kubeconfig by a credential plugin that counts its runs in a file of the folder.
fn count_credentials(folder: &Folder, kubeconfig: &Path) -> PathBuf {
    let mut config: Value = serde_json::from_slice(&fs::read(kubeconfig).unwrap()).unwrap();
    for user in config["users"].as_array_mut().unwrap() {
        let name = user["name"].as_str().unwrap().to_owned();
        let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": {"token": user["user"]["token"]}});
        let runs = folder.path().join("runs");
        let plugin = folder.script(&name, &format!("echo {name} >> {}\necho '{credential}'", runs.display()));
        user["user"] = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
            "command": plugin.display().to_string()}});
    }
    folder.write("kubeconfig", config.to_string())
}

/// `plan --contexts`: a hub with a Kustomization of its own and one for the other cluster, a cluster whose Kustomization is
/// suspended, and one that is down.
fn one_checkout_is_planned_for_each(kubeconfig: &Path, eu: &Cluster, us: &Cluster) {
    let folder = Folder::outside_checkouts("plan-contexts");
    let kubeconfig = count_credentials(&folder, kubeconfig);
    let repo = folder.path().join("repo");
    folder.write("repo/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: planned, namespace: default}\n");
    init(&repo);
    let address = "https://example.invalid/planned.git";
    xtask::git::run(&repo, &["remote", "add", "origin", address]).unwrap();
    for cluster in [eu, us] {
        apply(
            cluster,
            &json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
                "metadata": {"name": "x", "namespace": "default"},
                "spec": {"interval": "1h", "url": address, "ref": {"branch": "main"}}}),
        );
    }
    let mut spoke = kustomization("spoke", false);
    spoke["spec"]["kubeConfig"] = json!({"secretRef": {"name": "edge"}});
    apply(eu, &spoke);
    apply(eu, &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "edge", "namespace": "default"}}));
    let kustomize = format!("--kustomize={}", xtask::controlplane::bin("kustomize").display());
    let repo = repo.display().to_string();
    let plan = |contexts: &str, more: &[&str]| {
        let _ = fs::remove_file(folder.path().join("runs"));
        let line = ["plan", &repo, "--contexts", contexts, "--spoke", "default/edge=us", &kustomize, "-o", "json"];
        gitops_as(&kubeconfig, &[&line[..], more].concat())
    };
    let run = plan("eu,down,us", &[]);
    let answer = document(&run);
    let states: Vec<_> = answer["clusters"].as_array().unwrap().iter().map(|row| row["state"].as_str()).collect();
    assert_eq!((run.code, states), (5, vec![Some("planned"), Some("failed"), Some("planned")]), "{run}");
    assert_eq!((&answer["complete"], &answer["gaps"][0]["context"]), (&json!(false), &json!("down")), "{run}");
    assert_eq!(answer["rehearsed"], json!(true), "{run}");
    let mut created: Vec<_> = answer["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["action"].as_str(), row["object"]["cluster"].as_str(), &row["clusters"]))
        .collect();
    created.sort_by_key(|(_, cluster, _)| *cluster);
    let hub = json!(["eu"]);
    let expected = [(Some("create"), None, &hub), (Some("create"), Some("us"), &hub)];
    assert_eq!(created, expected, "the one in us is suspended: {run}");
    // The cluster that is a spoke and is planned itself is connected to once.
    let runs = fs::read_to_string(folder.path().join("runs")).unwrap();
    let mut runs: Vec<&str> = runs.lines().collect();
    runs.sort_unstable();
    assert_eq!(runs, ["eu", "us"], "{run}");

    // As in the plan of the hub alone.
    let line = ["plan", &repo, "--context", "eu", "--spoke", "default/edge=us", &kustomize, "-o", "json"];
    let alone = document(&gitops_as(&kubeconfig, &line));
    assert_eq!(answer["clusters"][0]["plan"], alone);
    let run = plan("eu,us", &[]);
    assert_eq!((run.code, &document(&run)["complete"]), (0, &json!(true)), "{run}");
    let run = plan("down", &[]);
    assert!(run.code == 1 && run.stderr.contains("The connection to the server"), "{run}");
}

/// `--ignore` and `--detailed-exitcode`, of one cluster and of two.
fn findings_are_accepted_by_entry(kubeconfig: &Path) {
    let folder = Folder::new("accepted-findings");
    let list = |text: &str| folder.write("accepted.yaml", text).display().to_string();
    let ask = |file: &str, more: &[&str]| {
        let line = [&["inventory", "--orphaned", "--detailed-exitcode", "-o", "json", "--ignore", file][..], more];
        gitops_as(kubeconfig, &line.concat())
    };
    let file = list(
        "ignore:\n- {kind: ConfigMap, name: left-eu, reason: the owner moves in May}\n- {name: nothing-*, reason: x}\n",
    );
    let one = ask(&file, &["--context", "eu"]);
    assert_eq!((one.code, &document(&one)["findings"]), (0, &json!([])), "{one}");
    assert!(one.stderr.contains(&format!("{file} ignores 1 finding\n")), "{one}");
    let unused = format!("warning: {file}: no finding matches the entry with name nothing-*: remove it\n");
    assert!(one.stderr.contains(&unused), "{one}");
    assert!(!ask(&file, &["--context", "eu", "-n", "default"]).stderr.contains("no finding matches"));
    let both = ask(&file, &["--contexts", "eu,us"]);
    let answer = document(&both);
    assert_eq!((both.code, rows(&answer, "findings")), (3, owned(&[("us", "left-us")])), "{both}");
    let used: Vec<u64> = answer["ignored"]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["matched"].as_u64().unwrap())
        .collect();
    assert_eq!((&answer["ignored"]["findings"], used), (&json!(1), vec![1, 0]));
    // A cluster that cannot be read may have findings: that is worse than those that are known.
    assert_eq!(ask(&file, &["--contexts", "eu,us,down"]).code, 5);
    let all = ask(&list("ignore: [{name: left-*, reason: x}]"), &["--contexts", "eu,us"]);
    assert_eq!((all.code, &document(&all)["ignored"]["findings"]), (0, &json!(2)), "{all}");
}
