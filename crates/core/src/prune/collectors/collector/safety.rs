//! Rules by which this tool keeps objects, whatever the system's own collector does (docs/reference/ownership.md 8, rules
//! 1, 2 and 6).

use super::{CollectorReason, PlannedAction};
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::index::Index;
use crate::ownership::{Claim, Strength, protection};
use crate::plan::grave::{AllowedKinds, is_protected_namespace};

/// Deletions that the user allows in addition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allow {
    /// Objects that the system's own collector never lists.
    pub missed: bool,
    pub kinds: AllowedKinds,
}

impl Allow {
    /// Returns the action for an object that the system's own collector never lists.
    pub(crate) fn action_for_missed(self, cause: String) -> PlannedAction {
        let reason = CollectorReason::LeftBehind(cause);
        if self.missed { PlannedAction::Delete(reason) } else { PlannedAction::Keep(reason) }
    }
}

/// Returns the reason to keep an object, whatever its labels claim.
pub(crate) fn reason_to_keep(object: &ObjectMetadata, index: &Index<'_>, allow: Allow) -> Option<CollectorReason> {
    if object.controller_reference().is_some() {
        return Some(CollectorReason::Controlled);
    }
    if object.deletion_timestamp.is_some() {
        return Some(CollectorReason::Terminating);
    }
    if is_protected_namespace(&object.id) {
        return Some(CollectorReason::SystemNamespace);
    }
    if let Some(protection) = protection::find_protection(object) {
        return Some(CollectorReason::Protected(protection));
    }
    if let Some(owner) = index.recorded_by(&object.id).first() {
        return Some(CollectorReason::Recorded(owner.clone()));
    }
    allow.kinds.missing_for(&object.id).map(CollectorReason::NotAllowed)
}

/// Returns the reason to keep an object if nothing but its own label confirms the claim.
pub(crate) fn unproven_claim(claim: Option<Claim>) -> Option<CollectorReason> {
    match claim {
        Some(claim) if claim.strength <= Strength::Corroborated => None,
        Some(claim) if claim.strength == Strength::Contradicted => {
            Some(CollectorReason::CopiedClaim(claim.evidence.to_string()))
        }
        Some(claim) => Some(CollectorReason::BareClaim(claim.evidence.to_string())),
        None => Some(CollectorReason::BareClaim(String::new())),
    }
}
