//! Premises of the answers of the API server. An answer is true of today's cluster. Where the change itself touches
//! what it depends on (a definition, an admission policy, a right, a quota, a port, the object itself), the controller
//! asks again afterwards, and gets another answer.
//!
//! Only what happens while all refusals hold counts at first. What it makes possible counts next, and so on: owners
//! that wait for each other stay refused.
//!
//! Source: docs/reference/kustomize-controller.md 4.2: a failed apply is tried again, and a stage is asked about only
//! once the earlier ones are applied.

mod admission;
pub(super) mod applied_builds;
pub(super) mod asked_change;
pub(super) mod cascades;
mod contests;
mod definitions;
mod event;
mod holders;
mod owners;
mod pods_and_claims;
mod quotas;
mod recreations;
mod rights;
pub(super) mod world;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use self::admission::{Ruling, Sent};
use self::applied_builds::AppliedBuilds;
use self::asked_change::AskedChange;
use self::event::Event;
use self::pods_and_claims::limiting_events;
use self::quotas::{Room, room};
use self::rights::{Rights, rights};
use self::world::{Precedence, World};
use crate::flux::apply::AppliedObject;
use crate::flux::apply::admission::ParameterRef;
use crate::flux::apply::cause::{Cause, Changed, already_allocated, is_of_granting};
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::question::{DryRunAnswer, Question, Request};
use crate::flux::apply::rights::{RBAC, binds, grants};
use crate::flux::apply::schema::Fit;
use crate::flux::apply::update::Update;
use crate::flux::build::objects::defined_kind;
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::questions::{Answers, Needs};
use crate::flux::simulation::model::refusals::Standing;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::rows::applied_objects::applied_ids;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::flux::stages::stage;
use crate::kubernetes::deletion::order::delete_order;
use crate::kubernetes::object::{GroupKind, ObjectId};
use crate::plan::{Action, Actor, Certainty, Plan, ReasonCode};
use crate::text::join_limited;

/// Number of events that a condition names.
const NAMED_EVENTS: usize = 2;

/// Verbs that the deletion of an object needs, and the change of a live one.
const DELETION: &[&str] = &["get", "delete"];
const CHANGE: &[&str] = &["patch"];
const CREATION: &[&str] = &["patch", "create"];

/// Returns the parameters of live admission policies, as far as they were read.
pub(super) fn live_parameters(state: &State<'_>, builds: &AppliedBuilds, answers: &Answers) -> Vec<ParameterRef> {
    World::new(state, builds, answers, vec![]).parameters().to_vec()
}

/// Everything that a plan does, as far as answers can depend on it.
pub(super) struct Premises<'s, 'a> {
    world: World<'s, 'a>,
    /// Positions in the events of the definitions that are applied, by the kind that they define.
    definitions: BTreeMap<(Option<Arc<str>>, GroupKind), usize>,
}

impl<'s, 'a> Premises<'s, 'a> {
    /// Collects what a plan and the answers so far do.
    pub(super) fn new(
        state: &'s State<'a>,
        builds: &'s AppliedBuilds,
        plan: &Plan,
        changes: &[AskedChange],
        answers: &'s Answers,
    ) -> Self {
        let mut events = vec![];
        let applied = applied_ids(state);
        for asked in changes {
            let Request::ApplyBuilt(object) = &asked.question.request else { continue };
            let result = match asked.answer(answers) {
                Some(DryRunAnswer::Result(result)) => Some(asked.result(result)),
                _ => None,
            };
            let is_changed =
                result.is_none_or(|result| !matches!(result, DryRunResult::Unchanged | DryRunResult::Accepted));
            if is_changed && applied.contains(&(&object.owner, &object.id)) {
                let is_certain = is_certain(state, &object.owner) && !matches!(asked.standing, Standing::Open(_));
                let (owner, built) = (Some(owner_id(&object.owner)), Some(object.built.clone()));
                events.push(Event { owner, id: object.id.clone(), is_deleted: false, built, is_certain });
            }
        }
        for row in plan.changes() {
            let is_deleted = row.is_deletion();
            let is_answered = row.by == Actor::KustomizeController && row.reason.code != ReasonCode::NotFollowed;
            if row.action == Action::Keep || (!is_deleted && is_answered) {
                continue;
            }
            let is_certain = row.certainty == Certainty::Certain && row.action != Action::Unknown;
            let (owner, id) = (row.owner.clone(), row.object.id.clone());
            events.push(Event { owner, id, is_deleted, built: None, is_certain });
        }
        // A run with the old spec and one with the new spec apply the same object.
        let mut seen: BTreeSet<(Option<String>, ObjectId, bool)> = BTreeSet::new();
        events.reverse();
        events.retain(|event| {
            let owner = event.owner.as_ref().map(ToString::to_string);
            event.built.is_none() || seen.insert((owner, event.id.clone(), event.is_deleted))
        });
        events.reverse();
        let mut definitions = BTreeMap::new();
        for (at, event) in events.iter().enumerate() {
            if let Some((kind, _)) = event.built.as_ref().and_then(defined_kind) {
                definitions.insert((event.id.cluster.clone(), kind), at);
            }
        }
        Self { world: World::new(state, builds, answers, events), definitions }
    }

