//! Which system manages an object: one file per scheme, each exporting one [`Scheme`] record.
//!
//! A mark on an object is a *claim*, not ownership: labels are copied by operators to what they create. What an owner
//! itself recorded is its *inventory*. [`index`] joins the two.

pub mod flux_kustomization;
pub mod index;
pub mod inventory_id;
pub mod keep;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::object::{FullObject, Object, ObjectId};

/// Every scheme this tool knows, in the order in which their claims are read.
pub const SCHEMES: [&Scheme; 1] = [&flux_kustomization::SCHEME];

/// What one system writes on objects and on owners. Data where systems agree, a function where they differ.
pub struct Scheme {
    /// System name, shown as SYSTEM and accepted by `--by`.
    pub system: &'static str,
    /// Labels and annotations by which a member can be recognised.
    pub member_keys: &'static [Key],
    /// Group and kind of the objects that own; they are read in full.
    pub owner_kinds: &'static [(&'static str, &'static str)],
    /// Whom an object claims as its owner; `None` when it does not carry this scheme's marks.
    pub claim: fn(&Object) -> Option<Claim>,
    /// What an owner recorded that it manages.
    pub members: fn(&FullObject) -> Members,
    /// The mark by which a person protected an object under this scheme's rules.
    pub keep_mark: fn(&Object) -> Option<KeepMark>,
}

/// Where a mark is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A label; can be selected by the server.
    Label(&'static str),
    /// An annotation.
    Annotation(&'static str),
}

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

impl fmt::Display for OwnerId {
    /// `kustomization/apps -n flux-system`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.to_lowercase(), self.name)?;
        if self.namespace.is_empty() { Ok(()) } else { write!(f, " -n {}", self.namespace) }
    }
}

/// How much a claim proves, weakest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

/// What an owner recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// These objects of this cluster.
    Listed(Vec<ObjectId>),
    /// These objects, but in another cluster: never looked up here.
    Remote(Vec<ObjectId>),
    /// Nothing was recorded (yet).
    Unrecorded,
    /// The record cannot be parsed; nothing of this owner can be judged.
    Unreadable(String),
}

/// A mark by which a person protected an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeepMark {
    /// Label or annotation key.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// Strength of a label mark in a scheme whose labels do not name their object: who wrote it is the second witness.
///
/// The rule is ours (reference: ownership-and-prune, 2.1): a copied label is owned by the copier's field manager.
pub fn label_strength(object: &Object, label: &str, managers: &[&str]) -> Strength {
    if object.controller().is_some() {
        return Strength::Contradicted;
    }
    let owns = |writer: &&crate::object::Writer| writer.labels.iter().any(|key| &**key == label);
    let by_system = object.writers.iter().filter(owns).any(|writer| managers.contains(&&*writer.manager));
    if by_system { Strength::Corroborated } else { Strength::Bare }
}

/// Whether a label or annotation key means something to a scheme, a keep mark or a suspension; other annotations are
/// dropped when metadata is trimmed.
pub fn is_mark(key: &str) -> bool {
    let names = |known: &Key| matches!(known, Key::Label(known) | Key::Annotation(known) if *known == key);
    SCHEMES.iter().any(|scheme| scheme.member_keys.iter().any(names))
        || keep::is_keep_key(key)
        || crate::suspension::is_key(key)
}
