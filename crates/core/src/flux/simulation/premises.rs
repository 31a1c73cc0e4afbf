//! Premises of the answers of the API server. An answer is true of today's cluster. Where the change itself touches what it
//! depends on (a definition, an admission policy, a right, a quota, a port, the object itself), the controller asks again
//! afterwards, and gets another answer.
//!
//! Only what happens while all refusals hold counts at first. What it makes possible counts next, and so on: owners that
//! wait for each other stay refused.
//!
//! Source: docs/reference/kustomize-controller.md 4.2: a failed apply is tried again, and a stage is asked about only once
//! the earlier ones are applied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::applied_builds::AppliedBuilds;
use super::dry_run::AskedChange;
use super::model::node::{Node, Pass};
use super::model::owner_names::owner_id;
use super::model::questions::Answers;
use super::model::refusals::Standing;
use super::model::state::State;
use crate::flux::apply::AppliedObject;
use crate::flux::apply::cause::{Cause, Changed, HIDDEN_MESSAGE, is_of_schema};
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::question::{DryRunAnswer, Request};
use crate::flux::apply::rights::grants;
use crate::flux::apply::schema::{Fit, validate};
use crate::flux::apply::update::Update;
use crate::flux::build::objects::{BuiltObject, defined_kind};
use crate::flux::simulation::kustomization::containers::definition_of;
use crate::flux::simulation::kustomization::scope::stage;
use crate::flux::simulation::rows::applied_objects::applied_ids;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{GroupKind, ObjectId};
use crate::ownership::OwnerId;
use crate::ownership::schemes::flux_kustomization::KIND;
use crate::plan::{Action, Actor, Certainty, Plan, ReasonCode};
use crate::text::join_limited;

/// Number of events that a condition names.
const NAMED_EVENTS: usize = 2;

/// Something that the change does to an object.
#[derive(Debug)]
struct Event {
    /// Owner that does it, as far as it is known.
    owner: Option<OwnerId>,
    id: ObjectId,
    is_deleted: bool,
    /// Object as it is applied.
    built: Option<BuiltObject>,
    /// It happens in every order of events.
    is_certain: bool,
}

impl Event {
    /// Returns the manifest of a Role or ClusterRole that the event applies.
    fn role(&self) -> Option<&Value> {
        let is_role = &*self.id.group == "rbac.authorization.k8s.io" && self.id.kind.ends_with("Role");
        self.built.as_ref().map(|built| &*built.manifest).filter(|_| is_role)
    }

    /// Returns the event as a clause.
    fn clause(&self) -> String {
        let verb = if self.is_deleted { "deletes" } else { "applies" };
        let shown = self.built.as_ref().map_or(&self.id, BuiltObject::shown_id);
        match &self.owner {
            Some(owner) => format!("{owner} {verb} {shown}"),
            None => format!("{shown} changes"),
        }
    }
}

/// Everything that a plan does, as far as answers can depend on it.
pub(super) struct Premises<'s, 'a> {
    state: &'s State<'a>,
    builds: &'s AppliedBuilds,
    events: Vec<Event>,
    /// Positions in `events` of the definitions that are applied, by the kind that they define.
    definitions: BTreeMap<(Option<Arc<str>>, GroupKind), usize>,
}

impl<'s, 'a> Premises<'s, 'a> {
    /// Collects what a plan and the answers so far do.
    pub(super) fn new(
        state: &'s State<'a>,
        builds: &'s AppliedBuilds,
        plan: &Plan,
        changes: &[AskedChange],
        answers: &Answers,
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
        let mut definitions = BTreeMap::new();
        for (at, event) in events.iter().enumerate() {
            if let Some((kind, _)) = event.built.as_ref().and_then(defined_kind) {
                definitions.insert((event.id.cluster.clone(), kind), at);
            }
        }
        Self { state, builds, events, definitions }
    }

    /// Returns how far the answer to a question holds.
    pub(super) fn standing(&self, asked: &AskedChange, answers: &Answers) -> Standing {
        let Some(DryRunAnswer::Result(result)) = asked.answer(answers) else { return Standing::Holds };
        match (&asked.question.request, result) {
            (
                Request::ApplyBuilt(object),
                DryRunResult::Refused(message)
                | DryRunResult::DeletedOnly(message)
                | DryRunResult::Recreated(message)
                | DryRunResult::ServerFailed(message),
            ) => self.of_refusal(object, message, result),
            (
                Request::ApplyBuilt(object),
                DryRunResult::Created | DryRunResult::Updated(_) | DryRunResult::NotValidated(_),
            ) => self.of_acceptance(object),
            (Request::Delete, DryRunResult::Refused(message)) => {
                let owner = NamespacedName::of(&asked.question.owner);
                let id = &asked.question.id;
                // A run applies everything before it deletes.
                let mut events = self.events_of(message, id, |event| !event.is_deleted || !is_of(event, &owner));
                events.retain(|event| event.role().is_none_or(|role| self.grants(role, id)));
                match events.as_slice() {
                    [] => Standing::Holds,
                    events => Standing::Open(format!("{message}; it may be allowed after {}", clauses(events))),
                }
            }
            (Request::Delete, DryRunResult::Accepted) if asked.question.service_account.is_some() => {
                let lost = self.events.iter().find(|event| self.takes_the_right(event, &asked.question.id));
                lost.map_or(Standing::Holds, |event| {
                    Standing::Open(format!("it is allowed now, and may be refused after {}", event.clause()))
                })
            }
            _ => Standing::Holds,
        }
    }

    /// Returns true if a role gives the right to delete an object.
    fn grants(&self, role: &Value, id: &ObjectId) -> bool {
        self.state.input.snapshot.type_of(id).is_none_or(|kind| grants(role, "delete", kind, id))
    }

