//! Deletion of live Kustomizations, and its effect on the objects in their inventories.

use std::collections::BTreeSet;

use super::model::{Finalization, KustomizationDeletion, SimulationEvent};
use super::passes::Derivation;
use crate::flux::kustomize_controller::FINALIZER;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::Members;
use crate::ownership::schemes::flux::inventory_members;

impl Derivation<'_, '_> {
    /// Returns the deletion of a live Kustomization; `None` if it stays.
    pub(super) fn deletion(&self, live: &Resource) -> Option<KustomizationDeletion> {
        let (triggers, is_certain) = self.deletion_triggers(&live.object.id)?;
        let finalization = match live.object.finalizers.iter().any(|finalizer| &**finalizer == FINALIZER) {
            true => self.finalization(live),
            false => self.deletion_without_finalizer(live),
        };
        Some(KustomizationDeletion { triggers, is_certain, finalization })
    }

    /// Returns the events that delete a live Kustomization, directly or by a cascade, and true if every order of events
    /// deletes it.
    fn deletion_triggers(&self, id: &ObjectId) -> Option<(BTreeSet<SimulationEvent>, bool)> {
        let consequences = self.consequences;
        let own = consequences.outcomes.get(id).filter(|outcomes| outcomes.may_be_deleted());
        match own {
            Some(own) => Some((own.deletions.clone(), own.is_deleted())),
            None => consequences.triggers_of(consequences.cascaded.get(id)?),
        }
    }

    /// Returns the effect of deleting a Kustomization that has lost its finalizer: the next reconciliation sets it again.
    fn deletion_without_finalizer(&self, live: &Resource) -> Finalization {
        let (key, spec) = (NamespacedName::of(&live.object.id), KustomizationSpec::of(live));
        let reconciles = self.preview.planned_artifact(&spec.source(&key.namespace)).is_some();
        match self.finalization(live) {
            Finalization::LeavesObjects(why) => Finalization::LeavesObjects(why),
            _ if reconciles => Finalization::Depends("it has no finalizer until it reconciles once more".to_owned()),
            _ => Finalization::LeavesObjects("has no finalizer".to_owned()),
        }
    }

    fn finalization(&self, live: &Resource) -> Finalization {
        let spec = KustomizationSpec::of(live);
        if !self.preview.is_watched_now(live) {
            return Finalization::LeavesObjects(
                "is not selected by --watch-label-selector of the controller".to_owned(),
            );
        }
        if let Err(reason) = spec.finalizer_deletes(self.preview.input.features.deletion_policy) {
            return Finalization::LeavesObjects(reason);
        }
        if let Members::Unreadable(error) = inventory_members(&live.content) {
            // Without an inventory the finalizer deletes nothing; a reconciliation before it writes a new inventory.
            let detail = format!("its inventory is unreadable until it reconciles once more: {error}");
            return Finalization::Depends(detail);
        }
        if let Some(config) = self.preview.kube_config(&live.object.id.namespace, live.spec()) {
            if self.preview.is_absent(&config) {
                return Finalization::Depends(format!("it stays Terminating until its {config} exists"));
            }
            if self.consequences.may_be_deleted(&config) {
                return Finalization::Depends(format!("its {config} is deleted too"));
            }
        }
        let flags = &self.preview.input.flags;
        let Some(account) = flags.service_account(&spec) else { return Finalization::DeletesObjects };
        let account = ObjectId::new("", "ServiceAccount", &live.object.id.namespace, account);
        if self.preview.live_object(&account).is_none() {
            Finalization::LeavesObjects(format!("its {account} does not exist"))
        } else if self.consequences.may_be_deleted(&account) {
            Finalization::Depends(format!("its {account} is deleted too"))
        } else {
            Finalization::DeletesObjects
        }
    }
}
