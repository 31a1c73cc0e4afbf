//! Failures of an install or upgrade before it deletes objects, as far as they can be predicted.
//!
//! Source: Helm v4.2.2 `pkg/action/upgrade.go` (`prepareUpgrade`, `performUpgrade`) and `pkg/action/install.go`. An
//! action that fails before Helm records a release is tried again without a limit, and has no remedy (helm-controller
//! v1.6.3 `internal/reconcile/upgrade.go`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::action_kind::ActionKind;
use super::conditions::depends_on;
use super::dry_runs::{AppliedManifest, Refusal, ReleaseAnswers, ReleaseChanges};
use super::hook_runs::{FailingHooks, RefusedStep, Stage, StepPlace, hooks_in_order, is_ignored};
use super::remedies::{Remediation, Remedy};
use crate::flux::apply::cause::{Cause, Changed};
use crate::flux::apply::schema::{Fit, Live, validate};
use crate::flux::apply::update::Update;
use crate::flux::build::objects::{BuiltObject, defined_kind, kind_of_definition};
use crate::flux::simulation::model::facts::contested_services::contest;
use crate::flux::simulation::model::node::{Node, Pass};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::comparison::Comparison;
use crate::flux::simulation::owners::behaviour::quotas::{Creation, Room, room};
use crate::flux::simulation::owners::helm::render::rendering::Place;
use crate::helm::hooks::{Hook, HookEvent, HookFate, in_order};
use crate::helm::rendered::Rendered;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata, flag_at, group_of, text_at};
use crate::ownership::schemes::helm::{RELEASE_NAME, RELEASE_NAMESPACE};

/// Reason why Helm cannot create a hook.
const EXISTS: &str = "it exists already, and the release does not use server-side apply";

/// A failure before objects are deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nothing makes it fail.
    Unexpected,
    /// It may fail, for this reason.
    Possible(String),
    /// The API server refuses it now, with this message, and the change may mend that.
    Now(String),
    /// The API server refuses it, with this message, and nothing in the change mends that.
    Always(String),
}

impl Failure {
    /// Returns the reason for people; `None` without a failure.
    pub(crate) fn describe(&self, kind: ActionKind) -> Option<String> {
        let word = kind.word();
        match self {
            Self::Unexpected => None,
            Self::Possible(why) => Some(format!("the {word} fails if {why}")),
            Self::Now(message) | Self::Always(message) => {
                Some(format!("the API server refuses the {word}, as it does now: {message}"))
            }
        }
    }
}

/// A deletion that the API server refuses, or may refuse later on. The action fails once it has done everything else.
pub(crate) struct RefusedDeletion {
    /// Message of the server; `None` if it allows the deletion now.
    pub(crate) message: Option<String>,
    /// Condition under which the object stays, for people.
    pub(crate) condition: String,
    /// Nothing in the change mends that.
    pub(crate) is_final: bool,
}

/// Predicted failures of an action, as far as they are known.
pub(crate) struct Expected {
    pub(crate) failure: Failure,
    /// The first step that the API server refuses: one that is not after the objects is the failure.
    pub(crate) refused_step: Option<RefusedStep>,
    pub(crate) refused_deletions: BTreeMap<ObjectId, RefusedDeletion>,
    /// Changes of live objects in the answers of the API server; `None` for one that does not change.
    pub(crate) live_changes: BTreeMap<ObjectId, Option<Update>>,
}

impl From<Failure> for Expected {
    fn from(failure: Failure) -> Self {
        let (refused_deletions, live_changes) = (BTreeMap::new(), BTreeMap::new());
        Self { failure, refused_step: None, refused_deletions, live_changes }
    }
}

/// What becomes of the Secret in which Helm records an action.
pub(super) enum Recording {
    Stored,
    /// The API server may refuse it, for this reason.
    Doubtful(String),
    Refused(RefusedStep),
}

/// An action whose failures are predicted.
pub(crate) struct Attempt<'t> {
    pub(crate) kind: ActionKind,
    pub(crate) id: &'t ObjectId,
    pub(crate) spec: &'t Value,
    pub(crate) place: &'t Place<'t>,
    pub(crate) new: &'t Rendered,
    /// Manifest before the action; `None` for an install.
    pub(crate) old: Option<&'t Rendered>,
    /// Live objects that are deleted before it begins.
    pub(crate) gone: &'t BTreeSet<ObjectId>,
    /// Labels and annotations of all objects change.
    pub(crate) changes_all: bool,
    /// Revision that Helm records first, and the number of those that it may record.
    pub(crate) revision: i64,
    pub(crate) steps: usize,
    pub(crate) is_private: bool,
}

