//! One cluster that carries all eight systems, each made by its real tool where that can be had, and one `inventory`
//! beside a written table of truth, object for object.

#[allow(dead_code, reason = "a part of what the comparisons with qbec use")]
#[path = "../real_qbec/app.rs"]
mod app;
mod copies;
mod flux;
#[allow(dead_code, reason = "a part of what the comparisons with fluxd use")]
#[path = "../real_fluxd/fluxd.rs"]
mod fluxd;
mod recorded;
#[path = "../support/mod.rs"]
mod support;
mod tools;
mod truth;
mod views;
mod witness;

use std::sync::OnceLock;
use std::thread;

use xtask::cluster::{Cluster, Flux, Options};

/// The cluster of this test file, with Flux's controllers.
pub(crate) fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        xtask::controlplane::ensure(&["fluxd", "qbec", "kapp", "helm"]).expect("the tools are built");
        Cluster::up(Options { flux: Flux::All, whole: true, ..Options::default() }).expect("the test cluster comes up")
    })
}

/// Runs the cluster's kubectl with the words of a text.
pub(crate) fn kubectl(words: &str) -> String {
    cluster().kubectl(&words.split(' ').collect::<Vec<_>>()).unwrap()
}

/// Applies manifests with these flags.
pub(crate) fn apply(flags: &[&str], manifests: &str) {
    cluster().kubectl_stdin(&[&["apply", "-f", "-"], flags].concat(), manifests).unwrap();
}

/// A ConfigMap with more metadata, such as `, labels: {a: b}`.
pub(crate) fn config_map(namespace: &str, name: &str, more: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}{namespace}{more}}}\ndata: {{a: b}}\n")
}

/// A Deployment of one Pod with these labels, which stays Pending: there is no node.
pub(crate) fn deployment(namespace: &str, name: &str, labels: &str, container: &str) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec:\n  selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    \
         metadata: {{labels: {{app: {name}{labels}}}}}\n    \
         spec: {{containers: [{{name: main, image: none{container}}}]}}\n"
    )
}

#[test]
fn every_object_of_every_system_stands_where_the_table_says() {
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
