//! Claims: what the labels and annotations of an object say about its owner, and how much that proves.

use std::borrow::Cow;
use std::fmt;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize, Serializer};

use crate::kubernetes::object::{ManagedFieldsEntry, ObjectId, ObjectMetadata};

/// A label or annotation key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataKey {
    /// Label key; the server can select by it.
    Label(&'static str),
    /// Annotation key; the server cannot select by it.
    Annotation(&'static str),
}

impl MetadataKey {
    /// Returns the key without saying where it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Label(name) | Self::Annotation(name) => name,
        }
    }
}

/// Unit that manages a set of objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnerId {
    /// System, such as `flux`.
    pub system: String,
    /// Kind, such as `Kustomization`.
    pub kind: String,
    /// Namespace, empty for cluster-scoped owners.
    pub namespace: String,
    pub name: String,
}

impl OwnerId {
    /// Returns the identity with these parts.
    pub fn new(system: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            system: system.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Returns true if an object is the owner object itself, by kind, namespace and name. An object in another cluster is
    /// not: owners are those of the cluster itself.
    pub fn is_object(&self, id: &ObjectId) -> bool {
        id.cluster.is_none() && *id.kind == *self.kind && *id.namespace == *self.namespace && *id.name == *self.name
    }
}

impl fmt::Display for OwnerId {
    /// Writes `kustomization/apps -n flux-system`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.to_lowercase(), self.name)?;
        if self.namespace.is_empty() { Ok(()) } else { write!(f, " -n {}", self.namespace) }
    }
}

/// Strength of a claim as a proof, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Strength {
    /// The labels or annotations name this very object.
    Bound,
    /// The system's own field manager wrote them.
    Corroborated,
    /// Nothing but the labels or annotations.
    Bare,
    /// They name another object, or the object has a controller: they were copied.
    Contradicted,
}

/// Statement of an object's labels and annotations about its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Claim {
    pub owner: OwnerId,
    pub strength: Strength,
    /// Labels and annotations behind the claim.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub evidence: ClaimEvidence,
}

/// Labels and annotations behind a claim, and what confirms or contradicts them. Serialised as one text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimEvidence {
    /// Labels or annotations with their values, such as `label KEY=VALUE`.
    pub metadata: String,
    /// Confirmation or contradiction, where there is one.
    pub witness: Option<Cow<'static, str>>,
}

impl ClaimEvidence {
    /// Returns the evidence of one label.
    pub fn label(key: &str, value: &str) -> Self {
        Self::of(format!("label {key}={value}"))
    }

    /// Returns the evidence of one annotation.
    pub fn annotation(key: &str, value: &str) -> Self {
        Self::of(format!("annotation {key}={value}"))
    }

    /// Returns the evidence of labels and annotations in this notation.
    pub fn of(metadata: String) -> Self {
        Self { metadata, witness: None }
    }

    /// Adds what confirms or contradicts the labels and annotations.
    #[must_use]
    pub(crate) fn with_witness(self, witness: impl Into<Cow<'static, str>>) -> Self {
        Self { witness: Some(witness.into()), ..self }
    }
}

impl fmt::Display for ClaimEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.metadata)?;
        self.witness.iter().try_for_each(|witness| write!(f, ", {witness}"))
    }
}

impl Serialize for ClaimEvidence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Operations by which a system's field manager writes labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operations {
    /// Server-side apply only.
    Apply,
    Any,
}

/// Tolerance of times that differ because of clocks, admission webhooks, and seconds that are cut off.
const TOLERANCE: TimeDelta = TimeDelta::seconds(60);

/// Returns the claim of two labels that name the owner and its namespace.
pub(crate) fn label_claim(
    object: &ObjectMetadata,
    system: &str,
    kind: &str,
    [name_label, namespace_label]: [&str; 2],
    managers: &[&str],
    operations: Operations,
) -> Option<Claim> {
    let name = object.labels.get(name_label)?;
    let namespace = object.labels.get(namespace_label)?;
    Some(Claim {
        owner: OwnerId::new(system, kind, namespace, name),
        strength: strength(object, managers, operations, |writer| &writer.labels, name_label),
        evidence: ClaimEvidence::of(format!("labels {name_label}={name}, {namespace_label}={namespace}")),
    })
}

/// Returns the strength of a label that does not name its object: its field manager decides.
///
/// The rule (docs/reference/ownership.md 3): the field manager of a copied label is the program that copied it.
pub(crate) fn label_strength(object: &ObjectMetadata, label: &str, managers: &[&str]) -> Strength {
    strength(object, managers, Operations::Any, |writer| &writer.labels, label)
}

/// Returns the strength of an annotation, as [`label_strength`] does for a label.
pub(crate) fn annotation_strength(object: &ObjectMetadata, annotation: &str, managers: &[&str]) -> Strength {
    strength(object, managers, Operations::Any, |writer| &writer.annotations, annotation)
}

fn strength(
    object: &ObjectMetadata,
    managers: &[&str],
    operations: Operations,
    keys: fn(&ManagedFieldsEntry) -> &Vec<Box<str>>,
    claimed: &str,
) -> Strength {
    if object.controller_reference().is_some() {
        return Strength::Contradicted;
    }
    let is_by_system = object.managed_fields.iter().any(|writer| {
        managers.contains(&&*writer.manager)
            && keys(writer).iter().any(|key| &**key == claimed)
            && (operations == Operations::Any || writer.applies)
            && writer.subresource.is_empty()
            && is_not_before(writer, object)
    });
    if is_by_system { Strength::Corroborated } else { Strength::Bare }
}

/// Returns true if an entry was not written before an object was created: its own object, or its owner. Unknown times fit.
pub(crate) fn is_not_before(writer: &ManagedFieldsEntry, created: &ObjectMetadata) -> bool {
    writer.time.zip(created.creation_timestamp).is_none_or(|(written, created)| written + TOLERANCE >= created)
}

/// Returns true if an object is older than its owner. Unknown times are not.
pub(crate) fn is_older(object: &ObjectMetadata, owner: &ObjectMetadata) -> bool {
    let times = object.creation_timestamp.zip(owner.creation_timestamp);
    times.is_some_and(|(object, owner)| object + TOLERANCE < owner)
}

/// Returns the managed fields entries that own at least one of these keys.
pub(crate) fn writers_of<'a>(
    object: &'a ObjectMetadata,
    keys: &'a [MetadataKey],
) -> impl Iterator<Item = &'a ManagedFieldsEntry> {
    object.managed_fields.iter().filter(|writer| {
        writer.labels.iter().chain(&writer.annotations).any(|owned| keys.iter().any(|key| key.name() == &**owned))
    })
}
