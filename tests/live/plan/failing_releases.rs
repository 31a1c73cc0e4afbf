//! Releases whose uninstall the API server refuses, and releases after a rollback, compared with what the real
//! helm-controller does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::releases::objects;
use test_support::chart::chart;
use test_support::cluster::LIMIT;
use test_support::flux::{applied, begin, settled};
use test_support::folder::folder;
use test_support::tree_plan::{document, plan, rows};
use xtask::cluster::{Cluster, Flux, Options};
use xtask::controlplane::{bin, ensure};

const TEMPLATES: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: held}
---
apiVersion: v1
kind: Service
metadata: {name: goes}
spec: {ports: [{port: 80}]}
---
{{ if .Values.extra }}
apiVersion: v1
kind: Service
metadata: {name: extra}
spec: {ports: [{port: 80}]}
{{ end }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: frozen}
immutable: true
data: {v: "{{ .Values.frozen }}"}
"#;

/// An account that may do everything with the objects of the release but delete ConfigMaps, or but delete the records.
fn account(namespace: &str, undeletable: &str) -> String {
    let others: Vec<&str> =
        ["configmaps", "services", "secrets"].into_iter().filter(|kind| *kind != undeletable).collect();
    format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: tenant, namespace: {namespace}}}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: tenant, namespace: {namespace}}}\nrules:\n\
         - {{apiGroups: [''], resources: [{undeletable}], verbs: [get, list, watch, create, update, patch]}}\n\
         - {{apiGroups: [''], resources: [{}], verbs: ['*']}}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: tenant, namespace: {namespace}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant}}\n\
         subjects: [{{kind: ServiceAccount, name: tenant, namespace: {namespace}}}]\n",
        others.join(", ")
    )
}

fn write(tree: &Path, namespace: &str, fields: &str) {
    let manifest = format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: app, namespace: {namespace}}}\nspec:\n  \
         interval: 1h\n  timeout: 20s\n  chartRef: {{kind: OCIRepository, name: web}}\n  install: {{disableWait: true}}\n{fields}"
    );
    fs::write(tree.join("app.yaml"), manifest).unwrap();
    fs::write(tree.join("x.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n").unwrap();
}

fn condition(cluster: &Cluster, namespace: &str, kind: &str, status: &str) {
    let path = format!(
        "jsonpath={{.metadata.generation}} {{.status.observedGeneration}} {{.status.conditions[?(@.type==\"{kind}\")].status}}"
    );
    let probe = || {
        let found = cluster.kubectl(&["get", "helmrelease", "app", "-n", namespace, "-o", &path])?;
        let words: Vec<&str> = found.split_whitespace().collect();
        Ok(words.len() == 3 && words[0] == words[1] && words[2] == status)
    };
    cluster.wait_for(&format!("{kind} {status} of the release in {namespace}"), LIMIT, probe).unwrap();
}

fn publish(cluster: &Cluster, namespace: &str, tree: &Path) {
    let revision = cluster.publish(&format!("GitRepository/{namespace}/src"), tree).unwrap();
    applied(cluster, namespace, "apps", &revision);
}

/// Namespaces of releases that are uninstalled, with the kind that their account may not delete.
const REFUSED: [(&str, &str); 2] = [("fr-object", "configmaps"), ("fr-records", "secrets")];
const ROLLED_BACK: &str = "fr-rolled-back";
/// Fields of a release that is rolled back if the value `frozen` changes.
const FROZEN_B: &str =
    "  values: {extra: true, frozen: b}\n  upgrade: {disableWait: true, remediation: {retries: 1}}\n";

