//! Refusals of the server in dry-runs.

use super::*;
use crate::flux::apply::question::Question;
use crate::flux::simulation::model::refusals::{DeletionRefusal, Refusal};

/// Refusal in the first test.
const REFUSAL: &str = "the server refuses configmap/b -n flux-system: it is immutable";

fn refused(owner: &str, manifest: Value) -> Refusal {
    let name = manifest["metadata"]["name"].as_str().unwrap();
    let kind = manifest["kind"].as_str().unwrap();
    let namespace = manifest["metadata"]["namespace"].as_str().unwrap_or_default();
    let id = ObjectId::new("", kind, namespace, name);
    Refusal {
        owner: NamespacedName { namespace: NS.into(), name: owner.into() },
        id,
        manifest: manifest.into(),
        // The answers of the tests are the same for every spec.
        spec: KustomizationSpec::new(&Value::Null),
        message: "it is immutable".into(),
        is_late: false,
        condition: None,
    }
}

#[test]
fn a_kustomization_with_a_refused_object_prunes_nothing() {
    let before = one_child(json!({}));
    let after = vec![before[0].clone(), ("p/a.yaml", vec![cm("b"), cluster_scoped("Namespace", "early"), cm("new")])];
    let mut cluster = TestCluster::new(&before);
    assert_eq!(cluster.rows(&after), set(&["delete a", "delete x"]));
    cluster.refusals = vec![refused("k", cm("b"))];
    assert_eq!(cluster.rows(&after), set(&["keep a", "delete x", "keep b"]));
    let plan = cluster.plan(&after);
    let row = |name: &str| plan.changes().iter().find(|change| &*change.object.id.name == name);
    assert_eq!(
        row("a").unwrap().reason.to_string(),
        format!("held-back: it is deleted once this is resolved: {REFUSAL}")
    );
    // The earlier stage is applied.
    assert_eq!(row("early").unwrap().action, Action::Create);
    assert!(row("new").is_none());
    let outcome = cluster.outcome(&after, "k");
    assert!(outcome.starts_with(&format!("Blocked: apply-refused: {REFUSAL}")), "{outcome}");
}

#[test]
fn a_refusal_in_the_first_stage_stops_everything() {
    let before = one_child(json!({}));
    let after = vec![before[0].clone(), ("p/a.yaml", vec![cm("b"), cluster_scoped("Namespace", "early"), cm("new")])];
    let mut cluster = TestCluster::new(&before);
    cluster.refusals = vec![refused("k", cluster_scoped("Namespace", "early"))];
    assert_eq!(cluster.rows(&after), set(&["keep a", "delete x", "unknown early"]));
    assert!(cluster.plan(&after).changes().iter().all(|change| change.action != Action::Create));
}

#[test]
fn a_refusal_concerns_one_manifest_of_one_kustomization() {
    let before = one_child(json!({}));
    let after = vec![before[0].clone(), ("p/a.yaml", vec![cm("b")])];
    let mut cluster = TestCluster::new(&before);
    let mut other = cm("b");
    other["data"]["v"] = "2".into();
    cluster.refusals = vec![refused("k", other), refused("root", cm("b"))];
    assert_eq!(cluster.rows(&after), set(&["delete a", "delete x"]));
}

#[test]
fn a_refused_kustomization_blocks_its_dependants() {
    let files = |objects: Vec<Value>, more: Vec<Value>| {
        vec![
            ("root/k.yaml", vec![ks("d", "./d", json!({})), ks("k", "./p", json!({"dependsOn": [{"name": "d"}]}))]),
            ("d/x.yaml", objects),
            ("p/a.yaml", more),
        ]
    };
    let after = files(vec![cm("x")], vec![cm("b")]);
    let mut cluster = TestCluster::new(&files(vec![cm("x")], vec![cm("a"), cm("b")]));
    assert_eq!(cluster.rows(&after), set(&["delete a"]));
    cluster.refusals = vec![refused("d", cm("x"))];
    assert_eq!(cluster.rows(&after), set(&["keep x"]));
    let outcome = cluster.outcome(&after, "k");
    assert!(outcome.contains("which cannot reconcile: the server refuses configmap/x -n flux-system: it is immutable"));
}

