//! Objects with what they refer to, as snapshots record them. `references` beside this file reads and compares them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::object::{KeyValues, ObjectId};

/// An object with what it refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Referrer {
    pub object: ObjectId,
    /// Objects that it needs, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference>,
    /// Objects that its controller makes, and makes again when they are deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub makes: Vec<ObjectId>,
    /// Selector of the Pods that it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Labels of the Pods that it makes.
    #[serde(default, skip_serializing_if = "KeyValues::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, String>"))]
    pub pod_labels: KeyValues,
    /// It is a Pod on a node: Kubernetes keeps the claims that it mounts.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_scheduled: bool,
    /// It is a Job that Kubernetes deletes some time after it has finished (`ttlSecondsAfterFinished`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub expires: bool,
    /// How the names of claims begin that its live Pods go on mounting when its manifest no longer names them; an empty text is
    /// the beginning of all. Only manifests of builds are asked for it.
    #[serde(skip)]
    pub kept_claims: Vec<Box<str>>,
}

/// An object that another one needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reference {
    pub to: ObjectId,
    pub usage: Usage,
}

impl Referrer {
    /// Returns true for a Pod on a node that mounts a claim: Kubernetes does not let it go.
    pub fn keeps(&self, claim: &ObjectId) -> bool {
        self.is_scheduled && self.references.iter().any(|reference| reference.to == *claim)
    }

    /// Moves the object, and all that it refers to, to another cluster.
    pub(super) fn set_cluster(&mut self, name: &Arc<str>) {
        let named = self.references.iter_mut().map(|reference| &mut reference.to).chain(&mut self.makes);
        named.chain([&mut self.object]).for_each(|id| id.cluster = Some(name.clone()));
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Use that an object makes of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Usage {
    Mounts,
    Reads,
    RunsAs,
    PullsWith,
    RoutesTo,
    Scales,
    Selects,
    Calls,
    Grants,
    DependsOn,
    Uses,
}

impl fmt::Display for Usage {
    /// Writes a predicate whose object is `it`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mounts => "mounts it",
            Self::Reads => "reads it",
            Self::RunsAs => "runs as it",
            Self::PullsWith => "pulls images with it",
            Self::RoutesTo => "sends traffic to it",
            Self::Scales => "scales it",
            Self::Selects => "selects its Pods",
            Self::Calls => "calls it",
            Self::Grants => "grants its rights",
            Self::DependsOn => "depends on it",
            Self::Uses => "uses it",
        })
    }
}
