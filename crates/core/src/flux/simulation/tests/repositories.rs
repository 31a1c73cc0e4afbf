//! GitRepositories of a planned tree that the tree itself changes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cm, ks, set};
use super::unfollowed::source;
use crate::flux::simulation::Preview;
use crate::flux::simulation::questions::Progress;

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
