//! The decision which texts about an owner are shown: the only one, and made before anything else reads them.
//!
//! Texts about an owner quote its spec, the output of its templates and messages about both. If one of them
//! derives from a Secret, all of its texts are replaced by fixed ones.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::flux::simulation::model::affected_owner::{AffectedOwner, Effect, Open, OwnerDeletion, Reaction, Readiness};
use crate::flux::simulation::model::node::{Pass, PassOutcome};
use crate::plan::{Reason, ReasonCode};

/// Condition in place of those of a private owner.
const CONDITION: &str = "it depends on what is not shown, because it derives from a Secret";

/// Explanation in place of that of a private owner.
const DETAIL: &str = "details are not shown, because they derive from a Secret";

/// A finding about an owner, with fixed texts if its own texts could show a value of a Secret.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Disclosed<T>(T);

impl<T> Deref for Disclosed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl Disclosed<AffectedOwner> {
    /// Decides which texts about an affected owner are shown.
    pub(crate) fn of_owner(mut owner: AffectedOwner, is_private: bool) -> Self {
        if is_private {
            owner.reaction = hidden_reaction(owner.reaction);
            owner.effect = owner.effect.map(|effect| Arc::new(hidden_effect(Arc::unwrap_or_clone(effect))));
        }
        Self(owner)
    }
}

impl Disclosed<Arc<Effect>> {
    /// Decides which texts about what the controller of an owner does are shown.
    pub(crate) fn of_effect(effect: Effect, is_private: bool) -> Self {
        Self(Arc::new(if is_private { hidden_effect(effect) } else { effect }))
    }

    /// Takes over an effect that was disclosed with its owner.
    pub(crate) fn known(effect: &Arc<Effect>) -> Self {
        Self(Arc::clone(effect))
    }
}

/// Replaces the reasons of a pass of a private Kustomization.
pub(crate) fn hide_reasons(pass: &mut Pass) {
    match &mut pass.outcome {
        PassOutcome::Applied(_) => {}
        PassOutcome::Partial { reason, .. } | PassOutcome::Blocked(reason) | PassOutcome::Unknown(reason) => {
            *reason = hidden_reason(reason);
        }
    }
    pass.condition = pass.condition.take().map(|reason| Reason::new(reason.code, CONDITION));
}

fn hidden_reaction(reaction: Reaction) -> Reaction {
    match reaction {
        Reaction::Acts(reason) => Reaction::Acts(hidden_reason(&reason)),
        Reaction::Waits(reason) => Reaction::Waits(hidden_reason(&reason)),
        Reaction::Installs(remark) => Reaction::Installs(remark),
        Reaction::Unknown(reason) => Reaction::Unknown(hidden_reason(&reason)),
        Reaction::Elsewhere { applied_by, .. } => {
            Reaction::Elsewhere { applied_by, change: format!("it changes ({DETAIL})") }
        }
    }
}

fn hidden_reason(reason: &Reason) -> Reason {
    let detail = match reason.code {
        ReasonCode::Suspended => "it changes; this takes effect once it is resumed",
        ReasonCode::NotFollowed => {
            "its spec or an object that it refers to changes; its effect is not computed, so any of its objects may be \
             deleted"
        }
        ReasonCode::SecretInSpec => "its spec holds values of a Secret or encrypted ones",
        ReasonCode::NotRecorded => "it is deleted, and what its controller deletes is not known",
        _ => "",
    };
    let separator = if detail.is_empty() { "" } else { "; " };
    Reason::new(reason.code, format!("{detail}{separator}{DETAIL}"))
}

fn hidden_effect(effect: Effect) -> Effect {
    Effect {
        deletes: effect.deletes.into_iter().map(|(id, deletion)| (id, hidden_deletion(deletion))).collect(),
        keeps: effect.keeps.into_iter().map(|(id, reason)| (id, Reason::new(reason.code, DETAIL))).collect(),
        condition: effect.condition.map(|_| CONDITION.to_owned()),
        assumption: effect.assumption.map(|_| CONDITION.to_owned()),
        unknown: effect.unknown.as_ref().map(hidden_reason),
        stuck: effect.stuck.map(|_| DETAIL.to_owned()),
        sticks: effect
            .sticks
            .first()
            .map(|_| format!("it stays if its finalizer fails; {DETAIL}"))
            .into_iter()
            .collect(),
        triggers: effect.triggers,
        applies: effect.applies,
        // Their names can hold values of a Secret.
        creates: BTreeMap::new(),
        readiness: hidden_readiness(effect.readiness),
    }
}

fn hidden_readiness(readiness: Readiness) -> Readiness {
    match readiness {
        Readiness::Fails(_) => Readiness::Fails(DETAIL.to_owned()),
        Readiness::Ready | Readiness::Open => readiness,
    }
}

fn hidden_deletion(deletion: OwnerDeletion) -> OwnerDeletion {
    let has_remarks = !deletion.remarks.is_empty() || matches!(deletion.open, Some(Open::Remark(_)));
    OwnerDeletion {
        remarks: if has_remarks { vec![DETAIL.to_owned()] } else { vec![] },
        open: deletion.open.filter(|open| *open == Open::MayComeBack),
        conditions: deletion.conditions.first().map(|_| CONDITION.to_owned()).into_iter().collect(),
        ..deletion
    }
}
