//! A chart in a registry with TLS and a password, from the pull request to the comment: the real registry, source-controller and
//! helm-controller.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::upgrades::ready;
use test_support::chart::chart;
use test_support::cluster::LIMIT;
use test_support::flux::{applied, deploy, kustomization};
use test_support::folder::{commit, folder, init};
use test_support::gitops::{Run, command, gitops};
use test_support::tree_plan::{arguments, document, reason, rows};
use xtask::cluster::{Cluster, Flux, Options, free_port};
use xtask::controlplane::{bin, ensure};

/// The password `secret` of `user`, as htpasswd has it.
const PASSWORDS: &str = "user:$2a$05$rbrxaZmAG83mVAbS3RViy.DCkUoODdkoTAUuIx0ZEQREbKDsB73nW\n";
/// The namespace of the release whose chart comes from a HelmRepository, and not from an OCIRepository.
const OF_HELM: &str = "registry-helm";
const KEPT: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {v: \"{{ .Chart.Version }}\"}\n";
const CLAIM: &str = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: \"{{ .Release.Name }}-data\"}\n\
                     spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}\n";

/// A registry on loopback; it ends with this value.
struct Registry {
    process: Child,
    address: String,
    folder: PathBuf,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Registry {
    /// Starts a registry with a certificate of its own and one user, and waits until it lets helm log in.
    fn start(cluster: &Cluster) -> Self {
        ensure(&["helm", "registry"]).unwrap();
        let (folder, address) = (folder("registry"), format!("127.0.0.1:{}", free_port().unwrap()));
        let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let file = |name: &str, text: &str| {
            fs::write(folder.join(name), text).unwrap();
            folder.join(name).display().to_string()
        };
        let config = json!({
            "version": "0.1",
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": folder.join("content")}},
            "http": {"addr": address, "tls": {
                "certificate": file("cert.pem", &signed.cert.pem()), "key": file("key.pem", &signed.signing_key.serialize_pem())}},
            "auth": {"htpasswd": {"realm": "charts", "path": file("htpasswd", PASSWORDS)}},
        });
        let log = fs::File::create(folder.join("log")).unwrap();
        let config = file("config.json", &config.to_string());
        let mut registry = Command::new(bin("registry"));
        registry.args(["serve", &config]).stdout(Stdio::null()).stderr(log);
        let registry = Self { process: registry.spawn().unwrap(), address, folder };
        let login = ["registry", "login", &registry.address, "--username", "user", "--password", "secret"];
        let mut answered = Err(String::new());
        let probe = || {
            answered = registry.helm(&login);
            Ok(answered.is_ok())
        };
        cluster.wait_for("the registry", LIMIT, probe).unwrap_or_else(|error| panic!("{error}: {answered:?}"));
        registry
    }

    fn certificate(&self) -> PathBuf {
        self.folder.join("cert.pem")
    }

    /// Returns the file in which helm keeps the password.
    fn credentials(&self) -> PathBuf {
        self.folder.join("helm.json")
    }

    fn helm(&self, words: &[&str]) -> Result<(), String> {
        let mut helm = Command::new(bin("helm"));
        helm.args(words).arg("--ca-file").arg(self.certificate()).env("HELM_REGISTRY_CONFIG", self.credentials());
        let output = helm.output().unwrap();
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }

    /// Pushes a packed chart with helm.
    fn push(&self, archive: &Path) {
        let to = format!("oci://{}/charts", self.address);
        self.helm(&["push", &archive.display().to_string(), &to]).unwrap();
    }

    /// Returns the Secrets with the password and the certificate for source-controller.
    fn secrets(&self, namespace: &str) -> String {
        let certificate = fs::read_to_string(self.certificate()).unwrap();
        let login = json!({"auths": {&self.address: {"username": "user", "password": "secret"}}}).to_string();
        let secret = |name: &str, kind: &str, key: &str, value: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": name, "namespace": namespace},
                "stringData": {key: value}})
        };
        let items = [
            secret("login", "kubernetes.io/dockerconfigjson", ".dockerconfigjson", &login),
            secret("trust", "Opaque", "ca.crt", &certificate),
        ];
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
    }

    /// Writes a release from the registry in a namespace, whose chart has this version.
    fn write(&self, tree: &Path, namespace: &str, version: &str) {
        let source = |kind: &str, spec: &str| {
            format!(
                "apiVersion: source.toolkit.fluxcd.io/v1\nkind: {kind}\nmetadata: {{name: app, namespace: {namespace}}}\nspec:\n  \
                 interval: 1h\n  url: oci://{}/charts{spec}\n  secretRef: {{name: login}}\n  certSecretRef: {{name: trust}}\n",
                self.address
            )
        };
        let (source, chart) = if namespace == OF_HELM {
            let chart = format!("chart: app, version: {version}, sourceRef: {{kind: HelmRepository, name: app}}");
            (source("HelmRepository", "\n  type: oci"), format!("chart: {{spec: {{{chart}}}}}"))
        } else {
            let layer = "{mediaType: application/vnd.cncf.helm.chart.content.v1.tar+gzip, operation: copy}";
            let spec = format!("/app\n  ref: {{tag: {version}}}\n  layerSelector: {layer}");
            (source("OCIRepository", &spec), "chartRef: {kind: OCIRepository, name: app}".to_owned())
        };
        let release = format!(
            "---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: app, namespace: {namespace}}}\n\
             spec:\n  interval: 1h\n  timeout: 20s\n  {chart}\n  install: {{disableWait: true}}\n  upgrade: {{disableWait: true}}\n"
        );
        fs::write(tree.join("app.yaml"), source + &release).unwrap();
    }

    /// Plans as a user who is logged in to the registry, with an empty cache.
    fn plan(&self, cluster: &Cluster, namespace: &str, tree: &Path, more: &[&str]) -> Run {
        let helm = format!("--helm={}", bin("helm").display());
        let words = arguments(namespace, tree, &[&[&*helm], more].concat());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = command(&words);
        command.env("KUBECONFIG", cluster.kubeconfig()).env("SSL_CERT_FILE", self.certificate());
        command.env("HELM_REGISTRY_CONFIG", self.credentials()).env("XDG_CACHE_HOME", folder("registry-cache"));
        Run::of(&mut command)
    }
}

