//! ResourceSets: the resources that flux-operator generates of them.

pub(crate) mod expansion;

use serde_json::Value;

use super::changed_owners::{ChangeRules, changed_owners, is_switched_off_after};
use super::comparison::Comparison;
use super::kinds::{OwnerKind, does_nothing};
use super::search::unrecorded;
use crate::flux::kinds::OPERATOR_SWITCH;
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Effect, OwnerDeletion};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, text_at};
use crate::ownership::Members;
use crate::ownership::schemes::flux::{inventory_members, is_switched_off};
use crate::ownership::schemes::flux_operator::{GROUP, SET};
use crate::plan::Actor;

/// Kind of the owners that generate resources of templates.
pub(crate) const KIND: &str = "ResourceSet";

/// Label or annotation that keeps an object of flux-operator, with the value `disabled`.
const PRUNE: &str = "fluxcd.controlplane.io/prune";

/// ResourceSets.
pub(super) const SETS: OwnerKind =
    OwnerKind { group: GROUP, kind: KIND, actor: Actor::FluxOperator, affected, acting: does_nothing, deleted };

const RULES: ChangeRules = ChangeRules {
    group: GROUP,
    kind: KIND,
    not_computed: "its resources are not generated here",
    creation_remark: "the objects that it generates are not in this plan, and those that exist are taken over",
    references,
    is_inactive: is_switched_off_after,
    has_nothing: |_, _| false,
    takes_over: |_, _| false,
    stake: |_, _| None,
    follow: expansion::expand,
};

fn affected(comparison: &mut Comparison<'_, '_, '_>) -> Vec<AffectedOwner> {
    changed_owners(comparison, &RULES)
}

fn references(comparison: &mut Comparison<'_, '_, '_>, namespace: &str, spec: &Value) -> Vec<String> {
    comparison.set_references(namespace, spec)
}

/// Returns what flux-operator deletes for a deleted ResourceSet: its inventory. One that is disabled deletes nothing.
fn deleted(state: &State<'_>, set: &Resource, _: &Consequences<'_>) -> Effect {
    let is_off = set.object.annotations.get(OPERATOR_SWITCH).is_some_and(is_switched_off);
    match inventory_members(&set.content) {
        Members::Listed(ids) if !is_off => {
            let deletion = OwnerDeletion::new(CascadeKind::ResourceSet);
            let objects = deletable(state, set, &ids);
            Effect {
                deletes: objects.map(|object| (object.id.clone(), deletion.clone())).collect(),
                ..Effect::default()
            }
        }
        Members::Unreadable(error) if !is_off => Effect { unknown: Some(unrecorded(&error)), ..Effect::default() },
        _ => Effect::default(),
    }
}

/// Returns those objects that carry the labels of a ResourceSet and are not protected. Without its service account it cannot
/// delete any.
fn deletable<'s, 'a>(
    state: &'s State<'a>,
    set: &'s Resource,
    ids: impl IntoIterator<Item = &'s ObjectId>,
) -> impl Iterator<Item = &'a ObjectMetadata> {
    let account = text_at(&set.content, "/spec/serviceAccountName");
    let account_id = ObjectId::new("", "ServiceAccount", &set.object.id.namespace, account);
    let can_delete = account.is_empty() || state.live_object(&account_id).is_some();
    let objects = ids.into_iter().filter_map(|id| state.live_object(id));
    objects.filter(move |object| can_delete && reason_to_keep(object, &set.object.id).is_none())
}

/// Returns the reason why flux-operator does not delete an object for a ResourceSet, for people.
fn reason_to_keep(object: &ObjectMetadata, set: &ObjectId) -> Option<String> {
    let [name, namespace] = SET.map(|key| object.labels.get(key));
    if name != Some(&*set.name) || namespace != Some(&*set.namespace) {
        return Some("its labels name another owner".to_owned());
    }
    let marks = [object.labels.get(PRUNE), object.annotations.get(PRUNE)];
    marks.into_iter().flatten().any(is_switched_off).then(|| format!("protected by {PRUNE}: disabled"))
}
