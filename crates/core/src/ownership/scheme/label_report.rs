//! Summary of a system's labels in a whole cluster, for systems that keep no inventory.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::claim::{Claim, OwnerId};
use crate::kubernetes::object::ObjectMetadata;

/// An object with a claim of the system that a report is about.
#[derive(Clone, Debug)]
pub struct LabelledObject<'a> {
    pub object: &'a ObjectMetadata,
    /// Its claim, resolved to a live owner where there is one.
    pub claim: Claim,
    /// Owner that manages the object, of any system.
    pub managed_by: Option<OwnerId>,
    /// True if the report shows the object; the others are there for comparison.
    pub is_selected: bool,
}

/// Summary of a system's labels; serialised as `{SYSTEM: details}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelReport {
    /// Name of the system.
    pub system: &'static str,
    /// The report for programs.
    pub details: Value,
    /// The report for people, one row per group.
    pub groups: ReportTable,
    /// The report for people, one row per object.
    pub objects: ReportTable,
    /// Conclusions that need attention.
    pub warnings: Vec<String>,
    /// True if the owners of the system are its groups, so that a list of owners would repeat them.
    pub replaces_owners: bool,
}

impl Serialize for LabelReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.system, &self.details)?;
        map.end()
    }
}

/// Columns and rows of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportTable {
    /// Column names in lower case.
    pub columns: &'static [&'static str],
    /// One text per column and row.
    pub rows: Vec<Vec<String>>,
}

/// Placeholder for a missing value, as in kubectl.
pub(crate) const NONE: &str = "<none>";
