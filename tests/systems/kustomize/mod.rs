//! Working trees that the real kustomize and kubectl build.

mod bad_trees;
mod builds;
mod remote_bases;
