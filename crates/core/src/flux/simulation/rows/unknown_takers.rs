//! Deletions that a new Kustomization may prevent whose objects are not known.
//!
//! kustomize-controller deletes only what has the labels of the Kustomization that it deletes for (`Inclusions` of
//! `DeleteAll` in fluxcd/pkg/ssa). An object that another Kustomization applies before stays.

use std::collections::BTreeSet;

use super::cascade_rows::change_what_follows;
use crate::flux::simulation::model::node::{Node, PassOutcome};
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::KustomizationSpec;
use crate::kubernetes::object::{ObjectId, text_at};
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Actor, Certainty, Change, ReasonCode, if_deleted};

/// Makes deletions by kustomize-controller depend on new Kustomizations of which no planned source has the objects.
pub(super) fn doubt_what_may_be_taken(state: &State<'_>, changes: &mut [Change]) {
    let takers: Vec<&Node> = state.nodes.iter().filter(|node| applies_unknown_objects(node)).collect();
    // Without any of these sources, nothing that creates one is applied either.
    if takers.iter().all(|taker| lacks_source(state, taker)) {
        return;
    }
    let mut doubted = BTreeSet::new();
    for change in changes.iter_mut().filter(|change| is_by_label(change) && loses_something(state, change)) {
        let id = &change.object.id;
        let Some(taker) = takers.iter().find(|taker| may_apply(state, taker, id)) else { continue };
        doubted.insert(id.clone());
        let name = owner_id(&taker.id.key);
        change
            .make_race(format!("it stays if {name}, of which this tree does not have the objects, applies it before"));
    }
    change_what_follows(changes, doubted, |change, cause| {
        let is_certain = change.certainty == Certainty::Certain;
        if is_certain {
            change.make_race(if_deleted(cause));
        }
        is_certain
    });
}

/// Returns true for a new Kustomization whose source has no planned files.
fn applies_unknown_objects(node: &Node) -> bool {
    let pass = node.last_pass().filter(|pass| node.id.is_new && node.deletion.is_none() && !pass.spec.is_suspended());
    pass.is_some_and(
        |pass| matches!(&pass.outcome, PassOutcome::Unknown(reason) if reason.code == ReasonCode::OtherSource),
    )
}

/// Returns true for a Kustomization that applies nothing, because its source does not exist and nothing creates it.
fn lacks_source(state: &State<'_>, taker: &Node) -> bool {
    let source = taker.last_pass().map(|pass| pass.spec.source(&taker.id.key.namespace));
    source.is_some_and(|source| state.stays_absent(&source.object()))
}

/// Returns true for an object that kustomize-controller certainly deletes because its labels name the owner.
fn is_by_label(change: &Change) -> bool {
    let by_label = [
        ReasonCode::NotInBuild,
        ReasonCode::OwnerDeleted,
        ReasonCode::Moved,
        ReasonCode::ChangedSpec,
        ReasonCode::ChangedVariables,
    ];
    let is_certain = change.is_deletion() && change.certainty == Certainty::Certain;
    is_certain && change.by == Actor::KustomizeController && by_label.contains(&change.reason.code)
}

/// Returns false for a Kustomization that leaves its objects behind when it is deleted.
fn loses_something(state: &State<'_>, change: &Change) -> bool {
    let id = &change.object.id;
    let live = state.input.snapshot.resource(id).filter(|_| id.is(GROUP, KIND));
    live.is_none_or(|live| KustomizationSpec::of(live).finalizer_deletes(state.input.features.deletion_policy).is_ok())
}

/// Returns true if a Kustomization can have an object among those that it applies.
fn may_apply(state: &State<'_>, taker: &Node, id: &ObjectId) -> bool {
    let Some(pass) = taker.last_pass() else { return false };
    let is_there = state.target_of_pass(&taker.id.key, &pass.spec).is_ok_and(|cluster| cluster == id.cluster);
    let namespace = text_at(pass.spec.value(), "/targetNamespace");
    is_there && (id.namespace.is_empty() || namespace.is_empty() || *namespace == *id.namespace)
}
