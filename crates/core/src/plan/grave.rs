//! Kinds whose deletion loses data or deletes the objects of others. They are deleted only with a permission of the user
//! (docs/reference/ownership.md 8, rule 6).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kubernetes::object::ObjectId;
use crate::text::pluralize;

/// Namespaces that are never deleted.
pub(crate) const PROTECTED_NAMESPACES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

/// Returns true for a namespace that is never deleted.
pub(crate) fn is_protected_namespace(id: &ObjectId) -> bool {
    id.is("", "Namespace") && PROTECTED_NAMESPACES.contains(&&*id.name)
}

/// Kinds that are permitted together. Sorted by severity, most severe last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum GraveKind {
    /// StatefulSets, which are deleted with their pods.
    StatefulSets,
    /// PersistentVolumeClaims and PersistentVolumes.
    Volumes,
    /// CustomResourceDefinitions, which are deleted with all their custom resources.
    Crds,
    /// Namespaces, which are deleted with all their objects.
    Namespaces,
}

impl GraveKind {
    pub const ALL: [Self; 4] = [Self::Namespaces, Self::Crds, Self::Volumes, Self::StatefulSets];

    /// Returns the kind of an object, or `None` if its deletion needs no permission.
    pub fn of(id: &ObjectId) -> Option<Self> {
        match (&*id.group, &*id.kind) {
            ("", "Namespace") => Some(Self::Namespaces),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => Some(Self::Crds),
            ("", "PersistentVolumeClaim" | "PersistentVolume") => Some(Self::Volumes),
            ("apps", "StatefulSet") => Some(Self::StatefulSets),
            _ => None,
        }
    }

    /// Name of the permission, as users type it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Crds => "crds",
            Self::Volumes => "volumes",
            Self::StatefulSets => "statefulsets",
        }
    }
}

/// Returns the numbers of objects by kind, the gravest first and those of other kinds together: `1 Namespace, 4 others`;
/// `None` without objects.
pub(crate) fn by_gravity<'i>(ids: impl IntoIterator<Item = &'i ObjectId>) -> Option<String> {
    let (mut grave, mut others) = (BTreeMap::<(GraveKind, &str), usize>::new(), 0);
    for id in ids {
        match GraveKind::of(id) {
            Some(kind) => *grave.entry((kind, &id.kind)).or_default() += 1,
            None => others += 1,
        }
    }
    let word = if grave.is_empty() { "object" } else { "other" };
    let mut parts: Vec<String> = grave.iter().rev().map(|((_, kind), number)| pluralize(*number, kind)).collect();
    parts.extend((others > 0).then(|| pluralize(others, word)));
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Permissions of the user to delete grave kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<GraveKind>", into = "Vec<GraveKind>")]
pub struct AllowedKinds([bool; GraveKind::ALL.len()]);

impl AllowedKinds {
    /// Permits every kind.
    pub fn all() -> Self {
        GraveKind::ALL.into_iter().collect()
    }

    /// Returns the permission that the deletion of an object needs and that is not given.
    pub(crate) fn missing_for(&self, id: &ObjectId) -> Option<GraveKind> {
        GraveKind::of(id).filter(|kind| !self.0[*kind as usize])
    }
}

impl FromIterator<GraveKind> for AllowedKinds {
    fn from_iter<I: IntoIterator<Item = GraveKind>>(kinds: I) -> Self {
        let mut allowed = Self::default();
        kinds.into_iter().for_each(|kind| allowed.0[kind as usize] = true);
        allowed
    }
}

impl From<Vec<GraveKind>> for AllowedKinds {
    fn from(kinds: Vec<GraveKind>) -> Self {
        kinds.into_iter().collect()
    }
}

impl From<AllowedKinds> for Vec<GraveKind> {
    fn from(allowed: AllowedKinds) -> Self {
        GraveKind::ALL.into_iter().filter(|kind| allowed.0[*kind as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_kinds_are_counted_first() {
        let ids = |kinds: &[(&str, &str)]| -> Vec<ObjectId> {
            kinds.iter().map(|(group, kind)| ObjectId::new(group, kind, "n", "x")).collect()
        };
        assert_eq!(by_gravity(&ids(&[])), None);
        assert_eq!(by_gravity(&ids(&[("", "ConfigMap")])).as_deref(), Some("1 object"));
        let claims = ids(&[("", "PersistentVolumeClaim"), ("", "ConfigMap"), ("", "Namespace"), ("", "Service")]);
        assert_eq!(by_gravity(&claims).as_deref(), Some("1 Namespace, 1 PersistentVolumeClaim, 2 others"));
        assert_eq!(by_gravity(&claims[..1]).as_deref(), Some("1 PersistentVolumeClaim"));
    }

    #[test]
    fn a_kind_of_another_group_is_not_grave() {
        for (group, kind, expected) in [
            ("", "Namespace", Some(GraveKind::Namespaces)),
            ("", "PersistentVolumeClaim", Some(GraveKind::Volumes)),
            ("", "PersistentVolume", Some(GraveKind::Volumes)),
            ("apps", "StatefulSet", Some(GraveKind::StatefulSets)),
            ("apiextensions.k8s.io", "CustomResourceDefinition", Some(GraveKind::Crds)),
            ("example.com", "Namespace", None),
            ("apps", "Deployment", None),
        ] {
            let id = ObjectId::new(group, kind, "", "x");
            assert_eq!(GraveKind::of(&id), expected, "{id}");
            assert_eq!(AllowedKinds::default().missing_for(&id), expected);
            assert_eq!(AllowedKinds::all().missing_for(&id), None);
        }
    }
}
