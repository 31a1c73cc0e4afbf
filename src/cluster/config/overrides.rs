//! Applies the connection flags to the selected cluster and user, and validates the result.

use std::collections::HashMap;
use std::path::Path;

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use super::args::ConnectionArgs;
use super::kubeconfig::{SelectedContext, io_message, non_empty, read_limited};
use crate::error::{Error, Result};

/// Applies the flags of the cluster, with client-go's side effects: `--server` drops the kubeconfig's tls-server-name;
/// `--certificate-authority` and `--insecure-skip-tls-verify` each drop both of the kubeconfig's settings.
pub(crate) fn override_cluster(selected: &mut SelectedContext, args: &ConnectionArgs) -> Result<()> {
    let cluster = &mut selected.cluster;
    if let Some(server) = non_empty(args.server.as_deref()) {
        cluster.server = Some(server.to_owned());
        cluster.tls_server_name = None;
    }
    if let Some(name) = non_empty(args.tls_server_name.as_deref()) {
        cluster.tls_server_name = Some(name.to_owned());
    }
    let authority = path_text(args.certificate_authority.as_deref());
    if authority.is_some() || args.insecure_skip_tls_verify {
        cluster.insecure_skip_tls_verify = Some(args.insecure_skip_tls_verify);
        cluster.certificate_authority = authority;
        cluster.certificate_authority_data = None;
    }
    let has_authority = cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
    if has_authority && cluster.insecure_skip_tls_verify == Some(true) {
        let error = Error::failed("specifying a root certificates file with the insecure flag is not allowed");
        return Err(error.hint("leave one of the two out; the flag makes any certificate of a server pass"));
    }
    Ok(())
}

/// Applies the flags of the user. `--token` removes all other credentials for the Authorization header.
pub(crate) fn override_user(selected: &mut SelectedContext, args: &ConnectionArgs) {
    let user = &mut selected.user;
    if let Some(token) = args.token.as_ref().and_then(|token| non_empty(Some(token.expose()))) {
        user.token = Some(SecretString::from(token));
        (user.token_file, user.username, user.password) = (None, None, None);
        (user.exec, user.auth_provider) = (None, None);
    }
    if let Some(path) = path_text(args.client_certificate.as_deref()) {
        (user.client_certificate, user.client_certificate_data) = (Some(path), None);
    }
    if let Some(path) = path_text(args.client_key.as_deref()) {
        (user.client_key, user.client_key_data) = (Some(path), None);
    }
    if let Some(name) = non_empty(args.impersonate.as_deref()) {
        user.impersonate = Some(name.to_owned());
    }
    if let Some(uid) = non_empty(args.impersonate_uid.as_deref()) {
        user.impersonate_uid = Some(uid.to_owned());
    }
    if !args.impersonate_groups.is_empty() {
        user.impersonate_groups = Some(args.impersonate_groups.clone());
    }
    if !args.impersonate_extra.is_empty() {
        let mut extra: HashMap<String, Vec<String>> = HashMap::new();
        for (key, value) in &args.impersonate_extra {
            extra.entry(key.clone()).or_default().push(value.clone());
        }
        user.impersonate_user_extra = Some(extra);
    }
}

fn path_text(path: Option<&Path>) -> Option<String> {
    path.map(|path| path.to_string_lossy().into_owned()).filter(|path| !path.is_empty())
}

/// Rejects invalid users with kubectl's messages; kube has others, or none.
pub(crate) fn check_user(selected: &mut SelectedContext) -> Result<()> {
    let (user, name) = (&mut selected.user, &selected.user_name);
    let impersonates_without_name = user.impersonate_uid.is_some()
        || user.impersonate_groups.as_ref().is_some_and(|groups| !groups.is_empty())
        || user.impersonate_user_extra.as_ref().is_some_and(|extra| !extra.is_empty());
    if user.impersonate.is_none() && impersonates_without_name {
        let message = format!("requesting uid, groups or user-extra for {name} without impersonating a user");
        return Err(Error::failed(message).hint("add --as USER"));
    }
    if let Some(provider) = user.auth_provider.as_ref().filter(|provider| provider.name != "oidc") {
        let error = Error::failed(format!("no Auth Provider found for name \"{}\"", provider.name));
        return Err(
            error.hint("use a credential plugin (users[].user.exec) such as gke-gcloud-auth-plugin or kubelogin")
        );
    }
    let certificate = user.client_certificate_data.is_some() || user.client_certificate.is_some();
    let key = user.client_key_data.is_some() || user.client_key.is_some();
    if certificate != key {
        let missing = if key { "client-cert-data or client-cert" } else { "client-key-data or client-key" };
        let message = format!("{missing} must be specified for {name} to use the clientCert authentication method");
        return Err(Error::failed(message).hint("a client certificate and its key come together: set both, or none"));
    }
    for (flag, path) in [("client-cert", &user.client_certificate), ("client-key", &user.client_key)] {
        if let Some(path) = path {
            read(flag, path, name)?;
        }
    }
    // kube sends the file unchanged; a line break at its end is not valid in a header.
    if let Some(path) = user.token_file.as_ref().filter(|_| user.token.is_none()) {
        let token = String::from_utf8_lossy(&read("token file", path, name)?).into_owned();
        if token.trim() != token {
            user.token = Some(SecretString::from(token.trim()));
        }
    }
    Ok(())
}

/// Rejects a token that is not a header value, such as one with a line break from a YAML block. kube would panic.
pub(crate) fn check_token(selected: &SelectedContext) -> Result<()> {
    match &selected.user.token {
        Some(token) if HeaderValue::from_str(token.expose_secret()).is_err() => {
            let message = format!(
                "the token of user \"{}\" contains a line break or another control character",
                selected.user_name
            );
            Err(Error::failed(message).hint("write the token on one line, without a space or line break at its end"))
        }
        _ => Ok(()),
    }
}

/// Reads a file of the kubeconfig or of a flag. Fails with kubectl's message.
pub(crate) fn read(what: &str, path: &str, name: &str) -> Result<Vec<u8>> {
    read_limited(Path::new(path)).map_err(|error| {
        Error::failed(format!("unable to read {what} {path} for {name} due to open {path}: {}", io_message(&error)))
            .hint("mend the path in the kubeconfig or in the flag; `kubectl config view` shows the paths")
    })
}
