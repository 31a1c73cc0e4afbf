//! GitRepositories of a planned tree that the tree itself changes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cm, ks, set};
use super::unfollowed::source;
use crate::flux::simulation::Preview;
use crate::flux::simulation::questions::Progress;
use crate::flux::spec::SourceId;
use crate::plan::Action;

const BOTH: [(&str, &str); 2] = [("p/a.yaml", "a"), ("p/b.yaml", "b")];

fn spec(more: Value) -> Value {
    let mut spec = json!({"url": "https://example.com/repo", "ref": {"branch": "main"}, "interval": "1m"});
    more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
    spec
}

/// Files with a Kustomization of the folder `p`, which is of the source `name`, beside the sources.
fn files(sources: &[(&str, Value)], name: &str, maps: &[(&'static str, &'static str)]) -> Files {
    let sources = sources.iter().map(|(name, more)| source("GitRepository", name, spec(more.clone())));
    let reference = json!({"sourceRef": {"kind": "GitRepository", "name": name}});
    let mut files = vec![("root/a.yaml", sources.chain([ks("k", "./p", reference)]).collect())];
    files.extend(maps.iter().map(|(at, name)| (*at, vec![cm(name)])));
    files
}

fn before() -> TestCluster {
    TestCluster::new(&files(&[("repo", json!({}))], "repo", &BOTH))
}

/// Returns what is deleted, with `?` for a race.
fn deletions(after: &Files) -> BTreeSet<String> {
    let mut rows = before().rows(after);
    rows.retain(|row| row.starts_with("delete"));
    rows
}

#[test]
fn a_source_is_packed_anew_by_its_new_spec() {
    let rows: [(Value, &[&str], &str); 9] = [
        (json!({"interval": "2m", "timeout": "9s"}), &[], "Applies"),
        (json!({"ignore": "/p/b.yaml"}), &["delete b"], "Applies"),
        (json!({"ignore": "/p"}), &[], "Blocked: path-not-found"),
        (json!({"sparseCheckout": ["root"]}), &[], "Blocked: path-not-found"),
        (json!({"suspend": true}), &[], "Applies"),
        (json!({"suspend": true, "ignore": "/p/b.yaml"}), &[], "Applies"),
        (json!({"url": "https://example.com/other"}), &[], "Unknown: not-followed"),
        (json!({"ref": {"branch": "other"}}), &[], "Unknown: not-followed"),
        (json!({"secretRef": {"name": "s"}}), &[], "Unknown: not-followed"),
    ];
    for (change, deleted, outcome) in rows {
        let after = files(&[("repo", change.clone())], "repo", &BOTH);
        assert_eq!(deletions(&after), set(deleted), "{change}");
        let found = before().outcome(&after, "k");
        assert!(found.starts_with(outcome), "{change}: {found}");
    }
}

#[test]
fn what_the_old_spec_deletes_is_a_race_if_the_new_one_has_no_path() {
    let after = files(&[("repo", json!({"ignore": "/p"}))], "repo", &BOTH[..1]);
    assert_eq!(deletions(&after), set(&["delete? b"]));
    let known = files(&[("repo", json!({"ignore": "/q"}))], "repo", &BOTH[..1]);
    assert_eq!(deletions(&known), set(&["delete b"]));
}

#[test]
fn a_renamed_source_fetches_the_same_files() {
    let rows: [(Value, &[&str], &str); 5] = [
        (json!({}), &["delete b", "delete repo"], "Applies"),
        (json!({"interval": "5m"}), &["delete b", "delete repo"], "Applies"),
        (json!({"ignore": "/p/a.yaml"}), &["delete a", "delete b", "delete repo"], "Applies"),
        (json!({"suspend": true}), &["delete repo", "delete? b"], "Blocked: source-missing"),
        (json!({"url": "https://example.com/other"}), &["delete repo", "delete? b"], "Unknown: not-followed"),
    ];
    for (change, deleted, outcome) in rows {
        let after = files(&[("other", change.clone())], "other", &BOTH[..1]);
        assert_eq!(deletions(&after), set(deleted), "{change}");
        let found = before().outcome(&after, "k");
        assert!(found.starts_with(outcome), "{change}: {found}");
    }
}

