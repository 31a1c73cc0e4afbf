//! Values of Secrets, and the objects whose last manifests hold some of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::flux::build::objects::data::Data;
use crate::flux::build::{self, Answers, BuildContext};
use crate::flux::simulation::model::input::PreviewInput;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::mask::SecretMask;
use crate::private::Private;

/// Number of bytes from which a value is searched for in names and diffs. A shorter one occurs by chance.
const MIN_SEARCHED: usize = 4;

/// Number of bytes from which a value is searched for in the content of an owner.
const MIN_SEARCHED_IN_CONTENT: usize = 6;

/// Values of the Secrets that were read, and the objects that held some before the change.
#[derive(Clone, Debug, Default)]
pub(crate) struct SecretValues {
    values: Vec<Private<String>>,
    /// The same values with their encodings, such as base64.
    searched: SecretMask,
    /// Objects of the last applied builds, each with what held values of it.
    last_applied: BTreeMap<ObjectId, Held>,
    /// Kustomizations whose last applied builds were read.
    read: BTreeSet<NamespacedName>,
}

/// Parts of the last manifests of an object that held values of Secrets.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Any part of it.
    in_manifest: bool,
    in_spec: bool,
}

impl SecretValues {
    /// Collects the values among the answers, and the objects of the last applied builds that the answers allow.
    pub(crate) fn collect(&mut self, input: &PreviewInput<'_>, answers: &Answers) {
        let values = answers.secret_values().map(|value| Private::new(value.reveal().replace('\n', "")));
        let values: Vec<_> = values.filter(|value| value.reveal().len() >= MIN_SEARCHED).collect();
        let mut searched = SecretMask::default();
        let in_content = values.iter().filter(|value| value.reveal().len() >= MIN_SEARCHED_IN_CONTENT);
        in_content.for_each(|value| searched.add_value(value));
        let kustomizations = input.snapshot.resources.iter().filter(|full| full.object.id.is(GROUP, KIND));
        for live in kustomizations {
            let key = NamespacedName::of(&live.object.id);
            let Some(artifact) = input.last_applied.get(&key).filter(|_| !self.read.contains(&key)) else { continue };
            let mut needs = build::Needs::default();
            let mut context = BuildContext::new(input.features, answers, &mut needs);
            let Ok(built) = build::build(artifact, &key, &KustomizationSpec::of(live), &mut context) else { continue };
            for object in built.iter() {
                let held = self.last_applied.entry(object.id.clone()).or_default();
                held.in_manifest |= object.masked.is_some();
                held.in_spec |= object.is_masked_at("/spec");
            }
            self.read.insert(key);
        }
        (self.values, self.searched) = (values, searched);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Private<String>> {
        self.values.iter()
    }

    /// Returns true if the live object holds one of them. Where it is not known what was applied last, they and their
    /// transformations are searched for in its content.
    pub(crate) fn are_in(&self, id: &ObjectId, live: Option<&Resource>) -> bool {
        match self.last_applied.get(id) {
            Some(held) => held.in_manifest,
            None => live.is_some_and(|live| self.are_in_value(&live.content)),
        }
    }

    /// Returns true if the spec that was applied last is known to hold one of them.
    pub(crate) fn are_in_spec(&self, id: &ObjectId) -> bool {
        self.last_applied.get(id).is_some_and(|held| held.in_spec)
    }

    /// Returns true if the data of a live ConfigMap holds one of them.
    pub(crate) fn are_in_data(&self, id: &ObjectId, data: &Data) -> bool {
        match self.last_applied.get(id) {
            Some(held) => held.in_manifest,
            None => data.values.values().any(|value| self.searched.finds_value(value.reveal())),
        }
    }

    fn are_in_value(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.searched.finds_value(text),
            Value::Array(items) => items.iter().any(|item| self.are_in_value(item)),
            Value::Object(fields) => {
                fields.iter().any(|(key, value)| self.searched.finds_value(key) || self.are_in_value(value))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}
