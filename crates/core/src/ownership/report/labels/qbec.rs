//! qbec's objects by application, environment, tag and component; copied metadata told from genuine.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::index::Index;
use crate::ownership::schemes::qbec::{APPLICATION, ENVIRONMENT, SCHEME, TAG, component};
use crate::ownership::{GcEligibility, Strength};

/// What the metadata of an object is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Worth {
    /// qbec wrote it for this object.
    Genuine,
    /// It was written for another object, or a controller took it over from its own.
    Copied,
    /// Only the labels, which qbec did not write itself: most likely copied.
    Unproven,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Member {
    /// Identity.
    #[serde(flatten)]
    pub object: ObjectId,
    /// What its metadata is worth.
    pub worth: Worth,
    /// Marks and witness.
    pub evidence: String,
}

/// The objects of one application, environment, tag and component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QbecGroup {
    /// Application; empty when the label is missing.
    pub application: String,
    /// Environment; empty when the label is missing.
    pub environment: String,
    /// Tag; an empty one is not none.
    pub tag: Option<String>,
    /// Component; empty when the annotation is missing.
    pub component: String,
    /// Why no run of qbec ever reaches these objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<&'static str>,
    /// Its objects, in order.
    pub objects: Vec<Member>,
}

impl QbecGroup {
    /// How many objects have metadata of this worth.
    pub fn count(&self, worth: Worth) -> usize {
        self.objects.iter().filter(|member| member.worth == worth).count()
    }
}

/// All groups, in order.
pub fn groups(index: &Index<'_>, wanted: &dyn Fn(&ObjectMetadata) -> bool) -> Vec<QbecGroup> {
    let mut groups: BTreeMap<(&str, &str, Option<&str>, &str), QbecGroup> = BTreeMap::new();
    for object in index.snapshot().objects.iter().filter(|object| wanted(object)) {
        let Some(claim) = (SCHEME.claim)(object) else { continue };
        let label = |key| object.labels.get(key).unwrap_or_default();
        let key = (label(APPLICATION), label(ENVIRONMENT), object.labels.get(TAG), component(object));
        let worth = match claim.strength {
            Strength::Bound | Strength::Corroborated => Worth::Genuine,
            Strength::Contradicted => Worth::Copied,
            Strength::Bare => Worth::Unproven,
        };
        let group = groups.entry(key).or_insert_with(|| QbecGroup {
            application: key.0.to_owned(),
            environment: key.1.to_owned(),
            tag: key.2.map(str::to_owned),
            component: key.3.to_owned(),
            unreachable: match (SCHEME.reach)(object) {
                GcEligibility::NeverCollected(why) => Some(why),
                _ => None,
            },
            objects: vec![],
        });
        group.objects.push(Member { object: object.id.clone(), worth, evidence: claim.evidence });
    }
    groups.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::identity;
    use crate::ownership::schemes::qbec::COMPONENT;
    use crate::testing::{Make, object, snapshot};

    #[test]
    fn grouped_by_everything_and_judged_one_by_one() {
        let of = |name: &str, environment: &str| {
            let bare = object("", "ConfigMap", "shop", name).label(APPLICATION, "shop").label(ENVIRONMENT, environment);
            bare.annotation(COMPONENT, "web").annotation(identity::QBEC, &format!("/ConfigMap/shop/{name}"))
        };
        let objects = vec![
            of("a", "dev"),
            of("b", "dev").annotation(COMPONENT, "mail"),
            of("c", "dev").label(TAG, "pr-1"),
            of("d", "dev").label(TAG, ""),
            of("e", "prod"),
            of("copy", "dev").annotation(identity::QBEC, "/ConfigMap/shop/a"),
            object("", "ConfigMap", "shop", "labels").label(APPLICATION, "shop").label(ENVIRONMENT, "dev"),
            object("", "ConfigMap", "shop", "other"),
        ];
        let snapshot = snapshot(objects, vec![]);
        let groups = groups(&Index::build(&snapshot), &|_| true);
        let rows: Vec<_> = groups
            .iter()
            .map(|group| {
                let names: Vec<_> = group.objects.iter().map(|member| (&*member.object.name, member.worth)).collect();
                let tag = group.tag.as_deref();
                (&*group.environment, tag, &*group.component, group.unreachable.is_some(), names)
            })
            .collect();
        use Worth::{Copied, Genuine, Unproven};
        let expected = [
            ("dev", None, "", false, vec![("labels", Unproven)]),
            ("dev", None, "mail", false, vec![("b", Genuine)]),
            ("dev", None, "web", false, vec![("a", Genuine), ("copy", Copied)]),
            ("dev", Some(""), "web", true, vec![("d", Genuine)]),
            ("dev", Some("pr-1"), "web", false, vec![("c", Genuine)]),
            ("prod", None, "web", false, vec![("e", Genuine)]),
        ];
        assert_eq!(rows, expected);
    }
}
