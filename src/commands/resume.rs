//! `resume`: ends suspensions, requests a reconciliation, and can wait for it.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use clap::Args;
use futures::future::join_all;

use super::change::{ChangeArgs, ChangeResult, LISTED_OBJECTS, Verb, describe};
use super::{Session, elsewhere};
use crate::cluster::write::wait::wait_until_reconciled;
use crate::cluster::{Cluster, DryRun, PatchResult};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::document;
use crate::output::text::sanitize::one_line;
use gitops_core::flux::kinds::FluxKind;
use gitops_core::flux::suspension::origin::{ResumeOptions, is_spec_of_others};
use gitops_core::flux::suspension::patch::{PatchDecision, RemainingCause, remaining_causes, resume};
use gitops_core::flux::suspension::resume_order;
use gitops_core::flux::suspension::wait::WaitProgress;
use gitops_core::flux::suspension::{Mechanism, is_expired};
use gitops_core::kubernetes::object::{Resource, ResourceType};
use gitops_core::text::{and_more, pluralize, shell_word};

/// End suspensions and reconcile at once
///
/// Undoes what `kubectl gitops suspend` set: the annotation reconcile.fluxcd.io/suspended, spec.suspend, the switch of the
/// kind. It requests a reconciliation in the same request. --spec also clears spec.suspend of named objects if somebody
/// else set it. If an object is still suspended afterwards, the reason is printed and the exit code is 5.
///
/// With -l or --all, what somebody else suspended stays suspended and is listed: what `kubectl gitops suspend` did not set,
/// as managedFields tell. If the suspensions have several messages, choose one with --message. --any takes all of them.
///
/// Sources are resumed before the objects that use them, and dependencies before the objects that depend on them. With
/// --wait, the command ends when each object was reconciled after this request and is ready, or when one fails.
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "kubectl gitops resume [OPTIONS] {TYPE NAME... | TYPE/NAME...}\n       kubectl gitops resume [TYPE,...] {-l SELECTOR | --all} [OPTIONS]",
    after_help = "Examples:
  kubectl gitops resume --wait ks cart  # wait until it is reconciled
  kubectl gitops resume -m INC-2081     # the objects of one incident; asks",
    after_long_help = "Examples:
  # Resume a Kustomization and wait until it is reconciled
  kubectl gitops resume --wait kustomization cart -n flux-system

  # End the suspensions of an incident, sources first, after confirmation
  kubectl gitops resume -m INC-2081 -n flux-system

  # Resume a Kustomization that somebody suspended with another program
  kubectl gitops resume --spec kustomization web -n flux-system

  # Resume everything whose time is over, as a CronJob does
  kubectl gitops resume --expired -A --yes

  # Show what would be resumed
  kubectl gitops resume ks,hr -A -l team=web --dry-run=client"
)]
pub struct ResumeArgs {
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Clear spec.suspend of named objects (or with --any) even if somebody else set it
    #[arg(long)]
    pub spec: bool,
    /// Resume only objects that are suspended with this message; without names, all of them
    #[arg(short, long, value_name = "MESSAGE")]
    pub message: Option<String>,
    /// Resume only objects whose suspension has this link; without names, all of them
    #[arg(long, value_name = "URL")]
    pub link: Option<String>,
    /// With -l or --all: resume also what somebody else suspended, whatever the message
    #[arg(long, conflicts_with_all = ["message", "link"])]
    pub any: bool,
    /// Resume only objects whose suspension has ended (suspend --for); without names, all of them
    #[arg(long)]
    pub expired: bool,
    /// Wait until the objects are reconciled
    #[arg(long)]
    pub wait: bool,
    /// Time limit of --wait, such as 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "5m", requires = "wait", value_parser = crate::cluster::config::args::duration)]
    pub timeout: Duration,
}

impl ResumeArgs {
    /// Returns true if the flags say which suspensions to end, so that no `--all` is needed.
    fn is_choice(&self) -> bool {
        self.expired || self.message.is_some() || self.link.is_some()
    }

    fn options(&self, now: DateTime<Utc>) -> ResumeOptions {
        ResumeOptions {
            named: self.change.is_named(),
            any: self.any,
            spec: self.spec,
            message: self.message.clone(),
            link: self.link.clone(),
            expired_at: self.expired.then_some(now),
        }
    }
}

