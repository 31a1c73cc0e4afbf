//! `--policy FILE`: rules that deny a plan, before it is written to a file or executed.

use std::path::Path;

use chrono::Utc;

use super::args::ExecutionArgs;
use crate::error::{Error, Result};
use crate::output::plan::remedy;
use crate::output::sanitize;
use crate::tools::{files, limits};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::plan::Plan;
use gitops_core::plan::alarm::{Alarm, AlarmCode};
use gitops_core::plan::policy::{Denial, Policy};
use gitops_core::text::join_limited;

/// Number of objects or owners that a denial names.
const NAMED_SUBJECTS: usize = 5;

/// Policy of a command, with the name of its file.
pub(super) struct PolicyFile<'a> {
    path: &'a Path,
    policy: Policy,
}

impl<'a> PolicyFile<'a> {
    /// Reads the file of `--policy`, if there is one.
    ///
    /// # Errors
    /// If the file cannot be read, is too large, or does not parse.
    pub(super) fn read(args: &'a ExecutionArgs) -> Result<Option<Self>> {
        let Some(path) = args.policy.as_deref() else { return Ok(None) };
        let failed = |why: String| Error::usage(format!("cannot use --policy {}: {why}", path.display()));
        let text = files::read_named_text(path, limits::MAX_FILE).map_err(|error| failed(error.to_string()))?;
        let policy = Policy::parse(&text).map_err(|why| {
            failed(sanitize::one_line(&why).into_owned())
                .hint("a rule has `name`, `deny` (CEL), `message`, and `each: changes` or `each: owners`")
        })?;
        Ok(Some(Self { path, policy }))
    }

    /// Evaluates the rules, and adds those that deny the plan to its alarms. The variable `now` is the time of the
    /// evaluation, also for a recorded cluster.
    ///
    /// # Errors
    /// If a rule cannot be evaluated (exit 1).
    pub(super) fn judge(&self, plan: &mut Plan, snapshot: &Snapshot) -> Result<()> {
        let path = self.path.display();
        let denials = self.policy.check(plan, snapshot, Utc::now()).map_err(|why| {
            Error::failed(format!("policy {path}: {}", sanitize::one_line(&why)))
                .hint("test for a field that can be absent or null, as in `change.owner != null`")
        })?;
        plan.add_alarms(denials.iter().map(|denial| Alarm::denied(describe(denial), path.to_string())));
        Ok(())
    }
}

/// Refuses a plan that a rule denies (exit 6).
pub(super) fn ensure_not_denied(plan: &Plan) -> Result<()> {
    let denials: Vec<&Alarm> = plan.alarms().iter().filter(|alarm| alarm.code == AlarmCode::Denied).collect();
    let Some(first) = denials.first() else { return Ok(()) };
    let lines: Vec<_> = denials.iter().map(|alarm| sanitize::one_line(&alarm.detail)).collect();
    Err(Error::refused(lines.join("\n       ")).hint(remedy(first)))
}

fn describe(denial: &Denial) -> String {
    let message: Vec<&str> = denial.message.split_whitespace().collect();
    let mut text = format!("denied by rule {:?}: {}", denial.rule, message.join(" "));
    if !denial.subjects.is_empty() {
        text = format!("{text}: {}", join_limited(&denial.subjects, NAMED_SUBJECTS));
    }
    text
}
