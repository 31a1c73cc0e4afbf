//! `get`, `suspend` and `resume` against the real API server and the real controllers of Flux.

mod support;

use std::path::Path;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::live::{self, LIMIT, Run, folder, gitops, gitops_as, gitops_typing};
use xtask::cluster::{Cluster, Flux, Options};

/// The cluster of this file, with source-controller, kustomize-controller and helm-controller.
fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let options = Options { flux: Flux::All, audit: true, ..Options::default() };
        Cluster::up(options).expect("the test cluster comes up")
    })
}

/// An object as JSON.
fn read(cluster: &Cluster, kind: &str, namespace: &str, name: &str) -> Value {
    let text = cluster.kubectl(&["get", kind, name, "-n", namespace, "-o", "json", "--show-managed-fields"]).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"]["reconcile.fluxcd.io/suspended"].as_str()
}

fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap()
}

/// How often a Kustomization was reconciled.
fn runs(object: &Value) -> i64 {
    let history = object["status"]["history"].as_array().map_or(&[][..], Vec::as_slice);
    history.iter().filter_map(|entry| entry["totalReconciliations"].as_i64()).sum()
}

/// The item of one object in `get -o json`.
fn item(cluster: &Cluster, namespace: &str, object: &str) -> Value {
    let run = gitops(cluster, &["get", object, "-n", namespace, "-o", "json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    assert_eq!(document["schema"], "kubectl-gitops/get/v1");
    document["items"][0].clone()
}

#[track_caller]
fn ok(run: &Run) -> &str {
    assert_eq!(run.code, 0, "{run:?}");
    &run.stdout
}

/// A Kustomization `apps` in a namespace of its own that applies the Kustomization `leaf`, which applies one ConfigMap
/// every three seconds.
fn nested(namespace: &str) -> &'static Cluster {
    let cluster = cluster();
    let tree = folder(namespace);
    std::fs::create_dir(tree.join("leaf")).unwrap();
    let leaf = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "leaf"},
        "spec": {"interval": "3s", "path": "./leaf", "prune": true, "targetNamespace": namespace,
                 "sourceRef": {"kind": "GitRepository", "name": "src"}},
    });
    std::fs::write(tree.join("leaf.json"), leaf.to_string()).unwrap();
    std::fs::write(tree.join("kustomization.yaml"), "resources: [leaf.json]\n").unwrap();
    live::config_maps(&tree.join("leaf"), 1);
    live::deploy(cluster, namespace, &tree);
    live::settled(cluster, namespace, "leaf");
    cluster
}

/// Lets the parent Kustomization apply everything once more.
fn reconcile_parent(cluster: &Cluster, namespace: &str, number: usize) {
    let token = format!("2026-01-01T00:00:{number:02}Z");
    let annotate = format!("reconcile.fluxcd.io/requestedAt={token}");
    let manager = "--field-manager=flux-client-side-apply";
    cluster.kubectl(&["annotate", "ks", "apps", "-n", namespace, "--overwrite", manager, &annotate]).unwrap();
    let handled = || Ok(read(cluster, "ks", namespace, "apps")["status"]["lastHandledReconcileAt"] == *token);
    cluster.wait_for(&format!("run {number} of the parent"), LIMIT, handled).unwrap();
}

#[test]
fn the_parents_next_applies_leave_the_annotation_but_not_one_by_a_kubectl_manager() {
    let cluster = nested("survives");
    let before = read(cluster, "ks", "survives", "leaf");
    let run = gitops(cluster, &["suspend", "kustomization", "leaf", "-n", "survives", "-m", "drill", "--yes"]);
    assert_eq!(ok(&run), "kustomization.kustomize.toolkit.fluxcd.io/leaf suspended\n");
    assert!(run.stderr.contains("no released Flux controller honours the annotation"), "{run:?}");
    for number in 0..5 {
        reconcile_parent(cluster, "survives", number);
        let now = read(cluster, "ks", "survives", "leaf");
        assert_eq!((annotation(&now), generation(&now)), (Some("drill"), generation(&before)), "after run {number}");
    }

    let leaf = ["ks", "leaf", "-n", "survives"];
    let remove = ["--overwrite", "--field-manager=gitops-suspend", "reconcile.fluxcd.io/suspended-"];
    cluster.kubectl(&[&["annotate"], &leaf[..], &remove[..]].concat()).unwrap();
    let add = ["--field-manager=kubectl-x", "reconcile.fluxcd.io/suspended=drill"];
    cluster.kubectl(&[&["annotate"], &leaf[..], &add[..]].concat()).unwrap();
    assert_eq!(annotation(&read(cluster, "ks", "survives", "leaf")), Some("drill"));
    reconcile_parent(cluster, "survives", 9);
    assert_eq!(annotation(&read(cluster, "ks", "survives", "leaf")), None, "the parent takes over what kubectl wrote");
}

