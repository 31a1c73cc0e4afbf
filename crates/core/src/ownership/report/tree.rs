//! Tree of owners, their objects, and the dependents of these.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::InventoryReport;
use super::rows::{MemberView, OwnerSummary};
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::scheme::claim::OwnerId;

/// Deepest nesting that is shown. References written by others could nest without end.
const DEEPEST: usize = 48;

/// One line of the tree.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeNode {
    /// Context of the cluster, at the root and if the answer is about several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Owner, if the line is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerSummary>,
    /// Object as a member of its parent; none for owners at the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<MemberView>,
    /// Its objects and dependents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<TreeNode>,
    /// True if children were left out, because they are shown elsewhere or nested too deeply.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// State while the tree is built: every owner and every controller appears once.
struct TreeBuilder<'v, 'i, 'a> {
    report: &'v InventoryReport<'i, 'a>,
    /// Objects by the uid of their controller.
    children: HashMap<&'a str, Vec<&'a ObjectMetadata>>,
    seen: HashSet<OwnerId>,
    controllers: HashSet<&'a str>,
}

impl<'i, 'a> InventoryReport<'i, 'a> {
    /// Returns the trees below these owners. A tree is not repeated inside another.
    pub fn tree(&self, owners: &[OwnerId]) -> Vec<TreeNode> {
        let mut children: HashMap<&'a str, Vec<&'a ObjectMetadata>> = HashMap::new();
        for object in &self.index.snapshot().objects {
            if let Some(controller) = object.controller_reference() {
                children.entry(&controller.uid).or_default().push(object);
            }
        }
        let mut builder = TreeBuilder { report: self, children, seen: HashSet::new(), controllers: HashSet::new() };
        owners.iter().filter_map(|owner| builder.owner(owner, 0)).collect()
    }

    /// Returns all trees: below owners that no other owner manages, then the owners that manage each other in a circle.
    pub fn forest(&self) -> Vec<TreeNode> {
        let (mut roots, rest): (Vec<OwnerId>, Vec<OwnerId>) =
            self.index.owners().map(|owner| owner.id.clone()).partition(|id| self.index.managing_owner(id).is_none());
        roots.extend(rest);
        self.tree(&roots)
    }
}

impl<'a> TreeBuilder<'_, '_, 'a> {
    fn owner(&mut self, id: &OwnerId, depth: usize) -> Option<TreeNode> {
        if !self.seen.insert(id.clone()) {
            return None;
        }
        let owner = self.report.index.owner(id)?;
        let mut node = TreeNode { owner: Some(self.report.summary(owner)), ..TreeNode::default() };
        if depth >= DEEPEST {
            node.cut = true;
            return Some(node);
        }
        for member in self.report.objects(owner) {
            let own = self.report.index.owner_of_object(&member.object).map(|own| own.id.clone());
            let nested = own.filter(|own| own != id);
            let subtree = nested.as_ref().and_then(|nested| self.owner(nested, depth + 1));
            let leaf = TreeNode { cut: nested.is_some(), ..TreeNode::default() };
            let mut child = subtree.unwrap_or(leaf);
            if let Some(uid) = self.uid_of(&member) {
                child.children.extend(self.controlled(uid, depth + 1));
            }
            child.object = Some(member);
            node.children.push(child);
        }
        Some(node)
    }

    /// Returns the uid of a member that exists in this cluster.
    fn uid_of(&self, member: &MemberView) -> Option<&'a str> {
        let object = self.report.index.snapshot().object(&member.object)?;
        (member.exists == Some(true)).then_some(&*object.uid)
    }

    /// Returns the objects that the object with a uid controls.
    fn controlled(&mut self, uid: &'a str, depth: usize) -> Vec<TreeNode> {
        if depth >= DEEPEST || !self.children.contains_key(uid) || !self.controllers.insert(uid) {
            return vec![];
        }
        let children = self.children[uid].clone();
        let nodes = children.into_iter().map(|child| TreeNode {
            object: Some(self.report.unowned_row(child)),
            children: self.controlled(&child.uid, depth + 1),
            cut: depth + 1 >= DEEPEST,
            ..TreeNode::default()
        });
        nodes.collect()
    }
}
