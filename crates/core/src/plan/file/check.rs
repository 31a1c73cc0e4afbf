//! Reasons to refuse a plan file that the file alone shows. Nothing is read from a cluster for them.

use std::collections::{BTreeSet, HashSet};

use chrono::{DateTime, TimeDelta, Utc};

use super::{ConnectionPin, ExecutionPins, PlanFile};
use crate::kubernetes::snapshot::ClusterIdentity;
use crate::plan::grave::is_protected_namespace;
use crate::plan::{Action, Actor, Change, PinnedObject};
use crate::text::pluralize;

/// Accepted difference between the clocks of two machines.
const CLOCK_SKEW: TimeDelta = TimeDelta::minutes(5);

/// Reason to refuse a plan file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The execution of this plan is not up to this tool.
    NotExecutable(String),
    /// A new plan is needed.
    Outdated(String),
    /// Something was not read; the user may accept that.
    Incomplete(String),
}

fn not_executable<T>(why: String) -> Result<T, Refusal> {
    Err(Refusal::NotExecutable(why))
}

fn outdated<T>(why: String) -> Result<T, Refusal> {
    Err(Refusal::Outdated(why))
}

impl PlanFile {
    /// Returns the pins of a plan that may be executed now by `command`.
    pub fn check(
        &self,
        command: &str,
        now: DateTime<Utc>,
        max_age: Option<TimeDelta>,
        allow_incomplete: bool,
    ) -> Result<&ExecutionPins, Refusal> {
        if let Some(taken) = self.plan.recorded() {
            return not_executable(format!("it was made from a recording of {taken}, not from a live cluster"));
        }
        if self.plan.roots().any(|change| change.by != Actor::KubectlGitops) || self.execution.is_none() {
            return not_executable("it is the plan of a working tree, whose controller executes it".to_owned());
        }
        let Some(pins) = &self.execution else { return not_executable("it has no pins".to_owned()) };
        if pins.command != command {
            return not_executable(format!("it was made by `{}`, not by `{command}`", pins.command));
        }
        if let Some(why) = self.impossible_row(pins) {
            return not_executable(why);
        }
        pins.check_age(now, max_age)?;
        if !self.plan.is_complete() && !allow_incomplete {
            let gaps = pluralize(self.plan.counting_gaps().count(), "thing");
            return Err(Refusal::Incomplete(format!("it is incomplete: {gaps} could not be read")));
        }
        Ok(pins)
    }

    /// Describes the first row that no plan of this tool has.
    fn impossible_row(&self, pins: &ExecutionPins) -> Option<String> {
        let roots: BTreeSet<&PinnedObject> = self.plan.roots().map(|change| &change.object).collect();
        let steps: BTreeSet<&PinnedObject> = pins.steps.iter().map(|step| &step.object).collect();
        if roots != steps || steps.len() != pins.steps.len() {
            return Some("its steps do not agree with its changes".to_owned());
        }
        let ids: HashSet<_> = self.plan.deletions().map(|change| &change.object.id).collect();
        let impossible = self.plan.deletions().find(|Change { action, object, cause, .. }| {
            let has_cause = cause.as_ref().is_none_or(|cause| ids.contains(cause) && *cause != object.id);
            *action != Action::Delete || is_protected_namespace(&object.id) || !has_cause
        })?;
        Some(format!("it deletes {}, which no plan of this program does", impossible.object.id))
    }
}

impl ExecutionPins {
    fn check_age(&self, now: DateTime<Utc>, max_age: Option<TimeDelta>) -> Result<(), Refusal> {
        if self.created > now + CLOCK_SKEW {
            return outdated(format!("it was made in the future, at {}", self.created));
        }
        let expires = max_age.map_or(self.expires, |max_age| self.expires.min(self.created + max_age));
        if expires <= self.created || now >= expires {
            return outdated(format!("it expired at {expires}"));
        }
        Ok(())
    }
}

impl PlanFile {
    /// Fails if the plan was made for another cluster.
    pub fn check_cluster(&self, cluster: &ClusterIdentity, connection: &ConnectionPin) -> Result<(), Refusal> {
        let pinned = self.execution.as_ref().map_or("", |pins| &pins.connection.certificate_authority);
        let (planned, server) = (self.plan.cluster(), &self.plan.cluster().server);
        if planned.uid != cluster.uid || cluster.uid.is_empty() {
            return outdated(format!("it was made for another cluster ({server})"));
        }
        if !pinned.is_empty() && pinned != connection.certificate_authority {
            let why = format!("the certificate authority of {} is not the one of the plan ({server})", cluster.server);
            return outdated(why);
        }
        Ok(())
    }
}
