//! Resources of ResourceSets after the change: flux-operator generates them anew, applies all of them, and deletes those in
//! its inventory that are no longer generated.
//!
//! Source: flux-operator v0.58.1 `internal/controller/resourceset_controller.go`, `apply`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::copies::{changing_sources, is_unknown, is_watched, missing_source, watch_label};
use super::dependencies::{Obstacle, is_waiting, obstacle};
use super::generation::{Generated, generated, verified};
use super::jobs::failed_jobs;
use super::moments::{between, earlier_objects, passing};
use super::providers::{NO_PROVIDER, provider_states};
use super::pruning::{deletable, is_deleted_first, reason_to_keep};
use crate::flux::apply::is_marked_live;
use crate::flux::apply::normalize::normalize;
use crate::flux::apply::question::{Question, Request};
use crate::flux::build::Interrupt;
use crate::flux::build::objects::BuiltObject;
use crate::flux::simulation::kustomization::classes::unready_class;
use crate::flux::simulation::kustomization::dependencies::health::Health;
use crate::flux::simulation::model::affected_owner::{Effect, LiveChange, OwnerApply, OwnerDeletion, Readiness};
use crate::flux::simulation::model::facts::contested_services::contest;
use crate::flux::simulation::model::node::{BuiltObjects, PassId, SimulationEvent};
use crate::flux::simulation::model::questions::Verdict;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::Followed;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::behaviour::quotas::{Creation, Room, room};
use crate::flux::simulation::owners::behaviour::scaling::{Scaling, released_claim, released_claims};
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, Resource, flag_at};
use crate::ownership::schemes::flux_operator::{self, FORCE};
use crate::plan::{Action, Reason, ReasonCode};

/// Condition of a deletion while objects are created or changed without a dry-run.
const CAN_FAIL: &str = "it stays while the API server refuses another object of its ResourceSet";

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
    let dependency = match missing_source(comparison.state(), &new) {
        Some(source) => Some(Obstacle::of_missing_source(comparison.state(), &source)),
        None => obstacle(comparison, &new_spec)?,
    };
    let has_one_spec = live.is_none_or(|live| *live.spec() == new_spec || new_spec.get("inputsFrom").is_none());
    let awaited = match dependency {
        Some(Obstacle::Certain(reason)) if has_one_spec && earlier_specs.is_empty() && !is_passing => {
            return Ok(blocked(reason.code, reason.detail));
        }
        dependency => dependency.map(Obstacle::condition),
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
    let lost = comparison.lost_copy(&new_spec)?;
    let failed_jobs = match live {
        Some(live) => failed_jobs(comparison, live, &expansion.new)?,
        None => BTreeMap::new(),
    };
    if expansion.is_same() && failed_jobs.is_empty() {
        return Ok(match lost.filter(|source| comparison.derivation.consequences.is_gone(source)) {
            Some(source) => {
                blocked(ReasonCode::BuildFailed, format!("it copies the data of {source}, which is deleted"))
            }
            None => Followed::Unchanged,
        });
    }
    let sources = changing_sources(comparison, &new_spec)?;
    let Some(trigger) = trigger(comparison, id, &new_spec, &sources) else {
        return Err("it is not known what changes its inputs".to_owned().into());
    };
    let changed = set.changed(comparison.state(), &expansion);
    let SetAnswers { refusal, live_changes, replaced } = set.answers(comparison, &expansion, &changed)?;
    let late = lost.map(|source| format!("it stays if the set copies the data of {source} after that is deleted"));
    let fails = late.or_else(|| failure.map(|why| format!("{CAN_FAIL}, as it does now: {why}")));
    let removed: BTreeSet<ObjectId> =
        expansion.old.keys().filter(|id| !expansion.new.contains_key(*id)).cloned().collect();
    let unseen = match live.filter(|live| *live.spec() == new_spec && !sources.is_empty()) {
        Some(_) => set.unseen_sources(comparison, &sources)?,
        None => None,
    };
    let is_changed = |id: &ObjectId| changed.iter().any(|built| built.id == *id);
    let unready = if removed.is_empty() { None } else { set.unready_object(comparison, &expansion.new)? };
    let condition = begins(comparison.state(), &trigger)
        .or(awaited)
        .or_else(|| waits(live, &new_spec, &changed))
        .or_else(|| unready.map(|id| format!("it stays until {id} of an earlier step is ready")))
        .or_else(|| unready_class(comparison.derivation, &expansion.new, &Value::Null, is_changed))
        .or(unseen)
        .or(fails)
        .or(refusal);
    let mut deletes = set.deletions(comparison, &expansion, &removed, condition.as_ref());
    deletes.extend(failed_jobs);
    deletes.extend(replaced.into_iter().map(|id| (id, replacement(condition.as_ref()))));
    let applied = expansion.new.values().map(Scaling::of_built);
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
        let changes = live.map(|(id, old, new)| {
            let change = LiveChange::of_manifests(old, &new.manifest, is_private || new.masked.is_some());
            (id.clone(), change)
        });
        changes.collect()
    }
}

