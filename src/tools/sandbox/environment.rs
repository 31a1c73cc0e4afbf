//! The environment of a child: no variable of the user except those on a list, and empty directories.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::Result;
use crate::tools::{self, program};

/// Directories of one child in a random temporary directory that only this user may read. Removed on drop.
#[derive(Debug)]
pub struct PrivateDirectories {
    _directory: TempDir,
    root: PathBuf,
}

impl PrivateDirectories {
    /// Creates the directories. Fails if the temporary directory cannot be written.
    pub fn new() -> Result<Self> {
        let directory = tools::temporary_directory()?;
        let root = create_in(directory.path())
            .map_err(|error| tools::cannot_write_temporary(&directory.path().display().to_string(), &error))?;
        Ok(Self { _directory: directory, root })
    }

    /// Returns the directory that contains the others, without symbolic links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the empty home directory.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Returns the directory for temporary files.
    pub fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }
}

/// Creates the directories in a directory. Returns its path without symbolic links.
fn create_in(directory: &Path) -> std::io::Result<PathBuf> {
    let root = directory.canonicalize()?;
    ["home", "tmp"].iter().try_for_each(|name| std::fs::create_dir(root.join(name)))?;
    Ok(root)
}

/// Variables with which git and ssh reach a remote repository: proxies, certificates, configuration, and the ssh agent.
const FETCHING: [&str; 19] = [
    "ALL_PROXY",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_SSL_CAINFO",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LOGNAME",
    "NO_PROXY",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "USER",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "USERPROFILE",
];

/// Variables with the proxies of programs that are written in Go, for both schemes in both spellings.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"];

/// Variables that programs of the platform need to start.
const PLATFORM: [&str; 3] = ["SystemRoot", "SystemDrive", "windir"];

/// Variables that name the home directory or a part of it.
const HOMES: [&str; 9] = [
    "HOME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "APPDATA",
    "LOCALAPPDATA",
    "USERPROFILE",
];

/// Directories of programs, for scripts.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Variables and working directory of a child.
#[derive(Clone, Debug)]
pub struct Environment {
    variables: Vec<(OsString, OsString)>,
    directory: PathBuf,
}

impl Environment {
    /// Returns an environment without any variable of the user. Home and working directory are empty.
    pub fn empty(directories: &PrivateDirectories) -> Self {
        let mut environment = Self { variables: inherited(&PLATFORM), directory: directories.home() };
        HOMES.iter().for_each(|name| environment.set(name, directories.home()));
        ["TMPDIR", "TMP", "TEMP"].iter().for_each(|name| environment.set(name, directories.tmp()));
        environment.set("PATH", PATH);
        environment
    }

    /// Adds what git needs to fetch over https and ssh, and nothing else. git does not ask for a password.
    #[must_use]
    pub fn fetching(mut self, trees: &[&Path]) -> Self {
        for (name, value) in inherited(&FETCHING) {
            self.set(&name, value);
        }
        self.set("PATH", program::safe_path(trees));
        self.set("GIT_ALLOW_PROTOCOL", "https:ssh");
        self.set("GIT_TERMINAL_PROMPT", "0");
        self.set("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
        self
    }

    /// Sends a program that is written in Go through a proxy on a port of this machine, and through no other.
    #[must_use]
    pub fn through(mut self, port: u16) -> Self {
        PROXIES.iter().for_each(|name| self.set(name, format!("http://127.0.0.1:{port}")));
        ["NO_PROXY", "no_proxy"].iter().for_each(|name| self.set(name, ""));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.set(name, value);
        self
    }

    /// Adds the variables of the user whose name begins with a prefix.
    #[must_use]
    pub fn with_variables_of(mut self, prefix: &str) -> Self {
        for (name, value) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with(prefix)) {
            self.set(name, value);
        }
        self
    }

    fn set(&mut self, name: impl AsRef<OsStr>, value: impl Into<OsString>) {
        self.variables.retain(|(present, _)| present != name.as_ref());
        self.variables.push((name.as_ref().to_owned(), value.into()));
    }

    pub(super) fn variables(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.variables.iter().map(|(name, value)| (name, value))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Returns true if the user has a proxy of their own.
pub fn has_proxy() -> bool {
    PROXIES.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

fn inherited(names: &[&str]) -> Vec<(OsString, OsString)> {
    names.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect()
}
