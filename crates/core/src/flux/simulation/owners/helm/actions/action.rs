//! Effects of one install or upgrade of a release on live objects, and their conditions.
//!
//! Source: Helm v4.2.2 `pkg/action/install.go`, `pkg/action/upgrade.go` and `pkg/kube/client.go`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::action_kind::ActionKind;
use super::failure::{Expected, Failure, RefusedDeletion};
use super::hook_runs::{
    HookRun, REPLACEMENT_REFUSED, Reached, RefusedStep, Stage, StepPlace, is_gone_later, not_replaced,
};
use super::remedies::{Remedy, orphans_dependents};
use crate::flux::apply::update::Update;
use crate::flux::simulation::model::affected_owner::{Effect, OwnerDeletion, Readiness};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::scaling::{ReleasedClaims, of_released_claim};
use crate::helm::hooks::{Hook, HookFate};
use crate::helm::rendered::{POLICY, Rendered, is_kept_live};
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::plan::{Action, Reason, ReasonCode};

/// Effects of an action on live objects.
pub(crate) struct ReleaseAction {
    pub(crate) kind: ActionKind,
    /// Objects that the new manifest lacks.
    pub(crate) removed: BTreeSet<ObjectId>,
    /// Those of them that perhaps are no part of the release, or that the new manifest perhaps has, with the condition.
    pub(crate) undecided: BTreeMap<ObjectId, &'static str>,
    /// Objects that are kept, and that an intermediate upgrade keeps no longer.
    pub(crate) loosened: BTreeSet<ObjectId>,
    /// Objects that an intermediate upgrade removes and the last one creates again.
    pub(crate) interrupted: BTreeSet<ObjectId>,
    pub(crate) hooks: BTreeMap<ObjectId, HookRun>,
    /// Hooks that only an intermediate upgrade runs.
    pub(crate) interrupted_hooks: BTreeMap<ObjectId, HookFate>,
    /// Claims of StatefulSets that shrink and delete them.
    pub(crate) claims: ReleasedClaims,
    /// Condition under which helm-controller gets to the action, for people.
    pub(crate) waits: Option<String>,
    /// Reason why the action fails before it deletes objects.
    pub(crate) failure: Failure,
    /// The first step that the API server refuses.
    pub(crate) refused_step: Option<RefusedStep>,
    /// Deletions that the API server refuses. The action then fails after all others.
    pub(crate) refused_deletions: BTreeMap<ObjectId, RefusedDeletion>,
    /// Changes of live objects in the answers of the API server; `None` for one that does not change.
    pub(crate) live_changes: BTreeMap<ObjectId, Option<Update>>,
    /// Another version of the chart or of the values may be installed before.
    pub(crate) has_steps: bool,
    pub(crate) remedy: Remedy,
    /// Objects that the remedy deletes if the action fails, with what becomes of them.
    pub(crate) remedied: BTreeMap<ObjectId, Action>,
    /// The dependents of the objects that the remedy uninstalls stay.
    orphans_dependents: bool,
    /// Condition under which Helm cannot record a rollback, for people.
    pub(crate) unrecorded_rollback: Option<String>,
    /// The action can fail after it has deleted objects.
    pub(crate) can_fail_later: bool,
    /// It waits until objects are ready before the hooks after it run.
    pub(crate) waits_for_objects: bool,
    /// Helm creates a hook without waiting until the old one is gone.
    pub(crate) does_not_wait: bool,
    /// Assumption about the chart, for people; `None` if the chart is known.
    pub(crate) assumption: Option<String>,
}

impl ReleaseAction {
    /// Creates an action that deletes nothing.
    pub(crate) fn new(kind: ActionKind) -> Self {
        Self {
            kind,
            removed: BTreeSet::new(),
            undecided: BTreeMap::new(),
            loosened: BTreeSet::new(),
            interrupted: BTreeSet::new(),
            hooks: BTreeMap::new(),
            interrupted_hooks: BTreeMap::new(),
            claims: ReleasedClaims::new(),
            waits: None,
            failure: Failure::Unexpected,
            refused_step: None,
            refused_deletions: BTreeMap::new(),
            live_changes: BTreeMap::new(),
            has_steps: false,
            remedy: Remedy::None,
            remedied: BTreeMap::new(),
            orphans_dependents: false,
            unrecorded_rollback: None,
            can_fail_later: false,
            waits_for_objects: false,
            does_not_wait: false,
            assumption: None,
        }
    }

