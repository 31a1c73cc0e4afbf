//! Answers of `inventory` as rows of the table of truth.

use std::collections::{BTreeMap, BTreeSet};

use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::index::Index;
use gitops_core::ownership::{OwnerId, OwnershipStatus, SYSTEMS};
use serde_json::Value;
use test_support::comparison::snapshot;
use test_support::folder::reports;
use test_support::gitops::gitops;
use test_support::suspension::ok;

use super::cluster;
use super::truth::Row;

/// Namespaces that are the cluster's or the test cluster's.
const APART: [&str; 5] = ["default", "kube-system", "kube-public", "kube-node-lease", "flux-system"];

/// Compares everything that `inventory` says with the table.
pub(crate) fn compare(truth: &[Row]) {
    same("every object, as a recording has it", recorded(), truth.iter());
    for status in ["leaked", "orphaned", "conflicts", "unmanaged"] {
        let flag = format!("--{status}");
        let is = |row: &&Row| row.status == status || (row.status == "conflict" && status == "conflicts");
        same(&flag, findings(&ask(&[&flag])), truth.iter().filter(is));
        if status != "unmanaged" {
            for system in SYSTEMS.iter().copied() {
                let of = |row: &&Row| is(row) && row.owners.iter().any(|owner| system_of(owner) == system);
                same(
                    &format!("{flag} --by {system}"),
                    findings(&ask(&[&flag, "--by", system])),
                    truth.iter().filter(of),
                );
            }
        }
    }
    let all = ask(&[]);
    totals(&all["totals"], truth);
    for system in SYSTEMS.iter().copied() {
        let by = ask(&["--by", system]);
        let of = |owner: &String| system_of(owner) == system;
        let owners: BTreeSet<String> = live_owners(truth).into_keys().filter(of).collect();
        assert_eq!(
            by["owners"].as_array().unwrap().iter().map(owner_of).collect::<BTreeSet<_>>(),
            owners,
            "--by {system}"
        );
    }
    owners(&all["owners"], truth);
}

/// Objects that `prune --plan` would delete: leaked objects with a second witness, and none that is kept, copied or contested.
pub(crate) fn plan() {
    let run = gitops(&cluster(), &["prune", "--plan", "-o", "json", "--max-percent=100"]);
    let answer: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("no plan: {run}"));
    let changes = answer["changes"].as_array().unwrap().iter().filter(|change| change["action"] == "delete");
    let object = |change: &Value| serde_json::from_value::<ObjectId>(change["object"].clone()).unwrap().to_string();
    let deleted: BTreeSet<String> = changes.map(object).collect();
    // Anybody who may write ConfigMaps can claim an inventory of cli-utils, so its leaked object is kept.
    let expected = ["leaked -n argocd", "cm-2 -n flux", "leaked -n operator"];
    assert_eq!(deleted, expected.map(|name| format!("configmap/{name}")).into());
}

/// Leaves what people see of it below the target folder.
pub(crate) fn tell() {
    let views = [&["-o", "wide"][..], &["--leaked"], &["--orphaned"], &["--conflicts"], &["--unmanaged"]];
    let run = |view: &&[&str]| {
        let run = gitops(&cluster(), &[&["inventory"], *view].concat());
        format!("$ kubectl gitops inventory {}\n{}{}\n", view.join(" "), ok(&run), run.stderr)
    };
    let text: String = views.iter().map(run).collect();
    std::fs::write(reports().join("systems.txt"), text).expect("the views are written");
}

/// Runs `inventory` for JSON.
fn ask(args: &[&str]) -> Value {
    let run = gitops(&cluster(), &[&["inventory", "-o", "json"], args].concat());
    let answer: Value = serde_json::from_str(ok(&run)).unwrap();
    assert_eq!((&answer["complete"], &answer["gaps"]), (&Value::Bool(true), &Value::Array(vec![])), "{args:?}");
    answer
}

#[track_caller]
fn same<'t>(what: &str, found: Vec<Row>, expected: impl Iterator<Item = &'t Row>) {
    let text =
        |row: &Row| format!("{:<10} {:<36} {:<12} {}", row.namespace, row.name, row.status, row.owners.join(" + "));
    let found: Vec<String> = found.iter().map(text).collect();
    let expected: Vec<String> = expected.map(text).collect();
    let only = |these: &[String], those: &[String], sign: char| -> Vec<String> {
        these.iter().filter(|row| !those.contains(row)).map(|row| format!("\n{sign} {row}")).collect()
    };
    let difference = [only(&expected, &found, '-'), only(&found, &expected, '+')].concat();
    assert!(difference.is_empty(), "{what}: the table (-) and the answer (+) differ:{}", difference.concat());
    assert_eq!(found.len(), expected.len(), "{what}: as many rows of each kind");
}