    /// Returns what must be read or asked before all answers are known.
    pub(super) fn into_needs(self) -> Needs {
        self.world.needs.into_inner()
    }

    /// Returns how far the answer to a question holds.
    pub(super) fn standing(&self, asked: &AskedChange) -> Standing {
        let Some(DryRunAnswer::Result(result)) = asked.answer(self.world.answers) else { return Standing::Holds };
        if let Request::ApplyBuilt(object) = &asked.question.request
            && let Some(standing) = self.of_address(object, result)
        {
            return standing;
        }
        match (&asked.question.request, result) {
            (
                Request::ApplyBuilt(object),
                DryRunResult::Refused(message)
                | DryRunResult::DeletedOnly(message)
                | DryRunResult::Recreated(message)
                | DryRunResult::ServerFailed(message),
            ) => match self.of_refusal(object, message, result) {
                Standing::Holds if matches!(result, DryRunResult::Recreated(_)) => self.of_recreation(object, message),
                standing => standing,
            },
            (
                Request::ApplyBuilt(object),
                DryRunResult::Created
                | DryRunResult::Updated(_)
                | DryRunResult::NotValidated(_)
                | DryRunResult::Unchanged,
            ) => self.of_acceptance(object),
            (Request::Delete, DryRunResult::Refused(message)) => self.of_refused_deletion(&asked.question, message),
            (Request::Delete, DryRunResult::Accepted) => self.of_accepted_deletion(&asked.question),
            _ => Standing::Holds,
        }
    }

    /// Returns the order of an event and the last apply of an object.
    fn order(&self, event: &Event, object: &AppliedObject) -> Precedence {
        self.world.precedence(event, &object.owner, &object.id)
    }

    /// Returns how far it holds that the server accepts a Service, if another one has its address.
    fn of_address(&self, object: &AppliedObject, result: &DryRunResult) -> Option<Standing> {
        let is_forced = matches!(result, DryRunResult::Recreated(_));
        let is_accepted =
            matches!(result, DryRunResult::Created | DryRunResult::Updated(_) | DryRunResult::NotValidated(_));
        if !is_forced && !is_accepted {
            return None;
        }
        let is_anew = is_forced || !self.world.state.is_live(&object.id);
        let (holder, freeing, address) = holders::address_holder(&self.world, object, is_anew)?;
        // What another owner does after the apply never happens: that owner waits for this one.
        let can_free = freeing.iter().all(|event| {
            self.can_precede(event, object)
                && (event.is_of(&object.owner) || self.order(event, object) != Precedence::After)
        });
        if !freeing.is_empty() && can_free {
            let mut orders = freeing.iter().map(|event| (event.is_certain, self.order(event, object)));
            let is_free = orders.all(|order| order == (true, Precedence::Before));
            return (!is_free).then(|| replaced(object, result.clone(), &freeing));
        }
        let message = already_allocated(address, &holder);
        let refused = if is_forced { DryRunResult::DeletedOnly(message) } else { DryRunResult::Refused(message) };
        Some(Standing::Replaced(Box::new(refused), vec![]))
    }

