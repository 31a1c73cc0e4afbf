//! Status of an owner, and whether its record can be trusted.
//!
//! Controllers write labels before inventories. A record describes the objects only when its owner is not reconciling, and
//! did not while the cluster was being read (docs/reference/ownership.md 6.1).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kubernetes::object::{Condition, ObjectMetadata};

/// Status of an owner. Objects that look leaked are kept unless their owner is `Ready`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", content = "reason", rename_all = "kebab-case")]
pub enum OwnerStatus {
    /// Ready for its current generation, not suspended, not reconciling, unchanged while the cluster was read.
    Ready,
    /// Not reconciled until somebody resumes it.
    Suspended,
    /// The last reconciliation failed. Contains the message.
    NotReady(String),
    /// A reconciliation is under way, or the last change is not observed yet.
    Reconciling,
    /// It changed while objects were being read.
    Changed,
    /// It has a deletion timestamp.
    Terminating,
}

impl OwnerStatus {
    /// Returns the reason why the record cannot be trusted, or `None` if it can.
    pub(crate) fn untrusted_reason(&self) -> Option<String> {
        Some(match self {
            Self::Ready => return None,
            Self::Suspended => "its owner is suspended".to_owned(),
            Self::NotReady(message) if message.is_empty() => "its owner is not ready".to_owned(),
            Self::NotReady(message) => format!("its owner is not ready: {message}"),
            Self::Reconciling => "its owner is reconciling".to_owned(),
            Self::Changed => "its owner changed while the cluster was being read".to_owned(),
            Self::Terminating => "its owner is being deleted".to_owned(),
        })
    }

    /// Returns the status after comparing the two readings of an owner: its metadata was read before the objects, its
    /// content after them. `changed` says that its resource version differs; times would need synchronised clocks.
    #[must_use]
    pub(crate) fn after_reading(self, object: &ObjectMetadata, changed: bool) -> Self {
        match self {
            _ if object.deletion_timestamp.is_some() => Self::Terminating,
            Self::Ready if changed => Self::Changed,
            status => status,
        }
    }
}

/// Returns the status condition of a type.
pub(crate) fn condition<'a>(content: &'a Value, kind: &str) -> Option<Condition<'a>> {
    let conditions = content.pointer("/status/conditions")?.as_array()?;
    conditions.iter().filter_map(Condition::read).find(|condition| condition.kind == kind)
}

/// Returns true if a status condition is `True`.
pub(crate) fn is_true(content: &Value, kind: &str) -> bool {
    condition(content, kind).is_some_and(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn an_owner_that_changed_while_the_cluster_was_read_is_not_ready() {
        let owner = object("", "X", "a", "b");
        assert_eq!(OwnerStatus::Ready.after_reading(&owner, false), OwnerStatus::Ready);
        assert_eq!(OwnerStatus::Ready.after_reading(&owner, true), OwnerStatus::Changed);
        assert_eq!(OwnerStatus::Suspended.after_reading(&owner, true), OwnerStatus::Suspended);
    }
}
