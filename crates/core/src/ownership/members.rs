//! What owners record of their members: a list, or a rule by which they select them.

use crate::kubernetes::object::{GroupKind, ObjectId};

/// What an owner recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// These objects of this cluster.
    Listed(Vec<ObjectId>),
    /// These objects, but in another cluster: never looked up here.
    Remote(Vec<ObjectId>),
    /// Whatever carries the owner's mark within a scope: the mark is the membership.
    Selected(Scope),
    /// Nothing was recorded (yet), or nothing that was read: the marks are all there is.
    Unrecorded,
    /// The record cannot be parsed; nothing of this owner can be judged.
    Unreadable(String),
}

impl Members {
    /// The better of two records of one owner. A broken record is never papered over.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
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

/// Where an owner that selects by mark looks for its members: the union of areas.
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
    /// Everywhere.
    pub fn everywhere() -> Self {
        Self(vec![Area::default()])
    }

    /// Whether the owner would find an object here.
    pub fn covers(&self, id: &ObjectId) -> bool {
        self.0.iter().any(|area| area.covers(id))
    }
}

impl Area {
    fn covers(&self, id: &ObjectId) -> bool {
        let namespace = |list: &Vec<Box<str>>| list.iter().any(|namespace| **namespace == *id.namespace);
        let kind = |list: &Vec<GroupKind>| list.iter().any(|kind| id.is(&kind.group, &kind.kind));
        self.namespaces.as_ref().is_none_or(namespace) && self.kinds.as_ref().is_none_or(kind)
    }
}
