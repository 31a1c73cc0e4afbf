//! What objects say of their owners, and how much it proves.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kubernetes::object::{ManagedFieldsEntry, ObjectMetadata};

/// The unit that manages a set of objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OwnerId {
    /// System, such as `flux`.
    pub system: String,
    /// Kind, such as `Kustomization`.
    pub kind: String,
    /// Namespace, empty for cluster-scoped owners.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl OwnerId {
    /// Identity from text.
    pub fn new(system: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            system: system.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for OwnerId {
    /// `kustomization/apps -n flux-system`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.to_lowercase(), self.name)?;
        if self.namespace.is_empty() { Ok(()) } else { write!(f, " -n {}", self.namespace) }
    }
}

/// How much a claim proves, weakest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strength {
    /// The mark names this very object.
    Bound,
    /// The system's own field manager wrote the mark.
    Corroborated,
    /// Only the mark.
    Bare,
    /// The mark names another object, or the object has a controller reference: a copied mark.
    Contradicted,
}

/// What an object's own labels and annotations say of its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The owner that is named.
    pub owner: OwnerId,
    /// How much the claim proves.
    pub strength: Strength,
    /// The mark and, where there is one, its witness, for `--why`.
    pub evidence: String,
}

/// A mark by which a person protected an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Protection {
    /// Label or annotation key.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// The first of these keys whose value (label or annotation) satisfies a test.
pub fn first_mark(object: &ObjectMetadata, keys: &[&str], protects: impl Fn(&str) -> bool) -> Option<Protection> {
    keys.iter().find_map(|key| {
        let both = [object.labels.get(key), object.annotations.get(key)];
        let value = both.into_iter().flatten().find(|value| protects(value))?;
        Some(Protection { key: (*key).to_owned(), value: value.to_owned() })
    })
}

/// Strength of a label mark in a scheme whose labels do not name their object: who wrote it is the second witness.
///
/// The rule is ours (reference: ownership-and-prune, 2.1): a copied label is owned by the copier's field manager.
pub fn label_strength(object: &ObjectMetadata, label: &str, managers: &[&str]) -> Strength {
    strength(object, managers, |writer| &writer.labels, label)
}

/// As [`label_strength`], for an annotation.
pub fn annotation_strength(object: &ObjectMetadata, annotation: &str, managers: &[&str]) -> Strength {
    strength(object, managers, |writer| &writer.annotations, annotation)
}

fn strength(
    object: &ObjectMetadata,
    managers: &[&str],
    keys: fn(&ManagedFieldsEntry) -> &Vec<Box<str>>,
    mark: &str,
) -> Strength {
    if object.controller().is_some() {
        return Strength::Contradicted;
    }
    let owns = |writer: &&ManagedFieldsEntry| keys(writer).iter().any(|key| &**key == mark);
    let by_system = object.writers.iter().filter(owns).any(|writer| managers.contains(&&*writer.manager));
    if by_system { Strength::Corroborated } else { Strength::Bare }
}
