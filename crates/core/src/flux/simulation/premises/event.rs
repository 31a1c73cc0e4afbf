//! Events: changes of objects on which answers of the API server can depend.

use std::sync::Arc;

use serde_json::Value;

use crate::flux::apply::rights::RBAC;
use crate::flux::build::objects::BuiltObject;
use crate::flux::simulation::model::refusals::Premise;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::ObjectId;
use crate::ownership::OwnerId;
use crate::ownership::schemes::flux_kustomization::KIND;

/// Something that the change does to an object.
#[derive(Debug)]
pub(super) struct Event {
    /// Owner that does it, as far as it is known.
    pub(super) owner: Option<OwnerId>,
    pub(super) id: ObjectId,
    pub(super) is_deleted: bool,
    /// Object as it is applied.
    pub(super) built: Option<BuiltObject>,
    /// It happens in every order of events.
    pub(super) is_certain: bool,
}

impl Event {
    /// Returns the manifest of a Role or ClusterRole that the event applies.
    pub(super) fn role(&self) -> Option<&Value> {
        let is_role = &*self.id.group == RBAC && self.id.kind.ends_with("Role");
        self.manifest().map(|manifest| &**manifest).filter(|_| is_role)
    }

    /// Returns the manifest that the event applies.
    pub(super) fn manifest(&self) -> Option<&Arc<Value>> {
        self.built.as_ref().map(|built| &built.manifest)
    }

    /// Returns true if a role or binding can give rights to an object.
    pub(super) fn is_near(&self, id: &ObjectId) -> bool {
        self.id.namespace.is_empty() || self.id.namespace == id.namespace
    }

    /// Returns true if a Kustomization causes the event.
    pub(super) fn is_of(&self, key: &NamespacedName) -> bool {
        self.kustomization().as_ref() == Some(key)
    }

    /// Returns true if this owner causes the event, which then comes after the apply of the owner.
    pub(super) fn is_by(&self, id: &ObjectId) -> bool {
        self.owner
            .as_ref()
            .is_some_and(|owner| owner.kind == *id.kind && owner.namespace == *id.namespace && owner.name == *id.name)
            && !self.is_deleted
    }

    /// Returns the Kustomization that causes the event.
    pub(super) fn kustomization(&self) -> Option<NamespacedName> {
        let owner = self.owner.as_ref().filter(|owner| &*owner.kind == KIND)?;
        Some(NamespacedName { namespace: owner.namespace.clone(), name: owner.name.clone() })
    }

    /// Returns the event as something that others come after; `None` if a Kustomization does not cause it.
    pub(super) fn premise(&self) -> Option<Premise> {
        Some(Premise { owner: self.kustomization()?, id: self.id.clone(), manifest: self.manifest().cloned() })
    }

    /// Returns the event as a clause.
    pub(super) fn clause(&self) -> String {
        let verb = if self.is_deleted { "deletes" } else { "applies" };
        let shown = self.built.as_ref().map_or(&self.id, BuiltObject::shown_id);
        match &self.owner {
            Some(owner) => format!("{owner} {verb} {shown}"),
            None => format!("{shown} changes"),
        }
    }
}
