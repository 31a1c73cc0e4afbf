//! Inside a pod: the service account's folder and the variables the kubelet sets. Used when there is no kubeconfig.

use kube::config::{AuthInfo, Cluster};

use super::environment::Environment;
use super::kubeconfig::Chosen;

/// The pod's own API server and service account; `None` outside a pod.
///
/// As client-go: both variables and a token file must be there; a missing `ca.crt` leaves the system's certificates.
pub(crate) fn choose(environment: &Environment) -> Option<Chosen> {
    let host = environment.variable("KUBERNETES_SERVICE_HOST")?;
    let port = environment.variable("KUBERNETES_SERVICE_PORT")?;
    let file = |name: &str| Some(environment.service_account.join(name)).filter(|path| path.is_file());
    let token = file("token")?;
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
    let written = file("namespace").and_then(|path| std::fs::read_to_string(path).ok());
    let namespace = environment.variable("POD_NAMESPACE").or(written.as_deref()).map(str::trim);
    Some(Chosen {
        cluster: Cluster {
            server: Some(format!("https://{host}:{port}")),
            certificate_authority: file("ca.crt").map(text),
            ..Cluster::default()
        },
        cluster_name: "in-cluster".to_owned(),
        user: AuthInfo { token_file: Some(text(token)), ..AuthInfo::default() },
        user_name: "service account".to_owned(),
        namespace: namespace.filter(|namespace| !namespace.is_empty()).map(str::to_owned),
    })
}
