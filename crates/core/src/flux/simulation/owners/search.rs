//! Search for the owners that a change affects.

use super::behaviour::comparison::Comparison;
use super::behaviour::owner_kind::unrecorded;
use super::behaviour::privacy::quotes_secrets;
use super::kinds::{affected_owners, kind_of};
use crate::flux::apply::question::{Question, Request};
use crate::flux::simulation::kustomization::derivation::Derivation;
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Reaction};
use crate::flux::simulation::model::disclosure::Disclosed;
use crate::flux::simulation::model::questions::{Answers, Needs, Verdict};
use crate::flux::simulation::model::refusals::OwnerRefusals;
use crate::flux::simulation::model::state::{State, StoredReleases};
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::plan::Reason;

/// Owners that a change affects.
pub(crate) struct Found {
    pub(crate) affected: Vec<Disclosed<AffectedOwner>>,
    pub(crate) refusals: OwnerRefusals,
    pub(crate) stored: StoredReleases,
    /// Answers that are missing. The dry-runs among them include those that were answered.
    pub(crate) needs: Needs,
}

/// Returns the affected owners.
pub(crate) fn find_affected<'a>(state: &State<'a>, consequences: &Consequences<'a>, answers: &Answers) -> Found {
    let mut derivation = Derivation::new(state, consequences, answers);
    let mut affected = affected_owners(&mut Comparison::new(&mut derivation));
    let (mut refusals, mut stored) = (OwnerRefusals::new(), StoredReleases::new());
    let live = state.input.snapshot.objects.iter().filter(|object| object.deletion_timestamp.is_none());
    for (kind, owner) in live.filter_map(|object| Some((kind_of(&object.id)?, object))) {
        let content = state.input.snapshot.resource(&owner.id);
        let is_deleted = consequences.may_be_deleted(&owner.id);
        if !is_deleted && content.is_none_or(|live| (kind.acting)(state, live, consequences).is_none()) {
            continue;
        }
        refusals.extend(refused_deletions(&mut derivation, &owner.id));
        if let Some(live) = content {
            let found = (kind.stored)(&mut Comparison::new(&mut derivation), live);
            stored.extend(found.map(|found| (owner.id.clone(), found)));
        }
        if !is_deleted {
            continue;
        }
        let Some(unknown) = unknown_deletion(owner, consequences) else { continue };
        match affected.iter_mut().find(|affected| affected.id == owner.id) {
            Some(affected) => affected.reaction = Reaction::Unknown(unknown),
            None => affected.push(AffectedOwner::new(&owner.id, Reaction::Unknown(unknown))),
        }
    }
    let disclosed = affected.into_iter().map(|owner| {
        let is_private = quotes_secrets(state, &owner.id);
        Disclosed::of_owner(owner, is_private)
    });
    let needs = Needs { builds: derivation.needs, dry_runs: derivation.questions };
    Found { affected: disclosed.collect(), refusals, stored, needs }
}

/// Asks the API server about the deletions by the controller of a deleted owner, and returns those that it refuses.
fn refused_deletions(derivation: &mut Derivation<'_, '_>, owner: &ObjectId) -> OwnerRefusals {
    let state = derivation.state;
    let kind = kind_of(owner).zip(state.input.snapshot.resource(owner));
    let Some((kind, live)) = kind else { return OwnerRefusals::new() };
    let is_private = state.is_private(owner);
    let objects = (kind.finalized)(state, live).into_iter();
    let refused = objects.filter_map(|id| {
        let question = Question::of_owner(owner, live.spec(), &id, Request::Delete, is_private);
        match derivation.ask(question) {
            Verdict::Refused(message) => Some(((owner.clone(), id), message)),
            _ => None,
        }
    });
    refused.collect()
}

/// Returns the reason why it is not known what the controller of a deleted owner deletes.
fn unknown_deletion(owner: &ObjectMetadata, consequences: &Consequences<'_>) -> Option<Reason> {
    match consequences.effects.get(&owner.id) {
        Some(effect) => effect.unknown.clone(),
        None => Some(unrecorded("its content could not be read")),
    }
}
