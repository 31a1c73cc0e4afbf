//! Edge cases and changes of the configuration, done by the real fluxd.

use std::collections::{BTreeMap, BTreeSet};

use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::schemes::flux_v1::{GitSource, MARK, mark, resource_id};
use serde_json::Value;
use test_support::comparison::{Table, compare, snapshot};
use test_support::gitops::Run;
use xtask::cluster::Cluster;

use super::repository::{Collection, Config, Repository, paths};
use super::{cluster, repository};

pub(crate) fn manifest(api: &str, kind: &str, namespace: &str, name: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
    format!("---\napiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}{namespace}}}\n")
}

pub(crate) fn cm(namespace: &str, name: &str) -> String {
    manifest("v1", "ConfigMap", namespace, name)
}

pub(crate) fn namespace(name: &str) -> String {
    manifest("v1", "Namespace", "", name)
}

pub(crate) fn kubectl(args: &str) -> String {
    cluster().kubectl(&args.split(' ').collect::<Vec<_>>()).unwrap()
}

/// Creates an object that carries the mark of a resource id under a configuration, and annotations.
pub(crate) fn plant(yaml: &str, repository: &Repository, config: &Config, id: &str, annotations: &str) {
    let source =
        GitSource { url: repository.url_of(config), branch: config.branch.to_owned(), paths: config.paths.clone() };
    let labels = format!("{{labels: {{{MARK}: {}}}, annotations: {{{annotations}}}, ", mark(&source.sync_set(), id));
    cluster().kubectl_stdin(&["create", "-f", "-"], &yaml.replacen('{', &labels, 1)).unwrap();
}

const CRDS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: services.serving.knative.dev}
spec:
  group: serving.knative.dev
  scope: Namespaced
  names: {kind: Service, plural: services}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: allowlists.x.example.com}
spec:
  group: x.example.com
  scope: Namespaced
  names: {kind: AllowList, plural: allowlists}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
";

/// Defines the types that several tests need.
pub(crate) fn define_types(cluster: &Cluster) {
    cluster.kubectl_stdin(&["create", "-f", "-"], CRDS).unwrap();
    cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]).unwrap();
}

