//! Smallest part of a cluster that an answer needs: objects with a system's labels, or what one owner recorded and whatever
//! else carries its labels.
//!
//! The answer must equal that of the whole cluster. So the owners of every system are read all the same, because each of
//! them can affect the status of an object. Where labels can only be interpreted beside objects that were not read,
//! [`ReadScope::is_in_doubt`] makes the caller read everything.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::index::{Index, Owner, scheme_number};
use super::rules::keys::schemes_of;
use super::scheme::claim::OwnerId;
use super::scheme::members::Members;
use super::scheme::{MetadataKey, Scheme};
use super::schemes::registry::SCHEMES;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata};
use crate::kubernetes::selector::Selector;

/// With more lists of one type than this, one list of all its objects is cheaper (docs/reference/ownership.md 6.2).
const MAX_LISTS: usize = 2;

/// Part of a cluster that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadScope {
    /// Label selectors that together match the objects in question.
    selectors: Vec<String>,
    /// Kinds of which all objects are read.
    whole_kinds: BTreeSet<GroupKind>,
    /// Schemes (by bit) whose claims are in question.
    schemes: u32,
    /// Single owner in question, if there is one.
    owner: Option<OwnerId>,
}

impl ReadScope {
    /// Returns the scope of questions about all owners of a system. `None` where everything has to be read: the system
    /// claims by annotation, keeps records of objects that may have lost their labels, or has too many labels.
    pub fn of_system(system: &str) -> Option<Self> {
        let mut selectors = vec![];
        let mut schemes = 0;
        for (n, scheme) in SCHEMES.iter().enumerate().filter(|(_, scheme)| scheme.system == system) {
            if scheme.selectors.is_empty() || !scheme.owner_kinds.is_empty() {
                return None;
            }
            selectors.extend(scheme.selectors.iter().map(|selector| (*selector).to_owned()));
            schemes |= 1 << n;
        }
        let is_worth_it = (1..=MAX_LISTS).contains(&selectors.len());
        is_worth_it.then_some(Self { selectors, whole_kinds: BTreeSet::new(), schemes, owner: None })
    }

    /// Returns the scope of questions about one owner: the kinds that it recorded, and its labels on every other kind.
    pub fn of_owner(owner: &Owner<'_>) -> Option<Self> {
        let Members::Listed(ids) = &owner.members else { return None };
        let [MetadataKey::Label(name), MetadataKey::Label(namespace)] = owner.scheme.member_keys else { return None };
        let own_labels = format!("{name}={},{namespace}={}", owner.id.name, owner.id.namespace);
        // A name that is no valid label value is in no label.
        Selector::parse(&own_labels).ok()?;
        let mut selectors = vec![own_labels];
        let mut schemes = bit_of(owner.scheme);
        for driven in owner.scheme.drives {
            selectors.extend(driven.selectors.iter().map(|selector| (*selector).to_owned()));
            schemes |= bit_of(driven);
        }
        let whole_kinds = ids.iter().map(ObjectId::group_kind).collect();
        Some(Self { selectors, whole_kinds, schemes, owner: Some(owner.id.clone()) })
    }

    /// Returns the label selectors with which to list a kind, one list for each; an empty one for all its objects.
    pub fn selectors(&self, group: &str, kind: &str) -> Vec<&str> {
        // Namespaces identify the cluster, and show a user with few rights where to look.
        if (group, kind) == ("", "Namespace") || self.whole_kinds.contains(&GroupKind::new(group, kind)) {
            return vec![""];
        }
        let mut selectors: Vec<&str> = self.selectors.iter().map(String::as_str).collect();
        for (n, scheme) in SCHEMES.iter().enumerate() {
            for source in scheme.owner_sources.iter().filter(|source| (source.group, source.kind) == (group, kind)) {
                // Without objects of its own the scheme needs no owners; with some, the scope is in doubt.
                if !source.only_if_claimed || self.schemes & (1 << n) != 0 {
                    selectors.push(source.selector);
                }
            }
        }
        selectors.sort_unstable();
        selectors.dedup();
        if selectors.len() > MAX_LISTS || selectors.contains(&"") { vec![""] } else { selectors }
    }

    /// Returns true if what was read may not be enough: an object in question has another claim whose owner, or whose
    /// original, can be any object; or the owner recorded other kinds meanwhile.
    pub fn is_in_doubt(&self, index: &Index<'_>) -> bool {
        self.has_new_kinds(index)
            || index.snapshot().objects.iter().any(|object| self.needs_other_objects(index, object))
    }

    fn has_new_kinds(&self, index: &Index<'_>) -> bool {
        let Some(id) = &self.owner else { return false };
        match index.owner(id).map(|owner| &owner.members) {
            Some(Members::Listed(ids)) => ids.iter().any(|id| !self.whole_kinds.contains(&id.group_kind())),
            _ => true,
        }
    }

    fn needs_other_objects(&self, index: &Index<'_>, object: &ObjectMetadata) -> bool {
        let claimed = schemes_of(object).member;
        let depends_on_others = SCHEMES.iter().enumerate().any(|(n, scheme)| {
            let is_other = claimed & !self.schemes & (1 << n) != 0;
            is_other && (scheme.owners_of_any_kind || scheme.unique_label.is_some())
        });
        depends_on_others
            && (claimed & self.schemes != 0
                || self.owner.as_ref().is_some_and(|owner| index.recorded_by(&object.id).contains(owner)))
    }

    /// Returns the scope as text.
    pub fn describe(&self) -> String {
        let labelled = format!("objects labelled {}", self.selectors.join(" or "));
        match &self.owner {
            None => format!("{labelled}, and owners"),
            Some(owner) => format!("the kinds that {owner} recorded, {labelled}, and owners"),
        }
    }
}

fn bit_of(scheme: &Scheme) -> u32 {
    1 << scheme_number(scheme)
}
