//! A hub whose kustomize-controller applies to another cluster, and `inventory` in that other cluster.

use std::fs;

use serde_json::{Value, json};
use test_support::connection::kubeconfig_of;
use test_support::flux;
use test_support::folder::folder;
use test_support::gitops::{Run, gitops_as};
use xtask::cluster::{Cluster, Flux, Options};

/// A Kustomization in the hub that applies to the cluster which `secret` leads to.
fn remote(hub: &Cluster, name: &str, secret: &str) {
    let manifest = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": name, "namespace": "fleet"},
        "spec": {"interval": "1h", "retryInterval": "2s", "path": "./", "prune": true, "targetNamespace": "shop",
                 "kubeConfig": {"secretRef": {"name": secret}}, "sourceRef": {"kind": "GitRepository", "name": "src"}}});
    hub.kubectl_stdin(&["apply", "-f", "-"], &manifest.to_string()).unwrap();
}

fn findings(run: &Run) -> Vec<String> {
    let answer: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    answer["findings"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn owners_of_a_hub_own_what_they_apply_here_and_nothing_is_deleted_on_their_word() {
    let options = Options { flux: Flux::Kustomize, ..Options::default() };
    let hub = Cluster::up(options).expect("the hub comes up");
    let spoke = Cluster::up(Options::default()).expect("the other cluster comes up");
    spoke.kubectl(&["create", "namespace", "shop"]).unwrap();
    hub.kubectl(&["create", "namespace", "fleet"]).unwrap();
    let kubeconfig = spoke.kubeconfig();
    let file = format!("--from-file=value={}", kubeconfig.display());
    hub.kubectl(&["create", "secret", "generic", "spoke", "-n", "fleet", &file]).unwrap();
    let tree = folder("hub");
    flux::config_maps(&tree, 3);
    hub.publish("GitRepository/fleet/src", &tree).unwrap();
    remote(&hub, "apps", "spoke");
    flux::settled(&hub, "fleet", "apps");
    // Left behind: nobody prunes it, because the hub's inventory does not list it any more.
    let patch = |spec: &str| {
        hub.kubectl(&["patch", "kustomization", "apps", "-n", "fleet", "--type=merge", "-p", spec]).unwrap()
    };
    patch(r#"{"spec":{"prune":false}}"#);
    fs::remove_file(tree.join("cm-2.yaml")).unwrap();
    let revision = hub.publish("GitRepository/fleet/src", &tree).unwrap();
    flux::applied(&hub, "fleet", "apps", &revision);
    // Another owner, which leads to a cluster that nobody can reach: it is not this one.
    hub.kubectl(&["create", "secret", "generic", "lost", "-n", "fleet", "--from-literal=value=nothing"]).unwrap();
    remote(&hub, "other", "lost");

    let config = kubeconfig_of(&[("spoke", &spoke), ("hub", &hub)]);
    let ask = |args: &[&str]| gitops_as(&config, args);
    // Alone, the cluster knows no owner.
    let alone = ask(&["inventory", "--orphaned", "-o", "json"]);
    assert_eq!(findings(&alone), ["cm-0", "cm-1", "cm-2"], "{alone:?}");
    // Where the hub's owner applies is in a Secret: not read, so not judged.
    let unread = ask(&["inventory", "--owner-context", "hub", "-o", "json"]);
    let answer: Value = serde_json::from_str(&unread.stdout).unwrap();
    let records: Vec<&Value> = answer["owners"].as_array().unwrap().iter().map(|owner| &owner["record"]).collect();
    assert_eq!((unread.code, records), (0, vec![&json!("remote"); 2]), "{unread:?}");
    assert_eq!((&answer["totals"]["orphaned"], &answer["totals"]["unknown"]), (&0.into(), &3.into()), "{answer:#}");
    // With the Secret it is known.
    let beside = ["--owner-context", "hub", "--read-secrets", "-o", "json"];
    let known = ask(&[&["inventory"], &beside[..]].concat());
    let answer: Value = serde_json::from_str(&known.stdout).unwrap();
    let owner = &answer["owners"][0];
    assert_eq!(
        (&owner["name"], &owner["record"], &owner["inHub"]),
        (&"apps".into(), &"listed".into(), &true.into()),
        "{answer:#}"
    );
    assert_eq!(
        (&owner["objects"], &owner["missing"], &owner["leaked"]),
        (&2.into(), &0.into(), &1.into()),
        "{answer:#}"
    );
    assert_eq!(answer["owners"][1]["record"], "remote", "{answer:#}");
    assert_eq!(findings(&ask(&[&["inventory", "--leaked"], &beside[..]].concat())), ["cm-2"]);
    assert!(findings(&ask(&[&["inventory", "--orphaned"], &beside[..]].concat())).is_empty());
    let table = ask(&["inventory", "--owner-context", "hub", "--read-secrets"]).stdout;
    assert!(table.contains("Ready (in the hub)") && table.contains("remote, not checked (in the hub)"), "{table}");
    let secret = fs::read_to_string(&kubeconfig).unwrap();
    let token = secret.lines().find_map(|line| line.trim().strip_prefix("token: ")).expect("a token").trim_matches('"');
    assert!(!known.stdout.contains(token) && !known.stderr.contains(token));

    // No plan follows from it: a hub's owners are no flag of prune, and without them owners are missing.
    let plan = ask(&["prune", "--plan", "--include", "orphaned", "-o", "name"]);
    assert_eq!((plan.code, plan.stdout.as_str()), (0, ""), "{plan:?}");
    assert_eq!(ask(&["prune", "--plan", "--owner-context", "hub"]).code, 2);
    // Bad contexts.
    let same = ask(&["inventory", "--owner-context", "spoke"]);
    assert!(same.code == 2 && same.stderr.contains("--owner-context spoke is the cluster itself"), "{same:?}");
    let gone = ask(&["inventory", "--owner-context", "hubb"]);
    assert!(gone.code == 1 && gone.stderr.contains("context was not found") && gone.stderr.contains("hub"), "{gone:?}");
    // A hub that is down is no empty hub.
    drop(hub);
    let down = ask(&["inventory", "--owner-context", "hub", "--request-timeout=5s"]);
    assert!(
        down.code == 1 && down.stdout.is_empty() && down.stderr.contains("The connection to the server"),
        "{down:?}"
    );
}