#[test]
fn a_source_with_a_secret_fetches_the_same_in_its_namespace_only() {
    let with_namespace = |mut files: Files| {
        files[0].1.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}}));
        files
    };
    let before = with_namespace(files(&[("repo", json!({"secretRef": {"name": "s"}}))], "repo", &BOTH));
    let cluster = TestCluster::new(&before);
    let after = |other: &str, reference: Value| {
        let sources = [("repo", json!({"secretRef": {"name": "s"}})), (other, reference)];
        let mut files = with_namespace(files(&sources, "other", &BOTH));
        if other == "elsewhere" {
            let objects = &mut files[0].1;
            objects[1]["metadata"]["namespace"] = "elsewhere".into();
            objects[2]["spec"]["sourceRef"] = json!({"kind": "GitRepository", "name": other, "namespace": other});
        }
        files
    };
    let same = after("other", json!({"secretRef": {"name": "s"}}));
    assert!(cluster.outcome(&same, "k").starts_with("Applies"), "{}", cluster.outcome(&same, "k"));
    for unknown in
        [after("other", json!({"secretRef": {"name": "t"}})), after("elsewhere", json!({"secretRef": {"name": "s"}}))]
    {
        let found = cluster.outcome(&unknown, "k");
        assert!(found.starts_with("Unknown"), "{unknown:?}: {found}");
    }
}

#[test]
fn a_deleted_source_blocks_what_uses_it() {
    let after = files(&[], "repo", &BOTH[..1]);
    assert_eq!(deletions(&after), set(&["delete repo", "delete? b"]));
    assert!(before().outcome(&after, "k").starts_with("Blocked: source-missing"));
}

#[test]
fn the_state_after_has_the_revision_of_a_new_source() {
    let cluster = before();
    let after = files(&[("other", json!({}))], "other", &BOTH);
    let mut preview = Preview::new(cluster.input(&after));
    let next = cluster.finish(|answers| match preview.step(answers) {
        Progress::Done(finished) => Progress::Done(preview.after(&finished, answers, 1, "main@sha1:2")),
        Progress::Needs(needs) => Progress::Needs(needs),
    });
    let text = |kind: &str, name: &str, pointer: &str| {
        let full = next.snapshot.resources.iter().find(|full| {
            (&*full.object.id.kind, &*full.object.id.namespace, &*full.object.id.name) == (kind, NS, name)
        });
        full.and_then(|full| full.text(pointer)).map(str::to_owned)
    };
    assert_eq!(text("GitRepository", "other", "/status/artifact/revision").as_deref(), Some("main@sha1:2"));
    assert_eq!(text("Kustomization", "k", "/status/lastAppliedRevision").as_deref(), Some("main@sha1:2"));
    assert_eq!(text("GitRepository", "repo", "/status/artifact/revision"), None);
}

/// Returns the outcome of `k` and what is deleted or created again.
fn outcome_and_rows(cluster: &TestCluster, after: &Files) -> (String, BTreeSet<String>) {
    (cluster.outcome(after, "k"), cluster.rows(after))
}

#[test]
fn a_sparse_checkout_of_a_missing_path_keeps_the_artifact() {
    let sparse = |entries: &[&str]| json!({ "sparseCheckout": entries });
    let stuck = sparse(&["root", "p", "typo"]);
    let cluster = TestCluster::new(&files(&[("repo", stuck.clone())], "repo", &BOTH));
    let (outcome, rows) = outcome_and_rows(&cluster, &files(&[("repo", stuck)], "repo", &BOTH[..1]));
    assert!(outcome.starts_with("Blocked: path-not-found") && outcome.contains("\"typo\""), "{outcome}");
    assert_eq!(rows, set(&[]));
    let known = sparse(&["root", "p"]);
    let cluster = TestCluster::new(&files(&[("repo", known.clone())], "repo", &BOTH));
    assert_eq!(cluster.rows(&files(&[("repo", known)], "repo", &BOTH[..1])), set(&["delete b"]));
    // A change of the spec comes with the new revision.
    let changed = files(&[("repo", sparse(&["root", "typo"]))], "repo", &BOTH[..1]);
    assert_eq!(deletions(&changed), set(&["delete b"]));
}

