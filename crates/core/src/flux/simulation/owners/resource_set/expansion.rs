//! Resources of ResourceSets after the change: flux-operator generates them anew, applies all of them, and deletes those in
//! its inventory that are no longer generated.
//!
//! Source: flux-operator v0.58.1 `internal/controller/resourceset_controller.go`, `apply`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::jobs::failed_jobs;
use super::providers::{NO_PROVIDER, ProviderInputs, mixes, permutes, provider_inputs, provider_states};
use super::pruning::{deletable, is_deleted_first, is_off, is_protected, reason_to_keep};
use crate::flux::apply::is_marked_live;
use crate::flux::apply::question::{Question, Request};
use crate::flux::build::Interrupt;
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::resource_sets::{
    SetRun, UNKNOWN_VALUE, generated_objects, has_nameless, permuted, with_unknown_values, with_values,
};
use crate::flux::simulation::kustomization::dependencies::health::Health;
use crate::flux::simulation::model::affected_owner::{Effect, LiveChange, OwnerApply, OwnerDeletion, Readiness};
use crate::flux::simulation::model::facts::copied_data::copied_names;
use crate::flux::simulation::model::facts::owner_readiness::owner_readiness;
use crate::flux::simulation::model::node::{BuiltObjects, PassId, PassOutcome, SimulationEvent};
use crate::flux::simulation::model::questions::Verdict;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::Followed;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::behaviour::scaling::{released_claim, released_claims};
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, flag_at, group_of, list_at, text_at};
use crate::kubernetes::recording::check_recorded;
use crate::ownership::Members;
use crate::ownership::schemes::flux::inventory_members;
use crate::ownership::schemes::flux_operator::{self, FORCE};
use crate::plan::{Action, Reason, ReasonCode};

/// Condition of a deletion while objects are created or changed without a dry-run.
const CAN_FAIL: &str = "it stays while the API server refuses another object of its ResourceSet";

/// Objects of a ResourceSet.
#[derive(Default)]
struct Generated {
    objects: Arc<BuiltObjects>,
    /// Reason why flux-operator cannot apply all of them, for people.
    failure: Option<String>,
    /// flux-operator applies none of them, because one has no name.
    is_refused: bool,
}

/// Computes the resources of a ResourceSet after the change, `live` as it is. Answers that are missing are added to the
/// needs.
///
/// Fails with the reason why they are not known.
pub(super) fn expand(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    live: Option<&Resource>,
) -> Asked<Followed> {
    let (new_spec, earlier_specs) = comparison.state().successive_specs(id)?;
    let is_passing = live.is_none() && comparison.state().applies_for_a_while(id);
    let found = if is_passing { Ok(Generated::default()) } else { generated(comparison, id, &new_spec, true) };
    let blocked = if earlier_specs.is_empty() { Followed::failing } else { Followed::blocked };
    let Generated { objects: new, failure, is_refused } = match found {
        Err(Interrupt::Failed(why)) if always_fails(&why, live.is_some_and(|live| *live.spec() == new_spec)) => {
            return Ok(blocked(ReasonCode::BuildFailed, why));
        }
        found => found?,
    };
    if is_refused {
        return Ok(blocked(ReasonCode::ApplyRefused, "it generates a resource without a name".to_owned()));
    }
    let mut earlier = earlier_objects(comparison, id, live, &earlier_specs, &new_spec)?;
    if is_passing {
        earlier.push(generated(comparison, id, &new_spec, true)?.objects);
    }
    let is_private = comparison.set_is_private(id, &new_spec) || comparison.state().has_unread_spec(id);
    let set = SetChange { id, live, spec: &new_spec, is_private };
    let expansion = set.expansion(comparison, new, earlier)?;
    // Other data changes the copies, and no identity.
    let lost = comparison.lost_copy(&new_spec)?;
    let failed_jobs = match live {
        Some(live) => failed_jobs(comparison, live, &expansion.new)?,
        None => BTreeMap::new(),
    };
    if expansion.is_same() && failed_jobs.is_empty() {
        return Ok(Followed::Unchanged);
    }
    let Some(trigger) = trigger(comparison, id, &new_spec) else {
        return Err("it is not known what changes its inputs".to_owned().into());
    };
    let changed = set.changed(comparison.state(), &expansion)?;
    let SetAnswers { refusal, live_changes } = set.answers(comparison, &expansion, &changed);
    let late = lost.map(|source| format!("it stays if the set copies the data of {source} after that is deleted"));
    let fails = late.or_else(|| failure.map(|why| format!("{CAN_FAIL}, as it does now: {why}")));
    let removed: BTreeSet<ObjectId> =
        expansion.old.keys().filter(|id| !expansion.new.contains_key(*id)).cloned().collect();
    let unready = if removed.is_empty() { None } else { set.unready_object(comparison, &expansion.new)? };
    let condition = waits(comparison.state(), comparison.derivation.consequences, live, &new_spec, &trigger, &changed)
        .or_else(|| unready.map(|id| format!("it stays until {id} of an earlier step is ready")))
        .or(fails)
        .or(refusal);
    let mut deletes = set.deletions(comparison, &expansion, &removed, condition.as_ref());
    deletes.extend(failed_jobs);
    let applied = expansion.new.values().map(|built| (&built.id, &*built.manifest));
    for (id, unread) in released_claims(comparison, applied, flux_operator::NAME)? {
        let mut deletion = released_claim(unread.as_ref());
        deletion.conditions.extend(condition.clone());
        deletes.entry(id).or_insert(deletion);
    }
    let generated = OwnerApply::generated(trigger.clone(), expansion.new);
    let effect = Effect {
        triggers: BTreeSet::from([SimulationEvent::Apply(trigger)]),
        keeps: kept(comparison.state(), id, &removed),
        deletes,
        applies: Some(OwnerApply { live_changes, earlier: expansion.earlier, ..generated }),
        readiness: if condition.is_some() || flag_at(&new_spec, "/wait") { Readiness::Open } else { Readiness::Ready },
        condition,
        ..Effect::default()
    };
    Ok(Followed::Acts { effect: Box::new(effect), code: ReasonCode::ResourcesGenerated, remarks: vec![] })
}

