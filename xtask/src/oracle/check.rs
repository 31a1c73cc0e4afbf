//! Compares a plan with two reads of the cluster, by uid.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{items, text};

/// Uids by `kind.group/name -n namespace`.
pub(super) type Uids = BTreeMap<String, String>;

/// Prediction of a plan for one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Predicted {
    action: String,
    race: bool,
    reason: String,
}

/// A row that is a race, and what happened to its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// Actual result.
    pub happened: &'static str,
    /// Action and reason of the row.
    pub row: String,
}

/// Returns an object as `kind.group/name -n namespace`.
pub(super) fn identity(group: &str, kind: &str, namespace: &str, name: &str) -> String {
    let dot = if group.is_empty() { "" } else { "." };
    let place = if namespace.is_empty() { String::new() } else { format!(" -n {namespace}") };
    format!("{}{dot}{group}/{name}{place}", kind.to_lowercase())
}

/// Returns the rows of a plan for objects that `is_part` accepts, and a mismatch for each object with two rows.
pub(super) fn predictions(plan: &Value, is_part: impl Fn(&str) -> bool) -> (BTreeMap<String, Predicted>, Vec<String>) {
    let (mut rows, mut wrong) = (BTreeMap::new(), Vec::new());
    for change in items(plan, "/changes") {
        let [group, kind, namespace, name] =
            ["group", "kind", "namespace", "name"].map(|key| text(&change["object"], &format!("/{key}")));
        let id = identity(group, kind, namespace, name);
        if !is_part(&id) {
            continue;
        }
        let row = Predicted {
            action: text(change, "/action").to_owned(),
            race: text(change, "/certainty") == "race",
            reason: change["reason"].to_string(),
        };
        if let Some(other) = rows.insert(id.clone(), row) {
            wrong.push(format!("{id}: is in the plan twice, also as {}", other.action));
        }
    }
    (rows, wrong)
}

/// Returns the objects to which two plans do different things. What is updated is left out: only dry-runs show it.
pub(super) fn differing(predicted: &Value, real: &Value, is_part: impl Fn(&str) -> bool) -> Vec<String> {
    let [predicted, real] = [predicted, real].map(|plan| predictions(plan, &is_part).0);
    let shown = |rows: &BTreeMap<String, Predicted>, id: &str| match rows.get(id) {
        Some(row) if row.action != "update" => format!("{}{}", row.action, if row.race { "?" } else { "" }),
        _ => "nothing".to_owned(),
    };
    let ids: BTreeSet<&String> = predicted.keys().chain(real.keys()).collect();
    // The names of the Pods of a new workload are random.
    let is_random = |id: &String| id.starts_with("pod/") || id.starts_with("replicaset.apps/");
    let known = ids.into_iter().filter(|id| predicted.contains_key(*id) || !is_random(id));
    let differing = known.filter(|id| shown(&predicted, id) != shown(&real, id));
    let text = |id: &String| {
        let [predicted, real] = [&predicted, &real].map(|rows| shown(rows, id));
        format!("{id}: its revert is {predicted} in the predicted state and {real} in the real one")
    };
    differing.map(text).collect()
}

/// Result of comparing rows with what happened.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// Rows of the plan that differ from what the controller did.
    pub(super) wrong: Vec<String>,
    /// The mismatches that are [dangerous](is_dangerous).
    pub(super) dangerous: Vec<String>,
    /// Rows that are races, by object.
    pub(super) races: BTreeMap<String, Race>,
}

/// Compares rows with what happened. An incomplete plan predicts nothing about objects without a row.
pub(super) fn compare(
    rows: &BTreeMap<String, Predicted>,
    before: &Uids,
    after: &Uids,
    is_incomplete: bool,
) -> Compared {
    let mut compared = Compared::default();
    let all: BTreeSet<&String> = before.keys().chain(after.keys()).chain(rows.keys()).collect();
    for id in all {
        let happened = happened(before.get(id), after.get(id));
        let row = rows.get(id);
        let predicted = row.map_or("nothing", |row| row.action.as_str());
        let agrees = match predicted {
            "nothing" if is_incomplete => true,
            "nothing" if happened == "create" => is_created_by_kubernetes(id),
            // A StatefulSet scales and replaces its Pods.
            "nothing" => happened == "stays" || (id.starts_with("pod/") && has_ordinal(id)),
            "keep" | "update" => happened == "stays",
            // The server refuses it, so it neither changes nor is created. An incomplete plan may not know its owner.
            "unknown" => is_incomplete || matches!(happened, "stays" | "never"),
            action => action == happened,
        };
        if let Some(row) = row.filter(|row| row.race) {
            compared.races.insert(id.clone(), Race { happened, row: format!("{predicted} {}", row.reason) });
        } else if !agrees {
            let reason = row.map(|row| format!(" ({})", row.reason)).unwrap_or_default();
            let mismatch = format!("{id}: predicted {predicted}{reason}, happened {happened}");
            if is_dangerous(predicted, happened) {
                compared.dangerous.push(mismatch.clone());
            }
            compared.wrong.push(mismatch);
        }
    }
    compared
}

