//! Helm's records of a release, a Secret for each revision: what they let Helm do, and those that an upgrade and its
//! retries delete.
//!
//! Source: Helm v4.2.2 `pkg/storage/storage.go`, `removeLeastRecent`, and `pkg/action/rollback.go`; helm-controller
//! v1.6.3 `GetMaxHistory`, `internal/reconcile/state.go` and `internal/reconcile/atomic_release.go`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::action::ReleaseAction;
use super::failure::Failure;
use super::remedies::{Remedy, attempts};
use crate::flux::helm_controller::HelmController;
use crate::flux::simulation::model::affected_owner::OwnerDeletion;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::comparison::Comparison;
use crate::helm::records::{Recorded, RecordsAnswer, RecordsQuery, ReleaseRecords};
use crate::helm::rendered::in_scope;
use crate::helm::target::ReleaseTarget;
use crate::helm::uninstall::{is_of_helm, records};
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use crate::ownership::Members;
use crate::ownership::schemes::flux_helmrelease::is_record_of;
use crate::plan::{Action, Reason, ReasonCode};

/// Number of revisions whose records Helm keeps if a HelmRelease has no `maxHistory`.
const DEFAULT_HISTORY: u64 = 5;
/// Number of failures after which an action that is retried without a limit has deleted what it can.
const FAILURES: u64 = 100;

/// Returns the records of the release of a live HelmRelease, or the reason why they could not be read. `None` if there
/// are none, or if they are missing so far, and were added to the needs.
pub(crate) fn read_records(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
) -> Option<Result<ReleaseRecords, String>> {
    let state = comparison.state();
    let ReleaseTarget { storage_namespace, namespace, name, .. } = release_target(live);
    let mut objects = state.cluster_of(live)?.objects.iter();
    objects.find(|object| is_record_of(object, &storage_namespace, &name))?;
    let cluster = state.target(&live.object.id.namespace, live.spec()).ok()?;
    let query = RecordsQuery { cluster, namespace: storage_namespace, name, release_namespace: namespace };
    match comparison.derivation.answers.records.get(&query) {
        Some(RecordsAnswer::Found(records)) => Some(Ok(records.clone())),
        Some(RecordsAnswer::Unreadable(why)) => Some(Err(why.clone())),
        Some(RecordsAnswer::NotRecorded) => None,
        None => {
            comparison.derivation.needs.records.insert(query);
            None
        }
    }
}

/// Returns the release of a live HelmRelease: that in its status, or that of its spec, for which helm-controller looks
/// otherwise.
pub(crate) fn release_target(live: &Resource) -> ReleaseTarget {
    let recorded = ReleaseTarget::recorded(&live.content);
    recorded.unwrap_or_else(|| ReleaseTarget::of_spec(&live.object.id, live.spec(), None))
}

/// Returns what the records say about the last release of a HelmRelease. Records that are not known are assumed to be
/// as the status has it.
pub(crate) fn compared<'r>(state: &State<'_>, live: &Resource, records: Option<&'r ReleaseRecords>) -> Recorded<'r> {
    let known = records.zip(state.cluster_of(live));
    known.map_or(Recorded::AsInStatus, |(records, cluster)| {
        let status = live.text("/status/history/0/status");
        records.compared(revision(live), status, &applied_members(state, live, Some(records)), &cluster.types)
    })
}

/// Returns the members of a release without what only the `crds/` of its chart has. helm-controller adds everything
/// there to the inventory, and applies nothing but the definitions: anything else is not in Helm's record, and no live
/// object that Helm wrote.
///
/// Source: helm-controller v1.6.3 `internal/inventory/inventory.go`, `AddCRDs`, and `internal/action/crds.go`.
pub(crate) fn applied_members(state: &State<'_>, live: &Resource, records: Option<&ReleaseRecords>) -> Members {
    let mut members = state.members(live);
    let Some((records, cluster)) = records.zip(state.cluster_of(live)) else { return members };
    if let (Members::Listed(ids), Some(recorded)) = (&mut members, records.deployed_objects(&cluster.types)) {
        ids.retain(|id| {
            let is_recorded = recorded.contains(&in_scope(id.clone(), &cluster.types));
            is_recorded || id.is_definition() || cluster.object(id).is_some_and(is_of_helm)
        });
    }
    members
}

/// Returns the revision that the status of a HelmRelease names; 0 without a release.
pub(crate) fn revision(live: &Resource) -> i64 {
    live.at("/status/history/0/version").and_then(Value::as_i64).unwrap_or_default()
}

