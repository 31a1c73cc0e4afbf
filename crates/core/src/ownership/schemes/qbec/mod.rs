//! qbec: application, environment and tag labels are the whole identity of an owner; nothing is recorded anywhere else.
//!
//! Source: docs/reference/qbec-and-flux-v1.md 1, 3.2, 5 (Q1 to Q25) and 11.1.

mod label_report;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::bounds::{QBEC_RECORD_SIZE, unpack_gzip};
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::scheme::claim::{Claim, ClaimEvidence, OwnerId, Strength, label_strength};
use crate::ownership::scheme::protection::ProtectionKey;
use crate::ownership::scheme::{GcEligibility, MetadataKey, Scheme, last_applied};

/// Label with the application's name.
pub const APPLICATION: &str = "qbec.io/application";
/// Label with the environment's name.
pub const ENVIRONMENT: &str = "qbec.io/environment";
/// Label with the tag; absent, never empty, if qbec runs without a tag.
pub const TAG: &str = "qbec.io/tag";
/// Annotation (and, by option, label) with the component's name.
pub const COMPONENT: &str = "qbec.io/component";
/// Annotation that keeps an object if it is `never` on the live object.
pub(crate) const DELETE_POLICY: &str = "directives.qbec.io/delete-policy";
/// Annotation with a position in the apply order; a positive integer.
pub(crate) const APPLY_ORDER: &str = "directives.qbec.io/apply-order";
/// Key under which the identity in qbec's last-applied annotation is stored.
pub const LAST_APPLIED: &str = "kubectl-gitops/qbec-identity";
/// Kind of an application's environment as an owner; it is not an object.
pub const KIND: &str = "App";

pub(crate) const SCHEME: Scheme = Scheme {
    member_keys: &[MetadataKey::Label(APPLICATION), MetadataKey::Label(ENVIRONMENT)],
    selectors: &[APPLICATION, "!qbec.io/application,qbec.io/environment"],
    other_keys: &[TAG, COMPONENT, APPLY_ORDER],
    managers: &["qbec"],
    protections: &[ProtectionKey::except(DELETE_POLICY, &["default", ""])],
    claim,
    gc_eligibility,
    derive_annotation,
    derive_owner,
    label_report: Some(label_report::report),
    ..Scheme::new("qbec", "qbec")
};

/// Returns `app/environment` or `app/environment/tag`.
fn owner_name(object: &ObjectMetadata) -> Option<String> {
    let application = object.labels.get(APPLICATION);
    let environment = object.labels.get(ENVIRONMENT);
    if application.is_none() && environment.is_none() {
        return None;
    }
    let mut name = format!("{}/{}", application.unwrap_or_default(), environment.unwrap_or_default());
    if let Some(tag) = object.labels.get(TAG) {
        name.extend(["/", tag]);
    }
    Some(name)
}

fn owner_id(name: &str) -> OwnerId {
    OwnerId::new(SCHEME.system, KIND, "", name)
}

/// An owner exists as long as an object names it and qbec can select that object.
fn derive_owner(object: &ObjectMetadata) -> Option<OwnerId> {
    let name = owner_name(object)?;
    (gc_eligibility(object) == GcEligibility::Normal).then(|| owner_id(&name))
}

/// Returns the component of an object as garbage collection sees it: the annotation, never the label.
pub fn component(object: &ObjectMetadata) -> &str {
    object.annotations.get(COMPONENT).unwrap_or_default()
}

fn claim(object: &ObjectMetadata) -> Option<Claim> {
    let name = owner_name(object)?;
    let applied = object.annotations.get(LAST_APPLIED);
    let (strength, witness) = match applied.map(|applied| last_applied::names_object(applied, object)) {
        _ if object.controller_reference().is_some() => (Strength::Contradicted, "a controller created the object"),
        Some(true) => (Strength::Bound, "last-applied names this object"),
        Some(false) => (Strength::Contradicted, "last-applied names another object"),
        None => (label_strength(object, APPLICATION, SCHEME.managers), "no last-applied"),
    };
    let labels = format!("labels {APPLICATION}, {ENVIRONMENT} of {name}, component {:?}", component(object));
    Some(Claim { owner: owner_id(&name), strength, evidence: ClaimEvidence::of(labels).with_witness(witness) })
}

fn derive_annotation(key: &str, value: &str) -> Option<(&'static str, String)> {
    let packed = STANDARD.decode((key == "qbec.io/last-applied").then_some(value)?).ok()?;
    let manifest = unpack_gzip(&packed, QBEC_RECORD_SIZE).ok()?;
    Some((LAST_APPLIED, last_applied::identity(&manifest)?))
}

