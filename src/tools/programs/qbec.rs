//! Runs the user's `qbec` as a child process to list the objects of an environment, without their content.
//!
//! Components are programs in jsonnet, which import any file, and data sources start other programs. So qbec runs in a
//! sandbox: it reads the checkout, and has no network. Programs that it starts have the same restrictions.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::sandboxed::SandboxedProgram;
use crate::error::{Error, Result};
use crate::tools::sandbox::{Failure, Output, PrivateDirectories, Sandbox};
use crate::tools::{limits, program};
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
pub async fn render(root: &Path, environment: &str, tag: Option<&str>, sandbox: &Sandbox) -> Result<QbecEnvironment> {
    let file = root.join("qbec.yaml");
    let app = read_app_file(&file).map_err(|error| cannot_read(&file, &error))?;
    let top = root.canonicalize().map_err(|error| cannot_read(&file, &error))?;
    let mut program = SandboxedProgram::new("qbec", None, [top], limits::QBEC_TIME);
    program.sandbox = sandbox.clone();
    let qbec = Qbec { program, tag };
    let rows: Vec<QbecRow> = qbec.run(&["show", environment, "-O", "-o", "json"], &[]).await?;
    // The namespace of an environment may be that of a context.
    let kubeconfig = kubeconfig_files();
    let variables: QbecVariables = qbec.run(&["env", "vars", environment, "-o", "json"], &kubeconfig).await?;
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

fn cannot_read(file: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::failed(format!("cannot read {}: {error}", file.display()))
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

/// Returns the kubeconfig files of the user as qbec finds them.
fn kubeconfig_files() -> Vec<PathBuf> {
    match std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
        Some(list) => std::env::split_paths(&list).filter_map(|file| std::path::absolute(file).ok()).collect(),
        None => crate::tools::home_directory().map(|home| home.join(".kube").join("config")).into_iter().collect(),
    }
}

/// A qbec that may read one application, which is its only tree.
struct Qbec<'a> {
    program: SandboxedProgram,
    tag: Option<&'a str>,
}

impl Qbec<'_> {
    /// Runs qbec, which may also read the kubeconfig files, and returns the JSON that it prints.
    async fn run<T: DeserializeOwned>(&self, args: &[&str], kubeconfig: &[PathBuf]) -> Result<T> {
        let command_line = format!("qbec {}", args.join(" "));
        let mut arguments: Vec<OsString> = args.iter().chain(&["--colors=false", "--root"]).map(Into::into).collect();
        arguments.extend(self.program.trees.iter().map(Into::into));
        arguments.extend(self.tag.into_iter().flat_map(|tag| ["--app-tag".into(), tag.into()]));
        let ran = self.output(arguments, kubeconfig, PrivateDirectories::new()?).await;
        let output = ran.map_err(|failure| match failure {
            Failure::Start(error) => Error::failed(format!("cannot run {command_line}: {error}"))
                .hint("install qbec, or pass the output of `qbec show ENV` with -f, and --app"),
            failure => Error::failed(format!("{command_line}: {failure}")),
        })?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            return Err(Error::failed(format!("{command_line} failed: {}", last.trim())).hint(
                "qbec runs without a network and reads only its checkout; if it needs more, \
                 pass the output of `qbec show ENV` with -f, and --app",
            ));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| Error::failed(format!("{command_line} did not print JSON: {error}")))
    }

    async fn output(
        &self,
        arguments: Vec<OsString>,
        kubeconfig: &[PathBuf],
        directories: PrivateDirectories,
    ) -> Result<Output, Failure> {
        let tmp = directories.tmp();
        let found = self.program.find().and_then(|program| self.program.workspace(program, directories));
        let mut workspace = found.map_err(Failure::Start)?;
        workspace.rules = workspace.rules.starting_programs().writing(&tmp);
        for tree in &self.program.trees {
            workspace.rules.execute.extend(program::checkout_files(tree).map_err(Failure::Start)?);
        }
        workspace.rules.read.extend(kubeconfig.iter().filter(|file| file.exists()).cloned());
        workspace.environment = workspace.environment.with_variables_of("QBEC_");
        workspace.with("KUBECONFIG", std::env::join_paths(kubeconfig).unwrap_or_default()).run(arguments).await
    }
}
