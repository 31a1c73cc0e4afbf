//! `get`, `suspend` and `resume` against the real API server and the real controllers of Flux.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_support::chart::chart;
use test_support::cluster::LIMIT;
use test_support::cluster::up;
use test_support::flux;
use test_support::folder::folder;
use test_support::gitops::gitops;
use test_support::shared_cluster;
use test_support::suspension::{annotation, generation, item, ok, read};
use xtask::cluster::{Cluster, Flux, Options};

// The cluster of these tests, with source-controller, kustomize-controller and helm-controller.
shared_cluster!(|| up(Options { flux: Flux::All, audit: true, ..Options::default() }));

/// Returns the number of reconciliations of a Kustomization.
fn runs(object: &Value) -> i64 {
    let history = object["status"]["history"].as_array().map_or(&[][..], Vec::as_slice);
    history.iter().filter_map(|entry| entry["totalReconciliations"].as_i64()).sum()
}

/// A Kustomization `apps` in a namespace of its own that applies the Kustomization `leaf`, which applies one ConfigMap
/// every three seconds.
fn nested(namespace: &str) -> Arc<Cluster> {
    let shared = cluster();
    let cluster = &shared;
    let tree = folder(namespace);
    std::fs::create_dir(tree.join("leaf")).unwrap();
    let leaf = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "leaf"},
        "spec": {"interval": "3s", "path": "./leaf", "prune": true, "targetNamespace": namespace,
                 "sourceRef": {"kind": "GitRepository", "name": "src"}},
    });
    std::fs::write(tree.join("leaf.json"), leaf.to_string()).unwrap();
    std::fs::write(tree.join("kustomization.yaml"), "resources: [leaf.json]\n").unwrap();
    flux::config_maps(&tree.join("leaf"), 1);
    flux::deploy(cluster, namespace, &tree);
    flux::settled(cluster, namespace, "leaf");
    shared
}

/// Lets the parent Kustomization apply everything once more.
fn reconcile_parent(cluster: &Cluster, namespace: &str, number: usize) {
    let token = format!("2026-01-01T00:00:{number:02}Z");
    let annotate = format!("reconcile.fluxcd.io/requestedAt={token}");
    let manager = "--field-manager=flux-client-side-apply";
    cluster.kubectl(&["annotate", "ks", "apps", "-n", namespace, "--overwrite", manager, &annotate]).unwrap();
    let handled = || Ok(read(cluster, "ks", namespace, "apps")["status"]["lastHandledReconcileAt"] == *token);
    cluster.wait_for(&format!("run {number} of the parent"), LIMIT, handled).unwrap();
}

#[test]
fn the_parents_next_applies_leave_the_annotation_but_not_one_by_a_kubectl_manager() {
    let cluster = &nested("survives");
    let before = read(cluster, "ks", "survives", "leaf");
    let run = gitops(cluster, &["suspend", "kustomization", "leaf", "-n", "survives", "-m", "drill", "--yes"]);
    assert_eq!(ok(&run), "kustomization.kustomize.toolkit.fluxcd.io/leaf annotated\n");
    assert!(run.stderr.contains("no released Flux controller honours the annotation"), "{run:?}");
    for number in 0..5 {
        reconcile_parent(cluster, "survives", number);
        let now = read(cluster, "ks", "survives", "leaf");
        assert_eq!((annotation(&now), generation(&now)), (Some("drill"), generation(&before)), "after run {number}");
    }

    let leaf = ["ks", "leaf", "-n", "survives"];
    let remove = ["--overwrite", "--field-manager=gitops-suspend", "reconcile.fluxcd.io/suspended-"];
    cluster.kubectl(&[&["annotate"], &leaf[..], &remove[..]].concat()).unwrap();
    let add = ["--field-manager=kubectl-x", "reconcile.fluxcd.io/suspended=drill"];
    cluster.kubectl(&[&["annotate"], &leaf[..], &add[..]].concat()).unwrap();
    assert_eq!(annotation(&read(cluster, "ks", "survives", "leaf")), Some("drill"));
    reconcile_parent(cluster, "survives", 9);
    assert_eq!(annotation(&read(cluster, "ks", "survives", "leaf")), None, "the parent takes over what kubectl wrote");
}

