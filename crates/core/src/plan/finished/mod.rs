//! The end of planning. Every plan gets its consequences, its alarms, the mask of Secrets and the verdict of a policy here,
//! in this order. Outputs and plan files take only a finished plan.

mod expiring;
pub mod finalizers;
mod references;
pub(crate) mod volumes;

use std::ops::Deref;

use chrono::{DateTime, Utc};
use serde::Serialize;

use self::expiring::mark_expiring;
use self::finalizers::{FinalizerOwner, add_blocked_by_finalizers, hold_back_recreations};
use self::references::add_references;
use self::volumes::add_volume_outcomes;
use super::limits::{Base, Limits, check_plan, check_preview};
use super::mask::SecretMask;
use super::policy::{Denial, Policy};
use super::{Alarm, Plan, file};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::text::join_limited;

/// Number of objects or owners that a denial names.
const NAMED_SUBJECTS: usize = 5;

/// A plan that nothing changes any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct FinishedPlan(Plan);

impl Deref for FinishedPlan {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.0
    }
}

impl FinishedPlan {
    /// Reads the document of a plan, to show it again: that of `-o json`, or a plan file. Whoever could write it decides
    /// what it says, and nothing else.
    ///
    /// Fails with the reason if the text is no plan of this schema, has a field that this version does not know, or
    /// contradicts itself.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        file::read_document(text).map(Self)
    }
}

#[cfg(any(test, feature = "testing"))]
impl From<Plan> for FinishedPlan {
    fn from(plan: Plan) -> Self {
        Self(plan)
    }
}

/// Program that carries out a plan, with what its limits are checked against.
pub enum Executor<'a> {
    /// This tool.
    Own(Base<'a>),
    /// The controllers of the cluster.
    Controllers(&'a Index<'a>),
}

/// A policy with the name of its file, for messages.
pub struct NamedPolicy<'a> {
    pub policy: &'a Policy,
    pub file: String,
    /// Time of the evaluation, also for a recorded cluster.
    pub now: DateTime<Utc>,
}

/// Cluster, limits and rules that a plan is finished with.
pub struct Finish<'a> {
    pub snapshot: &'a Snapshot,
    /// True if the snapshot was read from a file.
    pub is_recorded: bool,
    pub executor: Executor<'a>,
    pub limits: Limits,
    pub secrets: &'a SecretMask,
    pub policy: Option<NamedPolicy<'a>>,
}

impl<'a> Finish<'a> {
    /// Finishes a plan. `controllers` finds out which controllers are present once the plan is carried out. Also returns
    /// why the policy could not be evaluated, if that is so: the plan is then shown without its verdict.
    pub fn finish<C: FinalizerOwner>(
        self,
        mut plan: Plan,
        controllers: impl FnOnce(&Plan, &'a Snapshot) -> C,
    ) -> (FinishedPlan, Result<(), String>) {
        plan.weigh_gaps(self.snapshot);
        add_volume_outcomes(&mut plan, self.snapshot);
        if let Executor::Controllers(index) = &self.executor {
            add_references(&mut plan, index);
            mark_expiring(&mut plan, self.snapshot);
        }
        let controllers = controllers(&plan, self.snapshot);
        add_blocked_by_finalizers(&mut plan, self.snapshot, &controllers);
        hold_back_recreations(&mut plan, self.snapshot, &controllers);
        plan = plan.recorded_at(self.is_recorded.then_some(self.snapshot.taken));
        plan.set_alarms(match self.executor {
            Executor::Own(base) => check_plan(&plan, base, &self.limits),
            Executor::Controllers(index) => check_preview(&plan, index, &self.limits),
        });
        // A rule reads the names that are shown, so that its message holds no value of a Secret.
        plan.mask_secrets(self.secrets);
        let judged = self.policy.map_or(Ok(()), |policy| policy.judge(&mut plan, self.snapshot));
        (FinishedPlan(plan), judged)
    }
}

impl NamedPolicy<'_> {
    /// Adds the rules that deny the plan to its alarms.
    fn judge(&self, plan: &mut Plan, snapshot: &Snapshot) -> Result<(), String> {
        let denials = self.policy.check(plan, snapshot, self.now)?;
        plan.add_alarms(denials.iter().map(|denial| Alarm::denied(describe(denial), self.file.clone())));
        Ok(())
    }
}

fn describe(denial: &Denial) -> String {
    let message: Vec<&str> = denial.message.split_whitespace().collect();
    let text = format!("denied by rule {:?}: {}", denial.rule, message.join(" "));
    if denial.subjects.is_empty() {
        return text;
    }
    format!("{text}: {}", join_limited(&denial.subjects, NAMED_SUBJECTS))
}
