//! Plans of a change, compared with the effect of the real controllers.

mod diff;
mod finalizers;
mod helm_release;
mod mistyped_path;
mod owner_references;
mod random_charts;
mod rehearsal;
mod releases;
mod secrets;
mod sops;
mod stored_charts;
mod substitution;
mod upgrades;
mod volumes;
