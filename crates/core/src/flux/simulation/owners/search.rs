//! Search for the owners that a change affects.

use super::behaviour::comparison::Comparison;
use super::behaviour::owner_kind::unrecorded;
use super::kinds::{affected_owners, kind_of};
use crate::flux::simulation::kustomization::derivation::Derivation;
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Reaction};
use crate::flux::simulation::model::disclosure::Disclosed;
use crate::flux::simulation::model::questions::{Answers, Needs};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::object::ObjectMetadata;
use crate::plan::Reason;

/// Returns the affected owners, and the answers that are missing. The dry-runs among them include those that were answered.
pub(crate) fn find_affected<'a>(
    state: &State<'a>,
    consequences: &Consequences<'a>,
    answers: &Answers,
) -> (Vec<Disclosed<AffectedOwner>>, Needs) {
    let mut derivation = Derivation::new(state, consequences, answers);
    let mut affected = affected_owners(&mut Comparison::new(&mut derivation));
    let deleted = state.input.snapshot.objects.iter().filter(|object| {
        object.deletion_timestamp.is_none() && kind_of(&object.id).is_some() && consequences.may_be_deleted(&object.id)
    });
    for owner in deleted {
        let Some(unknown) = unknown_deletion(owner, consequences) else { continue };
        match affected.iter_mut().find(|affected| affected.id == owner.id) {
            Some(affected) => affected.reaction = Reaction::Unknown(unknown),
            None => affected.push(AffectedOwner::new(&owner.id, Reaction::Unknown(unknown))),
        }
    }
    let affected = affected.into_iter().map(|owner| {
        let is_private = state.is_private(&owner.id);
        Disclosed::of_owner(owner, is_private)
    });
    let affected = affected.collect();
    (affected, Needs { builds: derivation.needs, dry_runs: derivation.questions })
}

/// Returns the reason why it is not known what the controller of a deleted owner deletes.
fn unknown_deletion(owner: &ObjectMetadata, consequences: &Consequences<'_>) -> Option<Reason> {
    match consequences.effects.get(&owner.id) {
        Some(effect) => effect.unknown.clone(),
        None => Some(unrecorded("its content could not be read")),
    }
}
