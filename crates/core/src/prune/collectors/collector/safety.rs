//! Rules by which this tool keeps objects, whatever the system's own collector does (docs/reference/ownership.md 8, rules
//! 1, 2 and 6).

use super::{CollectorReason, PlannedAction};
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::index::Index;
use crate::ownership::rules::protection;
use crate::ownership::{Claim, Strength};
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::{ClaimEvidence, OwnerId};
    use crate::plan::grave::GraveKind;
    use crate::testing::{Build, kustomization, noon, object, snapshot};

    #[test]
    fn what_belongs_to_somebody_else_or_needs_a_permission_is_kept() {
        let own = |kind: &str, name: &str| object("", kind, "n", name);
        let plain = own("ConfigMap", "plain");
        let mut terminating = own("ConfigMap", "terminating");
        terminating.deletion_timestamp = Some(noon());
        let system = object("", "Namespace", "", "kube-system");
        let grave = object("", "Namespace", "", "shop");
        let controlled = own("ConfigMap", "controlled").controlled_by("1");
        let protected = own("ConfigMap", "protected").annotation("helm.sh/resource-policy", "keep");
        let lister = kustomization("apps", &["n_recorded__ConfigMap"]);
        let recorded = own("ConfigMap", "recorded");
        let all = [plain, terminating, system, grave, controlled, protected, recorded];
        let snapshot = snapshot(all.to_vec(), vec![lister]);
        let index = Index::build(&snapshot);
        let codes: Vec<Option<String>> = all
            .iter()
            .map(|object| Some(reason_to_keep(object, &index, Allow::default())?.code().to_string()))
            .collect();
        let codes: Vec<&str> = codes.iter().map(|code| code.as_deref().unwrap_or("")).collect();
        let expected = ["", "terminating", "protected-namespace", "not-allowed", "referenced", "protected", "recorded"];
        assert_eq!(codes, expected);
        let allow = Allow { kinds: [GraveKind::Namespaces].into_iter().collect(), ..Allow::default() };
        assert_eq!(reason_to_keep(&all[3], &index, allow), None);
    }

    #[test]
    fn a_claim_needs_a_witness() {
        let reason = |strength: Strength| {
            let (owner, evidence) = (OwnerId::new("qbec", "App", "", "a"), ClaimEvidence::label("a", "b"));
            unproven_claim(Some(Claim { owner, strength, evidence }))
        };
        assert_eq!((reason(Strength::Bound), reason(Strength::Corroborated)), (None, None));
        assert_eq!(reason(Strength::Bare), Some(CollectorReason::BareClaim("label a=b".to_owned())));
        assert_eq!(reason(Strength::Contradicted), Some(CollectorReason::CopiedClaim("label a=b".to_owned())));
        assert_eq!(unproven_claim(None), Some(CollectorReason::BareClaim(String::new())));
    }
}