#[test]
fn kustomize_controller_ignores_the_annotation_with_evidence_and_obeys_spec() {
    let cluster = &nested("ignored");
    ok(&gitops(cluster, &["suspend", "ks/leaf", "-n", "ignored", "-m", "drill", "--yes"]));
    let told = || Ok(item(cluster, "ignored", "ks/leaf")["honoured"]["verdict"] == "not-honoured");
    cluster.wait_for("NOT HONOURED", LIMIT, told).unwrap();
    let table = gitops(cluster, &["get", "ks", "-n", "ignored"]);
    assert!(table.stdout.contains("annotation, NOT HONOURED"), "{table:?}");
    assert!(table.stderr.contains("a run started, by status.history"), "{table:?}");

    let before = read(cluster, "ks", "ignored", "leaf");
    let run = gitops(cluster, &["suspend", "ks/leaf", "-n", "ignored", "--spec"]);
    assert_eq!(ok(&run), "kustomization.kustomize.toolkit.fluxcd.io/leaf suspended\n");
    assert!(run.stderr.contains("the generation moved by one"), "{run:?}");
    let after = read(cluster, "ks", "ignored", "leaf");
    assert_eq!((generation(&after), annotation(&after)), (generation(&before) + 1, Some("drill")));
    // A run that was under way may end.
    std::thread::sleep(Duration::from_secs(3));
    let then = runs(&read(cluster, "ks", "ignored", "leaf"));
    std::thread::sleep(Duration::from_secs(10));
    assert_eq!(runs(&read(cluster, "ks", "ignored", "leaf")), then, "no run in three intervals");
    for number in 20..23 {
        reconcile_parent(cluster, "ignored", number);
    }
    let word = item(cluster, "ignored", "ks/leaf");
    assert_eq!((&word["suspension"]["by"], &word["ready"]), (&json!("both"), &json!("True")));

    // The field is ours, so no --spec is needed.
    let whole = gitops(cluster, &["resume", "ks/leaf", "-n", "ignored", "--wait", "--timeout", "60s"]);
    assert!(ok(&whole).ends_with("leaf reconciled\n"), "{whole:?}");
    assert_eq!(generation(&read(cluster, "ks", "ignored", "leaf")), generation(&after) + 1);
    assert!(runs(&read(cluster, "ks", "ignored", "leaf")) > then);
    let again = gitops(cluster, &["resume", "ks/leaf", "-n", "ignored", "--spec"]);
    assert!(ok(&again).ends_with("leaf unchanged\n"), "{again:?}");
}

