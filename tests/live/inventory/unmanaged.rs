//! Objects that `inventory --unmanaged` leaves out: a new cluster with every controller of Kubernetes, as kubeadm starts it.

use serde_json::Value;
use test_support::cluster::LIMIT;
use test_support::gitops::gitops;
use test_support::suspension::ok;
use xtask::cluster::{Cluster, Options};

#[test]
fn a_new_cluster_has_nothing_unmanaged_and_then_exactly_what_a_user_created() {
    let cluster = &Cluster::up(Options { whole: true, ..Options::default() }).unwrap();
    // The controllers make these one after another, so the last of them is waited for.
    let own = [
        "serviceaccount/token-cleaner -n kube-system",
        "serviceaccount/validatingadmissionpolicy-status-controller -n kube-system",
        "serviceaccount/default -n kube-public",
        "configmap/kube-root-ca.crt -n kube-node-lease",
        "configmap/extension-apiserver-authentication -n kube-system",
        "lease/kube-controller-manager -n kube-system",
        "service/kubernetes -n default",
        "endpoints/kubernetes -n default",
        "endpointslice/kubernetes -n default",
        "servicecidr/kubernetes",
        "flowschema/probes",
        "clusterrole/cluster-admin",
        "apiservice/v1.apps",
        "priorityclass/system-node-critical",
    ];
    for object in own {
        let words: Vec<&str> = ["get", "-o", "name"].into_iter().chain(object.split(' ')).collect();
        cluster.wait_for(object, LIMIT, || Ok(!cluster.kubectl(&words)?.is_empty())).unwrap();
    }
    let unmanaged = || {
        let run = gitops(cluster, &["inventory", "--unmanaged", "-o", "json"]);
        let answer: Value = serde_json::from_str(ok(&run)).unwrap();
        assert_eq!(answer["complete"], true, "{run:?}");
        let totals = &answer["totals"];
        let count = |key: &str| totals[key].as_u64().unwrap();
        assert_eq!(count("system") + count("unmanaged"), count("objects"), "nothing else is there: {totals}");
        let names = answer["findings"].as_array().unwrap().iter();
        names.map(|row| format!("{} {}/{}", row["kind"], row["namespace"], row["name"])).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(unmanaged(), none);

    cluster.kubectl(&["create", "configmap", "mine"]).unwrap();
    assert_eq!(unmanaged(), [r#""ConfigMap" "default"/"mine""#]);
    // No namespace is left out as such.
    cluster.kubectl(&["create", "configmap", "mine", "-n", "kube-system"]).unwrap();
    assert_eq!(unmanaged().len(), 2);
    assert_eq!(ok(&gitops(cluster, &["inventory", "--unmanaged", "-n", "default", "-o", "name"])), "configmap/mine\n");
}
