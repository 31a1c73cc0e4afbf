//! FluxInstances, whose effect is not computed.

use serde_json::Value;

use super::changed_owners::{ChangeRules, Followed, changed_owners, is_switched_off_after};
use super::comparison::Comparison;
use super::kinds::{OwnerKind, does_nothing};
use super::search::unrecorded;
use crate::flux::kinds::OPERATOR_SWITCH;
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Effect};
use crate::flux::simulation::model::interrupt::Interrupt;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::Members;
use crate::ownership::schemes::flux::{inventory_members, is_switched_off};
use crate::ownership::schemes::flux_operator;
use crate::plan::Actor;

/// Kind of the owner that installs Flux.
const KIND: &str = "FluxInstance";

/// FluxInstances.
pub(super) const INSTANCES: OwnerKind = OwnerKind {
    group: flux_operator::GROUP,
    kind: KIND,
    actor: Actor::FluxOperator,
    affected,
    acting: does_nothing,
    deleted,
};

const RULES: ChangeRules = ChangeRules {
    group: flux_operator::GROUP,
    kind: KIND,
    not_computed: "what flux-operator installs is not computed here",
    creation_remark: "flux-operator installs Flux; its objects are not in this plan, and those that exist are taken over",
    references,
    is_inactive: is_switched_off_after,
    has_nothing: |_, _| false,
    takes_over: |_, _| false,
    follow,
};

fn affected(comparison: &mut Comparison<'_, '_, '_>) -> Vec<AffectedOwner> {
    changed_owners(comparison, &RULES)
}

fn references(_: &mut Comparison<'_, '_, '_>, _: &str, _: &Value) -> Vec<String> {
    vec![]
}

fn follow(_: &mut Comparison<'_, '_, '_>, _: &ObjectId, _: Option<&Resource>) -> Result<Followed, Interrupt> {
    Ok(Followed::No)
}

/// Returns what a deleted FluxInstance deletes: everything of Flux, unless it is disabled or installed nothing.
fn deleted(_: &State<'_>, instance: &Resource, _: &Consequences<'_>) -> Effect {
    let is_off = instance.object.annotations.get(OPERATOR_SWITCH).is_some_and(is_switched_off);
    let has_objects = match inventory_members(&instance.content) {
        Members::Unrecorded => false,
        Members::Listed(ids) => !ids.is_empty(),
        _ => true,
    };
    let what = "flux-operator uninstalls Flux: it deletes the controllers and every object of Flux in the cluster";
    Effect { unknown: (has_objects && !is_off).then(|| unrecorded(what)), ..Effect::default() }
}
