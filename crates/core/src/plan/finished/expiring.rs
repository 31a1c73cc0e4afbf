//! Jobs that Kubernetes deletes by itself, so that they do not stay for certain.
//!
//! Source: Kubernetes v1.36.3 `pkg/controller/ttlafterfinished/ttlafterfinished_controller.go`, and `cleanupFinishedJobs` in
//! `pkg/controller/cronjob/cronjob_controllerv2.go`.

use std::collections::BTreeSet;

use super::references::live_referrers;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::plan::{Action, Plan};

/// Makes the rows of Jobs uncertain that would stay, and that Kubernetes deletes some time after they have finished.
pub(super) fn mark_expiring(plan: &mut Plan, snapshot: &Snapshot) {
    let live = live_referrers(plan, snapshot).filter(|live| live.expires);
    let expiring: BTreeSet<ObjectId> = live.map(|live| live.object.clone()).collect();
    plan.update_changes(|change| {
        let id = &change.object.id;
        if !(id.is("batch", "Job") && matches!(change.action, Action::Keep | Action::Update)) {
            return;
        }
        if expiring.contains(id) {
            change.make_race("Kubernetes deletes it some time after it has finished (ttlSecondsAfterFinished)");
        } else if snapshot.object(id).is_some_and(is_of_cron_job) {
            change.make_race("its CronJob deletes it once enough newer Jobs have finished");
        }
    });
}

fn is_of_cron_job(job: &ObjectMetadata) -> bool {
    job.owner_references.iter().any(|by| by.controller && &*by.group == "batch" && &*by.kind == "CronJob")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::object::{OwnerReference, Resource};
    use crate::kubernetes::referrer::Referrer;
    use crate::kubernetes::snapshot::ClusterIdentity;
    use crate::plan::{Actor, Change, ReasonCode};
    use crate::testing;

    #[test]
    fn a_job_with_a_time_to_live_or_of_a_cron_job_does_not_stay_for_certain() {
        let job = |name: &str| testing::object("batch", "Job", "shop", name);
        let cron = OwnerReference {
            group: "batch".into(),
            kind: "CronJob".into(),
            name: "nightly".into(),
            uid: "c".into(),
            controller: true,
            block_owner_deletion: true,
        };
        let old = ObjectMetadata { owner_references: vec![cron], ..job("old") };
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        snapshot.objects = vec![job("kept"), job("short"), old];
        snapshot.normalise();
        let live = [("kept", json!({"spec": {}})), ("short", json!({"spec": {"ttlSecondsAfterFinished": 60}}))]
            .map(|(name, content)| Resource { object: job(name), content });
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.set_live_referrers(live.iter().filter_map(Referrer::of_live).collect());
        let rows = |action: Action| {
            let mut plan = plan.clone();
            let row = |object| Change::new(action, object, None, Actor::KustomizeController, ReasonCode::Protected);
            plan.add_changes(snapshot.objects.iter().map(row));
            mark_expiring(&mut plan, &snapshot);
            let open = plan.changes().iter().filter(|row| !row.reason.conditions.is_empty());
            open.map(|row| row.object.id.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(rows(Action::Keep), ["old", "short"]);
        assert_eq!(rows(Action::Update), ["old", "short"]);
        assert_eq!(rows(Action::Delete), [""; 0]);
    }
}