/// Objects that a ResourceSet generates before, during and after the change.
struct Expansion {
    old: Arc<BuiltObjects>,
    new: Arc<BuiltObjects>,
    /// Objects that it generates in between, if they differ from both.
    earlier: Vec<Arc<BuiltObjects>>,
    /// Objects of before and after that it does not generate for a moment.
    interrupted: BTreeSet<ObjectId>,
}

impl Expansion {
    fn is_same(&self) -> bool {
        self.old == self.new && self.earlier.is_empty() && self.interrupted.is_empty()
    }

    /// Returns what the manifests say of the change of live objects.
    fn live_changes(&self, state: &State<'_>, is_private: bool) -> BTreeMap<ObjectId, LiveChange> {
        let both = self.new.iter().filter_map(|(id, new)| Some((id, &self.old.get(id)?.manifest, new)));
        let live = both.filter(|(id, ..)| state.is_live(id));
        let change = |old: &Value, new: &BuiltObject| {
            LiveChange::of_manifests(old, &new.manifest, is_private || new.masked.is_some())
        };
        live.map(|(id, old, new)| (id.clone(), change(old, new))).collect()
    }
}

/// Answers of the API server about what a ResourceSet applies.
struct SetAnswers {
    /// Condition that it accepts the changed objects.
    refusal: Option<String>,
    live_changes: BTreeMap<ObjectId, LiveChange>,
}

/// A ResourceSet, as it is and with its last spec.
#[derive(Clone, Copy)]
struct SetChange<'c> {
    id: &'c ObjectId,
    live: Option<&'c Resource>,
    spec: &'c Value,
    /// Its templates or inputs hold values of Secrets.
    is_private: bool,
}

