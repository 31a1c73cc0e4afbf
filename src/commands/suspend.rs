//! `suspend`: stops the reconciliation of objects, with a message, without a new generation.

use chrono::TimeDelta;
use clap::Args;
use futures::future::join;

use super::change::{ChangeArgs, ChangeResult, Verb};
use super::{Session, elsewhere};
use crate::cluster::config::args::parse_duration;
use crate::cluster::read::access::user_name;
use crate::cluster::{Cluster, DryRun, PatchResult};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::document;
use gitops_core::flux::suspension::advice::Warning;
use gitops_core::flux::suspension::patch::{PatchDecision, SuspendOptions, suspend};
use gitops_core::flux::suspension::{ANNOTATION, message};
use gitops_core::kubernetes::object::Resource;

/// Stop the reconciliation of Flux objects, with a message
///
/// Sets the annotation reconcile.fluxcd.io/suspended of Flux's RFC-0006. The annotation suspends whatever its value; the
/// value is the message. The generation of the object does not move.
///
/// No released Flux controller honours this annotation yet, so an object with the annotation alone is "annotated", not
/// "suspended". Use --spec to set spec.suspend in the same request: every controller honours it, and the generation moves
/// by one. On a terminal, suspend asks whether to do so. KUBECTL_GITOPS_SUSPEND=spec or =annotation is your answer for
/// every time. ArtifactGenerator, ResourceSet and the other kinds of flux-operator have a switch annotation that their
/// controllers honour; suspend sets it for them, and the message too. Set KUBECTL_GITOPS_ANNOTATION_HONOURED=true if the
/// controllers of your clusters honour the annotation.
///
/// An existing message is kept unless --overwrite is given, and so are an end (--for) and a link (--link). They are stored
/// in the annotations kubectl-gitops/suspended-until and kubectl-gitops/suspended-link. No controller acts on the end: run
/// resume --expired, for example from a CronJob.
#[derive(Args, Debug)]
#[command(
    override_usage = "kubectl gitops suspend [OPTIONS] {TYPE NAME... | TYPE/NAME...}\n       kubectl gitops suspend [TYPE,...] {-l SELECTOR | --all} [OPTIONS]",
    after_help = "Examples:
  kubectl gitops suspend --spec -m \"bank is down\" kustomization cart
  kubectl gitops suspend --spec -m INC-2081 --all  # resume -m INC-2081 ends it",
    after_long_help = "Examples:
  # Suspend a Kustomization with a message, so that today's controllers stop
  kubectl gitops suspend --spec -m \"bank is down\" ks cart -n flux-system

  # Suspend for two hours, with a link to the incident
  kubectl gitops suspend --spec --for 2h -m INC-2081 \\
    --link https://inc.example.com/2081 kustomization cart -n flux-system

  # Set the annotation alone: the generation stays, and controllers go on
  kubectl gitops suspend --spec=false -m drill kustomization web -n flux-system

  # Suspend all Flux objects of a namespace, after confirmation
  kubectl gitops suspend --spec -m INC-2081 --all -n flux-system

  # Show what would be suspended
  kubectl gitops suspend ks,hr -A -l team=web --dry-run=client"
)]
pub struct SuspendArgs {
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Store this message in the annotation
    #[arg(short, long, value_name = "MESSAGE")]
    pub message: Option<String>,
    /// Set spec.suspend too, which moves the generation by one; --spec=false sets the annotation alone
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true
    )]
    pub spec: Option<bool>,
    /// End the suspension after this time, such as 2h: get --expired shows it, resume --expired ends it
    #[arg(long = "for", value_name = "DURATION", allow_hyphen_values = true, value_parser = lasting)]
    pub lasting: Option<TimeDelta>,
    /// Store the address of a page about the suspension, such as an incident
    #[arg(long, value_name = "URL", value_parser = link)]
    pub link: Option<String>,
    /// Replace an existing message, end or link
    #[arg(long)]
    pub overwrite: bool,
    /// Record your user name, as the API server knows it: true unless the server cannot tell it
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true
    )]
    pub record_user: Option<bool>,
}

/// Environment variable that says whether the controllers of the cluster honour the annotation.
const HONOURED_VARIABLE: &str = "KUBECTL_GITOPS_ANNOTATION_HONOURED";

/// Environment variable with a user's answer to the question whether to set `spec.suspend` too.
const DEFAULT_VARIABLE: &str = "KUBECTL_GITOPS_SUSPEND";

/// Longest suspension with an end, in days.
const LONGEST: i64 = 365;

