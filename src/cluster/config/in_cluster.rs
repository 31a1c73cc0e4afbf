//! Connection settings inside a pod, from its service account. Used when there is no kubeconfig.

use std::path::Path;

use kube::config::{AuthInfo, Cluster};

use super::environment::Environment;
use super::kubeconfig::SelectedContext;

/// Returns the API server and the service account of the pod, or `None` outside a pod.
///
/// As in client-go, both variables and a token file must exist; without `ca.crt` the system's certificates are used.
pub(crate) fn detect(environment: &Environment) -> Option<SelectedContext> {
    let host = environment.variable("KUBERNETES_SERVICE_HOST")?;
    let port = environment.variable("KUBERNETES_SERVICE_PORT")?;
    let directory = &environment.service_account;
    let token_file = existing_file(directory, "token")?;
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let own_namespace = std::fs::read_to_string(directory.join("namespace")).ok();
    let namespace = environment.variable("POD_NAMESPACE").or(own_namespace.as_deref()).map(str::trim);
    Some(SelectedContext {
        cluster: Cluster {
            server: Some(format!("https://{host}:{port}")),
            certificate_authority: existing_file(directory, "ca.crt"),
            ..Cluster::default()
        },
        context_name: String::new(),
        cluster_name: "in-cluster".to_owned(),
        user: AuthInfo { token_file: Some(token_file), ..AuthInfo::default() },
        user_name: "service account".to_owned(),
        namespace: namespace.filter(|namespace| !namespace.is_empty()).map(str::to_owned),
    })
}

fn existing_file(directory: &Path, name: &str) -> Option<String> {
    let path = directory.join(name);
    path.is_file().then(|| path.to_string_lossy().into_owned())
}
