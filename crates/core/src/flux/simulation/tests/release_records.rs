//! Releases whose records Helm cannot read, or which say something else than the status of the HelmRelease.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cm, set};
use super::releases::{installed, record, tree};
use super::upgrades::{self, deployed, templates, without};
use crate::kubernetes::object::{ManagedFieldsEntry, Resource};
use crate::plan::{Outcome, Plan};
use crate::testing::{Build, object, resource_type};

/// Returns a record of a revision with these ConfigMaps; without them one that is damaged.
fn stored(revision: i64, names: Option<&[&str]>) -> Resource {
    let manifest = |name: &&str| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    let data = names.map_or_else(String::new, |names| {
        let manifest: String = names.iter().map(manifest).collect();
        json!({"version": revision, "info": {"status": "deployed"}, "manifest": manifest}).to_string()
    });
    let secret = object("", "Secret", NS, &format!("sh.helm.release.v1.app.v{revision}"));
    let secret = secret.label("owner", "helm").label("name", "app").label("status", "deployed");
    secret.with_content(json!({"data": {"release": STANDARD.encode(STANDARD.encode(data))}}))
}

/// Adds a second record, and gives both this content.
fn with_records(mut cluster: TestCluster, records: [Resource; 2]) -> TestCluster {
    let mut second = record();
    second["metadata"]["name"] = "sh.helm.release.v1.app.v2".into();
    cluster.add(&second, None);
    cluster.kustomization("app").content["status"]["history"][0]["version"] = 2.into();
    cluster.release_records.insert("app".to_owned(), records.into());
    cluster.snapshot.normalise();
    cluster
}

fn release(plan: &Plan) -> (Outcome, String) {
    let row = plan.owners().iter().find(|row| row.owner.kind == "HelmRelease").unwrap();
    (row.outcome, row.reason.to_string())
}

#[test]
fn an_uninstall_reads_the_last_record_that_is_not_damaged() {
    let gone: Files = vec![("root/x.yaml", vec![cm("x")])];
    let rows = |old: Option<&[&str]>, new: Option<&[&str]>| {
        with_records(installed(json!({})), [stored(1, old), stored(2, new)]).rows(&gone)
    };
    let [first, second] = ["sh.helm.release.v1.app.v1", "sh.helm.release.v1.app.v2"];
    let all: &[&str] = &["web", "kept"];
    let intact = ["delete app", "delete web", "delete dependent", "keep kept"].map(str::to_owned);
    let with_both = [format!("delete {first}"), format!("delete {second}")];
    assert_eq!(rows(Some(&["web"]), Some(all)), intact.iter().cloned().chain(with_both).collect());
    let one_stays = [format!("keep {first}"), format!("delete {second}")];
    assert_eq!(rows(None, Some(all)), intact.into_iter().chain(one_stays).collect());
    let stays = [format!("delete {first}"), format!("keep {second}")];
    let last_damaged = ["delete app", "keep web", "keep kept"].map(str::to_owned);
    assert_eq!(rows(Some(&["kept"]), None), last_damaged.iter().cloned().chain(stays).collect(), "web is not in it");
    let both_stay = [format!("keep {first}"), format!("keep {second}")];
    assert_eq!(rows(None, None), last_damaged.into_iter().chain(both_stay).collect());
    let plan = with_records(installed(json!({})), [stored(1, None), stored(2, None)]).plan(&gone);
    let (outcome, reason) = release(&plan);
    assert_eq!(outcome, Outcome::Deleted);
    assert!(reason.starts_with("owner-stuck: ") && reason.contains("cannot read any of its records"), "{reason}");
}

#[test]
fn a_release_is_not_installed_beside_a_damaged_record_of_its_name() {
    let other_name = tree(json!({"releaseName": "other"}));
    let cluster = with_records(installed(json!({})), [stored(1, None), stored(2, Some(&["web", "kept"]))]);
    let [first, second] = ["keep sh.helm.release.v1.app.v1", "delete sh.helm.release.v1.app.v2"];
    assert_eq!(cluster.rows(&other_name), set(&["delete web", "delete dependent", "keep kept", first, second]));
}

