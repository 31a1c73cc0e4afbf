//! Definitions that the change applies: what their schemas make of resources, and conversions that nobody answers.
//!
//! Source: Kubernetes v1.36.3 `apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`: each request for
//! another version than the stored one is converted, and so is what was stored in another one; both fail without an
//! answer.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::event::Event;
use super::world::Precedence;
use super::{Premises, open_acceptance};
use crate::flux::apply::AppliedObject;
use crate::flux::apply::cause::HIDDEN_MESSAGE;
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::question::Question;
use crate::flux::apply::schema::{Doubt, Fit, Live, Misfit, validate};
use crate::flux::simulation::model::refusals::Standing;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{ObjectId, list_at, text_at};

impl Premises<'_, '_> {
    /// Returns the definition of the kind of an object, if the change applies it.
    pub(super) fn definition(&self, id: &ObjectId) -> Option<&Event> {
        let at = self.definitions.get(&(id.cluster.clone(), id.group_kind()))?;
        self.world.events.get(*at)
    }

    /// Returns how an object fits a definition.
    pub(super) fn fit(&self, object: &AppliedObject, definition: &Event) -> Fit {
        let Some(manifest) = definition.manifest() else { return Fit::Unknown(BTreeSet::new()) };
        self.fit_by(object, manifest)
    }

    /// Returns how an object fits the manifest of a definition.
    fn fit_by(&self, object: &AppliedObject, definition: &Value) -> Fit {
        let validate = |live| validate(&object.built.manifest, definition, &object.built.version, live);
        if !self.world.state.is_live(&object.id) {
            return validate(Live::Absent);
        }
        match validate(Live::Unread) {
            Fit::Valid => Fit::Valid,
            fit => self.live_resource(object).map_or(fit, |live| validate(Live::Read(live))),
        }
    }

    /// Returns the live object in the version in which an object is applied, as far as it is known.
    fn live_resource(&self, object: &AppliedObject) -> Option<&Value> {
        let id = &object.id;
        let is_read = id.cluster.is_none() && !object.live_is_private;
        is_read.then(|| {
            self.world.read(text_at(&object.built.manifest, "/apiVersion"), &id.kind, &id.namespace, &id.name)
        })??
    }

    /// Returns how far it holds that the server accepts an object whose definition changes.
    pub(super) fn after_definition(&self, object: &AppliedObject) -> Standing {
        let Some(definition) = self.definition(&object.id) else { return Standing::Holds };
        if let Some(failure) = self.unanswered_conversion(definition, &object.id, &object.built.version) {
            return match failure {
                Unanswered::Always(message) => self.after_applied(definition, object, DryRunResult::Refused(message)),
                Unanswered::Perhaps(message) => self.after_open(definition, object, &message),
            };
        }
        let misfit = match self.fit(object, definition) {
            Fit::Valid => return Standing::Holds,
            Fit::Unknown(doubts) => return self.in_doubt(definition, object, doubts),
            Fit::Invalid(misfit) => misfit,
        };
        // The message can quote both.
        let message = if is_masked(definition, object) { HIDDEN_MESSAGE } else { &*misfit.message };
        let Some(result) = self.refused(object, definition, &misfit, message) else {
            return open_definition(definition, object, message);
        };
        let refused = self.after_applied(definition, object, result);
        let is_compared = !self.world.state.is_live(&object.id) || self.live_resource(object).is_some();
        if !matches!(refused, Standing::Replaced(..)) || is_compared || misfit.stays() {
            return refused;
        }
        // The server accepts an invalid value that does not change.
        match self.world.builds.value(&object.owner, &object.built, &misfit.pointer) {
            Some(before) if object.built.manifest.pointer(&misfit.pointer) == Some(before) => Standing::Holds,
            Some(_) => refused,
            None => open_definition(definition, object, message),
        }
    }

    /// Returns the standing of an object about which the definition has keywords that are not decided here. Of those
    /// that it had before, the dry-run tells.
    fn in_doubt(&self, definition: &Event, object: &AppliedObject, mut doubts: BTreeSet<Doubt>) -> Standing {
        let is_new_kind = self.world.state.input.snapshot.type_of(&object.id).is_none();
        if let Some(Fit::Unknown(known)) =
            self.former(definition).filter(|_| !is_new_kind).map(|former| self.fit_by(object, &former))
        {
            doubts.retain(|doubt| !known.contains(doubt));
        }
        let Some(doubt) = doubts.first() else { return Standing::Holds };
        let reason = if is_masked(definition, object) { HIDDEN_MESSAGE } else { &*doubt.reason };
        self.after_open(definition, object, &format!("the definition {reason}"))
    }

