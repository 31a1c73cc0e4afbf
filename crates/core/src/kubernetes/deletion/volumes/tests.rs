use serde_json::{Value, json};

use super::*;
use crate::kubernetes::snapshot::ClusterIdentity;
use crate::testing;

fn volume(spec: Value, provisioned: bool) -> Resource {
    let mut object = testing::object("", KIND, "", "pv");
    if provisioned {
        object.annotations = [(PROVISIONED, "csi.example.com")].into_iter().collect();
    }
    Resource { object, content: json!({"spec": spec}) }
}

fn claim() -> ObjectMetadata {
    ObjectMetadata { uid: "claim-uid".into(), ..testing::object("", CLAIM, "shop", "data") }
}

#[test]
fn the_reclaim_policy_and_the_volume_type_decide() {
    let rows = [
        (json!({"persistentVolumeReclaimPolicy": "Delete", "csi": {}}), true, ReclaimOutcome::Deleted),
        (json!({"persistentVolumeReclaimPolicy": "Delete", "nfs": {}}), true, ReclaimOutcome::Deleted),
        (json!({"persistentVolumeReclaimPolicy": "Delete", "csi": {}}), false, ReclaimOutcome::DependsOnDriver),
        (json!({"persistentVolumeReclaimPolicy": "Delete", "cinder": {}}), false, ReclaimOutcome::DependsOnDriver),
        (json!({"persistentVolumeReclaimPolicy": "Delete", "nfs": {}}), false, ReclaimOutcome::Failed),
        (
            json!({"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/tmp/a"}}),
            false,
            ReclaimOutcome::Deleted,
        ),
        (
            json!({"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/tmp/"}}),
            false,
            ReclaimOutcome::Failed,
        ),
        (
            json!({"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/data"}}),
            false,
            ReclaimOutcome::Failed,
        ),
        (json!({"persistentVolumeReclaimPolicy": "Retain", "csi": {}}), true, ReclaimOutcome::Retained),
        (json!({"persistentVolumeReclaimPolicy": "Recycle", "nfs": {}}), false, ReclaimOutcome::Recycled),
        (json!({"persistentVolumeReclaimPolicy": "Recycle", "local": {}}), false, ReclaimOutcome::Retained),
        (json!({}), false, ReclaimOutcome::Retained),
    ];
    for (spec, provisioned, expected) in rows {
        assert_eq!(outcome_with(&volume(spec.clone(), provisioned), &PolicyChanges::new()), expected, "{spec}");
    }
}

fn outcomes(uid: &str, policy: &str) -> Vec<ReclaimOutcome> {
    let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
    let reference = json!({"namespace": "shop", "name": "data", "uid": uid});
    let spec = json!({"persistentVolumeReclaimPolicy": policy, "claimRef": reference});
    snapshot.resources = vec![volume(spec, true)];
    Volumes::new(&snapshot)
        .of(&claim(), &PolicyChanges::new())
        .into_iter()
        .map(|(_, outcome)| outcome)
        .collect::<Vec<_>>()
}

#[test]
fn a_volume_is_bound_by_uid_or_reserved_by_name() {
    assert_eq!(outcomes("claim-uid", "Delete"), [ReclaimOutcome::Deleted]);
    assert_eq!(outcomes("an-earlier-claim", "Delete"), []);
    assert_eq!(outcomes("", "Delete"), [ReclaimOutcome::DependsOnBinding]);
    assert_eq!(outcomes("", "Retain"), []);
}

#[test]
fn a_policy_that_changes_counts_if_it_is_set_before_the_claim_is_gone_or_if_the_old_one_keeps_the_volume() {
    let outcome = |before: &str, after: &str, is_certain: bool, is_first: bool| {
        let volume = volume(json!({"persistentVolumeReclaimPolicy": before, "csi": {}}), true);
        let change = PolicyChange { policy: after.to_owned(), is_certain, is_first };
        outcome_with(&volume, &PolicyChanges::from([(volume.object.id.clone(), change)]))
    };
    assert_eq!(outcome("Retain", "Delete", true, false), ReclaimOutcome::Deleted);
    assert_eq!(outcome("Retain", "Delete", false, true), ReclaimOutcome::DependsOnPolicy);
    assert_eq!(outcome("Delete", "Retain", true, true), ReclaimOutcome::Retained);
    assert_eq!(outcome("Delete", "Retain", true, false), ReclaimOutcome::DependsOnPolicy);
    assert_eq!(outcome("Delete", "Delete", false, false), ReclaimOutcome::Deleted);
}
