//! What a HelmRelease that goes takes along: helm-controller uninstalls its release.
//!
//! Source: reference kustomize-controller 7. Everything else about releases is the business of their charts.

use std::collections::BTreeMap;

use super::Preview;
use super::outcomes::PossibleOutcomes;
use crate::kubernetes::deletion::cascade::{CascadeKind, CascadedObject};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::Members;
use crate::ownership::schemes::flux::inventory_members;
use crate::ownership::schemes::flux_helmrelease::{GROUP, KIND, helm_chart, is_record};

impl<'a> Preview<'a> {
    /// The objects of every release that goes, unless it is suspended or lives elsewhere. What `helm.sh/resource-policy`
    /// keeps is left out, whatever its value; so is what goes in its own right. Helm's records of the release go unless
    /// `uninstall.keepHistory` is set.
    pub(crate) fn uninstalled(
        &self,
        fates: &BTreeMap<ObjectId, PossibleOutcomes>,
        taken: &BTreeMap<ObjectId, CascadedObject<'a>>,
    ) -> BTreeMap<ObjectId, CascadedObject<'a>> {
        let goes = |id: &ObjectId| fates.get(id).is_some_and(PossibleOutcomes::may_go) || taken.contains_key(id);
        let releases = self.world.snapshot.full.iter().filter(|full| full.object.id.is(GROUP, KIND));
        let mut found = BTreeMap::new();
        for release in releases.filter(|release| goes(&release.object.id) && !release.flag("/spec/suspend")) {
            let Members::Listed(ids) = inventory_members(&release.content) else { continue };
            for object in ids.iter().filter(|id| !goes(id)).filter_map(|id| self.object(id)) {
                if object.annotations.get("helm.sh/resource-policy").is_none() {
                    let cause = release.object.id.clone();
                    found.insert(object.id.clone(), CascadedObject { object, cause, kind: CascadeKind::HelmRelease });
                }
            }
            // Helm's own records of the release, and the chart that was made for it, go last.
            let chart = helm_chart(&release.content);
            let keeps = release.flag("/spec/uninstall/keepHistory");
            let is_left = |object: &&ObjectMetadata| {
                Some(&object.id) == chart.as_ref() || (!keeps && is_record(&release.content, object))
            };
            for object in self.world.snapshot.objects.iter().filter(is_left).filter(|object| !goes(&object.id)) {
                let cause = release.object.id.clone();
                found.insert(object.id.clone(), CascadedObject { object, cause, kind: CascadeKind::HelmRelease });
            }
        }
        found
    }
}
