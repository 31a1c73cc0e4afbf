//! FluxInstances: the source and the Kustomization of `spec.sync`, with the patches of it.
//!
//! flux-operator builds the controllers, the source and the Kustomization at once, and applies them all. What depends on the
//! distribution is not computed. Source: flux-operator v0.58.1 `internal/builder/templates.go` and
//! `internal/controller/fluxinstance_controller.go`, `build` and `apply`.

mod patches;
mod sync;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use self::patches::{other_patches, patched, selected_by_any};
use crate::flux::build::objects::{BuiltObject, objects};
use crate::flux::kinds::OPERATOR_SWITCH;
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Effect, OwnerApply};
use crate::flux::simulation::model::node::{PassOutcome, SimulationEvent};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::{
    ChangeRules, Followed, changed_owners, is_switched_off_after,
};
use crate::flux::simulation::owners::behaviour::commands;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::behaviour::effective_fields::{differing_fields, differing_parts};
use crate::flux::simulation::owners::behaviour::owner_kind::{OwnerKind, does_nothing, unrecorded};
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::schemes::flux::{inventory_members, is_switched_off, status};
use crate::ownership::schemes::flux_operator;
use crate::ownership::{Members, OwnerStatus};
use crate::plan::{Actor, ReasonCode};

/// Kind of the owner that installs Flux.
const KIND: &str = "FluxInstance";

/// Parts of a FluxInstance whose change is followed.
const FOLLOWED: [&str; 2] = ["spec.sync", "spec.kustomize"];

/// FluxInstances.
pub(super) const INSTANCES: OwnerKind = OwnerKind {
    group: flux_operator::GROUP,
    kind: KIND,
    actor: Actor::FluxOperator,
    affected,
    acting: does_nothing,
    find_out: |state, id| commands::generated(state, id, "instance"),
    deleted,
    finalized: |_, _| vec![],
    stored: |_, _| None,
};

const RULES: ChangeRules = ChangeRules {
    group: flux_operator::GROUP,
    kind: KIND,
    not_computed: "what flux-operator installs is not computed here",
    creation_remark: "flux-operator installs Flux; its objects are not in this plan, and those that exist are taken over",
    references,
    is_inactive: is_switched_off_after,
    has_nothing: |_, _| false,
    taken_over: |_, _| None,
    stake: |_, _| Some("it may take over a source and a Kustomization that exist"),
    restart: |_, _, _| BTreeMap::new(),
    deleted,
    follow,
};

fn affected(comparison: &mut Comparison<'_, '_, '_>) -> Vec<AffectedOwner> {
    changed_owners(comparison, &RULES)
}

fn references(_: &mut Comparison<'_, '_, '_>, _: &ObjectId, _: &Value) -> Asked<Vec<String>> {
    Ok(vec![])
}

/// Returns what a deleted FluxInstance deletes: everything of Flux, unless it is disabled or installed nothing.
fn deleted(_: &State<'_>, instance: &Resource, _: &Consequences<'_>) -> Effect {
    let is_off = instance.object.annotations.get(OPERATOR_SWITCH).is_some_and(is_switched_off);
    let has_objects = match inventory_members(&instance.content) {
        Members::Unrecorded => false,
        Members::Listed(ids) => !ids.is_empty(),
        _ => true,
    };
    let what = "flux-operator uninstalls Flux: it deletes the controllers and every object of Flux in the cluster";
    Effect { unknown: (has_objects && !is_off).then(|| unrecorded(what)), ..Effect::default() }
}

/// Computes the source and the Kustomization that flux-operator applies of a live FluxInstance. What a new one installs is not
/// computed, but those that exist have to stay as they are.
///
/// Fails with the reason why the effect is not known.
fn follow(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, live: Option<&Resource>) -> Asked<Followed> {
    let state = comparison.state();
    let Some(live) = live else {
        check_takeover(state, id)?;
        return Ok(Followed::No);
    };
    let specs = state.specs_after(id);
    let [new_spec] = &specs[..] else {
        return Err("several Kustomizations apply different specs of it".to_owned().into());
    };
    if state.is_private(id) {
        return Err("its spec holds values of a Secret".to_owned().into());
    }
    check_parts(live, new_spec)?;
    sync::check_change(live.spec(), new_spec)?;
    let manifests = changed_manifests(state, &id.namespace, live.spec(), new_spec)?;
    if manifests.is_empty() {
        return Ok(Followed::Unchanged);
    }
    if status(&live.object, &live.content, None) != OwnerStatus::Ready {
        return Err("it is not ready, and it is not certain that flux-operator applies anything".to_owned().into());
    }
    // Later passes can be those that its own Kustomization makes with the new spec.
    let Some((_, trigger)) = state.applied_specs(id).find(|(spec, _)| spec == new_spec) else {
        return Err("it is not known what changes its spec".to_owned().into());
    };
    let built: Vec<BuiltObject> = manifests.into_iter().flat_map(|manifest| objects(manifest.into(), None)).collect();
    let PassOutcome::Applied(objects) = comparison.derivation.place(None, built, None) else {
        return Err("its source and its Kustomization cannot be applied".to_owned().into());
    };
    let effect = Effect {
        triggers: BTreeSet::from([SimulationEvent::Apply(trigger.clone())]),
        applies: Some(OwnerApply::generated(trigger, objects)),
        ..Effect::default()
    };
    Ok(Followed::Acts { effect: Box::new(effect), code: ReasonCode::ResourcesGenerated, remarks: vec![] })
}