/// Parses `--for`: a duration of at least a second. A number alone may be meant as hours.
fn lasting(text: &str) -> Result<TimeDelta, String> {
    if text.parse::<u64>().is_ok() {
        return Err("it needs a unit, such as 30m or 2h".to_owned());
    }
    let lasting = TimeDelta::from_std(parse_duration(text).ok_or("it must be a duration such as 30m or 2h")?)
        .unwrap_or(TimeDelta::MAX);
    if lasting < TimeDelta::seconds(1) {
        return Err("it must be at least 1s".to_owned());
    }
    if lasting > TimeDelta::days(LONGEST) {
        return Err(format!("it must be at most {LONGEST} days"));
    }
    Ok(lasting)
}

/// Parses `--link`: an address that a browser opens.
fn link(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    if rest.is_some_and(|rest| !rest.is_empty()) && text.len() <= 2000 && text.chars().all(|c| c.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err("it must be an address that begins with https:// or http://, of at most 2000 characters".to_owned())
}

/// Parses [`DEFAULT_VARIABLE`]: whether to set `spec.suspend` too. An empty value is none.
fn default_of(value: &str) -> Result<Option<bool>> {
    match value {
        "" => Ok(None),
        "spec" => Ok(Some(true)),
        "annotation" => Ok(Some(false)),
        _ => Err(Error::usage(format!("invalid value {value:?} in {DEFAULT_VARIABLE}")).hint("use spec or annotation")),
    }
}

/// Parses [`HONOURED_VARIABLE`]. An empty value is none.
fn honoured_of(value: &str) -> Result<bool> {
    match &*value.to_lowercase() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "" | "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => Err(Error::usage(format!("invalid value {value:?} in {HONOURED_VARIABLE}")).hint("use true or false")),
    }
}

impl SuspendArgs {
    /// Returns whether the user wants `spec.suspend` to be set: by the flag, else by the environment.
    fn choice(&self) -> Result<Option<bool>> {
        let default = default_of(&std::env::var(DEFAULT_VARIABLE).unwrap_or_default())?;
        Ok(self.spec.or(default))
    }

    /// Returns the user to record. Without the flag, it is no error if the server does not tell it.
    async fn user(&self, cluster: &Cluster) -> Result<Option<String>> {
        match self.record_user {
            Some(false) => Ok(None),
            Some(true) => Ok(Some(user_name(cluster).await?)),
            None if self.change.dry_run == DryRun::Client => Ok(None),
            None => Ok(user_name(cluster).await.ok()),
        }
    }

    /// Returns true if there is somebody to ask whether to set `spec.suspend` too.
    fn can_ask(&self, session: &Session) -> bool {
        session.terminal.is_watched() && !self.change.yes && self.change.dry_run == DryRun::None
    }
}

/// Suspends the objects that the arguments name or select.
pub async fn run(args: &SuspendArgs, session: &mut Session) -> Result<ExitCode> {
    args.change.check()?;
    if let Some(message) = &args.message {
        message::validate(message)?;
    }
    let mut choice = args.choice()?;
    let annotation_honoured = honoured_of(&std::env::var(HONOURED_VARIABLE).unwrap_or_default())?;
    let verb = Verb::Suspend { annotation_honoured };
    let cluster = session.cluster().await?;
    let flags = [("-m", args.message.as_deref()), ("--link", args.link.as_deref())];
    let (selected, user) = join(args.change.read(&cluster, verb, &flags), args.user(&cluster)).await;
    let (mut selected, user) = (selected?, user?);
    if selected.is_empty() {
        args.change.print_nothing(session, &cluster, &selected).await;
        return Ok(ExitCode::Done);
    }
    let mut options = SuspendOptions {
        message: args.message.clone(),
        spec: choice.unwrap_or_default(),
        overwrite: args.overwrite,
        until: args.lasting.map(|lasting| session.now + lasting),
        link: args.link.clone(),
        user,
        annotation_honoured,
    };
    let mut changing: Vec<&Resource> = selected.objects.iter().map(|(_, full)| full).collect();
    if choice.is_none() && args.can_ask(session) && changing.iter().any(|full| options.leaves_running(full)) {
        choice = Some(ask_for_spec(session, verb)?);
        options.spec = choice == Some(true);
    }
    changing.retain(|full| matches!(suspend(full, &options), PatchDecision::Patch(_)));
    print_warnings(session, &options, &changing);
    args.change.confirm(session, &cluster, verb, &changing).await?;
    let objects = std::mem::take(&mut selected.objects);
    let results = args.change.apply(&cluster, objects, &|full| suspend(full, &options)).await;
    let exit = args.change.report(session, verb, &results, &[], &selected)?;
    elsewhere::hint_missing(session, &cluster, &selected).await;
    let as_requested = args.change.dry_run == DryRun::Client || print_discrepancies(session, &options, &results);
    print_effect(session, args, &options, choice, &results);
    Ok(if as_requested || exit != ExitCode::Done { exit } else { ExitCode::Partial })
}

