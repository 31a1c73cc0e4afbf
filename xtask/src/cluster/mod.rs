//! A real Kubernetes control plane on loopback, with or without Flux.
//!
//! etcd, kube-apiserver and kube-controller-manager run as plain processes. There is no node, so Pods stay Pending. All
//! files of a cluster are in one folder, so any process can use it through [`Cluster::attach`].

mod access;
mod artifact;
pub mod audit;
pub mod command;
mod helmignore;
mod keys;
mod kubectl;
mod process;
mod publish;
mod specs;
mod state;
mod up;
pub mod wait;
mod watchdog;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use self::kubectl::Kubectl;
pub(crate) use self::kubectl::kubectl;
use self::process::Spec;
pub use self::publish::chart_field;
pub use self::specs::free_port;
use self::state::State;
use self::watchdog::Watchdog;
use crate::{lock, say, target_dir};

/// Parts of Flux in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flux {
    /// No part of Flux.
    #[default]
    None,
    /// All CRDs, no controller.
    Crds,
    /// The CRDs of kustomize-controller and source-controller, and kustomize-controller.
    Kustomize,
    /// All CRDs, source-controller, kustomize-controller and helm-controller.
    All,
}

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folder of the cluster. Without it, a temporary folder below `target/clusters`.
    pub dir: Option<PathBuf>,
    pub flux: Flux,
    /// Enables the audit log that [`Cluster::requests_of`] reads.
    pub audit: bool,
    /// Runs every controller of Kubernetes, each with its own service account, and the API server publishes its
    /// endpoint. Without it only the controllers for deletions and Deployments run.
    pub whole: bool,
    /// Also runs the controllers of StatefulSets, Jobs, claims and volumes.
    pub workloads: bool,
    /// Makes source-controller reachable only as the Service `flux-system/source-controller`, as in a real cluster: the
    /// other controllers reach it by name, and users through the API server's proxy.
    pub source_service: bool,
    /// Additional flags of kustomize-controller, such as `--requeue-dependency=1s`.
    pub kustomize_controller_flags: Vec<String>,
    /// Program of kustomize-controller. Without it, the pinned version.
    pub kustomize_controller: Option<PathBuf>,
}

/// A running control plane in one folder.
#[derive(Debug)]
pub struct Cluster {
    dir: PathBuf,
    state: Mutex<State>,
    kubectl: Kubectl,
    /// Dropping this value stops the cluster.
    owned: bool,
    /// Set for a temporary cluster: dropping it also removes the folder.
    watchdog: Option<Watchdog>,
}

