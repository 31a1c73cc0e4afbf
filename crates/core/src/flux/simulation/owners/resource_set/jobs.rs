//! Jobs that flux-operator deletes and creates again, because they have failed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::pruning::has_labels_of;
use crate::flux::simulation::model::affected_owner::OwnerDeletion;
use crate::flux::simulation::model::node::BuiltObjects;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use crate::ownership::readiness::{Readiness, ready};
use crate::plan::{Action, ReasonCode};

/// Annotation of a Job that flux-operator deletes and creates again once it has failed.
const RECREATE_ON_FAILURE: &str = "fluxcd.controlplane.io/recreateOnFailure";

/// Returns the failed Jobs that flux-operator deletes before it applies a ResourceSet, because [`RECREATE_ON_FAILURE`] is enabled.
pub(super) fn failed_jobs(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    new: &BuiltObjects,
) -> Asked<BTreeMap<ObjectId, OwnerDeletion>> {
    let asking = new.values().filter(|built| built.id.is("batch", "Job") && asks_for_recreation(&built.manifest));
    let state = comparison.state();
    let candidates: Vec<&ObjectMetadata> = asking
        .filter_map(|built| state.live_object(&built.id))
        .filter(|job| has_labels_of(job, &live.object.id))
        .collect();
    let mut failed = BTreeMap::new();
    for job in candidates {
        let Some(content) = comparison.content(&job.id, "batch/v1")? else {
            let mut deletion = recreated_job();
            deletion.stays_if("it stays unless it has failed, which could not be read");
            deletion.is_doubtful = true;
            failed.insert(job.id.clone(), deletion);
            continue;
        };
        if matches!(ready(job, content), Readiness::Failed(_)) {
            failed.insert(job.id.clone(), recreated_job());
        }
    }
    Ok(failed)
}

/// Returns true if a Job is deleted once it has failed.
fn asks_for_recreation(manifest: &Value) -> bool {
    let annotations = manifest.pointer("/metadata/annotations");
    annotations.and_then(|all| all.get(RECREATE_ON_FAILURE)?.as_str()) == Some("enabled")
}

fn recreated_job() -> OwnerDeletion {
    let mut deletion = OwnerDeletion::new(CascadeKind::NotInResourceSet);
    deletion.action = Action::Recreate;
    deletion.code = Some(ReasonCode::FailedJob);
    deletion
}
