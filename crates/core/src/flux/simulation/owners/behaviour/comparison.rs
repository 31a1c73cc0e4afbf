//! Comparison of objects before and after the change: what the Kustomizations applied last, or what is live, with what
//! they apply now.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::effective_fields::differing_parts;
use crate::flux::build::Interrupt;
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::objects::data::{Data, DataRef, Lookup};
use crate::flux::build::sops::content_without_recipients;
use crate::flux::controller_flags::ControllerFlags;
use crate::flux::simulation::kustomization::derivation::Derivation;
use crate::flux::simulation::model::applications::{Applied, is_foreign};
use crate::flux::simulation::model::state::State;
use crate::flux::spec::{NamespacedName, SourceId};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::schemes::{flux_kustomization, flux_operator};
use crate::private::Private;

/// Result of a computation that lacks an answer, or fails with a reason for the user.
pub(crate) type Asked<T> = Result<T, Interrupt<String>>;

/// Comparison of objects before and after the change.
pub(crate) struct Comparison<'d, 'r, 'a> {
    pub(crate) derivation: &'d mut Derivation<'r, 'a>,
    /// Descriptions of the changes in the sources that were compared so far.
    pub(crate) changed_sources: BTreeMap<SourceId, Vec<String>>,
}

/// The part of an object that is compared.
#[derive(Clone, Copy)]
pub(crate) enum Part<'k> {
    /// The fields that decide what is deployed; the flag is true if the owner is ready.
    Spec {
        is_ready: bool,
    },
    /// One key of a ConfigMap or Secret, or all keys.
    Data(Option<&'k str>),
    SpecAndLabels,
}

/// A difference between an object before and after the change.
pub(crate) enum Difference {
    Created,
    Deleted,
    /// These parts of it change; empty for data.
    Changed(Vec<String>),
    /// Its content before the change is not known, for this reason.
    NotCompared(String),
}

impl Difference {
    /// Returns a clause that says what happens to an object.
    pub(crate) fn describe(&self, id: &ObjectId) -> String {
        match self {
            Self::Created => format!("{id} is created"),
            Self::Deleted => format!("{id} is deleted"),
            Self::Changed(_) => format!("{id} changes"),
            Self::NotCompared(why) => format!("{id} cannot be compared: {why}"),
        }
    }
}

impl<'d, 'r, 'a> Comparison<'d, 'r, 'a> {
    /// Compares nothing yet.
    pub(crate) fn new(derivation: &'d mut Derivation<'r, 'a>) -> Self {
        Self { derivation, changed_sources: BTreeMap::new() }
    }

    pub(crate) fn state(&self) -> &'r State<'a> {
        self.derivation.state
    }

    /// Returns the objects of a kind, live ones and those that a pass or another owner applies.
    pub(crate) fn ids_of(&self, group: &str, kind: &str) -> BTreeSet<ObjectId> {
        let state = self.state();
        let others = state.input.snapshot.ids().chain(state.generated_ids()).filter(|id| id.is_here(group, kind));
        others.chain(state.nodes.applied_of(group, kind)).cloned().collect()
    }

    /// Returns the difference of an object; `None` if there is none.
    ///
    /// Fails if an answer is missing.
    pub(crate) fn difference(&mut self, id: &ObjectId, part: Part<'_>) -> Asked<Option<Difference>> {
        self.difference_of(id, part, None)
    }

    /// Returns the difference of an object that others make than the upgrade of a release; `None` if there is none.
    ///
    /// Fails if an answer is missing.
    pub(crate) fn difference_by_others(
        &mut self,
        id: &ObjectId,
        part: Part<'_>,
        release: &ObjectId,
    ) -> Asked<Option<Difference>> {
        self.difference_of(id, part, Some(release))
    }

    fn difference_of(&mut self, id: &ObjectId, part: Part<'_>, except: Option<&ObjectId>) -> Asked<Option<Difference>> {
        let applied = self.state().applications(id);
        let applied: Vec<Applied<'_>> =
            applied.filter(|applied| applied.generator.is_none_or(|generator| Some(generator) != except)).collect();
        if !self.state().is_live(id) {
            return Ok((!applied.is_empty()).then_some(Difference::Created));
        }
        if self.derivation.consequences.may_be_deleted_beside(id, except) {
            return Ok(Some(Difference::Deleted));
        }
        self.first_difference(id, applied, part)
    }

    /// Returns the difference of the manifests of a live object from it, also if it is deleted after them; `None` if there is
    /// none.
    ///
    /// Fails if an answer is missing.
    pub(crate) fn change(&mut self, id: &ObjectId, part: Part<'_>) -> Asked<Option<Difference>> {
        self.first_difference(id, self.state().applied(id), part)
    }

    fn first_difference(
        &mut self,
        id: &ObjectId,
        applied: Vec<Applied<'_>>,
        part: Part<'_>,
    ) -> Asked<Option<Difference>> {
        for applied in applied {
            if let Some(difference) = self.difference_from(id, applied.owner, applied.built, part)? {
                return Ok(Some(difference));
            }
        }
        Ok(None)
    }

