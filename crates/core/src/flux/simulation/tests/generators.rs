//! Kustomizations of ExternalArtifacts that ArtifactGenerators make of the planned tree.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cm, ks};
use super::unfollowed::{flux, source};
use crate::flux::spec::SourceId;
use crate::plan::Plan;

fn generator(artifacts: Value) -> Value {
    let sources = json!([{"alias": "repo", "kind": "GitRepository", "name": "repo"}]);
    flux(
        "source.extensions.fluxcd.io/v1beta1",
        "ArtifactGenerator",
        "gen",
        json!({"sources": sources, "artifacts": artifacts}),
    )
}

fn output(name: &str, from: &str) -> Value {
    json!({"name": name, "copy": [{"from": from, "to": "@artifact/", "exclude": ["*.md"]}]})
}

fn fed(path: &str) -> Value {
    ks("fed", path, json!({"sourceRef": {"kind": "ExternalArtifact", "name": "apps"}}))
}

/// Files with a generator that copies the directory `p`, and a Kustomization of it.
fn files(root: Vec<Value>, more: &[(&'static str, &'static str)]) -> Files {
    let repository = source("GitRepository", "repo", json!({"url": "https://example.com/repo"}));
    let mut files = vec![("root/a.yaml", [vec![repository], root].concat())];
    files.extend(more.iter().map(|(at, name)| (*at, vec![cm(name)])));
    files
}

const BEFORE: [(&str, &str); 3] = [("p/a.yaml", "a"), ("p/b.yaml", "b"), ("q/c.yaml", "c")];

fn before() -> Files {
    files(vec![generator(json!([output("apps", "@repo/p")])), fed("./p")], &BEFORE)
}

/// Returns a cluster after these files were applied and the generator has made the artifact `apps`.
fn cluster(before: &Files) -> TestCluster {
    let mut cluster = TestCluster::new(before);
    let reference = json!({"kind": "ArtifactGenerator", "name": "gen"});
    cluster.add_with_content(&source("ExternalArtifact", "apps", json!({"sourceRef": reference})), None, json!({}));
    if cluster.snapshot.objects.iter().any(|object| &*object.id.name == "gen") {
        cluster.kustomization("gen").content["status"] = json!({
            "conditions": [{"type": "Ready", "status": "True"}],
            "inventory": [{"name": "apps", "namespace": NS, "digest": "sha256:00", "filename": "1.tar.gz"}],
        });
    }
    cluster.snapshot.normalise();
    cluster
}

fn outcome(plan: &Plan, name: &str) -> String {
    let row = plan.owners().iter().find(|row| row.owner.name == name);
    row.map_or_else(|| "none".to_owned(), |row| format!("{:?}: {}", row.outcome, row.reason))
}

/// Returns the rows after a change of the files, and the outcomes of the generator and of the Kustomization.
fn change(after: &Files) -> (Vec<String>, String, String) {
    let cluster = cluster(&before());
    let plan = cluster.plan(after);
    let rows: BTreeSet<String> = cluster.rows(after);
    (rows.into_iter().collect(), outcome(&plan, "gen"), outcome(&plan, "fed"))
}

#[test]
fn a_file_that_leaves_a_copied_directory_leaves_the_cluster() {
    let after = files(before()[0].1[1..].to_vec(), &[("p/a.yaml", "a"), ("q/c.yaml", "c")]);
    let (rows, generator, fed) = change(&after);
    assert_eq!(rows, ["delete b"]);
    assert!(generator.starts_with("Applies: artifacts-generated"), "{generator}");
    assert!(fed.starts_with("Applies: new-revision"), "{fed}");
}

#[test]
fn files_that_are_not_copied_change_nothing() {
    let mut cluster = cluster(&before());
    cluster.artifacts.insert("apps", vec![("p/a.yaml", vec![cm("a")]), ("p/b.yaml", vec![cm("b")])]);
    let more = [("p/a.yaml", "a"), ("p/b.yaml", "b"), ("p/x.md", "x"), ("q/d.yaml", "d")];
    let plan = cluster.plan(&files(before()[0].1[1..].to_vec(), &more));
    assert_eq!(plan.deletions().count(), 0);
    assert!(plan.is_complete(), "{:?}", plan.gaps());
    assert_eq!(outcome(&plan, "gen"), "none");
    assert!(outcome(&plan, "fed").starts_with("Unchanged: other-source"), "{}", outcome(&plan, "fed"));
}

