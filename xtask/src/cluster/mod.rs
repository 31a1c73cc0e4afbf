//! A real Kubernetes control plane on loopback, with or without Flux, for tests, demos and trying things out.
//!
//! etcd, kube-apiserver and kube-controller-manager run as plain processes; there is no node, so Pods stay Pending. All
//! that a cluster is made of lies in one folder, and [`Cluster::attach`] can use it from any process.

mod access;
mod artifact;
pub mod audit;
pub mod command;
mod keys;
mod process;
mod publish;
mod specs;
mod state;
mod up;
pub mod wait;
mod watchdog;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use self::process::Spec;
use self::state::State;
use self::watchdog::Watchdog;
use crate::controlplane::bin;
use crate::{say, target_dir};

/// How much of Flux is in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flux {
    /// Nothing.
    #[default]
    None,
    /// Every CRD there is, and no controller.
    Crds,
    /// The CRDs of kustomize-controller and source-controller, and kustomize-controller.
    Kustomize,
    /// Every CRD; source-controller, kustomize-controller and helm-controller.
    All,
}

/// What [`Cluster::up`] starts, and where.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The cluster's folder; a temporary one below `target/clusters` when there is none.
    pub dir: Option<PathBuf>,
    /// Flux's part.
    pub flux: Flux,
    /// Whether the API server writes down every request, for [`Cluster::requests`].
    pub audit: bool,
    /// Whether every controller of Kubernetes runs, each with a service account of its own, and the API server publishes
    /// itself, as in clusters in use. Otherwise only those run without which deletions and Deployments would differ.
    pub whole: bool,
    /// Further flags of kustomize-controller, such as `--requeue-dependency=1s`.
    pub kustomize_controller_flags: Vec<String>,
}

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    dir: PathBuf,
    state: Mutex<State>,
    /// Whether dropping this stops the cluster.
    owned: bool,
    /// There for a temporary cluster, whose folder goes too.
    watchdog: Option<Watchdog>,
}