impl Attempt<'_> {
    /// Returns true if the API server does not serve a kind, and it is none of those that the change defines.
    fn stays_unserved(&self, kind: &GroupKind, planned: &BTreeSet<GroupKind>) -> bool {
        self.place.snapshot.lacks_type(kind) && !planned.contains(kind)
    }

    /// Returns the reason why Helm records no release, for people; `None` if it gets that far.
    pub(crate) fn obstacle(&self, comparison: &Comparison<'_, '_, '_>) -> Option<String> {
        if let Some(why) = &self.new.failure {
            // The name can hold values of a Secret.
            let hidden = "the chart renders an object twice, without a kind or a name, or with a generateName";
            return Some(if self.is_private { hidden.to_owned() } else { why.clone() });
        }
        let defined: BTreeSet<GroupKind> = self.definitions().iter().filter_map(kind_of_definition).collect();
        let planned: BTreeSet<GroupKind> =
            self.planned_definitions(comparison.state()).map(|(kind, ..)| kind).collect();
        let mut unserved = self.new.kinds().into_iter().filter(|kind| self.stays_unserved(kind, &planned));
        if let Some(kind) = unserved.find(|kind| !defined.contains(kind)) {
            return Some(format!("the API server does not serve {kind}"));
        }
        if let Some(why) = self.unread_crds() {
            return Some(why);
        }
        if let Some(kind) =
            self.old.and_then(|old| old.kinds().into_iter().find(|kind| self.stays_unserved(kind, &planned)))
        {
            return Some(format!(
                "the API server does not serve {kind}, so Helm cannot read the release that is deployed"
            ));
        }
        if !flag_at(self.spec, &format!("/{}/disableTakeOwnership", self.kind.field())) {
            return None;
        }
        let consequences = comparison.derivation.consequences;
        let taken = self.new.objects.iter().filter(|id| self.old.is_none_or(|old| !old.objects.contains(*id)));
        // The action is tried again until what the change deletes is gone.
        let staying = taken.filter(|id| !self.gone.contains(*id) && !consequences.may_be_deleted(id));
        let mut live = staying.filter_map(|id| comparison.state().live_object(id));
        live.find(|live| !self.owns(live)).map(|live| {
            format!("{} exists and is not part of the release ({}.disableTakeOwnership)", live.id, self.kind.field())
        })
    }

    /// Returns the reason why helm-controller cannot read what is in `crds/` beside definitions, for people. The API
    /// server must already serve every kind there.
    fn unread_crds(&self) -> Option<String> {
        if self.crd_policy() == "Skip" {
            return None;
        }
        self.new.beside_definitions.iter().find_map(|document| {
            let kind = GroupKind::new(group_of(text_at(document, "/apiVersion")), text_at(document, "/kind"));
            if kind.kind.is_empty() {
                return Some("a file in the crds/ of the chart is no manifest".to_owned());
            }
            let what = format!("the API server does not serve {kind}, which is in the crds/ of the chart");
            self.place.snapshot.lacks_type(&kind).then_some(what)
        })
    }

    /// Returns the failures that are expected. `removed` are the objects that the action deletes.
    pub(crate) fn expected(&self, comparison: &mut Comparison<'_, '_, '_>, removed: &BTreeSet<ObjectId>) -> Expected {
        if let Some(why) = self.unproven_resource(comparison.state()) {
            return Failure::Possible(why).into();
        }
        if let Some(namespace) = self.awaited_namespace(comparison.state()) {
            let why = format!("the namespace {} does not exist by then", namespace.name);
            return Failure::Possible(why).into();
        }
        if let Some(kind) = self.leaving_kind(comparison) {
            let why = format!("the definition of {kind} is deleted by then");
            return Failure::Possible(why).into();
        }
        if let Some(why) = self.unplaced(comparison) {
            return Failure::Always(why).into();
        }
        let hooks = hooks_in_order(self.spec, self.kind, self.new);
        let ReleaseAnswers {
            refusal,
            is_proven,
            doubt: unsure,
            doubtful_deletions,
            refused_deletions,
            changes: live_changes,
        } = self.ask(comparison, removed, &hooks);
        let (refused_record, doubt) = match self.recording(comparison) {
            Recording::Stored => (None, None),
            Recording::Doubtful(why) => (None, Some(why)),
            Recording::Refused(refused) => (Some(refused), None),
        };
        let by_step = self.first_refused_step(comparison, refusal, &hooks, &refused_deletions, removed);
        let (full, crowded) = match self.room_for_objects(comparison, &hooks) {
            Room::Enough => (None, None),
            Room::Doubtful(why) => (None, Some(why)),
            Room::Full(why) => (Some(why), None),
        };
        let first_refused = refused_record.into_iter().chain(by_step).min_by_key(|refused| refused.place);
        // Without room for the objects, the action does not get to what is refused after them.
        let is_reached = |refused: &RefusedStep| {
            refused.place.stage < Stage::Objects || (refused.place.stage == Stage::Objects && refused.is_final)
        };
        let refused_step = first_refused.filter(|refused| full.is_none() || is_reached(refused));
        let refused = refused_step.as_ref().filter(|refused| refused.place.stage <= Stage::Objects);
        let failure = match (refused, full) {
            (Some(RefusedStep { id, message, is_final: true, .. }), _) => Failure::Always(format!("{id}: {message}")),
            (Some(RefusedStep { id, message, .. }), _) => Failure::Now(format!("{id}: {message}")),
            (None, Some(why)) => Failure::Always(why),
            (None, None) if !is_proven && comparison.state().input.dry_runs.is_none() => {
                Failure::Possible("an object cannot be applied, which no dry-run has shown".to_owned())
            }
            (None, None) if !is_proven => Failure::Possible("the API server refuses an object".to_owned()),
            (None, None) => {
                let contested = || self.contested(comparison.state());
                let why = self.failing_step(comparison.state()).or_else(contested).or(doubt).or(crowded);
                why.or(unsure.map(|why| why.to_string())).map_or(Failure::Unexpected, Failure::Possible)
            }
        };
        let refused_deletions = self.refused_deletions(comparison, refused_deletions, doubtful_deletions);
        Expected { failure, refused_step, refused_deletions, live_changes }
    }

    /// Returns the first step that fails, which ends the action. `refusal` is the first object or hook that the API
    /// server refuses to apply.
    fn first_refused_step(
        &self,
        comparison: &mut Comparison<'_, '_, '_>,
        refusal: Option<Refusal>,
        hooks: &[(StepPlace, &ObjectId, &Hook)],
        refused_deletions: &BTreeMap<ObjectId, String>,
        removed: &BTreeSet<ObjectId>,
    ) -> Option<RefusedStep> {
        let replaced = hooks.iter().filter(|(_, _, hook)| hook.is_deleted_first());
        let mut refused_hooks =
            replaced.filter_map(|(place, id, _)| Some(Refusal::new(*place, id, refused_deletions.get(*id)?.clone())));
        let mut unplaced_hooks = hooks
            .iter()
            .filter(|(place, id, _)| self.is_unplaced(comparison, *place, id))
            .map(|(place, id, _)| Refusal::new(*place, id, no_namespace(id)));
        let mut existing_hooks = hooks
            .iter()
            .filter(|(place, id, hook)| self.is_in_the_way(comparison, *place, id, hook, removed))
            .map(|(place, id, _)| Refusal::new(*place, id, EXISTS.to_owned()));
        let by_hooks = refused_hooks.next().into_iter().chain(unplaced_hooks.next()).chain(existing_hooks.next());
        let all = refusal.into_iter().chain(by_hooks);
        let first = all.min_by_key(|refusal| refusal.place);
        first.map(|Refusal { place, id, message }| {
            let is_final =
                !(self.is_retried_without(comparison.state(), &id) || self.may_be_mended(comparison, &id, &message));
            let is_ignored = is_ignored(self.spec, self.kind, place);
            RefusedStep { id, place, message, is_final, is_ignored }
        })
    }

    /// Returns the deletions that the API server refuses, and those that it may refuse later on.
    fn refused_deletions(
        &self,
        comparison: &mut Comparison<'_, '_, '_>,
        refused: BTreeMap<ObjectId, String>,
        doubtful: BTreeMap<ObjectId, Arc<str>>,
    ) -> BTreeMap<ObjectId, RefusedDeletion> {
        let certain = refused.into_iter().map(|(id, message)| {
            let is_final = !self.may_be_mended(comparison, &id, &message);
            let condition = format!("it stays while the API server refuses: {message}");
            (id, RefusedDeletion { message: Some(message), condition, is_final })
        });
        let possible = doubtful.into_iter().map(|(id, why)| {
            (id, RefusedDeletion { message: None, condition: format!("it stays if {why}"), is_final: false })
        });
        certain.chain(possible).collect()
    }

    /// Returns a kind of the release whose definition the change may delete. Helm then cannot read the deployed
    /// manifest.
    fn leaving_kind(&self, comparison: &Comparison<'_, '_, '_>) -> Option<GroupKind> {
        let (state, consequences) = (comparison.state(), comparison.derivation.consequences);
        let objects = self.new.objects.iter().chain(self.old.into_iter().flat_map(|old| &old.objects));
        let mut leaving = objects
            .filter(|id| state.definition_of(id).is_some_and(|definition| consequences.may_be_deleted(&definition)));
        leaving.next().map(ObjectId::group_kind)
    }

    /// Returns what can fail although the API server accepts all objects, for people.
    pub(crate) fn failing_step(&self, state: &State<'_>) -> Option<String> {
        let ([before, _], field) = (self.kind.events(), self.kind.field());
        let runs_hooks = !flag_at(self.spec, &format!("/{field}/disableHooks"));
        let may_fail = FailingHooks::of(state, self.spec, field);
        let mut failing = self.new.hooks_at([before]).filter(|(id, hook)| runs_hooks && may_fail.has(id, hook));
        let (id, _) = failing.next()?;
        let what = if self.is_private { "a hook".to_owned() } else { format!("the hook {id}") };
        Some(format!("{what} fails"))
    }

    /// Returns how a Service of the release can lose what it asks for to another one, for people.
    fn contested(&self, state: &State<'_>) -> Option<String> {
        let own: Vec<(&ObjectId, &Value)> = self.new.manifests().iter().collect();
        let is_kept = |id: &ObjectId| state.is_live(id) && self.old.is_some_and(|old| self.new.has_same(old, id));
        contest(state, self.id, own.iter().copied().filter(|(id, _)| !is_kept(id)), &own)
    }

    /// Returns the room that quotas leave for the new objects of the release.
    fn room_for_objects(
        &self,
        comparison: &mut Comparison<'_, '_, '_>,
        hooks: &[(StepPlace, &ObjectId, &Hook)],
    ) -> Room {
        let (record, unread) = (self.record(comparison), Value::Null);
        let before = hooks.iter().filter(|(place, ..)| place.stage < Stage::Objects);
        let first = before.map(|(_, id, hook)| (*id, &hook.manifest));
        let creation = Creation {
            owner: self.id,
            manifests: self.new.manifests().iter().collect(),
            passing: first.chain([(&record, &unread)]).collect(),
            gone: self.gone,
            has_steps: self.steps > 1,
            is_retried: false,
        };
        room(comparison, &creation)
    }

    /// Returns the hook of a remedy that the API server refuses before the remedy changes anything, with its message,
    /// for people; `None` if it refuses none, or the change may mend that.
    pub(crate) fn refused_remedy(&self, comparison: &mut Comparison<'_, '_, '_>, remedy: Remedy) -> Option<String> {
        let (rendered, event, field) = match remedy {
            Remedy::None => return None,
            Remedy::Uninstall { .. } => (self.new, HookEvent::PreDelete, "uninstall"),
            Remedy::Rollback => (self.old?, HookEvent::PreRollback, "rollback"),
        };
        if flag_at(self.spec, &format!("/{field}/disableHooks")) {
            return None;
        }
        let hooks = in_order(&rendered.hooks, event);
        let target = &self.place.target;
        let (refused, _) = comparison.refused_hooks(self.id, self.spec, target, hooks.iter().copied(), self.is_private);
        let mut first = hooks.iter().filter_map(|(id, _)| Some((*id, refused.get(*id)?)));
        let (id, message) = first.find(|(id, message)| !self.may_be_mended(comparison, id, message))?;
        Some(format!("{id}: {message}"))
    }

    fn ask(
        &self,
        comparison: &mut Comparison<'_, '_, '_>,
        removed: &BTreeSet<ObjectId>,
        hooks: &[(StepPlace, &ObjectId, &Hook)],
    ) -> ReleaseAnswers {
        let state = comparison.state();
        let replaced = self.replaced_kinds(comparison);
        let first = self.prerequisites(state);
        let defined: BTreeSet<GroupKind> = first.values().filter_map(kind_of_definition).collect();
        // No dry-run can show what comes with its namespace or its definition.
        let asked_hooks = hooks.iter().filter(|(place, id, hook)| {
            let comes_first = first.contains_key(&id.namespace_object()) || defined.contains(&id.group_kind());
            let comes_with = place.stage > Stage::Objects
                && (self.comes_with_namespace(comparison, id) || self.place.snapshot.lacks_type(&id.group_kind()));
            !(comes_first || comes_with || hook.fate() == HookFate::DeletedOnFailure)
        });
        let hooks_to_ask = asked_hooks.map(|(place, id, hook)| AppliedManifest::of_hook(state, *place, id, hook));
        let replaces = self.replaces_definitions(comparison);
        let applied = first.iter().filter(|(id, _)| replaces || !state.is_live(id));
        let prerequisites = applied.map(|(id, manifest)| AppliedManifest {
            place: StepPlace::first(Stage::Prerequisites),
            is_changed: !(state.is_live(id) && self.old.is_some_and(|old| old.definitions.contains(manifest))),
            ..AppliedManifest::of_object(id, manifest)
        });
        let mut manifests: Vec<AppliedManifest> = prerequisites.chain(hooks_to_ask).collect();
        for (id, manifest) in self.new.manifests() {
            let is_same =
                !self.changes_all && self.old.is_some_and(|old| self.new.has_same(old, id)) && state.is_live(id);
            let kind = id.group_kind();
            // Nor can it after another object of its name.
            let comes_with = self.comes_with_namespace(comparison, id)
                || self.place.snapshot.lacks_type(&kind)
                || self.gone.contains(id);
            if comes_with {
                continue;
            }
            let is_open = replaced.contains(&kind);
            let applied = AppliedManifest::of_object(id, manifest);
            manifests.push(AppliedManifest { is_changed: !is_same, is_open, ..applied });
        }
        let replaced_hooks = hooks.iter().filter(|(_, _, hook)| hook.is_deleted_first()).map(|(_, id, _)| *id);
        let deleted: BTreeSet<ObjectId> =
            removed.iter().chain(replaced_hooks).filter(|id| state.is_live(id)).cloned().collect();
        comparison.ask_release(&ReleaseChanges {
            release: self.id,
            spec: self.spec,
            target: &self.place.target,
            manifests,
            removed: deleted.into_iter().collect(),
            is_applied_on_server: self.is_applied_on_server(comparison),
            is_private: self.is_private,
        })
    }

    /// Returns true if Helm applies the objects on the server. If it patches them, it is not known what the server
    /// refuses.
    pub(super) fn is_applied_on_server(&self, comparison: &Comparison<'_, '_, '_>) -> bool {
        match (self.kind, text_at(self.spec, "/upgrade/serverSideApply")) {
            (ActionKind::Install, _) => comparison.state().input.helm_controller.installs_on_server(self.spec),
            (ActionKind::Upgrade, "enabled") => true,
            (ActionKind::Upgrade, "disabled") => false,
            (ActionKind::Upgrade, _) => self.was_applied_on_server(comparison),
        }
    }

    /// Returns true if Helm applied objects of the last release on the server.
    fn was_applied_on_server(&self, comparison: &Comparison<'_, '_, '_>) -> bool {
        self.live_objects(comparison).any(ReleaseChanges::is_applied)
    }

    /// Returns the live objects of the last release.
    fn live_objects<'c>(&'c self, comparison: &'c Comparison<'_, '_, '_>) -> impl Iterator<Item = &'c ObjectMetadata> {
        let objects = self.old.into_iter().flat_map(|old| &old.objects);
        objects.filter_map(|id| comparison.state().live_object(id))
    }

    /// Returns true if the action removes what only the last manifest has, which an apply does not show: Helm patches
    /// the objects, or it did so and first takes over the fields that it patched.
    ///
    /// Source: Helm v4.2.2 `pkg/action/upgrade.go`, `upgradeClientSideFieldManager`.
    pub(super) fn removes_unapplied(&self, comparison: &Comparison<'_, '_, '_>) -> bool {
        !self.is_applied_on_server(comparison)
            || (self.kind == ActionKind::Upgrade && !self.was_applied_on_server(comparison))
    }

    fn crd_policy(&self) -> &str {
        text_at(self.spec, if self.kind == ActionKind::Install { "/install/crds" } else { "/upgrade/crds" })
    }

    /// Returns what helm-controller applies before everything else: the definitions in `crds/`, and the namespace of a
    /// release that is installed with `createNamespace`.
    pub(crate) fn prerequisites(&self, state: &State<'_>) -> BTreeMap<ObjectId, Value> {
        let cluster = self.place.cluster.as_ref();
        let mut first: BTreeMap<ObjectId, Value> = BTreeMap::new();
        for definition in self.definitions() {
            let name = text_at(definition, "/metadata/name");
            let id = ObjectId::new("apiextensions.k8s.io", "CustomResourceDefinition", "", name).in_cluster(cluster);
            first.insert(id, definition.clone());
        }
        let name = &*self.place.target.namespace;
        let id = ObjectId::new("", "Namespace", "", name).in_cluster(cluster);
        if self.creates_namespace() && !state.is_live(&id) {
            let metadata = json!({"name": name, "labels": {"name": name}});
            first.insert(id, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
        }
        first
    }

    /// Returns true if helm-controller creates a namespace before it installs the release.
    pub(super) fn creates_first(&self, namespace: &ObjectId) -> bool {
        *self.place.target.namespace == *namespace.name && self.creates_namespace()
    }

    fn creates_namespace(&self) -> bool {
        let has_own = !text_at(self.spec, "/targetNamespace").is_empty();
        self.kind == ActionKind::Install && has_own && flag_at(self.spec, "/install/createNamespace")
    }

    /// Returns the definitions in `crds/` that the action applies.
    fn definitions(&self) -> &[Value] {
        if self.crd_policy() == "Skip" { &[] } else { &self.new.definitions }
    }

    /// Returns true if the action replaces definitions that exist. helm-controller creates them by server-side apply,
    /// which replaces them also with the policy `Create`.
    fn replaces_definitions(&self, comparison: &Comparison<'_, '_, '_>) -> bool {
        self.crd_policy() == "CreateReplace" || self.is_applied_on_server(comparison)
    }

    /// Returns the kinds whose definitions the action replaces by others.
    fn replaced_kinds(&self, comparison: &Comparison<'_, '_, '_>) -> BTreeSet<GroupKind> {
        if !self.replaces_definitions(comparison) {
            return BTreeSet::new();
        }
        let old = self.old.map(|old| &*old.definitions).unwrap_or_default();
        let changed = self.definitions().iter().filter(|definition| !old.contains(definition));
        changed.filter_map(kind_of_definition).collect()
    }

    /// Returns the definitions that Kustomizations and other owners apply, each with its kind, and true if it is
    /// certain that they do.
    fn planned_definitions<'r>(
        &self,
        state: &'r State<'_>,
    ) -> impl Iterator<Item = (GroupKind, &'r BuiltObject, bool)> {
        let passes = state.nodes.iter().flat_map(|node: &Node| &node.passes);
        let by_passes = passes.flat_map(|pass| {
            let objects = pass.applied_objects().into_iter().flat_map(BTreeMap::values);
            objects.map(|built| (built, pass.condition.is_none()))
        });
        let others = state.owner_effects().filter(|(owner, _)| *owner != self.id);
        let by_others = others.flat_map(|(owner, effect)| {
            let waits = depends_on(self.id, self.spec, owner);
            effect.applies.iter().flat_map(move |applies| {
                let is_certain = (waits || effect.is_certain()) && !applies.is_doubtful;
                applies.objects.values().map(move |built| (built, is_certain))
            })
        });
        by_passes.chain(by_others).filter_map(|(built, is_certain)| Some((defined_kind(built)?.0, built, is_certain)))
    }

    /// Returns the reason why an object of a kind that the change defines is perhaps not applied, for people. Until the
    /// kind is served, Helm records no release, and the action is tried again.
    fn unproven_resource(&self, state: &State<'_>) -> Option<String> {
        let mut lacking =
            self.new.manifests().iter().filter(|(id, _)| self.place.snapshot.lacks_type(&id.group_kind()));
        lacking.find_map(|(id, manifest)| {
            let kind = id.group_kind();
            let definitions: Vec<(&BuiltObject, bool)> = self
                .planned_definitions(state)
                .filter_map(|(defined, built, is_certain)| (defined == kind).then_some((built, is_certain)))
                .collect();
            let version = text_at(manifest, "/apiVersion").rsplit('/').next().unwrap_or_default();
            if definitions.is_empty() {
                None
            } else if !definitions.iter().any(|(_, is_certain)| *is_certain) {
                Some(format!("{kind} is not defined by then"))
            } else {
                let is_accepted = definitions
                    .iter()
                    .all(|(built, _)| validate(manifest, &built.manifest, version, Live::Absent) == Fit::Valid);
                (!is_accepted).then(|| format!("the API server refuses {id}, once {kind} is defined"))
            }
        })
    }

    /// Returns a namespace of an object of the release that the change creates, perhaps too late.
    fn awaited_namespace(&self, state: &State<'_>) -> Option<ObjectId> {
        let objects = self.new.objects.iter().filter(|id| !id.namespace.is_empty());
        objects.map(ObjectId::namespace_object).find(|namespace| {
            !state.is_live(namespace)
                && !self.new.objects.contains(namespace)
                && !self.creates_first(namespace)
                && !state.stays_absent(namespace)
                && !self.comes_first(state, namespace)
        })
    }

    /// Returns true if it is certain that an object is applied before the action: by the Kustomization that applies the
    /// HelmRelease, or by an owner on which the HelmRelease depends.
    fn comes_first(&self, state: &State<'_>, id: &ObjectId) -> bool {
        let passes = state.nodes.applying(self.id).flat_map(|node| &node.passes);
        let mut applying = passes.filter(|pass| pass.applies(self.id)).peekable();
        let is_beside = applying.peek().is_some() && applying.all(|pass| pass.applies(id));
        let mut others = state.owner_applies().filter(|(_, applies)| applies.objects.contains_key(id));
        is_beside || others.any(|(owner, _)| depends_on(self.id, self.spec, owner))
    }

    /// Returns true if the namespace of an object does not exist and nothing in the change creates it.
    pub(crate) fn lacks_namespace(&self, comparison: &Comparison<'_, '_, '_>, id: &ObjectId) -> bool {
        let namespace = id.namespace_object();
        !id.namespace.is_empty()
            && comparison.state().is_absent(&namespace)
            && !self.comes_with_namespace(comparison, id)
    }

    /// Returns an object without a namespace, with the message of the API server.
    pub(crate) fn unplaced(&self, comparison: &Comparison<'_, '_, '_>) -> Option<String> {
        let id = self.new.objects.iter().find(|id| self.lacks_namespace(comparison, id))?;
        Some(format!("{}: {}", id.shown(), no_namespace(id)))
    }

    /// Returns true if the namespace of a hook does not exist when it runs. The objects of the release come after some
    /// hooks.
    fn is_unplaced(&self, comparison: &Comparison<'_, '_, '_>, place: StepPlace, id: &ObjectId) -> bool {
        let (state, namespace) = (comparison.state(), id.namespace_object());
        let comes_with_objects = place.stage > Stage::Objects && self.new.objects.contains(&namespace);
        !id.namespace.is_empty()
            && state.is_absent(&namespace)
            && !comes_with_objects
            && !self.is_made_before(state, &namespace)
    }

    /// Returns true if a hook is there already and nothing deletes it before Helm creates it, which succeeds by
    /// server-side apply only. `removed` are the objects that the action deletes before the hooks after it.
    fn is_in_the_way(
        &self,
        comparison: &Comparison<'_, '_, '_>,
        place: StepPlace,
        id: &ObjectId,
        hook: &Hook,
        removed: &BTreeSet<ObjectId>,
    ) -> bool {
        let is_gone = self.gone.contains(id) || (place.stage > Stage::Objects && removed.contains(id));
        let is_there = comparison.state().is_live(id) && !is_gone;
        is_there
            && !hook.is_deleted_first()
            && self.is_known_to_patch(comparison)
            && !comparison.derivation.consequences.may_be_deleted(id)
    }

    /// Returns true if it is known that Helm does not apply the objects on the server.
    fn is_known_to_patch(&self, comparison: &Comparison<'_, '_, '_>) -> bool {
        let is_named = self.kind == ActionKind::Install || text_at(self.spec, "/upgrade/serverSideApply") == "disabled";
        let mut live = self.live_objects(comparison);
        !self.is_applied_on_server(comparison) && (is_named || live.any(|object| !object.managed_fields.is_empty()))
    }

    /// Returns true if the namespace of an object does not exist yet and is created by the change.
    fn comes_with_namespace(&self, comparison: &Comparison<'_, '_, '_>, id: &ObjectId) -> bool {
        let (state, namespace) = (comparison.state(), id.namespace_object());
        if id.namespace.is_empty() || state.is_live(&namespace) {
            return false;
        }
        self.new.objects.contains(&namespace) || self.is_made_before(state, &namespace)
    }

    /// Returns true if the change creates a namespace before the objects of the release, or helm-controller does.
    fn is_made_before(&self, state: &State<'_>, namespace: &ObjectId) -> bool {
        self.creates_first(namespace)
            || state.is_generated(namespace)
            || state.nodes.iter().flat_map(|node| &node.passes).any(|pass| pass.applies(namespace))
    }

    /// Returns true if Helm takes a live object for one of the release.
    fn owns(&self, live: &ObjectMetadata) -> bool {
        live.labels.get("app.kubernetes.io/managed-by") == Some("Helm")
            && live.annotations.get(RELEASE_NAME) == Some(&*self.place.target.name)
            && live.annotations.get(RELEASE_NAMESPACE) == Some(&*self.place.target.namespace)
    }

    /// Returns true for an object of the release, before or after the action, or a hook.
    fn has_object(&self, id: &ObjectId) -> bool {
        self.new.objects.contains(id)
            || self.new.hooks.contains_key(id)
            || self.old.is_some_and(|old| old.objects.contains(id))
    }

    /// Returns true if the action is tried again after a rollback that deletes an object, because the release takes it
    /// over.
    fn is_retried_without(&self, state: &State<'_>, id: &ObjectId) -> bool {
        let controller = &state.input.helm_controller;
        let remediation = Remediation::of(controller, self.spec, self.kind);
        let is_retried = remediation.is_some_and(|remediation| remediation.retries != 0);
        let is_taken_over = state.is_live(id) && self.old.is_some_and(|old| !old.objects.contains(id));
        is_taken_over && is_retried && Remedy::of(controller, self.spec, self.kind) == Remedy::Rollback
    }

    /// Returns true if the change itself creates, changes or deletes what the refusal of an object depends on.
    pub(super) fn may_be_mended(&self, comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, message: &str) -> bool {
        let state = comparison.state();
        let (cause, definition) = (Cause::of(message), state.definition_of(id));
        let counts_secrets = cause == Cause::Quota && id.is("", "Secret");
        let decides = |other: &ObjectId, is_deleted: bool| {
            cause.depends_on(message, id, definition.as_ref(), &Changed { id: other, is_deleted })
                && (!counts_secrets || other.is("", "Secret") || other.is("", "ResourceQuota"))
        };
        let objects = state.nodes.iter().flat_map(|node: &Node| &node.passes).filter_map(Pass::applied_objects);
        let deciding = objects.flat_map(BTreeMap::keys).filter(|other| decides(other, false));
        let applied: BTreeSet<ObjectId> = deciding.cloned().collect();
        let consequences = comparison.derivation.consequences;
        // What the remedy of this very failure deletes mends nothing, nor what is deleted with its namespaces.
        let all = consequences.outcomes.keys().chain(consequences.cascaded.keys());
        let mut deleted = all.filter(|other| {
            decides(other, true) && !self.has_object(other) && !self.has_object(&other.namespace_object())
        });
        let mut others = state
            .owner_applies()
            .filter(|(owner, _)| *owner != self.id)
            .flat_map(|(_, applies)| applies.objects.keys());
        deleted.any(|other| consequences.may_be_deleted(other))
            || others.any(|id| decides(id, false))
            || applied.iter().any(|other| comparison.is_changed(other))
    }
}

/// Returns the message of the API server about an object whose namespace does not exist.
pub(crate) fn no_namespace(id: &ObjectId) -> String {
    format!("namespaces {:?} not found", id.shown().namespace)
}
