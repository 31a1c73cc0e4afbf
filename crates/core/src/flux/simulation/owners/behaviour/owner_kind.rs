//! Interface of a kind of owners.

use super::comparison::Comparison;
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Effect};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::helm::uninstall::StoredRelease;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::plan::{Actor, Reason, ReasonCode};

/// A kind of owners, and the behaviour of its controller.
pub(crate) struct OwnerKind {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    /// Controller of the kind.
    pub(crate) actor: Actor,
    /// Returns the owners of the kind that the change affects and does not delete. An owner for which an answer is missing
    /// is left out.
    pub(crate) affected: fn(&mut Comparison<'_, '_, '_>) -> Vec<AffectedOwner>,
    /// Returns what the controller does for a live owner that stays, if the state of the Kustomizations alone decides it.
    pub(crate) acting: fn(&State<'_>, &Resource, &Consequences<'_>) -> Option<Effect>,
    /// Returns the commands that show what the plan does not know of an owner.
    pub(crate) find_out: fn(&State<'_>, &ObjectId) -> String,
    /// Returns what the controller does when a live owner is deleted, by whatever.
    pub(crate) deleted: fn(&State<'_>, &Resource, &Consequences<'_>) -> Effect,
    /// Returns the live objects that the controller then asks the API server to delete.
    pub(crate) finalized: fn(&State<'_>, &Resource) -> Vec<ObjectId>,
    /// Returns what Helm has stored of the release that the controller then uninstalls; `None` if that says no more than what is
    /// live, or if it is not known.
    pub(crate) stored: fn(&mut Comparison<'_, '_, '_>, &Resource) -> Option<StoredRelease>,
}

/// Returns no effect, for kinds whose controllers act only on a change of their owners.
pub(crate) fn does_nothing(_: &State<'_>, _: &Resource, _: &Consequences<'_>) -> Option<Effect> {
    None
}

/// Returns the reason why it is not known what a deletion of an owner deletes.
pub(crate) fn unrecorded(why: &str) -> Reason {
    let detail = format!("it is deleted, and what its controller deletes is not known: {why}");
    Reason::new(ReasonCode::NotRecorded, detail)
}
