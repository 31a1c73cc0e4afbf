//! Runs helm as a child process: `helm template` on a private copy of a chart, and `helm pull`.
//!
//! A chart is written by whoever can change the tree. helm reads the copy and the values only, and has no network, no
//! plugins and no configuration of the user. A pull has the network, the certificates and the user's configuration of
//! registries, and reads nothing of the tree.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use tokio::sync::OnceCell;

use super::repositories::{self, UserRepository};
use super::sandboxed::{self, Answer, NoAnswer, SandboxedProgram, Workspace, first_lines};
use crate::error::Result;
use crate::tools::cache::Cache;
use crate::tools::program::Program;
use crate::tools::sandbox::{Gate, Network, PrivateDirectories, Target, has_proxy};
use crate::tools::{files, limits};
use gitops_core::bounds::CHART_ARCHIVE_SIZE;
use gitops_core::flux::build::charts::remote::RemoteChart;
use gitops_core::flux::build::charts::{ChartOutput, ChartRun, message_of_chart};
use gitops_core::kubernetes::redact::redact_urls;

/// Major version of helm that helm-controller links.
const MAJOR: &str = "v4.";

/// Beginning of the line of `helm repo update` before the reason of a failure.
const NOT_UPDATED: &str = "Unable to get an update from the ";
/// Variable that names the file with the user's repositories.
const REPOSITORIES: &str = "HELM_REPOSITORY_CONFIG";
/// Variable with the name of the release.
const RELEASE: &str = "KUBECTL_GITOPS_RELEASE";

/// Folder of the cache with archives of charts, by the digests of their manifests in registries.
const CACHED_PULLS: &str = "chart-manifests";

/// Folder of the cache with what charts render.
const CACHED_RENDERS: &str = "chart-output";

/// Renders and fetches charts with the `helm` of this machine, inside the sandbox.
#[derive(Debug)]
pub struct Helm {
    pub program: SandboxedProgram,
    /// Files with credentials for repositories and registries, and the variables that name them. A pull reads no others.
    pub credentials: Vec<(&'static str, PathBuf)>,
    /// Keeps charts that are named by a digest, and what was rendered.
    pub cache: Cache,
    /// The program and its version, or the reason why it cannot be used.
    found: OnceCell<Answer<(Program, String)>>,
}

impl Helm {
    /// Uses the `helm` in `PATH`, or the program at a path. A program in one of the working trees is not looked for.
    pub fn new(program: Option<&Path>, trees: impl IntoIterator<Item = PathBuf>) -> Self {
        let program = SandboxedProgram::new("helm", program, trees, limits::RENDER_TIME);
        Self { program, credentials: vec![], cache: Cache::of_user(), found: OnceCell::new() }
    }

    /// Renders charts, `parallel` at a time. Returns the output or the failure of each, by key.
    ///
    /// Fails when a chart cannot be written to the temporary directory.
    pub async fn run_all(
        &self,
        runs: impl IntoIterator<Item = ChartRun>,
        parallel: usize,
    ) -> Result<Vec<(String, Answer<ChartOutput>)>> {
        let keyed = runs.into_iter().map(|run| (run.key(), run));
        sandboxed::run_all(keyed, parallel, async |(key, run)| self.render(key, run).await, |(key, _)| key).await
    }

    /// Fetches charts, `parallel` at a time. Returns the archive or the failure of each.
    ///
    /// Fails when no temporary directory can be created.
    pub async fn pull_all(
        &self,
        charts: impl IntoIterator<Item = RemoteChart>,
        parallel: usize,
    ) -> Result<Vec<(RemoteChart, Answer<Vec<u8>>)>> {
        sandboxed::run_all(charts, parallel, async |chart| self.pull(chart).await, |chart| chart).await
    }

    /// Returns a chart of a digest from the cache, or else what [`Self::fetch`] returns.
    async fn pull(&self, chart: &RemoteChart) -> Result<Vec<u8>, NoAnswer> {
        let Some(digest) = chart.digest() else { return self.fetch(chart).await };
        if let Some(archive) = self.cache.read(CACHED_PULLS, digest) {
            return Ok(archive);
        }
        let archive = self.fetch(chart).await?;
        self.cache.store(CACHED_PULLS, digest, &archive);
        Ok(archive)
    }