#[test]
fn what_kustomize_controller_does_not_honour_is_told_with_its_evidence_and_spec_stops_it() {
    let cluster = nested("ignored");
    ok(&gitops(cluster, &["suspend", "ks/leaf", "-n", "ignored", "-m", "drill", "--yes"]));
    let told = || Ok(item(cluster, "ignored", "ks/leaf")["honoured"]["verdict"] == "not-honoured");
    cluster.wait_for("NOT HONOURED", LIMIT, told).unwrap();
    let table = gitops(cluster, &["get", "ks", "-n", "ignored"]);
    assert!(table.stdout.contains("annotation, NOT HONOURED"), "{table:?}");
    assert!(table.stderr.contains("a run started, by status.history"), "{table:?}");

    let before = read(cluster, "ks", "ignored", "leaf");
    let run = gitops(cluster, &["suspend", "ks/leaf", "-n", "ignored", "--spec"]);
    assert_eq!(ok(&run), "kustomization.kustomize.toolkit.fluxcd.io/leaf suspended\n");
    assert!(run.stderr.contains("the generation moved by one"), "{run:?}");
    let after = read(cluster, "ks", "ignored", "leaf");
    assert_eq!((generation(&after), annotation(&after)), (generation(&before) + 1, Some("drill")));
    // A run that was under way may end.
    std::thread::sleep(Duration::from_secs(3));
    let then = runs(&read(cluster, "ks", "ignored", "leaf"));
    std::thread::sleep(Duration::from_secs(10));
    assert_eq!(runs(&read(cluster, "ks", "ignored", "leaf")), then, "no run in three intervals");
    for number in 20..23 {
        reconcile_parent(cluster, "ignored", number);
    }
    let word = item(cluster, "ignored", "ks/leaf");
    assert_eq!((&word["suspension"]["by"], &word["ready"]), (&json!("both"), &json!("True")));

    let part = gitops(cluster, &["resume", "ks/leaf", "-n", "ignored"]);
    assert_eq!(part.code, 5, "{part:?}");
    assert!(part.stderr.contains("still suspended: spec.suspend is true; clear it with --spec"), "{part:?}");
    let whole = gitops(cluster, &["resume", "ks/leaf", "-n", "ignored", "--spec", "--wait", "--timeout", "60s"]);
    assert!(ok(&whole).ends_with("leaf reconciled\n"), "{whole:?}");
    assert_eq!(generation(&read(cluster, "ks", "ignored", "leaf")), generation(&after) + 1);
    assert!(runs(&read(cluster, "ks", "ignored", "leaf")) > then);
    let again = gitops(cluster, &["resume", "ks/leaf", "-n", "ignored", "--spec"]);
    assert!(ok(&again).ends_with("leaf unchanged\n"), "{again:?}");
}

