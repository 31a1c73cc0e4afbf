//! Fields of live objects that `spec.ignore` keeps, and applies that fail because of its rules.
//!
//! Source: docs/reference/kustomize-controller.md 4.3.

use serde_json::{Value, json};

use super::live_spec::{SpecChange, answer_to_apply};
use super::scope::stop_from;
use crate::flux::apply::AppliedObject;
use crate::flux::apply::ignore_rules::{
    IgnoreTarget, cannot_keep, ignored_paths, invalid_path, invalid_target, unreplaceable_path,
};
use crate::flux::apply::manifest::manifest_to_apply;
use crate::flux::build::objects::BuiltObject;
use crate::flux::simulation::model::node::PassOutcome;
use crate::flux::simulation::model::protection::{is_marked, is_never_applied, is_never_changed};
use crate::flux::simulation::model::state::State;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::deletion::order::apply_order;
use crate::kubernetes::object::{KeyValues, ObjectId, Resource, list_at, texts_at};
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND, SSA};
use crate::plan::{Reason, ReasonCode};

/// JSON pointers of the fields that an apply of an object leaves as they are.
#[derive(Default)]
pub(super) struct IgnoredFields {
    /// All that may be left.
    pub(super) all: Vec<String>,
    /// Those that are left for certain.
    pub(super) certain: Vec<String>,
}

/// Returns the fields that an apply leaves as they are. The rules are matched with what the apply makes of the object, so labels
/// of other managers count too. Who set a live label that the manifest does not have is mostly not known.
///
/// Source: `hasDriftedWithIgnore` and `computeDriftedPaths` in manager_apply.go of fluxcd/pkg/ssa v0.76.2.
pub(super) fn ignored_fields(
    state: &State<'_>,
    owner: &NamespacedName,
    spec: &KustomizationSpec,
    built: &BuiltObject,
    id: &ObjectId,
) -> IgnoredFields {
    if !has_rules(state, spec) {
        return IgnoredFields::default();
    }
    let manifest = manifest_to_apply(&applied_object(owner, spec, built, id));
    let mut target = IgnoreTarget::new(id, &built.version, &manifest);
    let own = ignored_paths(spec, &target);
    if let Some(live) = state.live_object(id) {
        target.add(live);
    }
    let mut all = ignored_paths(spec, &target);
    let (certain, only_own): (Vec<_>, Vec<_>) = own.into_iter().partition(|path| all.contains(path));
    all.extend(only_own);
    IgnoredFields { all, certain }
}

fn has_rules(state: &State<'_>, spec: &KustomizationSpec) -> bool {
    state.input.features.ignores_fields && !list_at(spec.value(), "/ignore").is_empty()
}

fn applied_object(
    owner: &NamespacedName,
    spec: &KustomizationSpec,
    built: &BuiltObject,
    id: &ObjectId,
) -> AppliedObject {
    let (owner, spec, id, built) = (owner.clone(), spec.clone(), id.clone(), built.clone());
    AppliedObject { owner, spec, id, built, live_is_private: false }
}

