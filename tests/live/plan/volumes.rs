//! Deletion of volumes, planned and then done by the real controllers: reclaim policies, claims of StatefulSets,
//! claims that come back, recordings, and users who may not read volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use test_support::cluster::up;
use test_support::flux::{self, deploy, publish};
use test_support::folder::folder;
use test_support::gitops::{Run, gitops, gitops_as};
use test_support::shared_cluster;
use test_support::tree_plan::{self, arguments, document, rows};
use xtask::cluster::{Cluster, Flux, Options};

const LIMIT: Duration = Duration::from_secs(90);

// The cluster of these tests with every controller of Kubernetes: those of claims and volumes are what this is about.
shared_cluster!(|| up(Options { flux: Flux::Kustomize, whole: true, ..Options::default() }));

/// A folder with data. Kubernetes deletes a `hostPath` whose path has `/tmp/` in it, as Cargo's folder for tests has.
fn data(name: &str) -> PathBuf {
    let data = folder(&format!("volumes-data-{name}"));
    assert!(data.to_str().unwrap().contains("/tmp/"), "{}", data.display());
    write(&data, "ledger", "precious");
    data
}

/// A volume that is made for a claim, as an administrator or a provisioner makes it.
fn volume(cluster: &Cluster, claim: (&str, &str), policy: &str, source: &str, provisioned: bool) -> String {
    let (namespace, name) = claim;
    let by = if provisioned { "pv.kubernetes.io/provisioned-by: kubernetes.io/host-path" } else { "" };
    let manifest = format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: {namespace}-{name}, annotations: {{{by}}}}}\nspec:\n  \
         capacity: {{storage: 1Gi}}\n  accessModes: [ReadWriteOnce]\n  storageClassName: ''\n  \
         persistentVolumeReclaimPolicy: {policy}\n  claimRef: {{namespace: {namespace}, name: {name}}}\n  {source}\n"
    );
    cluster.kubectl_stdin(&["create", "-f", "-"], &manifest).unwrap();
    format!("{namespace}-{name}")
}

fn host_path(path: &Path) -> String {
    format!("hostPath: {{path: {}}}", path.display())
}

fn claim(name: &str, annotations: &str, size: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\n\
         spec: {{storageClassName: '', accessModes: [ReadWriteOnce], resources: {{requests: {{storage: {size}}}}}}}\n"
    )
}

fn stateful_set(name: &str, policy: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: {name}}}\nspec:\n  replicas: 1\n  serviceName: {name}\n  \
         persistentVolumeClaimRetentionPolicy: {{whenDeleted: {policy}}}\n  selector: {{matchLabels: {{a: {name}}}}}\n  \
         template:\n    metadata: {{labels: {{a: {name}}}}}\n    spec: {{containers: [{{name: c, image: i}}]}}\n  \
         volumeClaimTemplates:\n  - metadata: {{name: data}}\n    \
         spec: {{storageClassName: '', accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}\n"
    )
}

fn write(tree: &Path, name: &str, content: &str) {
    std::fs::write(tree.join(name), content).unwrap();
}

fn wait_for_binding(cluster: &Cluster, volumes: &[String]) {
    for volume in volumes {
        let path = "jsonpath={.status.phase} {.spec.claimRef.uid}";
        let probe = || Ok(cluster.kubectl(&["get", "pv", volume, "-o", path])?.starts_with("Bound "));
        cluster.wait_for(&format!("{volume} to be bound"), LIMIT, probe).unwrap();
    }
}

fn phase(cluster: &Cluster, volume: &str) -> String {
    cluster.kubectl(&["get", "pv", volume, "-o", "jsonpath={.status.phase}", "--ignore-not-found"]).unwrap()
}

