//! The cluster after the change, as far as answers of the API server depend on it: objects that are read live, and what the
//! change makes of them.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;

use serde_json::Value;

use super::applied_builds::AppliedBuilds;
use super::event::Event;
use crate::flux::apply::AppliedObject;
use crate::flux::apply::admission::{
    ADMISSION_V1, AdmissionRule, BINDING, MUTATING_BINDING, MUTATING_POLICY, POLICY, ParameterRef,
};
use crate::flux::apply::question::{DryRunAnswer, Question};
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::objects::query::{ClusterQuery, ObjectQuery, QueryAnswer};
use crate::flux::kustomize_controller;
use crate::flux::simulation::kustomization::dependencies::health::busy_with_health;
use crate::flux::simulation::model::node::{NodeId, Pass, PassId, SimulationEvent};
use crate::flux::simulation::model::questions::{Answers, Needs};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::event_order::{EventOrder, event_of};
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::flux::stages::stage;
use crate::kubernetes::object::{GroupKind, KeyValues, ObjectId, group_of, list_at, text_at, texts_at};

/// Returns the order of the events of the Kustomizations.
pub(in crate::flux::simulation) fn event_order(state: &State<'_>) -> EventOrder {
    let busy = busy_with_health(state);
    EventOrder::new(&state.nodes, state.input.features, state.exceeds_workers, &busy)
}

/// The cluster before and after the change.
pub(super) struct World<'s, 'a> {
    pub(super) state: &'s State<'a>,
    pub(super) builds: &'s AppliedBuilds,
    pub(super) answers: &'s Answers,
    pub(super) events: Vec<Event>,
    order: OnceCell<EventOrder>,
    /// Kinds with a live object.
    live_kinds: OnceCell<BTreeSet<GroupKind>>,
    /// Parameters of admission policies before and after the change.
    parameters: OnceCell<Vec<ParameterRef>>,
    /// Live webhooks, as far as they are known.
    pub(super) webhooks: OnceCell<Vec<(ObjectId, AdmissionRule)>>,
    /// Objects to read and questions to ask before there is an answer.
    pub(super) needs: RefCell<Needs>,
}

/// An object before and after the change.
pub(super) struct Fact<'w> {
    pub(super) id: ObjectId,
    pub(super) before: Option<&'w Value>,
    pub(super) after: Option<&'w Value>,
    /// Changes of it.
    pub(super) events: Vec<&'w Event>,
}

impl<'w> Fact<'w> {
    /// Returns the object before and after the change, as far as it exists.
    fn values(&self) -> impl Iterator<Item = &'w Value> + use<'w> {
        [self.before, self.after].into_iter().flatten()
    }
}

/// Order of an event and an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precedence {
    /// The event certainly comes first.
    Before,
    /// The apply certainly comes first.
    After,
    Unknown,
}

impl<'s, 'a> World<'s, 'a> {
    pub(super) fn new(
        state: &'s State<'a>,
        builds: &'s AppliedBuilds,
        answers: &'s Answers,
        events: Vec<Event>,
    ) -> Self {
        Self {
            state,
            builds,
            answers,
            events,
            order: OnceCell::new(),
            live_kinds: OnceCell::new(),
            parameters: OnceCell::new(),
            webhooks: OnceCell::new(),
            needs: RefCell::default(),
        }
    }

