//! Runs kustomize as a child process on a private copy of the artifact.
//!
//! Source: docs/reference/kustomize-controller.md 3.4 and 3.7. The controller refuses references that leave the artifact's
//! root, while `kubectl kustomize` without load restriction reads any file: references are checked before it runs.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use futures::future::try_join_all;
use serde_json::Value;

use super::sandboxed::{SandboxedProgram, Workspace};
use crate::error::{Error, Result};
use crate::tools::cache::Cache;
use crate::tools::sandbox::{Failure, PrivateDirectories};
use crate::tools::{files, limits};
use gitops_core::flux::build::{BuildFailure, KustomizeExit, Run};
use gitops_core::flux::kustomize_controller::KustomizeVersions;
use gitops_core::flux::source::artifact::Artifact;
use gitops_core::kubernetes::redact::redact_urls;
use gitops_core::plan::ReasonCode;

/// Output of a run, or the reason why it has none.
pub type BuildOutput = std::result::Result<String, BuildFailure>;

/// A kustomize program, with a cache of its outputs on disk.
#[derive(Clone, Debug)]
pub struct Kustomize {
    pub program: SandboxedProgram,
    standalone: bool,
    cache: Cache,
    allows_remote_bases: bool,
}

impl Kustomize {
    /// Uses `kubectl kustomize` of the `kubectl` in `PATH`, or the `kustomize` (or other kubectl) at a path.
    ///
    /// Caches outputs by the hash of their input. Another program of the same version has a cache of its own.
    pub fn new(program: Option<&Path>) -> Self {
        let name = program.and_then(Path::file_name).unwrap_or_default();
        Self {
            program: SandboxedProgram::new("kubectl", program, [], limits::BUILD_TIME),
            standalone: name.to_string_lossy().starts_with("kustomize"),
            cache: Cache::of_user(),
            allows_remote_bases: false,
        }
    }

    /// Names the working trees that are built. A program in one of them is not looked for in `PATH`.
    #[must_use]
    pub fn of_trees(mut self, trees: impl IntoIterator<Item = PathBuf>) -> Self {
        self.program.trees.extend(trees);
        self
    }

    #[must_use]
    pub fn without_cache(self) -> Self {
        Self { cache: Cache::default(), ..self }
    }

    /// Permits builds that fetch remote bases.
    #[must_use]
    pub fn with_remote_bases(self, allows_remote_bases: bool) -> Self {
        Self { allows_remote_bases, ..self }
    }

    /// Returns the version of kustomize; part of every cache key.
    ///
    /// Fails when the program cannot be run.
    pub async fn version(&self) -> Result<String> {
        let arguments: &[&str] = if self.standalone { &["version"] } else { &["version", "--client", "-o", "json"] };
        let mut workspace = self.workspace()?;
        workspace.limit = limits::VERSION_TIME;
        let output = workspace.run(arguments).await.map_err(|failure| self.cannot_run(failure))?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if self.standalone && output.status.success() {
            return Ok(text);
        }
        let version: Value = serde_json::from_str(&text).unwrap_or_default();
        version.get("kustomizeVersion").and_then(Value::as_str).map(str::to_owned).ok_or_else(|| {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let said = stderr.lines().find(|line| !line.trim().is_empty()).map(|line| format!(": {line}"));
            let (name, said) = (self.program.program.display(), said.unwrap_or_default());
            Error::failed(format!("{name} does not print its kustomize version{said}")).hint(
                if output.status.success() {
                    "kubectl 1.25 or newer is needed, or a kustomize program with --kustomize"
                } else {
                    "name the program itself with --kustomize: a wrapper may need files that the sandbox hides"
                },
            )
        })
    }

