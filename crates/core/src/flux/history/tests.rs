//! The verdict follows from the commits, from what the owners applied, and from the Events.

use std::collections::BTreeSet;

use super::evidence::{Applied, ControllerEvent, unobstructed};
use super::{Commit, Presence, Removal, Search, Verdict, WhyGone};
use crate::flux::source::matching::commit_of;
use crate::kubernetes::object::{ObjectId, parse_time};
use crate::plan::Action;
use crate::testing;
use chrono::DateTime;
use serde_json::json;

fn object() -> ObjectId {
    ObjectId::new("", "ConfigMap", "shop", "a")
}

fn owner() -> ObjectId {
    ObjectId::new("kustomize.toolkit.fluxcd.io", "Kustomization", "flux-system", "apps")
}

fn event(message: &str) -> ControllerEvent {
    ControllerEvent {
        at: DateTime::UNIX_EPOCH,
        by: "kustomize-controller".to_owned(),
        owner: owner(),
        revision: None,
        reason: "Progressing".to_owned(),
        message: message.to_owned(),
    }
}

fn applied(has_commit: Option<bool>) -> Applied {
    let (revision, first) = ("main@sha1:1".to_owned(), None);
    Applied { owner: owner(), revision, has_commit, first, suspended: false, ready: true }
}

fn verdict(removal: Option<Action>, last: bool, applied: Vec<Applied>, events: Vec<ControllerEvent>) -> Verdict {
    let removal = removal.map(|action| Removal { action: Some(action), ..Removal::default() });
    let owners = BTreeSet::from([owner()]);
    let search = Search { owners, removal, last: last.then(Commit::default), ..Search::default() };
    WhyGone::new(search, object(), Presence::Gone, applied, events, DateTime::UNIX_EPOCH).verdict
}

#[test]
fn a_commit_deletes_what_its_owner_applied_and_prunes() {
    let delete = Some(Action::Delete);
    assert_eq!(verdict(delete, true, vec![], vec![]), Verdict::DeletedByCommit);
    assert_eq!(verdict(delete, true, vec![applied(Some(true))], vec![]), Verdict::DeletedByCommit);
    assert_eq!(verdict(delete, true, vec![applied(None)], vec![]), Verdict::DeletedByCommit, "not known");
    assert_eq!(verdict(delete, true, vec![applied(Some(false))], vec![]), Verdict::NotApplied);
    assert_eq!(verdict(Some(Action::Keep), true, vec![], vec![]), Verdict::LeftBehind);
    assert_eq!(verdict(None, true, vec![], vec![]), Verdict::Declared);
    assert_eq!(verdict(None, false, vec![], vec![]), Verdict::NotFound);
    let told = vec![event("ConfigMap/shop/a deleted")];
    assert_eq!(
        verdict(delete, true, vec![applied(Some(false))], told),
        Verdict::DeletedByCommit,
        "the controller says it"
    );
    let other = ControllerEvent {
        owner: ObjectId::new("kustomize.toolkit.fluxcd.io", "Kustomization", "tenant", "apps"),
        ..event("ConfigMap/shop/a deleted")
    };
    assert_eq!(verdict(delete, true, vec![applied(Some(false))], vec![other]), Verdict::NotApplied, "of another owner");
}

#[test]
fn an_event_is_about_an_object_if_a_line_says_that_it_is_deleted() {
    let about = |message: &str| event(message).about(&object(), []).map(|event| event.message);
    let line = "ConfigMap/shop/a deleted";
    assert_eq!(about("Service/shop/a deleted\nConfigMap/shop/a deleted"), Some(line.to_owned()));
    assert_eq!(about("ConfigMap/shop/a configured"), None);
    assert_eq!(about("ConfigMap/shop/a deleted later"), None);
    assert_eq!(about("ConfigMap/shop/aa deleted"), None);
    let namespace = ObjectId::new("", "Namespace", "", "shop");
    assert!(event("Namespace/shop deleted").about(&namespace, []).is_some());
    let uninstall = || ControllerEvent { reason: "UninstallSucceeded".to_owned(), ..event("Helm uninstall succeeded") };
    assert!(uninstall().about(&object(), [owner()]).is_some());
    assert!(uninstall().about(&object(), []).is_none(), "the release of another owner");
}

#[test]
fn the_earliest_time_that_proves_the_commit_is_read() {
    let entry = |revision: &str, first: &str, last: &str| {
        json!({"firstReconciled": format!("2026-01-{first}T00:00:00Z"), "lastReconciled": format!("2026-01-{last}T00:00:00Z"),
            "metadata": {"revision": format!("main@sha1:{revision}")}})
    };
    // A build that is older than the commit was applied again at a revision with it.
    let history = json!([entry("c", "06", "07"), entry("b", "01", "08"), entry("a", "02", "03")]);
    let status = json!({"lastAppliedRevision": "main@sha1:c", "history": history});
    let full = testing::flux_object("Kustomization", json!({"spec": {"suspend": true}, "status": status}), &[]);
    let owner = full.object.id.clone();
    let snapshot = testing::snapshot(vec![], vec![full]);
    let has = |revision: &str| commit_of(revision).map(|commit| commit != "a");
    let landed = parse_time("2026-01-05T00:00:00Z");
    let read = Applied::read(&owner, &snapshot, landed, has).unwrap();
    assert_eq!(read.first.unwrap().to_rfc3339(), "2026-01-06T00:00:00+00:00");
    assert_eq!((read.has_commit, read.suspended), (Some(true), true));
    let undated = Applied::read(&owner, &snapshot, None, has).unwrap();
    assert_eq!(undated.first.unwrap().to_rfc3339(), "2026-01-07T00:00:00+00:00");
    assert_eq!(Applied::read(&object(), &snapshot, landed, has), None, "an owner that is gone");
}

#[test]
fn older_revisions_are_played_on_a_cluster_that_holds_nothing_back() {
    let status = json!({"lastAppliedRevision": "main@sha1:c", "history": [], "conditions": [
        {"type": "Ready", "status": "False", "reason": "BuildFailed"}]});
    let full = testing::flux_object("Kustomization", json!({"spec": {"suspend": true}, "status": status}), &[]);
    let owner = full.object.id.clone();
    let snapshot = testing::snapshot(vec![testing::object("", "ConfigMap", "shop", "a")], vec![full]);
    let free = unobstructed(&snapshot, |id| *id == object());
    let released = free.resource(&owner).unwrap();
    assert!(!released.flag("/spec/suspend") && released.at("/status/history").is_none());
    assert_eq!(released.condition("Ready").unwrap().status, "True");
    assert!(free.object(&object()).is_none());
}