#[test]
fn resume_waits_for_a_slow_reconcile_and_not_less() {
    let cluster = cluster();
    let tree = folder("slow");
    // The Kustomization waits for this Receiver, whose controller is us.
    let gate = json!({
        "apiVersion": "notification.toolkit.fluxcd.io/v1", "kind": "Receiver", "metadata": {"name": "gate"},
        "spec": {"type": "generic", "secretRef": {"name": "x"}, "resources": [{"kind": "Bucket", "name": "b"}]},
    });
    std::fs::write(tree.join("gate.json"), gate.to_string()).unwrap();
    std::fs::write(tree.join("kustomization.yaml"), "resources: [gate.json]\n").unwrap();
    let _ = cluster.kubectl(&["create", "namespace", "slow"]);
    cluster.publish("GitRepository/slow/src", &tree).unwrap();
    let apps = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "apps", "namespace": "slow"},
        "spec": {"interval": "1h", "timeout": "50s", "path": "./", "prune": true, "wait": true,
                 "targetNamespace": "slow", "sourceRef": {"kind": "GitRepository", "name": "src"}},
    });
    cluster.kubectl_stdin(&["apply", "-f", "-"], &apps.to_string()).unwrap();
    let open = |status: &str| {
        let ready = json!({"type": "Ready", "status": status, "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let generation = generation(&read(cluster, "receiver", "slow", "gate"));
        let patch = json!({"status": {"observedGeneration": generation, "conditions": [ready]}}).to_string();
        cluster
            .kubectl(&["patch", "receiver", "gate", "-n", "slow", "--subresource=status", "--type=merge", "-p", &patch])
            .unwrap();
    };
    let exists = || Ok(cluster.kubectl(&["get", "receiver", "gate", "-n", "slow"]).is_ok());
    cluster.wait_for("the gate", LIMIT, exists).unwrap();
    open("True");
    live::settled(cluster, "slow", "apps");

    ok(&gitops(cluster, &["suspend", "ks/apps", "-n", "slow", "--spec", "-m", "drill"]));
    open("Unknown");
    let start = Instant::now();
    let resumed = std::thread::scope(|scope| {
        let resume = scope.spawn(|| {
            let run = gitops(cluster, &["resume", "ks/apps", "-n", "slow", "--spec", "--wait"]);
            (run, start.elapsed())
        });
        std::thread::sleep(Duration::from_secs(6));
        assert!(!resume.is_finished(), "the reconcile is not done");
        open("True");
        resume.join().unwrap()
    });
    assert!(ok(&resumed.0).ends_with("apps reconciled\n"), "{resumed:?}");
    assert!(resumed.1 >= Duration::from_secs(6), "{resumed:?}");
    let object = read(cluster, "ks", "slow", "apps");
    let asked = &object["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"];
    assert_eq!(&object["status"]["lastHandledReconcileAt"], asked);

    open("Unknown");
    ok(&gitops(cluster, &["suspend", "ks/apps", "-n", "slow", "--spec", "-m", "drill"]));
    let late = gitops(cluster, &["resume", "ks/apps", "-n", "slow", "--spec", "--wait", "--timeout", "2s"]);
    assert_eq!(late.code, 5, "{late:?}");
    assert!(late.stderr.contains("not reconciled within 2s"), "{late:?}");
    open("True");
}

#[test]
fn helm_controller_and_source_controller_are_seen_not_to_honour_it_and_to_honour_spec() {
    let cluster = cluster();
    let chart = chart("podinfo");
    let _ = cluster.kubectl(&["create", "namespace", "others"]);
    cluster.publish("OCIRepository/others/podinfo", &chart).unwrap();
    let index = cluster.dir().join("artifacts/charts/index.yaml");
    std::fs::create_dir_all(index.parent().unwrap()).unwrap();
    std::fs::write(&index, "apiVersion: v1\nentries: {}\ngenerated: \"2026-01-01T00:00:00Z\"\n").unwrap();
    let source = read(cluster, "ocirepository", "others", "podinfo");
    let url = source["status"]["artifact"]["url"].as_str().unwrap();
    let url = format!("{}charts/", url.split_inclusive("/artifacts/").next().unwrap());
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "podinfo", "namespace": "others"},
         "spec": {"interval": "3s", "timeout": "2s", "chartRef": {"kind": "OCIRepository", "name": "podinfo"}}},
        {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository", "metadata": {"name": "charts", "namespace": "others"},
         "spec": {"interval": "3s", "timeout": "2s", "url": url}},
    ]});
    cluster.kubectl_stdin(&["apply", "-f", "-"], &objects.to_string()).unwrap();
    let both = ["hr/podinfo", "helmrepo/charts"];
    let ready = || Ok(both.iter().all(|object| item(cluster, "others", object)["ready"] == "True"));
    cluster.wait_for("release and repository ready", LIMIT, ready).unwrap();

    let suspend = [&["suspend"], &both[..], &["-n", "others", "-m", "drill", "--yes"]].concat();
    assert_eq!(ok(&gitops(cluster, &suspend)).lines().count(), 2);
    let told = |object: &str| item(cluster, "others", object)["honoured"]["verdict"] == "not-honoured";
    cluster.wait_for("NOT HONOURED", LIMIT, || Ok(both.iter().all(|object| told(object)))).unwrap();
    let what = |object: &str| item(cluster, "others", object)["honoured"]["what"].as_str().unwrap().to_owned();
    assert_eq!(what("hr/podinfo"), "helm-controller wrote the status");
    assert_eq!(what("helmrepo/charts"), "source-controller sent the event ArtifactUpToDate");

    ok(&gitops(cluster, &[&["suspend"], &both[..], &["-n", "others", "--spec"]].concat()));
    std::thread::sleep(Duration::from_secs(3));
    let version = || read(cluster, "hr", "others", "podinfo")["metadata"]["resourceVersion"].clone();
    let then = version();
    std::thread::sleep(Duration::from_secs(10));
    assert_eq!(version(), then, "helm-controller writes nothing in three intervals");
    let resumed =
        gitops(cluster, &[&["resume"], &both[..], &["-n", "others", "--spec", "--wait", "--timeout", "60s"]].concat());
    assert_eq!(ok(&resumed).lines().filter(|line| line.ends_with(" reconciled")).count(), 2, "{resumed:?}");
}