/// Uid to `Kind/name` of everything that a test has: in namespaces and of cluster-scoped names that begin alike.
fn objects(cluster: &Cluster, prefix: &str) -> BTreeMap<String, String> {
    let kinds = "pv,pvc,statefulsets,pods,controllerrevisions,configmaps,serviceaccounts,namespaces";
    let list: Value = serde_json::from_str(&cluster.kubectl(&["get", kinds, "-A", "-o", "json"]).unwrap()).unwrap();
    let text =
        |item: &Value, pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_own = |item: &&Value| {
        let namespace = text(item, "/metadata/namespace");
        let place = if namespace.is_empty() { text(item, "/metadata/name") } else { namespace };
        place.starts_with(prefix)
    };
    let row = |item: &Value| {
        (text(item, "/metadata/uid"), format!("{}/{}", text(item, "/kind"), text(item, "/metadata/name")))
    };
    list["items"].as_array().unwrap().iter().filter(is_own).map(row).collect()
}

fn plan(cluster: &Cluster, namespace: &str, tree: &Path, more: &[&str]) -> Run {
    tree_plan::plan(cluster, namespace, tree, &[more, &["--max-percent=100"]].concat())
}

/// Uids of what surely goes.
fn planned(run: &Run) -> BTreeSet<String> {
    let plan = document(run);
    let goes =
        |row: &&Value| row["certainty"] == "certain" && (row["action"] == "delete" || row["action"] == "recreate");
    let uid = |row: &Value| row["object"]["uid"].as_str().unwrap().to_owned();
    plan["changes"].as_array().unwrap().iter().filter(goes).map(uid).collect()
}

/// Waits until what was planned is gone and these volumes are in these phases; then nothing else may be gone.
fn compare(
    cluster: &Cluster,
    prefix: &str,
    before: &BTreeMap<String, String>,
    planned: &BTreeSet<String>,
    phases: &[(&str, &str)],
) {
    let left = || objects(cluster, prefix).into_iter().filter(|(uid, _)| planned.contains(uid)).collect::<Vec<_>>();
    let end = Instant::now() + LIMIT;
    while !left().is_empty() {
        assert!(Instant::now() < end, "planned and still there: {:?}", left());
        std::thread::sleep(Duration::from_millis(500));
    }
    for (volume, expected) in phases {
        let probe = || Ok(phase(cluster, volume) == *expected);
        cluster.wait_for(&format!("{volume} to be {expected}"), LIMIT, probe).unwrap();
    }
    // Long enough for a controller that would take more.
    std::thread::sleep(Duration::from_secs(3));
    let after = objects(cluster, prefix);
    let unexpected: Vec<_> =
        before.iter().filter(|(uid, _)| !after.contains_key(*uid) && !planned.contains(*uid)).collect();
    assert!(unexpected.is_empty(), "gone and not in the plan: {unexpected:?}");
    let unknown: Vec<_> = planned.iter().filter(|uid| !before.contains_key(*uid)).collect();
    assert!(unknown.is_empty(), "the plan names what was not there: {unknown:?}");
}