#[test]
fn a_bumped_chart_of_a_registry_is_fetched_with_the_credentials_of_the_user() {
    let options = Options { flux: Flux::All, source_service: true, ..Options::default() };
    let cluster = &Cluster::up(options).expect("the test cluster comes up");
    let registry = Registry::start(cluster);
    registry.push(&chart("app", "1.0.0", &format!("{KEPT}{CLAIM}")));
    let next = chart("app", "2.0.0", KEPT);
    registry.push(&next);
    let charts = format!("--charts={}", next.parent().unwrap().display());
    let trees = [OF_HELM, "registry-oci"].map(|namespace| (namespace, folder(namespace)));
    for (namespace, tree) in &trees {
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        cluster.kubectl_stdin(&["apply", "-f", "-"], &registry.secrets(namespace)).unwrap();
        registry.write(tree, namespace, "1.0.0");
        init(tree);
        deploy(cluster, namespace, tree);
    }
    for (namespace, tree) in &trees {
        ready(cluster, namespace, "1");
        registry.write(tree, namespace, "2.0.0");
        planned(cluster, &registry, namespace, tree, &charts);
        commit(tree);
        let revision = cluster.publish(&format!("GitRepository/{namespace}/src"), tree).unwrap();
        applied(cluster, namespace, "apps", &revision);
    }
    for (namespace, _) in &trees {
        ready(cluster, namespace, "2");
        let time = "jsonpath={.metadata.deletionTimestamp}";
        let claim = ["get", "persistentvolumeclaim", "app-data", "-n", namespace, "-o", time];
        // No controller of this cluster takes its finalizer off.
        let is_deleted = || Ok(!cluster.kubectl(&claim)?.is_empty());
        cluster.wait_for("the claim to be deleted, as the plan says", LIMIT, is_deleted).unwrap();
    }
}

/// Plans the bump without and with the password.
fn planned(cluster: &Cluster, registry: &Registry, namespace: &str, tree: &Path, charts: &str) {
    let without = registry.plan(cluster, namespace, tree, &["--allow-network"]);
    let document_without = document(&without);
    let unknown = document_without["owners"].as_array().unwrap().iter().find(|row| row["outcome"] == "unknown");
    let why = unknown.map(reason).unwrap_or_else(|| panic!("{without:?}"));
    assert!(why.contains("--chart-credentials") && without.code == 5, "{why}");
    let comment = registry.folder.join("comment.md");
    let report = format!("--report=markdown={}", comment.display());
    let run = registry.plan(cluster, namespace, tree, &["--allow-network", "--chart-credentials", &report]);
    let found = rows(&run);
    assert_eq!(found["delete PersistentVolumeClaim/app-data"], "not-in-chart", "{run:?}");
    assert_eq!(found["update ConfigMap/app"], "changed");
    assert_eq!((document(&run)["complete"] == true, run.code), (true, 6), "{}", document(&run)["gaps"]);
    // A job without access to the cluster plans from a recording, which has the deployed chart, and a folder with the new one.
    let recording = registry.folder.join(format!("{namespace}.json.gz")).display().to_string();
    let recorded = gitops(cluster, &["snapshot", &recording, "--with-charts", "--with-values"]);
    assert_eq!(recorded.code, 0, "{recorded:?}");
    let offline = registry.plan(cluster, namespace, tree, &["--snapshot", &recording, charts]);
    assert!(rows(&offline).keys().any(|row| row.starts_with("delete") && row.ends_with("/app-data")), "{offline:?}");
    let comment = fs::read_to_string(comment).unwrap();
    for line in ["1 `PersistentVolumeClaim`", "chart app 1.0.0 → 2.0.0"] {
        assert!(comment.contains(line), "{comment}");
    }
    let shown = format!("{}{}{comment}", run.stdout, run.stderr);
    assert!(!shown.contains("secret\"") && !shown.contains("dXNlcjpzZWNyZXQ="), "{shown}");
}

