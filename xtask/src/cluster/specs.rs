//! Command lines of the processes of a cluster.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;

use anyhow::{Context, Result};

use super::access;
use super::process::Spec;
use crate::controlplane::bin;

/// Namespace of the Flux controllers.
pub(crate) const FLUX_NAMESPACE: &str = "flux-system";

/// Host of the artifacts of source-controller in a real cluster.
pub(crate) const SOURCE_HOST: &str = "source-controller.flux-system.svc.cluster.local.";

/// Label of sources that `publish` writes. source-controller ignores them.
pub(crate) const PUBLISHED_LABEL: &str = "xtask/published";

/// URL path of the artifacts.
const ARTIFACTS: &str = "/artifacts/";

/// Returns a port of the loopback interface that is free now. Another process may take it; then the caller retries.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot find a free port")?;
    Ok(listener.local_addr()?.port())
}

fn spec(name: &str, args: Vec<String>, ready: Option<&str>) -> Spec {
    let ready = ready.map(str::to_owned);
    Spec { name: name.to_owned(), program: bin(name), args, env: BTreeMap::new(), ready }
}

fn strings(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

/// Returns a free address of this machine that is not a loopback address: a Service must not have one.
pub(crate) fn service_address() -> Result<SocketAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // Nothing is sent: this only selects the address from which it would be.
    socket.connect("198.51.100.1:9").context("this machine has no address but loopback ones")?;
    let address = socket.local_addr()?.ip();
    let listener = TcpListener::bind((address, 0)).context("cannot find a free port")?;
    Ok(listener.local_addr()?)
}

/// Returns the manifests of the Service of source-controller, of its endpoint, and of the Pod to which this leads: the API
/// server proxies to Pods only. The Pod needs the status of [`source_pod_status`].
pub(crate) fn source_service(address: SocketAddr) -> String {
    let (ip, port) = (address.ip(), address.port());
    let name = "{name: source-controller, namespace: flux-system}";
    let pod = "{kind: Pod, name: source-controller, namespace: flux-system}";
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {name}\nspec: {{containers: [{{name: manager, image: none}}]}}\n---\n\
         apiVersion: v1\nkind: Service\nmetadata: {name}\nspec: {{ports: [{{name: http, port: 80, targetPort: {port}}}]}}\n---\n\
         apiVersion: v1\nkind: Endpoints\nmetadata: {name}\n\
         subsets: [{{addresses: [{{ip: {ip}, targetRef: {pod}}}], ports: [{{name: http, port: {port}}}]}}]\n"
    )
}

/// Returns the status of the Pod of source-controller, as JSON.
pub(crate) fn source_pod_status(address: SocketAddr) -> String {
    let ip = address.ip().to_string();
    serde_json::json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }]}}).to_string()
}

