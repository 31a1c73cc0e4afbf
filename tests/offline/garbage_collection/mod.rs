//! Garbage collection by marks, edge case by edge case: what the system does, what this tool does, and why.

mod applyset;
mod deletion_order;
mod flux_v1;
mod qbec;
mod samples;
mod usage_errors;