#[test]
fn volumes_go_or_stay_by_their_policy_and_claims_of_stateful_sets_by_theirs() {
    let (cluster, namespace, tree) = (&cluster(), "stores", folder("volumes-stores"));
    let shared = data("retained");
    let hidden = data("provisioned");
    let made = data("deleted");
    let (nfs, csi) = ("nfs: {server: nfs.example.com, path: /x}", "csi: {driver: x.example.com, volumeHandle: h}");
    let volumes = [
        volume(cluster, (namespace, "deleted"), "Delete", &host_path(&made), false),
        volume(cluster, (namespace, "provisioned"), "Delete", &host_path(&hidden), true),
        volume(cluster, (namespace, "retained"), "Retain", &host_path(&shared), false),
        volume(cluster, (namespace, "elsewhere"), "Delete", "hostPath: {path: /srv/data}", false),
        volume(cluster, (namespace, "nfs"), "Delete", nfs, false),
        volume(cluster, (namespace, "csi"), "Delete", csi, false),
        volume(cluster, (namespace, "recycled"), "Recycle", nfs, false),
        volume(cluster, (namespace, "stays"), "Delete", &host_path(&data("stays")), false),
        volume(cluster, (namespace, "data-drops-0"), "Delete", &host_path(&data("drops")), true),
        volume(cluster, (namespace, "data-keeps-0"), "Delete", &host_path(&data("keeps")), true),
    ];
    for name in ["deleted", "provisioned", "retained", "elsewhere", "nfs", "csi", "recycled", "stays"] {
        write(&tree, &format!("{name}.yaml"), &claim(name, "", "1Gi"));
    }
    write(&tree, "drops.yaml", &stateful_set("drops", "Delete"));
    write(&tree, "keeps.yaml", &stateful_set("keeps", "Retain"));
    deploy(cluster, namespace, &tree);
    wait_for_binding(cluster, &volumes);
    let owned = || {
        let path = "jsonpath={.metadata.ownerReferences[*].kind}";
        Ok(cluster.kubectl(&["get", "pvc", "data-drops-0", "-n", namespace, "-o", path])? == "StatefulSet")
    };
    cluster.wait_for("the claim to refer to its StatefulSet", LIMIT, owned).unwrap();
    let before = objects(cluster, namespace);

    for name in ["deleted", "provisioned", "retained", "elsewhere", "nfs", "csi", "recycled", "drops", "keeps"] {
        std::fs::remove_file(tree.join(format!("{name}.yaml"))).unwrap();
    }
    let run = plan(cluster, namespace, &tree, &[]);
    let found = rows(&run);
    let reclaimed = "reclaimed: its reclaim policy is Delete, so its data is deleted";
    let failed =
        "reclaim-failed: its reclaim policy is Delete, but nothing deletes volumes of its type; its data remains";
    let driven = "reclaimed: its reclaim policy is Delete, but no provisioner created it, so its driver decides";
    let expected = [
        ("delete PersistentVolume/stores-deleted", reclaimed),
        ("delete PersistentVolume/stores-provisioned", reclaimed),
        ("delete PersistentVolume/stores-data-drops-0", reclaimed),
        (
            "keep PersistentVolume/stores-retained",
            "retained: its data remains, and no claim can bind it until an administrator acts",
        ),
        ("keep PersistentVolume/stores-elsewhere", failed),
        ("keep PersistentVolume/stores-nfs", failed),
        ("delete? PersistentVolume/stores-csi", driven),
        ("keep PersistentVolume/stores-recycled", "recycled: its data is erased, and any claim can bind it again"),
    ];
    let volumes: BTreeMap<&str, &str> =
        found.iter().filter(|(row, _)| row.contains(" PersistentVolume/")).map(|(row, why)| (&**row, &**why)).collect();
    assert_eq!(volumes, expected.into_iter().collect(), "{}", run.stderr);
    assert_eq!(found["delete PersistentVolumeClaim/data-drops-0"], "dependent");
    assert!(!found.keys().any(|row| row.contains("keeps-0") && row.contains("Claim")), "{found:?}");
    let causes = document(&run);
    let row =
        causes["changes"].as_array().unwrap().iter().find(|row| row["object"]["name"] == "stores-deleted").unwrap();
    assert_eq!((&row["by"], &row["cause"]["name"]), (&"persistent-volume-controller".into(), &"deleted".into()));
    let words = arguments(namespace, &tree, &["--max-percent=100"]);
    let words: Vec<&str> = words.iter().map(|word| if word == "json" { "table" } else { word }).collect();
    let table = gitops(cluster, &words);
    let lines: Vec<String> =
        table.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let nested = [
        "delete PersistentVolumeClaim/retained",
        "keep PersistentVolume/stores-retained retained: its data remains, and no claim can bind it until an administrator \
         acts",
    ];
    assert!(lines.windows(2).any(|pair| pair == nested), "a volume stands below its claim: {table:?}");

    // A recording tells the same, and says so where it is too old to tell.
    recordings_tell_the_same(cluster, namespace, &tree, &run);

    publish(cluster, namespace, &tree);
    let phases = [
        ("stores-retained", "Released"),
        ("stores-elsewhere", "Failed"),
        ("stores-nfs", "Failed"),
        ("stores-csi", "Released"),
        ("stores-stays", "Bound"),
        ("stores-data-keeps-0", "Bound"),
    ];
    compare(cluster, namespace, &before, &planned(&run), &phases);
    assert!(!made.exists() && !hidden.exists(), "the data of deleted volumes is gone");
    assert_eq!(std::fs::read_to_string(shared.join("ledger")).unwrap(), "precious");
}

