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
    check_folder(command, environment)?;
    let Some((file, preference)) = read(environment)? else { return Ok(command.into()) };
    let has_allowlist = !preference.credential_plugin_allowlist.is_empty();
    let reason = match preference.credential_plugin_policy.as_str() {
        "" | "AllowAll" if !has_allowlist => return Ok(command.into()),
        "" | "AllowAll" => "an allowlist of credential plugins needs the policy \"Allowlist\"".to_owned(),
        "DenyAll" => format!("plugin {command:?} not allowed: policy set to \"DenyAll\""),
        "Allowlist" => match resolve(command, environment) {
            Some(program) if preference.allows(&program, environment) => return Ok(program),
            _ => format!("plugin path {command:?} is not permitted by the credential plugin allowlist"),
        },
        other => format!("unknown plugin policy {other:?}"),
    };
    Err(Error::failed(format!("getting credentials: {reason}")).hint(format!("the policy is in {}", file.display())))
}

impl Preference {
    fn allows(&self, program: &Path, environment: &Environment) -> bool {
        let commands =
            self.credential_plugin_allowlist.iter().filter_map(|entry| entry.command.as_ref().or(entry.name.as_ref()));
        commands.filter_map(|command| resolve(command, environment)).any(|allowed| allowed == program)
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
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot_read(&file, &io_message(&error))),
    };
    // Multiple documents are versions of the same preferences; kubectl uses the first that it can decode.
    let first = serde_yaml::Deserializer::from_str(&text).next().map(Option::<Preference>::deserialize);
    let preference = first.transpose().map_err(|error| match error.location() {
        Some(place) => cannot_read(&file, &format!("not preferences in line {}", place.line())),
        None => cannot_read(&file, "not YAML"),
    })?;
    Ok(Some((file, preference.flatten().unwrap_or_default())))
}

fn cannot_read(file: &Path, reason: &str) -> Error {
    Error::failed(format!("cannot read the preferences in {}: {reason}", file.display()))
}

/// Fails, as kubectl does, if a command is found in a relative folder of PATH: whoever can write to the current directory
/// could supply the program.
fn check_folder(command: &str, environment: &Environment) -> Result<()> {
    if command.contains(std::path::MAIN_SEPARATOR) {
        return Ok(());
    }
    let folders: Vec<PathBuf> = environment.paths("PATH").map(std::env::split_paths).into_iter().flatten().collect();
    match folders.iter().find(|folder| folder.join(command).is_file()) {
        Some(folder) if !folder.is_absolute() => {
            let reason = "cannot run executable found relative to current directory";
            Err(Error::failed(format!("getting credentials: exec: {command:?}: {reason}"))
                .hint("remove \".\" and empty entries from PATH, or name the credential plugin by its path"))
        }
        _ => Ok(()),
    }
}

/// Returns the file of a command: the command itself if it is a path, else the first match on PATH.
fn resolve(command: &str, environment: &Environment) -> Option<PathBuf> {
    if command.contains(std::path::MAIN_SEPARATOR) {
        return Some(Path::new(command).components().collect());
    }
    let folders = std::env::split_paths(environment.paths("PATH")?);
    folders.map(|folder| folder.join(command)).find(|path| path.is_file())
}