#[test]
fn objects_that_fluxd_treats_apart() {
    let _cluster = cluster();
    let mut table = Table::default();
    let repository = repository("apart");
    let config = paths(&[]);
    kubectl("create namespace apart");
    kubectl("create configmap adopted -n apart");
    repository.write("ns.yaml", &namespace("apart")).write("plain.yaml", &cm("apart", "plain"));
    repository.write("adopted.yaml", &cm("apart", "adopted"));
    repository.write(
        "git.yaml",
        &[
            manifest("serving.knative.dev/v1", "Service", "apart", "twelve"),
            manifest("extensions/v1beta1", "Ingress", "apart", "fourteen") + "spec: {}\n",
            manifest("rbac.authorization.k8s.io/v1", "ClusterRole", "nowhere", "fifteen") + "rules: []\n",
            manifest("x.example.com/v1", "AllowList", "apart", "eighteen"),
            manifest("rbac.authorization.k8s.io/v1", "Role", "apart", "ignt") + "rules: []\n",
        ]
        .concat(),
    );
    repository.push().sync(&config, Collection::Off);
    repository.remove("plain.yaml").remove("adopted.yaml").push();

    let put = |yaml: &str, id: &str, annotations: &str| plant(yaml, &repository, &config, id, annotations);
    let with = |name: &str, annotations: &str| put(&cm("apart", name), &format!("apart:configmap/{name}"), annotations);
    put(&cm("apart", "copied"), "apart:configmap/plain", "");
    with("ignore-true", "fluxcd.io/ignore: 'true'");
    with("ignore-upper", "fluxcd.io/ignore: 'True'");
    with("ignore-false", "fluxcd.io/ignore: 'false'");
    with("sync-only", "flux.weave.works/ignore: sync_only");
    with("locked", "fluxcd.io/locked: 'true'");
    with("owned", "");
    let uid = kubectl("get namespace apart -o jsonpath={.metadata.uid}");
    let owner = format!(
        r#"{{"metadata":{{"ownerReferences":[{{"apiVersion":"v1","kind":"Namespace","name":"apart","uid":"{uid}"}}]}}}}"#
    );
    cluster().kubectl(&["patch", "configmap", "owned", "-n", "apart", "--type=merge", "-p", &owner]).unwrap();
    put(&manifest("v1", "Endpoints", "apart", "eight"), "apart:endpoints/eight", "");
    put(&(manifest("v1", "Service", "apart", "twelve") + "spec: {ports: [{port: 80}]}\n"), "apart:service/twelve", "");
    let ingress = manifest("networking.k8s.io/v1", "Ingress", "apart", "fourteen")
        + "spec: {defaultBackend: {service: {name: a, port: {number: 1}}}}\n";
    put(&ingress, "apart:ingress/fourteen", "");
    put(&manifest("x.example.com/v1", "AllowList", "apart", "eighteen"), "apart:allowlist/eighteen", "");
    put(&(manifest("rbac.authorization.k8s.io/v1", "Role", "apart", "ignT") + "rules: []\n"), "apart:role/ignT", "");
    kubectl("create configmap stripped -n apart");

    let theirs = repository.sync(&config, Collection::Dry).deleted();
    let recorded = snapshot(&cluster(), "apart");
    let run = repository.plan(&config, &[]);
    let cases: [(&str, &str, bool, &str); 18] = [
        ("F1 marked", "apart:configmap/plain", true, "+not-in-manifests"),
        ("F2 copied mark", "apart:configmap/copied", false, ""),
        ("F3 ignore true", "apart:configmap/ignore-true", false, "protected"),
        ("F4 ignore True", "apart:configmap/ignore-upper", true, "protected"),
        ("F4 ignore false", "apart:configmap/ignore-false", true, "+not-in-manifests"),
        ("F5 sync_only under the old key", "apart:configmap/sync-only", false, "protected"),
        ("F6 locked", "apart:configmap/locked", true, "+not-in-manifests"),
        ("F7 any owner reference", "apart:configmap/owned", false, ""),
        ("F8 Endpoints", "apart:endpoints/eight", false, ""),
        ("F12 the id is in git in another group", "apart:service/twelve", false, ""),
        ("F14 the manifest's API is gone", "apart:ingress/fourteen", true, "desired"),
        ("F15 a namespace on a cluster-scoped manifest", "<cluster>:clusterrole/fifteen", false, ""),
        ("F18 a kind that ends in List", "apart:allowlist/eighteen", true, "desired"),
        ("F21 another name by case", "apart:role/ignT", true, "+not-in-manifests"),
        ("F21 the name in git", "apart:role/ignt", false, ""),
        ("F22 adopted, then removed from git", "apart:configmap/adopted", true, "+not-in-manifests"),
        ("F23 without a mark", "apart:configmap/stripped", false, ""),
        ("in git", "<cluster>:namespace/apart", false, ""),
    ];
    let ours = by_id(&recorded, &run);
    for (case, id, deletes, answer) in cases {
        assert_eq!(theirs.contains(id), deletes, "{case}: fluxd");
        let own = ours.get(id).map(String::as_str).unwrap_or_default();
        let code = own.split(':').next().unwrap_or_default();
        assert_eq!(code, answer, "{case}: ours");
        table.note(case, &format!("{:<8} {own}", if deletes { "deletes" } else { "keeps" }));
    }
    assert_eq!(theirs.len(), cases.iter().filter(|case| case.2).count(), "{theirs:?}");
    table.tell("fluxd-objects.txt");
}

/// Reason of the plan for each resource id, with `+` before deletions that are no cascades.
pub(crate) fn by_id(snapshot: &Snapshot, run: &Run) -> BTreeMap<String, String> {
    let rows = test_support::comparison::rows(run);
    let id =
        |uid: &str| snapshot.objects.iter().find(|object| *object.uid == *uid).map(|object| resource_id(&object.id));
    let words = |judged: Result<String, String>| judged.map_or_else(|kept| kept, |goes| format!("+{goes}"));
    rows.into_iter().filter_map(|(uid, judged)| Some((id(&uid)?, words(judged)))).collect()
}

/// Ids by what a preview says: relabelled, deleted, left behind, created.
fn preview(run: &Run) -> BTreeMap<String, BTreeSet<String>> {
    let plan: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in plan["changes"].as_array().unwrap() {
        assert_eq!(row["by"], "fluxd");
        let text = |key: &str| row["object"][key].as_str().unwrap().to_owned();
        let place = Some(text("namespace")).filter(|namespace| !namespace.is_empty()).unwrap_or("<cluster>".to_owned());
        let id = format!("{place}:{}/{}", text("kind").to_lowercase(), text("name"));
        ids.entry(row["action"].as_str().unwrap().to_owned()).or_default().insert(id);
    }
    ids
}

