use serde_json::{Value, json};

use super::*;
use crate::kubernetes::snapshot::ClusterIdentity;
use crate::plan::document::Certainty;
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
fn the_policy_and_the_type_decide() {
    let rows = [
        (json!({"persistentVolumeReclaimPolicy": "Delete", "csi": {}}), true, ReclaimOutcome::Deleted),
        (json!({"persistentVolumeReclaimPolicy": "Delete", "nfs": {}}), true, ReclaimOutcome::Deleted),
        (json!({"persistentVolumeReclaimPolicy": "Delete", "csi": {}}), false, ReclaimOutcome::Driven),
        (json!({"persistentVolumeReclaimPolicy": "Delete", "cinder": {}}), false, ReclaimOutcome::Driven),
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
        assert_eq!(fate(&volume(spec.clone(), provisioned)), expected, "{spec}");
    }
}

/// Reason and certainty of every row of a plan in which the claim goes in this way, and the number of its gaps.
fn rows(action: Action, volumes: Vec<Resource>) -> (Vec<String>, usize) {
    let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
    snapshot.objects = volumes.iter().map(|full| full.object.clone()).chain([claim()]).collect();
    snapshot.full = volumes.into_iter().filter(|full| full.at("/spec").is_some()).collect();
    snapshot.normalise();
    let change = Change {
        action,
        certainty: Certainty::Certain,
        object: PinnedObject::from(&claim()),
        owner: None,
        by: Actor::KustomizeController,
        reason: "gone".to_owned(),
        cause: None,
    };
    let plan = told(Plan::new(ClusterIdentity::default(), vec![], vec![], vec![change]), &snapshot);
    let line = |change: &Change| format!("{} {}: {}", change.action, change.object.id.name, change.reason);
    (plan.changes.iter().map(line).collect(), plan.gaps.len())
}

fn bound(policy: &str) -> Resource {
    let reference = json!({"namespace": "shop", "name": "data", "uid": "claim-uid"});
    volume(json!({"persistentVolumeReclaimPolicy": policy, "claimRef": reference}), true)
}

#[test]
fn what_stays_has_a_row_and_a_claim_that_comes_back_is_empty() {
    let retained = "keep pv: retained: its data stays, and nothing binds it again by itself";
    assert_eq!(rows(Action::Delete, vec![bound("Retain")]), (vec![retained.into(), "delete data: gone".into()], 0));
    assert_eq!(rows(Action::Keep, vec![bound("Retain")]).0, ["keep data: gone"]);
    let lost = "recreate data: gone; it comes back empty: the data in persistentvolume/pv is lost";
    assert_eq!(rows(Action::Recreate, vec![bound("Delete")]).0, [lost]);
    let kept = "recreate data: gone; it comes back empty: the data in persistentvolume/pv stays";
    assert_eq!(rows(Action::Recreate, vec![bound("Retain")]).0, [retained, kept]);
}

#[test]
fn a_volume_belongs_to_the_claim_of_its_uid_or_is_reserved_by_name() {
    let reference = |uid: &str| json!({"namespace": "shop", "name": "data", "uid": uid});
    let found = |uid: &str, policy: &str| {
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        let spec = json!({"persistentVolumeReclaimPolicy": policy, "claimRef": reference(uid)});
        snapshot.full = vec![volume(spec, true)];
        Volumes::new(&snapshot).of(&claim()).into_iter().map(|(_, fate)| fate).collect::<Vec<_>>()
    };
    assert_eq!(found("claim-uid", "Delete"), [ReclaimOutcome::Deleted]);
    assert_eq!(found("an-earlier-claim", "Delete"), []);
    assert_eq!(found("", "Delete"), [ReclaimOutcome::Reserved]);
    assert_eq!(found("", "Retain"), []);
}

#[test]
fn an_old_recording_without_specs_is_a_gap_where_a_claim_goes() {
    let old = || Resource { content: json!({}), ..bound("Delete") };
    assert_eq!(rows(Action::Delete, vec![old()]).1, 1);
    assert_eq!(rows(Action::Keep, vec![old()]).1, 0);
    assert_eq!(rows(Action::Delete, vec![bound("Delete")]).1, 0);
}