    /// Returns how far it holds that the server refuses a deletion. The controller tries it again.
    fn of_refused_deletion(&self, question: &Question, message: &str) -> Standing {
        let (owner, id) = (NamespacedName::of(&question.owner), &question.id);
        let mut open = vec![];
        match Cause::of(message) {
            Cause::Policy | Cause::Webhook => {
                match admission::after_refusal(&self.world, message, Sent::deletion(id)) {
                    Some(Ruling::Same) => return Standing::Holds,
                    Some(Ruling::Free(_)) => return Standing::Replaced(Box::new(DryRunResult::Accepted), vec![]),
                    Some(Ruling::Open(events)) => open = events,
                    Some(Ruling::Denied(..)) | None => {}
                }
            }
            Cause::Rights => {
                let account = self.world.account(&owner, question.service_account.as_deref());
                match rights(&self.world, account.as_ref(), DELETION, id) {
                    Some(Rights { after: false, .. }) => return Standing::Holds,
                    Some(Rights { after: true, .. }) => {
                        let spec = KustomizationSpec::new(&json!({}));
                        let as_controller = Question::of_deletion(&owner, &spec, id, &self.world.state.input.flags);
                        if let Some(DryRunAnswer::Result(DryRunResult::Accepted)) = self.world.ask(as_controller) {
                            return Standing::Replaced(Box::new(DryRunResult::Accepted), vec![]);
                        }
                    }
                    None => {}
                }
            }
            _ => {}
        }
        // A run applies everything before it deletes.
        let mut events = self.events_of(message, id, |event| !event.is_deleted || !event.is_of(&owner));
        events.retain(|event| event.role().is_none_or(|role| self.grants(role, id)));
        let events = if events.is_empty() { open } else { events };
        match events.as_slice() {
            [] => Standing::Holds,
            events => Standing::Open(format!("{message}; it may be allowed after {}", clauses(events))),
        }
    }

    /// Returns how far it holds that the server accepts a deletion.
    fn of_accepted_deletion(&self, question: &Question) -> Standing {
        let (owner, id) = (NamespacedName::of(&question.owner), &question.id);
        let of_definition = self.deletion_after_definition(question);
        if of_definition != Standing::Holds {
            return of_definition;
        }
        let order = |event: &Event| self.world.precedence(event, &owner, id);
        match admission::after_acceptance(&self.world, order, Sent::deletion(id)) {
            Ruling::Denied(events, _) => {
                let message = format!("an admission policy denies it after {}", clauses(&events));
                return Standing::Replaced(Box::new(DryRunResult::Refused(message)), vec![]);
            }
            Ruling::Open(events) => return open_acceptance(&events),
            Ruling::Same | Ruling::Free(_) => {}
        }
        // A run deletes one object after the other.
        let mut lost = admission::lost_services(&self.world, Sent::deletion(id));
        lost.retain(|event| !event.is_of(&owner) || delete_order(&event.id, id) == Ordering::Less);
        if !lost.is_empty() {
            return open_acceptance(&lost);
        }
        let Some(account) = self.world.account(&owner, question.service_account.as_deref()) else {
            return Standing::Holds;
        };
        match rights(&self.world, Some(&account), DELETION, id) {
            Some(Rights { before: true, after: false, events }) => {
                let orders = events.iter().map(|event| self.world.precedence(event, &owner, id));
                if orders.into_iter().any(|order| order == Precedence::Before) {
                    let message = format!("{} may not delete it after {}", user(&account), clauses(&events));
                    return Standing::Replaced(Box::new(DryRunResult::Refused(message)), vec![]);
                }
                open_acceptance(&events)
            }
            Some(Rights { before: true, .. }) => Standing::Holds,
            // Something else gives the right that it has.
            Some(_) | None => {
                let takes =
                    |event: &&Event| self.takes_the_right(event, id) || self.takes_the_binding(event, &account, id);
                let lost = self.world.events.iter().find(takes);
                lost.map_or(Standing::Holds, |event| open_acceptance(&[event]))
            }
        }
    }

