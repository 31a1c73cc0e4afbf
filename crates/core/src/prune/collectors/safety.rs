//! What this tool never deletes, whatever a collector would (design 3.4, rules 1, 2 and 6).

use super::CollectorReason;
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::index::Index;
use crate::ownership::{Claim, Strength, protection};
use crate::prune::leaked::PROTECTED_NAMESPACES;

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
pub fn keeps(object: &ObjectMetadata, index: &Index<'_>, allow: Allow) -> Option<CollectorReason> {
    let namespace = object.id.is("", "Namespace");
    if object.controller().is_some() {
        return Some(CollectorReason::Controlled);
    }
    if object.deleting.is_some() {
        return Some(CollectorReason::Terminating);
    }
    if namespace && PROTECTED_NAMESPACES.contains(&&*object.id.name) {
        return Some(CollectorReason::SystemNamespace);
    }
    if let Some(mark) = protection::find_protection(object) {
        return Some(CollectorReason::Protected(mark));
    }
    if let Some(owner) = index.recorded_by(&object.id).first() {
        return Some(CollectorReason::Recorded(owner.clone()));
    }
    if namespace && !allow.namespaces {
        return Some(CollectorReason::NotAllowed("namespaces"));
    }
    let definition = object.id.is("apiextensions.k8s.io", "CustomResourceDefinition");
    (definition && !allow.crds).then_some(CollectorReason::NotAllowed("crds"))
}

/// Why a claim proves nothing, or `None` when a second witness stands by it.
pub fn unproven(claim: Option<Claim>) -> Option<CollectorReason> {
    match claim {
        Some(claim) if claim.strength <= Strength::Corroborated => None,
        Some(claim) if claim.strength == Strength::Contradicted => {
            Some(CollectorReason::CopiedMark(claim.evidence.to_string()))
        }
        Some(claim) => Some(CollectorReason::BareMark(claim.evidence.to_string())),
        None => Some(CollectorReason::BareMark(String::new())),
    }
}