/// Answers of the API server about what a ResourceSet applies.
struct SetAnswers {
    /// Condition that it accepts the changed objects.
    refusal: Option<String>,
    live_changes: BTreeMap<ObjectId, LiveChange>,
    /// Live objects that flux-operator deletes and creates again, because it refuses to change them.
    replaced: BTreeSet<ObjectId>,
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
                let lacking = old.keys().filter(|id| !objects.contains_key(*id));
                interrupted.extend(lacking.filter(|id| new.contains_key(*id)).cloned());
            }
        }
        earlier.retain(|objects| *objects != old && *objects != new);
        Ok(Expansion { old, new, earlier, interrupted })
    }

    /// Returns the objects that flux-operator creates or changes.
    fn changed<'e>(self, state: &State<'_>, expansion: &'e Expansion) -> Vec<&'e BuiltObject> {
        let changed = expansion.new.values().filter(|built| {
            let old = expansion.old.get(&built.id);
            !state.is_live(&built.id) || old.is_none_or(|old| old.manifest != built.manifest)
        });
        changed.collect()
    }

    /// Returns the live objects that flux-operator deletes and creates again if the API server refuses to change them.
    fn forced<'e>(self, state: &State<'_>, new: &'e BuiltObjects) -> BTreeSet<&'e ObjectId> {
        let forces = sets_force(state, self.id, self.live);
        let forced = new.values().filter(|built| {
            state.live_object(&built.id).is_some_and(|live| {
                forces || is_marked_live(live, FORCE, "enabled") || built.has_label_or_annotation(FORCE, "enabled")
            })
        });
        forced.map(|built| &built.id).collect()
    }

    /// Returns the condition under which flux-operator copies new data, if it does not see that anything else changes either.
    fn unseen_sources(
        self,
        comparison: &mut Comparison<'_, '_, '_>,
        sources: &BTreeSet<ObjectId>,
    ) -> Asked<Option<String>> {
        let states = provider_states(comparison, self.id, self.spec)?;
        let is_seen = is_watched(comparison.state(), sources) || states.values().any(|states| states.len() > 1);
        let source = sources.iter().next().filter(|_| !is_seen);
        Ok(source.map(|source| {
            format!("it stays until the interval of its ResourceSet, because {source} has no label {}", watch_label())
        }))
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
    ///
    /// Fails if flux-operator may delete an object and create it again.
    fn answers(
        self,
        comparison: &mut Comparison<'_, '_, '_>,
        expansion: &Expansion,
        changed: &[&BuiltObject],
    ) -> Asked<SetAnswers> {
        let state = comparison.state();
        let forced = self.forced(state, &expansion.new);
        let changed: BTreeSet<&ObjectId> = changed.iter().map(|built| &built.id).collect();
        let asked = expansion.new.values().filter(|built| {
            // The name of a hidden object would be in the URL of the request, and so in logs.
            let is_nameless = built.hides_identity() && !state.is_live(&built.id);
            !is_nameless && !is_unknown(built) && !comes_with_container(state, built, &expansion.new)
        });
        let (mut refusal, mut is_proven, mut live_changes) =
            (None, true, expansion.live_changes(state, self.is_private));
        let mut replaced = BTreeSet::new();
        let unknown = changed.iter().find(|id| forced.contains(*id) && is_unknown(&expansion.new[**id]));
        let mut open = unknown.map(|id| may_be_replaced(id));
        let mut unsure = None;
        for built in asked {
            let request = Request::Apply { manifest: manifest_to_apply(&built.manifest, &built.id), forces: true };
            let is_private = self.is_private || built.masked.is_some();
            let question = self.question(&built.id, request, is_private);
            let (verdict, coming) = comparison.derivation.ask_with_doubt(question);
            unsure = unsure.or(coming);
            let change = match verdict {
                Verdict::Accepted => continue,
                Verdict::Unchanged => LiveChange::None,
                Verdict::Updated(update) => {
                    let old = expansion.old.get(&built.id).filter(|old| old.manifest != built.manifest);
                    LiveChange::of_answer(update, &built.id, old.map(|old| &*old.manifest), is_private)
                }
                Verdict::Refused(message) if forced.contains(&built.id) && is_of_immutable_field(&message) => {
                    live_changes.remove(&built.id);
                    replaced.insert(built.id.clone());
                    continue;
                }
                Verdict::Refused(message) => {
                    refusal = refusal.or_else(|| Some(format!("{CAN_FAIL}, as it does now: {}: {message}", built.id)));
                    continue;
                }
                Verdict::Open if changed.contains(&built.id) && forced.contains(&built.id) => {
                    open = open.or_else(|| Some(may_be_replaced(&built.id)));
                    continue;
                }
                Verdict::Open => {
                    is_proven &= !changed.contains(&built.id);
                    continue;
                }
            };
            live_changes.insert(built.id.clone(), change);
        }
        is_proven &= !changed.iter().any(|id| is_unknown(&expansion.new[*id]));
        let doubt = (!changed.is_empty() && !is_proven).then(|| CAN_FAIL.to_owned());
        let own: Vec<(&ObjectId, &Value)> = expansion.new.values().map(|built| (&built.id, &*built.manifest)).collect();
        let new = own.iter().copied().filter(|(id, _)| changed.contains(id));
        let contested = contest(state, self.id, new, &own).map(|why| format!("{CAN_FAIL}, which it does if {why}"));
        let crowded = self.lacking_room(comparison, own);
        let doubted = unsure.map(|why| format!("{CAN_FAIL}, which it does if {why}"));
        match open {
            Some(why) => Err(why.into()),
            None => Ok(SetAnswers {
                refusal: refusal.or(doubt).or(contested).or(crowded).or(doubted),
                live_changes,
                replaced,
            }),
        }
    }

    /// Returns the condition under which quotas have room for its new objects, if they may have none.
    fn lacking_room(
        self,
        comparison: &mut Comparison<'_, '_, '_>,
        manifests: Vec<(&ObjectId, &Value)>,
    ) -> Option<String> {
        let none = BTreeSet::new();
        let creation =
            Creation { owner: self.id, manifests, passing: vec![], gone: &none, has_steps: false, is_retried: true };
        match room(comparison, &creation) {
            Room::Enough => None,
            Room::Doubtful(why) => Some(format!("{CAN_FAIL}, which it does if {why}")),
            Room::Full(why) => Some(format!("{CAN_FAIL}, as it does now: {why}")),
        }
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
            let why = match comparison.derivation.ask_with_doubt(question) {
                (Verdict::Refused(message), _) => format!("it stays while the API server refuses: {message}"),
                (_, Some(doubt)) => format!("it stays if {doubt}"),
                _ => continue,
            };
            refused.insert(object.id.clone(), why);
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

/// Returns true if the API server refuses a change for a reason that another object would not have.
fn is_of_immutable_field(message: &str) -> bool {
    ["is immutable", "immutable field"].iter().any(|phrase| message.contains(phrase))
}

/// Returns the deletion of an object that flux-operator creates again, because it may not change it.
fn replacement(condition: Option<&String>) -> OwnerDeletion {
    let mut deletion = OwnerDeletion::new(CascadeKind::NotInResourceSet);
    (deletion.action, deletion.code) = (Action::Recreate, Some(ReasonCode::Forced));
    deletion.conditions.extend(condition.cloned());
    deletion
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
    deletion.conditions.extend(refused.get(id).cloned());
    deletion.conditions.extend(
        first.map(|(first, why)| format!("flux-operator deletes {first} first, and fails if that stays: {why}")),
    );
    deletion
}

/// Returns the reason why it is not followed that flux-operator forces a change of an object.
fn may_be_replaced(id: &ObjectId) -> String {
    format!("it may delete {id} and create it again ({FORCE})")
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

/// Returns the pass that applies a ResourceSet last, or else a provider of its inputs or one of these objects that it copies.
fn trigger(
    comparison: &Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    sources: &BTreeSet<ObjectId>,
) -> Option<PassId> {
    let state = comparison.state();
    let entries = spec.get("inputsFrom").and_then(Value::as_array).into_iter().flatten();
    let mut providers = entries.flat_map(|entry| comparison.providers(&id.namespace, entry, true));
    let own = state.last_application(id).or_else(|| providers.find_map(|provider| state.last_application(&provider)));
    own.or_else(|| {
        let mut events = sources.iter().flat_map(|source| state.applying_events(source));
        events.find_map(|event| match event {
            SimulationEvent::Apply(pass) => Some(pass),
            _ => None,
        })
    })
}

/// Returns true if the annotation of the ResourceSet lets flux-operator delete and create again all of its objects.
fn sets_force(state: &State<'_>, id: &ObjectId, live: Option<&Resource>) -> bool {
    let annotation = live.and_then(|live| live.object.annotations.get(FORCE));
    annotation.is_some_and(|value| value.eq_ignore_ascii_case("enabled"))
        || state.applied(id).iter().any(|applied| applied.built.has_label_or_annotation(FORCE, "enabled"))
}

/// Returns the condition under which the pass comes that applies a ResourceSet.
fn begins(state: &State<'_>, trigger: &PassId) -> Option<String> {
    Some(state.pass(trigger)?.condition.as_ref()?.detail.clone())
}

/// Returns the condition under which flux-operator gets as far as deleting.
fn waits(live: Option<&Resource>, spec: &Value, changed: &[&BuiltObject]) -> Option<String> {
    let failing = live.filter(|live| !is_waiting(live)).and_then(|live| live.condition("Ready"));
    if let Some(ready) = failing.filter(|ready| ready.status != "True" && ready.reason != "BuildFailed") {
        return Some(format!("it waits until this is resolved: {}", ready.reason));
    }
    let steps = spec.get("steps").and_then(Value::as_array).map_or(0, Vec::len);
    (steps > 1 && !changed.is_empty()).then(|| "it stays until the objects of earlier steps are ready".to_owned())
}

/// Returns true if the namespace or the definition of an object is created with it, so that no dry-run can show it.
fn comes_with_container(state: &State<'_>, built: &BuiltObject, all: &BuiltObjects) -> bool {
    let namespace = built.id.namespace_object();
    let is_new = all.contains_key(&namespace) && !state.is_live(&namespace);
    is_new || state.input.snapshot.resource_type(&built.id.group_kind()).is_none()
}

/// Returns a manifest as flux-operator sends it: normalized, and without a namespace if its kind is cluster-scoped.
fn manifest_to_apply(manifest: &Value, id: &ObjectId) -> Value {
    let mut scoped = manifest.clone();
    normalize(id, &mut scoped);
    if let (true, Some(metadata)) = (id.namespace.is_empty(), scoped.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.remove("namespace");
    }
    scoped
}
