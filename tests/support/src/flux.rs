//! Kustomizations in a test cluster, reconciled by the real kustomize-controller.

use std::path::Path;

use xtask::cluster::Cluster;

use crate::cluster::LIMIT;

/// Creates a namespace, a source in it that has `tree` as artifact, and a Kustomization `apps` of its root; waits until
/// it is Ready.
pub fn deploy(cluster: &Cluster, namespace: &str, tree: &Path) {
    let _ = cluster.kubectl(&["create", "namespace", namespace]);
    cluster.publish(&format!("GitRepository/{namespace}/src"), tree).unwrap();
    let manifest = format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: apps, namespace: {namespace}}}\n\
         spec:\n  interval: 1h\n  retryInterval: 2s\n  path: ./\n  prune: true\n  targetNamespace: {namespace}\n  \
         sourceRef: {{kind: GitRepository, name: src}}\n"
    );
    cluster.kubectl_stdin(&["apply", "-f", "-"], &manifest).unwrap();
    settled(cluster, namespace, "apps");
}

/// Publishes the tree again and waits until the Kustomization has applied it.
pub fn publish(cluster: &Cluster, namespace: &str, tree: &Path) {
    let revision = cluster.publish(&format!("GitRepository/{namespace}/src"), tree).unwrap();
    applied(cluster, namespace, "apps", &revision);
}

/// Waits until a Kustomization is Ready for its generation at a revision.
pub fn applied(cluster: &Cluster, namespace: &str, name: &str, revision: &str) {
    let path = "{.status.lastAppliedRevision}";
    let probe = || {
        let found =
            cluster.kubectl(&["get", "kustomization", name, "-n", namespace, "-o", &format!("jsonpath={path}")])?;
        Ok(found.contains(revision.trim()))
    };
    cluster.wait_for(&format!("kustomization/{name} at {revision}"), LIMIT, probe).unwrap();
    settled(cluster, namespace, name);
}

/// Waits until a Kustomization is Ready for its generation and nothing is under way.
pub fn settled(cluster: &Cluster, namespace: &str, name: &str) {
    let path = "{.metadata.generation} {.status.observedGeneration} {.status.conditions[?(@.type==\"Ready\")].status} \
                {.status.conditions[?(@.type==\"Reconciling\")].status}";
    let probe = || {
        let found =
            cluster.kubectl(&["get", "kustomization", name, "-n", namespace, "-o", &format!("jsonpath={path}")])?;
        let words: Vec<&str> = found.split_whitespace().collect();
        Ok(words.len() == 3 && words[0] == words[1] && words[2] == "True")
    };
    cluster.wait_for(&format!("kustomization/{name} in {namespace} ready"), LIMIT, probe).unwrap();
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
