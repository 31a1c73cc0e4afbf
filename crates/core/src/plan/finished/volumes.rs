//! Adds to a plan what happens to the volumes of deleted claims.

use std::collections::{BTreeMap, BTreeSet};

use crate::kubernetes::deletion::volumes::{CLAIM, KIND, RESOURCE, ReclaimOutcome, Volumes};
use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::snapshot::Snapshot;
use crate::plan::{Action, Actor, Change, Plan};

/// Adds a row for each volume that stays although its claim is deleted, and says of a recreated claim what happens to
/// its data. A recording that holds no specs of volumes is a gap.
pub(crate) fn add_volume_outcomes(plan: &mut Plan, snapshot: &Snapshot) {
    let volumes: BTreeMap<_, _> =
        snapshot.clusters().map(|(cluster, snapshot)| (cluster.cloned(), Volumes::new(snapshot))).collect();
    let listed: BTreeSet<ObjectId> = plan.changes().iter().map(|change| change.object.id.clone()).collect();
    let policies = plan.policy_changes().clone();
    let mut staying = vec![];
    let mut deletes_claim = false;
    plan.update_changes(|change| {
        if !change.is_deletion() || !change.object.id.is("", CLAIM) {
            return;
        }
        deletes_claim = true;
        let Some(claim) = snapshot.object(&change.object.id) else { return };
        let Some(volumes) = volumes.get(&claim.id.cluster) else { return };
        for (volume, outcome) in volumes.of(claim, &policies) {
            if change.action == Action::Recreate {
                let remark = match outcome {
                    ReclaimOutcome::Retained | ReclaimOutcome::Failed | ReclaimOutcome::Released => "remains there",
                    ReclaimOutcome::DependsOnPolicy => "may be lost",
                    _ => "is lost",
                };
                change.reason.add_detail(&format!("the new claim is empty: the data in {} {remark}", volume.id));
            }
            if !outcome.may_delete() && !listed.contains(&volume.id) {
                staying.push(Change {
                    certainty: change.certainty,
                    cause: Some(claim.id.clone()),
                    ..Change::new(Action::Keep, volume, None, Actor::PersistentVolumeController, outcome)
                });
            }
        }
    });
    plan.add_changes(staying);
    let unread = snapshot
        .clusters()
        .flat_map(|(_, cluster)| &cluster.objects)
        .any(|object| object.id.is("", KIND) && snapshot.resource(&object.id).is_none());
    if deletes_claim && unread && !plan.counting_gaps().any(|gap| gap.subject == RESOURCE) {
        plan.add_gaps([Gap {
            kind: GapKind::Failed,
            subject: RESOURCE.to_owned(),
            namespace: None,
            message: "the recording holds no specs of volumes, so the effect on them is unknown; record it again"
                .to_owned(),
        }]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::object::{ObjectMetadata, Resource};
    use crate::kubernetes::snapshot::ClusterIdentity;
    use crate::plan::ReasonCode;
    use crate::testing;

    fn claim() -> ObjectMetadata {
        ObjectMetadata { uid: "claim-uid".into(), ..testing::object("", CLAIM, "shop", "data") }
    }

    fn bound(policy: &str) -> Resource {
        let mut object = testing::object("", KIND, "", "pv");
        object.annotations = [("pv.kubernetes.io/provisioned-by", "csi.example.com")].into_iter().collect();
        let claim = json!({"namespace": "shop", "name": "data", "uid": "claim-uid"});
        Resource { object, content: json!({"spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": claim}}) }
    }

    /// Returns the rows of a plan that does this to the claim, and the number of its gaps.
    fn rows(action: Action, volumes: Vec<Resource>) -> (Vec<String>, usize) {
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        snapshot.objects = volumes.iter().map(|full| full.object.clone()).chain([claim()]).collect();
        snapshot.resources = volumes.into_iter().filter(|full| full.at("/spec").is_some()).collect();
        snapshot.normalise();
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_changes([Change::new(action, &claim(), None, Actor::KustomizeController, ReasonCode::Moved)]);
        add_volume_outcomes(&mut plan, &snapshot);
        let line = |change: &Change| format!("{} {}: {}", change.action, change.object.id.name, change.reason);
        (plan.changes().iter().map(line).collect(), plan.gaps().len())
    }

    #[test]
    fn a_volume_that_stays_has_a_row_and_a_recreated_claim_is_empty() {
        let retained = "keep pv: retained: its data remains, and no claim can bind it until an administrator acts";
        assert_eq!(
            rows(Action::Delete, vec![bound("Retain")]),
            (vec![retained.into(), "delete data: moved".into()], 0)
        );
        assert_eq!(rows(Action::Keep, vec![bound("Retain")]).0, ["keep data: moved"]);
        let lost = "recreate data: moved: the new claim is empty: the data in persistentvolume/pv is lost";
        assert_eq!(rows(Action::Recreate, vec![bound("Delete")]).0, [lost]);
        let kept = "recreate data: moved: the new claim is empty: the data in persistentvolume/pv remains there";
        assert_eq!(rows(Action::Recreate, vec![bound("Retain")]).0, [retained, kept]);
    }

    fn bound_without_spec() -> Resource {
        Resource { content: json!({}), ..bound("Delete") }
    }

    #[test]
    fn a_recording_without_specs_of_volumes_is_a_gap_when_a_claim_is_deleted() {
        assert_eq!(rows(Action::Delete, vec![bound_without_spec()]).1, 1);
        assert_eq!(rows(Action::Keep, vec![bound_without_spec()]).1, 0);
        assert_eq!(rows(Action::Delete, vec![bound("Delete")]).1, 0);
    }
}