#[test]
fn refused_uninstalls_and_upgrades_after_a_rollback_delete_what_was_planned() {
    ensure(&["helm"]).unwrap();
    let options = Options { flux: Flux::All, source_service: true, ..Options::default() };
    let cluster = &Cluster::up(options).expect("the test cluster comes up");
    let (archive, helm) = (chart("web", "0.1.0", TEMPLATES), format!("--helm={}", bin("helm").display()));
    let namespaces = REFUSED.iter().map(|(namespace, _)| *namespace).chain([ROLLED_BACK]);
    let trees: BTreeMap<&str, PathBuf> =
        namespaces.map(|namespace| (namespace, folder(&format!("tree-{namespace}")))).collect();
    for (namespace, tree) in &trees {
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        cluster.publish(&format!("OCIRepository/{namespace}/web"), &archive).unwrap();
        let refused = REFUSED.iter().find(|(name, _)| name == namespace);
        if let Some((_, kind)) = refused {
            cluster.kubectl_stdin(&["apply", "-f", "-"], &account(namespace, kind)).unwrap();
        }
        let account = if refused.is_some() { "  serviceAccountName: tenant\n" } else { "" };
        let first = FROZEN_B.replace("frozen: b", "frozen: a");
        write(tree, namespace, &format!("{account}{first}"));
        begin(cluster, namespace, tree);
        settled(cluster, namespace, "apps");
        condition(cluster, namespace, "Ready", "True");
    }
    let rolled_back = &trees[ROLLED_BACK];
    write(rolled_back, ROLLED_BACK, FROZEN_B);
    publish(cluster, ROLLED_BACK, rolled_back);
    condition(cluster, ROLLED_BACK, "Stalled", "True");
    condition(cluster, ROLLED_BACK, "Remediated", "True");

    let before = objects(cluster);
    let certain = |namespace: &str| -> BTreeSet<String> {
        let run = plan(cluster, namespace, &trees[namespace], &[&helm]);
        let document = document(&run);
        assert_eq!(document["complete"], true, "{namespace}: {}", document["gaps"]);
        let owner = document["owners"].as_array().unwrap().iter().find(|row| row["kind"] == "HelmRelease").cloned();
        let code = owner.map(|owner| owner["reason"]["code"].to_string());
        let expected = if namespace == ROLLED_BACK { "\"release-upgraded\"" } else { "\"owner-stuck\"" };
        assert_eq!(code.as_deref(), Some(expected), "{namespace}: {}", run.stdout);
        rows(&run).into_keys().filter(|row| !row.starts_with("keep") && !row.contains("Endpoint")).collect()
    };
    for (namespace, _) in REFUSED {
        fs::remove_file(trees[namespace].join("app.yaml")).unwrap();
    }
    write(rolled_back, ROLLED_BACK, &FROZEN_B.replace("frozen: b", "frozen: a").replace("extra: true", "extra: false"));
    let set = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<BTreeSet<String>>();
    let services = ["delete HelmRelease/app", "delete Service/extra", "delete Service/goes"];
    assert_eq!(certain("fr-object"), set(&services));
    let mut purged = set(&services);
    purged.extend(set(&["delete ConfigMap/frozen", "delete ConfigMap/held"]));
    assert_eq!(certain("fr-records"), purged);
    let record = "sh.helm.release.v1.app.v1";
    let upgraded = ["delete Service/extra", &format!("delete Secret/{record}"), "update HelmRelease/app"];
    assert_eq!(certain(ROLLED_BACK), set(&upgraded));

    trees.iter().for_each(|(namespace, tree)| publish(cluster, namespace, tree));
    condition(cluster, ROLLED_BACK, "Ready", "True");
    std::thread::sleep(Duration::from_secs(8));
    let after = objects(cluster);
    let gone: BTreeSet<&str> = before
        .iter()
        .filter(|(uid, what)| !after.contains_key(*uid) && !what.contains("Endpoint"))
        .map(|(_, what)| what.as_str())
        // The API server deletes the address of a Service with it.
        .filter(|what| !what.starts_with("IPAddress/"))
        .collect();
    let expected = BTreeSet::from([
        "HelmRelease/fr-object/app",
        "Service/fr-object/extra",
        "Service/fr-object/goes",
        "HelmRelease/fr-records/app",
        "Service/fr-records/extra",
        "Service/fr-records/goes",
        "ConfigMap/fr-records/frozen",
        "ConfigMap/fr-records/held",
        "Service/fr-rolled-back/extra",
        "Secret/fr-rolled-back/sh.helm.release.v1.app.v1",
    ]);
    assert_eq!(gone, expected);
    for (namespace, _) in REFUSED {
        let stays = cluster.kubectl(&["get", "helmrelease", "app", "-n", namespace, "-o", "name"]);
        assert!(stays.is_ok(), "the HelmRelease in {namespace} stays terminating");
    }
}