/// Changes that a sync made to the objects of a namespace, in the words of a preview.
fn happened(before: &Snapshot, after: &Snapshot, name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let marks = |snapshot: &Snapshot| -> BTreeMap<String, (String, String)> {
        let here = |namespace: &str, own: &str| namespace == name || (namespace.is_empty() && own == name);
        let marked = snapshot.objects.iter().filter(|object| here(&object.id.namespace, &object.id.name));
        let row = |object: &gitops_core::kubernetes::object::ObjectMetadata| {
            let mark = object.labels.get(MARK)?.to_owned();
            Some((resource_id(&object.id), (object.uid.to_string(), mark)))
        };
        marked.filter_map(row).collect()
    };
    let (before, after) = (marks(before), marks(after));
    let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for id in before.keys().chain(after.keys()) {
        let action = match (before.get(id), after.get(id)) {
            (Some((_, old)), Some((_, new))) if old != new => "update",
            (Some(_), None) => "delete",
            (None, Some(_)) => "create",
            _ => continue,
        };
        ids.entry(action.to_owned()).or_default().insert(id.clone());
    }
    ids
}

/// One change of a source: previewed from the old configuration, done by fluxd, compared.
pub(crate) struct Change<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) table: Table,
    pub(crate) namespace: &'a str,
}

impl Change<'_> {
    pub(crate) fn case(&mut self, case: &str, old: &Config, new: &Config, left_behind: &[&str]) {
        let files = self.repository.files(&new.paths);
        let mut args: Vec<String> = new.paths.iter().map(|path| format!("--new-git-path={path}")).collect();
        args.extend([
            format!("--new-git-branch={}", new.branch),
            "--new-git-url".to_owned(),
            self.repository.url_of(new),
        ]);
        if new.paths.is_empty() {
            args.push("--new-git-path=".to_owned());
        }
        args.extend(files);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let run = self.repository.plan(old, &args);
        assert!([0, 6].contains(&run.code), "{case}: {}", run.stderr);
        let mut said = preview(&run);
        let before = snapshot(&cluster(), self.namespace);
        let log = self.repository.sync(new, Collection::On);
        let after = snapshot(&cluster(), self.namespace);
        let kept = said.remove("keep").unwrap_or_default();
        let expected: BTreeSet<String> = left_behind.iter().map(|id| (*id).to_owned()).collect();
        assert_eq!(kept, expected, "{case}: left behind");
        assert_eq!(said, happened(&before, &after, self.namespace), "{case}: {}", log.0);
        let count = |action: &str| said.get(action).map_or(0, BTreeSet::len);
        let words = format!(
            "relabelled {} created {} deleted {} never collected {}",
            count("update"),
            count("create"),
            count("delete"),
            expected.len()
        );
        self.table.note(case, &words);
    }
}

#[test]
fn every_configuration_change() {
    let _cluster = cluster();
    let repository = repository("fdemo");
    let file = |path: &str, text: String| {
        repository.write(path, &text);
    };
    file("a/ns.yaml", namespace("fdemo"));
    file("a/cm.yaml", cm("fdemo", "acm"));
    file("b/cm.yaml", cm("fdemo", "bcm"));
    file("ab/cm.yaml", cm("fdemo", "abcm"));
    file("ba/ns.yaml", namespace("fdemo"));
    repository.push();
    let ab = paths(&["a", "b"]);
    repository.sync(&ab, Collection::On);
    let mut change = Change { repository: &repository, table: Table::default(), namespace: "fdemo" };
    let bcm = "fdemo:configmap/bcm";
    change.case("C1 path removed", &ab, &paths(&["a"]), &[bcm]);
    change.case("C2 back again", &paths(&["a"]), &ab, &[]);
    let ba = paths(&["b", "a"]);
    change.case("C3 paths reordered", &ab, &ba, &[]);
    repository.remove("b/cm.yaml").write("b/new.yaml", &cm("fdemo", "newcm")).push();
    let ba_ab = paths(&["b", "a", "ab"]);
    change.case("C4 path added while a file went", &ba, &ba_ab, &[bcm]);
    change.case("C5, C6 back to an old configuration: its orphan goes", &ba_ab, &ba, &["fdemo:configmap/abcm"]);
    change.case("C7 the paths' concatenation collides", &ba, &paths(&["ba"]), &[]);
    let main = Config { branch: "main", ..paths(&["a"]) };
    change.case("C12 branch changed", &paths(&["ba"]), &main, &[]);
    let masterx = |branch: &'static str, list: &[&str]| Config { branch, ..paths(list) };
    assert_eq!(set(&repository, &masterx("master", &["x"])), set(&repository, &masterx("masterx", &[])), "C13");
    change.table.note("C13 branch and path collide", "one set");
    change.table.tell("fluxd-changes.txt");
}

