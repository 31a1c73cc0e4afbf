//! Builds the client from flags, kubeconfig and environment. Decides wherever kube would differ from kubectl
//! (docs/reference/kubectl-plugin.md 6.1 to 6.3).

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{HeaderValue, Uri, header};
use kube::Config;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::args::ConnectionArgs;
use super::environment::Environment;
use super::kubeconfig::{SelectedContext, non_empty};
use super::overrides::{check_token, check_user, override_cluster, override_user, read};
use super::{client, exec_plugin, in_cluster, kubeconfig, proxy};
use crate::error::{Error, Result};
use gitops_core::text::sha256;

/// Time limit for connecting, TLS included: a server that is down is reported within 5 seconds.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(4500);
/// Upper bound of the connect timeout with `--request-timeout`, as in client-go.
const MAX_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Connection properties of a [`crate::cluster::Cluster`].
pub(crate) struct Connection {
    pub(crate) client: kube::Client,
    pub(crate) server: String,
    pub(crate) namespace: String,
    pub(crate) namespace_given: bool,
    pub(crate) host: String,
    /// Name of the context; empty without one.
    pub(crate) context: String,
    /// SHA-256 of the certificate authority; empty for those of the system.
    pub(crate) certificate_authority: String,
    /// `true` if the server is on this machine and no proxy is used.
    pub(crate) on_loopback: bool,
    /// `true` if the credentials impersonate another user.
    pub(crate) impersonates: bool,
}

/// Finds server and credentials, runs the credential plugin, and builds the client.
pub(crate) async fn prepare(args: &ConnectionArgs, environment: &Environment) -> Result<Connection> {
    let mut selected = match kubeconfig::select(args, environment)? {
        Some(selected) => selected,
        None if non_empty(args.server.as_deref()).is_some() => SelectedContext::default(),
        None => in_cluster::detect(environment).ok_or_else(|| {
            let hint = match environment.paths("KUBECONFIG") {
                Some(paths) => format!("KUBECONFIG names {}, where none is", paths.display()),
                None => "name a file with --kubeconfig or KUBECONFIG, or put one at ~/.kube/config".to_owned(),
            };
            Error::failed("no kubeconfig was found, and this is not a pod").hint(hint)
        })?,
    };
    override_cluster(&mut selected, args)?;
    override_user(&mut selected, args);
    check_user(&mut selected)?;
    exec_plugin::resolve(&mut selected, environment).await?;
    check_token(&selected)?;

    let namespace_flag = non_empty(args.namespace.as_deref());
    let namespace = namespace_flag.or(selected.namespace.as_deref()).unwrap_or("default").to_owned();
    check_namespace(&namespace)?;

    let server = server_url(&selected)?;
    let proxy = proxy::select(&server, selected.cluster.proxy_url.as_deref(), environment)?;
    let authority = server.authority().map(|authority| authority.as_str()).unwrap_or_default();
    let host = match &proxy {
        Some(proxy) => format!("{authority} (through the proxy {})", proxy::address(proxy)),
        None => authority.to_owned(),
    };

    let mut config = Config::new(server.clone());
    config.default_namespace.clone_from(&namespace);
    config.root_cert = certificate_authority(&selected)?;
    config.accept_invalid_certs = selected.cluster.insecure_skip_tls_verify.unwrap_or(false);
    config.tls_server_name = selected.cluster.tls_server_name;
    // On loopback, compression takes longer than it saves.
    let on_loopback = proxy.is_none() && proxy::is_loopback(&server);
    config.disable_compression =
        on_loopback || args.disable_compression || selected.cluster.disable_compression.unwrap_or(false);
    config.proxy_url = proxy;
    let impersonates = selected.user.impersonate.is_some();
    config.auth_info = selected.user;
    config.headers = vec![(header::USER_AGENT, user_agent(args.verb))];
    config.connect_timeout = Some(connect_timeout(args));
    // retry.rs retries. kube's `read_timeout` would end idle watches, so the request timeout is applied per request.
    config.default_retry = false;
    let certificate_authority = config.root_cert.as_ref().map(|found| sha256(&found.concat())).unwrap_or_default();
    Ok(Connection {
        client: client::build(config).map_err(|error| invalid_config(&error))?,
        server: server.to_string().trim_end_matches('/').to_owned(),
        namespace,
        namespace_given: namespace_flag.is_some(),
        host,
        context: selected.context_name,
        certificate_authority,
        on_loopback,
        impersonates,
    })
}