#[test]
fn a_copy_that_matches_nothing_leaves_the_artifact_as_it_is() {
    let (rows, generator, fed) = change(&files(before()[0].1[1..].to_vec(), &[("q/c.yaml", "c")]));
    assert_eq!(rows, [""; 0]);
    assert!(generator.starts_with("Blocked: build-failed: \"p\" does not exist in @repo"), "{generator}");
    assert!(fed.starts_with("Unchanged"), "{fed}");
}

#[test]
fn an_artifact_that_leaves_the_spec_is_deleted_and_its_kustomization_prunes_nothing() {
    let root = vec![generator(json!([output("other", "@repo/p")])), fed("./p")];
    let (rows, generator, fed) = change(&files(root, &BEFORE));
    assert_eq!(rows, ["delete apps"]);
    assert!(generator.starts_with("Applies: artifacts-generated"), "{generator}");
    assert!(fed.starts_with("Blocked: source-missing"), "{fed}");
}

#[test]
fn the_artifacts_of_a_deleted_generator_are_deleted_and_its_kustomizations_prune_nothing() {
    let (rows, _, fed_outcome) = change(&files(vec![fed("./p")], &BEFORE));
    assert_eq!(rows, ["delete apps", "delete gen"]);
    assert!(fed_outcome.starts_with("Blocked: source-missing"), "{fed_outcome}");
    let (rows, ..) = change(&files(vec![], &BEFORE));
    assert_eq!(rows, ["delete a", "delete apps", "delete b", "delete fed", "delete gen"]);
}

#[test]
fn with_a_changed_rule_the_old_rule_may_copy_the_new_tree_first() {
    let root = |from: &str| vec![generator(json!([output("apps", from)])), fed("./")];
    let moved = [("q/p/a.yaml", "a"), ("q/p/b.yaml", "b"), ("p/a.yaml", "a")];
    let mut cluster = cluster(&files(root("@repo/p"), &BEFORE));
    let inventory =
        json!([{"id": "flux-system_a__ConfigMap", "v": "v1"}, {"id": "flux-system_b__ConfigMap", "v": "v1"}]);
    cluster.kustomization("fed").content["status"]["inventory"]["entries"] = inventory;
    ["a", "b"].iter().for_each(|name| drop(cluster.add(&cm(name), Some("fed"))));
    cluster.snapshot.normalise();
    assert_eq!(cluster.rows(&files(root("@repo/q/p"), &moved)), BTreeSet::from(["recreate? b".to_owned()]));
    let gone = [("q/p/a.yaml", "a")];
    assert_eq!(cluster.rows(&files(root("@repo/q/p"), &gone)), BTreeSet::from(["delete b".to_owned()]));
}

