//! The state after a plan, on which the next of several steps is planned.
//!
//! A copy of the snapshot gets the results of the simulation: deleted objects, objects that Kustomizations apply and list,
//! their specs and conditions, definitions, and the revisions of sources. A race or an effect that is not known is a gap of
//! every later plan: the copy then has one of the possible states, that in which the object stays.

mod metadata;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::Preview;
use super::kustomization::derivation::Derivation;
use super::kustomization::source_states::planned_artifact;
use super::kustomization::variables::data_after_change;
use super::model::affected_owner::Reaction;
use super::model::node::{Node, Pass, PassOutcome};
use super::model::protection::{is_marked, is_never_applied, is_never_changed, label_owner};
use super::model::questions::{Answers, FinishedPreview};
use super::model::state::State;
use super::owners::behaviour::effective_fields::add_defaults;
use crate::flux::build::objects::data::{Data, DataRef, Lookup};
use crate::flux::build::objects::{BuiltObject, defined_kind, served_versions};
use crate::flux::controllers::FluxControllers;
use crate::flux::kinds;
use crate::flux::kinds::EXTERNAL_ARTIFACT;
use crate::flux::kustomize_controller;
use crate::flux::spec::{KustomizationSpec, NamespacedName, SourceId};
use crate::helm::target::ReleaseTarget;
use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, ResourceType, text_at};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux_helmrelease as releases;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND, NAME, NAMESPACE, SSA};
use crate::ownership::schemes::helm::HOOK;
use crate::ownership::schemes::inventory_id;
use crate::plan::finished::finalizers::add_blocked_by_finalizers;
use crate::plan::finished::volumes::add_volume_outcomes;
use crate::plan::{Action, Actor, Certainty, Change, Plan, ReasonCode};
use crate::text::hash_of_parts;
use metadata::{AppliedMetadata, own_spec};

/// Finalizer of the controllers of Flux.
const FINALIZER: &str = "finalizers.fluxcd.io";

/// Number of digits of a hash in the uid of a created object.
const UID_LENGTH: usize = 12;

/// The predicted state after a plan.
pub struct StateAfter {
    pub snapshot: Snapshot,
    /// Races and unknown effects of the plan, as gaps of the plan of every later step.
    pub open: Vec<Gap>,
    /// ConfigMaps and Secrets that the plan changes, in place of what was read.
    pub data: BTreeMap<DataRef, Lookup>,
}

impl Preview<'_> {
    /// Returns the state once the controllers have carried out the finished plan of this preview. `step` is its number, and
    /// `revision` is that of the planned sources then. The gaps hold no value of a Secret: a later plan does
    /// not know the names of this one.
    pub fn after(&self, finished: &FinishedPreview, answers: &Answers, step: usize, revision: &str) -> StateAfter {
        let state = &self.state;
        let mut plan = finished.plan.clone();
        add_volume_outcomes(&mut plan, state.input.snapshot);
        let controllers = FluxControllers::new(&plan, state.input.snapshot);
        add_blocked_by_finalizers(&mut plan, state.input.snapshot, &controllers);
        let snapshot = state.input.snapshot.clone();
        let mut next = Successor {
            state,
            plan: &plan,
            step,
            revision,
            snapshot,
            open: BTreeSet::new(),
            created: BTreeMap::new(),
            recreated: BTreeMap::new(),
            gone: BTreeSet::new(),
        };
        next.carry_out_deletions();
        next.apply_builds();
        next.apply_of_owners();
        next.create_again();
        next.settle_kustomizations();
        next.set_revision();
        next.snapshot.normalise();
        next.snapshot.spokes.values_mut().for_each(Snapshot::normalise);
        StateAfter {
            open: next.open.into_iter().map(|gap| finished.secrets.mask_gap(gap)).collect(),
            snapshot: next.snapshot,
            data: self.data_after(&plan, answers),
        }
    }

    /// Returns the ConfigMaps and Secrets that a plan changes.
    fn data_after(&self, plan: &Plan, answers: &Answers) -> BTreeMap<DataRef, Lookup> {
        let consequences = self.consequences();
        let mut derivation = Derivation::new(&self.state, &consequences, answers);
        let nodes = self.state.nodes.iter().filter(|node| node.may_stay());
        let applied = nodes.flat_map(|node| node.last_applied_objects().into_keys());
        let generated = self.state.owner_applies().flat_map(|(_, applies)| applies.objects.keys());
        let deleted = plan.deletions().map(|change| &change.object.id);
        let ids = applied.chain(generated).chain(deleted);
        let ids: BTreeSet<&ObjectId> =
            ids.filter(|id| id.is_here("", "ConfigMap") || id.is_here("", "Secret")).collect();
        let unread = Lookup::Found(Data::default());
        let changed = ids.into_iter().filter_map(|id| {
            let reference = DataRef::of(id);
            let live = answers.builds.data.get(&reference).unwrap_or(&unread);
            let (new, _) = data_after_change(&mut derivation, &reference, live)?;
            Some((reference, new))
        });
        changed.collect()
    }
}

