//! Rules of plan files, each on a small cluster: one Kustomization, leaked ConfigMaps, and a leaked Namespace.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use super::*;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use crate::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use crate::ownership::index::Index;
use crate::plan::grave::AllowedKinds;
use crate::plan::outcome::DeletionResult;
use crate::plan::{Action, Actor, Change, Reason, ReasonCode};
use crate::prune::leaked::{PruneOptions, plan};
use crate::testing::{self, Build};

const LABELS: [(&str, &str); 2] =
    [("kustomize.toolkit.fluxcd.io/name", "apps"), ("kustomize.toolkit.fluxcd.io/namespace", "n")];

fn leaked(kind: &str, namespace: &str, name: &str) -> ObjectMetadata {
    let object = testing::object("", kind, namespace, name).applied_by("kustomize-controller", &LABELS);
    ObjectMetadata { uid: format!("uid-{name}").into(), resource_version: "1".into(), ..object }
}

/// A cluster with the leaked ConfigMaps `a` and `b`, and the leaked Namespace `old` with the leaked ConfigMap `inside`.
fn cluster() -> Snapshot {
    let mut snapshot = Snapshot::new(now(), ClusterIdentity { uid: "c".to_owned(), server: "https://c".to_owned() });
    let mut owner = testing::object("kustomize.toolkit.fluxcd.io", "Kustomization", "n", "apps");
    owner.uid = "owner".into();
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let entries = json!([{"id": "n_stays__ConfigMap", "v": "v1"}]);
    let status =
        json!({"observedGeneration": owner.generation, "conditions": ready, "inventory": {"entries": entries}});
    snapshot.resources.push(Resource { object: owner.clone(), content: json!({"spec": {}, "status": status}) });
    snapshot.objects = vec![
        owner,
        leaked("ConfigMap", "n", "a"),
        leaked("ConfigMap", "n", "b"),
        leaked("Namespace", "", "old"),
        leaked("ConfigMap", "old", "inside"),
    ];
    snapshot.types = vec![
        testing::resource_type("", "Namespace", "namespaces", false),
        testing::resource_type("", "ConfigMap", "configmaps", true),
    ];
    snapshot.normalise();
    snapshot
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn present(snapshot: &Snapshot) -> Plan {
    plan(&Index::build(snapshot), &PruneOptions { allowed: AllowedKinds::all(), ..PruneOptions::default() })
}

fn file(snapshot: &Snapshot) -> PlanFile {
    let plan = present(snapshot);
    let steps = steps(&plan, &[], &Index::build(snapshot));
    let execution = ExecutionPins {
        tool: "test".to_owned(),
        command: "prune".to_owned(),
        created: now(),
        expires: now() + TimeDelta::hours(1),
        connection: ConnectionPin { certificate_authority: "sha256:1".to_owned(), ..ConnectionPin::default() },
        selection: OwnerSelection::default(),
        limits: Limits::default(),
        steps,
    };
    PlanFile { plan, execution: Some(execution) }
}

/// Returns the names that a file still deletes, and the result codes of the others, after a change of the cluster.
fn selected(change: impl FnOnce(&mut Snapshot), allow_changed: bool) -> (BTreeSet<String>, Vec<String>) {
    let reviewed = file(&cluster());
    let mut snapshot = cluster();
    change(&mut snapshot);
    snapshot.normalise();
    let selection = reviewed.select(present(&snapshot), &Index::build(&snapshot), allow_changed);
    let code = |step: &DeletionResult| match step {
        DeletionResult::Skipped(reason) => reason.code.to_string(),
        other => other.code().to_owned(),
    };
    let skipped = selection.skipped.iter().map(|row| format!("{} {}", row.object.id.name, code(&row.step))).collect();
    let kept = selection.plan.changes().iter().filter(|row| row.action == Action::Keep).count();
    let gone = selection.skipped.iter().filter(|row| row.step == DeletionResult::Gone).count();
    assert_eq!(kept + gone, selection.skipped.len(), "each skipped object has a row that keeps it");
    (selection.plan.deletions().map(|row| row.object.id.name.to_string()).collect(), skipped)
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn edit(snapshot: &mut Snapshot, name: &str, change: impl FnOnce(&mut ObjectMetadata)) {
    change(snapshot.objects.iter_mut().find(|object| &*object.id.name == name).unwrap());
}

#[test]
fn a_file_that_is_read_again_is_equal_and_every_byte_counts() {
    let written = file(&cluster());
    let (text, digest) = written.to_text().unwrap();
    assert_eq!(PlanFile::read(text.as_bytes()).unwrap(), (written.clone(), digest.clone()));
    let relaid = serde_json::from_str::<Value>(&text).unwrap().to_string();
    assert_eq!(PlanFile::read(relaid.as_bytes()).unwrap().1, digest, "the layout is no content");
    let edited = text.replacen("uid-a", "uid-b", 1);
    assert!(PlanFile::read(edited.as_bytes()).unwrap_err().starts_with("it was edited or damaged: "));
    assert_eq!(PlanFile::read(b" \n").unwrap_err(), "it is empty");
    assert!(PlanFile::read(b"[]").unwrap_err().starts_with("its schema is \"\""));
    let newer = text.replacen("plan/v1", "plan/v2", 1);
    assert!(PlanFile::read(newer.as_bytes()).unwrap_err().starts_with("its schema is \"kubectl-gitops/plan/v2\""));
}

/// Writes a document again after a change, with the digest that it then has.
fn forged(change: impl FnOnce(&mut Value)) -> String {
    let mut document = file(&cluster()).content().unwrap();
    change(&mut document);
    let digest = canonical::digest(&document);
    document["digest"] = digest.into();
    PlanFile::read(document.to_string().as_bytes()).unwrap_err()
}

#[test]
fn a_right_digest_does_not_make_a_wrong_document_right() {
    assert!(forged(|document| document["force"] = json!(true)).contains("unknown field `force`"));
    let nested = forged(|document| document["changes"][0]["object"]["force"] = json!(true));
    assert_eq!(nested, "it has fields or values that this version does not know");
    assert!(forged(|document| document["execution"]["force"] = json!(true)).contains("unknown field `force`"));
    let unpinned = forged(|document| document["changes"][0]["object"]["uid"] = json!(""));
    assert!(unpinned.ends_with("without its uid and resourceVersion"), "{unpinned}");
    let unversioned = forged(|document| document["changes"][0]["object"]["resourceVersion"] = json!(""));
    assert!(unversioned.ends_with("without its uid and resourceVersion"), "{unversioned}");
    let same_uid = forged(|document| document["changes"][1]["object"]["uid"] = json!("uid-a"));
    assert!(same_uid.starts_with("it lists configmap/"), "{same_uid}");
    let twice = forged(|document| {
        let mut row = document["changes"][0].clone();
        row["object"]["uid"] = json!("uid-z");
        document["changes"].as_array_mut().unwrap().insert(1, row);
        document["summary"]["delete"] = json!(5);
    });
    assert!(twice.ends_with(" twice"), "{twice}");
}

fn refusal(change: impl FnOnce(&mut PlanFile)) -> Option<Refusal> {
    let mut file = file(&cluster());
    change(&mut file);
    file.check("prune", now(), None, false).err()
}

#[test]
fn a_file_is_executed_by_its_command_while_it_is_valid() {
    assert_eq!(refusal(|_| ()), None);
    let age = |after: i64, max_age: Option<i64>| {
        let at = now() + TimeDelta::seconds(after);
        file(&cluster()).check("prune", at, max_age.map(TimeDelta::seconds), false).is_ok()
    };
    assert!(age(3599, None) && !age(3600, None), "it expires after an hour");
    assert!(age(59, Some(60)) && !age(60, Some(60)), "a shorter age counts");
    assert!(!age(3600, Some(7200)), "a longer age does not");
    assert!(age(-300, None) && !age(-301, None), "the clocks of two machines may differ by five minutes");
    let other = file(&cluster()).check("prune qbec", now(), None, false).unwrap_err();
    assert_eq!(other, Refusal::NotExecutable("it was made by `prune`, not by `prune qbec`".to_owned()));
    let outdated = |change: fn(&mut ExecutionPins)| {
        matches!(refusal(|file| change(file.execution.as_mut().unwrap())), Some(Refusal::Outdated(_)))
    };
    assert!(outdated(|pins| pins.expires = pins.created));
    let recorded = refusal(|file| file.plan = file.plan.clone().recorded_at(Some(now())));
    assert!(matches!(recorded, Some(Refusal::NotExecutable(why)) if why.contains("a recording")));
    assert!(matches!(refusal(|file| file.execution = None), Some(Refusal::NotExecutable(_))));
    let tree = refusal(|file| file.plan.update_changes(|row| row.by = Actor::KustomizeController));
    assert!(matches!(tree, Some(Refusal::NotExecutable(why)) if why.contains("a working tree")));
}

#[test]
fn an_incomplete_file_needs_a_permission() {
    let gap = json!({"kind": "forbidden", "subject": "secrets", "message": "no"});
    let mut file = file(&cluster());
    file.plan.add_gaps([serde_json::from_value(gap).unwrap()]);
    assert!(matches!(file.check("prune", now(), None, false), Err(Refusal::Incomplete(_))));
    assert!(file.check("prune", now(), None, true).is_ok());
}

#[test]
fn rows_that_no_plan_of_this_tool_has_are_refused() {
    let steps = |change: fn(&mut Vec<Step>)| refusal(|file| change(&mut file.execution.as_mut().unwrap().steps));
    let disagree = Some(Refusal::NotExecutable("its steps do not agree with its changes".to_owned()));
    assert_eq!(steps(|steps| drop(steps.pop())), disagree);
    assert_eq!(steps(|steps| steps.push(steps[0].clone())), disagree);
    assert_eq!(steps(|steps| steps[0].object.resource_version = "2".to_owned()), disagree);
    let impossible = |change: fn(&mut Change)| {
        let found = refusal(|file| {
            file.plan.update_changes(|row| {
                if row.object.id.is("", "Namespace") {
                    change(row)
                }
            });
            for step in &mut file.execution.as_mut().unwrap().steps {
                if step.object.id.is("", "Namespace") {
                    step.object.id = file
                        .plan
                        .roots()
                        .find(|row| row.object.id.is("", "Namespace"))
                        .map_or_else(|| step.object.id.clone(), |row| row.object.id.clone());
                }
            }
            let plan = &file.plan;
            let is_root = |step: &Step| plan.roots().any(|row| row.object == step.object);
            file.execution.as_mut().unwrap().steps.retain(is_root);
        });
        matches!(found, Some(Refusal::NotExecutable(why)) if why.ends_with("which no plan of this program does"))
    };
    assert!(impossible(|row| row.object.id = ObjectId::new("", "Namespace", "", "kube-system")));
    assert!(impossible(|row| row.action = Action::Recreate));
    assert!(impossible(|row| row.cause = Some(ObjectId::new("", "Namespace", "", "absent"))));
    assert!(impossible(|row| row.cause = Some(row.object.id.clone())));
}

#[test]
fn a_file_belongs_to_one_cluster() {
    let file = file(&cluster());
    let check = |uid: &str, authority: &str| {
        let cluster = ClusterIdentity { uid: uid.to_owned(), server: "https://other".to_owned() };
        let connection = ConnectionPin { certificate_authority: authority.to_owned(), ..ConnectionPin::default() };
        file.check_cluster(&cluster, &connection).is_ok()
    };
    assert!(check("c", "sha256:1"), "the address may differ");
    assert!(!check("other", "sha256:1") && !check("", "sha256:1") && !check("c", "sha256:2") && !check("c", ""));
}

#[test]
fn what_did_not_change_is_selected_and_what_is_new_is_left() {
    let all = names(&["a", "b", "old", "inside"]);
    assert_eq!(selected(|_| (), false), (all.clone(), vec![]));
    assert_eq!(selected(|snapshot| snapshot.objects.push(leaked("ConfigMap", "n", "new")), false), (all, vec![]));
    let gone = selected(|snapshot| snapshot.objects.retain(|object| &*object.id.name != "a"), false);
    assert_eq!(gone, (names(&["b", "old", "inside"]), vec!["a gone".to_owned()]));
}

#[test]
fn what_changed_is_skipped() {
    let rest = names(&["b", "old", "inside"]);
    let skipped = |change: fn(&mut ObjectMetadata)| {
        let (deleted, skipped) = selected(|snapshot| edit(snapshot, "a", change), false);
        assert_eq!(deleted, rest);
        skipped[0].clone()
    };
    assert_eq!(skipped(|object| object.resource_version = "2".into()), "a changed-since-plan");
    assert_eq!(skipped(|object| object.uid = "other".into()), "a replaced");
    assert_eq!(skipped(|object| object.labels = std::iter::empty::<(&str, &str)>().collect()), "a unclaimed");
    assert_eq!(
        skipped(|object| object.annotations = [("helm.sh/resource-policy", "keep")].into_iter().collect()),
        "a protected"
    );
    let newer = selected(|snapshot| edit(snapshot, "a", |object| object.resource_version = "2".into()), true);
    assert_eq!(newer, (names(&["a", "b", "old", "inside"]), vec![]), "a newer version can be allowed");
    let adopted = selected(
        |snapshot| {
            let entries = &mut snapshot.resources[0].content["status"]["inventory"]["entries"];
            entries.as_array_mut().unwrap().push(json!({"id": "n_a__ConfigMap", "v": "v1"}));
        },
        true,
    );
    assert_eq!(adopted, (rest.clone(), vec!["a recorded".to_owned()]));
}

#[test]
fn a_cascade_may_only_have_what_was_reviewed() {
    let new = selected(|snapshot| snapshot.objects.push(leaked("ConfigMap", "old", "new")), true);
    assert_eq!(new.1, ["old changed-since-plan"]);
    let emptied = selected(|snapshot| snapshot.objects.retain(|object| &*object.id.name != "inside"), false);
    assert_eq!(emptied, (names(&["a", "b", "old"]), vec!["inside gone".to_owned()]), "a step of the plan may be done");
    let skipped = selected(|snapshot| edit(snapshot, "inside", |object| object.resource_version = "2".into()), false);
    assert_eq!(skipped.0, names(&["a", "b"]));
    assert_eq!(skipped.1, ["inside changed-since-plan", "old cascade"], "the root would delete what is skipped");
}

#[test]
fn the_reason_of_a_kept_root_is_that_of_the_plan() {
    let reviewed = file(&cluster());
    let snapshot = cluster();
    let stricter = plan(&Index::build(&snapshot), &PruneOptions::default());
    let selection = reviewed.select(stricter, &Index::build(&snapshot), false);
    let row = selection.skipped.iter().find(|row| &*row.object.id.name == "old").unwrap();
    let reason = Reason::new(ReasonCode::NotAllowed, "namespaces");
    assert_eq!(row.step, DeletionResult::Skipped(reason), "a permission is no part of a file");
}
