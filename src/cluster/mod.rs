//! The API server: the only user of `kube::Client`.
//!
//! `config` finds the server and the credentials, `connection` sends requests, `http` has their policies. `read` and `write`
//! build on them: the requests that all else is made of are methods of [`Cluster`] (one object, a list, discovery, a
//! snapshot), the rest are functions.

pub mod config;
pub(crate) mod connection;
mod http;
pub(crate) mod read;
pub(crate) mod write;

pub use config::environment::Environment;
pub use connection::{Cluster, Response};
pub use http::failure::{Failure, FailureKind};
pub use read::discovery::Discovered;
pub use read::format::{metadata_from_json, metadata_from_protobuf};
pub use read::list::{Listing, Query};
pub use read::watch::WatchedChange;
pub use write::dry_run::{Applying, dry_run_deletions};
pub use write::execute::execute;
pub use write::observer::{Execution, OWNERS_AGE, Observer};
pub use write::patch::{DryRun, PatchResult};
pub(crate) use write::signals::Interrupts;
