//! Admission policies and webhooks that the change creates, changes or deletes, and namespaces whose labels decide
//! about them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::event::Event;
use super::world::{Fact, Precedence, World};
use crate::flux::apply::AppliedObject;
use crate::flux::apply::admission::{
    ADMISSION, ADMISSION_V1, AdmissionRequest, AdmissionRule, BINDING, Judged, MUTATING_BINDING, MUTATING_POLICY,
    POLICY, ParameterRef, deleted_object, namespace_object,
};
use crate::flux::apply::cause::denial;
use crate::kubernetes::object::{GroupKind, KeyValues, ObjectId, ResourceType, merge, text_at, texts_at};

pub(super) const WEBHOOKS: [&str; 2] = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];

/// A rule that is asked about a request before or after the change.
struct Reached<'w> {
    /// The rule as messages of the API server name it.
    name: String,
    before: Option<AdmissionRule>,
    after: Option<AdmissionRule>,
    events: Vec<&'w Event>,
    /// Some of its parameters change, and they are not known.
    has_unknown_parameters: bool,
    /// It looks at the labels of the namespace, and these change.
    sees_new_labels: bool,
}

impl Reached<'_> {
    /// Returns true if the change leaves the rule as it is.
    fn is_same(&self) -> bool {
        self.before == self.after && !self.has_unknown_parameters && !self.sees_new_labels
    }
}

/// A request of a controller.
#[derive(Clone, Copy)]
pub(super) struct Sent<'r> {
    id: &'r ObjectId,
    /// Manifest that is applied; `None` for a deletion.
    manifest: Option<&'r Value>,
    /// Nothing of the manifest is encrypted or a placeholder.
    is_known: bool,
    operation: &'static str,
}

impl<'r> Sent<'r> {
    pub(super) fn apply(world: &World<'_, '_>, object: &'r AppliedObject) -> Self {
        Self { operation: world.operation(object), ..Self::creation(object) }
    }

    /// Returns the creation of an object whose live one is deleted before.
    pub(super) fn creation(object: &'r AppliedObject) -> Self {
        let is_known = object.built.masked.is_none() && object.built.undecrypted.is_none();
        Self { id: &object.id, manifest: Some(&object.built.manifest), is_known, operation: "CREATE" }
    }

    /// Returns the apply of a manifest that is as it is sent.
    pub(super) fn manifest(world: &World<'_, '_>, id: &'r ObjectId, manifest: &'r Value) -> Self {
        let operation = if world.state.is_live(id) { "UPDATE" } else { "CREATE" };
        Self { id, manifest: Some(manifest), is_known: true, operation }
    }

    /// Returns the same request, without what its manifest says.
    pub(super) fn hidden(self) -> Self {
        Self { is_known: false, ..self }
    }

    pub(super) fn deletion(id: &'r ObjectId) -> Self {
        Self { id, manifest: None, is_known: false, operation: "DELETE" }
    }

    /// Returns the version of the API that it is sent in.
    fn version(self, kind: &'r ResourceType) -> &'r str {
        let of_manifest = self.manifest.map(|manifest| text_at(manifest, "/apiVersion"));
        of_manifest.map_or(&kind.version, |text| text.rsplit_once('/').map_or(text, |(_, version)| version))
    }

    pub(super) fn as_noun(self) -> &'static str {
        match self.operation {
            "CREATE" => "creation",
            "DELETE" => "deletion",
            _ => "change",
        }
    }
}

