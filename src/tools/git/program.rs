//! Runs `git` so that a foreign checkout can name no program that runs, no address that is contacted, and no other
//! repository.
//!
//! The configuration of a checkout, or of a repository inside of it, can name programs: a file system monitor, hooks,
//! filters, transports, and remotes from which git fetches missing objects.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::tools::program::Program;
use crate::tools::{files, limits};

/// Options of every call. `safecrlf` would make git refuse conversions that it only previews here.
const SAFE_OPTIONS: [&str; 10] = [
    "-c",
    "safe.bareRepository=explicit",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.safecrlf=false",
    // `git log` would run the program that verifies signatures.
    "-c",
    "log.showSignature=false",
];

/// Environment of every call. An empty list of protocols forbids all: the configuration cannot allow one again.
const SAFE_VARIABLES: [(&str, &str); 7] = [
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    // A file that cannot exist: grafts give commits other parents than those that everybody else sees.
    ("GIT_GRAFT_FILE", "/dev/null/none"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("LC_ALL", "C"),
];

/// Variables that would make git read another repository than that of the directory. `GIT_INDEX_FILE` stays: git sets it
/// for hooks, and it names the files that are about to be committed.
const REMOVED_VARIABLES: [&str; 11] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_SHALLOW_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_IMPLICIT_WORK_TREE",
];

/// Maximum length of git's messages that are kept.
const MAX_MESSAGE: u64 = 64 << 10;

/// One git command.
pub(super) struct Git<'a> {
    pub(super) directory: &'a Path,
    /// Options before the command.
    pub(super) options: &'a [String],
    pub(super) variables: &'a [(&'a str, &'a Path)],
    pub(super) time: Duration,
}

/// A command that has ended.
struct Ended<T> {
    read: T,
    status: ExitStatus,
    messages: String,
}

