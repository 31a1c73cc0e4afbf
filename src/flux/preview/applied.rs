//! What the Kustomizations apply once everything has settled.

use super::Preview;
use super::model::{Node, Pass};
use crate::flux::apply::Application;

impl Preview<'_> {
    /// Every object that a Kustomization which stays applies in its last pass; call it when a plan is done. An object
    /// of two Kustomizations is there twice.
    pub fn applications(&self) -> Vec<Application> {
        let last = |node: &'_ &Node| node.stays();
        let nodes = self.nodes.iter().filter(last);
        let passes = nodes.filter_map(|node| Some((node, node.last()?)));
        let of = |(node, pass): (&Node, &Pass)| {
            let objects = pass.desired().into_iter().flatten();
            let application = |(id, built): (&_, &_)| Application {
                owner: node.id.key.clone(),
                spec: pass.spec.clone(),
                id: Clone::clone(id),
                built: Clone::clone(built),
            };
            objects.map(application).collect::<Vec<_>>()
        };
        passes.flat_map(of).collect()
    }
}