fn refused_deletion(owner: &str, name: &str) -> DeletionRefusal {
    DeletionRefusal {
        owner: NamespacedName { namespace: NS.into(), name: owner.into() },
        account: None,
        id: ObjectId::new("", "ConfigMap", NS, name),
        message: "denied by a policy".into(),
    }
}

#[test]
fn a_refused_deletion_keeps_one_object_and_blocks_dependants() {
    let files = |objects: Vec<Value>, more: Vec<Value>| {
        vec![
            ("root/k.yaml", vec![ks("d", "./d", json!({})), ks("k", "./p", json!({"dependsOn": [{"name": "d"}]}))]),
            ("d/x.yaml", objects),
            ("p/a.yaml", more),
        ]
    };
    let mut cluster = TestCluster::new(&files(vec![cm("held"), cm("x"), cm("y")], vec![cm("a"), cm("b")]));
    let after = files(vec![cm("y")], vec![cm("b")]);
    assert_eq!(cluster.rows(&after), set(&["delete held", "delete x", "delete a"]));
    cluster.deletion_refusals = vec![refused_deletion("d", "held"), refused_deletion("k", "x")];
    assert_eq!(cluster.rows(&after), set(&["keep held", "delete x"]));
    assert!(cluster.outcome(&after, "d").contains("prune-refused"), "{}", cluster.outcome(&after, "d"));
    let plan = cluster.plan(&after);
    let held = plan.changes().iter().find(|change| &*change.object.id.name == "held").unwrap();
    assert_eq!(held.reason.to_string(), "deletion-refused: denied by a policy");
    // Before 1.9 the object is forgotten, and the next run succeeds.
    cluster.features = Features::of((1, 8, 5));
    assert_eq!(cluster.rows(&after), set(&["keep held", "delete x", "delete a"]));
}

#[test]
fn a_deleted_kustomization_stays_if_the_server_refuses_one_of_its_objects() {
    let before = one_child(json!({}));
    let after = vec![("root/x.yaml", vec![cm("x")]), before[1].clone()];
    let mut cluster = TestCluster::new(&before);
    assert_eq!(cluster.rows(&after), set(&["delete k", "delete a", "delete b"]));
    cluster.deletion_refusals = vec![refused_deletion("k", "a")];
    assert_eq!(cluster.rows(&after), set(&["delete k", "keep a", "delete b"]));
    assert!(cluster.outcome(&after, "k").contains("owner-stuck"), "{}", cluster.outcome(&after, "k"));
}

/// Returns `OWNER/OBJECT` of everything that a preview asks the API server, in order, as rounds.
fn asked(cluster: &TestCluster, files: &Files) -> Vec<Vec<String>> {
    let (mut preview, mut rounds) = (Preview::new(cluster.input(files)), vec![]);
    cluster.finish(|answers| {
        let progress = preview.step(answers);
        if let Progress::Needs(needs) = &progress
            && !needs.dry_runs.is_empty()
        {
            let text = |question: &Question| format!("{}/{}", question.owner.name, question.id.name);
            rounds.push(needs.dry_runs.iter().map(text).collect());
        }
        progress
    });
    rounds
}

#[test]
fn each_change_is_asked_about_once_for_every_run_that_makes_it() {
    let before = one_child(json!({}));
    let forced = vec![("root/k.yaml", vec![cm("new"), ks("k", "./p", json!({"force": true}))]), before[1].clone()];
    let mut cluster = TestCluster::new(&before);
    cluster.deletion_refusals = vec![refused_deletion("other", "x")];
    // The run with the old spec comes first, and does not force.
    let all = ["root/new", "root/k", "k/a", "k/a", "k/b", "k/b", "root/x"];
    let mut first = asked(&cluster, &forced);
    first.iter_mut().for_each(|round| round.sort());
    let mut expected = all;
    expected.sort();
    assert_eq!(first, [expected]);
    // The refused parent does not force its child, and keeps x.
    cluster.refusals = vec![refused("root", cm("new"))];
    let rounds = asked(&cluster, &forced);
    assert_eq!(rounds[1..], [[""; 0]; 0], "the spec that stays was asked about");
    // Other fields than those with which an object is sent make no difference.
    cluster.refusals = vec![];
    let suspended = vec![("root/k.yaml", vec![cm("new"), ks("k", "./p", json!({"wait": true}))]), before[1].clone()];
    let mut first = asked(&cluster, &suspended);
    first.iter_mut().for_each(|round| round.sort());
    assert_eq!(first, [["k/a", "k/b", "root/k", "root/new", "root/x"]]);
}