/// A chart with one ConfigMap, packed.
fn chart(name: &str) -> std::path::PathBuf {
    let folder = folder("chart");
    let templates = folder.join(name).join("templates");
    std::fs::create_dir_all(&templates).unwrap();
    std::fs::write(folder.join(name).join("Chart.yaml"), format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n"))
        .unwrap();
    let manifest = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: b}}\n");
    std::fs::write(templates.join("cm.yaml"), manifest).unwrap();
    let file = folder.join(format!("{name}-0.1.0.tgz"));
    let packed = Command::new("tar").arg("-C").arg(&folder).arg("-czf").arg(&file).arg(name).status().unwrap();
    assert!(packed.success());
    file
}

/// The example controller; it ends with the test.
struct Honouring(Child);

impl Honouring {
    fn start(cluster: &Cluster) -> Self {
        let program =
            Path::new(env!("CARGO_BIN_EXE_kubectl-gitops")).with_file_name("examples").join("honouring_controller");
        let mut command = Command::new(program);
        command.args(["notification.toolkit.fluxcd.io/v1", "Receiver", "1"]).env("KUBECONFIG", cluster.kubeconfig());
        Self(command.spawn().expect("the example was built"))
    }
}

impl Drop for Honouring {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_controller_that_honours_the_annotation_stops_sleeps_and_wakes() {
    let options = Options { flux: Flux::Crds, ..Options::default() };
    let cluster = &Cluster::up(options).unwrap();
    let receiver = receiver("default");
    cluster.kubectl_stdin(&["apply", "-f", "-"], &receiver.to_string()).unwrap();
    let controller = Honouring::start(cluster);
    let count = || {
        let object = read(cluster, "receiver", "default", "receiver");
        let message = object["status"]["conditions"][0]["message"].as_str().unwrap_or("run 0").to_owned();
        (message.trim_start_matches("run ").parse::<u64>().unwrap(), generation(&object))
    };
    cluster.wait_for("three runs", LIMIT, || Ok(count().0 >= 3)).unwrap();
    let gitops = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-gitops"));
        command.args(args).env("KUBECONFIG", cluster.kubeconfig()).env("KUBECTL_GITOPS_ANNOTATION_HONOURED", "true");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let before = count();
    assert_eq!(gitops(&["suspend", "receiver/receiver", "-m", "drill"]), "", "nothing to warn of");
    std::thread::sleep(Duration::from_secs(1));
    let asleep = count();
    assert_eq!(asleep.1, before.1, "the generation stands still");
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(count().0, asleep.0, "no run while suspended, although timers were set");
    gitops(&["suspend", "receiver/receiver", "-m", "longer drill", "--overwrite"]);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(count().0, asleep.0, "another message wakes nobody");
    assert!(!gitops(&["get", "receivers"]).contains("NOT HONOURED"));
    let start = Instant::now();
    gitops(&["resume", "receiver/receiver", "--wait"]);
    assert!(start.elapsed() < Duration::from_secs(5), "woken at once: {:?}", start.elapsed());
    assert!(count().0 > asleep.0);
    assert_eq!(count().1, before.1);
    drop(controller);
}

fn receiver(namespace: &str) -> Value {
    json!({
        "apiVersion": "notification.toolkit.fluxcd.io/v1", "kind": "Receiver",
        "metadata": {"name": "receiver", "namespace": namespace},
        "spec": {"type": "generic", "secretRef": {"name": "x"}, "resources": [{"kind": "Bucket", "name": "b"}]},
    })
}

/// A CRD for ArtifactGenerator, which no module of the control plane brings along.
const ARTIFACT_GENERATOR: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: artifactgenerators.source.extensions.fluxcd.io}
spec:
  group: source.extensions.fluxcd.io
  scope: Namespaced
  names: {kind: ArtifactGenerator, plural: artifactgenerators, singular: artifactgenerator, shortNames: [ag]}
  versions:
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

