//! A scan beside a controller at work: labels come before the record, and the record goes before the objects, so whoever
//! reads in between must not call anything leaked.

mod support;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use support::live::{self, cluster, folder, gitops};

/// How often the cluster is scanned while it reconciles.
const SCANS: usize = 200;
/// How often only as much of it is scanned as one owner's leaks need.
const NARROW_SCANS: usize = 100;

#[test]
fn a_running_reconcile_leaks_nothing() {
    let cluster = cluster();
    let tree = folder("scan");
    live::config_maps(&tree, 12);
    live::deploy(cluster, "scan", &tree);
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
                live::publish(cluster, "scan", &tree);
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
