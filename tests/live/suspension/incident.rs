//! An incident: all of a namespace is suspended and resumed, and an earlier suspension stays.

use std::time::Duration;

use serde_json::{Value, json};
use test_support::cluster::{LIMIT, up};
use test_support::flux;
use test_support::folder::folder;
use test_support::gitops::{gitops, gitops_typing_on};
use test_support::suspension::{annotation, item, ok, read};
use xtask::cluster::{Cluster, Flux, Options};

const NAMESPACE: &str = "incident";

/// Kustomizations `apps`, `cart`, `pinned` and `flux-cli`, which are reconciled every three seconds.
fn cluster() -> Cluster {
    let cluster = up(Options { flux: Flux::Kustomize, ..Options::default() });
    let tree = folder(NAMESPACE);
    flux::config_maps(&tree, 1);
    flux::deploy(&cluster, NAMESPACE, &tree);
    let items: Vec<Value> = ["cart", "pinned", "flux-cli"].map(kustomization).into();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    cluster.kubectl_stdin(&["apply", "-f", "-"], &list.to_string()).unwrap();
    let interval = r#"{"spec":{"interval":"3s"}}"#;
    cluster.kubectl(&["patch", "ks", "apps", "-n", NAMESPACE, "--type=merge", "-p", interval]).unwrap();
    ["apps", "cart", "pinned", "flux-cli"].iter().for_each(|name| flux::settled(&cluster, NAMESPACE, name));
    cluster
}

fn kustomization(name: &str) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"interval": "3s", "path": "./", "prune": false, "targetNamespace": NAMESPACE,
                 "sourceRef": {"kind": "GitRepository", "name": "src"}},
    })
}

/// Returns what the controller writes when it has seen an object: the generation, the last request, and its runs.
fn seen(cluster: &Cluster, name: &str) -> (Value, Value, Value) {
    let status = read(cluster, "ks", NAMESPACE, name)["status"].clone();
    (status["observedGeneration"].clone(), status["lastHandledReconcileAt"].clone(), status["history"].clone())
}

#[test]
fn an_incident_is_suspended_and_resumed_while_an_earlier_suspension_stays() {
    let cluster = &cluster();
    ok(&gitops(cluster, &["suspend", "ks/pinned", "-n", NAMESPACE, "--spec", "-m", "freeze until May"]));
    let flux = ["--type=merge", "--field-manager=flux", "-p", r#"{"spec":{"suspend":true}}"#];
    cluster.kubectl(&[&["patch", "ks", "flux-cli", "-n", NAMESPACE], &flux[..]].concat()).unwrap();

    let incident = ["suspend", "ks", "--all", "-n", NAMESPACE, "--spec", "-m", "INC-1", "--yes"];
    let suspended = gitops(cluster, &incident);
    assert_eq!(suspended.code, 5, "one has another message: {suspended}");
    assert_eq!(suspended.stdout.matches(" suspended\n").count(), 3, "{suspended}");
    assert!(
        suspended.stderr.contains("pinned: already suspended with another message: freeze until May"),
        "{suspended}"
    );
    assert_eq!(item(cluster, NAMESPACE, "ks/apps")["suspension"]["user"], "admin");
    let table = gitops(cluster, &["get", "-n", NAMESPACE, "--suspended"]);
    let titles: Vec<&str> = ok(&table).lines().next().unwrap().split_whitespace().collect();
    assert_eq!(titles, ["NAMESPACE", "KIND", "NAME", "SUSPENDED", "BY", "SINCE", "UNTIL", "REASON"]);

    // A run that was under way may end.
    std::thread::sleep(Duration::from_secs(4));
    let before = ["apps", "cart", "pinned"].map(|name| seen(cluster, name));
    std::thread::sleep(Duration::from_secs(10));
    let after = ["apps", "cart", "pinned"].map(|name| seen(cluster, name));
    assert_eq!(before, after, "no controller reconciles in three intervals");

    let both = gitops(cluster, &["resume", "ks", "--all", "-n", NAMESPACE, "--yes"]);
    assert_eq!((both.code, both.stdout.as_str()), (6, ""), "{both}");
    assert!(both.stderr.contains("INC-1: 3 objects by admin"), "{both}");
    assert!(both.stderr.contains("'freeze until May': 1 object by admin"), "{both}");

    let resumed = gitops(cluster, &["resume", "ks", "--all", "-n", NAMESPACE, "-m", "INC-1", "--yes"]);
    assert_eq!(resumed.code, 5, "flux-cli was suspended before: {resumed}");
    assert_eq!(resumed.stdout.matches(" resumed\n").count(), 2, "{resumed}");
    assert!(resumed.stdout.contains("/flux-cli annotated\n"), "{resumed}");
    assert!(resumed.stderr.contains("flux-cli is still suspended: spec.suspend is true, set by flux"), "{resumed}");
    assert!(resumed.stderr.contains("pinned -n incident, suspended by admin"), "{resumed}");
    let is_handled = |name: &str| {
        let object = read(cluster, "ks", NAMESPACE, name);
        let asked = &object["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"];
        asked.is_string() && object["status"]["lastHandledReconcileAt"] == *asked
    };
    cluster.wait_for("the resumed objects", LIMIT, || Ok(is_handled("apps") && is_handled("cart"))).unwrap();
    let pinned = read(cluster, "ks", NAMESPACE, "pinned");
    assert_eq!((annotation(&pinned), &pinned["spec"]["suspend"]), (Some("freeze until May"), &json!(true)));
    assert_eq!(seen(cluster, "pinned"), after[2], "its suspension goes on");
    let cli = read(cluster, "ks", NAMESPACE, "flux-cli");
    assert_eq!((annotation(&cli), &cli["spec"]["suspend"]), (None, &json!(true)), "as it was before the incident");
}

#[test]
fn a_terminal_is_asked_whether_to_set_the_field_and_before_a_change_of_several_objects() {
    let cluster = &cluster();
    let one = ["suspend", "ks/apps", "-n", NAMESPACE, "-m", "drill"];
    for (answer, word, code, spec) in [
        ("\\003", "interrupted: nothing was suspended", 130, false),
        ("n", "apps annotated", 0, false),
        ("y", "apps suspended", 0, true),
    ] {
        let run = gitops_typing_on(cluster, 120, &one, answer);
        assert!(run.code == code && run.stdout.contains(word), "{answer}: {run}");
        assert!(run.stdout.contains("set spec.suspend too"), "{answer}: {run}");
        assert_eq!(read(cluster, "ks", NAMESPACE, "apps")["spec"]["suspend"] == true, spec, "{answer}: {run}");
    }
    let flux = ["--type=merge", "--field-manager=flux", "-p", r#"{"spec":{"suspend":true}}"#];
    cluster.kubectl(&[&["patch", "ks", "flux-cli", "-n", NAMESPACE], &flux[..]].concat()).unwrap();
    let all = ["suspend", "--all", "-n", NAMESPACE, "--spec", "-m", "drill"];
    let stopped = gitops_typing_on(cluster, 120, &all, "\\003");
    assert_eq!(stopped.code, 130, "{stopped}");
    for shown in [
        ", user admin\r\n",
        "  GitRepository (1), Kustomization (3)\r\n",
        "/flux-cli -n incident   already suspended by flux ",
        "suspend 4 objects? [y/N]",
        "interrupted: nothing was suspended",
    ] {
        assert!(stopped.stdout.contains(shown), "{shown}: {stopped}");
    }
    assert_eq!(annotation(&read(cluster, "ks", NAMESPACE, "cart")), None);
}