#[test]
fn every_kind_is_suspended_shown_and_resumed_on_the_real_api_server() {
    let cluster = &Cluster::up(Options { flux: Flux::Crds, ..Options::default() }).unwrap();
    cluster.kubectl_stdin(&["apply", "-f", "-"], ARTIFACT_GENERATOR).unwrap();
    cluster
        .kubectl(&["wait", "--for=condition=Established", "crd/artifactgenerators.source.extensions.fluxcd.io"])
        .unwrap();
    let git = json!({"kind": "GitRepository", "name": "x"});
    let source = |extra: Value| {
        let mut spec = json!({"interval": "1h", "url": "https://example.invalid/x"});
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        spec
    };
    let (on, switch, none) = ("spec", "switch", "nothing");
    let kinds = [
        (
            "fluxcd.controlplane.io/v1",
            "FluxInstance",
            switch,
            json!({"distribution": {"version": "2.x", "registry": "example.invalid/x"}}),
        ),
        (
            "fluxcd.controlplane.io/v1",
            "FluxReport",
            switch,
            json!({"distribution": {"entitlement": "x", "status": "x"}}),
        ),
        ("fluxcd.controlplane.io/v1", "ResourceSetInputProvider", switch, json!({"type": "Static"})),
        ("fluxcd.controlplane.io/v1", "ResourceSet", switch, json!({"resources": []})),
        ("source.toolkit.fluxcd.io/v1", "GitRepository", on, source(json!({}))),
        ("source.toolkit.fluxcd.io/v1", "OCIRepository", on, source(json!({"url": "oci://example.invalid/x"}))),
        (
            "source.toolkit.fluxcd.io/v1",
            "Bucket",
            on,
            json!({"interval": "1h", "bucketName": "b", "endpoint": "example.invalid"}),
        ),
        ("source.toolkit.fluxcd.io/v1", "HelmRepository", on, source(json!({}))),
        (
            "source.toolkit.fluxcd.io/v1",
            "HelmChart",
            on,
            json!({"interval": "1h", "chart": "x", "sourceRef": {"kind": "HelmRepository", "name": "x"}}),
        ),
        ("source.extensions.fluxcd.io/v1beta1", "ArtifactGenerator", switch, json!({"sources": [git]})),
        ("source.toolkit.fluxcd.io/v1", "ExternalArtifact", none, json!({"sourceRef": git})),
        (
            "kustomize.toolkit.fluxcd.io/v1",
            "Kustomization",
            on,
            json!({"interval": "1h", "prune": true, "sourceRef": git}),
        ),
        (
            "helm.toolkit.fluxcd.io/v2",
            "HelmRelease",
            on,
            json!({"interval": "1h", "chartRef": {"kind": "OCIRepository", "name": "x"}}),
        ),
        ("image.toolkit.fluxcd.io/v1", "ImageRepository", on, json!({"interval": "1h", "image": "example.invalid/x"})),
        (
            "image.toolkit.fluxcd.io/v1",
            "ImagePolicy",
            on,
            json!({"imageRepositoryRef": {"name": "x"}, "policy": {"semver": {"range": "*"}}}),
        ),
        (
            "image.toolkit.fluxcd.io/v1",
            "ImageUpdateAutomation",
            on,
            json!({"interval": "1h", "sourceRef": git, "git": {"commit": {"author": {"email": "x@example.invalid"}}}}),
        ),
        ("notification.toolkit.fluxcd.io/v1", "Receiver", on, receiver("default")["spec"].clone()),
        (
            "notification.toolkit.fluxcd.io/v1beta3",
            "Provider",
            on,
            json!({"type": "generic", "address": "https://example.invalid"}),
        ),
        (
            "notification.toolkit.fluxcd.io/v1beta3",
            "Alert",
            on,
            json!({"providerRef": {"name": "x"}, "eventSources": [{"kind": "Bucket", "name": "*"}]}),
        ),
    ];
    let known: Vec<_> = kubectl_gitops::flux::kinds::KINDS.iter().map(|kind| kind.kind).collect();
    assert_eq!(kinds.iter().map(|(_, kind, ..)| *kind).collect::<Vec<_>>(), known, "every kind is tested");

    for (api_version, kind, how, spec) in kinds {
        let name = if kind.starts_with("Flux") { "flux" } else { "x" };
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec});
        cluster
            .kubectl_stdin(&["apply", "-f", "-"], &object.to_string())
            .unwrap_or_else(|error| panic!("{kind}: {error:#}"));
        let target = format!("{kind}/{name}");
        let full = format!("{}.{}/{name}", kind.to_lowercase(), api_version.split_once('/').unwrap().0);
        let state = |by: Value| {
            let item = item(cluster, "default", &target);
            assert_eq!(item["suspension"]["by"], by, "{kind}: {item}");
            item
        };
        let before = generation(&read(cluster, kind, "default", name));
        state(json!(null));
        let run = gitops(cluster, &["suspend", &target, "-m", "drill", "--yes"]);
        if how == none {
            assert_eq!(run.code, 6, "{run:?}");
            assert!(run.stderr.contains("has nothing to suspend"), "{run:?}");
            continue;
        }
        assert_eq!(ok(&run), format!("{full} suspended\n"));
        let now = read(cluster, kind, "default", name);
        assert_eq!(
            (annotation(&now), generation(&now)),
            (Some("drill"), before),
            "{kind}: the generation stands still"
        );
        let item = state(json!(if how == on { "annotation" } else { "switch" }));
        let verdict = &item["honoured"]["verdict"];
        let expected = match kind {
            "Alert" | "Provider" => "unverifiable",
            _ if how == on => "no-evidence",
            _ => "honoured",
        };
        assert_eq!((verdict, &item["suspension"]["manager"]), (&json!(expected), &json!("gitops-suspend")), "{kind}");

        let run = gitops(cluster, &["suspend", &target, "--spec"]);
        let moved = i64::from(how == on);
        assert_eq!(ok(&run), format!("{full} {}\n", if how == on { "suspended" } else { "unchanged" }));
        assert_eq!(generation(&read(cluster, kind, "default", name)), before + moved, "{kind}");
        state(json!(if how == on { "both" } else { "switch" }));

        let run = gitops(cluster, &["resume", &target, "--spec"]);
        assert_eq!(ok(&run), format!("{full} resumed\n"), "{run:?}");
        let now = read(cluster, kind, "default", name);
        let asked = &now["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"];
        assert_eq!((annotation(&now), asked.is_string()), (None, true), "{kind}");
        assert_eq!(generation(&now), before + 2 * moved, "{kind}");
        state(json!(null));
    }
    let all = gitops(cluster, &["suspend", "--all", "-m", "everything", "--yes"]);
    assert_eq!(ok(&all).lines().count(), 18, "all but the external artifact: {all:?}");
    let table = gitops(cluster, &["get", "--suspended", "--no-headers"]);
    assert_eq!(ok(&table).lines().count(), 18, "{table:?}");
    let resumed = gitops(cluster, &["resume", "--all", "--yes"]);
    let place = |name: &str| ok(&resumed).find(name).unwrap_or_else(|| panic!("{name} in {resumed:?}"));
    assert!(place("gitrepository.") < place("kustomization."), "sources come first: {resumed:?}");
    assert!(place("imagerepository.") < place("imagepolicy."), "sources come first: {resumed:?}");
    ok(&gitops(cluster, &["suspend", "alert/x", "provider/x"]));
    let waited = gitops(cluster, &["resume", "alert/x", "provider/x", "--wait"]);
    assert_eq!(waited.stderr.matches("has no status to wait for").count(), 2, "{waited:?}");
}

