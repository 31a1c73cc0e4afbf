//! qbec: application, environment and tag labels are the whole identity of an owner; nothing is recorded anywhere else.
//!
//! Source: reference qbec-and-flux-v1 A1, A3.2, A6 (Q1-Q25), D1.

use serde_json::Value;

use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::{
    Claim, GcEligibility, MetadataKey, OwnerId, Protection, Record, Scheme, Strength, identity, label_strength,
};

/// Label with the application's name.
pub const APPLICATION: &str = "qbec.io/application";
/// Label with the environment's name.
pub const ENVIRONMENT: &str = "qbec.io/environment";
/// Label with the tag; absent, never empty, when no tag was given.
pub const TAG: &str = "qbec.io/tag";
/// Annotation (and, by option, label) with the component's name.
pub const COMPONENT: &str = "qbec.io/component";
/// Kind under which an application's environment is shown; it is not an object.
pub const KIND: &str = "App";
const DELETE_POLICY: &str = "directives.qbec.io/delete-policy";

/// The scheme record.
pub const SCHEME: Scheme = Scheme {
    name: "qbec",
    system: "qbec",
    member_keys: &[MetadataKey::Label(APPLICATION), MetadataKey::Label(ENVIRONMENT)],
    selectors: &[APPLICATION, "!qbec.io/application,qbec.io/environment"],
    owner_labels: &[],
    other_marks: &[TAG, COMPONENT, "directives.qbec.io/apply-order"],
    owner_kinds: &[],
    owner_sources: &[],
    managers: &["qbec"],
    claim,
    owner: no_owner,
    proof: None,
    reach,
    keep_mark,
};

/// `app/environment` or `app/environment/tag`. An owner exists as long as an object names it.
pub fn owner_name(object: &ObjectMetadata) -> Option<String> {
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

/// Component of an object as garbage collection sees it: the annotation, never the label.
pub fn component(object: &ObjectMetadata) -> &str {
    object.annotations.get(COMPONENT).unwrap_or_default()
}

fn claim(object: &ObjectMetadata) -> Option<Claim> {
    let name = owner_name(object)?;
    let applied = object.annotations.get(identity::QBEC);
    let (strength, witness) = match applied.map(|applied| identity::is_of(applied, object)) {
        _ if object.controller().is_some() => (Strength::Contradicted, "a controller made the object"),
        Some(true) => (Strength::Bound, "last-applied names this object"),
        Some(false) => (Strength::Contradicted, "last-applied names another object"),
        None => (label_strength(object, APPLICATION, SCHEME.managers), "no last-applied"),
    };
    let evidence =
        format!("labels {APPLICATION}, {ENVIRONMENT} of {name}, component {:?}; {witness}", component(object));
    Some(Claim { owner: OwnerId::new(SCHEME.system, KIND, "", &name), strength, evidence })
}

fn no_owner(_: &ObjectMetadata, _: &Value) -> Option<Record> {
    None
}

/// Labels that no run of qbec can select (reference D1; Q4).
fn reach(object: &ObjectMetadata) -> GcEligibility {
    let filled = |key: &str| object.labels.get(key).is_some_and(|value| !value.is_empty());
    if !filled(APPLICATION) || !filled(ENVIRONMENT) {
        return GcEligibility::NeverCollected("qbec selects by application and environment, and one is missing");
    }
    if object.labels.get(TAG) == Some("") {
        return GcEligibility::NeverCollected("qbec cannot select an empty tag");
    }
    GcEligibility::Normal
}

/// Only the exact value counts for qbec (Q18).
fn keep_mark(object: &ObjectMetadata) -> Option<Protection> {
    let value = object.annotations.get(DELETE_POLICY).filter(|value| *value == "never")?;
    Some(Protection { key: DELETE_POLICY.to_owned(), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Make, object};

    fn shop() -> ObjectMetadata {
        object("", "ConfigMap", "shop-dev", "cm").label(APPLICATION, "shop").label(ENVIRONMENT, "dev")
    }

    #[test]
    fn an_absent_tag_is_not_an_empty_one() {
        let rows = [(None, "shop/dev"), (Some("pr-1"), "shop/dev/pr-1"), (Some(""), "shop/dev/")];
        for (tag, name) in rows {
            let object = tag.map_or_else(shop, |tag| shop().label(TAG, tag));
            assert_eq!(claim(&object).unwrap().owner.name, name);
            assert_eq!(reach(&object) == GcEligibility::Normal, tag != Some(""), "{tag:?}");
        }
    }

    #[test]
    fn half_the_labels_are_never_collected() {
        let half = object("", "ConfigMap", "shop-dev", "cm").label(ENVIRONMENT, "dev");
        assert_eq!(claim(&half).unwrap().owner.name, "/dev");
        assert!(matches!(reach(&half), GcEligibility::NeverCollected(_)));
        assert_eq!(claim(&object("", "ConfigMap", "shop-dev", "cm").label(TAG, "x")), None);
    }

    #[test]
    fn last_applied_tells_a_copy_from_the_original() {
        let rows = [
            ("own", shop().annotation(identity::QBEC, "/ConfigMap/shop-dev/cm"), Strength::Bound),
            ("q25", shop().annotation(identity::QBEC, "/ConfigMap/shop-dev/other"), Strength::Contradicted),
            ("manager", shop().writer("qbec", APPLICATION), Strength::Corroborated),
            ("labels", shop(), Strength::Bare),
            (
                "q2",
                shop().annotation(identity::QBEC, "/ConfigMap/shop-dev/cm").controlled_by("x"),
                Strength::Contradicted,
            ),
            (
                "q19",
                {
                    let job = object("batch", "Job", "shop-dev", "job-6nmml")
                        .label(APPLICATION, "shop")
                        .label(ENVIRONMENT, "dev");
                    job.annotation(identity::QBEC, "batch/Job//job-*")
                },
                Strength::Bound,
            ),
        ];
        for (name, object, strength) in rows {
            assert_eq!(claim(&object).unwrap().strength, strength, "{name}");
        }
    }

    #[test]
    fn the_policy_is_compared_exactly() {
        for (value, kept) in [("never", true), ("Never", false), ("default", false)] {
            assert_eq!(keep_mark(&shop().annotation(DELETE_POLICY, value)).is_some(), kept, "{value}");
        }
    }

    #[test]
    fn the_component_is_read_from_the_annotation() {
        assert_eq!(component(&shop().label(COMPONENT, "web")), "");
        assert_eq!(component(&shop().annotation(COMPONENT, "web")), "web");
    }
}
