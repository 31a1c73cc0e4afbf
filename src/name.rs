//! The name of the plugin, and the words that run it: `kubectl gitops`, `flux gitops`, or what the file was renamed to.

use std::ffi::OsStr;
use std::path::Path;

/// Name of the plugin. kubectl runs `kubectl-NAME`, and flux runs `flux-NAME`.
pub const PLUGIN: &str = "gitops";
/// Words in help and messages of the source, which the output replaces by those of the user.
const WRITTEN: &str = "kubectl gitops";
/// Programs that run a plugin by its prefix.
const HOSTS: [&str; 2] = ["kubectl", "flux"];

/// Returns the words with which a program was run, from its zeroth argument. In the file name of a plugin, an underscore
/// stands for a dash (docs/reference/kubectl-plugin.md 1).
pub fn called(program: Option<&OsStr>) -> String {
    let file = program.and_then(|program| Path::new(program).file_name()?.to_str()).unwrap_or_default();
    let name = file.strip_suffix(".exe").unwrap_or(file);
    let host = |host: &&&str| name.strip_prefix(**host).is_some_and(|rest| rest.starts_with('-') && rest.len() > 1);
    match HOSTS.iter().find(host) {
        Some(host) => format!("{host} {}", name[host.len() + 1..].replace('_', "-")),
        None if name.is_empty() => WRITTEN.to_owned(),
        None => name.to_owned(),
    }
}

/// Returns the name under which kubectl knows the plugin that runs as `called`.
pub fn in_kubectl(called: &str) -> &str {
    called.strip_prefix("kubectl ").unwrap_or(PLUGIN)
}

/// Returns a text of this program with the words that run it.
pub fn renamed(text: &str, called: &str) -> String {
    if called == WRITTEN { text.to_owned() } else { text.replace(WRITTEN, called) }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::{PLUGIN, WRITTEN, called, in_kubectl, renamed};

    #[test]
    fn names_of_the_program() {
        assert_eq!(WRITTEN, format!("kubectl {PLUGIN}"));
        for (program, expected, plugin) in [
            ("/krew/bin/kubectl-gitops", "kubectl gitops", "gitops"),
            ("kubectl-gitops.exe", "kubectl gitops", "gitops"),
            ("/home/me/.fluxcd/plugins/flux-gitops", "flux gitops", "gitops"),
            ("bin/kubectl-flux_prune", "kubectl flux-prune", "flux-prune"),
            ("./gitops", "gitops", "gitops"),
            ("kubectl-", "kubectl-", "gitops"),
            ("kubectlx", "kubectlx", "gitops"),
            ("", "kubectl gitops", "gitops"),
            ("/", "kubectl gitops", "gitops"),
        ] {
            let name = called(Some(OsStr::new(program)));
            assert_eq!((name.as_str(), in_kubectl(&name)), (expected, plugin), "{program}");
        }
        assert_eq!(called(None), "kubectl gitops");
    }

    #[test]
    fn texts_name_the_program_as_the_user_does() {
        assert_eq!(renamed("see `kubectl gitops get`", "flux gitops"), "see `flux gitops get`");
    }
}
