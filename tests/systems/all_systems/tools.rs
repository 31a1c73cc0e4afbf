//! Helm, kapp, kubectl's ApplySets, qbec and fluxd at work.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::schemes::applyset;
use test_support::chart::chart;
use test_support::cluster::LIMIT;
use test_support::folder::folder;
use xtask::controlplane::bin;

use super::copies::parents;
use super::{apply, cluster, config_map, deployment, kubectl};
use crate::fluxd::repository::{Collection, Repository, paths};
use crate::qbec::app::App;

/// Runs a tool against the cluster and gives what it prints.
pub(crate) fn run(tool: &str, words: &str) -> String {
    let home = folder("systems-home");
    let mut command = Command::new(bin(tool));
    command.args(words.split(' ')).env("KUBECONFIG", cluster().kubeconfig()).env("HOME", home);
    let output = command.env("KUBECTL_APPLYSET", "true").env("KUBERC", "off").output().expect("the tool runs");
    assert!(output.status.success(), "{tool} {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Writes manifests to a file and gives its path.
fn file(name: &str, manifests: &[String]) -> String {
    let file = folder(&format!("systems-{name}")).join("all.yaml");
    fs::write(&file, manifests.concat()).unwrap();
    file.display().to_string()
}

/// Release `plain`, upgraded to a chart without an object that is to be kept; release `removed`, uninstalled except for
/// such an object.
pub(crate) fn helm() {
    kubectl("create namespace helm");
    let keep = ", annotations: {helm.sh/resource-policy: keep}";
    let hook = ", annotations: {helm.sh/hook: pre-install}";
    let staying = [config_map("", "listed", ""), config_map("", "both", ""), parents("", "")].concat();
    let first = [&*staying, &config_map("", "kept", keep), &config_map("", "hook", hook)].concat();
    let chart = |name, version, manifests: &str| chart(name, version, manifests).display().to_string();
    run("helm", &format!("install plain {} -n helm", chart("plain", "0.1.0", &first)));
    run("helm", &format!("upgrade plain {} -n helm", chart("plain", "0.2.0", &staying)));
    run("helm", &format!("install removed {} -n helm", chart("removed", "0.1.0", &config_map("", "spared", keep))));
    run("helm", "uninstall removed -n helm");
}

/// App `shop` with a Deployment, an object that Flux applies too, and one that it let go; app `lost`, whose record is gone.
pub(crate) fn kapp() {
    let freed = config_map("kapp", "freed", ", annotations: {kapp.k14s.io/delete-strategy: orphan}");
    let both = [config_map("kapp", "listed", ""), config_map("kapp", "both", "")].concat();
    let staying = [both, deployment("kapp", "web", "", ""), parents("kapp", "")].concat();
    let deploy =
        |app: &str, file: String| run("kapp", &format!("deploy -a {app} -n kapp -f {file} --yes --wait=false"));
    deploy("shop", file("kapp-1", &[staying.clone(), freed]));
    deploy("shop", file("kapp-2", &[staying]));
    deploy("lost", file("kapp-3", &[config_map("kapp", "of-lost", "")]));
    kubectl("delete configmap lost -n kapp");
}

/// Set `set` with an object that Flux applies too, and a copy of a member in another namespace, applied by kubectl; set
/// `lost`, whose parent is gone.
pub(crate) fn apply_sets() {
    kubectl("create namespace elsewhere");
    let apply_set = |set: &str, file: String| {
        run("kubectl", &format!("apply --prune --applyset={set} -n applyset -f {file}"));
    };
    let id = applyset::id_of(&ObjectId::new("", "Secret", "applyset", "set"));
    let web = deployment("applyset", "web", &format!(", applyset.kubernetes.io/part-of: {id}"), "");
    let both = [config_map("applyset", "listed", ""), config_map("applyset", "both", "")].concat();
    let staying = [both, web, parents("applyset", "")].concat();
    apply_set("set", file("applyset-1", &[staying.clone(), config_map("applyset", "pruned", "")]));
    apply_set("set", file("applyset-2", &[staying]));
    apply_set("lost", file("applyset-3", &[config_map("applyset", "of-lost", "")]));
    kubectl("delete secret lost -n applyset");
    let label = format!(", labels: {{applyset.kubernetes.io/part-of: {id}}}");
    apply(&[], &config_map("elsewhere", "listed", &label));
}

/// Objects that kubectl would prune from `set` if only `listed` were applied.
pub(crate) fn pruned_by_applyset() -> BTreeSet<String> {
    let file = file("applyset-4", &[config_map("applyset", "listed", "")]);
    let said = run("kubectl", &format!("apply --prune --applyset=set -n applyset -f {file} --dry-run=server"));
    let names = said.lines().filter_map(|line| line.strip_suffix(" pruned (server dry run)"));
    let row = |name: &str| {
        let (kind, name) = name.split_once('/').unwrap();
        format!("applyset {}/{name}", kind_of(kind))
    };
    names.map(row).collect()
}

/// fluxd with path `a`, which once had path `b` alone, and environment `dev` of the application `qbec`, which has an object
/// in common with it.
pub(crate) fn fluxd_and_qbec() {
    let repository = Repository::new(&cluster(), "systems-fluxd");
    repository.write("a/ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: fluxd}\n");
    repository.write("a/held.yaml", &config_map("fluxd", "held", ""));
    repository.write("a/listed.yaml", &config_map("fluxd", "listed", ""));
    repository.write("a/both.yaml", &config_map("fluxd", "both", ""));
    repository.write("a/parents.yaml", &parents("fluxd", ""));
    repository.write("b/ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: fluxd}\n");
    repository.write("b/drifted.yaml", &config_map("fluxd", "drifted", "")).push();
    repository.sync(&paths(&["b"]), Collection::On);
    // qbec goes first: it takes what kubectl applied last for its own and would remove fluxd's mark.
    qbec();
    let config = paths(&["a"]);
    repository.sync(&config, Collection::On);
    let uid = kubectl("get namespace fluxd -o jsonpath={.metadata.uid}");
    let reference = format!(
        r#"{{"metadata":{{"ownerReferences":[{{"apiVersion":"v1","kind":"Namespace","name":"fluxd","uid":"{uid}"}}]}}}}"#
    );
    cluster().kubectl(&["patch", "configmap", "held", "-n", "fluxd", "--type=merge", "-p", &reference]).unwrap();
    repository.remove("a/held.yaml").push();
    let log = repository.sync(&config, Collection::On);
    assert!(log.deleted().is_empty(), "fluxd never collects what has an owner reference: {}", log.0);
    run_fluxd(&repository.url());
}

/// A Deployment of that fluxd in the cluster.
fn run_fluxd(url: &str) {
    let args = format!(", args: ['--git-url={url}', '--git-path=a']");
    apply(&["--server-side"], &deployment("fluxd", "fluxd", "", &args));
    let pod = || kubectl("get pod -n fluxd -l app=fluxd -o name");
    cluster().wait_for("the Pod of fluxd", LIMIT, || Ok(!pod().is_empty())).unwrap();
    // The part of the kubelet, without which no fluxd counts as running.
    let ready = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
    cluster()
        .kubectl(&["patch", pod().trim(), "-n", "fluxd", "--subresource=status", "--type=merge", "-p", ready])
        .unwrap();
    kubectl("wait deployment fluxd -n fluxd --for=condition=Available --timeout=60s");
}

/// Environment `dev` of the application `qbec`, with one object whose tag someone emptied, so that no run selects it.
fn qbec() {
    let app = App::new(&cluster(), "qbec");
    let marks = ", qbec.io/application: qbec, qbec.io/environment: dev";
    let web = deployment("qbec", "web", marks, "") + &parents("qbec", "");
    app.component("web", &[config_map("qbec", "listed", ""), config_map("qbec", "untagged", ""), web].concat());
    app.component("both", &config_map("fluxd", "both", "")).apply(&[]);
    kubectl("label configmap untagged -n qbec qbec.io/tag=");
}

/// Objects that `qbec delete` would delete.
pub(crate) fn deleted_by_qbec() -> BTreeSet<String> {
    let app = App::new(&cluster(), "qbec");
    app.component("both", &config_map("fluxd", "both", ""));
    let row = |name: String| {
        let words: Vec<&str> = name.split(' ').collect();
        format!("{} {}/{}", words.get(3).unwrap_or(&"-"), kind_of(words[0].trim_end_matches('s')), words[1])
    };
    app.deleted(&["delete", "-n", "dev"]).into_iter().map(row).collect()
}

/// The kind that a tool writes in lower case, with or without its group.
fn kind_of(word: &str) -> &'static str {
    let kinds = ["ConfigMap", "Secret", "Service", "Deployment", "Widget", "Namespace"];
    let named = |kind: &&str| word.split('.').next().is_some_and(|word| kind.eq_ignore_ascii_case(word));
    kinds.into_iter().find(named).unwrap_or_else(|| panic!("an unexpected kind: {word}"))
}
