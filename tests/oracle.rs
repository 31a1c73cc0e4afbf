//! What `prune --plan` predicts of a working tree equals what the real kustomize-controller then does, by uid.
//!
//! A small part of the scenarios; `cargo xtask oracle` runs all of them, and random repositories.

use std::path::Path;

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

#[test]
fn plans_equal_what_the_controller_does() {
    let scenarios: Vec<_> =
        oracle::all().into_iter().filter(|scenario| HERE.contains(&scenario.name.as_str())).collect();
    assert_eq!(scenarios.len(), HERE.len());
    let cluster = oracle::cluster().unwrap();
    let verdicts = oracle::run(&cluster, Path::new(env!("CARGO_BIN_EXE_kubectl-gitops")), &scenarios);
    for (scenario, verdict) in scenarios.iter().zip(verdicts) {
        let verdict = verdict.unwrap_or_else(|error| panic!("{}: {error:#}", scenario.name));
        assert!(verdict.mismatches.is_empty(), "{scenario}{}", verdict.mismatches.join("\n"));
    }
}
