//! A run of `--apply` beside a test, which plays people: it commits patches, and serves what else the cluster waits for.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use test_support::cluster::LIMIT;
use test_support::folder::folder;
use test_support::gitops::binary;
use xtask::cluster::Cluster;

pub(super) struct Applying<'a> {
    cluster: &'a Cluster,
    child: Child,
    /// File with its standard error.
    said: PathBuf,
    patches: PathBuf,
    /// What the test does while it waits.
    serve: Box<dyn Fn() + 'a>,
}

impl<'a> Applying<'a> {
    /// Starts a verb with `--apply --yes` and a time limit.
    pub(super) fn start(cluster: &'a Cluster, words: &[&str], serve: impl Fn() + 'a) -> Self {
        let patches = folder("applying");
        let said = patches.join("said");
        let child = Command::new(binary())
            .args(words)
            .args(["--apply", "--yes", "--timeout", "180s", "--write", patches.to_str().unwrap()])
            .env("KUBECONFIG", cluster.kubeconfig())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&said).unwrap())
            .spawn()
            .unwrap();
        Self { cluster, child, said, patches, serve: Box::new(serve) }
    }

    /// Waits until it says this.
    pub(super) fn wait_for(&mut self, words: &str) {
        let (child, said, serve) = (&mut self.child, &self.said, &self.serve);
        let is_said = || {
            serve();
            let text = fs::read_to_string(said).unwrap();
            let is_said = text.contains(words);
            assert!(is_said || child.try_wait().unwrap().is_none(), "{words}:\n{text}");
            Ok(is_said)
        };
        let waited = self.cluster.wait_for(words, 2 * LIMIT, is_said);
        waited.unwrap_or_else(|error| panic!("{error}:\n{}", fs::read_to_string(&self.said).unwrap()));
    }

    /// Returns the file with the patch of a step.
    pub(super) fn patch(&self, step: usize) -> String {
        self.patches.join(format!("step-{step}.patch")).display().to_string()
    }

    /// Presses Ctrl-C.
    pub(super) fn interrupt(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    }

    /// Waits for its end. Returns its exit code and what it said.
    pub(super) fn end(mut self) -> (Option<i32>, String) {
        let (child, serve) = (&mut self.child, &self.serve);
        let has_ended = || {
            serve();
            Ok(child.try_wait().unwrap().is_some())
        };
        self.cluster.wait_for("the end of the run", 2 * LIMIT, has_ended).unwrap();
        (self.child.wait().unwrap().code(), fs::read_to_string(&self.said).unwrap())
    }
}

impl Drop for Applying<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
