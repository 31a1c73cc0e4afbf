//! The health of owners that are no Kustomizations, once their controllers have seen the change.
//!
//! Source: kstatus of fluxcd/cli-utils v1.2.2 reads `observedGeneration` and the condition Ready; helm-controller v1.6.3 and
//! flux-operator v0.58.1 observe the new generation of a suspended owner and leave its conditions as they are.

use serde_json::Value;

use crate::flux::simulation::model::affected_owner::{Reaction, Readiness};
use crate::flux::simulation::model::state::State;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::schemes::{flux_helmrelease, flux_operator};
use crate::plan::{Reason, ReasonCode};

/// Returns what is known of the health of an owner after the change; `None` for an object of another kind.
pub(crate) fn owner_readiness(state: &State<'_>, id: &ObjectId) -> Option<Readiness> {
    let is_followed =
        id.is_here(flux_helmrelease::GROUP, flux_helmrelease::KIND) || id.is_here(flux_operator::GROUP, "ResourceSet");
    is_followed.then(|| readiness(state, id))
}

fn readiness(state: &State<'_>, id: &ObjectId) -> Readiness {
    let live = state.input.snapshot.resource(id);
    let is_healthy = live.is_some_and(is_healthy);
    let Some(owner) = state.affected_owner(id) else {
        return match live.and_then(|live| live.condition("Stalled")).filter(|stalled| stalled.status == "True") {
            _ if is_healthy => Readiness::Ready,
            Some(stalled) => Readiness::Fails(format!("it has failed, and is not tried again: {}", stalled.reason)),
            None => Readiness::Open,
        };
    };
    match (&owner.reaction, &owner.effect) {
        (Reaction::Waits(Reason { code: ReasonCode::Suspended, .. }), None) if is_healthy => Readiness::Ready,
        (Reaction::Waits(Reason { code: ReasonCode::Suspended, .. }), None) => {
            Readiness::Fails("it is suspended, and not ready now".to_owned())
        }
        (Reaction::Waits(_), Some(effect)) => effect.readiness.clone(),
        (Reaction::Acts(_), Some(effect)) if effect.is_certain() => effect.readiness.clone(),
        _ => Readiness::Open,
    }
}

/// Returns true if a live owner is ready, whether it is suspended or not.
fn is_healthy(live: &Resource) -> bool {
    let observed = live.at("/status/observedGeneration").and_then(Value::as_i64);
    live.is_true("Ready") && observed.is_none_or(|observed| observed == live.object.generation)
}