/// Returns true if the last upgrade failed, and nothing has remedied that. The next one begins with the revision
/// before.
pub(crate) fn has_failed_upgrade(live: &Resource) -> bool {
    live.text("/status/history/0/status") == Some("failed") && live.at("/status/history/1").is_some()
}

/// Returns true if the installation failed, and nothing has remedied that. The next change is an upgrade of what it
/// left.
///
/// Source: helm-controller v1.6.3 `internal/reconcile/atomic_release.go`, `actionForState`.
pub(crate) fn has_failed_install(live: &Resource) -> bool {
    let is_first = live.at("/status/history/0/version").and_then(Value::as_i64) == Some(1);
    is_first && live.text("/status/history/0/status") == Some("failed") && live.at("/status/history/1").is_none()
}

/// Start of an upgrade from another release than the one in the status.
#[derive(Clone)]
pub(crate) struct Basis {
    pub(crate) revision: i64,
    /// Objects of the manifest that it replaces.
    pub(crate) objects: BTreeSet<ObjectId>,
}

/// Records of a release with what follows from them for its upgrade.
pub(crate) struct UpgradeRecords {
    pub(crate) records: Option<ReleaseRecords>,
    /// `None` if it begins with the release in the status.
    pub(crate) basis: Option<Basis>,
    /// helm-controller upgrades the release whatever changes: it does not know it any more.
    pub(crate) is_unmanaged: bool,
    /// Assumption about records that could not be read, for people.
    pub(crate) assumption: Option<String>,
}

/// Returns what follows from the records of a release for its upgrade, or the reason why helm-controller does nothing.
pub(crate) fn upgrade_records(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
) -> Result<UpgradeRecords, String> {
    let (records, assumption) = match read_records(comparison, live) {
        Some(Err(why)) => {
            (None, Some(format!("it is assumed that Helm's records of the release are not damaged: {why}")))
        }
        Some(Ok(records)) => (Some(records), None),
        None => (None, None),
    };
    let state = comparison.state();
    let found = compared(state, live, records.as_ref());
    if found == Recorded::Unreadable {
        return Err("Helm cannot read any of its records of the release".to_owned());
    }
    let recorded = records.as_ref().and_then(ReleaseRecords::last).map(|last| last.number);
    let last = recorded.or_else(|| last_named(state, live)).unwrap_or_else(|| revision(live));
    check_record(comparison, &live.object.id.namespace, live.spec(), &release_target(live), last + 1)?;
    let is_unmanaged = found != Recorded::AsInStatus;
    let begins_elsewhere = is_unmanaged || has_failed_upgrade(live) || has_failed_install(live);
    let upgraded = records.as_ref().filter(|_| begins_elsewhere).map(|records| {
        records
            .upgraded()
            .ok_or_else(|| "Helm's last record of the release is of a revision that is not deployed".to_owned())
    });
    let types = state.cluster_of(live).map_or(&[][..], |cluster| &cluster.types);
    let basis = upgraded.transpose()?.map(|first| Basis { revision: last, objects: first.placed(types) });
    Ok(UpgradeRecords { records, basis, is_unmanaged, assumption })
}

/// Returns the last revision that a record of the release has in its name.
fn last_named(state: &State<'_>, live: &Resource) -> Option<i64> {
    let ReleaseTarget { storage_namespace, name, .. } = release_target(live);
    let objects = state.cluster_of(live)?.objects.iter();
    let own = objects.filter(|object| is_record_of(object, &storage_namespace, &name));
    own.filter_map(|record| record.id.name.rsplit_once(".v")?.1.parse().ok()).max()
}

/// Fails if the Secret exists in which Helm would record a revision, and nothing deletes it: the action then does
/// nothing.
pub(crate) fn check_record(
    comparison: &Comparison<'_, '_, '_>,
    namespace: &str,
    spec: &Value,
    target: &ReleaseTarget,
    revision: i64,
) -> Result<(), String> {
    let state = comparison.state();
    let Ok(cluster) = state.target(namespace, spec) else { return Ok(()) };
    let id = target.record(revision).in_cluster(cluster.as_ref());
    if state.is_live(&id) && !comparison.derivation.consequences.may_be_deleted(&id) {
        return Err(format!("{id} exists, in which Helm would record the release"));
    }
    Ok(())
}

