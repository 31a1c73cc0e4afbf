//! Search for the owners that a change affects, and for the objects that it can be read from.

use std::collections::BTreeSet;

use super::comparison::Comparison;
use super::kinds::{affected_owners, kind_of};
use crate::flux::simulation::kustomization::derivation::Derivation;
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Reaction};
use crate::flux::simulation::model::disclosure::Disclosed;
use crate::flux::simulation::model::node::Pass;
use crate::flux::simulation::model::questions::{Answers, Needs};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::plan::{Reason, ReasonCode};

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
    let affected = affected.into_iter().map(|owner| Disclosed::of_owner(state, owner)).collect();
    (affected, Needs { builds: derivation.needs, dry_runs: derivation.questions })
}

/// Returns the reason why it is not known what the controller of a deleted owner deletes.
fn unknown_deletion(owner: &ObjectMetadata, consequences: &Consequences<'_>) -> Option<Reason> {
    match consequences.effects.get(&owner.id) {
        Some(effect) => effect.unknown.clone(),
        None => Some(unrecorded("its content could not be read")),
    }
}

/// Returns the reason why it is not known what a deletion of an owner deletes.
pub(super) fn unrecorded(why: &str) -> Reason {
    let detail = format!("it is deleted, and what its controller deletes is not known: {why}");
    Reason::new(ReasonCode::NotRecorded, detail)
}

/// Returns the objects of a kind, live ones and those that a pass or another owner applies.
pub(super) fn ids_of(state: &State<'_>, group: &str, kind: &str) -> BTreeSet<ObjectId> {
    let live = state.input.snapshot.objects.iter().map(|object| &object.id);
    let passes = state.nodes.iter().flat_map(|node| &node.passes);
    let applied = passes.filter_map(Pass::applied_objects).flat_map(|objects| objects.keys());
    let generated = state.owner_applies().flat_map(|(_, applies)| applies.objects.keys());
    live.chain(applied).chain(generated).filter(|id| id.is_here(group, kind)).cloned().collect()
}

/// Returns true if `spec.suspend` is true before the change and not after it.
pub(super) fn is_resumed(state: &State<'_>, id: &ObjectId) -> bool {
    let live = state.input.snapshot.resource(id);
    live.is_some_and(|live| live.flag("/spec/suspend")) && !state.is_suspended_after(id)
}
