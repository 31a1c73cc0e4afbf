//! The policy for credential plugins in kubectl's preferences file, kuberc (docs/reference/kubectl-plugin.md 2.3).

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::environment::Environment;
use super::kubeconfig::io_message;
use crate::error::{Error, Result};

/// The parts of a kuberc that are read (`kubectl.config.k8s.io/v1beta1 Preference`).
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Preference {
    #[serde(default)]
    credential_plugin_policy: String,
    #[serde(default)]
    credential_plugin_allowlist: Vec<PolicyEntry>,
}

#[derive(Deserialize)]
struct PolicyEntry {
    command: Option<String>,
    /// The older name of `command`.
    name: Option<String>,
}

/// Returns the program to run for a plugin's command: the command itself, or with an allowlist the file that it allows.
/// Fails if the policy forbids the plugin, cannot be read, or is unknown.
pub(crate) fn allowed_program(command: &str, environment: &Environment) -> Result<PathBuf> {
    let Some((file, preference)) = read(environment)? else { return Ok(command.into()) };
    let forbidden = |why: String| {
        Error::failed(format!("getting credentials: {why}")).hint(format!("the policy is in {}", file.display()))
    };
    match preference.credential_plugin_policy.as_str() {
        "" | "AllowAll" if preference.credential_plugin_allowlist.is_empty() => Ok(command.into()),
        "" | "AllowAll" => {
            Err(forbidden("an allowlist of credential plugins needs the policy \"Allowlist\"".to_owned()))
        }
        "DenyAll" => Err(forbidden(format!("plugin {command:?} not allowed: policy set to \"DenyAll\""))),
        "Allowlist" => {
            let found = resolve(command, environment);
            let entries =
                preference.credential_plugin_allowlist.iter().filter_map(|e| e.command.as_ref().or(e.name.as_ref()));
            let mut allowed = entries.filter_map(|entry| resolve(entry, environment));
            found.filter(|program| allowed.any(|allowed| allowed == *program)).ok_or_else(|| {
                forbidden(format!("plugin path {command:?} is not permitted by the credential plugin allowlist"))
            })
        }
        other => Err(forbidden(format!("unknown plugin policy {other:?}"))),
    }
}

/// Reads the file of KUBERC, else `~/.kube/kuberc`. Returns `None` with `KUBERC=off`, or if the file does not exist.
fn read(environment: &Environment) -> Result<Option<(PathBuf, Preference)>> {
    let file = match (environment.paths("KUBERC"), &environment.home) {
        (None, None) => return Ok(None),
        (Some(path), _) if path == "off" => return Ok(None),
        (Some(path), _) => PathBuf::from(path),
        (None, Some(home)) => home.join(".kube").join("kuberc"),
    };
    let unreadable = |why: String| Error::failed(format!("cannot read the preferences in {}: {why}", file.display()));
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(io_message(&error))),
    };
    // Multiple documents are versions of the same preferences; kubectl uses the first that it can decode.
    let first = serde_yaml::Deserializer::from_str(&text).next().map(Option::<Preference>::deserialize);
    let preference = first.transpose().map_err(|error| {
        unreadable(
            error.location().map_or("not YAML".to_owned(), |at| format!("not preferences in line {}", at.line())),
        )
    })?;
    Ok(Some((file, preference.flatten().unwrap_or_default())))
}

/// Returns the file of a command: the command itself if it is a path, else the first match on PATH.
fn resolve(command: &str, environment: &Environment) -> Option<PathBuf> {
    if command.contains(std::path::MAIN_SEPARATOR) {
        return Some(Path::new(command).components().collect());
    }
    let folders = std::env::split_paths(environment.paths("PATH")?);
    folders.map(|folder| folder.join(command)).find(|path| path.is_file())
}
