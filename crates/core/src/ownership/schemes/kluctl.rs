//! kluctl: a label with the discriminator of the deployment; nothing is recorded anywhere else.
//!
//! `kluctl prune` and `kluctl delete` look for the discriminator in the whole cluster (kluctl v2, `pkg/deployment/utils`).

use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::scheme::claim::{Claim, ClaimEvidence, OwnerId, label_strength};
use crate::ownership::scheme::protection::ProtectionKey;
use crate::ownership::scheme::{GcEligibility, MetadataKey, Scheme};

const DISCRIMINATOR: &str = "kluctl.io/discriminator";
/// Values that Go's `strconv.ParseBool` reads as false, in lower case.
const FALSE: &[&str] = &["0", "f", "false"];

/// Scheme of deployments, which are not objects.
pub(crate) const SCHEME: Scheme = Scheme {
    member_keys: &[MetadataKey::Label(DISCRIMINATOR)],
    selectors: &[DISCRIMINATOR],
    other_keys: &["kluctl.io/deployment-item-dir"],
    managers: &["kluctl"],
    protections: &[
        ProtectionKey::except("kluctl.io/skip-delete", FALSE),
        ProtectionKey::except("kluctl.io/skip-delete-if-tags", FALSE),
    ],
    claim,
    gc_eligibility,
    derive_owner: owner_id,
    ..Scheme::new("kluctl", "kluctl")
};

/// An owner exists as long as an object carries its discriminator.
fn owner_id(object: &ObjectMetadata) -> Option<OwnerId> {
    let discriminator = object.labels.get(DISCRIMINATOR)?;
    Some(OwnerId::new(SCHEME.system, "Deployment", "", discriminator))
}

fn claim(object: &ObjectMetadata) -> Option<Claim> {
    let owner = owner_id(object)?;
    let strength = label_strength(object, DISCRIMINATOR, SCHEME.managers);
    let evidence = ClaimEvidence::label(DISCRIMINATOR, &owner.name);
    Some(Claim { owner, strength, evidence })
}

fn gc_eligibility(object: &ObjectMetadata) -> GcEligibility {
    if object.owner_references.is_empty() {
        return GcEligibility::Normal;
    }
    GcEligibility::NeverCollected("kluctl never deletes objects with owner references")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::index::Index;
    use crate::ownership::rules::protection::find_protection;
    use crate::testing::{Build, object, snapshot};

    fn labelled(name: &str) -> ObjectMetadata {
        object("", "ConfigMap", "shop", name).label(DISCRIMINATOR, "shop-prod")
    }

    fn written_by_kluctl(name: &str) -> ObjectMetadata {
        labelled(name).writer("kluctl", DISCRIMINATOR)
    }

    #[test]
    fn the_discriminator_selects_what_kluctl_wrote() {
        let objects = vec![
            written_by_kluctl("a"),
            labelled("b").writer("shop-operator", DISCRIMINATOR),
            written_by_kluctl("c").controlled_by("x"),
            written_by_kluctl("d").referring_to("x"),
        ];
        let snapshot = snapshot(objects, vec![]);
        let index = Index::build(&snapshot);
        let statuses: Vec<&str> = index.statuses().map(|(_, status)| status.as_str()).collect();
        assert_eq!(statuses, ["managed", "copied", "controlled", "leaked"]);
        let owners: Vec<String> = index.owners().map(|owner| owner.id.to_string()).collect();
        assert_eq!(owners, ["deployment/shop-prod"]);
    }

    #[test]
    fn skip_delete_protects_unless_it_is_false() {
        for key in ["kluctl.io/skip-delete", "kluctl.io/skip-delete-if-tags"] {
            for (value, protects) in [("true", true), ("1", true), ("yes", true), ("false", false), ("0", false)] {
                let object = labelled("a").annotation(key, value);
                assert_eq!(find_protection(&object).is_some(), protects, "{key}={value}");
            }
        }
    }
}
