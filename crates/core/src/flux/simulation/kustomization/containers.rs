//! Namespaces and definitions that a build needs and that are deleted, by this change or already before it.
//!
//! An apply fails as soon as the namespace or the definition of one of its objects is gone, or at once if it creates such an
//! object, and then nothing is pruned. An apply whose build has them itself creates them again, but waits up to 60 s for what is
//! being deleted, and fails, and so it does for all objects of its stages of definitions and classes, applied or not
//! (docs/reference/kustomize-controller.md 4.2; observed).
//!
//! A definition that is created anew with another scope takes the objects of its kind along. The controller goes on to ask for
//! them at their former address, until it is restarted (observed).

use std::collections::BTreeSet;

use super::derivation::Derivation;
use super::scope::stop_at;
use crate::flux::build::objects::{BuiltObject, defined_kind};
use crate::flux::simulation::model::node::{BuiltObjects, NodeId, Pass, PassId, PassOutcome, SimulationEvent};
use crate::flux::simulation::model::protection::is_never_applied;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::simulation::schedule::outcomes::FinalState;
use crate::flux::spec::KustomizationSpec;
use crate::flux::stages::{Stage, stage};
use crate::kubernetes::object::ObjectId;
use crate::plan::{Reason, ReasonCode};

/// Effect of a namespace or definition that is deleted on a pass that needs it.
enum Effect {
    /// It is gone before the pass: the apply fails.
    Fails(String),
    /// The apply fails unless this holds.
    Depends(Reason),
}

impl Effect {
    fn race(container: &ObjectId) -> Self {
        let condition = format!("nothing more is applied once {container} is deleted");
        Self::Depends(Reason::new(ReasonCode::ContainerDeleted, condition))
    }

    /// The apply fails until a container is gone, which comes back then.
    fn waits(condition: String) -> Self {
        Self::Depends(Reason::new(ReasonCode::ContainerTerminating, condition))
    }
}

/// Returns the namespace and the definition that an object needs, as far as they exist.
fn containers_of<'i>(state: &'i State<'_>, id: &'i ObjectId) -> impl Iterator<Item = ObjectId> + 'i {
    let namespace = (!id.namespace.is_empty()).then(|| id.namespace_object());
    namespace.into_iter().chain(state.definition_of(id)).filter(|id| state.is_live(id))
}

/// Returns true if the namespace or the definition of an object is deleted and not created again, or not with its scope.
pub(crate) fn container_is_deleted(state: &State<'_>, id: &ObjectId, consequences: &Consequences<'_>) -> bool {
    consequences.namespace_is_deleted(id)
        || containers_of(state, id).any(|container| consequences.is_gone(&container))
        || loses_its_scope(state, id, consequences)
}

/// Returns true if the definition of the kind of an object is created anew with a scope in which there is no such object.
fn loses_its_scope(state: &State<'_>, id: &ObjectId, consequences: &Consequences<'_>) -> bool {
    let Some(definition) = state.definition_of(id) else { return false };
    let replaced = consequences.outcomes.get(&definition).filter(|it| it.may_end_as(FinalState::Recreated));
    let is_namespaced = replaced.and_then(|_| {
        let mut last = state.nodes.iter().filter_map(|node| Some(node.last_applied(&definition)?.1));
        last.find_map(defined_kind)
    });
    is_namespaced.is_some_and(|(_, is_namespaced)| is_namespaced == id.namespace.is_empty())
}

/// Returns true if an object is in a namespace that is being deleted and that the same build creates again.
pub(crate) fn comes_back(state: &State<'_>, id: &ObjectId, objects: &BuiltObjects) -> bool {
    let namespace = id.namespace_object();
    objects.contains_key(&namespace) && is_being_deleted(state, &namespace)
}

fn is_being_deleted(state: &State<'_>, id: &ObjectId) -> bool {
    state.live_object(id).is_some_and(|live| live.deletion_timestamp.is_some())
}