#[test]
fn what_is_included_is_not_known() {
    let include = |to: &str| json!({"include": [{"repository": {"name": "b"}, "toPath": to}]});
    let rows = |to: &str| {
        let cluster = TestCluster::new(&files(&[("repo", include(to))], "repo", &BOTH));
        outcome_and_rows(&cluster, &files(&[("repo", include(to))], "repo", &BOTH[..1]))
    };
    let (outcome, deleted) = rows("./p/lib");
    assert!(outcome.starts_with("Unknown: not-followed"), "{outcome}");
    assert_eq!(deleted, set(&[]));
    let (outcome, deleted) = rows("lib");
    assert!(outcome.starts_with("Applies"), "{outcome}");
    assert_eq!(deleted, set(&["delete b"]));
}

/// Files in which `k` is of another source of the same repository than `root`.
fn of_two_sources(apps: &[Value], path: &str, maps: &[(&'static str, &'static str)]) -> Files {
    let reference = json!({"sourceRef": {"kind": "GitRepository", "name": "apps"}});
    let mut objects = vec![source("GitRepository", "repo", spec(json!({})))];
    objects.extend(apps.iter().map(|more| source("GitRepository", "apps", spec(more.clone()))));
    objects.push(ks("k", path, reference));
    let mut files = vec![("root/a.yaml", objects)];
    files.extend(maps.iter().map(|(at, name)| (*at, vec![cm(name)])));
    files
}

#[test]
fn two_sources_of_one_repository_fetch_it_at_different_times() {
    let old = [("p/a.yaml", "a"), ("p/b.yaml", "b"), ("q/a.yaml", "a")];
    let live = [json!({})];
    let before = of_two_sources(&live, "./p", &old);
    let mut cluster = TestCluster::new(&before);
    cluster.sources = vec!["apps"];
    cluster.history = Some(before);
    let new = [("p/a.yaml", "a"), ("p/b.yaml", "b"), ("q/a.yaml", "a"), ("q/b.yaml", "b")];
    let rows = |apps: &[Value], path: &str, maps: &[(&'static str, &'static str)]| {
        cluster.rows(&of_two_sources(apps, path, maps))
    };
    // The old files of the new path lack it.
    assert_eq!(rows(&live, "./q", &new), set(&["recreate? b"]));
    // Neither the old path nor the new one has it in the new files.
    assert_eq!(rows(&live, "./p", &new[..1]), set(&["delete b"]));
    // The source may be suspended, or deleted, before it has fetched the new files.
    let suspended = [json!({"suspend": true})];
    assert_eq!(rows(&suspended, "./p", &new[..1]), set(&["delete? b"]));
    assert_eq!(rows(&suspended, "./p", &old), set(&[]));
    assert_eq!(rows(&[], "./p", &new[..1]), set(&["delete apps", "delete? b"]));
}