    /// Runs the builds, `parallel` at a time. Returns the output or the failure of each, by key. `on_build` is called after
    /// each one that was not in the cache, with the number of these builds that are done, and of all of them.
    ///
    /// Fails when the artifact cannot be written to the temporary directory.
    pub async fn run_all(
        &self,
        versions: &KustomizeVersions,
        runs: impl IntoIterator<Item = Run>,
        parallel: usize,
        on_build: impl Fn(usize, usize),
    ) -> Result<Vec<(String, BuildOutput)>> {
        let (mut answers, mut queue) = (Vec::new(), Vec::new());
        for run in runs {
            match self.cached(&versions.program, &run.key) {
                Some(output) => answers.push((run.key, Ok(output))),
                None => queue.push(run),
            }
        }
        queue.sort_by(|run, other| run.artifact.digest().cmp(other.artifact.digest()));
        let progress = BuildCount { total: queue.len(), done: Cell::new(0), on_build };
        let workers = parallel.min(queue.len());
        let queue = RefCell::new(queue);
        let done = try_join_all((0..workers).map(|_| self.work(versions, &queue, &progress))).await?;
        answers.extend(done.into_iter().flatten());
        Ok(answers)
    }

    /// Writes a copy of an artifact. A build without remote bases reads nothing else, and has no network.
    fn copy(&self, artifact: &Artifact) -> Result<ArtifactCopy> {
        let workspace = self.workspace()?;
        let root = workspace.directories.root().join("artifact");
        write_artifact(artifact, &root).map_err(|error| {
            crate::tools::cannot_write_temporary(&format!("the artifact to {}", root.display()), &error)
        })?;
        let offline = workspace.reading(&root);
        let fetching = offline.clone().fetching(&self.program.trees());
        Ok(ArtifactCopy { digest: artifact.digest().to_owned(), root, offline, fetching })
    }

    /// Runs builds until none is left, in a copy of their artifact: a run overwrites one file in it and restores it.
    async fn work(
        &self,
        versions: &KustomizeVersions,
        queue: &RefCell<Vec<Run>>,
        progress: &BuildCount<impl Fn(usize, usize)>,
    ) -> Result<Vec<(String, BuildOutput)>> {
        let (mut answers, mut last) = (Vec::new(), None::<ArtifactCopy>);
        loop {
            let next = queue.borrow_mut().pop();
            let Some(run) = next else { return Ok(answers) };
            let copy = match last.take() {
                Some(copy) if copy.is_of(&run.artifact) => copy,
                _ => self.copy(&run.artifact)?,
            };
            let output = match run.inputs.remote.first().filter(|_| !self.allows_remote_bases) {
                Some(url) => Err(remote_base_refused(url)),
                None => self.run_one(versions, &copy, &run).await?,
            };
            // The content behind a URL can change, and the key of the cache does not cover it. Values of Secrets are never
            // written to the cache.
            if run.inputs.remote.is_empty()
                && !run.is_private
                && let Ok(output) = &output
            {
                self.store(&versions.program, &run.key, output);
            }
            answers.push((run.key, output));
            progress.add_one();
            last = Some(copy);
        }
    }

