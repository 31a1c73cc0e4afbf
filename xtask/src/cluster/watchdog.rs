//! Ends a temporary cluster when its owner is gone without having said so.
//!
//! A test may be killed, interrupted, or keep its cluster in a `static`, which is never dropped. The watchdog waits for the
//! end of a pipe whose other end only the owner holds; the kernel closes that with the owner, however it ends.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Kills what `groups` lists, and frees the space that nobody will look at. Logs stay for whoever wonders what happened.
const SCRIPT: &str = "read -r _; cd \"$1\" 2>/dev/null || exit 0
while read -r group; do kill -9 \"-$group\" 2>/dev/null; done < groups
: > groups; rm -rf etcd tmp cache artifacts";

/// Lives as long as its cluster is used.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "watchdog"]).arg(dir);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().map(Self).context("cannot start sh to watch over a temporary cluster")
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Closing the pipe makes it look at a list that is empty by now.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