/// The state after a plan, as far as it is written.
struct Successor<'s, 'a> {
    state: &'s State<'a>,
    plan: &'s Plan,
    step: usize,
    revision: &'s str,
    snapshot: Snapshot,
    open: BTreeSet<Gap>,
    /// Objects that are deleted and created again, with their API versions. Nothing of what was written to them is left.
    recreated: BTreeMap<ObjectId, Arc<str>>,
    /// Objects that are deleted for good, although something may apply them before: with their namespace, for example.
    gone: BTreeSet<ObjectId>,
    /// Number of objects that were given a uid, by the hash of their identities as they are written.
    created: BTreeMap<String, usize>,
}

impl Successor<'_, '_> {
    fn leave_open(&mut self, subject: &dyn std::fmt::Display, message: impl Into<String>) {
        let subject = format!("state of {subject} after step {}", self.step);
        self.open.insert(Gap { kind: GapKind::Failed, subject, namespace: None, message: message.into() });
    }

    /// Returns the uid of an object that the step creates. It stands for one that nobody knows yet, and follows from the
    /// identity as it is written: a number in the order of the names would tell the order of values of Secrets.
    fn new_uid(&mut self, id: &ObjectId) -> Box<str> {
        let shown = hash_of_parts(std::iter::once(id.to_string().as_bytes()));
        let alike = self.created.entry(shown.clone()).or_default();
        *alike += 1;
        format!("created-by-step-{}-{}-{alike}", self.step, &shown[..UID_LENGTH]).into()
    }

    fn cluster_of(&mut self, id: &ObjectId) -> Option<&mut Snapshot> {
        match &id.cluster {
            None => Some(&mut self.snapshot),
            Some(name) => self.snapshot.spokes.get_mut(name),
        }
    }

    fn carry_out_deletions(&mut self) {
        let plan = self.plan;
        for change in plan.changes() {
            let id = &change.object.id;
            if change.certainty == Certainty::Race {
                self.leave_open(id, format!("it is a race: {}", described(change)));
            } else if change.action == Action::Unknown {
                self.leave_open(id, format!("it is not known ({})", change.reason.code));
            } else if change.is_deletion() || change.is_old_record() {
                let is_blocked = plan.blocked_by_finalizers().iter().any(|blocked| blocked.object == *id);
                self.delete(change, is_blocked);
            }
        }
        for owner in plan.unknown_owners() {
            self.leave_open(&owner.owner, format!("it is not known ({})", owner.reason.code));
        }
    }

    fn delete(&mut self, change: &Change, is_blocked: bool) {
        let (id, taken) = (&change.object.id, self.snapshot.taken);
        let Some(cluster) = self.cluster_of(id) else { return };
        let Some(mut object) = cluster.object(id).cloned() else { return };
        if is_blocked {
            object.deletion_timestamp = Some(taken);
            return match cluster.resource(id).map(|full| full.content.clone()) {
                Some(content) => cluster.replace_resource(id, Some(Resource { object, content })),
                None => cluster.replace_object(id, Some(object)),
            };
        }
        if change.action == Action::Delete && id.is_definition() {
            cluster.types.retain(|kind| kind.resource() != *id.name);
        }
        cluster.replace_resource(id, None);
        match change.action {
            Action::Recreate => drop(self.recreated.insert(id.clone(), object.version)),
            Action::Delete => drop(self.gone.insert(id.clone())),
            _ => {}
        }
    }

