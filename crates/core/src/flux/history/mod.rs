//! What deleted an object: the commit that took it out of the builds, the rule by which its controller deleted it, and what
//! the cluster still knows of it.
//!
//! An older revision is played on the present cluster, with nothing that keeps its owners from applying it, and the next
//! revision on the state after it. So the owner, the rule and the cause are those of a plan of that commit.

pub mod evidence;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::kubernetes::gap::AnswerGap;
use crate::kubernetes::object::ObjectId;
use crate::plan::{Action, Actor, Reason};
use evidence::{Applied, ControllerEvent};

/// Name of the JSON schema; a contract with programs.
pub const SCHEMA: &str = "kubectl-gitops/why-gone/v1";

/// The answer to the question why an object is gone.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WhyGone {
    pub schema: &'static str,
    /// True if nothing that could not be read or built can change the answer.
    pub complete: bool,
    pub object: ObjectId,
    pub state: Presence,
    pub verdict: Verdict,
    /// True if a commit declares the object itself. If not, `owners` and `last` are those of the cause of `removal`, and that the
    /// object existed is not known.
    pub declared: bool,
    /// Owners that declare it in the last commit that has it.
    pub owners: BTreeSet<ObjectId>,
    /// The last commit that has it, or the deployed one if that still does.
    pub last: Option<Commit>,
    /// The commit that takes it out, and what follows by the rules of the controllers.
    pub removal: Option<Removal>,
    /// Revisions that the owners which still exist applied last.
    pub applied: Vec<Applied>,
    /// Events about its deletion, newest first.
    pub events: Vec<ControllerEvent>,
    pub searched: Searched,
    /// Further facts for people.
    pub notes: Vec<String>,
    /// Time of the reading.
    pub taken: DateTime<Utc>,
    pub gaps: Vec<AnswerGap>,
}

/// Presence of an object in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "presence", rename_all = "kebab-case")]
pub enum Presence {
    Gone,
    /// It is deleted, and finalizers keep it.
    Terminating {
        since: DateTime<Utc>,
        finalizers: Vec<String>,
    },
    /// It exists; `status` is that of `inventory`, such as `leaked`.
    Exists {
        since: Option<DateTime<Utc>>,
        status: &'static str,
    },
}

/// Conclusion about the deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A commit takes the object out, and a controller deletes it by the rule of `removal`.
    DeletedByCommit,
    /// A commit takes the object out, but its owner has not applied it: something else deleted the object.
    NotApplied,
    /// A commit takes the object out, and by the rules of its controller it stays: something else deleted it.
    LeftBehind,
    /// The deployed commit declares the object: something else deleted it.
    Declared,
    /// No commit that was searched declares the object.
    NotFound,
}

/// A commit of the checkout, as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Commit {
    pub sha: String,
    pub subject: String,
    pub author: String,
    pub date: Option<DateTime<Utc>>,
    #[serde(skip)]
    pub parents: Vec<String>,
}

/// The removal of an object by a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    pub commit: Commit,
    /// The commit that merges it into the branch, if that is another one.
    pub merged_by: Option<Commit>,
    /// Object whose deletion takes it along; the commit takes that object out. `null` if the object itself is taken out.
    pub cause: Option<ObjectId>,
    /// Action on the object by the rules of the controllers; `null` if it is not known.
    pub action: Option<Action>,
    /// Component that performs it.
    pub by: Option<Actor>,
    /// Owner on whose behalf.
    pub owner: Option<ObjectId>,
    pub reason: Option<Reason>,
    /// The owner and its own owners, as far as the commit deletes them too, nearest first.
    pub owners_deleted: Vec<DeletedOwner>,
    /// Objects of the same kind that the same commit creates.
    pub created: Vec<ObjectId>,
}

/// An owner that a commit deletes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeletedOwner {
    pub owner: ObjectId,
    /// Owner on whose behalf it is deleted.
    pub deleted_for: Option<String>,
    pub reason: Reason,
}

/// Part of the history that was searched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Searched {
    /// Newest commit: that which is deployed.
    pub from: Option<Commit>,
    /// Oldest commit that was searched.
    pub to: Option<Commit>,
    /// Number of commits on the branch, merges counted once.
    pub commits: usize,
    /// False if the branch has older commits.
    pub whole: bool,
}

/// Result of the search in the history, before the cluster is asked.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// The object, as the commits declare it.
    pub object: Option<ObjectId>,
    pub owners: BTreeSet<ObjectId>,
    pub last: Option<Commit>,
    pub removal: Option<Removal>,
    pub searched: Searched,
    pub notes: Vec<String>,
    pub gaps: Vec<AnswerGap>,
}

impl WhyGone {
    /// Joins what the commits say with what the cluster knows. `applied` are the owners' last revisions.
    pub fn new(
        search: Search,
        object: ObjectId,
        state: Presence,
        applied: Vec<Applied>,
        mut events: Vec<ControllerEvent>,
        taken: DateTime<Utc>,
    ) -> Self {
        let Search { object: declared, owners, last, removal, searched, notes, gaps } = search;
        events.sort_by(|a, b| (b.at, &b.message).cmp(&(a.at, &a.message)));
        // Whoever may write Events can write one about an owner of their own.
        let of_removal = removal.iter().flat_map(|removal| {
            removal.owner.iter().chain(removal.owners_deleted.iter().map(|deleted| &deleted.owner))
        });
        let owners_of_object: Vec<&ObjectId> = owners.iter().chain(of_removal).collect();
        let is_told = events.iter().any(|event| owners_of_object.contains(&&event.owner));
        let verdict = match &removal {
            None if last.is_some() => Verdict::Declared,
            None => Verdict::NotFound,
            Some(_) if is_told => Verdict::DeletedByCommit,
            Some(_) if !applied.is_empty() && applied.iter().all(|owner| owner.has_commit == Some(false)) => {
                Verdict::NotApplied
            }
            Some(removal) if removal.action == Some(Action::Keep) => Verdict::LeftBehind,
            Some(_) => Verdict::DeletedByCommit,
        };
        let complete = gaps.iter().all(|gap| !gap.affects_answer);
        Self {
            schema: SCHEMA,
            complete,
            object,
            state,
            verdict,
            declared: declared.is_some(),
            owners,
            last,
            removal,
            applied,
            events,
            searched,
            notes,
            taken,
            gaps,
        }
    }
}
