//! Plans of a change, compared with the effect of the real controllers.

mod applying;
mod chart_renders;
mod diff;
mod failing_releases;
mod finalizers;
mod generators;
mod guard;
mod handover;
mod handover_owners;
mod helm_release;
mod mistyped_path;
mod owner_references;
mod random_charts;
mod random_generators;
mod registry;
mod rehearsal;
mod releases;
mod resource_sets;
mod retire;
mod secrets;
mod sops;
mod spokes;
mod stored_charts;
mod substitution;
mod upgrades;
mod volumes;