    /// Returns all objects of some kinds of a group, before and after the change; `None` if they are not known yet, or what
    /// the change makes of one is not certain.
    pub(super) fn facts(&self, api_version: &str, kinds: &[&str]) -> Option<Vec<Fact<'_>>> {
        let lists = kinds.iter().map(|kind| self.facts_of_kind(api_version, kind));
        // Every kind is asked for, even if one is not known yet.
        let lists: Vec<Option<Vec<Fact<'_>>>> = lists.collect();
        Some(lists.into_iter().collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn facts_of_kind(&self, api_version: &str, kind: &str) -> Option<Vec<Fact<'_>>> {
        let group = group_of(api_version);
        let events: Vec<&Event> = self.events.iter().filter(|event| event.id.is_here(group, kind)).collect();
        let snapshot = self.state.input.snapshot;
        let is_known = snapshot.gaps_hiding(&GroupKind::new(group, kind)).next().is_none();
        let live_kinds = self.live_kinds.get_or_init(|| {
            let here = snapshot.objects.iter().filter(|object| object.id.cluster.is_none());
            here.map(|object| object.id.group_kind()).collect()
        });
        let has_live = live_kinds.contains(&GroupKind::new(group, kind));
        let mut facts: Vec<Fact<'_>> = vec![];
        if has_live || !is_known {
            let list = self.read(api_version, kind, "", "")??;
            for item in list_at(list, "/items") {
                let (namespace, name) = (text_at(item, "/metadata/namespace"), text_at(item, "/metadata/name"));
                let id = ObjectId::new(group, kind, namespace, name);
                facts.push(Fact { id, before: Some(item), after: Some(item), events: vec![] });
            }
        }
        for event in events {
            if !event.is_certain || (!event.is_deleted && event.built.is_none()) {
                return None;
            }
            let after = event.manifest().map(|manifest| &**manifest);
            match facts.iter_mut().find(|fact| fact.id == event.id) {
                // It is created anew.
                Some(fact)
                    if event.is_deleted
                        && fact.events.iter().all(|apply| apply.owner == event.owner)
                        && !fact.events.is_empty() =>
                {
                    fact.events.push(event);
                }
                // Two owners change it.
                Some(fact) if !fact.events.is_empty() => return None,
                Some(fact) => (fact.after, fact.events) = (after, vec![event]),
                None => facts.push(Fact { id: event.id.clone(), before: None, after, events: vec![event] }),
            }
        }
        Some(facts)
    }

    /// Returns the parameters of admission policies before and after the change, as far as they are known.
    pub(super) fn parameters(&self) -> &[ParameterRef] {
        if let Some(known) = self.parameters.get() {
            return known;
        }
        let bindings = self.facts(ADMISSION_V1, &[BINDING, MUTATING_BINDING]);
        let some_bindings = bindings.as_ref().filter(|bindings| !bindings.is_empty());
        let policies = some_bindings.map_or(Some(vec![]), |_| self.facts(ADMISSION_V1, &[POLICY, MUTATING_POLICY]));
        let (Some(bindings), Some(policies)) = (bindings, policies) else { return &[] };
        let mut found = vec![];
        for binding in bindings.iter().flat_map(Fact::values) {
            let name = text_at(binding, "/spec/policyName");
            let named = policies.iter().filter(|policy| *policy.id.name == *name).flat_map(Fact::values);
            found.extend(named.filter_map(|policy| ParameterRef::of(policy, binding)));
        }
        self.parameters.get_or_init(|| found)
    }

