//! Alarms: the limits that a plan exceeds, and what lifts them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::grave::GraveKind;
use crate::ownership::OwnerId;

/// A limit that a plan exceeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alarm {
    /// Stable code for programs.
    pub code: AlarmCode,
    /// Owner that is affected; `null` where the plan as a whole exceeds a limit.
    pub owner: Option<OwnerId>,
    /// One short sentence for people.
    pub detail: String,
    /// Action that lifts the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
}

/// Code of an alarm; part of the contract of `kubectl-gitops/plan/v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AlarmCode {
    /// An owner that stays loses all its objects.
    OwnerEmptied,
    /// A kustomization file that an owner still builds lists no resource any more.
    FileEmptied,
    /// Several owners are deleted together with their objects.
    OwnersDeleted,
    /// An owner loses more than the permitted percentage of its objects.
    OwnerShrinks,
    /// The plan deletes more objects than permitted.
    TooManyDeletions,
    /// The plan deletes objects of a kind that needs a permission.
    NotAllowed,
    /// Owners that are ready now would apply and prune nothing any more.
    OwnersBlocked,
    /// The plan deletes an object that something which stays still refers to.
    StillReferenced,
    /// The plan is incomplete.
    Incomplete,
    /// A rule of `--policy` denies the plan.
    Denied,
}

impl AlarmCode {
    /// Every code, in the order of the documentation.
    pub const ALL: [Self; 10] = [
        Self::OwnerEmptied,
        Self::FileEmptied,
        Self::OwnersDeleted,
        Self::OwnerShrinks,
        Self::TooManyDeletions,
        Self::NotAllowed,
        Self::OwnersBlocked,
        Self::StillReferenced,
        Self::Incomplete,
        Self::Denied,
    ];
}

impl fmt::Display for AlarmCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Action that lifts a limit; the command line names the flag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "action", content = "value")]
pub enum Remedy {
    /// Check the paths that the change touches, and raise the percentage to 100 if the change is intended.
    CheckPaths,
    /// Raise the percentage to this value.
    RaiseMaxPercent(usize),
    /// Raise the number of deletions to this value.
    RaiseMaxDelete(usize),
    /// Permit the deletion of these kinds.
    Allow(Vec<GraveKind>),
    /// Correct what blocks the owners.
    Unblock,
    /// Keep what is still referenced, or remove the references first.
    RemoveReferences,
    /// Get the missing permissions, or permit incomplete plans.
    AllowIncomplete,
    /// Look at an owner whose inventory is empty.
    InspectOwner,
    /// Follow the rules in this file.
    FollowPolicy(String),
}

impl Alarm {
    pub(super) fn new(code: AlarmCode, owner: Option<&OwnerId>, detail: String, remedy: Remedy) -> Self {
        Self { code, owner: owner.cloned(), detail, remedy: Some(remedy) }
    }

    /// Returns the alarm of a rule in a file that denies the plan.
    pub fn denied(detail: String, file: String) -> Self {
        Self::new(AlarmCode::Denied, None, detail, Remedy::FollowPolicy(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_codes_is_complete() {
        // A code that is added is the last one, or moves it.
        assert_eq!(AlarmCode::Denied as usize + 1, AlarmCode::ALL.len());
        assert!(AlarmCode::ALL.iter().enumerate().all(|(at, code)| *code as usize == at));
    }

    #[test]
    fn a_code_is_shown_as_in_the_document() {
        assert_eq!(AlarmCode::OwnerShrinks.to_string(), "owner-shrinks");
        assert_eq!(serde_json::to_value(AlarmCode::OwnerShrinks).unwrap(), "owner-shrinks");
    }
}
