//! The parts of the process environment that a connection depends on, as a value that tests can set.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Directory of the service account in a pod.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Environment variables, home directory, service account and terminal. Not `Debug`: variables contain secrets.
#[derive(Clone, Default)]
pub struct Environment {
    /// Environment variables by name, such as KUBECONFIG, KUBERC, PATH, the proxies, and KUBERNETES_SERVICE_*.
    pub variables: HashMap<String, OsString>,
    /// The user's home directory, which contains `.kube/config`.
    pub home: Option<PathBuf>,
    /// Directory with `token`, `ca.crt` and `namespace` inside a pod.
    pub service_account: PathBuf,
    /// `true` if standard input is a terminal, on which a credential plugin may ask.
    pub interactive: bool,
    /// `true` if a credential plugin may print nothing, because a shell completes a word.
    pub silent: bool,
}

impl Environment {
    /// Reads the environment of this process.
    pub fn process() -> Self {
        Self {
            variables: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
                .collect(),
            // A relative path would be in the current directory, which may be a tree of others.
            home: std::env::home_dir().filter(|home| home.is_absolute()),
            service_account: SERVICE_ACCOUNT.into(),
            interactive: std::io::stdin().is_terminal(),
            silent: false,
        }
    }

    /// Returns a variable that is set, not empty, and UTF-8.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.paths(name)?.to_str()
    }

    /// Returns a variable that is set and not empty. Paths need not be UTF-8: a KUBECONFIG that is not must not be ignored,
    /// or another cluster would be used.
    pub(crate) fn paths(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }
}