impl SetChange<'_> {
    /// Returns what the set generates, with what it generates in between.
    fn expansion(
        self,
        comparison: &mut Comparison<'_, '_, '_>,
        new: Arc<BuiltObjects>,
        mut earlier: Vec<Arc<BuiltObjects>>,
    ) -> Asked<Expansion> {
        let (mut old, mut interrupted) = (Arc::default(), BTreeSet::new());
        if let Some(live) = self.live {
            old = verified(comparison, self.id, live)?;
            interrupted = between(comparison, self.id, [live.spec(), self.spec], [&old, &new])?;
            for objects in &earlier {
                let stays = |id: &&ObjectId| new.contains_key(*id) && !objects.contains_key(*id);
                interrupted.extend(old.keys().filter(stays).cloned());
            }
        }
        earlier.retain(|objects| *objects != old && *objects != new);
        Ok(Expansion { old, new, earlier, interrupted })
    }

    /// Returns the objects that flux-operator creates or changes.
    ///
    /// Fails if it may delete one of them and create it again.
    fn changed<'e>(self, state: &State<'_>, expansion: &'e Expansion) -> Asked<Vec<&'e BuiltObject>> {
        let is_changed = |built: &&BuiltObject| {
            let old = expansion.old.get(&built.id);
            !state.is_live(&built.id) || old.is_none_or(|old| old.manifest != built.manifest)
        };
        let changed: Vec<&BuiltObject> = expansion.new.values().filter(is_changed).collect();
        let forces = sets_force(state, self.id, self.live);
        let is_forced = |built: &BuiltObject| {
            let live = state.live_object(&built.id);
            live.is_some_and(|live| {
                forces || is_marked_live(live, FORCE, "enabled") || built.has_label_or_annotation(FORCE, "enabled")
            })
        };
        match changed.iter().find(|built| is_forced(built)) {
            Some(built) => Err(format!("it may delete {} and create it again ({FORCE})", built.id).into()),
            None => Ok(changed),
        }
    }

    /// Returns an object of a step before the last one that need not be ready because of the change. flux-operator waits for it
    /// before it deletes anything.
    ///
    /// Source: flux-operator v0.58.1 `apply` in `internal/controller/resourceset_controller.go`.
    fn unready_object(self, comparison: &mut Comparison<'_, '_, '_>, new: &BuiltObjects) -> Asked<Option<ObjectId>> {
        let health = Health { state: comparison.state(), consequences: comparison.derivation.consequences };
        let unready: Vec<&ObjectId> = new.keys().filter(|id| health.may_be_unready(id)).collect();
        let mut earlier = self.spec.clone();
        let steps = earlier.get_mut("steps").and_then(Value::as_array_mut).filter(|steps| steps.len() > 1);
        if unready.is_empty() || steps.and_then(Vec::pop).is_none() {
            return Ok(None);
        }
        let earlier = generated(comparison, self.id, &earlier, true)?.objects;
        Ok(unready.into_iter().find(|id| earlier.contains_key(*id)).cloned())
    }

    /// Returns what the account of the set asks about an object.
    fn question(self, object: &ObjectId, request: Request, is_private: bool) -> Question {
        Question::of_owner(self.id, self.spec, object, request, is_private)
    }

    /// Asks the server about all objects, which flux-operator applies together. Those that do not change are assumed to be
    /// accepted if there is no clear answer. An object that copies data is not applied as it is generated.
    fn answers(
        self,
        comparison: &mut Comparison<'_, '_, '_>,
        expansion: &Expansion,
        changed: &[&BuiltObject],
    ) -> SetAnswers {
        let state = comparison.state();
        let changed: BTreeSet<&ObjectId> = changed.iter().map(|built| &built.id).collect();
        // The name of a hidden object would be in the URL of the request, and so in logs.
        let is_nameless = |built: &BuiltObject| built.hides_identity() && !state.is_live(&built.id);
        let asked = expansion.new.values();
        let asked = asked.filter(|built| !comes_with_container(state, built, &expansion.new) && !is_nameless(built));
        let (mut refusal, mut is_proven, mut live_changes) =
            (None, true, expansion.live_changes(state, self.is_private));
        for built in asked {
            let request = Request::Apply { manifest: in_scope(&built.manifest, &built.id), forces: true };
            let is_private = self.is_private || built.masked.is_some();
            let question = self.question(&built.id, request, is_private);
            let change = match comparison.derivation.ask(question) {
                Verdict::Accepted => continue,
                Verdict::Unchanged => LiveChange::None,
                Verdict::Updated(update) => {
                    let old = expansion.old.get(&built.id).filter(|old| old.manifest != built.manifest);
                    LiveChange::of_answer(update, &built.id, old.map(|old| &*old.manifest), is_private)
                }
                Verdict::Refused(message) => {
                    refusal = refusal.or_else(|| Some(format!("{CAN_FAIL}, as it does now: {}: {message}", built.id)));
                    continue;
                }
                Verdict::Open => {
                    is_proven &= !changed.contains(&built.id);
                    continue;
                }
            };
            live_changes.insert(built.id.clone(), change);
        }
        let copies = !copied_names(self.spec).is_empty();
        let doubt = (!changed.is_empty() && (copies || !is_proven)).then(|| CAN_FAIL.to_owned());
        SetAnswers { refusal: refusal.or(doubt), live_changes }
    }

    /// Returns the deletions of what the set no longer generates, or not for a moment.
    fn deletions(
        self,
        comparison: &mut Comparison<'_, '_, '_>,
        expansion: &Expansion,
        removed: &BTreeSet<ObjectId>,
        condition: Option<&String>,
    ) -> BTreeMap<ObjectId, OwnerDeletion> {
        let state = comparison.state();
        let mut refused = BTreeMap::new();
        for object in deletable(state, self.id, removed) {
            let question = self.question(&object.id, Request::Delete, self.is_private);
            if let Verdict::Refused(message) = comparison.derivation.ask(question) {
                refused.insert(object.id.clone(), message);
            }
        }
        let mut deletions = BTreeMap::new();
        for object in deletable(state, self.id, removed.iter().chain(&expansion.interrupted)) {
            let is_interrupted = expansion.interrupted.contains(&object.id);
            deletions.insert(object.id.clone(), removal(state, &object.id, is_interrupted, condition, &refused));
        }
        for object in passing(state, &expansion.earlier, [&expansion.old, &expansion.new]) {
            let mut deletion = removal(state, &object.id, false, condition, &refused);
            deletion.is_doubtful = true;
            deletion.stays_if(
                "it stays unless its ResourceSet takes it over between two changes of its spec or its inputs",
            );
            deletions.insert(object.id.clone(), deletion);
        }
        deletions
    }
}

