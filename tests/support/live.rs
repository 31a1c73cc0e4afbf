//! The real thing: one test cluster per test file, and the binary run against it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use xtask::cluster::{Cluster, Flux, Options};

/// How long anything in a test cluster may take.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The cluster of this test file, with kustomize-controller and an audit log; it ends with the process.
pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let options = Options { flux: Flux::Kustomize, audit: true, ..Options::default() };
        Cluster::up(options).expect("the test cluster comes up")
    })
}

/// What a run of the binary left behind.
#[derive(Debug)]
pub struct Run {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs `kubectl-gitops` against the cluster as its admin, without a terminal.
pub fn gitops(cluster: &Cluster, args: &[&str]) -> Run {
    gitops_as(&cluster.kubeconfig(), args)
}

/// Runs `kubectl-gitops` with a kubeconfig, without a terminal.
pub fn gitops_as(kubeconfig: &Path, args: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-gitops"));
    command.args(args).env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
    let output = command.output().expect("the binary runs");
    Run {
        code: output.status.code().expect("an exit code"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs `kubectl-gitops` on a terminal of its own and types `answer` once it has had time to ask.
pub fn gitops_typing(cluster: &Cluster, args: &[&str], answer: &str) -> Run {
    let words: Vec<String> = args.iter().map(|word| format!("'{word}'")).collect();
    let binary = env!("CARGO_BIN_EXE_kubectl-gitops");
    let line =
        format!("(sleep 3; printf '{answer}'; sleep 1) | script -qec \"'{binary}' {}\" /dev/null", words.join(" "));
    let output = Command::new("sh")
        .args(["-c", &line])
        .env("KUBECONFIG", cluster.kubeconfig())
        .output()
        .expect("a shell and `script` of util-linux");
    Run {
        code: output.status.code().expect("an exit code"),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// An empty folder of this test's own, below the target directory.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a test's folder");
    folder
}

/// Creates a namespace, a source in it that has `tree` as artifact, and a Kustomization `apps` of its root; waits until
/// it is Ready.
pub fn deploy(cluster: &Cluster, namespace: &str, tree: &Path) {
    let _ = cluster.kubectl(&["create", "namespace", namespace]);
    cluster.publish(&format!("GitRepository/{namespace}/src"), tree).unwrap();
    let manifest = format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: apps, namespace: {namespace}}}\n\
         spec:\n  interval: 1h\n  retryInterval: 2s\n  path: ./\n  prune: true\n  targetNamespace: {namespace}\n  \
         sourceRef: {{kind: GitRepository, name: src}}\n"
    );
    cluster.kubectl_stdin(&["apply", "-f", "-"], &manifest).unwrap();
    settled(cluster, namespace, "apps");
}

/// Publishes the tree again and waits until the Kustomization has applied it.
pub fn publish(cluster: &Cluster, namespace: &str, tree: &Path) {
    let revision = cluster.publish(&format!("GitRepository/{namespace}/src"), tree).unwrap();
    applied(cluster, namespace, "apps", &revision);
}

/// Waits until a Kustomization is Ready for its generation at a revision.
pub fn applied(cluster: &Cluster, namespace: &str, name: &str, revision: &str) {
    let path = "{.status.lastAppliedRevision}";
    let probe = || {
        let found =
            cluster.kubectl(&["get", "kustomization", name, "-n", namespace, "-o", &format!("jsonpath={path}")])?;
        Ok(found.contains(revision.trim()))
    };
    cluster.wait_for(&format!("kustomization/{name} at {revision}"), LIMIT, probe).unwrap();
    settled(cluster, namespace, name);
}

/// Waits until a Kustomization is Ready for its generation and nothing is under way.
pub fn settled(cluster: &Cluster, namespace: &str, name: &str) {
    let path = "{.metadata.generation} {.status.observedGeneration} {.status.conditions[?(@.type==\"Ready\")].status} \
                {.status.conditions[?(@.type==\"Reconciling\")].status}";
    let probe = || {
        let found =
            cluster.kubectl(&["get", "kustomization", name, "-n", namespace, "-o", &format!("jsonpath={path}")])?;
        let words: Vec<&str> = found.split_whitespace().collect();
        Ok(words.len() == 3 && words[0] == words[1] && words[2] == "True")
    };
    cluster.wait_for(&format!("kustomization/{name} in {namespace} ready"), LIMIT, probe).unwrap();
}

/// Writes `count` ConfigMaps `cm-0`, `cm-1`, … into a folder, one file each.
pub fn config_maps(folder: &Path, count: usize) {
    for number in 0..count {
        let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: cm-{number}}}\ndata: {{a: b}}\n");
        std::fs::write(folder.join(format!("cm-{number}.yaml")), text).expect("a manifest is written");
    }
}

/// Makes `cm-NUMBER` leaked as it happens in life: pruning is turned off, the manifest goes, pruning is turned on again.
pub fn leak(cluster: &Cluster, namespace: &str, tree: &Path, number: usize) {
    let prune = |on: bool| {
        let patch = format!("{{\"spec\":{{\"prune\":{on}}}}}");
        cluster.kubectl(&["patch", "kustomization", "apps", "-n", namespace, "--type=merge", "-p", &patch]).unwrap();
        settled(cluster, namespace, "apps");
    };
    prune(false);
    std::fs::remove_file(tree.join(format!("cm-{number}.yaml"))).expect("the manifest was there");
    publish(cluster, namespace, tree);
    prune(true);
}
