//! The Secret in which Helm records an action before it changes anything: what keeps the API server from storing it.
//! The action is then tried again without an end, and does nothing.
//!
//! Source: Helm v4.2.2 `pkg/action/upgrade.go` (`performUpgrade`), `pkg/action/install.go` and
//! `pkg/action/rollback.go`, which create it by `pkg/storage/storage.go` (`Create`): that first deletes the oldest
//! records. An uninstall only changes records.

use std::collections::{BTreeMap, BTreeSet};

use super::failure::{Attempt, Recording, no_namespace};
use super::hook_runs::{RefusedStep, Stage, StepPlace};
use super::records::{read_records, removed_first};
use super::remedies::Remedy;
use crate::flux::apply::cause::Cause;
use crate::flux::apply::dry_run::is_freed_by_deletion;
use crate::flux::apply::question::Question;
use crate::flux::simulation::model::node::Pass;
use crate::flux::simulation::model::questions::Verdict;
use crate::flux::simulation::owners::behaviour::comparison::Comparison;
use crate::flux::simulation::owners::behaviour::quotas::{QuotaLimit, quota_limits};
use crate::helm::target::ReleaseTarget;
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::flux_helmrelease::{GROUP, KIND};

/// Names of the number of Secrets in a quota.
const COUNTS: [&str; 2] = ["count/secrets", "secrets"];

