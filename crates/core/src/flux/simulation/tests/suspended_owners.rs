//! Suspended Kustomizations in a plan: those that the change does not touch are left out.

use serde_json::{Value, json};

use super::cluster::{Files, TestCluster, cm, ks};
use crate::ownership::index::Index;
use crate::plan::filter::drop_untouched;

/// Returns files with a suspended Kustomization that has these fields and objects, and with another object.
fn files(spec: Value, own: &[&str], other: &str) -> Files {
    let own = own.iter().map(|name| cm(name)).collect();
    vec![("root/k.yaml", vec![ks("k", "./p", spec)]), ("p/a.yaml", own), ("root/x.yaml", vec![cm(other)])]
}

#[test]
fn a_suspended_owner_is_in_the_plan_only_if_the_change_touches_it() {
    let suspended = json!({"suspend": true});
    let before = files(suspended.clone(), &["a"], "x");
    let cases = [
        ("another owner changes", files(suspended.clone(), &["a"], "y"), true, false),
        ("its files change", files(suspended.clone(), &["a", "b"], "x"), true, true),
        ("its spec changes", files(json!({"suspend": true, "force": true}), &["a"], "x"), true, true),
        ("the deployed files are not known", files(suspended, &["a"], "y"), false, true),
    ];
    for (name, after, has_history, is_listed) in cases {
        let mut cluster = TestCluster::new(&before);
        cluster.history = has_history.then(|| before.clone());
        let mut plan = cluster.plan(&after);
        assert!(plan.owners().iter().any(|row| row.owner.name == "k"), "{name}: with --all");
        drop_untouched(&mut plan, &Index::build(&cluster.snapshot));
        assert_eq!(plan.owners().iter().any(|row| row.owner.name == "k"), is_listed, "{name}");
    }
}
