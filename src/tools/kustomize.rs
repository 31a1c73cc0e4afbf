//! Runs kustomize as a child process, inside the artifact and nothing else.
//!
//! Source: reference kustomize-controller 3.4 and 3.7. The controller refuses what leaves the artifact's root, while
//! `kubectl kustomize` with its load restriction lifted would read any file: references are checked before it runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;

use gitops_core::error::{Error, Result};
use gitops_core::flux::build::Run;
use gitops_core::flux::build::references;
use gitops_core::flux::source::artifact::Artifact;

/// How long one run may take; remote bases need the network.
const LIMIT: Duration = Duration::from_secs(60);

/// The program that builds, and where outputs are kept between runs of this tool.
#[derive(Clone, Debug)]
pub struct Kustomize {
    program: PathBuf,
    standalone: bool,
    cache: Option<PathBuf>,
    limit: Duration,
}

impl Kustomize {
    /// `kubectl kustomize` of the `kubectl` in `PATH`, or the `kustomize` (or other kubectl) at a path.
    ///
    /// Outputs are kept in `$XDG_CACHE_HOME/kubectl-gitops`, or `~/.cache/kubectl-gitops`, by the hash of their input.
    pub fn new(program: Option<&Path>) -> Self {
        let program = program.map_or_else(|| PathBuf::from("kubectl"), Path::to_path_buf);
        let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
        let cache = cache.map(|cache| cache.join("kubectl-gitops"));
        Self { program, standalone: name.starts_with("kustomize"), cache, limit: LIMIT }
    }

    /// Keeps no output between runs.
    #[must_use]
    pub fn without_cache(self) -> Self {
        Self { cache: None, ..self }
    }

    /// Lets no run take longer than this, instead of a minute.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Which program and version builds; part of every cache key.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub async fn version(&self) -> Result<String> {
        let mut command = tokio::process::Command::new(&self.program);
        if self.standalone {
            command.arg("version");
        } else {
            command.args(["version", "--client", "-o", "json"]);
        }
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(Duration::from_secs(10), command.output()).await;
        let name = self.program.display();
        let output = output.map_err(|_| Error::failed(format!("{name} did not tell its version within 10 s")))?;
        let output = output.map_err(|error| {
            Error::failed(format!("cannot run {name}: {error}"))
                .hint("install kubectl, or name a kustomize program with --kustomize")
        })?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if self.standalone {
            return Ok(text);
        }
        let version: Value = serde_json::from_str(&text).unwrap_or_default();
        version.get("kustomizeVersion").and_then(Value::as_str).map(str::to_owned).ok_or_else(|| {
            Error::failed(format!("{name} does not tell its kustomize version"))
                .hint("kubectl 1.25 or newer is needed, or a kustomize program with --kustomize")
        })
    }

    /// Runs every build, `parallel` at a time; answers by key, with kustomize's own message where it failed.
    ///
    /// # Errors
    /// When the program cannot be started or the artifact cannot be written to the temporary directory.
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
            // One copy of the artifact for all runs of a worker: the file that is written over it is put back after.
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
        let place = Materialised::new(artifact)?;
        let mut answers = Vec::new();
        loop {
            let next = queue.lock().ok().and_then(|mut queue| queue.pop());
            let Some(run) = next else { return Ok(answers) };
            let output = match references::reference_outside(artifact, &run.generated) {
                Some(reference) => Err(format!("{reference} is outside of the artifact")),
                None => self.run_one(&place, artifact, &run).await?,
            };
            if let Ok(output) = &output {
                self.keep(version, &run.key, output);
            }
            answers.push((run.key, output));
        }
    }

    async fn run_one(&self, place: &Materialised, artifact: &Artifact, run: &Run) -> Result<Result<String, String>> {
        place.write(&run.generated.file, run.generated.content.to_string().as_bytes())?;
        let directory = place.root.join(&run.generated.directory);
        let mut command = tokio::process::Command::new(&self.program);
        command.arg(if self.standalone { "build" } else { "kustomize" }).arg(&directory);
        command.args(["--load-restrictor", "LoadRestrictionsNone"]);
        command.env_remove("KUSTOMIZE_ENABLE_MANAGEDBY_LABEL").env("GIT_TERMINAL_PROMPT", "0");
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(self.limit, command.output()).await;
        match artifact.file(&run.generated.file) {
            Some(original) => place.write(&run.generated.file, original)?,
            None => place.remove(&run.generated.file)?,
        }
        let Ok(output) = output else {
            let remote = references::remote_references(artifact, &run.generated).join(", ");
            let fetching = if remote.is_empty() { remote } else { format!(", fetching {remote}") };
            return Ok(Err(format!("kustomize did not finish within {} s{fetching}", self.limit.as_secs())));
        };
        let program = self.program.display();
        let output = output.map_err(|error| {
            Error::failed(format!("cannot run {program}: {error}"))
                .hint("install kubectl, or name a kustomize program with --kustomize")
        })?;
        if output.status.success() {
            return Ok(Ok(String::from_utf8_lossy(&output.stdout).into_owned()));
        }
        let message = String::from_utf8_lossy(&output.stderr).replace(&*place.root.to_string_lossy(), "");
        Ok(Err(message.trim().trim_start_matches("error: ").trim_start_matches("Error: ").to_owned()))
    }

    fn cache_file(&self, version: &str, key: &str) -> Option<PathBuf> {
        let version: String = version.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        Some(self.cache.as_ref()?.join(format!("build-{version}")).join(key))
    }

    fn cached(&self, version: &str, key: &str) -> Option<String> {
        std::fs::read_to_string(self.cache_file(version, key)?).ok()
    }

    /// A cache that cannot be written makes the next run slower, nothing else.
    fn keep(&self, version: &str, key: &str, output: &str) {
        let Some(file) = self.cache_file(version, key) else { return };
        let Some(directory) = file.parent() else { return };
        let temporary = file.with_extension(std::process::id().to_string());
        let written = create_private(directory).and_then(|()| std::fs::write(&temporary, output));
        if written.and_then(|()| std::fs::rename(&temporary, &file)).is_err() {
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// Builds may hold secrets: only the user may read what is written.
fn create_private(directory: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(directory)
}

/// A copy of an artifact in the temporary directory; it goes when this value goes.
struct Materialised {
    root: PathBuf,
}

impl Materialised {
    fn new(artifact: &Artifact) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("kubectl-gitops-{}-{number}", std::process::id()));
        let failed = |error: std::io::Error| Error::failed(format!("cannot write to {}: {error}", root.display()));
        create_private(&root).map_err(failed)?;
        let place = Self { root: root.canonicalize().map_err(failed)? };
        for directory in artifact.directories() {
            std::fs::create_dir_all(place.root.join(directory)).map_err(failed)?;
        }
        for (file, content) in artifact.files() {
            std::fs::write(place.root.join(file), content).map_err(failed)?;
        }
        Ok(place)
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

impl Drop for Materialised {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}
