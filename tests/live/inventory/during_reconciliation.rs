//! A scan beside a controller at work: labels come before the record, and the record goes before the objects, so whoever
//! reads in between must not call anything leaked.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use test_support::cluster::with_kustomize_controller;
use test_support::flux;
use test_support::folder::folder;
use test_support::gitops::gitops;
use test_support::shared_cluster;

// The cluster of these tests, with kustomize-controller and an audit log.
shared_cluster!(with_kustomize_controller);

/// Number of scans of the cluster while it reconciles.
const SCANS: usize = 100;
/// Number of scans of the part that the leaks of one owner need.
const NARROW_SCANS: usize = 50;

#[test]
fn nothing_is_called_leaked_during_a_reconciliation() {
    let cluster = &cluster();
    let tree = folder("scan");
    flux::config_maps(&tree, 12);
    flux::deploy(cluster, "scan", &tree);
    let done = AtomicBool::new(false);
    let (leaked, rounds) = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                round += 1;
                // Every round removes three objects and adds three.
                for number in 0..3 {
                    let _ = fs::remove_file(tree.join(format!("round-{}-{number}.yaml", round - 1)));
                    let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: round-{round}-{number}}}\n");
                    fs::write(tree.join(format!("round-{round}-{number}.yaml")), text).unwrap();
                }
                flux::publish(cluster, "scan", &tree);
            }
            round
        });
        let scan = |owner: &[&str]| gitops(cluster, &[&["inventory", "--leaked", "-o", "json"], owner].concat());
        let whole = (0..SCANS).map(|_| scan(&[]));
        let scans = whole.chain((0..NARROW_SCANS).map(|_| scan(&["scan/kustomization/apps"])));
        let leaked: Vec<Value> = scans
            .flat_map(|scan| {
                let answer: Value = serde_json::from_str(&scan.stdout).unwrap_or_else(|_| panic!("{scan:?}"));
                answer["findings"].as_array().unwrap().clone()
            })
            .collect();
        done.store(true, Ordering::Relaxed);
        (leaked, worker.join().unwrap())
    });
    assert!(leaked.is_empty(), "{leaked:#?}");
    assert!(rounds > 10, "the controller was at work: {rounds} rounds");
}
