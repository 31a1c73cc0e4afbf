//! Dry-runs of a preview: the changes that controllers would send and that the API server is asked about, and what follows
//! from its answers.
//!
//! A refusal changes the plan, and a changed plan can have other changes to ask about. So the plan is made again until there
//! is no new question.
//!
//! Only what changes is asked about: an object with the manifest of the last applied revision is left out, if that
//! revision was built again, the controller applied it without an error, and nothing since then lets the server answer
//! otherwise.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::dry_run::DryRuns;
use super::premises::applied_builds::AppliedBuilds;
use super::premises::asked_change::AskedChange;
use super::premises::{Premises, live_parameters};
use super::rows::owner_rows::manifest_diffs;
use super::rows::references::add_built_referrers;
use crate::flux::apply::AppliedObject;
use crate::flux::apply::admission::{ADMISSION, ParameterRef};
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::question::{DryRunAnswer, Question, QuestionKey, Request};
use crate::flux::apply::rights::RBAC;
use crate::flux::build::objects::{BuiltObject, defined_kind};
use crate::flux::kustomize_controller;
use crate::flux::simulation::kustomization::dependencies::health::AwaitedHealth;
use crate::flux::simulation::model::input::DryRunScope;
use crate::flux::simulation::model::node::NodeId;
use crate::flux::simulation::model::questions::{Answers, FinishedPreview, Needs, Progress};
use crate::flux::simulation::model::refusals::{DeletionRefusal, Standing};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::rows::applied_objects::{
    applied_ids, applied_objects_if, interrupted_objects, last_runs, runs_before_suspension,
};
use crate::flux::simulation::rows::secret_names::secret_mask;
use crate::flux::simulation::rows::token_rows::add_token_outcomes;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::deletion::namespaces::always_refused;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata, list_at};
use crate::plan::contradictions::say_what_blocked_owners_delete;
use crate::plan::{Actor, Plan, ReasonCode};

/// Maximum number of times that the plan is made again with new answers.
const MAX_ROUNDS: usize = 8;

/// Result of comparing answers with what a plan changes.
pub(super) enum Reconsidered {
    /// The answers hold in this plan.
    Confirmed,
    /// Some of them end, so that the plan must be made again.
    Changed,
    /// These are needed to tell.
    Needs(Box<Needs>),
}

/// Dry-runs of one preview so far.
#[derive(Default)]
pub(super) struct Rehearsal {
    keys: HashSet<QuestionKey>,
    /// Changes by Kustomizations, in the order in which refusals count.
    asked: Vec<AskedChange>,
    /// Plan that raised the last questions.
    plan: Option<Plan>,
    /// The last questions are also about other owners than Kustomizations.
    asks_of_owners: bool,
    rounds: usize,
    /// Each answer led to another plan, and there are further questions.
    is_endless: bool,
    /// Builds to compare with; `None` until the first plan.
    builds: Option<AppliedBuilds>,
}

/// Adds to the state the objects whose health may change, as their manifests tell: without dry-runs, nothing is asked. Returns true if
/// there are new ones.
pub(super) fn take_changed_health(state: &mut State<'_>, answers: &Answers) -> bool {
    if state.input.dry_runs.is_some() {
        return false;
    }
    let awaited = AwaitedHealth::find(state);
    let appliers = awaited.appliers(state);
    if appliers.is_empty() {
        return false;
    }
    let builds = AppliedBuilds::of(state, &answers.builds, |key| appliers.contains(key));
    let changed = applied_objects_if(state, |owner, _, built| {
        let before = builds.value(owner, built, "/spec");
        awaited.concerns(owner, &built.id) && before.is_some_and(|before| *before != built.manifest["spec"])
    });
    let known = state.changed_health.len();
    state.changed_health.extend(changed.into_iter().map(|object| (object.owner, object.id)));
    state.changed_health.len() > known
}

