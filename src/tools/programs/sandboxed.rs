//! Programs of this machine that work on input of others. Each run has directories of its own, and is restricted.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};

use crate::error::{Error, Result};
use crate::tools::program::Program;
use crate::tools::sandbox::{Environment, Failure, Job, Limits, Output, PrivateDirectories, Rules, Sandbox};
use gitops_core::text::sha256;

/// Number of lines of a message that are shown.
const MESSAGE_LINES: usize = 3;

/// Result of a run, or the reason why it has none.
pub type Answer<T> = std::result::Result<T, String>;

/// A run without a result.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The program gives none, for this reason.
    Reason(String),
    /// This machine cannot prepare a run.
    Machine(Error),
}

impl From<String> for NoAnswer {
    fn from(reason: String) -> Self {
        Self::Reason(reason)
    }
}

impl From<Error> for NoAnswer {
    fn from(error: Error) -> Self {
        Self::Machine(error)
    }
}

/// A program that runs inside the sandbox.
#[derive(Clone, Debug)]
pub struct SandboxedProgram {
    /// Name for messages.
    name: &'static str,
    /// Name in `PATH`, or a path.
    pub(super) program: PathBuf,
    /// Working trees, which must not supply the program.
    pub(super) trees: Vec<PathBuf>,
    /// Time limit of one run.
    pub limit: Duration,
    /// The way in which children are restricted.
    pub sandbox: Sandbox,
    /// Digest of the path, size and time of the program; `None` if they cannot be read.
    identity: OnceLock<Option<String>>,
}

impl SandboxedProgram {
    /// Uses the program with this name in `PATH`, or the one at a path. A program in one of the working trees is not looked
    /// for.
    pub(super) fn new(
        name: &'static str,
        path: Option<&Path>,
        trees: impl IntoIterator<Item = PathBuf>,
        limit: Duration,
    ) -> Self {
        let program = path.unwrap_or(Path::new(name)).to_owned();
        Self {
            name,
            program,
            trees: trees.into_iter().collect(),
            limit,
            sandbox: Sandbox::of_this_process(),
            identity: OnceLock::new(),
        }
    }

    /// Returns the program by its absolute path.
    pub fn find(&self) -> io::Result<Program> {
        Program::find(&self.program, &self.trees())
    }

    /// Returns the folder of the cache for outputs of this program, which has this version. Another program of the same
    /// version has a folder of its own. `None` if the program cannot be read.
    pub(super) fn cache_folder(&self, outputs: &str, version: &str) -> Option<String> {
        let version: String = version.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let identity = self.identity.get_or_init(|| self.read_identity()).as_ref()?;
        Some(format!("{outputs}-{version}-{identity}"))
    }

    fn read_identity(&self) -> Option<String> {
        let program = self.find().ok()?;
        let metadata = program.file.metadata().ok()?;
        let text = format!("{}\0{}\0{:?}", program.path.display(), metadata.len(), metadata.modified().ok()?);
        Some(sha256(text.as_bytes())["sha256:".len()..].chars().take(16).collect())
    }

    pub(super) fn trees(&self) -> Vec<&Path> {
        self.trees.iter().map(PathBuf::as_path).collect()
    }

    /// Returns the workspace of a run, which may read the program and an empty home directory.
    ///
    /// Fails if the program cannot be read.
    pub(super) fn workspace(&self, program: Program, directories: PrivateDirectories) -> io::Result<Workspace> {
        Ok(Workspace {
            rules: Rules::for_program(&program)?.reading(&directories.home()),
            environment: Environment::empty(&directories),
            program,
            directories: Arc::new(directories),
            limit: self.limit,
            sandbox: self.sandbox.clone(),
        })
    }

    /// Returns the workspace of a run in new directories.
    pub(super) fn new_workspace(&self, program: Program) -> Result<Workspace, NoAnswer> {
        let workspace = self.workspace(program, PrivateDirectories::new()?);
        Ok(workspace.map_err(|error| Failure::Start(error).describe(self.name))?)
    }

    /// Runs the program to its end. An exit code that is not 0 is an answer.
    pub(super) async fn run(&self, workspace: &Workspace, arguments: Vec<OsString>) -> Result<Output, NoAnswer> {
        Ok(workspace.run(arguments).await.map_err(|failure| failure.describe(self.name))?)
    }

    pub(super) fn text(&self, output: Output) -> Result<String, NoAnswer> {
        Ok(String::from_utf8(output.stdout).map_err(|_| format!("the output of {} is not UTF-8", self.name))?)
    }

    /// Returns the reason why a run failed: what the program cannot do, and its message unless that can hold values of
    /// Secrets.
    pub(super) fn failure(&self, what: &str, message: &str, is_private: bool) -> String {
        let reason = if is_private { ", with values of Secrets".to_owned() } else { format!(": {message}") };
        format!("{} fails to {what}{reason}", self.name)
    }
}

/// The directories of a run, and what it may use.
#[derive(Clone, Debug)]
pub(super) struct Workspace {
    program: Program,
    pub(super) directories: Arc<PrivateDirectories>,
    pub(super) environment: Environment,
    pub(super) rules: Rules,
    pub(super) limit: Duration,
    sandbox: Sandbox,
}

impl Workspace {
    /// Allows to read a file or directory.
    pub(super) fn reading(self, path: &Path) -> Self {
        Self { rules: self.rules.reading(path), ..self }
    }

    /// Sets a variable.
    pub(super) fn with(self, name: &str, value: impl Into<OsString>) -> Self {
        Self { environment: self.environment.with(name, value), ..self }
    }

    /// Allows to fetch over the network, with temporary files.
    pub(super) fn fetching(self, trees: &[&Path]) -> Self {
        let rules = self.rules.fetching().writing(&self.directories.tmp());
        Self { environment: self.environment.fetching(trees), rules, ..self }
    }

    /// Runs the program to its end.
    pub(super) async fn run(
        &self,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> std::result::Result<Output, Failure> {
        let job = Job {
            program: &self.program,
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: &self.environment,
            rules: &self.rules,
            limits: &Limits::of_build(self.limit),
        };
        self.sandbox.run(job).await
    }
}

/// Runs a function with each input, `parallel` at a time. Returns the answers by the keys of the inputs.
///
/// Fails when this machine cannot prepare a run.
pub(super) async fn run_all<I, K, T>(
    inputs: impl IntoIterator<Item = I>,
    parallel: usize,
    run: impl AsyncFn(&I) -> Result<T, NoAnswer>,
    key: impl Fn(I) -> K,
) -> Result<Vec<(K, Answer<T>)>> {
    let (run, key) = (&run, &key);
    let answers = inputs.into_iter().map(|input| async move {
        let answer = match run(&input).await {
            Ok(output) => Ok(output),
            Err(NoAnswer::Reason(reason)) => Err(reason),
            Err(NoAnswer::Machine(error)) => return Err(error),
        };
        Ok((key(input), answer))
    });
    stream::iter(answers).buffer_unordered(parallel).try_collect().await
}

/// Returns the beginning of a program's message as one line.
pub(super) fn first_lines(message: &str) -> String {
    message.lines().take(MESSAGE_LINES).map(str::trim).collect::<Vec<_>>().join(" ")
}
