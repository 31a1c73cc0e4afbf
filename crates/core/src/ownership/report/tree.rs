//! Owners, their objects, and what these made in turn, nested as far as references go.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::{MemberView, OwnerSummary, Views};
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::{OwnerId, OwnershipStatus};

/// Deeper nesting is cut: people nest less, and references written by others could nest without end.
const DEEPEST: usize = 48;

/// One line of the tree.
#[derive(Clone, Debug, Serialize)]
pub struct TreeNode {
    /// The owner that this is, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerSummary>,
    /// The object as its parent sees it; none for owners at the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<MemberView>,
    /// What it owns or controls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<TreeNode>,
    /// Whether something below was left out: shown elsewhere already, or too deep.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// Walks owners and controller references, each once.
struct Walk<'v, 'i, 'a> {
    views: &'v Views<'i, 'a>,
    children: HashMap<&'a str, Vec<&'a ObjectMetadata>>,
    seen: HashSet<OwnerId>,
    controllers: HashSet<&'a str>,
}

impl<'i, 'a> Views<'i, 'a> {
    /// The trees below these owners; a tree is not repeated inside another.
    pub fn tree(&self, owners: &[OwnerId]) -> Vec<TreeNode> {
        let mut children: HashMap<&'a str, Vec<&'a ObjectMetadata>> = HashMap::new();
        for object in &self.index.snapshot().objects {
            if let Some(controller) = object.controller() {
                children.entry(&controller.uid).or_default().push(object);
            }
        }
        let mut walk = Walk { views: self, children, seen: HashSet::new(), controllers: HashSet::new() };
        owners.iter().filter_map(|owner| walk.owner(owner, 0)).collect()
    }

    /// The whole forest: owners that no other owner manages, then whatever is left in circles.
    pub fn forest(&self) -> Vec<TreeNode> {
        let (mut roots, rest): (Vec<OwnerId>, Vec<OwnerId>) =
            self.index.owners().map(|owner| owner.id.clone()).partition(|id| self.parent(id).is_none());
        roots.extend(rest);
        self.tree(&roots)
    }

    /// The owner that manages an owner's object; itself does not count.
    pub(crate) fn parent(&self, id: &OwnerId) -> Option<OwnerId> {
        let object = self.index.owner(id)?.object?;
        let recorded = self.index.recorded_by(&object.id).iter().find(|other| *other != id).cloned();
        recorded.or_else(|| match self.index.standing(object) {
            OwnershipStatus::Managed(owner) if owner != *id => Some(owner),
            _ => None,
        })
    }
}

impl<'a> Walk<'_, '_, 'a> {
    fn owner(&mut self, id: &OwnerId, depth: usize) -> Option<TreeNode> {
        if !self.seen.insert(id.clone()) {
            return None;
        }
        let owner = self.views.index.owner(id)?;
        let mut node = TreeNode { owner: Some(self.views.summary(owner)), object: None, children: vec![], cut: false };
        if depth >= DEEPEST {
            node.cut = true;
            return Some(node);
        }
        for member in self.views.objects(owner) {
            let nested = self.views.index.owner_of_object(&member.object).map(|nested| nested.id.clone());
            let nested = nested.filter(|nested| nested != id);
            let mut child = match &nested {
                Some(nested) => self.owner(nested, depth + 1),
                None => None,
            }
            .unwrap_or(TreeNode { owner: None, object: None, children: vec![], cut: nested.is_some() });
            if let Some(uid) = self.uid_of(&member) {
                child.children.extend(self.controlled(uid, depth + 1));
            }
            child.object = Some(member);
            node.children.push(child);
        }
        Some(node)
    }

    /// The uid as the snapshot holds it, when the member exists here.
    fn uid_of(&self, member: &MemberView) -> Option<&'a str> {
        let object = self.views.index.snapshot().object(&member.object)?;
        (member.exists == Some(true)).then_some(&*object.uid)
    }

    fn controlled(&mut self, uid: &'a str, depth: usize) -> Vec<TreeNode> {
        if depth >= DEEPEST || !self.children.contains_key(uid) || !self.controllers.insert(uid) {
            return vec![];
        }
        let children = self.children[uid].clone();
        let node = |child: &'a ObjectMetadata, walk: &mut Self| TreeNode {
            owner: None,
            object: Some(walk.views.bystander(child)),
            children: walk.controlled(&child.uid, depth + 1),
            cut: depth + 1 >= DEEPEST,
        };
        children.into_iter().map(|child| node(child, self)).collect()
    }
}
