//! Live objects that are deleted and created anew: by force, which a dry-run asks about beforehand, or by two owners,
//! of which the second one changes the object now and creates it then. What the change does before can end either
//! answer.

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

/// What a run does with an object that the server calls invalid.
pub(super) enum Forced {
    /// It deletes the object by force.
    Deleted,
    /// It does not, or the server refuses that: the message.
    Stays(String),
    /// The condition on which it does.
    Open(String),
}

impl Premises<'_, '_> {
    /// Returns how far it holds that an object, which the server refuses to change with this message, is deleted and
    /// created anew.
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

    /// Returns what happens to an object that a policy denies from some time on. The controller deletes one that is
    /// forced if the server calls it invalid, and creates it anew, which the server can refuse too.
    pub(super) fn of_denial(&self, object: &AppliedObject, message: String, is_invalid: Option<bool>) -> Standing {
        let replaced = |result| Standing::Replaced(Box::new(result), vec![]);
        if is_invalid == Some(false) {
            return replaced(DryRunResult::Refused(message));
        }
        match self.forced(object, &message) {
            Forced::Deleted if is_invalid.is_some() => {}
            Forced::Deleted => return Standing::Open(may_be_forced(object, &message)),
            Forced::Stays(message) => return replaced(DryRunResult::Refused(message)),
            Forced::Open(condition) => return Standing::Open(condition),
        }
        let creation = Question::of_creation(object.clone(), &self.world.state.input.flags);
        match self.world.ask(creation) {
            Some(DryRunAnswer::Result(DryRunResult::Created)) => {}
            _ => return Standing::Open(may_be_forced(object, &message)),
        }
        match self.of_recreation(object, &message) {
            Standing::Holds => replaced(DryRunResult::Recreated(message)),
            standing => standing,
        }
    }

    /// Returns what a run does with an object that the server accepts now, and calls invalid later with this message.
    pub(super) fn forced(&self, object: &AppliedObject, message: &str) -> Forced {
        let live = self.world.state.live_object(&object.id).filter(|live| object.forces(Some(live)));
        let Some(live) = live else { return Forced::Stays(message.to_owned()) };
        if !live.finalizers.is_empty() {
            return Forced::Open(may_be_forced(object, message));
        }
        let flags = &self.world.state.input.flags;
        match self.world.ask(Question::of_deletion(&object.owner, &object.spec, &object.id, flags)) {
            Some(DryRunAnswer::Result(DryRunResult::Accepted)) => {}
            Some(DryRunAnswer::Result(DryRunResult::Refused(refusal))) => {
                return Forced::Stays(format!("{message}; {refusal}"));
            }
            _ => return Forced::Open(may_be_forced(object, message)),
        }
        match self.answer(object, Sent::deletion(&object.id), DELETION) {
            Answer::Refused(refusal) => Forced::Stays(format!("{message}; {refusal}")),
            Answer::Open(condition) => Forced::Open(condition),
            Answer::Same => Forced::Deleted,
        }
    }

    /// Returns how far it holds that the server accepts the change of an object that another owner, or an earlier run,
    /// deletes before: it is created then, which other rules and rights decide about.
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
        let order = |event: &Event| self.order(event, object);
        match after_acceptance(&self.world, order, sent) {
            Ruling::Denied(events, _) => {
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

/// Returns the condition of an object that may be deleted by force once the server refuses it.
fn may_be_forced(object: &AppliedObject, message: &str) -> String {
    format!("the server refuses {} later, which may then be deleted by force: {message}", object.built.shown_id())
}

/// Returns true if a message about another object, which a dry-run creates in place of the live one, names the live one
/// as a word.
fn names(message: &str, name: &str) -> bool {
    let is_part = |character: Option<char>| character.is_some_and(|it| it.is_alphanumeric() || it == '-');
    let mut found = message.match_indices(name);
    found.any(|(at, _)| {
        let (before, after) = (&message[..at], &message[at + name.len()..]);
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    })
}