    /// Writes the objects that are created again by what is not followed here, such as a hook.
    fn create_again(&mut self) {
        for (id, version) in std::mem::take(&mut self.recreated) {
            if self.cluster_of(&id).is_none_or(|cluster| cluster.object(&id).is_some()) {
                continue;
            }
            let object = ObjectMetadata { created_by: None, ..self.created(&id, &version, "") };
            if let Some(cluster) = self.cluster_of(&id) {
                cluster.replace_object(&id, Some(object));
            }
        }
    }

    fn apply_builds(&mut self) {
        let state = self.state;
        for node in state.nodes.iter().filter(|node| node.may_stay()) {
            for (id, (number, built)) in node.last_applied_objects() {
                let pass = &node.passes[number];
                let label_owner = label_owner(&pass.spec, &node.id.key);
                let live = self.snapshot.object(id);
                let is_skipped = is_never_applied(built, &pass.spec)
                    || live.is_some_and(|live| {
                        is_never_changed(live) || is_marked(built, &pass.spec, SSA, "ifnotpresent")
                    });
                if is_skipped {
                    continue;
                }
                let mut metadata = AppliedMetadata::of(built, Some(&pass.spec));
                metadata.add_label(NAME, &label_owner.name);
                metadata.add_label(NAMESPACE, &label_owner.namespace);
                self.apply(id, built, &metadata, kustomize_controller::NAME);
            }
        }
    }

    /// Writes an object that a controller applies, with the content of the kinds of Flux.
    fn apply(&mut self, id: &ObjectId, built: &BuiltObject, metadata: &AppliedMetadata, manager: &str) {
        if self.gone.contains(id) || self.gone.contains(&id.namespace_object()) {
            return;
        }
        let flags = (manager == kustomize_controller::NAME).then_some(&self.state.input.flags);
        let live = self.snapshot.object(id).cloned();
        let is_new = live.is_none();
        let mut object = match live {
            Some(live) => live,
            None => self.created(id, &built.version, manager),
        };
        metadata.apply(&mut object, manager, flags);
        let Some(cluster) = self.cluster_of(id) else { return };
        let known = cluster.resource(id).map(|full| full.content.clone());
        let kind = kinds::find(&id.group, &id.kind);
        if let (Some((defined, namespaced)), Some((_, versions))) = (defined_kind(built), served_versions(built)) {
            define(
                cluster,
                built,
                defined.group,
                defined.kind,
                namespaced,
                versions.first().copied().unwrap_or_default(),
            );
        }
        if kind.is_none() && known.is_none() {
            return cluster.replace_object(id, Some(object));
        }
        let mut content = known.unwrap_or_else(|| json!({}));
        // The spec of a Kustomization is that of its last pass.
        if let Some(applied) = built.manifest.get("spec").filter(|_| kind.is_some() && (is_new || !id.is(GROUP, KIND)))
        {
            let mut spec = applied.clone();
            // Without them, an owner that is applied as it is would have another generation than the one that it observed.
            add_defaults(&id.kind, &mut spec);
            let suspend = object.managed_fields.iter().any(|entry| entry.suspend && &*entry.manager != manager);
            if let (true, Some(live)) = (suspend, content.pointer("/spec/suspend")) {
                spec["suspend"] = live.clone();
            }
            own_spec(&mut object, manager, applied);
            object.generation += i64::from(is_new || content.get("spec") != Some(&spec));
            content["spec"] = spec;
        }
        if is_new && kind.is_some() {
            object.finalizers = vec![FINALIZER.into()];
        }
        cluster.replace_resource(id, Some(Resource { object, content }));
    }

    fn created(&mut self, id: &ObjectId, version: &str, manager: &str) -> ObjectMetadata {
        ObjectMetadata {
            id: id.clone(),
            version: version.into(),
            uid: self.new_uid(id),
            resource_version: "".into(),
            generation: 0,
            creation_timestamp: Some(self.snapshot.taken),
            created_by: Some(manager.into()),
            deletion_timestamp: None,
            finalizers: vec![],
            labels: [("", ""); 0].into_iter().collect(),
            annotations: [("", ""); 0].into_iter().collect(),
            owner_references: vec![],
            managed_fields: vec![],
            last_change: None,
        }
    }

