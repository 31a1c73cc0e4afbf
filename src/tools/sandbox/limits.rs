//! Limits of a child.

use std::sync::LazyLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::tools::limits::MAX_CHILDREN_MEMORY;

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

/// Slots of all children of this process, whatever they run.
static SLOTS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(children_at_once()));

/// Waits until one more child may run; it has the slot until the permit is dropped.
pub(super) async fn slot() -> SemaphorePermit<'static> {
    SLOTS.acquire().await.expect("the slots are never closed")
}

/// Returns the number of children that run at the same time: as many as processors, but not more than the memory allows that
/// this machine has left and that all children may have together.
pub(crate) fn children_at_once() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    fitting(processors, available_memory())
}

fn fitting(processors: usize, available: Option<u64>) -> usize {
    let memory = available.unwrap_or(MAX_CHILDREN_MEMORY).min(MAX_CHILDREN_MEMORY);
    let of_one = Limits::of_build(Duration::ZERO).resources.memory;
    processors.min((memory / of_one) as usize).max(1)
}

/// Returns the memory that is left on this machine or for this container, in bytes; `None` where the system does not say it.
fn available_memory() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| free_of_machine(&text));
    let container = memory_of_container("max").zip(memory_of_container("current"));
    [machine, container.map(|(most, used)| most.saturating_sub(used))].into_iter().flatten().min()
}

/// Returns the memory that this container may use (`max`) or uses (`current`), in bytes.
fn memory_of_container(name: &str) -> Option<u64> {
    std::fs::read_to_string(format!("/sys/fs/cgroup/memory.{name}")).ok()?.trim().parse().ok()
}

fn free_of_machine(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_child_waits_for_one_of_the_slots() {
        let taken = SLOTS.acquire_many(SLOTS.available_permits() as u32).await.unwrap();
        assert!(slot().now_or_never().is_none());
        drop(taken);
        drop(slot().await);
    }

    #[test]
    fn the_children_together_fit_into_the_memory() {
        assert_eq!(fitting(64, None), 4, "8 GiB for all of them");
        assert_eq!(fitting(2, Some(64 << 30)), 2);
        assert_eq!(fitting(4, Some(7 << 30)), 3);
        assert_eq!(fitting(4, Some(1 << 20)), 1, "a plan needs one");
        assert_eq!(free_of_machine("MemTotal: 8 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        assert_eq!(free_of_machine("MemTotal: 8 kB\n"), None);
    }
}
