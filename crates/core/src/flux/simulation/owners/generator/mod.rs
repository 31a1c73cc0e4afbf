//! ArtifactGenerators, and the ExternalArtifacts that source-watcher makes of the planned trees.
//!
//! A generator is triggered by a new revision of its sources with its old spec, and by the change of its spec. So an
//! artifact can have several states, one after the other. If a build fails, the artifacts before it are new and those after
//! it stay as they are. Source: docs/reference/flux.md 9.

pub(crate) mod repositories;
mod source_content;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use self::repositories::add_repositories;
use self::source_content::{is_affected, source_content};
use crate::flux::generator::spec::GeneratorSpec;
use crate::flux::generator::{Generation, Made, SourceContent, Stop, generate};
use crate::flux::kinds::{ARTIFACT_SWITCH, EXTERNAL_ARTIFACT, GENERATOR, GENERATOR_GROUP};
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Effect, OwnerDeletion, Reaction};
use crate::flux::simulation::model::generated_artifacts::{
    ArtifactContent, ArtifactState, GeneratedArtifacts, Generator, GeneratorEffect,
};
use crate::flux::simulation::model::node::PassId;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::commands::manifest_in_cluster;
use crate::flux::simulation::owners::behaviour::comparison::Comparison;
use crate::flux::simulation::owners::behaviour::owner_kind::OwnerKind;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::spec::SourceId;
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, Resource, text_at};
use crate::ownership::schemes::flux::is_switched_off;
use crate::plan::{Actor, Reason, ReasonCode};

/// One reconciliation of a generator.
struct Run {
    generation: Arc<Generation>,
    trigger: Option<PassId>,
    /// It is a race if it happens.
    is_optional: bool,
}

/// ArtifactGenerators.
pub(super) const GENERATORS: OwnerKind = OwnerKind {
    group: GENERATOR_GROUP,
    kind: GENERATOR,
    actor: Actor::SourceWatcher,
    affected,
    acting,
    find_out: |_, id| manifest_in_cluster("artifactgenerator", id),
    deleted,
    finalized: |_, _| vec![],
    stored: |_, _| None,
};

/// Returns the generators that make other artifacts after the change, or of which that is not known.
fn affected(comparison: &mut Comparison<'_, '_, '_>) -> Vec<AffectedOwner> {
    let state = comparison.state();
    let consequences = comparison.derivation.consequences;
    let generators = state.generated.generators.iter().filter(|(id, _)| !consequences.may_be_deleted(id));
    let found = generators.filter_map(|(id, generator)| Some(AffectedOwner::new(id, reaction(&generator.effect)?)));
    found.collect()
}

fn reaction(effect: &GeneratorEffect) -> Option<Reaction> {
    match effect {
        GeneratorEffect::Unchanged => None,
        GeneratorEffect::Generates => Some(Reaction::Acts(ReasonCode::ArtifactsGenerated.into())),
        GeneratorEffect::Fails(why) => Some(Reaction::Waits(Reason::new(ReasonCode::BuildFailed, why))),
        GeneratorEffect::Unknown(why) => {
            let detail = format!("{why}, so it is not known what is deleted of its artifacts");
            Some(Reaction::Unknown(Reason::new(ReasonCode::NotFollowed, detail)))
        }
    }
}

/// Returns the deletion of the ExternalArtifacts that a live generator no longer makes.
fn acting(state: &State<'_>, live: &Resource, _: &Consequences<'_>) -> Option<Effect> {
    let id = &live.object.id;
    let removed = &state.generated.generators.get(id)?.removed;
    let artifacts = removed.iter().map(|name| SourceId::external_artifact(&id.namespace, name).object());
    let deletes = artifacts.map(|artifact| (artifact, OwnerDeletion::new(CascadeKind::RemovedArtifact)));
    let triggers = state.applying_events(id);
    (!removed.is_empty()).then(|| Effect { triggers, deletes: deletes.collect(), ..Effect::default() })
}

