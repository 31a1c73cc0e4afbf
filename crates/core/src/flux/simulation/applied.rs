//! What the Kustomizations apply once everything has settled.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Node, Pass};
use super::rows::owner_id;
use super::{Preview, outcomes};
use crate::flux::apply::AppliedObject;
use crate::kubernetes::object::ObjectId;
use crate::plan::Contested;

impl Preview<'_> {
    /// Every object that a Kustomization which stays applies in its last pass; call it when a plan is done. An object
    /// of two Kustomizations is there twice.
    pub fn applied_objects(&self) -> Vec<AppliedObject> {
        let last = |node: &'_ &Node| node.stays();
        let nodes = self.nodes.iter().filter(last);
        let passes = nodes.filter_map(|node| Some((node, node.last()?)));
        let of = |(node, pass): (&Node, &Pass)| {
            let objects = pass.desired().into_iter().flatten();
            let applied = |(id, built): (&_, &_)| AppliedObject {
                owner: node.id.key.clone(),
                spec: pass.spec.clone(),
                id: Clone::clone(id),
                built: Clone::clone(built),
            };
            objects.map(applied).collect::<Vec<_>>()
        };
        passes.flat_map(of).collect()
    }

    /// Objects that more than one Kustomization applies in the end.
    pub(crate) fn contested(&self) -> Vec<Contested> {
        let mut owners: BTreeMap<&ObjectId, BTreeSet<_>> = BTreeMap::new();
        for node in self.nodes.iter().filter(|node| node.stays()) {
            let desired = node.last().and_then(Pass::applied).into_iter().flatten();
            for (id, built) in desired {
                if !outcomes::is_skipped(built) {
                    owners.entry(id).or_default().insert(owner_id(&node.id.key));
                }
            }
        }
        let several = owners.into_iter().filter(|(_, owners)| owners.len() > 1);
        several.map(|(id, owners)| Contested { object: id.clone(), owners: owners.into_iter().collect() }).collect()
    }
}