#[test]
fn what_goes_wrong_is_said_and_the_rest_is_done() {
    let cluster = cluster();
    let _ = cluster.kubectl(&["create", "namespace", "wrong"]);
    for name in ["one", "two"] {
        let mut object = receiver("wrong");
        object["metadata"]["name"] = json!(name);
        cluster.kubectl_stdin(&["apply", "-f", "-"], &object.to_string()).unwrap();
    }
    let run = gitops(cluster, &["suspend", "receiver", "one", "nope", "two", "-n", "wrong", "-m", "a\n\u{1b}[31mb"]);
    assert_eq!((run.code, run.stdout.lines().count()), (5, 2), "{run:?}");
    assert!(run.stderr.contains("receivers.notification.toolkit.fluxcd.io \"nope\" not found"), "{run:?}");
    assert_eq!(annotation(&read(cluster, "receiver", "wrong", "one")), Some("a\n\u{1b}[31mb"), "stored as it is");
    let table = gitops(cluster, &["get", "-n", "wrong", "-o", "wide"]);
    assert!(table.stdout.contains("a…") && !table.stdout.contains('\u{1b}'), "{table:?}");

    let other = gitops(cluster, &["suspend", "receiver/one", "-n", "wrong", "-m", "mine"]);
    assert_eq!((other.code, other.stdout.as_str()), (6, ""), "{other:?}");
    assert!(other.stderr.contains("already suspended with another message: a…"), "{other:?}");
    ok(&gitops(cluster, &["suspend", "receiver/one", "-n", "wrong", "-m", "mine", "--overwrite", "--record-user"]));
    assert_eq!(item(cluster, "wrong", "receiver/one")["suspension"]["user"], "admin");
    ok(&gitops(cluster, &["resume", "receiver/one", "-n", "wrong"]));
    assert!(
        read(cluster, "receiver", "wrong", "one")["metadata"]["annotations"]["fluxcd.controlplane.io/suspendedBy"]
            .is_null()
    );

    let many = gitops(cluster, &["suspend", "--all", "-n", "wrong", "-m", "x", "--overwrite"]);
    assert_eq!(many.code, 6, "{many:?}");
    assert!(many.stderr.contains("no terminal to ask on"), "{many:?}");
    let dry = gitops(
        cluster,
        &["suspend", "receivers", "--all", "-n", "wrong", "-m", "x", "--overwrite", "--dry-run=server"],
    );
    assert_eq!(ok(&dry).matches("(server dry run)").count(), 2, "{dry:?}");
    assert_eq!(annotation(&read(cluster, "receiver", "wrong", "one")), None);
    let no = gitops_typing(cluster, &["suspend", "--all", "-n", "wrong", "-m", "x", "--overwrite"], "n");
    assert_eq!(no.code, 4, "{no:?}");
    assert_eq!(annotation(&read(cluster, "receiver", "wrong", "one")), None);
    let yes = gitops_typing(cluster, &["suspend", "--all", "-n", "wrong", "-m", "x", "--overwrite"], "y");
    assert_eq!(yes.code, 0, "{yes:?}");
    assert_eq!(annotation(&read(cluster, "receiver", "wrong", "one")), Some("x"));

    let nothing = gitops(cluster, &["get", "-n", "nowhere"]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (0, ""), "{nothing:?}");
    assert!(
        nothing.stderr.starts_with("No resources found in nowhere namespace.\nhint: there are some in "),
        "{nothing:?}"
    );
    let missing = gitops(cluster, &["get", "receiver/nope", "-n", "wrong"]);
    assert_eq!(missing.code, 1, "{missing:?}");
}

