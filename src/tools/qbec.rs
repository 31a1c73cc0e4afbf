//! The user's own `qbec` as a child process: what an environment renders to, by names alone, never content.

use std::path::Path;
use std::process::Stdio;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::process::Command;

use crate::error::{Error, Result};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::prune::collectors::manifest::{LocalManifest, Origin};

/// Length of `<xxxxx>`, which stands for what the API server will generate.
const GENERATED: &str = "<xxxxx>";

/// An environment as its folder declares it.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// `metadata.name` of qbec.yaml.
    pub application: String,
    /// Namespace of objects that name none.
    pub default_namespace: String,
    /// `spec.clusterScopedLists`.
    pub cluster_scoped_lists: bool,
    /// Every object of the environment.
    pub locals: Vec<LocalManifest>,
}

#[derive(Deserialize)]
struct QbecAppFile {
    metadata: Named,
    #[serde(default)]
    spec: AppFileSpec,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AppFileSpec {
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
struct Row {
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
/// # Errors
/// When there is no qbec, no qbec.yaml, or qbec fails; its own words are passed on.
pub async fn render(root: &Path, environment: &str, tag: Option<&str>) -> Result<Rendered> {
    let file = root.join("qbec.yaml");
    let broken = |why: String| Error::failed(format!("cannot read {}: {why}", file.display()));
    let text = std::fs::read_to_string(&file).map_err(|error| broken(error.to_string()))?;
    let app: QbecAppFile = serde_yaml::from_str(&text).map_err(|error| broken(error.to_string()))?;
    let rows: Vec<Row> = qbec(root, tag, &["show", environment, "-O", "-o", "json"]).await?;
    let variables: QbecVariables = qbec(root, tag, &["env", "vars", environment, "-o", "json"]).await?;
    let origin = |document| Origin { file: format!("qbec show {environment}"), document };
    Ok(Rendered {
        application: app.metadata.name,
        default_namespace: variables.namespace,
        cluster_scoped_lists: app.spec.cluster_scoped_lists,
        locals: rows.into_iter().enumerate().map(|(index, row)| row.local(origin(index + 1))).collect(),
    })
}

impl Row {
    fn local(self, origin: Origin) -> LocalManifest {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        let prefix = self.name.strip_suffix(GENERATED);
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

async fn qbec<T: DeserializeOwned>(root: &Path, tag: Option<&str>, args: &[&str]) -> Result<T> {
    let words = format!("qbec {}", args.join(" "));
    let mut command = Command::new("qbec");
    command.args(args).arg("--colors=false").arg("--root").arg(root).stdin(Stdio::null());
    if let Some(tag) = tag {
        command.args(["--app-tag", tag]);
    }
    let output = command.output().await.map_err(|error| {
        let hint = "install qbec, or pass -f with what `qbec show ENV` prints, and --app";
        Error::failed(format!("cannot run {words}: {error}")).hint(hint)
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        return Err(Error::failed(format!("{words} failed: {}", last.trim())));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| Error::failed(format!("{words} printed no JSON: {error}")))
}
