//! `plan --contexts` and `plan --snapshots`: the plans of one tree for several clusters, as one answer.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{iter, thread};

use clap::Args;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::args::{PlanningArgs, PruneArgs};
use super::policy::PolicyFile;
use super::spokes::{self, Spoke};
use super::tree::{NotPlanned, SharedWork};
use super::{execution, plan_tree};
use crate::cluster::config::args::ConnectionArgs;
use crate::commands::Session;
use crate::commands::contexts::{self, CLUSTERS_AT_ONCE, ContextsArgs};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::format::Format;
use crate::output::plan as show;
use crate::output::text::sanitize::one_line;
use gitops_core::plan::FinishedPlan;
use gitops_core::plan::fleet::{ClusterAnswer, ClusterState, Fleet};
use gitops_core::plan::mask::SecretMask;
use gitops_core::text::{pluralize, shell_word};

/// Endings of the files of `--snapshots`.
const RECORDINGS: [&str; 2] = [".json", ".json.gz"];

/// Selection of several clusters to plan for.
#[derive(Args, Clone, Debug, Default)]
pub struct FleetArgs {
    #[command(flatten)]
    pub contexts: ContextsArgs,
    /// Read the clusters that were recorded in the files of DIR
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["snapshot", "contexts", "all_contexts"],
        hide_short_help = true
    )]
    pub snapshots: Option<PathBuf>,
}

/// A cluster to plan for.
pub(crate) struct NamedCluster {
    /// Context of the kubeconfig, or name of the file without its ending.
    name: String,
    /// File of a recorded cluster.
    file: Option<PathBuf>,
}

impl NamedCluster {
    /// Returns the flag that selects it for a command about one cluster, after a space.
    fn flag(&self) -> String {
        match &self.file {
            Some(file) => format!(" --snapshot {}", shell_word(&file.display().to_string())),
            None => format!(" --context {}", shell_word(&self.name)),
        }
    }
}

impl FleetArgs {
    /// Returns the clusters to plan for; `None` for the one cluster of the other flags.
    ///
    /// # Errors
    /// If the clusters cannot be found, or another argument is about one cluster.
    pub(crate) fn clusters(
        &self,
        connection: &ConnectionArgs,
        planning: &PlanningArgs,
    ) -> Result<Option<Vec<NamedCluster>>> {
        let clusters = match &self.snapshots {
            Some(directory) => Some(recordings(directory, connection)?),
            None => self
                .contexts
                .names(connection, planning.output)?
                .map(|names| names.into_iter().map(|name| NamedCluster { name, file: None }).collect()),
        };
        if clusters.is_none() {
            return Ok(None);
        }
        if planning.out.is_some() {
            return Err(Error::usage("--out writes the plan of one cluster")
                .hint("-o json has the plan of each cluster; or plan for one with --context or --snapshot"));
        }
        if planning.output == Format::Vap {
            return Err(Error::usage("-o vap prints the policies of one cluster")
                .hint("print them for each with --context or --snapshot"));
        }
        let mut formats = planning.reports.iter().map(|report| report.format).chain([planning.output]);
        if formats.any(|format| format == Format::Name) {
            return Err(Error::usage("the format name does not say in which cluster an object is")
                .hint("use json, yaml, wide or html, which say it of each object"));
        }
        Ok(clusters)
    }
}

/// Returns the recorded clusters in a directory, in the order of their names.
fn recordings(directory: &Path, connection: &ConnectionArgs) -> Result<Vec<NamedCluster>> {
    if let Some(flag) = connection.flag_of_one_cluster() {
        return Err(Error::usage(format!("{flag} is about one cluster, --snapshots about several"))
            .hint(format!("leave {flag} out: the recordings say which clusters they are of")));
    }
    let shown = directory.display();
    let listed = std::fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = listed.map_err(|error| {
        Error::failed(format!("cannot read the directory {shown}: {error}"))
            .hint("--snapshots takes a directory of recordings, and --snapshot the file of one")
    })?;
    let mut files: BTreeMap<String, PathBuf> = BTreeMap::new();
    for file in entries.iter().map(std::fs::DirEntry::path).filter(|file| file.is_file()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Hidden files are left by editors and by copies that were not finished.
        if name.starts_with('.') {
            continue;
        }
        let Some(name) = RECORDINGS.iter().rev().find_map(|ending| name.strip_suffix(ending)) else { continue };
        if let Some(other) = files.insert(name.to_owned(), file.clone()) {
            let message = format!("{} and {} have the same name", other.display(), file.display());
            return Err(Error::usage(message).hint("name each cluster once in the directory of --snapshots"));
        }
    }
    if files.is_empty() {
        return Err(Error::failed(format!("there is no recording in {shown}: no file ends with .json or .json.gz"))
            .hint("record each cluster with `kubectl gitops snapshot --context NAME DIR/NAME.json.gz`"));
    }
    Ok(files.into_iter().map(|(name, file)| NamedCluster { name, file: Some(file) }).collect())
}

