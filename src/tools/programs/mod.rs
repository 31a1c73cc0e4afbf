//! Programs that render and build, each as a sandboxed child: flux-operator, helm, kustomize and qbec.

pub mod flux_operator;
pub mod helm;
pub mod kustomize;
pub mod qbec;
mod repositories;
pub mod sandboxed;
