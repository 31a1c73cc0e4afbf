//! How little of a cluster an answer needs: only objects with a system's labels, or what one owner recorded and whatever
//! else carries its labels.
//!
//! The answer must be the one that the whole cluster gives. So every owner of every system is read all the same, because
//! each has a say in what an object is; and where the marks on an object can only be understood beside objects that were
//! not read, [`ReadScope::is_in_doubt`] sends the caller back for everything.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::index::{Index, Owner};
use super::keys::schemes_of;
use super::schemes::{applyset, flux_helmrelease, flux_v1, helm};
use super::{Members, MetadataKey, OwnerId, SCHEMES, Scheme};
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata};
use crate::kubernetes::selector::Selector;

/// More lists of one type than this cost more than one of all its objects (reference ownership-and-prune 5.2).
const MOST: usize = 2;

/// Which objects of a cluster to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadScope {
    /// Selectors that together find the objects in question.
    selectors: Vec<String>,
    /// Kinds to read whole.
    whole: BTreeSet<GroupKind>,
    /// Schemes (by bit) whose marks are in question.
    schemes: u32,
    /// The one owner in question, if it is one.
    owner: Option<OwnerId>,
}

impl ReadScope {
    /// What questions about all owners of a system need; `None` where everything has to be read, because the system marks
    /// by annotation, records what it may have lost the marks of, or has too many labels to be worth it.
    pub fn of_system(system: &str) -> Option<Self> {
        let mut selectors = vec![];
        let mut schemes = 0;
        for (n, scheme) in SCHEMES.iter().enumerate().filter(|(_, scheme)| scheme.system == system) {
            let keeps_record = !scheme.owner_kinds.is_empty();
            if scheme.selectors.is_empty() || keeps_record {
                return None;
            }
            selectors.extend(scheme.selectors.iter().map(|selector| (*selector).to_owned()));
            schemes |= 1 << n;
        }
        let worth_it = (1..=MOST).contains(&selectors.len());
        worth_it.then_some(Self { selectors, whole: BTreeSet::new(), schemes, owner: None })
    }

    /// What questions about one owner need: the kinds that it recorded, and of every other what carries its labels.
    pub fn of_owner(owner: &Owner<'_>) -> Option<Self> {
        let Members::Listed(ids) = &owner.members else { return None };
        let [MetadataKey::Label(name), MetadataKey::Label(namespace)] = owner.scheme.member_keys else { return None };
        let own = format!("{name}={},{namespace}={}", owner.id.name, owner.id.namespace);
        // A name that is no label value is in no label.
        Selector::parse(&own).ok()?;
        let mut selectors = vec![own];
        let mut schemes = bit_of(owner.scheme);
        // Objects can name the Helm release instead of the HelmRelease that drives it.
        if *owner.scheme == flux_helmrelease::SCHEME {
            selectors.extend(helm::SCHEME.selectors.iter().map(|selector| (*selector).to_owned()));
            schemes |= bit_of(&helm::SCHEME);
        }
        let whole = ids.iter().map(ObjectId::group_kind).collect();
        Some(Self { selectors, whole, schemes, owner: Some(owner.id.clone()) })
    }

    /// The label selectors with which to list a type, one list for each; an empty one for all its objects.
    pub fn selectors(&self, group: &str, kind: &str) -> Vec<&str> {
        let is = |known: &GroupKind| &*known.group == group && &*known.kind == kind;
        // Namespaces say where a user with few rights can look, and which cluster this is.
        if (group, kind) == ("", "Namespace") || self.whole.iter().any(is) {
            return vec![""];
        }
        let mut selectors: Vec<&str> = self.selectors.iter().map(String::as_str).collect();
        for (n, scheme) in SCHEMES.iter().enumerate() {
            for source in scheme.owner_sources.iter().filter(|source| (source.group, source.kind) == (group, kind)) {
                // Without objects of its own the scheme needs no owners; with some, the reading is in doubt.
                if !source.only_if_marked || self.schemes & (1 << n) != 0 {
                    selectors.push(source.selector);
                }
            }
        }
        selectors.sort_unstable();
        selectors.dedup();
        if selectors.len() > MOST || selectors.contains(&"") { vec![""] } else { selectors }
    }

    /// Whether what was read may not be enough: an object in question also carries marks whose owner, or whose double, can
    /// be any object; or the owner has recorded other kinds meanwhile.
    pub fn is_in_doubt(&self, index: &Index<'_>) -> bool {
        let elsewhere = (bit_of(&applyset::SCHEME) | bit_of(&flux_v1::SCHEME)) & !self.schemes;
        let recorded = |object: &ObjectMetadata| {
            self.owner.as_ref().is_some_and(|owner| index.recorded_by(&object.id).contains(owner))
        };
        let doubtful = |object: &ObjectMetadata| {
            let marks = schemes_of(object).member;
            marks & elsewhere != 0 && (marks & self.schemes != 0 || recorded(object))
        };
        let grown = self.owner.as_ref().is_some_and(|id| match index.owner(id).map(|owner| &owner.members) {
            Some(Members::Listed(ids)) => ids.iter().any(|id| !self.whole.contains(&id.group_kind())),
            _ => true,
        });
        grown || index.snapshot().objects.iter().any(doubtful)
    }

    /// What was read, in words.
    pub fn describe(&self) -> String {
        let labelled = format!("objects labelled {}", self.selectors.join(" or "));
        match &self.owner {
            None => format!("{labelled}, and owners"),
            Some(owner) => format!("the kinds that {owner} recorded, {labelled}, and owners"),
        }
    }
}

fn bit_of(scheme: &Scheme) -> u32 {
    SCHEMES.iter().position(|known| *known == scheme).map_or(0, |n| 1 << n)
}