/// Adds to the state the deletions of a plan that every API server refuses: without dry-runs, nothing is asked. Returns true if
/// there are new ones.
pub(super) fn take_refused_deletions(state: &mut State<'_>, plan: &Plan) -> bool {
    if state.input.dry_runs.is_some() {
        return false;
    }
    let refused = planned_deletions(state, plan).into_iter().filter_map(|question| {
        let message = always_refused(&question.id)?.to_owned();
        let (owner, account) = (NamespacedName::of(&question.owner), question.service_account);
        Some(DeletionRefusal { owner, account, id: question.id, message })
    });
    let new: BTreeSet<_> = refused.filter(|refusal| !state.deletion_refusals.contains(refusal)).collect();
    let is_changed = !new.is_empty();
    state.deletion_refusals.extend(new);
    is_changed
}

impl Rehearsal {
    /// Takes in the answers to the last questions. Returns the plan that raised them if they do not change it, and `None` if
    /// the plan must be made again.
    pub(super) fn confirmed_plan(
        &mut self,
        state: &mut State<'_>,
        of_owners: &[Question],
        answers: &Answers,
    ) -> Option<Plan> {
        let plan = self.plan.take()?;
        let is_changed = self.take_answers(state, answers)
            || !matches!(self.reconsider(state, &plan, of_owners, answers), Reconsidered::Confirmed);
        Some(plan).filter(|_| !is_changed && !self.asks_of_owners)
    }

    /// Compares the answers so far with what a plan changes, which can end some of them. `of_owners` are the questions
    /// about other owners than Kustomizations.
    pub(super) fn reconsider(
        &mut self,
        state: &mut State<'_>,
        plan: &Plan,
        of_owners: &[Question],
        answers: &Answers,
    ) -> Reconsidered {
        let has_answers = !self.asked.is_empty() || !of_owners.is_empty();
        let Some(builds) = self.builds.as_ref().filter(|_| has_answers) else {
            return Reconsidered::Confirmed;
        };
        let premises = Premises::new(state, builds, plan, &self.asked, answers);
        let standings: Vec<Standing> = self.asked.iter().map(|asked| premises.standing(asked)).collect();
        let mut doubts = premises.owner_doubts(of_owners);
        let mut needs = premises.into_needs();
        needs.dry_runs.retain(|question| !self.keys.contains(question.key()));
        if !needs.builds.is_empty() || !needs.dry_runs.is_empty() {
            return Reconsidered::Needs(Box::new(needs));
        }
        let mut is_raised = false;
        for (asked, standing) in self.asked.iter_mut().zip(standings) {
            // What has become possible stays so.
            if asked.standing.is_below(&standing) {
                (asked.standing, is_raised) = (standing, true);
            }
        }
        // A condition that is known stays.
        doubts.extend(state.owner_doubts.iter().map(|(key, doubt)| (key.clone(), Arc::clone(doubt))));
        let is_doubted = doubts != *state.owner_doubts;
        state.owner_doubts = Arc::new(doubts);
        let is_changed = is_raised && self.take_answers(state, answers);
        if is_changed || is_doubted { Reconsidered::Changed } else { Reconsidered::Confirmed }
    }

    /// Remembers the questions that are asked now, which are asked once.
    pub(super) fn ask(&mut self, questions: &[Question]) {
        self.keys.extend(questions.iter().map(|question| question.key().clone()));
    }

    /// Writes what follows from the answers so far to the state. Returns true if it is something else than before.
    fn take_answers(&self, state: &mut State<'_>, answers: &Answers) -> bool {
        let DryRuns { refusals, refused_deletions, delays, forced, mut changed, .. } =
            DryRuns::collect(&self.asked, answers);
        let awaited = AwaitedHealth::find(state);
        changed.retain(|(owner, id)| awaited.concerns(owner, id));
        let is_changed = refusals != state.refusals
            || refused_deletions != state.deletion_refusals
            || delays != state.delays
            || forced != state.forced
            || changed != state.changed_health;
        (state.refusals, state.deletion_refusals) = (refusals, refused_deletions);
        (state.delays, state.forced, state.changed_health) = (delays, forced, changed);
        is_changed
    }

