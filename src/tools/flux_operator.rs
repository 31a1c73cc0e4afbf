//! Runs flux-operator as a child process: `flux-operator build resourceset` on a private copy of a manifest.
//!
//! The templates of a ResourceSet are written by whoever can change the tree. The child reads the copy only, and has no
//! network and no configuration of the user.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::OnceCell;

use super::program::Program;
use super::sandbox::{Environment, Job, Limits, PrivateDirectories, Rules, Sandbox};
use super::{files, limits};
use crate::error::Result;
use gitops_core::flux::build::resource_sets::SetRun;

/// Number of lines of a message of flux-operator that are shown.
const MESSAGE_LINES: usize = 3;
/// Message of flux-operator about a ResourceSet of which every object is excluded.
const NOTHING_GENERATED: &str = "no objects were generated";

/// Output of a run, or the reason why it has none.
pub type SetOutput = std::result::Result<String, String>;

/// Generates the resources of ResourceSets with the `flux-operator` of this machine, inside the sandbox.
#[derive(Debug)]
pub struct FluxOperator {
    program: PathBuf,
    /// Working trees, which must not supply the program.
    trees: Vec<PathBuf>,
    limit: Duration,
    sandbox: Sandbox,
    /// The program, or the reason why it cannot be used.
    found: OnceCell<std::result::Result<Program, String>>,
}

impl FluxOperator {
    /// Uses the `flux-operator` in `PATH`, or the program at a path. A program in one of the working trees is not looked for.
    pub fn new(program: Option<&Path>, trees: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            program: program.map_or_else(|| PathBuf::from("flux-operator"), Path::to_path_buf),
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

    /// Generates the resources of ResourceSets, `parallel` at a time. Returns the output or the failure of each, by key.
    ///
    /// Fails when a manifest cannot be written to the temporary directory.
    pub async fn build_all(
        &self,
        runs: impl IntoIterator<Item = SetRun>,
        parallel: usize,
    ) -> Result<Vec<(String, SetOutput)>> {
        let outputs =
            runs.into_iter().map(|run| async move { self.build(&run).await.map(|output| (run.key.clone(), output)) });
        stream::iter(outputs).buffer_unordered(parallel).try_collect().await
    }

    async fn build(&self, run: &SetRun) -> Result<SetOutput> {
        let program = match self.found.get_or_init(|| async { self.find() }).await {
            Ok(program) => program,
            Err(why) => return Ok(Err(why.clone())),
        };
        let directories = PrivateDirectories::new()?;
        let manifest = directories.root().join("resourceset.json");
        files::write_new(&manifest, run.manifest.as_bytes())
            .map_err(|error| super::cannot_write_temporary(&format!("{}", manifest.display()), &error))?;
        let mut arguments: Vec<OsString> = ["build", "resourceset", "--filename"].map(OsString::from).into();
        arguments.push((&manifest).into());
        let rules = match Rules::for_program(program) {
            Ok(rules) => rules.reading(&directories.home()).reading(&manifest),
            Err(error) => return Ok(Err(format!("flux-operator cannot be read: {error}"))),
        };
        let environment = Environment::empty(&directories);
        let limits = Limits::of_build(self.limit);
        let job = Job { program, arguments, environment: &environment, rules: &rules, limits: &limits };
        let output = match self.sandbox.run(job).await {
            Ok(output) => output,
            Err(failure) => return Ok(Err(failure.describe("flux-operator"))),
        };
        if output.status.success() {
            return Ok(
                String::from_utf8(output.stdout).map_err(|_| "the output of flux-operator is not UTF-8".to_owned())
            );
        }
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.trim().trim_start_matches('✗').trim();
        if message == NOTHING_GENERATED {
            return Ok(Ok(String::new()));
        }
        let message = message.lines().take(MESSAGE_LINES).map(str::trim).collect::<Vec<_>>().join(" ");
        Ok(Err(match run.is_private {
            true => "flux-operator fails to generate its resources, with values of Secrets".to_owned(),
            false => format!("flux-operator fails to generate its resources: {message}"),
        }))
    }

    fn find(&self) -> std::result::Result<Program, String> {
        let trees: Vec<&Path> = self.trees.iter().map(PathBuf::as_path).collect();
        Program::find(&self.program, &trees).map_err(|error| {
            let name = self.program.display();
            format!("{name} cannot be run ({error}): install it, or name it with --flux-operator")
        })
    }
}
