//! Claims of StatefulSets that shrink and delete them.
//!
//! Source: Kubernetes v1.36.3 `pkg/controller/statefulset/stateful_set_utils.go`, `persistentVolumeClaimRetentionPolicy`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use super::comparison::{Asked, Comparison};
use crate::flux::build::objects::BuiltObject;
use crate::flux::simulation::model::affected_owner::OwnerDeletion;
use crate::flux::simulation::model::state::State;
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, list_at, text_at};
use crate::plan::ReasonCode;

/// Live claims of the replicas that StatefulSets lose, with the condition of each deletion, for people.
pub(crate) type ReleasedClaims = BTreeMap<ObjectId, Option<String>>;

/// A manifest that a controller applies to an object, which may be a StatefulSet.
pub(crate) struct Scaling<'m> {
    id: &'m ObjectId,
    manifest: &'m Value,
    /// The number of replicas comes from a Secret.
    is_private: bool,
}

impl<'m> Scaling<'m> {
    pub(crate) fn of_built(built: &'m BuiltObject) -> Self {
        let is_private = [REPLICAS, START].into_iter().any(|path| built.is_masked_at(path));
        Self { id: &built.id, manifest: &built.manifest, is_private }
    }

    pub(crate) fn of_rendered((id, manifest): (&'m ObjectId, &'m Value)) -> Self {
        Self { id, manifest, is_private: false }
    }
}

/// Condition of the deletion of any claim of a StatefulSet that shrinks to a number that is not shown.
const PRIVATE_NUMBER: &str = "it stays if its replica does: the number of replicas comes from a Secret";

/// Returns the live claims that StatefulSets delete because a controller applies these manifests to them, by the number of replicas
/// that they have now. Of one that shrinks to a number from a Secret these are all, so that they do not show the
/// number.
pub(crate) fn released_claims<'m>(
    comparison: &mut Comparison<'_, '_, '_>,
    applied: impl Iterator<Item = Scaling<'m>>,
    controller: &str,
) -> Asked<ReleasedClaims> {
    let state = comparison.state();
    let mut released = ReleasedClaims::new();
    for Scaling { id, manifest, is_private } in
        applied.filter(|scaling| scaling.id.is("apps", "StatefulSet") && state.is_live(scaling.id))
    {
        if lost_claims(state, id, manifest, None, &ordinals(manifest)).next().is_none() {
            continue;
        }
        let live = comparison.content(id, "apps/v1")?;
        let after = match live {
            Some(live) => ordinals_after(live, manifest, controller),
            None if manifest.pointer(REPLICAS).is_some() => ordinals(manifest),
            None => continue,
        };
        let condition =
            live.is_none().then(|| format!("it stays unless {id} has its replica now, which could not be read"));
        let before = live.map(ordinals);
        let mut lost = lost_claims(state, id, manifest, before.as_ref(), &after).peekable();
        if is_private && lost.peek().is_some() {
            let all = lost_claims(state, id, manifest, None, &NO_ORDINALS);
            released.extend(all.map(|claim| (claim.clone(), Some(PRIVATE_NUMBER.to_owned()))));
            continue;
        }
        released.extend(lost.map(|claim| (claim.clone(), condition.clone())));
    }
    Ok(released)
}

/// Returns the deletion of a claim of a replica that a StatefulSet loses.
pub(crate) fn released_claim(condition: Option<&String>) -> OwnerDeletion {
    of_released_claim(OwnerDeletion::new(DEPENDENT), condition)
}

/// Makes a deletion that of a claim of a replica that a StatefulSet loses.
pub(crate) fn of_released_claim(mut deletion: OwnerDeletion, condition: Option<&String>) -> OwnerDeletion {
    (deletion.kind, deletion.code) = (DEPENDENT, Some(ReasonCode::ScaledDown));
    if let Some(condition) = condition {
        deletion.stays_if(condition.clone());
        deletion.is_doubtful = true;
    }
    deletion
}

/// Returns the ordinals of the replicas that a StatefulSet has once a controller applies a manifest.
fn ordinals_after(live: &Value, manifest: &Value, controller: &str) -> Range<i64> {
    let [start, replicas] =
        [(START, "/fieldsV1/f:spec/f:ordinals/f:start", 0), (REPLICAS, "/fieldsV1/f:spec/f:replicas", DEFAULT)].map(
            |(path, field, default)| {
                let kept = number_at(live, path).filter(|_| !is_dropped(live, field, controller));
                number_at(manifest, path).or(kept).unwrap_or(default)
            },
        );
    start..start + replicas
}

/// Returns true if a manifest without a field resets it: a controller set the present value, and nobody else has.
fn is_dropped(live: &Value, field: &str, controller: &str) -> bool {
    let entries = list_at(live, "/metadata/managedFields").iter();
    let mut setting = entries.filter(|entry| entry.pointer(field).is_some()).peekable();
    setting.peek().is_some() && setting.all(|entry| entry["manager"] == controller)
}

