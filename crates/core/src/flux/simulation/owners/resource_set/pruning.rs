//! Objects of a ResourceSet that flux-operator can delete.

use std::collections::BTreeMap;

use crate::flux::kinds::OPERATOR_SWITCH;
use crate::flux::simulation::model::affected_owner::{Effect, OwnerDeletion};
use crate::flux::simulation::model::state::State;
use crate::flux::spec::named_account;
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use crate::ownership::schemes::flux::is_switched_off;
use crate::ownership::schemes::flux_operator::SET;
use crate::ownership::schemes::{flux_helmrelease, flux_kustomization};
use crate::plan::Action;

/// Label or annotation that keeps an object of flux-operator, with the value `disabled`.
const PRUNE: &str = "fluxcd.controlplane.io/prune";

/// Returns true if flux-operator does not reconcile a ResourceSet.
pub(super) fn is_off(set: &Resource) -> bool {
    set.object.annotations.get(OPERATOR_SWITCH).is_some_and(is_switched_off)
}

/// Returns those objects that carry the labels of a ResourceSet and are not protected.
pub(super) fn deletable<'s, 'a>(
    state: &'s State<'a>,
    set: &'s ObjectId,
    ids: impl IntoIterator<Item = &'s ObjectId>,
) -> impl Iterator<Item = &'a ObjectMetadata> {
    let objects = ids.into_iter().filter_map(|id| state.live_object(id));
    objects.filter(|object| reason_to_keep(object, set).is_none())
}

/// Returns true if flux-operator deletes an object before all others, and none of the others if that fails.
///
/// Source: flux-operator v0.58.1 `deleteAllStaged` in `internal/controller/resourceset_controller.go`.
pub(super) fn is_deleted_first(id: &ObjectId) -> bool {
    [flux_kustomization::GROUP, flux_helmrelease::GROUP].contains(&&*id.group)
}

/// Returns what flux-operator deletes of that which exists if it deletes a new ResourceSet once that has this effect.
pub(super) fn restarted(state: &State<'_>, _: &ObjectId, effect: &Effect) -> BTreeMap<ObjectId, OwnerDeletion> {
    let all = effect.applies.iter().flat_map(|applies| applies.steps()).flatten();
    let taken = all.filter(|(id, built)| state.is_live(id) && !built.has_label_or_annotation(PRUNE, "disabled"));
    let recreated = OwnerDeletion { action: Action::Recreate, ..OwnerDeletion::new(CascadeKind::ResourceSet) };
    taken.map(|(id, _)| (id.clone(), recreated.clone())).collect()
}

/// Returns the service account with whose rights flux-operator acts for a ResourceSet: the one that it names, or the default of
/// flux-operator; `None` for its own.
pub(super) fn service_account(state: &State<'_>, set: &Resource) -> Option<ObjectId> {
    let account = named_account(set.spec()).or(state.input.set_account.as_deref())?;
    Some(ObjectId::new("", "ServiceAccount", &set.object.id.namespace, account))
}

/// Returns true if an object carries the labels of a ResourceSet.
pub(super) fn has_labels_of(object: &ObjectMetadata, set: &ObjectId) -> bool {
    let [name, namespace] = SET.map(|key| object.labels.get(key));
    name == Some(&*set.name) && namespace == Some(&*set.namespace)
}

/// Returns the reason why flux-operator does not delete an object for a ResourceSet, for people.
pub(super) fn reason_to_keep(object: &ObjectMetadata, set: &ObjectId) -> Option<String> {
    if !has_labels_of(object, set) {
        return Some("its labels name another owner".to_owned());
    }
    is_protected(object).then(|| format!("protected by {PRUNE}: disabled"))
}

/// Returns true if a label or an annotation of an object keeps it.
pub(super) fn is_protected(object: &ObjectMetadata) -> bool {
    let marks = [object.labels.get(PRUNE), object.annotations.get(PRUNE)];
    marks.into_iter().flatten().any(is_switched_off)
}
