//! Stops a temporary cluster when the process that started it ends without stopping it.
//!
//! A test may be killed, or keep its cluster in a `static`, which is never dropped. The watchdog reads from a pipe. Only
//! the test holds the other end, and the kernel closes it when the test ends.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Kills the process groups in `groups` and removes the data. The logs remain.
const SCRIPT: &str = "read -r _; cd \"$1\" 2>/dev/null || exit 0
while read -r group; do kill -9 \"-$group\" 2>/dev/null; done < groups
: > groups; rm -rf etcd tmp cache artifacts";

/// A watchdog process. It ends when the value is dropped.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "watchdog"]).arg(dir);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().map(Self).context("cannot start sh as the watchdog of a temporary cluster")
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Closing the pipe ends the script. The list of groups is empty now.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