    /// Returns the questions that a plan raises, with `of_owners` about other owners than Kustomizations, or the finished
    /// preview if there is no new one.
    pub(super) fn rehearse(
        &mut self,
        state: &State<'_>,
        plan: Plan,
        of_owners: Vec<Question>,
        answers: &Answers,
    ) -> Progress<Box<FinishedPreview>> {
        let dry_runs = self.new_questions(state, &plan, of_owners, answers);
        self.is_endless = !dry_runs.is_empty() && self.rounds == MAX_ROUNDS;
        if dry_runs.is_empty() || self.is_endless {
            return Progress::Done(self.finish(state, plan, answers));
        }
        self.asks_of_owners = dry_runs.iter().any(|question| !question.is_of_kustomization());
        self.rounds += 1;
        self.plan = Some(plan);
        Progress::Needs(Box::new(Needs { dry_runs, ..Needs::default() }))
    }

    /// Returns the plan with the answers of the API server.
    pub(super) fn finish(&self, state: &State<'_>, mut plan: Plan, answers: &Answers) -> Box<FinishedPreview> {
        let secrets = secret_mask(state);
        add_built_referrers(state, &mut plan);
        if let Some(scope) = &state.input.dry_runs {
            plan = self.with_answers(state, plan, answers, scope);
        } else {
            plan.set_without_dry_runs();
        }
        add_token_outcomes(state, &mut plan);
        say_what_blocked_owners_delete(&mut plan);
        Box::new(FinishedPreview { plan, secrets })
    }

    fn with_answers(&self, state: &State<'_>, plan: Plan, answers: &Answers, scope: &DryRunScope) -> Plan {
        let mut dry_runs = DryRuns::collect(&self.asked, answers);
        dry_runs.retain_last_runs(&last_runs(state), &runs_before_suspension(state));
        if self.is_endless {
            dry_runs.add_endless();
        }
        let not_compared = dry_runs.not_compared();
        let mut plan = dry_runs.add_to(plan, state.input.snapshot, &applied_ids(state), scope.compares_all);
        if scope.compares_all {
            plan.add_diffs(manifest_diffs(state, &plan));
        }
        plan.set_not_compared(not_compared);
        plan
    }

    /// Returns the changes of a plan that the API server was not asked about yet.
    fn new_questions(
        &mut self,
        state: &State<'_>,
        plan: &Plan,
        of_owners: Vec<Question>,
        answers: &Answers,
    ) -> Vec<Question> {
        let Some(scope) = &state.input.dry_runs else { return vec![] };
        let builds = match self.builds.take() {
            Some(builds) => builds,
            None if scope.compares_all => AppliedBuilds::default(),
            None => AppliedBuilds::of(state, &answers.builds, |_| true),
        };
        let parameters = live_parameters(state, &builds, answers);
        let changed = changed_objects(state, &builds, &parameters).into_iter();
        let mut questions: Vec<Question> =
            changed.map(|applied| Question::of_apply(applied, &state.input.flags)).collect();
        questions.extend(planned_deletions(state, plan));
        questions = questions.into_iter().map(|question| state.with_privacy(question)).collect();
        questions.extend(of_owners);
        // What was asked before it was known that the object is private is asked again.
        self.asked
            .retain(|asked| asked.question.hides_live_content() || !state.live_may_hold_secrets(&asked.question.id));
        self.builds = Some(builds);
        questions.retain(|question| self.keys.insert(question.key().clone()));
        let (secrets, mut needed) = (secret_mask(state), vec![]);
        for question in questions {
            // The name of a hidden object would be in the URL of a DELETE, and so in logs.
            let is_hidden = matches!(question.request, Request::Delete) && secrets.hides(&question.id);
            let cluster = question.id.cluster.as_ref();
            let is_unread = cluster.is_some_and(|cluster| scope.unread.contains(cluster)) && !is_hidden;
            if !question.is_of_kustomization() {
                needed.extend(Some(question).filter(|_| !is_unread && !is_hidden));
                continue;
            }
            let mut known = None;
            if let Request::ApplyBuilt(applied) = &question.request {
                known = DryRunResult::without_request(applied, state.input.snapshot);
            }
            if known.is_none() && (is_hidden || is_unread) {
                known = Some(DryRunResult::Accepted);
            }
            if known.is_none() {
                needed.push(question.clone());
            }
            self.asked.push(AskedChange {
                question,
                known: known.map(DryRunAnswer::Result),
                is_hidden,
                is_unread,
                standing: Standing::default(),
            });
        }
        needed
    }
}

