//! ResourceSets: the resources that flux-operator generates of them.

mod copies;
mod dependencies;
pub(crate) mod expansion;
mod generation;
mod jobs;
mod moments;
pub(crate) mod providers;
mod pruning;

use serde_json::Value;

use self::dependencies::awaited_changes;
use self::pruning::{deletable, is_deleted_first, is_off, service_account};
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Effect, OwnerDeletion};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::{ChangeRules, changed_owners, is_switched_off_after};
use crate::flux::simulation::owners::behaviour::commands;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::behaviour::owner_kind::{OwnerKind, does_nothing, unrecorded};
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::Members;
use crate::ownership::schemes::flux::inventory_members;
use crate::ownership::schemes::flux_operator::GROUP;
use crate::plan::{Actor, Reason, ReasonCode};

/// Kind of the owners that generate resources of templates.
pub(crate) const KIND: &str = "ResourceSet";

/// ResourceSets.
pub(super) const SETS: OwnerKind = OwnerKind {
    group: GROUP,
    kind: KIND,
    actor: Actor::FluxOperator,
    affected,
    acting: does_nothing,
    find_out: |state, id| commands::generated(state, id, "resourceset"),
    deleted,
    finalized,
    stored: |_, _| None,
};

const RULES: ChangeRules = ChangeRules {
    group: GROUP,
    kind: KIND,
    not_computed: "its resources are not generated here",
    creation_remark: "the objects that it generates are not in this plan, and those that exist are taken over",
    references,
    is_inactive: is_switched_off_after,
    has_nothing: |_, _| false,
    taken_over: |_, _| None,
    // Without the program no new ResourceSet is generated, and its row says so.
    stake: |comparison, _| comparison.state().input.generates_sets.then_some("it may take over objects that exist"),
    restart: pruning::restarted,
    deleted,
    follow: expansion::expand,
};

fn affected(comparison: &mut Comparison<'_, '_, '_>) -> Vec<AffectedOwner> {
    changed_owners(comparison, &RULES)
}

fn references(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, spec: &Value) -> Asked<Vec<String>> {
    let mut changes = comparison.set_references(&id.namespace, spec)?;
    changes.extend(awaited_changes(comparison, id, spec));
    Ok(changes)
}

/// Returns what flux-operator deletes for a deleted ResourceSet: its inventory. One that is disabled deletes nothing. The
/// ResourceSet is gone too if the API server refuses a deletion.
fn deleted(state: &State<'_>, set: &Resource, consequences: &Consequences<'_>) -> Effect {
    let mut effect = Effect::default();
    if let (false, Members::Unreadable(error)) = (is_off(set), inventory_members(&set.content)) {
        effect.unknown = Some(unrecorded(&error));
    }
    let account = service_account(state, set).filter(|account| consequences.may_be_deleted(account));
    let ids = finalized(state, set);
    let mut early = ids.iter().filter(|id| is_deleted_first(id));
    let first = early.find_map(|id| Some((id, state.owner_refusal(&set.object.id, id)?)));
    for id in &ids {
        let refusal = state.owner_refusal(&set.object.id, id);
        let refused = refusal.map(|message| Reason::new(ReasonCode::DeletionRefused, message));
        let comes_later = first.filter(|_| !is_deleted_first(id)).map(|(first, message)| {
            let detail =
                format!("flux-operator deletes {first} first, and then nothing, because that fails: {message}");
            Reason::new(ReasonCode::LeftBehind, detail)
        });
        match refused.or(comes_later) {
            Some(reason) => {
                effect.keeps.insert(id.clone(), reason);
            }
            None => {
                let mut deletion = OwnerDeletion::new(CascadeKind::ResourceSet);
                let conditions = account.iter().map(|account| format!("it stays if {account} does not exist by then"));
                deletion.conditions.extend(conditions);
                deletion.is_doubtful = account.is_some();
                effect.deletes.insert(id.clone(), deletion);
            }
        }
    }
    effect
}

/// Returns the live objects that flux-operator deletes for a deleted ResourceSet. If its service account does not exist,
/// flux-operator leaves all of them behind. It asks for the account only here: a ResourceSet that stays acts as the user of that
/// name, and the user can have rights without the account.
///
/// Source: flux-operator v0.58.1 `uninstall` and `apply` in `internal/controller/resourceset_controller.go`.
fn finalized(state: &State<'_>, set: &Resource) -> Vec<ObjectId> {
    let can_delete = service_account(state, set).is_none_or(|account| state.is_live(&account));
    match inventory_members(&set.content) {
        Members::Listed(ids) if can_delete && !is_off(set) => {
            deletable(state, &set.object.id, &ids).map(|object| object.id.clone()).collect()
        }
        _ => vec![],
    }
}
