//! ResourceSets that the change affects: flux-operator generates their resources anew, applies all of them, and deletes
//! those in its inventory that are no longer generated.
//!
//! Source: flux-operator v0.58.1 `internal/controller/resourceset_controller.go`, `apply`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::flux::apply::question::{Question, Request};
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::resource_sets::{SetRun, generated_objects};
use crate::flux::kinds::OPERATOR_SWITCH;
use crate::flux::simulation::kustomization::containers::container_is_deleted;
use crate::flux::simulation::model::affected_owner::Expansion;
use crate::flux::simulation::model::copied_data::copied_names;
use crate::flux::simulation::model::missing::Missing;
use crate::flux::simulation::model::node::{BuiltObjects, PassId, PassOutcome, SimulationEvent};
use crate::flux::simulation::model::questions::Verdict;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::comparison::Comparison;
use crate::flux::simulation::owners::helm::upgrades::check_recorded;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, text_at};
use crate::ownership::schemes::flux::{inventory_members, is_switched_off};
use crate::ownership::schemes::flux_operator::SET;
use crate::ownership::{Members, OwnerId};
use crate::plan::{Action, Actor, Change, PinnedObject, Reason, ReasonCode};

/// Kind of the owners that generate resources of templates.
pub(crate) const KIND: &str = "ResourceSet";

/// Label or annotation that keeps an object of flux-operator, with the value `disabled`.
const PRUNE: &str = "fluxcd.controlplane.io/prune";

/// Annotation that lets flux-operator delete and create again what it cannot change.
pub(crate) const FORCE: &str = "fluxcd.controlplane.io/force";

/// Condition of a deletion while objects are created or changed without a dry-run.
const CAN_FAIL: &str = "it stays while the API server refuses another object of its ResourceSet";

/// Objects of a ResourceSet.
#[derive(Default)]
struct Generated {
    objects: Arc<BuiltObjects>,
    /// Reason why flux-operator cannot apply all of them, for people.
    failure: Option<String>,
}

/// Inputs that the providers of a ResourceSet export.
type ProviderInputs = BTreeMap<ObjectId, Vec<Value>>;