    async fn fetch(&self, chart: &RemoteChart) -> Result<Vec<u8>, NoAnswer> {
        let gate = gate(chart).await?;
        let mut workspace = self.fetching_workspace(chart, gate.as_ref()).await?;
        let (home, tmp) = (workspace.directories.home(), workspace.directories.tmp());
        let mut arguments: Vec<OsString> = vec!["pull".into(), "--destination".into(), (&tmp).into()];
        if !chart.range.is_empty() {
            arguments.push(format!("--version={}", chart.range).into());
        }
        if chart.is_plain_http {
            arguments.push("--plain-http".into());
        }
        match (&*chart.name, self.user_repository(chart)) {
            ("", _) => arguments.extend(["--".into(), (&chart.url).into()]),
            (name, None) => arguments.extend([format!("--repo={}", chart.url).into(), "--".into(), name.into()]),
            (name, Some(repository)) => {
                let file = home.join("repositories.yaml");
                files::write_new(&file, repository.document().as_bytes())
                    .map_err(|error| crate::tools::cannot_write_temporary(&file.display().to_string(), &error))?;
                workspace = repository.files().fold(workspace, |workspace, file| workspace.reading(&file));
                workspace = workspace.with(REPOSITORIES, &file);
                let update = ["repo", "update", repositories::NAME].map(OsString::from);
                self.fetched(&workspace, update.into(), gate.as_ref()).await?;
                arguments.extend(["--".into(), format!("{}/{name}", repositories::NAME).into()]);
            }
        }
        self.fetched(&workspace, arguments, gate.as_ref()).await.map_err(|why| match why {
            NoAnswer::Reason(why) if !self.credentials.is_empty() && !may_send_credentials(chart) => NoAnswer::Reason(
                format!("{why} (no credentials are sent without TLS, which `insecure: true` turns off)"),
            ),
            other => other,
        })?;
        Ok(archive_in(&tmp).map_err(|error| format!("its archive cannot be read: {error}"))?)
    }

    /// Returns the workspace of a run that may use the network, and the user's credentials for registries.
    async fn fetching_workspace(&self, chart: &RemoteChart, gate: Option<&Gate>) -> Result<Workspace, NoAnswer> {
        let mut workspace = self.workspace().await?.fetching(&self.program.trees());
        let home = workspace.directories.home();
        workspace.rules = workspace.rules.writing(&home);
        if let Some(gate) = gate {
            workspace.rules.network = Network::Ports(gate.ports());
            workspace.environment = workspace.environment.through(gate.port());
        }
        // Its own files stay in the private directory, and only credentials can be those of the user.
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            workspace = workspace.with(variable, &home);
        }
        let of_registries = self.credentials.iter().filter(|(variable, _)| *variable != REPOSITORIES);
        for (variable, file) in of_registries.filter(|_| may_send_credentials(chart)) {
            let value = if *variable == "DOCKER_CONFIG" { file.parent().unwrap_or(file) } else { file };
            workspace = workspace.reading(file).with(variable, value);
        }
        Ok(workspace)
    }

    /// Returns the entry of the user's repositories for the repository of a chart, if it may be used.
    fn user_repository(&self, chart: &RemoteChart) -> Option<UserRepository> {
        let (_, file) = self.credentials.iter().find(|(variable, _)| *variable == REPOSITORIES)?;
        UserRepository::find(file, &chart.url)
    }

    /// Runs helm to its end. Fails with its message, without credentials.
    async fn fetched(
        &self,
        workspace: &Workspace,
        arguments: Vec<OsString>,
        gate: Option<&Gate>,
    ) -> Result<(), NoAnswer> {
        let output = self.program.run(workspace, arguments).await?;
        if output.status.success() {
            return Ok(());
        }
        // `helm repo update` writes the reason to its output, and only the names of repositories to its errors.
        let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let of_update = stdout.split_once(NOT_UPDATED).and_then(|(_, reason)| reason.split_once("):"));
        let reason = of_update.map_or_else(|| stderr.trim().trim_start_matches("Error: "), |(_, reason)| reason.trim());
        let mut message = redact_urls(&first_lines(reason));
        let is_refused = ["401", "403", "credential not found"].iter().any(|code| message.contains(code));
        if self.credentials.is_empty() && is_refused {
            message.push_str("; --chart-credentials uses your credentials of helm and docker");
        }
        for refused in gate.map(Gate::refused).unwrap_or_default() {
            message.push_str(&format!("; the repository sends helm to {refused}, which is no public address"));
        }
        Err(message.into())
    }