/// The same plan from a recording, which holds nothing of where volumes are; a gap from one without their specs.
fn recordings_tell_the_same(cluster: &Cluster, namespace: &str, tree: &Path, live: &Run) {
    let file = folder("volumes-recording").join("cluster.json");
    let name = file.to_str().unwrap();
    assert_eq!(gitops(cluster, &["snapshot", name]).code, 0);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("nfs.example.com") && text.contains("persistentVolumeReclaimPolicy"));
    let recorded = plan(cluster, namespace, tree, &["--snapshot", name]);
    assert_eq!(rows(&recorded), rows(live));
    let mut old: Value = serde_json::from_str(&text).unwrap();
    old["full"].as_array_mut().unwrap().retain(|full| full["object"]["kind"] != "PersistentVolume");
    std::fs::write(&file, old.to_string()).unwrap();
    let run = plan(cluster, namespace, tree, &["--snapshot", name]);
    let gaps = document(&run)["gaps"].to_string();
    assert!(gaps.contains("so the effect on them is unknown; record it again"), "{gaps}");
    assert!(!rows(&run).keys().any(|row| row.contains(" PersistentVolume/")));
}

#[test]
fn a_namespace_that_flux_removes_takes_claims_and_their_volumes_along() {
    let (cluster, namespace, tree) = (&cluster(), "annex", folder("volumes-annex"));
    let shop = "apiVersion: v1\nkind: Namespace\nmetadata: {name: annex-shop}\n";
    write(&tree, "shop.yaml", shop);
    write(&tree, "other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: annex}\n");
    cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    cluster.publish("GitRepository/annex/src", &tree).unwrap();
    let kustomization = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
                         metadata: {name: apps, namespace: annex}\n\
                         spec: {interval: 1h, path: ./, prune: true, sourceRef: {kind: GitRepository, name: src}}\n";
    cluster.kubectl_stdin(&["apply", "-f", "-"], kustomization).unwrap();
    flux::settled(cluster, namespace, "apps");
    // Nobody manages the claims: an operator or a person made them.
    let volumes = [
        volume(cluster, ("annex-shop", "data"), "Delete", &host_path(&data("annex-1")), true),
        volume(cluster, ("annex-shop", "kept"), "Retain", &host_path(&data("annex-2")), false),
    ];
    let claims = [claim("data", "", "1Gi"), claim("kept", "", "1Gi")].join("---\n");
    cluster.kubectl_stdin(&["create", "-n", "annex-shop", "-f", "-"], &claims).unwrap();
    wait_for_binding(cluster, &volumes);
    let before = objects(cluster, namespace);
    std::fs::remove_file(tree.join("shop.yaml")).unwrap();
    let run = plan(cluster, namespace, &tree, &[]);
    let found = rows(&run);
    assert!(found["delete PersistentVolume/annex-shop-data"].starts_with("reclaimed: "), "{found:?}");
    assert!(found["keep PersistentVolume/annex-shop-kept"].starts_with("retained: "), "{found:?}");
    publish(cluster, namespace, &tree);
    compare(cluster, namespace, &before, &planned(&run), &[("annex-shop-kept", "Released")]);
}

#[test]
fn a_claim_that_is_made_again_has_lost_its_data() {
    let (cluster, namespace, tree) = (&cluster(), "again", folder("volumes-again"));
    let force = "kustomize.toolkit.fluxcd.io/force: enabled";
    let lost = data("again");
    let volumes = [volume(cluster, (namespace, "ledger"), "Delete", &host_path(&lost), true)];
    write(&tree, "ledger.yaml", &claim("ledger", force, "1Gi"));
    write(&tree, "other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n");
    deploy(cluster, namespace, &tree);
    wait_for_binding(cluster, &volumes);
    let before = objects(cluster, namespace);
    // A claim cannot shrink, so it is deleted and made again.
    write(&tree, "ledger.yaml", &claim("ledger", force, "1Mi"));
    let run = plan(cluster, namespace, &tree, &["--diff"]);
    let found = rows(&run);
    let why = found.get("recreate PersistentVolumeClaim/ledger").unwrap_or_else(|| panic!("{run:?}"));
    assert!(why.starts_with("forced: "), "{why}");
    assert!(why.ends_with("the new claim is empty: the data in persistentvolume/again-ledger is lost"), "{why}");
    assert!(found.contains_key("delete PersistentVolume/again-ledger"), "{found:?}");
    publish(cluster, namespace, &tree);
    compare(cluster, namespace, &before, &planned(&run), &[]);
    let claims = cluster.kubectl(&["get", "pvc", "-n", namespace, "-o", "name"]).unwrap();
    assert_eq!(claims.trim(), "persistentvolumeclaim/ledger");
    assert!(!lost.exists());
}

