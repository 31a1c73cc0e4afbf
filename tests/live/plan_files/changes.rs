//! A reviewed plan while the cluster changes behind it: what `--apply` then does.

use serde_json::json;
use test_support::gitops::gitops;
use xtask::cluster::Cluster;

use super::{applied, apply, execute, plan, reconcile, remaining, with_leaks};

/// A change of `cm-N` after the review, and the line that the execution prints for it.
type Case = (&'static str, fn(&Cluster, &str), &'static str);

fn patch(cluster: &Cluster, name: &str, patch: &serde_json::Value) {
    let fixed = ["patch", "configmap", name, "-n", "behind", "--type=merge", "-p"];
    cluster.kubectl(&[&fixed[..], &[&patch.to_string()]].concat()).unwrap();
}

const CASES: [Case; 10] = [
    ("nothing", |_, _| {}, "deleted"),
    (
        "its data",
        |cluster, name| patch(cluster, name, &json!({"data": {"new": "value"}})),
        "skipped: it changed after the plan was made: changed-since-plan: its resourceVersion was ",
    ),
    (
        "an annotation",
        |cluster, name| patch(cluster, name, &json!({"metadata": {"annotations": {"touched": "yes"}}})),
        "skipped: it changed after the plan was made: changed-since-plan: its resourceVersion was ",
    ),
    (
        "deleted by somebody",
        |cluster, name| drop(cluster.kubectl(&["delete", "configmap", name, "-n", "behind"]).unwrap()),
        "was gone already",
    ),
    (
        "created again",
        |cluster, name| {
            cluster.kubectl(&["delete", "configmap", name, "-n", "behind"]).unwrap();
            apply(cluster, vec![applied("behind", "v1", "ConfigMap", "behind", name)]);
        },
        "skipped: it changed after the plan was made: replaced: another object has taken its name",
    ),
    (
        "protected",
        |cluster, name| {
            let protection = json!({"kustomize.toolkit.fluxcd.io/prune": "disabled"});
            patch(cluster, name, &json!({"metadata": {"annotations": protection}}));
        },
        "skipped: it changed after the plan was made: protected: kustomize.toolkit.fluxcd.io/prune=disabled",
    ),
    (
        "adopted by its owner",
        |cluster, name| reconcile(cluster, "behind", &["stays", name]),
        "skipped: it changed after the plan was made: recorded: kustomization/apps -n behind lists it",
    ),
    (
        "without its labels",
        |cluster, name| patch(cluster, name, &json!({"metadata": {"labels": null}})),
        "skipped: it changed after the plan was made: unclaimed: no owner claims it any more",
    ),
    (
        "owned by another object",
        |cluster, name| {
            let uid = ["get", "configmap", "stays", "-n", "behind", "-o", "jsonpath={.metadata.uid}"];
            let uid = cluster.kubectl(&uid).unwrap();
            let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "stays", "uid": uid.trim()});
            patch(cluster, name, &json!({"metadata": {"ownerReferences": [reference]}}));
        },
        "skipped: it changed after the plan was made: referenced: ",
    ),
    (
        "labelled by hand",
        |cluster, name| {
            patch(cluster, name, &json!({"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "other"}}}));
        },
        "skipped: it changed after the plan was made: ",
    ),
];

#[test]
fn what_changed_behind_a_reviewed_plan_is_skipped_with_the_reason() {
    let cluster = &with_leaks("behind", CASES.len());
    let file = plan(cluster, "behind", &[]);
    for (number, (_, change, _)) in CASES.iter().enumerate() {
        change(cluster, &format!("cm-{number}"));
    }
    let run = execute(cluster, &file, &[]);
    assert_eq!(run.code, 5, "{run}");
    xtask::say(format!("{:26}{}", "changed after the review", "what --apply does"));
    for (number, (what, _, expected)) in CASES.iter().enumerate() {
        let start = format!("configmap/cm-{number} -n behind ");
        let result = run.stdout.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default();
        xtask::say(format!("{what:26}{result}"));
        assert!(result.starts_with(expected), "{what}: {expected}\n{run}");
    }
    let expected: Vec<String> = [1, 2, 4, 5, 6, 7, 8, 9].map(|number| format!("cm-{number}")).to_vec();
    assert_eq!(remaining(cluster, "behind"), expected, "{run}");

    let changed = execute(cluster, &file, &["--allow-changed"]);
    let expected: Vec<String> = [4, 5, 6, 7, 8, 9].map(|number| format!("cm-{number}")).to_vec();
    assert_eq!(
        (changed.code, remaining(cluster, "behind")),
        (5, expected),
        "only a newer version is allowed: {changed}"
    );
}

#[test]
fn a_cascade_that_grew_behind_a_reviewed_plan_keeps_its_root() {
    let cluster = &with_leaks("cascade-owner", 0);
    let inside = |name| applied("cascade-owner", "v1", "ConfigMap", "cascade-old", name);
    apply(cluster, vec![applied("cascade-owner", "v1", "Namespace", "", "cascade-old")]);
    // The API server creates this one in every namespace, and it belongs to no owner.
    let _ = cluster.kubectl(&["delete", "configmap", "kube-root-ca.crt", "-n", "cascade-old"]);
    apply(cluster, vec![inside("one")]);
    reconcile(cluster, "cascade-owner", &["stays"]);
    let allow = "--allow=namespaces";
    let file = plan(cluster, "cascade-owner", &[allow]);
    let refused = execute(cluster, &file, &[]);
    let line = "namespace/cascade-old skipped: not-allowed: namespaces";
    assert!(refused.stdout.contains(line), "a permission is not part of a file: {refused}");
    apply(cluster, vec![inside("two")]);
    reconcile(cluster, "cascade-owner", &["stays"]);
    let run = execute(cluster, &file, &[allow]);
    let line = "namespace/cascade-old skipped: it changed after the plan was made: changed-since-plan: ";
    assert!(run.code == 5 && run.stdout.contains(line), "{run}");
    cluster.kubectl(&["delete", "configmap", "two", "-n", "cascade-old"]).unwrap();
    let run = execute(cluster, &file, &[allow]);
    assert_eq!(run.code, 0, "the content is as it was reviewed: {run}");
    let gone = cluster.kubectl(&["get", "namespace", "cascade-old", "--ignore-not-found", "-o", "name"]).unwrap();
    assert_eq!(gone, "");
}

#[test]
fn an_orphaned_object_of_a_plan_needs_its_flag_again() {
    let cluster = &with_leaks("orphan-owner", 0);
    let mut manifest = applied("orphan-owner", "v1", "ConfigMap", "orphan-owner", "cm-left");
    manifest["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"] = "gone".into();
    apply(cluster, vec![manifest]);
    let include = "--include=orphaned";
    let file = plan(cluster, "orphan-owner", &[include]);
    let run = execute(cluster, &file, &[]);
    let line = "configmap/cm-left -n orphan-owner skipped: orphaned: kustomization/gone -n orphan-owner does not exist in this \
                cluster; --apply deletes orphaned objects only with --include orphaned\n";
    assert!(run.code == 5 && run.stdout.contains(line), "it did not change: {run}");
    assert_eq!(remaining(cluster, "orphan-owner"), ["cm-left"]);
    let asked = gitops(cluster, &["prune", "--apply", &file, include, "--max-percent=100"]);
    assert!(asked.code == 6 && asked.stderr.contains("hint: pass --yes to delete what the plan lists"), "{asked}");
    let run = execute(cluster, &file, &[include]);
    assert_eq!((run.code, remaining(cluster, "orphan-owner").len()), (0, 0), "{run}");
}
