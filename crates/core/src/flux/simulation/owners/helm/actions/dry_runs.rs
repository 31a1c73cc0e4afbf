//! Changes of releases that the API server is asked about: Helm applies everything first, and deletes nothing if the server
//! refuses one object.
//!
//! Source: Helm v4.2.2 `pkg/kube/client.go`, `update`; helm-controller v1.6.3 `internal/action/upgrade.go`. Of releases whose
//! objects Helm patches, the answers tell what changes, and not what is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::hook_runs::{Stage, StepPlace};
use crate::flux::apply::cause::is_of_schema;
use crate::flux::apply::question::{HELM_CONTROLLER, Question, Request};
use crate::flux::apply::update::Update;
use crate::flux::simulation::model::questions::Verdict;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::comparison::Comparison;
use crate::helm::hooks::Hook;
use crate::helm::target::ReleaseTarget;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, map_in};

/// A manifest that Helm applies.
pub(crate) struct AppliedManifest {
    pub(crate) id: ObjectId,
    pub(crate) place: StepPlace,
    pub(crate) manifest: Value,
    /// The manifest is another one than that of the last release, or the object does not exist.
    pub(crate) is_changed: bool,
    /// The answer of the server is another one by then, because its definition is replaced.
    pub(crate) is_open: bool,
    /// The live object is deleted before, so that it decides nothing.
    pub(crate) is_replaced: bool,
}

impl AppliedManifest {
    /// Returns the manifest of an object of a release that is the same as in the last release.
    pub(crate) fn of_object(id: &ObjectId, manifest: &Value) -> Self {
        let (id, place, manifest) = (id.clone(), StepPlace::first(Stage::Objects), manifest.clone());
        Self { id, place, manifest, is_changed: false, is_open: false, is_replaced: false }
    }

    /// Returns the manifest of a hook that runs at a place.
    pub(crate) fn of_hook(state: &State<'_>, place: StepPlace, id: &ObjectId, hook: &Hook) -> Self {
        Self {
            id: id.clone(),
            place,
            manifest: hook.manifest.clone(),
            is_changed: place.stage < Stage::Objects,
            is_open: false,
            is_replaced: state.is_live(id) && hook.is_deleted_first(),
        }
    }
}

/// An object or a hook that the API server refuses, with its message.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) place: StepPlace,
    pub(crate) id: ObjectId,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(place: StepPlace, id: &ObjectId, message: String) -> Self {
        Self { place, id: id.clone(), message }
    }
}

/// Requests of Helm in one action for a release.
pub(crate) struct ReleaseChanges<'m> {
    pub(crate) release: &'m ObjectId,
    pub(crate) spec: &'m Value,
    pub(crate) target: &'m ReleaseTarget,
    pub(crate) manifests: Vec<AppliedManifest>,
    /// Live objects that it deletes.
    pub(crate) removed: Vec<ObjectId>,
    pub(crate) is_applied_on_server: bool,
    pub(crate) is_private: bool,
}

/// Answers of the API server about an action.
pub(crate) struct ReleaseAnswers {
    /// The first object or hook that it refuses.
    pub(crate) refusal: Option<Refusal>,
    /// It accepts everything that changes.
    pub(crate) is_proven: bool,
    /// Condition under which it refuses an object or an earlier step later on, as a clause for people.
    pub(crate) doubt: Option<Arc<str>>,
    /// Conditions under which it refuses deletions later on.
    pub(crate) doubtful_deletions: BTreeMap<ObjectId, Arc<str>>,
    /// Messages about deletions that it refuses.
    pub(crate) refused_deletions: BTreeMap<ObjectId, String>,
    /// Changes of live objects; `None` for one that does not change.
    pub(crate) changes: BTreeMap<ObjectId, Option<Update>>,
}

impl ReleaseChanges<'_> {
    /// Returns true if helm-controller applied an object on the server.
    pub(crate) fn is_applied(object: &ObjectMetadata) -> bool {
        object.managed_fields.iter().any(|entry| entry.applies && &*entry.manager == HELM_CONTROLLER)
    }

    /// Returns true if Helm patches the objects of a stage. helm-controller always applies definitions on the server.
    fn patches(&self, stage: Stage) -> bool {
        !self.is_applied_on_server && stage != Stage::Prerequisites
    }

    fn question(&self, id: &ObjectId, request: Request) -> Question {
        Question::of_owner(self.release, self.spec, id, request, self.is_private)
    }
}