#[test]
fn this_tool_takes_provisioned_volumes_along_and_keeps_claims_of_those_that_somebody_else_made() {
    let (cluster, namespace, tree) = (&cluster(), "leaked", folder("volumes-leaked"));
    let volumes = [
        volume(cluster, (namespace, "provisioned"), "Delete", &host_path(&data("leaked-1")), true),
        volume(cluster, (namespace, "made"), "Delete", &host_path(&data("leaked-2")), false),
        volume(cluster, (namespace, "retained"), "Retain", &host_path(&data("leaked-3")), false),
    ];
    flux::config_maps(&tree, 2);
    // What `flux::leak` takes away.
    write(&tree, "cm-0.yaml", &["provisioned", "made", "retained"].map(|name| claim(name, "", "1Gi")).join("---\n"));
    deploy(cluster, namespace, &tree);
    wait_for_binding(cluster, &volumes);
    flux::leak(cluster, namespace, &tree, 0);
    let before = objects(cluster, namespace);
    let arguments =
        |more: &[&'static str]| [&["prune", "-n", namespace, "--max-percent=100", "--allow=volumes"], more].concat();
    let run = gitops(cluster, &arguments(&["--plan", "-o", "json"]));
    let found = rows(&run);
    let expected = [
        ("delete PersistentVolumeClaim/provisioned", "leaked"),
        (
            "delete PersistentVolume/leaked-provisioned",
            "reclaimed: its reclaim policy is Delete, so its data is deleted",
        ),
        ("delete PersistentVolumeClaim/retained", "leaked"),
        (
            "keep PersistentVolume/leaked-retained",
            "retained: its data remains, and no claim can bind it until an administrator acts",
        ),
        (
            "keep PersistentVolumeClaim/made",
            "cascade: it would also delete persistentvolume/leaked-made, which no owner in this plan manages",
        ),
    ];
    let expected: BTreeMap<_, _> = expected.iter().map(|(row, why)| ((*row).to_owned(), (*why).to_owned())).collect();
    assert_eq!(found, expected, "{}", run.stderr);
    let done = gitops(cluster, &arguments(&["--yes"]));
    assert_eq!(done.code, 0, "{done:?}");
    compare(cluster, namespace, &before, &planned(&run), &[("leaked-retained", "Released"), ("leaked-made", "Bound")]);
}

#[test]
fn a_volume_that_goes_before_its_claim_hangs_until_the_claim_goes_too() {
    let (cluster, namespace, tree) = (&cluster(), "early", folder("volumes-early"));
    let path = data("early");
    let manifest = format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: early-ledger}}\nspec:\n  capacity: {{storage: 1Gi}}\n  \
         accessModes: [ReadWriteOnce]\n  persistentVolumeReclaimPolicy: Retain\n  storageClassName: ''\n  \
         claimRef: {{namespace: early, name: ledger}}\n  {}\n",
        host_path(&path)
    );
    write(&tree, "volume.yaml", &manifest);
    write(&tree, "ledger.yaml", &claim("ledger", "", "1Gi"));
    flux::config_maps(&tree, 1);
    deploy(cluster, namespace, &tree);
    wait_for_binding(cluster, &["early-ledger".to_owned()]);
    std::fs::remove_file(tree.join("volume.yaml")).unwrap();
    let run = plan(cluster, namespace, &tree, &[]);
    assert_eq!(rows(&run).keys().collect::<Vec<_>>(), ["delete PersistentVolume/early-ledger"]);
    let hangs = "warning: persistentvolume/early-ledger will stay terminating until a controller removes \
                 kubernetes.io/pv-protection; it is bound to persistentvolumeclaim/ledger -n early, which stays";
    assert!(run.stderr.contains(hangs), "{}", run.stderr);
    publish(cluster, namespace, &tree);
    let deleting = "jsonpath={.metadata.deletionTimestamp} {.metadata.finalizers}";
    let terminating = cluster.kubectl(&["get", "pv", "early-ledger", "-o", deleting]).unwrap();
    assert!(!terminating.starts_with(' ') && terminating.contains("pv-protection"), "{terminating}");
    let before = objects(cluster, namespace);
    std::fs::remove_file(tree.join("ledger.yaml")).unwrap();
    let run = plan(cluster, namespace, &tree, &[]);
    let found = rows(&run);
    assert!(found["delete PersistentVolume/early-ledger"].starts_with("released: "), "{found:?}");
    publish(cluster, namespace, &tree);
    compare(cluster, namespace, &before, &planned(&run), &[]);
    assert_eq!(std::fs::read_to_string(path.join("ledger")).unwrap(), "precious");
}

