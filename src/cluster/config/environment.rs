//! What a connection takes from around the process, in one value, so that tests can say what is there.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Where a pod finds its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Environment variables, home folder, service account and terminal. It has no debug form: variables hold secrets.
#[derive(Clone, Default)]
pub struct Environment {
    /// Environment variables by name: KUBECONFIG, KUBERC, PATH, the proxies, KUBERNETES_SERVICE_*.
    pub variables: HashMap<String, OsString>,
    /// The user's home folder, where `.kube/config` is.
    pub home: Option<PathBuf>,
    /// Folder with `token`, `ca.crt` and `namespace` inside a pod.
    pub service_account: PathBuf,
    /// Whether standard input is a terminal that a credential plugin may ask on.
    pub interactive: bool,
}

impl Environment {
    /// What is around this process.
    pub fn process() -> Self {
        Self {
            variables: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
                .collect(),
            home: std::env::home_dir(),
            service_account: SERVICE_ACCOUNT.into(),
            interactive: std::io::stdin().is_terminal(),
        }
    }

    /// A variable that is set, text, and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.paths(name)?.to_str()
    }

    /// A variable that holds paths, which need not be text, and is not empty: a KUBECONFIG that is no text must not
    /// lead to another cluster.
    pub(crate) fn paths(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }
}