/// Returns the deletion of the ExternalArtifacts in the inventory of a deleted generator. It deletes them even if it is
/// disabled.
fn deleted(_: &State<'_>, live: &Resource, _: &Consequences<'_>) -> Effect {
    let entries = live.at("/status/inventory").and_then(Value::as_array).into_iter().flatten();
    let artifacts = entries.map(|entry| {
        let [namespace, name] = ["/namespace", "/name"].map(|pointer| text_at(entry, pointer));
        SourceId::external_artifact(namespace, name).object()
    });
    let deletes = artifacts.map(|artifact| (artifact, OwnerDeletion::new(CascadeKind::ArtifactGenerator)));
    Effect { deletes: deletes.collect(), ..Effect::default() }
}

/// Generates all artifacts anew from the present state of the Kustomizations.
pub(crate) fn generated(state: &mut State<'_>, consequences: &Consequences<'_>) -> GeneratedArtifacts {
    let ids = generator_ids(state);
    let mut generated = GeneratedArtifacts::default();
    add_repositories(state, consequences, &mut generated);
    let repositories = generated.states.clone();
    // An artifact can be a source of another generator.
    for _ in 0..=ids.len() {
        let known = std::mem::take(&mut generated);
        generated.states.clone_from(&repositories);
        for id in &ids {
            add_generator(state, id, &known, consequences, &mut generated);
        }
        if generated == known {
            return generated;
        }
    }
    let of_generators = generated.states.iter_mut().filter(|(source, _)| source.kind == EXTERNAL_ARTIFACT);
    for last in of_generators.flat_map(|(_, states)| states) {
        last.content = ArtifactContent::Unknown("generators use the artifacts of each other in a circle".to_owned());
    }
    generated
}

fn generator_ids(state: &State<'_>) -> BTreeSet<ObjectId> {
    let live = state
        .input
        .snapshot
        .resources
        .iter()
        .map(|full| &full.object.id)
        .filter(|id| id.is_here(GENERATOR_GROUP, GENERATOR));
    live.chain(state.nodes.applied_of(GENERATOR_GROUP, GENERATOR)).cloned().collect()
}

fn add_generator(
    state: &mut State<'_>,
    id: &ObjectId,
    known: &GeneratedArtifacts,
    consequences: &Consequences<'_>,
    generated: &mut GeneratedArtifacts,
) {
    let live = state.input.snapshot.resource(id);
    if live.is_some_and(|live| live.object.deletion_timestamp.is_some()) {
        return;
    }
    let inventory = inventory(live);
    let is_deleted = consequences.may_be_deleted(id);
    let is_affected = is_affected(state, id, live, known);
    let runs = if is_affected { runs(state, id, live, known) } else { vec![] };
    let mut effect = GeneratorEffect::Unchanged;
    let mut names: BTreeSet<String> = inventory.clone();
    names.extend(runs.iter().flat_map(|run| &run.generation.artifacts).map(|(artifact, _)| artifact.name.clone()));
    for spec in live.map(Resource::spec).into_iter().chain(&state.specs_after(id)) {
        let spec = GeneratorSpec::read(spec, &id.namespace);
        let is_literal = spec.path_pattern.is_empty();
        names.extend(spec.artifacts.into_iter().filter(|_| is_literal).map(|artifact| artifact.name));
    }
    let mut removed = BTreeSet::new();
    for name in names {
        let source = SourceId::external_artifact(&id.namespace, &name);
        let mut states = artifact_states(state, &source, &runs, inventory.contains(&name));
        if is_deleted {
            add_deletion(id, consequences, &mut states);
        }
        match states.last().map(|last| &last.content) {
            Some(ArtifactContent::Missing(_)) if inventory.contains(&name) && !is_deleted => {
                removed.insert(name);
                effect.add(GeneratorEffect::Generates);
            }
            Some(ArtifactContent::Unknown(why)) => effect.add(GeneratorEffect::Unknown(why.clone())),
            Some(ArtifactContent::Made(_)) => effect.add(GeneratorEffect::Generates),
            _ => {}
        }
        match generated.states.get_mut(&source) {
            None => drop(generated.states.insert(source, states)),
            Some(taken) => {
                let content = ArtifactContent::Unknown(format!("several generators make {source}"));
                *taken = vec![ArtifactState::new(content, None)];
            }
        }
    }
    let stop = runs.last().and_then(|run| run.generation.stop.as_ref());
    match stop.filter(|_| !is_deleted) {
        Some(Stop::Fails(why)) => effect.add(GeneratorEffect::Fails(why.clone())),
        Some(Stop::Unknown(why)) => effect.add(GeneratorEffect::Unknown(why.clone())),
        None => {}
    }
    generated.generators.insert(id.clone(), Generator { effect, removed });
}