pub(crate) fn set(repository: &Repository, config: &Config) -> String {
    GitSource { url: repository.url_of(config), branch: config.branch.to_owned(), paths: config.paths.clone() }
        .sync_set()
}

#[test]
fn sources_that_fail_are_empty_or_are_limited() {
    let _cluster = cluster();
    let mut table = Table::default();
    let repository = repository("limited");
    repository.write("a/ns.yaml", &namespace("limited")).write("a/cm.yaml", &cm("limited", "acm"));
    repository.write("empty/.keep", "").push();
    let a = paths(&["a"]);
    let first = repository.sync(&a, Collection::Off);
    assert!(first.deleted().is_empty());

    let missing = repository.sync(&paths(&["nowhere"]), Collection::On);
    assert!(missing.deleted().is_empty() && missing.0.contains("unable to read root path"), "{}", missing.0);
    let ours = repository.plan(&paths(&["nowhere"]), &[]);
    assert_eq!(ours.code, 1, "{ours:?}");
    table.note("C8 a path that does not exist", "fluxd fails; ours: cannot read");

    repository.remove("a/cm.yaml").push();
    let log = repository.sync(&a, Collection::Dry);
    let recorded = snapshot(&cluster(), "limited");
    let difference = compare(&recorded, &log.deleted_uids(&recorded), &repository.plan(&a, &[]));
    assert_eq!(
        (difference.both, difference.only_theirs.len(), difference.only_ours.len()),
        (1, 0, 0),
        "{difference:?}"
    );
    table.add("C9 marked while collection was off", &difference);

    let limited = Config { allow_namespaces: vec!["default"], ..paths(&["a"]) };
    let log = repository.sync(&limited, Collection::Dry);
    assert_eq!(log.deleted(), BTreeSet::from(["<cluster>:namespace/limited".to_owned()]), "{}", log.0);
    let difference = compare(&recorded, &log.deleted_uids(&recorded), &repository.plan(&limited, &[]));
    assert!(difference.only_theirs["Namespace/limited"].starts_with("desired"), "{difference:?}");
    table.add("C10, F11 a namespace that is not allowed", &difference);

    let nothing = paths(&["empty"]);
    repository.write("empty/cm.yaml", &cm("limited", "ecm")).push().sync(&nothing, Collection::Off);
    repository.remove("empty/cm.yaml").push();
    let log = repository.sync(&nothing, Collection::Dry);
    let refused = repository.plan(&nothing, &[]);
    assert_eq!(refused.code, 6, "{refused:?}");
    let recorded = snapshot(&cluster(), "limited");
    let difference = compare(&recorded, &log.deleted_uids(&recorded), &repository.plan(&nothing, &["--allow-empty"]));
    assert_eq!((difference.both, difference.only_theirs.len()), (1, 0), "{difference:?}");
    table.add("C15 an empty path: refused without --allow-empty", &difference);

    let preview = ["--new-git-path=a", "--allow-empty", "-f", "/dev/null"];
    let run = repository.gitops(&nothing, &["prune", "flux-v1", "--yes"], &preview);
    assert_eq!(run.code, 6, "{run:?}");
    assert!(run.stderr.contains("fluxd itself will do this once its source changes"), "{}", run.stderr);

    // This tool finishes the job, and fluxd then finds nothing left to do.
    let run = repository.gitops(&nothing, &["prune", "flux-v1", "--yes", "--max-percent=100"], &["--allow-empty"]);
    assert_eq!((run.code, run.stdout.contains("configmap/ecm -n limited deleted")), (0, true), "{run:?}");
    assert!(repository.sync(&nothing, Collection::Dry).deleted().is_empty());
    table.tell("fluxd-limits.txt");
}