/// Returns the command line of etcd. It does not wait for the disk, because the data need not survive a crash.
pub(crate) fn etcd(client: u16, peer: u16) -> Spec {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let args = vec![
        "--name=test".to_owned(),
        "--data-dir=etcd".to_owned(),
        "--unsafe-no-fsync".to_owned(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=test={peer}"),
    ];
    spec("etcd", args, Some("serving client traffic"))
}

/// Returns the command line of the API server. Its certificate belongs to this cluster only, so clients cannot reach another.
pub(crate) fn apiserver(port: u16, etcd: u16, extra: Vec<String>) -> Spec {
    let mut args = strings(&[
        "--v=0",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        // No node needs the Service `kubernetes`.
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--cert-dir=keys",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=RBAC",
        // Pods need no service account: no kubelet will run them.
        "--disable-admission-plugins=ServiceAccount",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=keys/sa.pub",
        "--service-account-signing-key-file=keys/sa.key",
    ]);
    args.push(format!("--secure-port={port}"));
    args.push(format!("--etcd-servers=http://127.0.0.1:{etcd}"));
    args.extend(extra);
    spec("kube-apiserver", args, None)
}

/// Returns the flags for an API server that publishes the Service `default/kubernetes` and the CA of its clients. The
/// address is from a documentation range, because an endpoint must not be a loopback address.
pub(crate) fn publishing_flags() -> Vec<String> {
    strings(&["--endpoint-reconciler-type=lease", "--advertise-address=192.0.2.1", "--client-ca-file=keys/ca.crt"])
}

/// Controllers for deletions, Deployments and service accounts.
const CONTROLLERS: [&str; 9] = [
    "namespace",
    "garbage-collector",
    "deployment",
    "replicaset",
    "serviceaccount",
    "serviceaccount-token",
    "legacy-serviceaccount-token-cleaner",
    "resourcequota",
    "clusterrole-aggregation",
];

/// Controllers that make the Pods and claims of workloads, bind claims to volumes, remove the finalizers of all of these, and delete
/// the Endpoints of Services.
const WORKLOAD_CONTROLLERS: [&str; 9] = [
    "statefulset",
    "job",
    "cronjob",
    "ttl-after-finished",
    "persistentvolume-binder",
    "persistentvolume-protection",
    "persistentvolumeclaim-protection",
    "volumeattributesclass-protection",
    "endpoints",
];

/// Returns the command line with all controllers, or only with [`CONTROLLERS`] and perhaps [`WORKLOAD_CONTROLLERS`].
pub(crate) fn controller_manager(whole: bool, workloads: bool) -> Spec {
    let mut args = strings(&[
        "--v=0",
        "--kubeconfig=kubeconfig",
        "--secure-port=0",
        "--service-account-private-key-file=keys/sa.key",
        "--root-ca-file=keys/ca.crt",
    ]);
    if whole {
        // The flag of kubeadm.
        let all = "--controllers=*,bootstrap-signer-controller,token-cleaner-controller";
        args.extend(strings(&["--leader-elect=true", "--use-service-account-credentials=true", all]));
    } else {
        let more: &[&str] = if workloads { &WORKLOAD_CONTROLLERS } else { &[] };
        let controllers: Vec<_> = CONTROLLERS.iter().chain(more).map(|name| format!("{name}-controller")).collect();
        args.extend(["--leader-elect=false".to_owned(), format!("--controllers={}", controllers.join(","))]);
    }
    spec("kube-controller-manager", args, Some("all resource monitors have synced"))
}

/// Returns the command line of the artifact server: `kubectl proxy`, which also serves static files. All requests to the
/// API server are rejected, and its user has no rights.
pub(crate) fn artifact_server(port: u16) -> Spec {
    let mut args = strings(&["proxy", "--kubeconfig=users/carol.kubeconfig", "--reject-paths=.*", "--www=artifacts"]);
    args.push(format!("--www-prefix={ARTIFACTS}"));
    args.push(format!("--port={port}"));
    let mut spec = spec("kubectl", args, Some("Starting to serve on"));
    spec.name = "artifact-server".to_owned();
    spec
}

pub(crate) fn artifacts_url(port: u16) -> String {
    format!("http://127.0.0.1:{port}{ARTIFACTS}")
}

/// Returns the command line of the controller of flux-operator, with its own TMPDIR. It refuses to run without FIPS 140-3.
pub(crate) fn flux_operator(dir: &Path, name: &str) -> Result<Spec> {
    let temporary = dir.join("tmp").join(name);
    fs::create_dir_all(&temporary)?;
    let args = strings(&[
        "--enable-leader-election=false",
        "--metrics-addr=127.0.0.1:0",
        "--health-addr=127.0.0.1:0",
        "--web-server-port=0",
        "--requeue-dependency=1s",
    ]);
    let mut spec = spec(name, args, Some("Starting workers"));
    let kubeconfig = access::kubeconfig(dir, access::ADMIN);
    for (variable, value) in [("TMPDIR", &temporary), ("HOME", &temporary), ("KUBECONFIG", &kubeconfig)] {
        spec.env.insert(variable.to_owned(), value.display().to_string());
    }
    spec.env.insert("RUNTIME_NAMESPACE".to_owned(), FLUX_NAMESPACE.to_owned());
    spec.env.insert("GODEBUG".to_owned(), "fips140=on".to_owned());
    Ok(spec)
}

/// Returns the command line of a Flux controller with its own TMPDIR, because kustomize-controller deletes
/// `kustomization-*` there when it starts.
/// `storage` is the address of source-controller if it is reachable as a Service.
pub(crate) fn flux_controller(dir: &Path, name: &str, storage: Option<SocketAddr>, extra: &[String]) -> Result<Spec> {
    let temporary = dir.join("tmp").join(name);
    fs::create_dir_all(temporary.join("storage"))?;
    let mut args = strings(&[
        "--enable-leader-election=false",
        "--events-addr=",
        "--metrics-addr=127.0.0.1:0",
        "--health-addr=127.0.0.1:0",
    ]);
    let storage_of = storage.filter(|_| name == "source-controller");
    if ["source-controller", "source-watcher"].contains(&name) {
        let address = match storage_of {
            Some(address) => address.to_string(),
            None => format!("127.0.0.1:{}", free_port()?),
        };
        args.push(format!("--storage-path={}", temporary.join("storage").display()));
        args.push(format!("--storage-addr={address}"));
        args.push(format!("--storage-adv-addr={}", if storage_of.is_some() { SOURCE_HOST } else { &address }));
    }
    if name == "source-controller" {
        args.push(format!("--watch-label-selector=!{PUBLISHED_LABEL}"));
    }
    args.extend_from_slice(extra);
    let mut spec = spec(name, args, Some("Starting workers"));
    let kubeconfig = access::kubeconfig(dir, access::ADMIN);
    for (variable, value) in [("TMPDIR", &temporary), ("HOME", &temporary), ("KUBECONFIG", &kubeconfig)] {
        spec.env.insert(variable.to_owned(), value.display().to_string());
    }
    if let Some(address) = storage.filter(|_| name != "source-controller") {
        // The name of the Service is not resolved: its server is the proxy of these controllers.
        spec.env.insert("HTTP_PROXY".to_owned(), format!("http://{address}"));
    }
    spec.env.insert("RUNTIME_NAMESPACE".to_owned(), FLUX_NAMESPACE.to_owned());
    Ok(spec)
}
