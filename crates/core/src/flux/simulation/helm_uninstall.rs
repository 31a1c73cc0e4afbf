//! Objects that helm-controller deletes when it uninstalls the release of a deleted HelmRelease.
//!
//! Source: docs/reference/flux.md 6.

use super::Preview;
use crate::kubernetes::object::{ObjectMetadata, Resource};
use crate::ownership::Members;
use crate::ownership::schemes::flux::inventory_members;
use crate::ownership::schemes::flux_helmrelease::{helm_chart, is_record};

impl<'a> Preview<'a> {
    /// Returns the objects in the inventory of a release, except those with `helm.sh/resource-policy` of any value; its
    /// HelmChart; and Helm's records of it, unless `uninstall.keepHistory` is set. A suspended HelmRelease, or one
    /// without a readable inventory, deletes nothing.
    pub(super) fn release_objects(&self, release: &Resource) -> Vec<&'a ObjectMetadata> {
        let Members::Listed(ids) = inventory_members(&release.content) else { return vec![] };
        if release.flag("/spec/suspend") {
            return vec![];
        }
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