/// Changes the passes whose apply fails, or may fail, because a namespace or a definition is deleted.
pub(crate) fn fail_without_containers(derivation: &Derivation<'_, '_>, id: &NodeId, passes: &mut [Pass]) {
    let custom = &derivation.state.input.flags.custom_stage_kinds;
    for (number, pass) in passes.iter_mut().enumerate() {
        let PassOutcome::Applied(objects) = &pass.outcome else { continue };
        let apply = SimulationEvent::Apply(PassId { node: id.clone(), number });
        let (mut kinds, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let needed = objects.iter().flat_map(|(id, built)| {
            let own = (stage(id, custom) < Stage::Custom).then(|| id.clone());
            let is_sent = !is_never_applied(built, &pass.spec);
            let is_first = is_sent && kinds.insert((&id.cluster, &id.namespace, &id.group, &id.kind));
            let others = is_first.then(|| containers_of(derivation.state, id));
            let containers: Vec<ObjectId> = others.into_iter().flatten().chain(own).collect();
            containers.into_iter().map(move |container| (container, built))
        });
        let effects: Vec<(Effect, &BuiltObject)> = needed
            .filter(|(container, _)| seen.insert(container.clone()))
            .filter_map(|(container, built)| {
                Some((effect_of_container(derivation, &container, objects, &pass.spec, &apply)?, built))
            })
            .collect();
        let failure = effects.iter().find_map(|(effect, built)| match effect {
            Effect::Fails(why) => Some((why, *built)),
            Effect::Depends(_) => None,
        });
        if let Some((why, built)) = failure {
            pass.outcome = stop_at(objects.clone(), &built.id, why.clone(), custom);
        } else if let Some((Effect::Depends(condition), _)) = effects.first() {
            pass.add_condition(condition.clone());
        } else if let Some(condition) = contested_name(derivation, objects, &pass.spec)
            .or_else(|| awaited_container(derivation.state, objects, &pass.spec))
        {
            pass.add_condition(Reason::new(ReasonCode::MayBeRefused, condition));
        }
    }
}

/// Returns the condition of a live definition of a build that asks for a name of another one.
fn contested_name(derivation: &Derivation<'_, '_>, objects: &BuiltObjects, spec: &KustomizationSpec) -> Option<String> {
    let definition = objects.keys().find(|id| id.is_definition())?;
    derivation.scopes.get(&definition.cluster)?.contested_name(objects, spec)
}

/// Returns the condition under which another owner creates a namespace or a definition that a pass needs, unless that is certain. Until
/// then the pass is tried again.
fn awaited_container(state: &State<'_>, objects: &BuiltObjects, spec: &KustomizationSpec) -> Option<String> {
    let doubtful = state.owner_effects().filter(|(_, effect)| !effect.certainly_applies());
    let mut made = doubtful.flat_map(|(owner, effect)| {
        let objects = effect.applies.iter().flat_map(|applies| applies.objects.values());
        objects.map(move |built| (owner, built))
    });
    made.find_map(|(owner, made)| {
        let is_new =
            made.id.is_container() && !state.is_live(&made.id) && state.nodes.applying(&made.id).next().is_none();
        let mut sent = objects.iter().filter(|(_, built)| !is_never_applied(built, spec)).map(|(id, _)| id);
        let is_needed = is_new && sent.any(|id| is_contained(id, made));
        is_needed.then(|| format!("it applies only if {owner} creates {}", made.id))
    })
}

/// Returns true if an object is in a namespace, or of the kind that a definition defines.
fn is_contained(id: &ObjectId, container: &BuiltObject) -> bool {
    id.namespace_object() == container.id || defined_kind(container).is_some_and(|(kind, _)| kind == id.group_kind())
}

/// Returns the effect of an object for which a stage of a pass waits, and which its finalizers or those of its content keep once
/// it is deleted before; `None` if it is not.
fn kept_container(derivation: &Derivation<'_, '_>, id: &ObjectId, apply: &SimulationEvent) -> Option<Effect> {
    let keeper = derivation.state.holders.keeper(derivation.state.live_object(id)?)?;
    let consequences = derivation.consequences;
    let deletions = consequences.outcomes.get(id).filter(|outcomes| outcomes.may_be_deleted());
    let may_be_earlier = deletions.is_some_and(|outcomes| {
        !outcomes.deletions.iter().all(|deletion| consequences.order.precedes(apply, deletion))
    });
    (may_be_earlier || consequences.cascaded.contains_key(id)).then(|| {
        Effect::waits(format!(
            "nothing more is applied until {id} is gone, whose deletion waits for the finalizers of {keeper}"
        ))
    })
}

/// Returns the effect on a pass of a container of an object, or of an object for which its stage waits; `None` if it stays.
fn effect_of_container(
    derivation: &Derivation<'_, '_>,
    container: &ObjectId,
    objects: &BuiltObjects,
    spec: &KustomizationSpec,
    apply: &SimulationEvent,
) -> Option<Effect> {
    if is_being_deleted(derivation.state, container) {
        return Some(Effect::waits(format!(
            "nothing more is applied until {container}, which is being deleted, is gone"
        )));
    }
    if objects.contains_key(container) {
        return kept_container(derivation, container, apply);
    }
    let consequences = derivation.consequences;
    if consequences.cascaded.contains_key(container) {
        return Some(Effect::race(container));
    }
    let outcomes = consequences.outcomes.get(container)?;
    let changes_scope = objects.keys().any(|id| {
        derivation.state.definition_of(id).as_ref() == Some(container)
            && loses_its_scope(derivation.state, id, consequences)
    });
    if !outcomes.may_end_as(FinalState::Deleted) && !changes_scope {
        return None;
    }
    let (order, deletions) = (&consequences.order, &outcomes.deletions);
    if deletions.iter().all(|deletion| order.precedes(apply, deletion)) {
        return None;
    }
    let is_gone_before = deletions.iter().all(|deletion| order.precedes(deletion, apply));
    if changes_scope && is_gone_before {
        return Some(Effect::Fails(format!("{container} is created anew with another scope before")));
    }
    // An object that exists can be applied until its container is gone; a new one is refused at once.
    let fails = is_gone_before
        && outcomes.always_ends_as(FinalState::Deleted)
        && objects.iter().any(|(id, built)| {
            !is_never_applied(built, spec)
                && !derivation.state.is_live(id)
                && containers_of(derivation.state, id).any(|needed| needed == *container)
        });
    Some(if fails { Effect::Fails(format!("{container} is deleted before")) } else { Effect::race(container) })
}