#[test]
fn a_cluster_that_cannot_be_asked_leaves_its_changes_open() {
    let remote = json!({"kubeConfig": {"secretRef": {"name": "spoke"}}});
    let before = one_child(remote.clone());
    let after = vec![before[0].clone(), ("p/a.yaml", vec![cm("b")]), before[2].clone()];
    let mut cluster = TestCluster::new(&before);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "spoke", "namespace": NS}});
    cluster.add(&secret, None);
    cluster.snapshot.normalise();
    cluster.move_to_spoke("k");
    cluster.deletion_refusals = vec![refused_deletion("other", "x")];
    let document = |input| serde_json::to_value(cluster.finish_preview(input).plan).unwrap();
    assert_eq!(document(cluster.input(&after))["rehearsed"], true);
    let unasked = document(PreviewInput { dry_runs: None, ..cluster.input(&after) });
    assert_eq!((&unasked["rehearsed"], &unasked["withoutDryRuns"]), (&json!(false), &json!(true)));
    let unread = DryRunScope { unread: ["edge".into()].into(), ..DryRunScope::default() };
    let plan = document(PreviewInput { dry_runs: Some(unread), ..cluster.input(&after) });
    let open: Vec<_> = plan["unrehearsed"].as_array().unwrap().iter().map(|id| &id["name"]).collect();
    assert_eq!((&plan["rehearsed"], open), (&json!(false), vec![&json!("a"), &json!("b")]));
    assert_eq!(plan.get("withoutDryRuns"), None, "the others were asked about");
}

#[test]
fn namespaces_that_kubernetes_needs_are_never_deleted() {
    let rows = |name: &str| {
        let files = |namespaces: Vec<Value>| vec![("root/a.yaml", [namespaces, vec![cm("stay")]].concat())];
        let before = files(vec![cluster_scoped("Namespace", name)]);
        let mut cluster = TestCluster::new(&before);
        cluster.add(&in_namespace(cm("content"), name), None);
        cluster.snapshot.normalise();
        cluster.rows(&files(vec![]))
    };
    for name in ["default", "kube-system", "kube-public"] {
        assert_eq!(rows(name), set(&[&format!("keep {name}")]));
    }
    assert_eq!(rows("kube-node-lease"), set(&["recreate kube-node-lease", "delete content"]));
    assert_eq!(rows("shop"), set(&["delete shop", "delete content"]));
}

#[test]
fn a_job_that_is_deleted_once_it_has_finished_is_refused_until_then() {
    let job = |image: &str| {
        let template = json!({"spec": {"containers": [{"name": "c", "image": image}]}});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": NS},
            "spec": {"template": template}})
    };
    let files = |objects: Vec<Value>| vec![("root/k.yaml", vec![ks("k", "./p", json!({}))]), ("p/a.yaml", objects)];
    let mut cluster = TestCluster::new(&files(vec![job("a:1"), cm("a"), cm("b")]));
    cluster.snapshot.types.push(crate::testing::resource_type("batch", "Job", "jobs", true));
    cluster.snapshot.normalise();
    let message = "Job.batch \"j\" is invalid: spec.template: Invalid value: field is immutable".to_owned();
    let id = ObjectId::new("batch", "Job", NS, "j");
    cluster.refusals = vec![Refusal { id, message, ..refused("k", job("a:2")) }];
    let after = files(vec![job("a:2"), cm("b")]);
    cluster.content.insert("j".to_owned(), json!({"spec": {}}));
    assert_eq!(cluster.rows(&after), set(&["keep a", "keep j"]));
    cluster.content.insert("j".to_owned(), json!({"spec": {"ttlSecondsAfterFinished": 60}}));
    assert_eq!(cluster.rows(&after), set(&["delete? a"]));
    let outcome = cluster.outcome(&after, "k");
    assert!(outcome.contains("once Kubernetes has deleted the old Job, 60 s after that has finished"), "{outcome}");
}
