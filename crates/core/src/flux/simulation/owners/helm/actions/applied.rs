//! Objects that an install or an upgrade of a release applies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::failure::Attempt;
use crate::flux::apply::question::HELM_CONTROLLER;
use crate::flux::build::charts::Chart;
use crate::flux::build::objects::{BuiltObject, MaskedObject};
use crate::flux::simulation::model::affected_owner::OwnerApply;
use crate::flux::simulation::model::node::BuiltObjects;
use crate::flux::simulation::owners::behaviour::comparison::Comparison;
use crate::flux::simulation::owners::helm::render::release_charts::UNKNOWN_REVISION;
use crate::helm::rendered::Rendered;
use crate::kubernetes::object::{ObjectId, text_at};
use crate::plan::ReasonCode;

impl Attempt<'_> {
    /// Returns the objects that helm-controller applies: what the action needs first, those of the manifest that it renders now, or
    /// of another one, and `hooks`, those of its hooks that stay; `None` if no pass is known that leads to it. Of a release with values of Secrets
    /// only the objects that exist are among them: the names of others could hold such values. Nor are those that are named by a
    /// revision of the source, or whose namespace does not exist.
    pub(crate) fn applies<'r>(
        &self,
        comparison: &Comparison<'_, '_, '_>,
        manifests: impl IntoIterator<Item = &'r Rendered>,
        hooks: &BTreeSet<&ObjectId>,
        is_doubtful: bool,
    ) -> Option<OwnerApply> {
        let (_, trigger) = comparison.state().applied_specs(self.id).last()?;
        let (objects, code) = (Arc::new(self.applied_objects(comparison, manifests, hooks)), ReasonCode::InChart);
        let (replaced, earlier, manager) = (self.replaced_objects(), vec![], HELM_CONTROLLER);
        Some(OwnerApply { trigger, objects, replaced, earlier, manager, code, is_doubtful, chart: None })
    }

    /// Returns the last manifests of the objects that change, as today's cluster answers what its templates look up. Those of a
    /// release with values of Secrets are left out.
    fn replaced_objects(&self) -> BTreeMap<ObjectId, Arc<Value>> {
        let is_known = |old: &&Rendered| !(old.is_private || self.is_private);
        let manifests = self.old.filter(is_known).into_iter().flat_map(Rendered::manifests);
        let changed =
            manifests.filter(|(id, manifest)| self.new.manifests().get(*id).is_some_and(|new| new != *manifest));
        changed.map(|(id, manifest)| (id.clone(), Arc::new(manifest.clone()))).collect()
    }

    /// Returns the objects of manifests that helm-controller applies, and `hooks`, those of their hooks that stay.
    pub(crate) fn applied_objects<'r>(
        &self,
        comparison: &Comparison<'_, '_, '_>,
        manifests: impl IntoIterator<Item = &'r Rendered>,
        hooks: &BTreeSet<&ObjectId>,
    ) -> BuiltObjects {
        let state = comparison.state();
        let mut objects = BuiltObjects::new();
        for rendered in manifests {
            let is_private = rendered.is_private;
            let is_shown = |id: &ObjectId| !is_private && !id.name.contains(UNKNOWN_REVISION);
            let known = rendered.manifests().iter().filter(|(id, _)| is_shown(id) || state.live_object(id).is_some());
            objects.extend(known.map(|(id, manifest)| (id.clone(), applied_object(id, manifest, is_private))));
            let created = rendered.hooks.iter().filter(|(id, _)| is_shown(id) && hooks.contains(id));
            objects.extend(created.map(|(id, hook)| (id.clone(), applied_object(id, &hook.manifest, is_private))));
        }
        let first = self.prerequisites(state);
        objects.extend(first.iter().map(|(id, manifest)| (id.clone(), applied_object(id, manifest, false))));
        objects.retain(|id, _| !self.lacks_namespace(comparison, id));
        objects
    }
}

/// Adds the chart of a release to what is applied of it.
pub(crate) fn of_chart(applies: OwnerApply, chart: &Chart) -> OwnerApply {
    OwnerApply { chart: Some((chart.name.clone(), chart.version.clone())), ..applies }
}

pub(crate) fn applied_object(id: &ObjectId, manifest: &Value, is_private: bool) -> BuiltObject {
    let version = text_at(manifest, "/apiVersion").rsplit('/').next().unwrap_or_default().to_owned();
    let masked = is_private.then(|| Box::new(MaskedObject { id: id.shown().into_owned(), manifest: Value::Null }));
    BuiltObject { id: id.clone(), version, manifest: Arc::new(manifest.clone()), undecrypted: None, masked }
}
