//! Helm's records of a release, a Secret for each revision, and those that an upgrade and its retries delete.
//!
//! Source: Helm v4.2.2 `pkg/storage/storage.go`, `removeLeastRecent`, and `pkg/action/rollback.go`; helm-controller v1.6.3
//! `GetMaxHistory` and `internal/reconcile/atomic_release.go`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::action::ReleaseAction;
use super::failure::Failure;
use super::remedies::{Remedy, attempts};
use crate::flux::simulation::model::affected_owner::OwnerDeletion;
use crate::flux::simulation::model::state::State;
use crate::helm::uninstall::records;
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use crate::plan::{Action, ReasonCode};

/// Number of revisions whose records Helm keeps if a HelmRelease has no `maxHistory`.
const DEFAULT_HISTORY: u64 = 5;
/// Number of failures after which an action that is retried without a limit has deleted what it can.
const FAILURES: u64 = 100;

/// Records of a release, the oldest first.
#[derive(Clone)]
struct History<'s> {
    /// Each with its object, unless it is a new one, and whether its revision is deployed.
    records: Vec<(Option<&'s ObjectMetadata>, bool)>,
    /// Number of records that Helm keeps; 0 without a limit.
    limit: usize,
    removed: BTreeSet<&'s ObjectId>,
}

impl<'s> History<'s> {
    fn read(state: &State<'s>, live: &Resource, spec: &Value) -> Self {
        let revision =
            |record: &ObjectMetadata| record.id.name.rsplit_once(".v").and_then(|(_, text)| text.parse::<u64>().ok());
        let mut found: Vec<&ObjectMetadata> =
            state.cluster_of(live).into_iter().flat_map(|cluster| records(cluster, live)).collect();
        found.sort_by_key(|record| revision(record));
        let is_deployed = |record: &ObjectMetadata| record.labels.get("status") == Some("deployed");
        let records = found.into_iter().map(|record| (Some(record), is_deployed(record))).collect();
        let limit = spec.get("maxHistory").and_then(Value::as_u64).unwrap_or(DEFAULT_HISTORY);
        Self { records, limit: usize::try_from(limit).unwrap_or_default(), removed: BTreeSet::new() }
    }

    /// Returns the records after a further upgrade.
    fn upgraded(&self) -> Self {
        let mut history = self.clone();
        history.add(true);
        history
    }

    /// Records the next revision. Before that, Helm deletes the oldest records beyond its limit, and spares that of the revision
    /// which is deployed.
    fn add(&mut self, is_deployed: bool) {
        let deployed = self.records.iter().rposition(|(_, is_deployed)| *is_deployed);
        let kept = self.limit.checked_sub(1).unwrap_or(self.records.len());
        let surplus = self.records.len().saturating_sub(kept);
        let gone: Vec<usize> = (0..self.records.len()).filter(|at| Some(*at) != deployed).take(surplus).collect();
        for at in gone.into_iter().rev() {
            let (object, _) = self.records.remove(at);
            self.removed.extend(object.map(|object| &object.id));
        }
        if is_deployed {
            self.records.iter_mut().for_each(|(_, is_deployed)| *is_deployed = false);
        }
        self.records.push((None, is_deployed));
    }
}

/// Returns the deletions of records by an upgrade, also one that fails, and by its retries and rollbacks.
pub(super) fn outdated_records(
    state: &State<'_>,
    live: &Resource,
    spec: &Value,
    action: &ReleaseAction,
) -> BTreeMap<ObjectId, OwnerDeletion> {
    let history = History::read(state, live, spec);
    let first = history.upgraded();
    let mut removed: BTreeMap<&ObjectId, Option<&str>> = first.removed.iter().map(|id| (*id, None)).collect();
    let fails_always = matches!(action.failure, Failure::Always(_)) && !action.has_steps;
    let fails_last = action.refused_deletions.values().any(|refused| refused.is_final);
    let condition = (!fails_always && !fails_last).then_some("it stays unless the upgrade fails");
    if action.failure != Failure::Unexpected || action.can_fail_later || !action.refused_deletions.is_empty() {
        let failed = failed(history, spec, action.remedy);
        failed.removed.into_iter().for_each(|id| _ = removed.entry(id).or_insert(condition));
    }
    if action.has_steps {
        let second = first.upgraded();
        let at_once = Some("it stays if the new chart and the new values come at the same time");
        second.removed.into_iter().for_each(|id| _ = removed.entry(id).or_insert(at_once));
    }
    let deletions = removed.into_iter().map(|(id, condition)| {
        let mut deletion = OwnerDeletion::new(CascadeKind::Upgrade);
        deletion.code = Some(ReasonCode::OldRecord);
        deletion.conditions.extend(action.waits.clone());
        deletion.conditions.extend(condition.map(str::to_owned));
        deletion.is_doubtful = !deletion.conditions.is_empty();
        (id.clone(), deletion)
    });
    deletions.collect()
}

/// Returns the records after the upgrade and all its retries have failed.
fn failed<'s>(mut history: History<'s>, spec: &Value, remedy: Remedy) -> History<'s> {
    let (attempts, remedies) = attempts(spec, remedy);
    for attempt in 0..attempts.min(FAILURES) {
        history.add(false);
        if attempt < remedies && remedy == Remedy::Rollback {
            history.add(true);
        }
    }
    history
}

/// Returns Helm's records of a release that is uninstalled and installed again: the installation records revision 1.
pub(super) fn forgotten_records(state: &State<'_>, live: &Resource) -> Vec<(ObjectId, Action)> {
    let records = state.cluster_of(live).into_iter().flat_map(|cluster| records(cluster, live));
    let action = |id: &ObjectId| if id.name.ends_with(".v1") { Action::Recreate } else { Action::Delete };
    records.map(|record| (record.id.clone(), action(&record.id))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::action_kind::ActionKind;
    use super::*;
    use crate::testing::object;

    /// Returns the revisions of these records, of which the last one is deployed, that go if an upgrade fails always.
    fn gone(number: usize, limit: usize, remediation: Value) -> Vec<String> {
        let live: Vec<ObjectMetadata> =
            (1..=number).map(|revision| object("", "Secret", "shop", &format!("v{revision}"))).collect();
        let records = live.iter().enumerate().map(|(at, record)| (Some(record), at + 1 == number)).collect();
        let history = History { records, limit, removed: BTreeSet::new() };
        let spec = json!({"upgrade": {"remediation": remediation}});
        let remedy = Remedy::of(&spec, ActionKind::Upgrade);
        failed(history, &spec, remedy).removed.into_iter().map(|id| id.name.to_string()).collect()
    }

    #[test]
    fn retries_and_rollbacks_are_revisions_too() {
        assert_eq!(gone(2, 1, json!({})), ["v1"]);
        assert_eq!(gone(2, 1, json!({"retries": 1})), ["v1", "v2"], "a rollback records what was deployed again");
        assert_eq!(gone(2, 3, json!({})), [""; 0]);
        assert_eq!(gone(2, 3, json!({"retries": 1})), ["v1", "v2"]);
        assert_eq!(gone(2, 3, json!({"retries": -1})), ["v1", "v2"]);
        assert_eq!(gone(9, 0, json!({"retries": -1})), [""; 0], "there is no limit");
    }
}
