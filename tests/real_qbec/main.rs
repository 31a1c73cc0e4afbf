//! The real qbec beside the plans of this tool, on the real API server, by uid.

mod app;
mod cases;
mod large;
mod random;
#[path = "../support/mod.rs"]
mod support;
