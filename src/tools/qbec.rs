//! Runs the user's `qbec` as a child process to list the objects of an environment, without their content.

use std::path::Path;
use std::process::Stdio;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::process::Command;

use crate::error::{Error, Result};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::prune::collectors::collector::manifest::{LocalManifest, ManifestOrigin};

/// Suffix of a `generateName`: a placeholder for the part that the API server generates.
const GENERATED_SUFFIX: &str = "<xxxxx>";

/// The objects that a qbec application declares for an environment.
#[derive(Clone, Debug)]
pub struct QbecEnvironment {
    /// Name of the application: `metadata.name` of qbec.yaml.
    pub application: String,
    /// Namespace of objects whose manifest has none.
    pub default_namespace: String,
    /// Value of `spec.clusterScopedLists` in qbec.yaml.
    pub cluster_scoped_lists: bool,
    /// The objects of the environment.
    pub locals: Vec<LocalManifest>,
}

#[derive(Deserialize)]
struct QbecAppFile {
    metadata: QbecAppName,
    #[serde(default)]
    spec: QbecAppSpec,
}

#[derive(Deserialize)]
struct QbecAppName {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct QbecAppSpec {
    #[serde(default)]
    cluster_scoped_lists: bool,
}

#[derive(Deserialize)]
struct QbecVariables {
    namespace: String,
}

/// One row of `qbec show ENV -O -o json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QbecRow {
    api_version: String,
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    component: Option<String>,
}

/// Renders an environment with the `qbec` on PATH.
///
/// Fails when qbec or qbec.yaml is missing, or qbec fails; the message contains the last line of qbec's standard error.
pub async fn render(root: &Path, environment: &str, tag: Option<&str>) -> Result<QbecEnvironment> {
    let file = root.join("qbec.yaml");
    let app =
        read_app_file(&file).map_err(|error| Error::failed(format!("cannot read {}: {error}", file.display())))?;
    let rows: Vec<QbecRow> = run_qbec(root, tag, &["show", environment, "-O", "-o", "json"]).await?;
    let variables: QbecVariables = run_qbec(root, tag, &["env", "vars", environment, "-o", "json"]).await?;
    Ok(QbecEnvironment {
        application: app.metadata.name,
        default_namespace: variables.namespace,
        cluster_scoped_lists: app.spec.cluster_scoped_lists,
        locals: rows
            .into_iter()
            .zip(1..)
            .map(|(row, document)| row.manifest(ManifestOrigin { file: format!("qbec show {environment}"), document }))
            .collect(),
    })
}

fn read_app_file(file: &Path) -> Result<QbecAppFile, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(file)?;
    gitops_core::yaml::check_depth(&text)?;
    Ok(serde_yaml::from_str(&text)?)
}

impl QbecRow {
    fn manifest(self, origin: ManifestOrigin) -> LocalManifest {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        let prefix = self.name.strip_suffix(GENERATED_SUFFIX);
        let name = if prefix.is_some() { "" } else { &self.name };
        LocalManifest {
            id: ObjectId::new(group, &self.kind, &self.namespace, name),
            version: version.to_owned(),
            generate_name: prefix.map(str::to_owned),
            component: self.component,
            exported_mark: None,
            origin,
        }
    }
}

async fn run_qbec<T: DeserializeOwned>(root: &Path, tag: Option<&str>, args: &[&str]) -> Result<T> {
    let command_line = format!("qbec {}", args.join(" "));
    let mut command = Command::new("qbec");
    command.args(args).arg("--colors=false").arg("--root").arg(root).stdin(Stdio::null());
    if let Some(tag) = tag {
        command.args(["--app-tag", tag]);
    }
    let output = command.output().await.map_err(|error| {
        let hint = "install qbec, or pass the output of `qbec show ENV` with -f, and --app";
        Error::failed(format!("cannot run {command_line}: {error}")).hint(hint)
    })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        return Err(Error::failed(format!("{command_line} failed: {}", last.trim())));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::failed(format!("{command_line} did not print JSON: {error}")))
}
