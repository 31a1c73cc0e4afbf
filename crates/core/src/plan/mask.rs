//! Values of Secrets in the texts of a plan: they are replaced by placeholders before any output.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::Plan;
use crate::kubernetes::gap::{AnswerGap, Gap};
use crate::kubernetes::object::ObjectId;
use crate::ownership::OwnerId;
use crate::private::{PLACEHOLDER, Private};
use crate::text::hex;

/// Number of bytes from which the transformations of a value are searched for.
const MIN_TRANSFORMED: usize = 6;

/// Texts that hold values of Secrets, and what is shown in their place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretMask {
    /// Names and other whole words.
    words: BTreeMap<String, String>,
    /// Values that diffs show nowhere, also inside of words.
    values: BTreeSet<String>,
    /// Transformations of values, which no text shows, also inside of words.
    transformed: BTreeSet<String>,
}

impl SecretMask {
    /// Shows `shown` in place of the word `word`, and in place of the word as a quoted text holds it.
    pub(crate) fn add_word(&mut self, word: &str, shown: &str) {
        if word == shown || word.is_empty() {
            return;
        }
        // Messages write kinds in lower case.
        for word in [word.to_owned(), word.escape_debug().to_string(), word.to_lowercase()] {
            self.words.insert(word, shown.to_owned());
        }
    }

    /// Hides a value in diffs and in messages of the server, and what is a transformation of it in every text.
    pub(crate) fn add_value(&mut self, value: &Private<String>) {
        self.values.insert(value.reveal().clone());
        if value.reveal().len() >= MIN_TRANSFORMED {
            self.transformed.extend(transformations(value.reveal()));
        }
    }

    /// Returns a text with placeholders in place of the words.
    pub fn mask(&self, text: &str) -> String {
        // A longer word can hold a shorter one.
        let mut words: Vec<_> = self.words.iter().collect();
        words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        let masked = words.into_iter().fold(text.to_owned(), |text, (word, shown)| replace_word(&text, word, shown));
        let transformed = self.transformed.iter().filter(|value| masked.contains(value.as_str()));
        let found: Vec<_> = transformed.collect();
        found.into_iter().fold(masked.clone(), |text, value| text.replace(value.as_str(), PLACEHOLDER))
    }

    /// Returns a text with placeholders in place of the words and the values.
    pub fn mask_values(&self, text: &str) -> String {
        let mut values: Vec<_> = self.values.iter().collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.into_iter().fold(self.mask(text), |text, value| text.replace(value.as_str(), PLACEHOLDER))
    }

    /// Returns true if a text holds a value or a transformation of one, in upper or lower case.
    pub(crate) fn finds_value(&self, text: &str) -> bool {
        let lower = text.to_lowercase();
        self.transformed.iter().any(|value| text.contains(value.as_str()))
            || self.values.iter().any(|value| lower.contains(&value.to_lowercase()))
    }

    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.values.is_empty()
    }

    /// Returns true if an identity holds a value of a Secret.
    pub fn hides(&self, id: &ObjectId) -> bool {
        let mut shown = id.clone();
        self.mask_id(&mut shown);
        id.is_private() || shown != *id
    }

    /// Returns an identity that is compared as it is, and written with placeholders if it holds a value of a Secret.
    #[must_use]
    pub fn written(&self, id: &ObjectId) -> ObjectId {
        let mut shown = id.clone();
        self.mask_id(&mut shown);
        if shown == *id { id.clone() } else { id.clone().written_as(&shown) }
    }

    /// Returns identities as they are written if none of several plans shows its names.
    #[must_use]
    pub fn written_by_all<'m>(masks: impl IntoIterator<Item = &'m Self>, ids: Vec<ObjectId>) -> Vec<ObjectId> {
        masks.into_iter().fold(ids, |ids, mask| ids.iter().map(|id| mask.written(id)).collect())
    }

    /// Returns an owner with placeholders in place of the words.
    #[must_use]
    pub fn masked_owner(&self, mut owner: OwnerId) -> OwnerId {
        self.mask_owner(&mut owner);
        owner
    }

    /// Returns a gap with placeholders in place of the words.
    pub(crate) fn mask_gap(&self, gap: Gap) -> Gap {
        let namespace = gap.namespace.map(|namespace| self.mask(&namespace));
        Gap { subject: self.mask(&gap.subject), message: self.mask(&gap.message), namespace, kind: gap.kind }
    }

    fn mask_id(&self, id: &mut ObjectId) {
        *id = id.shown().into_owned();
        let [group, kind, namespace, name] =
            [&*id.group, &*id.kind, &*id.namespace, &*id.name].map(|part| self.mask(part));
        *id = ObjectId::new(&group, &kind, &namespace, &name).in_cluster(id.cluster.as_ref());
    }

    fn mask_owner(&self, owner: &mut OwnerId) {
        for part in [&mut owner.namespace, &mut owner.name] {
            *part = self.mask(part);
        }
    }
}