/// Returns true if flux-operator fails for this reason too: at a template, or at a provider that is gone. With another spec it may
/// read the provider before that is gone.
fn always_fails(why: &str, has_same_spec: bool) -> bool {
    why.contains("failed to execute template") || (has_same_spec && why.ends_with(NO_PROVIDER))
}

/// Returns the deletion of an object that a ResourceSet no longer generates, or perhaps does not generate for a moment.
fn removal(
    state: &State<'_>,
    id: &ObjectId,
    is_interrupted: bool,
    condition: Option<&String>,
    refused: &BTreeMap<ObjectId, String>,
) -> OwnerDeletion {
    let mut deletion = OwnerDeletion::new(CascadeKind::NotInResourceSet);
    let first = refused.iter().find(|(first, _)| is_deleted_first(first) && !is_deleted_first(id));
    deletion.is_doubtful = is_interrupted || refused.contains_key(id) || first.is_some();
    if is_interrupted {
        deletion.action = Action::Recreate;
        deletion
            .stays_if("it stays if its ResourceSet is not reconciled between the changes of its spec and its inputs");
        return deletion;
    }
    if state.is_generated(id) {
        deletion.action = Action::Recreate;
        deletion.stays_if("another owner generates it, and may apply it first");
    }
    deletion.conditions.extend(condition.cloned());
    deletion.conditions.extend(refused.get(id).map(|why| format!("it stays while the API server refuses: {why}")));
    let waits = |(first, why): (&ObjectId, &String)| {
        format!("it stays while the API server refuses to delete {first}, which flux-operator deletes first: {why}")
    };
    deletion.conditions.extend(first.map(waits));
    deletion
}

/// Returns the objects that a ResourceSet no longer generates and leaves behind, with their reasons.
fn kept(state: &State<'_>, set: &ObjectId, removed: &BTreeSet<ObjectId>) -> BTreeMap<ObjectId, Reason> {
    let live = removed.iter().filter_map(|id| state.live_object(id));
    let kept = live.filter_map(|object| {
        let why = reason_to_keep(object, set)?;
        Some((object.id.clone(), Reason::new(ReasonCode::LeftBehind, why)))
    });
    kept.collect()
}

