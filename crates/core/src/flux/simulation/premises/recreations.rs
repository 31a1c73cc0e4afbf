//! Live objects that are deleted and created anew: by force, which a dry-run asks about beforehand, or by two owners, of which the
//! second one changes the object now and creates it then. What the change does before can end either answer.

use super::admission::{Ruling, Sent, after_acceptance, denies_creation, has_rules_of_creation};
use super::event::Event;
use super::rights::{Rights, rights};
use super::world::Precedence;
use super::{CREATION, DELETION, Premises, clauses, user};
use crate::flux::apply::AppliedObject;
use crate::flux::apply::cause::Cause;
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::question::{DryRunAnswer, Question};
use crate::flux::simulation::model::refusals::Standing;

/// Effect of the change on one of the two requests.
enum Answer {
    Same,
    /// The server refuses it then: its message.
    Refused(String),
    /// The condition on which it does.
    Open(String),
}

impl Premises<'_, '_> {
    /// Returns how far it holds that an object, which the server refuses to change with this message, is deleted and created anew.
    pub(super) fn of_recreation(&self, object: &AppliedObject, message: &str) -> Standing {
        let replaced = |result| Standing::Replaced(Box::new(result), vec![]);
        match self.answer(object, Sent::deletion(&object.id), DELETION) {
            Answer::Refused(refusal) => return replaced(DryRunResult::Refused(format!("{message}; {refusal}"))),
            Answer::Open(condition) => return Standing::Open(condition),
            Answer::Same => {}
        }
        match self.answer(object, Sent::creation(object), CREATION) {
            Answer::Refused(refusal) => replaced(DryRunResult::DeletedOnly(refusal)),
            Answer::Open(condition) => Standing::Open(condition),
            Answer::Same => self.of_contest(object, true),
        }
    }

    /// Returns how far it holds that the server accepts the change of an object that another owner, or an earlier run, deletes before:
    /// it is created then, which other rules and rights decide about.
    pub(super) fn of_moved(&self, object: &AppliedObject) -> Standing {
        let mut deletions = self.world.events.iter().filter(|event| event.is_deleted && event.id == object.id);
        let order =
            |event: &Event| if event.is_of(&object.owner) { Precedence::Before } else { self.order(event, object) };
        let deletion = deletions.find(|event| self.can_precede(event, object) && order(event) != Precedence::After);
        let Some(deletion) = deletion else { return Standing::Holds };
        let is_first = deletion.is_certain && order(deletion) == Precedence::Before;
        let (shown, changed) = (object.built.shown_id(), deletion.clause());
        let open = |message: &str| {
            Standing::Open(format!("the server may refuse to create {shown} after {changed}: {message}"))
        };
        let refused = |message: String| {
            let is_certain = is_first.then(|| Box::new(DryRunResult::Refused(message.clone())));
            is_certain.map_or_else(|| open(&message), |result| Standing::Replaced(result, vec![]))
        };
        // Without rules and accounts, who may change an object may create it.
        let is_asked = self.account_of(object).is_some() || has_rules_of_creation(&self.world, object);
        let creation = is_asked.then(|| Question::of_creation(object.clone(), &self.world.state.input.flags));
        if let Some(DryRunAnswer::Result(DryRunResult::Refused(message))) = creation.and_then(|it| self.world.ask(it)) {
            let may_be_of_object = !names(message, &object.id.name);
            match Cause::of(message) {
                Cause::Rights => return refused(message.clone()),
                Cause::Policy if denies_creation(&self.world, object) => return refused(message.clone()),
                Cause::Policy => return open(message),
                Cause::Webhook | Cause::Unknown if may_be_of_object => return open(message),
                // The live object is in the way of a second one.
                _ => {}
            }
        }
        match self.answer(object, Sent::creation(object), CREATION) {
            Answer::Refused(refusal) => refused(refusal),
            Answer::Open(condition) => Standing::Open(condition),
            Answer::Same => Standing::Holds,
        }
    }

    /// Returns what the change makes of a request that the server accepts now, and that needs these rights.
    fn answer(&self, object: &AppliedObject, sent: Sent<'_>, verbs: &[&str]) -> Answer {
        let (shown, request) = (object.built.shown_id(), sent.as_noun());
        let open = |changed: String| {
            Answer::Open(format!("the server accepts the {request} of {shown} now, and may refuse it after {changed}"))
        };
        match after_acceptance(&self.world, &object.owner, sent) {
            Ruling::Denied(events) => {
                return Answer::Refused(format!("an admission policy denies its {request} after {}", clauses(&events)));
            }
            Ruling::Open(events) => return open(clauses(&events)),
            Ruling::Same | Ruling::Free(_) => {}
        }
        let Some(account) = self.account_of(object) else { return Answer::Same };
        match rights(&self.world, Some(&account), verbs, &object.id) {
            Some(Rights { before: true, after: false, events }) => {
                let changed = clauses(&events);
                let mut orders = events.iter().map(|event| self.order(event, object));
                if orders.clone().any(|order| order == Precedence::Before) {
                    return Answer::Refused(format!("{} may not do its {request} after {changed}", user(&account)));
                }
                if orders.all(|order| order == Precedence::After) { Answer::Same } else { open(changed) }
            }
            _ => Answer::Same,
        }
    }
}

/// Returns true if a message about another object, which a dry-run creates in place of the live one, names the live one as a word.
fn names(message: &str, name: &str) -> bool {
    let is_part = |character: Option<char>| character.is_some_and(|it| it.is_alphanumeric() || it == '-');
    let mut found = message.match_indices(name);
    found.any(|(at, _)| {
        let (before, after) = (&message[..at], &message[at + name.len()..]);
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    })
}