    /// Returns an object, or the list of a kind; nothing if it does not exist, and `None` if it is not known yet.
    pub(super) fn read(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Option<&Value>> {
        let [api_version, kind, namespace, name] = [api_version, kind, namespace, name].map(str::to_owned);
        let query = ClusterQuery { cluster: None, query: ObjectQuery { api_version, kind, namespace, name } };
        match self.answers.builds.queries.get(&query) {
            Some(QueryAnswer::Found(found)) => Some(Some(found)),
            Some(QueryAnswer::Missing) => Some(None),
            Some(QueryAnswer::Unreadable(_)) => None,
            None => {
                self.needs.borrow_mut().builds.queries.insert(query);
                None
            }
        }
    }

    /// Returns the answer to a further question; `None` if it is not known yet, or if there is none.
    pub(super) fn ask(&self, question: Question) -> Option<&DryRunAnswer> {
        let question = self.state.with_privacy(question);
        let answer = self.answers.dry_runs.get(question.key());
        if answer.is_none() {
            self.needs.borrow_mut().dry_runs.push(question);
        }
        answer
    }

    /// Returns the labels of the namespace of an object before and after the change, and what changes them. There is none
    /// before if the namespace is created; `None` if the labels are not known.
    pub(super) fn namespace_labels(&self, id: &ObjectId) -> Option<(Option<KeyValues>, KeyValues, Vec<&Event>)> {
        let namespace = id.namespace_object();
        let before = self.state.live_object(&namespace).map(|live| live.labels.clone());
        let events: Vec<&Event> = self.events.iter().filter(|event| event.id == namespace).collect();
        match events.as_slice() {
            [] => before.clone().map(|labels| (before, labels, vec![])),
            [event] if event.is_certain => {
                let built = event.built.as_ref()?;
                let owned = match (before.as_ref(), event.kustomization()) {
                    (None, _) => BTreeSet::new(),
                    (Some(_), owner) => self.owned_labels(&namespace, owner.as_ref(), built)?,
                };
                let new: KeyValues = texts_at(&built.manifest, "/metadata/labels").collect();
                let live = before.iter().flat_map(KeyValues::iter);
                let kept = live.filter(|(key, _)| !owned.contains(*key) && new.get(key).is_none());
                let named = ("kubernetes.io/metadata.name", &*namespace.name);
                let others = kept.chain(new.iter()).filter(|(key, _)| *key != named.0);
                let after = others.chain([named]).collect();
                Some((before, after, events))
            }
            _ => None,
        }
    }

    /// Returns the labels of a live namespace that an apply removes unless it has them.
    fn owned_labels(
        &self,
        namespace: &ObjectId,
        owner: Option<&NamespacedName>,
        built: &BuiltObject,
    ) -> Option<BTreeSet<String>> {
        if let Some(labels) = owner.and_then(|owner| self.builds.value(owner, built, "/metadata/labels")) {
            return Some(labels.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect());
        }
        let live = self.read("v1", "Namespace", "", &namespace.name)??;
        let entries = list_at(live, "/metadata/managedFields").iter();
        let own =
            entries.filter(|entry| entry["manager"] == kustomize_controller::NAME && entry["operation"] == "Apply");
        let owned = own.filter_map(|entry| entry.pointer("/fieldsV1/f:metadata/f:labels")?.as_object());
        Some(owned.flatten().filter_map(|(key, _)| Some(key.strip_prefix("f:")?.to_owned())).collect())
    }

    /// Returns the order of an event and the last apply of a Kustomization with an object. A run applies stage after stage,
    /// and asks about all objects of a stage before it applies one.
    pub(super) fn precedence(&self, event: &Event, owner: &NamespacedName, id: &ObjectId) -> Precedence {
        let custom = &self.state.input.flags.custom_stage_kinds;
        if event.is_of(owner) {
            let is_first = !event.is_deleted && stage(&event.id, custom) < stage(id, custom);
            return if is_first { Precedence::Before } else { Precedence::After };
        }
        if event.is_by(id) {
            return Precedence::After;
        }
        let order = self.order.get_or_init(|| event_order(self.state));
        let change = event.premise().and_then(|premise| event_of(&premise, &self.state.nodes));
        let Some((change, apply)) = change.zip(self.last_apply(owner)) else { return Precedence::Unknown };
        match (order.precedes(&change, &apply), order.precedes(&apply, &change)) {
            (true, false) => Precedence::Before,
            (false, true) => Precedence::After,
            _ => Precedence::Unknown,
        }
    }

    /// Returns true if it is certain that a Kustomization applies its objects before what a run causes by the last object that it applies.
    pub(super) fn is_applied_before(&self, owner: &NamespacedName, cause: &PassId) -> bool {
        let order = self.order.get_or_init(|| event_order(self.state));
        let cause = SimulationEvent::Apply(cause.clone());
        self.last_apply(owner).is_some_and(|apply| apply == cause || order.precedes(&apply, &cause))
    }

    fn last_apply(&self, owner: &NamespacedName) -> Option<SimulationEvent> {
        let node = self.state.lifetimes(owner).last()?;
        let number = node.passes.len().checked_sub(1)?;
        Some(SimulationEvent::Apply(PassId { node: node.id.clone(), number }))
    }

    /// Returns true if a live Kustomization prunes an object in a run before the one with this spec, or deletes it before it is
    /// created again itself.
    pub(super) fn was_pruned_before(&self, owner: &NamespacedName, spec: &KustomizationSpec, id: &ObjectId) -> bool {
        let node = self.state.node(&NodeId::live(owner));
        let is_recreated = self.state.node(&NodeId::new(owner)).is_some();
        if is_recreated && node.is_some_and(|node| node.deletion.is_some() && node.inventory.contains(id)) {
            return true;
        }
        let passes = node.map_or(&[][..], |node| &node.passes);
        let mut earlier = passes.iter().take_while(|pass| pass.spec != *spec);
        earlier.any(|pass: &Pass| !pass.is_optional && pass.condition.is_none() && pass.prunes(id))
    }

    /// Returns the service account of a Kustomization in a run.
    pub(super) fn account(&self, owner: &NamespacedName, name: Option<&str>) -> Option<NamespacedName> {
        Some(NamespacedName { namespace: owner.namespace.clone(), name: name?.to_owned() })
    }

    /// Returns the operation of the apply of an object.
    pub(super) fn operation(&self, object: &AppliedObject) -> &'static str {
        if self.state.is_live(&object.id) { "UPDATE" } else { "CREATE" }
    }
}
