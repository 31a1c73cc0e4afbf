//! Finalizers of Flux whose controller is not in the cluster: the plan names them, and the objects stay terminating.

use std::time::Duration;

use serde_json::Value;
use test_support::flux::{deploy, publish};
use test_support::folder::folder;
use test_support::gitops::Run;
use test_support::tree_plan::{document, plan};
use xtask::cluster::{Cluster, Flux, Options};

const LIMIT: Duration = Duration::from_secs(60);

/// A release that helm-controller once took into its care.
const RELEASE: &str = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n\
                       metadata: {name: web, finalizers: [finalizers.fluxcd.io]}\n\
                       spec: {interval: 1h, chartRef: {kind: OCIRepository, name: web}}\n";

/// The Deployment that an installation of Flux has for a controller; the controllers of test clusters are plain processes.
fn deployment(name: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: flux-system}}\nspec:\n  replicas: 0\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
         spec: {{containers: [{{name: manager, image: i}}]}}\n"
    )
}

/// Controllers that hold something, and the warnings.
fn held(run: &Run) -> (Vec<(String, Value)>, Vec<&str>) {
    let rows = document(run)["blockedByFinalizers"].as_array().cloned().unwrap_or_default();
    let row = |row: &Value| (row["object"]["name"].as_str().unwrap().to_owned(), row["detail"].clone());
    (rows.iter().map(row).collect(), run.stderr.lines().filter(|line| line.contains("terminating")).collect())
}

#[test]
fn a_release_without_helm_controller_hangs_as_the_plan_says_and_a_kustomization_that_is_served_does_not() {
    let cluster = Cluster::up(Options { flux: Flux::Crds, ..Options::default() }).unwrap();
    cluster.start("kustomize-controller").unwrap();
    let (namespace, tree) = ("held", folder("held"));
    let write = |name: &str, content: &str| std::fs::write(tree.join(name), content).unwrap();
    let child = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: child}\n\
                 spec: {interval: 1h, path: ./none, prune: true, sourceRef: {kind: GitRepository, name: src}}\n";
    write("release.yaml", RELEASE);
    write("child.yaml", child);
    write("other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n");
    deploy(&cluster, namespace, &tree);
    let finalizers = |what: &str| {
        let path = "jsonpath={.metadata.finalizers}";
        cluster.kubectl(&["get", what, "-n", namespace, "-o", path, "--ignore-not-found"])
    };
    let taken = || Ok(finalizers("kustomization/child")?.contains("finalizers.fluxcd.io"));
    cluster.wait_for("the finalizer of the child", LIMIT, taken).unwrap();
    std::fs::remove_file(tree.join("release.yaml")).unwrap();
    std::fs::remove_file(tree.join("child.yaml")).unwrap();
    let planned = || plan(&cluster, namespace, &tree, &["--max-percent=100"]);

    // kustomize-controller works without a Deployment here, so helm-controller might as well.
    assert_eq!(held(&planned()), (vec![], vec![]));

    cluster.kubectl_stdin(&["create", "-f", "-"], &deployment("kustomize-controller")).unwrap();
    let why = "no Deployment helm-controller is in this cluster";
    let warning = format!(
        "warning: helmrelease.helm.toolkit.fluxcd.io/web -n {namespace} will stay terminating until a controller removes \
         finalizers.fluxcd.io; {why}"
    );
    let run = planned();
    assert_eq!(held(&run), (vec![("web".to_owned(), why.into())], vec![warning.as_str()]));

    publish(&cluster, namespace, &tree);
    let gone = || Ok(finalizers("kustomization/child")?.is_empty());
    cluster.wait_for("the child to be gone", LIMIT, gone).unwrap();
    let deleting = "jsonpath={.metadata.deletionTimestamp}";
    let found = cluster.kubectl(&["get", "helmrelease/web", "-n", namespace, "-o", deleting]).unwrap();
    assert!(!found.is_empty() && finalizers("helmrelease/web").unwrap().contains("finalizers.fluxcd.io"), "{found}");

    // With a Deployment of that name somebody is presumed to serve it.
    cluster.kubectl_stdin(&["create", "-f", "-"], &deployment("helm-controller")).unwrap();
    cluster.start("helm-controller").unwrap();
    let gone = || Ok(finalizers("helmrelease/web")?.is_empty());
    cluster.wait_for("helm-controller to let the release go", LIMIT, gone).unwrap();
}