/// Returns the objects that flux-operator generated last.
///
/// Fails if they are not those in its inventory.
fn verified(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, live: &Resource) -> Asked<Arc<BuiltObjects>> {
    let inventory = match inventory_members(&live.content) {
        Members::Listed(inventory) => inventory,
        // flux-operator prunes nothing that it did not record.
        Members::Unrecorded if live.condition("Ready").is_some_and(|ready| ready.status != "Unknown") => vec![],
        _ => {
            let ObjectId { name, namespace, .. } = id;
            let wait = format!("kubectl wait resourceset/{name} -n {namespace} --for=condition=Ready");
            return Err(format!("it records no inventory yet: plan again after {wait}").into());
        }
    };
    if is_off(live) {
        // Its spec may have changed since it was switched off.
        return Ok(Arc::new(inventory.into_iter().map(|id| (id.clone(), unknown(id))).collect()));
    }
    if inventory.is_empty() {
        return Ok(Arc::default());
    }
    let Generated { objects: old, .. } = generated(comparison, id, live.spec(), false)?;
    let recorded: BTreeSet<&ObjectId> = inventory.iter().collect();
    let generated: BTreeSet<&ObjectId> = old.keys().collect();
    match recorded.symmetric_difference(&generated).next() {
        Some(differing) => {
            let why = format!("it generates other objects here than its inventory lists: {differing}");
            Err(why.into())
        }
        None => Ok(old),
    }
}

/// Returns the objects that flux-operator generates of a spec, before or after the change.
fn generated(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, spec: &Value, is_after: bool) -> Asked<Generated> {
    let providers = provider_inputs(comparison, id, spec, is_after)?;
    generated_with(comparison, id, spec, &providers)
}

/// Returns the objects that flux-operator generates of a spec with these inputs of its providers.
fn generated_with(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    providers: &ProviderInputs,
) -> Asked<Generated> {
    if !permutes(spec) {
        return generated_of(comparison, id, spec, providers.values().flatten());
    }
    let inputs = permuted(id, spec, providers)?;
    let mut flat = spec.clone();
    if let Some(fields) = flat.as_object_mut() {
        fields.remove("inputStrategy");
        fields.remove("inputs");
    }
    generated_of(comparison, id, &flat, &inputs)
}

/// Returns an object of which only the identity is known.
fn unknown(id: ObjectId) -> BuiltObject {
    BuiltObject { version: String::new(), manifest: Arc::new(Value::Null), undecrypted: None, masked: None, id }
}

/// Returns the objects that flux-operator generates of a spec with these inputs of its providers. A spec with providers
/// and without inputs generates nothing.
fn generated_of<'i>(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    provided: impl IntoIterator<Item = &'i Value>,
) -> Asked<Generated> {
    check_recorded(spec)?;
    if !["resources", "resourcesTemplate", "steps"].iter().any(|field| spec.get(field).is_some()) {
        return Err("its templates are not known".to_owned().into());
    }
    // The providers are read before their inputs take the place of their names.
    let is_private = comparison.set_is_private(id, spec);
    let mut with_inputs = spec.clone();
    if let Some(fields) = with_inputs.as_object_mut().filter(|fields| fields.contains_key("inputsFrom")) {
        let mut inputs: Vec<Value> = fields.get("inputs").and_then(Value::as_array).cloned().unwrap_or_default();
        inputs.extend(provided.into_iter().cloned());
        if inputs.is_empty() {
            return Ok(Generated::default());
        }
        fields.remove("inputsFrom");
        fields.insert("inputs".to_owned(), inputs.into());
    }
    let Some(outputs) = outputs(comparison, id, &with_inputs, is_private) else { return Err(Interrupt::Missing) };
    let text = match outputs[..] {
        [Ok(text), Ok(_)] | [Ok(text)] => text,
        [Err(why), Err(other)] if why == other => return Err(why.clone().into()),
        [Err(why)] => return Err(why.clone().into()),
        _ => return Err(UNKNOWN_VALUE.to_owned().into()),
    };
    let is_refused = has_nameless(text);
    let unreadable = |_| "the output of flux-operator for it cannot be read".to_owned();
    let mut objects = generated_objects(text).map_err(unreadable)?;
    if let Some(Ok(other)) = outputs.get(1) {
        objects = with_unknown_values(objects, &generated_objects(other).map_err(unreadable)?)?;
    }
    if is_private {
        let snapshot = comparison.state().input.snapshot;
        for object in &mut objects {
            let is_served = snapshot.resource_type(&object.id.group_kind()).is_some();
            object.hide(is_served);
        }
    }
    match comparison.derivation.place(None, objects, None) {
        PassOutcome::Applied(objects) => Ok(Generated { objects, failure: None, is_refused }),
        PassOutcome::Partial { desired, reason, .. } => {
            Ok(Generated { objects: desired, failure: Some(reason.detail), is_refused })
        }
        PassOutcome::Blocked(reason) | PassOutcome::Unknown(reason) => {
            Err(format!("its resources cannot be applied: {}", reason.detail).into())
        }
    }
}

