//! A Git repository in a folder, and the real fluxd that syncs it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::schemes::flux_v1::resource_id;
use test_support::folder::folder;
use test_support::gitops::{Run, gitops_as};
use xtask::cluster::{Cluster, free_port};
use xtask::controlplane::bin;

/// Limit of one sync.
const LIMIT: Duration = Duration::from_secs(60);

/// A bare repository, a clone to edit, and a home for fluxd.
pub(crate) struct Repository {
    cluster: Arc<Cluster>,
    root: PathBuf,
    kubeconfig: PathBuf,
}

/// Garbage collection of fluxd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collection {
    Off,
    Dry,
    On,
}

/// The flags that make a source.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// URL of the repository when there is none.
    pub(crate) url: Option<&'static str>,
    pub(crate) branch: &'static str,
    pub(crate) paths: Vec<String>,
    pub(crate) allow_namespaces: Vec<&'static str>,
}

/// A configuration of master with these paths.
pub(crate) fn paths(paths: &[&str]) -> Config {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    Config { url: None, branch: "master", paths, allow_namespaces: vec![] }
}

/// Log of one run of fluxd.
pub(crate) struct Log(pub(crate) String);

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Repository {
    pub(crate) fn new(cluster: &Arc<Cluster>, name: &str) -> Self {
        let root = folder(name);
        let repository = Self { cluster: cluster.clone(), root, kubeconfig: cluster.kubeconfig() };
        let bare = repository.bare();
        git(&repository.root, &["init", "-q", "--bare", "--initial-branch=master", &bare]);
        git(&repository.root, &["clone", "-q", &bare, "work"]);
        git(&repository.work(), &["checkout", "-q", "-B", "master"]);
        fs::create_dir_all(repository.root.join("home/.kube")).unwrap();
        fs::create_dir_all(repository.root.join("tmp")).unwrap();
        fs::copy(&repository.kubeconfig, repository.root.join("home/.kube/config")).unwrap();
        repository
    }

    /// The same repository with fluxd and the binary as another user.
    pub(crate) fn of_user(self, user: &str) -> Self {
        let kubeconfig = self.cluster.kubeconfig_for(user);
        fs::copy(&kubeconfig, self.root.join("home/.kube/config")).unwrap();
        Self { kubeconfig, ..self }
    }

    /// Lets Git find this repository under further URLs.
    pub(crate) fn known_as(&self, urls: &[&str]) -> &Self {
        let lines: String = urls.iter().map(|url| format!("\tinsteadOf = {url}\n")).collect();
        let text = format!("[url \"{}\"]\n{lines}", self.url());
        fs::write(self.root.join("home/.gitconfig"), text).unwrap();
        self
    }

    fn bare(&self) -> String {
        self.root.join("repo.git").display().to_string()
    }

    /// The `--git-url`.
    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.bare())
    }

    /// The `--git-url` of a configuration.
    pub(crate) fn url_of(&self, config: &Config) -> String {
        config.url.map_or_else(|| self.url(), str::to_owned)
    }

    /// The clone.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Writes a file of the next commit.
    pub(crate) fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.work().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Removes a file in the next commit.
    pub(crate) fn remove(&self, path: &str) -> &Self {
        fs::remove_file(self.work().join(path)).unwrap();
        self
    }

    /// Commits and pushes to both branches.
    pub(crate) fn push(&self) -> &Self {
        let work = self.work();
        git(&work, &["add", "-A"]);
        git(
            &work,
            &["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "next"],
        );
        git(&work, &["push", "-q", "-f", "origin", "HEAD:master", "HEAD:main"]);
        self
    }

    /// Runs fluxd for one whole sync.
    pub(crate) fn sync(&self, config: &Config, collection: Collection) -> Log {
        let port = free_port().unwrap();
        let log = self.root.join("fluxd.log");
        let home = self.root.join("home");
        let tools = bin("kubectl").parent().unwrap().display().to_string();
        let mut command = Command::new(bin("fluxd"));
        command
            .env_clear()
            .env("HOME", &home)
            .env("TMPDIR", self.root.join("tmp"))
            .env("PATH", format!("{tools}:/usr/local/bin:/usr/bin:/bin"))
            .env("KUBERC", "off")
            .args([
                "--memcached-hostname=",
                "--registry-disable-scanning",
                "--sync-interval=1s",
                "--git-poll-interval=1s",
            ])
            .arg(format!("--git-url={}", self.url_of(config)))
            .arg(format!("--git-branch={}", config.branch))
            .arg(format!("--listen=127.0.0.1:{port}"))
            .arg(format!("--ssh-keygen-dir={}", home.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap());
        // An empty path counts only in a list.
        if !config.paths.is_empty() {
            command.arg(format!("--git-path={}", config.paths.join(",")));
        }
        command.args(config.allow_namespaces.iter().map(|namespace| format!("--k8s-allow-namespace={namespace}")));
        match collection {
            Collection::Off => &mut command,
            Collection::Dry => command.arg("--sync-garbage-collection-dry"),
            Collection::On => command.arg("--sync-garbage-collection"),
        };
        let running = Running(command.spawn().expect("fluxd starts"));
        let end = Instant::now() + LIMIT;
        // The first sync is over when the second begins, or when it failed.
        let over = |text: &str| {
            text.matches("trying to sync git changes").count() > 1
                || ["loading", "fatal"].iter().any(|word| text.contains(&format!("component=sync-loop err=\"{word}")))
        };
        loop {
            let text = fs::read_to_string(&log).unwrap();
            if over(&text) {
                drop(running);
                let first = text.match_indices("trying to sync git changes").nth(1).map_or(text.len(), |(at, _)| at);
                return Log(text[..first].to_owned());
            }
            assert!(Instant::now() < end, "no sync ended within {LIMIT:?}: {text}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The binary's plan for the manifests of a configuration.
    pub(crate) fn plan(&self, config: &Config, args: &[&str]) -> Run {
        self.gitops(
            config,
            &["prune", "flux-v1", "--plan", "-o", "json", "--allow=namespaces,crds,volumes,statefulsets"],
            args,
        )
    }

    /// Runs the binary for the manifests of a configuration.
    pub(crate) fn gitops(&self, config: &Config, verb: &[&str], args: &[&str]) -> Run {
        gitops_as(&self.kubeconfig, &self.words(config, verb, args).iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn words(&self, config: &Config, verb: &[&str], args: &[&str]) -> Vec<String> {
        let mut words: Vec<String> = verb.iter().chain(&["--git-url"]).map(|word| (*word).to_owned()).collect();
        words.extend([self.url_of(config), format!("--git-branch={}", config.branch)]);
        words.extend(config.paths.iter().map(|path| format!("--git-path={path}")));
        words.extend(config.allow_namespaces.iter().map(|namespace| format!("--k8s-allow-namespace={namespace}")));
        words.extend(args.iter().map(|word| (*word).to_owned()));
        if !args.contains(&"-f") {
            words.extend(self.files(&config.paths));
        }
        words
    }

    /// `-f` for each folder that fluxd loads.
    pub(crate) fn files(&self, paths: &[String]) -> Vec<String> {
        let root = [String::new()];
        let paths = if paths.is_empty() { &root } else { paths };
        paths.iter().flat_map(|path| ["-f".to_owned(), self.work().join(path).display().to_string()]).collect()
    }
}

impl Log {
    /// The ids that fluxd deletes, or would.
    pub(crate) fn deleted(&self) -> BTreeSet<String> {
        let deleting =
            self.0.lines().filter(|line| line.contains("cluster resource not in resources to be synced; deleting"));
        deleting
            .filter_map(|line| line.rsplit_once("resource="))
            .map(|(_, id)| id.trim_matches('"').to_owned())
            .collect()
    }

    /// The same as uids.
    pub(crate) fn deleted_uids(&self, snapshot: &Snapshot) -> BTreeSet<String> {
        let uid = |id: &String| {
            let found = snapshot.objects.iter().find(|object| resource_id(&object.id) == *id);
            found.unwrap_or_else(|| panic!("{id} is not in the snapshot")).uid.to_string()
        };
        self.deleted().iter().map(uid).collect()
    }
}

fn git(dir: &std::path::Path, args: &[&str]) {
    xtask::git::run(dir, args).unwrap();
}