/// Pushes a folder as the flux command does, under the tag `latest`. Returns the revision of the artifact.
fn push_manifests(registry: &Registry, tree: &Path) -> String {
    let mut flux = Command::new(bin("flux"));
    flux.args(["push", "artifact", &format!("oci://{}/manifests/app:latest", registry.address), "--creds=user:secret"]);
    flux.args(["--source=https://git.example.com/shop.git", "--revision=main@sha1:0123456", "--output=json"]);
    let output = flux.arg("--path").arg(tree).env("SSL_CERT_FILE", registry.certificate()).output().unwrap();
    let pushed: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    format!("latest@{}", pushed["digest"].as_str().unwrap())
}

#[test]
fn manifests_of_a_registry_are_planned_from_the_folder_that_is_pushed() {
    const NAMESPACE: &str = "registry-manifests";
    ensure(&["flux"]).unwrap();
    let cluster = &Cluster::up(Options { flux: Flux::All, ..Options::default() }).expect("the test cluster comes up");
    let registry = Registry::start(cluster);
    let tree = folder("registry-manifests");
    let write = |name: &str, size: u8| {
        let manifest = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{v: '{size}'}}\n");
        fs::write(tree.join(format!("{name}.yaml")), manifest).unwrap();
    };
    ["stays", "goes", "changes"].iter().for_each(|name| write(name, 1));
    // The flux command leaves these out.
    fs::write(tree.join("picture.jpg"), "").unwrap();
    let revision = push_manifests(&registry, &tree);
    cluster.kubectl(&["create", "namespace", NAMESPACE]).unwrap();
    cluster.kubectl_stdin(&["apply", "-f", "-"], &registry.secrets(NAMESPACE)).unwrap();
    let source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository",
        "metadata": {"name": "src", "namespace": NAMESPACE}, "spec": {
            "interval": "2s", "url": format!("oci://{}/manifests/app", registry.address), "ref": {"tag": "latest"},
            "secretRef": {"name": "login"}, "certSecretRef": {"name": "trust"}}});
    let apps = kustomization(NAMESPACE, "apps", "./", &format!(", targetNamespace: {NAMESPACE}"));
    let apps = apps.replace("GitRepository", "OCIRepository");
    cluster.kubectl_stdin(&["apply", "-f", "-"], &format!("{source}\n---\n{apps}")).unwrap();
    applied(cluster, NAMESPACE, "apps", &revision);

    init(&tree);
    xtask::git::run(&tree, &["remote", "add", "origin", "git@git.example.com:shop"]).unwrap();
    let unnamed = gitops(cluster, &["plan", &tree.display().to_string()]);
    let hint = format!("hint: name the directory that is pushed: --source OCIRepository/{NAMESPACE}/src=DIR\n");
    assert!(unnamed.code == 1 && unnamed.stderr.ends_with(&hint), "{unnamed:?}");
    fs::remove_file(tree.join("goes.yaml")).unwrap();
    write("changes", 2);
    write("comes", 1);
    let words = arguments(NAMESPACE, &tree, &[]).into_iter().map(|word| word.replace("GitRepository", "OCIRepository"));
    let words: Vec<String> = words.collect();
    let run = gitops(cluster, &words.iter().map(String::as_str).collect::<Vec<_>>());
    let found: Vec<String> = rows(&run).into_keys().collect();
    assert_eq!(found, ["create ConfigMap/comes", "delete ConfigMap/goes", "update ConfigMap/changes"], "{run:?}");
    assert!(document(&run)["complete"] == true, "{}", document(&run)["gaps"]);

    let revision = push_manifests(&registry, &tree);
    applied(cluster, NAMESPACE, "apps", &revision);
    let names = cluster.kubectl(&["get", "configmaps", "-n", NAMESPACE, "-o", "name"]).unwrap();
    let names: Vec<&str> = names.lines().filter(|name| !name.ends_with("kube-root-ca.crt")).collect();
    assert_eq!(names, ["configmap/changes", "configmap/comes", "configmap/stays"]);
}