/// Returns the outputs of flux-operator for a spec with all its inputs: several if values are made up for them. Answers that are
/// missing are added to the needs, and there is no result.
fn outputs<'r>(
    comparison: &mut Comparison<'_, 'r, '_>,
    id: &ObjectId,
    spec: &Value,
    is_private: bool,
) -> Option<Vec<&'r Result<String, String>>> {
    let answers = comparison.derivation.answers;
    let mut outputs = vec![];
    for inputs in with_values(&spec["inputs"]) {
        let mut complete = spec.clone();
        if let Some(fields) = complete.as_object_mut().filter(|fields| fields.contains_key("inputs")) {
            fields.insert("inputs".to_owned(), inputs);
        }
        let run = SetRun::new(id, &complete, is_private);
        match answers.resource_sets.get(&run.key) {
            Some(output) => outputs.push(Some(output)),
            None => {
                outputs.push(None);
                comparison.derivation.needs.resource_sets.insert(run.key.clone(), run);
            }
        }
    }
    outputs.into_iter().collect()
}

/// Returns the objects that flux-operator may generate before the last spec and the last inputs: of the specs that come first,
/// and of the live and the last spec with the inputs that there are meanwhile.
fn earlier_objects(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    live: Option<&Resource>,
    earlier: &[Value],
    last: &Value,
) -> Asked<Vec<Arc<BuiltObjects>>> {
    if live.is_some_and(is_off) {
        return Ok(vec![]);
    }
    let mut found = vec![];
    for spec in earlier {
        found.push(generated(comparison, id, spec, true));
    }
    let live_spec = live.map(Resource::spec).filter(|spec| *spec != last);
    for spec in live_spec.into_iter().chain([last]) {
        let states = provider_states(comparison, id, spec);
        match states {
            Ok(states) => {
                for inputs in mixes(&states, permutes(spec))? {
                    found.push(generated_with(comparison, id, spec, &inputs));
                }
            }
            Err(Interrupt::Missing) => return Err(Interrupt::Missing),
            // One that fails changes nothing.
            Err(Interrupt::Failed(_)) => {}
        }
    }
    // All of them are asked for first, so that their answers come together.
    let mut all = vec![];
    for generated in found {
        match generated {
            Ok(generated) if !generated.is_refused => all.push(generated.objects),
            Err(Interrupt::Missing) => return Err(Interrupt::Missing),
            _ => {}
        }
    }
    Ok(all)
}

/// Returns the live objects that the set generates only in between: flux-operator takes them over, and then deletes them.
fn passing<'s, 'a>(
    state: &'s State<'a>,
    earlier: &'s [Arc<BuiltObjects>],
    [old, new]: [&'s BuiltObjects; 2],
) -> impl Iterator<Item = &'a ObjectMetadata> {
    let ids = earlier.iter().flat_map(|objects| objects.keys());
    let ids = ids.filter(|id| !old.contains_key(*id) && !new.contains_key(*id));
    ids.filter_map(|id| state.live_object(id)).filter(|object| !is_protected(object))
}

/// Returns the objects that are generated before and after the change, but not at every moment in between: the spec and
/// the inputs of each provider do not change at once.
fn between(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    [old_spec, new_spec]: [&Value; 2],
    [old, new]: [&BuiltObjects; 2],
) -> Asked<BTreeSet<ObjectId>> {
    let mut interrupted = BTreeSet::new();
    let is_changed = old_spec != new_spec;
    for spec in [new_spec, old_spec].into_iter().take(if is_changed { 2 } else { 1 }) {
        let states = provider_states(comparison, id, spec)?;
        let (changing, stable): (Vec<&Vec<_>>, Vec<&Vec<_>>) = states.values().partition(|states| states.len() > 1);
        let changes: usize = changing.iter().map(|states| states.len() - 1).sum();
        // Of inputs that are permuted each combination is generated.
        if changes + usize::from(is_changed) < 2 || permutes(spec) {
            continue;
        }
        let always = generated_of(comparison, id, spec, stable.into_iter().flatten().flatten())?;
        let mut safe: BTreeSet<ObjectId> = always.objects.keys().cloned().collect();
        for states in changing {
            let mut common: Option<BTreeSet<ObjectId>> = None;
            for inputs in states {
                let own: BTreeSet<ObjectId> =
                    generated_alone(comparison, id, spec, inputs)?.objects.keys().cloned().collect();
                common = Some(common.map_or_else(|| own.clone(), |common| &common & &own));
            }
            safe.extend(common.unwrap_or_default());
        }
        interrupted.extend(old.keys().filter(|id| new.contains_key(*id) && !safe.contains(*id)).cloned());
    }
    Ok(interrupted)
}

