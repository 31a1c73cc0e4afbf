//! Runs the credential plugin (`users[].user.exec`) once and replaces it by its credentials. kube would run it three times
//! for each client, blocking (docs/reference/kubectl-plugin.md 6.1).
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
use tokio::io::AsyncReadExt;

use super::environment::Environment;
use super::kubeconfig::{SelectedContext, io_message};
use super::plugin_policy;
use crate::cluster::http::limits;
use crate::error::{Error, Result};

const V1: &str = "client.authentication.k8s.io/v1";
const V1BETA1: &str = "client.authentication.k8s.io/v1beta1";

/// Held by a plugin that may ask the user.
static PROMPT: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Output of a plugin. The fields of `status` are secrets.
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

/// Runs the user's plugin, if there is one, and replaces it by its credentials. Fails with client-go's messages if the
/// plugin is missing, fails, or does not print credentials.
pub(crate) async fn resolve(selected: &mut SelectedContext, environment: &Environment) -> Result<()> {
    let Some(plugin) = selected.user.exec.take() else {
        return Ok(());
    };
    if has_other_credentials(&selected.user) {
        return Ok(());
    }
    let status = run(&plugin, selected, environment).await?;
    let user = &mut selected.user;
    if !status.token.is_empty() {
        user.token = Some(SecretString::from(status.token));
    }
    // As in client-go, a certificate of the kubeconfig has precedence.
    let has_certificate = user.client_certificate.is_some() || user.client_certificate_data.is_some();
    if !status.client_certificate_data.is_empty() && !has_certificate {
        user.client_certificate_data = Some(BASE64.encode(status.client_certificate_data));
        user.client_key_data = Some(SecretString::from(BASE64.encode(status.client_key_data)));
    }
    Ok(())
}

/// Returns true if the kubeconfig or `--token` has credentials, which have precedence over a plugin.
fn has_other_credentials(user: &AuthInfo) -> bool {
    user.token.is_some() || user.token_file.is_some() || user.username.is_some() || user.auth_provider.is_some()
}

async fn run(plugin: &ExecConfig, selected: &SelectedContext, environment: &Environment) -> Result<ExecStatus> {
    let name = plugin.command.as_deref().unwrap_or_default();
    if name.is_empty() {
        let user = &selected.user_name;
        return Err(Error::failed(format!("command must be specified for {user} to use exec authentication plugin")));
    }
    let version = match plugin.api_version.as_deref().unwrap_or_default() {
        version @ (V1 | V1BETA1) => version,
        other => {
            let error = Error::failed(format!("exec plugin: invalid apiVersion \"{other}\""));
            return Err(error.hint(format!("the plugin's configuration must say {V1} or {V1BETA1}")));
        }
    };
    let interactive = may_prompt(plugin, version, name, &selected.user_name, environment)?;
    let mut spec = json!({ "interactive": interactive });
    if plugin.provide_cluster_info {
        let cluster = ExecAuthCluster::try_from(&selected.cluster)
            .map_err(|_| Error::failed("unable to read the certificate-authority for the exec plugin"))?;
        spec["cluster"] = serde_json::to_value(cluster).unwrap_or(Value::Null);
    }
    let info = json!({ "apiVersion": version, "kind": "ExecCredential", "spec": spec });
    // Several clusters may be connected to at the same time, and the terminal is one.
    let _turn = if interactive { Some(PROMPT.lock().await) } else { None };

    let mut command = tokio::process::Command::new(plugin_policy::allowed_program(name, environment)?);
    command.args(plugin.args.iter().flatten()).kill_on_drop(true);
    for variable in plugin.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    // The plugin may ask the user to open a page, so its standard error is shown.
    command.stdin(if interactive { Stdio::inherit() } else { Stdio::null() });
    command.stderr(if environment.silent { Stdio::null() } else { Stdio::inherit() });
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| cannot_start(plugin, name, &error))?;
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let read = stdout.take(limits::MAX_CREDENTIALS + 1).read_to_end(&mut output).await;
        read.map_err(|error| cannot_start(plugin, name, &error))?;
    }
    if output.len() as u64 > limits::MAX_CREDENTIALS {
        let limit = limits::MAX_CREDENTIALS >> 20;
        return Err(invalid_output(&format!("exec plugin printed more than {limit} MiB, the limit")));
    }
    let status = child.wait().await.map_err(|error| cannot_start(plugin, name, &error))?;
    if !status.success() {
        let code = status.code().map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
        let error = Error::failed(format!("getting credentials: exec: executable {name} failed with {code}"));
        return Err(error.hint("see its output above; run it by itself, or log in again"));
    }
    parse(&output, version)
}

fn may_prompt(plugin: &ExecConfig, version: &str, name: &str, user: &str, environment: &Environment) -> Result<bool> {
    match plugin.interactive_mode {
        Some(ExecInteractiveMode::Never) => Ok(false),
        Some(ExecInteractiveMode::IfAvailable) => Ok(environment.interactive),
        Some(ExecInteractiveMode::Always) if environment.interactive => Ok(true),
        Some(ExecInteractiveMode::Always) => {
            let error = Error::failed("exec plugin cannot support interactive mode: standard input is not a terminal");
            Err(error.hint(format!("run {name} in a terminal first, or use credentials that need no prompt")))
        }
        None if version == V1BETA1 => Ok(environment.interactive),
        None => {
            let message = format!("interactiveMode must be specified for {user} to use exec authentication plugin");
            Err(Error::failed(message).hint("set users[].user.exec.interactiveMode: IfAvailable in the kubeconfig"))
        }
    }
}

fn cannot_start(plugin: &ExecConfig, name: &str, error: &std::io::Error) -> Error {
    if error.kind() != std::io::ErrorKind::NotFound {
        return Error::failed(format!("getting credentials: exec: {name}: {}", io_message(error)));
    }
    let hint = plugin.install_hint.as_deref().map(str::trim).filter(|hint| !hint.is_empty());
    Error::failed(format!("getting credentials: exec: executable {name} not found"))
        .hint(hint.unwrap_or("the kubeconfig's user needs this credential plugin; install it and put it on PATH"))
}

/// Parses the plugin's output. Error messages do not quote it.
fn parse(output: &[u8], version: &str) -> Result<ExecStatus> {
    let credential: ExecCredential = serde_json::from_slice(output).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        invalid_output(&format!("decoding stdout: not an ExecCredential in line {line} column {column}"))
    })?;
    if credential.kind != "ExecCredential" {
        return Err(invalid_output("exec plugin returned another kind than ExecCredential"));
    }
    if credential.api_version != version {
        let message =
            format!("exec plugin is configured to use API version {version}, plugin returned another version");
        return Err(invalid_output(&message));
    }
    let status = credential.status.ok_or_else(|| invalid_output("exec plugin didn't return a status field"))?;
    match (status.client_certificate_data.is_empty(), status.client_key_data.is_empty()) {
        (true, true) if status.token.is_empty() => {
            Err(invalid_output("exec plugin didn't return a token or cert/key pair"))
        }
        (true, true) | (false, false) => Ok(status),
        _ => Err(invalid_output("exec plugin returned only certificate or key, not both")),
    }
}

fn invalid_output(reason: &str) -> Error {
    Error::failed(format!("getting credentials: {reason}"))
}
