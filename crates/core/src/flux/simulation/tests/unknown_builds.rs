//! Builds that fail here and need not fail in the controller: nothing that depends on them is claimed to be known.

use serde_json::json;

use super::cluster::{Files, TestCluster, cm, ks};
use crate::plan::{Outcome, Plan};

/// Returns files with the chain root, `k` and `leaf`, of which `k` applies `leaf` and the ConfigMap `a`.
fn chain(more: serde_json::Value, manifest: &str) -> Files {
    vec![
        ("root/k.yaml", vec![ks("k", "./p", json!({}))]),
        ("root/other.yaml", vec![ks("other", "./other", more)]),
        ("p/leaf.yaml", vec![ks("leaf", "./leaf", json!({})), cm(manifest)]),
        ("leaf/b.yaml", vec![cm("b")]),
        ("other/c.yaml", vec![cm("c")]),
    ]
}

fn outcomes(plan: &Plan) -> Vec<(String, Outcome, String)> {
    let row = |row: &crate::plan::OwnerOutcome| (row.owner.name.clone(), row.outcome, row.reason.to_string());
    plan.owners().iter().map(row).collect()
}

#[test]
fn an_owner_whose_build_failed_only_here_is_unknown_with_its_children() {
    let cluster = TestCluster::new(&chain(json!({}), "a"));
    let plan = cluster.plan(&chain(json!({}), "crashes"));
    assert!(!plan.is_complete());
    let unknown = outcomes(&plan);
    let detail = "build-crashed: a signal ended kustomize; any of its 2 objects may be deleted";
    assert_eq!(unknown[0], ("k".to_owned(), Outcome::Unknown, detail.to_owned()));
    assert_eq!((&*unknown[1].0, unknown[1].1), ("leaf", Outcome::Unknown));
    assert!(unknown[1].2.starts_with("parent-unknown: kustomization/k"), "{unknown:?}");
    assert_eq!((&*unknown[3].0, unknown[3].1), ("root", Outcome::Applies));
    let messages: Vec<_> = plan.gaps().iter().map(|gap| format!("{}: {}", gap.subject, gap.message)).collect();
    assert_eq!(messages, ["build of kustomization/k -n flux-system: a signal ended kustomize"]);
}

#[test]
fn a_dependant_of_an_unknown_owner_is_unknown() {
    let dependant = json!({"dependsOn": [{"name": "k"}]});
    let cluster = TestCluster::new(&chain(dependant.clone(), "a"));
    let plan = cluster.plan(&chain(dependant.clone(), "crashes"));
    let unknown = outcomes(&plan);
    assert_eq!((&*unknown[2].0, unknown[2].1), ("other", Outcome::Unknown));
    assert!(unknown[2].2.starts_with("dependency-unknown: it depends on kustomization/k"), "{unknown:?}");
    let blocked = outcomes(&cluster.plan(&chain(dependant, "broken")));
    assert_eq!((&*blocked[0].0, blocked[0].1), ("k", Outcome::Blocked), "the controller rejects it too");
    assert_eq!((&*blocked[2].0, blocked[2].1), ("other", Outcome::Blocked));
}

#[test]
fn a_failure_of_the_build_with_the_old_spec_is_a_gap_too() {
    let files = |path: &str| -> Files {
        vec![
            ("root/k.yaml", vec![ks("k", path, json!({}))]),
            ("old/a.yaml", vec![cm(if path == "./old" { "a" } else { "crashes" })]),
            ("new/a.yaml", vec![cm("a")]),
        ]
    };
    let plan = TestCluster::new(&files("./old")).plan(&files("./new"));
    assert!(!plan.is_complete());
    assert_eq!(outcomes(&plan)[0].1, Outcome::Unknown);
}