/// Returns the objects that are generated of the inputs of one provider.
fn generated_alone(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    inputs: &[Value],
) -> Asked<Generated> {
    let mut alone = spec.clone();
    if let Some(fields) = alone.as_object_mut() {
        fields.remove("inputs");
    }
    generated_of(comparison, id, &alone, inputs)
}

/// Returns the pass that applies a ResourceSet last, or else a provider of its inputs.
fn trigger(comparison: &Comparison<'_, '_, '_>, id: &ObjectId, spec: &Value) -> Option<PassId> {
    let state = comparison.state();
    let last = |id: &ObjectId| state.applied_specs(id).last().map(|(_, pass)| pass);
    let entries = spec.get("inputsFrom").and_then(Value::as_array).into_iter().flatten();
    let mut providers = entries.flat_map(|entry| comparison.providers(&id.namespace, entry, true));
    last(id).or_else(|| providers.find_map(|provider| last(&provider)))
}

/// Returns true if the annotation of the ResourceSet lets flux-operator delete and create again all of its objects.
fn sets_force(state: &State<'_>, id: &ObjectId, live: Option<&Resource>) -> bool {
    let annotation = live.and_then(|live| live.object.annotations.get(FORCE));
    annotation.is_some_and(|value| value.eq_ignore_ascii_case("enabled"))
        || state.applied(id).iter().any(|applied| applied.built.has_label_or_annotation(FORCE, "enabled"))
}

/// Returns the condition under which flux-operator gets as far as deleting.
fn waits(
    state: &State<'_>,
    consequences: &Consequences<'_>,
    live: Option<&Resource>,
    spec: &Value,
    trigger: &PassId,
    changed: &[&BuiltObject],
) -> Option<String> {
    if let Some(condition) = state.pass(trigger).and_then(|pass| pass.condition.as_ref()) {
        return Some(condition.detail.clone());
    }
    if let Some(dependency) =
        list_at(spec, "/dependsOn").iter().find(|dependency| !is_met(state, consequences, dependency))
    {
        let (kind, name) = (text_at(dependency, "/kind"), text_at(dependency, "/name"));
        return Some(format!("it waits until {} {name} is ready", kind.to_lowercase()));
    }
    let failing = live.and_then(|live| live.condition("Ready")).filter(|ready| ready.status != "True");
    if let Some(ready) = failing.filter(|ready| ready.reason != "BuildFailed") {
        return Some(format!("it waits until this is resolved: {}", ready.reason));
    }
    let steps = spec.get("steps").and_then(Value::as_array).map_or(0, Vec::len);
    (steps > 1 && !changed.is_empty()).then(|| "it stays until the objects of earlier steps are ready".to_owned())
}

/// Returns true if it is certain that a set does not wait for an entry of its `dependsOn`.
fn is_met(state: &State<'_>, consequences: &Consequences<'_>, dependency: &Value) -> bool {
    let [group, kind, namespace, name] =
        ["/apiVersion", "/kind", "/namespace", "/name"].map(|field| text_at(dependency, field));
    let id = ObjectId::new(group_of(group), kind, namespace, name);
    let is_ready = !flag_at(dependency, "/ready")
        || (text_at(dependency, "/readyExpr").is_empty() && owner_readiness(state, &id) == Some(Readiness::Ready));
    is_ready && state.is_live(&id) && !consequences.may_be_deleted(&id)
}

/// Returns true if the namespace or the definition of an object is created with it, so that no dry-run can show it.
fn comes_with_container(state: &State<'_>, built: &BuiltObject, all: &BuiltObjects) -> bool {
    let namespace = built.id.namespace_object();
    let is_new = all.contains_key(&namespace) && !state.is_live(&namespace);
    is_new || state.input.snapshot.resource_type(&built.id.group_kind()).is_none()
}

/// Returns a manifest without a namespace if its kind is cluster-scoped.
fn in_scope(manifest: &Value, id: &ObjectId) -> Value {
    let mut scoped = manifest.clone();
    if let (true, Some(metadata)) = (id.namespace.is_empty(), scoped.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.remove("namespace");
    }
    scoped
}
