//! Runs kustomize as a child process on a private copy of the artifact.
//!
//! Source: docs/reference/kustomize-controller.md 3.4 and 3.7. The controller refuses references that leave the artifact's
//! root, while `kubectl kustomize` without load restriction reads any file: references are checked before it runs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use tempfile::TempDir;

use crate::error::{Error, Result};
use gitops_core::flux::build::Run;
use gitops_core::flux::source::artifact::Artifact;

/// Default time limit of one run; remote bases need the network.
const LIMIT: Duration = Duration::from_secs(60);

/// A kustomize program, with a cache of its outputs on disk.
#[derive(Clone, Debug)]
pub struct Kustomize {
    program: PathBuf,
    standalone: bool,
    cache: Option<PathBuf>,
    limit: Duration,
}

impl Kustomize {
    /// Uses `kubectl kustomize` of the `kubectl` in `PATH`, or the `kustomize` (or other kubectl) at a path.
    ///
    /// Caches outputs in `$XDG_CACHE_HOME/kubectl-gitops`, or `~/.cache/kubectl-gitops`, by the hash of their input.
    pub fn new(program: Option<&Path>) -> Self {
        let program = program.map_or_else(|| PathBuf::from("kubectl"), Path::to_path_buf);
        let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let cache = cache_directory().map(|directory| directory.join("kubectl-gitops"));
        Self { program, standalone: name.starts_with("kustomize"), cache, limit: LIMIT }
    }

    #[must_use]
    pub fn without_cache(self) -> Self {
        Self { cache: None, ..self }
    }

    /// Sets the time limit of one run.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Returns the version of kustomize; part of every cache key.
    ///
    /// Fails when the program cannot be run.
    pub async fn version(&self) -> Result<String> {
        let mut command = tokio::process::Command::new(&self.program);
        if self.standalone {
            command.arg("version");
        } else {
            command.args(["version", "--client", "-o", "json"]);
        }
        command.stdin(Stdio::null()).kill_on_drop(true);
        let name = self.program.display();
        let output = tokio::time::timeout(Duration::from_secs(10), command.output())
            .await
            .map_err(|_| Error::failed(format!("{name} did not print its version within 10 s")))?
            .map_err(|error| self.cannot_run(&error))?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if self.standalone {
            return Ok(text);
        }
        let version: Value = serde_json::from_str(&text).unwrap_or_default();
        version.get("kustomizeVersion").and_then(Value::as_str).map(str::to_owned).ok_or_else(|| {
            Error::failed(format!("{name} does not print its kustomize version"))
                .hint("kubectl 1.25 or newer is needed, or a kustomize program with --kustomize")
        })
    }

    /// Runs the builds, `parallel` at a time. Returns the output or kustomize's error message of each, by key.
    ///
    /// Fails when the program cannot be started or the artifact cannot be written to the temporary directory.
    pub async fn run_all(
        &self,
        version: &str,
        runs: impl IntoIterator<Item = Run>,
        parallel: usize,
    ) -> Result<Vec<(String, Result<String, String>)>> {
        let mut answers = Vec::new();
        let mut groups: BTreeMap<String, Vec<Run>> = BTreeMap::new();
        for run in runs {
            match self.cached(version, &run.key) {
                Some(output) => answers.push((run.key, Ok(output))),
                None => groups.entry(run.artifact.digest().to_owned()).or_default().push(run),
            }
        }
        for group in groups.into_values() {
            // Each worker has one copy of the artifact: a run overwrites one file in it and restores it.
            let artifact = group[0].artifact.clone();
            let workers = parallel.clamp(1, group.len());
            let queue = Arc::new(std::sync::Mutex::new(group));
            let mut tasks = futures::stream::FuturesUnordered::new();
            for _ in 0..workers {
                tasks.push(self.work(version, &artifact, queue.clone()));
            }
            while let Some(done) = tasks.next().await {
                answers.extend(done?);
            }
        }
        Ok(answers)
    }

    async fn work(
        &self,
        version: &str,
        artifact: &Artifact,
        queue: Arc<std::sync::Mutex<Vec<Run>>>,
    ) -> Result<Vec<(String, Result<String, String>)>> {
        let copy = ArtifactCopy::new(artifact)?;
        let mut answers = Vec::new();
        loop {
            let next = queue.lock().ok().and_then(|mut queue| queue.pop());
            let Some(run) = next else { return Ok(answers) };
            let output = self.run_one(&copy, artifact, &run, &run.inputs.remote).await?;
            // The content behind a URL can change, and the key of the cache does not cover it.
            if run.inputs.remote.is_empty()
                && let Ok(output) = &output
            {
                self.store(version, &run.key, output);
            }
            answers.push((run.key, output));
        }
    }

