//! Garbage collection by marks, edge case by edge case: what the system does, what this tool does, and why.

mod applyset;
mod flux_v1;
#[path = "../support/objects.rs"]
mod objects;
mod qbec;
mod support;
mod waves;