/// Fails if a new FluxInstance changes a source or a Kustomization that exists: it takes over those of its `spec.sync`.
fn check_takeover(state: &State<'_>, id: &ObjectId) -> Result<(), String> {
    for spec in state.specs_after(id).iter().filter(|spec| spec.get("sync").is_some_and(Value::is_object)) {
        let source = sync::source(spec, &id.namespace);
        if is_live(state, &source) {
            if selected_by_any(&source, spec) {
                return Err("a patch may select its source".to_owned());
            }
            check_same(state, id, &source)?;
        }
        let kustomization = sync::kustomization(spec, &id.namespace);
        if is_live(state, &kustomization) {
            check_same(state, id, &patched(kustomization, spec)?)?;
        }
    }
    Ok(())
}

fn is_live(state: &State<'_>, manifest: &Value) -> bool {
    objects(manifest.clone().into(), None).iter().any(|built| state.is_live(&built.id))
}

/// Fails if a manifest of a FluxInstance changes the spec of a live object.
fn check_same(state: &State<'_>, instance: &ObjectId, manifest: &Value) -> Result<(), String> {
    let new = sync::comparable(&manifest["spec"]);
    for built in objects(manifest.clone().into(), None) {
        if [instance, &built.id].iter().any(|id| state.is_private(id)) {
            return Err("a spec holds values of a Secret".to_owned());
        }
        let live = state.input.snapshot.resource(&built.id).map(Resource::spec);
        for spec in live.into_iter().chain(&state.specs_after(&built.id)) {
            if let Some(field) = differing_fields(&built.id.kind, &sync::comparable(spec), &new).first() {
                return Err(format!("flux-operator changes {field} of {}", built.id));
            }
        }
    }
    Ok(())
}

/// Fails if a part changes whose effect is not computed.
fn check_parts(live: &Resource, new_spec: &Value) -> Result<(), String> {
    if live.spec().get("distribution").is_none() {
        return Err("the snapshot has no values of its spec: plan with the cluster".to_owned());
    }
    let new = serde_json::json!({"spec": new_spec});
    let parts = differing_parts(KIND, &live.content, &new, true, false);
    match parts.iter().find(|part| !FOLLOWED.contains(&part.as_str())) {
        Some(_) => Err(format!("only changes of {} are followed", FOLLOWED.join(" and "))),
        None if other_patches(live.spec()) != other_patches(new_spec) => {
            Err("a patch changes that does not select only its Kustomization".to_owned())
        }
        None => Ok(()),
    }
}

/// Returns the manifests of the source and the Kustomization that change.
///
/// Fails if one of them cannot be computed, or if the live object is not the one that is computed of the old spec.
fn changed_manifests(
    state: &State<'_>,
    namespace: &str,
    old_spec: &Value,
    new_spec: &Value,
) -> Result<Vec<Value>, String> {
    let [old, new] =
        [old_spec, new_spec].map(|spec| (sync::source(spec, namespace), sync::kustomization(spec, namespace)));
    let mut changed = vec![];
    if old.0 != new.0 {
        if [old_spec, new_spec].iter().any(|spec| selected_by_any(&new.0, spec)) {
            return Err("a patch may select its source".to_owned());
        }
        check_live(state, &old.0)?;
        changed.push(new.0);
    }
    let (old, new) = (patched(old.1, old_spec)?, patched(new.1, new_spec)?);
    if old != new {
        check_live(state, &old)?;
        changed.push(new);
    }
    Ok(changed)
}

/// Fails if a live object has another spec than a manifest.
fn check_live(state: &State<'_>, manifest: &Value) -> Result<(), String> {
    for built in objects(manifest.clone().into(), None) {
        let Some(live) = state.input.snapshot.resource(&built.id) else {
            return Err(format!("{} could not be read", built.id));
        };
        let fields = manifest.get("spec").and_then(Value::as_object).into_iter().flatten();
        if let Some((field, _)) = fields.into_iter().find(|(field, value)| live.spec().get(*field) != Some(*value)) {
            return Err(format!("{} has another spec.{field} than is computed here", built.id));
        }
    }
    Ok(())
}