#[test]
fn a_disabled_generator_makes_nothing() {
    let switched = |value: &str| {
        let mut switched = generator(json!([output("apps", "@repo/p")]));
        switched["metadata"]["annotations"] = json!({"source.extensions.fluxcd.io/reconcile": value});
        vec![switched, fed("./p")]
    };
    let rows = |before: &str, after: &str| {
        let cluster = cluster(&files(switched(before), &BEFORE));
        cluster.rows(&files(switched(after), &[("p/a.yaml", "a")])).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(rows("disabled", "disabled"), [""; 0]);
    assert_eq!(rows("enabled", "enabled"), ["delete b"]);
    assert_eq!(rows("disabled", "enabled"), ["delete? b"]);
    assert_eq!(rows("enabled", "disabled"), ["delete? b"]);
}

#[test]
fn a_kustomization_moves_from_the_repository_to_an_artifact() {
    let git = || ks("fed", "./p", json!({}));
    let cluster = TestCluster::new(&files(vec![git()], &BEFORE));
    let root = |from: &str| vec![generator(json!([output("apps", from)])), fed("./p")];
    assert_eq!(cluster.rows(&files(root("@repo/p"), &BEFORE)), BTreeSet::new());
    let narrow = cluster.plan(&files(root("@repo/p/a.yaml"), &BEFORE));
    assert!(outcome(&narrow, "fed").starts_with("Blocked: path-not-found"), "{}", outcome(&narrow, "fed"));
    let fails = cluster.plan(&files(root("@repo/none"), &BEFORE));
    assert!(outcome(&fails, "fed").starts_with("Blocked: source-missing"), "{}", outcome(&fails, "fed"));
    assert!(outcome(&fails, "gen").starts_with("Blocked: build-failed"), "{}", outcome(&fails, "gen"));
}

#[test]
fn a_changed_path_is_built_from_the_present_artifact() {
    let mut cluster = cluster(&before());
    let present: Files = vec![("p/a.yaml", vec![cm("a")]), ("p/b.yaml", vec![cm("b")])];
    let root = vec![generator(json!([output("apps", "@repo/p")])), fed("./p/a.yaml")];
    let after = files(root, &BEFORE);
    assert!(outcome(&cluster.plan(&after), "fed").starts_with("Unknown"), "{}", outcome(&cluster.plan(&after), "fed"));
    cluster.artifacts.insert("apps", present);
    assert!(outcome(&cluster.plan(&after), "fed").starts_with("Blocked: path-not-found"));
}

#[test]
fn what_is_not_computed_is_unknown() {
    let removed = files(before()[0].1[1..].to_vec(), &[("p/a.yaml", "a")]);
    let mut cluster = cluster(&before());
    cluster.differing.push(SourceId { kind: "ExternalArtifact".into(), namespace: NS.into(), name: "apps".into() });
    let plan = cluster.plan(&removed);
    assert!(outcome(&plan, "fed").contains("not what source-watcher stores"), "{}", outcome(&plan, "fed"));
    assert!(!plan.is_complete());
    let mut other = output("apps", "@repo/p");
    other["copy"].as_array_mut().unwrap().push(json!({"from": "@oci/x", "to": "@artifact/"}));
    let mut with_oci = generator(json!([other]));
    let sources = with_oci["spec"]["sources"].as_array_mut().unwrap();
    sources.push(json!({"alias": "oci", "kind": "OCIRepository", "name": "vendor"}));
    let vendor = source("OCIRepository", "vendor", json!({"url": "oci://example.com/vendor"}));
    let (rows, generator, fed) = change(&files(vec![vendor, with_oci, fed("./p")], &BEFORE));
    assert_eq!(rows, ["unknown fed", "unknown gen"]);
    assert!(
        generator.contains("ocirepository.source.toolkit.fluxcd.io/vendor -n flux-system is created"),
        "{generator}"
    );
    assert!(fed.starts_with("Unknown: not-followed"), "{fed}");
}

#[test]
fn an_artifact_that_is_not_known_is_a_gap_whatever_else_the_generator_removes_or_fails_to_make() {
    let apps = || output("apps", "@repo/p");
    // The other artifact comes before or after it in the order of names, and is removed or cannot be made.
    for other in ["aaa", "zzz"] {
        let both = |from: &str| {
            let mut outputs = vec![apps(), output(other, from)];
            outputs.sort_by_key(|output| output["name"].to_string());
            generator(outputs.into())
        };
        let removed = generator(json!([apps()]));
        for (after, expected) in [(removed, &[other][..]), (both("@repo/none"), &[])] {
            let mut cluster = cluster(&files(vec![both("@repo/q"), fed("./p")], &BEFORE));
            let reference = json!({"kind": "ArtifactGenerator", "name": "gen"});
            let artifact = source("ExternalArtifact", other, json!({"sourceRef": reference}));
            cluster.add_with_content(&artifact, None, json!({}));
            cluster.kustomization("gen").content["status"]["inventory"] =
                json!([{"name": "apps", "namespace": NS}, {"name": other, "namespace": NS}]);
            cluster.differing.push(SourceId::external_artifact(NS, "apps"));
            cluster.snapshot.normalise();
            let plan = cluster.plan(&files(vec![after, fed("./p")], &[("p/a.yaml", "a"), ("q/c.yaml", "c")]));
            let gaps: Vec<&str> = plan.gaps().iter().map(|gap| gap.subject.as_str()).collect();
            assert!(
                gaps.contains(&"effect of the change on artifactgenerator/gen -n flux-system"),
                "{other}: {gaps:?}"
            );
            assert!(outcome(&plan, "gen").starts_with("Unknown: not-followed"), "{}", outcome(&plan, "gen"));
            assert_eq!(plan.deletions().map(|row| &*row.object.id.name).collect::<Vec<_>>(), expected, "{other}");
        }
    }
}
