//! What `prune --plan` predicts of a change, beside what the real controllers then do.

mod diff;
mod finalizers;
mod helm_release;
mod mistyped_path;
mod owner_references;
mod sops;
mod substitution;
mod volumes;