/// Returns the forms of a value that occur in no other text by chance: base64, hexadecimal and reversed.
fn transformations(value: &str) -> Vec<String> {
    let mut found = vec![hex(value.as_bytes()), value.chars().rev().collect()];
    for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        let text = engine.encode(value);
        // In lower case it is the name of an object.
        found.extend([text.to_lowercase(), text]);
    }
    found
}

/// Returns true for a character that continues a word.
fn is_inside(character: Option<char>) -> bool {
    character.is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_')
}

/// Replaces a word where no letter, digit, `-` or `_` is next to it.
fn replace_word(text: &str, word: &str, shown: &str) -> String {
    let (mut replaced, mut rest) = (String::with_capacity(text.len()), text);
    let mut before = None;
    while let Some(at) = rest.find(word) {
        let (head, tail) = rest.split_at(at);
        let after = &tail[word.len()..];
        replaced += head;
        let is_word = !is_inside(head.chars().next_back().or(before)) && !is_inside(after.chars().next());
        if is_word {
            replaced += shown;
            (before, rest) = (word.chars().next_back(), after);
        } else {
            let first = tail.chars().next().map_or(0, char::len_utf8);
            replaced += &tail[..first];
            (before, rest) = (tail.chars().next(), &tail[first..]);
        }
    }
    replaced + rest
}

impl Plan {
    /// Replaces the values of Secrets in every text. Call it last: a masked name is not the name in the cluster.
    pub(crate) fn mask_secrets(&mut self, mask: &SecretMask) {
        if mask.is_empty() {
            return;
        }
        for AnswerGap { gap, .. } in &mut self.document.gaps {
            *gap = mask.mask_gap(gap.clone());
        }
        for row in &mut self.document.owners {
            mask.mask_owner(&mut row.owner);
            row.reason = row.reason.with_texts(|text| mask.mask(text));
            for owners in [&mut row.parents, &mut row.dependencies] {
                *owners = std::mem::take(owners).into_iter().map(|owner| mask.masked_owner(owner)).collect();
            }
        }
        for change in &mut self.document.changes {
            mask.mask_id(&mut change.object.id);
            change.owner.iter_mut().for_each(|owner| mask.mask_owner(owner));
            change.cause.iter_mut().for_each(|cause| mask.mask_id(cause));
            change.reason = change.reason.with_texts(|text| mask.mask(text));
        }
        for diff in &mut self.document.diffs {
            mask.mask_id(&mut diff.object);
            diff.text = mask.mask_values(&diff.text);
        }
        let ids = self.document.unrehearsed.iter_mut().chain(&mut self.document.not_compared);
        ids.for_each(|id| mask.mask_id(id));
        for contested in &mut self.document.contested {
            mask.mask_id(&mut contested.object);
            contested.owners.iter_mut().for_each(|owner| mask.mask_owner(owner));
        }
        for blocked in &mut self.document.blocked_by_finalizers {
            mask.mask_id(&mut blocked.object);
            blocked.controller.iter_mut().for_each(|controller| mask.mask_id(controller));
            blocked.detail = blocked.detail.take().map(|detail| mask.mask(&detail));
        }
        for alarm in &mut self.document.alarms {
            alarm.owner.iter_mut().for_each(|owner| mask.mask_owner(owner));
            alarm.detail = mask.mask(&alarm.detail);
        }
        // The parts are sorted by their new names.
        self.sort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_replaced_as_wholes_and_the_longest_first() {
        let mut mask = SecretMask::default();
        mask.add_word("db-hunter2", "db-??????????");
        mask.add_word("db", "??????????");
        mask.add_word("same", "same");
        mask.add_word("p\"w", "??????????");
        for (text, expected) in [
            ("configmap/db-hunter2 -n shop", "configmap/db-?????????? -n shop"),
            ("db-hunter2x xdb-hunter2 db-hunter2", "db-hunter2x xdb-hunter2 db-??????????"),
            ("db.", "??????????."),
            ("odb dbo db_", "odb dbo db_"),
            ("the name \"p\\\"w\"", "the name \"??????????\""),
            ("same", "same"),
        ] {
            assert_eq!(mask.mask(text), expected);
        }
    }

    #[test]
    fn diffs_hold_no_value_also_inside_of_words() {
        let mut mask = SecretMask::default();
        mask.add_value(&Private::new("hunter2".to_owned()));
        assert_eq!(mask.mask_values("+url: http://u:hunter2@db"), "+url: http://u:??????????@db");
    }
}