impl Git<'_> {
    /// Returns the output of a command, up to the limit for listings.
    pub(super) fn output(&self, arguments: &[&str], input: Option<Vec<u8>>) -> Result<Vec<u8>> {
        self.read(arguments, input, |output| {
            files::read_to_limit(output, limits::MAX_GIT_LISTING)
                .map_err(|error| self.failed(arguments, &format!("its output cannot be read: {error}")))
        })
    }

    /// Runs a command, and lets `read` read its output.
    ///
    /// Fails when git fails or does not end in time, or `read` fails.
    pub(super) fn read<T>(
        &self,
        arguments: &[&str],
        input: Option<Vec<u8>>,
        read: impl FnOnce(&mut dyn Read) -> Result<T>,
    ) -> Result<T> {
        let Ended { read, status, messages } = self.run(arguments, input, read)?;
        if status.success() { Ok(read) } else { Err(self.failed(arguments, &messages)) }
    }

    /// Returns the output of a command that ends with 0 for yes and 1 for no, and its answer.
    ///
    /// Fails when it ends with another status.
    pub(super) fn answer(&self, arguments: &[&str]) -> Result<(Vec<u8>, bool)> {
        let Ended { read, status, messages } = self.run(arguments, None, |output| {
            files::read_to_limit(output, limits::MAX_GIT_LISTING)
                .map_err(|error| self.failed(arguments, &format!("its output cannot be read: {error}")))
        })?;
        match status.code() {
            Some(0) => Ok((read, true)),
            Some(1) => Ok((read, false)),
            _ => Err(self.failed(arguments, &messages)),
        }
    }

    /// Runs a command to its end, and lets `read` read its output.
    fn run<T>(
        &self,
        arguments: &[&str],
        input: Option<Vec<u8>>,
        read: impl FnOnce(&mut dyn Read) -> Result<T>,
    ) -> Result<Ended<T>> {
        let mut child = self.command(arguments, input.is_some())?.spawn().map_err(cannot_run)?;
        // Separate threads write and read messages: git answers before it has read everything.
        let writer = input.zip(child.stdin.take()).map(|(input, mut stdin)| {
            std::thread::spawn(move || {
                // A failure means that git ended early, and its status tells why.
                let _ = stdin.write_all(&input);
            })
        });
        let reader = child.stderr.take().map(|stderr| std::thread::spawn(move || read_messages(stderr)));
        let stdout = child.stdout.take();
        let child = Arc::new(Mutex::new(child));
        let (done, is_done) = channel::<()>();
        let watched = child.clone();
        let time = self.time;
        let watchdog = std::thread::spawn(move || {
            let late = is_done.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if late {
                kill(&watched);
            }
            late
        });
        let result = match stdout {
            Some(mut stdout) => read(&mut stdout),
            None => Err(self.failed(arguments, "it has no output")),
        };
        if result.is_err() {
            kill(&child);
        }
        let status = wait(&child).map_err(cannot_run)?;
        drop(done);
        let late = watchdog.join().unwrap_or(false);
        writer.map(std::thread::JoinHandle::join);
        let messages = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
        if late {
            let seconds = self.time.as_secs();
            return Err(self.failed(arguments, &format!("it did not end within {seconds} s, the limit")));
        }
        Ok(Ended { read: result?, status, messages })
    }

    fn command(&self, arguments: &[&str], has_input: bool) -> Result<Command> {
        let program = Program::find(Path::new("git"), &[self.directory]).map_err(cannot_run)?;
        let mut command = Command::new(program.path);
        command.args(SAFE_OPTIONS).args(self.options).arg("-C").arg(self.directory).args(arguments);
        for variable in REMOVED_VARIABLES {
            command.env_remove(variable);
        }
        command.envs(SAFE_VARIABLES).envs(self.variables.iter().copied());
        command.stdin(if has_input { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    fn failed(&self, arguments: &[&str], message: &str) -> Error {
        let (command, why) = (arguments[0], message.trim().trim_start_matches("fatal: "));
        Error::failed(format!("git {command} in {}: {why}", self.directory.display()))
    }
}

/// Waits for the end of a program. The watchdog can kill it between two looks at it.
fn wait(child: &Mutex<Child>) -> std::io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.lock().unwrap_or_else(PoisonError::into_inner).try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn kill(child: &Mutex<Child>) {
    // It fails only if the child has ended.
    let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
}

fn read_messages(mut stderr: impl Read) -> String {
    let mut kept = Vec::new();
    let _ = stderr.by_ref().take(MAX_MESSAGE).read_to_end(&mut kept);
    let _ = std::io::copy(&mut stderr, &mut std::io::sink());
    String::from_utf8_lossy(&kept).into_owned()
}

fn cannot_run(error: std::io::Error) -> Error {
    let failed = Error::failed(format!("cannot run git: {error}"));
    match error.kind() {
        std::io::ErrorKind::NotFound => failed.hint("install git, or add its directory to PATH"),
        _ => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(directory: &Path) -> Git<'_> {
        Git { directory, options: &[], variables: &[], time: Duration::from_secs(60) }
    }

    /// Runs git without the options of this module, as a control.
    fn plain(directory: &Path, arguments: &[&str]) -> bool {
        let mut git = Command::new("git");
        let user = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        let ended = git.arg("-C").arg(directory).args(user).args(arguments).output().unwrap();
        ended.status.success()
    }

    #[cfg(unix)]
    #[test]
    fn no_hook_of_a_repository_runs() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        assert!(plain(folder.path(), &["init", "-q"]));
        assert!(plain(folder.path(), &["commit", "-q", "--allow-empty", "-m", "one"]));
        let hook = folder.path().join(".git/hooks/reference-transaction");
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, "#!/bin/sh\ntouch ran\n").unwrap();
        std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
        let marker = folder.path().join("ran");
        git(folder.path()).output(&["update-ref", "refs/heads/a", "HEAD"], None).unwrap();
        assert!(!marker.exists());
        assert!(plain(folder.path(), &["update-ref", "refs/heads/b", "HEAD"]));
        assert!(marker.exists(), "git itself runs the hook");
    }

    #[test]
    fn a_folder_that_is_a_bare_repository_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(plain(folder.path(), &["init", "-q", "--bare", "evil"]));
        let evil = folder.path().join("evil");
        let refused = git(&evil).output(&["rev-parse", "--git-dir"], None).unwrap_err();
        assert!(refused.message.contains("safe.bareRepository"), "{}", refused.message);
        assert!(plain(&evil, &["rev-parse", "--git-dir"]), "git itself takes it");
    }
}
