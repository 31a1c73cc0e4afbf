//! `--policy FILE`: rules that deny a plan, before it is written to a file or executed.

use std::path::Path;

use chrono::Utc;

use super::args::ExecutionArgs;
use crate::error::{Error, Result};
use crate::output::plan::remedies;
use crate::output::text::sanitize::one_line;
use crate::tools::{files, limits};
use gitops_core::plan::FinishedPlan;
use gitops_core::plan::alarm::{Alarm, AlarmCode};
use gitops_core::plan::finished::NamedPolicy;
use gitops_core::plan::policy::Policy;

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
        let Some(path) = args.planning.policy.as_deref() else { return Ok(None) };
        let text =
            files::read_named_text(path, limits::MAX_FILE).map_err(|error| unusable(path, &error.to_string()))?;
        let policy = Policy::parse(&text).map_err(|why| {
            unusable(path, &one_line(&why))
                .hint("a rule has `name`, `deny` (CEL), `message`, and `each: changes` or `each: owners`")
        })?;
        Ok(Some(Self { path, policy }))
    }

    /// Returns the rules as a plan is finished with them.
    pub(super) fn named(&self) -> NamedPolicy<'_> {
        NamedPolicy { policy: &self.policy, file: self.path.display().to_string(), now: Utc::now() }
    }

    /// Returns the error of a rule that cannot be evaluated (exit 1).
    pub(super) fn not_evaluated(&self, why: &str) -> Error {
        Error::failed(format!("policy {}: {}", self.path.display(), one_line(why)))
            .hint("test for a field that can be absent or null, as in `change.owner != null`")
    }
}

fn unusable(path: &Path, why: &str) -> Error {
    Error::usage(format!("cannot use --policy {}: {why}", path.display()))
}

/// Refuses a plan that a rule denies (exit 6).
pub(super) fn ensure_not_denied(plan: &FinishedPlan) -> Result<()> {
    let denials: Vec<&Alarm> = plan.alarms().iter().filter(|alarm| alarm.code == AlarmCode::Denied).collect();
    if denials.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> = denials.iter().map(|alarm| one_line(&alarm.detail)).collect();
    Err(Error::refused(lines.join("\n       ")).hint(remedies(denials).to_string()))
}
