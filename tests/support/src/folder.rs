//! Folders for the files of one test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty folder, removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// A fresh folder below the target folder; `name` shows which test it belongs to.
    pub fn new(name: &str) -> Self {
        Self(folder(name))
    }

    /// A fresh folder that is in no checkout, unlike the target folder.
    pub fn outside_checkouts(name: &str) -> Self {
        Self(fresh(&std::env::temp_dir(), name))
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, also into folders that are not there yet, and gives its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("create a test folder");
        std::fs::write(&path, content).expect("write a test file");
        path
    }

    /// Writes a shell script that can be run.
    #[cfg(unix)]
    pub fn script(&self, name: &str, content: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.write(name, format!("#!/bin/sh\n{content}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("make a script executable");
        path
    }

    /// Runs git in the folder and gives what it prints.
    pub fn git(&self, arguments: &[&str]) -> String {
        xtask::git::run(&self.0, arguments).expect("git runs")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A fresh folder below the target folder that stays there, to be looked at after the test.
pub fn folder(name: &str) -> PathBuf {
    fresh(&reports(), name)
}

/// Makes a folder a git repository, and commits its files.
pub fn init(tree: &Path) {
    xtask::git::run(tree, &["init", "-q", "-b", "main"]).expect("git runs");
    commit(tree);
}

/// Commits all files of a checkout.
pub fn commit(tree: &Path) {
    xtask::git::run(tree, &["add", "-A"]).expect("git runs");
    xtask::git::run(tree, &["commit", "-q", "-m", "change"]).expect("git runs");
}

/// The folder for what tests leave to be read, such as tables.
pub fn reports() -> PathBuf {
    xtask::target_dir().join("tmp")
}

fn fresh(parent: &Path, name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = parent.join(format!("{name}-{}-{count}", std::process::id()));
    // A process that had the same number may have left one.
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("create a test folder");
    path
}