    /// Returns true if a role that an event applies gave the right to delete an object, and gives it no more.
    fn takes_the_right(&self, event: &Event, id: &ObjectId) -> bool {
        let (Some(role), Some(built), Some(owner)) = (event.role(), &event.built, &event.owner) else { return false };
        let is_near = event.id.namespace.is_empty() || event.id.namespace == id.namespace;
        let key = NamespacedName { namespace: owner.namespace.clone(), name: owner.name.clone() };
        let Some(rules) = self.builds.value(&key, built, "/rules").filter(|_| is_near) else { return false };
        self.grants(&json!({"rules": rules}), id) && !self.grants(role, id)
    }

    /// Returns how far a refusal of an object holds.
    fn of_refusal(&self, object: &AppliedObject, message: &str, result: &DryRunResult) -> Standing {
        let shown = object.built.shown_id();
        let events = self.events_of(message, &object.id, |event| self.can_precede(event, object));
        if events.is_empty() {
            return match result {
                DryRunResult::ServerFailed(_) => Standing::Open(format!("the server fails at {shown} now: {message}")),
                _ => Standing::Holds,
            };
        }
        if let Some(definition) = self.definition(object)
            && events.iter().all(|event| event.id == definition.id)
        {
            match self.fit(object, definition) {
                Fit::Valid if definition.is_certain => {
                    let accepted = match self.state.live_object(&object.id) {
                        Some(_) => DryRunResult::Updated(Update {
                            reason: ReasonCode::Changed.into(),
                            diff: String::new(),
                            changes_content: true,
                        }),
                        None => DryRunResult::Created,
                    };
                    return Standing::Replaced(Box::new(accepted));
                }
                Fit::Invalid(_) => return Standing::Holds,
                Fit::Valid | Fit::Unknown(_) => {}
            }
        }
        Standing::Open(format!(
            "the server refuses {shown} now, and may accept it after {}: {message}",
            clauses(&events)
        ))
    }

    /// Returns how far it holds that the server accepts an object.
    fn of_acceptance(&self, object: &AppliedObject) -> Standing {
        let Some(definition) = self.definition(object) else { return Standing::Holds };
        let Fit::Invalid(misfit) = self.fit(object, definition) else { return Standing::Holds };
        let message = if object.built.masked.is_some() { HIDDEN_MESSAGE } else { &*misfit.message };
        let (shown, changed) = (object.built.shown_id(), definition.clause());
        let open = Standing::Open(format!("the server accepts {shown} now, and refuses it after {changed}: {message}"));
        if !is_of(definition, &object.owner) || !self.can_precede(definition, object) {
            return open;
        }
        let refused = Standing::Replaced(Box::new(DryRunResult::Refused(message.to_owned())));
        if self.state.live_object(&object.id).is_none() || is_of_schema(&misfit.message) {
            return refused;
        }
        // The server accepts an invalid value that does not change.
        match self.builds.value(&object.owner, &object.built, &misfit.pointer) {
            Some(before) if object.built.manifest.pointer(&misfit.pointer) == Some(before) => Standing::Holds,
            Some(_) => refused,
            None => open,
        }
    }

    /// Returns the definition of the kind of an object, if the change applies it.
    fn definition(&self, object: &AppliedObject) -> Option<&Event> {
        let at = self.definitions.get(&(object.id.cluster.clone(), object.id.group_kind()))?;
        self.events.get(*at)
    }

    fn fit(&self, object: &AppliedObject, definition: &Event) -> Fit {
        let Some(built) = &definition.built else { return Fit::Unknown(String::new()) };
        let is_new = self.state.live_object(&object.id).is_none();
        validate(&object.built.manifest, &built.manifest, &object.built.version, is_new)
    }

    /// Returns the events among those that are `considered` that can change the answer to a request about an object.
    fn events_of(&self, message: &str, id: &ObjectId, considered: impl Fn(&Event) -> bool) -> Vec<&Event> {
        let (cause, definition) = (Cause::of(message), definition_of(self.state, id));
        let is_premise = |event: &&Event| {
            let changed = Changed { id: &event.id, is_deleted: event.is_deleted };
            considered(event) && cause.depends_on(message, id, definition.as_ref(), &changed)
        };
        self.events.iter().filter(is_premise).collect()
    }

    /// Returns true if an event can come before an object is applied: another owner causes it, or an earlier stage of the
    /// same run.
    fn can_precede(&self, event: &Event, object: &AppliedObject) -> bool {
        let custom = &self.state.input.flags.custom_stage_kinds;
        let is_own = is_of(event, &object.owner);
        !is_own || (!event.is_deleted && stage(&event.id, custom) < stage(&object.id, custom))
    }
}

/// Returns true if a Kustomization causes an event.
fn is_of(event: &Event, key: &NamespacedName) -> bool {
    event.owner.as_ref().is_some_and(|owner| {
        &*owner.kind == KIND && (&*owner.namespace, &*owner.name) == (key.namespace.as_str(), key.name.as_str())
    })
}

/// Returns true if the last run of a Kustomization happens in every order of events.
fn is_certain(state: &State<'_>, key: &NamespacedName) -> bool {
    let last = state.nodes.iter().rfind(|node| node.id.key == *key).and_then(Node::last_pass);
    last.is_some_and(|pass: &Pass| !pass.is_optional && pass.condition.is_none())
}

fn clauses(events: &[&Event]) -> String {
    let clauses: BTreeSet<String> = events.iter().map(|event| event.clause()).collect();
    join_limited(clauses, NAMED_EVENTS)
}