    /// Returns true if a role gives the right to delete an object.
    fn grants(&self, role: &Value, id: &ObjectId) -> bool {
        self.world.state.input.snapshot.type_of(id).is_none_or(|kind| grants(role, "delete", kind, id))
    }

    /// Returns true if a role that an event applies gave the right to delete an object, and gives it no more.
    fn takes_the_right(&self, event: &Event, id: &ObjectId) -> bool {
        let (Some(role), Some(built), Some(owner)) = (event.role(), &event.built, event.kustomization()) else {
            return false;
        };
        let Some(rules) = self.world.builds.value(&owner, built, "/rules") else { return false };
        event.is_near(id) && self.grants(&json!({"rules": rules}), id) && !self.grants(role, id)
    }

    /// Returns true if an event deletes a binding of an account, or gives it to another role or to others.
    fn takes_the_binding(&self, event: &Event, account: &NamespacedName, id: &ObjectId) -> bool {
        let ObjectId { group, kind, namespace, name, .. } = &event.id;
        if &**group != RBAC || !kind.ends_with("Binding") || !event.is_near(id) {
            return false;
        }
        let Some(Some(live)) = self.world.read(rights::VERSION, kind, namespace, name) else { return false };
        let stays = event.manifest().is_some_and(|new| {
            binds(&event.id, new, account) && new.pointer("/roleRef/name") == live.pointer("/roleRef/name")
        });
        binds(&event.id, live, account) && !stays
    }

    /// Returns how far a refusal of an object holds.
    fn of_refusal(&self, object: &AppliedObject, message: &str, result: &DryRunResult) -> Standing {
        let shown = object.built.shown_id();
        let events = self.events_of(message, &object.id, |event| self.can_precede(event, object));
        if events.is_empty() {
            if let Some(standing) = self.after_expiry(object, message, result) {
                return standing;
            }
            return match result {
                DryRunResult::ServerFailed(_) => Standing::Open(format!("the server fails at {shown} now: {message}")),
                _ => Standing::Holds,
            };
        }
        if let Some(definition) = self.definition(&object.id)
            && events.iter().all(|event| event.id == definition.id)
        {
            match self.fit(object, definition) {
                Fit::Valid if definition.is_certain => return self.accepted(object, &[definition]),
                Fit::Invalid(_) => return Standing::Holds,
                Fit::Valid | Fit::Unknown(_) => {}
            }
        }
        let decided = match Cause::of(message) {
            Cause::Policy | Cause::Webhook => self.after_rules(object, message),
            Cause::Rights => self.after_rights(object, message),
            Cause::Allocation => self.after_allocations(object),
            Cause::Value => self.after_deletion(object, &events, result),
            Cause::Quota => self.after_quotas(object),
            Cause::Unknown => self.after_classes(object, &events),
        };
        // What the controller deletes by force is gone unless the refusal ends before its first try.
        let is_forced = matches!(result, DryRunResult::Recreated(_) | DryRunResult::DeletedOnly(_));
        let is_late = events.iter().any(|event| self.order(event, object) != Precedence::Before);
        let fails = matches!(result, DryRunResult::ServerFailed(_));
        match decided {
            Some(Standing::Replaced(..)) if is_forced && is_late => {}
            Some(Standing::Holds) if fails => {}
            Some(standing) => return standing,
            None => {}
        }
        Standing::Open(format!(
            "the server refuses {shown} now, and may accept it after {}: {message}",
            clauses(&events)
        ))
    }

    /// Returns how far a refusal to change a Job holds that Kubernetes deletes some time after it has finished; `None`
    /// if it does not. The controller tries again, and creates it anew then.
    fn after_expiry(&self, object: &AppliedObject, message: &str, result: &DryRunResult) -> Option<Standing> {
        let id = &object.id;
        let is_refused = matches!(result, DryRunResult::Refused(_)) && Cause::of(message) == Cause::Value;
        if !(is_refused && id.is_here("batch", "Job")) {
            return None;
        }
        let live = self.world.read("batch/v1", "Job", &id.namespace, &id.name)??;
        let seconds = live.pointer("/spec/ttlSecondsAfterFinished")?.as_u64()?;
        let shown = object.built.shown_id();
        Some(Standing::Open(format!(
            "the server refuses {shown} now, and accepts it once Kubernetes has deleted the old Job, {seconds} s after that has \
             finished: {message}"
        )))
    }

