//! The build of one Kustomization: from an artifact to objects.
//!
//! Running kustomize and reading ConfigMaps are I/O: a build adds them to [`Needs`], and is repeated with the [`Answers`].
//! Source of the order of the steps: docs/reference/kustomize-controller.md 3.2 to 3.6 and 4.1.

pub mod charts;
pub(crate) mod comparison;
pub(crate) mod emptied;
pub mod envsubst;
pub mod failure;
pub mod fidelity;
mod finished;
pub(crate) mod go_yaml;
mod kustomization_file;
mod needs;
pub mod objects;
pub(crate) mod post_renderers;
pub mod references;
pub mod resource_sets;
mod run;
pub mod sops;
pub(crate) mod substitute;

pub use failure::{BuildFailure, Interrupt, KustomizeExit};
pub use kustomization_file::generator;
pub(crate) use kustomization_file::is_kustomization_file;
pub use needs::{Answers, BuildContext, Needs, Run};
pub use objects::data::DataOverrides;
pub use run::{build, build_text};
pub use substitute::{config_maps_in_use, secrets_in_use};