/// Status of a run that applied everything.
const SUCCEEDED: &str = "ReconciliationSucceeded";

/// Rules of the API server that the change touches, after which it can refuse an object that does not change.
#[derive(Default)]
struct TouchedRules {
    /// Kinds whose definition changes.
    kinds: BTreeSet<GroupKind>,
    /// Namespaces that are applied anew or with another manifest.
    namespaces: BTreeSet<ObjectId>,
    admission: bool,
    rights: bool,
}

impl TouchedRules {
    /// Collects the rules that Kustomizations apply anew or with another manifest, and the rights that they delete.
    /// Parameters of admission policies count as these do.
    fn new(state: &State<'_>, applied: &AppliedBuilds, parameters: &[ParameterRef]) -> Self {
        let is_parameter = |id: &ObjectId| parameters.iter().any(|parameters| parameters.may_be(id, None));
        let mut touched = Self::default();
        for node in state.nodes.iter() {
            let key = &node.id.key;
            for pass in &node.passes {
                let objects = pass.applied_objects().into_iter().flat_map(BTreeMap::values);
                for built in objects.filter(|built| !applied.contains(key, &pass.spec, built)) {
                    touched.kinds.extend(defined_kind(built).map(|(kind, _)| kind));
                    touched.namespaces.extend(Some(built.id.clone()).filter(|id| id.is("", "Namespace")));
                    touched.admission |= &*built.id.group == ADMISSION || is_parameter(&built.id);
                    touched.rights |= &*built.id.group == RBAC;
                }
                touched.rights |= node.inventory.iter().any(|id| &*id.group == RBAC && pass.prunes(id));
                touched.admission |= node.inventory.iter().any(|id| is_parameter(id) && pass.prunes(id));
            }
            touched.rights |= node.deletion.is_some() && node.inventory.iter().any(|id| &*id.group == RBAC);
        }
        touched
    }

    /// Returns true if the rules can concern an object of a Kustomization with a spec.
    fn concern(&self, state: &State<'_>, spec: &KustomizationSpec, id: &ObjectId) -> bool {
        self.admission
            || (self.rights && state.input.flags.service_account(spec).is_some())
            || self.kinds.contains(&id.group_kind())
            || (!self.namespaces.is_empty() && self.namespaces.contains(&id.namespace_object()))
    }
}

/// Times of the last live changes of rules: since then, the server may refuse what it accepted before.
struct NewestRules {
    admission: Option<DateTime<Utc>>,
    rights: Option<DateTime<Utc>>,
}

impl NewestRules {
    fn new(state: &State<'_>) -> Self {
        let mut newest = Self { admission: None, rights: None };
        for object in &state.input.snapshot.objects {
            let id = &object.id;
            if &*id.group == ADMISSION || id.is("", "ResourceQuota") || id.is("", "LimitRange") {
                newest.admission = newest.admission.max(changed(object));
            } else if &*id.group == RBAC {
                newest.rights = newest.rights.max(changed(object));
            }
        }
        newest
    }

    /// Returns true if a rule that can concern an object of a Kustomization with a spec has changed since a time.
    fn are_after(&self, since: DateTime<Utc>, state: &State<'_>, spec: &KustomizationSpec, id: &ObjectId) -> bool {
        let definition = state.input.snapshot.type_of(id).and_then(|kind| state.live_object(&kind.definition()));
        self.admission >= Some(since)
            || (self.rights >= Some(since) && state.input.flags.service_account(spec).is_some())
            || definition.and_then(changed) >= Some(since)
    }
}

/// Returns the time of the last change of an object.
fn changed(object: &ObjectMetadata) -> Option<DateTime<Utc>> {
    object.last_change.as_ref().map(|last| last.time).or(object.creation_timestamp)
}

