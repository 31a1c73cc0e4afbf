//! Members of an owner: a list that it recorded, or a rule by which it selects them.

use std::collections::HashSet;

use crate::kubernetes::object::{GroupKind, ObjectId};

/// Members as an owner recorded them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// These objects of this cluster.
    Listed(Vec<ObjectId>),
    /// These objects of another cluster, which are never looked up in this one.
    Remote(Vec<ObjectId>),
    /// Every object in a scope that carries the owner's labels.
    Selected(Scope),
    /// No record yet, or none that was read: labels and annotations are the only source.
    Unrecorded,
    /// A record that cannot be parsed; nothing about this owner can be decided. Contains the reason.
    Unreadable(String),
}

impl Members {
    /// Returns the better of two records of one owner. An unreadable record wins over every other.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }

    /// Returns both records of one owner, of which others may have written one: what one of them lists stays listed.
    #[must_use]
    pub(crate) fn joined(self, other: Self) -> Self {
        match (self, other) {
            (Self::Listed(mut ids), Self::Listed(others)) => {
                let known: HashSet<ObjectId> = ids.iter().cloned().collect();
                ids.extend(others.into_iter().filter(|id| !known.contains(id)));
                Self::Listed(ids)
            }
            (one, other) => one.or(other),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Unrecorded => 0,
            Self::Selected(_) => 1,
            Self::Listed(_) => 2,
            Self::Remote(_) => 3,
            Self::Unreadable(_) => 4,
        }
    }
}

/// Area in which an owner that selects by label looks for its members: the union of these areas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope(pub Vec<Area>);

/// Namespaces and kinds in which an owner looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// Namespaces, the empty one for cluster-scoped objects; `None` for all.
    pub namespaces: Option<Vec<Box<str>>>,
    /// Kinds; `None` for all.
    pub kinds: Option<Vec<GroupKind>>,
}

impl Scope {
    /// Returns the scope of an owner that looks at all kinds in all namespaces.
    pub fn everywhere() -> Self {
        Self(vec![Area::default()])
    }

    /// Returns true if the owner would find an object in this scope.
    pub fn covers(&self, id: &ObjectId) -> bool {
        self.0.iter().any(|area| area.covers(id))
    }
}

impl Area {
    fn covers(&self, id: &ObjectId) -> bool {
        let has_namespace =
            self.namespaces.as_ref().is_none_or(|list| list.iter().any(|namespace| **namespace == *id.namespace));
        let has_kind = self.kinds.as_ref().is_none_or(|list| list.iter().any(|kind| id.is(&kind.group, &kind.kind)));
        has_namespace && has_kind
    }
}
