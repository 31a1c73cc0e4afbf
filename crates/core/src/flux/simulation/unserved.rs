//! Objects that an inventory lists in a version that is not served any more.
//!
//! The controller reads an object in the version of its inventory entry before it deletes it. The API server then answers
//! that there is none, which counts as deleted, and the object is left behind (observed).

use std::collections::BTreeMap;

use super::model::{Node, Pass, Unserved};
use super::passes::Derivation;
use crate::flux::build::objects::served_versions;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{GroupKind, ObjectId, Resource};
use crate::ownership::schemes::flux::inventory_versions;

impl Derivation<'_, '_> {
    /// Returns the objects that the inventory of a live Kustomization lists in a version that is not served when it prunes
    /// or is finalized. `last` is its last pass, which applies definitions before it prunes.
    pub(super) fn unserved(
        &self,
        key: &NamespacedName,
        live: &Resource,
        last: Option<&Pass>,
    ) -> BTreeMap<ObjectId, Unserved> {
        let snapshot = self.preview.input.snapshot;
        let mut versions: BTreeMap<GroupKind, (Vec<&str>, bool)> = BTreeMap::new();
        let others = self.preview.nodes.iter().filter(|node| node.id.key != *key).filter_map(Node::last_pass);
        for (pass, is_own) in others.map(|pass| (pass, false)).chain(last.map(|pass| (pass, true))) {
            let defined = pass.applied_objects().into_iter().flatten().filter_map(|(_, built)| served_versions(built));
            versions.extend(defined.map(|(kind, served)| (kind, (served, is_own))));
        }
        let mut unserved = BTreeMap::new();
        for (id, version) in inventory_versions(&live.content) {
            let kind = id.group_kind();
            let is_served_now = snapshot.serves(&kind, version);
            let is_certain = match (is_served_now, versions.get(&kind)) {
                (Some(false), None) => true,
                (_, Some((served, is_own))) if !served.contains(&version) => *is_own || is_served_now == Some(false),
                _ => continue,
            };
            unserved.insert(id, Unserved { version: version.to_owned(), is_certain });
        }
        unserved
    }
}
