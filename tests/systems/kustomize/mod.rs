//! Working trees that the real kustomize and kubectl build.

mod bad_trees;
mod builds;
mod corpus;
mod hostile_trees;
mod judge;
mod reading;
mod remote_bases;
mod unfollowed;