#[test]
fn resume_waits_for_a_slow_reconciliation() {
    let cluster = &cluster();
    let tree = folder("slow");
    // The Kustomization waits for this Receiver, whose controller is us.
    let gate = json!({
        "apiVersion": "notification.toolkit.fluxcd.io/v1", "kind": "Receiver", "metadata": {"name": "gate"},
        "spec": {"type": "generic", "secretRef": {"name": "x"}, "resources": [{"kind": "Bucket", "name": "b"}]},
    });
    std::fs::write(tree.join("gate.json"), gate.to_string()).unwrap();
    std::fs::write(tree.join("kustomization.yaml"), "resources: [gate.json]\n").unwrap();
    let _ = cluster.kubectl(&["create", "namespace", "slow"]);
    cluster.publish("GitRepository/slow/src", &tree).unwrap();
    let apps = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "apps", "namespace": "slow"},
        "spec": {"interval": "1h", "timeout": "50s", "path": "./", "prune": true, "wait": true,
                 "targetNamespace": "slow", "sourceRef": {"kind": "GitRepository", "name": "src"}},
    });
    cluster.kubectl_stdin(&["apply", "-f", "-"], &apps.to_string()).unwrap();
    let open = |status: &str| {
        let ready = json!({"type": "Ready", "status": status, "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let generation = generation(&read(cluster, "receiver", "slow", "gate"));
        let patch = json!({"status": {"observedGeneration": generation, "conditions": [ready]}}).to_string();
        cluster
            .kubectl(&["patch", "receiver", "gate", "-n", "slow", "--subresource=status", "--type=merge", "-p", &patch])
            .unwrap();
    };
    let exists = || Ok(cluster.kubectl(&["get", "receiver", "gate", "-n", "slow"]).is_ok());
    cluster.wait_for("the gate", LIMIT, exists).unwrap();
    open("True");
    flux::settled(cluster, "slow", "apps");

    ok(&gitops(cluster, &["suspend", "ks/apps", "-n", "slow", "--spec", "-m", "drill"]));
    open("Unknown");
    let start = Instant::now();
    let resumed = std::thread::scope(|scope| {
        let resume = scope.spawn(|| {
            let run = gitops(cluster, &["resume", "ks/apps", "-n", "slow", "--spec", "--wait"]);
            (run, start.elapsed())
        });
        std::thread::sleep(Duration::from_secs(6));
        assert!(!resume.is_finished(), "the reconcile is not done");
        open("True");
        resume.join().unwrap()
    });
    assert!(ok(&resumed.0).ends_with("apps reconciled\n"), "{resumed:?}");
    assert!(resumed.1 >= Duration::from_secs(6), "{resumed:?}");
    let object = read(cluster, "ks", "slow", "apps");
    let asked = &object["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"];
    assert_eq!(&object["status"]["lastHandledReconcileAt"], asked);

    open("Unknown");
    ok(&gitops(cluster, &["suspend", "ks/apps", "-n", "slow", "--spec", "-m", "drill"]));
    let late = gitops(cluster, &["resume", "ks/apps", "-n", "slow", "--spec", "--wait", "--timeout", "2s"]);
    assert_eq!(late.code, 5, "{late:?}");
    assert!(late.stderr.contains("not reconciled within 2s"), "{late:?}");
    open("True");
}

#[test]
fn helm_controller_and_source_controller_are_seen_not_to_honour_it_and_to_honour_spec() {
    let cluster = &cluster();
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: podinfo}\ndata: {a: b}\n";
    let chart = chart("podinfo", "0.1.0", manifest);
    let _ = cluster.kubectl(&["create", "namespace", "others"]);
    cluster.publish("OCIRepository/others/podinfo", &chart).unwrap();
    let index = cluster.dir().join("artifacts/charts/index.yaml");
    std::fs::create_dir_all(index.parent().unwrap()).unwrap();
    std::fs::write(&index, "apiVersion: v1\nentries: {}\ngenerated: \"2026-01-01T00:00:00Z\"\n").unwrap();
    let source = read(cluster, "ocirepository", "others", "podinfo");
    let url = source["status"]["artifact"]["url"].as_str().unwrap();
    let url = format!("{}charts/", url.split_inclusive("/artifacts/").next().unwrap());
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "podinfo", "namespace": "others"},
         "spec": {"interval": "3s", "timeout": "2s", "chartRef": {"kind": "OCIRepository", "name": "podinfo"}}},
        {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository", "metadata": {"name": "charts", "namespace": "others"},
         "spec": {"interval": "3s", "timeout": "2s", "url": url}},
    ]});
    cluster.kubectl_stdin(&["apply", "-f", "-"], &objects.to_string()).unwrap();
    let both = ["hr/podinfo", "helmrepo/charts"];
    let ready = || Ok(both.iter().all(|object| item(cluster, "others", object)["ready"] == "True"));
    cluster.wait_for("release and repository ready", LIMIT, ready).unwrap();

    let suspend = [&["suspend"], &both[..], &["-n", "others", "-m", "drill", "--yes"]].concat();
    assert_eq!(ok(&gitops(cluster, &suspend)).lines().count(), 2);
    let told = |object: &str| item(cluster, "others", object)["honoured"]["verdict"] == "not-honoured";
    cluster.wait_for("NOT HONOURED", LIMIT, || Ok(both.iter().all(|object| told(object)))).unwrap();
    let what = |object: &str| item(cluster, "others", object)["honoured"]["what"].as_str().unwrap().to_owned();
    assert_eq!(what("hr/podinfo"), "helm-controller wrote the status");
    assert_eq!(what("helmrepo/charts"), "source-controller sent the event ArtifactUpToDate");

    ok(&gitops(cluster, &[&["suspend"], &both[..], &["-n", "others", "--spec"]].concat()));
    std::thread::sleep(Duration::from_secs(3));
    let version = || read(cluster, "hr", "others", "podinfo")["metadata"]["resourceVersion"].clone();
    let then = version();
    std::thread::sleep(Duration::from_secs(10));
    assert_eq!(version(), then, "helm-controller writes nothing in three intervals");
    let resumed =
        gitops(cluster, &[&["resume"], &both[..], &["-n", "others", "--spec", "--wait", "--timeout", "60s"]].concat());
    assert_eq!(ok(&resumed).lines().filter(|line| line.ends_with(" reconciled")).count(), 2, "{resumed:?}");
}