/// Effect of the rules after the change on an object.
pub(super) enum Ruling<'w> {
    /// No rule that the change touches concerns the object.
    Same,
    /// No rule is asked about it after these events.
    Free(Vec<&'w Event>),
    /// A rule that comes with these events denies it, and calls it invalid or not, as far as that is known.
    Denied(Vec<&'w Event>, Option<bool>),
    /// Rules that come with these events may deny it.
    Open(Vec<&'w Event>),
}

/// Returns the rules that are asked about a request before or after the change; `None` if they are not known.
fn reached<'w>(world: &'w World<'_, '_>, kind: &ResourceType, sent: Sent<'_>) -> Option<Vec<Reached<'w>>> {
    let Sent { id, operation, .. } = sent;
    if id.cluster.is_some() {
        return None;
    }
    let policies = world.facts(ADMISSION_V1, &[POLICY, MUTATING_POLICY]);
    let bindings = world.facts(ADMISSION_V1, &[BINDING, MUTATING_BINDING]);
    let webhooks = world.facts(ADMISSION_V1, &WEBHOOKS);
    let (policies, bindings, webhooks) = (policies?, bindings?, webhooks?);
    let is_free = id.namespace.is_empty();
    let labels = if is_free { None } else { Some(world.namespace_labels(id)?) };
    let (before, after, by_namespace) = labels.unwrap_or((Some(KeyValues::default()), KeyValues::default(), vec![]));
    let version = sent.version(kind);
    let matches = |rule: &AdmissionRule, namespace: &KeyValues| {
        rule.matches(AdmissionRequest { kind, version, id, operation, namespace })
    };
    let mut all: Vec<Reached<'_>> =
        bindings.iter().map(|binding| rule_of_binding(world, &policies, binding, &id.namespace)).collect();
    all.extend(webhooks.iter().flat_map(rules_of_webhooks));
    let is_relabelled = before.as_ref() != Some(&after);
    for rule in &mut all {
        let asks = [&rule.before, &rule.after].into_iter().flatten().any(AdmissionRule::asks_for_namespace);
        rule.sees_new_labels = is_relabelled && asks;
        rule.before.take_if(|rule| before.as_ref().is_none_or(|labels| !matches(rule, labels)));
        rule.after.take_if(|rule| !matches(rule, &after));
        rule.events.extend(&by_namespace);
    }
    // What a policy makes of objects today is in the answers of the server.
    all.retain(|rule| {
        let is_same = rule.is_same() && rule.before.as_ref().is_some_and(AdmissionRule::is_mutating);
        (rule.before.is_some() || rule.after.is_some()) && !is_same
    });
    Some(all)
}

/// Returns the live rules that can refuse a request, with the bindings and the configurations of webhooks that they are
/// of; `None` if they are not known.
pub(super) fn live_rules(world: &World<'_, '_>) -> Option<Vec<(ObjectId, AdmissionRule)>> {
    let policies = world.facts(ADMISSION_V1, &[POLICY]);
    let bindings = world.facts(ADMISSION_V1, &[BINDING]);
    let webhooks = live_webhooks(world);
    let (policies, bindings) = (policies?, bindings?);
    let of_bindings = bindings.iter().filter_map(|binding| {
        let content = binding.before?;
        let policy = policies.iter().find(|policy| *policy.id.name == *text_at(content, "/spec/policyName"))?;
        Some((binding.id.clone(), AdmissionRule::of_policy(policy.before?, content, None)?))
    });
    Some(of_bindings.chain(webhooks?.iter().cloned()).collect())
}

/// Returns the live webhooks with their configurations; `None` if they are not known.
fn live_webhooks<'w>(world: &'w World<'_, '_>) -> Option<&'w [(ObjectId, AdmissionRule)]> {
    if let Some(known) = world.webhooks.get() {
        return Some(known);
    }
    let configurations = world.facts(ADMISSION_V1, &WEBHOOKS)?;
    let webhooks = configurations.iter().flat_map(|configuration| {
        let rules = configuration.before.into_iter().flat_map(AdmissionRule::of_webhooks);
        rules.map(|(_, rule)| (configuration.id.clone(), rule))
    });
    Some(world.webhooks.get_or_init(|| webhooks.collect()))
}