    /// Sets what helm-controller does if the action fails. `old` is the manifest before it.
    pub(crate) fn set_remedy(&mut self, state: &State<'_>, spec: &Value, new: &Rendered, old: Option<&Rendered>) {
        self.remedy = Remedy::of(&state.input.helm_controller, spec, self.kind);
        self.remedied = self.remedy.deletions(state, spec, new, old);
        self.orphans_dependents = matches!(self.remedy, Remedy::Uninstall { .. }) && orphans_dependents(spec);
    }

    /// Leaves out of a rollback what the new manifest keeps: it is applied with its policy before the action can fail.
    pub(crate) fn keep_applied(&mut self, new: &Rendered, runs_hooks: bool) {
        let [before, _] = self.kind.events();
        if self.remedy != Remedy::Rollback || (runs_hooks && new.hooks_at([before]).next().is_some()) {
            return;
        }
        let refused = self.refused_step.as_ref().map(|step| &step.id);
        self.remedied.retain(|id, _| !new.is_kept_once_applied(id) || refused == Some(id));
    }

    /// Sets what is expected of the action.
    pub(crate) fn expect(&mut self, Expected { failure, refused_step, refused_deletions, live_changes }: Expected) {
        (self.failure, self.refused_step) = (failure, refused_step);
        (self.refused_deletions, self.live_changes) = (refused_deletions, live_changes);
        if self.is_unrecorded() {
            self.forgo_remedy();
        }
        if self.is_unrecorded() && !self.never_begins() {
            // Nor is a step before the last one recorded.
            self.has_steps = false;
            self.interrupted_hooks.clear();
        }
    }

    /// Returns true if it is certain that the action fails before Helm records it. It is tried again without a remedy.
    pub(crate) fn is_unrecorded(&self) -> bool {
        self.ends_by(Stage::Record)
    }

    /// Returns true if it is certain that the action fails before Helm deletes old records.
    pub(crate) fn never_begins(&self) -> bool {
        self.ends_by(Stage::Prerequisites)
    }

    fn ends_by(&self, stage: Stage) -> bool {
        self.refused_step.as_ref().is_some_and(|step| step.is_final && step.place.stage <= stage)
    }

    /// Returns the step at which the action certainly fails, at an object or before it applies any; `None` if it may be
    /// different in another step.
    fn last_step(&self) -> Option<&RefusedStep> {
        let installs_again = self.remedy == (Remedy::Uninstall { is_retried: true });
        let refused = self.refused_step.as_ref().filter(|step| step.is_final && step.place.stage <= Stage::Objects);
        refused.filter(|_| !self.has_steps && !installs_again)
    }

    /// Returns the object at which the action certainly fails.
    pub(crate) fn refused_object(&self) -> Option<&RefusedStep> {
        self.last_step().filter(|step| step.place.stage == Stage::Objects)
    }

    /// Returns true if it is certain that the action never applies an object of the new manifest.
    pub(crate) fn never_applies(&self, id: &ObjectId) -> bool {
        self.last_step().is_some_and(|step| step.place.stage < Stage::Objects || step.id == *id)
    }

    /// Returns the hook after the objects that the API server refuses, if the action then fails.
    pub(crate) fn failing_hook(&self) -> Option<&RefusedStep> {
        self.refused_step.as_ref().filter(|hook| hook.place.stage > Stage::Objects && !hook.is_ignored)
    }

    /// Returns true if the action may fail after it has deleted objects.
    pub(crate) fn may_fail_later(&self) -> bool {
        self.can_fail_later || self.failing_hook().is_some() || !self.refused_deletions.is_empty()
    }

    /// Returns true if it is certain that the action fails after it has deleted objects.
    pub(crate) fn fails_later(&self) -> bool {
        let is_refused = self.failing_hook().is_some_and(|hook| hook.is_final);
        self.failure == Failure::Unexpected
            && (is_refused || self.refused_deletions.values().any(|refused| refused.is_final))
    }

    /// Returns what is known of the health of the release after the action.
    fn readiness(&self) -> Readiness {
        let always = match &self.failure {
            Failure::Always(_) => true,
            _ => self.fails_later(),
        };
        // An upgrade that is remedied by an uninstall is followed by an install of what it refuses to change.
        let installs_again =
            self.kind == ActionKind::Upgrade && self.remedy == (Remedy::Uninstall { is_retried: true });
        if always && !self.has_steps && !installs_again {
            let deletions =
                self.refused_deletions.iter().filter_map(|(id, refused)| Some((id, refused.message.as_ref()?)));
            let refused = deletions.map(|(id, message)| format!("the API server refuses to delete {id}: {message}"));
            return Readiness::Fails(self.failures().chain(refused).collect::<Vec<_>>().join("; "));
        }
        match self.failure {
            Failure::Unexpected if !self.may_fail_later() => Readiness::Ready,
            _ => Readiness::Open,
        }
    }