impl Attempt<'_> {
    /// Returns what becomes of the Secret in which Helm records the action.
    pub(super) fn recording(&self, comparison: &mut Comparison<'_, '_, '_>) -> Recording {
        let (state, id) = (comparison.state(), self.record(comparison));
        let namespace = id.namespace_object();
        if state.is_absent(&namespace) {
            let place = StepPlace::first(Stage::Record);
            let message = no_namespace(&id);
            return if self.is_made_by_others(comparison, &namespace) {
                Recording::Stored
            } else {
                Recording::Refused(RefusedStep { id, place, message, is_final: true, is_ignored: false })
            };
        }
        if comparison.derivation.consequences.may_be_deleted(&namespace) {
            let why =
                format!("the namespace {}, in which Helm records the release, is deleted by then", namespace.name);
            return Recording::Doubtful(why);
        }
        // A name with values of Secrets would be in logs.
        let is_asked = state.is_live(&namespace) && !state.is_private(self.id);
        let question = is_asked.then(|| Question::of_record(self.id, self.spec, &id));
        let message = match question.map(|question| comparison.derivation.ask_with_doubt(question)) {
            Some((Verdict::Refused(message), _)) => message,
            Some((_, Some(doubt))) => return Recording::Doubtful(doubt.to_string()),
            _ => return self.room(comparison, &id),
        };
        if Cause::of(&message) == Cause::Quota {
            if self.has_room_in_the_end(comparison, &id) {
                return Recording::Stored;
            }
            if self.removed_first(comparison) > 0 && is_freed_by_deletion(&message) {
                // The quota counts a deleted Secret for a while.
                return Recording::Doubtful(format!("it does not get the room of Helm's oldest record: {message}"));
            }
        }
        let is_final = !self.may_be_mended(comparison, &id, &message);
        let place = StepPlace::first(Stage::Record);
        Recording::Refused(RefusedStep { id, place, message, is_final, is_ignored: false })
    }

    /// Returns the Secret in which Helm records the action, under a name that none has.
    pub(super) fn record(&self, comparison: &Comparison<'_, '_, '_>) -> ObjectId {
        let in_place = |id: ObjectId| id.in_cluster(self.place.cluster.as_ref());
        let target = &self.place.target;
        let revisions = (self.revision..).map(|revision| in_place(target.record(revision)));
        let mut unused = revisions.filter(|id| !comparison.state().is_live(id));
        unused.next().expect("there are more numbers than Secrets")
    }

    /// Returns true if something else than the objects of the release creates a namespace.
    fn is_made_by_others(&self, comparison: &Comparison<'_, '_, '_>, namespace: &ObjectId) -> bool {
        let mut others = comparison.state().owner_applies().filter(|(owner, _)| *owner != self.id);
        self.creates_first(namespace) || others.any(|(_, applies)| applies.objects.contains_key(namespace))
    }

    /// Returns whether the quotas leave room for the records of all steps, as far as they are known.
    fn room(&self, comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId) -> Recording {
        let name = self.full_quota(comparison, id, self.steps);
        name.map_or(Recording::Stored, |name| {
            Recording::Doubtful(format!("the quota {name} has no room by then for the Secret in which Helm records it"))
        })
    }

    /// Returns the name of a quota that may not have room for a number of records while the change is carried out.
    fn full_quota(&self, comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, records: usize) -> Option<String> {
        let wanted = records as f64 + self.other_secrets(comparison, id) as f64 - self.replaced_records(id) as f64;
        let mut limits = secret_limits(comparison, id).into_iter();
        limits.find(|limit| limit.used.is_some_and(|used| used + wanted > limit.least)).map(|limit| limit.name)
    }

    /// Returns true if quotas that have no room now certainly have some once the action is tried again: the change
    /// raises or deletes them, or deletes the records of the release that is replaced.
    fn has_room_in_the_end(&self, comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId) -> bool {
        let wanted = (self.steps + self.other_secrets(comparison, id)) as f64 - self.replaced_records(id) as f64;
        let limits = secret_limits(comparison, id);
        !limits.is_empty()
            && limits.iter().all(|limit| limit.used.zip(limit.last).is_some_and(|(used, last)| used + wanted <= last))
    }

    /// Returns why Helm may not be able to record a rollback after the action, as a condition for people.
    pub(crate) fn unrecorded_rollback(
        &self,
        comparison: &mut Comparison<'_, '_, '_>,
        remedy: Remedy,
    ) -> Option<String> {
        let id = Some(self.record(comparison)).filter(|_| remedy == Remedy::Rollback)?;
        let name = self.full_quota(comparison, &id, self.steps + 1)?;
        Some(format!("no rollback happens if the quota {name} has no room for the Secret in which Helm records it"))
    }

    /// Returns the number of Secrets in the namespace of a record that are deleted before the action begins.
    fn replaced_records(&self, id: &ObjectId) -> usize {
        self.gone.iter().filter(|gone| gone.is("", "Secret") && gone.namespace == id.namespace).count()
    }

    /// Returns the number of old records that Helm deletes before it creates the new one.
    fn removed_first(&self, comparison: &mut Comparison<'_, '_, '_>) -> usize {
        let state = comparison.state();
        let live = state.input.snapshot.resource(self.id).filter(|_| self.old.is_some());
        live.map_or(0, |live| {
            let records = read_records(comparison, live).and_then(Result::ok);
            removed_first(state, live, self.spec, records.as_ref())
        })
    }

    /// Returns the number of Secrets that others create in the namespace of a record: new objects, and records of other
    /// releases.
    fn other_secrets(&self, comparison: &Comparison<'_, '_, '_>, id: &ObjectId) -> usize {
        let state = comparison.state();
        let is_there = |other: &&ObjectId| {
            other.is("", "Secret") && (&other.namespace, &other.cluster) == (&id.namespace, &id.cluster)
        };
        let passes = state.nodes.iter().flat_map(|node| &node.passes).filter_map(Pass::applied_objects);
        let others = || state.owner_applies().filter(|(owner, _)| *owner != self.id);
        let by_others = others().flat_map(|(_, applies)| applies.steps());
        let applied = passes.chain(by_others).flat_map(BTreeMap::keys).filter(is_there);
        let new: BTreeSet<&ObjectId> = applied.filter(|other| !state.is_live(other)).collect();
        let releases = others().map(|(owner, _)| owner).filter(|owner| owner.is(GROUP, KIND));
        let records = releases.filter(|release| {
            let specs = state.specs_after(release);
            specs.iter().any(|spec| ReleaseTarget::of_spec(release, spec, None).storage_namespace == *id.namespace)
        });
        new.len() + records.count()
    }
}

/// Returns the limits of the number of Secrets in the namespace of one, as far as they are known.
fn secret_limits<'r>(comparison: &mut Comparison<'_, 'r, '_>, id: &ObjectId) -> Vec<QuotaLimit<'r>> {
    quota_limits(comparison, id, &COUNTS.map(str::to_owned))
}
