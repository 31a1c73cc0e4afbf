//! The real fluxd beside the plans of this tool, on the real API server, by uid.

mod cases;
mod deployed;
mod edges;
mod fluxd;
mod random;
#[path = "../support/mod.rs"]
mod support;
mod table;
