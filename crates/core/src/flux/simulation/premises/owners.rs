//! Answers to requests of other owners than Kustomizations. Such an owner is in no order with others, so whatever the
//! change makes of an accepted request is a condition.

use std::sync::Arc;

use serde_json::Value;

use super::admission::{self, Ruling, Sent};
use super::event::Event;
use super::rights::{self, Rights, rights};
use super::world::Precedence;
use super::{Premises, clauses};
use crate::flux::apply::admission::ADMISSION_V1;
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::question::{DryRunAnswer, Question, Request};
use crate::flux::apply::rights::{RBAC, binds, grants};
use crate::flux::apply::schema::{Fit, Live, validate};
use crate::flux::simulation::model::owner_names::flux_owner;
use crate::flux::simulation::model::refusals::OwnerDoubts;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{ObjectId, text_at};

/// Verbs that a request of another owner needs: helm-controller and flux-operator first read the object.
const DELETION: &[&str] = &["get", "delete"];
const CHANGE: &[&str] = &["get", "patch"];
const CREATION: &[&str] = &["get", "patch", "create"];

impl Premises<'_, '_> {
    /// Returns the requests of owners that the server accepts now and may refuse while the change is carried out.
    pub(in crate::flux::simulation) fn owner_doubts(&self, questions: &[Question]) -> OwnerDoubts {
        let doubts = questions.iter().filter_map(|question| Some((question.key().clone(), self.doubt(question)?)));
        doubts.collect()
    }

    /// Returns the condition under which the server refuses a request that it accepts now, as a clause for people;
    /// `None` if the change touches nothing that the answer depends on.
    fn doubt(&self, question: &Question) -> Option<Arc<str>> {
        let result = match self.world.answers.dry_runs.get(question.key())? {
            DryRunAnswer::Result(
                result @ (DryRunResult::Accepted | DryRunResult::Unchanged | DryRunResult::Updated(_)),
            ) => result,
            _ => return None,
        };
        let id = &question.id;
        let sent = match &question.request {
            Request::Apply { manifest, .. } | Request::Record(manifest) => {
                let known = Sent::manifest(&self.world, id, manifest);
                if question.is_private { known.hidden() } else { known }
            }
            Request::Delete => Sent::deletion(id),
            Request::ApplyBuilt(_) | Request::Create(_) | Request::Read => return None,
        };
        let mut events = vec![];
        let order = |event: &Event| if is_by(event, question) { Precedence::After } else { Precedence::Unknown };
        if let Ruling::Open(coming) = admission::after_acceptance(&self.world, order, sent) {
            events.extend(coming.into_iter().filter(|event| self.may_concern(event, sent)));
        }
        events.extend(self.lost_rights(question));
        events.extend(self.narrowed_definition(question, result));
        events.extend(admission::lost_services(&self.world, sent));
        events.retain(|event| !is_by(event, question));
        let what = if matches!(question.request, Request::Delete) { "the deletion of " } else { "" };
        let shown = if question.is_private { "an object".to_owned() } else { id.to_string() };
        (!events.is_empty()).then(|| format!("the API server refuses {what}{shown} after {}", clauses(&events)).into())
    }

    /// Returns false if the webhooks that another owner than a Kustomization applies are not asked about a request
    /// anew.
    fn may_concern(&self, event: &Event, sent: Sent<'_>) -> bool {
        let ObjectId { kind, name, .. } = &event.id;
        if event.manifest().is_some() || !admission::WEBHOOKS.contains(&&**kind) {
            return true;
        }
        let applied = self.world.state.owner_applies().find_map(|(_, applies)| applies.objects.get(&event.id));
        let is_live = self.world.state.is_live(&event.id);
        let before = if is_live { self.world.read(ADMISSION_V1, kind, "", name).flatten() } else { None };
        applied.is_none_or(|built| admission::asks_anew(&self.world, before, &built.manifest, sent))
    }

    /// Returns the events that take from the account of an owner the right to a request.
    fn lost_rights(&self, question: &Question) -> Vec<&Event> {
        let id = &question.id;
        let verbs = match question.request {
            Request::Delete => DELETION,
            _ if self.world.state.is_live(id) => CHANGE,
            _ => CREATION,
        };
        let account = self.world.account(&NamespacedName::of(&question.owner), question.service_account.as_deref());
        let Some(account) = account.filter(|_| id.cluster.is_none()) else { return vec![] };
        match rights(&self.world, Some(&account), verbs, id) {
            Some(Rights { before: true, after: false, events }) => events,
            Some(_) => vec![],
            // What the change makes of some role is not known.
            None => {
                let events = self.world.events.iter();
                events.filter(|event| self.may_take(event, &account, verbs, id)).collect()
            }
        }
    }

    /// Returns true if an event changes or deletes a live role that gives a right, or a live binding of an account.
    fn may_take(&self, event: &Event, account: &NamespacedName, verbs: &[&str], id: &ObjectId) -> bool {
        let ObjectId { group, kind, namespace, name, .. } = &event.id;
        if &**group != RBAC || !event.is_near(id) || !self.world.state.is_live(&event.id) {
            return false;
        }
        let Some(Some(live)) = self.world.read(rights::VERSION, kind, namespace, name) else { return false };
        if kind.ends_with("Binding") {
            return binds(&event.id, live, account);
        }
        let served = self.world.state.input.snapshot.type_of(id);
        let gives = |role: &Value, verb: &str| served.is_none_or(|served| grants(role, verb, served, id));
        verbs.iter().any(|verb| gives(live, verb) && !event.role().is_some_and(|role| gives(role, verb)))
    }

    /// Returns the event that applies a definition which does not accept the manifest of a request.
    fn narrowed_definition(&self, question: &Question, result: &DryRunResult) -> Option<&Event> {
        let Request::Apply { manifest, .. } = &question.request else { return None };
        let event = self.definition(&question.id)?;
        let version = text_at(manifest, "/apiVersion").rsplit('/').next().unwrap_or_default();
        let live = if self.world.state.is_live(&question.id) { Live::Unread } else { Live::Absent };
        let fit = |definition: &Value| validate(manifest, definition, version, live);
        let is_accepted = match fit(event.manifest()?) {
            Fit::Valid => true,
            // The server accepts an invalid value that does not change.
            Fit::Invalid(misfit) => matches!(result, DryRunResult::Unchanged) && !misfit.stays(),
            Fit::Unknown(mut doubts) => {
                if let Some(Fit::Unknown(known)) = self.former(event).map(|former| fit(&former)) {
                    doubts.retain(|doubt| !known.contains(doubt));
                }
                doubts.is_empty()
            }
        };
        (!is_accepted).then_some(event)
    }
}

/// Returns true if the owner that sends a request causes an event.
fn is_by(event: &Event, question: &Question) -> bool {
    event.owner.as_ref() == Some(&flux_owner(&question.owner))
}
