//! Ownership systems, one file or folder each. To add one, write its file and add a line to [`registry`].

pub mod applyset;
pub mod argocd;
pub mod cli_utils;
pub(crate) mod config_sync;
pub mod flux;
pub mod flux_helmrelease;
pub mod flux_kustomization;
pub mod flux_operator;
pub(crate) mod flux_snapshot;
pub mod flux_v1;
pub mod helm;
pub mod inventory_id;
pub mod kapp;
pub(crate) mod kluctl;
pub mod qbec;
pub mod registry;