#[test]
fn an_upgrade_begins_with_what_the_records_have() {
    let cluster = |old: Option<&[&str]>, new: Option<&[&str]>| {
        with_records(deployed(upgrades::spec(json!({}))), [stored(1, old), stored(2, new)])
    };
    let after = upgrades::tree("2", &without("extra"), upgrades::spec(json!({})));
    let all: &[&str] = &["web", "kept", "extra"];
    assert_eq!(cluster(None, Some(all)).rows(&after), set(&["delete extra"]), "an older record plays no part");
    assert_eq!(cluster(Some(all), Some(&["web", "kept"])).rows(&after), set(&["keep extra"]), "it was changed by hand");
    for (old, why) in [(Some(all), "sh.helm.release.v1.app.v2 -n flux-system exists"), (None, "cannot read any")] {
        let plan = cluster(old, None).plan(&after);
        let (outcome, reason) = release(&plan);
        assert_eq!((outcome, plan.summary().delete), (Outcome::Blocked, 0));
        assert!(reason.starts_with("record-unusable: ") && reason.contains(why), "{reason}");
    }
}

#[test]
fn what_only_the_crds_of_a_chart_have_is_not_of_the_release() {
    let beside = |mut cluster: TestCluster| {
        cluster.add(&cm("beside"), None);
        let entry = ManagedFieldsEntry { manager: "kubectl".into(), ..Default::default() };
        cluster.object("beside").managed_fields = vec![entry];
        let status = &mut cluster.kustomization("app").content["status"];
        for entry in ["flux-system_beside__ConfigMap", "_absent__ConfigMap"] {
            status["inventory"]["entries"].as_array_mut().unwrap().push(json!({"id": entry, "v": "v1"}));
        }
        cluster.snapshot.normalise();
        cluster
    };
    let gone: Files = vec![("root/x.yaml", vec![cm("x")])];
    let all: &[&str] = &["web", "kept"];
    let cluster = with_records(beside(installed(json!({}))), [stored(1, Some(all)), stored(2, Some(all))]);
    let [first, second] = ["delete sh.helm.release.v1.app.v1", "delete sh.helm.release.v1.app.v2"];
    let rows = ["delete app", "delete web", "delete dependent", "keep kept", "keep beside", first, second];
    assert_eq!(cluster.rows(&gone), set(&rows));
    let unread = beside(installed(json!({}))).rows(&gone);
    assert!(unread.contains("delete? beside"), "without the records it is not known: {unread:?}");
    let spec = || upgrades::spec(json!({}));
    let mut cluster = beside(deployed(spec()));
    let all: &[&str] = &["web", "kept", "extra"];
    let crds: (&str, Vec<Value>) = ("charts/app/crds/x.yaml", vec![cm("beside")]);
    let with_crds = |version: &str, names: &[upgrades::Template]| {
        let mut files = upgrades::tree(version, names, spec());
        files.push(crds.clone());
        files
    };
    cluster.history = Some(with_crds("1", &templates()));
    let cluster = with_records(cluster, [stored(1, Some(all)), stored(2, Some(all))]);
    assert_eq!(cluster.rows(&with_crds("2", &without("extra"))), set(&["delete extra"]));
    assert_eq!(cluster.rows(&with_crds("1", &templates())), set(&[]), "its record is the one in the status");
}

#[test]
fn a_secret_in_the_way_of_its_record_prevents_an_installation() {
    let before: Files = vec![("root/x.yaml", vec![cm("x")])];
    let after = upgrades::tree("1", &templates(), upgrades::spec(json!({})));
    let outcome = |name: &str| {
        let mut cluster = super::unfollowed::cluster(&before, false);
        let mut secret: Value = record();
        secret["metadata"] = json!({"name": name, "namespace": NS});
        cluster.add(&secret, None);
        cluster.add(&cm("web"), None);
        cluster.snapshot.normalise();
        release(&cluster.plan(&after)).0
    };
    assert_eq!(outcome("sh.helm.release.v1.app.v1"), Outcome::Blocked);
    assert_ne!(outcome("sh.helm.release.v1.app.v2"), Outcome::Blocked);
}

