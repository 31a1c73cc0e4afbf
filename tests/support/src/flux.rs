//! Kustomizations in a test cluster, reconciled by the real kustomize-controller.

use std::path::Path;

use xtask::cluster::Cluster;

use crate::cluster::LIMIT;

/// Returns a Kustomization of the source `src`. `more` continues its spec, as `, wait: true`.
pub fn kustomization(namespace: &str, name: &str, path: &str, more: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{interval: 1h, retryInterval: 2s, path: {path}, prune: true, \
         sourceRef: {{kind: GitRepository, name: src}}{more}}}\n"
    )
}

/// Creates a namespace, a source in it that has `tree` as artifact, and a Kustomization `apps` of its root; waits until
/// it is Ready.
pub fn deploy(cluster: &Cluster, namespace: &str, tree: &Path) {
    let _ = cluster.kubectl(&["create", "namespace", namespace]);
    begin(cluster, namespace, tree);
    settled(cluster, namespace, "apps");
}

/// Creates the source and the Kustomization of [`deploy`] in a namespace, and does not wait.
pub fn begin(cluster: &Cluster, namespace: &str, tree: &Path) {
    cluster.publish(&format!("GitRepository/{namespace}/src"), tree).unwrap();
    let manifest = kustomization(namespace, "apps", "./", &format!(", targetNamespace: {namespace}"));
    cluster.kubectl_stdin(&["apply", "-f", "-"], &manifest).unwrap();
}

/// Publishes the tree again and waits until the Kustomization has applied it.
pub fn publish(cluster: &Cluster, namespace: &str, tree: &Path) {
    let revision = cluster.publish(&format!("GitRepository/{namespace}/src"), tree).unwrap();
    applied(cluster, namespace, "apps", &revision);
}

/// Waits until a Kustomization is Ready for its generation at a revision.
pub fn applied(cluster: &Cluster, namespace: &str, name: &str, revision: &str) {
    cluster.wait_until_applied(namespace, name, revision, LIMIT).unwrap();
}

/// Waits until a Kustomization is Ready for its generation and nothing is under way.
pub fn settled(cluster: &Cluster, namespace: &str, name: &str) {
    cluster.wait_until_settled(namespace, name, LIMIT).unwrap();
}

/// Writes `count` ConfigMaps `cm-0`, `cm-1`, … into a folder, one file each.
pub fn config_maps(folder: &Path, count: usize) {
    for number in 0..count {
        let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: cm-{number}}}\ndata: {{a: b}}\n");
        std::fs::write(folder.join(format!("cm-{number}.yaml")), text).expect("a manifest is written");
    }
}

/// Makes `cm-NUMBER` leaked as it happens in life: pruning is turned off, the manifest goes, pruning is turned on again.
pub fn leak(cluster: &Cluster, namespace: &str, tree: &Path, number: usize) {
    let prune = |on: bool| {
        let patch = format!("{{\"spec\":{{\"prune\":{on}}}}}");
        cluster.kubectl(&["patch", "kustomization", "apps", "-n", namespace, "--type=merge", "-p", &patch]).unwrap();
        settled(cluster, namespace, "apps");
    };
    prune(false);
    std::fs::remove_file(tree.join(format!("cm-{number}.yaml"))).expect("the manifest was there");
    publish(cluster, namespace, tree);
    prune(true);
}