/// Returns the rules that the change brings, or that ask for something else after it, with the objects that it applies
/// for them; `None` if the live ones are not known.
pub(super) fn coming_rules(world: &World<'_, '_>) -> Option<Vec<(ObjectId, AdmissionRule)>> {
    let passes = world.state.nodes.iter().filter_map(|node| node.last_pass()?.applied_objects());
    let own = passes.flatten().filter(|(id, _)| &*id.group == ADMISSION && id.cluster.is_none());
    let applied: BTreeMap<&ObjectId, &Value> = own.map(|(id, built)| (id, &*built.manifest)).collect();
    if applied.is_empty() {
        return Some(vec![]);
    }
    let lists = [&[POLICY][..], &[BINDING], &WEBHOOKS].map(|kinds| world.facts(ADMISSION_V1, kinds));
    let live: Vec<Fact<'_>> = lists.into_iter().collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
    let before: BTreeMap<&ObjectId, &Value> = live.iter().filter_map(|fact| Some((&fact.id, fact.before?))).collect();
    let after: BTreeMap<&ObjectId, &Value> = before.iter().chain(&applied).map(|(id, value)| (*id, *value)).collect();
    let old: Vec<(ObjectId, String, AdmissionRule)> = rules_of(&before).collect();
    let is_new = |(id, name, rule): &(ObjectId, String, AdmissionRule)| {
        !old.iter().any(|(other, known, old)| (other, known) == (id, name) && old.says_the_same(rule))
    };
    let policy = |id: &ObjectId| {
        let name = text_at(after[id], "/spec/policyName");
        applied.keys().any(|other| &*other.kind == POLICY && *other.name == *name)
    };
    let touched = |(id, ..): &(ObjectId, String, AdmissionRule)| applied.contains_key(id) || policy(id);
    Some(rules_of(&after).filter(touched).filter(is_new).map(|(id, _, rule)| (id, rule)).collect())
}

/// Returns the rules of bindings and webhooks, with their objects and the names of webhooks.
fn rules_of<'v>(
    objects: &BTreeMap<&'v ObjectId, &'v Value>,
) -> impl Iterator<Item = (ObjectId, String, AdmissionRule)> {
    objects.iter().flat_map(|(id, content)| {
        let policy = ObjectId::new(ADMISSION, POLICY, "", text_at(content, "/spec/policyName"));
        let of_policy = objects.get(&policy).filter(|_| &*id.kind == BINDING);
        let own = of_policy
            .and_then(|policy| AdmissionRule::of_policy(policy, content, None))
            .into_iter()
            .map(|rule| (String::new(), rule));
        own.chain(AdmissionRule::of_webhooks(content)).map(|(name, rule)| ((*id).clone(), name, rule))
    })
}

/// Returns true if webhooks of a configuration are asked about a request that those which it replaces are not asked
/// about.
pub(super) fn asks_anew(world: &World<'_, '_>, before: Option<&Value>, after: &Value, sent: Sent<'_>) -> bool {
    let Sent { id, operation, .. } = sent;
    let Some(kind) = world.state.input.snapshot.type_of(id) else { return true };
    let labels = world.state.live_object(&id.namespace_object()).map(|live| live.labels.clone()).unwrap_or_default();
    let request = AdmissionRequest { kind, version: sent.version(kind), id, operation, namespace: &labels };
    let known = before.into_iter().flat_map(AdmissionRule::of_webhooks);
    let asked: BTreeSet<String> = known.filter(|(_, rule)| rule.matches(request)).map(|(name, _)| name).collect();
    AdmissionRule::of_webhooks(after).any(|(name, rule)| rule.matches(request) && !asked.contains(&name))
}

/// Returns false if a rule certainly allows the deletion of a live object with these labels.
pub(super) fn may_deny_deletion(rule: &AdmissionRule, id: &ObjectId, labels: &KeyValues) -> bool {
    let old = deleted_object(id, labels);
    let deletion = Judged { object: &Value::Null, old: Some(&old), namespace: None, is_whole: false };
    rule.allows(deletion) != Some(true)
}