/// Resumes the objects that the arguments name or select.
pub async fn run(args: &ResumeArgs, session: &mut Session) -> Result<ExitCode> {
    let mut change = args.change.clone();
    // A message, a link or an end selects objects as --all does; also TYPE alone.
    change.all |= args.is_choice() && !change.is_selection() && !change.is_named();
    change.check()?;
    let args = &ResumeArgs { change, ..args.clone() };
    let cluster = session.cluster().await?;
    let flags = [("-m", args.message.as_deref()), ("--link", args.link.as_deref())];
    let now = session.now;
    let options = &args.options(now);
    let verb = Verb::Resume { clears_spec: options.clears_spec_of_others() };
    let mut selected = args.change.read(&cluster, verb, &flags).await?;
    if args.expired {
        selected.objects.retain(|(_, full)| is_expired(full, now));
        if selected.is_empty() {
            session.terminal.status("no suspension has ended");
            return Ok(ExitCode::Done);
        }
    }
    if selected.is_empty() {
        args.change.print_nothing(session, &cluster, &selected).await;
        return Ok(ExitCode::Done);
    }
    let (objects, left): (Vec<_>, Vec<_>) =
        std::mem::take(&mut selected.objects).into_iter().partition(|(_, full)| options.includes(full));
    print_left(session, &left);
    let mut changing: Vec<&Resource> = objects.iter().map(|(_, full)| full).collect();
    refuse_open_choice(session, options, &changing)?;
    let token = session.now.to_rfc3339_opts(SecondsFormat::Nanos, true);
    changing.retain(|full| matches!(resume(full, options, &token), PatchDecision::Patch(_)));
    if changing.is_empty() && (args.message.is_some() || args.link.is_some()) {
        session.terminal.status("no suspension with this message or link is here");
    }
    args.change.confirm(session, &cluster, verb, &changing).await?;
    let mut results = vec![];
    for stage in split_into_stages(objects) {
        // The options decide again about an object that changed in the meantime: it may have another message or end.
        results.extend(args.change.apply(&cluster, stage, &|full| resume(full, options, &token)).await);
    }
    let mut exit = args.change.report(session, verb, &results, &left, &selected)?;
    elsewhere::hint_missing(session, &cluster, &selected).await;
    if print_remaining_causes(options, session, &results) {
        exit = ExitCode::Partial;
    }
    if args.wait && args.change.dry_run == DryRun::None && !wait(args, session, &cluster, &results, &token).await? {
        exit = ExitCode::Partial;
    }
    Ok(exit)
}

/// Prints the objects that stay suspended because the command line does not include them.
fn print_left(session: &mut Session, left: &[(ResourceType, Resource)]) {
    for (_, full) in left.iter().take(LISTED_OBJECTS) {
        let (name, how) = (document::name(&full.object.id), describe(full, session.now));
        session.terminal.status(&format!("left alone: {name} -n {}, {how}", full.object.id.namespace));
    }
    if let Some(more) = and_more(left.len(), LISTED_OBJECTS) {
        session.terminal.status(&format!("left alone: {more}"));
    }
    if !left.is_empty() {
        session.terminal.hint(if left.iter().any(|(_, full)| is_spec_of_others(full)) {
            "to resume one too, name it (with --spec for spec.suspend), or choose with --message, --link or --any --spec"
        } else {
            "name an object to resume it too, or choose with --message, --link or --any"
        });
    }
}

/// Refuses to end the suspensions of several messages at once, and prints the messages.
fn refuse_open_choice(session: &mut Session, options: &ResumeOptions, objects: &[&Resource]) -> Result<()> {
    let groups = options.open_choice(objects);
    if groups.is_empty() {
        return Ok(());
    }
    for group in &groups {
        let by = if group.by.is_empty() { String::new() } else { format!(" by {}", group.by.join(", ")) };
        let message = group.message.map_or("without a message".to_owned(), |message| shell_word(&one_line(message)));
        session.terminal.status(&format!("  {message}: {}{by}", pluralize(group.count, "object")));
    }
    let error = Error::refused(format!("these suspensions have {} messages: nothing was resumed", groups.len()));
    let messages = groups.iter().filter_map(|group| group.message);
    Err(error.hint(match messages.filter_map(as_typed).next() {
        Some(word) => format!("choose one, such as --message {word}, or end all of them with --any"),
        None => "choose one with --message or --link, or end all of them with --any".to_owned(),
    }))
}