    /// Returns what a chart renders. It is kept unless it can hold values of Secrets.
    async fn render(&self, key: &str, run: &ChartRun) -> Result<ChartOutput, NoAnswer> {
        let (_, version) = self.found().await?;
        let folder = self.program.cache_folder(CACHED_RENDERS, &version).filter(|_| !run.is_private);
        let Some(folder) = folder else { return self.run(run).await };
        let cached = self.cache.read(&folder, key).and_then(|text| String::from_utf8(text).ok());
        if let Some(manifests) = cached {
            return Ok(ChartOutput::Manifests(manifests));
        }
        let output = self.run(run).await?;
        if let ChartOutput::Manifests(manifests) = &output {
            self.cache.store(&folder, key, manifests.as_bytes());
        }
        Ok(output)
    }

    async fn run(&self, run: &ChartRun) -> Result<ChartOutput, NoAnswer> {
        let workspace = self.workspace().await?;
        let directories = workspace.directories.clone();
        let (chart, values) = (directories.root().join("chart"), directories.root().join("values"));
        let written = write(&chart, &values, run).map_err(|error| {
            crate::tools::cannot_write_temporary(&format!("the chart to {}", chart.display()), &error)
        })?;
        let workspace = workspace
            .with(RELEASE, &run.release)
            .with("HELM_NAMESPACE", &run.namespace)
            .reading(&chart)
            .reading(&values);
        let output = self.program.run(&workspace, arguments(run, &chart, written)).await?;
        if output.status.success() {
            return Ok(ChartOutput::Manifests(self.program.text(output)?));
        }
        // Messages of templates can hold values.
        let stderr = String::from_utf8_lossy(&output.stderr).replace(&*directories.root().to_string_lossy(), "");
        // The lines after the first one say which expression failed.
        let message = message_of_chart(output.status.code(), &stderr);
        let shown = self.program.failure("render it", &first_lines(message), run.is_private);
        Ok(ChartOutput::of_message(message, shown, run.is_private)?)
    }

    /// Returns the workspace of a run, if the program is helm of the right major version.
    async fn workspace(&self) -> Result<Workspace, NoAnswer> {
        let (program, _) = self.found().await?;
        Ok(without_plugins(self.program.new_workspace(program)?))
    }

    /// Looks for the program before it is used, if it will be.
    pub async fn prepare(&self, is_needed: bool) {
        if is_needed {
            // A failure is said where the program is used.
            let _ = self.found().await;
        }
    }

    /// Returns the program and its version if it is helm of the right major version.
    async fn found(&self) -> Answer<(Program, String)> {
        self.found.get_or_init(|| self.find()).await.clone()
    }

    async fn find(&self) -> Answer<(Program, String)> {
        let program = self.program.find().map_err(|error| self.cannot_run(error))?;
        let directories = PrivateDirectories::new().map_err(|error| self.cannot_run(error.message))?;
        let mut workspace = without_plugins(
            self.program.workspace(program.clone(), directories).map_err(|error| self.cannot_run(error))?,
        );
        workspace.limit = limits::VERSION_TIME;
        let output = workspace
            .run(["version", "--template", "{{.Version}}"])
            .await
            .map_err(|failure| self.cannot_run(failure))?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if version.starts_with(MAJOR) {
            return Ok((program, version));
        }
        let name = self.program.program.display();
        Err(format!("{name} is not helm 4, which helm-controller links: name one with --helm"))
    }

    fn cannot_run(&self, why: impl Display) -> String {
        let name = self.program.program.display();
        format!("{name} cannot be run ({why}): install helm 4, or name it with --helm")
    }
}

fn without_plugins(workspace: Workspace) -> Workspace {
    workspace.with("HELM_NO_PLUGINS", "1")
}

/// Returns true if credentials for the registry of a chart do not leave this machine in plain text: whoever may write a source in any
/// namespace could turn TLS off for the user's registry.
fn may_send_credentials(chart: &RemoteChart) -> bool {
    !chart.is_plain_http || target(chart).is_some_and(|target| target.is_loopback())
}

/// Returns the server of a chart's repository or registry.
fn target(chart: &RemoteChart) -> Option<Target> {
    let url: http::Uri = chart.url.parse().ok()?;
    let is_plain = chart.is_plain_http || url.scheme_str() == Some("http");
    Target::of_url(&url, if is_plain { 80 } else { 443 })
}

/// Starts the proxy through which helm fetches a chart. `None` if the user has a proxy, which then decides what is reached.
async fn gate(chart: &RemoteChart) -> Result<Option<Gate>, NoAnswer> {
    if has_proxy() {
        return Ok(None);
    }
    let target = target(chart).ok_or_else(|| format!("{} names no server", redact_urls(&chart.url)))?;
    Ok(Some(Gate::open(target).await.map_err(|error| format!("no port of this machine is free: {error}"))?))
}

