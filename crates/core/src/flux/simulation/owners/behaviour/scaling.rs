//! Claims of StatefulSets that shrink and delete them.
//!
//! Source: Kubernetes v1.36.3 `pkg/controller/statefulset/stateful_set_utils.go`, `persistentVolumeClaimRetentionPolicy`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::comparison::{Asked, Comparison};
use crate::flux::build::Interrupt;
use crate::flux::build::objects::query::{ClusterQuery, ObjectQuery, QueryAnswer};
use crate::flux::simulation::model::affected_owner::{Effect, OwnerDeletion};
use crate::flux::simulation::model::node::{Node, SimulationEvent};
use crate::flux::simulation::model::state::State;
use crate::helm::rendered::Rendered;
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, list_at, text_at};
use crate::plan::ReasonCode;

/// Returns the live claims of the replicas that a StatefulSet loses, if its new manifest deletes them.
pub(crate) fn released_claims(state: &State<'_>, old: &Rendered, new: &Rendered) -> BTreeSet<ObjectId> {
    let sets = new.manifests().iter().filter(|(id, _)| id.is("apps", "StatefulSet"));
    let shrinking = sets.filter_map(|(id, manifest)| Some((id, manifest, replicas(old.manifests().get(id)?))));
    shrinking.flat_map(|(id, manifest, before)| lost_claims(state, id, manifest, Some(before))).cloned().collect()
}

/// Returns what the StatefulSets of a Kustomization delete because its last pass shrinks them; `None` if that is nothing.
pub(crate) fn shrinking_sets(comparison: &mut Comparison<'_, '_, '_>, node: &Node) -> Asked<Option<Effect>> {
    let Some((pass_id, pass)) = node.numbered_passes().last() else { return Ok(None) };
    let Some(objects) = pass.applied_objects() else { return Ok(None) };
    let state = comparison.state();
    let mut deletes = BTreeMap::new();
    for built in objects.values().filter(|built| built.id.is("apps", "StatefulSet")) {
        let (id, manifest) = (&built.id, &*built.manifest);
        // Without a number of replicas it keeps the one that it has.
        let has_number = manifest.pointer("/spec/replicas").is_some_and(Value::is_i64);
        if !has_number || !state.is_live(id) || lost_claims(state, id, manifest, None).next().is_none() {
            continue;
        }
        let before = live_replicas(comparison, id)?;
        for claim in lost_claims(state, id, manifest, before) {
            let mut deletion = OwnerDeletion::new(CascadeKind::Dependent { owner_in_other_namespace: false });
            deletion.code = Some(ReasonCode::ScaledDown);
            if before.is_none() {
                deletion.stays_if(format!("it stays unless {id} has its replica now, which could not be read"));
                deletion.is_doubtful = true;
            }
            deletes.insert(claim.clone(), deletion);
        }
    }
    let triggers = BTreeSet::from([SimulationEvent::Apply(pass_id)]);
    let condition = pass.condition.as_ref().map(|condition| condition.detail.clone());
    Ok((!deletes.is_empty()).then(|| Effect { triggers, deletes, condition, ..Effect::default() }))
}

/// Returns the number of replicas of a live StatefulSet; `None` if it cannot be read.
fn live_replicas(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId) -> Asked<Option<i64>> {
    let ObjectId { kind, namespace, name, .. } = id;
    let (kind, namespace, name) = (kind.to_string(), namespace.to_string(), name.to_string());
    let query = ObjectQuery { api_version: "apps/v1".to_owned(), kind, namespace, name };
    let query = ClusterQuery { cluster: id.cluster.clone(), query };
    match comparison.derivation.answers.queries.get(&query) {
        Some(QueryAnswer::Found(content)) => Ok(Some(replicas(content))),
        Some(QueryAnswer::Missing | QueryAnswer::Unreadable(_)) => Ok(None),
        None => {
            comparison.derivation.needs.queries.insert(query);
            Err(Interrupt::Missing)
        }
    }
}

/// Returns the live claims of the replicas that a StatefulSet loses; without the number that it has, of all higher ones.
fn lost_claims<'a>(
    state: &State<'a>,
    id: &ObjectId,
    manifest: &Value,
    before: Option<i64>,
) -> impl Iterator<Item = &'a ObjectId> {
    let cluster = state.input.snapshot.of_cluster(id.cluster.as_ref());
    let live = cluster.into_iter().flat_map(|cluster| &cluster.objects).map(|object| &object.id);
    live.filter(move |claim| is_lost(claim, id, manifest, before))
}

/// Returns true if a claim belongs to a replica that a StatefulSet loses, and its policy deletes the claim then.
fn is_lost(claim: &ObjectId, id: &ObjectId, manifest: &Value, before: Option<i64>) -> bool {
    let deletes = text_at(manifest, "/spec/persistentVolumeClaimRetentionPolicy/whenScaled") == "Delete";
    if !deletes || !claim.is("", "PersistentVolumeClaim") || claim.namespace != id.namespace {
        return false;
    }
    let start = manifest.pointer("/spec/ordinals/start").and_then(Value::as_i64).unwrap_or_default();
    list_at(manifest, "/spec/volumeClaimTemplates").iter().any(|template| {
        let stem = format!("{}-{}-", text_at(template, "/metadata/name"), id.name);
        let ordinal = claim.name.strip_prefix(&*stem).and_then(|ordinal| ordinal.parse::<i64>().ok());
        ordinal.is_some_and(|ordinal| {
            ordinal >= start + replicas(manifest) && before.is_none_or(|before| ordinal < start + before)
        })
    })
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
        let claims = ["data-db-1", "data-db-2", "data-db-3", "data-db-4", "data-dbs-2"];
        let names = |policy: &str, replicas: i64, before: Option<i64>| -> Vec<&str> {
            let manifest = json!({"spec": {"replicas": replicas, "ordinals": {"start": 1},
                "persistentVolumeClaimRetentionPolicy": {"whenScaled": policy},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}});
            let claim = |name: &str| ObjectId::new("", "PersistentVolumeClaim", "shop", name);
            claims.into_iter().filter(|name| is_lost(&claim(name), &id, &manifest, before)).collect()
        };
        assert_eq!(names("Delete", 1, Some(3)), ["data-db-2", "data-db-3"]);
        assert_eq!(names("Delete", 1, None), ["data-db-2", "data-db-3", "data-db-4"]);
        assert!(names("Retain", 1, Some(3)).is_empty() && names("Delete", 3, Some(3)).is_empty());
    }
}