/// Returns the deletions without which a webhook that stays no longer allows a request: of its Service, or of the
/// workload whose Pods answer for that.
pub(super) fn lost_services<'w>(world: &'w World<'_, '_>, sent: Sent<'_>) -> Vec<&'w Event> {
    let id = sent.id;
    let is_made_again = |id: &ObjectId| world.events.iter().any(|event| !event.is_deleted && event.id == *id);
    let answering = world.events.iter().filter(|event| is_service(&event.id) || is_workload(&event.id));
    let mut lost: Vec<&Event> = answering.filter(|event| event.is_deleted && !is_made_again(&event.id)).collect();
    let webhooks = if lost.is_empty() || id.cluster.is_some() { None } else { live_webhooks(world) };
    let (Some(kind), Some(webhooks)) = (world.state.input.snapshot.type_of(id), webhooks) else { return vec![] };
    let labels = world.state.live_object(&id.namespace_object()).map(|live| live.labels.clone()).unwrap_or_default();
    let request =
        AdmissionRequest { kind, version: sent.version(kind), id, operation: sent.operation, namespace: &labels };
    let stays =
        |configuration: &ObjectId| !world.events.iter().any(|event| event.is_deleted && event.id == *configuration);
    let awaited: BTreeSet<ObjectId> = webhooks
        .iter()
        .filter(|(configuration, rule)| stays(configuration) && rule.matches(request))
        .filter_map(|(_, rule)| rule.awaited_service())
        .collect();
    lost.retain(|event| awaited.iter().any(|service| *service == event.id || answers_for(world, &event.id, service)));
    lost
}

fn is_service(id: &ObjectId) -> bool {
    id.is_here("", "Service")
}

fn is_workload(id: &ObjectId) -> bool {
    ["Deployment", "StatefulSet", "DaemonSet"].iter().any(|kind| id.is_here("apps", kind))
}

/// Returns true if a live Service selects the Pods of a live workload.
fn answers_for(world: &World<'_, '_>, workload: &ObjectId, service: &ObjectId) -> bool {
    if !is_workload(workload) || workload.namespace != service.namespace {
        return false;
    }
    let live = |api_version, id: &ObjectId| world.read(api_version, &id.kind, &id.namespace, &id.name).flatten();
    let (service, workload) = (live("v1", service), live("apps/v1", workload));
    let selector = service.and_then(|service| service.pointer("/spec/selector")?.as_object());
    let labels: KeyValues =
        workload.into_iter().flat_map(|it| texts_at(it, "/spec/template/metadata/labels")).collect();
    selector.is_some_and(|selector| {
        !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == value.as_str())
    })
}

/// Returns the rule of a binding and its policy before and after the change, for objects in a namespace.
fn rule_of_binding<'w>(
    world: &'w World<'_, '_>,
    policies: &[Fact<'w>],
    binding: &Fact<'w>,
    namespace: &str,
) -> Reached<'w> {
    let kind = if &*binding.id.kind == MUTATING_BINDING { MUTATING_POLICY } else { POLICY };
    let names = [binding.before, binding.after].map(|value| value.map(|it| text_at(it, "/spec/policyName")));
    let [old, new] =
        names.map(|name| policies.iter().find(|policy| &*policy.id.kind == kind && name == Some(&*policy.id.name)));
    let mut events: Vec<&Event> = binding.events.clone();
    events.extend(old.into_iter().chain(new).flat_map(|policy| policy.events.iter().copied()));
    let before = old.and_then(|policy| policy.before).zip(binding.before).and_then(|(policy, binding)| {
        let live =
            ParameterRef::of(policy, binding).and_then(|parameters| live_parameter(world, &parameters, namespace));
        AdmissionRule::of_policy(policy, binding, live)
    });
    let mut has_unknown_parameters = false;
    let after = new.and_then(|policy| policy.after).zip(binding.after).and_then(|(policy, binding)| {
        let Some(parameters) = ParameterRef::of(policy, binding) else {
            return AdmissionRule::of_policy(policy, binding, None);
        };
        let changes: Vec<&Event> =
            world.events.iter().filter(|event| changes_parameter(world, event, &parameters, namespace)).collect();
        events.extend(&changes);
        has_unknown_parameters = !changes.is_empty() && parameters.object(namespace).is_none();
        let last = changes.last().map(|event| event.manifest().map(|manifest| &**manifest));
        let known = last.unwrap_or_else(|| live_parameter(world, &parameters, namespace));
        AdmissionRule::of_policy(policy, binding, known.filter(|_| !has_unknown_parameters))
    });
    let policy = old.or(new).map_or("", |policy| &policy.id.name);
    let name = format!("{kind} '{policy}' with binding '{}'", binding.id.name);
    Reached { name, before, after, events, has_unknown_parameters, sees_new_labels: false }
}