impl Comparison<'_, '_, '_> {
    /// Returns the resources of a ResourceSet after the change, `live` as it is; `None` if they are the same. Answers that
    /// are missing are added to the needs.
    ///
    /// Fails with the reason why they are not known.
    pub(crate) fn expansion(&mut self, id: &ObjectId, live: Option<&Resource>) -> Result<Option<Expansion>, String> {
        match self.expanded(id, live) {
            Ok(expansion) => Ok(expansion),
            // The needs are not empty, so that this result is not used.
            Err(Missing::Answer) => Ok(None),
            Err(Missing::Reason(why)) => Err(why),
        }
    }

    fn expanded(&mut self, id: &ObjectId, live: Option<&Resource>) -> Result<Option<Expansion>, Missing> {
        let new_spec = match &self.specs_after(id)[..] {
            [one] => one.clone(),
            _ => return Err("several Kustomizations apply different specs of it".to_owned().into()),
        };
        let Generated { objects: new, failure } = self.generated(id, &new_spec, true)?;
        let (old, interrupted) = match live {
            Some(live) => {
                let old = self.verified(id, live)?;
                let interrupted = self.interrupted(id, [live.spec(), &new_spec], [&old, &new])?;
                (old, interrupted)
            }
            None => (Arc::default(), BTreeSet::new()),
        };
        if let Some(change) = self.copied_changes(&new_spec).into_iter().next() {
            return Err(format!("it copies data that changes: {change}").into());
        }
        if old == new && interrupted.is_empty() {
            return Ok(None);
        }
        let Some(trigger) = self.trigger(id, &new_spec) else {
            return Err("it is not known what changes its inputs".to_owned().into());
        };
        let state = self.state();
        let is_unchanged = |built: &BuiltObject| old.get(&built.id).is_some_and(|old| old.manifest == built.manifest);
        let changed: Vec<&BuiltObject> =
            new.values().filter(|built| !is_unchanged(built) || state.live_object(&built.id).is_none()).collect();
        let forces = self.sets_force(id, live);
        let is_forced = |built: &&&BuiltObject| {
            state.live_object(&built.id).is_some() && (forces || built.has_label_or_annotation(FORCE, "enabled"))
        };
        if let Some(forced) = changed.iter().find(is_forced) {
            return Err(format!("it may delete {} and create it again ({FORCE})", forced.id).into());
        }
        let copies = !copied_names(&new_spec).is_empty();
        let is_private = state.is_private(id);
        let question = |object: &ObjectId, request| Question::of_owner(id, &new_spec, object, request, is_private);
        let asked = changed.iter().filter(|built| !self.comes_with_container(built, &new));
        let applies =
            asked.map(|built| question(&built.id, Request::Apply(in_scope(&built.manifest, &built.id)))).collect();
        let refused = self.refusal(applies, !changed.is_empty(), copies);
        let failure = failure.map(|why| format!("{CAN_FAIL}, as it does now: {why}"));
        let condition = self.waits(live, &new_spec, &trigger, &changed).or(failure).or(refused);
        let removed: BTreeSet<ObjectId> = old.keys().filter(|id| !new.contains_key(*id)).cloned().collect();
        let mut refused_deletions = BTreeMap::new();
        if let Some(set) = live {
            for object in state.deletable(set, &removed) {
                if let Verdict::Refused(message) = self.derivation.ask(question(&object.id, Request::Delete)) {
                    refused_deletions.insert(object.id.clone(), message);
                }
            }
        }
        Ok(Some(Expansion { trigger, objects: new, removed, interrupted, condition, refused_deletions }))
    }

    /// Returns the objects that flux-operator generated last.
    ///
    /// Fails if they are not those in its inventory.
    fn verified(&mut self, id: &ObjectId, live: &Resource) -> Result<Arc<BuiltObjects>, Missing> {
        let Members::Listed(inventory) = inventory_members(&live.content) else {
            return Err("it records no inventory".to_owned().into());
        };
        let Generated { objects: old, .. } = self.generated(id, live.spec(), false)?;
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
    fn generated(&mut self, id: &ObjectId, spec: &Value, is_after: bool) -> Result<Generated, Missing> {
        let providers = self.provider_inputs(id, spec, is_after)?;
        self.generated_of(id, spec, providers.values().flatten())
    }

    /// Returns the objects that flux-operator generates of a spec with these inputs of its providers. A spec with providers
    /// and without inputs generates nothing.
    fn generated_of<'i>(
        &mut self,
        id: &ObjectId,
        spec: &Value,
        provided: impl IntoIterator<Item = &'i Value>,
    ) -> Result<Generated, Missing> {
        check_recorded(spec)?;
        if !["resources", "resourcesTemplate", "steps"].iter().any(|field| spec.get(field).is_some()) {
            return Err("its templates are not known".to_owned().into());
        }
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut().filter(|fields| fields.contains_key("inputsFrom")) {
            let mut inputs: Vec<Value> = fields.get("inputs").and_then(Value::as_array).cloned().unwrap_or_default();
            inputs.extend(provided.into_iter().cloned());
            if inputs.is_empty() {
                return Ok(Generated::default());
            }
            fields.remove("inputsFrom");
            fields.insert("inputs".to_owned(), inputs.into());
        }
        let run = SetRun::new(id, &spec, self.state().is_private(id));
        let text = match self.derivation.answers.resource_set(&run.key) {
            Some(Ok(text)) => text,
            Some(Err(why)) => return Err(why.clone().into()),
            None => {
                self.derivation.needs.resource_sets.insert(run.key.clone(), run);
                return Err(Missing::Answer);
            }
        };
        let objects =
            generated_objects(text).map_err(|_| "the output of flux-operator for it cannot be read".to_owned())?;
        match self.derivation.place(None, objects) {
            PassOutcome::Applied(objects) => Ok(Generated { objects, failure: None }),
            PassOutcome::Partial { desired, reason, .. } => {
                Ok(Generated { objects: desired, failure: Some(reason.detail) })
            }
            PassOutcome::Blocked(reason) | PassOutcome::Unknown(reason) => {
                Err(format!("its resources cannot be applied: {}", reason.detail).into())
            }
        }
    }

    /// Returns the inputs that the providers of a spec export, before or after the change.
    fn provider_inputs(&mut self, id: &ObjectId, spec: &Value, is_after: bool) -> Result<ProviderInputs, Missing> {
        let entries: Vec<Value> = spec.get("inputsFrom").and_then(Value::as_array).cloned().unwrap_or_default();
        if !entries.is_empty() && text_at(spec, "/inputStrategy/name") == "Permute" {
            return Err("the inputs of its providers are permuted".to_owned().into());
        }
        let mut inputs = ProviderInputs::new();
        for entry in &entries {
            if entry.pointer("/selector/matchExpressions").is_some() {
                return Err("it selects its providers by expressions".to_owned().into());
            }
            let found = self.providers(&id.namespace, entry, is_after);
            let name = text_at(entry, "/name");
            if is_after && found.is_empty() && !name.is_empty() {
                return Err(format!("the provider {name} of its inputs does not exist").into());
            }
            if let Some(doubtful) = self.doubtful_provider(&found, &id.namespace, entry).filter(|_| is_after) {
                return Err(format!("it is not certain that {doubtful} is deleted").into());
            }
            for provider in found {
                let exported = self.exported(&provider, is_after)?;
                inputs.insert(provider, exported);
            }
        }
        let templates = spec.to_string();
        if !inputs.is_empty() && ["inputs.provider", "toYaml inputs"].iter().any(|read| templates.contains(read)) {
            return Err("its templates read the provider of an input".to_owned().into());
        }
        Ok(inputs)
    }

    /// Returns the objects that are generated before and after the change, but not at every moment in between: the spec and
    /// the inputs of each provider do not change at once.
    fn interrupted(
        &mut self,
        id: &ObjectId,
        [old_spec, new_spec]: [&Value; 2],
        [old, new]: [&BuiltObjects; 2],
    ) -> Result<BTreeSet<ObjectId>, Missing> {
        let mut interrupted = BTreeSet::new();
        let is_changed = old_spec != new_spec;
        for spec in [new_spec, old_spec].into_iter().take(if is_changed { 2 } else { 1 }) {
            let [before, after] = [self.provider_inputs(id, spec, false)?, self.provider_inputs(id, spec, true)?];
            let is_stable = |provider: &&ObjectId| before.get(*provider) == after.get(*provider);
            let all: BTreeSet<&ObjectId> = before.keys().chain(after.keys()).collect();
            let (stable, changing): (Vec<&ObjectId>, Vec<&ObjectId>) = all.into_iter().partition(is_stable);
            if changing.len() + usize::from(is_changed) < 2 {
                continue;
            }
            let always =
                self.generated_of(id, spec, stable.iter().filter_map(|provider| before.get(*provider)).flatten())?;
            let mut safe: BTreeSet<ObjectId> = always.objects.keys().cloned().collect();
            for provider in changing {
                let [one, other] = [&before, &after].map(|inputs| inputs.get(provider));
                let one = self.generated_alone(id, spec, one)?;
                let other = self.generated_alone(id, spec, other)?;
                safe.extend(one.objects.keys().filter(|id| other.objects.contains_key(*id)).cloned());
            }
            interrupted.extend(old.keys().filter(|id| new.contains_key(*id) && !safe.contains(*id)).cloned());
        }
        Ok(interrupted)
    }

    /// Returns the objects that are generated of the inputs of one provider.
    fn generated_alone(
        &mut self,
        id: &ObjectId,
        spec: &Value,
        inputs: Option<&Vec<Value>>,
    ) -> Result<Generated, Missing> {
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("inputs");
        }
        self.generated_of(id, &spec, inputs.into_iter().flatten())
    }

    /// Returns a live provider of an entry that is deleted in some order of events only. `found` are those that stay.
    fn doubtful_provider(&self, found: &[ObjectId], namespace: &str, entry: &Value) -> Option<ObjectId> {
        let outcomes = |id: &ObjectId| self.derivation.consequences.outcomes.get(id);
        let live = self.providers(namespace, entry, false).into_iter();
        live.filter(|id| !found.contains(id)).find(|id| outcomes(id).is_some_and(|outcomes| !outcomes.is_deleted()))
    }

    /// Returns the inputs that a provider exports.
    fn exported(&mut self, id: &ObjectId, is_after: bool) -> Result<Vec<Value>, Missing> {
        let state = self.state();
        let live = state.input.snapshot.resource(id);
        let recorded = || {
            let exported = live.and_then(|live| live.at("/status/exportedInputs")?.as_array());
            exported.cloned().ok_or_else(|| Missing::Reason(format!("{id} exports no inputs")))
        };
        let is_off = state.is_switched_off_after(id, OPERATOR_SWITCH);
        let specs = self.specs_after(id);
        let changes = live.is_none_or(|live| specs.iter().any(|spec| spec != live.spec()));
        if !is_after || !changes || (is_off && live.is_some()) {
            return recorded();
        }
        let [spec] = &specs[..] else {
            return Err(format!("several Kustomizations apply different specs of {id}").into());
        };
        if text_at(spec, "/type") != "Static" || is_off {
            return Err(format!("it is not known which inputs {id} will export").into());
        }
        let mut input = spec.get("defaultValues").and_then(Value::as_object).cloned().unwrap_or_default();
        // The id is a hash of the uid, which a new provider does not have yet.
        if live.is_some() {
            let known = recorded()?.first().and_then(|first| first.get("id").cloned());
            input.extend(known.map(|known| ("id".to_owned(), known)));
        }
        Ok(vec![Value::Object(input)])
    }

    /// Returns the pass that applies a ResourceSet last, or else a provider of its inputs.
    fn trigger(&self, id: &ObjectId, spec: &Value) -> Option<PassId> {
        let state = self.state();
        let last = |id: &ObjectId| state.applied_specs(id).last().map(|(_, pass)| pass);
        let entries = spec.get("inputsFrom").and_then(Value::as_array).into_iter().flatten();
        let mut providers = entries.flat_map(|entry| self.providers(&id.namespace, entry, true));
        last(id).or_else(|| providers.find_map(|provider| last(&provider)))
    }

    /// Returns true if the annotation of the ResourceSet lets flux-operator delete and create again all of its objects.
    fn sets_force(&self, id: &ObjectId, live: Option<&Resource>) -> bool {
        let is_enabled = |value: &str| value.eq_ignore_ascii_case("enabled");
        live.is_some_and(|live| live.object.annotations.get(FORCE).is_some_and(is_enabled))
            || self.applied(id).iter().any(|applied| applied.built.has_label_or_annotation(FORCE, "enabled"))
    }

    /// Returns the condition under which flux-operator gets as far as deleting.
    fn waits(
        &self,
        live: Option<&Resource>,
        spec: &Value,
        trigger: &PassId,
        changed: &[&BuiltObject],
    ) -> Option<String> {
        let state = self.state();
        let pass = state.node(&trigger.node).and_then(|node| node.passes.get(trigger.number));
        if let Some(condition) = pass.and_then(|pass| pass.condition.as_ref()) {
            return Some(condition.detail.clone());
        }
        if let Some(dependency) = spec.pointer("/dependsOn/0") {
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

    /// Returns true if the namespace or the definition of an object is created with it, so that no dry-run can show it.
    fn comes_with_container(&self, built: &BuiltObject, all: &BuiltObjects) -> bool {
        let state = self.state();
        let namespace = built.id.namespace_object();
        let is_new = all.contains_key(&namespace) && state.live_object(&namespace).is_none();
        is_new || state.input.snapshot.resource_type(&built.id.group_kind()).is_none()
    }

    /// Asks the API server about applies, and returns the condition that follows from the answers. An object that copies
    /// data is not applied as it is generated.
    fn refusal(&mut self, applies: Vec<Question>, has_changes: bool, copies: bool) -> Option<String> {
        let asked = self.derivation.ask_all(applies);
        match asked.first_refusal {
            Some(refusal) => Some(format!("{CAN_FAIL}, as it does now: {refusal}")),
            None => (has_changes && (copies || !asked.is_accepted)).then(|| CAN_FAIL.to_owned()),
        }
    }
}

impl<'a> State<'a> {
    /// Returns the objects that a ResourceSet no longer generates and that flux-operator deletes, and true if it is certain.
    pub(crate) fn removed_resources(&self, set: &Resource) -> Option<(Vec<&'a ObjectMetadata>, bool)> {
        let (_, expansion) = self.expansions().find(|(id, _)| **id == set.object.id)?;
        let ids = expansion.removed.iter().chain(&expansion.interrupted);
        Some((self.deletable(set, ids).collect(), expansion.condition.is_none()))
    }

    /// Returns the objects in the inventory of a deleted ResourceSet that flux-operator deletes. One that is disabled
    /// deletes nothing.
    pub(crate) fn set_objects(&self, set: &Resource) -> Vec<&'a ObjectMetadata> {
        let Members::Listed(ids) = inventory_members(&set.content) else { return vec![] };
        if set.object.annotations.get(OPERATOR_SWITCH).is_some_and(is_switched_off) {
            return vec![];
        }
        self.deletable(set, &ids).collect()
    }

    /// Returns those objects that carry the labels of a ResourceSet and are not protected. Without its service account
    /// it cannot delete any.
    fn deletable<'s>(
        &'s self,
        set: &'s Resource,
        ids: impl IntoIterator<Item = &'s ObjectId>,
    ) -> impl Iterator<Item = &'a ObjectMetadata> {
        let account = text_at(&set.content, "/spec/serviceAccountName");
        let account_id = ObjectId::new("", "ServiceAccount", &set.object.id.namespace, account);
        let can_delete = account.is_empty() || self.live_object(&account_id).is_some();
        let objects = ids.into_iter().filter_map(|id| self.live_object(id));
        objects.filter(move |object| can_delete && reason_to_keep(object, &set.object.id).is_none())
    }

    /// Returns the objects that a ResourceSet perhaps does not generate for a moment.
    pub(crate) fn interrupted_resources(&self, set: &ObjectId) -> BTreeSet<ObjectId> {
        let own = self.expansions().filter(|(id, _)| *id == set);
        own.flat_map(|(_, expansion)| &expansion.interrupted).cloned().collect()
    }

    /// Returns the events that make a ResourceSet generate its resources anew.
    pub(crate) fn expansion_events(&self, set: &ObjectId) -> BTreeSet<SimulationEvent> {
        let own = self.expansions().filter(|(id, _)| *id == set);
        own.map(|(_, expansion)| SimulationEvent::Apply(expansion.trigger.clone())).collect()
    }

    /// Adds to the row of an object that a ResourceSet no longer generates what its deletion depends on.
    pub(crate) fn qualify_removed_resource(&self, row: &mut Change, set: &ObjectId) {
        row.owner = Some(set_owner(set));
        let Some((_, expansion)) = self.expansions().find(|(id, _)| *id == set) else { return };
        if expansion.interrupted.contains(&row.object.id) {
            row.action = Action::Recreate;
            row.make_race(
                "it stays if its ResourceSet is not reconciled between the changes of its spec and its inputs",
            );
            return;
        }
        if self.is_generated(&row.object.id) {
            row.action = Action::Recreate;
            row.make_race("another ResourceSet generates it, and may apply it first");
        }
        if let Some(condition) = &expansion.condition {
            row.make_race(condition);
        }
        if let Some(message) = expansion.refused_deletions.get(&row.object.id) {
            row.make_race(&format!("it stays while the API server refuses: {message}"));
        }
    }

    /// Returns the rows of objects that ResourceSets create, and of those that they leave behind.
    pub(crate) fn expansion_rows(&self, consequences: &Consequences<'_>) -> Vec<Change> {
        let mut rows = vec![];
        for (set, expansion) in self.expansions() {
            let row = |action, object: PinnedObject, reason| {
                Change::new(action, object, Some(set_owner(set)), Actor::FluxOperator, reason)
            };
            let is_new = |id: &&ObjectId| {
                let is_applied = consequences.outcomes.contains_key(*id);
                self.live_object(id).is_none() && !is_applied && !container_is_deleted(self, id, consequences)
            };
            rows.extend(expansion.objects.keys().filter(is_new).map(|id| {
                let mut row = row(Action::Create, PinnedObject::absent(id.clone()), ReasonCode::Generated.into());
                if expansion.condition.is_some() {
                    row.make_race(&format!("it depends on whether {set} is reconciled"));
                }
                row
            }));
            let removed = expansion.removed.iter().filter(|id| !consequences.may_be_deleted(id));
            for object in removed.filter_map(|id| self.live_object(id)) {
                if let Some(why) = reason_to_keep(object, set) {
                    let reason = Reason::new(ReasonCode::LeftBehind, why);
                    rows.push(row(Action::Keep, PinnedObject::from(object), reason));
                }
            }
        }
        rows
    }
}

/// Returns a ResourceSet as the owner of a row.
pub(crate) fn set_owner(id: &ObjectId) -> OwnerId {
    OwnerId::new("flux", &id.kind, &id.namespace, &id.name)
}

/// Returns the reason why flux-operator does not delete an object for a ResourceSet, for people.
fn reason_to_keep(object: &ObjectMetadata, set: &ObjectId) -> Option<String> {
    let [name, namespace] = SET.map(|key| object.labels.get(key));
    if name != Some(&*set.name) || namespace != Some(&*set.namespace) {
        return Some("its labels name another owner".to_owned());
    }
    let marks = [object.labels.get(PRUNE), object.annotations.get(PRUNE)];
    marks.into_iter().flatten().any(is_switched_off).then(|| format!("protected by {PRUNE}: disabled"))
}

/// Returns a manifest without a namespace if its kind is cluster-scoped.
fn in_scope(manifest: &Value, id: &ObjectId) -> Value {
    let mut manifest = manifest.clone();
    if let (true, Some(metadata)) =
        (id.namespace.is_empty(), manifest.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.remove("namespace");
    }
    manifest
}