/// Returns the files of the user with credentials for repositories and registries, and the variables that name them.
pub fn user_credentials() -> Vec<(&'static str, PathBuf)> {
    let [registry, repositories, docker] = ["HELM_REGISTRY_CONFIG", REPOSITORIES, "DOCKER_CONFIG"]
        .map(|variable| std::env::var_os(variable).map(PathBuf::from));
    let candidates = [
        ("HELM_REGISTRY_CONFIG", registry, ".config/helm/registry/config.json"),
        (REPOSITORIES, repositories, ".config/helm/repositories.yaml"),
        ("DOCKER_CONFIG", docker.map(|directory| directory.join("config.json")), ".docker/config.json"),
    ];
    let home = crate::tools::home_directory();
    let files = candidates.into_iter().filter_map(|(variable, named, default)| {
        Some((variable, named.or_else(|| home.as_ref().map(|home| home.join(default)))?))
    });
    files.filter(|(_, file)| file.is_absolute() && file.is_file()).collect()
}

fn archive_in(directory: &Path) -> std::io::Result<Vec<u8>> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "tgz") {
            return files::read_regular(&path, CHART_ARCHIVE_SIZE.limit as u64);
        }
    }
    Err(std::io::Error::other("helm wrote none"))
}

/// Returns the arguments for a run with a chart and files of values. All users of the machine can read them, and the release and its
/// namespace can derive from a Secret, so that these two are in the environment.
fn arguments(run: &ChartRun, chart: &Path, values: Vec<PathBuf>) -> Vec<OsString> {
    let release = format!("{{{{ env {RELEASE:?} }}}}");
    let mut arguments: Vec<OsString> = ["template", "--include-crds", "--name-template"].map(OsString::from).into();
    arguments.push(release.into());
    arguments.extend(run.is_upgrade.then(|| "--is-upgrade".into()));
    arguments.extend(run.skips_schema.then(|| "--skip-schema-validation".into()));
    for number in &run.numbers {
        arguments.extend(["--set".into(), number.into()]);
    }
    if let Some(version) = &run.kube_version {
        arguments.extend(["--kube-version".into(), version.into()]);
    }
    for file in values {
        arguments.extend(["--values".into(), file.into_os_string()]);
    }
    arguments.extend(["--".into(), chart.into()]);
    arguments
}

/// Writes a chart and values to two new directories. Returns the files of the values, in order.
fn write(chart: &Path, values: &Path, run: &ChartRun) -> std::io::Result<Vec<PathBuf>> {
    [chart, values].iter().try_for_each(std::fs::create_dir)?;
    for (at, content) in run.files.iter() {
        let file = chart.join(at);
        std::fs::create_dir_all(file.parent().unwrap_or(chart))?;
        files::write_new(&file, content)?;
    }
    let mut written = vec![];
    for (number, text) in run.values.iter().enumerate() {
        let file = values.join(format!("{number}.yaml"));
        files::write_new(&file, text.reveal().as_bytes())?;
        written.push(file);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use gitops_core::private::Private;

    use super::*;

    #[test]
    fn what_can_derive_from_a_secret_is_no_argument() {
        let [release, namespace, text] =
            ["release-hunter2", "namespace-hunter2", "password: hunter2"].map(str::to_owned);
        let values = vec![Private::new(text)];
        let run = ChartRun { release, namespace, values, is_private: true, is_upgrade: true, ..ChartRun::default() };
        let arguments = arguments(&run, Path::new("/chart"), vec!["/values/0.yaml".into()]);
        let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
        let expected = "template --include-crds --name-template {{ env \"KUBECTL_GITOPS_RELEASE\" }} --is-upgrade --values \
            /values/0.yaml -- /chart";
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn credentials_leave_this_machine_with_tls_only() {
        for (url, is_plain_http, expected) in [
            ("oci://example.com/charts/app", false, true),
            ("oci://example.com/charts/app", true, false),
            ("oci://example.com:5000/app", true, false),
            ("oci://localhost.example.com/app", true, false),
            ("oci://127.0.0.1.example.com:5000/app", true, false),
            ("oci://user@127.0.0.1@example.com/app", true, false),
            ("oci://127.0.0.1:5000/app", true, true),
            ("oci://localhost/app", true, true),
            ("oci://[::1]:5000/app", true, true),
        ] {
            let chart = RemoteChart { url: url.to_owned(), name: String::new(), range: "1".to_owned(), is_plain_http };
            assert_eq!(may_send_credentials(&chart), expected, "{url}");
        }
    }
}
