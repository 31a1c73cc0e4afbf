//! Runs helm as a child process: `helm template` on a private copy of a chart, and `helm pull`.
//!
//! A chart is written by whoever can change the tree. helm reads the copy and the values only, and has no network, no
//! plugins and no configuration of the user. A pull has the network, the certificates and the user's configuration of
//! registries, and reads nothing of the tree.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::OnceCell;

use super::program::Program;
use super::sandbox::{Environment, Job, Limits, PrivateDirectories, Rules, Sandbox};
use super::{files, limits};
use crate::error::Result;
use gitops_core::bounds::CHART_ARCHIVE_SIZE;
use gitops_core::flux::build::charts::ChartRun;
use gitops_core::flux::build::charts::remote::RemoteChart;
use gitops_core::flux::build::charts::templates::LOOKUP_FAILURE;
use gitops_core::kubernetes::redact::redact_urls;

/// Major version of helm that helm-controller links.
const MAJOR: &str = "v4.";

/// Number of lines of a message of helm that are shown.
const MESSAGE_LINES: usize = 3;

/// Output of a run, or the reason why it has none.
pub type RenderOutput = std::result::Result<String, String>;

/// Archive of a chart, or the reason why there is none.
pub type PulledChart = std::result::Result<Vec<u8>, String>;

/// Renders and fetches charts with the `helm` of this machine, inside the sandbox.
#[derive(Debug)]
pub struct Helm {
    program: PathBuf,
    /// Working trees, which must not supply the program.
    trees: Vec<PathBuf>,
    limit: Duration,
    sandbox: Sandbox,
    /// The program, or the reason why it cannot be used.
    found: OnceCell<std::result::Result<Program, String>>,
}

