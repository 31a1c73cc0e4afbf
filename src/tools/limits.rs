//! Limits of what is read from files and programs. docs/limits.md lists them with their reasons.

use std::time::Duration;

/// Maximum size of one file of a tree, in bytes. Manifests are smaller than the 3 MiB that the API server accepts.
pub const MAX_FILE: u64 = 64 << 20;

/// Maximum size of all files of a tree, in bytes: they are kept in memory.
pub const MAX_TREE: u64 = 2 << 30;

/// Maximum number of files in a tree.
pub const MAX_TREE_FILES: usize = 500_000;

/// Maximum number of nested directories.
pub const MAX_DEPTH: usize = 100;

/// Maximum output of one git command that lists names, in bytes.
pub const MAX_GIT_LISTING: u64 = 256 << 20;

/// Time limit of one git command.
pub const GIT_TIME: Duration = Duration::from_secs(60);

/// Maximum size of a snapshot after decompression, in bytes: about 500,000 objects.
pub const MAX_SNAPSHOT: u64 = 512 << 20;

/// Maximum expansion of a compressed snapshot, as a multiple of its size in the file. Real ones expand to 10 to 30 times
/// their size.
pub const MAX_EXPANSION: u64 = 200;

/// Maximum size of a plan file, in bytes. A row takes about 1 kB.
pub const MAX_PLAN: u64 = 64 << 20;

/// Maximum size of a journal that is continued, in bytes. A deletion takes about 500 bytes.
pub const MAX_JOURNAL: u64 = 64 << 20;

/// Maximum size of all manifests of `-f`, in bytes.
pub const MAX_MANIFESTS: u64 = 512 << 20;

/// Maximum number of files of `-f`.
pub const MAX_MANIFEST_FILES: usize = 100_000;

/// Time that a pipe which the user names as a file may stay without a writer.
pub const WRITER_TIME: Duration = Duration::from_secs(5);

/// Time that a pipe which the user names as a file may stay without new data.
pub const PIPE_TIME: Duration = Duration::from_secs(300);

/// Time limit of one build of kustomize; remote bases need the network.
pub const BUILD_TIME: Duration = Duration::from_secs(60);

/// Time limit of one run of `helm template`.
pub const RENDER_TIME: Duration = Duration::from_secs(60);

/// Time limit of printing the version of kustomize or helm.
pub const VERSION_TIME: Duration = Duration::from_secs(10);

/// Time limit of one run of qbec.
pub const QBEC_TIME: Duration = Duration::from_secs(300);

/// Maximum of the private memory of all children that run at the same time, in bytes.
pub const MAX_CHILDREN_MEMORY: u64 = 8 << 30;

/// Returns a number of bytes in the largest unit that divides it: `64 MiB`.
pub fn bytes(count: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| count > 0 && count.is_multiple_of(1 << shift)) {
        Some((shift, unit)) => format!("{} {unit}", count >> shift),
        None => format!("{count} bytes"),
    }
}
