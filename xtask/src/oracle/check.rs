//! Compares a plan with two reads of the cluster, by uid.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{items, text};

/// Uids by `kind.group/name -n namespace`.
pub(super) type Uids = BTreeMap<String, String>;

/// Resource versions and contents of objects.
pub(super) type Contents = BTreeMap<String, (String, Value)>;

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
            // A workload scales and replaces its Pods.
            "nothing" => happened == "stays" || is_pod_of_changed(id, rows),
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

/// Annotations that controllers of Kubernetes, or requests to reconcile, change.
const OF_CONTROLLERS: [&str; 4] =
    ["deployment.kubernetes.io/", "pv.kubernetes.io/", "volume.kubernetes.io/", "reconcile.fluxcd.io/requestedAt"];

/// Returns an object without its status and without the parts that only servers and controllers change.
pub(super) fn content(item: &Value) -> Value {
    let mut content = item.clone();
    if let Some(parts) = content.as_object_mut() {
        parts.remove("status");
        let is_volume = matches!(text(item, "/kind"), "PersistentVolume" | "PersistentVolumeClaim");
        if let Some(spec) = parts.get_mut("spec").and_then(Value::as_object_mut).filter(|_| is_volume) {
            spec.retain(|field, _| !matches!(field.as_str(), "volumeName" | "claimRef"));
        }
        // The rules of an aggregated role are computed.
        if parts.contains_key("aggregationRule") {
            parts.remove("rules");
        }
    }
    let all = ["labels", "annotations"].map(|part| (part, content["metadata"][part].clone()));
    let own = all.into_iter().map(|(part, values)| {
        let values = values.as_object().cloned().unwrap_or_default().into_iter();
        let is_own = |key: &str| !OF_CONTROLLERS.iter().any(|prefix| key.starts_with(prefix));
        (part.to_owned(), Value::Object(values.filter(|(key, _)| is_own(key)).collect()))
    });
    content["metadata"] = Value::Object(own.collect());
    content
}

/// Returns true for a Pod of a StatefulSet, or of a Deployment that a plan updates.
fn is_pod_of_changed(id: &str, rows: &BTreeMap<String, Predicted>) -> bool {
    let Some(pod) = id.strip_prefix("pod/") else { return false };
    let mut updated = rows.iter().filter(|(_, row)| row.action == "update");
    let is_of = |id: &str| {
        let (name, place) = id.strip_prefix("deployment.apps/")?.split_once(" -n ")?;
        Some(pod.strip_prefix(name)?.starts_with('-') && pod.ends_with(&format!(" -n {place}")))
    };
    has_ordinal(id) || updated.any(|(id, _)| is_of(id) == Some(true))
}

/// Returns the objects whose content is not the same in two reads.
pub(super) fn changed(before: &Contents, after: &Contents) -> BTreeMap<String, String> {
    let both = before.iter().filter_map(|(id, (_, old))| Some((id, old, &after.get(id)?.1)));
    both.filter(|(_, old, new)| old != new).map(|(id, old, new)| (id.clone(), first_difference(old, new))).collect()
}

/// Returns the path of the first field in which two objects differ, and its two values.
fn first_difference(old: &Value, new: &Value) -> String {
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else { return format!(": {old} → {new}") };
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differing = keys.into_iter().find(|key| before.get(*key) != after.get(*key));
    let value = |side: &serde_json::Map<String, Value>, key: &str| side.get(key).cloned().unwrap_or_default();
    differing
        .map_or_else(String::new, |key| format!("/{key}{}", first_difference(&value(before, key), &value(after, key))))
}

/// Returns the objects that a plan certainly updates and whose resource versions stay the same. Of two owners that change an object in
/// turn, both update it, and it can end as it was.
pub(super) fn not_updated(rows: &BTreeMap<String, Predicted>, before: &Contents, after: &Contents) -> Vec<String> {
    let updates = rows.iter().filter(|(_, row)| row.action == "update" && !row.race);
    let has_same = |(old, _): &(String, Value), id: &str| after.get(id).is_some_and(|(new, _)| new == old);
    let same = updates.filter(|(id, _)| before.get(*id).is_some_and(|old| has_same(old, id)));
    same.map(|(id, row)| format!("{id}: predicted update ({}), and it did not change", row.reason)).collect()
}

/// Returns the objects that change although a plan does not say so, each with the mismatch. What Kubernetes itself creates and
/// changes is left out.
pub(super) fn not_announced<'a>(
    rows: &BTreeMap<String, Predicted>,
    before: &Uids,
    after: &Uids,
    changed: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = (&'a str, String)> {
    let silent = changed.iter().filter(|(id, _)| !rows.contains_key(*id) && stays(before, after, id));
    let of_manifests = silent.filter(|(id, _)| !is_created_by_kubernetes(id));
    of_manifests.map(|(id, what)| (id.as_str(), format!("{id}: predicted nothing, and it changes: {what}")))
}

fn stays(before: &Uids, after: &Uids, id: &str) -> bool {
    happened(before.get(id), after.get(id)) == "stays"
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
    let kind = id.split(['.', '/']).next().unwrap_or_default();
    // Helm records revisions, and helm-controller makes a HelmChart for each release.
    let is_made = matches!(kind, "replicaset" | "controllerrevision" | "pod" | "helmchart")
        || ["configmap/kube-root-ca.crt", "serviceaccount/default ", "secret/sh.helm.release.v1."]
            .iter()
            .any(|own| id.starts_with(own));
    is_made || (matches!(kind, "persistentvolumeclaim" | "job") && has_ordinal(id))
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
