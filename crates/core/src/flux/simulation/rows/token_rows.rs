//! Tokens of service accounts that Kustomizations apply: the token controller deletes one whose account is missing, or is
//! another one than that with its uid.
//!
//! Source: docs/reference/garbage-collection.md 2.

use std::collections::{BTreeMap, BTreeSet};

use super::applied_objects::{applied_ids, last_runs};
use crate::flux::simulation::model::state::State;
use crate::kubernetes::deletion::tokens::{ACCOUNT_UID, named_account};
use crate::kubernetes::object::ObjectId;
use crate::plan::{Action, Actor, Plan, Reason, ReasonCode};

/// Adds to the rows of tokens what the token controller does after they are applied.
pub(crate) fn add_token_outcomes(state: &State<'_>, plan: &mut Plan) {
    let runs = last_runs(state);
    let named = runs.iter().filter_map(|((_, id), (_, built))| Some((*id, named_account(&built.manifest)?)));
    let accounts: BTreeMap<&ObjectId, ObjectId> = named
        .map(|(id, name)| (id, ObjectId { kind: "ServiceAccount".into(), name: name.into(), ..id.clone() }))
        .collect();
    if accounts.is_empty() {
        return;
    }
    let applied: BTreeSet<&ObjectId> = applied_ids(state).into_iter().map(|(_, id)| id).collect();
    plan.update_changes(|row| {
        let Some(account) = accounts.get(&row.object.id) else { return };
        match row.action {
            Action::Create if !state.is_live(account) && !applied.contains(account) => {
                row.make_race(format!("the token controller deletes it while {account} does not exist"));
            }
            Action::Update if has_uid_of_another(state, &row.object.id, account) => {
                let detail = "it names another account: the token controller deletes it, and it is created again";
                let conditions = std::mem::take(&mut row.reason.conditions);
                row.reason = Reason::new(ReasonCode::Token, detail);
                row.reason.conditions = conditions;
                (row.action, row.by) = (Action::Recreate, Actor::TokenController);
            }
            _ => {}
        }
    });
}

/// Returns true if a live token has the uid of another account than this one.
fn has_uid_of_another(state: &State<'_>, token: &ObjectId, account: &ObjectId) -> bool {
    let uid = state.live_object(token).and_then(|live| live.annotations.get(ACCOUNT_UID));
    let account = state.live_object(account);
    uid.is_some_and(|uid| !uid.is_empty() && account.is_none_or(|account| *account.uid != *uid))
}
