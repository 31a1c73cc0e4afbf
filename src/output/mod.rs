//! Output: tables as kubectl prints them, documents for programs, and the guard against terminal escapes.
//!
//! Every function here gives back text; [`terminal::Terminal`] alone writes it.

pub mod deletion;
pub mod document;
pub mod format;
pub(crate) mod gaps;
mod html;
pub mod inventory;
pub mod markdown;
pub mod plan;
pub mod progress;
pub mod report;
pub mod source_change;
pub(crate) mod steps;
pub mod suspensions;
pub mod terminal;
pub mod text;
mod why_gone;

use gitops_core::ownership::OwnerId;

/// `flux-system/kustomization/apps`: the form in which owners are typed.
pub fn owner(owner: &OwnerId) -> String {
    let prefix = if owner.namespace.is_empty() { String::new() } else { format!("{}/", owner.namespace) };
    format!("{prefix}{}", kind_and_name(owner))
}

/// `kustomization/apps`: the form in which owners are typed where their namespace is known.
pub fn kind_and_name(owner: &OwnerId) -> String {
    format!("{}/{}", owner.kind.to_lowercase(), owner.name)
}
