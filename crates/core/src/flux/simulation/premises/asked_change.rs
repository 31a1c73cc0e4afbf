//! A change that the API server is asked about, with its answer and how far that holds.

use crate::flux::apply::cause::Cause;
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::question::{DryRunAnswer, Question};
use crate::flux::simulation::model::questions::Answers;
use crate::flux::simulation::model::refusals::Standing;

/// A change by a Kustomization that the API server is asked about, or that needs no request.
pub(in crate::flux::simulation) struct AskedChange {
    pub(in crate::flux::simulation) question: Question,
    /// Answer that is known without a request.
    pub(in crate::flux::simulation) known: Option<DryRunAnswer>,
    /// The name holds values of Secrets, so that no request may have it.
    pub(in crate::flux::simulation) is_hidden: bool,
    /// The cluster cannot be asked.
    pub(in crate::flux::simulation) is_unread: bool,
    /// Validity of the answer while the change is carried out.
    pub(in crate::flux::simulation) standing: Standing,
}

impl AskedChange {
    /// Returns the answer; `None` if it was not recorded.
    pub(in crate::flux::simulation) fn answer<'r>(&'r self, answers: &'r Answers) -> Option<&'r DryRunAnswer> {
        self.known.as_ref().or_else(|| answers.dry_runs.get(self.question.key()))
    }

    /// Returns the result that counts in place of the one that the server returned.
    pub(in crate::flux::simulation) fn result<'r>(&'r self, returned: &'r DryRunResult) -> &'r DryRunResult {
        match &self.standing {
            Standing::Replaced(result, _) => result,
            Standing::Holds | Standing::Open(_) => returned,
        }
    }

    /// Returns true if the server accepts the dry-run and refuses the apply: what is applied before uses a quota up, or another
    /// Service has the port or the address.
    pub(in crate::flux::simulation) fn is_refused_late(&self) -> bool {
        match &self.standing {
            Standing::Replaced(result, _) => {
                let (DryRunResult::Refused(message) | DryRunResult::DeletedOnly(message)) = &**result else {
                    return false;
                };
                matches!(Cause::of(message), Cause::Quota | Cause::Allocation)
            }
            Standing::Holds | Standing::Open(_) => false,
        }
    }

    pub(in crate::flux::simulation) fn condition(&self) -> Option<&str> {
        match &self.standing {
            Standing::Open(condition) => Some(condition),
            Standing::Holds | Standing::Replaced(..) => None,
        }
    }
}
