//! The table of kinds by their projects.
//!
//! Sources: the API references of Kubernetes v1.36, Gateway API v1.5, and of each project at its current version. Not in the
//! table: references whose target may be missing without harm, such as the subjects of a RoleBinding.

mod flux;
pub(super) mod kind;
mod kubernetes;
mod monitoring;
mod networking;
mod operators;
mod secrets;

use self::kind::Kind;

const ALL: [&[Kind]; 6] =
    [kubernetes::KINDS, networking::KINDS, flux::KINDS, secrets::KINDS, operators::KINDS, monitoring::KINDS];

/// Returns all kinds whose references are known.
pub(super) fn all() -> impl Iterator<Item = &'static Kind> {
    ALL.into_iter().flatten()
}