impl Cluster {
    /// Starts a cluster and returns when it is ready. Dropping the value stops the cluster. A temporary cluster also
    /// stops when this process is killed.
    pub fn up(options: Options) -> Result<Self> {
        up::prepare(&options)?;
        let mut attempt = 1;
        loop {
            let cluster = Self::empty(&options)?;
            match up::start(&cluster, &options) {
                Ok(()) => return Ok(cluster),
                // Another process took the free port before this one used it.
                Err(error) if attempt < 3 && format!("{error:#}").contains("address already in use") => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Uses the cluster that runs in `dir`. Dropping the value does not stop it.
    pub fn attach(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = std::path::absolute(dir.as_ref())?;
        let state = State::read(&dir)?.filter(|state| state.alive().next().is_some());
        let state = state.with_context(|| format!("no cluster runs in {}", dir.display()))?;
        Ok(Self { dir, state: Mutex::new(state), kubectl: Kubectl::default(), owned: false, watchdog: None })
    }

    /// Stops the cluster in `dir`, also after a crash of the process that started it. It may be stopped already.
    pub fn down(dir: impl AsRef<Path>) -> Result<()> {
        let dir = std::path::absolute(dir.as_ref())?;
        let Some(state) = State::read(&dir)? else { return Ok(()) };
        let cluster = Self { dir, state: Mutex::new(state), kubectl: Kubectl::default(), owned: false, watchdog: None };
        // A process that was forked and has not executed its program yet has inherited the lock.
        drop(cluster.launch_lock()?);
        cluster.stop_all(Duration::from_secs(5))
    }

    /// Keeps the cluster running when this process ends.
    pub fn keep_running(mut self) {
        self.owned = false;
    }

    /// Returns the folder of the cluster, with `kubeconfig`, `pids.json` and `logs/NAME.log`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of the admin's kubeconfig. Its context is `test`.
    pub fn kubeconfig(&self) -> PathBuf {
        access::kubeconfig(&self.dir, access::ADMIN)
    }

    /// Returns the kubeconfig of `admin`, `alice`, `bob` or `carol`. Only `admin` has rights from the start.
    pub fn kubeconfig_for(&self, user: &str) -> PathBuf {
        access::kubeconfig(&self.dir, user)
    }

    /// Returns the token of one of these users.
    pub fn user_token(&self, user: &str) -> Result<String> {
        self.lock().tokens.get(user).cloned().with_context(|| format!("no user is called {user}"))
    }

    /// Returns the URL of the API server.
    pub fn server_url(&self) -> String {
        self.lock().server_url.clone()
    }

    /// Runs kubectl as admin and returns its output.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_stdin(args, "")
    }

    /// Runs kubectl as admin with `input` on stdin, such as a manifest for `apply -f -`, and returns its output.
    pub fn kubectl_stdin(&self, args: &[&str], input: &str) -> Result<String> {
        self.kubectl.run(&self.dir, args, input)
    }

    /// Returns the URL of the folder `artifacts` of this cluster, such as for a chart repository.
    pub fn artifacts_url(&self) -> String {
        self.lock().artifacts_url.clone()
    }

    /// Makes `path` the artifact of `source` (`KIND/NAMESPACE/NAME`) and returns the revision, which depends only on the
    /// content. A folder is packed; a file, such as a chart archive, is served unchanged.
    pub fn publish(&self, source: &str, path: impl AsRef<Path>) -> Result<String> {
        publish::publish(self, source, path.as_ref())
    }

    /// Makes the chart in `folder` the artifact of a HelmChart (`NAMESPACE/NAME`), with this version. source-controller must not
    /// run.
    pub fn publish_chart(&self, chart: &str, folder: impl AsRef<Path>, version: &str) -> Result<()> {
        publish::publish_chart(self, chart, folder.as_ref(), version)
    }

    /// Returns all requests of a user with a User-Agent that begins with `agent`. Needs [`Options::audit`].
    pub fn requests_of(&self, user: &str, agent: &str) -> Result<Vec<audit::Request>> {
        audit::requests(&self.dir, user, agent)
    }

    /// Returns all requests of a program, by the beginning of its User-Agent. Needs [`Options::audit`].
    pub fn requests_of_program(&self, agent: &str) -> Result<Vec<audit::Request>> {
        audit::requests_of_program(&self.dir, agent)
    }

    /// Calls `probe` until it returns true or `limit` is reached. See [`wait::until`].
    pub fn wait_for(&self, what: &str, limit: Duration, probe: impl FnMut() -> Result<bool>) -> Result<()> {
        wait::until(what, limit, probe)
    }

    /// Starts kustomize-controller, also in a cluster that was started without it. The CRDs must be installed.
    pub fn start_kustomize_controller(&self) -> Result<()> {
        self.start("kustomize-controller")
    }

    /// Starts a stopped process or a Flux controller, such as source-watcher, and returns when it is ready.
    pub fn start(&self, name: &str) -> Result<()> {
        up::start_one(self, name)
    }

    /// Stops one process, such as `kustomize-controller`, with SIGTERM.
    pub fn stop(&self, name: &str) -> Result<()> {
        let entry = self.lock().find(name).cloned();
        let entry = entry.with_context(|| format!("no process of the cluster is called {name}"))?;
        process::stop(&entry.alive().into_iter().collect::<Vec<_>>(), Duration::from_secs(10))?;
        self.update(|state| state.set(entry.spec, None))
    }

    /// Returns true if the process runs.
    pub fn is_running(&self, name: &str) -> bool {
        self.lock().find(name).is_some_and(|entry| entry.alive().is_some())
    }

    /// Creates the folder of a cluster without processes.
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
        Ok(Self { dir, state: Mutex::new(state), kubectl: Kubectl::default(), owned: true, watchdog })
    }

    /// Starts a process and records it in `pids.json`.
    fn launch(&self, spec: Spec) -> Result<()> {
        let _lock = self.launch_lock()?;
        let running = spec.spawn(&self.dir)?;
        self.update(|state| state.set(spec, Some(running)))
    }

    /// Locks the start of processes in this cluster.
    fn launch_lock(&self) -> Result<File> {
        lock::exclusive(&self.dir.join("launch.lock"), "a process of the cluster to start")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut State)) -> Result<()> {
        let mut state = self.lock();
        change(&mut state);
        state.write(&self.dir)
    }

    /// Stops all processes in reverse order: clients, then the API server, then etcd.
    fn stop_all(&self, grace: Duration) -> Result<()> {
        let entries = self.lock().processes.clone();
        let (base, clients): (Vec<_>, Vec<_>) =
            entries.iter().rev().partition(|entry| matches!(entry.spec.name.as_str(), "etcd" | "kube-apiserver"));
        let clients: Vec<_> = clients.iter().filter_map(|entry| entry.alive()).collect();
        process::stop(&clients, grace)?;
        for running in base.iter().filter_map(|entry| entry.alive()) {
            process::stop(&[running], grace)?;
        }
        process::stop(&process::unrecorded(&self.dir), grace)?;
        self.update(|state| state.processes.iter_mut().for_each(|entry| entry.running = None))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        // The cluster is not used again, so kill the processes at once.
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
