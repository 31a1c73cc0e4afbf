//! Limits of what is read from the API server. docs/limits.md lists them with their reasons.

use std::time::Duration;

/// Maximum size of one answer after decompression, in bytes.
pub(crate) const MAX_ANSWER: usize = 512 << 20;

/// Time that the server may send nothing during an answer. It ends its own requests after 60 s.
pub(crate) const MAX_SILENCE: Duration = Duration::from_secs(300);

/// Maximum number of pages of one list: a list of ten million objects.
pub(crate) const MAX_PAGES: usize = 10_000;

/// Maximum output of a credential plugin, and size of a kubeconfig, certificate, key or token file, in bytes.
pub(crate) const MAX_CREDENTIALS: u64 = 16 << 20;
