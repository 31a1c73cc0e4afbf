//! Objects that helm-controller deletes when it uninstalls the release of a deleted HelmRelease.
//!
//! Source: docs/reference/flux.md 6.

use std::collections::BTreeMap;

use super::{Consequences, Preview};
use crate::kubernetes::deletion::cascade::{CascadeKind, CascadedObject};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use crate::ownership::Members;
use crate::ownership::schemes::flux::inventory_members;
use crate::ownership::schemes::flux_helmrelease::{GROUP, KIND, helm_chart, is_record};

impl<'a> Preview<'a> {
    /// Returns the objects of every deleted HelmRelease that are not deleted otherwise. A suspended HelmRelease, or one
    /// without a readable inventory, deletes nothing.
    pub(super) fn uninstalled_objects(
        &self,
        consequences: &Consequences<'a>,
    ) -> BTreeMap<ObjectId, CascadedObject<'a>> {
        let mut uninstalled = BTreeMap::new();
        for release in self.input.snapshot.resources.iter().filter(|full| full.object.id.is(GROUP, KIND)) {
            let cause = &release.object.id;
            if !consequences.may_be_deleted(cause) || release.flag("/spec/suspend") {
                continue;
            }
            let objects = self.release_objects(release).into_iter();
            for object in objects.filter(|object| !consequences.may_be_deleted(&object.id)) {
                let cascaded = CascadedObject { object, cause: cause.clone(), kind: CascadeKind::HelmRelease };
                uninstalled.insert(object.id.clone(), cascaded);
            }
        }
        uninstalled
    }

    /// Returns the objects in the inventory of a release, except those with `helm.sh/resource-policy` of any value; its
    /// HelmChart; and Helm's records of it, unless `uninstall.keepHistory` is set.
    fn release_objects(&self, release: &Resource) -> Vec<&'a ObjectMetadata> {
        let Members::Listed(ids) = inventory_members(&release.content) else { return vec![] };
        let listed = ids.iter().filter_map(|id| self.live_object(id));
        let mut objects: Vec<&ObjectMetadata> =
            listed.filter(|object| object.annotations.get("helm.sh/resource-policy").is_none()).collect();
        let chart = helm_chart(&release.content);
        let keeps_history = release.flag("/spec/uninstall/keepHistory");
        objects.extend(self.input.snapshot.objects.iter().filter(|object| {
            Some(&object.id) == chart.as_ref() || (!keeps_history && is_record(&release.content, object))
        }));
        objects
    }
}