#[test]
fn rights_that_are_missing_are_named() {
    let cluster = cluster();
    let _ = cluster.kubectl(&["create", "namespace", "rights"]);
    cluster.kubectl_stdin(&["apply", "-f", "-"], &receiver("rights").to_string()).unwrap();
    let allow = |user: &str, verbs: &str| {
        let role = format!("receivers-{user}");
        let verbs = format!("--verb={verbs}");
        cluster
            .kubectl(&[
                "create",
                "role",
                &role,
                "-n",
                "rights",
                &verbs,
                "--resource=receivers.notification.toolkit.fluxcd.io",
            ])
            .unwrap();
        cluster
            .kubectl(&[
                "create",
                "rolebinding",
                &role,
                "-n",
                "rights",
                &format!("--role={role}"),
                &format!("--user={user}"),
            ])
            .unwrap();
    };
    allow("alice", "get,list");
    allow("bob", "patch");
    let as_user = |user: &str| {
        gitops_as(&cluster.kubeconfig_for(user), &["suspend", "receiver/receiver", "-n", "rights", "-m", "x"])
    };
    let may_read = as_user("alice");
    assert_eq!((may_read.code, may_read.stdout.as_str()), (1, ""), "{may_read:?}");
    assert!(may_read.stderr.contains("(Forbidden)") && may_read.stderr.contains("cannot patch"), "{may_read:?}");
    let may_write = as_user("bob");
    assert_eq!((may_write.code, may_write.stdout.as_str()), (1, ""), "{may_write:?}");
    assert!(may_write.stderr.contains("(Forbidden)") && may_write.stderr.contains("cannot get"), "{may_write:?}");
    assert_eq!(annotation(&read(cluster, "receiver", "rights", "receiver")), None);

    let some = gitops_as(&cluster.kubeconfig_for("alice"), &["get", "receivers,buckets", "-n", "rights"]);
    assert_eq!((some.code, some.stdout.lines().count()), (5, 2), "{some:?}");
    assert!(some.stderr.contains("buckets.source.toolkit.fluxcd.io in namespace rights could not be read"), "{some:?}");
}