/// Returns true if an event changes a parameter of a policy for objects in a namespace, or which objects its selector
/// selects.
fn changes_parameter(world: &World<'_, '_>, event: &Event, parameters: &ParameterRef, namespace: &str) -> bool {
    let before = world.state.live_object(&event.id);
    let after = event.manifest().into_iter().flat_map(|manifest| texts_at(manifest, "/metadata/labels"));
    parameters.may_be(&event.id, Some(namespace))
        && (before.is_some_and(|live| parameters.selects(&live.labels)) || parameters.selects(&after.collect()))
}

/// Returns the live object that is the parameter of a policy for objects in a namespace, as far as it is known.
fn live_parameter<'w>(world: &'w World<'_, '_>, parameters: &ParameterRef, namespace: &str) -> Option<&'w Value> {
    let id = parameters.object(namespace)?;
    world.read(&parameters.api_version, &id.kind, &id.namespace, &id.name)?
}

/// Returns the rules of a configuration of webhooks before and after the change.
fn rules_of_webhooks<'w>(fact: &Fact<'w>) -> Vec<Reached<'w>> {
    let mut all = vec![];
    let [mut old, new] = [fact.before, fact.after]
        .map(|value| value.into_iter().flat_map(AdmissionRule::of_webhooks).collect::<BTreeMap<_, _>>());
    for (name, after) in new {
        let (before, after, events) = (old.remove(&name), Some(after), fact.events.clone());
        let name = format!("webhook \"{name}\"");
        all.push(Reached { name, before, after, events, has_unknown_parameters: false, sees_new_labels: false });
    }
    all.extend(old.into_iter().map(|(name, before)| {
        let (name, events, before) = (format!("webhook \"{name}\""), fact.events.clone(), Some(before));
        Reached { name, before, after: None, events, has_unknown_parameters: false, sees_new_labels: false }
    }));
    all
}

/// Returns true if the change touches anything that decides which rules are asked.
fn is_touched(world: &World<'_, '_>, id: &ObjectId) -> bool {
    let namespace = id.namespace_object();
    let is_decisive = |event: &Event| {
        &*event.id.group == ADMISSION || event.id == namespace || is_parameter(world, event, &id.namespace)
    };
    world.events.iter().any(is_decisive)
}

/// Returns true if an event changes a parameter of a policy for objects in a namespace.
pub(super) fn is_parameter(world: &World<'_, '_>, event: &Event, namespace: &str) -> bool {
    world.parameters().iter().any(|parameters| parameters.may_be(&event.id, Some(namespace)))
}

/// Returns true if no rule denies an apply after the change.
pub(super) fn is_free(world: &World<'_, '_>, object: &AppliedObject) -> bool {
    let Some(kind) = world.state.input.snapshot.type_of(&object.id) else { return false };
    let sent = Sent::apply(world, object);
    let Some(rules) = reached(world, kind, sent) else { return false };
    let mut after = rules.iter().filter_map(|rule| rule.after.as_ref());
    after.all(|rule| verdict(world, rule, kind, sent, false) == Some(true))
}

/// Returns true if a rule is asked about the creation of an object after the change, or that is not known; false while
/// the rules are not read.
pub(super) fn has_rules_of_creation(world: &World<'_, '_>, object: &AppliedObject) -> bool {
    let (kind, sent) = (world.state.input.snapshot.type_of(&object.id), Sent::creation(object));
    let rules = kind.and_then(|kind| reached(world, kind, sent));
    let is_read = world.needs.borrow().builds.queries.is_empty();
    is_read && rules.is_none_or(|rules| rules.iter().any(|rule| rule.after.is_some()))
}