    /// Returns the content of a live object; `None` if it cannot be read.
    ///
    /// Fails if the answer is missing.
    pub(crate) fn content(&mut self, id: &ObjectId, api_version: &str) -> Asked<Option<&'r Value>> {
        self.derivation.content(id, api_version).ok_or(Interrupt::Missing)
    }

    /// Returns true if an object is created, or a manifest of it is another one than was applied last.
    pub(crate) fn is_changed(&mut self, id: &ObjectId) -> bool {
        self.derivation.last_applied().is_changed(self.derivation.state, id)
    }

    /// Returns the difference of a manifest that a Kustomization applies from the live object.
    fn difference_from(
        &mut self,
        id: &ObjectId,
        key: &NamespacedName,
        built: &BuiltObject,
        part: Part<'_>,
    ) -> Asked<Option<Difference>> {
        let last_applied = self.derivation.last_applied();
        let last = last_applied.of(id).iter();
        let own = last.clone().find(|(owner, _)| owner == key).or_else(|| last.clone().next());
        Ok(match (part, own) {
            (Part::Data(data_key), Some((_, old))) => {
                (data_of(old, built, data_key) != data_of(built, old, data_key)).then(|| Difference::Changed(vec![]))
            }
            (Part::Data(data_key), None) => self.difference_of_data(id, built, data_key)?,
            (Part::Spec { is_ready }, Some((_, old))) => {
                changed(differing_parts(&id.kind, &old.manifest, &built.manifest, false, is_ready))
            }
            (Part::SpecAndLabels, Some((_, old))) => {
                let mut parts = differing_parts(&id.kind, &old.manifest, &built.manifest, false, false);
                let [before, after] = [old, built].map(|built| built.manifest.pointer("/metadata/labels"));
                parts.extend((before != after).then(|| "its labels".to_owned()));
                changed(parts)
            }
            (Part::Spec { .. } | Part::SpecAndLabels, None) => {
                let is_ready = matches!(part, Part::Spec { is_ready: true });
                let Some(live) = self.state().input.snapshot.resource(id) else {
                    return Ok(Some(Difference::NotCompared(self.why_not_compared(id))));
                };
                let mut parts = differing_parts(&id.kind, &live.content, &built.manifest, true, is_ready);
                let has_labels = matches!(part, Part::SpecAndLabels);
                let flags = &self.state().input.flags;
                parts.extend(
                    (has_labels && changes_labels(&live.object, built, flags)).then(|| "its labels".to_owned()),
                );
                changed(parts)
            }
        })
    }

    fn difference_of_data(
        &mut self,
        id: &ObjectId,
        built: &BuiltObject,
        key: Option<&str>,
    ) -> Asked<Option<Difference>> {
        let reference = DataRef::of(id);
        let found = match self.derivation.answers.data.get(&reference) {
            Some(Lookup::Found(data)) if built.undecrypted.is_none() => data.clone(),
            Some(Lookup::Missing) => return Ok(Some(Difference::Created)),
            Some(_) => return Ok(Some(Difference::NotCompared(self.why_not_compared(id)))),
            None => {
                self.derivation.needs.data.insert(reference);
                return Err(Interrupt::Missing);
            }
        };
        let new = Data::read(&built.manifest);
        let is_equal = match key {
            Some(key) => new.values.get(key) == found.values.get(key),
            None => {
                new.values.iter().all(|(key, value)| found.values.get(key) == Some(value)) && {
                    found.values.keys().all(|key| new.values.contains_key(key) || found.foreign_keys.contains(key))
                }
            }
        };
        Ok((!is_equal).then(|| Difference::Changed(vec![])))
    }

    fn why_not_compared(&self, id: &ObjectId) -> String {
        let what = match &*id.kind {
            "Secret" => "Secrets of the cluster are not read, and ",
            _ => "",
        };
        format!("{what}the revision that was applied last is not in the checkout")
    }
}

/// Returns true if a manifest has other labels than the live object. A live label that it lacks is removed only if nobody else may
/// have set it.
fn changes_labels(live: &ObjectMetadata, built: &BuiltObject, flags: &ControllerFlags) -> bool {
    let written = built.manifest.pointer("/metadata/labels").and_then(Value::as_object);
    let written: BTreeMap<&str, Option<&str>> =
        written.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let groups = [flux_kustomization::GROUP, flux_operator::GROUP];
    let unwritten = live.labels.iter().map(|(key, _)| key).filter(|key| !written.contains_key(key));
    let mut lost = unwritten.filter(|key| !groups.iter().any(|group| key.contains(group)));
    written.iter().any(|(key, value)| live.labels.get(key) != *value)
        || (lost.next().is_some() && !has_other_managers(live, flags))
}

/// Returns true if others than its Kustomization may have set labels of an object. flux-operator sets none on what it reads.
pub(crate) fn has_other_managers(live: &ObjectMetadata, flags: &ControllerFlags) -> bool {
    let mut entries = live.managed_fields.iter();
    entries.any(|entry| is_foreign(entry, flags) && &*entry.manager != flux_operator::NAME)
}

fn changed(parts: Vec<String>) -> Option<Difference> {
    (!parts.is_empty()).then_some(Difference::Changed(parts))
}

/// Returns the data of a manifest to compare with the data of another one, as text where one of both is encrypted.
fn data_of(built: &BuiltObject, other: &BuiltObject, key: Option<&str>) -> Value {
    if built.undecrypted.is_some() || other.undecrypted.is_some() {
        let content = content_without_recipients(&built.manifest);
        return match key {
            None => content,
            Some(key) => ["data", "stringData"].iter().map(|field| content[*field][key].clone()).collect(),
        };
    }
    let mut data = Data::read(&built.manifest).values;
    if let Some(key) = key {
        return json!(data.remove(key).as_ref().map(Private::reveal));
    }
    let data: BTreeMap<&String, &String> = data.iter().map(|(key, value)| (key, value.reveal())).collect();
    json!([data, built.manifest.get("binaryData")])
}
