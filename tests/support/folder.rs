//! A folder for one test's files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty folder under the target folder, removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// A fresh folder; `name` shows which test it belongs to.
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).expect("create a test folder");
        Self(path)
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and gives its path.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("create a test folder");
        std::fs::write(&path, content).expect("write a test file");
        path
    }

    /// Writes a shell script that can be run.
    #[cfg(unix)]
    pub fn script(&self, name: &str, content: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.write(name, &format!("#!/bin/sh\n{content}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("make a script executable");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