    async fn run_one(&self, versions: &KustomizeVersions, copy: &ArtifactCopy, run: &Run) -> Result<BuildOutput> {
        for (file, text) in &run.inputs.written {
            copy.write(file, text.as_bytes())?;
        }
        let directory = copy.root.join(&run.generated.directory);
        let build = if self.standalone { "build" } else { "kustomize" };
        let workspace = if run.inputs.remote.is_empty() { &copy.offline } else { &copy.fetching };
        let arguments = [Path::new(build), &directory, "--load-restrictor".as_ref(), "LoadRestrictionsNone".as_ref()];
        let result = workspace.run(arguments).await;
        for file in run.inputs.written.keys() {
            match run.artifact.file(file) {
                Some(original) => copy.write(file, original)?,
                None => copy.remove(file)?,
            }
        }
        let output = match result {
            Ok(output) => output,
            Err(failure) => return Ok(Err(self.interrupted(failure, &run.inputs.remote))),
        };
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout).map_err(|_| {
                BuildFailure::unknown(ReasonCode::ManifestUnreadable, "the output of kustomize is not UTF-8")
            }));
        }
        let stderr = String::from_utf8_lossy(&output.stderr).replace(&*copy.root.to_string_lossy(), "");
        let exit = KustomizeExit {
            code: output.status.code(),
            message: stderr.trim().trim_start_matches("error: ").trim_start_matches("Error: "),
            fetches: !run.inputs.remote.is_empty(),
            is_private: run.is_private,
        };
        Ok(Err(exit.failure(versions)))
    }

    /// Returns the failure of a build that gave no answer.
    fn interrupted(&self, failure: Failure, remote: &[String]) -> BuildFailure {
        let code = match failure {
            Failure::Time(_) => ReasonCode::BuildTimeout,
            Failure::Signal(_) => ReasonCode::BuildCrashed,
            _ => ReasonCode::BuildInterrupted,
        };
        let mut detail = match failure {
            Failure::Start(_) | Failure::Sandbox(_) => self.cannot_run(failure).message,
            failure => format!("kustomize {failure}"),
        };
        if !remote.is_empty() {
            detail += &format!(", fetching {}", redact_urls(&remote.join(", ")));
        }
        BuildFailure::unknown(code, detail)
    }

    /// Returns the workspace of a build.
    fn workspace(&self) -> Result<Workspace> {
        let directories = PrivateDirectories::new()?;
        let workspace = self.program.find().and_then(|program| self.program.workspace(program, directories));
        workspace.map_err(|error| self.cannot_run(Failure::Start(error)))
    }

    fn cannot_run(&self, failure: Failure) -> Error {
        let name = self.program.program.display();
        match failure {
            Failure::Start(error) => Error::failed(format!("cannot run {name}: {error}"))
                .hint("install kubectl, or name a kustomize program with --kustomize"),
            Failure::Sandbox(error) => Error::failed(format!("cannot run {name} in a sandbox: {error}")),
            failure => Error::failed(format!("{name} {failure}")),
        }
    }

    fn cached(&self, version: &str, key: &str) -> Option<String> {
        String::from_utf8(self.cache.read(&self.program.cache_folder("build", version)?, key)?).ok()
    }

    fn store(&self, version: &str, key: &str, output: &str) {
        if let Some(folder) = self.program.cache_folder("build", version) {
            self.cache.store(&folder, key, output.as_bytes());
        }
    }
}

/// Number of builds that are done, of all that run.
struct BuildCount<F> {
    total: usize,
    done: Cell<usize>,
    on_build: F,
}

impl<F: Fn(usize, usize)> BuildCount<F> {
    fn add_one(&self) {
        self.done.update(|done| done + 1);
        (self.on_build)(self.done.get(), self.total);
    }
}

fn write_artifact(artifact: &Artifact, root: &Path) -> std::io::Result<()> {
    std::fs::create_dir(root)?;
    for directory in artifact.directories() {
        std::fs::create_dir_all(root.join(directory))?;
    }
    artifact.files().try_for_each(|(file, content)| files::write_new(&root.join(file), content))
}

fn remote_base_refused(url: &str) -> BuildFailure {
    let detail =
        format!("it needs the remote base {}, which is fetched only with --allow-remote-bases", redact_urls(url));
    BuildFailure::unknown(ReasonCode::RemoteBase, detail)
}

/// A copy of an artifact in a temporary directory, removed on drop.
struct ArtifactCopy {
    /// Digest of the artifact.
    digest: String,
    /// Absolute path without symbolic links.
    root: PathBuf,
    offline: Workspace,
    fetching: Workspace,
}

impl ArtifactCopy {
    fn is_of(&self, artifact: &Artifact) -> bool {
        self.digest == artifact.digest()
    }

    fn write(&self, file: &str, content: &[u8]) -> Result<()> {
        let file = self.root.join(file);
        std::fs::write(&file, content)
            .map_err(|error| crate::tools::cannot_write_temporary(&file.display().to_string(), &error))
    }

    fn remove(&self, file: &str) -> Result<()> {
        let file = self.root.join(file);
        std::fs::remove_file(&file).map_err(|error| Error::failed(format!("cannot remove {}: {error}", file.display())))
    }
}
