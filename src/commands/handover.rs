//! `handover`: steps by which a change moves objects to other owners without deleting them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;

use super::Session;
use super::acts::{Act, shows_hold};
use super::prune::tree::{CheckoutOptions, TreeArgs, TreeOptions, find_handover};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::format::{self, Format, Render};
use crate::output::plan::warnings;
use crate::tools;
use gitops_core::flux::handover::{Handover, HandoverStep, Hold, Holds, left_over};
use gitops_core::kubernetes::gap::AnswerGap;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::plan::{FinishedPlan, Outcome};

/// Show steps that move objects to other owners without deleting them
///
/// Compares what is deployed with a checkout: a Kustomization that is renamed, split or joined, an object that moves from
/// one to another. Proposes the shortest list of commits by which nothing is deleted that something manages in the end, each
/// with its plan. Every order of events is judged. Changes nothing.
#[derive(Debug, Args)]
#[command(
    override_usage = "kubectl gitops handover [OPTIONS]",
    after_help = "Examples:
  # Show how to merge this checkout without losing what it moves
  kubectl gitops handover
  # Write the patches of the steps
  kubectl gitops handover --write patches/",
    after_long_help = "Examples:
  # Show how to merge this checkout without losing what it moves
  kubectl gitops handover

  # Write the patches of the steps
  kubectl gitops handover --write steps/"
)]
pub struct HandoverArgs {
    /// Checkout with the change; the current directory when absent
    #[arg(long, value_name = "DIR")]
    pub repo: Option<PathBuf>,
    /// Read this revision instead of the working tree
    #[arg(long, value_name = "REVISION")]
    pub to: Option<String>,
    /// Write the patches of the steps to DIR
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
    /// Read the cluster from FILE, which `snapshot` wrote
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    #[command(flatten)]
    pub checkout: CheckoutOptions,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = format::parser(Handover::PARTS))]
    pub output: Format,
}

/// Finds and shows the steps.
pub async fn run(args: &HandoverArgs, session: &mut Session) -> Result<ExitCode> {
    let (rev, checkout) = (args.to.clone(), args.checkout.clone());
    let options = TreeOptions { rev, checkout, offline: true, ..TreeOptions::default() };
    let snapshot = session.snapshot(args.snapshot.as_deref()).await?;
    let tree = TreeArgs::of_checkout(args.repo.clone(), options);
    let found = find_handover(&tree, session, &snapshot, args.snapshot.is_some()).await;
    let found = found.inspect_err(|_| session.discard_warnings())?;
    let left_over = left_over(&snapshot, &found.last, found.steps.iter().map(|(_, step)| &step.secrets));
    let (mut steps, last) = (vec![], found.steps.len());
    for (at, (patches, step)) in found.steps.into_iter().enumerate() {
        session.print_masked_warnings(std::slice::from_ref(&step.secrets));
        let plan = step.finish(args.snapshot.is_some());
        let number = at + 1;
        let role = if number == last {
            Role::Change
        } else if at == 0 {
            Role::Hold
        } else {
            Role::HeldChange
        };
        steps.push(HandoverStep {
            number,
            title: role.title(last, !patches.is_empty()),
            patches,
            commands: role.acts(&found.holds).iter().map(Act::command).collect(),
            notes: role.notes(&found.holds),
            done_when: role.done_when(&found.holds, &plan),
            way_back: role.way_back().to_owned(),
            plan,
        });
    }
    let handover = Handover::new(found.lost_at_once, steps, left_over);
    session.terminal.raw(&args.output.render(&handover, session.terminal.look(true))?)?;
    if let Some(directory) = &args.write {
        write(&handover.steps, directory, session)?;
    }
    Ok(report(&handover.steps, session))
}

/// Prints the warnings and gaps of the plans of proposed steps, and returns the exit code.
pub(super) fn report(steps: &[HandoverStep], session: &mut Session) -> ExitCode {
    for step in steps {
        let texts = warnings(&step.plan);
        texts.iter().for_each(|text| session.terminal.warning(&format!("step {}: {text}", step.number)));
    }
    let gaps: BTreeSet<AnswerGap> = steps.iter().flat_map(|step| step.plan.gaps()).cloned().collect();
    session.report_answer_gaps(&gaps.into_iter().collect::<Vec<_>>(), false)
}