    async fn run_one(
        &self,
        copy: &ArtifactCopy,
        artifact: &Artifact,
        run: &Run,
        remote: &[String],
    ) -> Result<Result<String, String>> {
        for (file, text) in &run.inputs.written {
            copy.write(file, text.as_bytes())?;
        }
        let directory = copy.root.join(&run.generated.directory);
        let mut command = tokio::process::Command::new(&self.program);
        command.arg(if self.standalone { "build" } else { "kustomize" }).arg(&directory);
        command.args(["--load-restrictor", "LoadRestrictionsNone"]);
        command.env_remove("KUSTOMIZE_ENABLE_MANAGEDBY_LABEL").env("GIT_TERMINAL_PROMPT", "0");
        // git has transports that run a program.
        command.env("GIT_ALLOW_PROTOCOL", "https:ssh");
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(self.limit, command.output()).await;
        for file in run.inputs.written.keys() {
            match artifact.file(file) {
                Some(original) => copy.write(file, original)?,
                None => copy.remove(file)?,
            }
        }
        let Ok(output) = output else {
            let fetching = if remote.is_empty() { String::new() } else { format!(", fetching {}", remote.join(", ")) };
            return Ok(Err(format!("kustomize did not finish within {} s{fetching}", self.limit.as_secs())));
        };
        let output = output.map_err(|error| self.cannot_run(&error))?;
        if output.status.success() {
            return Ok(Ok(String::from_utf8_lossy(&output.stdout).into_owned()));
        }
        let message = String::from_utf8_lossy(&output.stderr).replace(&*copy.root.to_string_lossy(), "");
        Ok(Err(message.trim().trim_start_matches("error: ").trim_start_matches("Error: ").to_owned()))
    }

    fn cannot_run(&self, error: &std::io::Error) -> Error {
        Error::failed(format!("cannot run {}: {error}", self.program.display()))
            .hint("install kubectl, or name a kustomize program with --kustomize")
    }

    fn cache_file(&self, version: &str, key: &str) -> Option<PathBuf> {
        let version: String = version.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        Some(self.cache.as_ref()?.join(format!("build-{version}")).join(key))
    }

    fn cached(&self, version: &str, key: &str) -> Option<String> {
        std::fs::read_to_string(self.cache_file(version, key)?).ok()
    }

    /// Writes an output to the cache. A cache that cannot be written only makes the next run slower.
    fn store(&self, version: &str, key: &str, output: &str) {
        if let Some(file) = self.cache_file(version, key) {
            let _ = write_private(&file, output);
        }
    }
}

fn cache_directory() -> Option<PathBuf> {
    match std::env::var_os("XDG_CACHE_HOME") {
        Some(directory) => Some(directory.into()),
        None => Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")),
    }
}

/// Writes a file, and the directory for it, that only this user may read: builds may contain secrets.
fn write_private(file: &Path, content: &str) -> std::io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(directory)?;
    let mut temporary = tempfile::NamedTempFile::new_in(directory)?;
    temporary.write_all(content.as_bytes())?;
    temporary.persist(file)?;
    Ok(())
}

/// A copy of an artifact in a temporary directory, removed on drop.
struct ArtifactCopy {
    /// Absolute path without symbolic links.
    root: PathBuf,
    _directory: TempDir,
}

impl ArtifactCopy {
    fn new(artifact: &Artifact) -> Result<Self> {
        let directory = super::temporary_directory()?;
        let copy_files = || -> std::io::Result<PathBuf> {
            let root = directory.path().canonicalize()?;
            for directory in artifact.directories() {
                std::fs::create_dir_all(root.join(directory))?;
            }
            for (file, content) in artifact.files() {
                std::fs::write(root.join(file), content)?;
            }
            Ok(root)
        };
        let root = copy_files().map_err(|error| {
            Error::failed(format!("cannot write the artifact to {}: {error}", directory.path().display()))
        })?;
        Ok(Self { root, _directory: directory })
    }

    fn write(&self, file: &str, content: &[u8]) -> Result<()> {
        let file = self.root.join(file);
        std::fs::write(&file, content)
            .map_err(|error| Error::failed(format!("cannot write {}: {error}", file.display())))
    }

    fn remove(&self, file: &str) -> Result<()> {
        let file = self.root.join(file);
        std::fs::remove_file(&file).map_err(|error| Error::failed(format!("cannot remove {}: {error}", file.display())))
    }
}