/// Returns the objects that a plan certainly updates and whose resource versions stay the same.
pub(super) fn not_updated(
    rows: &BTreeMap<String, Predicted>,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<String> {
    let updates = rows.iter().filter(|(_, row)| row.action == "update" && !row.race);
    let same = updates.filter(|(id, _)| before.get(*id).is_some_and(|version| after.get(*id) == Some(version)));
    same.map(|(id, row)| format!("{id}: predicted update ({}), and it did not change", row.reason)).collect()
}

/// Returns true if an object goes although the plan does not say so, or stays although it does.
fn is_dangerous(predicted: &str, happened: &str) -> bool {
    match predicted {
        "delete" => happened == "stays",
        "recreate" => matches!(happened, "stays" | "delete"),
        _ => matches!(happened, "delete" | "recreate"),
    }
}

/// Returns what happened to an object with these uids before and after.
fn happened(before: Option<&String>, after: Option<&String>) -> &'static str {
    match (before, after) {
        (Some(old), Some(new)) if old == new => "stays",
        (Some(_), Some(_)) => "recreate",
        (Some(_), None) => "delete",
        (None, Some(_)) => "create",
        (None, None) => "never",
    }
}

/// Returns the expected actions, as `ACTION KIND/NAME`, that did not happen.
pub(super) fn not_happened(before: &Uids, after: &Uids, expected: &[String]) -> Vec<String> {
    let all: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let actions: Vec<String> =
        all.into_iter().map(|id| format!("{} {id}", happened(before.get(id), after.get(id)))).collect();
    let is_missing = |row: &&String| {
        let is_row = |action: &String| {
            action.strip_prefix(row.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        !actions.iter().any(is_row)
    };
    expected.iter().filter(is_missing).map(|row| format!("{row}: did not happen")).collect()
}

/// Returns true if a controller creates the object, and no manifest.
pub(super) fn is_created_by_kubernetes(id: &str) -> bool {
    let kubernetes = [
        "configmap/kube-root-ca.crt",
        "serviceaccount/default ",
        "replicaset.apps/",
        "controllerrevision.apps/",
        "pod/",
    ];
    // Helm records revisions, and helm-controller makes a HelmChart for each release.
    let helm = ["secret/sh.helm.release.v1.", "helmchart.source.toolkit.fluxcd.io/"];
    let is_of_workload =
        ["persistentvolumeclaim/", "job.batch/"].iter().any(|kind| id.starts_with(kind)) && has_ordinal(id);
    is_of_workload || kubernetes.iter().chain(&helm).any(|own| id.starts_with(own))
}

/// Returns true if the name ends with a number, as of the claims of a StatefulSet and the Jobs of a CronJob.
fn has_ordinal(id: &str) -> bool {
    let name = id.split_once(" -n ").map_or(id, |(name, _)| name);
    let ordinal = name.rsplit_once('-').map(|(_, ordinal)| ordinal);
    ordinal.is_some_and(|ordinal| !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the names of the Kustomizations with a last build of this fidelity.
pub(super) fn builds(plan: &Value, namespace: &str, fidelity: &str) -> impl Iterator<Item = String> {
    let ours =
        items(plan, "/owners").filter(move |owner| owner["namespace"] == namespace && owner["fidelity"] == fidelity);
    ours.map(|owner| owner["name"].to_string())
}

/// Returns the expected rows of a scenario that are not in the plan.
pub(super) fn missing(rows: &BTreeMap<String, Predicted>, expected: &[String]) -> Vec<String> {
    let missing = expected.iter().filter(|expected| !rows.iter().any(|(id, row)| is_expected(id, row, expected)));
    missing.map(|row| format!("{row}: is not in the plan")).collect()
}

/// Returns the differences between the objects that a plan calls still needed and the expected ones.
pub(super) fn misjudged(rows: &BTreeMap<String, Predicted>, needed: &[String]) -> Vec<String> {
    if needed.is_empty() {
        return vec![];
    }
    let said = rows.iter().filter(|(_, row)| row.reason.contains("still needed: "));
    let said: BTreeSet<&str> = said.map(|(id, _)| id.split_once(" -n ").map_or(&**id, |(object, _)| object)).collect();
    let needed: BTreeSet<&str> = needed.iter().map(String::as_str).filter(|object| *object != "nothing").collect();
    let missing = needed.difference(&said).map(|object| format!("{object}: the plan does not say that it is needed"));
    missing.chain(said.difference(&needed).map(|object| format!("{object}: the plan calls it needed"))).collect()
}

/// Returns true if the row is the expected `ACTION KIND/NAME`.
fn is_expected(id: &str, row: &Predicted, expected: &str) -> bool {
    let (action, object) = expected.split_once(' ').unwrap_or(("", expected));
    row.action == action && id.strip_prefix(object).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}