/// Returns the reconciliations of a generator, with its live spec and with those that passes apply.
fn runs(state: &mut State<'_>, id: &ObjectId, live: Option<&Resource>, known: &GeneratedArtifacts) -> Vec<Run> {
    let was_off = live.and_then(|live| live.object.annotations.get(ARTIFACT_SWITCH)).is_some_and(is_switched_off);
    let is_off = state.is_switched_off_after(id, ARTIFACT_SWITCH);
    let mut specs: Vec<(GeneratorSpec, Option<PassId>)> = vec![];
    if let Some(live) = live.filter(|_| !was_off) {
        specs.push((GeneratorSpec::read(live.spec(), &id.namespace), None));
    }
    if !is_off {
        let applied = state.applied_specs(id);
        specs.extend(applied.map(|(spec, pass)| (GeneratorSpec::read(&spec, &id.namespace), Some(pass))));
    }
    specs.dedup_by(|next, earlier| next.0 == earlier.0);
    // The switch alone triggers nothing, and a new revision may come before it changes.
    let is_optional = live.is_some() && was_off != is_off;
    let runs = specs.into_iter().map(|(spec, trigger)| {
        let generation = generation(state, id, live, &spec, known);
        Run { generation, trigger, is_optional }
    });
    runs.collect()
}

fn stopped(why: Stop) -> Arc<Generation> {
    Arc::new(Generation { artifacts: vec![], stop: Some(why) })
}

fn generation(
    state: &mut State<'_>,
    id: &ObjectId,
    live: Option<&Resource>,
    spec: &GeneratorSpec,
    known: &GeneratedArtifacts,
) -> Arc<Generation> {
    if state.is_private(id) {
        return stopped(Stop::Unknown("its spec holds values of a Secret".to_owned()));
    }
    if let Some(why) = spec.refusal(&id.namespace, state.input.generators_deny_other_namespaces) {
        return stopped(Stop::Fails(why));
    }
    let mut contents = BTreeMap::new();
    for entry in &spec.sources {
        match source_content(state, &entry.source, known) {
            Ok(content) => drop(contents.insert(entry.alias.clone(), content)),
            Err(why) => return stopped(Stop::Fails(why)),
        }
    }
    let digests: Vec<String> = contents
        .iter()
        .map(|(alias, content)| match content {
            SourceContent::Known(artifact) => format!("{alias}={}", artifact.digest()),
            other => format!("{alias}={other:?}"),
        })
        .collect();
    let key = format!("{id} {spec:?} {digests:?}");
    if let Some(found) = state.generations.get(&key) {
        return found.clone();
    }
    let inventory = inventory(live);
    let live_spec = live.map(|live| GeneratorSpec::read(live.spec(), &id.namespace)).unwrap_or_default();
    let is_ready = live.is_some_and(|live| live.is_true("Ready"));
    let mut found = generate(spec, &contents, |artifact| {
        let is_listed = *spec == live_spec
            || (live_spec.path_pattern.is_empty()
                && live_spec.artifacts.contains(artifact)
                && live_spec.sources == spec.sources);
        is_ready && is_listed && inventory.contains(&artifact.name)
    });
    if let Some(Stop::Fails(why)) = &found.stop
        && let Some(other) = spec.sources.iter().find(|entry| !is_git(&entry.source))
    {
        let source = &other.source;
        found.stop = Some(Stop::Unknown(format!("{why}, unless {source} has an empty directory that its tree lacks")));
    }
    let found = Arc::new(found);
    state.generations.insert(key, found.clone());
    found
}