/// Returns a message as a word of a shell; `None` if nobody can type what a terminal shows of it.
fn as_typed(message: &str) -> Option<String> {
    (one_line(message) == message).then(|| shell_word(message))
}

/// Splits objects into stages. Each stage depends on earlier stages only.
fn split_into_stages(objects: Vec<(ResourceType, Resource)>) -> Vec<Vec<(ResourceType, Resource)>> {
    let numbers = resume_order::stages(&objects.iter().map(|(_, full)| full).collect::<Vec<_>>());
    let mut stages: Vec<Vec<_>> = vec![];
    for (number, object) in numbers.into_iter().zip(objects) {
        stages.resize_with(stages.len().max(number + 1), Vec::new);
        stages[number].push(object);
    }
    stages
}

/// Prints the reasons why objects are still suspended. Returns true if there are any.
fn print_remaining_causes(options: &ResumeOptions, session: &mut Session, results: &[ChangeResult]) -> bool {
    let mut any = false;
    for result in results {
        let causes = match &result.result {
            PatchResult::Done { before, after, .. } => remaining_causes(before, after),
            PatchResult::Unchanged(full) => remaining_causes(full, full),
            _ => continue,
        };
        for cause in causes {
            any = true;
            let advice = match cause {
                RemainingCause::Suspended { by: Mechanism::Spec, .. } if options.named => "; clear it with --spec",
                RemainingCause::Suspended { by: Mechanism::Spec, .. } if options.any => "; clear it with --any --spec",
                RemainingCause::Suspended { by: Mechanism::Spec, .. } => "; name it with --spec to resume it too",
                RemainingCause::Suspended { .. } if !options.named => "; name the object to resume it too",
                _ => "",
            };
            let name = document::name(&result.id);
            session.terminal.warning(&format!("{name} is still suspended: {cause}{advice}"));
        }
    }
    any
}

/// Waits for the resumed objects. Returns true if all are ready.
async fn wait(
    args: &ResumeArgs,
    session: &mut Session,
    cluster: &Cluster,
    results: &[ChangeResult],
    token: &str,
) -> Result<bool> {
    let mut waiting = vec![];
    for result in results {
        let PatchResult::Done { before, after, .. } = &result.result else { continue };
        if !remaining_causes(before, after).is_empty() {
            continue;
        }
        let name = document::name(&result.id);
        if FluxKind::of(after).is_some_and(|kind| kind.can_wait(after)) {
            session.terminal.status(&format!("waiting for {name}"));
            waiting.push(async move {
                (name, wait_until_reconciled(cluster, &result.kind, &result.id, token, args.timeout).await)
            });
        } else {
            session.terminal.status(&format!("{name} has no status to wait for"));
        }
    }
    let mut all_ready = true;
    for (name, progress) in join_all(waiting).await {
        let error = match progress {
            Ok(WaitProgress::Ready(message)) => {
                session.terminal.raw(&format!("{name} reconciled\n"))?;
                session.terminal.status(&format!("{name}: {message}"));
                continue;
            }
            Ok(WaitProgress::Pending(message)) => format!("not reconciled within {:?}: {message}", args.timeout),
            Ok(WaitProgress::Failed(message)) => format!("reconciliation failed: {message}"),
            Ok(WaitProgress::Superseded(reason)) => format!("stopped waiting: {reason}"),
            Err(failure) => Error::from(failure).message,
        };
        all_ready = false;
        session.terminal.error(&format!("{name}: {error}"));
    }
    Ok(all_ready)
}

#[cfg(test)]
mod tests {
    use super::as_typed;

    #[test]
    fn a_message_of_others_runs_nothing_in_a_shell() {
        assert_eq!(as_typed("INC-1 $(touch /tmp/pwn)").as_deref(), Some("'INC-1 $(touch /tmp/pwn)'"));
        assert_eq!(as_typed("INC-2081").as_deref(), Some("INC-2081"));
        for unseen in ["a\nb", "a\tb", "a\u{1b}[31m", "a\u{202e}b"] {
            assert_eq!(as_typed(unseen), None);
        }
    }
}