impl Comparison<'_, '_, '_> {
    /// Asks the API server about an action. An object without a clear answer is assumed to be accepted if it does not change.
    pub(crate) fn ask_release(&mut self, changes: &ReleaseChanges<'_>) -> ReleaseAnswers {
        let mut answers = ReleaseAnswers {
            refusal: None,
            is_proven: true,
            doubt: None,
            doubtful_deletions: BTreeMap::new(),
            refused_deletions: BTreeMap::new(),
            changes: BTreeMap::new(),
        };
        for applied in &changes.manifests {
            let is_patched = changes.patches(applied.place.stage);
            answers.is_proven &= !(is_patched && applied.is_changed);
            let (verdict, doubt) = self.ask_apply(changes, applied);
            answers.doubt = answers.doubt.or(doubt.filter(|_| applied.place.stage <= Stage::Objects));
            let change = match verdict {
                Verdict::Accepted => continue,
                Verdict::Unchanged => None,
                Verdict::Updated(update) => Some(update),
                Verdict::Refused(_) if is_patched => continue,
                Verdict::Refused(message) => {
                    let refusal = Refusal::new(applied.place, &applied.id, message);
                    let first = answers.refusal.take().filter(|first| first.place <= refusal.place);
                    answers.refusal = first.or(Some(refusal));
                    continue;
                }
                Verdict::Open => {
                    answers.is_proven &= !applied.is_changed;
                    continue;
                }
            };
            if !applied.is_replaced {
                answers.changes.insert(applied.id.clone(), change);
            }
        }
        for id in &changes.removed {
            match self.derivation.ask_with_doubt(changes.question(id, Request::Delete)) {
                (Verdict::Refused(message), _) => {
                    answers.refused_deletions.insert(id.clone(), message);
                }
                (_, Some(doubt)) => {
                    answers.doubtful_deletions.insert(id.clone(), doubt);
                }
                _ => {}
            }
        }
        answers
    }

    /// Returns the hooks of a release that the API server refuses to apply, with its messages, and those that it may
    /// refuse later on.
    pub(crate) fn refused_hooks<'h>(
        &mut self,
        release: &ObjectId,
        spec: &Value,
        target: &ReleaseTarget,
        hooks: impl Iterator<Item = (&'h ObjectId, &'h Hook)>,
        is_private: bool,
    ) -> (BTreeMap<ObjectId, String>, BTreeSet<ObjectId>) {
        let state = self.state();
        let place = StepPlace::first(Stage::HooksBefore);
        let manifests = hooks.map(|(id, hook)| AppliedManifest::of_hook(state, place, id, hook)).collect();
        let (removed, is_applied_on_server) = (vec![], true);
        let changes = ReleaseChanges { release, spec, target, manifests, removed, is_applied_on_server, is_private };
        let (mut refused, mut doubtful) = (BTreeMap::new(), BTreeSet::new());
        for applied in &changes.manifests {
            match self.ask_apply(&changes, applied) {
                (Verdict::Refused(message), _) => drop(refused.insert(applied.id.clone(), message)),
                (_, Some(_)) => drop(doubtful.insert(applied.id.clone())),
                _ => {}
            }
        }
        (refused, doubtful)
    }

    fn ask_apply(&mut self, changes: &ReleaseChanges<'_>, applied: &AppliedManifest) -> (Verdict, Option<Arc<str>>) {
        let AppliedManifest { id, place, manifest, is_open, is_replaced, .. } = applied;
        // A name that holds values of a Secret would be in the URL of the request, and so in logs.
        let is_hidden = changes.is_private && !self.state().is_live(id);
        let is_patched_hook = changes.patches(place.stage) && place.stage != Stage::Objects;
        if *is_open || is_hidden || is_patched_hook {
            return (Verdict::Open, None);
        }
        let manifest = manifest_to_apply(manifest, id, place.stage, changes);
        // Helm v4.2.2 `pkg/action/hooks.go` creates hooks without taking over fields.
        let forces = [Stage::Prerequisites, Stage::Objects].contains(&place.stage);
        match self.derivation.ask_with_doubt(changes.question(id, Request::Apply { manifest, forces })) {
            (Verdict::Refused(message), doubt) if *is_replaced && !is_of_schema(&message) => (Verdict::Accepted, doubt),
            answer => answer,
        }
    }
}

/// Returns a manifest with what Helm and helm-controller add to it.
fn manifest_to_apply(
    rendered: &Value,
    id: &ObjectId,
    stage: Stage,
    ReleaseChanges { release, target, .. }: &ReleaseChanges<'_>,
) -> Value {
    let mut manifest = rendered.clone();
    let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else { return manifest };
    match &*id.namespace {
        "" => metadata.remove("namespace"),
        namespace => metadata.insert("namespace".to_owned(), json!(namespace)),
    };
    let labels = map_in(metadata, "labels");
    labels.insert("helm.toolkit.fluxcd.io/name".to_owned(), json!(release.name));
    labels.insert("helm.toolkit.fluxcd.io/namespace".to_owned(), json!(release.namespace));
    if stage != Stage::Objects {
        return manifest;
    }
    labels.insert("app.kubernetes.io/managed-by".to_owned(), json!("Helm"));
    let annotations = map_in(metadata, "annotations");
    annotations.insert("meta.helm.sh/release-name".to_owned(), json!(target.name));
    annotations.insert("meta.helm.sh/release-namespace".to_owned(), json!(target.namespace));
    manifest
}
