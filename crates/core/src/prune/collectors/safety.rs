//! What this tool never deletes, whatever a collector would (design 3.4, rules 1, 2 and 6).

use super::Reason;
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::index::Index;
use crate::ownership::{Claim, Strength, protection};
use crate::prune::leaked::NEVER;

/// What the user allowed beyond the ordinary.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allow {
    /// Delete what the system's own collector would never find.
    pub missed: bool,
    /// Delete Namespaces.
    pub namespaces: bool,
    /// Delete custom resource definitions.
    pub crds: bool,
}

/// Why an object stays whatever its marks say, or `None`.
pub fn keeps(object: &ObjectMetadata, index: &Index<'_>, allow: Allow) -> Option<Reason> {
    let namespace = object.id.is("", "Namespace");
    if object.controller().is_some() {
        return Some(Reason::Controlled);
    }
    if object.deleting.is_some() {
        return Some(Reason::Terminating);
    }
    if namespace && NEVER.contains(&&*object.id.name) {
        return Some(Reason::SystemNamespace);
    }
    if let Some(mark) = protection::find_protection(object) {
        return Some(Reason::Protected(mark));
    }
    if let Some(owner) = index.recorded_by(&object.id).first() {
        return Some(Reason::Recorded(owner.clone()));
    }
    if namespace && !allow.namespaces {
        return Some(Reason::NeedsFlag("--allow-namespaces"));
    }
    let definition = object.id.is("apiextensions.k8s.io", "CustomResourceDefinition");
    (definition && !allow.crds).then_some(Reason::NeedsFlag("--allow-crds"))
}

/// Why a claim proves nothing, or `None` when a second witness stands by it.
pub fn unproven(claim: Option<Claim>) -> Option<Reason> {
    match claim {
        Some(claim) if claim.strength <= Strength::Corroborated => None,
        Some(claim) if claim.strength == Strength::Contradicted => Some(Reason::CopiedMark(claim.evidence.to_string())),
        Some(claim) => Some(Reason::BareMark(claim.evidence.to_string())),
        None => Some(Reason::BareMark(String::new())),
    }
}
