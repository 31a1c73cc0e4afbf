//! Compares the plan of a working tree with what the real kustomize-controller then does, by uid.
//!
//! A small part of the scenarios and some random repositories; `cargo xtask oracle` runs as many as one likes.

use xtask::oracle;

/// One scenario per rule that decides whether something is deleted.
const HERE: [&str; 9] = [
    "01-path-without-manifests",
    "02-path-missing",
    "06-protected-earlier",
    "08-child-without-prune-removed",
    "09-child-and-grandchild-removed",
    "12-child-renamed",
    "13-path-changed-old-directory-stays",
    "25-depends-on-something-removed",
    "seed-six-applications-with-namespaces",
];

/// Of the random repositories here.
const SEED: u64 = 25;

#[test]
fn plans_equal_what_the_controller_does() {
    let mut scenarios: Vec<_> =
        oracle::all().unwrap().into_iter().filter(|scenario| HERE.contains(&scenario.name.as_str())).collect();
    assert_eq!(scenarios.len(), HERE.len());
    scenarios.extend(oracle::random(SEED, 25));
    let cluster = oracle::cluster().unwrap();
    let program = oracle::Program {
        path: test_support::gitops::binary(),
        controller_version: oracle::PINNED.to_owned(),
        peers: vec![],
        reverts: false,
        asks_agent: false,
    };
    let outcomes = oracle::run(&cluster, &program, &scenarios).unwrap();
    for (scenario, outcome) in scenarios.iter().zip(outcomes) {
        let comparison = outcome.unwrap_or_else(|error| panic!("{}: {error:#}", scenario.name)).comparison;
        assert!(comparison.mismatches.is_empty(), "{scenario}{}", comparison.mismatches.join("\n"));
    }
}
