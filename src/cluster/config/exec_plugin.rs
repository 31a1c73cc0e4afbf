//! Credential plugins (`users[].user.exec`): kube runs one three times for each client, blocking (reference rust-and-kube
//! 2.2 trap 1); here it runs once and leaves plain credentials behind.
//!
//! The protocol is client-go's: `ExecCredential` of `client.authentication.k8s.io` v1 or v1beta1 in KUBERNETES_EXEC_INFO
//! and on standard output. The output is a secret and is never shown.

use std::process::Stdio;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube::config::{AuthInfo, ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::environment::Environment;
use super::kubeconfig::{Chosen, io_words};
use super::plugin_policy;
use crate::error::{Error, Result};

const V1: &str = "client.authentication.k8s.io/v1";
const V1BETA1: &str = "client.authentication.k8s.io/v1beta1";

/// What a plugin prints; fields of `status` are secrets.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    status: Option<ExecStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecStatus {
    #[serde(default)]
    token: String,
    #[serde(default)]
    client_certificate_data: String,
    #[serde(default)]
    client_key_data: String,
}

/// Runs the user's plugin, if there is one, and puts its credentials in its place.
///
/// # Errors
/// In client-go's words: a plugin that is missing, fails, or answers something else than credentials.
pub(crate) async fn resolve(chosen: &mut Chosen, environment: &Environment) -> Result<()> {
    let Some(plugin) = chosen.user.exec.take() else {
        return Ok(());
    };
    if has_other_credentials(&chosen.user) {
        return Ok(());
    }
    let status = run(&plugin, chosen, environment).await?;
    let user = &mut chosen.user;
    if !status.token.is_empty() {
        user.token = Some(SecretString::from(status.token));
    }
    // A certificate that is written down wins, as in client-go.
    let has_certificate = user.client_certificate.is_some() || user.client_certificate_data.is_some();
    if !status.client_certificate_data.is_empty() && !has_certificate {
        user.client_certificate_data = Some(BASE64.encode(status.client_certificate_data));
        user.client_key_data = Some(SecretString::from(BASE64.encode(status.client_key_data)));
    }
    Ok(())
}

/// Whether a plugin would not be asked: what is written down, or given with `--token`, wins.
fn has_other_credentials(user: &AuthInfo) -> bool {
    user.token.is_some() || user.token_file.is_some() || user.username.is_some() || user.auth_provider.is_some()
}

async fn run(plugin: &ExecConfig, chosen: &Chosen, environment: &Environment) -> Result<ExecStatus> {
    let name = plugin.command.as_deref().unwrap_or_default();
    if name.is_empty() {
        let user = &chosen.user_name;
        return Err(Error::failed(format!("command must be specified for {user} to use exec authentication plugin")));
    }
    let version = match plugin.api_version.as_deref().unwrap_or_default() {
        version @ (V1 | V1BETA1) => version,
        other => {
            let error = Error::failed(format!("exec plugin: invalid apiVersion \"{other}\""));
            return Err(error.hint(format!("the plugin's configuration must say {V1} or {V1BETA1}")));
        }
    };
    let interactive = interactive(plugin, version, name, &chosen.user_name, environment)?;
    let mut spec = json!({ "interactive": interactive });
    if plugin.provide_cluster_info {
        let cluster = ExecAuthCluster::try_from(&chosen.cluster);
        let cluster =
            cluster.map_err(|_| Error::failed("unable to read the certificate-authority for the exec plugin"))?;
        spec["cluster"] = serde_json::to_value(cluster).unwrap_or(Value::Null);
    }
    let info = json!({ "apiVersion": version, "kind": "ExecCredential", "spec": spec });

    let mut command = tokio::process::Command::new(plugin_policy::permitted(name, environment)?);
    command.args(plugin.args.iter().flatten()).kill_on_drop(true);
    for variable in plugin.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    // The plugin may tell the user to open a page: its standard error is the user's.
    command.stdin(if interactive { Stdio::inherit() } else { Stdio::null() }).stderr(Stdio::inherit());
    let output = command.output().await.map_err(|error| not_started(plugin, name, &error))?;
    if !output.status.success() {
        let code = output.status.code().map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
        let error = Error::failed(format!("getting credentials: exec: executable {name} failed with {code}"));
        return Err(error.hint("what it wrote is above; run it by itself, or log in again"));
    }
    parse(&output.stdout, version)
}

/// Whether the plugin may ask the user.
fn interactive(plugin: &ExecConfig, version: &str, name: &str, user: &str, environment: &Environment) -> Result<bool> {
    match plugin.interactive_mode {
        Some(ExecInteractiveMode::Never) => Ok(false),
        Some(ExecInteractiveMode::IfAvailable) => Ok(environment.interactive),
        Some(ExecInteractiveMode::Always) if environment.interactive => Ok(true),
        Some(ExecInteractiveMode::Always) => {
            let error = Error::failed("exec plugin cannot support interactive mode: standard input is not a terminal");
            Err(error.hint(format!("run {name} in a terminal first, or use credentials that need no question")))
        }
        None if version == V1BETA1 => Ok(environment.interactive),
        None => {
            let message = format!("interactiveMode must be specified for {user} to use exec authentication plugin");
            Err(Error::failed(message).hint("set users[].user.exec.interactiveMode: IfAvailable in the kubeconfig"))
        }
    }
}

fn not_started(plugin: &ExecConfig, name: &str, error: &std::io::Error) -> Error {
    if error.kind() != std::io::ErrorKind::NotFound {
        return Error::failed(format!("getting credentials: exec: {name}: {}", io_words(error)));
    }
    let hint = plugin.install_hint.as_deref().map(str::trim).filter(|hint| !hint.is_empty());
    Error::failed(format!("getting credentials: exec: executable {name} not found"))
        .hint(hint.unwrap_or("the kubeconfig's user needs this credential plugin; install it and put it on PATH"))
}

/// Reads the plugin's answer. Errors name the flaw, never the text.
fn parse(output: &[u8], version: &str) -> Result<ExecStatus> {
    let flaw = |flaw: String| Error::failed(format!("getting credentials: {flaw}"));
    let answer: ExecCredential = serde_json::from_slice(output).map_err(|error| {
        flaw(format!("decoding stdout: not an ExecCredential in line {} column {}", error.line(), error.column()))
    })?;
    if answer.kind != "ExecCredential" {
        return Err(flaw("exec plugin returned another kind than ExecCredential".to_owned()));
    }
    if answer.api_version != version {
        return Err(flaw(format!(
            "exec plugin is configured to use API version {version}, plugin returned another version"
        )));
    }
    let status = answer.status.ok_or_else(|| flaw("exec plugin didn't return a status field".to_owned()))?;
    match (status.client_certificate_data.is_empty(), status.client_key_data.is_empty()) {
        (true, true) if status.token.is_empty() => {
            Err(flaw("exec plugin didn't return a token or cert/key pair".to_owned()))
        }
        (true, true) | (false, false) => Ok(status),
        _ => Err(flaw("exec plugin returned only certificate or key, not both".to_owned())),
    }
}
