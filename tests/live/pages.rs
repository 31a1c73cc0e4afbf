//! Every command line of the pages and of the help, on a feature branch beside a cluster with real controllers.

use std::fs;

use test_support::cluster::up;
use test_support::folder::{folder, reports};
use test_support::pages::{self, Example, Scene};
use test_support::shared_cluster;
use xtask::cluster::{Cluster, Flux};
use xtask::{answer, controlplane, picture, record};

shared_cluster!(shop);

/// Objects that the examples of the help name, beside the shop, and users with few rights.
const OTHERS: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system, labels: {team: web}}
spec: {interval: 1h, path: ./, prune: true, sourceRef: {kind: GitRepository, name: apps}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: shop, labels: {team: web}}
spec: {interval: 1h, path: ./, prune: true, sourceRef: {kind: GitRepository, name: apps, namespace: flux-system}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: podinfo, namespace: flux-system, labels: {team: web}}
spec: {interval: 1h, chart: {spec: {chart: podinfo, sourceRef: {kind: HelmRepository, name: podinfo}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {team: shop}}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}
---
# ada may view the whole cluster, and kim the namespace cart.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: flux-view}
rules:
- apiGroups: [kustomize.toolkit.fluxcd.io, source.toolkit.fluxcd.io, helm.toolkit.fluxcd.io]
  resources: [\"*\"]
  verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ada}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:aggregate-to-view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ada}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ada-flux}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: flux-view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ada}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: kim, namespace: cart}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:aggregate-to-view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: kim}]
";

/// Starts a cluster with the shop of the demo, and `flux-system` as namespace of its context.
fn shop() -> Cluster {
    let cluster = up(record::options(Flux::All));
    let tree = folder("pages-shop");
    record::deploy(&cluster, &tree).unwrap();
    cluster.kubectl_stdin(&["apply", "-f", "-"], OTHERS).unwrap();
    cluster.kubectl(&["config", "set-context", "--current", "--namespace=flux-system"]).unwrap();
    cluster
}

/// Undoes what the commands of a page left: suspensions, and manifests that they applied.
fn reset(cluster: &Cluster) {
    let patch = r#"{"metadata": {"annotations": null}, "spec": {"suspend": null}}"#;
    for (kind, name, namespace) in [
        ("kustomization", "cart", "flux-system"),
        ("kustomization", "checkout", "flux-system"),
        ("kustomization", "web", "flux-system"),
        ("kustomization", "apps", "flux-system"),
        ("kustomization", "apps", "shop"),
        ("helmrelease", "podinfo", "flux-system"),
    ] {
        cluster.kubectl(&["patch", kind, name, "-n", namespace, "--type=merge", "-p", patch]).unwrap();
    }
}

/// Runs for some minutes. `PAGES=write` writes the outputs into the pages, and `PAGE=plan` chooses pages by their name.
#[test]
fn every_command_line_runs_and_prints_what_its_page_shows() {
    let cluster = &cluster();
    let examples = pages::examples();
    pages::check_exceptions(&examples);
    let only = std::env::var("PAGE").unwrap_or_default();
    let runs = |example: &Example| example.not_run().is_none() && !example.is_offline() && example.page.contains(&only);
    let chosen: Vec<Example> = examples.into_iter().filter(runs).collect();
    let checked = pages::check(&chosen, || {
        reset(cluster);
        Scene::new(Some(&cluster.kubeconfig()))
    });
    let report = checked.unwrap_or_else(|wrong| panic!("{wrong}"));
    answer(&report);
    fs::write(reports().join("pages.txt"), report).unwrap();
}

#[test]
fn the_picture_shows_what_the_plan_of_the_demo_prints() {
    let drawn = picture::render(&test_support::gitops::binary(), &controlplane::bin("kubectl")).unwrap();
    if std::env::var("PAGES").is_ok_and(|what| what == "write") {
        fs::write(picture::FILE, &drawn).unwrap();
    }
    assert!(drawn == fs::read_to_string(picture::FILE).unwrap(), "docs/plan.svg is stale: run `cargo xtask picture`");
}
