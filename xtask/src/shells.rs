//! `cargo xtask shells`: completion in real shells, and the man pages in real formatters. The shells and mandoc are packages
//! of Debian; bash and groff are those of the machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{answer, child, controlplane, debian, target_dir, tool, workspace_root};

const PACKAGES: [&str; 7] = ["bash-completion", "zsh", "zsh-common", "fish", "fish-common", "libpcre2-32-0", "mandoc"];

/// Lines that are completed, and a text that only a completed line has. The context is in the kubeconfig of the check.
const LINES: [(&str, &str); 4] = [
    ("gitops inv", "inventory"),
    ("gitops get --context pro", "prod-eu"),
    ("gitops suspend kustom", "kustomizations"),
    ("gitops prune --plan -o ya", "yaml"),
];

const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: prod-eu
contexts: [{name: prod-eu, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: u, user: {}}]
";

/// Completes in bash, zsh and fish, through kubectl and through flux, and lints the man pages.
pub fn run() -> Result<()> {
    debian::ensure(&PACKAGES)?;
    controlplane::ensure(&["kubectl", "flux"])?;
    let home = home(&tool::build(false)?)?;
    for (name, line, expected) in LINES
        .iter()
        .flat_map(|(line, expected)| ["kubectl", "flux"].map(|host| (host, format!("{host} {line}"), *expected)))
    {
        for (shell, output) in [
            ("bash", bash(&home, name, &line)?),
            ("zsh", zsh(&home, name, &line)?),
            ("fish", fish(&home, name, &line)?),
        ] {
            if !output.contains(expected) {
                bail!("{shell}: {line:?} is not completed to {expected:?}: {output}");
            }
            answer(format!("{shell}: {line}<TAB>: {expected}"));
        }
    }
    lint()
}

/// Makes a home folder with the plugin for kubectl and for flux, and a kubeconfig.
fn home(program: &Path) -> Result<PathBuf> {
    let home = target_dir().join("shells");
    let _ = fs::remove_dir_all(&home);
    for folder in ["bin", ".kube", ".fluxcd/plugins"] {
        fs::create_dir_all(home.join(folder)).with_context(|| format!("cannot create {}", home.display()))?;
    }
    for link in ["bin/kubectl-gitops", "bin/kubectl_complete-gitops", ".fluxcd/plugins/flux-gitops"] {
        symlink(program, home.join(link))?;
    }
    for name in ["kubectl", "flux"] {
        symlink(controlplane::bin(name), home.join("bin").join(name))?;
    }
    fs::write(home.join(".kube/config"), KUBECONFIG)?;
    Ok(home)
}

/// Runs a program in that home and returns what it prints on stdout.
fn output(home: &Path, program: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .env("HOME", home)
        .env("TERM", "dumb")
        .env("LC_ALL", "C.UTF-8")
        .env("LD_LIBRARY_PATH", debian::libraries())
        .env("PATH", format!("{}:/usr/bin:/bin", home.join("bin").display()));
    Ok(String::from_utf8_lossy(&child::output(&mut command)?).into_owned())
}

fn bash(home: &Path, host: &str, line: &str) -> Result<String> {
    let functions = debian::root().join("usr/share/bash-completion/bash_completion");
    let script = format!(
        "source '{}'; source <({host} completion bash); COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; \
         read -ra COMP_WORDS <<< \"$COMP_LINE\"; COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_TYPE=9; \
         __start_{host}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        functions.display()
    );
    output(home, Path::new("bash"), &["--norc", "-c", &script])
}

/// zsh completes on a terminal only, so its module zpty types the line. Keys that come while it completes would stop it.
fn zsh(home: &Path, host: &str, line: &str) -> Result<String> {
    let (root, zsh) = (debian::root().display().to_string(), debian::bin("zsh").display().to_string());
    let paths = format!(
        "module_path=({root}/usr/lib/x86_64-linux-gnu/zsh/5.9); fpath=({root}/usr/share/zsh/functions/**/*(/))"
    );
    let script = format!(
        "{paths}; zmodload zsh/zpty; TAB=$'\\t'; HOME_KEY=$'\\x01'; zpty shell {zsh} -f; \
         zpty -w shell '{paths}; PS1=; autoload -Uz compinit; compinit -D; bindkey -e; source <({host} completion zsh); \
         compdef _{host} {host}; print R''EADY'; zpty -r -m shell text '*READY*'; sleep 1; \
         zpty -w -n shell \"{line}$TAB\"; sleep 5; zpty -w -n shell \"$HOME_KEY\"; zpty -w shell 'print -r -- L''INE '; \
         zpty -r -m shell text '*LINE *'; zpty -r -m shell more '*LINE *'; print -r -- \"$text$more\"; zpty -d shell"
    );
    output(home, &debian::bin("zsh"), &["-f", "-c", &script])
}

fn fish(home: &Path, host: &str, line: &str) -> Result<String> {
    let data = debian::root().join("usr/share/fish");
    let script = format!(
        "set -p fish_function_path {0}/functions; {host} completion fish | source; complete -C '{line}'",
        data.display()
    );
    output(home, &debian::bin("fish"), &["--no-config", "-c", &script])
}

/// Lints every man page with mandoc and groff.
fn lint() -> Result<()> {
    let mut pages = vec![];
    for entry in fs::read_dir(workspace_root().join("man"))? {
        pages.push(entry?.path());
    }
    for page in &pages {
        let mandoc = Command::new(debian::bin("mandoc")).args(["-T", "lint", "-W", "warning"]).arg(page).output()?;
        let groff = Command::new("groff").args(["-man", "-ww", "-z"]).arg(page).output();
        let groff = groff.context("cannot run groff, which formats man pages")?;
        for output in [mandoc, groff] {
            let found = [output.stdout, output.stderr].concat();
            if !output.status.success() || !found.is_empty() {
                bail!("{}: {}", page.display(), String::from_utf8_lossy(&found));
            }
        }
    }
    answer(format!("mandoc and groff: {} pages without a warning", pages.len()));
    Ok(())
}