#[test]
fn a_tree_of_another_kind_is_published_before_its_source_changes_or_never() {
    let repository = |more: Value| {
        let mut spec = json!({"url": "oci://example.com/repo", "ref": {"tag": "1"}, "interval": "1m"});
        more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
        source("OCIRepository", "apps", spec)
    };
    let files = |sources: Vec<Value>, maps: &[(&'static str, &'static str)]| -> Files {
        let reference = json!({"sourceRef": {"kind": "OCIRepository", "name": "apps"}});
        let mut files = vec![("root/a.yaml", [sources, vec![ks("k", "./p", reference)]].concat())];
        files.extend(maps.iter().map(|(at, name)| (*at, vec![cm(name)])));
        files
    };
    let cluster = TestCluster::new(&files(vec![repository(json!({}))], &BOTH));
    let change = |sources: Vec<Value>| {
        let after = files(sources, &BOTH[..1]);
        let mut input = cluster.input(&after);
        let id = SourceId { kind: "OCIRepository".into(), namespace: NS.into(), name: "apps".into() };
        let tree = input.trees.values().next().unwrap().clone();
        input.trees.insert(id, tree);
        let plan = cluster.finish_preview(input).plan;
        let outcome = plan.owners().iter().find(|row| row.owner.name == "k").unwrap().outcome;
        let deleted = plan.changes().iter().filter(|change| change.action == Action::Delete);
        let deleted = deleted.map(|change| format!("{} {:?}", change.object.id.name, change.certainty));
        (format!("{outcome:?}"), deleted.collect::<Vec<_>>().join(", "))
    };
    let own = |outcome: &str, deleted: &str| (outcome.to_owned(), deleted.to_owned());
    assert_eq!(change(vec![repository(json!({"timeout": "9s"}))]), own("Applies", "b Certain"));
    assert_eq!(change(vec![repository(json!({"ref": {"tag": "2"}}))]), own("Unknown", "b Race"));
    assert_eq!(change(vec![]), own("Blocked", "b Race, apps Certain"));
    let (_, deleted) = change(vec![repository(json!({"suspend": true}))]);
    assert_eq!(deleted, "b Race");
}

#[test]
fn a_new_kustomization_of_another_repository_may_take_over_what_is_deleted() {
    let before: Files = vec![
        ("root/k.yaml", vec![ks("k", "./p", json!({})), ks("l", "./q", json!({}))]),
        ("p/a.yaml", vec![cm("a"), cm("b")]),
        ("q/c.yaml", vec![cm("c")]),
    ];
    let rows = |fields: Value, change: &dyn Fn(&mut TestCluster)| {
        let url = json!({"url": "https://example.com/other"});
        let of_other = json!({"sourceRef": {"kind": "GitRepository", "name": "other"}});
        let mut more = of_other;
        fields.as_object().unwrap().iter().for_each(|(key, value)| more[key] = value.clone());
        let objects =
            vec![ks("l", "./q", json!({})), source("GitRepository", "other", spec(url)), ks("n", "./x", more)];
        let after: Files =
            vec![("root/k.yaml", objects), ("p/a.yaml", vec![cm("a"), cm("b")]), ("q/c.yaml", vec![cm("d")])];
        let mut cluster = TestCluster::new(&before);
        change(&mut cluster);
        let mut rows = cluster.rows(&after);
        rows.retain(|row| row.starts_with("delete"));
        rows
    };
    let as_it_is = |_: &mut TestCluster| {};
    let doubted = set(&["delete? a", "delete? b", "delete? c", "delete? k"]);
    assert_eq!(rows(json!({}), &as_it_is), doubted);
    assert_eq!(rows(json!({"targetNamespace": NS}), &as_it_is), doubted);
    let certain = set(&["delete a", "delete b", "delete c", "delete k"]);
    assert_eq!(rows(json!({"targetNamespace": "elsewhere"}), &as_it_is), certain, "it applies nothing here");
    assert_eq!(rows(json!({"suspend": true}), &as_it_is), certain, "it applies nothing");
    let missing = json!({"sourceRef": {"kind": "GitRepository", "name": "missing"}});
    assert_eq!(rows(missing, &as_it_is), certain, "it applies nothing without its source");
    let orphans = |cluster: &mut TestCluster| {
        cluster.kustomization("k").content["spec"]["deletionPolicy"] = "Orphan".into();
    };
    assert_eq!(rows(json!({}), &orphans), set(&["delete k", "delete? c"]), "nothing goes with it");
}