/// No run of qbec can select objects with these labels (docs/reference/qbec-and-flux-v1.md 11.1 and Q4).
fn gc_eligibility(object: &ObjectMetadata) -> GcEligibility {
    if [APPLICATION, ENVIRONMENT].iter().any(|key| object.labels.get(key).unwrap_or_default().is_empty()) {
        return GcEligibility::NeverCollected("qbec selects by application and environment, and one is missing");
    }
    if object.labels.get(TAG) == Some("") {
        return GcEligibility::NeverCollected("qbec cannot select an empty tag");
    }
    GcEligibility::Normal
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::testing::{Build, object};

    fn shop() -> ObjectMetadata {
        object("", "ConfigMap", "shop-dev", "cm").label(APPLICATION, "shop").label(ENVIRONMENT, "dev")
    }

    #[test]
    fn an_absent_tag_is_not_an_empty_one() {
        let rows = [(None, "shop/dev"), (Some("pr-1"), "shop/dev/pr-1"), (Some(""), "shop/dev/")];
        for (tag, name) in rows {
            let object = tag.map_or_else(shop, |tag| shop().label(TAG, tag));
            assert_eq!(claim(&object).unwrap().owner.name, name);
            assert_eq!(gc_eligibility(&object) == GcEligibility::Normal, tag != Some(""), "{tag:?}");
        }
    }

    #[test]
    fn half_the_labels_are_never_collected() {
        let half = object("", "ConfigMap", "shop-dev", "cm").label(ENVIRONMENT, "dev");
        assert_eq!(claim(&half).unwrap().owner.name, "/dev");
        assert!(matches!(gc_eligibility(&half), GcEligibility::NeverCollected(_)));
        assert_eq!(claim(&object("", "ConfigMap", "shop-dev", "cm").label(TAG, "x")), None);
    }

    #[test]
    fn last_applied_separates_a_copy_from_the_original() {
        let rows = [
            ("own", shop().annotation(LAST_APPLIED, "/ConfigMap/shop-dev/cm"), Strength::Bound),
            ("q25", shop().annotation(LAST_APPLIED, "/ConfigMap/shop-dev/other"), Strength::Contradicted),
            ("manager", shop().writer("qbec", APPLICATION), Strength::Corroborated),
            ("labels", shop(), Strength::Bare),
            (
                "q2",
                shop().annotation(LAST_APPLIED, "/ConfigMap/shop-dev/cm").controlled_by("x"),
                Strength::Contradicted,
            ),
            (
                "q19",
                {
                    let job = object("batch", "Job", "shop-dev", "job-6nmml")
                        .label(APPLICATION, "shop")
                        .label(ENVIRONMENT, "dev");
                    job.annotation(LAST_APPLIED, "batch/Job//job-*")
                },
                Strength::Bound,
            ),
        ];
        for (name, object, strength) in rows {
            assert_eq!(claim(&object).unwrap().strength, strength, "{name}");
        }
    }

    #[test]
    fn every_policy_but_the_default_protects() {
        for (value, kept) in [("never", true), ("Never", true), ("default", false)] {
            let object = shop().annotation("directives.qbec.io/delete-policy", value);
            assert_eq!(SCHEME.protections[0].find(&object).is_some(), kept, "{value}");
        }
    }

    fn packed(manifest: &str) -> String {
        let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        gzip.write_all(manifest.as_bytes()).unwrap();
        STANDARD.encode(gzip.finish().unwrap())
    }

    #[test]
    fn only_the_identity_leaves_a_last_applied_manifest() {
        let job = r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"generateName":"job-"}}"#;
        let derived = derive_annotation("qbec.io/last-applied", &packed(job));
        assert_eq!(derived, Some((LAST_APPLIED, "batch/Job//job-*".to_owned())));
        assert_eq!(derive_annotation("other", &packed(job)), None);
        let bomb = packed(&format!("{{\"kind\":\"{}\"}}", "a".repeat(9 << 20)));
        for value in ["", "%%%", "aGVsbG8=", &bomb, &packed("[]")] {
            assert_eq!(derive_annotation("qbec.io/last-applied", value), None);
        }
    }

    #[test]
    fn the_component_is_read_from_the_annotation() {
        assert_eq!(component(&shop().label(COMPONENT, "web")), "");
        assert_eq!(component(&shop().annotation(COMPONENT, "web")), "web");
    }
}
