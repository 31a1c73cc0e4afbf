//! cluster::http.

pub mod failure;
pub mod hint;
pub mod protobuf;
pub mod retry;
pub mod warnings;
pub mod wire;
