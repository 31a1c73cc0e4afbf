//! What became of one object that `suspend` or `resume` was to change, for people, for programs and as an exit code.

use serde_json::{Value, json};

use super::Session;
use super::pick;
use super::pick::Picked;
use crate::cluster::PatchResult;
use crate::exit::ExitCode;
use crate::output::{document, sanitize};
use gitops_core::flux::suspension;
use gitops_core::kubernetes::object::{ObjectId, Resource, ResourceType};

/// What became of one object.
#[derive(Debug)]
pub struct ChangeResult {
    /// Its type.
    pub kind: ResourceType,
    /// Which object.
    pub id: ObjectId,
    /// What was done.
    pub changed: PatchResult,
}

impl ChangeResult {
    /// Whether the object now is as was asked.
    pub fn is_good(&self) -> bool {
        matches!(self.changed, PatchResult::Done { .. } | PatchResult::Unchanged(_))
    }

    /// The object as it is now, where that is known.
    pub fn after(&self) -> Option<&Resource> {
        match &self.changed {
            PatchResult::Done { after, .. } | PatchResult::Unchanged(after) => Some(after),
            _ => None,
        }
    }

    pub(crate) fn word<'a>(&self, done: &'a str) -> Option<&'a str> {
        match self.changed {
            PatchResult::Done { .. } => Some(done),
            PatchResult::Unchanged(_) => Some("unchanged"),
            _ => None,
        }
    }

    /// Why it is not as was asked, and what to do about it.
    fn trouble(&self) -> Option<(String, Option<&str>)> {
        match &self.changed {
            PatchResult::Done { .. } | PatchResult::Unchanged(_) => None,
            PatchResult::Refused { reason, hint } => Some((reason.clone(), Some(hint))),
            PatchResult::Missing => Some((pick::not_found(&self.kind, &self.id.name), None)),
            PatchResult::Failed(failure) => Some((failure.to_string(), None)),
        }
    }

    pub(crate) fn complain(&self, session: &mut Session) {
        if let Some((reason, hint)) = self.trouble() {
            session.terminal.error(&format!("{}: {}", document::name(&self.id), sanitize::one_line(&reason)));
            hint.into_iter().for_each(|hint| session.terminal.hint(hint));
        }
    }

    pub(crate) fn document(&self, done: &str) -> Value {
        let result = match self.changed {
            PatchResult::Refused { .. } => "refused",
            PatchResult::Missing => "not-found",
            PatchResult::Failed(_) => "failed",
            _ => self.word(done).unwrap_or_default(),
        };
        let suspension = self.after().and_then(suspension::read);
        let error = self.trouble().map(|(reason, _)| reason);
        json!({"object": self.id, "result": result, "error": error, "suspension": suspension})
    }
}

/// 0 when all is as was asked; 5 when a part is; otherwise 6 when guards alone are the reason, or 1.
pub(crate) fn exit(outcomes: &[ChangeResult], picked: &Picked) -> ExitCode {
    let bad = outcomes.iter().filter(|outcome| !outcome.is_good()).count();
    let refused = outcomes.iter().filter(|outcome| matches!(outcome.changed, PatchResult::Refused { .. })).count();
    let failed = bad + picked.errors.len() + picked.gaps.len();
    match (failed, outcomes.len() - bad) {
        (0, _) => ExitCode::Done,
        (_, 1..) => ExitCode::Partial,
        (failed, 0) if failed == refused => ExitCode::Refused,
        _ => ExitCode::Error,
    }
}
