//! The name of the plugin, and the words that run it: `kubectl gitops`, `flux gitops`, or what the file was renamed to.

use std::ffi::OsStr;
use std::path::Path;

/// Name of the plugin. kubectl runs `kubectl-NAME`, and flux runs `flux-NAME`.
pub const PLUGIN: &str = "gitops";
/// Words in help and messages of the source, which the output replaces by those of the user.
const WRITTEN: &str = "kubectl gitops";
/// Commands that read no cluster, so they need none of its flags.
const WITHOUT_CLUSTER: [&str; 4] = ["completion", "man", "options", "version"];
/// Commands that take a recorded cluster.
const READING: [&str; 6] = ["get", "handover", "inventory", "plan", "prune", "retire"];
/// Programs that run a plugin by its prefix.
const HOSTS: [&str; 2] = ["kubectl", "flux"];

/// Returns the words with which a program was run, from its zeroth argument. In the file name of a plugin, an underscore
/// stands for a dash (docs/reference/kubectl-plugin.md 1).
pub fn called(program: Option<&OsStr>) -> String {
    let file = program.and_then(|program| Path::new(program).file_name()?.to_str()).unwrap_or_default();
    let name = file.strip_suffix(".exe").unwrap_or(file);
    let host = HOSTS.iter().find(|host| {
        let rest = name.strip_prefix(**host).and_then(|rest| rest.strip_prefix('-'));
        rest.is_some_and(|rest| !rest.is_empty())
    });
    match host {
        Some(host) => format!("{host} {}", name[host.len() + 1..].replace('_', "-")),
        None if name.is_empty() => WRITTEN.to_owned(),
        None => name.to_owned(),
    }
}

/// Returns the program on the PATH that kubectl runs for the plugin that runs as `called`.
pub fn program_of_kubectl(called: &str) -> String {
    let plugin = called.strip_prefix("kubectl ").unwrap_or(PLUGIN);
    format!("kubectl-{}", plugin.replace('-', "_"))
}

/// Returns a text of this program with the words that run it.
pub fn renamed(text: &str, called: &str) -> String {
    if called == WRITTEN { text.to_owned() } else { text.replace(WRITTEN, called) }
}

/// Cluster or recording that a run reads, for the commands in its hints.
#[derive(Debug)]
pub enum Subject {
    /// A cluster, with the flags that select it, such as ` --context prod`.
    Cluster(String),
    /// A recorded cluster, with ` --snapshot FILE`.
    Snapshot(String),
}

impl Subject {
    /// Returns a text in which the commands between backticks have the flags of the subject.
    pub fn complete(&self, text: &str) -> String {
        let mut parts: Vec<String> = text.split('`').map(str::to_owned).collect();
        // Text and commands alternate; a last backtick without another one begins no command.
        let end = parts.len() - 1;
        for part in parts[..end].iter_mut().skip(1).step_by(2) {
            let flags = self.flags_of(part).to_owned();
            *part += &flags;
        }
        parts.join("`")
    }

    fn flags_of(&self, command: &str) -> &str {
        let own = command.strip_prefix(WRITTEN).map(|rest| rest.split_whitespace().next().unwrap_or_default());
        match (self, own) {
            (Self::Snapshot(flags), Some(verb)) if READING.contains(&verb) => flags,
            (Self::Cluster(flags), None) if command.starts_with("kubectl ") => flags,
            (Self::Cluster(flags), Some(verb)) if !WITHOUT_CLUSTER.contains(&verb) => flags,
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::{PLUGIN, Subject, WRITTEN, called, program_of_kubectl, renamed};

    #[test]
    fn commands_of_a_text_get_the_flags_of_the_run() {
        let cluster = Subject::Cluster(" --context prod".to_owned());
        let snapshot = Subject::Snapshot(" --snapshot a.json".to_owned());
        for (text, of_cluster, of_snapshot) in [
            (
                "`kubectl gitops get` lists",
                "`kubectl gitops get --context prod` lists",
                "`kubectl gitops get --snapshot a.json` lists",
            ),
            (
                "`kubectl gitops handover --to a` shows",
                "`kubectl gitops handover --to a --context prod` shows",
                "`kubectl gitops handover --to a --snapshot a.json` shows",
            ),
            (
                "`git fetch`, `kubectl get x`",
                "`git fetch`, `kubectl get x --context prod`",
                "`git fetch`, `kubectl get x`",
            ),
            ("`kubectl gitops man DIR`", "`kubectl gitops man DIR`", "`kubectl gitops man DIR`"),
            ("kubectl gitops get", "kubectl gitops get", "kubectl gitops get"),
            (
                "a lone ` before kubectl gitops get",
                "a lone ` before kubectl gitops get",
                "a lone ` before kubectl gitops get",
            ),
            ("", "", ""),
        ] {
            assert_eq!((&*cluster.complete(text), &*snapshot.complete(text)), (of_cluster, of_snapshot));
        }
    }

    #[test]
    fn names_of_the_program() {
        assert_eq!(WRITTEN, format!("kubectl {PLUGIN}"));
        for (program, expected, plugin) in [
            ("/krew/bin/kubectl-gitops", "kubectl gitops", "kubectl-gitops"),
            ("kubectl-gitops.exe", "kubectl gitops", "kubectl-gitops"),
            ("/home/me/.fluxcd/plugins/flux-gitops", "flux gitops", "kubectl-gitops"),
            ("bin/kubectl-flux_prune", "kubectl flux-prune", "kubectl-flux_prune"),
            ("./gitops", "gitops", "kubectl-gitops"),
            ("kubectl-", "kubectl-", "kubectl-gitops"),
            ("kubectlx", "kubectlx", "kubectl-gitops"),
            ("", "kubectl gitops", "kubectl-gitops"),
            ("/", "kubectl gitops", "kubectl-gitops"),
        ] {
            let name = called(Some(OsStr::new(program)));
            assert_eq!((name.as_str(), program_of_kubectl(&name).as_str()), (expected, plugin), "{program}");
        }
        assert_eq!(called(None), "kubectl gitops");
    }

    #[test]
    fn texts_name_the_program_as_the_user_does() {
        assert_eq!(renamed("see `kubectl gitops get`", "flux gitops"), "see `flux gitops get`");
    }
}