    /// Gives up the remedy, which does not run or changes nothing.
    pub(crate) fn forgo_remedy(&mut self) {
        self.remedy = Remedy::None;
        self.remedied.clear();
    }

    /// Returns the hooks that exist after the action.
    pub(crate) fn left_hooks(&self) -> BTreeSet<&ObjectId> {
        let end = self.end();
        self.hooks.iter().filter(|(_, run)| run.is_left(end)).map(|(id, _)| id).collect()
    }

    /// Returns the place where it is certain that the action ends; `None` if it may get to its end.
    fn end(&self) -> Option<StepPlace> {
        let refused = self.refused_step.as_ref();
        match &self.failure {
            Failure::Always(_) => Some(refused.map_or(StepPlace::first(Stage::Objects), |refused| refused.place)),
            _ => refused.filter(|hook| hook.is_final && hook.place.stage > Stage::Objects).map(|hook| hook.place),
        }
    }

    /// Returns true for the identity of a hook that is not an object which the action then deletes.
    pub(crate) fn becomes_hook(&self, id: &ObjectId) -> bool {
        self.hooks.get(id).is_some_and(|run| !run.is_removed)
    }

    /// Describes why the action fails, or may fail.
    pub(crate) fn failures(&self) -> impl Iterator<Item = String> {
        let hook = self.failing_hook().map(|RefusedStep { id, message, .. }| {
            format!("the API server refuses a hook after the {}, as it does now: {id}: {message}", self.kind.word())
        });
        self.failure.describe(self.kind).into_iter().chain(hook)
    }

    /// Adds objects that the release has for a while only, with the condition under which it takes them over.
    pub(crate) fn add_passing(&mut self, passing: impl IntoIterator<Item = ObjectId>, condition: &'static str) {
        for id in passing {
            if self.becomes_hook(&id) {
                continue;
            }
            self.undecided.insert(id.clone(), condition);
            self.removed.insert(id);
        }
    }

    /// Returns true if the action can delete a live object, in whatever way it ends.
    pub(crate) fn can_delete(&self, state: &State<'_>) -> bool {
        let hooks = self.hooks.iter().filter(|(_, run)| run.fate != HookFate::Applied).map(|(id, _)| id);
        let intermediate = self.interrupted.iter().chain(self.interrupted_hooks.keys());
        let objects = self.removed.iter().chain(intermediate).chain(self.claims.keys());
        objects.chain(self.remedied.keys()).chain(hooks).any(|id| state.is_live(id))
    }

    /// Returns the effect on live objects.
    pub(crate) fn effect(&self, state: &State<'_>, release: &ObjectId) -> Effect {
        Effect {
            triggers: state.applying_events(release),
            deletes: self.deletions(state),
            keeps: self.kept(state),
            condition: self.waits.clone(),
            assumption: self.assumption.clone(),
            readiness: self.readiness(),
            ..Effect::default()
        }
    }

    /// Returns what becomes of each live object that the action deletes.
    fn deletions(&self, state: &State<'_>) -> BTreeMap<ObjectId, OwnerDeletion> {
        let (succeeds, has_steps) = (!matches!(self.failure, Failure::Always(_)), self.has_steps);
        let hooks = self.hooks.iter().filter_map(|(id, run)| Some((id, self.hook(state.live_object(id)?, run)?)));
        let between = self.interrupted_hooks.iter().filter(|(id, _)| state.is_live(id));
        let interrupted_hooks = between.filter_map(|(id, fate)| Some((id, self.interrupted_hook(*fate)?)));
        let lacking = self.removed.iter().filter(|id| (succeeds || has_steps) && self.lets_go(state, id));
        let removed = lacking.filter_map(|id| Some((id, self.removed_object(id)?)));
        let passing = self.interrupted.iter().filter(|id| succeeds && self.lets_go(state, id));
        let interrupted = passing.map(|id| (id, self.interrupted_object()));
        let released = self.claims.iter().filter(|(id, _)| succeeds && state.is_live(id));
        let claims = released.map(|(id, condition)| (id, self.claim(condition.as_ref())));
        let remedied = self
            .remedied
            .iter()
            .filter_map(|(id, action)| Some((id, self.remedied_object(state.live_object(id)?, *action)?)));
        let mut deletions = BTreeMap::new();
        let all = hooks.chain(interrupted_hooks).chain(removed).chain(interrupted).chain(claims).chain(remedied);
        for (id, deletion) in all {
            deletions.entry(id.clone()).or_insert(deletion);
        }
        deletions
    }