/// Returns the live claims of the replicas that a StatefulSet loses from `before`, or any ordinals, to `after`.
fn lost_claims<'a>(
    state: &State<'a>,
    id: &ObjectId,
    manifest: &Value,
    before: Option<&Range<i64>>,
    after: &Range<i64>,
) -> impl Iterator<Item = &'a ObjectId> {
    let cluster = state.input.snapshot.of_cluster(id.cluster.as_ref());
    let live = cluster.into_iter().flat_map(|cluster| &cluster.objects).map(|object| &object.id);
    live.filter(move |claim| is_lost(claim, id, manifest, before, after))
}

/// Returns true if a claim belongs to a replica that a StatefulSet loses, and its policy deletes the claim then. A replica below
/// the first ordinal is lost like one above the last (Kubernetes v1.36.3 `updateStatefulSet` in
/// pkg/controller/statefulset/stateful_set_control.go).
fn is_lost(claim: &ObjectId, id: &ObjectId, manifest: &Value, before: Option<&Range<i64>>, after: &Range<i64>) -> bool {
    let deletes = text_at(manifest, "/spec/persistentVolumeClaimRetentionPolicy/whenScaled") == "Delete";
    if !deletes || !claim.is("", "PersistentVolumeClaim") || claim.namespace != id.namespace {
        return false;
    }
    list_at(manifest, "/spec/volumeClaimTemplates").iter().any(|template| {
        let stem = format!("{}-{}-", text_at(template, "/metadata/name"), id.name);
        let ordinal = claim.name.strip_prefix(&*stem).and_then(|ordinal| ordinal.parse::<i64>().ok());
        ordinal
            .is_some_and(|ordinal| !after.contains(&ordinal) && before.is_none_or(|before| before.contains(&ordinal)))
    })
}

/// The claims of a StatefulSet are in its namespace.
const DEPENDENT: CascadeKind = CascadeKind::Dependent { owner_in_other_namespace: false };

/// Number of replicas of a StatefulSet whose manifest has none.
const DEFAULT: i64 = 1;

const NO_ORDINALS: Range<i64> = 0..0;
const REPLICAS: &str = "/spec/replicas";
const START: &str = "/spec/ordinals/start";

/// Returns the ordinals of the replicas of a StatefulSet.
fn ordinals(manifest: &Value) -> Range<i64> {
    let start = number_at(manifest, START).unwrap_or(0);
    start..start + number_at(manifest, REPLICAS).unwrap_or(DEFAULT)
}

/// Returns a whole number of a manifest.
fn number_at(manifest: &Value, path: &str) -> Option<i64> {
    manifest.pointer(path).and_then(Value::as_i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_of_lost_replicas_are_deleted_only_if_the_policy_says_so() {
        let id = ObjectId::new("apps", "StatefulSet", "shop", "db");
        let claims = ["data-db-1", "data-db-2", "data-db-3", "data-db-4", "data-dbs-2"];
        let names = |policy: &str, after: Range<i64>, before: Option<Range<i64>>| -> Vec<&str> {
            let manifest = json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": policy},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}});
            let claim = |name: &str| ObjectId::new("", "PersistentVolumeClaim", "shop", name);
            let is_lost = |name: &&str| is_lost(&claim(name), &id, &manifest, before.as_ref(), &after);
            claims.into_iter().filter(is_lost).collect()
        };
        assert_eq!(names("Delete", 1..2, Some(1..4)), ["data-db-2", "data-db-3"]);
        assert_eq!(names("Delete", 3..5, Some(1..4)), ["data-db-1", "data-db-2"]);
        assert_eq!(names("Delete", 2..3, None), ["data-db-1", "data-db-3", "data-db-4"]);
        assert!(names("Retain", 1..2, Some(1..4)).is_empty() && names("Delete", 1..4, Some(1..4)).is_empty());
    }

    #[test]
    fn a_number_that_a_manifest_drops_becomes_the_default_unless_somebody_else_set_it() {
        let live = |managers: &[&str]| -> Value {
            let fields = json!({"f:spec": {"f:replicas": {}, "f:ordinals": {"f:start": {}}}});
            let entries: Vec<Value> =
                managers.iter().map(|manager| json!({"manager": manager, "fieldsV1": fields})).collect();
            json!({"metadata": {"managedFields": entries}, "spec": {"replicas": 3, "ordinals": {"start": 2}}})
        };
        let cases = [(vec!["flux"], 0..1), (vec!["flux", "kubectl"], 2..5), (vec!["kubectl"], 2..5), (vec![], 2..5)];
        for (managers, expected) in cases {
            assert_eq!(ordinals_after(&live(&managers), &json!({}), "flux"), expected, "{managers:?}");
        }
    }
}