/// Returns a quota that allows a number of Secrets, of which one exists.
fn quota(before: u8, after: u8) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": NS},
        "spec": {"hard": {"count/secrets": after.to_string()}},
        "status": {"hard": {"count/secrets": before.to_string()}, "used": {"count/secrets": "1"}}})
}

/// Returns a cluster with a release whose next record gets this answer, under a quota that allows a number of Secrets.
fn answered(answer: Option<&'static str>, hard: Option<u8>) -> TestCluster {
    let mut cluster = deployed(upgrades::spec(json!({})));
    cluster.add(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}}), None);
    cluster.snapshot.types.push(resource_type("", "ResourceQuota", "resourcequotas", true));
    if let Some(hard) = hard {
        cluster.add(&quota(hard, hard), None);
        cluster.content.insert("few".to_owned(), quota(hard, hard));
    }
    cluster.upgrades = Some(answer.map(|message| ("sh.helm.release.v1.app.v2", message)).into_iter().collect());
    cluster.snapshot.normalise();
    cluster
}

const FULL: &str = "secrets \"sh.helm.release.v1.app.v2\" is forbidden: exceeded quota: few, requested: count/secrets=1, \
    used: count/secrets=1, limited: count/secrets=1";

#[test]
fn an_upgrade_whose_record_the_server_refuses_deletes_nothing() {
    let after = upgrades::tree("2", &without("extra"), upgrades::spec(json!({})));
    let denied = "secrets \"x\" is forbidden: User \"u\" cannot create resource \"secrets\" in API group \"\"";
    for (answer, hard) in [(FULL, Some(1)), (denied, None)] {
        let plan = answered(Some(answer), hard).plan(&after);
        let (outcome, reason) = release(&plan);
        assert_eq!((outcome, plan.summary().delete), (Outcome::Blocked, 0), "{reason}");
        assert!(reason.contains("sh.helm.release.v1.app.v2") && plan.is_complete(), "{reason}");
    }
    assert_eq!(answered(None, Some(2)).rows(&after), set(&["delete extra"]));
    let with_values = upgrades::tree("2", &without("extra"), upgrades::spec(json!({"x": 1})));
    assert_eq!(answered(Some(FULL), Some(1)).plan(&with_values).summary().delete, 0, "no step is recorded");
    assert_eq!(answered(None, Some(2)).rows(&with_values), set(&["delete? extra"]), "there may be two steps");
}

#[test]
fn a_quota_that_the_change_touches_may_have_no_room_for_a_record() {
    let rows = |cluster: &TestCluster, beside: Vec<Value>| {
        let mut after = upgrades::tree("2", &without("extra"), upgrades::spec(json!({})));
        after[0].1.extend(beside);
        cluster.rows(&after)
    };
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": NS}});
    assert_eq!(rows(&answered(None, Some(2)), vec![secret.clone()]), set(&["delete? extra"]));
    assert_eq!(rows(&answered(None, Some(3)), vec![secret]), set(&["delete extra"]));
    assert_eq!(rows(&answered(None, None), vec![quota(1, 1)]), set(&["delete? extra"]), "it is new");
    assert_eq!(rows(&answered(None, Some(5)), vec![quota(5, 1)]), set(&["delete? extra"]), "it is lowered");
    assert_eq!(rows(&answered(None, Some(5)), vec![quota(5, 3)]), set(&["delete extra"]));
    assert_eq!(rows(&answered(Some(FULL), Some(1)), vec![quota(1, 5)]), set(&["delete extra"]), "it is raised");
}
