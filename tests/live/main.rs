//! The binary beside the real kube-apiserver and the real controllers of Kubernetes and Flux.

mod alarm;
mod broken_answers;
mod clusters;
mod connection;
mod fleet;
mod inventory;
mod pages;
mod plan;
mod plan_files;
mod prune;
mod rbac;
mod source_artifact;
mod suspension;
mod tenants;