    /// Writes what the controllers of other owners apply. What a release holds after an installation or an upgrade is left
    /// open.
    fn apply_of_owners(&mut self) {
        let state = self.state;
        for owner in &state.affected {
            if let Some(applies) = owner.effect.as_ref().and_then(|effect| effect.applies.as_ref()) {
                let target = self.release_target(&owner.id);
                for (id, built) in &*applies.objects {
                    let mut metadata = AppliedMetadata::of(built, None);
                    metadata.add_owner(&owner.id, target.as_ref());
                    self.apply(id, built, &metadata, applies.manager);
                }
                // No inventory of a release has its hooks.
                let listed = applies.objects.iter().filter(|(_, built)| target.is_none() || !is_hook(built));
                let entries: Vec<Value> = listed.map(|(id, built)| entry(id, &built.version)).collect();
                self.update_status(&owner.id, |status| status["inventory"]["entries"] = entries.into());
                if let (Some(target), Some(chart)) = (target, &applies.chart) {
                    self.record_release(&owner.id, &target, chart);
                }
            } else if !matches!(owner.reaction, Reaction::Waits(_)) && self.snapshot.object(&owner.id).is_some() {
                self.leave_open(
                    &owner.id,
                    "its controller acts in this step, and what it records then is not predicted",
                );
            }
        }
    }

    /// Returns the target of the release of a HelmRelease.
    fn release_target(&self, owner: &ObjectId) -> Option<ReleaseTarget> {
        let release = self.snapshot.resource(owner).filter(|_| owner.is(releases::GROUP, releases::KIND))?;
        Some(ReleaseTarget::of_spec(owner, release.spec(), None))
    }

    /// Writes what helm-controller and Helm record of an installation or an upgrade.
    fn record_release(&mut self, owner: &ObjectId, target: &ReleaseTarget, (chart, version): &(String, String)) {
        let Some(Resource { object, mut content }) = self.snapshot.resource(owner).cloned() else { return };
        let objects = self.snapshot.objects.iter();
        let records = objects.filter(|object| releases::is_record_of(object, &target.storage_namespace, &target.name));
        let last = records.filter_map(|record| record.labels.get("version")?.parse::<u64>().ok()).max();
        let revision = last.unwrap_or_default() + 1;
        let name = format!("sh.helm.release.v1.{}.v{revision}", target.name);
        let plain = ObjectId::new("", "Secret", &target.storage_namespace, &name);
        // A private spec may have named the release.
        let id = if self.state.is_private(owner) { plain.hidden(true) } else { plain };
        let mut record = self.created(&id, "v1", "helm-controller");
        let revision_text = revision.to_string();
        let labels = [("name", &*target.name), ("owner", "helm"), ("status", "deployed"), ("version", &revision_text)];
        record.labels = labels.into_iter().collect();
        self.snapshot.replace_object(&id, Some(record));
        let generation = object.generation;
        let status = &mut content["status"];
        status["storageNamespace"] = target.storage_namespace.as_str().into();
        status["history"] = json!([{"name": target.name, "namespace": target.namespace, "chartName": chart,
            "chartVersion": version, "version": revision, "status": "deployed"}]);
        status["observedGeneration"] = generation.into();
        status["conditions"] = json!([{"type": "Ready", "status": "True", "reason": "UpgradeSucceeded",
            "observedGeneration": generation}]);
        self.snapshot.replace_resource(owner, Some(Resource { object, content }));
    }

    /// Writes the spec, the inventory and the conditions of every Kustomization that stays.
    fn settle_kustomizations(&mut self) {
        let state = self.state;
        for node in state.nodes.iter().filter(|node| node.may_stay()) {
            if let Some(pass) = node.last_pass() {
                self.settle(node, pass);
            }
        }
    }

