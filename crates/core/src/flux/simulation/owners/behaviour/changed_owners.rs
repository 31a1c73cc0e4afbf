//! Owners whose spec changes, or something that it refers to.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::comparison::{Asked, Comparison, Difference, Part};
use super::restarts::{Restart, with_restart};
use crate::flux::build::Interrupt;
use crate::flux::controllers::is_finalizing;
use crate::flux::kinds::OPERATOR_SWITCH;
use crate::flux::simulation::kustomization::deletions::changed_rule;
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Effect, Reaction, Readiness};
use crate::flux::simulation::model::node::SimulationEvent;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::schemes::flux::{inventory_members, is_switched_off, status};
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::ownership::schemes::flux_operator::FORCE;
use crate::ownership::{Members, OwnerStatus};
use crate::plan::{Reason, ReasonCode};

/// Rules of a kind for the effect of a change on its owners.
pub(crate) struct ChangeRules {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    /// Part that is not computed if the effect is not known, as a clause.
    pub(crate) not_computed: &'static str,
    /// Remark for the row of a new owner.
    pub(crate) creation_remark: &'static str,
    /// Describes the changes of the objects that an owner with this spec refers to.
    pub(crate) references: fn(&mut Comparison<'_, '_, '_>, &ObjectId, &Value) -> Asked<Vec<String>>,
    /// Returns true if the controller does nothing for the owner after the change.
    pub(crate) is_inactive: fn(&State<'_>, &ObjectId) -> bool,
    /// Returns true if a live owner has nothing that its controller could change or delete.
    pub(crate) has_nothing: fn(&State<'_>, &Resource) -> bool,
    /// Computes the effect of a new owner that takes over what an earlier one left; `None` if there is nothing of that kind.
    pub(crate) taken_over: fn(&mut Comparison<'_, '_, '_>, &ObjectId) -> Option<Asked<Followed>>,
    /// Returns what a new owner whose effect is not known may delete of that which exists, as a sentence.
    pub(crate) stake: fn(&mut Comparison<'_, '_, '_>, &ObjectId) -> Option<&'static str>,
    /// Returns what its controller deletes if a new owner is deleted once it has an effect.
    pub(crate) restart: Restart,
    /// Returns what its controller does when a live owner is deleted.
    pub(crate) deleted: fn(&State<'_>, &Resource, &Consequences<'_>) -> Effect,
    /// Computes the effect on an owner: the live one, or a new one.
    ///
    /// Fails with the reason why it is not known.
    pub(crate) follow: fn(&mut Comparison<'_, '_, '_>, &ObjectId, Option<&Resource>) -> Asked<Followed>,
}

/// Effect of a change on an owner.
pub(crate) enum Followed {
    /// Its controller changes nothing.
    Unchanged,
    /// Its controller acts.
    Acts {
        effect: Box<Effect>,
        code: ReasonCode,
        /// Remarks for the outcome of the owner.
        remarks: Vec<String>,
    },
    /// Its controller deletes nothing, because its action fails.
    Blocked { reason: Reason, effect: Box<Effect> },
    /// The effect on owners of this kind is not computed.
    No,
}

impl Followed {
    /// Returns an action of which the controller records nothing, and which deletes nothing. Another one may succeed before.
    pub(crate) fn blocked(code: ReasonCode, why: String) -> Self {
        Self::Blocked { reason: Reason::new(code, why), effect: Box::default() }
    }

    /// Returns such an action if none succeeds before.
    pub(crate) fn failing(code: ReasonCode, why: String) -> Self {
        let effect = Effect { readiness: Readiness::Fails(why.clone()), ..Effect::default() };
        Self::Blocked { reason: Reason::new(code, why), effect: Box::new(effect) }
    }
}

/// Returns the owners of a kind that the change affects and does not delete. One for which an answer is missing is left out:
/// the missing answer is among the needs.
pub(crate) fn changed_owners(comparison: &mut Comparison<'_, '_, '_>, rules: &ChangeRules) -> Vec<AffectedOwner> {
    let ids = comparison.ids_of(rules.group, rules.kind);
    ids.iter().filter_map(|id| changed_owner(comparison, id, rules)).collect()
}

/// Returns an owner if the change affects it and does not delete it.
pub(crate) fn changed_owner(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    rules: &ChangeRules,
) -> Option<AffectedOwner> {
    let state = comparison.state();
    let Some(object) = state.live_object(id) else {
        let created = created_owner(comparison, id, rules)?;
        return Some(with_restart(comparison.state(), created, rules.restart));
    };
    let is_deleted = comparison.derivation.consequences.may_be_deleted(id);
    let is_recreated = comparison.derivation.consequences.may_be_recreated(id) || comes_back(comparison, id);
    if object.deletion_timestamp.is_none() && is_recreated {
        return recreated_owner(comparison, id, rules);
    }
    let finalizes = is_finalizing(object);
    if (object.deletion_timestamp.is_some() && !finalizes) || (is_deleted && !is_deleted_by_itself(comparison, id)) {
        return None;
    }
    let live = state.input.snapshot.resource(id);
    let (changes, unknown) = match described_changes(comparison, id, live, rules) {
        Ok(changes) => (changes, None),
        Err(Interrupt::Missing) => return None,
        Err(Interrupt::Failed(why)) => (vec!["an object that it refers to may change".to_owned()], Some(why)),
    };
    if finalizes && (changes.is_empty() || state.applied(id).is_empty()) {
        return continued_deletion(comparison, live?, rules);
    }
    if changes.is_empty() {
        return None;
    }
    let is_masked = state.is_private(id);
    let what = if is_masked { "its spec or an object that it refers to changes".into() } else { changes.join(", ") };
    if finalizes {
        let stake = may_be_deleted(live);
        let detail = format!("{what}; it is being deleted already, and its finalizer runs again, so {stake}");
        return Some(AffectedOwner::new(id, Reaction::Unknown(Reason::new(ReasonCode::NotFollowed, detail))));
    }
    if (rules.is_inactive)(state, id) {
        let detail = format!("{what}; this takes effect once it is resumed");
        return Some(AffectedOwner::new(id, Reaction::Waits(Reason::new(ReasonCode::Suspended, detail))));
    }
    if live.is_some_and(|live| (rules.has_nothing)(state, live)) {
        return Some(AffectedOwner::new(id, Reaction::Installs(rules.creation_remark)));
    }
    let followed = match unknown {
        Some(why) => Err(Interrupt::Failed(why)),
        None if live.is_some() => follow(comparison, id, live, rules),
        None => Ok(Followed::No),
    };
    let why = match followed {
        Ok(Followed::Unchanged) | Err(Interrupt::Missing) => return None,
        Ok(Followed::Acts { effect, code, remarks }) => return Some(acting_owner(id, *effect, code, &what, &remarks)),
        Ok(Followed::Blocked { reason, effect }) => return Some(blocked_owner(id, *effect, &reason, &what)),
        Ok(Followed::No) => rules.not_computed.to_owned(),
        Err(Interrupt::Failed(unknown)) => format!("{}, because {unknown}", rules.not_computed),
    };
    let detail = format!("{what}; {why}, so {}", may_be_deleted(live));
    Some(AffectedOwner::new(id, Reaction::Unknown(Reason::new(ReasonCode::NotFollowed, detail))))
}

/// Computes the effect on an owner: the live one, or a new one.
///
/// Fails with the reason why it is not known.
fn follow(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    live: Option<&Resource>,
    rules: &ChangeRules,
) -> Asked<Followed> {
    comparison.state().check_decrypted(id)?;
    (rules.follow)(comparison, id, live)
}

/// Returns true if an owner is deleted that something which stays applies again: another owner, or a Kustomization that
/// does not delete it.
fn comes_back(comparison: &Comparison<'_, '_, '_>, id: &ObjectId) -> bool {
    let (state, consequences) = (comparison.state(), comparison.derivation.consequences);
    consequences.may_be_deleted(id) && (state.is_generated(id) || is_applied_after(state, consequences, id))
}

/// Returns true if another owner deletes an object that a Kustomization goes on applying.
pub(crate) fn is_applied_after(state: &State<'_>, consequences: &Consequences<'_>, id: &ObjectId) -> bool {
    let mut lasting = state.nodes.applying(id).filter(|node| node.may_stay());
    consequences.cascaded.contains_key(id) && lasting.any(|node| node.last_pass().is_some_and(|pass| pass.applies(id)))
}

/// Returns an owner that waits for its finalizer, if a rule by which the server refuses deletions is created, changed or deleted. The
/// finalizer runs again, and may succeed then (observed).
fn continued_deletion(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    rules: &ChangeRules,
) -> Option<AffectedOwner> {
    let (state, id) = (comparison.state(), &live.object.id);
    let rule = changed_rule(comparison.derivation, live)?;
    let condition = format!("it is being deleted already, and tries again after {rule} changes");
    let mut effect = (rules.deleted)(state, live, comparison.derivation.consequences);
    for deletion in effect.deletes.values_mut() {
        deletion.conditions.insert(0, condition.clone());
        deletion.is_doubtful = true;
    }
    effect.triggers = state.applying_events(&rule);
    effect.condition = Some(condition);
    let reason =
        Reason::new(ReasonCode::OwnerDeletedUncertain, format!("its finalizer runs again after {rule} changes"));
    Some(AffectedOwner { id: id.clone(), reaction: Reaction::Acts(reason), effect: Some(Arc::new(effect)) })
}

/// Returns true if only the Kustomizations that an owner changes delete the owner: it changes them before.
fn is_deleted_by_itself(comparison: &Comparison<'_, '_, '_>, id: &ObjectId) -> bool {
    let consequences = comparison.derivation.consequences;
    let Some(outcomes) = consequences.outcomes.get(id).filter(|outcomes| outcomes.may_be_deleted()) else {
        return false;
    };
    let mut own = comparison.state().owner_applies().filter(|(owner, _)| *owner == id);
    own.any(|(_, applies)| {
        let mut deleting = outcomes.deletions.iter().map(SimulationEvent::owner);
        deleting.all(|key| applies.objects.contains_key(&ObjectId::new(GROUP, KIND, &key.namespace, &key.name)))
    })
}

fn acting_owner(id: &ObjectId, effect: Effect, code: ReasonCode, what: &str, remarks: &[String]) -> AffectedOwner {
    let mut reason = Reason::new(code, what);
    remarks.iter().for_each(|remark| reason.add_detail(remark));
    AffectedOwner { id: id.clone(), reaction: Reaction::Acts(reason), effect: Some(Arc::new(effect)) }
}

fn blocked_owner(id: &ObjectId, effect: Effect, reason: &Reason, what: &str) -> AffectedOwner {
    let reason = Reason::new(reason.code, format!("{what}; {}", reason.detail));
    AffectedOwner { id: id.clone(), reaction: Reaction::Waits(reason), effect: Some(Arc::new(effect)) }
}

/// Returns an owner that is deleted and created again, with what it applies then, if that is known.
fn recreated_owner(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    rules: &ChangeRules,
) -> Option<AffectedOwner> {
    if (rules.is_inactive)(comparison.state(), id) {
        return None;
    }
    let Ok(Followed::Acts { effect, code, remarks }) = follow(comparison, id, None, rules) else { return None };
    let Effect { applies, assumption, .. } = *effect;
    // An owner that applies it first does so again at its next interval only.
    let is_certain = comparison.derivation.consequences.may_be_recreated(id);
    let condition = (!is_certain).then(|| format!("it depends on whether {id} is created after it is deleted"));
    let effect = Effect { applies, assumption, condition, ..Effect::default() };
    Some(acting_owner(id, effect, code, "it is deleted and created again", &remarks))
}

/// Returns an owner that is created, unless it is created inactive.
fn created_owner(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, rules: &ChangeRules) -> Option<AffectedOwner> {
    let state = comparison.state();
    let applied = state.applied(id);
    if applied.is_empty() {
        return None;
    }
    let forces = applied.iter().any(|applied| applied.built.has_label_or_annotation(FORCE, "enabled"));
    let unknown =
        |detail: String| AffectedOwner::new(id, Reaction::Unknown(Reason::new(ReasonCode::NotFollowed, detail)));
    if state.applies_for_a_while(id) {
        let what = "another owner may create it and delete it again at once";
        return match follow(comparison, id, None, rules) {
            Ok(Followed::Acts { effect, code, remarks }) => Some(acting_owner(id, *effect, code, what, &remarks)),
            Err(Interrupt::Failed(why)) => {
                let stake = (rules.stake)(comparison, id)?;
                Some(unknown(format!("{what}; {stake}; {}, because {why}", rules.not_computed)))
            }
            _ => None,
        };
    }
    let installs = AffectedOwner::new(id, Reaction::Installs(rules.creation_remark));
    let is_inactive = (rules.is_inactive)(state, id);
    let is_known = state.check_decrypted(id);
    let taken_over = (rules.taken_over)(comparison, id).map(|found| is_known.map_err(Interrupt::Failed).and(found));
    let takes_over = taken_over.is_some();
    if taken_over.is_none() && forces {
        let why = "it is created and may delete and create again objects that exist (fluxcd.controlplane.io/force)";
        return Some(unknown(format!("{why}; {}", rules.not_computed)));
    }
    if is_inactive {
        return None;
    }
    let what = if takes_over { "it is created and takes over an existing release" } else { "it is created" };
    match taken_over.unwrap_or_else(|| follow(comparison, id, None, rules)) {
        Ok(Followed::Acts { effect, code, remarks }) => Some(acting_owner(id, *effect, code, what, &remarks)),
        Ok(Followed::Blocked { reason, effect }) => Some(blocked_owner(id, *effect, &reason, what)),
        Err(Interrupt::Failed(why)) if takes_over => {
            let what = "it is created and its release may exist already, which is then upgraded";
            Some(unknown(format!("{what}; {}, because {why}", rules.not_computed)))
        }
        Err(Interrupt::Failed(why)) => match (rules.stake)(comparison, id) {
            Some(stake) => Some(unknown(format!("{stake}; {}, because {why}", rules.not_computed))),
            None => Some(installs),
        },
        _ => Some(installs),
    }
}

/// Returns what changes in a live owner and in everything that it refers to, in words.
fn described_changes(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    live: Option<&Resource>,
    rules: &ChangeRules,
) -> Asked<Vec<String>> {
    let is_ready = live.is_some_and(|live| status(&live.object, &live.content, None) == OwnerStatus::Ready);
    let mut changes = match comparison.change(id, Part::Spec { is_ready })? {
        Some(Difference::Changed(parts)) => parts.into_iter().map(|part| format!("{part} changes")).collect(),
        Some(Difference::NotCompared(why)) => vec![format!("its spec cannot be compared: {why}")],
        _ => vec![],
    };
    let was_inactive = live.is_some_and(|live| {
        live.flag("/spec/suspend") || live.object.annotations.get(OPERATOR_SWITCH).is_some_and(is_switched_off)
    });
    if was_inactive && !(rules.is_inactive)(comparison.state(), id) {
        changes.push("it is resumed".to_owned());
    }
    for spec in comparison.state().specs_after(id) {
        changes.extend((rules.references)(comparison, id, &spec)?);
    }
    let mut seen = BTreeSet::new();
    changes.retain(|change| seen.insert(change.clone()));
    Ok(changes)
}

/// Returns true if the controller of an owner of flux-operator does nothing for it after the change.
pub(crate) fn is_switched_off_after(state: &State<'_>, id: &ObjectId) -> bool {
    state.is_switched_off_after(id, OPERATOR_SWITCH)
}

/// Returns what is not known of the objects of an owner, as a clause.
pub(crate) fn may_be_deleted(live: Option<&Resource>) -> String {
    let number = match live.map(|live| inventory_members(&live.content)) {
        Some(Members::Listed(ids) | Members::Remote(ids)) => ids.len(),
        _ => 0,
    };
    match number {
        0 => "it is not known what is deleted".to_owned(),
        1 => "its object may be deleted".to_owned(),
        _ => "any of its objects may be deleted".to_owned(),
    }
}