/// Purpose of a step.
#[derive(Clone, Copy)]
enum Role {
    Hold,
    HeldChange,
    Change,
}

impl Role {
    fn title(self, steps: usize, has_patches: bool) -> String {
        match self {
            Self::Hold if !has_patches => "run the commands".to_owned(),
            Self::Hold => "commit this to the branch that is deployed, and wait until Flux has applied it".to_owned(),
            Self::HeldChange => "merge the change together with this, and wait until Flux has applied it".to_owned(),
            Self::Change if steps < 3 => "merge the change".to_owned(),
            Self::Change => "take the patch of the step before back, so that the change is as it was".to_owned(),
        }
    }

    /// Returns what a step does in the cluster: marks of objects that no manifest in Git has, and their end.
    fn acts(self, holds: &Holds) -> Vec<Act> {
        let marked = holds.iter().filter(|(_, hold)| hold.is_by_hand()).map(|(id, hold)| (id.clone(), *hold));
        match self {
            Self::Hold => marked.map(|(id, hold)| Act::Set(id, hold)).collect(),
            Self::HeldChange => vec![],
            Self::Change => marked.map(|(id, hold)| Act::Unset(id, hold)).collect(),
        }
    }

    /// Returns commands that show that a step is done.
    fn done_when(self, holds: &Holds, plan: &FinishedPlan) -> Vec<String> {
        if let Self::Hold = self {
            return holds.iter().map(|(owner, hold)| shows_hold(owner, *hold)).collect();
        }
        let applied = plan.owners().iter().filter(|row| row.outcome == Outcome::Applies);
        let shows = applied.filter(|row| row.owner.kind == "Kustomization").map(|row| {
            format!(
                "kubectl gitops get kustomization {} -n {} # Ready, at the new revision",
                row.owner.name, row.owner.namespace
            )
        });
        shows.collect()
    }

    /// Returns what the step leaves behind.
    fn notes(self, holds: &Holds) -> Vec<String> {
        let releases = holds.iter().filter(|(_, hold)| **hold == Hold::Suspend);
        let releases = releases.map(|(id, _)| id);
        let note = |id: &ObjectId| {
            format!(
                "the Secrets with the history of the release of {id}, and Helm's labels, annotations and field managers, stay \
                 behind; `flux-operator migrate owner` removes field managers"
            )
        };
        if let Self::Change = self { releases.map(note).collect() } else { vec![] }
    }

    fn way_back(self) -> &'static str {
        match self {
            Self::Hold => "revert the commit: nothing has moved yet",
            Self::HeldChange | Self::Change => {
                "do not revert it alone: check out the revert, and run `kubectl gitops handover` on it"
            }
        }
    }
}

/// Writes the patches and commands of the steps, one file each.
///
/// Fails if the directory has one of them already, or cannot be written.
pub(super) fn write(steps: &[HandoverStep], directory: &Path, session: &mut Session) -> Result<()> {
    std::fs::create_dir_all(directory)
        .map_err(|error| Error::failed(format!("{} cannot be created: {error}", directory.display())))?;
    for step in steps {
        let patches: String = step.patches.iter().map(|patch| patch.diff.as_str()).collect();
        let commands: String = step.commands.iter().map(|command| format!("{command}\n")).collect();
        for (text, kind, program) in [(patches, "patch", "git apply"), (commands, "sh", "sh -e")] {
            let file = directory.join(format!("step-{}.{kind}", step.number));
            if text.is_empty() {
                continue;
            }
            if file.exists() {
                return Err(Error::failed(format!("{} exists already", file.display())).hint("name another directory"));
            }
            tools::write_report(&file, &text)?;
            session.terminal.status(&format!("wrote {}: `{program} {}`", file.display(), file.display()));
        }
    }
    Ok(())
}