    fn settle(&mut self, node: &Node, pass: &Pass) {
        let key = &node.id.key;
        let id = ObjectId::new(GROUP, KIND, &key.namespace, &key.name);
        if pass.condition.is_some() {
            self.leave_open(&id, "it is a race if it applies the new revision");
        }
        let Some(Resource { mut object, mut content }) = self.snapshot.resource(&id).cloned() else { return };
        let spec = pass.spec.as_written();
        if KustomizationSpec::new(&spec) != KustomizationSpec::new(content.get("spec").unwrap_or(&Value::Null)) {
            object.generation += 1;
            own_spec(&mut object, kustomize_controller::NAME, &spec);
            content["spec"] = spec;
        }
        let status = match &pass.outcome {
            PassOutcome::Applied(objects) => {
                let refused = self.refused_deletions(key);
                let applied = objects.iter().map(|(id, built)| entry(id, &built.version));
                Some((applied.chain(refused).collect::<Vec<_>>(), "True", "ReconciliationSucceeded"))
            }
            PassOutcome::Partial { .. } => Some((vec![], "False", "ReconciliationFailed")),
            PassOutcome::Blocked(reason) if reason.code != ReasonCode::Suspended => {
                Some((vec![], "False", "ReconciliationFailed"))
            }
            PassOutcome::Blocked(_) | PassOutcome::Unknown(_) => None,
        };
        if let Some((entries, ready, reason)) = status {
            let generation = object.generation;
            content["status"]["conditions"] = json!([{"type": "Ready", "status": ready, "reason": reason,
                "observedGeneration": generation}]);
            content["status"]["observedGeneration"] = generation.into();
            let revision = is_planned(self.state, &pass.spec.source(&key.namespace)).then_some(self.revision);
            if let Some(revision) = revision {
                content["status"]["lastAttemptedRevision"] = revision.into();
            }
            if ready == "True" {
                content["status"]["inventory"] = json!({ "entries": entries });
                revision.into_iter().for_each(|new| content["status"]["lastAppliedRevision"] = new.into());
                // The digest of the build is not known.
                content["status"].as_object_mut().and_then(|status| status.remove("history"));
            }
        }
        self.snapshot.replace_resource(&id, Some(Resource { object, content }));
    }

    /// Returns the entries of the inventory that stay, because the API server refuses to delete their objects.
    fn refused_deletions(&self, key: &NamespacedName) -> Vec<Value> {
        let rows = self.plan.changes().iter().filter(|change| {
            let is_refused = matches!(change.reason.code, ReasonCode::DeletionRefused | ReasonCode::HeldBack);
            let owner = change.owner.as_ref();
            change.action == Action::Keep
                && change.by == Actor::KustomizeController
                && is_refused
                && owner.is_some_and(|owner| (&owner.namespace, &owner.name) == (&key.namespace, &key.name))
        });
        let objects = rows.filter_map(|change| self.snapshot.object(&change.object.id));
        objects.map(|object| entry(&object.id, &object.version)).collect()
    }

    fn set_revision(&mut self) {
        let (trees, generated) = (self.state.input.trees.keys(), self.state.generated.states.keys());
        for source in trees.chain(generated).filter(|source| is_planned(self.state, source)) {
            self.update_status(&source.object(), |status| status["artifact"]["revision"] = self.revision.into());
        }
    }

    fn update_status(&mut self, id: &ObjectId, update: impl FnOnce(&mut Value)) {
        let Some(mut full) = self.snapshot.resource(id).cloned() else { return };
        update(&mut full.content["status"]);
        self.snapshot.replace_resource(id, Some(full));
    }
}

/// Returns true if a source has the files of a planned tree in the end.
fn is_planned(state: &State<'_>, source: &SourceId) -> bool {
    let is_generated = source.kind == EXTERNAL_ARTIFACT && !state.input.trees.contains_key(source);
    !is_generated && planned_artifact(state, source).is_some()
}

fn entry(id: &ObjectId, version: &str) -> Value {
    json!({"id": inventory_id::format(id), "v": version})
}

fn is_hook(built: &BuiltObject) -> bool {
    built.manifest.pointer("/metadata/annotations").is_some_and(|annotations| annotations.get(HOOK).is_some())
}

fn described(change: &Change) -> &'static str {
    match change.action {
        Action::Delete if change.may_come_back => "it is deleted, and created again or not, or it stays",
        Action::Delete => "it is deleted, or it stays",
        Action::Recreate => "it is deleted and created again, or it stays",
        Action::Create => "it is created, or it does not exist",
        Action::Update => "it is updated, or it stays as it is",
        Action::Keep | Action::Unknown => "it may not stay",
    }
}

/// Adds the type of a definition that is applied.
fn define(
    cluster: &mut Snapshot,
    built: &BuiltObject,
    group: std::sync::Arc<str>,
    kind: std::sync::Arc<str>,
    namespaced: bool,
    version: &str,
) {
    if cluster.types.iter().any(|known| known.group == group && known.kind == kind) {
        return;
    }
    let plural = text_at(&built.manifest, "/spec/names/plural").into();
    cluster.types.push(ResourceType {
        group,
        version: version.into(),
        kind,
        plural,
        singular: "".into(),
        short_names: vec![],
        namespaced,
    });
}
