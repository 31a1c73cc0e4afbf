//! What a connection takes from around the process, in one value, so that tests can say what is there.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Where a pod finds its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Environment variables, home folder, service account and terminal.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Environment variables that decide the connection: KUBECONFIG, the proxies, KUBERNETES_SERVICE_*.
    pub variables: HashMap<String, String>,
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
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self {
            variables: std::env::vars_os().filter_map(text).collect(),
            home: std::env::home_dir(),
            service_account: SERVICE_ACCOUNT.into(),
            interactive: std::io::stdin().is_terminal(),
        }
    }

    /// A variable that is set and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}
