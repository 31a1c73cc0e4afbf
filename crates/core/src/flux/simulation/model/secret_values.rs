//! Values of Secrets, and the live objects that hold some of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::flux::build::Answers;
use crate::kubernetes::object::ObjectId;
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
    /// Objects of owners that read Secrets.
    held: BTreeMap<ObjectId, Held>,
    /// Owners whose objects are known.
    read: BTreeSet<ObjectId>,
    /// Objects with private values that this plan does not know.
    unread: UnreadObjects,
}

/// Live objects that can hold private values which this plan does not know.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnreadObjects {
    /// Owners whose private values are not known.
    pub(crate) owners: BTreeSet<ObjectId>,
    /// Owners that list each object: those above, and those that they list.
    pub(crate) listed_by: BTreeMap<ObjectId, BTreeSet<ObjectId>>,
}

/// Parts of a live object that hold values of Secrets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    /// Any part of it.
    pub(crate) in_manifest: bool,
    pub(crate) in_spec: bool,
    /// Each part of it can hold some, because it is not known what its owner applied last.
    pub(crate) is_assumed: bool,
    /// The identity as it is written, if it holds some.
    pub(crate) shown: Option<ObjectId>,
    /// The manifest that was applied last, if its spec holds none.
    pub(crate) open: Option<Arc<Value>>,
}

impl SecretValues {
    /// Takes the values among the answers.
    pub(crate) fn set_values(&mut self, answers: &Answers) {
        let values = answers.secret_values().map(|value| Private::new(value.reveal().replace('\n', "")));
        self.values = values.filter(|value| value.reveal().len() >= MIN_SEARCHED).collect();
        self.searched = SecretMask::default();
        for value in self.values.iter().filter(|value| value.reveal().len() >= MIN_SEARCHED_IN_CONTENT) {
            self.searched.add_value(value);
        }
    }

    /// Returns true if the objects of an owner are known.
    pub(crate) fn has_read(&self, owner: &ObjectId) -> bool {
        self.read.contains(owner)
    }

    /// Adds the objects of an owner that reads Secrets.
    pub(crate) fn add(&mut self, owner: ObjectId, objects: Vec<(ObjectId, Held)>) {
        for (id, found) in objects {
            let held = self.held.entry(id).or_default();
            held.in_manifest |= found.in_manifest;
            held.in_spec |= found.in_spec;
            held.is_assumed |= found.is_assumed;
            held.shown = held.shown.take().or(found.shown);
            held.open = held.open.take().or(found.open);
        }
        self.read.insert(owner);
    }

    /// Sets the objects with private values that this plan does not know.
    pub(crate) fn set_unread(&mut self, objects: UnreadObjects) {
        self.unread = objects;
    }

    /// Returns the objects with private values that this plan does not know.
    pub(crate) fn unread(&self) -> &UnreadObjects {
        &self.unread
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Private<String>> {
        self.values.iter()
    }

    /// Returns what is known of a live object; `None` if no owner of it reads Secrets.
    pub(crate) fn held(&self, id: &ObjectId) -> Option<&Held> {
        self.held.get(id)
    }

    /// Returns true if a text holds a value or a transformation of one.
    pub(crate) fn are_in_text(&self, text: &str) -> bool {
        self.searched.finds_value(text)
    }

    /// Returns true if a part of the content of an object holds a value or a transformation of one.
    pub(crate) fn are_in(&self, content: &Value) -> bool {
        match content {
            Value::String(text) => self.are_in_text(text),
            Value::Array(items) => items.iter().any(|item| self.are_in(item)),
            Value::Object(fields) => fields.iter().any(|(key, value)| self.are_in_text(key) || self.are_in(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}