    /// Returns the standing of a refusal after which the server accepts an object.
    fn accepted(&self, object: &AppliedObject, events: &[&Event]) -> Standing {
        let result = match self.world.state.live_object(&object.id) {
            Some(_) => DryRunResult::Updated(Update {
                reason: ReasonCode::Changed.into(),
                diff: String::new(),
                changes_content: true,
            }),
            None => DryRunResult::Created,
        };
        replaced(object, result, events)
    }

    /// Returns how far a refusal by a policy or a webhook holds; `None` if that is not known.
    fn after_rules(&self, object: &AppliedObject, message: &str) -> Option<Standing> {
        match admission::after_refusal(&self.world, message, Sent::apply(&self.world, object))? {
            Ruling::Same => Some(Standing::Holds),
            Ruling::Free(events) if events.iter().all(|event| self.can_precede(event, object)) => {
                Some(self.accepted(object, &events))
            }
            _ => None,
        }
    }

    /// Returns how far a refusal for want of a right holds; `None` if that is not known. With the right, the server
    /// gives the controller the answer that it gives to itself.
    fn after_rights(&self, object: &AppliedObject, message: &str) -> Option<Standing> {
        let account = self.account_of(object)?;
        let Rights { before, after, mut events } = rights(&self.world, Some(&account), self.verbs(object), &object.id)?;
        if !after {
            return Some(Standing::Holds);
        }
        if is_of_granting(message) {
            let precedes = |event: &Event| self.can_precede(event, object);
            let Some(granting) = rights::granting_events(&self.world, &account, object, precedes)? else {
                return Some(Standing::Holds);
            };
            if before {
                events.clear();
            }
            events.extend(granting);
        }
        if !events.iter().all(|event| self.can_precede(event, object)) {
            return None;
        }
        let mut spec = object.spec.value().clone();
        spec.as_object_mut()?.remove("serviceAccountName");
        let as_controller = AppliedObject { spec: KustomizationSpec::new(&spec), ..object.clone() };
        match self.world.ask(Question::of_apply(as_controller, &self.world.state.input.flags))? {
            DryRunAnswer::Result(
                result @ (DryRunResult::Created | DryRunResult::Updated(_) | DryRunResult::Unchanged),
            ) => Some(replaced(object, result.clone(), &events)),
            _ => None,
        }
    }