/// A Deployment and an Ingress that need the claim `ledger`, the ConfigMap `settings` and the Service `web`.
fn needing() -> String {
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  \
     template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers: [{name: c, image: i}]\n      volumes:\n      \
     - {name: a, persistentVolumeClaim: {claimName: ledger}}\n      - {name: b, configMap: {name: settings}}\n---\n\
     apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\n\
     spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}\n"
        .to_owned()
}

#[test]
fn a_claim_that_a_pod_mounts_stays_terminating_and_what_stays_is_named() {
    let (cluster, namespace, tree) = (&cluster(), "needed", folder("volumes-needed"));
    write(&tree, "web.yaml", &needing());
    write(&tree, "ledger.yaml", &claim("ledger", "", "1Gi"));
    write(&tree, "settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n");
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n\
                   spec: {selector: {app: web}, ports: [{port: 80}]}\n";
    write(&tree, "service.yaml", service);
    flux::config_maps(&tree, 3);
    deploy(cluster, namespace, &tree);
    let names = ["get", "pods", "-n", namespace, "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}"];
    cluster.wait_for("the Pod", LIMIT, || Ok(!cluster.kubectl(&names)?.is_empty())).unwrap();
    let pod = cluster.kubectl(&names).unwrap();
    cluster.kubectl_stdin(&["create", "-f", "-"], "apiVersion: v1\nkind: Node\nmetadata: {name: needed}\n").unwrap();
    let bind = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"Binding\", \"metadata\": {{\"name\": \"{pod}\"}}, \
         \"target\": {{\"kind\": \"Node\", \"name\": \"needed\"}}}}"
    );
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/binding");
    cluster.kubectl_stdin(&["create", "--raw", &path, "-f", "-"], &bind).unwrap();
    for removed in ["ledger.yaml", "settings.yaml", "service.yaml"] {
        std::fs::remove_file(tree.join(removed)).unwrap();
    }
    let run = plan(cluster, namespace, &tree, &["--allow=volumes"]);
    assert_eq!(run.code, 6, "{run:?}");
    let kept = format!("kept terminating while Pod {pod} mounts it");
    let found = rows(&run);
    assert!(found["delete PersistentVolumeClaim/ledger"].ends_with(&kept), "{found:#?}");
    let alarms: Vec<String> = document(&run)["alarms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|alarm| format!("{}: {}", alarm["code"].as_str().unwrap(), alarm["detail"].as_str().unwrap()))
        .collect();
    let expected = [
        format!("still-referenced: this deletes persistentvolumeclaim/ledger -n needed, which is {kept}"),
        "still-referenced: this deletes configmap/settings -n needed, which is still needed: \
         deployment.apps/web -n needed mounts it"
            .to_owned(),
        "still-referenced: this deletes service/web -n needed, which is still needed: \
         ingress.networking.k8s.io/web -n needed sends traffic to it"
            .to_owned(),
    ];
    assert_eq!(alarms, expected, "{}", run.stderr);
    publish(cluster, namespace, &tree);
    let gone = || Ok(cluster.kubectl(&["get", "cm,svc", "-n", namespace, "-o", "name"])?.matches('/').count() == 4);
    cluster.wait_for("the ConfigMap and the Service to go", LIMIT, gone).unwrap();
    let state = "jsonpath={.metadata.deletionTimestamp} {.metadata.finalizers}";
    let terminating = || cluster.kubectl(&["get", "pvc", "ledger", "-n", namespace, "--ignore-not-found", "-o", state]);
    cluster.wait_for("the deletion of the claim", LIMIT, || Ok(!terminating()?.starts_with(' '))).unwrap();
    std::thread::sleep(Duration::from_secs(5));
    assert!(terminating().unwrap().contains("pvc-protection"), "{}", terminating().unwrap());
    cluster.kubectl(&["delete", "pod", &pod, "-n", namespace, "--grace-period=0", "--force"]).unwrap();
    cluster.wait_for("the claim to go with its Pod", LIMIT, || Ok(terminating()?.is_empty())).unwrap();
}