/// Returns true if a rule denies the creation of an object after the change.
pub(super) fn denies_creation(world: &World<'_, '_>, object: &AppliedObject) -> bool {
    let (kind, sent) = (world.state.input.snapshot.type_of(&object.id), Sent::creation(object));
    let rules = kind.and_then(|kind| Some((kind, reached(world, kind, sent)?)));
    rules.is_some_and(|(kind, rules)| {
        let mut after = rules.iter().filter_map(|rule| rule.after.as_ref()).filter(|rule| !rule.selects_objects());
        after.any(|rule| verdict(world, rule, kind, sent, false) == Some(false))
    })
}

/// Returns what the change makes of a refusal with this message by a policy or a webhook; `None` if that is not known.
/// The message names the first rule that denies.
pub(super) fn after_refusal<'w>(world: &'w World<'_, '_>, message: &str, sent: Sent<'_>) -> Option<Ruling<'w>> {
    let kind = world.state.input.snapshot.type_of(sent.id)?;
    let rules = reached(world, kind, sent)?;
    // What follows are the words of the rule, which can quote the object and so name any other rule.
    let message = denial(message).unwrap_or(message);
    let mut ending: Vec<&Event> = vec![];
    let mut is_known = false;
    for rule in &rules {
        let Reached { name, before, after, events, .. } = rule;
        let is_named = message.contains(name.as_str());
        is_known |= is_named;
        // It was asked about this very request.
        let is_asked = |after: &AdmissionRule| is_named && before.as_ref().is_some_and(|before| before.asks_as(after));
        match after {
            Some(_) if is_named && rule.is_same() => return Some(Ruling::Same),
            Some(after) => match verdict(world, after, kind, sent, is_asked(after)) {
                Some(true) => {}
                Some(false) if is_asked(after) || !after.selects_objects() => return Some(Ruling::Same),
                _ => return Some(Ruling::Open(events.clone())),
            },
            None => {}
        }
        if is_named || !rule.is_same() {
            ending.extend(events);
        }
    }
    // What denied it may be no rule that is known here.
    (is_known && !ending.is_empty()).then_some(Ruling::Free(ending))
}

/// Returns what the rules that the change brings say about a request that the server accepts now. `order` is that of an
/// event and the last apply of its owner.
pub(super) fn after_acceptance<'w>(
    world: &'w World<'_, '_>,
    order: impl Fn(&Event) -> Precedence,
    sent: Sent<'_>,
) -> Ruling<'w> {
    let id = sent.id;
    if !is_touched(world, id) {
        return Ruling::Same;
    }
    let kind = world.state.input.snapshot.type_of(id);
    let Some((kind, rules)) = kind.and_then(|kind| Some((kind, reached(world, kind, sent)?))) else {
        let events = world.events.iter().filter(|event| &*event.id.group == ADMISSION && !event.is_deleted);
        let events: Vec<&Event> = events.filter(|event| order(event) != Precedence::After).collect();
        return if events.is_empty() || id.cluster.is_some() { Ruling::Same } else { Ruling::Open(events) };
    };
    // An owner deletes objects last.
    let order = |event: &Event| match order(event) {
        Precedence::After if sent.manifest.is_none() => Precedence::Unknown,
        order => order,
    };
    let mut open: Vec<&Event> = vec![];
    for reached in rules.iter().filter(|rule| !rule.is_same()) {
        let Some(rule) = &reached.after else { continue };
        let is_coming = |event: &&Event| !event.is_deleted || is_parameter(world, event, &id.namespace);
        let mut coming: Vec<&Event> = reached.events.iter().copied().filter(is_coming).collect();
        if reached.has_unknown_parameters {
            // Each parameter that is selected has a say of its own.
            coming.retain(|event| order(event) != Precedence::After);
        }
        // The rule holds once all of these have happened, and the namespace must exist before an object in it does.
        let is_new = world.state.live_object(&id.namespace_object()).is_none() && !id.namespace.is_empty();
        let orders: Vec<Precedence> = coming
            .iter()
            .map(|event| {
                let is_own_namespace = is_new && event.id == id.namespace_object();
                if is_own_namespace { Precedence::Before } else { order(event) }
            })
            .collect();
        if coming.is_empty() || orders.contains(&Precedence::After) {
            continue;
        }
        match verdict(world, rule, kind, sent, false) {
            Some(true) => {}
            Some(false)
                if !rule.selects_objects()
                    && orders.iter().all(|order| *order == Precedence::Before)
                    && coming.iter().all(is_at_once) =>
            {
                return Ruling::Denied(coming, rule.denies_as_invalid());
            }
            _ => open.extend(coming),
        }
    }
    if open.is_empty() { Ruling::Same } else { Ruling::Open(open) }
}