/// Result of the planning for one cluster.
struct Part {
    name: String,
    planned: Result<PlannedPart, NotPlanned>,
    messages: Vec<String>,
}

struct PlannedPart {
    plan: FinishedPlan,
    /// Error of a policy that cannot be evaluated.
    judged: Result<()>,
    secrets: SecretMask,
    /// Secrets of `--spoke` that the cluster uses.
    spokes: Vec<Spoke>,
}

/// Plans for each cluster, and shows what they have in common once. A cluster that cannot be planned for is a gap.
///
/// # Errors
/// If no cluster can be planned for, if a plan exceeds a limit, or a rule denies it.
pub(crate) async fn run(args: &PruneArgs, clusters: Vec<NamedCluster>, session: &mut Session) -> Result<ExitCode> {
    let execution = &args.execution;
    execution.check()?;
    args.check()?;
    if !args.tree.options.then.is_empty() {
        return Err(Error::usage("--then plans the steps of one cluster")
            .hint("plan for it alone with --context or --snapshot, or leave --then out"));
    }
    let policy = PolicyFile::read(execution)?;
    let shared = SharedWork::default();
    let number = pluralize(clusters.len(), "cluster");
    let are_recorded = clusters.iter().all(|cluster| cluster.file.is_some());
    session.terminal.status(&format!("planning for {number}"));
    let (whole, policy, work) = (&*session, policy.as_ref(), &shared);
    let selecting: BTreeMap<String, String> =
        clusters.iter().map(|cluster| (cluster.name.clone(), cluster.flag())).collect();
    // All parts begin before the first one is planned, so that each knows which clusters are connected to anyway.
    let begun: Vec<_> = clusters.into_iter().map(|cluster| (whole.collecting(&cluster.name), cluster)).collect();
    let parts = on_threads(begun, async |((mut part, messages), NamedCluster { name, file })| {
        let planned = plan_part(&args.of_cluster(file), policy, &mut part, work).await;
        Part { name, planned, messages: messages.lines() }
    });
    tracing::info!("{} for {number}", pluralize(shared.runs(), "build"));
    let (mut answers, mut messages, mut secrets, mut judged) = (vec![], vec![], vec![], Ok(()));
    let mut errors = vec![];
    let mut hubs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut has_failed = false;
    for Part { name, planned, messages: lines } in parts {
        messages.push((name.clone(), lines));
        let answer = match planned {
            Ok(planned) => {
                secrets.push(planned.secrets);
                judged = judged.and(planned.judged);
                for spoke in planned.spokes {
                    hubs.entry(spoke.to_string()).or_default().push(planned.plan.cluster().uid.clone());
                }
                ClusterAnswer::Planned(Box::new(planned.plan))
            }
            Err(reason) => {
                has_failed |= matches!(reason, NotPlanned::Failed(_));
                let is_unaffected = matches!(reason, NotPlanned::Unaffected(_));
                let error = Error::from(reason);
                errors.push((name.clone(), error.clone()));
                if is_unaffected {
                    ClusterAnswer::Unaffected(one_line(&error.message).into_owned())
                } else {
                    ClusterAnswer::Failed(contexts::gap(error))
                }
            }
        };
        answers.push((name, answer));
    }
    // What a server said about manifests can show values of Secrets, which are not known without a plan.
    if has_failed {
        session.discard_warnings();
    }
    session.print_masked_warnings(&secrets);
    if secrets.is_empty() {
        return Err(contexts::failure_of_all(errors, "can be planned for", session));
    }
    check_hubs(hubs)?;
    let fleet = Fleet::new(answers, are_recorded);
    print_messages(&messages, &fleet, session);
    show_fleet(&fleet, &selecting, judged, args, session)
}