/// Returns the live objects in the inventory of a release that nothing will delete, with the reason.
pub(crate) fn left_behind(state: &State<'_>, live: &Resource, why: &str) -> BTreeMap<ObjectId, Reason> {
    let Members::Listed(inventory) = state.members(live) else { return BTreeMap::new() };
    let found = inventory.into_iter().filter(|id| state.is_live(id));
    found.map(|id| (id, Reason::new(ReasonCode::LeftBehind, why))).collect()
}

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
    /// Reads the live records without those that Helm cannot read.
    fn read(state: &State<'s>, live: &Resource, spec: &Value, known: Option<&ReleaseRecords>) -> Self {
        let revision =
            |record: &ObjectMetadata| record.id.name.rsplit_once(".v").and_then(|(_, text)| text.parse::<u64>().ok());
        let all = state.cluster_of(live).into_iter().flat_map(|cluster| records(cluster, live));
        let mut found: Vec<&ObjectMetadata> =
            all.filter(|record| known.is_none_or(|known| !known.is_damaged(&record.id))).collect();
        found.sort_by_key(|record| revision(record));
        let records =
            found.into_iter().map(|record| (Some(record), record.labels.get("status") == Some("deployed"))).collect();
        let limit = spec.get("maxHistory").and_then(Value::as_u64).unwrap_or(DEFAULT_HISTORY);
        Self { records, limit: usize::try_from(limit).unwrap_or_default(), removed: BTreeSet::new() }
    }

    /// Returns the records after a further upgrade.
    fn upgraded(&self) -> Self {
        let mut history = self.clone();
        history.add(true);
        history
    }

    /// Records the next revision. Before that, Helm deletes the oldest records beyond its limit, and spares that of the
    /// revision which is deployed.
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

/// Returns the number of records that Helm deletes before it records an upgrade.
pub(crate) fn removed_first(state: &State<'_>, live: &Resource, spec: &Value, known: Option<&ReleaseRecords>) -> usize {
    History::read(state, live, spec, known).upgraded().removed.len()
}

/// Returns the deletions of records by an upgrade, also one that fails, and by its retries and rollbacks.
pub(crate) fn outdated_records(
    state: &State<'_>,
    live: &Resource,
    spec: &Value,
    known: Option<&ReleaseRecords>,
    action: &ReleaseAction,
) -> BTreeMap<ObjectId, OwnerDeletion> {
    if action.never_begins() {
        return BTreeMap::new();
    }
    let history = History::read(state, live, spec, known);
    let first = history.upgraded();
    let mut removed: BTreeMap<&ObjectId, Option<&str>> = first.removed.iter().map(|id| (*id, None)).collect();
    let fails_always = matches!(action.failure, Failure::Always(_)) && !action.has_steps;
    let condition = (!fails_always && !action.fails_later()).then_some("it stays unless the upgrade fails");
    let may_fail = action.failure != Failure::Unexpected || action.may_fail_later();
    if may_fail && !action.is_unrecorded() {
        let failed = failed(history, &state.input.helm_controller, spec, action.remedy);
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
fn failed<'s>(mut history: History<'s>, controller: &HelmController, spec: &Value, remedy: Remedy) -> History<'s> {
    let (attempts, remedies) = attempts(controller, spec, remedy);
    for attempt in 0..attempts.min(FAILURES) {
        history.add(false);
        if attempt < remedies && remedy == Remedy::Rollback {
            history.add(true);
        }
    }
    history
}

/// Returns Helm's records of a release that is uninstalled and installed again: the installation records revision 1.
pub(crate) fn forgotten_records(
    state: &State<'_>,
    live: &Resource,
    known: Option<&ReleaseRecords>,
) -> Vec<(ObjectId, Action)> {
    let all = state.cluster_of(live).into_iter().flat_map(|cluster| records(cluster, live));
    let read = all.filter(|record| known.is_none_or(|known| !known.is_damaged(&record.id)));
    read.map(|record| (record.id.clone(), action_before_install(&record.id))).collect()
}

/// Returns what becomes of a record that Helm deletes before it installs the release again: the installation records
/// revision 1.
pub(crate) fn action_before_install(record: &ObjectId) -> Action {
    if record.name.ends_with(".v1") { Action::Recreate } else { Action::Delete }
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
        let controller = HelmController::default();
        let remedy = Remedy::of(&controller, &spec, ActionKind::Upgrade);
        failed(history, &controller, &spec, remedy).removed.into_iter().map(|id| id.name.to_string()).collect()
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