/// Returns true if the API server knows of a change at once. It takes a policy into account only some time after it is
/// stored, which a dependant can be faster than (observed).
fn is_at_once(event: &&Event) -> bool {
    event.id.is("", "Namespace")
}

/// Returns true if a policy allows a request, or is not asked about it; `None` if that is not known. With `is_asked`,
/// its conditions are known to be true.
fn verdict(
    world: &World<'_, '_>,
    rule: &AdmissionRule,
    kind: &ResourceType,
    sent: Sent<'_>,
    is_asked: bool,
) -> Option<bool> {
    let Sent { id, manifest, is_known, operation } = sent;
    let live = world.state.live_object(id).filter(|_| operation != "CREATE");
    let labels = Some(id)
        .filter(|id| rule.asks_for_namespace() && !id.namespace.is_empty())
        .and_then(|id| world.namespace_labels(id))
        .map(|(_, after, _)| after);
    let namespace = labels.map(|labels| namespace_object(&id.namespace, &labels));
    let allows = |object: &Value, old: Option<&Value>, is_whole: bool| {
        let judged = Judged { object, old, namespace: namespace.as_ref(), is_whole };
        let allows = rule.allows(judged);
        let asked = if is_asked { Some(true) } else { rule.is_asked(judged) };
        match asked {
            Some(true) => allows,
            Some(false) => Some(true),
            None => allows.filter(|allows| *allows),
        }
    };
    let Some(manifest) = manifest else {
        let known = deleted_object(id, &live?.labels);
        return allows(&Value::Null, Some(&known), false).or_else(|| {
            let is_secret = id.is("", "Secret");
            let old =
                if is_secret { None } else { world.read(&kind.api_version(), &kind.kind, &id.namespace, &id.name)? };
            allows(&Value::Null, Some(old?), true)
        });
    };
    if !is_known {
        return None;
    }
    let mut manifest = manifest.clone();
    manifest["metadata"]["namespace"] = (&*id.namespace).into();
    let is_whole = has_no_defaults(&id.group_kind());
    if live.is_none() {
        return allows(&manifest, None, is_whole);
    }
    let is_secret = id.is("", "Secret");
    let api_version = text_at(&manifest, "/apiVersion").to_owned();
    let old = if is_secret { None } else { world.read(&api_version, &kind.kind, &id.namespace, &id.name)? };
    let (Some(old), true) = (old, is_whole) else { return allows(&manifest, None, false) };
    // What others write stays, what the controller drops goes: the object is between these two.
    let mut merged = old.clone();
    merge(&mut merged, &manifest);
    let results = [&manifest, &merged].map(|object| allows(object, Some(old), true));
    if results[0] == results[1] { results[0] } else { None }
}

/// Returns true if the API server adds no field to the objects of a kind that a policy could ask for.
fn has_no_defaults(kind: &GroupKind) -> bool {
    match &*kind.group {
        "" => matches!(&*kind.kind, "ConfigMap" | "Secret" | "ServiceAccount"),
        group => group == "rbac.authorization.k8s.io",
    }
}