/// Does the tasks on several threads, and returns their results in the same order. A plan is mostly computation, which
/// would keep other tasks of its thread waiting.
fn on_threads<T: Send, R: Send>(tasks: Vec<T>, task: impl AsyncFn(T) -> R + Sync) -> Vec<R> {
    let (runtime, number) = (Handle::current(), tasks.len());
    let queue = Mutex::new(tasks.into_iter().enumerate());
    let work = || -> Vec<(usize, R)> {
        let own = iter::from_fn(|| queue.lock().unwrap_or_else(PoisonError::into_inner).next());
        own.map(|(at, given)| (at, runtime.block_on(task(given)))).collect()
    };
    let mut results: Vec<(usize, R)> = block_in_place(|| {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..CLUSTERS_AT_ONCE.min(number)).map(|_| scope.spawn(work)).collect();
            let joined = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
            joined.flatten().collect()
        })
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Plans for one cluster.
async fn plan_part(
    args: &PruneArgs,
    policy: Option<&PolicyFile<'_>>,
    session: &mut Session,
    shared: &SharedWork,
) -> Result<PlannedPart, NotPlanned> {
    let file = args.execution.planning.snapshot.as_deref();
    let mut snapshot = session.snapshot(file).await?;
    let spokes: Vec<Spoke> = args.tree.options.spoke.iter().filter(|spoke| spoke.is_of(&snapshot)).cloned().collect();
    let clusters = spokes::read(&spokes, session, &mut snapshot, file.is_some()).await?;
    let (plan, judged, secrets) = plan_tree(args, policy, session, &snapshot, &clusters, shared).await?;
    session.print_hints();
    Ok(PlannedPart { plan, judged, secrets, spokes })
}

/// Refuses a Secret that several clusters have: which of them reaches the cluster of `--spoke` is not known.
fn check_hubs(hubs: BTreeMap<String, Vec<String>>) -> Result<()> {
    for (spoke, mut uids) in hubs {
        uids.sort();
        uids.dedup();
        if uids.len() > 1 {
            return Err(Error::usage(format!("several of the clusters have the Secret of --spoke {spoke}"))
                .hint("plan for each hub alone, with its own --spoke"));
        }
    }
    Ok(())
}

/// Prints the messages of all clusters that count, equal ones once.
fn print_messages(messages: &[(String, Vec<String>)], fleet: &Fleet, session: &mut Session) {
    let mut folded: Vec<(&str, Vec<String>)> = vec![];
    let same: Vec<&str> = fleet
        .clusters()
        .iter()
        .filter(|cluster| cluster.state == ClusterState::SameCluster)
        .map(|cluster| &*cluster.name)
        .collect();
    let messages: Vec<_> = messages.iter().filter(|(name, _)| !same.contains(&&**name)).collect();
    for (name, lines) in &messages {
        for line in lines {
            match folded.iter_mut().find(|(known, _)| known == line) {
                Some((_, names)) if names.last() == Some(name) => {}
                Some((_, names)) => names.push(name.clone()),
                None => folded.push((line, vec![name.clone()])),
            }
        }
    }
    for (line, names) in folded {
        let place = if names.len() == messages.len() { String::new() } else { format!(" ({})", fleet.place(&names)) };
        session.terminal.block(&format!("{line}{place}"));
    }
}

/// Shows the answer, and returns its exit code: the gravest of all clusters. `selecting` are the flags that select each
/// of them.
fn show_fleet(
    fleet: &Fleet,
    selecting: &BTreeMap<String, String>,
    judged: Result<()>,
    args: &PruneArgs,
    session: &mut Session,
) -> Result<ExitCode> {
    let execution = &args.execution;
    let planning = &execution.planning;
    let is_told = execution::is_told(execution, session);
    session.terminal.raw(&planning.output.render(fleet, session.terminal.look(!planning.no_headers))?)?;
    if is_told {
        session.terminal.status("");
    } else {
        show::fleet::messages(fleet).iter().for_each(|message| session.terminal.warning(message));
    }
    session.terminal.status(&show::fleet::counts(fleet));
    execution::write_reports(fleet, execution)?;
    let gaps = session.report_answer_gaps(fleet.gaps(), is_told);
    let deletes = fleet.plans().any(|(_, plan)| plan.deletions().next().is_some());
    let exit = if planning.detailed_exitcode && deletes && gaps == ExitCode::Done { ExitCode::Found } else { gaps };
    let flags = args.tree.handover_flags(session.connection.namespace.as_deref());
    let lossless = fleet.plans().find_map(|(name, plan)| {
        let of_cluster = selecting.get(name).map(String::as_str).unwrap_or_default();
        show::way_without_loss(plan, &format!("{of_cluster}{flags}"))
    });
    if fleet.alarms().is_empty() {
        lossless.into_iter().for_each(|way| session.terminal.hint(&way));
        return judged.map(|()| exit);
    }
    if let Err(error) = judged {
        session.terminal.error(&error.message);
    }
    let remedies = show::remedies(fleet.alarms().iter().map(|alarm| &alarm.part));
    let hints: Vec<String> = [remedies.to_string()].into_iter().chain(lossless).collect();
    Err(Error::refused(show::fleet::alarm_lines(fleet).join("\n       ")).hint(hints.join("\n      ")))
}