/// Stops an application at what the rules of its spec make fail. Returns also the condition of what only may fail: offline it
/// is not known if an object changes, except for a Kustomization, whose live spec is known.
pub(super) fn stop_by_ignore_rules(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    outcome: PassOutcome,
) -> (PassOutcome, Option<Reason>) {
    let desired = outcome.desired_objects().filter(|desired| has_rules(state, spec) && !desired.is_empty());
    if desired.is_none() {
        return (outcome, None);
    }
    let mut condition = None;
    if let Some(invalid) = invalid_target(spec) {
        let reason = Reason::new(ReasonCode::ExpressionInvalid, invalid.detail);
        if invalid.is_certain {
            return (PassOutcome::Blocked(reason), None);
        }
        condition = Some(reason);
    }
    if !state.input.features.replaces_ignored {
        return (outcome, condition);
    }
    let PassOutcome::Applied(objects) = &outcome else { return (outcome, condition) };
    let mut existing: Vec<(&ObjectId, &BuiltObject)> =
        objects.iter().filter(|(id, built)| is_sent(state, spec, id, built)).collect();
    existing.sort_by(|(a, _), (b, _)| apply_order(a, b));
    let failure = existing.iter().find_map(|(id, built)| {
        let live = state.live.get(&NamespacedName::of(id)).filter(|_| id.is_here(GROUP, KIND))?;
        let why = failure_of_child(state, live, &applied_object(key, spec, built, id))?;
        Some((*id, format!("{}: {why}", built.shown_id())))
    });
    // Only a dry-run tells if another object changes.
    let condition =
        condition.or_else(|| possible_failure(state, key, spec, &existing).filter(|_| state.input.dry_runs.is_none()));
    match failure {
        Some((id, message)) => {
            (stop_from(objects.clone(), id, message, &state.input.flags.custom_stage_kinds), condition)
        }
        None => (outcome, condition),
    }
}

/// Returns true if an application with a spec sends the manifest of an object that exists.
fn is_sent(state: &State<'_>, spec: &KustomizationSpec, id: &ObjectId, built: &BuiltObject) -> bool {
    let live = state.live_object(id);
    live.is_some_and(|live| !is_never_changed(live))
        && !is_never_applied(built, spec)
        && !is_marked(built, spec, SSA, "ifnotpresent")
}

/// Returns the reason why an application fails if one of these objects changes of which a rule ignores a field that cannot be kept.
/// Of Kustomizations that is known.
fn possible_failure(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    existing: &[(&ObjectId, &BuiltObject)],
) -> Option<Reason> {
    let (id, path) = existing.iter().filter(|(id, _)| !id.is_here(GROUP, KIND)).find_map(|(id, built)| {
        let paths = ignored_fields(state, key, spec, built, id).all;
        Some((built.shown_id(), invalid_path(&paths)?.to_owned()))
    })?;
    let detail = format!("{}, unless {id} does not change", cannot_keep(&path));
    Some(Reason::new(ReasonCode::MayBeRefused, detail))
}

/// Returns why the apply of a live Kustomization fails; `None` if it succeeds, or if it changes nothing beside the ignored fields.
fn failure_of_child(state: &State<'_>, live: &Resource, applied: &AppliedObject) -> Option<String> {
    let paths = ignored_fields(state, &applied.owner, &applied.spec, &applied.built, &applied.id).certain;
    if paths.is_empty() || !applied.built.manifest.is_object() {
        return None;
    }
    let change = SpecChange::by_pass(&applied.built, None, &applied.spec);
    let flags = &state.input.flags;
    let keeping = SpecChange { ignored: paths.clone(), ..change.clone() };
    let [merged, kept] = [&change, &keeping].map(|change| answer_to_apply(live, change, flags));
    let before = KustomizationSpec::of(live);
    if kept.value() == before.value() && !adds_labels(&live.object.labels, applied) {
        return None;
    }
    let [live, merged] = [(live.spec().clone(), Some(live)), (merged.as_written(), None)].map(|(spec, live)| {
        let entries: Vec<Value> = live
            .into_iter()
            .flat_map(|live| &live.object.managed_fields)
            .filter(|entry| entry.applies)
            .map(|entry| {
                let (manager, subresource) = (&*entry.manager, &*entry.subresource);
                let fields = json!({"f:spec": entry.spec});
                json!({"operation": "Apply", "manager": manager, "subresource": subresource, "fieldsV1": fields})
            })
            .collect();
        json!({"spec": spec, "metadata": {"managedFields": entries}})
    });
    unreplaceable_path(paths, applied, &live, &merged).map(|path| cannot_keep(&path))
}

/// Returns true if an object is applied with a label that the live one does not have.
fn adds_labels(live: &KeyValues, applied: &AppliedObject) -> bool {
    let manifest = manifest_to_apply(applied);
    texts_at(&manifest, "/metadata/labels").any(|(key, value)| live.get(key) != Some(value))
}