/// Returns the objects that a Kustomization applies in one of its passes and that are new or have another manifest than
/// in the last applied revision, and those that it may only delete by force.
fn changed_objects(state: &State<'_>, applied: &AppliedBuilds, parameters: &[ParameterRef]) -> Vec<AppliedObject> {
    let newest = NewestRules::new(state);
    let touched = TouchedRules::new(state, applied, parameters);
    let is_changed = |owner: &NamespacedName, spec: &KustomizationSpec, built: &BuiltObject| {
        !is_listed(state, owner, &built.id)
            || !applied.contains(owner, spec, built)
            || touched.concern(state, spec, &built.id)
            || is_failing(state, owner)
            || last_success(state, owner).is_some_and(|last| {
                newest.are_after(last, state, spec, &built.id) || has_drifted(state, &built.id, last)
            })
    };
    let mut objects = applied_objects_if(state, is_changed);
    let interrupted = interrupted_objects(state).into_iter();
    objects.extend(interrupted.filter(|object| is_changed(&object.owner, &object.spec, &object.built)));
    objects
}

/// Returns true if a Kustomization is not ready, or its newest run failed: any object can be what it fails at. While it
/// tries again, its condition does not say so.
fn is_failing(state: &State<'_>, owner: &NamespacedName) -> bool {
    let newest = state.live.get(owner).and_then(|live| live.at("/status/history/0/lastReconciledStatus"));
    !state.is_ready(owner) || newest.is_some_and(|status| status != SUCCEEDED)
}

/// Returns the time at which the controller applied a Kustomization last, if it records that.
fn last_success(state: &State<'_>, owner: &NamespacedName) -> Option<DateTime<Utc>> {
    let runs = list_at(&state.live.get(owner)?.content, "/status/history").iter();
    let mut times = runs.filter(|run| run["lastReconciledStatus"] == SUCCEEDED);
    let time = times.next()?["lastReconciled"].as_str()?;
    DateTime::parse_from_rfc3339(time).ok().map(|time| time.to_utc())
}

/// Returns true if another manager has changed an object since a time: the controller changes it back.
fn has_drifted(state: &State<'_>, id: &ObjectId, since: DateTime<Utc>) -> bool {
    state
        .live_object(id)
        .and_then(|live| live.last_change.as_ref())
        .is_some_and(|last| last.time >= since && !(last.applies && &*last.manager == kustomize_controller::NAME))
}

/// Returns true if an object is live and in the inventory of a Kustomization.
fn is_listed(state: &State<'_>, owner: &NamespacedName, id: &ObjectId) -> bool {
    let owner = state.node(&NodeId::live(owner));
    state.is_live(id) && owner.is_some_and(|node| node.inventory.contains(id))
}

/// Returns the deletions of a plan of this preview that kustomize-controller sends.
fn planned_deletions(state: &State<'_>, plan: &Plan) -> Vec<Question> {
    let mut deletions = vec![];
    let of_controller = plan.deletions().filter(|change| change.by == Actor::KustomizeController);
    // A dry-run of what replaces an object has asked about its deletion too.
    for change in of_controller.filter(|change| change.reason.code != ReasonCode::Forced) {
        let object = state.live_object(&change.object.id);
        let Some((object, owner)) = object.zip(change.owner.as_ref()) else { continue };
        let key = NamespacedName { namespace: owner.namespace.clone(), name: owner.name.clone() };
        let live = state.live.get(&key).map(|live| KustomizationSpec::of(live));
        let last = state.last_pass(&key);
        // A finalizer acts with the live spec.
        let spec = match change.cause {
            Some(_) => live.or_else(|| last.map(|pass| pass.spec.clone())),
            None => last.map(|pass| pass.spec.clone()).or(live),
        };
        let passes = state.lifetimes(&key).flat_map(|node| &node.passes);
        let pruning = passes.filter(|pass| pass.prunes(&object.id)).map(|pass| pass.spec.clone());
        // Runs with the same service account ask the same question.
        let specs = spec.into_iter().chain(pruning);
        deletions.extend(specs.map(|spec| Question::of_deletion(&key, &spec, &object.id, &state.input.flags)));
    }
    deletions
}
