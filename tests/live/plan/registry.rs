//! A chart in a registry with TLS and a password, from the pull request to the comment: the real registry, source-controller and
//! helm-controller.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::upgrades::ready;
use test_support::chart::chart;
use test_support::cluster::LIMIT;
use test_support::flux::{applied, deploy};
use test_support::folder::{commit, folder, init};
use test_support::gitops::{Run, command};
use test_support::tree_plan::{arguments, document, reason, rows};
use xtask::cluster::{Cluster, Flux, Options, free_port};
use xtask::controlplane::{bin, ensure};

/// The password `secret` of `user`, as htpasswd has it.
const PASSWORDS: &str = "user:$2a$05$rbrxaZmAG83mVAbS3RViy.DCkUoODdkoTAUuIx0ZEQREbKDsB73nW\n";
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
    /// Starts a registry with a certificate of its own and one user.
    fn start() -> Self {
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
        let process = registry.spawn().unwrap();
        Self { process, address, folder }
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

    /// Pushes a chart.
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

    /// Returns the files of a release from the registry, whose source has this version.
    fn tree(&self, tree: &Path, version: &str) {
        let source = format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {{name: app, namespace: charts}}\nspec:\n  \
             interval: 1h\n  url: oci://{}/charts/app\n  ref: {{tag: {version}}}\n  secretRef: {{name: login}}\n  certSecretRef: {{name: trust}}\n  \
             layerSelector: {{mediaType: application/vnd.cncf.helm.chart.content.v1.tar+gzip, operation: copy}}\n",
            self.address
        );
        let release = "---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: app, namespace: charts}\nspec:\n  \
                       interval: 1h\n  timeout: 20s\n  chartRef: {kind: OCIRepository, name: app}\n  install: {disableWait: true}\n  \
                       upgrade: {disableWait: true}\n";
        fs::write(tree.join("app.yaml"), source + release).unwrap();
    }

    fn plan(&self, cluster: &Cluster, tree: &Path, more: &[&str]) -> Run {
        let helm = format!("--helm={}", bin("helm").display());
        let words = arguments("charts", tree, &[&[&*helm, "--allow-network"], more].concat());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = command(&words);
        command.env("KUBECONFIG", cluster.kubeconfig()).env("SSL_CERT_FILE", self.certificate());
        command.env("HELM_REGISTRY_CONFIG", self.credentials()).env("XDG_CACHE_HOME", self.folder.join("cache"));
        Run::of(&mut command)
    }
}

#[test]
fn a_bumped_chart_of_a_registry_is_fetched_with_the_credentials_of_the_user() {
    let registry = Registry::start();
    let options = Options { flux: Flux::All, source_service: true, ..Options::default() };
    let cluster = &Cluster::up(options).expect("the test cluster comes up");
    let login = ["registry", "login", &registry.address, "--username", "user", "--password", "secret"];
    let mut answered = Err(String::new());
    let probe = || {
        answered = registry.helm(&login);
        Ok(answered.is_ok())
    };
    cluster.wait_for("the registry", LIMIT, probe).unwrap_or_else(|error| panic!("{error}: {answered:?}"));
    registry.push(&chart("app", "1.0.0", &format!("{KEPT}{CLAIM}")));
    registry.push(&chart("app", "2.0.0", KEPT));
    cluster.kubectl(&["create", "namespace", "charts"]).unwrap();
    cluster.kubectl_stdin(&["apply", "-f", "-"], &registry.secrets("charts")).unwrap();
    let tree = folder("registry-tree");
    registry.tree(&tree, "1.0.0");
    init(&tree);
    deploy(cluster, "charts", &tree);
    ready(cluster, "charts", "1");

    registry.tree(&tree, "2.0.0");
    let without = registry.plan(cluster, &tree, &[]);
    let unknown =
        document(&without)["owners"].as_array().unwrap().iter().find(|row| row["outcome"] == "unknown").map(reason);
    let why = unknown.unwrap_or_else(|| panic!("{without:?}"));
    assert!(why.contains("--chart-credentials") && without.code == 5, "{why}");
    let comment = registry.folder.join("comment.md");
    let report = format!("--report=markdown={}", comment.display());
    let run = registry.plan(cluster, &tree, &["--chart-credentials", &report]);
    let found = rows(&run);
    assert_eq!(found["delete PersistentVolumeClaim/app-data"], "not-in-chart", "{run:?}");
    assert_eq!(found["update ConfigMap/app"], "changed");
    assert_eq!((document(&run)["complete"] == true, run.code), (true, 6), "{}", document(&run)["gaps"]);
    let comment = fs::read_to_string(comment).unwrap();
    for line in ["1 `PersistentVolumeClaim`", "chart app 1.0.0 → 2.0.0"] {
        assert!(comment.contains(line), "{comment}");
    }
    let shown = format!("{}{}{comment}", run.stdout, run.stderr);
    assert!(!shown.contains("secret\"") && !shown.contains("dXNlcjpzZWNyZXQ="), "{shown}");

    commit(&tree);
    let revision = cluster.publish("GitRepository/charts/src", &tree).unwrap();
    applied(cluster, "charts", "apps", &revision);
    ready(cluster, "charts", "2");
    let claim =
        ["get", "persistentvolumeclaim", "app-data", "-n", "charts", "-o", "jsonpath={.metadata.deletionTimestamp}"];
    // No controller of this cluster takes its finalizer off.
    cluster
        .wait_for("the claim to be deleted, as the plan says", LIMIT, || Ok(!cluster.kubectl(&claim)?.is_empty()))
        .unwrap();
}
