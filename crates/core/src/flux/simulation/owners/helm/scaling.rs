//! Claims of StatefulSets that shrink and delete them.
//!
//! Source: Kubernetes v1.36.3 `pkg/controller/statefulset/stateful_set_utils.go`, `persistentVolumeClaimRetentionPolicy`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::flux::simulation::model::state::State;
use crate::helm::rendered::Rendered;
use crate::kubernetes::object::{ObjectId, list_at, text_at};

/// Returns the live claims of the replicas that a StatefulSet loses, if its new manifest deletes them.
pub(super) fn released_claims(state: &State<'_>, old: &Rendered, new: &Rendered) -> BTreeSet<ObjectId> {
    let sets = new.manifests().iter().filter(|(id, _)| id.is("apps", "StatefulSet"));
    let shrinking = sets.filter_map(|(id, manifest)| Some((id, manifest, replicas(old.manifests().get(id)?))));
    let claims = shrinking.flat_map(|(id, manifest, before)| claims_of(id, manifest, before));
    claims.filter(|claim| state.live_object(claim).is_some()).collect()
}

/// Returns the claims of the replicas that a StatefulSet loses.
fn claims_of(id: &ObjectId, manifest: &Value, before: i64) -> Vec<ObjectId> {
    let deletes = text_at(manifest, "/spec/persistentVolumeClaimRetentionPolicy/whenScaled") == "Delete";
    if !deletes {
        return vec![];
    }
    let start = manifest.pointer("/spec/ordinals/start").and_then(Value::as_i64).unwrap_or_default();
    let templates = list_at(manifest, "/spec/volumeClaimTemplates").iter();
    let names = templates.map(|template| text_at(template, "/metadata/name"));
    let claims = names.flat_map(|name| {
        (start + replicas(manifest)..start + before).map(move |ordinal| {
            let claim = format!("{name}-{}-{ordinal}", id.name);
            ObjectId::new("", "PersistentVolumeClaim", &id.namespace, &claim).in_cluster(id.cluster.as_ref())
        })
    });
    claims.collect()
}

/// Returns the number of replicas of a StatefulSet.
fn replicas(manifest: &Value) -> i64 {
    manifest.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_of_lost_replicas_are_deleted_only_if_the_policy_says_so() {
        let id = ObjectId::new("apps", "StatefulSet", "shop", "db");
        let names = |policy: &str, replicas: i64| -> Vec<String> {
            let manifest = json!({"spec": {"replicas": replicas, "ordinals": {"start": 1},
                "persistentVolumeClaimRetentionPolicy": {"whenScaled": policy},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}});
            claims_of(&id, &manifest, 3).into_iter().map(|claim| claim.name.to_string()).collect()
        };
        assert_eq!(names("Delete", 1), ["data-db-2", "data-db-3"]);
        assert!(names("Retain", 1).is_empty() && names("Delete", 3).is_empty());
    }
}
