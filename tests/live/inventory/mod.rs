//! `inventory` of a real cluster.

mod during_reconciliation;
mod flux_v1_taken_over;
mod hub;
mod unmanaged;
mod views;
mod why_gone;
