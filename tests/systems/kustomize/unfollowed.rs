//! Owners whose effect is not computed, from the command line: rows, summary, comment, JSON and exit code. The cluster is a
//! recording; git and kustomize are the real ones.

use insta::assert_snapshot;
use serde_json::{Value, json};
use test_support::folder::Folder;
use test_support::gitops::without_subject;

use super::bad_trees::{Recording, object};

const HELM: &str = "helm.toolkit.fluxcd.io";

fn release(tag: &str) -> String {
    format!(
        "apiVersion: {HELM}/v2\nkind: HelmRelease\nmetadata: {{name: web, namespace: flux-system}}\nspec:\n  \
         chart: {{spec: {{chart: charts/web, sourceRef: {{kind: GitRepository, name: repo}}}}}}\n  \
         valuesFrom: [{{kind: ConfigMap, name: a}}]\n  values: {{tag: {tag}}}\n"
    )
}

fn values(text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: flux-system}}\ndata: {{values.yaml: \"{text}\"}}\n\
         ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: b, namespace: flux-system}}\n"
    )
}

/// Returns a checkout whose commit is the deployed revision, and a recording of the cluster at that revision, in which
/// the HelmRelease `web` has the ConfigMap `owned`.
fn deployed() -> (Recording, Folder) {
    let tree = Folder::outside_checkouts("unfollowed");
    tree.git(&["init", "-q", "-b", "main"]);
    tree.write("apps/web.yaml", release("one"));
    tree.write("apps/values.yaml", values("a: 1"));
    tree.write("charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    tree.write("charts/web/templates/a.yaml", "kind: ConfigMap\n");
    tree.git(&["add", "-A"]);
    tree.git(&["commit", "-q", "-m", "one"]);
    let commit = std::process::Command::new("git").arg("-C").arg(tree.path()).args(["rev-parse", "HEAD"]).output();
    let commit = String::from_utf8(commit.unwrap().stdout).unwrap();
    let revision = format!("main@sha1:{}", commit.trim());
    let mut recording = Recording::new();
    let mut web = object(HELM, "HelmRelease", "web", "web");
    let owner = |kind: &str| format!("{kind}.toolkit.fluxcd.io");
    web["labels"] = json!({format!("{}/name", owner("kustomize")): "apps", format!("{}/namespace", owner("kustomize")): "flux-system"});
    let chart = json!({"spec": {"chart": "charts/web", "version": "*", "reconcileStrategy": "ChartVersion",
        "sourceRef": {"kind": "GitRepository", "name": "repo"}}});
    let content = json!({
        "spec": {"chart": chart, "valuesFrom": [{"kind": "ConfigMap", "name": "a"}], "values": {"tag": "one"}},
        "status": {"inventory": {"entries": [{"id": "flux-system_owned__ConfigMap", "v": "v1"}]},
            "history": [{"name": "web", "namespace": "flux-system", "chartName": "web"}], "storageNamespace": "flux-system",
            "conditions": [{"type": "Ready", "status": "True"}], "observedGeneration": 1},
    });
    let snapshot = &mut recording.snapshot;
    snapshot["objects"].as_array_mut().unwrap().push(web.clone());
    snapshot["full"].as_array_mut().unwrap().push(json!({"object": web, "content": content}));
    let kind =
        json!({"group": HELM, "version": "v2", "kind": "HelmRelease", "plural": "helmreleases", "namespaced": true});
    snapshot["types"].as_array_mut().unwrap().push(kind);
    for full in snapshot["full"].as_array_mut().unwrap() {
        if full["object"]["name"] == "repo" {
            full["content"]["status"] = json!({"artifact": {"revision": revision}});
        }
    }
    let status = &mut recording.apps()["content"]["status"];
    let entries = status["inventory"]["entries"].as_array_mut().unwrap();
    entries.push(json!({"id": format!("flux-system_web_{HELM}_HelmRelease"), "v": "v2"}));
    status["lastAppliedRevision"] = json!(revision);
    status["history"] = json!([{"digest": "sha256:0", "metadata": {"revision": revision}}]);
    recording.sort();
    (recording, tree)
}

#[test]
fn a_commit_that_changes_no_release_has_no_unknown_row() {
    let (recording, tree) = deployed();
    assert_snapshot!(without_subject(recording.source(tree.path(), &[])), @"
    exit code 0
    --- stdout
    plan of SUBJECT
    --- stderr
    planning SUBJECT
    no deletions; without dry-runs, updates and refusals are not known
    ");
    tree.write("README.md", "new");
    tree.write("charts/other/Chart.yaml", "new");
    assert_eq!(recording.source(tree.path(), &[]).code, 0);
}

#[test]
fn a_changed_value_is_an_unknown_row_in_every_output() {
    let (recording, tree) = deployed();
    tree.write("apps/web.yaml", release("two"));
    assert_snapshot!(without_subject(recording.source(tree.path(), &[])), @"
    exit code 5
    --- stdout
    plan of SUBJECT

    helmrelease/web -n flux-system   unknown   1 unknown   in namespace flux-system
      reason: not-followed: spec.values changes; its chart is not rendered here, because its release is not deployed and ready: plan again after kubectl wait helmrelease/web -n flux-system --for=condition=Ready, so its object may be deleted
        would be at stake: 1 object
        to find out: helm get manifest web -n flux-system; helm upgrade web ./charts/web -n flux-system --dry-run=server --hide-secret --reset-then-reuse-values
      unknown   HelmRelease/web
    --- stderr
    planning SUBJECT
    1 unknown; 1 owner unknown: helmrelease/web -n flux-system (spec.values changes; its chart is not rendered here, because its release is not deployed and ready: plan again after kubectl wait helmrelease/web -n flux-system --for=condition=Ready, so its object may be deleted); the plan is incomplete; without dry-runs, updates and refusals are not known
    warning: effect of the change on helmrelease/web -n flux-system is not known: spec.values changes; its chart is not rendered here, because its release is not deployed and ready: plan again after kubectl wait helmrelease/web -n flux-system --for=condition=Ready, so its object may be deleted
    ");
    let run = recording.source(tree.path(), &["-o", "json"]);
    assert_eq!(run.code, 5);
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&plan["complete"], &plan["summary"]["unknown"]), (&json!(false), &json!(1)));
    let row = &plan["changes"][0];
    assert_eq!([&row["action"], &row["by"], &row["reason"]["code"]], ["unknown", "helm-controller", "not-followed"]);
    assert_eq!([&row["object"]["kind"], &row["owner"]["name"]], ["HelmRelease", "web"]);
    let owners = plan["owners"].as_array().unwrap();
    let owner = owners.iter().find(|owner| owner["kind"] == "HelmRelease").unwrap();
    assert_eq!([&owner["outcome"], &owner["parents"][0]["name"]], ["unknown", "apps"]);
    let comment = recording.source(tree.path(), &["-o", "markdown"]);
    assert_eq!(comment.code, 5);
    assert!(comment.stdout.contains("spec.values changes"), "{}", comment.stdout);
}

#[test]
fn values_and_charts_in_the_tree_count() {
    let cases = [
        ("apps/values.yaml", values("a: 2"), "values.yaml of configmap/a -n flux-system changes"),
        (
            "charts/web/templates/a.yaml",
            "kind: Secret\n".to_owned(),
            "charts/web/templates/a.yaml of GitRepository/flux-system/repo changes",
        ),
    ];
    for (path, content, expected) in cases {
        let (recording, tree) = deployed();
        tree.write(path, content);
        let run = recording.source(tree.path(), &[]);
        assert_eq!(run.code, 5, "{path}");
        assert!(run.stdout.contains(expected), "{}", run.stdout);
    }
}