#[test]
fn odd_objects_are_handled() {
    let cluster = cluster();
    let _ = cluster.kubectl(&["create", "namespace", "odd"]);
    let mut held = receiver("odd");
    held["metadata"]["finalizers"] = json!(["example.invalid/held"]);
    held["metadata"]["annotations"] = json!({"big": "x".repeat(200 * 1024)});
    cluster.kubectl_stdin(&["create", "-f", "-"], &held.to_string()).unwrap();
    let big = gitops(cluster, &["suspend", "receiver/receiver", "-n", "odd", "-m", &"y".repeat(100 * 1024)]);
    assert_eq!(big.code, 1, "{}", big.stderr);
    assert!(big.stderr.contains("(Invalid)") && big.stderr.contains("annotations"), "{}", big.stderr);
    ok(&gitops(cluster, &["suspend", "receiver/receiver", "-n", "odd", "-m", "fits"]));

    for value in ["", "false"] {
        let set = format!("reconcile.fluxcd.io/suspended={value}");
        cluster.kubectl(&["annotate", "receiver", "receiver", "-n", "odd", "--overwrite", &set]).unwrap();
        let item = item(cluster, "odd", "receiver/receiver");
        assert_eq!((&item["suspension"]["by"], &item["suspension"]["value"]), (&json!("annotation"), &json!(value)));
    }
    cluster.kubectl(&["delete", "receiver", "receiver", "-n", "odd", "--wait=false"]).unwrap();
    let deleting = gitops(cluster, &["suspend", "receiver/receiver", "-n", "odd", "--overwrite", "-m", "late"]);
    assert!(deleting.stderr.contains("is being deleted: its finalizers run now"), "{deleting:?}");
    let table = gitops(cluster, &["get", "receivers", "-n", "odd"]);
    assert!(table.stdout.contains("being deleted"), "{table:?}");
    cluster
        .kubectl(&[
            "patch",
            "receiver",
            "receiver",
            "-n",
            "odd",
            "--type=merge",
            "-p",
            r#"{"metadata":{"finalizers":null}}"#,
        ])
        .unwrap();
}
