//! Questions of a preview and their answers, as values: builds, and dry-runs of what controllers would send.

use std::collections::{BTreeMap, HashMap};

use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::question::{DryRunAnswer, Question, QuestionKey};
use crate::flux::apply::update::Update;
use crate::flux::build;
use crate::kubernetes::gap::{Gap, GapKind};
use crate::plan::Plan;
use crate::plan::mask::SecretMask;

/// Result of a step.
#[derive(Debug)]
pub enum Progress<T> {
    /// These answers are needed to continue.
    Needs(Box<Needs>),
    Done(T),
}

impl<T> Progress<T> {
    /// Returns the result of a step that needs I/O of builds.
    pub fn of_builds(builds: build::Needs) -> Self {
        Self::Needs(Box::new(Needs { builds, dry_runs: vec![] }))
    }
}

/// Answers that a preview needs to continue.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// I/O of builds.
    pub builds: build::Needs,
    /// Changes that the API server must be asked about, in the order in which refusals count.
    pub dry_runs: Vec<Question>,
}

/// Answers so far.
#[derive(Debug, Default)]
pub struct Answers {
    /// Results of the I/O of builds.
    pub builds: build::Answers,
    pub dry_runs: DryRunAnswers,
}

/// Answers of the API server to dry-runs.
#[derive(Debug, Default)]
pub struct DryRunAnswers {
    answers: HashMap<QuestionKey, DryRunAnswer>,
    /// Gaps of the rights that could not be asked about, by subject.
    unknown_rights: BTreeMap<String, Gap>,
}

impl Answers {
    /// Records this reason in place of every answer that is still missing.
    pub fn give_up(&mut self, needs: Needs, why: &str) {
        self.builds.give_up(needs.builds, why);
        for question in needs.dry_runs {
            let subject = "answers to dry-runs".to_owned();
            let gap = Gap { kind: GapKind::Failed, subject, namespace: None, message: why.to_owned() };
            self.dry_runs.answers.entry(question.key().clone()).or_insert(DryRunAnswer::Missing(gap));
        }
    }
}

impl DryRunAnswers {
    /// Records the answer to a question, without the message of the server if the object can hold values of Secrets.
    pub fn record(&mut self, question: &Question, answer: DryRunAnswer) {
        self.answers.insert(question.key().clone(), question.without_secrets(answer));
    }

    /// Records rights that could not be asked about. The subject of the gap names the account.
    pub fn record_unknown_rights(&mut self, gap: Gap) {
        self.unknown_rights.insert(gap.subject.clone(), gap);
    }

    /// Returns the answer to a question; `None` if it was not recorded.
    pub(crate) fn get(&self, key: &QuestionKey) -> Option<&DryRunAnswer> {
        self.answers.get(key)
    }

    /// Returns the answer to a change by another owner than a Kustomization.
    pub(crate) fn verdict(&self, question: &Question) -> Verdict {
        match self.get(question.key()) {
            Some(DryRunAnswer::Result(DryRunResult::Refused(message))) => Verdict::Refused(message.clone()),
            Some(DryRunAnswer::Result(DryRunResult::Accepted)) => Verdict::Accepted,
            Some(DryRunAnswer::Result(DryRunResult::Unchanged)) => Verdict::Unchanged,
            Some(DryRunAnswer::Result(DryRunResult::Updated(update))) => Verdict::Updated(update.clone()),
            _ => Verdict::Open,
        }
    }

    pub(crate) fn unknown_rights(&self) -> impl Iterator<Item = &Gap> {
        self.unknown_rights.values()
    }
}

/// Answer of the API server to a change by the controller of a HelmRelease or a ResourceSet.
pub(crate) enum Verdict {
    Accepted,
    /// It accepts an apply that changes nothing of the live object.
    Unchanged,
    /// It accepts an apply that changes the live object.
    Updated(Update),
    /// The message of the server.
    Refused(String),
    /// The server was not asked yet, or its answer says nothing about the controller.
    Open,
}

/// A complete preview.
#[derive(Debug)]
pub struct FinishedPreview {
    pub plan: Plan,
    /// Names with values of Secrets, which must be masked before the plan is shown.
    pub secrets: SecretMask,
}