    /// Returns how far a refusal holds because another Service has a port; `None` if that is not known.
    fn after_allocations(&self, object: &AppliedObject) -> Option<Standing> {
        if object.id.cluster.is_some() {
            return None;
        }
        let freeing = holders::freeing(&self.world, object)?;
        if freeing.is_empty() {
            return Some(Standing::Holds);
        }
        if !(freeing.iter().all(|event| self.can_precede(event, object)) && admission::is_free(&self.world, object)) {
            return None;
        }
        // The server validates a Service only once it has its ports.
        self.accepted_without(object, &freeing, |manifest| {
            let ports = manifest.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
                port.remove("nodePort");
            }
            if let Some(spec) = manifest.pointer_mut("/spec").and_then(Value::as_object_mut) {
                spec.remove("healthCheckNodePort");
            }
        })
    }

    /// Returns how far a refusal holds of a Pod whose class is missing, or of a second default class; `None` if that is
    /// not known.
    fn after_classes(&self, object: &AppliedObject, events: &[&Event]) -> Option<Standing> {
        let [event] = events else { return None };
        let is_pod = object.id.is("", "Pod") && !event.is_deleted;
        let is_default = event.manifest().is_some_and(|manifest| manifest["globalDefault"] == true);
        let (place, field) = match &*event.id.kind {
            "PriorityClass" if object.id.group_kind() == event.id.group_kind() && !is_default => ("", "globalDefault"),
            "PriorityClass" if is_pod => ("/spec", "priorityClassName"),
            "RuntimeClass" if is_pod => ("/spec", "runtimeClassName"),
            _ => return None,
        };
        event.is_certain.then(|| {
            self.accepted_without(object, events, |manifest| {
                if let Some(fields) = manifest.pointer_mut(place).and_then(Value::as_object_mut) {
                    fields.remove(field);
                }
            })
        })?
    }

    /// Returns how far a refusal holds that events end: the server is asked about the object without the fields that it
    /// is refused for.
    fn accepted_without(
        &self,
        object: &AppliedObject,
        events: &[&Event],
        remove: impl FnOnce(&mut Value),
    ) -> Option<Standing> {
        let mut other = object.clone();
        remove(Arc::make_mut(&mut other.built.manifest));
        match self.world.ask(Question::of_apply(other, &self.world.state.input.flags))? {
            DryRunAnswer::Result(DryRunResult::Refused(_)) => Some(Standing::Holds),
            DryRunAnswer::Result(DryRunResult::Created | DryRunResult::Updated(_) | DryRunResult::Unchanged) => {
                Some(self.accepted(object, events))
            }
            _ => None,
        }
    }

    /// Returns how far a refusal by a quota holds; `None` if that is not known.
    fn after_quotas(&self, object: &AppliedObject) -> Option<Standing> {
        match room(&self.world, object)? {
            Room::Enough(events) if events.is_empty() => None,
            Room::Enough(events) => Some(self.accepted(object, &events)),
            Room::Full(_) => Some(Standing::Holds),
            Room::Unknown(_) => None,
        }
    }

    /// Returns how far a refusal of a changed value holds if the live object is deleted; `None` if that is not known,
    /// or if it is not deleted.
    fn after_deletion(&self, object: &AppliedObject, events: &[&Event], result: &DryRunResult) -> Option<Standing> {
        let [event] = events else { return None };
        if !event.is_deleted || event.id != object.id || !event.is_certain {
            return None;
        }
        if matches!(result, DryRunResult::Recreated(_)) {
            // Whoever deletes it, it is created again.
            return Some(Standing::Holds);
        }
        match self.world.ask(Question::of_creation(object.clone(), &self.world.state.input.flags))? {
            DryRunAnswer::Result(DryRunResult::Created) => Some(replaced(object, DryRunResult::Created, &[event])),
            DryRunAnswer::Result(DryRunResult::Refused(_)) => Some(Standing::Holds),
            _ => None,
        }
    }

    /// Returns the service account of a run that applies an object; `None` for the account of the controller.
    fn account_of(&self, object: &AppliedObject) -> Option<NamespacedName> {
        self.world.account(&object.owner, self.world.state.input.flags.service_account(&object.spec))
    }

    fn verbs(&self, object: &AppliedObject) -> &'static [&'static str] {
        if self.world.state.is_live(&object.id) { CHANGE } else { CREATION }
    }

    /// Returns how far it holds that the server accepts an object.
    fn of_acceptance(&self, object: &AppliedObject) -> Standing {
        let id = &object.id;
        if object.is_skipped(self.world.state.live_object(id)) {
            return Standing::Holds;
        }
        let shown = object.built.shown_id();
        let of_definition = self.after_definition(object);
        if of_definition != Standing::Holds {
            return of_definition;
        }
        let order = |event: &Event| self.order(event, object);
        match admission::after_acceptance(&self.world, order, Sent::apply(&self.world, object)) {
            Ruling::Denied(events, is_invalid) => {
                let message = format!("an admission policy denies it after {}", clauses(&events));
                return self.of_denial(object, message, is_invalid);
            }
            Ruling::Open(events) => {
                let changed = clauses(&events);
                return Standing::Open(format!("the server accepts {shown} now, and may refuse it after {changed}"));
            }
            Ruling::Same | Ruling::Free(_) => {}
        }
        for standing in [self.of_moved(object), self.of_contest(object, false)] {
            if standing != Standing::Holds {
                return standing;
            }
        }
        match room(&self.world, object) {
            Some(Room::Full(message)) => {
                return Standing::Replaced(Box::new(DryRunResult::Refused(message)), vec![]);
            }
            Some(Room::Unknown(quota)) => {
                let detail = format!("the quota {quota} may not leave room for {shown} and what else is created");
                return Standing::Open(detail);
            }
            Some(Room::Enough(_)) | None => {}
        }
        let mut limiting = limiting_events(&self.world, object);
        let mut lost = admission::lost_services(&self.world, Sent::apply(&self.world, object));
        lost.retain(|event| self.can_precede(event, object) && self.order(event, object) != Precedence::After);
        limiting.extend(lost);
        if !limiting.is_empty() {
            let changed = clauses(&limiting);
            return Standing::Open(format!("the server accepts {shown} now, and may refuse it after {changed}"));
        }
        let Some(account) = self.account_of(object) else { return Standing::Holds };
        match rights(&self.world, Some(&account), self.verbs(object), id) {
            Some(Rights { before: true, after: false, events }) => {
                let orders: Vec<Precedence> = events.iter().map(|event| self.order(event, object)).collect();
                let changed = clauses(&events);
                if orders.contains(&Precedence::Before) {
                    let message = format!("{} may not change it after {changed}", user(&account));
                    return Standing::Replaced(Box::new(DryRunResult::Refused(message)), vec![]);
                }
                if orders.iter().all(|order| *order == Precedence::After) {
                    return Standing::Holds;
                }
                Standing::Open(format!("the server accepts {shown} now, and may refuse it after {changed}"))
            }
            _ => Standing::Holds,
        }
    }

    /// Returns the events among those that are `considered` that can change the answer to a request about an object.
    fn events_of(&self, message: &str, id: &ObjectId, considered: impl Fn(&Event) -> bool) -> Vec<&Event> {
        let (cause, definition) = (Cause::of(message), self.world.state.definition_of(id));
        let premises = self.world.events.iter().filter(|event| {
            let changed = Changed { id: &event.id, is_deleted: event.is_deleted };
            let is_parameter = cause == Cause::Policy && admission::is_parameter(&self.world, event, &id.namespace);
            considered(event) && (is_parameter || cause.depends_on(message, id, definition.as_ref(), &changed))
        });
        premises.collect()
    }

    /// Returns true if an event can come before an object is applied: another owner causes it, an earlier stage of the
    /// same run, or an earlier run.
    fn can_precede(&self, event: &Event, object: &AppliedObject) -> bool {
        let custom = &self.world.state.input.flags.custom_stage_kinds;
        if !event.is_of(&object.owner) {
            return true;
        }
        if event.is_deleted {
            return self.world.was_pruned_before(&object.owner, &object.spec, &event.id);
        }
        stage(&event.id, custom) < stage(&object.id, custom)
    }
}

/// Returns the standing of an answer that is another one after these events.
fn replaced(object: &AppliedObject, result: DryRunResult, events: &[&Event]) -> Standing {
    let others = events.iter().filter(|event| !event.is_of(&object.owner));
    Standing::Replaced(Box::new(result), others.filter_map(|event| event.premise()).collect())
}

/// Returns the standing of a deletion that is allowed now.
fn open_acceptance(events: &[&Event]) -> Standing {
    Standing::Open(format!("it is allowed now, and may be refused after {}", clauses(events)))
}

/// Returns a service account as a user.
fn user(account: &NamespacedName) -> String {
    format!("serviceaccount/{} -n {}", account.name, account.namespace)
}

/// Returns true if the last run of a Kustomization happens in every order of events.
fn is_certain(state: &State<'_>, key: &NamespacedName) -> bool {
    state.last_pass(key).is_some_and(|pass| !pass.is_optional && pass.condition.is_none())
}

fn clauses(events: &[&Event]) -> String {
    let clauses: BTreeSet<String> = events.iter().map(|event| event.clause()).collect();
    join_limited(clauses, NAMED_EVENTS)
}
