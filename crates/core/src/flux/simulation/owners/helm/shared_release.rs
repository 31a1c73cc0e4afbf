//! Several HelmReleases with one release: after one of them uninstalls it, another one installs it again.
//!
//! Source: helm-controller v1.6.3 `internal/reconcile/state.go`, `DetermineReleaseState`: without a release, there is an install.

use serde_json::Value;

use crate::flux::simulation::model::affected_owner::OwnerDeletion;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::helm::target::ReleaseTarget;
use crate::kubernetes::object::{ObjectId, Resource, flag_at};
use crate::ownership::Members;
use crate::ownership::schemes::flux_helmrelease::{GROUP, KIND, is_record};
use crate::plan::Action;

/// A HelmRelease that stays and installs the release again that a deleted one uninstalls.
pub(super) struct Heir<'s> {
    release: &'s Resource,
    members: Members,
}

impl<'s> Heir<'s> {
    /// Returns the HelmRelease that has the release of a deleted one too; `None` if the release stays away.
    pub(super) fn find(state: &State<'s>, deleted: &Resource, consequences: &Consequences<'_>) -> Option<Self> {
        let target = ReleaseTarget::recorded(&deleted.content)?;
        if flag_at(deleted.spec(), "/uninstall/keepHistory") {
            return None;
        }
        let mut others = state.input.snapshot.resources.iter().filter(|other| {
            let id = &other.object.id;
            id.is(GROUP, KIND) && *id != deleted.object.id && !consequences.may_be_deleted(id)
        });
        let release = others.find(|other| {
            ReleaseTarget::recorded(&other.content).as_ref() == Some(&target)
                && other.spec().get("kubeConfig") == deleted.spec().get("kubeConfig")
                && state.specs_after(&other.object.id).iter().all(|spec| keeps_target(&other.object.id, spec, &target))
                && !other.flag("/spec/suspend")
        })?;
        Some(Self { release, members: state.members(release) })
    }

    /// Makes the deletion of an object one after which it is created again, if the HelmRelease has it.
    pub(super) fn add_to(&self, state: &State<'_>, id: &ObjectId, deletion: &mut OwnerDeletion) {
        let is_record = state.live_object(id).is_some_and(|object| is_record(&self.release.content, object));
        let is_member = matches!(&self.members, Members::Listed(ids) if ids.contains(id));
        // The installation records revision 1.
        if is_member || (is_record && id.name.ends_with(".v1")) {
            deletion.action = Action::Recreate;
            let heir = &self.release.object.id;
            deletion.remark(format!("{heir} has the same release, and installs it again when it is reconciled"));
        }
    }
}

/// Returns true if a HelmRelease with this spec keeps a release with this target in sync.
fn keeps_target(id: &ObjectId, spec: &Value, target: &ReleaseTarget) -> bool {
    !flag_at(spec, "/suspend") && target.change_to(&ReleaseTarget::of_spec(id, spec, None)).is_none()
}