/// The status of every object, from a recording that the binary made.
fn recorded() -> Vec<Row> {
    let snapshot = snapshot(&cluster(), "systems");
    let index = Index::build(&snapshot);
    let mut rows: Vec<Row> = index
        .statuses()
        .filter(|(object, status)| {
            let beyond = object.id.namespace.is_empty() && matches!(status, OwnershipStatus::SystemManaged(_));
            is_in_question(&object.id) && !beyond
        })
        .map(|(object, status)| {
            let owners = match &status {
                OwnershipStatus::Managed(id) => vec![owner(id)],
                OwnershipStatus::Leaked(claim)
                | OwnershipStatus::Orphaned(claim)
                | OwnershipStatus::Copied(claim)
                | OwnershipStatus::Unknown(claim, _) => vec![owner(&claim.owner)],
                OwnershipStatus::Conflict(ids) => ids.iter().map(owner).collect(),
                OwnershipStatus::SystemManaged(_) | OwnershipStatus::Controlled | OwnershipStatus::Unmanaged => vec![],
            };
            row(&object.id, status.as_str(), owners)
        })
        .collect();
    rows.sort();
    rows
}

fn is_in_question(id: &ObjectId) -> bool {
    !APART.contains(&&*id.namespace) && &*id.kind != "CustomResourceDefinition"
}

fn findings(answer: &Value) -> Vec<Row> {
    let rows = answer["findings"].as_array().unwrap().iter().filter_map(|finding| {
        let id: ObjectId = serde_json::from_value(finding.clone()).unwrap();
        let owners = finding["owners"].as_array().unwrap().iter().map(owner_of).collect();
        is_in_question(&id).then(|| row(&id, finding["status"].as_str().unwrap(), owners))
    });
    let mut rows: Vec<Row> = rows.collect();
    rows.sort();
    rows
}

fn row(id: &ObjectId, status: &str, owners: Vec<String>) -> Row {
    // How many words at the end of a name a controller made up.
    let made_up = match &*id.kind {
        "ReplicaSet" | "EndpointSlice" => 1,
        "Pod" => 2,
        "ConfigMap" if id.name.contains("-change-") => 1,
        _ => 0,
    };
    let name = (0..made_up).fold(&*id.name, |name, _| name.rsplit_once('-').map_or(name, |(start, _)| start));
    let star = if made_up > 0 { "-*" } else { "" };
    let namespace = dash(&id.namespace).to_owned();
    Row { namespace, name: format!("{}/{name}{star}", id.kind), status: status.to_owned(), owners }
}

fn owner_of(value: &Value) -> String {
    owner(&serde_json::from_value(value.clone()).unwrap())
}

fn owner(id: &OwnerId) -> String {
    // What kapp calls an app without a record is the time of its making.
    let name = if id.name.len() > 15 && id.name.bytes().all(|byte| byte.is_ascii_digit()) { "*" } else { &id.name };
    format!("{}:{}/{}/{name}", id.system, dash(&id.namespace), id.kind)
}

fn dash(namespace: &str) -> &str {
    if namespace.is_empty() { "-" } else { namespace }
}

fn system_of(owner: &str) -> &str {
    owner.split(':').next().unwrap_or_default()
}

/// The owners that the table has objects of, with what is theirs and what leaked of them.
fn live_owners(truth: &[Row]) -> BTreeMap<String, (BTreeSet<String>, u64)> {
    let mut owners: BTreeMap<String, (BTreeSet<String>, u64)> = BTreeMap::new();
    for row in truth {
        for owner in &row.owners {
            match row.status.as_str() {
                "managed" | "conflict" => {
                    _ = owners.entry(owner.clone()).or_default().0.insert(format!("{} {}", row.namespace, row.name));
                }
                "leaked" => owners.entry(owner.clone()).or_default().1 += 1,
                _ => {}
            }
        }
    }
    owners
}

fn totals(totals: &Value, truth: &[Row]) {
    let words = ["managed", "leaked", "orphaned", "conflict", "copied", "unknown", "controlled"];
    let found = words.map(|word| {
        let key = if word == "conflict" { "conflicts" } else { word };
        (word, usize::try_from(totals[key].as_u64().unwrap()).unwrap())
    });
    assert_eq!(found, words.map(|word| (word, truth.iter().filter(|row| row.status == word).count())));
}

/// Every owner's counts, and then its objects by name.
fn owners(summaries: &Value, truth: &[Row]) {
    let expected = live_owners(truth);
    let summaries: Vec<(String, &Value)> =
        summaries.as_array().unwrap().iter().map(|summary| (owner_of(summary), summary)).collect();
    let names: BTreeSet<&String> = summaries.iter().map(|(name, _)| name).collect();
    assert_eq!(names, expected.keys().collect::<BTreeSet<_>>(), "the owners");
    let mut spelt = vec![];
    for (name, summary) in &summaries {
        let (objects, leaked) = &expected[name];
        let count = |key: &str| summary[key].as_u64().unwrap();
        assert_eq!((count("objects"), count("leaked"), count("missing")), (objects.len() as u64, *leaked, 0), "{name}");
        assert_eq!(summary["state"], "ready", "{summary}");
        spelt.push(name.split_once(':').unwrap().1.trim_start_matches("-/"));
    }
    let answer = ask(&spelt);
    let found = answer["objects"].as_array().unwrap().iter().map(|owner| {
        let place = |member: &Value| {
            let id: ObjectId = serde_json::from_value(member.clone()).unwrap();
            let Row { namespace, name, .. } = row(&id, "", vec![]);
            format!("{namespace} {name}")
        };
        let objects: BTreeSet<String> = owner["objects"].as_array().unwrap().iter().map(place).collect();
        (owner_of(&owner["owner"]), objects)
    });
    let expected: BTreeMap<String, BTreeSet<String>> =
        expected.into_iter().map(|(name, (objects, _))| (name, objects)).collect();
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
}