impl Cluster {
    /// Starts a cluster and returns when all of it works. Dropping it stops it; a temporary one also ends with this
    /// process, whatever becomes of it.
    pub fn up(options: Options) -> Result<Self> {
        up::prepare(&options)?;
        let mut attempt = 1;
        loop {
            let cluster = Self::empty(&options)?;
            match up::start(&cluster, &options) {
                Ok(()) => return Ok(cluster),
                // Between finding a free port and using it somebody else took it.
                Err(error) if attempt < 3 && format!("{error:#}").contains("address already in use") => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Uses a cluster that runs in `dir`; dropping this leaves it running.
    pub fn attach(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = std::path::absolute(dir.as_ref())?;
        let state = State::read(&dir)?.filter(|state| state.alive().next().is_some());
        let state = state.with_context(|| format!("no cluster runs in {}", dir.display()))?;
        Ok(Self { dir, state: Mutex::new(state), owned: false, watchdog: None })
    }

    /// Stops the cluster in `dir`, whoever started it and whatever is left of it. Doing so twice is no error.
    pub fn down(dir: impl AsRef<Path>) -> Result<()> {
        let dir = std::path::absolute(dir.as_ref())?;
        let Some(state) = State::read(&dir)? else { return Ok(()) };
        let cluster = Self { dir, state: Mutex::new(state), owned: false, watchdog: None };
        cluster.stop_all(Duration::from_secs(5))
    }

    /// Lets the cluster run on after this process.
    pub fn keep_running(mut self) {
        self.owned = false;
    }

    /// The cluster's folder: `kubeconfig`, `pids.json`, `logs/NAME.log`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The admin's kubeconfig; its context is `test`.
    pub fn kubeconfig(&self) -> PathBuf {
        access::kubeconfig(&self.dir, access::ADMIN)
    }

    /// The kubeconfig of `admin`, or of `alice`, `bob` or `carol`, who have no rights until they are given some.
    pub fn kubeconfig_for(&self, user: &str) -> PathBuf {
        access::kubeconfig(&self.dir, user)
    }

    /// The token of one of these users.
    pub fn user_token(&self, user: &str) -> Result<String> {
        self.lock().tokens.get(user).cloned().with_context(|| format!("no user is called {user}"))
    }

    /// The URL of the API server.
    pub fn server_url(&self) -> String {
        self.lock().server_url.clone()
    }

    /// Runs the kubectl that belongs to the cluster as admin and returns what it prints.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_stdin(args, "")
    }

    /// The same with something on its standard input, such as a manifest for `apply -f -`.
    pub fn kubectl_stdin(&self, args: &[&str], input: &str) -> Result<String> {
        let mut child = Command::new(bin("kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(args)
            // Discovery is cached by port, and a port may have been another cluster's.
            .env("KUBECACHEDIR", self.dir.join("cache"))
            .env("KUBERC", "off")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run the cluster's kubectl")?;
        let stdin = child.stdin.take();
        let output = std::thread::scope(|scope| {
            // At the same time as it is read, or both would wait for each other. Who reads no input breaks the pipe.
            scope.spawn(|| stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
            child.wait_with_output()
        })?;
        if !output.status.success() {
            bail!("kubectl {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        String::from_utf8(output.stdout).context("kubectl printed something that is not text")
    }

    /// Makes `path` the artifact of `source` (`KIND/NAMESPACE/NAME`) and returns its revision, which depends on the
    /// content alone. A folder is packed; a file, such as a chart's archive, is taken as it is.
    pub fn publish(&self, source: &str, path: impl AsRef<Path>) -> Result<String> {
        publish::publish(self, source, path.as_ref())
    }

    /// Every request so far of a user whose client's User-Agent begins with `agent`; needs [`Options::audit`].
    pub fn requests_of(&self, user: &str, agent: &str) -> Result<Vec<audit::Request>> {
        audit::requests(&self.dir, user, agent)
    }

    /// Asks `probe` until it says yes; an error counts as "not yet" and is told if `limit` is reached.
    pub fn wait_for(&self, what: &str, limit: Duration, probe: impl FnMut() -> Result<bool>) -> Result<()> {
        wait::until(what, limit, probe)
    }

    /// Starts kustomize-controller, also in a cluster that came up without it (its CRDs have to be there).
    pub fn start_kustomize_controller(&self) -> Result<()> {
        self.start("kustomize-controller")
    }

    /// Starts a process again that was stopped, or one of Flux's controllers; returns when it works.
    pub fn start(&self, name: &str) -> Result<()> {
        up::start_one(self, name)
    }

    /// Stops one process, such as `kustomize-controller`, politely.
    pub fn stop(&self, name: &str) -> Result<()> {
        let entry = self.lock().find(name).cloned();
        let entry = entry.with_context(|| format!("no process of the cluster is called {name}"))?;
        process::stop(&entry.alive().into_iter().collect::<Vec<_>>(), Duration::from_secs(10))?;
        self.update(|state| state.set(entry.spec, None))
    }

    /// Whether the process runs.
    pub fn is_running(&self, name: &str) -> bool {
        self.lock().find(name).is_some_and(|entry| entry.alive().is_some())
    }

    /// The folder of a cluster that has no process yet.
    fn empty(options: &Options) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let dir = options.dir.clone().unwrap_or_else(|| {
            let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            target_dir().join("clusters").join(name)
        });
        let dir = std::path::absolute(dir)?;
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        if State::read(&dir)?.is_some_and(|state| state.alive().next().is_some()) {
            bail!("a cluster runs already in {}; stop it with cluster down", dir.display());
        }
        for name in ["etcd", "logs", "keys", "users", "tmp", "cache", "artifacts"] {
            let _ = fs::remove_dir_all(dir.join(name));
        }
        let state = State::default();
        state.write(&dir)?;
        let watchdog = options.dir.is_none().then(|| Watchdog::start(&dir)).transpose()?;
        Ok(Self { dir, state: Mutex::new(state), owned: true, watchdog })
    }

    /// Starts a process and writes down at once that it runs.
    fn launch(&self, spec: Spec) -> Result<()> {
        let running = spec.spawn(&self.dir)?;
        self.update(|state| state.set(spec, Some(running)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut State)) -> Result<()> {
        let mut state = self.lock();
        change(&mut state);
        state.write(&self.dir)
    }

    /// Stops who was started last first: clients before the server, the server before its store.
    fn stop_all(&self, grace: Duration) -> Result<()> {
        let entries = self.lock().processes.clone();
        let is_base = |name: &str| matches!(name, "etcd" | "kube-apiserver");
        let (base, clients): (Vec<_>, Vec<_>) = entries.iter().rev().partition(|entry| is_base(&entry.spec.name));
        let clients: Vec<_> = clients.iter().filter_map(|entry| entry.alive()).collect();
        process::stop(&clients, grace)?;
        for running in base.iter().filter_map(|entry| entry.alive()) {
            process::stop(&[running], grace)?;
        }
        process::stop(&process::strays(&self.dir), grace)?;
        self.update(|state| state.processes.iter_mut().for_each(|entry| entry.running = None))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        // Nothing of it will be used again, so nobody has to be given time to tidy up.
        if let Err(error) = self.stop_all(Duration::ZERO) {
            say(format!("cannot stop the cluster in {}: {error:#}", self.dir.display()));
        }
        if self.watchdog.take().is_none() {
            return;
        }
        if std::thread::panicking() {
            say(format!("the logs of the cluster are in {}", self.dir.join("logs").display()));
        } else {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}
