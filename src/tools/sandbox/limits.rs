//! Limits of a child.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits of a child. The launcher applies [`Limits::resources`]; the parent measures the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time from start to end.
    pub time: Duration,
    /// Size of the standard output in bytes.
    pub stdout: u64,
    /// Size of the standard error in bytes.
    pub stderr: u64,
    pub resources: Resources,
}

/// Limits that the kernel keeps for each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Private memory in bytes (`RLIMIT_DATA`). The address space is not limited, because Go reserves more than it uses.
    pub memory: u64,
    /// CPU time in seconds, of all threads together. It ends a child whose parent was killed.
    pub cpu_seconds: u64,
    pub open_files: u64,
    /// Size of a file that is written, in bytes.
    pub file_size: u64,
}

impl Limits {
    /// Returns the limits of a build that takes at most `time`.
    pub const fn of_build(time: Duration) -> Self {
        Self {
            time,
            stdout: 64 << 20,
            stderr: 1 << 20,
            resources: Resources { memory: 2 << 30, cpu_seconds: 600, open_files: 1024, file_size: 256 << 20 },
        }
    }
}
