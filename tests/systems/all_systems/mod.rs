//! One cluster that carries all eight systems, each made by its real tool where that can be had, and one `inventory`
//! beside a written table of truth, object for object.

mod copies;
mod flux;
mod recorded;
mod tools;
mod truth;
mod views;
mod witness;

use std::thread;

use test_support::cluster::up;
use test_support::shared_cluster;
use xtask::cluster::{Flux, Options};

// The cluster of this test, with Flux's controllers.
shared_cluster!(|| {
    xtask::controlplane::ensure(&["fluxd", "qbec", "kapp", "helm"]).expect("the tools are built");
    up(Options { flux: Flux::All, whole: true, ..Options::default() })
});

/// Runs the cluster's kubectl with the words of a text.
fn kubectl(words: &str) -> String {
    cluster().kubectl(&words.split(' ').collect::<Vec<_>>()).unwrap()
}

/// Applies manifests with these flags.
fn apply(flags: &[&str], manifests: &str) {
    cluster().kubectl_stdin(&[&["apply", "-f", "-"], flags].concat(), manifests).unwrap();
}

/// A ConfigMap with more metadata, such as `, labels: {a: b}`.
fn config_map(namespace: &str, name: &str, more: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}{namespace}{more}}}\ndata: {{a: b}}\n")
}

/// A Deployment of one Pod with these labels, which stays Pending: there is no node.
fn deployment(namespace: &str, name: &str, labels: &str, container: &str) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec:\n  selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    \
         metadata: {{labels: {{app: {name}{labels}}}}}\n    \
         spec: {{containers: [{{name: main, image: none{container}}}]}}\n"
    )
}

#[test]
fn inventory_of_all_systems_equals_the_table() {
    let _cluster = cluster();
    copies::prepare();
    thread::scope(|scope| {
        scope.spawn(flux::kustomizations);
        scope.spawn(|| {
            flux::helm_releases();
            tools::helm();
            recorded::argocd();
            recorded::cli_utils();
            recorded::flux_operator();
        });
        scope.spawn(|| {
            flux::shared();
            tools::kapp();
            tools::apply_sets();
        });
        scope.spawn(tools::fluxd_and_qbec);
    });
    kubectl("create namespace plain");
    kubectl("create configmap by-hand -n plain");
    kubectl("create secret generic by-hand -n plain");
    copies::operate();
    views::tell();
    let truth = truth::rows();
    views::compare(&truth);
    views::plan();
    witness::compare(&truth);
    copies::explain(&truth);
}