    /// Returns true if an object that the new manifest lacks exists, and Helm does not keep it.
    fn lets_go(&self, state: &State<'_>, id: &ObjectId) -> bool {
        state.live_object(id).is_some_and(|object| !self.is_kept(object))
    }

    /// Returns the objects that look deletable and stay.
    fn kept(&self, state: &State<'_>) -> BTreeMap<ObjectId, Reason> {
        let live = self.removed.iter().filter_map(|id| state.live_object(id));
        let kept = live.filter_map(|object| {
            let is_protected = self.is_kept(object);
            let reason = match (&self.failure, self.remedy) {
                _ if is_protected => Reason::new(ReasonCode::LeftBehind, format!("protected by {POLICY}: keep")),
                _ if self.is_refused(&object.id) => {
                    let message = self.refused_deletions[&object.id].message.clone();
                    Reason::new(ReasonCode::DeletionRefused, message.unwrap_or_default())
                }
                (Failure::Always(_), _) if self.has_steps => return None,
                (Failure::Always(_), Remedy::Uninstall { .. }) => Reason::new(
                    ReasonCode::LeftBehind,
                    format!("the {} fails, and its remedy forgets the release", self.kind.word()),
                ),
                (Failure::Always(_), _) => Reason::new(ReasonCode::HeldBack, format!("the {} fails", self.kind.word())),
                _ => return None,
            };
            Some((object.id.clone(), reason))
        });
        kept.collect()
    }

    /// Returns a deletion with the conditions that all have in common.
    fn deletion(&self, code: ReasonCode) -> OwnerDeletion {
        let mut deletion = OwnerDeletion::new(CascadeKind::Upgrade);
        deletion.code = Some(code);
        if self.assumption.is_some() {
            deletion.stays_if("it depends on the version of the chart");
        }
        deletion.conditions.extend(self.waits.clone());
        deletion
    }

    /// Adds the condition that the action does not fail before it deletes objects.
    fn add_failure(&self, deletion: &mut OwnerDeletion) {
        let word = self.kind.word();
        match &self.failure {
            Failure::Unexpected => {}
            Failure::Possible(_) => deletion.stays_if(format!("it stays if the {word} fails")),
            Failure::Always(_) if self.has_steps => {
                deletion.stays_if("it stays if the new chart and the new values come at the same time".to_owned());
            }
            Failure::Now(_) | Failure::Always(_) => deletion.stays_if(format!("it stays while the {word} fails")),
        }
    }

    /// Returns true if the API server refuses the deletion of an object, and nothing in the change mends that.
    fn is_refused(&self, id: &ObjectId) -> bool {
        self.refused_deletions.get(id).is_some_and(|refused| refused.is_final)
    }

    /// Adds the condition that the API server no longer refuses the deletion of an object.
    fn add_refusal(&self, deletion: &mut OwnerDeletion, id: &ObjectId) {
        if let Some(RefusedDeletion { condition, .. }) = self.refused_deletions.get(id) {
            deletion.stays_if(condition.clone());
        }
    }

    /// Returns true if Helm keeps a live object that the new manifest lacks.
    fn is_kept(&self, object: &ObjectMetadata) -> bool {
        is_kept_live(object) && !self.loosened.contains(&object.id)
    }

    /// Returns the deletion of an object that the new manifest lacks; `None` if the API server refuses it.
    fn removed_object(&self, id: &ObjectId) -> Option<OwnerDeletion> {
        if self.is_refused(id) {
            return None;
        }
        let mut deletion = self.deletion(ReasonCode::NotInChart);
        self.add_failure(&mut deletion);
        if self.remedy == Remedy::Rollback && self.fails_later() {
            deletion.action = Action::Recreate;
            deletion.remark(format!("the {} then fails, and its rollback creates it again", self.kind.word()));
            deletion.conditions.extend(self.unrecorded_rollback.clone());
        } else if self.remedy == Remedy::Rollback && self.may_fail_later() {
            deletion.stays_if(format!("a rollback creates it again if the {} fails later", self.kind.word()));
        }
        if self.loosened.contains(id) {
            deletion.stays_if("it stays unless an upgrade comes first that no longer keeps it");
        }
        if let Some(condition) = self.undecided.get(id) {
            deletion.stays_if(*condition);
        }
        self.add_refusal(&mut deletion, id);
        Some(doubted(deletion))
    }