/// Returns true if the artifact of a source has no empty directories.
fn is_git(source: &SourceId) -> bool {
    source.kind == "GitRepository" || source.kind == EXTERNAL_ARTIFACT
}

/// Returns the states of an artifact after the reconciliations of its generator.
fn artifact_states(state: &State<'_>, source: &SourceId, runs: &[Run], exists: bool) -> Vec<ArtifactState> {
    let deployed = state.input.deployed.get(source);
    let initial = if exists {
        ArtifactContent::Same
    } else {
        ArtifactContent::Missing("its ArtifactGenerator has not made it".to_owned())
    };
    let mut states = vec![ArtifactState::new(initial, None)];
    let mut last_change = 0;
    for (number, run) in runs.iter().enumerate() {
        let found = run.generation.artifacts.iter().find(|(artifact, _)| artifact.name == source.name);
        let content = match (found, &run.generation.stop) {
            (Some((artifact, Made::New(made, _))), _) => {
                let is_same =
                    artifact.revision.is_none() && deployed.is_some_and(|deployed| deployed.digest() == made.digest());
                if is_same { ArtifactContent::Same } else { ArtifactContent::Made(made.clone()) }
            }
            (Some((_, Made::Same)), _) => continue,
            (None, Some(Stop::Fails(why))) => {
                if let Some(ArtifactState { content: ArtifactContent::Missing(missing), .. }) = states.last_mut() {
                    *missing = format!("its ArtifactGenerator does not make it: {why}");
                }
                continue;
            }
            (None, Some(Stop::Unknown(why))) => ArtifactContent::Unknown(why.clone()),
            (None, None) => ArtifactContent::Missing("its ArtifactGenerator no longer makes it".to_owned()),
        };
        if state.input.differing_artifacts.contains(source) && matches!(content, ArtifactContent::Made(_)) {
            let why = "what is generated here from the deployed revision is not what source-watcher stores";
            return vec![ArtifactState::new(ArtifactContent::Unknown(why.to_owned()), None)];
        }
        if states.last().is_none_or(|last| last.content != content) {
            states.push(ArtifactState::new(content, run.trigger.clone()));
            last_change = number;
        }
    }
    if states.len() > 1 {
        states.remove(0);
        let last = states.len() - 1;
        // With an earlier spec it is made only if source-watcher comes before the change of the spec.
        states[last].is_optional = last_change + 1 < runs.len() || runs[last_change].is_optional;
    }
    states
}

/// Adds the deletion of its generator to the states of an artifact.
fn add_deletion(id: &ObjectId, consequences: &Consequences<'_>, states: &mut Vec<ArtifactState>) {
    let own = consequences.outcomes.get(id).filter(|outcomes| outcomes.may_be_deleted());
    let is_certain = match own {
        Some(own) => own.is_deleted(),
        None => {
            consequences.cascaded.get(id).and_then(|found| consequences.triggers_of(found)).is_some_and(|found| found.1)
        }
    };
    let content = if is_certain && !consequences.may_be_recreated(id) {
        ArtifactContent::Missing(format!("{id}, which makes it, is deleted"))
    } else {
        ArtifactContent::Unknown(format!("{id}, which makes it, may be deleted"))
    };
    states.push(ArtifactState::new(content, None));
}

/// Returns the names of the artifacts that a live generator has made.
fn inventory(live: Option<&Resource>) -> BTreeSet<String> {
    let entries = live.and_then(|live| live.at("/status/inventory")).and_then(Value::as_array);
    entries.into_iter().flatten().map(|entry| text_at(entry, "/name").to_owned()).collect()
}