/// Rejects namespaces that are not one segment of a URL path.
fn check_namespace(namespace: &str) -> Result<()> {
    let reason = if matches!(namespace, "." | "..") {
        format!("may not be '{namespace}'")
    } else if let Some(c) = namespace.chars().find(|c| "/%?#".contains(*c) || c.is_whitespace() || c.is_control()) {
        format!("may not contain '{}'", c.escape_default())
    } else {
        return Ok(());
    };
    Err(Error::usage(format!("invalid namespace {namespace:?}: [{reason}]")))
}

/// Returns the server's URL. As in client-go, the default scheme is HTTPS if TLS is configured, else HTTP.
fn server_url(selected: &SelectedContext) -> Result<Uri> {
    let (cluster, user) = (&selected.cluster, &selected.user);
    let server = non_empty(cluster.server.as_deref()).ok_or_else(|| {
        Error::failed(format!("cluster \"{}\" has no server", selected.cluster_name)).hint("name one with --server")
    })?;
    let tls = cluster.certificate_authority.is_some()
        || cluster.certificate_authority_data.is_some()
        || cluster.insecure_skip_tls_verify == Some(true)
        || user.client_certificate.is_some()
        || user.client_certificate_data.is_some();
    // Messages and plans contain the address, so it must not contain a secret.
    if server.split('/').any(|part| part.contains('@')) {
        let error = Error::failed("the server's address must not contain a user and password");
        return Err(error.hint("set them for the user in the kubeconfig, or use --token"));
    }
    let url = if server.contains("://") {
        server.to_owned()
    } else {
        format!("{}://{server}", if tls { "https" } else { "http" })
    };
    let parsed = url.parse().ok().filter(|uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")));
    parsed.filter(|uri| uri.host().is_some_and(|host| !host.is_empty())).ok_or_else(|| {
        let error = Error::failed(format!("the server's address {server:?} is not an http or https URL"));
        error.hint("use an address such as https://api.example.com:6443")
    })
}

/// Hint for a certificate authority that is not base64 or not PEM.
const AUTHORITY_HINT: &str =
    "set it again with `kubectl config set-cluster NAME --certificate-authority=FILE --embed-certs`, FILE in PEM";

/// Returns the certificate authority's certificates in DER, or `None` to use those of the system.
fn certificate_authority(selected: &SelectedContext) -> Result<Option<Vec<Vec<u8>>>> {
    let (cluster, name) = (&selected.cluster, &selected.cluster_name);
    let pem = match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (Some(data), _) => {
            let message = format!("certificate-authority-data of cluster \"{name}\" is not base64");
            BASE64.decode(data).map_err(|_| Error::failed(message).hint(AUTHORITY_HINT))?
        }
        (None, Some(path)) => read("certificate-authority", path, name)?,
        (None, None) => return Ok(None),
    };
    let certificates: Vec<Vec<u8>> =
        CertificateDer::pem_slice_iter(&pem).filter_map(|found| Some(found.ok()?.to_vec())).collect();
    if certificates.is_empty() {
        let message = format!("the certificate-authority of cluster \"{name}\" contains no PEM certificate");
        return Err(Error::failed(message).hint(AUTHORITY_HINT));
    }
    Ok(Some(certificates))
}

fn connect_timeout(args: &ConnectionArgs) -> Duration {
    match args.request_timeout {
        None => CONNECT_TIMEOUT,
        Some(limit) if limit.is_zero() => MAX_CONNECT_TIMEOUT,
        Some(limit) => limit.clamp(CONNECT_TIMEOUT, MAX_CONNECT_TIMEOUT),
    }
}

/// Returns the User-Agent, such as `gitops-prune/0.1.0 (linux/amd64)`. It must not begin with `kubectl`: the server derives the field manager of requests without one
/// from it, and kustomize-controller reverts changes of managers with that prefix (docs/reference/kubectl-plugin.md 6.6).
fn user_agent(verb: &str) -> HeaderValue {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let os = if os == "macos" { "darwin" } else { os };
    let arch = match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let product = if verb.is_empty() { "gitops".to_owned() } else { format!("gitops-{verb}") };
    let text = format!("{product}/{} ({os}/{arch})", env!("CARGO_PKG_VERSION"));
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("gitops"))
}

/// Returns an error for a configuration that kube rejects. kube's messages do not contain secrets.
fn invalid_config(error: &kube::Error) -> Error {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    Error::failed(format!("the connection cannot be prepared: {cause}"))
        .hint("check the user's certificate, key or token")
}
