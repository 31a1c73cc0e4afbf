//! HTTP behaviour shared by all requests: failures and their hints, retries, server warnings.

pub(crate) mod failure;
mod hint;
pub(crate) mod limits;
pub(crate) mod retry;
pub(crate) mod warnings;
