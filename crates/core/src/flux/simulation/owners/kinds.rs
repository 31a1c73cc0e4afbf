//! Table of the kinds of owners.

use super::behaviour::comparison::Comparison;
use super::behaviour::owner_kind::OwnerKind;
use super::{generator, helm, instance, kustomization, resource_set, spoke};
use crate::flux::simulation::model::affected_owner::AffectedOwner;
use crate::kubernetes::object::ObjectId;

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