impl Helm {
    /// Uses the `helm` in `PATH`, or the program at a path. A program in one of the working trees is not looked for.
    pub fn new(program: Option<&Path>, trees: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            program: program.map_or_else(|| PathBuf::from("helm"), Path::to_path_buf),
            trees: trees.into_iter().collect(),
            limit: limits::RENDER_TIME,
            sandbox: Sandbox::of_this_process(),
            found: OnceCell::new(),
        }
    }

    /// Sets the way in which children are restricted.
    #[must_use]
    pub fn with_sandbox(self, sandbox: Sandbox) -> Self {
        Self { sandbox, ..self }
    }

    /// Sets the time limit of one run.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Renders charts, `parallel` at a time. Returns the output or the failure of each, by key.
    ///
    /// Fails when a chart cannot be written to the temporary directory.
    pub async fn run_all(
        &self,
        runs: impl IntoIterator<Item = ChartRun>,
        parallel: usize,
    ) -> Result<Vec<(String, RenderOutput)>> {
        let outputs =
            runs.into_iter().map(|run| async move { self.run(&run).await.map(|output| (run.key.clone(), output)) });
        stream::iter(outputs).buffer_unordered(parallel).try_collect().await
    }

    /// Fetches charts, `parallel` at a time. Returns the archive or the failure of each.
    ///
    /// Fails when no temporary directory can be created.
    pub async fn pull_all(
        &self,
        charts: impl IntoIterator<Item = RemoteChart>,
        parallel: usize,
    ) -> Result<Vec<(RemoteChart, PulledChart)>> {
        let pulls =
            charts.into_iter().map(|chart| async move { self.pull(&chart).await.map(|archive| (chart, archive)) });
        stream::iter(pulls).buffer_unordered(parallel).try_collect().await
    }

    async fn pull(&self, chart: &RemoteChart) -> Result<PulledChart> {
        let program = match self.found.get_or_init(|| self.find()).await {
            Ok(program) => program,
            Err(why) => return Ok(Err(why.clone())),
        };
        let directories = PrivateDirectories::new()?;
        let mut arguments: Vec<OsString> = vec!["pull".into(), "--destination".into(), directories.tmp().into()];
        if !chart.range.is_empty() {
            arguments.push(format!("--version={}", chart.range).into());
        }
        if chart.is_plain_http {
            arguments.push("--plain-http".into());
        }
        match &*chart.name {
            "" => arguments.extend(["--".into(), (&chart.url).into()]),
            name => arguments.extend([format!("--repo={}", chart.url).into(), "--".into(), name.into()]),
        }
        let rules = match Rules::for_program(program) {
            Ok(rules) => rules.fetching().reading(&directories.home()).writing(&directories.home()),
            Err(error) => return Ok(Err(format!("helm cannot be read: {error}"))),
        };
        let mut rules = rules.writing(&directories.tmp());
        let trees: Vec<&Path> = self.trees.iter().map(PathBuf::as_path).collect();
        // Its own files stay in the private directory, and only the credentials are those of the user.
        let mut environment = environment(&directories).fetching(&trees);
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            environment = environment.with(variable, directories.home());
        }
        for (variable, file) in credentials() {
            rules = rules.reading(&file);
            let value = if variable == "DOCKER_CONFIG" { file.parent().unwrap_or(&file).to_owned() } else { file };
            environment = environment.with(variable, value);
        }
        let job =
            Job { program, arguments, environment: &environment, rules: &rules, limits: &Limits::of_build(self.limit) };
        let output = match self.sandbox.run(job).await {
            Ok(output) => output,
            Err(failure) => return Ok(Err(failure.describe("helm"))),
        };
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            let message = message.trim().trim_start_matches("Error: ").lines().take(MESSAGE_LINES).collect::<Vec<_>>();
            return Ok(Err(redact_urls(&message.join(" "))));
        }
        Ok(archive_in(&directories.tmp()).map_err(|error| format!("its archive cannot be read: {error}")))
    }

    async fn run(&self, run: &ChartRun) -> Result<RenderOutput> {
        let program = match self.found.get_or_init(|| self.find()).await {
            Ok(program) => program,
            Err(why) => return Ok(Err(why.clone())),
        };
        let directories = PrivateDirectories::new()?;
        let (chart, values) = (directories.root().join("chart"), directories.root().join("values"));
        let written = write(&chart, &values, run)
            .map_err(|error| super::cannot_write_temporary(&format!("the chart to {}", chart.display()), &error))?;
        let mut arguments: Vec<OsString> = ["template", "--is-upgrade", "--namespace"].map(OsString::from).into();
        arguments.push((&run.namespace).into());
        if let Some(version) = &run.kube_version {
            arguments.extend(["--kube-version".into(), version.into()]);
        }
        for file in written {
            arguments.extend(["--values".into(), file.into_os_string()]);
        }
        arguments.extend(["--".into(), (&run.release).into(), (&chart).into()]);
        let rules = match Rules::for_program(program) {
            Ok(rules) => rules.reading(&directories.home()).reading(&chart).reading(&values),
            Err(error) => return Ok(Err(format!("helm cannot be read: {error}"))),
        };
        let job = Job {
            program,
            arguments,
            environment: &environment(&directories),
            rules: &rules,
            limits: &Limits::of_build(self.limit),
        };
        let output = match self.sandbox.run(job).await {
            Ok(output) => output,
            Err(failure) => return Ok(Err(failure.describe("helm"))),
        };
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout).map_err(|_| "the output of helm is not UTF-8".to_owned()));
        }
        // Messages of templates can hold values.
        let message = String::from_utf8_lossy(&output.stderr).replace(&*directories.root().to_string_lossy(), "");
        if message.contains(LOOKUP_FAILURE) {
            return Ok(Err("its chart calls lookup, whose result in the cluster is not known here".to_owned()));
        }
        // The lines after the first one say which expression failed.
        let start = message.find("Error: ").map_or("it gave no message", |at| &message[at + "Error: ".len()..]);
        let message = start.lines().take(MESSAGE_LINES).map(str::trim).collect::<Vec<_>>().join(" ");
        Ok(Err(match run.is_private {
            true => "helm fails to render it, with values of Secrets".to_owned(),
            false => format!("helm fails to render it: {message}"),
        }))
    }

    /// Returns the program if it is helm of the right major version.
    async fn find(&self) -> std::result::Result<Program, String> {
        let trees: Vec<&Path> = self.trees.iter().map(PathBuf::as_path).collect();
        let name = self.program.display();
        let cannot_run = |why: &dyn std::fmt::Display| {
            format!("{name} cannot be run ({why}): install helm 4, or name it with --helm")
        };
        let program = Program::find(&self.program, &trees).map_err(|error| cannot_run(&error))?;
        let directories = PrivateDirectories::new().map_err(|error| cannot_run(&error.message))?;
        let rules = Rules::for_program(&program).map_err(|error| cannot_run(&error))?;
        let job = Job {
            program: &program,
            arguments: ["version", "--template", "{{.Version}}"].map(OsString::from).into(),
            environment: &environment(&directories),
            rules: &rules.reading(&directories.home()),
            limits: &Limits::of_build(limits::VERSION_TIME),
        };
        let output = self.sandbox.run(job).await.map_err(|failure| cannot_run(&failure))?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        match version.starts_with(MAJOR) {
            true => Ok(program),
            false => Err(format!("{name} is not helm 4, which helm-controller links: name one with --helm")),
        }
    }
}

/// Returns the files of the user with credentials for repositories and registries, and the variables that name them.
fn credentials() -> Vec<(&'static str, PathBuf)> {
    let home = super::home_directory();
    let below = |path: &str| home.as_ref().map(|home| home.join(path));
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let docker = named("DOCKER_CONFIG").map(|directory| directory.join("config.json"));
    let files = [
        ("HELM_REGISTRY_CONFIG", named("HELM_REGISTRY_CONFIG").or_else(|| below(".config/helm/registry/config.json"))),
        ("DOCKER_CONFIG", docker.or_else(|| below(".docker/config.json"))),
    ];
    let files = files.into_iter().filter_map(|(variable, file)| Some((variable, file?)));
    files.filter(|(_, file)| file.is_absolute() && file.is_file()).collect()
}

/// Returns the one archive in a directory.
fn archive_in(directory: &Path) -> std::io::Result<Vec<u8>> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "tgz") {
            return files::read_regular(&path, CHART_ARCHIVE_SIZE.limit as u64);
        }
    }
    Err(std::io::Error::other("helm wrote none"))
}

fn environment(directories: &PrivateDirectories) -> Environment {
    Environment::empty(directories).with("HELM_NO_PLUGINS", "1")
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
        files::write_new(&file, text.as_bytes())?;
        written.push(file);
    }
    Ok(written)
}
