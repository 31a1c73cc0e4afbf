//! The binary beside the real tools whose objects it explains and prunes, and those that it runs or is installed by.

mod all_systems;
mod applyset;
mod ci_examples;
mod flux_operator;
mod flux_plugin;
mod flux_texts;
mod fluxd;
mod helm;
mod krew;
mod kustomize;
mod policy;
mod prometheus;
mod pull_requests;
mod qbec;
mod tls;
