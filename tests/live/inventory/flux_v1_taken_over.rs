//! Objects of Flux v1 that Flux v2 took over are no orphans of Flux v1, beside the real kustomize-controller.

use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::schemes::flux_v1::{GitSource, MARK, mark, resource_id};
use test_support::cluster::with_kustomize_controller;
use test_support::flux::{config_maps, deploy};
use test_support::folder::folder;
use test_support::gitops::gitops;
use test_support::shared_cluster;

// The cluster of these tests, with kustomize-controller and an audit log.
shared_cluster!(with_kustomize_controller);

#[test]
fn objects_that_flux_v2_took_over_are_no_orphans() {
    let cluster = &cluster();
    cluster.kubectl(&["create", "namespace", "taken"]).unwrap();
    let source = GitSource { url: "git@example.com:o/r".to_owned(), branch: "master".to_owned(), paths: vec![] };
    for name in ["cm-0", "left"] {
        let id = resource_id(&ObjectId::new("", "ConfigMap", "taken", name));
        let label = format!("{MARK}={}", mark(&source.sync_set(), &id));
        cluster.kubectl(&["create", "configmap", name, "-n", "taken"]).unwrap();
        cluster.kubectl(&["label", "configmap", name, "-n", "taken", &label]).unwrap();
        cluster.kubectl(&["annotate", "configmap", name, "-n", "taken", "fluxcd.io/sync-checksum=abc"]).unwrap();
    }
    let orphans = || {
        let run = gitops(cluster, &["inventory", "--by", "flux-v1", "-n", "taken", "-o", "wide", "--no-headers"]);
        assert_eq!(run.code, 0, "{run:?}");
        (run.stdout.matches("orphan: ").count(), run)
    };
    assert_eq!(orphans().0, 2);
    let tree = folder("taken");
    config_maps(&tree, 1);
    deploy(cluster, "taken", &tree);
    let labels = cluster.kubectl(&["get", "configmap", "cm-0", "-n", "taken", "-o", "jsonpath={.metadata.labels}"]);
    assert!(!labels.unwrap().contains(MARK), "kustomize-controller strips the mark");
    let (number, run) = orphans();
    assert_eq!(number, 1, "{run:?}");
    assert!(run.stdout.contains("left") && !run.stdout.contains("cm-0"), "{}", run.stdout);

    // Even where the mark came back, as from a backup.
    let id = resource_id(&ObjectId::new("", "ConfigMap", "taken", "cm-0"));
    let label = format!("{MARK}={}", mark(&source.sync_set(), &id));
    cluster.kubectl(&["label", "configmap", "cm-0", "-n", "taken", &label]).unwrap();
    let (number, run) = orphans();
    assert_eq!(number, 1, "{run:?}");
    assert!(run.stdout.contains("taken over"), "{}", run.stdout);
    let args = ["prune", "flux-v1", "--plan", "--git-url", "git@example.com:o/r", "--allow-empty"];
    let plan = gitops(cluster, &args);
    let row = plan.stdout.lines().find(|line| line.contains("cm-0")).unwrap_or_else(|| panic!("{plan:?}"));
    assert!(
        row.trim_start().starts_with("keep ") && row.contains("recorded: kustomization/apps -n taken lists it"),
        "{row}"
    );
}