    /// Returns a definition as it is now, as far as it is known.
    pub(super) fn former(&self, definition: &Event) -> Option<Cow<'_, Value>> {
        let ObjectId { kind, namespace, name, cluster, .. } = &definition.id;
        if cluster.is_none() {
            return self.world.read("apiextensions.k8s.io/v1", kind, namespace, name)?.map(Cow::Borrowed);
        }
        let spec = self.world.builds.value(&definition.kustomization()?, definition.built.as_ref()?, "/spec")?;
        Some(Cow::Owned(json!({"spec": spec})))
    }

    /// Returns what the server refuses: with force, the controller deletes what it may not change. `None` if it is not
    /// known what becomes of it then.
    fn refused(
        &self,
        object: &AppliedObject,
        definition: &Event,
        misfit: &Misfit,
        message: &str,
    ) -> Option<DryRunResult> {
        let message = message.to_owned();
        let live = self.world.state.live_object(&object.id);
        if live.is_none() || misfit.stays() || !object.forces(live) {
            return Some(DryRunResult::Refused(message));
        }
        let own = &object.built;
        match validate(&own.manifest, definition.manifest()?, &own.version, Live::Absent) {
            Fit::Valid => Some(DryRunResult::Recreated(message)),
            Fit::Invalid(_) => Some(DryRunResult::DeletedOnly(message)),
            Fit::Unknown(_) => None,
        }
    }

    /// Returns the standing of an answer that is another one once a definition is applied. A resource comes after its
    /// definition.
    fn after_applied(&self, definition: &Event, object: &AppliedObject, result: DryRunResult) -> Standing {
        let message = match &result {
            DryRunResult::Refused(message) | DryRunResult::Recreated(message) | DryRunResult::DeletedOnly(message) => {
                message.clone()
            }
            _ => String::new(),
        };
        let is_new_kind = self.world.state.input.snapshot.type_of(&object.id).is_none();
        match self.world.precedence(definition, &object.owner, &object.id) {
            Precedence::After if !is_new_kind => Standing::Holds,
            Precedence::Unknown if !is_new_kind => open_definition(definition, object, &message),
            _ if !definition.is_certain => open_definition(definition, object, &message),
            _ => Standing::Replaced(Box::new(result), vec![]),
        }
    }

    /// Returns the standing of an answer that may be another one once a definition is applied.
    fn after_open(&self, definition: &Event, object: &AppliedObject, message: &str) -> Standing {
        let is_new_kind = self.world.state.input.snapshot.type_of(&object.id).is_none();
        match self.world.precedence(definition, &object.owner, &object.id) {
            Precedence::After if !is_new_kind => Standing::Holds,
            _ => {
                let (shown, changed) = (object.built.shown_id(), definition.clause());
                Standing::Open(format!("the server may refuse {shown} after {changed}: {message}"))
            }
        }
    }

    /// Returns how far it holds that the server accepts the deletion of a resource whose definition changes.
    pub(super) fn deletion_after_definition(&self, question: &Question) -> Standing {
        let (owner, id) = (NamespacedName::of(&question.owner), &question.id);
        let kind = self.world.state.input.snapshot.type_of(id);
        let failure = self.definition(id).zip(kind).and_then(|(definition, kind)| {
            Some((definition, self.unanswered_conversion(definition, id, &kind.version)?))
        });
        let Some((definition, failure)) = failure else { return Standing::Holds };
        match (self.world.precedence(definition, &owner, id), failure) {
            (Precedence::Before, Unanswered::Always(message)) if definition.is_certain => {
                Standing::Replaced(Box::new(DryRunResult::Refused(message)), vec![])
            }
            (Precedence::After, _) if !definition.is_of(&owner) => Standing::Holds,
            _ => open_acceptance(&[definition]),
        }
    }

    /// Returns why the server cannot convert a resource once a definition is applied: the Service of its webhook does
    /// not exist and the change does not create it, or the change names an address. A resource is converted if it is
    /// sent in another version than the stored one, or was stored in another one.
    fn unanswered_conversion(&self, definition: &Event, id: &ObjectId, version: &str) -> Option<Unanswered> {
        let manifest = definition.manifest()?;
        let conversion = manifest.pointer("/spec/conversion").filter(|it| it["strategy"] == "Webhook")?;
        let is_stored_alike = stored_version(manifest)? == version;
        if is_stored_alike && !self.world.state.is_live(id) {
            return None;
        }
        let former = self.former(definition);
        let was_stored_alike = former.as_deref().and_then(stored_version).is_none_or(|stored| stored == version);
        if is_stored_alike && was_stored_alike {
            return None;
        }
        let Some(service) = conversion.pointer("/webhook/clientConfig/service") else {
            let is_new = former.is_none_or(|former| former.pointer("/spec/conversion") != Some(conversion));
            return is_new.then(|| Unanswered::Perhaps("its conversion webhook may not answer".to_owned()));
        };
        let service = ObjectId::new("", "Service", text_at(service, "/namespace"), text_at(service, "/name"));
        let mut events = self.world.events.iter();
        if !self.world.state.input.snapshot.lacks(&service) || events.any(|event| event.id == service) {
            return None;
        }
        let message = format!("{} has a conversion webhook, and its {service} does not exist", definition.id);
        // A resource that was not written since may be stored in an older version.
        let stored = former.as_deref().map_or(&[][..], |former| list_at(former, "/status/storedVersions"));
        let is_certain = !is_stored_alike || !stored.iter().any(|stored| stored == version);
        Some(if is_certain { Unanswered::Always(message) } else { Unanswered::Perhaps(message) })
    }
}

/// A conversion that nobody answers.
#[derive(Debug)]
enum Unanswered {
    Always(String),
    Perhaps(String),
}

/// Returns the version in which resources of a definition are stored.
fn stored_version(definition: &Value) -> Option<&str> {
    let mut versions = list_at(definition, "/spec/versions").iter();
    versions.find(|version| version["storage"] == true)?["name"].as_str()
}

/// Returns true if a definition or an object holds values of Secrets.
fn is_masked(definition: &Event, object: &AppliedObject) -> bool {
    definition.built.iter().chain([&object.built]).any(|built| built.masked.is_some())
}

/// Returns the standing of an object that the server accepts now and refuses after its definition.
fn open_definition(definition: &Event, object: &AppliedObject, message: &str) -> Standing {
    let (shown, changed) = (object.built.shown_id(), definition.clause());
    Standing::Open(format!("the server accepts {shown} now, and refuses it after {changed}: {message}"))
}