    /// Returns the deletion of an object by a hook of an intermediate upgrade; `None` if that deletes nothing.
    fn interrupted_hook(&self, fate: HookFate) -> Option<OwnerDeletion> {
        let mut deletion = self.deletion(ReasonCode::Hook);
        deletion.action = match fate {
            HookFate::Recreated => Action::Recreate,
            HookFate::Deleted | HookFate::DeletedOnFailure => Action::Delete,
            HookFate::Applied => return None,
        };
        deletion.stays_if("it stays unless an upgrade comes first that has this hook");
        Some(doubted(deletion))
    }

    fn interrupted_object(&self) -> OwnerDeletion {
        let mut deletion = self.deletion(ReasonCode::NotInChart);
        self.add_failure(&mut deletion);
        deletion.action = Action::Recreate;
        deletion.stays_if("it stays if the new values come before the new chart, or after it");
        doubted(deletion)
    }

    fn hook(&self, object: &ObjectMetadata, run: &HookRun) -> Option<OwnerDeletion> {
        if self.is_refused(&object.id) {
            return None;
        }
        let fate = match self.end().map(|end| run.until(end)) {
            // Objects that the manifest lacks are deleted as such.
            None if run.is_removed => return None,
            None => run.fate,
            Some(Reached::Runs(fate)) => fate,
            Some(Reached::Stays) => return None,
            Some(Reached::Refused) => return Some(self.refused_replacement()),
        };
        let mut deletion = self.deletion(ReasonCode::Hook);
        self.add_refusal(&mut deletion, &object.id);
        self.add_failures_before(&mut deletion, run);
        match fate {
            HookFate::Recreated => {
                deletion.action = Action::Recreate;
                deletion.remark(format!("each {} deletes it and creates it again", self.kind.word()));
                if is_gone_later(object) {
                    deletion.stays_if(not_replaced(self.does_not_wait, self.kind.field()));
                }
            }
            HookFate::Deleted => {
                deletion.remark("it is deleted once it has succeeded");
                if run.can_fail {
                    deletion.stays_if("it stays if it fails");
                }
            }
            HookFate::DeletedOnFailure => deletion.stays_if("it stays unless it fails"),
            HookFate::Applied => return None,
        }
        Some(doubted(deletion))
    }

    /// Returns the deletion of an object by a hook that is then refused.
    fn refused_replacement(&self) -> OwnerDeletion {
        let mut deletion = self.deletion(ReasonCode::Hook);
        deletion.remark(REPLACEMENT_REFUSED);
        doubted(deletion)
    }

    /// Adds the conditions that the action gets to a hook.
    fn add_failures_before(&self, deletion: &mut OwnerDeletion, run: &HookRun) {
        let word = self.kind.word();
        let refused = self.refused_step.as_ref().filter(|step| !step.is_final);
        if let Some(RefusedStep { id, .. }) = refused.filter(|step| run.is_after(step.place)) {
            deletion.stays_if(format!("it stays while the API server refuses {}", id.shown()));
        } else if refused.is_some_and(|hook| run.is_at(hook.place)) {
            deletion.stays_if("nothing replaces it while the API server refuses the hook");
        } else if !run.is_first() {
            self.add_failure(deletion);
        }
        if !run.is_first() && self.waits_for_objects {
            deletion.stays_if(format!("it stays if the {word} fails because an object does not become ready"));
        }
        if let Some(behind) = &run.behind {
            deletion.stays_if(format!("it stays if the hook {} fails", behind.shown()));
        }
    }

    fn claim(&self, condition: Option<&String>) -> OwnerDeletion {
        let mut deletion = of_released_claim(self.deletion(ReasonCode::ScaledDown), condition);
        self.add_failure(&mut deletion);
        doubted(deletion)
    }

    /// Returns the deletion of an object by the remedy; `None` if the action cannot fail.
    fn remedied_object(&self, object: &ObjectMetadata, action: Action) -> Option<OwnerDeletion> {
        let mut deletion = self.deletion(ReasonCode::Remedied);
        deletion.action = action;
        deletion.orphans_dependents = self.orphans_dependents && Hook::of_live(object).is_none();
        deletion.conditions.extend(self.unrecorded_rollback.clone());
        match &self.failure {
            Failure::Always(_) => {}
            Failure::Unexpected if self.fails_later() => {}
            Failure::Unexpected if !self.may_fail_later() => return None,
            _ => deletion.stays_if(format!("it stays unless the {} fails", self.kind.word())),
        }
        Some(doubted(deletion))
    }
}

/// Returns a deletion that is doubtful if it has a condition.
fn doubted(mut deletion: OwnerDeletion) -> OwnerDeletion {
    deletion.is_doubtful = !deletion.conditions.is_empty();
    deletion
}