/// Asks whether to set `spec.suspend` too.
fn ask_for_spec(session: &mut Session, verb: Verb) -> Result<bool> {
    session.terminal.status("no released Flux controller honours the annotation alone: reconciliation would go on");
    session.terminal.confirm("set spec.suspend too, which moves the generation by one?", &verb.undone())
}

fn print_warnings(session: &mut Session, options: &SuspendOptions, objects: &[&Resource]) {
    for full in objects {
        let name = document::name(&full.object.id);
        for warning in options.warnings(full) {
            session.terminal.warning(&match warning {
                Warning::BeingDeleted => {
                    format!("{name} is being deleted: its finalizers run now, suspended or not")
                }
                Warning::DeclaredInGit(controller) => format!(
                    "{controller} applies this part of {name} from Git and reverts the suspension; change it in Git"
                ),
            });
        }
    }
    let effects = options.deletion_effects(objects);
    if !effects.is_empty() {
        let effects: Vec<_> =
            effects.iter().map(|one| format!("deleting a {} still {}", one.kind, one.effect)).collect();
        let all = effects.join(", ");
        session.terminal.warning(&format!("with the annotation alone, {all}; --spec prevents that"));
    }
}

/// Prints the differences between the patches and the answers of the server. Returns true if none of them is an error.
fn print_discrepancies(session: &mut Session, options: &SuspendOptions, results: &[ChangeResult]) -> bool {
    let mut as_requested = true;
    for result in results {
        let PatchResult::Done { before, after, patch } = &result.result else { continue };
        let name = document::name(&result.id);
        for discrepancy in options.discrepancies(before, after, patch) {
            let text = format!("{name}: {discrepancy}");
            if discrepancy.is_error() {
                session.terminal.error(&text);
                as_requested = false;
            } else {
                session.terminal.warning(&text);
            }
        }
    }
    as_requested
}

/// Prints that the annotation alone does not stop controllers, or that `spec.suspend` was set. There is no hint for a user
/// who has chosen.
fn print_effect(
    session: &mut Session,
    args: &SuspendArgs,
    options: &SuspendOptions,
    choice: Option<bool>,
    results: &[ChangeResult],
) {
    if results.iter().filter_map(ChangeResult::after).any(|full| options.is_annotation_only(full)) {
        session.terminal.warning(&format!(
            "no released Flux controller honours the annotation {ANNOTATION}: reconciliation goes on"
        ));
        if choice.is_none() {
            session.terminal.hint(
                "--spec sets spec.suspend too; set KUBECTL_GITOPS_ANNOTATION_HONOURED=true if your controllers honour \
                 the annotation",
            );
        }
        return;
    }
    let set_spec = results.iter().any(|result| match &result.result {
        PatchResult::Done { after, patch, .. } => patch.generations == 1 && after.flag("/spec/suspend"),
        _ => false,
    });
    if set_spec {
        session.terminal.status(match args.change.dry_run {
            DryRun::None => "spec.suspend was set: the generation moved by one",
            DryRun::Client | DryRun::Server => "spec.suspend would be set, which moves the generation by one",
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspension_lasts_a_duration_with_a_unit() {
        for (text, seconds) in [("1h30m", Some(5400)), ("90", None), ("0", None), ("abc", None), ("9000h", None)] {
            assert_eq!(lasting(text).ok(), seconds.map(TimeDelta::seconds), "{text}");
        }
    }

    #[test]
    fn a_wrong_variable_is_named() {
        for (value, expected) in [("", false), ("true", true), ("1", true), ("Yes", true), ("0", false), ("off", false)]
        {
            assert_eq!(honoured_of(value).unwrap(), expected, "{value:?}");
        }
        let error = honoured_of("foo").unwrap_err();
        assert_eq!(error.message, "invalid value \"foo\" in KUBECTL_GITOPS_ANNOTATION_HONOURED");
        assert_eq!((error.exit, error.hint.as_deref()), (ExitCode::Usage, Some("use true or false")));
    }

    #[test]
    fn the_default_is_spec_or_annotation() {
        for (value, expected) in [("", None), ("spec", Some(true)), ("annotation", Some(false))] {
            assert_eq!(default_of(value).unwrap(), expected, "{value:?}");
        }
        let error = default_of("both").unwrap_err();
        assert_eq!((error.exit, error.hint.as_deref()), (ExitCode::Usage, Some("use spec or annotation")));
    }
}
