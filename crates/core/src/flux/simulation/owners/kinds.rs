//! Kinds of owners, and the behaviour of their controllers.

use super::comparison::Comparison;
use super::{generator, helm, instance, kustomization, resource_set, spoke};
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Effect};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::plan::Actor;

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
    /// Returns what the controller does when a live owner is deleted, by whatever.
    pub(crate) deleted: fn(&State<'_>, &Resource, &Consequences<'_>) -> Effect,
}

/// Every kind of owners.
static KINDS: [&OwnerKind; 5] = [
    &helm::RELEASES,
    &resource_set::SETS,
    &instance::INSTANCES,
    &generator::GENERATORS,
    &kustomization::KUSTOMIZATIONS,
];

/// Returns every affected owner that stays.
pub(super) fn affected_owners(comparison: &mut Comparison<'_, '_, '_>) -> Vec<AffectedOwner> {
    let mut affected: Vec<AffectedOwner> = KINDS.iter().flat_map(|kind| (kind.affected)(comparison)).collect();
    affected.extend(spoke::affected(comparison));
    affected
}

/// Returns the kind of an owner in this cluster; `None` for other objects.
pub(crate) fn kind_of(id: &ObjectId) -> Option<&'static OwnerKind> {
    KINDS.iter().find(|kind| id.is_here(kind.group, kind.kind)).copied()
}

/// Returns no effect, for kinds whose controllers act only on a change of their owners.
pub(super) fn does_nothing(_: &State<'_>, _: &Resource, _: &Consequences<'_>) -> Option<Effect> {
    None
}