#[test]
fn a_user_who_may_not_read_volumes_gets_a_gap() {
    let cluster = &cluster();
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: no-volumes}\n\
                rules: [{apiGroups: [''], resources: [namespaces, persistentvolumeclaims], verbs: [get, list]}]\n";
    cluster.kubectl_stdin(&["apply", "-f", "-"], role).unwrap();
    cluster.kubectl(&["create", "clusterrolebinding", "no-volumes", "--clusterrole=no-volumes", "--user=bob"]).unwrap();
    let run = gitops_as(&cluster.kubeconfig_for("bob"), &["prune", "--plan", "-o", "json"]);
    assert_eq!(run.code, 5, "{run:?}");
    let plan = document(&run);
    let gaps: Vec<_> =
        plan["gaps"].as_array().unwrap().iter().filter(|gap| gap["subject"] == "persistentvolumes").collect();
    assert_eq!((gaps.len(), gaps[0]["kind"].as_str()), (1, Some("forbidden")), "{gaps:?}");
}

#[test]
fn a_job_goes_with_its_pods_and_a_service_waits_for_its_load_balancer() {
    let (cluster, namespace, tree) = (&cluster(), "jobs", folder("volumes-jobs"));
    write(
        &tree,
        "job.yaml",
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: run}\n\
         spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n",
    );
    write(
        &tree,
        "service.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: web, finalizers: [service.kubernetes.io/load-balancer-cleanup]}\n\
         spec: {type: LoadBalancer, ports: [{port: 80}]}\n",
    );
    write(&tree, "other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n");
    deploy(cluster, namespace, &tree);
    let finalizers = "jsonpath={.items[*].metadata.finalizers}";
    let tracked = || Ok(cluster.kubectl(&["get", "pods", "-n", namespace, "-o", finalizers])?.contains("job-tracking"));
    cluster.wait_for("the job to track its pod", LIMIT, tracked).unwrap();
    std::fs::remove_file(tree.join("job.yaml")).unwrap();
    std::fs::remove_file(tree.join("service.yaml")).unwrap();
    let run = plan(cluster, namespace, &tree, &[]);
    let found = document(&run);
    let gone = |kind: &str| {
        found["changes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["action"] == "delete" && row["object"]["kind"] == kind)
    };
    assert!(gone("Job") && gone("Pod") && gone("Service"), "{run}");
    let held = found["blockedByFinalizers"].as_array().unwrap();
    assert_eq!(held.len(), 1, "{run}");
    assert_eq!(held[0]["detail"], "no cloud-controller-manager has a Lease in this cluster", "{run}");
    publish(cluster, namespace, &tree);
    let left = || Ok(cluster.kubectl(&["get", "jobs,pods", "-n", namespace, "-o", "name"])?.is_empty());
    cluster.wait_for("the job and its pod to be gone", LIMIT, left).unwrap();
    let deleting = "jsonpath={.metadata.deletionTimestamp}";
    assert_ne!(cluster.kubectl(&["get", "service", "web", "-n", namespace, "-o", deleting]).unwrap(), "");
}
